//! An IP address as text, without an allocation or the formatting machinery. Each request needs one for
//! access logs and for the parameters of applications.

use std::io::Write as _;
use std::net::IpAddr;

/// The text of an address. An IPv4 address within IPv6 appears as IPv4.
#[derive(Clone, Copy, Debug)]
pub struct IpText {
    bytes: [u8; MOST],
    length: usize,
}

/// An IPv6 address that ends in an IPv4 one is the longest.
const MOST: usize = 45;

impl IpText {
    /// The text of that address.
    pub fn of(address: IpAddr) -> Self {
        let mut text = Self { bytes: [0; MOST], length: 0 };
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let mut numbers = itoa::Buffer::new();
                for (place, octet) in address.octets().into_iter().enumerate() {
                    if place > 0 {
                        text.push(b".");
                    }
                    text.push(numbers.format(octet).as_bytes());
                }
            }
            IpAddr::V6(address) => {
                let mut room = &mut text.bytes[..];
                // The buffer has room for every address.
                let _ = write!(room, "{address}");
                text.length = MOST - room.len();
            }
        }
        text
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_address_prints() {
        for text in [
            "0.0.0.0",
            "127.0.0.1",
            "192.0.2.255",
            "255.255.255.255",
            "::",
            "::1",
            "2001:db8::7",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ] {
            assert_eq!(IpText::of(text.parse().unwrap()).as_bytes(), text.as_bytes());
        }
        assert_eq!(IpText::of("::ffff:192.0.2.7".parse().unwrap()).as_bytes(), b"192.0.2.7");
    }
}
