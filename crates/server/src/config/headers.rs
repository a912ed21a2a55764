//! Media types and response header fields that the operator sets. The checks reject every field that
//! could change where a reply ends, and every field that the server sets itself.

use std::collections::HashSet;
use std::time::Duration;

use http1::coding::Coding;

use super::error::Problem;
use super::key::{Field, Key, one, optional, pairs};
use super::pattern::Pattern;
use super::settings::HeaderRule;
use super::typed::{Item, Table};
use super::values::{Kind, flag, is_token, pair, quoted, text, time};

/// Fields that the server sets: they frame the message, belong to the connection, or are derived from the
/// file.
const OURS: [&str; 16] = [
    "Accept-Ranges",
    "Allow",
    "Connection",
    "Content-Encoding",
    "Content-Length",
    "Content-Range",
    "Content-Type",
    "Date",
    "ETag",
    "Keep-Alive",
    "Last-Modified",
    "Location",
    "Server",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
];

/// The keys of a header rule.
pub(super) const KEYS: &[Key<HeaderRule>] = &[
    Key::of("headers", "path", |rule| optional(&mut rule.path, path_pattern())),
    Key::of("headers", "ignore_case", |rule| one(&mut rule.ignore_case, flag())),
    Key::of("headers", "media_type", |rule| optional(&mut rule.media_type, media_type_pattern())),
    Key::of("headers", "set", |rule| {
        let fields: Vec<_> = rule.set.iter().map(|(name, value)| pair(name, value)).collect();
        Field { written: Some(format!("{{ {} }}", fields.join(", "))), ..pairs(&mut rule.set, field) }
    }),
    Key::of("headers", "expires", |rule| {
        optional(&mut rule.expires, time(Duration::ZERO..=Duration::from_hours(24 * 3650)))
    }),
];

/// Settings of a rule that contradict each other, or have no effect.
pub(super) fn contradictions(rule: &HeaderRule, item: &Item, table: &Table) -> Vec<Problem> {
    let mut problems = Vec::new();
    let sets = |name: &str| rule.set.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    if let Some(time) = rule.expires {
        let kept = rule.set.iter().filter(|(name, _)| name.eq_ignore_ascii_case("Cache-Control"));
        let mut directives = kept.flat_map(|(_, value)| value.split(',')).map(str::trim);
        if let Some(directive) = directives.find(|directive| contradicts(directive, time)) {
            let why = format!(
                "contradiction: makes max-age={}, and the same rule sets {directive} in Cache-Control",
                time.as_secs()
            );
            problems.push(item.problem_of("expires", why));
        } else if sets("Expires") {
            problems
                .push(item.problem_of("expires", "contradiction: makes Expires, which the same rule sets"));
        }
    }
    let mut known = HashSet::new();
    if let Some((name, _)) = rule.set.iter().find(|(name, _)| !known.insert(name.to_ascii_lowercase())) {
        let why = format!("contradiction: {name} is set twice; letter case does not matter");
        problems.push(item.problem_of("set", why));
    }
    if !table.contains_key("set") && !table.contains_key("expires") {
        let why = "a rule under [[headers]] needs set or expires, or it does nothing";
        problems.push(item.problem_of("set", why));
    }
    problems
}

/// Whether a `Cache-Control` directive contradicts that a reply is fresh for `time`.
fn contradicts(directive: &str, time: Duration) -> bool {
    let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
    match name.to_ascii_lowercase().as_str() {
        "max-age" => value.trim_matches('"').parse() != Ok(time.as_secs()),
        "no-cache" | "no-store" => true,
        _ => false,
    }
}

/// Whether the text says when to ask again: a number of seconds, or a date (RFC 9110 section 10.2.3).
fn is_retry_after(text: &str) -> bool {
    let is_number = !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number || http1::date::parse_http_date(text.as_bytes()).is_some()
}

/// Whether the text is an ending of names: one extension or several, without the dot before them. A
/// pattern is rejected, because it would never match.
fn is_ending(text: &str) -> bool {
    text.split('.').all(|extension| !extension.is_empty())
        && !text.contains(['/', '\0', '*', '?', '[', ']', '{', '}'])
        && text.to_lowercase() == text
}

/// Reads an ending of names, and the coding that files with this ending are stored in.
pub(super) fn coding_of_ending(ending: &str, item: &Item) -> Result<(String, Option<Coding>), String> {
    if !is_ending(ending) {
        return Err(
            "the key must be an ending in lower case without the dot before it, not a pattern, such \
                    as svgz or \"wasm.gz\""
                .to_owned(),
        );
    }
    let coding = match text(item)?.as_str() {
        "off" => None,
        token => {
            let known = Coding::ALL.into_iter().find(|coding| coding.token() == token);
            Some(known.ok_or_else(|| "allowed: gzip, br, zstd, off".to_owned())?)
        }
    };
    Ok((ending.to_owned(), coding))
}

/// Reads an ending of names and its media type. An empty ending stands for names without one.
pub(super) fn media_type_of_ending(ending: &str, item: &Item) -> Result<(String, String), String> {
    if !ending.is_empty() && !is_ending(ending) {
        return Err(
            "the key must be an ending in lower case without the dot before it, not a pattern, such \
                    as md or \"wasm.gz\", or \"\" for none"
                .to_owned(),
        );
    }
    let media_type = text(item)?;
    let (essence, _) = media_type.split_once(';').unwrap_or((&media_type, ""));
    let well_formed = essence.trim_end().split_once('/').is_some_and(|(a, b)| is_token(a) && is_token(b));
    if !well_formed || !is_field_value(&media_type) {
        return Err(
            "allowed: a media type such as \"text/markdown\" or \"text/html; charset=latin1\"".to_owned()
        );
    }
    Ok((ending.to_owned(), media_type))
}

/// Whether the text is a field value: RFC 9110 section 5.5, without bytes beyond ASCII, which the RFC
/// advises against.
fn is_field_value(text: &str) -> bool {
    text.bytes().all(|b| matches!(b, b' '..=b'~' | b'\t')) && text.trim_ascii() == text
}

fn field(name: &str, item: &Item) -> Result<(String, String), String> {
    if !is_token(name) {
        return Err("not a field name; allowed: letters, digits and !#$%&'*+-.^_`|~".to_owned());
    }
    if OURS.iter().any(|ours| ours.eq_ignore_ascii_case(name)) {
        let instead = match name.to_ascii_lowercase().as_str() {
            "content-type" => "; see [types]",
            "content-encoding" => "; see [encodings]",
            _ => "",
        };
        return Err(format!("this field is the server's own{instead}"));
    }
    let value = text(item)?;
    if !is_field_value(&value) {
        return Err("allowed: ASCII without control characters, and no blanks at the ends".to_owned());
    }
    if name.eq_ignore_ascii_case("Retry-After") && !is_retry_after(&value) {
        let date = "Fri, 31 Dec 1999 23:59:59 GMT";
        return Err(format!("allowed: a whole number of seconds, or a date such as \"{date}\""));
    }
    Ok((name.to_owned(), value))
}

/// A pattern for paths.
pub(super) fn path_pattern() -> Kind<Pattern> {
    pattern(Pattern::of_path)
}

fn media_type_pattern() -> Kind<Pattern> {
    pattern(Pattern::of_media_type)
}

fn pattern(read: fn(&str) -> Result<Pattern, String>) -> Kind<Pattern> {
    Kind::new(|pattern: &Pattern| quoted(pattern.text()), move |item| read(&text(item)?))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{place, problems};

    #[test]
    fn expires_bears_what_says_the_same() {
        for said in ["public, immutable", "Max-Age=3600", "private, max-age=\"3600\"", "s-maxage=5"] {
            let (_dir, source) =
                place(&format!("[[headers]]\nexpires = '1 h'\nset = {{ cache-control = '{said}' }}"));
            source.load().unwrap_or_else(|error| panic!("{said}: {error}"));
        }
        for said in ["max-age=60", "public, Max-age=3601", "no-store", "No-Cache"] {
            let told = problems(&format!("[[headers]]\nexpires = '1 h'\nset.Cache-Control = '{said}'"));
            let directive = said.trim_start_matches("public, ");
            let expected = format!(
                "2:11: headers.expires = '1 h': contradiction: makes max-age=3600, \
                 and the same rule sets {directive}"
            );
            assert!(told.contains(&expected), "{told}");
        }
    }

    #[test]
    fn an_ending_is_no_pattern() {
        for ending in ["*", "*.md", "m?", "{md,txt}", "[a-z]"] {
            for (table, value) in [("types", "text/plain"), ("encodings", "gzip")] {
                let told = problems(&format!("[{table}]\n'{ending}' = '{value}'"));
                let expected =
                    format!("{table}.{ending} = '{value}': the key must be an ending in lower case");
                assert!(told.contains(&expected) && told.contains("not a pattern"), "{told}");
            }
        }
    }

    #[test]
    fn when_to_ask_again_is_a_number_or_a_date() {
        let text = |value: &str| format!("[[headers]]\nset = {{ Retry-After = '{value}' }}");
        for value in ["0", "3600", "Fri, 31 Dec 1999 23:59:59 GMT"] {
            let (_dir, source) = place(&text(value));
            source.load().unwrap_or_else(|error| panic!("{value}: {error}"));
        }
        for value in ["", "soon", "1.5", "-1", "1 h"] {
            let told = problems(&text(value));
            assert!(told.contains("2:23: ") && told.contains("allowed: a whole number of seconds"), "{told}");
        }
    }
}
