//! The work phase, in which connections that can go on do so, and the timers behind it.

use super::EventLoop;
use crate::account::Account;
use crate::architecture::events::Registration;
use crate::conversation::Turn;

/// How many connections a work phase of limited length serves between two looks at the clock.
const WORK_BETWEEN_LOOKS: usize = 8;

impl EventLoop {
    /// Lets every connection that can go on do so, or as many as there is time for.
    pub(super) fn work_phase(&mut self) {
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
            let Some(registered) = self.connections.get_mut(index) else { continue };
            // A place that was waited for may have gone to somebody else.
            if std::mem::take(&mut registered.due) {
                match registered.conversation.work(&mut self.service) {
                    // It is registered once and for all, as nearly every turn leaves it.
                    Turn::Blocked if registered.registration == Registration::Edge => {
                        registered.keep_deadline(index, &mut self.waiting.timers);
                    }
                    turn => self.settle(index, turn),
                }
            }
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

    /// Looks at the connections whose wake-up has come. What a client has done since the get-events phase is
    /// not known yet, so the time of that phase counts, however long the work phase took.
    pub(super) fn timers_phase(&mut self) {
        let now = self.measures.turn_began;
        let mut helpers_are_slow = false;
        while let Some(index) = self.waiting.timers.expired(now) {
            // Whatever is done for a connection is no cost of turning around.
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
