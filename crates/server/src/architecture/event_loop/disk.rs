//! The event loop beside helpers: what would wait for the disk is done by them, while its connection waits without
//! interest in its socket.

use std::io;
use std::os::fd::AsFd;

use super::{EventLoop, HELPERS};
use crate::content::{Look, Patience};
use crate::conversation::Sighting;
use crate::helpers::{Done, Finished, Helpers, Job, Waiter};

impl EventLoop {
    /// From now on helpers wait for the disk in this loop's place.
    ///
    /// # Errors
    ///
    /// The event mechanism does not take their eventfd.
    pub fn with_helpers(mut self, helpers: Helpers) -> io::Result<Self> {
        self.events.watch(helpers.as_fd(), HELPERS)?;
        self.service.patience = Patience::None;
        self.helpers = Some(helpers);
        Ok(self)
    }

    /// Has a helper do what a connection would wait for.
    pub(super) fn ask_helpers(&mut self, index: u32, job: Job) {
        if let Some(helpers) = &mut self.helpers
            && let Some(registered) = self.connections.get_mut(index)
            && let Some(ticket) = registered.conversation.waits_for_disk()
        {
            let is_hopeful = helpers.submit(Waiter { index, ticket }, job, self.service.clock.ms);
            if !is_hopeful {
                self.disk_has_failed(Waiter { index, ticket });
            }
        }
    }

    /// Somebody has waited long: sees to it that others don't have to, and that nobody waits in vain.
    pub(super) fn look_after_helpers(&mut self) {
        let Some(helpers) = &mut self.helpers else { return };
        for waiter in helpers.look_after(self.service.clock.ms) {
            self.disk_has_failed(waiter);
        }
    }

    /// Takes in what helpers have finished, and lets those go on in the coming work phase who wait for it.
    pub(super) fn heed_helpers(&mut self) {
        let Some(mut helpers) = self.helpers.take() else { return };
        let now_ms = self.service.clock.ms;
        for Finished { name, done } in helpers.take_finished(now_ms) {
            match done {
                Done::Fetched => self.wake_waiters(&helpers.release(&name), None),
                Done::Seen(mut look, seen) => match self.service.content.admit(&mut look, seen) {
                    Some(found) => self.wake_waiters(&helpers.release(&name), Some((&look, &found))),
                    None => helpers.look_again(name, look, now_ms),
                },
            }
        }
        self.helpers = Some(helpers);
    }

    /// Lets one that waits go on without what it waits for.
    fn disk_has_failed(&mut self, Waiter { index, ticket }: Waiter) {
        if let Some(registered) = self.connections.get_mut(index)
            && registered.conversation.waits_for_disk() == Some(ticket)
        {
            registered.conversation.disk_has_failed(&mut self.service);
            if !std::mem::replace(&mut registered.due, true) {
                self.unfinished.push(index);
            }
        }
    }

    fn wake_waiters(&mut self, waiters: &[Waiter], found: Option<(&Look<'_>, &Sighting)>) {
        for &Waiter { index, ticket } in waiters {
            let Some(registered) = self.connections.get_mut(index) else { continue };
            // The connection may have been closed meanwhile, and another have its slot.
            if registered.conversation.waits_for_disk() != Some(ticket) {
                continue;
            }
            registered.conversation.disk_is_done(&mut self.service, found);
            if !std::mem::replace(&mut registered.due, true) {
                self.work.push(index);
            }
        }
    }
}
