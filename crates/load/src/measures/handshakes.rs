//! Handshakes of TLS on connections that were begun in the window, and why TLS failed.

use super::Times;
use crate::record::{Agreed, ConnectionEnd, Established, Handshake, HandshakeKind};

/// Reasons that are kept word for word. A server has few; others count as [`OTHER`].
const MOST_REASONS: usize = 16;
/// The reason of all that are beyond them.
const OTHER: &str = "other reasons";

/// How many handshakes there were, and how long they took.
#[derive(Clone, Debug, Default)]
pub struct Handshakes {
    /// Full ones that needed no second `ClientHello`, and those that did, together.
    pub full: u64,
    /// Those that resumed a session.
    pub resumed: u64,
    /// Of the full ones, those for which the server asked for another `ClientHello`.
    pub hello_retries: u64,
    /// Those that failed, or that the client gave up.
    pub failed: u64,
    /// Those that the end of the run cut off.
    pub unfinished: u64,
    /// From when the connection was up to when TLS was established, of full ones.
    pub full_times: Times,
    /// The same of those that resumed a session.
    pub resumed_times: Times,
    agreed: Vec<(Agreed, u64)>,
    reasons: Vec<(String, u64)>,
}

impl Handshakes {
    /// The times of all of them.
    pub fn times(&self) -> Times {
        let mut times = self.full_times.clone();
        times.take_in(&self.resumed_times);
        times
    }

    /// What they agreed on, and how many of them did; the most frequent first.
    pub fn agreed(&self) -> Vec<(Agreed, u64)> {
        let mut agreed = self.agreed.clone();
        agreed.sort_by_key(|(agreed, count)| (u64::MAX - count, agreed.cipher, agreed.group));
        agreed
    }

    /// Why TLS failed, in the handshake or later, and on how many connections; the most frequent first.
    pub fn reasons(&self) -> Vec<(&str, u64)> {
        let mut reasons: Vec<_> = self.reasons.iter().map(|(reason, count)| (&**reason, *count)).collect();
        reasons.sort_by_key(|(reason, count)| (u64::MAX - count, *reason));
        reasons
    }

    pub(super) fn connection(&mut self, connection: &ConnectionEnd) {
        match connection.handshake {
            None => {}
            Some(Handshake::Failed) => self.failed += 1,
            Some(Handshake::Unfinished) => self.unfinished += 1,
            Some(Handshake::Done(Established { at, kind, agreed })) => {
                let took = at.saturating_sub(connection.connected.unwrap_or(at));
                if kind == HandshakeKind::Resumed {
                    self.resumed += 1;
                    self.resumed_times.record(took);
                } else {
                    self.full += 1;
                    self.hello_retries += u64::from(kind == HandshakeKind::FullAfterRetry);
                    self.full_times.record(took);
                }
                add(&mut self.agreed, agreed, 1);
            }
        }
    }

    pub(super) fn error(&mut self, reason: &str) {
        self.add_reason(reason, 1);
    }

    fn add_reason(&mut self, reason: &str, count: u64) {
        let is_known = self.reasons.iter().any(|(known, _)| known == reason);
        let kept = if is_known || self.reasons.len() < MOST_REASONS { reason } else { OTHER };
        add(&mut self.reasons, kept.to_owned(), count);
    }

    pub(super) fn take_in(&mut self, other: &Self) {
        self.full += other.full;
        self.resumed += other.resumed;
        self.hello_retries += other.hello_retries;
        self.failed += other.failed;
        self.unfinished += other.unfinished;
        self.full_times.take_in(&other.full_times);
        self.resumed_times.take_in(&other.resumed_times);
        other.agreed.iter().for_each(|(agreed, count)| add(&mut self.agreed, *agreed, *count));
        other.reasons.iter().for_each(|(reason, count)| self.add_reason(reason, *count));
    }
}

/// Counts one of few different values.
fn add<T: PartialEq>(counts: &mut Vec<(T, u64)>, value: T, count: u64) {
    match counts.iter_mut().find(|(known, _)| *known == value) {
        Some((_, counted)) => *counted += count,
        None => counts.push((value, count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const AGREED: Agreed = Agreed { version: "1.3", cipher: "TLS_AES_128_GCM_SHA256", group: Some("x25519") };

    fn end(handshake: Option<Handshake>) -> ConnectionEnd {
        let connected = Some(2 * MS);
        ConnectionEnd { started: MS, connected, handshake, ended: 9 * MS, replies: 1, lost: false }
    }

    fn done(kind: HandshakeKind, ms: u64) -> ConnectionEnd {
        end(Some(Handshake::Done(Established { at: (2 + ms) * MS, kind, agreed: AGREED })))
    }

    #[test]
    fn each_is_counted_once_and_timed_from_when_the_connection_was_up() {
        let mut handshakes = Handshakes::default();
        for connection in [
            done(HandshakeKind::Full, 4),
            done(HandshakeKind::FullAfterRetry, 6),
            done(HandshakeKind::Resumed, 1),
            end(Some(Handshake::Failed)),
            end(Some(Handshake::Unfinished)),
            end(None),
        ] {
            handshakes.connection(&connection);
        }
        let mut all = Handshakes::default();
        all.take_in(&handshakes);
        all.take_in(&handshakes);
        let Handshakes { full, resumed, hello_retries, failed, unfinished, .. } = all;
        assert_eq!((full, resumed, hello_retries, failed, unfinished), (4, 2, 2, 2, 2));
        assert!((all.full_times.mean_ms() - 5.0).abs() < 0.01);
        assert!((all.resumed_times.mean_ms() - 1.0).abs() < 0.01);
        assert_eq!(all.times().count(), 6);
        assert_eq!(all.agreed(), [(AGREED, 6)]);
    }

    #[test]
    fn the_number_of_reasons_is_bounded() {
        let mut handshakes = Handshakes::default();
        for number in 0..100 {
            handshakes.error(&format!("reason {number}"));
            handshakes.error("reason 3");
        }
        let mut all = handshakes.clone();
        all.take_in(&handshakes);
        let reasons = all.reasons();
        assert_eq!(reasons.len(), MOST_REASONS + 1);
        assert_eq!(reasons[0], ("reason 3", 202));
        assert_eq!(reasons[1], (OTHER, 2 * (100 - MOST_REASONS as u64)));
    }
}
