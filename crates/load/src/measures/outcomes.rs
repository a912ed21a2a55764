//! Calls by what came of them.

use crate::record::Outcome;

/// How many calls had each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes([u64; Outcome::ALL.len()]);

impl Outcomes {
    /// How many calls had that outcome.
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.0[outcome as usize]
    }

    /// Calls that failed, whatever way. Those that the end of the run cut off have not, and those that went
    /// down with another call are counted as that one.
    pub fn errors(&self) -> u64 {
        Outcome::ALL.into_iter().filter(|outcome| outcome.is_error()).map(|outcome| self.of(outcome)).sum()
    }

    /// Calls that the client gave up, while connecting or while waiting for the reply.
    pub fn timeouts(&self) -> u64 {
        Outcome::ALL.into_iter().filter(|outcome| outcome.is_timeout()).map(|outcome| self.of(outcome)).sum()
    }

    /// All calls.
    pub fn all(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(super) fn add(&mut self, outcome: Outcome) {
        self.0[outcome as usize] += 1;
    }

    pub(super) fn take_in(&mut self, other: &Self) {
        super::add_all(&mut self.0, &other.0);
    }
}
