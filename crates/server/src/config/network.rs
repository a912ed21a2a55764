//! Networks of IP addresses, and which clients are the operator's trusted proxies.

use std::fmt;
use std::net::IpAddr;

/// Addresses that share the same leading bits (RFC 4632 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// The number of shared bits.
    prefix: u8,
}

/// A trusted proxy: it may say for which client it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedProxy {
    /// Any client that connects from one of these addresses.
    Network(Network),
    /// Any client that connects to a Unix socket.
    Unix,
}

/// The part of a request's origin that a proxy may state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldOrigin {
    /// `http` or `https`.
    Scheme,
    /// The host, with or without its port.
    Host,
    /// The port.
    Port,
}

impl Network {
    /// Parses `10.0.0.0/8`, or a single address. Bits after the prefix must be zero: otherwise the
    /// operator probably meant something else.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => most,
            Some(prefix) if prefix.bytes().all(|digit| digit.is_ascii_digit()) => prefix.parse().ok()?,
            Some(_) => return None,
        };
        let network = Self { address, prefix };
        (prefix <= most && bits(address) & !mask(prefix, most) == 0).then_some(network)
    }

    /// The first and the last address of the network.
    pub fn bounds(self) -> (IpAddr, IpAddr) {
        let last = match self.address {
            IpAddr::V4(address) => {
                let rest = !mask(self.prefix, 32) as u32;
                IpAddr::from(std::net::Ipv4Addr::from_bits(address.to_bits() | rest))
            }
            IpAddr::V6(address) => {
                IpAddr::from(std::net::Ipv6Addr::from_bits(address.to_bits() | !mask(self.prefix, 128)))
            }
        };
        (self.address, last)
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// A mask of the first `prefix` of `most` bits.
fn mask(prefix: u8, most: u8) -> u128 {
    let all = u128::MAX >> (128 - u32::from(most));
    let rest = u32::from(most.saturating_sub(prefix));
    all & u128::MAX.checked_shl(rest).unwrap_or(0)
}

impl fmt::Display for TrustedProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(Network { address, prefix }) => write!(f, "{address}/{prefix}"),
            Self::Unix => f.write_str("unix"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_a_first_and_a_last_address() {
        for (network, first, last) in [
            ("10.0.0.0/8", "10.0.0.0", "10.255.255.255"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.7"),
            ("192.0.2.0/23", "192.0.2.0", "192.0.3.255"),
            ("0.0.0.0/0", "0.0.0.0", "255.255.255.255"),
            ("::/0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2001:db8::/33", "2001:db8::", "2001:db8:7fff:ffff:ffff:ffff:ffff:ffff"),
        ] {
            let bounds = (first.parse().unwrap(), last.parse().unwrap());
            assert_eq!(Network::parse(network).unwrap().bounds(), bounds, "{network}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "x", "10.0.0.0/33", "::/129", "10.0.0.1/8", "10.0.0.0/", "10.0.0.0/+8", "1.2.3.4:80"]
        {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }
}
