//! When a request for an application came to each point of its way, for its pool's counters and its line of
//! the access log.

use super::queues::now_us;
use crate::counters::PoolCounters;

/// A request's way so far.
#[derive(Debug)]
pub(super) struct Course {
    counters: &'static PoolCounters,
    /// When it was complete, in flight, at a server that was connected to; when its reply began to come, and
    /// had come.
    complete_us: Option<u64>,
    in_flight_us: Option<u64>,
    connected_us: Option<u64>,
    begun_us: Option<u64>,
    ended_us: Option<u64>,
}

/// How long a request was where. What remains of the time that it took was its client's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// In the pool's queue, in milliseconds.
    pub queue_ms: u64,
    /// In flight, until the application had said all, in milliseconds.
    pub application_ms: u64,
}

impl Course {
    pub(super) fn new(counters: &'static PoolCounters) -> Self {
        Self {
            counters,
            complete_us: None,
            in_flight_us: None,
            connected_us: None,
            begun_us: None,
            ended_us: None,
        }
    }

    /// The request is complete.
    pub(super) fn is_complete(&mut self) {
        self.complete_us = Some(now_us());
        self.counters.requests.add_among_others(1);
    }

    /// It is in flight.
    pub(super) fn is_in_flight(&mut self) {
        let now_us = *self.in_flight_us.insert(now_us());
        self.counters.has_waited(since(self.complete_us, now_us));
    }

    /// A server has been connected to.
    pub(super) fn is_connected(&mut self) {
        let now_us = *self.connected_us.insert(now_us());
        self.counters.has_connected(since(self.in_flight_us, now_us));
    }

    /// Bytes of the reply are there.
    pub(super) fn has_reply(&mut self) {
        if self.begun_us.is_none() {
            let now_us = *self.begun_us.insert(now_us());
            self.counters.has_begun(since(self.connected_us, now_us));
        }
    }

    /// The reply is there to its end.
    pub(super) fn has_all(&mut self) {
        let now_us = *self.ended_us.insert(now_us());
        self.counters.has_ended(since(self.connected_us, now_us));
    }

    /// How long it was where by now.
    pub(super) fn spent(&self) -> Spent {
        let now_us = now_us();
        let Some(complete_us) = self.complete_us else { return Spent::default() };
        let ms = |from_us: u64, to_us: Option<u64>| to_us.unwrap_or(now_us).saturating_sub(from_us) / 1000;
        Spent {
            queue_ms: ms(complete_us, self.in_flight_us),
            application_ms: self.in_flight_us.map_or(0, |from_us| ms(from_us, self.ended_us)),
        }
    }
}

fn since(before_us: Option<u64>, now_us: u64) -> u64 {
    now_us.saturating_sub(before_us.unwrap_or(now_us))
}
