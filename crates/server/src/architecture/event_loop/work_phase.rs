//! The work phase, in which connections that can go on do so, and the timers after it.

use super::EventLoop;
use super::registered::Registered;
use super::turns::Turns;
use crate::account::Account;
use crate::slab::Slab;

/// How many connections a work phase of limited length serves between two checks of the clock.
const WORK_BETWEEN_LOOKS: usize = 8;
/// How long a work phase goes on with connections that shake hands, while handshakes wait: this long, and a
/// part of the time that the turn has taken so far. In a flood, turns get long, and there are few of them.
const HANDSHAKES_NS: u64 = 200_000;
const PART_OF_TURN: u64 = 8;

impl EventLoop {
    /// Lets every connection that can go on do so, or as many as there is time for.
    pub(super) fn work_phase(&mut self, turns: &mut impl Turns) {
        let mut work = std::mem::take(&mut self.agenda.work);
        let handshakes_wait = self.handshakes_wait();
        if handshakes_wait {
            self.put_handshakes_last(&mut work);
        }
        // Only a long phase may be cut short.
        let until_ns = if work.len() > WORK_BETWEEN_LOOKS { self.work_ends_ns() } else { None };
        if self.agenda.cut_short && until_ns.is_some() {
            self.agenda.by_networks.order(&mut work, |index| account_of(&mut self.connections, index));
        }
        let mut done = 0_usize;
        for &index in &work {
            if done.is_multiple_of(WORK_BETWEEN_LOOKS)
                && done > 0
                && until_ns.is_some_and(|until_ns| sys::clock::monotonic_ns() >= until_ns)
            {
                break;
            }
            done += 1;
            turns.turn(self, index);
        }
        self.agenda.cut_short = done < work.len();
        if done == work.len() {
            work.clear();
        } else {
            work.drain(..done);
        }
        self.agenda.work = work;
        if handshakes_wait {
            done += self.work_on_handshakes(turns);
        }
        self.work_ends(done as u32);
    }

    /// Whether so many clients shake hands that some have to wait.
    pub(super) fn handshakes_wait(&self) -> bool {
        self.service.handshakes.as_ref().is_some_and(|handshakes| handshakes.has_some())
    }

    /// Takes the connections out of `work` that shake hands. They come last: first those that were called
    /// because they may go on, then the others, networks in turn.
    #[cold]
    fn put_handshakes_last(&mut self, work: &mut Vec<u32>) {
        let Self { connections, agenda, .. } = self;
        let mut shakes_hands = |index: u32| {
            connections.get_mut(index).is_some_and(|registered| registered.conversation.is_shaking_hands())
        };
        agenda.handshakes.extend(work.iter().copied().filter(|&index| shakes_hands(index)));
        work.retain(|&index| !shakes_hands(index));
        agenda.by_networks.order(&mut agenda.handshakes, |index| account_of(connections, index));
        let mut is_called =
            |&index: &u32| connections.get_mut(index).is_some_and(|client| client.conversation.is_queued());
        agenda.handshakes.sort_by_key(|index| !is_called(index));
    }

    /// Lets connections that shake hands go on for a while, after the others. Returns how many did.
    #[cold]
    fn work_on_handshakes(&mut self, turns: &mut impl Turns) -> usize {
        let now_ns = sys::clock::monotonic_ns();
        let until_ns = now_ns + HANDSHAKES_NS + (now_ns - self.service.clock.ns) / PART_OF_TURN;
        let mut handshakes = std::mem::take(&mut self.agenda.handshakes);
        let mut done = 0;
        for &index in &handshakes {
            done += 1;
            turns.turn(self, index);
            if sys::clock::monotonic_ns() >= until_ns {
                break;
            }
        }
        self.agenda.work.extend(handshakes.drain(..).skip(done));
        self.agenda.handshakes = handshakes;
        done
    }

    /// Handles the connections whose timers have expired. The loop does not know yet what a client has done
    /// since the get-events phase. So the time of that phase counts, however long the work phase took.
    pub(super) fn timers_phase(&mut self) {
        let now = self.measures.turn_began;
        let mut helpers_are_slow = false;
        while let Some(index) = self.waiting.timers.expired(now) {
            // Work for a connection must not count as the cost of a turn.
            self.measures.forget_turning();
            let Some(registered) = self.connections.get_mut(index) else { continue };
            let due = registered.conversation.deadline().is_some_and(|deadline| deadline.reached(now));
            helpers_are_slow |= due && registered.conversation.waits_for_disk().is_some();
            let turn = if due { registered.conversation.timeout(&mut self.service) } else { None };
            match turn {
                Some(turn) => self.settle(index, turn),
                None => registered.keep_deadline(index, &mut self.waiting.timers),
            }
        }
        if helpers_are_slow {
            self.look_after_helpers();
        }
    }
}

/// The account of the connection in that slot.
fn account_of(connections: &mut Slab<Registered>, index: u32) -> Account {
    let registered = connections.get_mut(index);
    registered.map_or(Account::NOBODY, |registered| Account::of(registered.conversation.peer()))
}
