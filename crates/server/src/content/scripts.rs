//! Which files are scripts: an application runs a script, and no client is ever sent one.
//!
//! A name is a script's if it has the ending, byte for byte. A name that differs only in upper or lower
//! case, or in dots and blanks at its end, is neither a script nor a file. A file system that ignores
//! these differences would give the source.

use std::sync::Arc;

use crate::config::FileSettings;

/// The endings of scripts' names, such as `.php`.
#[derive(Debug)]
pub(super) struct Scripts(Arc<[String]>);

/// What a name is, if not that of a file to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Script,
    /// A script's name except for upper and lower case, or for dots and blanks at its end.
    Lookalike,
}

impl Scripts {
    pub(super) fn new(settings: &FileSettings) -> Self {
        if !settings.scripts.is_empty() {
            return Self(Arc::clone(&settings.scripts));
        }
        let routes: Vec<_> = settings.all_routes().collect();
        Self(routes.iter().filter_map(|rule| rule.script_ending()).map(str::to_owned).collect())
    }

    /// Whether there are no endings.
    pub(super) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// What a path names. `None`: a file to send, or a directory.
    pub(super) fn judge(&self, path: &[u8]) -> Option<Verdict> {
        let has = |ending: &[u8]| path.len() > ending.len() && path.ends_with(ending);
        if self.0.iter().any(|ending| has(ending.as_bytes())) {
            return Some(Verdict::Script);
        }
        let looks_like = |ending: &[u8]| {
            let last = path.iter().rposition(|byte| !b". ".contains(byte));
            let name = &path[..last.map_or(0, |last| last + 1)];
            let end = name.len().checked_sub(ending.len()).map(|at| &name[at..]);
            end.is_some_and(|end| end.eq_ignore_ascii_case(ending))
        };
        self.0.iter().any(|ending| looks_like(ending.as_bytes())).then_some(Verdict::Lookalike)
    }
}

/// Where in a path the script's name ends: after the first segment with the ending.
pub(super) fn script_length(path: &[u8], ending: &[u8]) -> Option<usize> {
    let mut end = 0;
    for segment in path.split(|byte| *byte == b'/') {
        end += segment.len();
        if segment.len() > ending.len() && segment.ends_with(ending) {
            return Some(end);
        }
        end += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_told_by_its_ending_and_never_by_its_likeness() {
        let scripts = Scripts([".php".to_owned()].into());
        assert_eq!(scripts.judge(b"/a/b.php"), Some(Verdict::Script));
        for path in [&b"/a.PHP"[..], b"/a.Php", b"/.pHp", b"/a.php.", b"/a.php. .", b"/a.PHP "] {
            assert_eq!(scripts.judge(path), Some(Verdict::Lookalike), "{path:?}");
        }
        for path in [&b"/a.php5"[..], b"/a.phps", b"/php", b"/a.php/", b"/", b"", b"/a.ph\xc4\xb1"] {
            assert_eq!(scripts.judge(path), None, "{path:?}");
        }
        assert_eq!(Scripts(Arc::default()).judge(b"/a.php"), None);
    }

    #[test]
    fn a_path_is_split_behind_the_first_script() {
        fn split(path: &str) -> Option<(&str, &str)> {
            script_length(path.as_bytes(), b".php").map(|at| path.split_at(at))
        }
        assert_eq!(split("/a.php"), Some(("/a.php", "")));
        assert_eq!(split("/d/a.php/b.php/c"), Some(("/d/a.php", "/b.php/c")));
        assert_eq!(split("/a.php/"), Some(("/a.php", "/")));
        assert_eq!(split("/.php"), None);
        assert_eq!(split("/a.phpx/b.PHP/php"), None);
        assert_eq!(split("/"), None);
    }
}
