//! The operator's header fields, by path and by media type.
//!
//! They are part of a file's header lines in the open-file table, so a pattern is matched when a file is
//! opened and not for each request. They go with all other replies as well (errors, redirects, listings,
//! OPTIONS), where browsers want some of them; but for what says how long a reply may be kept: a
//! Cache-Control that is right for a file would keep its absence in caches just as long.

use std::time::Duration;

use hashbrown::HashSet;
use http1::date::format_http_date;

use super::patterns::Patterns;
use super::types::essence;
use crate::config::HeaderRule;

/// All rules, in their order.
#[derive(Debug)]
pub(super) struct Rules {
    paths: Patterns,
    media_types: Patterns,
    /// The fields of each.
    fields: Vec<Vec<(String, Value)>>,
}

#[derive(Debug)]
enum Value {
    Text(String),
    /// The date so long after the reply.
    DateAfter(Duration),
}

impl Rules {
    pub(super) fn new(rules: &[HeaderRule]) -> Self {
        Self {
            paths: Patterns::new(rules.iter().map(|rule| (rule.path.as_ref(), rule.ignore_case))),
            media_types: Patterns::new(rules.iter().map(|rule| (rule.media_type.as_ref(), false))),
            fields: rules.iter().map(fields).collect(),
        }
    }

    /// Appends the lines for a file. Says whether one of them grows old, as a date does.
    pub(super) fn write_lines(
        &self,
        path: &[u8],
        media_type: &str,
        unix_secs: u64,
        lines: &mut Vec<u8>,
    ) -> bool {
        let mut grows_old = false;
        for (name, value) in self.chosen(Some(path), Some(media_type), |_| true) {
            match value {
                Value::Text(text) => write_line(name, text.as_bytes(), lines),
                Value::DateAfter(time) => {
                    write_line(name, &format_http_date(unix_secs.saturating_add(time.as_secs())), lines);
                    grows_old = true;
                }
            }
        }
        grows_old
    }

    /// Appends the lines for a reply that is no file: what was asked for, unless nobody could tell, and the
    /// type of what is sent, if anything is.
    pub(super) fn write_lines_of_no_file(
        &self,
        path: Option<&[u8]>,
        media_type: Option<&str>,
        lines: &mut Vec<u8>,
    ) {
        for (name, value) in self.chosen(path, media_type, |field| !is_for_keeping(field)) {
            if let Value::Text(text) = value {
                write_line(name, text.as_bytes(), lines);
            }
        }
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The `wanted` fields of the rules that apply, the last one of each name.
    fn chosen(
        &self,
        path: Option<&[u8]>,
        media_type: Option<&str>,
        wanted: impl Fn(&(String, Value)) -> bool,
    ) -> Vec<&(String, Value)> {
        if self.is_empty() {
            return Vec::new();
        }
        let essence = media_type.map(essence);
        // Of a path that takes too long to match: those that were found by then.
        let by_path = self.paths.of_path(path.unwrap_or_default()).numbers;
        let by_type = self.media_types.of_media_type(essence.as_deref().map(str::as_bytes)).numbers;
        let both = by_path.iter().filter(|number| by_type.binary_search(number).is_ok());
        let fields = both.flat_map(|number| &self.fields[*number]).filter(|field| wanted(field));
        let mut names = HashSet::new();
        let mut chosen: Vec<_> =
            fields.rev().filter(|(name, _)| names.insert(name.to_ascii_lowercase())).collect();
        chosen.reverse();
        chosen
    }
}

fn write_line(name: &str, value: &[u8], lines: &mut Vec<u8>) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        lines.extend_from_slice(part);
    }
}

/// Whether a field lets caches keep what it comes with: Expires, and a Cache-Control (RFC 9111, or one of RFC
/// 9213 for some caches) that does not forbid it.
fn is_for_keeping((name, value): &(String, Value)) -> bool {
    let name = name.to_ascii_lowercase();
    match value {
        Value::DateAfter(_) => true,
        Value::Text(text) if name.ends_with("cache-control") => {
            let forbids = |directive: &str| {
                ["no-store", "no-cache"].iter().any(|word| directive.trim().eq_ignore_ascii_case(word))
            };
            !text.split(',').any(forbids)
        }
        Value::Text(_) => name == "expires",
    }
}

/// The fields of a rule.
fn fields(rule: &HeaderRule) -> Vec<(String, Value)> {
    let text = |(name, value): &(String, String)| (name.clone(), Value::Text(value.clone()));
    let mut fields: Vec<_> = rule.set.iter().map(text).collect();
    if let Some(time) = rule.expires {
        // Expires says the same to HTTP/1.0 caches (RFC 9111 section 5.3).
        let max_age = format!("max-age={}", time.as_secs());
        fields.push(("Cache-Control".to_owned(), Value::Text(max_age)));
        fields.push(("Expires".to_owned(), Value::DateAfter(time)));
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Pattern;

    fn rule(
        path: Option<&str>,
        media_type: Option<&str>,
        set: &[(&str, &str)],
        expires: Option<u64>,
    ) -> HeaderRule {
        HeaderRule {
            path: path.map(|path| Pattern::of_path(path).unwrap()),
            ignore_case: false,
            media_type: media_type.map(|media_type| Pattern::of_media_type(media_type).unwrap()),
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

    #[test]
    fn what_is_no_file_is_not_kept_for_it() {
        let rules = [
            rule(None, None, &[("X-All", "1"), ("Cache-Control", "private, No-Store")], None),
            rule(Some("/a/**"), None, &[("X-A", "1"), ("CDN-Cache-Control", "max-age=60")], Some(60)),
            rule(None, Some("text/html"), &[("X-Html", "1"), ("expires", "0")], None),
        ];
        let rules = Rules::new(&rules);
        let of = |path: Option<&str>, media_type| {
            let mut lines = Vec::new();
            rules.write_lines_of_no_file(path.map(str::as_bytes), media_type, &mut lines);
            String::from_utf8(lines).unwrap()
        };
        let all = "X-All: 1\r\nCache-Control: private, No-Store\r\n";
        assert_eq!(of(None, None), all);
        assert_eq!(of(Some("/b"), None), all);
        assert_eq!(of(Some("/a/b"), None), format!("{all}X-A: 1\r\n"));
        assert_eq!(
            of(Some("/a/b"), Some("text/html; charset=utf-8")),
            format!("{all}X-A: 1\r\nX-Html: 1\r\n")
        );
        assert_eq!(of(None, Some("text/css")), all);
    }
}
