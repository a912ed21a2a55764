//! What the documents name exists: files and headings that they link to, and the files, directories and names
//! in the code that ARCHITECTURE.md and `docs/design/` have between backticks.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, iter};

use harness::workspace::{files, root};

const MOST_BYTES: usize = 20_000;

fn has_end(path: &str, end: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == end)
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The lines that are prose: those in blocks of code are left empty.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let lines = text.lines().map(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if is_fence || is_code || line.starts_with("    ") { "" } else { line }
    });
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n\n").flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2))
}

/// Where links lead.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// The anchors that a page's headings get from GitHub.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for heading in prose(text).lines().filter_map(|line| line.strip_prefix('#')) {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let free = iter::once(anchor.clone()).chain(numbered).find(|anchor| !found.contains(anchor));
        found.insert(free.expect("there are enough numbers"));
    }
    found
}

/// A link of a page without its `..`.
fn followed(page: &str, link: &str) -> Option<String> {
    let mut place: Vec<&str> = page.split('/').collect();
    place.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(place.pop()?),
            part => place.push(part),
        }
    }
    Some(place.join("/"))
}

/// Links of this page that lead nowhere.
fn broken(page: &str, text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    let prose = prose(text);
    for link in links(&prose).filter(|link| !link.contains(':')) {
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let file = if file.is_empty() { Some(page.to_owned()) } else { followed(page, file) };
        let leads = file.is_some_and(|file| {
            let has_anchor = || anchors(&read(&file)).contains(anchor);
            root().join(&file).exists() && (anchor.is_empty() || has_anchor())
        });
        if !leads {
            broken.push(format!("{page}: {link}"));
        }
    }
    broken
}

#[test]
fn the_map_is_short() {
    let bytes = read("ARCHITECTURE.md").len();
    assert!(bytes <= MOST_BYTES, "ARCHITECTURE.md has {bytes} bytes, more than {MOST_BYTES}");
}

#[test]
fn links_lead_somewhere() {
    let files = files(&[]);
    let is_page = |path: &&String| has_end(path, "md") && !path.starts_with("fuzz/seeds/");
    let broken: Vec<String> =
        files.iter().filter(is_page).flat_map(|page| broken(page, &read(page))).collect();
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn named_places_exist() {
    let files = files(&[]);
    let code = code(&files);
    let is_map = |path: &&String| {
        *path == "ARCHITECTURE.md" || path.starts_with("docs/design/") && has_end(path, "md")
    };
    let mut missing = Vec::new();
    let mut count = 0;
    for page in files.iter().filter(is_map) {
        let text = prose(&read(page));
        for name in quoted(&text) {
            let exists = match kind(name) {
                Kind::Path => is_place(&files, name),
                Kind::Item => is_item(&code, name),
                Kind::Other => continue,
            };
            count += 1;
            if !exists {
                missing.push(format!("{page}: {name}"));
            }
        }
    }
    assert!(count > 100, "only {count} places are named");
    assert!(missing.is_empty(), "named, but not there:\n{}", missing.join("\n"));
}

#[derive(PartialEq, Debug)]
enum Kind {
    Path,
    Item,
    Other,
}

/// What kind of name this is: a file or directory of ours, or a path of Rust.
fn kind(name: &str) -> Kind {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let ends = [".rs", ".md", ".toml"];
    if name.contains("::") && name.split("::").all(|word| word.chars().all(is_word)) {
        Kind::Item
    } else if !name.starts_with('/')
        && name.chars().all(|c| is_word(c) || c == '/')
        && (name.contains('/') || ends.iter().any(|end| name.ends_with(end)))
    {
        Kind::Path
    } else {
        Kind::Other
    }
}

/// Whether a file or directory has this name, from the root or from somewhere below it.
fn is_place(files: &[String], name: &str) -> bool {
    let name = format!("/{name}");
    let is_directory = name.ends_with('/');
    files.iter().any(|file| {
        let file = format!("/{file}");
        let inside = if is_directory { file.contains(&name) } else { file.contains(&format!("{name}/")) };
        file.ends_with(&name) || inside
    })
}

/// A file of a crate's sources.
struct Source {
    /// The crate, and the modules down to the file's own.
    modules: Vec<String>,
    text: String,
}

impl Source {
    fn new(file: &str, text: String) -> Option<Self> {
        let (name, path) = file.strip_prefix("crates/")?.split_once("/src/")?;
        let path = path.strip_suffix(".rs")?;
        let is_named = |word: &&str| !["lib", "main", "mod"].contains(word);
        let modules = iter::once(name).chain(path.split('/').filter(is_named));
        Some(Self { modules: modules.map(str::to_owned).collect(), text })
    }

    /// Whether an item of this name begins on a line here.
    fn declares(&self, kinds: &[&str], name: &str) -> bool {
        self.text.lines().any(|line| {
            let line: Vec<&str> = words(line).collect();
            line.windows(2).any(|pair| kinds.contains(&pair[0]) && pair[1] == name)
        })
    }

    /// Whether a `pub use` hands on an item of this name.
    fn hands_on(&self, name: &str) -> bool {
        let mut uses = self.text.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next());
        uses.any(|used| words(used).any(|word| word == name))
    }

    /// Whether the enum that is declared here has this variant.
    fn has_variant(&self, name: &str, variant: &str) -> bool {
        let body = self.text.split(&format!("enum {name} {{\n")).nth(1);
        let body = body.and_then(|rest| rest.split("\n}").next());
        body.is_some_and(|body| body.lines().any(|line| words(line).next() == Some(variant)))
    }

    fn implements(&self, name: &str) -> bool {
        let mut heads = self.text.lines().filter(|line| line.trim_start().starts_with("impl"));
        heads.any(|line| words(line).any(|word| word == name))
    }
}

const TYPES: [&str; 4] = ["struct", "enum", "trait", "type"];
const ITEMS: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "static", "mod"];

/// The words of a line of code, without its comment.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split("//").next().unwrap_or_default();
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

fn code(files: &[String]) -> Vec<Source> {
    let sources = files.iter().filter(|file| has_end(file, "rs") && file.contains("/src/"));
    sources.filter_map(|file| Source::new(file, read(file))).collect()
}

/// Whether there is what this path names: each part but the first is in the part before it.
fn is_item(code: &[Source], name: &str) -> bool {
    let parts: Vec<&str> = name.split("::").collect();
    parts.windows(2).all(|pair| is_in(code, pair[0], pair[1]))
}

/// Whether a crate, a module or a type of that name has such a module, item, method or variant.
fn is_in(code: &[Source], outer: &str, name: &str) -> bool {
    let is_in_module = |source: &Source| {
        let place = source.modules.iter().position(|module| module == outer);
        place.is_some_and(|place| {
            // An item of a crate is in its root; a module may hand on what its parts have.
            let is_near = place > 0 || source.modules.len() == 1;
            source.modules.get(place + 1).is_some_and(|module| module == name)
                || is_near && (source.declares(&ITEMS, name) || source.hands_on(name))
        })
    };
    let is_of_type = |source: &Source| {
        let is_declared = source.declares(&TYPES, outer);
        source.has_variant(outer, name)
            || (is_declared || source.implements(outer)) && source.declares(&["fn", "const"], name)
    };
    code.iter().any(|source| is_in_module(source) || is_of_type(source))
}

#[test]
fn what_is_missing_is_seen() {
    let files = ["a/src/b/c.rs".to_owned(), "d.md".to_owned()];
    for there in ["c.rs", "b/c.rs", "src/b/", "a/src", "d.md"] {
        assert!(is_place(&files, there), "{there}");
    }
    for not_there in ["e.rs", "a/b", "/c", "rc/b/"] {
        assert!(!is_place(&files, not_there), "{not_there}");
    }
    assert_eq!(
        ["a/b", "c.rs", "a::b", "/proc/self", "a b/c", "c"].map(kind),
        [Kind::Path, Kind::Path, Kind::Item, Kind::Other, Kind::Other, Kind::Other]
    );
    let source = |file: &str, text: &str| Source::new(file, text.to_owned()).expect("a source");
    let code = [
        source("crates/a/src/lib.rs", "pub use b::handed;\nfn root() {}\n"),
        source("crates/a/src/b/mod.rs", "enum E {\n    V(u8),\n}\n// fn no() {}\n"),
        source("crates/a/src/b/c.rs", "impl E {\n    fn m() {}\n}\nfn deep() {}\n"),
    ];
    for there in ["a::b", "a::root", "a::handed", "a::b::c", "b::E", "E::V", "E::m", "c::deep", "b::deep"] {
        assert!(is_item(&code, there), "{there}");
    }
    for not_there in ["a::c", "a::deep", "b::V", "b::no", "E::root", "c::E", "V::E", "d::b", "a::b::root"] {
        assert!(!is_item(&code, not_there), "{not_there}");
    }
    let text =
        "[there](README.md), [not](docs/no.md), [nor this](#no-heading), [a page](https://example.org/)";
    assert_eq!(broken("x.md", &format!("# Heading\n{text}\n\n    [code](no.md)\n")).len(), 2);
    let expected = ["a-heading", "a-heading-1", "code-rs-and-more"].map(str::to_owned);
    assert_eq!(anchors("# A heading\n## A `heading`\n# Code-rs: and more\n"), expected.into());
}
