//! The pictures of docs/pictures are what `scripts/pictures` makes of the drawings and the journals that are
//! kept. Only the recording of the demo is of a run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use harness::workspace::root;

/// The files of a directory, by name.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let all = fs::read_dir(directory).expect("a directory").flatten();
    let file = |of: fs::DirEntry| {
        (of.file_name().into_string().expect("a name"), fs::read_to_string(of.path()).expect("a picture"))
    };
    all.map(file).collect()
}

#[test]
fn they_are_what_the_script_makes() {
    let made = tempfile::tempdir().expect("a directory");
    let mut script = Command::new(root().join("scripts/pictures"));
    script.env("PICTURES", made.path()).env("SLUICELAB", env!("CARGO_BIN_EXE_sluicelab"));
    let output = script.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (made, mut kept) = (files(made.path()), files(&root().join("docs/pictures")));
    let recording = kept.remove("live-switch.svg").expect("a recording");
    assert!(recording.contains("0 failed") && recording.contains("prefers-reduced-motion"), "{recording}");
    assert_eq!(made.keys().collect::<Vec<_>>(), kept.keys().collect::<Vec<_>>());
    for (name, picture) in &made {
        assert_eq!(picture, &kept[name], "{name}: run scripts/pictures");
        assert!(picture.contains("<title>") && picture.contains("prefers-color-scheme: dark"), "{name}");
    }
}
