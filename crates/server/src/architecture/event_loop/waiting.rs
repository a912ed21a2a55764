//! What the loop waits with: the event mechanism for sockets, and the wheel for deadlines.

use std::io;

use http1::Tick;
use sys::event::Events;

use crate::architecture::events::EventMechanism;
use crate::timers::Timers;

/// The event mechanism, its latest events, and the timers.
pub(super) struct Waiting {
    pub(super) events: EventMechanism,
    /// The events of the last get-events phase.
    pub(super) ready: Events,
    pub(super) timers: Timers,
}

impl Waiting {
    pub(super) fn new(events: EventMechanism, now: Tick) -> Self {
        Self { events, ready: Events::with_capacity(Events::DEFAULT_CAPACITY), timers: Timers::new(now) }
    }

    /// Waits for events; returns how many are [`ready`](Self::ready).
    pub(super) fn wait(&mut self, timeout_ms: Option<u32>) -> io::Result<usize> {
        self.events.get(&mut self.ready, timeout_ms)
    }
}
