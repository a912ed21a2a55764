//! Conditional requests (RFC 9110 section 13): whether the client's copy is still current.

use crate::date::parse_http_date;
use crate::{Field, Fields};

/// What distinguishes one state of a file from another (RFC 9110 section 8.8).
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// The strong entity tag, with its quotes.
    pub etag: &'a [u8],
    /// The time of the last modification, in seconds since the Unix epoch.
    pub last_modified: u64,
    /// That time as the text of Last-Modified (RFC 9110 section 5.6.7).
    pub last_modified_text: &'a [u8],
}

/// The result of a request's preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Process the request.
    Proceed,
    /// The client's copy is current (304). Only for GET and HEAD.
    NotModified,
    /// The file is not in the state that the client requires (412).
    PreconditionFailed,
}

/// Evaluates the preconditions of a request for a file that exists, in the order of RFC 9110 section
/// 13.2.2. [`range_applies`] handles Range and If-Range, which come after.
///
/// A field whose date cannot be parsed, or comes twice, is ignored (sections 13.1.3 and 13.1.4).
///
/// Nothing matches an entity tag that cannot be parsed, or a `*` that is not alone. What follows in the
/// list, on any line, matches nothing either. For both fields this is the safe result: it leads to 412 or
/// to the whole file.
#[inline]
pub fn evaluate(fields: &Fields<'_>, method_is_get_or_head: bool, current: &Validators<'_>) -> Outcome {
    if fields.any_of(&[Field::IfMatch]) {
        if !any_tag_matches(fields.all(Field::IfMatch), current.etag, Comparison::Strong) {
            return Outcome::PreconditionFailed;
        }
    } else if let Some(date) = fields.sole(Field::IfUnmodifiedSince)
        && is_modified_since(date, current) == Some(true)
    {
        return Outcome::PreconditionFailed;
    }
    if fields.any_of(&[Field::IfNoneMatch]) {
        return match any_tag_matches(fields.all(Field::IfNoneMatch), current.etag, Comparison::Weak) {
            false => Outcome::Proceed,
            true if method_is_get_or_head => Outcome::NotModified,
            true => Outcome::PreconditionFailed,
        };
    }
    match fields.sole(Field::IfModifiedSince) {
        Some(date) if method_is_get_or_head && is_modified_since(date, current) == Some(false) => {
            Outcome::NotModified
        }
        _ => Outcome::Proceed,
    }
}

/// Whether the Range field of a request applies. Without If-Range it always does. Otherwise it applies if
/// the client's part belongs to the current state (RFC 9110 section 13.1.5). Weak tags never match, and a
/// date must equal Last-Modified. An If-Range that comes twice matches nothing.
///
/// A date is trusted, although a file may change twice within a second (section 8.8.2.2). A check for
/// that would need a clock, and clients that were given a tag send the tag.
#[inline]
pub fn range_applies(fields: &Fields<'_>, current: &Validators<'_>) -> bool {
    if !fields.any_of(&[Field::IfRange]) {
        return true;
    }
    let Some(value) = fields.sole(Field::IfRange) else { return false };
    if value.starts_with(b"\"") || value.starts_with(b"W/") {
        // If-Range has no list, so the whole value is one tag.
        return value == current.etag;
    }
    value == current.last_modified_text || parse_http_date(value) == Some(current.last_modified)
}

/// How entity tags are compared (RFC 9110 section 8.8.3.2).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// The tags are equal, and neither is weak.
    Strong,
    /// The tags are equal, apart from a weakness prefix.
    Weak,
}

/// Whether a `*` that is alone, or a tag of the list on these lines, matches the current tag, which is
/// strong.
fn any_tag_matches<'a>(
    lines: impl Iterator<Item = &'a [u8]> + Clone,
    current: &[u8],
    comparison: Comparison,
) -> bool {
    let is_alike = |tag: Tag<'_>| tag.quoted == current && (comparison == Comparison::Weak || !tag.weak);
    for (at, line) in lines.clone().enumerate() {
        // Nearly every client sends exactly the tag that it was given.
        if line == current {
            return true;
        }
        if line == b"*" {
            return at == 0 && lines.count() == 1;
        }
        let mut tags = Tags(line);
        if tags.any(is_alike) {
            return true;
        }
        if !tags.were_all_read() {
            return false;
        }
    }
    false
}

/// `None`: not a date.
fn is_modified_since(date: &[u8], current: &Validators<'_>) -> Option<bool> {
    // Nearly every client sends back the date that it was given.
    if date == current.last_modified_text {
        return Some(false);
    }
    parse_http_date(date).map(|date| current.last_modified > date)
}

struct Tag<'a> {
    weak: bool,
    quoted: &'a [u8],
}

/// The entity tags of a list (RFC 9110 section 8.8.3), up to the first malformed one.
struct Tags<'a>(&'a [u8]);

impl Tags<'_> {
    /// Whether the list was read to its end. Call it when there are no more tags.
    fn were_all_read(&self) -> bool {
        self.0.iter().all(|&b| is_separator(b))
    }
}

/// A byte between tags.
fn is_separator(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b',')
}

impl<'a> Iterator for Tags<'a> {
    type Item = Tag<'a>;

    fn next(&mut self) -> Option<Tag<'a>> {
        // The rest begins with a tag or with the separators before it. Commas within quotes belong to the
        // tag.
        let separators = self.0.iter().take_while(|&&b| is_separator(b)).count();
        let element = &self.0[separators..];
        let (weak, opaque) = element.strip_prefix(b"W/").map_or((false, element), |rest| (true, rest));
        let content = opaque.strip_prefix(b"\"")?;
        let length = content.iter().position(|&b| !is_tag_char(b)).filter(|&at| content[at] == b'"')?;
        let (quoted, rest) = opaque.split_at(length + 2);
        self.0 = rest;
        let follows = rest.iter().find(|b| !matches!(b, b' ' | b'\t'));
        matches!(follows, None | Some(b',')).then_some(Tag { weak, quoted })
    }
}

/// A byte that may be between the quotes of a tag.
fn is_tag_char(byte: u8) -> bool {
    byte == b'!' || byte > b'"' && byte != 0x7f
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use Outcome::{NotModified, PreconditionFailed, Proceed};

    const CURRENT: Validators<'_> = Validators {
        etag: b"\"a,b\"",
        last_modified: 784_111_777,
        last_modified_text: b"Sun, 06 Nov 1994 08:49:37 GMT",
    };
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const SAME_OTHERWISE: &str = "Sunday, 06-Nov-94 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun Nov  6 08:49:38 1994";

    fn lines(pairs: &[(&str, &str)]) -> Vec<u8> {
        pairs.iter().flat_map(|(name, value)| format!("{name}: {value}\r\n").into_bytes()).collect()
    }

    fn if_range(value: &str) -> bool {
        range_applies(&Fields::new(&lines(&[("If-Range", value)])), &CURRENT)
    }

    #[track_caller]
    fn check(pairs: &[(&str, &str)], get: Outcome, other: Outcome) {
        let lines = lines(pairs);
        let fields = Fields::new(&lines);
        assert_eq!(evaluate(&fields, true, &CURRENT), get, "GET {pairs:?}");
        assert_eq!(evaluate(&fields, false, &CURRENT), other, "PUT {pairs:?}");
    }

    #[test]
    fn without_preconditions_everything_proceeds() {
        check(&[], Proceed, Proceed);
        assert!(range_applies(&Fields::default(), &CURRENT));
    }

    #[test]
    fn if_match_compares_strongly() {
        for matching in
            ["\"a,b\"", "*", "\"x\", \"a,b\"", "W/\"a,b\", \"a,b\"", ",, \"a,b\"\t,", "\"\",\"a,b\""]
        {
            check(&[("If-Match", matching)], Proceed, Proceed);
        }
        for other in
            ["\"a\"", "W/\"a,b\"", "a,b", "\"a,b", "", "*, \"x\"", "\"A,B\"", "\"x\" \"a,b\"", "w/\"a,b\""]
        {
            check(&[("If-Match", other)], PreconditionFailed, PreconditionFailed);
        }
    }

    #[test]
    fn if_none_match_compares_weakly() {
        for matching in ["\"a,b\"", "*", "W/\"a,b\"", "\"x\" , W/\"a,b\"", "\"a,b\", junk"] {
            check(&[("If-None-Match", matching)], NotModified, PreconditionFailed);
        }
        for other in ["\"a\"", "a,b", "", "junk, \"a,b\"", "\"a,b\"x", "\"a b\", \"a,b\"", "w/\"a,b\"", "**"]
        {
            check(&[("If-None-Match", other)], Proceed, Proceed);
        }
    }

    #[test]
    fn tags_on_several_lines_are_one_list() {
        let other = ("If-Match", "\"x\"");
        check(&[other, ("if-match", "\"a,b\"")], Proceed, Proceed);
        check(&[other, other], PreconditionFailed, PreconditionFailed);
        check(&[("If-None-Match", "\"x\""), ("If-None-Match", "\"a,b\"")], NotModified, PreconditionFailed);
        // Nothing after an unreadable tag counts, on the same line or on another.
        check(&[("If-None-Match", "junk, \"a,b\"")], Proceed, Proceed);
        check(&[("If-None-Match", "junk"), ("If-None-Match", "\"a,b\"")], Proceed, Proceed);
        check(
            &[("If-None-Match", "\"x\" ,"), ("If-None-Match", ""), ("If-None-Match", "*")],
            Proceed,
            Proceed,
        );
        check(&[("If-None-Match", "*"), ("If-None-Match", "*")], Proceed, Proceed);
        check(&[("If-Match", "*"), ("If-Match", "\"a,b\"")], PreconditionFailed, PreconditionFailed);
        check(&[("If-Match", "\"a,b\""), ("If-Match", "*")], Proceed, Proceed);
    }

    #[test]
    fn dates_that_come_twice_are_ignored() {
        for (name, date) in [("If-Modified-Since", SAME), ("If-Unmodified-Since", BEFORE)] {
            check(&[(name, date), (name, date)], Proceed, Proceed);
            check(&[(name, date), (name, "")], Proceed, Proceed);
            check(&[(name, &format!("{date}, {date}"))], Proceed, Proceed);
        }
        let twice = lines(&[("If-Range", SAME), ("If-Range", SAME)]);
        assert!(!range_applies(&Fields::new(&twice), &CURRENT));
    }

    #[test]
    fn if_modified_since_is_for_get_and_head() {
        for date in [SAME, SAME_OTHERWISE, AFTER] {
            check(&[("If-Modified-Since", date)], NotModified, Proceed);
        }
        for date in [BEFORE, "yesterday", "", "Sun, 06 Nov 1994 08:49:38 CET"] {
            check(&[("If-Modified-Since", date)], Proceed, Proceed);
        }
    }

    #[test]
    fn if_unmodified_since_is_for_all() {
        for date in [SAME, SAME_OTHERWISE, AFTER, "yesterday", ""] {
            check(&[("If-Unmodified-Since", date)], Proceed, Proceed);
        }
        check(&[("If-Unmodified-Since", BEFORE)], PreconditionFailed, PreconditionFailed);
    }

    #[test]
    fn tags_come_before_dates() {
        check(&[("If-Match", "\"a,b\""), ("If-Unmodified-Since", BEFORE)], Proceed, Proceed);
        check(&[("If-None-Match", "\"x\""), ("If-Modified-Since", SAME)], Proceed, Proceed);
        check(&[("If-None-Match", "*"), ("If-Modified-Since", BEFORE)], NotModified, PreconditionFailed);
    }

    #[test]
    fn demands_come_before_revalidation() {
        let demand = [("If-Match", "\"x\""), ("If-None-Match", "\"a,b\"")];
        check(&demand, PreconditionFailed, PreconditionFailed);
        let demand = [("If-Unmodified-Since", BEFORE), ("If-Modified-Since", SAME)];
        check(&demand, PreconditionFailed, PreconditionFailed);
        check(&[("If-Match", "*"), ("If-None-Match", "\"a,b\"")], NotModified, PreconditionFailed);
    }

    #[test]
    fn if_range_wants_the_very_state() {
        for value in ["\"a,b\"", SAME, SAME_OTHERWISE] {
            assert!(if_range(value), "{value}");
        }
        for value in
            ["W/\"a,b\"", "\"x\"", "*", BEFORE, AFTER, "", "junk", "\"x\", \"a,b\"", "\"a,b\""[1..].into()]
        {
            assert!(!if_range(value), "{value}");
        }
    }

    proptest! {
        /// A tag is found wherever it is in a well-formed list, and nowhere else.
        #[test]
        fn finds_the_tag_in_any_list(
            tags in prop::collection::vec(("(W/)?\"[a-c,\\\\]{0,3}\"", "[ \t]{0,2},[ ,\t]{0,3}"), 1..6),
        ) {
            let list = tags.iter().flat_map(|(tag, separator)| [tag.as_str(), separator]).collect::<String>();
            let weakly = tags.iter().any(|(tag, _)| tag.trim_start_matches("W/") == "\"a,b\"");
            let strongly = tags.iter().any(|(tag, _)| tag == "\"a,b\"");
            let one_line = [list.as_bytes()];
            let lines: Vec<_> = tags.iter().map(|(tag, _)| tag.as_bytes()).collect();
            for list in [&one_line[..], &lines] {
                let matches = |comparison| any_tag_matches(list.iter().copied(), CURRENT.etag, comparison);
                prop_assert_eq!((matches(Comparison::Weak), matches(Comparison::Strong)), (weakly, strongly));
            }
        }

        #[test]
        fn nothing_panics(value in "[W/\", a*\t]{0,20}|.{0,20}") {
            for name in ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"] {
                evaluate(&Fields::new(&lines(&[(name, &value)])), true, &CURRENT);
            }
            if_range(&value);
        }
    }
}
