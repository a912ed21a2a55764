//! Header lines that somebody adds to requests: which may be sent, and which stand instead of others.

// Addresses alone: nothing here goes to the network.
use core::net::Ipv6Addr;

/// Fields of which a request has one line at most (RFC 9110, RFC 6265 section 5.4, RFC 6454 section 7.3).
const SINGLE: [&str; 18] = [
    "authorization",
    "content-length",
    "content-location",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "from",
    "host",
    "if-modified-since",
    "if-range",
    "if-unmodified-since",
    "max-forwards",
    "origin",
    "proxy-authorization",
    "range",
    "referer",
    "user-agent",
];

/// The name of a header line such as `Accept: text/html`.
///
/// # Errors
///
/// It is no header line, or says what only the generator can say.
pub fn name(line: &str) -> Result<&str, String> {
    let (name, value) = line.split_once(':').unwrap_or_default();
    if !is_token(name.as_bytes()) || line.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
        return Err(format!("{line:?} is no header line; allowed: one such as \"Accept-Encoding: gzip\""));
    }
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    if is("content-length") {
        return Err(format!(
            "{line:?}: the body says its length; use --data, or contents= in a session file"
        ));
    }
    if is("transfer-encoding") {
        return Err(format!("{line:?}: bodies are sent whole, with their length; allowed: no such line"));
    }
    if is("expect") {
        return Err(format!("{line:?}: bodies are sent without waiting for a 100; allowed: no such line"));
    }
    if is("host") {
        host(value.trim_matches([' ', '\t']))?;
    }
    Ok(name)
}

/// Whether a request has one line of that name at most, so that another stands instead of it.
pub fn is_single(name: &str) -> bool {
    SINGLE.iter().any(|single| name.eq_ignore_ascii_case(single))
}

/// The first of these names that is there for a second time although requests have one line of it at most.
pub fn twice<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut single: Vec<&str> = Vec::new();
    names.into_iter().filter(|name| is_single(name)).find(|name| {
        let is_there = single.iter().any(|other| other.eq_ignore_ascii_case(name));
        single.push(name);
        is_there
    })
}

/// Says what is wrong with a value of Host (RFC 9110 section 7.2, RFC 3986 section 3.2.2). It is a name, an
/// IPv4 address, or an IPv6 address in brackets, and a port in digits or none.
///
/// # Errors
///
/// It is nothing of that kind.
pub fn host(value: &str) -> Result<(), String> {
    let end = value.rfind(']').map_or_else(|| value.find(':').unwrap_or(value.len()), |bracket| bracket + 1);
    let (host, port) = value.split_at(end);
    let may_be = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&byte);
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(may_be),
    };
    let is_port = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if is_host && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)) {
        return Ok(());
    }
    Err(format!(
        "{value:?} is no host; allowed: a name or an address, and a port, such as h:8080 or [::1]:8080"
    ))
}

/// Whether it is a token (RFC 9110 section 5.6.2), as names of fields and methods are.
pub fn is_token(text: &[u8]) -> bool {
    let may_be = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(may_be)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_lines_are_told_from_others() {
        for right in [
            "X: y",
            "X:",
            "host: [::1]:80",
            "Host:h",
            "Host: h:",
            "Host: 127.0.0.1:8080",
            "Host: [::]",
            "x-A: \u{e4}\t",
            "User-Agent: curl/8 (x)",
        ] {
            assert!(name(right).is_ok(), "{right}");
        }
        assert_eq!(name("User-Agent: a:b"), Ok("User-Agent"));
        assert!(is_single("hOST") && is_single("User-Agent") && !is_single("Accept"));
        assert_eq!(twice(["Host", "Accept", "Cookie", "Accept", "cookie", "host"]), Some("cookie"));
        assert_eq!(twice(["Host", "Accept", "Accept"]), None);
        for (wrong, told) in [
            ("", "is no header line"),
            ("X", "is no header line"),
            (": y", "is no header line"),
            ("X : y", "is no header line"),
            ("X: y\r\nZ: 1", "is no header line"),
            ("content-LENGTH: 5", "the body says its length"),
            ("Transfer-Encoding: chunked", "bodies are sent whole"),
            ("Host:", "is no host"),
            ("Host: a b", "is no host"),
            ("Host: http://h/", "is no host"),
            ("Host: u@h", "is no host"),
            ("Host: [", "is no host"),
            ("Host: []", "is no host"),
            ("Host: [127.0.0.1]:80", "is no host"),
            ("Host: [::1]80", "is no host"),
            ("Host: a:b:c", "is no host"),
            ("Host: ::1", "is no host"),
            ("Host: h:+80", "is no host"),
            ("Host: :80", "is no host"),
            ("expect: 100-continue", "without waiting"),
        ] {
            let error = name(wrong).unwrap_err();
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }
}
