//! Negotiation of media types by Accept (RFC 9110 section 12.5.1), where there are two to choose from.

use crate::coding::qvalue;

/// Whether a client would rather have `other` than `usual`, by the values of the Accept lines, which are one
/// list. Both types are in lower case, without parameters. Where it likes both as well, the one that it names
/// more exactly is meant; whoever says nothing gets the usual one.
///
/// Elements that can't be read are skipped, and parameters of types as well: neither of the two has any.
pub fn prefers<'a>(values: &(impl Iterator<Item = &'a [u8]> + Clone), other: &str, usual: &str) -> bool {
    let liking = |media_type| {
        let elements = values.clone().flat_map(|value| value.split(|&b| b == b','));
        // The most exact range decides on the weight.
        let range = elements.filter_map(|element| range(element, media_type)).max();
        range.filter(|range| range.1 > 0).map_or((0, 0), |(exactness, weight)| (weight, exactness))
    };
    liking(other.as_bytes()) > liking(usual.as_bytes())
}

/// How exactly an element names a type, from `*/*` to the type itself, and its weight. `None`: it names
/// another one.
fn range(element: &[u8], media_type: &[u8]) -> Option<(u8, u16)> {
    let mut parts = element.split(|&b| b == b';').map(<[u8]>::trim_ascii);
    let name = parts.next()?;
    let top = &media_type[..=media_type.iter().position(|&b| b == b'/')?];
    let exactness = match name {
        b"*/*" => 0,
        [start @ .., b'*'] if start.eq_ignore_ascii_case(top) => 1,
        name if name.eq_ignore_ascii_case(media_type) => 2,
        _ => return None,
    };
    let weight = parts.find_map(|part| match part {
        [b'q' | b'Q', b'=', weight @ ..] => Some(qvalue(weight)),
        _ => None,
    });
    Some((exactness, weight.unwrap_or(Some(1000))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_is_liked_better() {
        let prefers = |values: &[&str]| {
            let values = values.iter().map(|value| value.as_bytes());
            prefers(&values, "application/json", "text/html")
        };
        for value in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "application/*",
            "application/json, text/plain, */*",
            "application/json, */*;q=0.5",
            "text/html;q=0.5, application/json;q=0.51",
            "text/*;q=0.1, application/json;q=0.1",
            "text/html;q=0, application/*",
            "*/*, text/html;q=0",
        ] {
            assert!(prefers(&[value]), "{value}");
        }
        for value in [
            "",
            "*/*",
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8",
            "text/html, application/json",
            "application/json;q=0",
            "application/json;q=0.5, */*",
            "application/json;q=x",
            "application/jsonl, json, /, *, application",
            "*/*, application/json;q=0.9",
        ] {
            assert!(!prefers(&[value]), "{value}");
        }
        assert!(!prefers(&[]));
        assert!(prefers(&["image/*", "application/json"]));
    }
}
