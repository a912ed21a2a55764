//! Timeouts by size, of each client apart.
//!
//! The papers drove one server from many machines, and asked that no size be starved at any of them (Harji et al. 2012, which had
//! 16). Here a *client* is a shard of the sessions: session `n` belongs to client `n mod 16`.

use crate::record::{Call, Outcome};

/// How many clients the sessions are dealt to.
pub const CLIENTS: usize = 16;

/// Sizes that are told apart; calls for others are in none.
const MOST_SIZES: usize = 64;
const NO_PLACE: u8 = u8::MAX;

/// Calls and timeouts of each client for each size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByClient {
    /// Sizes in order of first sight.
    sizes: Vec<u64>,
    /// Where in `sizes` a request's size is, as learnt from its last reply.
    of_request: Vec<u8>,
    tallies: Vec<[Tally; CLIENTS]>,
}

/// What one client found of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls that ended with a reply or a timeout.
    pub calls: u64,
    /// Calls that the client gave up.
    pub timeouts: u64,
}

impl Tally {
    /// The part of its calls that timed out.
    pub fn part(self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.timeouts as f64 / self.calls as f64 }
    }
}

impl ByClient {
    pub(super) fn new(requests: usize) -> Self {
        Self {
            sizes: Vec::with_capacity(MOST_SIZES),
            of_request: vec![NO_PLACE; requests],
            tallies: vec![[Tally::default(); CLIENTS]; MOST_SIZES],
        }
    }

    /// Each size with its tallies, one for each client.
    pub fn each(&self) -> impl Iterator<Item = (u64, &[Tally; CLIENTS])> {
        self.sizes.iter().copied().zip(&self.tallies)
    }

    /// The client and size with the largest part of timeouts, among those with at least so many calls.
    pub fn worst(&self, least_calls: u64) -> Option<(u64, usize, Tally)> {
        self.each()
            .flat_map(|(size, clients)| {
                clients.iter().enumerate().map(move |(client, tally)| (size, client, *tally))
            })
            .filter(|(_, _, tally)| tally.calls >= least_calls)
            .max_by(|(_, _, a), (_, _, b)| a.part().total_cmp(&b.part()))
    }

    /// Takes in a call. Timeouts before a request's first reply are of no size yet, and left out.
    pub(super) fn take(&mut self, call: &Call) {
        let timeout = matches!(call.outcome, Outcome::ConnectTimeout | Outcome::ReplyTimeout);
        if !timeout && call.outcome != Outcome::Reply {
            return;
        }
        let Some(known) = self.of_request.get(call.request as usize).copied() else { return };
        let place = if timeout { known } else { self.learn(call, known) };
        if let Some(clients) = self.tallies.get_mut(usize::from(place)) {
            let tally = &mut clients[call.session as usize % CLIENTS];
            tally.calls += 1;
            tally.timeouts += u64::from(timeout);
        }
    }

    fn learn(&mut self, call: &Call, known: u8) -> u8 {
        if self.sizes.get(usize::from(known)) == Some(&call.body_bytes) {
            return known;
        }
        let place = self.place(call.body_bytes);
        self.of_request[call.request as usize] = place;
        place
    }

    fn place(&mut self, size: u64) -> u8 {
        let known = self.sizes.iter().position(|known| *known == size);
        known.map_or_else(
            || {
                if self.sizes.len() == MOST_SIZES {
                    return NO_PLACE;
                }
                self.sizes.push(size);
                self.sizes.len() as u8 - 1
            },
            |place| place as u8,
        )
    }

    pub(super) fn take_in(&mut self, other: &Self) {
        for (size, clients) in other.each() {
            let place = self.place(size);
            let Some(mine) = self.tallies.get_mut(usize::from(place)) else { continue };
            for (mine, theirs) in mine.iter_mut().zip(clients) {
                mine.calls += theirs.calls;
                mine.timeouts += theirs.timeouts;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    fn of(session: u32, request: u32, outcome: Outcome, body_bytes: u64) -> Call {
        Call { request, session, body_bytes, ..call(outcome, 0, 1_000_000) }
    }

    #[test]
    fn clients_are_told_apart() {
        let mut clients = ByClient::new(2);
        clients.take(&of(0, 0, Outcome::ReplyTimeout, 0));
        clients.take(&of(0, 0, Outcome::Reply, 500));
        clients.take(&of(1, 0, Outcome::ReplyTimeout, 0));
        clients.take(&of(17, 0, Outcome::Reply, 500));
        clients.take(&of(2, 0, Outcome::Refused, 0));
        clients.take(&of(0, 1, Outcome::Reply, 9000));
        clients.take(&of(0, 9, Outcome::Reply, 9000));
        let sizes: Vec<_> =
            clients.each().map(|(size, tallies)| (size, tallies[0].calls, tallies[1])).collect();
        assert_eq!(sizes, [(500, 1, Tally { calls: 2, timeouts: 1 }), (9000, 1, Tally::default())]);
        assert_eq!(clients.worst(2), Some((500, 1, Tally { calls: 2, timeouts: 1 })));
        assert_eq!(clients.worst(3), None);
    }

    #[test]
    fn threads_may_learn_sizes_in_different_order() {
        let (mut one, mut other) = (ByClient::new(2), ByClient::new(2));
        one.take(&of(0, 0, Outcome::Reply, 500));
        other.take(&of(1, 1, Outcome::Reply, 9000));
        other.take(&of(1, 0, Outcome::Reply, 500));
        one.take_in(&other);
        let sizes: Vec<_> =
            one.each().map(|(size, tallies)| (size, tallies[0].calls, tallies[1].calls)).collect();
        assert_eq!(sizes, [(500, 1, 1), (9000, 0, 1)]);
    }

    #[test]
    fn sizes_without_end_do_not_fill_memory() {
        let mut clients = ByClient::new(1);
        for size in 0..1000 {
            clients.take(&of(0, 0, Outcome::Reply, size));
        }
        clients.take(&of(0, 0, Outcome::ReplyTimeout, 0));
        assert_eq!(clients.each().count(), MOST_SIZES);
        assert_eq!(clients.each().map(|(_, tallies)| tallies[0].calls).sum::<u64>(), MOST_SIZES as u64);
    }
}
