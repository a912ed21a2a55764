//! Counters of packets and connections in `/proc/net`, by the names that the kernel has for them.

use crate::text::column;

/// A value of the group `TcpExt` in the text of `/proc/net/netstat`, which has a line of names above a line
/// of values. `None` if this kernel does not count it.
pub fn tcp_extension(netstat: &str, name: &str) -> Option<u64> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let place = lines.next()?.split_ascii_whitespace().position(|known| known == name)?;
    column(lines.next()?, place)
}

/// Packets dropped as a processor's backlog was full, all processors together: the second column of
/// `/proc/net/softnet_stat`.
pub fn softnet_drops(softnet: &str) -> u64 {
    let drops = softnet.lines().filter_map(|line| line.split_ascii_whitespace().nth(1));
    drops.filter_map(|drops| u64::from_str_radix(drops, 16).ok()).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn drops_of_all_processors_are_added_up() {
        assert_eq!(softnet_drops("0001 0000000a 00\n0002 00000001 00\n"), 11);
        assert_eq!(softnet_drops("0001\n\nx y\n"), 0);
    }

    proptest! {
        #[test]
        fn a_counter_is_found_by_its_name_wherever_it_is(
            values in prop::collection::vec(any::<u64>(), 1..40),
        ) {
            let names: Vec<_> = (0..values.len()).map(|place| format!("Name{place}")).collect();
            let row: Vec<_> = values.iter().map(u64::to_string).collect();
            let (names, row) = (names.join(" "), row.join(" "));
            let text = format!("IpExt: Name0\nIpExt: 7\nTcpExt: {names}\nTcpExt: {row}\n");
            for (place, value) in values.iter().enumerate() {
                prop_assert_eq!(tcp_extension(&text, &format!("Name{place}")), Some(*value));
            }
            prop_assert_eq!(tcp_extension(&text, "Name"), None);
        }
    }
}
