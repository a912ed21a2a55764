//! `sluicelab papers`, where there is no source tree.

use std::path::Path;
use std::process::{Command, Output};

/// What the program says in that directory.
fn papers(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicelab"));
    command.current_dir(directory).arg("papers").args(words);
    command.output().expect("it runs")
}

fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat()
}

#[test]
fn all_rows_are_listed_with_their_verdicts() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = papers(directory.path(), &[]);
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    let (rows, below) = said.split_once("\n\n").expect("counts");
    assert_eq!(rows.lines().count(), 52, "{said}");
    assert!(below.starts_with("52 rows:\n"), "{below}");
    assert!(!said.contains('\x1b'), "colours are for terminals: {said}");
    assert!(rows.contains("(for a server that tunes itself)"), "{said}");
}

#[test]
fn a_row_is_shown_with_the_command_that_repeats_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let shown = |id: &str| said(&papers(directory.path(), &["show", id]));
    let row = shown("y10-5.2");
    for expected in ["Y10-5.2  Yeung 2010, figure 5.2", "sluicelab papers run Y10-5.2", "[-", "Measured"] {
        assert!(row.contains(expected), "{expected} is not in {row}");
    }
    assert!(shown("Y10-5.6").contains("Instead     a simulated cache"), "{}", shown("Y10-5.6"));
    assert!(shown("P07-future").contains("waits for a server that tunes itself"), "{}", shown("P07-future"));
}

#[test]
fn a_row_that_cannot_be_measured_is_refused_and_nothing_is_left() {
    let directory = tempfile::tempdir().expect("a directory");
    for (words, why) in [
        (&["show", "B04-88"][..], "no row of the papers is called \"B04-88\" (is it B04-8?)"),
        (&["run", "P07-future"], "cannot be measured yet: it waits for a server that tunes itself"),
        (&["run", "Y10-5.6", "--quick"], "Y10-5.6 can't be measured here: "),
        (&["run"], "required arguments were not provided"),
        (&["run", "B04-8", "--all"], "cannot be used with"),
        (&["run", "B04-8", "--quick", "--resume"], "cannot be used with"),
    ] {
        let output = papers(directory.path(), words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(why), "{words:?}: {}", said(&output));
    }
    let left = directory.path().read_dir().expect("a directory").count();
    assert_eq!(left, 0);
}

#[test]
fn the_page_is_written_where_it_is_asked_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = papers(directory.path(), &["report"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).starts_with("Of 52 findings "), "{}", said(&output));
    let page = std::fs::read_to_string(directory.path().join("papers.html")).expect("a page");
    assert!(page.ends_with("</html>") && page.contains("id=\"S14-future\""), "{page}");
}
