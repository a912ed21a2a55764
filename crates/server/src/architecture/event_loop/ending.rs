//! The event loop and its supervisor: the supervisor's requests, and how service ends.

use std::os::fd::AsFd as _;

use http1::Tick;

use super::EventLoop;
use super::accepting::Port;
use crate::architecture::common::ending::{Begins, Census};
use crate::architecture::common::listener_handles::Accepted;

impl EventLoop {
    /// The supervisor has woken this worker. Another worker without room may have done so too, to make a
    /// worker with room check the listeners.
    pub(super) fn heed_supervisor(&mut self) {
        self.control.heed();
        self.service.counters.connection_places.set(self.connections.slots().into());
        for port in &mut self.accepting.ports {
            port.pending = true;
        }
        let connections = &mut self.connections;
        let census = || {
            let mut counts = Census::default();
            for (_, registered) in connections.iter_mut() {
                counts[registered.conversation.state() as usize] += 1;
            }
            counts
        };
        match self.ending.heed(&self.service, census) {
            Some(Begins::Retiring) => self.retire(),
            Some(Begins::Draining) => {
                let now = self.service.clock.tick;
                self.accepting.ports.iter_mut().for_each(|port| port.handle.drain(now, &self.control));
                self.say_close_from_now_on();
            }
            None => {}
        }
    }

    /// Leaves the listeners to other processes.
    fn retire(&mut self) {
        for port in &self.accepting.ports {
            // Other processes have the same socket open, so closing it here would not end its registration.
            self.waiting.events.remove_if(port.handle.listener.as_fd(), port.registration);
        }
        // From here on the kernel wakes other processes. For connections that came before, it may have
        // woken only this process. The supervisor wakes the others once more for connections that find no
        // room here.
        for at in 0..self.accepting.ports.len() {
            while self.has_room()
                && let Accepted::Client(client) = self.accept_at(at, 1)
            {
                self.service.counters.accept_phase(1);
                self.open(client);
            }
        }
        while let Some(port) = self.accepting.ports.pop() {
            port.handle.let_go(
                &self.service,
                &self.control,
                self.accepting.ports.iter().map(Port::is_retiring),
            );
        }
        self.say_close_from_now_on();
        self.service.content.retire();
    }

    pub(super) fn say_close_from_now_on(&mut self) {
        // This worker does not keep connections to applications either. Other workers have their own.
        self.service.gateway.keep_none();
        for (_, registered) in self.connections.iter_mut() {
            registered.conversation.machine().drain();
        }
    }

    /// Continues an end of service; returns whether it is complete.
    pub(super) fn has_ended(&mut self) -> bool {
        let now = self.service.clock.tick;
        self.close_listeners(now);
        if !self.ending.has_begun() {
            return false;
        }
        if self.ending.gives_up(now) {
            tracing::warn!("{} connections cut off: the drain timeout is over", self.connections.len());
            return true;
        }
        // If a connection had a turn since the last get-events phase, it may look idle although a request
        // is waiting.
        if self.ending.closes_idle_ones(now) && self.accepting.ports.is_empty() && !self.measures.has_worked()
        {
            self.close_idle_ones_if_all_are(now);
        }
        self.accepting.ports.is_empty() && self.connections.is_empty()
    }

    /// Closes listeners that retire and are empty by now.
    fn close_listeners(&mut self, now: Tick) {
        let control = &self.control;
        while let Some(at) =
            self.accepting.ports.iter_mut().position(|port| port.handle.is_over(now, control))
        {
            let port = self.accepting.ports.swap_remove(at);
            self.waiting.events.remove_if(port.handle.listener.as_fd(), port.registration);
            port.handle.let_go(
                &self.service,
                &self.control,
                self.accepting.ports.iter().map(Port::is_retiring),
            );
        }
    }

    /// Idle connections are closed last. While others are served, a request may still arrive on an idle
    /// one.
    fn close_idle_ones_if_all_are(&mut self, now: Tick) {
        let busy = self.connections.iter_mut().any(|(_, registered)| {
            if registered.awaits_thread {
                return true;
            }
            let machine = registered.conversation.machine();
            !machine.is_idle() && !machine.is_lingering()
        });
        if busy {
            return;
        }
        for index in 0..self.connections.slots() {
            let Some(registered) = self.connections.get_mut(index) else { continue };
            if registered.conversation.close_if_done(now) {
                let turn = registered.conversation.work(&mut self.service);
                self.settle(index, turn);
            }
        }
    }
}
