//! Tokens for the admission of new connections: a bucket that fills at a rate, shared by the acceptors.
//!
//! The state is the time at which the bucket will be full (the virtual scheduling of GCRA, ITU-T I.371,
//! annex A). Taking a token moves that time on by the time that one token needs to fill in. If it would
//! then be further away than the bucket is deep, there is no token left.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The bucket.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    /// Nanoseconds from one token to the next; 0: there is no bound.
    each_ns: AtomicU64,
    full_ns: AtomicU64,
    /// A thread has found no token.
    has_refused: AtomicBool,
}

/// The depth of the bucket: it holds the tokens of this much time, or one token if that takes longer. This
/// is several times as long as a thread that waits for a token may oversleep.
const DEPTH_NS: u64 = 10_000_000;

impl Tokens {
    /// Sets the rate at which the bucket fills, in tokens a second; `None`: there are always tokens.
    pub(super) fn fill_at(&self, rate: Option<f64>) {
        let each_ns = rate.map_or(0, |rate| (1e9 / rate).max(1.0) as u64);
        self.each_ns.store(each_ns, Ordering::Relaxed);
    }

    /// Takes a token, if there is one.
    #[inline]
    pub(super) fn take(&self, now_ns: u64) -> bool {
        let each_ns = self.each_ns.load(Ordering::Relaxed);
        if each_ns == 0 {
            return true;
        }
        let one_less = |full_ns: u64| {
            let full_ns = full_ns.max(now_ns).saturating_add(each_ns);
            (full_ns - now_ns <= DEPTH_NS.max(each_ns)).then_some(full_ns)
        };
        let is_taken = self.full_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok();
        if !is_taken {
            self.has_refused.store(true, Ordering::Relaxed);
        }
        is_taken
    }

    /// Puts back a token that has not been used.
    #[inline]
    pub(super) fn put_back(&self) {
        let each_ns = self.each_ns.load(Ordering::Relaxed);
        if each_ns > 0 {
            // There may have been no bound when it was taken.
            let one_more = |full_ns: u64| Some(full_ns.saturating_sub(each_ns));
            let _ = self.full_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        }
    }

    /// Nanoseconds until there is a token.
    pub(super) fn next_in_ns(&self, now_ns: u64) -> u64 {
        let each_ns = self.each_ns.load(Ordering::Relaxed);
        if each_ns == 0 {
            return 0;
        }
        let full_ns = self.full_ns.load(Ordering::Relaxed).max(now_ns).saturating_add(each_ns);
        (full_ns - now_ns).saturating_sub(DEPTH_NS.max(each_ns))
    }

    /// Whether a thread has found no token since the last call.
    pub(super) fn has_refused(&self) -> bool {
        self.has_refused.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However tokens are requested, no more are given than the bucket is deep and the rate has filled
        /// in.
        #[test]
        fn no_more_are_given_than_have_been_filled_in(
            rate in 1_u32..100_000,
            pauses in prop::collection::vec(0_u64..20_000_000, 1..300),
        ) {
            let tokens = Tokens::default();
            tokens.fill_at(Some(rate.into()));
            let each_ns = (1e9 / f64::from(rate)) as u64;
            let (began_ns, mut now_ns, mut taken) = (1_000_000_000, 1_000_000_000, 0_u64);
            for pause in pauses {
                now_ns += pause;
                while tokens.take(now_ns) {
                    taken += 1;
                }
                prop_assert!(tokens.has_refused());
                prop_assert!(taken <= (now_ns - began_ns + DEPTH_NS.max(each_ns)) / each_ns);
                // After the reported time there is a token.
                now_ns += tokens.next_in_ns(now_ns);
                prop_assert!(tokens.take(now_ns));
                tokens.put_back();
            }
        }
    }

    #[test]
    fn without_a_rate_there_are_always_some() {
        let tokens = Tokens::default();
        assert!((0..100_000).all(|_| tokens.take(0)));
        assert!(!tokens.has_refused() && tokens.next_in_ns(0) == 0);
    }
}
