//! Names of the hosts that sites answer for.

use std::fmt;
use std::net::Ipv6Addr;

/// A host, or all hosts below one: `example.org`, `*.example.org`. It is in lower case, without a
/// trailing dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPattern {
    /// The host, or the parent of the matching hosts.
    pub host: String,
    /// Whether this matches the hosts below `host`, at any depth, but not `host` itself.
    pub below: bool,
}

impl HostPattern {
    /// Parses a name or an address as in a URL, without a port. `None`: the text is neither.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (host, below) = match text.strip_prefix("*.") {
            Some(host) => (host, true),
            None => (text, false),
        };
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let is_label = |label: &str| {
            let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            !label.is_empty() && label.len() <= 63 && label.bytes().all(is_usual)
        };
        let is_name = host.len() <= 253 && host.split('.').all(is_label);
        let address = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
        match address.map(str::parse::<Ipv6Addr>) {
            Some(Ok(address)) if !below => Some(Self { host: format!("[{address}]"), below }),
            None if is_name => Some(Self { host, below }),
            _ => None,
        }
    }

    /// Whether a host matches. The host must be in lower case, without a trailing dot, as patterns are.
    pub fn has(&self, host: &str) -> bool {
        match host.strip_suffix(self.host.as_str()) {
            Some(before) if self.below => before.len() > 1 && before.ends_with('.'),
            before => before == Some("") && !self.below,
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.below { "*." } else { "" }, self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_and_addresses() {
        for (text, shown) in [
            ("example.org", "example.org"),
            ("Example.ORG.", "example.org"),
            ("*.example.org", "*.example.org"),
            ("localhost", "localhost"),
            ("192.0.2.1", "192.0.2.1"),
            ("[2001:DB8:0::1]", "[2001:db8::1]"),
            ("a_b.example", "a_b.example"),
        ] {
            assert_eq!(HostPattern::parse(text).map(|host| host.to_string()).as_deref(), Some(shown));
        }
        let long = "a".repeat(64);
        for text in [
            "",
            "*",
            "*.",
            ".",
            "a..b",
            "a b",
            "a:80",
            "*.*.org",
            "a*.org",
            "*.[::1]",
            "[1.2.3.4]",
            "ü",
            &long,
        ] {
            assert_eq!(HostPattern::parse(text), None, "{text:?}");
        }
    }
}
