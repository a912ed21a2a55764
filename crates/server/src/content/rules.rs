//! The operator's header fields, by path and by media type.
//!
//! They are part of a file's header lines in the open-file table. So a pattern is matched when a file is
//! opened, not at each request. They also go with all other replies (errors, redirects, listings,
//! OPTIONS), as browsers want some of them there. The exception is how long a reply may be cached: a
//! Cache-Control that is right for a file would keep its absence in caches just as long. Retry-After goes
//! only with replies after which a client may ask again.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;
use http1::Status;
use http1::date::format_http_date;

use super::patterns::Patterns;
use super::types::essence;
use crate::config::{HeaderRule, SiteSettings};

/// The rules of a site.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// Rules for all sites, which come first.
    common: Arc<List>,
    own: List,
}

/// Rules in their order.
#[derive(Debug, Default)]
struct List {
    paths: Patterns,
    media_types: Patterns,
    /// The fields of each rule.
    fields: Vec<Vec<(String, Value)>>,
}

#[derive(Debug)]
enum Value {
    Text(String),
    /// The date of the reply plus this time.
    DateAfter(Duration),
}

impl Rules {
    /// The rules of each site.
    pub(super) fn of_sites(sites: &[SiteSettings]) -> impl Iterator<Item = Self> {
        let mut known: (Arc<[HeaderRule]>, Arc<List>) = Default::default();
        sites.iter().map(move |site| {
            let common = &site.files.common_headers;
            if !Arc::ptr_eq(common, &known.0) {
                known = (Arc::clone(common), Arc::new(List::new(common)));
            }
            Self { common: Arc::clone(&known.1), own: List::new(&site.files.headers) }
        })
    }

    /// Appends the lines for a file. Returns whether one of them expires, as a date does.
    pub(super) fn write_lines(
        &self,
        path: &[u8],
        media_type: &str,
        unix_secs: u64,
        lines: &mut Vec<u8>,
    ) -> bool {
        let mut grows_old = false;
        for (name, value) in self.chosen(Some(path), Some(media_type), |(name, _)| !is_retry_after(name)) {
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

    /// Appends the lines for a reply that is not a file. `path` is the requested path, if it is known.
    /// `media_type` is that of the body, if there is one. Returns whether one of the lines is
    /// Retry-After.
    pub(super) fn write_lines_of_no_file(
        &self,
        status: Status,
        path: Option<&[u8]>,
        media_type: Option<&str>,
        lines: &mut Vec<u8>,
    ) -> bool {
        let may_be_asked_again = matches!(status.0, 300..=399 | 413 | 429 | 503);
        let is_wanted = |field: &(String, Value)| {
            !is_for_keeping(field) && (may_be_asked_again || !is_retry_after(&field.0))
        };
        let mut tells_when = false;
        for (name, value) in self.chosen(path, media_type, is_wanted) {
            if let Value::Text(text) = value {
                write_line(name, text.as_bytes(), lines);
                tells_when |= is_retry_after(name);
            }
        }
        tells_when
    }

    /// Whether there are no rules.
    pub(super) fn is_empty(&self) -> bool {
        self.common.fields.is_empty() && self.own.fields.is_empty()
    }

    /// The `wanted` fields of the rules that apply, the last one of each name. A later rule's
    /// Cache-Control replaces everything that an earlier `expires` made, including Expires.
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
        let essence = essence.as_deref().map(str::as_bytes);
        let mut fields = self.common.of(path, essence);
        fields.extend(self.own.of(path, essence));
        let mut names = HashSet::new();
        let mut is_last = |(name, value): &(String, Value)| {
            // The Cache-Control of the same rule comes before Expires.
            let is_outdated = matches!(value, Value::DateAfter(_)) && names.contains("cache-control");
            !is_outdated && names.insert(name.to_ascii_lowercase())
        };
        let mut chosen: Vec<_> =
            fields.into_iter().rev().filter(|field| wanted(field) && is_last(field)).collect();
        chosen.reverse();
        chosen
    }
}

impl List {
    fn new(rules: &[HeaderRule]) -> Self {
        Self {
            paths: Patterns::new(rules.iter().map(|rule| (rule.path.as_ref(), rule.ignore_case))),
            media_types: Patterns::new(rules.iter().map(|rule| (rule.media_type.as_ref(), false))),
            fields: rules.iter().map(fields).collect(),
        }
    }

    /// The fields of the rules that apply.
    fn of(&self, path: Option<&[u8]>, essence: Option<&[u8]>) -> Vec<&(String, Value)> {
        if self.fields.is_empty() {
            return Vec::new();
        }
        // If a path takes too long to match, the rules found until then apply.
        let by_path = self.paths.of_path(path.unwrap_or_default()).numbers;
        let by_type = self.media_types.of_media_type(essence).numbers;
        let both = by_path.iter().filter(|number| by_type.binary_search(number).is_ok());
        both.flat_map(|number| &self.fields[*number]).collect()
    }
}

fn write_line(name: &str, value: &[u8], lines: &mut Vec<u8>) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        lines.extend_from_slice(part);
    }
}

fn is_retry_after(name: &str) -> bool {
    name.eq_ignore_ascii_case("Retry-After")
}

/// Whether a field allows caches to keep the reply: Expires, and a Cache-Control that does not forbid it.
/// This includes the fields of RFC 9213 for some caches, in addition to that of RFC 9111.
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
        // Expires has the same meaning for HTTP/1.0 caches (RFC 9111 section 5.3).
        let max_age = format!("max-age={}", time.as_secs());
        let kept = fields.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case("Cache-Control"));
        match kept {
            Some((_, Value::Text(text))) if has_max_age(text) => {}
            Some((_, Value::Text(text))) => *text = format!("{text}, {max_age}"),
            _ => fields.push(("Cache-Control".to_owned(), Value::Text(max_age))),
        }
        fields.push(("Expires".to_owned(), Value::DateAfter(time)));
    }
    fields
}

/// Whether a Cache-Control itself sets how long a reply is fresh.
fn has_max_age(text: &str) -> bool {
    text.split(',').any(|directive| directive.trim().to_ascii_lowercase().starts_with("max-age="))
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

    fn of(rules: &[HeaderRule]) -> Rules {
        Rules { own: List::new(rules), ..Rules::default() }
    }

    fn lines(rules: &[HeaderRule], path: &str, media_type: &str) -> (String, bool) {
        let mut lines = Vec::new();
        let grows_old = of(rules).write_lines(path.as_bytes(), media_type, 784_111_717, &mut lines);
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
            rule(Some("/c"), None, &[("Expires", "0")], None),
        ];
        let expires = "Expires: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        let (text, grows_old) = lines(&rules, "/a", "x/y");
        assert_eq!(text, format!("X-A: 1\r\nCache-Control: max-age=60\r\n{expires}"));
        assert!(grows_old);
        let (text, grows_old) = lines(&rules, "/b", "x/y");
        assert_eq!((text.as_str(), grows_old), ("X-A: 1\r\ncache-control: no-cache\r\n", false));
        assert_eq!(lines(&rules, "/c", "x/y").0, "X-A: 1\r\nCache-Control: max-age=60\r\nExpires: 0\r\n");
    }

    #[test]
    fn expires_goes_behind_what_the_same_rule_says_of_keeping() {
        for (said, sent) in [
            ("public, immutable", "public, immutable, max-age=60"),
            ("Max-Age=60", "Max-Age=60"),
            ("s-maxage=5", "s-maxage=5, max-age=60"),
        ] {
            let rules = [rule(None, None, &[("cache-control", said)], Some(60))];
            let text = lines(&rules, "/a", "x/y").0;
            assert!(text.starts_with(&format!("cache-control: {sent}\r\nExpires: ")), "{text}");
        }
    }

    #[test]
    fn when_to_ask_again_goes_with_replies_that_may_be_asked_for() {
        let rules = [rule(None, None, &[("retry-after", "7"), ("X-A", "1")], None)];
        assert_eq!(lines(&rules, "/a", "x/y").0, "X-A: 1\r\n");
        for (status, tells) in
            [(503, true), (429, true), (413, true), (302, true), (404, false), (204, false)]
        {
            let mut lines = Vec::new();
            let told = of(&rules).write_lines_of_no_file(Status(status), None, None, &mut lines);
            assert_eq!(told, tells, "{status}");
            assert_eq!(lines.starts_with(b"retry-after: 7\r\n"), tells, "{status}");
        }
    }

    #[test]
    fn what_is_no_file_is_not_kept_for_it() {
        let rules = [
            rule(None, None, &[("X-All", "1"), ("Cache-Control", "private, No-Store")], None),
            rule(Some("/a/**"), None, &[("X-A", "1"), ("CDN-Cache-Control", "max-age=60")], Some(60)),
            rule(None, Some("text/html"), &[("X-Html", "1"), ("expires", "0")], None),
        ];
        let rules = of(&rules);
        let of = |path: Option<&str>, media_type| {
            let mut lines = Vec::new();
            let status = Status::NOT_FOUND;
            assert!(!rules.write_lines_of_no_file(status, path.map(str::as_bytes), media_type, &mut lines));
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
