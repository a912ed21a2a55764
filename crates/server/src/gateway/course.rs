//! The times at which a request for an application reached each stage, for its pool's counters and its
//! line in the access log.

use crate::counters::PoolCounters;
use crate::queues::now_us;

/// The stages of a request so far.
#[derive(Debug)]
pub(super) struct Course {
    counters: &'static PoolCounters,
    /// The times at which the request was complete, was in flight, and was connected to a server, and at
    /// which its reply began and was complete.
    complete_us: Option<u64>,
    in_flight_us: Option<u64>,
    connected_us: Option<u64>,
    begun_us: Option<u64>,
    ended_us: Option<u64>,
}

/// How long a request spent at each stage. The rest of its time was spent with the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// In the pool's queue, in milliseconds.
    pub queue_ms: u64,
    /// In flight, until the end of the application's reply, in milliseconds.
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
    pub(super) fn is_complete(&mut self, now_us: u64) {
        self.complete_us = Some(now_us);
        self.counters.requests.add_among_others(1);
    }

    /// The request is in flight.
    pub(super) fn is_in_flight(&mut self, now_us: u64) {
        self.in_flight_us = Some(now_us);
        self.counters.has_waited(since(self.complete_us, now_us));
    }

    /// A server has been connected to.
    pub(super) fn is_connected(&mut self) {
        let now_us = *self.connected_us.insert(now_us());
        self.counters.has_connected(since(self.in_flight_us, now_us));
    }

    /// Bytes of the reply have come.
    pub(super) fn has_reply(&mut self) {
        if self.begun_us.is_none() {
            let now_us = *self.begun_us.insert(now_us());
            self.counters.has_begun(since(self.connected_us, now_us));
        }
    }

    /// The whole reply has come.
    pub(super) fn has_all(&mut self) {
        let now_us = *self.ended_us.insert(now_us());
        self.counters.has_ended(since(self.connected_us, now_us));
    }

    /// How long the request has spent at each stage by now.
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
