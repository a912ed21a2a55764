//! What went over the network in the window, whenever it began: requests sent, replies and failures that came
//! to their end.

use std::ops::Range;

use super::{Outcomes, Rates, Seconds, add_all, count_status};
use crate::record::{Call, Nanos, Outcome};

/// Counts of a window, of which rates are made.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Requests of which the last byte was sent.
    pub requests: u64,
    /// Their bytes.
    pub request_bytes: u64,
    /// How often calls that were over had been sent whole before, over connections that ended without a reply
    /// to them: these come on top of `requests`.
    pub resent: u64,
    /// Calls that were over, by outcome; none is `Unfinished`.
    pub outcomes: Outcomes,
    /// Handshakes that were over, of clients that only want these, by outcome; none is `Unfinished`.
    pub handshakes: Outcomes,
    /// Bytes of heads of whole replies.
    pub head_bytes: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// Whole replies by the first digit of their status, from 1xx.
    pub statuses: [u64; 5],
    /// Whole replies in each five seconds.
    pub reply_rates: Rates,
    /// What happened in each second.
    pub seconds: Seconds,
}

impl Flow {
    pub(super) fn new(from: Nanos) -> Self {
        Self {
            requests: 0,
            request_bytes: 0,
            resent: 0,
            outcomes: Outcomes::default(),
            handshakes: Outcomes::default(),
            head_bytes: 0,
            body_bytes: 0,
            statuses: [0; 5],
            reply_rates: Rates::new(from),
            seconds: Seconds::new(),
        }
    }

    /// Whole replies.
    pub fn replies(&self) -> u64 {
        self.statuses.iter().sum()
    }

    /// Bytes sent and received by calls that were answered: httperf's net I/O.
    pub fn bytes(&self) -> u64 {
        self.request_bytes + self.head_bytes + self.body_bytes
    }

    pub(super) fn call(&mut self, call: &Call, window: &Range<Nanos>) {
        if call.sent.is_some_and(|sent| window.contains(&sent)) {
            self.requests += 1;
            self.request_bytes += u64::from(call.request_bytes);
        }
        if window.contains(&call.ended) {
            self.resent += u64::from(call.resent);
        }
        if call.outcome == Outcome::Unfinished || !window.contains(&call.ended) {
            return;
        }
        self.outcomes.add(call.outcome);
        self.seconds.call(call);
        if call.outcome == Outcome::Reply {
            self.head_bytes += u64::from(call.head_bytes);
            self.body_bytes += call.body_bytes;
            count_status(&mut self.statuses, call.status);
            self.reply_rates.add(call.ended);
        }
    }

    pub(super) fn handshake(&mut self, call: &Call, window: &Range<Nanos>) {
        if call.outcome != Outcome::Unfinished && window.contains(&call.ended) {
            self.handshakes.add(call.outcome);
        }
    }

    pub(super) fn take_in(&mut self, other: &Self) {
        self.requests += other.requests;
        self.request_bytes += other.request_bytes;
        self.resent += other.resent;
        self.outcomes.take_in(&other.outcomes);
        self.handshakes.take_in(&other.handshakes);
        self.head_bytes += other.head_bytes;
        self.body_bytes += other.body_bytes;
        add_all(&mut self.statuses, &other.statuses);
        self.reply_rates.take_in(&other.reply_rates);
        self.seconds.take_in(&other.seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn what_ends_in_the_window_counts_whenever_it_began() {
        let mut flow = Flow::new(10 * MS);
        let window = 10 * MS..20 * MS;
        // Sent a tenth of a millisecond after it was issued.
        for (outcome, issued, ended) in [
            (Outcome::Reply, 1, 9),
            (Outcome::Reply, 1, 10),
            (Outcome::Reply, 11, 12),
            (Outcome::ReplyTimeout, 1, 19),
            (Outcome::Reply, 19, 20),
            (Outcome::Unfinished, 15, 16),
        ] {
            flow.call(&call(outcome, issued * MS, ended * MS), &window);
        }
        assert_eq!(
            (flow.replies(), flow.outcomes.timeouts(), flow.outcomes.of(Outcome::Unfinished)),
            (2, 1, 0)
        );
        assert_eq!((flow.requests, flow.bytes()), (3, 3 * 60 + 2 * 1200));
    }
}
