//! Calls by the class of the clients that made them, and handshakes of clients that only want these.

use super::{Outcomes, Times, Waits};
use crate::record::{Call, Outcome};

/// Counts and times by class, where there are any.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ByClass(Vec<OfClientClass>);

/// What became of the calls of one class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfClientClass {
    /// All of its calls or handshakes, by what came of them.
    pub outcomes: Outcomes,
    /// Whole replies by the first digit of their status, from 1xx.
    pub statuses: [u64; 5],
    /// Whole replies, from issue to the last byte.
    pub reply_times: Times,
    /// Handshakes of clients that only want these, from when connecting began to when TLS was established.
    pub handshake_times: Times,
    /// Whole replies or handshakes and those that never came, from the intended start.
    pub waits: Waits,
}

impl ByClass {
    pub(super) fn new(classes: usize) -> Self {
        Self(vec![OfClientClass::default(); classes])
    }

    /// Each class, in order.
    pub fn each(&self) -> impl Iterator<Item = &OfClientClass> {
        self.0.iter()
    }

    /// Numbers of sessions are dealt to classes by turns.
    pub(super) fn take(&mut self, call: &Call) {
        let Some(class) = (call.session as usize).checked_rem(self.0.len()) else { return };
        let of = &mut self.0[class];
        of.outcomes.add(call.outcome);
        of.waits.call(call);
        let took = call.ended.saturating_sub(call.issued);
        match call.outcome {
            Outcome::Reply => {
                of.reply_times.record(took);
                super::count_status(&mut of.statuses, call.status);
            }
            Outcome::Handshake => of.handshake_times.record(took),
            _ => {}
        }
    }

    pub(super) fn take_in(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.outcomes.take_in(&theirs.outcomes);
            super::add_all(&mut mine.statuses, &theirs.statuses);
            mine.reply_times.take_in(&theirs.reply_times);
            mine.handshake_times.take_in(&theirs.handshake_times);
            mine.waits.take_in(&theirs.waits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    #[test]
    fn sessions_belong_to_classes_by_turns() {
        let mut classes = ByClass::new(2);
        for (session, outcome) in [(0, Outcome::Reply), (1, Outcome::ReplyTimeout), (2, Outcome::Reply)] {
            classes.take(&Call { session, ..call(outcome, 1_000_000, 3_000_000) });
        }
        let mut both = classes.clone();
        both.take_in(&classes);
        let found: Vec<_> = both
            .each()
            .map(|of| (of.outcomes.of(Outcome::Reply), of.outcomes.timeouts(), of.waits.count()))
            .collect();
        assert_eq!(found, [(4, 0, 4), (0, 2, 2)]);
        assert_eq!(both.each().map(|of| of.statuses[1]).collect::<Vec<_>>(), [4, 0]);
        let mut none = ByClass::default();
        none.take(&call(Outcome::Reply, 0, 1));
        assert_eq!(none.each().count(), 0);
    }
}
