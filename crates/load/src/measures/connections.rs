//! Connections that were begun in the window.

use super::{Moments, Times};
use crate::record::ConnectionEnd;

/// How many there were, and how long they took.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    /// Those that were tried.
    pub tried: u64,
    /// Those that came up.
    pub connected: u64,
    /// Those that the server ended, and whose sessions went on over others.
    pub lost: u64,
    /// From the first packet to when it was up, without the handshake of TLS.
    pub connect_times: Times,
    /// Those with at least one reply, from the first packet to the end, in milliseconds.
    pub time_ms: Moments,
    /// Those with at least one reply, from the first packet to the end, as a histogram.
    pub times: Times,
    /// Replies of those.
    pub replies: u64,
}

impl Connections {
    /// Replies for each connection that had any; 0 where there is none.
    pub fn replies_of_each(&self) -> f64 {
        self.replies as f64 / self.time_ms.count().max(1) as f64
    }

    pub(super) fn connection(&mut self, connection: &ConnectionEnd) {
        self.tried += 1;
        self.lost += u64::from(connection.lost);
        if let Some(connected) = connection.connected {
            self.connected += 1;
            self.connect_times.record(connected - connection.started);
        }
        if connection.replies > 0 {
            let time = connection.ended.saturating_sub(connection.started);
            self.time_ms.add(time as f64 / 1e6);
            self.times.record(time);
            self.replies += u64::from(connection.replies);
        }
    }

    pub(super) fn take_in(&mut self, other: &Self) {
        self.tried += other.tried;
        self.connected += other.connected;
        self.lost += other.lost;
        self.connect_times.take_in(&other.connect_times);
        self.time_ms.take_in(&other.time_ms);
        self.times.take_in(&other.times);
        self.replies += other.replies;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn connections_without_a_reply_have_no_time() {
        let mut connections = Connections::default();
        let ends = |replies, connected, ended| ConnectionEnd {
            started: MS,
            connected,
            handshake: None,
            ended,
            replies,
            lost: false,
        };
        connections.connection(&ends(2, Some(2 * MS), 5 * MS));
        connections.connection(&ends(0, Some(2 * MS), 50 * MS));
        connections.connection(&ends(0, None, 50 * MS));
        assert_eq!((connections.tried, connections.connected, connections.replies), (3, 2, 2));
        assert_eq!((connections.time_ms.count(), connections.time_ms.mean()), (1, 4.0));
        assert!((connections.connect_times.mean_ms() - 1.0).abs() < 0.005);
    }
}
