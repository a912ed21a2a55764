//! Reports what tests leave out because the machine lacks something.
//!
//! Such a test passes, and its standard error is not shown. So `scripts/test` sets `SLUICE_SKIPPED` to a
//! file, and prints at the end what tests have written there.

use std::env;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write as _;

/// Reports that a test leaves something out, as `NAME OF THE THING: REASON`.
///
/// Tests of many variants should report the same text, without what differs between variants.
pub fn skip(what: impl AsRef<str>) {
    skip_into(env::var_os("SLUICE_SKIPPED").as_deref(), what.as_ref());
}

fn skip_into(file: Option<&OsStr>, what: &str) {
    let line = format!("{}\n", what.trim().replace('\n', " "));
    eprint!("skipped: {line}");
    if let Some(path) = file {
        // Many processes append at the same time. Text appended in one write stays in one piece.
        let mut list =
            OpenOptions::new().append(true).create(true).open(path).expect("a list of what is skipped");
        list.write_all(line.as_bytes()).expect("the list has room");
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use super::*;

    #[test]
    fn each_is_a_line_of_the_list_and_many_may_say_it_together() {
        let directory = tempfile::tempdir().unwrap();
        let list = directory.path().join("skipped");
        fs::write(&list, "cargo deny: not installed\n").unwrap();
        thread::scope(|scope| {
            for number in 0..8 {
                let list = list.as_os_str();
                scope.spawn(move || {
                    for _ in 0..100 {
                        skip_into(Some(list), &format!("thing {number}: {}\n", "why ".repeat(100)));
                    }
                });
            }
        });
        let text = fs::read_to_string(&list).unwrap();
        assert!(text.starts_with("cargo deny: not installed\nthing "), "what was there is kept");
        let is_whole =
            |line: &str| line.split_once(": ").is_some_and(|(_, why)| why == "why ".repeat(100).trim());
        assert_eq!(text.lines().skip(1).filter(|line| is_whole(line)).count(), 800);
        assert_eq!(text.lines().count(), 801);
    }

    #[test]
    fn a_reason_of_several_lines_is_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let list = directory.path().join("skipped");
        skip_into(Some(list.as_os_str()), "a namespace: unshare failed\nnot permitted\n");
        assert_eq!(fs::read_to_string(list).unwrap(), "a namespace: unshare failed not permitted\n");
        skip_into(None, "without a list: it is said on standard error alone");
    }
}
