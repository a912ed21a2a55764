//! Clients that are charged together: those of one network. A network gets no larger part of a pool's queue
//! or of a worker's leftover work by sending more requests or opening more connections.

use std::net::IpAddr;

use sys::socket::PeerAddress;

/// A network of clients, as a number from 0 to [`Account::ALL`] - 1. Different networks may have the same
/// number; they share its part then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account(u16);

impl Account {
    /// How many numbers there are.
    pub const ALL: usize = 1 << Self::BITS;

    /// The account of no client.
    pub const NOBODY: Self = Self(0);

    const BITS: u32 = 12;

    /// A client's account: its /24 of IPv4, its /56 of IPv6 (the usual allocation for one site, RFC 6177),
    /// or this machine.
    pub fn of(client: &PeerAddress) -> Self {
        let prefix = match client {
            PeerAddress::Unix => 0,
            PeerAddress::Inet(address) => match address.ip().to_canonical() {
                IpAddr::V4(address) => u64::from(address.to_bits() >> 8) | 1 << 63,
                IpAddr::V6(address) => (address.to_bits() >> 72) as u64,
            },
        };
        // Fibonacci hashing: prefixes are often neighbours.
        Self((prefix.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - Self::BITS)) as u16)
    }

    /// The account of that number. Of larger numbers only the low bits count.
    pub const fn from_number(number: u32) -> Self {
        Self((number as usize % Self::ALL) as u16)
    }

    /// Its number.
    pub const fn number(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_apart_by_their_networks() {
        let account = |address: &str| Account::of(&PeerAddress::Inet(address.parse().unwrap()));
        assert_eq!(account("192.0.2.1:1"), account("192.0.2.200:2"));
        assert_eq!(account("192.0.2.1:1"), account("[::ffff:192.0.2.9]:1"));
        assert_ne!(account("192.0.2.1:1"), account("192.0.3.1:1"));
        assert_eq!(account("[2001:db8:0:1::1]:1"), account("[2001:db8:0:ff::1]:1"));
        assert_ne!(account("[2001:db8:0:1::1]:1"), account("[2001:db8:0:100::1]:1"));
    }

    proptest::proptest! {
        /// Accounts index arrays of [`Account::ALL`] entries.
        #[test]
        fn every_client_has_one(bits: u128, port: u16) {
            let v4 = std::net::Ipv4Addr::from_bits(bits as u32);
            for ip in [IpAddr::V4(v4), IpAddr::V6(bits.into())] {
                let account = Account::of(&PeerAddress::Inet((ip, port).into()));
                proptest::prop_assert!(account.number() < Account::ALL);
                proptest::prop_assert_eq!(Account::from_number(account.number() as u32), account);
            }
        }
    }
}
