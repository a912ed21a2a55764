//! Addresses to listen on, as operators write them: `127.0.0.1:8080`, `[::]:80`, `localhost:8080`, `:80`,
//! `unix:/run/sluice.sock`.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// An address that clients connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// An IP address and port; port 0 lets the kernel pick one.
    Tcp(SocketAddr),
    /// A Unix socket, by its absolute path.
    Unix(PathBuf),
}

/// The address that counters are served on. It has the same kinds, but must differ from every client
/// address.
pub type StatusAddress = ListenAddress;

/// Longest path of a Unix socket: `sun_path` without its final NUL, unix(7).
const UNIX_PATH_MAX: usize = 107;

impl ListenAddress {
    /// Whether this is a TCP address.
    pub fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }

    /// Parses a text that stands for one or several addresses. `:80` means every address of this machine.
    /// `localhost:80` means both loopback addresses. IPv6 addresses are included only if the machine has
    /// IPv6. `absolute` completes the path of a Unix socket. The error says what is allowed.
    pub(super) fn parse_all(
        text: &str,
        absolute: impl Fn(&str) -> Result<PathBuf, String>,
    ) -> Result<Vec<Self>, String> {
        let Some(path) = text.strip_prefix("unix:") else { return parse_tcp(text) };
        let path = absolute(path)?;
        match path.as_os_str().len() {
            ..=UNIX_PATH_MAX => Ok(vec![Self::Unix(path)]),
            len => Err(format!("{} has {len} bytes; allowed: at most {UNIX_PATH_MAX}", path.display())),
        }
    }

    /// Whether the two addresses cannot both be bound. Port 0 is a different port each time. An IPv6
    /// socket does not accept IPv4.
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

/// A set of addresses that do not overlap.
#[derive(Debug, Default)]
pub(super) struct Occupied<'a> {
    known: HashSet<&'a ListenAddress>,
    /// For each port and protocol: the first address, and the first address that means all addresses of
    /// this machine.
    ports: HashMap<(u16, bool), (&'a ListenAddress, Option<&'a ListenAddress>)>,
}

impl<'a> Occupied<'a> {
    /// Adds an address. If it [overlaps](ListenAddress::overlaps) with one that is already here, returns
    /// that one instead.
    pub(super) fn add(&mut self, address: &'a ListenAddress) -> Option<&'a ListenAddress> {
        if let ListenAddress::Tcp(tcp) = address {
            if tcp.port() == 0 {
                return None;
            }
            let all = tcp.ip().is_unspecified().then_some(address);
            match self.ports.entry((tcp.port(), tcp.is_ipv4())) {
                Entry::Vacant(vacant) => {
                    vacant.insert((address, all));
                }
                Entry::Occupied(mut occupied) => match occupied.get_mut() {
                    (first, _) if all.is_some() => return Some(first),
                    (_, all) => {
                        if let Some(all) = all {
                            return Some(all);
                        }
                    }
                },
            }
        }
        self.known.replace(address)
    }
}

/// Parses one address. If the text stands for several, this is the IPv4 one. The path of a Unix socket
/// starts from the current directory. The error says what is allowed.
impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let absolute = |path: &str| std::path::absolute(path).map_err(|error| error.to_string());
        Ok(Self::parse_all(text, absolute)?.swap_remove(0))
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

fn parse_tcp(text: &str) -> Result<Vec<ListenAddress>, String> {
    let of_name = |name: &str| text.strip_prefix(name)?.strip_prefix(':')?.parse::<u16>().ok();
    let both = |v4: Ipv4Addr, v6: Ipv6Addr, port: u16| -> Vec<ListenAddress> {
        let v6 = has_ipv6().then(|| SocketAddr::from((v6, port)));
        [Some((v4, port).into()), v6].into_iter().flatten().map(ListenAddress::Tcp).collect()
    };
    if let Some(port) = of_name("") {
        return Ok(both(Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED, port));
    }
    if let Some(port) = of_name("localhost") {
        return Ok(both(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST, port));
    }
    if let Ok(port) = text.parse::<u16>() {
        return Err(format!(
            "a port alone; allowed: \":{port}\" for all addresses, \"localhost:{port}\" for this machine only"
        ));
    }
    text.parse().map(|address| vec![ListenAddress::Tcp(address)]).map_err(|_| {
        let wrong = match text.rsplit_once(':') {
            _ if text.parse::<IpAddr>().is_ok() => "the port is missing; ",
            None => "",
            Some((_, port)) if port.parse::<u16>().is_err() => "the port is not a number up to 65535; ",
            Some(_) => "not an IP address; ",
        };
        format!(
            "{wrong}allowed: ADDRESS:PORT such as \"127.0.0.1:8080\" or \"[::]:80\", \"localhost:PORT\", \
             \":PORT\" for all addresses, or \"unix:PATH\""
        )
    })
}

/// Whether some interface has an IPv6 address. If `/proc` does not say, this checks the loopback
/// interface only.
fn has_ipv6() -> bool {
    match std::fs::read("/proc/net/if_inet6") {
        Ok(addresses) => !addresses.is_empty(),
        Err(_) => std::net::UdpSocket::bind((std::net::Ipv6Addr::LOCALHOST, 0)).is_ok(),
    }
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
        for text in
            ["", "80", ":", ":65536", "localhost", "example.org:80", "::1:80", "unix:", "127.0.0.1:65536"]
        {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn short_forms_stand_for_both_protocols() {
        for (text, [v4, v6]) in
            [(":80", ["0.0.0.0:80", "[::]:80"]), ("localhost:8080", ["127.0.0.1:8080", "[::1]:8080"])]
        {
            let all = ListenAddress::parse_all(text, |_| Err("no path".to_owned())).expect("addresses");
            let all: Vec<_> = all.iter().map(ListenAddress::to_string).collect();
            assert!(all == [v4, v6] || !has_ipv6() && all == [v4], "{all:?}");
            assert_eq!(text.parse::<ListenAddress>().map(|one| one.to_string()), Ok(v4.to_owned()));
        }
    }

    #[test]
    fn what_is_occupied_is_told_as_by_looking_at_each() {
        let all =
            ["127.0.0.1:80", "0.0.0.0:80", "[::]:80", "[::1]:80", "127.0.0.1:0", "10.0.0.1:80", "unix:/a"];
        let all: Vec<ListenAddress> = all.iter().map(|text| text.parse().expect("an address")).collect();
        for a in &all {
            for b in &all {
                let mut occupied = Occupied::default();
                assert_eq!(occupied.add(a), None);
                assert_eq!(occupied.add(b), Some(a).filter(|a| a.overlaps(b)), "{a} {b}");
            }
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
