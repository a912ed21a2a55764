//! The accept policy: when the server accepts connections, and how many at a time.
//!
//! The accept limit (`config::AcceptLimit`) is the one of the 2004 paper (Brecht, Pariag, Gammo,
//! "accept()able strategies"): an upper bound on the connections accepted consecutively before the server
//! turns to its work phase. An [`AcceptPolicy`] gives each accept phase a [budget](Budget), and learns
//! the outcome of each [turn](Turn). It owns no socket and reads no clock. So every architecture can use
//! it, and a test can run it for simulated hours. The [gate](Gate) bounds the total number of
//! connections.
//!
//! A turn of a driver, whatever it calls its phases:
//!
//! ```text
//! if policy.sampling_is_due(now) { policy.queue_seen(length and limit); }
//! budget = policy.budget();
//! accept at most budget.connections; of a sampled phase's first: policy.wait_seen(ms)
//! serve, at most budget.work_ns long; what is left comes first in the next turn
//! if policy.cost_is_due(now) { policy.cost_seen(CPU time of all that); }
//! policy.turned(now, what came of it)
//! ```

mod auto;
mod gate;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use auto::Auto;
pub use gate::Gate;

use crate::config::AcceptLimit;
use crate::counters::Counters;

/// Decides how many connections are accepted, and how long the server works on them before it accepts
/// more.
#[derive(Debug)]
pub struct AcceptPolicy {
    kind: Kind,
    samples: Occasion,
    costs: Occasion,
    next_news_ns: u64,
}

/// Decides when to repeat an action that takes time itself: some time after the last one and, while
/// clients wait, after some work. Otherwise a server with a small part of a CPU would spend that part on
/// the action.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "the unit of a time")]
struct Occasion {
    every_ns: u64,
    /// CPU time of serving between two actions.
    after_ns: f64,
    next_ns: u64,
    served_ns: f64,
}

impl Occasion {
    fn new(every_ns: u64, after_ns: f64) -> Self {
        Self { every_ns, after_ns, next_ns: 0, served_ns: after_ns }
    }

    #[inline]
    fn is_now(&mut self, now_ns: u64) -> bool {
        let is_now = now_ns >= self.next_ns && self.served_ns >= self.after_ns;
        if is_now {
            self.next_ns = now_ns.saturating_add(self.every_ns);
            self.served_ns = 0.0;
        }
        is_now
    }

    /// Records a turn in which serving took `served_ns`. If no client waits any more (`emptied`), there
    /// is time for the action.
    fn turned(&mut self, served_ns: f64, emptied: bool) {
        self.served_ns = if emptied { self.after_ns } else { self.served_ns + served_ns };
    }
}

#[derive(Debug)]
enum Kind {
    /// Always the same limit. `u32::MAX` is more than any accept queue holds.
    Fixed(u32),
    Auto(Auto),
}

/// Bounds on one accept phase and on the work phase after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Most connections to accept, at least 1.
    pub connections: u32,
    /// Most nanoseconds to work. `None`: until everything has had its turn.
    pub work_ns: Option<u64>,
}

/// The accept queues that a driver takes from, added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Connections that wait in the queues.
    pub length: u32,
    /// How many may wait there.
    pub limit: u32,
}

/// The outcome of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Nanoseconds that the turn took, without a get-events phase that may have waited.
    pub busy_ns: u64,
    /// Connections accepted.
    pub accepted: u32,
    /// Connections worked on, new and old.
    pub worked: u32,
    /// Connections that could continue but were left for the next turn.
    pub left: u32,
    /// No connection waits to be accepted any more, as far as the driver can know.
    pub emptied: bool,
}

/// The CPU time of a turn. Elapsed time would not do: another program may have the CPU in between, for a
/// hundred times as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Nanoseconds of overhead: from the end of work to the end of a get-events phase that was told not
    /// to wait.
    pub overhead_ns: u64,
    /// Events that this phase reported.
    pub events: u32,
    /// Nanoseconds of accepting and working.
    pub useful_ns: u64,
    /// Connections accepted.
    pub accepted: u32,
    /// Connections worked on, new and old.
    pub worked: u32,
}

/// The state of a policy, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyState {
    /// Connections that the next accept phase may take.
    pub limit: u32,
    /// How long the next work phase may take, in nanoseconds. 0: it is not bounded.
    pub work_ns: u64,
    /// The delay to stay below, in nanoseconds. 0: there is none.
    pub target_ns: u64,
    /// The estimated delay of a client that arrives now, in nanoseconds.
    pub delay_ns: u64,
    /// The delay has repeatedly exceeded its target for a long time: demand exceeds capacity.
    pub overloaded: bool,
}

impl PolicyState {
    /// Publishes the state in a worker's counters.
    pub fn publish(&self, counters: &Counters) {
        counters.accept_limit.set(self.limit.into());
        counters.work_limit_us.set(self.work_ns / 1000);
        counters.accept_delay_target_us.set(self.target_ns / 1000);
        counters.accept_delay_us.set(self.delay_ns / 1000);
        counters.accept_overloaded.set(self.overloaded.into());
    }
}

/// How often to sample under a fixed limit, which learns nothing from samples, so they are only
/// displayed. That is a hundred a second, of a few microseconds each at most: a thousandth of the time at
/// the very worst.
const SAMPLE_EVERY_NS: u64 = 10_000_000;

/// How often to publish the state. No operator looks more often.
const NEWS_EVERY_NS: u64 = 4_000_000;

impl AcceptPolicy {
    /// The policy that a setting asks for.
    pub fn new(limit: AcceptLimit) -> Self {
        let kind = match limit {
            AcceptLimit::Limit(limit) => Kind::Fixed(limit.get()),
            AcceptLimit::Unlimited => Kind::Fixed(u32::MAX),
            AcceptLimit::Auto => Kind::Auto(Auto::default()),
        };
        let (samples, costs) = match kind {
            Kind::Fixed(_) => (Occasion::new(SAMPLE_EVERY_NS, 0.0), Occasion::new(u64::MAX, 0.0)),
            Kind::Auto(_) => (
                Occasion::new(Auto::SAMPLE_EVERY_NS, Auto::SAMPLE_AFTER_NS),
                Occasion::new(Auto::COST_EVERY_NS, Auto::SAMPLE_AFTER_NS),
            ),
        };
        Self { kind, samples, costs, next_news_ns: 0 }
    }

    /// Whether the policy uses [`AcceptPolicy::turned`].
    #[inline]
    pub fn is_adaptive(&self) -> bool {
        matches!(self.kind, Kind::Auto(_))
    }

    /// Whether the accept phase that begins now should sample the queue. That takes time, so it is done
    /// only now and then.
    pub fn sampling_is_due(&mut self, now_ns: u64) -> bool {
        self.samples.is_now(now_ns)
    }

    /// Records a sample of the queue, taken before an accept phase.
    pub fn queue_seen(&mut self, queue: Queue) {
        if let Kind::Auto(auto) = &mut self.kind {
            auto.queue_seen(queue);
        }
    }

    /// Records how long the first connection after such a sample had waited in the queue, in
    /// milliseconds.
    pub fn wait_seen(&mut self, ms: u32) {
        if let Kind::Auto(auto) = &mut self.kind {
            auto.wait_seen(ms);
        }
    }

    /// Whether to measure the CPU time of the turn that begins now, if its get-events phase will not
    /// wait.
    #[inline]
    pub fn cost_is_due(&mut self, now_ns: u64) -> bool {
        self.is_adaptive() && self.costs.is_now(now_ns)
    }

    /// Records the CPU time of a turn.
    pub fn cost_seen(&mut self, cost: Cost) {
        if let Kind::Auto(auto) = &mut self.kind {
            auto.cost_seen(cost);
        }
    }

    /// Bounds for the accept phase that begins now and the work phase after it.
    #[inline]
    pub fn budget(&self) -> Budget {
        match &self.kind {
            Kind::Fixed(limit) => Budget { connections: *limit, work_ns: None },
            Kind::Auto(auto) => auto.budget(),
        }
    }

    /// The limit, if the administrator has set one.
    pub fn fixed_limit(&self) -> Option<u32> {
        match self.kind {
            Kind::Fixed(limit) => Some(limit),
            Kind::Auto(_) => None,
        }
    }

    /// Records the outcome of a turn.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "counted: a call here costs every turn 28 instructions")]
    pub fn turned(&mut self, now_ns: u64, turn: &Turn) {
        if let Kind::Auto(auto) = &mut self.kind {
            auto.turned(now_ns, turn);
            let served_ns = auto.serving_cpu_ns() * f64::from(turn.worked);
            self.samples.turned(served_ns, turn.emptied);
            self.costs.turned(served_ns, turn.emptied);
        }
    }

    /// The current state, if it has not been published for a while.
    #[inline]
    pub fn news(&mut self, now_ns: u64) -> Option<PolicyState> {
        let due = now_ns >= self.next_news_ns;
        if due {
            self.next_news_ns = now_ns.saturating_add(NEWS_EVERY_NS);
        }
        due.then(|| self.state())
    }

    /// The current state.
    pub fn state(&self) -> PolicyState {
        match &self.kind {
            Kind::Fixed(limit) => {
                PolicyState { limit: *limit, work_ns: 0, target_ns: 0, delay_ns: 0, overloaded: false }
            }
            Kind::Auto(auto) => auto.state(),
        }
    }
}
