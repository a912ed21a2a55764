//! The event loop beside helpers: what would wait for the disk is done by them, while its connection waits
//! without interest in its socket.

use std::io;
use std::os::fd::AsFd;

use http1::Tick;

use super::{EventLoop, HELPERS};
use crate::content::{Admitted, Lookup, Patience};
use crate::helpers::{Done, Finished, Helpers, Job, Waiter};

/// A disk that is behind finishes something in this time. One that hangs keeps nobody from what is elsewhere.
const HOLD_TICKS: u32 = 1000 / Tick::MS;

impl EventLoop {
    /// From now on helpers wait for the disk in this loop's place.
    ///
    /// # Errors
    ///
    /// The event mechanism does not take their eventfd.
    pub fn with_helpers(mut self, helpers: Helpers) -> io::Result<Self> {
        self.waiting.events.watch(helpers.as_fd(), HELPERS)?;
        self.service.patience = Patience::None;
        self.postponed.helpers = Some(helpers);
        Ok(self)
    }

    /// Has a helper do what a connection would wait for, or does it later, where there are none.
    pub(super) fn put_off(&mut self, index: u32, job: Job) {
        let Some(registered) = self.connections.get_mut(index) else { return };
        let Some(ticket) = registered.conversation.waits_for_disk() else { return };
        let waiter = Waiter { index, ticket };
        match (&mut self.postponed.helpers, job) {
            (Some(helpers), job) => {
                let is_hopeful = helpers.submit(waiter, job, self.service.clock.ms);
                if !is_hopeful {
                    self.disk_has_failed(waiter);
                }
            }
            (None, Job::Lookup(look)) => self.postponed.listings.submit(waiter, look),
            // Nobody asks for windows but where helpers fetch them.
            (None, Job::Fetch(_)) => {}
        }
    }

    /// Somebody has waited long: sees to it that others don't have to, and that nobody waits in vain.
    pub(super) fn look_after_helpers(&mut self) {
        let Some(helpers) = &mut self.postponed.helpers else { return };
        for waiter in helpers.look_after(self.service.clock.ms) {
            self.disk_has_failed(waiter);
        }
    }

    /// Takes in what helpers have finished, and lets those go on in the coming work phase who wait for it.
    pub(super) fn heed_helpers(&mut self) {
        let Some(mut helpers) = self.postponed.helpers.take() else { return };
        let now_ms = self.service.clock.ms;
        for Finished { name, done } in helpers.take_finished(now_ms) {
            match done {
                Done::Fetched => self.wake_waiters(&helpers.release(&name, now_ms), None),
                Done::LookedUp(mut look, seen) => match self.service.content.admit(&mut look, seen) {
                    Some(found) => {
                        self.wake_waiters(&helpers.release(&name, now_ms), Some((&look, &found)));
                    }
                    None => helpers.look_up_again(name, look, now_ms),
                },
            }
            self.service.content.let_go();
        }
        self.accept_as_the_disk_allows(helpers.is_behind());
        self.postponed.helpers = Some(helpers);
    }

    /// Leaves clients outside while the disk is behind, as far as is known from the last job finished.
    fn accept_as_the_disk_allows(&mut self, is_behind: bool) {
        if is_behind && self.accepting.gate.paused_until().is_none() {
            self.service.counters.disk_holds.add(1);
        }
        let until = self.service.clock.tick.after(HOLD_TICKS);
        self.accepting.gate.hold(is_behind.then_some(until));
    }

    /// Lets one that waits go on without what it waits for.
    fn disk_has_failed(&mut self, waiter: Waiter) {
        if !self.is_waiting(waiter) {
            return;
        }
        let index = waiter.index;
        if let Some(registered) = self.connections.get_mut(index) {
            registered.conversation.disk_has_failed(&mut self.service);
            self.agenda.add_unfinished(index, registered);
        }
    }

    /// Whether a connection still waits: it may have been closed meanwhile, and another have its slot.
    pub(super) fn is_waiting(&mut self, Waiter { index, ticket }: Waiter) -> bool {
        let registered = self.connections.get_mut(index);
        registered.is_some_and(|registered| registered.conversation.waits_for_disk() == Some(ticket))
    }

    pub(super) fn wake_waiters(&mut self, waiters: &[Waiter], found: Option<(&Lookup<'_>, &Admitted)>) {
        for &waiter in waiters {
            if !self.is_waiting(waiter) {
                continue;
            }
            let index = waiter.index;
            let Some(registered) = self.connections.get_mut(index) else { continue };
            registered.conversation.disk_is_done(&mut self.service, found);
            self.agenda.add(index, registered);
        }
    }
}
