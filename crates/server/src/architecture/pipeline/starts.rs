//! Threads of the Read and Write stages that have not been started yet. Without controllers, all are
//! started at once. With controllers, a thread is started when it is first used, because an unused one
//! would take memory from the page cache. A thread that has been started stays.

use std::collections::VecDeque;
use std::io;

use super::{Pipeline, fail};
use crate::counters::Stage;

/// Starts a thread. Errors: those of `pthread_create(3)`.
pub(super) type Start<'s> = Box<dyn FnOnce() -> io::Result<()> + Send + 's>;

/// The threads of all lanes, in the order of their numbers.
#[derive(Default)]
pub(super) struct Starts<'s>(Vec<(usize, Stage, Start<'s>)>);

impl<'s> Starts<'s> {
    /// Adds a thread of that stage of a lane.
    pub(super) fn add(
        &mut self,
        lane: usize,
        stage: Stage,
        start: impl FnOnce() -> io::Result<()> + Send + 's,
    ) {
        self.0.push((lane, stage, Box::new(start)));
    }

    /// Leaves the threads of a lane's stage to the caller.
    pub(super) fn take(&mut self, lane: usize, stage: Stage) -> VecDeque<Start<'s>> {
        let theirs = self.0.extract_if(.., |one| (one.0, one.1) == (lane, stage));
        theirs.map(|(_, _, start)| start).collect()
    }

    /// Starts the threads that no caller has taken.
    pub(super) fn all(self) {
        for (_, _, start) in self.0 {
            start().unwrap_or_else(|error| fail(&format!("cannot start a thread: {error}")));
        }
    }
}

impl Pipeline {
    /// The lane of each thread of a stage, and its number there. Each lane has this many.
    pub(super) fn places(&self, each: usize) -> impl Iterator<Item = (usize, u16)> + use<> {
        (0..self.lanes.len()).flat_map(move |lane| (0..each).map(move |number| (lane, number as u16)))
    }
}
