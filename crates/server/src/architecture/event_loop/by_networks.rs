//! The order of a work phase that is too short for all connections: fair to the networks of clients.
//!
//! A connection gets one quantum in a phase. If the last phase was cut short, the accept policy leaves time
//! for only some of the connections. In order of arrival, a client with a hundred downloads would get a
//! hundred quanta for the one of another client. So the first connection of each network comes before the
//! second of any network, and so on. Networks with few connections get as much as they can use, and the
//! others get the rest.

use crate::account::Account;

/// State for ordering connections.
#[derive(Debug)]
pub(super) struct ByNetworks {
    /// How many connections of each network there have been so far.
    seen: Box<[u32; Account::ALL]>,
    turns: Vec<Turn>,
}

/// A connection's rank: first by how many of its network come before it, then by its old position.
#[derive(Debug)]
struct Turn {
    before: u32,
    at: u32,
    index: u32,
    account: usize,
}

impl ByNetworks {
    pub(super) fn new() -> Self {
        Self { seen: Box::new([0; Account::ALL]), turns: Vec::new() }
    }

    /// Orders connections. Those of one network keep their order.
    pub(super) fn order(&mut self, work: &mut [u32], mut account_of: impl FnMut(u32) -> Account) {
        self.turns.clear();
        for (at, &index) in work.iter().enumerate() {
            let account = account_of(index).number();
            self.turns.push(Turn { before: self.seen[account], at: at as u32, index, account });
            self.seen[account] += 1;
        }
        self.turns.sort_unstable_by_key(|turn| (turn.before, turn.at));
        for (place, turn) in work.iter_mut().zip(&self.turns) {
            *place = turn.index;
            self.seen[turn.account] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Connections are numbered with a hundred for each network.
    fn account_of(index: u32) -> Account {
        Account::from_number(index / 100)
    }

    #[test]
    fn the_first_of_each_network_go_before_the_second_of_any() {
        let mut by_networks = ByNetworks::new();
        for _ in 0..2 {
            let mut work = [105, 101, 102, 103, 300, 201, 200];
            by_networks.order(&mut work, account_of);
            assert_eq!(work, [105, 300, 201, 101, 200, 102, 103]);
        }
    }

    proptest! {
        /// This holds however many connections another network has, and however few there is time for.
        #[test]
        fn a_network_with_few_is_served_in_each_phase(
            many in 1_u32..100,
            few in 1_u32..4,
            time_for in 8_usize..20,
        ) {
            let mut by_networks = ByNetworks::new();
            let mut work: Vec<u32> = (100..100 + many).chain(200..200 + few).collect();
            for phase in 0..50 {
                by_networks.order(&mut work, account_of);
                let served: Vec<u32> = work.drain(..time_for.min(work.len())).collect();
                let of_few = served.iter().filter(|index| **index >= 200).count() as u32;
                prop_assert_eq!(of_few, few, "in phase {}: {:?}", phase, served);
                // They have used up their quantum.
                work.extend(served);
            }
        }
    }
}
