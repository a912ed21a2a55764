//! Replies that were compared with their files, of the whole run: a wrong one is wrong in the warm-up, too.

use crate::record::{Call, Outcome};

/// How many replies were compared, and how many were wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Whole replies that were compared.
    pub compared: u64,
    /// Of these, replies that were not what their files are: errors, not replies, in all other figures.
    pub wrong: u64,
}

impl Verified {
    pub(super) fn call(&mut self, call: &Call) {
        if call.compared {
            self.compared += 1;
            self.wrong += u64::from(call.outcome != Outcome::Reply);
        }
    }

    pub(super) fn take_in(&mut self, other: Self) {
        self.compared += other.compared;
        self.wrong += other.wrong;
    }
}
