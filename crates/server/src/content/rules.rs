//! The operator's header fields, by path and by media type.
//!
//! They are part of a file's header lines in the open-file table, so a pattern is matched when a file is opened and
//! not for each request. They go with representations (200, 206, 304) and not with errors: a Cache-Control that is
//! right for a file would keep its absence in caches just as long.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use globset::{Glob, GlobMatcher};
use http1::date::format_http_date;

use super::types::essence;
use crate::config::HeaderRule;

/// All rules, in their order.
#[derive(Debug)]
pub(super) struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    path: Option<GlobMatcher>,
    media_type: Option<GlobMatcher>,
    fields: Vec<(String, Value)>,
}

#[derive(Debug)]
enum Value {
    Text(String),
    /// The date so long after the reply.
    DateAfter(Duration),
}

impl Rules {
    pub(super) fn new(rules: &[HeaderRule]) -> Self {
        Self(rules.iter().map(Rule::new).collect())
    }

    /// Appends the lines for a file. Says whether one of them grows old, as a date does.
    pub(super) fn write_lines(
        &self,
        path: &[u8],
        media_type: &str,
        unix_secs: u64,
        lines: &mut Vec<u8>,
    ) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let essence = essence(media_type);
        let mut chosen: Vec<&(String, Value)> = Vec::new();
        for rule in self.0.iter().filter(|rule| rule.applies(path, &essence)) {
            for field in &rule.fields {
                chosen.retain(|(name, _)| !name.eq_ignore_ascii_case(&field.0));
                chosen.push(field);
            }
        }
        let mut grows_old = false;
        for (name, value) in chosen {
            lines.extend_from_slice(name.as_bytes());
            lines.extend_from_slice(b": ");
            match value {
                Value::Text(text) => lines.extend_from_slice(text.as_bytes()),
                Value::DateAfter(time) => {
                    lines.extend_from_slice(&format_http_date(unix_secs.saturating_add(time.as_secs())));
                    grows_old = true;
                }
            }
            lines.extend_from_slice(b"\r\n");
        }
        grows_old
    }
}

impl Rule {
    fn new(rule: &HeaderRule) -> Self {
        let mut fields: Vec<_> =
            rule.set.iter().map(|(name, value)| (name.clone(), Value::Text(value.clone()))).collect();
        if let Some(time) = rule.expires {
            // Expires says the same to HTTP/1.0 caches (RFC 9111 section 5.3).
            let max_age = format!("max-age={}", time.as_secs());
            fields.push(("Cache-Control".to_owned(), Value::Text(max_age)));
            fields.push(("Expires".to_owned(), Value::DateAfter(time)));
        }
        let matcher = |glob: &Option<Glob>| glob.as_ref().map(Glob::compile_matcher);
        Self { path: matcher(&rule.path), media_type: matcher(&rule.media_type), fields }
    }

    fn applies(&self, path: &[u8], essence: &str) -> bool {
        let matches = |pattern: &Option<GlobMatcher>, text: &[u8]| {
            pattern.as_ref().is_none_or(|pattern| pattern.is_match(OsStr::from_bytes(text)))
        };
        matches(&self.path, path) && matches(&self.media_type, essence.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use globset::GlobBuilder;

    use super::*;

    fn rule(
        path: Option<&str>,
        media_type: Option<&str>,
        set: &[(&str, &str)],
        expires: Option<u64>,
    ) -> HeaderRule {
        let glob = |pattern: &str| GlobBuilder::new(pattern).literal_separator(true).build().unwrap();
        HeaderRule {
            path: path.map(glob),
            media_type: media_type.map(glob),
            set: set.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
            expires: expires.map(Duration::from_secs),
        }
    }

    fn lines(rules: &[HeaderRule], path: &str, media_type: &str) -> (String, bool) {
        let mut lines = Vec::new();
        let grows_old = Rules::new(rules).write_lines(path.as_bytes(), media_type, 784_111_717, &mut lines);
        (String::from_utf8(lines).unwrap(), grows_old)
    }

    #[test]
    fn rules_match_by_path_and_by_type() {
        let rules = [
            rule(None, None, &[("X-All", "1")], None),
            rule(Some("/assets/**"), None, &[("X-Assets", "1")], None),
            rule(None, Some("image/*"), &[("X-Image", "1")], None),
            rule(Some("**/*.css"), Some("text/css"), &[("X-Both", "1")], None),
        ];
        let of = |path, media_type| lines(&rules, path, media_type).0;
        assert_eq!(of("/a.html", "text/html; charset=utf-8"), "X-All: 1\r\n");
        assert_eq!(of("/assets/x/a.png", "image/png"), "X-All: 1\r\nX-Assets: 1\r\nX-Image: 1\r\n");
        assert_eq!(of("/a/b.css", "text/css; charset=utf-8"), "X-All: 1\r\nX-Both: 1\r\n");
        assert_eq!(lines(&[], "/", "text/html"), (String::new(), false));
    }

    #[test]
    fn the_last_rule_wins_a_field() {
        let rules = [
            rule(None, None, &[("Cache-Control", "no-store"), ("X-A", "1")], None),
            rule(None, None, &[], Some(60)),
            rule(Some("/b"), None, &[("cache-control", "no-cache")], None),
        ];
        let expires = "Expires: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        let (text, grows_old) = lines(&rules, "/a", "x/y");
        assert_eq!(text, format!("X-A: 1\r\nCache-Control: max-age=60\r\n{expires}"));
        assert!(grows_old);
        assert_eq!(lines(&rules, "/b", "x/y").0, format!("X-A: 1\r\n{expires}cache-control: no-cache\r\n"));
    }
}
