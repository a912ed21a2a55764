//! Which hosts the status endpoint answers for, to protect it from DNS rebinding.
//!
//! A browser on an operator's machine can reach the endpoint. A hostile site may make its own name
//! resolve to the endpoint's address. The page of that site could then read the status. The browser sends
//! that name as Host, so the endpoint refuses all names that are not configured.

use std::net::IpAddr;

use http1::Head;

use crate::config::HostPattern;

/// The body of a refusal.
pub(super) const REFUSAL: &str = "the status endpoint answers for its own address and localhost only, not \
                                  for the host asked for; the setting status_hosts adds hosts";

/// The configured hosts. The endpoint also answers for its own address and `localhost`.
#[derive(Debug, Clone, Default)]
pub struct Hosts(Vec<HostPattern>);

impl Hosts {
    /// The configured hosts.
    pub fn new(hosts: Vec<HostPattern>) -> Self {
        Self(hosts)
    }

    /// Whether the endpoint answers a request that came to this address. `None` is a Unix socket, which
    /// no browser can reach. A request that names no host is answered, because browsers always name one.
    /// The port does not matter: it may be forwarded, and rebinding does not change it.
    pub(super) fn allow(&self, head: &Head<'_>, own: Option<IpAddr>) -> bool {
        let Some(own) = own else { return true };
        match head.host_name() {
            None | Some(b"") => true,
            Some(host) => std::str::from_utf8(host).is_ok_and(|host| self.has(host, own)),
        }
    }

    fn has(&self, host: &str, own: IpAddr) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let literal = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
        let address = literal.unwrap_or(&host).parse::<IpAddr>().ok();
        // The form that a setting has.
        let host = match address {
            Some(IpAddr::V6(address)) => format!("[{address}]"),
            _ => host,
        };
        host == "localhost"
            || address.is_some_and(|address| address.to_canonical() == own.to_canonical())
            || self.0.iter().any(|pattern| pattern.has(&host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_localhost_and_set_names_alone_are_answered() {
        let set = ["status.example", "*.int.example", "203.0.113.7", "[2001:db8::7]"];
        let set = Hosts::new(set.iter().map(|host| HostPattern::parse(host).unwrap()).collect());
        let v4: IpAddr = [192, 0, 2, 1].into();
        let v6: IpAddr = "2001:db8::1".parse().unwrap();
        for (own, host, answered) in [
            (v4, "192.0.2.1", true),
            (v6, "[2001:db8::1]", true),
            (v6, "[2001:DB8:0:0::1]", true),
            (v4, "[::ffff:192.0.2.1]", true),
            (v4, "localhost", true),
            (v6, "LocalHost.", true),
            (v4, "Status.Example", true),
            (v4, "status.example.", true),
            (v4, "a.b.int.example", true),
            (v4, "203.0.113.7", true),
            (v6, "[2001:db8:0::7]", true),
            (v4, "192.0.2.2", false),
            (v4, "[2001:db8::1]", false),
            (v6, "192.0.2.1", false),
            (v4, "int.example", false),
            (v4, "evilint.example", false),
            (v4, "evil.example", false),
            (v4, "192.0.2.1.evil.example", false),
            (v4, "localhost.evil.example", false),
            (v4, "notlocalhost", false),
            (v4, "status.example.evil", false),
        ] {
            assert_eq!(set.has(host, own), answered, "{host} at {own}");
        }
    }
}
