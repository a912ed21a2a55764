//! The addresses of one name, in shared memory. One process writes them at a time, and any number read them.
//!
//! The version is odd while they are written. A reader that sees an odd version, or another one afterwards,
//! keeps what it has, and looks again at the next request. A writer that dies in between leaves an odd
//! version. The next one goes on from there.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use arrayvec::ArrayVec;

/// Most addresses of a name that are used.
pub const MOST_ADDRESSES: usize = 16;

sys::shareable! {
    /// The addresses of a name.
    #[derive(Debug)]
    pub struct Addresses {
        /// 0: the name has not been looked up yet.
        version: AtomicU32,
        count: AtomicU32,
        /// Each as an IPv6 address: the first half and the second half. IPv4 addresses are mapped (RFC 4291
        /// section 2.5.5.2).
        halves: [[AtomicU64; 2]; MOST_ADDRESSES],
    }
}

impl Addresses {
    /// Writes the addresses, the first [`MOST_ADDRESSES`] of them. Only one process may do this at a time.
    pub fn set(&self, addresses: &[IpAddr]) {
        let begun = self.version.load(Ordering::Relaxed) | 1;
        self.version.store(begun, Ordering::Relaxed);
        fence(Ordering::Release);
        let addresses = &addresses[..addresses.len().min(MOST_ADDRESSES)];
        self.count.store(addresses.len() as u32, Ordering::Relaxed);
        for (address, [first, second]) in addresses.iter().zip(&self.halves) {
            let bits = match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
                IpAddr::V6(v6) => v6.to_bits(),
            };
            first.store((bits >> 64) as u64, Ordering::Relaxed);
            second.store(bits as u64, Ordering::Relaxed);
        }
        // After 2^31 changes the version would be 0 again, which says something else.
        let ended = if begun == u32::MAX { 2 } else { begun + 1 };
        self.version.store(ended, Ordering::Release);
    }

    /// The addresses with their version, if that is not `known`. `None`: nothing has changed, or they are
    /// being written.
    pub fn since(&self, known: u32) -> Option<(u32, ArrayVec<IpAddr, MOST_ADDRESSES>)> {
        let version = self.version.load(Ordering::Acquire);
        if version == known || version % 2 == 1 {
            return None;
        }
        let count = (self.count.load(Ordering::Relaxed) as usize).min(MOST_ADDRESSES);
        let read = |[first, second]: &[AtomicU64; 2]| {
            let [first, second] = [first, second].map(|half| u128::from(half.load(Ordering::Relaxed)));
            IpAddr::V6(Ipv6Addr::from_bits(first << 64 | second)).to_canonical()
        };
        let addresses = self.halves[..count].iter().map(read).collect();
        fence(Ordering::Acquire);
        (self.version.load(Ordering::Relaxed) == version).then_some((version, addresses))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use sys::shared::Shared;

    use super::*;

    #[test]
    fn what_is_written_is_read_once() {
        let shared: Shared<Addresses> = Shared::new().expect("memory");
        assert_eq!(shared.since(0), None);
        let addresses: [IpAddr; 2] = ["192.0.2.1".parse().expect("v4"), "2001:db8::1".parse().expect("v6")];
        shared.set(&addresses);
        let (version, read) = shared.since(0).expect("a change");
        assert_eq!((&read[..], shared.since(version)), (&addresses[..], None));
        shared.set(&[]);
        assert!(shared.since(version).is_some_and(|(_, read)| read.is_empty()));
        shared.set(&[addresses[0]; MOST_ADDRESSES + 1]);
        assert!(shared.since(version).is_some_and(|(_, read)| read.len() == MOST_ADDRESSES));
    }

    #[test]
    fn a_writer_that_died_in_between_is_followed_by_another() {
        let shared: Shared<Addresses> = Shared::new().expect("memory");
        shared.version.store(5, Ordering::Relaxed);
        assert_eq!(shared.since(4), None);
        shared.set(&[]);
        assert_eq!(shared.since(4), Some((6, ArrayVec::new())));
        shared.version.store(u32::MAX, Ordering::Relaxed);
        shared.set(&[]);
        assert_eq!(shared.since(0), Some((2, ArrayVec::new())));
    }

    #[test]
    fn no_reader_sees_halves_of_two_lists() {
        let shared: Shared<Addresses> = Shared::new().expect("memory");
        let list = |number: u32| vec![IpAddr::V4(number.into()); number as usize % MOST_ADDRESSES];
        thread::scope(|scope| {
            scope.spawn(|| (0..100_000).for_each(|number| shared.set(&list(number))));
            let mut known = 0;
            while known < 150_000 {
                let Some((version, addresses)) = shared.since(known) else { continue };
                let number = version / 2 - 1;
                assert_eq!(&addresses[..], &list(number)[..], "version {version}");
                known = version;
            }
        });
    }
}
