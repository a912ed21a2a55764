//! A set of networks: sorted ranges of addresses that neither overlap nor touch. So one search finds the
//! only range that may contain an address.

use std::net::IpAddr;

/// Networks of both families.
#[derive(Debug, Default)]
pub(super) struct Networks {
    v4: Vec<(u128, u128)>,
    v6: Vec<(u128, u128)>,
}

impl Networks {
    /// Builds the set. Each network is given by its first and its last address.
    pub(super) fn new(networks: impl Iterator<Item = (IpAddr, IpAddr)>) -> Self {
        let (v4, v6): (Vec<_>, Vec<_>) = networks.partition(|(first, _)| first.is_ipv4());
        let numbers = |networks: Vec<_>| networks.iter().map(|(from, to)| (bits(*from), bits(*to))).collect();
        Self { v4: joined(numbers(v4)), v6: joined(numbers(v6)) }
    }

    /// Whether one of the networks contains an address. An IPv4 address written as IPv6 counts as IPv4.
    pub(super) fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let (ranges, number) = (if address.is_ipv4() { &self.v4 } else { &self.v6 }, bits(address));
        let behind = ranges.partition_point(|(first, _)| *first <= number);
        behind > 0 && number <= ranges[behind - 1].1
    }
}

/// Merges ranges, so that the result is sorted and its ranges do not touch.
fn joined(mut ranges: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    ranges.sort_unstable();
    ranges.dedup_by(|(first, last), (_, end)| {
        let is_joined = *first <= end.saturating_add(1);
        if is_joined {
            *end = (*end).max(*last);
        }
        is_joined
    });
    ranges
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn v4(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(number).into()
    }

    proptest! {
        #[test]
        fn an_address_is_in_them_if_it_is_in_one(
            ranges in prop::collection::vec((0_u32..60, 0_u32..9), 0..12),
            base in prop::sample::select(vec![0, u32::MAX - 80]),
        ) {
            let ranges: Vec<_> = ranges.iter().map(|(at, size)| (base + at, base + at + size)).collect();
            let networks = Networks::new(ranges.iter().map(|(first, last)| (v4(*first), v4(*last))));
            for address in base..=base + 80 {
                let is_in = ranges.iter().any(|(first, last)| (first..=last).contains(&&address));
                prop_assert_eq!(networks.contain(v4(address)), is_in);
                let IpAddr::V4(mapped) = v4(address) else { unreachable!() };
                prop_assert_eq!(networks.contain(mapped.to_ipv6_mapped().into()), is_in);
            }
            prop_assert!(!networks.contain("::1".parse().unwrap()));
        }
    }
}
