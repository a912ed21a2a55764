//! Parses the field `X-ZeroCopy`, with which a reply names files in its body for the web server to insert
//! (Suzumura et al., "Highly Scalable Web Applications with Zero-Copy Data Transfer", WWW 2009). Parts of
//! files are an extension.
//!
//! ```text
//! X-ZeroCopy: 5/10:20/10
//!
//! hello/tmp/A.htmworld/tmp/B.htmbye
//!
//! field = place *( ":" place )
//! place = position "/" length [ "/" from [ "/" count ] ]
//! ```
//!
//! At byte `position` of the body is the name of a file, of `length` bytes. The web server replaces it with
//! that file: all of it, or the bytes after the first `from`, or `count` of these. Numbers are decimal. Names
//! come in order and must not overlap.

use std::ops::Range;

/// Most files that a reply may name.
pub const MOST_FILES: usize = 64;
/// The longest name, which is Linux's limit (`PATH_MAX`).
pub const LONGEST_NAME: usize = 4096;

/// The position of a file's name, and the part of the file to insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes of the body before the name.
    pub position: usize,
    /// Bytes of the name: 1 to [`LONGEST_NAME`].
    pub length: usize,
    /// Bytes of the file before the part.
    pub from: u64,
    /// Bytes of the part; `None`: all that follow.
    pub count: Option<u64>,
}

/// A part of a body: its own bytes, or a file that they name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// These bytes.
    Bytes(Range<usize>),
    /// The part of the file that these bytes name.
    File(Range<usize>, Place),
}

/// Parses the field's value. `None`: it is invalid.
pub fn parse(value: &[u8]) -> Option<Vec<Place>> {
    let mut places: Vec<Place> = Vec::new();
    for text in value.split(|byte| *byte == b':') {
        let place = place(text)?;
        let free_from = places.last().map_or(0, |before| before.position + before.length);
        if places.len() == MOST_FILES || place.position < free_from {
            return None;
        }
        places.push(place);
    }
    Some(places)
}

/// The parts of a body of that length. `None`: it ends before its last name.
pub fn parts(places: &[Place], length: usize) -> Option<Vec<Part>> {
    let (mut parts, mut at) = (Vec::with_capacity(2 * places.len() + 1), 0);
    for place in places {
        let end = place.position + place.length;
        if end > length {
            return None;
        }
        parts.extend([Part::Bytes(at..place.position), Part::File(place.position..end, *place)]);
        at = end;
    }
    parts.push(Part::Bytes(at..length));
    parts.retain(|part| !matches!(part, Part::Bytes(range) if range.is_empty()));
    Some(parts)
}

fn place(text: &[u8]) -> Option<Place> {
    let mut numbers = text.split(|byte| *byte == b'/').map(number);
    let (position, length) = (numbers.next()??, numbers.next()??);
    let (from, count) = (numbers.next(), numbers.next());
    let (from, count) =
        (from.map_or(Some(0), |from| from)?, count.map_or(Some(None), |count| count.map(Some))?);
    let (position, length) = (usize::try_from(position).ok()?, usize::try_from(length).ok()?);
    let is_one = (1..=LONGEST_NAME).contains(&length)
        && numbers.next().is_none()
        && position.checked_add(length).is_some()
        && from.checked_add(count.unwrap_or(0)).is_some();
    is_one.then_some(Place { position, length, from, count })
}

fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| str::from_utf8(digits).ok()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_papers_example_is_read() {
        let body = b"hello/tmp/A.htmworld/tmp/B.htmbye";
        let places = parse(b"5/10:20/10").unwrap();
        let told: Vec<_> = parts(&places, body.len())
            .unwrap()
            .into_iter()
            .map(|part| match part {
                Part::Bytes(range) => (str::from_utf8(&body[range]).unwrap(), false),
                Part::File(range, _) => (str::from_utf8(&body[range]).unwrap(), true),
            })
            .collect();
        let expected =
            [("hello", false), ("/tmp/A.htm", true), ("world", false), ("/tmp/B.htm", true), ("bye", false)];
        assert_eq!(told, expected);
        assert_eq!(parts(&places, 30).unwrap().len(), 4, "nothing is behind the last name");
        assert_eq!(parts(&places, 29), None);
    }

    #[test]
    fn parts_of_files_are_read() {
        let part = |from, count| Some(vec![Place { position: 0, length: 4, from, count }]);
        assert_eq!(parse(b"0/4"), part(0, None));
        assert_eq!(parse(b"0/4/7"), part(7, None));
        assert_eq!(parse(b"0/4/7/9"), part(7, Some(9)));
    }

    #[test]
    fn others_are_none() {
        for value in [
            "",
            ":",
            "5",
            "5/",
            "/5",
            "5/10:",
            ":5/10",
            "5/0",
            "5/4097",
            "5/10/",
            "5/10/1/",
            "5/10/1/2/3",
            "-5/10",
            "+5/10",
            "5 /10",
            "5/10, 21/10",
            "0x5/10",
            "5/10:14/10",
            "21/10:5/10",
            "18446744073709551615/10",
            "18446744073709551616/1",
            "5/1/1/18446744073709551615",
            "/tmp/a|0|5",
        ] {
            assert_eq!(parse(value.as_bytes()), None, "{value}");
        }
        let many = |count: usize| (0..count).map(|at| format!("{at}/1")).collect::<Vec<_>>().join(":");
        assert!(
            parse(many(MOST_FILES).as_bytes()).is_some() && parse(many(MOST_FILES + 1).as_bytes()).is_none()
        );
    }

    /// Bytes before a name, its length, and the part of the file.
    type Named = (usize, usize, Option<(u64, Option<u64>)>);

    fn any_body() -> impl Strategy<Value = Vec<Named>> {
        let part = (0..1000_u64, proptest::option::of(0..1000_u64));
        proptest::collection::vec((0..20_usize, 1..20_usize, proptest::option::of(part)), 1..MOST_FILES)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(body in any_body(), rest in 0..20_usize) {
            let (mut value, mut expected, mut at) = (String::new(), Vec::new(), 0);
            for (before, length, part) in body {
                let (position, end) = (at + before, at + before + length);
                let _ = write!(value, "{}{position}/{length}", if value.is_empty() { "" } else { ":" });
                if let Some((from, count)) = part {
                    let _ = write!(value, "/{from}");
                    let _ = count.map(|count| write!(value, "/{count}"));
                }
                let (from, count) = part.unwrap_or_default();
                if before > 0 {
                    expected.push(Part::Bytes(at..position));
                }
                expected.push(Part::File(position..end, Place { position, length, from, count }));
                at = end;
            }
            if rest > 0 {
                expected.push(Part::Bytes(at..at + rest));
            }
            let places = parse(value.as_bytes()).unwrap();
            prop_assert_eq!(parts(&places, at + rest), Some(expected));
            prop_assert_eq!(parts(&places, at - 1), None);
        }

        #[test]
        fn parts_are_the_body_in_order(value in "[0-9/:]{0,40}", length in 0..1000_usize) {
            let Some(parts) = parse(value.as_bytes()).and_then(|places| parts(&places, length)) else {
                return Ok(());
            };
            let mut at = 0;
            for part in parts {
                let (Part::Bytes(range) | Part::File(range, _)) = part;
                prop_assert!(range.start == at && range.start < range.end);
                at = range.end;
            }
            prop_assert_eq!(at, length);
        }
    }
}
