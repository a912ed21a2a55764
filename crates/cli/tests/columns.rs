//! Lines have at most 110 columns, as `CONTRIBUTING.md` says. That holds for every line of the sources. In
//! prose it does not hold for tables, headings and indented blocks.

use std::{fs, path::Path};

use harness::workspace;

const COLUMNS: usize = 110;

#[test]
fn lines_end_in_time() {
    let mut files = 0;
    let mut long = Vec::new();
    for path in workspace::files(&["*.rs", "*.md"]) {
        let text = fs::read_to_string(workspace::root().join(&path)).expect("a source file is text");
        files += 1;
        long.extend(long_lines(&path, &text).into_iter().map(|line| format!("{path}:{line}")));
    }
    assert!(files > 100, "only {files} files were found");
    assert!(long.is_empty(), "more than {COLUMNS} columns:\n{}", long.join("\n"));
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
