//! `auto`: an accept limit steered by delay.
//!
//! Two things are to be avoided: limits so small that the server does little but turn around, and limits so
//! large that clients who might have been turned away early wait inside instead of outside, in batches.
//! Between them lies room, and delay says where in it to be. The law, with the names of docs/tuning.md ("The
//! accept limit `auto`"):
//!
//! - **Batch.** A turn costs *g* of CPU time without anything done in it: what comes between work and
//!   accepting, its get-events phase above all, less what that takes for each event; with `select` *g* grows
//!   with connections. Serving a connection once costs *s*. Each one that waits inside makes that dearer by a
//!   1500th, for caches hold less of each: a turn of *n* costs `g + n s (1 + n / 1500)`. By the connection
//!   that is least for `n = sqrt(1500 g / s)`, of which as many are new as were of late. Neither may old
//!   connections crowd out new ones for good: a 64th of them may be new.
//! - **Ceiling.** What takes *c* each by the clock, accepting included, is served within the target if there
//!   are `target / c` of it, those included that the last work phase left over.
//! - **Delay.** Clients wait outside, `queue length / accept rate` (Little's law), and inside, `left over *
//!   c`. Little's law knows nothing of other processes that take from the same queue, nor of time that
//!   another program was given: so it is held against the waiting times that the kernel tells of sampled
//!   connections, and corrected by the ratio.
//! - **Law.** As long as the delay stays below its target, the limit rises to the ceiling, by a quarter a
//!   turn, and nobody waits for a turn to end. Delay that comes back for longer than an interval means that
//!   demand exceeds capacity, and no limit will help those outside: the limit falls to the batch, by a
//!   quarter a turn, capacity is at its highest, and clients wait where waiting is cheap. That ends with an
//!   interval without delay.
//! - **Bursts.** Until then, delay is a burst's. A queue more than half full is emptied, as far as everybody
//!   can be served within the interval: a dropped handshake costs its client a second.
//! - **Work.** The work phase ends in time for the queue not to overflow: when half of its room is used up at
//!   the present rate, at the target at the latest, and never before a batch is served.
//!
//! The target of 5 ms and the interval of 100 ms are `CoDel`'s (Nichols and Jacobson 2012; RFC 8289, section
//! 4.2 and 4.3), as is the idea that only delay which stays is bad, and that its minimum over an interval
//! tells. `CoDel` drops; here the kernel does that by itself, as soon as the queue is full.

use super::{Budget, Cost, PolicyState, Queue, Turn};

/// The delay to stay below.
const TARGET_NS: f64 = 5e6;
/// Delay above the target that comes back for so long is there to stay.
const INTERVAL_NS: f64 = 1e8;
/// So many connections waiting inside double the cost of serving: a measured value, see
/// docs/architectures.md.
const CROWD: f64 = 1500.0;
/// An event costs less than this part of what serving a connection once does: a tenth was seen, with nothing
/// in the caches.
const EVENT: f64 = 1.0 / 8.0;
/// And less than this part of what turning around without any does: epoll takes 1.2 us and 0.2 us for each.
const EVENT_OF_TURN: f64 = 1.0 / 4.0;
/// Among so many connections worked on there may always be a new one.
const OLD_FOR_NEW: f64 = 64.0;
/// How far the limit moves in a turn.
const STEP: f64 = 1.0 / 4.0;
/// Whatever is measured, this is no time at all.
const SHORTEST_WORK_NS: f64 = 1e3;
/// The correction begins at 1 and counts as much as so many milliseconds of samples.
const PRIOR_MS: f64 = 20.0;

/// The state of the policy. All times are in nanoseconds.
#[derive(Debug)]
pub struct Auto {
    /// Moves between the batch and the ceiling.
    limit: f64,
    work_ns: f64,
    /// Over sampled turns: CPU time of turning around; averages of the CPU time for each connection worked
    /// on, and of the part of those that was new.
    overhead: Overhead,
    serving_cpu_ns: f64,
    new: f64,
    /// What follows from them: new connections of a turn at which those served cost least.
    cheapest: f64,
    /// Averages over turns.
    busy_ns: f64,
    accepted: f64,
    worked: f64,
    /// What follows from them, kept because each turn asks several times: *c*, the time that serving once
    /// takes; the time from one accept to the next while the server is busy; and what may be accepted
    /// whatever else there is to do.
    once_ns: f64,
    accept_ns: f64,
    fair_share: f64,
    /// As it was when last seen, less what was accepted since.
    queue: Option<Queue>,
    /// Connections that the last work phase did not come to.
    left: f64,
    /// Sums over samples, older ones counting less: what connections waited, and what Little's law said that
    /// they would.
    waited_ms: f64,
    expected_ms: f64,
    delay_ns: f64,
    /// When the accept queue was last found empty.
    emptied_ns: u64,
    /// When the delay was last above its target, and since when that has come back within an interval each
    /// time.
    late_ns: u64,
    late_since_ns: u64,
    /// It was at the end of the last turn.
    late: bool,
    overloaded: bool,
    /// There has been a turn, so that these moments mean something.
    begun: bool,
}

impl Default for Auto {
    /// As on a machine of today with epoll and small files, until turns tell.
    fn default() -> Self {
        Self {
            limit: 1.0,
            work_ns: TARGET_NS,
            overhead: Overhead { ns: 1e3, events: 0.0, variance: 0.0, covariance: 0.0 },
            serving_cpu_ns: 20e3,
            new: 1.0,
            cheapest: cheapest(1e3, 20e3, 1.0),
            busy_ns: 20e3,
            accepted: 1.0,
            worked: 1.0,
            once_ns: 20e3,
            accept_ns: 20e3,
            fair_share: 1.0,
            queue: None,
            left: 0.0,
            waited_ms: 0.0,
            expected_ms: 0.0,
            delay_ns: 0.0,
            emptied_ns: 0,
            late_ns: 0,
            late_since_ns: 0,
            late: false,
            overloaded: false,
            begun: false,
        }
    }
}

impl Auto {
    /// More often than delays of the target come and go.
    pub(super) const SAMPLE_EVERY_NS: u64 = 4_000_000;
    /// A sample takes two or three microseconds: a quarter of a percent of this.
    pub(super) const SAMPLE_AFTER_NS: f64 = 1e6;
    /// Costs change with what is asked for, and samples of them are averaged anyhow.
    pub(super) const COST_EVERY_NS: u64 = 10_000_000;

    /// CPU time for each connection worked on, on average.
    pub(super) fn serving_cpu_ns(&self) -> f64 {
        self.serving_cpu_ns
    }

    pub(super) fn queue_seen(&mut self, queue: Queue) {
        self.queue = Some(queue);
    }

    pub(super) fn wait_seen(&mut self, ms: u32) {
        // Those behind it have come while it waited.
        let Some(queue) = self.queue else { return };
        let expected_ms = f64::from(queue.length) * self.accept_ns / 1e6;
        self.waited_ms += f64::from(ms) - self.waited_ms / 32.0;
        self.expected_ms += expected_ms - self.expected_ms / 32.0;
    }

    pub(super) fn cost_seen(&mut self, cost: Cost) {
        if cost.worked == 0 {
            return;
        }
        let worked = f64::from(cost.worked);
        let weight = (cost.useful_ns as f64 / INTERVAL_NS).clamp(1.0 / 8.0, 0.5);
        self.overhead.seen(cost.overhead_ns as f64, f64::from(cost.events), weight);
        average(&mut self.serving_cpu_ns, cost.useful_ns as f64 / worked, weight);
        average(&mut self.new, f64::from(cost.accepted) / worked, weight);
        self.cheapest =
            cheapest(self.overhead.without_events(self.serving_cpu_ns), self.serving_cpu_ns, self.new);
    }

    pub(super) fn budget(&self) -> Budget {
        let room = self.served_within(TARGET_NS) - self.left;
        // With work left over, no turn is too short.
        let floor = if self.left > 0.0 { self.fair_share } else { self.batch() };
        let mut connections = self.limit.min(room).max(floor);
        if let Some(queue) = self.queue
            && queue.length > queue.limit / 2
            && !self.overloaded
        {
            let room = self.served_within(INTERVAL_NS) - self.left;
            connections = connections.max(room.min(f64::from(queue.length)));
        }
        Budget { connections: connections.max(1.0) as u32, work_ns: Some(self.work_ns as u64) }
    }

    pub(super) fn turned(&mut self, now_ns: u64, turn: &Turn) {
        self.learn(turn);
        if !std::mem::replace(&mut self.begun, true) {
            self.emptied_ns = now_ns;
        }
        if turn.emptied {
            self.emptied_ns = now_ns;
        }
        self.left = f64::from(turn.left);
        self.delay_ns = self.delay_outside_ns(now_ns) + self.left * self.once_ns;
        self.judge(now_ns);
        let moved = if self.overloaded {
            self.limit - self.limit * STEP
        } else {
            self.limit + self.limit * STEP + 1.0
        };
        let batch = self.batch();
        self.limit = moved.min(self.served_within(TARGET_NS)).max(batch);
        self.work_ns = self.work_at_most_ns(batch);
    }

    pub(super) fn state(&self) -> PolicyState {
        let Budget { connections, .. } = self.budget();
        PolicyState {
            limit: connections,
            work_ns: self.work_ns as u64,
            target_ns: TARGET_NS as u64,
            delay_ns: self.delay_ns as u64,
            overloaded: self.overloaded,
        }
    }

    /// Averages what turns take and bring, over an interval or some dozens of them, whichever is shorter.
    fn learn(&mut self, turn: &Turn) {
        if turn.worked > 0 || turn.accepted > 0 {
            let busy_ns = ns(turn.busy_ns);
            let weight = (busy_ns / INTERVAL_NS).clamp(1.0 / 32.0, 0.5);
            average(&mut self.busy_ns, busy_ns, weight);
            average(&mut self.accepted, f64::from(turn.accepted), weight);
            average(&mut self.worked, f64::from(turn.worked), weight);
            self.once_ns = self.busy_ns.max(1.0) / self.worked.max(1e-3);
            self.accept_ns = self.busy_ns.max(1.0) / self.accepted.max(1e-3);
            // Most turns are of fewer, and need not call for a whole number.
            let has_many = self.worked > OLD_FOR_NEW;
            self.fair_share = if has_many { (self.worked / OLD_FOR_NEW).ceil() } else { 1.0 };
        }
        match &mut self.queue {
            Some(queue) if turn.emptied => queue.length = 0,
            Some(queue) => queue.length = queue.length.saturating_sub(turn.accepted),
            None => {}
        }
    }

    /// Is the delay a burst's, or is it there to stay?
    fn judge(&mut self, now_ns: u64) {
        let long_ago = |ns: u64| now_ns.saturating_sub(ns) >= INTERVAL_NS as u64;
        let is_late = self.delay_ns > TARGET_NS;
        let was_late = std::mem::replace(&mut self.late, is_late);
        // A turn may take longer than the interval: between two that end late nobody has seen calm.
        let was_calm = !was_late && long_ago(self.late_ns);
        if is_late {
            self.late_ns = now_ns;
            if was_calm {
                self.late_since_ns = now_ns;
            }
        }
        self.overloaded = !long_ago(self.late_ns) && long_ago(self.late_since_ns);
    }

    /// What a client that comes now will wait to be accepted. It can't be longer than since the queue was
    /// last empty.
    fn delay_outside_ns(&self, now_ns: u64) -> f64 {
        let since_empty = ns(now_ns.saturating_sub(self.emptied_ns));
        let Some(queue) = self.queue else { return since_empty };
        let correction = (PRIOR_MS + self.waited_ms) / (PRIOR_MS + self.expected_ms);
        (f64::from(queue.length) * self.accept_ns * correction).min(since_empty)
    }

    /// New connections of a turn that are never too many.
    fn batch(&self) -> f64 {
        self.cheapest.max(self.fair_share)
    }

    fn served_within(&self, ns: f64) -> f64 {
        (ns / self.once_ns).max(1.0)
    }

    fn work_at_most_ns(&self, batch: f64) -> f64 {
        let shortest = batch * self.accept_ns;
        let in_time = match self.queue {
            Some(queue) if !self.overloaded => {
                f64::from(queue.limit.saturating_sub(queue.length)) / 2.0 * self.accept_ns
            }
            _ => TARGET_NS,
        };
        in_time.min(TARGET_NS).max(shortest).max(SHORTEST_WORK_NS)
    }
}

/// What get-events phases cost, by the number of events that they tell of: averages, and how the one goes
/// with the other.
///
/// An event costs as much in a large turn as in a small one, so it is no reason for large ones. Taken for a
/// cost of the turn it would be: a large turn would make the next one larger.
#[derive(Debug)]
struct Overhead {
    ns: f64,
    events: f64,
    variance: f64,
    covariance: f64,
}

impl Overhead {
    fn seen(&mut self, ns: f64, events: f64, weight: f64) {
        let (more_ns, more_events) = (ns - self.ns, events - self.events);
        self.ns += more_ns * weight;
        self.events += more_events * weight;
        // Exponentially weighted: Finch 2009, "Incremental calculation of weighted mean and variance",
        // section 9.
        self.variance = (self.variance + more_events * more_events * weight) * (1.0 - weight);
        self.covariance = (self.covariance + more_events * more_ns * weight) * (1.0 - weight);
    }

    /// Of a phase that tells of none. Where the number of events hardly changes, nobody can tell what one
    /// costs; and a few samples tell it badly, as packets come in during some of them. So an event is not
    /// believed to cost more than a part of what serving does, nor all of them together more than such as are
    /// a part of the turn each.
    fn without_events(&self, serving_ns: f64) -> f64 {
        let each = (self.covariance / (self.variance + 1.0)).clamp(0.0, serving_ns.max(1.0) * EVENT);
        (self.ns - each * self.events).max(self.ns / (1.0 + self.events * EVENT_OF_TURN))
    }
}

/// New connections of a turn at which those served cost least; times of the CPU in nanoseconds. Between two
/// whole numbers it is the lower: near the least the cost hardly changes, and who is one of fewer waits less.
fn cheapest(overhead: f64, serving: f64, new: f64) -> f64 {
    let served = (CROWD * overhead / serving.max(1.0)).sqrt();
    (served * new).floor().clamp(1.0, f64::from(u32::MAX))
}

/// Nanoseconds as a floating-point number. (One instruction converts a signed number, an unsigned one takes
/// six.)
fn ns(whole: u64) -> f64 {
    whole.cast_signed() as f64
}

/// Moves an average towards a value.
fn average(average: &mut f64, value: f64, weight: f64) {
    *average += (value - *average) * weight;
}
