//! Threads of the Read and Write stages that are not there yet. All are started at once, but where
//! controllers say how many are in use: a thread comes when it is in use for the first time, as one that
//! never is would take memory from the page cache. Once there it stays.

use std::collections::VecDeque;
use std::io;

use super::{Pipeline, fail};
use crate::counters::Stage;

/// Starts a thread. Errors: as of `pthread_create(3)`.
pub(super) type Start<'s> = Box<dyn FnOnce() -> io::Result<()> + Send + 's>;

/// The threads of all lanes, in the order of their numbers.
#[derive(Default)]
pub(super) struct Starts<'s>(Vec<(usize, Stage, Start<'s>)>);

impl<'s> Starts<'s> {
    /// One more, of that stage of a lane.
    pub(super) fn add(
        &mut self,
        lane: usize,
        stage: Stage,
        start: impl FnOnce() -> io::Result<()> + Send + 's,
    ) {
        self.0.push((lane, stage, Box::new(start)));
    }

    /// Leaves those of a stage of a lane to somebody else.
    pub(super) fn take(&mut self, lane: usize, stage: Stage) -> VecDeque<Start<'s>> {
        let theirs = self.0.extract_if(.., |one| (one.0, one.1) == (lane, stage));
        theirs.map(|(_, _, start)| start).collect()
    }

    /// Starts those that are nobody's.
    pub(super) fn all(self) {
        for (_, _, start) in self.0 {
            start().unwrap_or_else(|error| fail(&format!("cannot start a thread: {error}")));
        }
    }
}

impl Pipeline {
    /// The lanes and the numbers in them of a stage's threads, with so many for each lane.
    pub(super) fn places(&self, each: usize) -> impl Iterator<Item = (usize, u16)> + use<> {
        (0..self.lanes.len()).flat_map(move |lane| (0..each).map(move |number| (lane, number as u16)))
    }
}
