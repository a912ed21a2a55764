//! Calls that were not served by size, of each client apart.
//!
//! The papers drove one server from many machines, and asked that no size be starved at any of them (Harji et
//! al. 2012, which had 16). Here a *client* is a shard of the sessions: session `n` belongs to client `n mod
//! 16`.

use std::collections::BTreeMap;

use super::BySize;
use crate::record::Call;

/// How many clients the sessions are dealt to.
pub const CLIENTS: usize = 16;

/// Calls of each client for each request. Which size that is may be learnt later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByClient {
    /// Calls that reached a server, by request.
    reached: Vec<[u32; CLIENTS]>,
    /// Of these, calls that were not served.
    unserved: Vec<[u32; CLIENTS]>,
}

/// What one client found of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls that [reached a server](crate::record::Outcome::reached_server).
    pub reached: u64,
    /// Of these, calls that were [not served](Call::is_unserved).
    pub unserved: u64,
}

impl Tally {
    /// The part of its calls that was not served.
    pub fn part(self) -> f64 {
        if self.reached == 0 { 0.0 } else { self.unserved as f64 / self.reached as f64 }
    }
}

impl ByClient {
    pub(super) fn new(requests: usize) -> Self {
        // Zeros come from the kernel when they are touched first, so what is never called for takes no
        // memory.
        Self { reached: vec![[0; CLIENTS]; requests], unserved: vec![[0; CLIENTS]; requests] }
    }

    /// Each size with its tallies, one for each client; what is of unknown size together, under `None`.
    pub fn each(&self, sizes: &BySize) -> BTreeMap<Option<u64>, [Tally; CLIENTS]> {
        let mut all: BTreeMap<Option<u64>, [Tally; CLIENTS]> = BTreeMap::new();
        for (request, (reached, unserved)) in (0..).zip(self.reached.iter().zip(&self.unserved)) {
            if reached.iter().all(|calls| *calls == 0) {
                continue;
            }
            let tallies = all.entry(sizes.size_of(request)).or_default();
            for (tally, (reached, unserved)) in tallies.iter_mut().zip(reached.iter().zip(unserved)) {
                tally.reached += u64::from(*reached);
                tally.unserved += u64::from(*unserved);
            }
        }
        all
    }

    /// The client and size with the largest part that was not served, among those with at least so many
    /// calls.
    pub fn worst(&self, sizes: &BySize, least_calls: u64) -> Option<(Option<u64>, usize, Tally)> {
        self.each(sizes)
            .into_iter()
            .flat_map(|(size, clients)| {
                clients.into_iter().enumerate().map(move |(client, tally)| (size, client, tally))
            })
            .filter(|(_, _, tally)| tally.reached >= least_calls)
            .max_by(|(_, _, a), (_, _, b)| a.part().total_cmp(&b.part()))
    }

    pub(super) fn take(&mut self, call: &Call) {
        let (request, client) = (call.request as usize, call.session as usize % CLIENTS);
        if !call.outcome.reached_server() || request >= self.reached.len() {
            return;
        }
        self.reached[request][client] += 1;
        if call.is_unserved() {
            self.unserved[request][client] += 1;
        }
    }

    pub(super) fn take_in(&mut self, other: &Self) {
        for (mine, theirs) in [(&mut self.reached, &other.reached), (&mut self.unserved, &other.unserved)] {
            let mine = mine.as_flattened_mut().iter_mut();
            mine.zip(theirs.as_flattened()).for_each(|(mine, theirs)| *mine += theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;
    use crate::record::Outcome;

    fn tallies(calls: &[(u32, u32, Outcome, u64)]) -> (ByClient, BySize) {
        let (mut clients, mut sizes) = (ByClient::new(2), BySize::new(2));
        for &(session, request, outcome, body_bytes) in calls {
            let call = Call { request, session, body_bytes, ..call(outcome, 0, 1_000_000) };
            clients.take(&call);
            sizes.take(&call);
        }
        (clients, sizes)
    }

    #[test]
    fn clients_are_told_apart() {
        let (clients, sizes) = tallies(&[
            // Before anybody knows the size.
            (0, 0, Outcome::ReplyTimeout, 0),
            (0, 0, Outcome::Reply, 500),
            (1, 0, Outcome::Reset, 0),
            (17, 0, Outcome::Reply, 500),
            (2, 0, Outcome::Refused, 0),
            (2, 0, Outcome::ConnectTimeout, 0),
            (0, 1, Outcome::Reply, 9000),
            (0, 9, Outcome::Reply, 9000),
        ]);
        let found: Vec<_> =
            clients.each(&sizes).into_iter().map(|(size, all)| (size, all[0], all[1], all[2])).collect();
        let of = |reached, unserved| Tally { reached, unserved };
        assert_eq!(
            found,
            [(Some(500), of(2, 1), of(2, 1), of(0, 0)), (Some(9000), of(1, 0), of(0, 0), of(0, 0))]
        );
        assert_eq!(clients.worst(&sizes, 2), Some((Some(500), 1, of(2, 1))));
        assert_eq!(clients.worst(&sizes, 3), None);
    }

    #[test]
    fn what_is_never_answered_is_a_size() {
        let (clients, sizes) = tallies(&[
            (3, 0, Outcome::Reply, 500),
            (3, 1, Outcome::Closed, 0),
            (3, 1, Outcome::ReplyTimeout, 0),
        ]);
        assert_eq!(clients.worst(&sizes, 1), Some((None, 3, Tally { reached: 2, unserved: 2 })));
    }

    #[test]
    fn one_thread_may_know_sizes_that_another_lacks() {
        let (mut one, mut sizes) = tallies(&[(1, 0, Outcome::ReplyTimeout, 0)]);
        let (other, learnt) = tallies(&[(1, 0, Outcome::Reply, 500)]);
        one.take_in(&other);
        sizes.take_in(&learnt);
        let found: Vec<_> = one.each(&sizes).into_iter().map(|(size, all)| (size, all[1])).collect();
        assert_eq!(found, [(Some(500), Tally { reached: 2, unserved: 1 })]);
    }
}
