//! How much of a worker's time handshakes may take before its other clients.
//!
//! A handshake that is computed in place delays every client that has something ready meanwhile. If all
//! handshakes together take a few thousandths of the time, 99 of 100 replies do not notice. So that much is
//! always allowed, and the rest is computed aside, in time that nothing else wants. Time can be saved up for
//! a burst.
//!
//! A worker without other clients has nobody to protect, and computes everything in place. It has none if
//! all requests in a tenth of a second were the first of a connection that had just shaken hands.

use std::num::NonZeroU32;

/// What `share` means by default, in thousandths: as long as handshakes aside get time, and else.
const USUAL: u64 = 5;
const WHEN_STARVED: u64 = 50;
/// Over how long the demand of other clients is measured.
const SLICE_NS: u64 = 100_000_000;
/// How many requests of other clients in a slice do not matter: somebody looks at the status page.
const FEW: u64 = 1;
/// The most time that can be saved up by default: a burst of some hundred clients is not a flood, and the
/// others wait for it no longer than they would notice.
const MOST_SAVED_NS: i64 = 100_000_000;
/// And if the share is set.
const MOST_SAVED_IF_SET_NS: i64 = 1_000_000;
/// The most debt. A handshake on a stopped machine must not stop the others for long.
const MOST_OWED_NS: i64 = -10_000_000;

/// The time that handshakes may take in place.
#[derive(Debug)]
pub(super) struct Budget {
    share: Option<NonZeroU32>,
    /// The most that may be saved up.
    most_ns: i64,
    saved_ns: i64,
    saved_at_ns: u64,
    /// When the slice began, and how many requests others had made by then.
    slice: (u64, u64),
    /// Other clients want this worker.
    has_others: bool,
}

impl Budget {
    pub(super) fn new(share: Option<NonZeroU32>) -> Self {
        let most_ns = if share.is_some() { MOST_SAVED_IF_SET_NS } else { MOST_SAVED_NS };
        Self { share, most_ns, saved_ns: most_ns, saved_at_ns: 0, slice: (0, 0), has_others: false }
    }

    /// Whether a handshake may be computed in place now. `others`: how many requests the worker has had that
    /// were not the first ones after a handshake. `is_starved`: handshakes aside get no time.
    pub(super) fn allows(&mut self, now_ns: u64, others: u64, is_starved: bool) -> bool {
        let (began_ns, before) = self.slice;
        if now_ns.saturating_sub(began_ns) >= SLICE_NS {
            self.has_others = others.saturating_sub(before) > FEW;
            self.slice = (now_ns, others);
        }
        let by_default = if is_starved { WHEN_STARVED } else { USUAL };
        let share = self.share.map_or(by_default, |percent| u64::from(percent.get()) * 10);
        let earned_ns = now_ns.saturating_sub(self.saved_at_ns) / 1000 * share;
        self.saved_ns = self.saved_ns.saturating_add_unsigned(earned_ns).min(self.most_ns);
        self.saved_at_ns = now_ns;
        self.saved_ns > 0 || !self.has_others
    }

    /// A handshake has taken so much time in place.
    pub(super) fn took(&mut self, ns: u64) {
        self.saved_ns = self.saved_ns.saturating_sub_unsigned(ns).max(MOST_OWED_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// How many of a thousand handshakes may be made in place, one a millisecond, each of which takes half
    /// of that. Others make one request a millisecond.
    fn allowed(share: Option<NonZeroU32>, is_starved: bool) -> usize {
        let mut budget = Budget::new(share);
        assert!(budget.allows(1000 * MS, 0, is_starved), "nobody else is there");
        assert!(budget.allows(1100 * MS, 100, is_starved), "time is saved up");
        // A burst has used it up.
        budget.took(2000 * MS);
        budget.saved_ns = 0;
        let is_allowed = |ms: &u64| {
            let is_allowed = budget.allows((1100 + ms) * MS, 100 + ms, is_starved);
            if is_allowed {
                budget.took(MS / 2);
            }
            is_allowed
        };
        (0..1000).filter(is_allowed).count()
    }

    #[test]
    fn a_little_of_the_time_is_theirs() {
        let count = allowed(None, false);
        assert!((9..=12).contains(&count), "{count}");
    }

    #[test]
    fn and_more_while_there_is_no_other_time() {
        let count = allowed(None, true);
        assert!((100..=103).contains(&count), "{count}");
    }

    #[test]
    fn a_share_that_is_set_always_holds() {
        for is_starved in [false, true] {
            let count = allowed(NonZeroU32::new(50), is_starved);
            assert!((997..=1000).contains(&count), "{count}");
        }
    }

    /// However many handshakes there are, and whether or not their clients ask for anything.
    #[test]
    fn without_other_clients_all_is_theirs() {
        let mut budget = Budget::new(None);
        for ms in 0..1000 {
            assert!(budget.allows((1000 + ms) * MS, 1, false), "after {ms} ms");
            budget.took(MS);
        }
    }
}
