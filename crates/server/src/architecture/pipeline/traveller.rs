//! A connection on its way through the stages. It is in one place at a time: with a stage, in a queue, or
//! among the waiting connections. It moves between them by value.

use std::os::fd::AsFd as _;

use super::waiting::{Number, Told};
use crate::channel::Channel;

/// A travelling connection.
pub(super) struct Traveller {
    pub(super) conversation: Channel,
    /// The worker whose stages it goes through. This never changes.
    pub(super) lane: u16,
    /// The only reader that can go on with it, if there is one.
    pub(super) reader: Option<u16>,
    /// What the Read stage is to do first.
    pub(super) errand: Errand,
    /// Where it waits. Set when it waits for the first time.
    pub(super) number: Option<Number>,
    /// Whether its socket is registered with Read Poll, and with Write Poll.
    pub(super) is_registered: (bool, bool),
    /// The acceptor that counts it among those ahead, until it has had its first turn.
    pub(super) acceptor: Option<u16>,
    /// It ends to make room for others: the server no longer waits for its client.
    pub(super) gives_way: bool,
    /// While it waits: how long its request has been with the stages. While it is with the stages: the time
    /// at which that would have begun, had it never waited.
    pub(super) time_ns: u64,
}

/// A traveller that is cheap to move.
pub(super) type Boxed = Box<Traveller>;

/// Why a connection comes to be read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Errand {
    /// To go on.
    #[default]
    GoOn,
    /// Its deadline has come.
    Expire,
    /// Other clients need its slot, and it is too slow.
    GiveUp,
}

impl Traveller {
    /// What a travelling connection takes, wherever it is.
    pub(super) const BYTES: usize = size_of::<Self>();

    pub(super) fn new(conversation: Channel, lane: u16, acceptor: Option<u16>, now_ns: u64) -> Self {
        Self {
            conversation,
            lane,
            reader: None,
            errand: Errand::GoOn,
            number: None,
            is_registered: (false, false),
            acceptor,
            gives_way: false,
            time_ns: now_ns,
        }
    }

    /// The connection moves from the stages to the waiting connections, or back.
    pub(super) fn passes(&mut self, now_ns: u64) {
        self.time_ns = now_ns.wrapping_sub(self.time_ns);
    }

    /// Notes what events have reported.
    pub(super) fn note(&mut self, Told { client, link }: Told) {
        self.conversation.note(client.0, client.1, client.2);
        if link != (false, false, false)
            && let Some((own, _)) = self.conversation.link()
        {
            own.note(link.0, link.1, link.2);
        }
    }
}

impl std::fmt::Debug for Traveller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Traveller").field(&self.conversation.as_fd()).finish()
    }
}
