//! A server that is already running, at an address of this machine. The lab neither starts nor ends it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The address and process of such a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The address on which it listens.
    pub address: SocketAddr,
    /// The path of its URL.
    pub path: String,
    /// The process whose CPU time and memory count, with all its descendants.
    pub pid: Option<u32>,
}

/// The beginning of a URL.
pub(super) const SCHEME: &str = "http://";

const ALLOWED: &str = "allowed: a server of this machine by its URL, such as http://127.0.0.1:8080/, and its \
    process, such as 'http://127.0.0.1:8080/ pid=1234'";

impl Running {
    /// Parses the words that users type: a URL, and possibly the process id.
    pub(super) fn of(words: &[String]) -> Result<Self, String> {
        let (url, others) = words.split_first().ok_or(ALLOWED)?;
        let rest = url.strip_prefix(SCHEME).ok_or_else(|| format!("{url} is no URL; {ALLOWED}"))?;
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let address = address(authority).ok_or_else(|| format!("{url} has no address; {ALLOWED}"))?;
        if !address.ip().is_loopback() {
            return Err(format!(
                "{url} is not on the loopback interface, and other traffic shares the network to it; \
                 {ALLOWED}; for servers elsewhere use `sluicelab load`"
            ));
        }
        let path = if path.is_empty() { "/" } else { path };
        workload::target::check(path)?;
        let mut pid = None;
        for word in others {
            let number = word.strip_prefix("pid=").and_then(|number| number.parse().ok());
            pid = Some(number.filter(|pid| *pid > 0).ok_or_else(|| format!("{word:?} of {url}; {ALLOWED}"))?);
        }
        Ok(Self { address, path: path.to_owned(), pid })
    }
}

fn address(authority: &str) -> Option<SocketAddr> {
    let host = authority.strip_prefix("localhost").map(|port| format!("{}{port}", Ipv4Addr::LOCALHOST));
    let authority = host.as_deref().unwrap_or(authority);
    let bare = || authority.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
    authority.parse().ok().or_else(|| bare().map(|ip| SocketAddr::from((ip, 80))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Running, String> {
        Running::of(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_running_server_is_a_url_of_this_machine() {
        let told = |text: &str| of(text).map(|of| format!("{} {} {:?}", of.address, of.path, of.pid));
        for (text, expected) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080 / None"),
            ("http://localhost:81/a?b pid=7", "127.0.0.1:81 /a?b Some(7)"),
            ("http://[::1]:82/", "[::1]:82 / None"),
            ("http://127.0.0.1/", "127.0.0.1:80 / None"),
        ] {
            assert_eq!(told(text).as_deref(), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("http://192.0.2.1:80/", "is not on the loopback interface"),
            ("http://example.org/", "has no address"),
            ("http://127.0.0.1:x/", "has no address"),
            ("http://127.0.0.1/a|b", "must be percent-encoded"),
            ("http://127.0.0.1/ pid=0", "\"pid=0\" of http://127.0.0.1/"),
            ("http://127.0.0.1/ workers=3", "\"workers=3\" of"),
        ] {
            assert!(of(text).unwrap_err().contains(expected), "{text}: {:?}", of(text));
        }
    }
}
