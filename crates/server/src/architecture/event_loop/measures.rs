//! Measures what a turn takes: the time of its phases and, when the accept policy needs it, its CPU time.

use http1::Tick;

use super::EventLoop;
use crate::accept::{Cost, Turn};
use crate::counters::LoopPhase;
use crate::service::Clock;

/// Measurements of the current turn.
pub(super) struct Measures {
    /// The turn's result so far.
    turn: Turn,
    /// Its cost, if that is measured.
    cost: Option<TurnCost>,
    /// The thread's CPU time at the end of the previous work, if the turn's cost is to be measured.
    turning_since_ns: Option<u64>,
    /// When the current phase began.
    phase_began_ns: u64,
    /// When the last get-events phase ended.
    pub(super) turn_began: Tick,
}

/// What a turn takes, in nanoseconds of CPU time.
struct TurnCost {
    events: u32,
    /// From the end of work to the end of the get-events phase.
    overhead_ns: u64,
    /// The thread's CPU time at that moment.
    began_ns: u64,
    /// From that moment to the end of work.
    useful_ns: u64,
}

impl Measures {
    pub(super) fn new(now: &Clock) -> Self {
        Self {
            turn: Turn::default(),
            cost: None,
            turning_since_ns: None,
            phase_began_ns: now.ns,
            turn_began: now.tick,
        }
    }

    /// Whether the turn has worked on a connection.
    pub(super) fn has_worked(&self) -> bool {
        self.turn.worked > 0
    }

    /// Something has been done that must not count as the cost of a turn.
    pub(super) fn forget_turning(&mut self) {
        self.turning_since_ns = None;
    }
}

impl EventLoop {
    /// The get-events phase is over. With `at_once` it did not wait; otherwise it may have.
    pub(super) fn turn_begins(&mut self, at_once: bool, events: u32) {
        self.measures.turn_began = self.service.clock.tick;
        let spent_ns = self.phase_ends(LoopPhase::GetEvents, self.service.clock.ns);
        let measures = &mut self.measures;
        measures.turn = Turn { busy_ns: if at_once { spent_ns } else { 0 }, ..Turn::default() };
        let turning_since_ns = measures.turning_since_ns.take().filter(|_| at_once);
        measures.cost = turning_since_ns.map(|since_ns| {
            let began_ns = sys::clock::thread_cpu_ns();
            let overhead_ns = began_ns.saturating_sub(since_ns);
            TurnCost { events, overhead_ns, began_ns, useful_ns: 0 }
        });
    }

    /// The accept phase is over.
    pub(super) fn accepting_ends(&mut self, accepted: u32) {
        self.measures.turn.accepted += accepted;
        self.measures.turn.busy_ns += self.phase_ends(LoopPhase::Accept, sys::clock::monotonic_ns());
    }

    /// When the work phase that begins now has to end, if it is limited.
    pub(super) fn work_ends_ns(&self) -> Option<u64> {
        let work_ns = self.accepting.policy.budget().work_ns;
        work_ns.map(|ns| self.measures.phase_began_ns.saturating_add(ns))
    }

    /// Called at the end of work. Records what the work took, if that is measured, and where the next
    /// turn's cost begins, if that is due.
    pub(super) fn work_ends(&mut self, worked: u32) {
        let measures = &mut self.measures;
        measures.turn.worked = worked;
        let is_due = self.accepting.policy.cost_is_due(measures.phase_began_ns);
        if measures.cost.is_none() && !is_due {
            return;
        }
        let cpu_ns = sys::clock::thread_cpu_ns();
        if let Some(cost) = &mut measures.cost {
            cost.useful_ns = cpu_ns.saturating_sub(cost.began_ns);
        }
        measures.turning_since_ns = is_due.then_some(cpu_ns);
    }

    /// Passes the result of the turn to the accept policy, and publishes the policy's state.
    pub(super) fn turn_ends(&mut self) {
        self.measures.turn.busy_ns += self.phase_ends(LoopPhase::Work, sys::clock::monotonic_ns());
        if !self.accepting.policy.is_adaptive() {
            return;
        }
        let Measures { mut turn, phase_began_ns, .. } = self.measures;
        if let Some(TurnCost { events, overhead_ns, useful_ns, .. }) = self.measures.cost.take() {
            let Turn { accepted, worked, .. } = turn;
            self.accepting.policy.cost_seen(Cost { overhead_ns, events, useful_ns, accepted, worked });
        }
        turn.left = self.agenda.work.len() as u32;
        turn.emptied = !self.accepting.is_pending();
        self.accepting.policy.turned(phase_began_ns, &turn);
        if let Some(state) = self.accepting.policy.news(phase_began_ns) {
            state.publish(self.service.counters);
        }
    }

    /// Counts the time that a phase took, and returns it.
    pub(super) fn phase_ends(&mut self, phase: LoopPhase, now_ns: u64) -> u64 {
        let began_ns = std::mem::replace(&mut self.measures.phase_began_ns, now_ns);
        let spent_ns = now_ns.saturating_sub(began_ns);
        self.service.counters.spent(phase, spent_ns);
        spent_ns
    }
}
