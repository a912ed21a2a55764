//! The fields that decide what of a file is sent: Range, the preconditions, Accept-Encoding and dates.
//!
//! The first line of the input is the file's size, the others are field values, in the order in which they are taken below.

#![no_main]

use http1::{
    Fields,
    coding::{self, Coding, CodingSet},
    conditional::{self, Outcome, Validators},
    date,
    range::{self, MAX_RANGES, Ranges},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut lines = input.split(|&byte| byte == b'\n');
    let size = lines.next().and_then(|line| std::str::from_utf8(line).ok()?.parse().ok()).unwrap_or(1000);
    let mut value = || lines.next().filter(|line| !line.is_empty());
    let fields = Fields {
        range: value(),
        accept_encoding: value(),
        if_match: value(),
        if_none_match: value(),
        if_modified_since: value(),
        if_unmodified_since: value(),
        if_range: value(),
        ..Fields::default()
    };
    if let Some(value) = fields.range {
        for max in [0, 1, 5, MAX_RANGES, usize::MAX] {
            ranges_stay_in_the_file(value, size, max);
        }
    }
    preconditions_agree(&fields);
    codings_are_at_hand(fields.accept_encoding);
    for value in [fields.if_modified_since, fields.if_unmodified_since, fields.if_range].into_iter().flatten()
    {
        dates_round_trip(value);
    }
});

fn ranges_stay_in_the_file(value: &[u8], size: u64, max: usize) {
    let Ranges::Satisfiable(ranges) = range::parse(value, size, max) else { return };
    assert!(!ranges.is_empty() && ranges.len() <= max.min(MAX_RANGES));
    for (at, one) in ranges.iter().enumerate() {
        assert!(
            one.len >= 1 && one.first.checked_add(one.len).is_some_and(|end| end <= size),
            "{one:?} of {size}"
        );
        for other in &ranges[..at] {
            assert!(
                one.last() + 1 < other.first || other.last() + 1 < one.first,
                "{one:?} touches {other:?}"
            );
        }
    }
}

fn preconditions_agree(fields: &Fields<'_>) {
    let current = Validators {
        etag: b"\"5f-17\"",
        last_modified: 784_111_777,
        last_modified_text: b"Sun, 06 Nov 1994 08:49:37 GMT",
    };
    let for_get = conditional::evaluate(fields, true, &current);
    let for_put = conditional::evaluate(fields, false, &current);
    assert_ne!(for_put, Outcome::NotModified, "304 answers GET and HEAD alone");
    match for_get {
        Outcome::PreconditionFailed => assert_eq!(for_put, Outcome::PreconditionFailed),
        Outcome::NotModified => assert!(fields.if_none_match.is_some() || fields.if_modified_since.is_some()),
        Outcome::Proceed => assert_eq!(for_put, Outcome::Proceed),
    }
    let applies = conditional::range_applies(fields, &current);
    assert!(applies || fields.if_range.is_some());
}

fn codings_are_at_hand(value: Option<&[u8]>) {
    let accepted = coding::accepted(value);
    assert_eq!(accepted.best(CodingSet::EMPTY), None);
    for wanted in Coding::ALL {
        let best = accepted.best(CodingSet::EMPTY.with(wanted));
        assert!(best.is_none_or(|coding| coding == wanted));
    }
}

fn dates_round_trip(value: &[u8]) {
    if let Some(unix_secs) = date::parse_http_date(value) {
        assert_eq!(date::parse_http_date(&date::format_http_date(unix_secs)), Some(unix_secs));
    }
}
