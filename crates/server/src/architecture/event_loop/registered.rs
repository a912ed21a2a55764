//! A connection as the loop knows it.

use crate::architecture::common::token::Token;
use crate::architecture::events::Registration;
use crate::channel::Channel;
use crate::slab::Slab;
use crate::timers::Timers;

/// A connection and what its socket is registered for.
pub(super) struct Registered {
    pub(super) conversation: Channel,
    pub(super) registration: Registration,
    pub(super) generation: u16,
    /// Counts its connections to applications: a ring's operations for each have another name.
    pub(super) links: u8,
    /// It is due for a turn already. It gets one turn, however many reasons there are.
    pub(super) due: bool,
    /// It is to have its turn from a user-level thread, and waits until one is free.
    pub(super) awaits_thread: bool,
}

impl Registered {
    /// The connection that a token names, if its slot has not been given to another.
    #[inline]
    pub(super) fn named(connections: &mut Slab<Self>, token: Token) -> Option<&mut Self> {
        connections.get_mut(token.index).filter(|one| one.generation == token.generation)
    }

    /// Arms the timer for the connection's deadline. Call this after anything that may have moved the
    /// deadline or consumed the timer. A connection without a deadline is due for a turn, and that turn
    /// calls this again.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every request 14 instructions")]
    pub(super) fn keep_deadline(&mut self, index: u32, timers: &mut Timers) {
        if let Some(deadline) = self.conversation.deadline() {
            timers.wake_by(index, deadline);
        }
    }
}
