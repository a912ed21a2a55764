//! The fields that decide what of a file is sent: Range, the preconditions, Accept-Encoding and dates.
//!
//! The first line of the input is the file's size, the others are field values, in the order in which they
//! are taken below.

#![no_main]

use http1::{
    Field, Fields,
    coding::{self, Coding, CodingSet},
    conditional::{self, Outcome, Validators},
    date,
    range::{self, MAX_RANGES, Ranges},
};
use libfuzzer_sys::fuzz_target;

/// The fields whose values are taken, in this order.
const FIELDS: [Field; 7] = [
    Field::Range,
    Field::AcceptEncoding,
    Field::IfMatch,
    Field::IfNoneMatch,
    Field::IfModifiedSince,
    Field::IfUnmodifiedSince,
    Field::IfRange,
];

fuzz_target!(|input: &[u8]| {
    let mut lines = input.split(|&byte| byte == b'\n');
    let size = lines.next().and_then(|line| std::str::from_utf8(line).ok()?.parse().ok()).unwrap_or(1000);
    let mut head = Vec::new();
    for (field, value) in FIELDS.into_iter().zip(lines).filter(|(_, value)| !value.is_empty()) {
        head.extend([field.name().as_bytes(), b":", value, b"\r\n"].concat());
    }
    let fields = Fields::new(&head);
    if let Some(value) = fields.get(Field::Range) {
        for max in [0, 1, 5, MAX_RANGES, usize::MAX] {
            ranges_stay_in_the_file(value, size, max);
        }
    }
    preconditions_agree(&fields);
    codings_are_at_hand(&fields);
    for field in [Field::IfModifiedSince, Field::IfUnmodifiedSince, Field::IfRange] {
        fields.all(field).for_each(dates_round_trip);
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
        Outcome::NotModified => assert!(fields.any_of(&[Field::IfNoneMatch, Field::IfModifiedSince])),
        Outcome::Proceed => assert_eq!(for_put, Outcome::Proceed),
    }
    let applies = conditional::range_applies(fields, &current);
    assert!(applies || fields.any_of(&[Field::IfRange]));
}

fn codings_are_at_hand(fields: &Fields<'_>) {
    let accepted = coding::accepted(fields.all(Field::AcceptEncoding));
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
