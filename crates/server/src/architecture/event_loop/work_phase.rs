//! The work phase, in which connections that can go on do so, and the timers after it.

use super::EventLoop;
use super::turns::Turns;
use crate::account::Account;

/// How many connections a work phase of limited length serves between two checks of the clock.
const WORK_BETWEEN_LOOKS: usize = 8;

impl EventLoop {
    /// Lets every connection that can go on do so, or as many as there is time for.
    pub(super) fn work_phase(&mut self, turns: &mut impl Turns) {
        let mut work = std::mem::take(&mut self.agenda.work);
        // Only a long phase may be cut short.
        let until_ns = if work.len() > WORK_BETWEEN_LOOKS { self.work_ends_ns() } else { None };
        if self.agenda.cut_short && until_ns.is_some() {
            self.agenda.by_networks.order(&mut work, |index| {
                let registered = self.connections.get_mut(index);
                registered.map_or(Account::NOBODY, |registered| Account::of(registered.conversation.peer()))
            });
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
        self.work_ends(done as u32);
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
