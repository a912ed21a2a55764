//! How often each request of the log was issued since the warm-up, to the very end of the run: what a
//! server's log is compared with, whose lines say nothing of when a request was issued.

use workload::session::RequestId;

use crate::record::{Call, Outcome};

/// Calls by request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked(Vec<AskedFor>);

/// How often the same was asked for, and with what success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskedFor {
    /// Calls, those left out that went down with others.
    pub calls: u64,
    /// Of these, calls to which a whole reply came.
    pub replies: u64,
    /// Calls that the client gave up.
    pub timeouts: u64,
    /// How often it was sent whole beyond once for each of `calls`: before it was sent again, or for calls
    /// that went down with others. The server may have read these, too.
    pub extra: u64,
}

impl Asked {
    pub(super) fn new(requests: usize) -> Self {
        Self(vec![AskedFor::default(); requests])
    }

    /// What became of a request of the log.
    pub fn of(&self, request: RequestId) -> AskedFor {
        self.0.get(request as usize).copied().unwrap_or_default()
    }

    pub(super) fn call(&mut self, call: &Call) {
        let Some(of) = self.0.get_mut(call.request as usize) else { return };
        of.extra += u64::from(call.resent);
        if call.outcome == Outcome::Abandoned {
            of.extra += u64::from(call.sent.is_some());
            return;
        }
        of.calls += 1;
        of.replies += u64::from(call.outcome == Outcome::Reply);
        of.timeouts += u64::from(call.outcome.is_timeout());
    }

    pub(super) fn take_in(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| mine.add(*theirs));
    }
}

impl AskedFor {
    /// Takes in calls for something else.
    pub(crate) fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.replies += other.replies;
        self.timeouts += other.timeouts;
        self.extra += other.extra;
    }
}
