//! Negotiation by Accept (RFC 9110 section 12.5.1) between two media types.

use crate::coding::qvalue;

/// Whether a client prefers `other` over `usual`. `values` are the values of the Accept lines, which are
/// one list. Both types are in lower case. Their only parameter may be a version, as in
/// `text/plain;version=0.0.4`. At equal weight, the type that the client names more exactly wins. Without
/// a preference, the usual type wins.
///
/// Elements that cannot be parsed are skipped, and so are those of another version. All other parameters
/// are ignored.
pub fn prefers<'a>(values: &(impl Iterator<Item = &'a [u8]> + Clone), other: &str, usual: &str) -> bool {
    let liking = |media_type: &str| {
        let (name, version) = media_type.split_once(";version=").unwrap_or((media_type, ""));
        let elements = values.clone().flat_map(|value| value.split(|&b| b == b','));
        // The most exact range determines the weight.
        let range = elements.filter_map(|element| range(element, name.as_bytes(), version.as_bytes())).max();
        range.filter(|range| range.1 > 0).map_or((0, 0), |(exactness, weight)| (weight, exactness))
    };
    liking(other) > liking(usual)
}

/// How exactly an element names a type, from `*/*` to the type itself, and its weight. `None`: the
/// element names another type, or another version of a type with versions.
fn range(element: &[u8], name: &[u8], version: &[u8]) -> Option<(u8, u16)> {
    let mut parts = element.split(|&b| b == b';').map(<[u8]>::trim_ascii);
    let top = &name[..=name.iter().position(|&b| b == b'/')?];
    let exactness = match parts.next()? {
        b"*/*" => 0,
        [start @ .., b'*'] if start.eq_ignore_ascii_case(top) => 1,
        named if named.eq_ignore_ascii_case(name) => 2,
        _ => return None,
    };
    let mut weight = 1000;
    for part in parts {
        let Some(equals) = part.iter().position(|&b| b == b'=') else { continue };
        let (key, value) = (&part[..equals], &part[equals + 1..]);
        if key.eq_ignore_ascii_case(b"q") {
            weight = qvalue(value)?;
        } else if key.eq_ignore_ascii_case(b"version") && !version.is_empty() {
            let quoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
            if quoted.unwrap_or(value) != version {
                return None;
            }
        }
    }
    Some((exactness, weight))
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
