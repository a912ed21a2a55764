//! Helpers for the event loop: they do what would wait for the disk. Meanwhile the connection waits without
//! interest in its socket.

use std::io;
use std::os::fd::AsFd;

use http1::Tick;

use super::{EventLoop, HELPERS};
use crate::architecture::common::token::{Kind, Token};
use crate::content::{Admitted, Lookup, MayBlock};
use crate::handed_send::Sent;
use crate::helpers::{Done, Finished, Helpers, Job, Waiter};

/// A disk that is behind finishes something in this time. A disk that hangs must not keep out clients that
/// want files from elsewhere.
const HOLD_TICKS: u32 = 1000 / Tick::MS;

impl EventLoop {
    /// From now on helpers wait for the disk instead of this loop.
    ///
    /// # Errors
    ///
    /// The event mechanism does not accept their eventfd.
    pub fn with_helpers(mut self, helpers: Helpers) -> io::Result<Self> {
        self.waiting.events.watch(helpers.as_fd(), HELPERS)?;
        self.service.may_block = MayBlock::Never;
        self.postponed.helpers = Some(helpers);
        Ok(self)
    }

    /// Gives a helper the job that a connection would wait for. Without helpers, the loop does it later.
    pub(super) fn put_off(&mut self, index: u32, job: Job) {
        let Some(registered) = self.connections.get_mut(index) else { return };
        let Some(ticket) = registered.conversation.waits_for_disk() else { return };
        let waiter = Waiter { index, ticket };
        match (&mut self.postponed.helpers, job) {
            (Some(helpers), job) => {
                let is_hopeful = helpers.submit(waiter, job, self.service.clock.ms);
                if is_hopeful {
                    self.begin_loads();
                } else {
                    self.disk_has_failed(waiter);
                }
            }
            (None, Job::Lookup(look)) => self.postponed.listings.submit(waiter, look),
            // There are no such jobs without helpers.
            (None, Job::Fetch(_) | Job::Send(_)) => {}
        }
    }

    /// Called when a connection has waited long. Starts helpers so that others need not wait as long, and
    /// ends waits that would be in vain.
    pub(super) fn look_after_helpers(&mut self) {
        let Some(helpers) = &mut self.postponed.helpers else { return };
        for waiter in helpers.look_after(self.service.clock.ms) {
            self.disk_has_failed(waiter);
        }
        self.begin_loads();
    }

    /// Takes in which windows of files the ring has loaded.
    pub(super) fn heed_loads(&mut self) {
        let Some(mut helpers) = self.postponed.helpers.take() else { return };
        let now_ms = self.service.clock.ms;
        while let Some(number) = self.postponed.loaded.pop() {
            if let Some(name) = helpers.has_loaded(number) {
                self.wake_waiters(&helpers.release(&name, now_ms), None);
            }
        }
        self.accept_as_the_disk_allows(helpers.is_behind());
        self.postponed.helpers = Some(helpers);
        self.begin_loads();
    }

    /// Has the ring load windows of files, if that is its work.
    fn begin_loads(&mut self) {
        let (Some(helpers), Some(ring)) = (&mut self.postponed.helpers, self.waiting.events.ring()) else {
            return;
        };
        while let Some((number, fetch)) = helpers.next_load(self.service.clock.ms) {
            let (file, range) = fetch.into_range();
            let token = Token { kind: Kind::Helpers, generation: 0, index: number };
            ring.load(file, token.number(), range);
        }
    }

    /// Takes in what helpers have finished. The connections that waited for it go on in the coming work
    /// phase.
    pub(super) fn heed_helpers(&mut self) {
        let Some(mut helpers) = self.postponed.helpers.take() else { return };
        let now_ms = self.service.clock.ms;
        for Finished { name, done } in helpers.take_finished(now_ms) {
            match done {
                Done::Fetched => self.wake_waiters(&helpers.release(&name, now_ms), None),
                Done::Sent(sent) => self.send_is_done(&helpers.release(&name, now_ms), sent),
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

    /// Stops accepting clients while the disk is behind, as far as the last finished job shows.
    fn accept_as_the_disk_allows(&mut self, is_behind: bool) {
        if is_behind && self.accepting.gate.paused_until().is_none() {
            self.service.counters.disk_holds.add(1);
        }
        let until = self.service.clock.tick.after(HOLD_TICKS);
        self.accepting.gate.hold(is_behind.then_some(until));
    }

    /// Lets a waiting connection go on without what it waits for.
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

    /// Whether a connection still waits. It may have been closed meanwhile, and another may have its slot.
    pub(super) fn is_waiting(&mut self, Waiter { index, ticket }: Waiter) -> bool {
        let registered = self.connections.get_mut(index);
        registered.is_some_and(|registered| registered.conversation.waits_for_disk() == Some(ticket))
    }

    /// A helper has sent for the connection that waits for this.
    fn send_is_done(&mut self, waiters: &[Waiter], sent: Sent) {
        let Some(&waiter) = waiters.first() else { return };
        if self.is_waiting(waiter)
            && let Some(registered) = self.connections.get_mut(waiter.index)
        {
            registered.conversation.send_is_done(sent);
            self.agenda.add(waiter.index, registered);
        }
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
