//! Where an application listens, as operators write it: an address, or a name such as `app.internal:3000`.

use std::fmt;

use super::address::ListenAddress;

/// Where the servers of a pool listen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ServerAddress {
    /// One server, at this address.
    At(ListenAddress),
    /// A server at each address that the name has.
    Named(ServerName),
}

/// A name whose addresses are looked up while the server runs, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerName {
    /// The name, in lower case. A final dot says that no search domain is tried.
    pub host: String,
    /// The port, which is not 0.
    pub port: u16,
}

/// Longest name as text, without a final dot (RFC 1035 section 2.3.4).
const MOST_HOST: usize = 253;
/// Longest part of a name between dots (same section).
const MOST_LABEL: usize = 63;

impl ServerAddress {
    /// Whether the servers are reached over TCP.
    pub fn is_tcp(&self) -> bool {
        match self {
            Self::At(address) => address.is_tcp(),
            Self::Named(_) => true,
        }
    }

    /// The name, if it is one.
    pub fn name(&self) -> Option<&ServerName> {
        match self {
            Self::At(_) => None,
            Self::Named(name) => Some(name),
        }
    }
}

impl ServerName {
    /// Reads `NAME:PORT`. `None`: it is something else, such as an IP address, `localhost` or a Unix socket,
    /// or not a name that can be looked up.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port != 0)?;
        let labels = host.strip_suffix('.').unwrap_or(host);
        let is_label = |label: &str| {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            (1..=MOST_LABEL).contains(&label.len())
                && label.bytes().all(is_part)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        // The last part of an IPv4 address is a number, and so is what somebody meant to be one.
        let is_number = labels.rsplit('.').next()?.bytes().all(|byte| byte.is_ascii_digit());
        let is_name = labels.len() <= MOST_HOST && labels.split('.').all(is_label) && !is_number;
        (is_name && labels != "localhost").then(|| Self { host: host.to_ascii_lowercase(), port })
    }
}

impl From<ListenAddress> for ServerAddress {
    fn from(address: ListenAddress) -> Self {
        Self::At(address)
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(address) => address.fmt(f),
            Self::Named(ServerName { host, port }) => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_addresses() {
        for text in ["app:3000", "app.internal:80", "a_b.example.:65535", "4.example:1", "web-1:80"] {
            let name = ServerName::parse(text).expect(text);
            assert_eq!(ServerAddress::Named(name).to_string(), text);
        }
        assert_eq!(ServerName::parse("App.Example:80").map(|name| name.host).as_deref(), Some("app.example"));
        let long = format!("{}:80", "a".repeat(64));
        let longer = format!("{}:80", ["a".repeat(63).as_str(); 4].join("."));
        for text in [
            "app",
            "app:",
            "app:0",
            "app:65536",
            ":80",
            ".:80",
            "a..b:80",
            "-a:80",
            "a-:80",
            "a b:80",
            "a/b:80",
            "127.0.0.1:80",
            "300.1.2.3:80",
            "[::1]:80",
            "localhost:80",
            &long,
            &longer,
        ] {
            assert_eq!(ServerName::parse(text), None, "{text}");
        }
    }
}
