//! Checks JSON against its schema with another program: Python's jsonschema (Debian package
//! python3-jsonschema).

use std::path::Path;
use std::process::Command;

/// In this check, schemas must name all members, so that every member that is written is documented. The
/// schema files themselves do not require this, because other programs must expect additional members.
const SCRIPT: &str = r#"
import json, sys
from jsonschema import Draft202012Validator, RefResolver
from jsonschema.exceptions import best_match

def strict(schema):
    if isinstance(schema, dict):
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
        schema = {name: strict(inner) for name, inner in schema.items()}
    elif isinstance(schema, list):
        schema = [strict(inner) for inner in schema]
    return schema

directory, name, document = sys.argv[1:]
path = lambda name: f"{directory}/{name}.schema.json"
uri = lambda name: "file://" + path(name)
store = {uri(name): strict(json.load(open(path(name)))) for name in ("journal", "results")}
for schema in store.values():
    Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(store[uri(name)], resolver=RefResolver(uri(name), store[uri(name)], store))
documents = map(json.loads, open(document)) if name == "journal" else [json.load(open(document))]
for document in documents:
    error = best_match(validator.iter_errors(document))
    if error:
        sys.exit(f"{error.json_path}: {error.message[:2000]}")
"#;

/// Debian's own Python, which its packages are for.
const PYTHON: &str = "/usr/bin/python3";

/// Whether Debian's Python has these modules. If not, this is listed as skipped.
pub fn has_python(modules: &str, for_what: &str) -> bool {
    let has = Command::new(PYTHON).args(["-c", &format!("import {modules}")]).output();
    let has = has.is_ok_and(|output| output.status.success());
    if !has {
        crate::skip(format!("{for_what}: {PYTHON} lacks one of {modules}"));
    }
    has
}

/// Runs a Python script in a directory. On failure, returns what it printed.
pub fn run_python(script: &str, arguments: &[&str], directory: &Path) -> Result<(), String> {
    let mut python = Command::new(PYTHON);
    python.args(["-c", script]).args(arguments).current_dir(directory);
    let output = python.output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Panics if a file does not match `docs/schemas/NAME.schema.json`, including all members that it has.
#[track_caller]
pub fn check(name: &str, document: &Path) {
    if !has_python("jsonschema", "files against their schemas") {
        return;
    }
    let schemas = crate::workspace::root().join("docs/schemas");
    let [schemas, document] = [&schemas, document].map(|path| path.to_str().expect("UTF-8"));
    let checked = run_python(SCRIPT, &[schemas, name, document], Path::new("/"));
    assert_eq!(checked, Ok(()), "{document} and {name}.schema.json");
}
