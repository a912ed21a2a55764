//! The head of a CGI response: its end is found where it is, however it comes; and what a client is told of
//! it can do no harm; and what names files in its body is the body, part for part.

#![no_main]

use fastcgi::response::{Malformed, Scan, parse};
use fastcgi::zero_copy::{self, Part};
use libfuzzer_sys::fuzz_target;

const MOST: usize = 400;

fuzz_target!(|input: &[u8]| {
    let whole = end(input, input.len().max(1));
    for piece in [1, 2, 3, 7] {
        assert_eq!(end(input, piece), whole, "in pieces of {piece}");
    }
    let Ok(Some(end)) = whole else { return };
    assert!(end <= MOST);
    let Ok(head) = parse(&input[..end]) else { return };
    assert!((200..600).contains(&head.status));
    for (name, value) in head.for_client() {
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':'));
        assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        assert!(!name.eq_ignore_ascii_case("X-ZeroCopy"));
    }
    let Some(places) = head.field("X-ZeroCopy").and_then(zero_copy::parse) else { return };
    assert!((1..=zero_copy::MOST_FILES).contains(&places.len()));
    let body = &input[end..];
    let Some(parts) = zero_copy::parts(&places, body.len()) else { return };
    let mut at = 0;
    for part in parts {
        let (Part::Bytes(range) | Part::File(range, _)) = part;
        assert!(range.start == at && !body[range.clone()].is_empty());
        at = range.end;
    }
    assert_eq!(at, body.len());
});

/// Where the head ends, if it does.
fn end(input: &[u8], piece: usize) -> Result<Option<usize>, Malformed> {
    let (mut scan, mut there) = (Scan::default(), 0_usize);
    loop {
        there = input.len().min(there.saturating_add(piece));
        match scan.find_end(&input[..there], MOST) {
            Ok(None) if there < input.len() => {}
            found => return found,
        }
    }
}
