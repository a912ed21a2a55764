//! What the requests for one pool of applications went through.
//!
//! All workers add to the same block, which outlives reloads as the pool's queue does: what an application
//! answers takes long enough for a few locked instructions.

use results::status::{Bucket, PoolCounts};
use results::{By, Label as _};

use super::metrics::metric;
use super::{Block, Counter, HISTOGRAM_BOUNDS, Kind, Labels, Metric, bucket};

/// Counts of times by milliseconds.
type Histogram = [Counter; HISTOGRAM_BOUNDS.len() + 1];

sys::shareable! {
    /// What is counted of one pool. Times are counted by milliseconds, rounded up, and summed up in
    /// microseconds.
    #[derive(Debug, Default)]
    #[repr(C, align(128))]
    pub struct PoolCounters {
        /// Requests that wait in the queue, as of when somebody looked last.
        pub queued: Counter,
        /// Requests in flight, likewise.
        pub in_flight: Counter,
        /// Requests that came, with their bodies.
        pub requests: Counter,
        /// Those that were not answered to the end, for whatever reason but their client.
        pub failures: Counter,
        /// Of these, those for which there was no room in the queue.
        pub refused: Counter,
        /// Of these, those that had waited in the queue for as long as they may.
        pub expired: Counter,
        /// Those whose client left before the end of the reply.
        pub clients_left: Counter,
        /// Requests that were sent on a connection that had been kept.
        pub reused: Counter,
        /// Those that were sent once more, as it broke.
        pub retried: Counter,
        /// Replies of which a part went to the disk, as their clients were slow.
        pub spilled: Counter,
        /// Replies that the application has sent to the client itself.
        pub passed: Counter,
        /// Those that lay in memory that the application shares.
        pub shared: Counter,
        /// Those that came by the stream although the pool has another transport.
        pub fell_back: Counter,
        /// From when a request had come until it was in flight.
        pub waits_ms: Histogram,
        /// Their sum.
        pub wait_us: Counter,
        /// From when it was in flight until the connection to a server was up.
        pub connects_ms: Histogram,
        /// Their sum.
        pub connect_us: Counter,
        /// From when the connection was up until the reply began to come.
        pub first_bytes_ms: Histogram,
        /// Their sum.
        pub first_byte_us: Counter,
        /// From when the connection was up until the reply had come.
        pub last_bytes_ms: Histogram,
        /// Their sum.
        pub last_byte_us: Counter,
    }
}

impl Block for PoolCounters {
    type Told = PoolCounts;
}

impl PoolCounters {
    /// Counts a request that has waited so long for being in flight.
    pub fn has_waited(&self, us: u64) {
        add(&self.waits_ms, &self.wait_us, us);
    }

    /// Counts a connection to a server that was up after so long.
    pub fn has_connected(&self, us: u64) {
        add(&self.connects_ms, &self.connect_us, us);
    }

    /// Counts a reply whose first byte came after so long.
    pub fn has_begun(&self, us: u64) {
        add(&self.first_bytes_ms, &self.first_byte_us, us);
    }

    /// Counts a reply whose last byte came after so long.
    pub fn has_ended(&self, us: u64) {
        add(&self.last_bytes_ms, &self.last_byte_us, us);
    }
}

fn add(times: &Histogram, sum: &Counter, us: u64) {
    times[bucket(us.div_ceil(1000))].add_among_others(1);
    sum.add_among_others(us);
}

/// Every value of [`PoolCounters`], in the order in which people see them.
pub static POOL_METRICS: &[Metric<PoolCounters>] = &[
    metric!(Kind::Gauge, queued, "Requests that wait in the pool's queue"),
    metric!(
        Kind::Gauge,
        in_flight,
        "Requests in flight, and those given up that the application may work on yet"
    ),
    metric!(Kind::Counter, requests, "Requests that came, with their bodies"),
    metric!(
        Kind::Counter,
        failures,
        "Requests that the pool did not answer to the end, those refused and expired included"
    ),
    metric!(Kind::Counter, refused, "Requests for which there was no room in the queue"),
    metric!(Kind::Counter, expired, "Requests that waited in the queue for too long"),
    metric!(Kind::Counter, clients_left, "Requests whose client left"),
    metric!(Kind::Counter, reused, "Requests sent on a connection that had been kept"),
    metric!(Kind::Counter, retried, "Requests sent once more, as that connection broke"),
    metric!(Kind::Counter, spilled, "Replies of which a part went to the disk, as their clients were slow"),
    metric!(Kind::Counter, passed, "Replies that the application sent to the client itself (pass-fd)"),
    metric!(Kind::Counter, shared, "Replies that lay in memory shared with the application"),
    metric!(Kind::Counter, fell_back, "Replies that came by the stream where another transport is set"),
    metric!(
        Kind::Histogram { sum: "wait_us" },
        waits_ms,
        "Requests that came to be in flight, by the milliseconds that they had waited",
        "at_most",
        Bucket
    ),
    metric!(Kind::Counter, wait_us, "Microseconds that requests waited until they were in flight"),
    metric!(
        Kind::Histogram { sum: "connect_us" },
        connects_ms,
        "Connections to servers, by the milliseconds that requests in flight waited for them",
        "at_most",
        Bucket
    ),
    metric!(Kind::Counter, connect_us, "Microseconds that requests in flight waited for a connection"),
    metric!(
        Kind::Histogram { sum: "first_byte_us" },
        first_bytes_ms,
        "Replies that began to come, by the milliseconds since the connection was up",
        "at_most",
        Bucket
    ),
    metric!(Kind::Counter, first_byte_us, "Microseconds from connections to the first bytes of replies"),
    metric!(
        Kind::Histogram { sum: "last_byte_us" },
        last_bytes_ms,
        "Replies that have come whole, by the milliseconds since the connection was up",
        "at_most",
        Bucket
    ),
    metric!(Kind::Counter, last_byte_us, "Microseconds from connections to the last bytes of replies"),
];
