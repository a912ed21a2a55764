//! Counters of the requests for one pool of applications.
//!
//! All workers add to the same block. It outlives reloads, as the pool's queue does. An application takes
//! long enough to answer that a few locked instructions do not matter.

use results::status::{Bucket, PoolCounts};
use results::{By, Label as _};

use super::metrics::metric;
use super::{Block, Counter, HISTOGRAM_BOUNDS, Kind, Labels, Metric, bucket};

/// Counts of times, in buckets of milliseconds.
type Histogram = [Counter; HISTOGRAM_BOUNDS.len() + 1];

sys::shareable! {
    /// The counters of one pool. Histograms count times in milliseconds, rounded up. Sums are in
    /// microseconds.
    #[derive(Debug, Default)]
    #[repr(C, align(128))]
    pub struct PoolCounters {
        /// Requests that wait in the queue, when last checked.
        pub queued: Counter,
        /// Requests in flight, when last checked.
        pub in_flight: Counter,
        /// Requests that have arrived completely, including their bodies.
        pub requests: Counter,
        /// Requests that were not answered completely, for any reason except their client.
        pub failures: Counter,
        /// Failures because there was no room in the queue.
        pub refused: Counter,
        /// Failures because the request had waited in the queue for the maximum time.
        pub expired: Counter,
        /// Requests whose client disconnected before the end of the reply.
        pub clients_left: Counter,
        /// Requests that were sent on a kept connection.
        pub reused: Counter,
        /// Requests that were sent again because the kept connection broke.
        pub retried: Counter,
        /// Replies that were partly written to the disk, because their clients were slow.
        pub spilled: Counter,
        /// Replies that the application sent to the client itself.
        pub passed: Counter,
        /// Replies in memory that the application shares.
        pub shared: Counter,
        /// Replies that came in the stream although the pool has another transport.
        pub fell_back: Counter,
        /// Connections that are upgraded or have asked for it, when last checked.
        pub upgraded: Counter,
        /// Connections that were upgraded so far.
        pub upgrades: Counter,
        /// Requests for an upgrade that were refused, because as many connections are upgraded as may be.
        pub upgrades_refused: Counter,
        /// Times from a request's arrival until it was in flight.
        pub waits_ms: Histogram,
        /// Their sum.
        pub wait_us: Counter,
        /// Times from when the request was in flight until the connection to a server was established.
        pub connects_ms: Histogram,
        /// Their sum.
        pub connect_us: Counter,
        /// Times from when the connection was established until the reply began.
        pub first_bytes_ms: Histogram,
        /// Their sum.
        pub first_byte_us: Counter,
        /// Times from when the connection was established until the reply was complete.
        pub last_bytes_ms: Histogram,
        /// Their sum.
        pub last_byte_us: Counter,
    }
}

impl Block for PoolCounters {
    type Told = PoolCounts;
}

impl PoolCounters {
    /// Counts a request that waited this long until it was in flight.
    pub fn has_waited(&self, us: u64) {
        add(&self.waits_ms, &self.wait_us, us);
    }

    /// Counts a connection to a server that took this long to establish.
    pub fn has_connected(&self, us: u64) {
        add(&self.connects_ms, &self.connect_us, us);
    }

    /// Counts a reply whose first byte came after this time.
    pub fn has_begun(&self, us: u64) {
        add(&self.first_bytes_ms, &self.first_byte_us, us);
    }

    /// Counts a reply whose last byte came after this time.
    pub fn has_ended(&self, us: u64) {
        add(&self.last_bytes_ms, &self.last_byte_us, us);
    }
}

fn add(times: &Histogram, sum: &Counter, us: u64) {
    times[bucket(us.div_ceil(1000))].add_among_others(1);
    sum.add_among_others(us);
}

/// Every value of [`PoolCounters`], in display order.
pub static POOL_METRICS: &[Metric<PoolCounters>] = &[
    metric!(Kind::Gauge, queued, "Requests that wait in the pool's queue"),
    metric!(
        Kind::Gauge,
        in_flight,
        "Requests in flight, and those given up that the application may still be working on"
    ),
    metric!(Kind::Counter, requests, "Requests that came, with their bodies"),
    metric!(
        Kind::Counter,
        failures,
        "Requests that the pool did not answer completely, including refused and expired ones"
    ),
    metric!(Kind::Counter, refused, "Requests for which there was no room in the queue"),
    metric!(Kind::Counter, expired, "Requests that waited in the queue for too long"),
    metric!(Kind::Counter, clients_left, "Requests whose client disconnected"),
    metric!(Kind::Counter, reused, "Requests sent on a connection that had been kept"),
    metric!(Kind::Counter, retried, "Requests sent once more, as that connection broke"),
    metric!(Kind::Counter, spilled, "Replies of which a part went to the disk, as their clients were slow"),
    metric!(Kind::Counter, passed, "Replies that the application sent to the client itself (pass-fd)"),
    metric!(Kind::Counter, shared, "Replies that lay in memory shared with the application"),
    metric!(Kind::Counter, fell_back, "Replies that came by the stream where another transport is set"),
    metric!(Kind::Gauge, upgraded, "Connections that are upgraded, or have asked for it"),
    metric!(Kind::Counter, upgrades, "Connections that were upgraded (WebSocket)"),
    metric!(
        Kind::Counter,
        upgrades_refused,
        "Requests for an upgrade that were refused, as there were too many"
    ),
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
