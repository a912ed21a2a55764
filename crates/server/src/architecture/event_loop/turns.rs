//! How a connection has its turn. Event loops call its conversation; user-level threads go on where they
//! parked.

use std::io;

use super::EventLoop;
use crate::architecture::events::Registration;
use crate::conversation::Turn;

/// What gives connections their turns.
pub(in crate::architecture) trait Turns {
    /// Takes new connections out of the accept queues.
    ///
    /// # Errors
    ///
    /// The event mechanism stops working.
    fn accept(&mut self, events: &mut EventLoop) -> io::Result<()>;

    /// A connection may have a turn now.
    fn turn(&mut self, events: &mut EventLoop, index: u32);

    /// All connections that could go on have had their turns.
    fn turn_ends(&mut self, events: &mut EventLoop);

    /// Service ends.
    fn end(&mut self, events: &mut EventLoop);
}

/// A turn is a call.
pub(super) struct Calls;

impl Turns for Calls {
    #[inline]
    fn accept(&mut self, events: &mut EventLoop) -> io::Result<()> {
        events.accept_phase()
    }

    #[inline]
    fn turn(&mut self, events: &mut EventLoop, index: u32) {
        let Some(registered) = events.connections.get_mut(index) else { return };
        // Another connection may have the slot by now.
        if std::mem::take(&mut registered.due) {
            match registered.conversation.work(&mut events.service) {
                // Its registration never changes. Nearly every turn ends this way.
                Turn::Blocked if registered.registration == Registration::Edge => {
                    registered.keep_deadline(index, &mut events.waiting.timers);
                }
                turn => events.settle(index, turn),
            }
        }
    }

    fn turn_ends(&mut self, _: &mut EventLoop) {}

    fn end(&mut self, _: &mut EventLoop) {}
}
