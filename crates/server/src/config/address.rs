//! Addresses to listen at, as people write them: `127.0.0.1:8080`, `[::]:80`, `unix:/run/sluice.sock`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// An IP address and port; port 0 lets the kernel pick one.
    Tcp(SocketAddr),
    /// A Unix socket, by absolute path.
    Unix(PathBuf),
}

/// Where counters are served: the same kinds of address, never one that clients connect to.
pub type StatusAddress = ListenAddress;

/// Longest path of a Unix socket: `sun_path` without its final NUL, unix(7).
const UNIX_PATH_MAX: usize = 107;

impl ListenAddress {
    /// Reads an address; `absolute` completes the path of a Unix socket. The error says what is allowed.
    pub(super) fn parse(
        text: &str,
        absolute: impl Fn(&str) -> Result<PathBuf, String>,
    ) -> Result<Self, String> {
        let Some(path) = text.strip_prefix("unix:") else { return parse_tcp(text) };
        let path = absolute(path)?;
        match path.as_os_str().len() {
            ..=UNIX_PATH_MAX => Ok(Self::Unix(path)),
            len => Err(format!("{} has {len} bytes; allowed: at most {UNIX_PATH_MAX}", path.display())),
        }
    }

    /// Whether two addresses cannot both be bound. Port 0 is another port each time; an IPv6 socket takes no IPv4.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(a), Self::Tcp(b)) => {
                let same_ip = a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified();
                a.port() == b.port() && a.port() != 0 && a.is_ipv4() == b.is_ipv4() && same_ip
            }
            (a, b) => a == b,
        }
    }
}

/// Reads an address; the path of a Unix socket starts from the current directory. The error says what is allowed.
impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text, |path| std::path::absolute(path).map_err(|error| error.to_string()))
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

fn parse_tcp(text: &str) -> Result<ListenAddress, String> {
    text.parse().map(ListenAddress::Tcp).map_err(|_| {
        let wrong = match text.rsplit_once(':') {
            _ if text.parse::<IpAddr>().is_ok() => "the port is missing; ",
            None => "",
            Some((_, port)) if port.parse::<u16>().is_err() => "the port is not a number up to 65535; ",
            Some(_) => "not an IP address; ",
        };
        format!("{wrong}allowed: ADDRESS:PORT such as \"127.0.0.1:8080\" or \"[::]:80\", or \"unix:PATH\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_they_are_written() {
        for text in ["127.0.0.1:0", "[::1]:80", "unix:/run/sluice.sock"] {
            assert_eq!(text.parse::<ListenAddress>().map(|address| address.to_string()), Ok(text.into()));
        }
        let here = std::env::current_dir().expect("a directory");
        assert_eq!("unix:a".parse(), Ok(ListenAddress::Unix(here.join("a"))));
        for text in ["", ":80", "80", "localhost:80", "::1:80", "unix:", "127.0.0.1:65536"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_bound_together_overlaps() {
        let overlaps = |a: &str, b: &str| {
            let read = |text: &str| text.parse::<ListenAddress>().expect("an address");
            assert_eq!(read(a).overlaps(&read(b)), read(b).overlaps(&read(a)));
            read(a).overlaps(&read(b))
        };
        assert!(overlaps("127.0.0.1:80", "127.0.0.1:80"));
        assert!(overlaps("0.0.0.0:80", "127.0.0.1:80"));
        assert!(overlaps("[::]:80", "[::1]:80"));
        assert!(overlaps("unix:/a", "unix:/a"));
        assert!(!overlaps("0.0.0.0:80", "[::]:80"));
        assert!(!overlaps("127.0.0.1:0", "127.0.0.1:0"));
        assert!(!overlaps("127.0.0.1:80", "127.0.0.2:80"));
    }
}
