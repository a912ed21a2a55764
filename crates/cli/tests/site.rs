//! The site: `scripts/site` builds it, and every link of the landing page and of the book leads somewhere.

use std::process::Command;

use harness::workspace::root;

#[test]
fn every_link_leads_somewhere() {
    let own = root().join("target/tools/bin/mdbook");
    let is_installed = Command::new("mdbook").arg("--version").output().is_ok() || own.is_file();
    if !is_installed {
        harness::skip("the links of the site: mdbook is not installed; scripts/site installs it");
        return;
    }
    let site = tempfile::tempdir().expect("a directory");
    let mut script = Command::new(root().join("scripts/site"));
    script.env("SITE", site.path().join("site")).env("REPORTS", "none");
    let output = script.env("SLUICELAB", env!("CARGO_BIN_EXE_sluicelab")).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for page in ["index.html", "reports.html", "book/index.html", "book/docs/manual.html"] {
        assert!(site.path().join("site").join(page).is_file(), "no {page}");
    }
}
