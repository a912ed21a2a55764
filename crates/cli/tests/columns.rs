//! Lines have up to 110 columns, as `CONTRIBUTING.md` says: sources all of them, prose but for its tables,
//! headings and indented blocks.

use std::{fs, path::Path, process::Command};

const COLUMNS: usize = 110;

#[test]
fn lines_end_in_time() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = 0;
    let mut long = Vec::new();
    for path in files_of(&root) {
        let text = fs::read_to_string(root.join(&path)).expect("a source file is text");
        files += 1;
        long.extend(long_lines(&path, &text).into_iter().map(|line| format!("{path}:{line}")));
    }
    assert!(files > 100, "only {files} files were found");
    assert!(long.is_empty(), "more than {COLUMNS} columns:\n{}", long.join("\n"));
}

/// What git has on record, or would take.
fn files_of(root: &Path) -> Vec<String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.md"]).current_dir(root);
    let output = git.output().expect("git can be run");
    assert!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).expect("names are text");
    listed.lines().filter(|path| root.join(path).exists()).map(str::to_owned).collect()
}

/// The numbers of lines that are too long.
fn long_lines(path: &str, text: &str) -> Vec<usize> {
    let is_prose = Path::new(path).extension().is_some_and(|extension| extension == "md");
    let may_be_long = |line: &str| is_prose && ["|", "#", "    "].iter().any(|mark| line.starts_with(mark));
    let numbered = text.lines().enumerate();
    let long = numbered.filter(|(_, line)| line.chars().count() > COLUMNS && !may_be_long(line));
    long.map(|(at, _)| at + 1).collect()
}

#[test]
fn a_long_line_is_found() {
    let [fits, long] = [COLUMNS, COLUMNS + 1].map(|columns| "ä".repeat(columns));
    assert_eq!(long_lines("a.rs", &format!("{fits}\n{long}\n    {long}\n")), [2, 3]);
    assert_eq!(long_lines("a.md", &format!("{long}\n    {long}\n| {long} |\n# {long}\n")), [1]);
}
