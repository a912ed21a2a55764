//! Limits on what one client may use. Every size, count and wait of a connection has one.

use crate::Tick;

/// Limits on requests. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest request line, including its line end; beyond it 414 (RFC 9112 section 3).
    pub request_line: u32,
    /// Largest head, including the request line; beyond it 431 (RFC 6585 section 5).
    pub head: u32,
    /// Most field lines, at most [`Limits::MAX_FIELDS`]; beyond it 431.
    pub fields: u16,
    /// Largest body that is read and discarded for a request that needs none; beyond it 413. For chunks
    /// only the data counts; the chunk framing has separate limits ([`chunked`](crate::chunked)).
    pub body: u64,
    /// Requests answered on one connection; the last reply has `Connection: close`.
    pub requests: u32,
    /// How long a client may take.
    pub timeouts: Timeouts,
}

impl Limits {
    /// The hard limit on field lines. Names are compared with one another, so that an application gets
    /// each name once.
    pub const MAX_FIELDS: u16 = 1000;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_line: 8 << 10,
            head: 32 << 10,
            fields: 100,
            body: 1 << 20,
            requests: 1_000_000,
            timeouts: Timeouts::default(),
        }
    }
}

/// How long a client may take, in [`Tick`]s, and how slow it may be, in bytes per second (0: any progress
/// is enough).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte of a head (or from the accept) to its last byte.
    pub header: u32,
    /// The period in which at least `body_rate` bytes of a body must arrive per second.
    pub body: u32,
    /// The minimum rate of a body, in bytes per second.
    pub body_rate: u32,
    /// The period in which the client must take at least `write_rate` bytes of a reply per second.
    pub write: u32,
    /// The minimum rate of a client that reads a reply, in bytes per second.
    pub write_rate: u32,
    /// From the end of a reply to the next request.
    pub idle: u32,
    /// After the last reply: how long to wait for the client to close.
    pub linger: u32,
}

impl Timeouts {
    /// Converts milliseconds to ticks. Rounds up, so that a wait is never too short and never 0.
    pub fn ticks(ms: u64) -> u32 {
        ms.div_ceil(u64::from(Tick::MS)).clamp(1, i32::MAX as u64) as u32
    }

    /// Bytes that a transfer must move in a period of `ticks` to keep up with `rate` bytes per second; at
    /// least 1.
    pub fn progress(ticks: u32, rate: u32) -> u64 {
        (u64::from(rate) * u64::from(ticks) * u64::from(Tick::MS) / 1000).max(1)
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = |s: u64| Self::ticks(s * 1000);
        Self {
            header: seconds(20),
            body: seconds(20),
            body_rate: 500,
            write: seconds(60),
            write_rate: 500,
            idle: seconds(60),
            linger: seconds(5),
        }
    }
}
