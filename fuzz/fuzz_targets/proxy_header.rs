//! The header that proxies begin connections with: it is found when it is there, and no sooner, and what is
//! no header stays none.

#![no_main]

use libfuzzer_sys::fuzz_target;
use server::proxies::header::parse;

fuzz_target!(|input: &[u8]| {
    let whole = parse(input);
    for cut in 0..input.len() {
        match (parse(&input[..cut]), whole) {
            (Ok(None), _) => {}
            (Ok(found @ Some((length, _))), whole) => {
                assert!(length <= cut);
                assert_eq!(Ok(found), whole, "at {cut}");
            }
            (Err(malformed), whole) => assert_eq!(whole, Err(malformed), "at {cut}"),
        }
    }
    if let Ok(Some((length, _))) = whole {
        assert!(parse(&input[..length - 1]).is_ok_and(|found| found.is_none()), "it was there too early");
    }
});
