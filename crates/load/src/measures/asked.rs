//! How often each request of the log was issued since the warm-up, to the very end of the run: what a server's log is compared
//! with, whose lines say nothing of when a request was issued.

use workload::session::RequestId;

use super::add_all;
use crate::record::{Call, Outcome};

/// Calls and timeouts by request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    calls: Vec<u64>,
    timeouts: Vec<u64>,
}

impl Asked {
    pub(super) fn new(requests: usize) -> Self {
        Self { calls: vec![0; requests], timeouts: vec![0; requests] }
    }

    /// Calls of a request, and how many of them the client gave up.
    pub fn of(&self, request: RequestId) -> (u64, u64) {
        let of = |counts: &[u64]| counts.get(request as usize).copied().unwrap_or(0);
        (of(&self.calls), of(&self.timeouts))
    }

    pub(super) fn call(&mut self, call: &Call) {
        let request = call.request as usize;
        let (Some(calls), Some(timeouts)) = (self.calls.get_mut(request), self.timeouts.get_mut(request))
        else {
            return;
        };
        if call.outcome != Outcome::Abandoned {
            *calls += 1;
            *timeouts += u64::from(matches!(call.outcome, Outcome::ConnectTimeout | Outcome::ReplyTimeout));
        }
    }

    pub(super) fn take_in(&mut self, other: &Self) {
        add_all(&mut self.calls, &other.calls);
        add_all(&mut self.timeouts, &other.timeouts);
    }
}
