//! What became of the calls that were issued in the window, whenever they were over.

use super::{ByClass, ByClient, ByKind, BySize, Outcomes, Times, Waits, add_all, count_status};
use crate::record::{Call, Nanos, Outcome};

/// Counts and times of those calls.
#[derive(Clone, Debug)]
pub struct Cohort {
    /// How many there are.
    pub issued: u64,
    /// What came of them; together as many as were issued.
    pub outcomes: Outcomes,
    /// Whole replies by the first digit of their status, from 1xx.
    pub statuses: [u64; 5],
    /// Whole replies, from issue to the last byte.
    pub reply_times: Times,
    /// Whole replies, from the intended start to the last byte.
    pub corrected_times: Times,
    /// Whole replies and those that never came, from the intended start.
    pub waits: Waits,
    /// Calls to which a reply began, from the first byte sent to the first byte received: httperf's
    /// `response`.
    pub response_times: Times,
    /// Whole replies, from the first byte received to the last: httperf's `transfer`.
    pub transfer_times: Times,
    /// Timeouts, from issue to when the client gave up.
    pub timeout_times: Times,
    /// Calls, replies and times by the size of what was asked for.
    pub by_size: BySize,
    /// Calls that were and were not served, by size and client.
    pub by_client: ByClient,
    /// Calls, replies and times by method, and static or dynamic.
    pub by_kind: ByKind,
    /// What came of the calls of each class of clients, where there are any.
    pub by_class: ByClass,
}

impl Cohort {
    pub(super) fn new(requests: usize) -> Self {
        Self {
            issued: 0,
            outcomes: Outcomes::default(),
            statuses: [0; 5],
            reply_times: Times::new(),
            corrected_times: Times::new(),
            waits: Waits::default(),
            response_times: Times::new(),
            transfer_times: Times::new(),
            timeout_times: Times::new(),
            by_size: BySize::new(requests),
            by_client: ByClient::new(requests),
            by_kind: ByKind::default(),
            by_class: ByClass::default(),
        }
    }

    pub(super) fn call(&mut self, call: &Call) {
        self.issued += 1;
        self.outcomes.add(call.outcome);
        if let (Some(sent), Some(first)) = (call.send_started, call.first_byte) {
            self.response_times.record(first.saturating_sub(sent));
        }
        self.waits.call(call);
        let since = |from: Nanos| call.ended.saturating_sub(from);
        match call.outcome {
            Outcome::Reply => {
                count_status(&mut self.statuses, call.status);
                self.reply_times.record(since(call.issued));
                self.corrected_times.record(since(call.intended));
                if let Some(first) = call.first_byte {
                    self.transfer_times.record(since(first));
                }
            }
            outcome if outcome.is_timeout() => {
                self.timeout_times.record(since(call.issued));
            }
            _ => {}
        }
        self.by_size.take(call);
        self.by_client.take(call);
        self.by_kind.take(call);
        self.by_class.take(call);
    }

    pub(super) fn take_in(&mut self, other: &Self) {
        self.issued += other.issued;
        self.outcomes.take_in(&other.outcomes);
        add_all(&mut self.statuses, &other.statuses);
        self.waits.take_in(&other.waits);
        self.by_size.take_in(&other.by_size);
        self.by_client.take_in(&other.by_client);
        self.by_kind.take_in(&other.by_kind);
        self.by_class.take_in(&other.by_class);
        for (mine, theirs) in [
            (&mut self.reply_times, &other.reply_times),
            (&mut self.corrected_times, &other.corrected_times),
            (&mut self.response_times, &other.response_times),
            (&mut self.transfer_times, &other.transfer_times),
            (&mut self.timeout_times, &other.timeout_times),
        ] {
            mine.take_in(theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn waiting_in_vain_is_waiting() {
        let mut cohort = Cohort::new(1);
        for _ in 0..90 {
            cohort.call(&call(Outcome::Reply, 10 * MS, 14 * MS));
        }
        for _ in 0..9 {
            cohort.call(&call(Outcome::ReplyTimeout, 10 * MS, 1010 * MS));
        }
        cohort.call(&call(Outcome::Unfinished, 10 * MS, 510 * MS));
        // Nobody waited for those.
        cohort.call(&call(Outcome::Refused, 10 * MS, 10 * MS));
        let waits = &cohort.waits;
        assert_eq!((waits.count(), waits.bounds()), (100, 10));
        let at = |percent| {
            let found = waits.percentile(percent).unwrap();
            (found.ms.round() as u64, found.is_bound)
        };
        assert_eq!(
            (at(50.0), at(90.0), at(91.0), at(99.0)),
            ((5, false), (5, false), (501, true), (1001, true))
        );
        assert!((cohort.reply_times.percentile_ms(99.9) - 4.0).abs() < 0.01);
        let mut both = cohort.waits.clone();
        both.take_in(&Waits::default());
        assert_eq!(both, cohort.waits);
    }
}
