//! The page of `sluicelab papers`, in a real browser.

use std::process::Command;

use serde_json::json;

use super::{directory, seen};

#[test]
fn the_page_of_all_rows_fits_any_screen_and_asks_nobody() {
    // The directory of tests is in the source tree, where documents would be written as well.
    let elsewhere = tempfile::tempdir().expect("a directory");
    let page = directory("papers").join("papers.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicelab"));
    command.current_dir(&elsewhere).args(["papers", "report", "--out"]).arg(&page);
    assert!(command.status().expect("it runs").success());
    for (width, is_dark) in [(360, false), (360, true), (1280, false)] {
        let seen = seen(&page, width, is_dark);
        assert_eq!((&seen["width"], &seen["scroll"]), (&json!(width), &json!(width)), "{seen}");
        assert_eq!((&seen["requests"], &seen["unnamed"]), (&json!(0), &json!(0)), "{seen}");
        let number = |name: &str| seen[name].as_f64().unwrap_or_default();
        assert!(number("drawings") > 8.0 && number("letters") > 9.0, "{seen}");
        let paper = if is_dark { "rgb(22, 24, 28)" } else { "rgb(255, 255, 255)" };
        assert_eq!(seen["paper"], paper);
    }
}
