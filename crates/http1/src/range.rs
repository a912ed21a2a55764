//! The Range field (RFC 9110 section 14.2): which parts of a file a client requests.
//!
//! A request for the same bytes many times over is an old attack (section 17.15). There are two defences.
//! More ranges than the caller's limit are answered with the whole file. Ranges that overlap or touch are
//! joined, as section 15.3.7.2 allows. So the reply never has more than the file once, plus the part
//! headers.

use smallvec::SmallVec;

/// The most ranges that are ever kept, whatever limit the caller sets.
pub const MAX_RANGES: usize = 16;

/// What a Range field means for a file of a given size.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "lives on the stack for one request; a box would be an allocation"
)]
pub enum Ranges {
    /// Ignore the field, and send the whole file (200). The field has a unit other than bytes, is
    /// malformed, or has more ranges than allowed. Or the file is empty, which a 206 could not describe.
    Whole,
    /// Send these ranges (206), in the requested order. There are 1 to [`MAX_RANGES`]. They are within
    /// the file, and neither overlap nor touch.
    Satisfiable(SmallVec<[ByteRange; MAX_RANGES]>),
    /// Every range is beyond the end of the file (416).
    Unsatisfiable,
}

/// A range of bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Length, at least 1.
    pub len: u64,
}

impl ByteRange {
    /// Offset of the last byte, as Content-Range gives it.
    pub fn last(self) -> u64 {
        self.first + (self.len - 1)
    }

    /// Whether the two ranges overlap or follow one another without a gap.
    fn touches(self, other: Self) -> bool {
        self.first <= other.first + other.len && other.first <= self.first + self.len
    }

    fn join(self, other: Self) -> Self {
        let first = self.first.min(other.first);
        Self { first, len: self.last().max(other.last()) - first + 1 }
    }
}

/// Parses the value of a Range field for a file of `size` bytes. Ignores a value with more than `max`
/// ranges (at most [`MAX_RANGES`]).
pub fn parse(value: &[u8], size: u64, max: usize) -> Ranges {
    let Some(specs) = range_set(value) else { return Ranges::Whole };
    let mut ranges = SmallVec::new();
    let mut asked = 0;
    // A list may have empty elements, which mean nothing (section 5.6.1.2).
    for spec in specs.split(|&b| b == b',').map(trim).filter(|spec| !spec.is_empty()) {
        asked += 1;
        if asked > max.min(MAX_RANGES) {
            return Ranges::Whole;
        }
        let Some(spec) = Spec::parse(spec) else { return Ranges::Whole };
        if let Some(range) = spec.resolve(size) {
            add(&mut ranges, range);
        } else if size == 0 && matches!(spec, Spec::Suffix(1..)) {
            // Satisfiable by definition (section 14.1.2), but Content-Range could not describe it.
            return Ranges::Whole;
        }
    }
    match (asked, ranges.is_empty()) {
        (0, _) => Ranges::Whole,
        (_, true) => Ranges::Unsatisfiable,
        (_, false) => Ranges::Satisfiable(ranges),
    }
}

/// What follows `bytes=`. Unit names are case-insensitive (section 14.1).
fn range_set(value: &[u8]) -> Option<&[u8]> {
    let (unit, set) = value.split_at_checked(b"bytes=".len())?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(set)
}

/// One element of a range set (section 14.1.1). Numbers that do not fit a `u64` become its maximum.
#[derive(Clone, Copy)]
enum Spec {
    /// From an offset to another, inclusive.
    Between(u64, u64),
    /// From an offset to the end.
    From(u64),
    /// The last bytes, by their number.
    Suffix(u64),
}

impl Spec {
    /// `None`: malformed, or the last offset is before the first.
    fn parse(spec: &[u8]) -> Option<Self> {
        let dash = spec.iter().position(|&b| b == b'-')?;
        match (&spec[..dash], &spec[dash + 1..]) {
            ([], length) => Some(Self::Suffix(number(length)?)),
            (first, []) => Some(Self::From(number(first)?)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::Between(first, last))
            }
        }
    }

    /// The bytes that the element means in a file of `size` bytes, if any.
    fn resolve(self, size: u64) -> Option<ByteRange> {
        let (first, end) = match self {
            Self::Between(first, last) => (first, last.saturating_add(1).min(size)),
            Self::From(first) => (first, size),
            Self::Suffix(length) => (size.saturating_sub(length), size),
        };
        (first < end).then(|| ByteRange { first, len: end - first })
    }
}

/// Adds a range, joined with those that it overlaps or touches, at the position of the first of these.
fn add(ranges: &mut SmallVec<[ByteRange; MAX_RANGES]>, mut range: ByteRange) {
    let mut place = ranges.len();
    while let Some(at) = ranges.iter().position(|other| other.touches(range)) {
        range = range.join(ranges.remove(at));
        place = place.min(at);
    }
    ranges.insert(place, range);
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |n, digit| {
        digit.is_ascii_digit().then(|| n.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
    })
}

/// Without the spaces and tabs at both ends (OWS, section 5.6.3).
fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `first-last` of each range, or the name of another outcome.
    fn ranges(value: &str, size: u64) -> String {
        match parse(value.as_bytes(), size, MAX_RANGES) {
            Ranges::Whole => "whole".into(),
            Ranges::Unsatisfiable => "unsatisfiable".into(),
            Ranges::Satisfiable(ranges) => {
                ranges.iter().map(|r| format!("{}-{}", r.first, r.last())).collect::<Vec<_>>().join(",")
            }
        }
    }

    #[test]
    fn the_examples_of_the_rfc() {
        for (value, expected) in [
            ("bytes=0-499", "0-499"),
            ("bytes=500-999", "500-999"),
            ("bytes=-500", "9500-9999"),
            ("bytes=9500-", "9500-9999"),
            ("bytes=0-0,-1", "0-0,9999-9999"),
            ("bytes= 0-999, 4500-5499, -1000", "0-999,4500-5499,9000-9999"),
            ("bytes=500-600,601-999", "500-999"),
            ("bytes=500-700,601-999", "500-999"),
        ] {
            assert_eq!(ranges(value, 10_000), expected, "{value}");
        }
    }

    #[test]
    fn ranges_are_cut_to_the_file() {
        for (value, size, expected) in [
            ("bytes=0-", 1, "0-0"),
            ("BYTES=5-99999999999999999999999999", 10, "5-9"),
            ("bytes=-99999999999999999999999999", 10, "0-9"),
            ("bytes=10-", 10, "unsatisfiable"),
            ("bytes=99999999999999999999999999-", 10, "unsatisfiable"),
            ("bytes=-0", 10, "unsatisfiable"),
            ("bytes=10-20,3-4,-0", 10, "3-4"),
            ("bytes=18446744073709551614-", u64::MAX, "18446744073709551614-18446744073709551614"),
            (
                "bytes=0-0,18446744073709551613-18446744073709551615",
                u64::MAX,
                "0-0,18446744073709551613-18446744073709551614",
            ),
            ("bytes=0-", 0, "unsatisfiable"),
            ("bytes=0-0", 0, "unsatisfiable"),
            ("bytes=-0", 0, "unsatisfiable"),
            ("bytes=-1", 0, "whole"),
        ] {
            assert_eq!(ranges(value, size), expected, "{value} of {size}");
        }
    }

    #[test]
    fn empty_elements_and_white_space_are_allowed() {
        assert_eq!(ranges("bytes=,,0-0 ,\t, 5-5\t,", 10), "0-0,5-5");
    }

    #[test]
    fn what_is_not_understood_is_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes= ",
            "bytes=-",
            "bytes=--1",
            "bytes=1",
            "bytes=1-2-3",
            "bytes=a-b",
            "bytes=2-1",
            "bytes=0-0,2-1",
            "bytes=0-0,x",
            "bytes=+1-2",
            "bytes=1 -2",
            "bytes=1- 2",
            "bytes =1-2",
            " bytes=1-2",
            "bytes:1-2",
            "items=0-1",
            "bytes=0x0-1",
            "bytes=0-1;2-3",
            "bytes=\u{661}-2",
        ] {
            assert_eq!(ranges(value, 10), "whole", "{value:?}");
        }
    }

    #[test]
    fn too_many_ranges_are_answered_with_the_whole_file() {
        assert!(matches!(parse(b"bytes=0-0,,2-2", 10, 2), Ranges::Satisfiable(r) if r.len() == 2));
        assert_eq!(parse(b"bytes=0-0,2-2,4-4", 10, 2), Ranges::Whole);
        assert_eq!(parse(b"bytes=0-0,20-,30-", 10, 2), Ranges::Whole, "all that are asked for count");
        assert_eq!(parse(b"bytes=0-0", 10, 0), Ranges::Whole);
        let many = format!("bytes={}", "0-,".repeat(1300));
        assert_eq!(parse(many.as_bytes(), 10, usize::MAX), Ranges::Whole);
    }

    #[test]
    fn overlapping_ranges_are_joined_in_the_place_of_the_first() {
        assert_eq!(ranges("bytes=50-59,0-9,20-29,5-24", 100), "50-59,0-29");
        assert_eq!(ranges("bytes=0-,0-,0-,0-", 100), "0-99");
        assert_eq!(ranges("bytes=20-29,0-9,8-21", 100), "0-29");
    }

    proptest! {
        /// Checks the definition: exactly the bytes that some range names are sent, each once.
        #[test]
        fn covers_the_bytes_asked_for(
            specs in prop::collection::vec(
                (0u64..40, prop::option::of(0u64..40), any::<bool>()),
                1..=MAX_RANGES,
            ),
            size in 1u64..36,
        ) {
            let mut asked = vec![false; size as usize];
            let mut texts = Vec::new();
            for (a, b, suffix) in specs {
                let (text, from, to) = match (suffix, b) {
                    (true, _) => (format!("-{a}"), size.saturating_sub(a), size),
                    (false, None) => (format!("{a}-"), a, size),
                    (false, Some(b)) => (format!("{a}-{}", a + b), a, (a + b + 1).min(size)),
                };
                texts.push(text);
                for byte in from..to {
                    asked[byte as usize] = true;
                }
            }
            let mut sent = vec![false; size as usize];
            match parse(format!("bytes={}", texts.join(",")).as_bytes(), size, MAX_RANGES) {
                Ranges::Whole => prop_assert!(false, "well-formed"),
                Ranges::Unsatisfiable => {}
                Ranges::Satisfiable(ranges) => {
                    prop_assert!(!ranges.is_empty() && !ranges.spilled());
                    for range in ranges {
                        for byte in range.first..=range.last() {
                            prop_assert!(!std::mem::replace(&mut sent[byte as usize], true), "sent twice");
                        }
                    }
                }
            }
            prop_assert_eq!(sent, asked);
        }

        #[test]
        fn nothing_panics(value in "(bytes=)?[0-9, a\t-]{0,60}|.{0,40}", size: u64, max in 0usize..40) {
            parse(value.as_bytes(), size, max);
        }
    }
}
