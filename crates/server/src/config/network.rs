//! Networks of IP addresses, and who of those who connect is a proxy of the operator's.

use std::fmt;
use std::net::IpAddr;

/// Addresses that begin with the same bits (RFC 4632 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// How many bits.
    prefix: u8,
}

/// Who may speak for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedProxy {
    /// Whoever connects from one of these addresses.
    Network(Network),
    /// Whoever connects to a Unix socket.
    Unix,
}

impl Network {
    /// Reads `10.0.0.0/8`, or an address alone. Bits behind the prefix have to be zero: whoever set them
    /// meant something else.
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

    /// Whether an address is one of them. An IPv4 address that is written as one of IPv6 is meant as such.
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let most = if address.is_ipv4() { 32 } else { 128 };
        address.is_ipv4() == self.address.is_ipv4()
            && (bits(address) ^ bits(self.address)) & mask(self.prefix, most) == 0
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The first `prefix` of `most` bits.
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

    fn contains(network: &str, address: &str) -> bool {
        Network::parse(network).unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn networks_contain_their_addresses() {
        assert!(contains("10.0.0.0/8", "10.255.0.1") && !contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("10.0.0.0/8", "::ffff:10.1.2.3") && !contains("10.0.0.0/8", "a00::"));
        assert!(contains("192.0.2.7", "192.0.2.7") && !contains("192.0.2.7", "192.0.2.6"));
        assert!(contains("0.0.0.0/0", "255.255.255.255") && !contains("0.0.0.0/0", "::1"));
        assert!(contains("::/0", "2001:db8::1") && !contains("::/0", "1.2.3.4"));
        assert!(
            contains("2001:db8::/33", "2001:db8:7fff::") && !contains("2001:db8::/33", "2001:db8:8000::")
        );
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "x", "10.0.0.0/33", "::/129", "10.0.0.1/8", "10.0.0.0/", "10.0.0.0/+8", "1.2.3.4:80"]
        {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }
}
