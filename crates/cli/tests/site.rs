//! The site: `scripts/site` builds it, and every link of the landing page and of the book leads somewhere.
//! `scripts/test` has installed mdbook by then; without that the first run takes two minutes longer.

use std::process::Command;

use harness::workspace::root;

#[test]
fn every_link_leads_somewhere() {
    let site = tempfile::tempdir().expect("a directory");
    let mut script = Command::new(root().join("scripts/site"));
    script.env("SITE", site.path().join("site")).env("REPORTS", "none");
    let output = script.env("SLUICELAB", env!("CARGO_BIN_EXE_sluicelab")).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for page in ["index.html", "reports.html", "book/index.html", "book/docs/manual.html"] {
        assert!(site.path().join("site").join(page).is_file(), "no {page}");
    }
}
