//! When accepting is possible, and how much of it.
//!
//! The accept limit (`config::AcceptLimit`) is the 2004 paper's (Brecht, Pariag, Gammo, "accept()able
//! strategies"): an upper bound on connections accepted consecutively before the server turns to its work
//! phase. An [`AcceptPolicy`] gives such a [budget](Budget) to each accept phase and hears of each
//! [turn](Turn) what came of it; it owns no socket and reads no clock, so that every architecture can ask it
//! and a test can run it for simulated hours. The [gate](Gate) is what bounds connections altogether.
//!
//! A driver's turn, whatever it calls its phases:
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

/// What decides how much is accepted, and how long what was accepted is worked on before accepting goes on.
#[derive(Debug)]
pub struct AcceptPolicy {
    kind: Kind,
    samples: Occasion,
    costs: Occasion,
    next_news_ns: u64,
}

/// When to do again what takes time itself: some time after the last, and where clients wait, after some
/// work. A server with a small part of a CPU would spend that on it otherwise.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "the unit of a time")]
struct Occasion {
    every_ns: u64,
    /// CPU time of serving between two.
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

    /// A turn is over in which serving took so long. Where nobody waits any more there is time.
    fn turned(&mut self, served_ns: f64, emptied: bool) {
        self.served_ns = if emptied { self.after_ns } else { self.served_ns + served_ns };
    }
}

#[derive(Debug)]
enum Kind {
    /// Always as many. (`u32::MAX` is more than any accept queue holds.)
    Fixed(u32),
    Auto(Auto),
}

/// Bounds on one accept phase and on the work phase after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Most connections to accept, at least 1.
    pub connections: u32,
    /// Most nanoseconds to work; `None`: until everything has had its turn.
    pub work_ns: Option<u64>,
}

/// The accept queues that a driver takes from, taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Connections that wait.
    pub length: u32,
    /// How many may wait.
    pub limit: u32,
}

/// What came of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Nanoseconds that it took, those of a get-events phase that may have waited left out.
    pub busy_ns: u64,
    /// Connections accepted.
    pub accepted: u32,
    /// Connections worked on, new ones and old ones.
    pub worked: u32,
    /// Connections that could go on and were left for the next turn.
    pub left: u32,
    /// No connection waits to be accepted any more, as far as one can know.
    pub emptied: bool,
}

/// CPU time of a turn. (Not just time: another program may have the CPU in between, for a hundred times as
/// long.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Nanoseconds that it took to turn around: from the end of work to the end of a get-events phase that
    /// was told not to wait.
    pub overhead_ns: u64,
    /// Events that this phase told of.
    pub events: u32,
    /// Nanoseconds of accepting and working.
    pub useful_ns: u64,
    /// Connections accepted.
    pub accepted: u32,
    /// Connections worked on, new ones and old ones.
    pub worked: u32,
}

/// What a policy has come to, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyState {
    /// Connections that the next accept phase may take.
    pub limit: u32,
    /// How long the next work phase may take, in nanoseconds; 0 if it is not bounded.
    pub work_ns: u64,
    /// The delay to stay below, in nanoseconds; 0 if there is none.
    pub target_ns: u64,
    /// The delay of a client that comes now, in nanoseconds, as estimated.
    pub delay_ns: u64,
    /// The delay has come back above its target for long: demand exceeds capacity.
    pub overloaded: bool,
}

impl PolicyState {
    /// Shows it in a worker's counters.
    pub fn publish(&self, counters: &Counters) {
        counters.accept_limit.set(self.limit.into());
        counters.work_limit_us.set(self.work_ns / 1000);
        counters.accept_delay_target_us.set(self.target_ns / 1000);
        counters.accept_delay_us.set(self.delay_ns / 1000);
        counters.accept_overloaded.set(self.overloaded.into());
    }
}

/// A fixed limit has nothing to learn from samples, which are for people then. A hundred a second, of a few
/// microseconds each at most: a thousandth of the time at the very worst.
const SAMPLE_EVERY_NS: u64 = 10_000_000;

/// Nobody looks more often than that.
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

    /// Whether anything depends on [`AcceptPolicy::turned`].
    #[inline]
    pub fn is_adaptive(&self) -> bool {
        matches!(self.kind, Kind::Auto(_))
    }

    /// Whether the accept phase that begins now should look at the queue, which takes time and is therefore
    /// done now and then.
    pub fn sampling_is_due(&mut self, now_ns: u64) -> bool {
        self.samples.is_now(now_ns)
    }

    /// A sample of the queue before an accept phase.
    pub fn queue_seen(&mut self, queue: Queue) {
        if let Kind::Auto(auto) = &mut self.kind {
            auto.queue_seen(queue);
        }
    }

    /// How long the first connection after such a sample had waited in the queue, in milliseconds.
    pub fn wait_seen(&mut self, ms: u32) {
        if let Kind::Auto(auto) = &mut self.kind {
            auto.wait_seen(ms);
        }
    }

    /// Whether the CPU time of the turn that begins now should be measured, if its get-events phase will not
    /// wait.
    #[inline]
    pub fn cost_is_due(&mut self, now_ns: u64) -> bool {
        self.is_adaptive() && self.costs.is_now(now_ns)
    }

    /// The CPU time of a turn.
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

    /// A turn is over.
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

    /// What it thinks now, if people have not been told for a while.
    #[inline]
    pub fn news(&mut self, now_ns: u64) -> Option<PolicyState> {
        let due = now_ns >= self.next_news_ns;
        if due {
            self.next_news_ns = now_ns.saturating_add(NEWS_EVERY_NS);
        }
        due.then(|| self.state())
    }

    /// What it thinks now.
    pub fn state(&self) -> PolicyState {
        match &self.kind {
            Kind::Fixed(limit) => {
                PolicyState { limit: *limit, work_ns: 0, target_ns: 0, delay_ns: 0, overloaded: false }
            }
            Kind::Auto(auto) => auto.state(),
        }
    }
}
