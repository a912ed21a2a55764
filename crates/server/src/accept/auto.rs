//! The accept limit `auto`, which is controlled by delay.
//!
//! It must avoid two things. With a limit that is too small, the server does little more than switch
//! between phases. With a limit that is too large, clients that might have been turned away early wait
//! inside instead of outside, in batches. Between these two there is room, and the delay decides where in
//! it the limit is. The control law follows. It uses the names of docs/tuning.md ("The accept limit
//! `auto`").
//!
//! - **Batch.** A turn costs *g* of CPU time before anything is done in it. That is the time between work
//!   and accepting, mainly for its get-events phase, less the cost of each event. With `select`, *g*
//!   grows with the number of connections. Serving a connection once costs *s*. Each connection that
//!   waits inside makes that dearer by a 1500th, because caches hold less of each. So a turn of *n*
//!   connections costs `g + n s (1 + n / 1500)`. The cost per connection is least for
//!   `n = sqrt(1500 g / s)`. The new connections are the same part of these as of late. Old connections
//!   must not crowd out new ones for good: a 64th may always be new.
//! - **Ceiling.** A connection takes the time *c*, accepting included. Then `target / c` connections are
//!   served within the target, including those that the last work phase left over.
//! - **Delay.** Clients wait outside for `queue length / accept rate` (Little's law), and inside for
//!   `left over * c`. Little's law knows nothing of other processes that take from the same queue, nor of
//!   time that another program was given. So it is compared with the waiting times that the kernel
//!   reports for sampled connections, and corrected by the ratio.
//! - **Law.** While the delay stays below its target, the limit rises to the ceiling, by a quarter a
//!   turn, and no client waits for a turn to end. If the delay returns for longer than an interval,
//!   demand exceeds capacity, and no limit helps the clients outside. Then the limit falls to the batch,
//!   by a quarter a turn. There, capacity is at its highest, and clients wait where waiting is cheap.
//!   This ends after an interval without delay.
//! - **Bursts.** Until then, the delay counts as a burst's. A queue that is more than half full is
//!   emptied, as far as all clients can be served within the interval, because a dropped handshake costs
//!   its client a second.
//! - **Work.** The work phase ends in time to keep the queue from overflowing: when half of the queue's
//!   room is used up at the present rate, or when the target is reached, if that is earlier. It never
//!   ends before a batch is served.
//!
//! The target of 5 ms and the interval of 100 ms are those of `CoDel` (Nichols and Jacobson 2012; RFC
//! 8289, sections 4.2 and 4.3). So is the idea that only standing delay is bad, and that the minimum over
//! an interval shows it. `CoDel` drops packets. Here the kernel drops connections by itself, as soon as
//! the queue is full.

use super::{Budget, Cost, PolicyState, Queue, Turn};

/// The delay to stay below: the target.
const TARGET_NS: f64 = 5e6;
/// Delay above the target that returns for this long is standing delay: the interval.
const INTERVAL_NS: f64 = 1e8;
/// This many connections waiting inside double the cost of serving. The value is measured, see
/// docs/architectures.md.
const CROWD: f64 = 1500.0;
/// An event costs less than this part of serving a connection once. A tenth was observed, with cold
/// caches.
const EVENT: f64 = 1.0 / 8.0;
/// An event also costs less than this part of a turn's overhead without events: epoll takes 1.2 us, and
/// 0.2 us for each event.
const EVENT_OF_TURN: f64 = 1.0 / 4.0;
/// Of this many connections worked on, one may always be new.
const OLD_FOR_NEW: f64 = 64.0;
/// The relative change of the limit in a turn.
const STEP: f64 = 1.0 / 4.0;
/// The least time for a work phase, whatever is measured.
const SHORTEST_WORK_NS: f64 = 1e3;
/// The correction begins at 1, with the weight of this many milliseconds of samples.
const PRIOR_MS: f64 = 20.0;

/// The state of the policy. All times are in nanoseconds.
#[derive(Debug)]
pub struct Auto {
    /// The limit, between the batch and the ceiling.
    limit: f64,
    work_ns: f64,
    /// Averages over sampled turns: the overhead in CPU time, the CPU time for each connection worked on,
    /// and the part of those connections that was new.
    overhead: Overhead,
    serving_cpu_ns: f64,
    new: f64,
    /// Follows from these averages: the number of new connections in a turn at which a connection costs
    /// least.
    cheapest: f64,
    /// Averages over turns.
    busy_ns: f64,
    accepted: f64,
    worked: f64,
    /// Values that follow from these averages, kept because each turn uses them several times. `once_ns`
    /// is *c*, the time to serve a connection once. `accept_ns` is the time from one accept to the next
    /// while the server is busy. `fair_share` is what may be accepted, whatever else there is to do.
    once_ns: f64,
    accept_ns: f64,
    fair_share: f64,
    /// The queue when last sampled, less the connections accepted since.
    queue: Option<Queue>,
    /// Connections that the last work phase did not reach.
    left: f64,
    /// Sums over samples, with decreasing weight for older ones: how long connections waited, and how
    /// long they should have waited by Little's law.
    waited_ms: f64,
    expected_ms: f64,
    delay_ns: f64,
    /// When the accept queue was last found empty.
    emptied_ns: u64,
    /// When the delay was last above its target, and the start of the period in which it has returned
    /// within an interval each time.
    late_ns: u64,
    late_since_ns: u64,
    /// The delay was above its target at the end of the last turn.
    late: bool,
    overloaded: bool,
    /// There has been a turn, so these times have a meaning.
    begun: bool,
}

impl Default for Auto {
    /// Values for a current machine with epoll and small files, until turns give better ones.
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
    /// More often than delays of the target's length come and go.
    pub(super) const SAMPLE_EVERY_NS: u64 = 4_000_000;
    /// A sample takes two or three microseconds: a quarter of a percent of this time.
    pub(super) const SAMPLE_AFTER_NS: f64 = 1e6;
    /// Costs change with the requests, and samples of them are averaged anyway.
    pub(super) const COST_EVERY_NS: u64 = 10_000_000;

    /// The average CPU time for each connection worked on.
    pub(super) fn serving_cpu_ns(&self) -> f64 {
        self.serving_cpu_ns
    }

    pub(super) fn queue_seen(&mut self, queue: Queue) {
        self.queue = Some(queue);
    }

    pub(super) fn wait_seen(&mut self, ms: u32) {
        // The connections behind it have arrived while it waited.
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

    /// Averages the times and results of turns, over an interval or some dozens of turns, whichever is
    /// shorter.
    fn learn(&mut self, turn: &Turn) {
        if turn.worked > 0 || turn.accepted > 0 {
            let busy_ns = ns(turn.busy_ns);
            let weight = (busy_ns / INTERVAL_NS).clamp(1.0 / 32.0, 0.5);
            average(&mut self.busy_ns, busy_ns, weight);
            average(&mut self.accepted, f64::from(turn.accepted), weight);
            average(&mut self.worked, f64::from(turn.worked), weight);
            self.once_ns = self.busy_ns.max(1.0) / self.worked.max(1e-3);
            self.accept_ns = self.busy_ns.max(1.0) / self.accepted.max(1e-3);
            // Most turns have fewer, and need no rounding.
            let has_many = self.worked > OLD_FOR_NEW;
            self.fair_share = if has_many { (self.worked / OLD_FOR_NEW).ceil() } else { 1.0 };
        }
        match &mut self.queue {
            Some(queue) if turn.emptied => queue.length = 0,
            Some(queue) => queue.length = queue.length.saturating_sub(turn.accepted),
            None => {}
        }
    }

    /// Decides whether the delay is a burst's or standing.
    fn judge(&mut self, now_ns: u64) {
        let long_ago = |ns: u64| now_ns.saturating_sub(ns) >= INTERVAL_NS as u64;
        let is_late = self.delay_ns > TARGET_NS;
        let was_late = std::mem::replace(&mut self.late, is_late);
        // A turn may take longer than the interval. Between two turns that end late, nothing shows that
        // there was no delay.
        let was_calm = !was_late && long_ago(self.late_ns);
        if is_late {
            self.late_ns = now_ns;
            if was_calm {
                self.late_since_ns = now_ns;
            }
        }
        self.overloaded = !long_ago(self.late_ns) && long_ago(self.late_since_ns);
    }

    /// How long a client that arrives now will wait to be accepted. That cannot be longer than the time
    /// since the queue was last empty.
    fn delay_outside_ns(&self, now_ns: u64) -> f64 {
        let since_empty = ns(now_ns.saturating_sub(self.emptied_ns));
        let Some(queue) = self.queue else { return since_empty };
        let correction = (PRIOR_MS + self.waited_ms) / (PRIOR_MS + self.expected_ms);
        (f64::from(queue.length) * self.accept_ns * correction).min(since_empty)
    }

    /// The number of new connections in a turn that is never too large.
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

/// The cost of get-events phases, depending on the number of events that they report: averages, and the
/// covariance of cost and events.
///
/// An event costs as much in a large turn as in a small one, so it is no reason for large turns. If it
/// counted as a cost of the turn, it would be one: a large turn would make the next one larger.
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

    /// The cost of a phase without events. If the number of events hardly changes, the cost of one cannot
    /// be determined. A few samples determine it badly, because packets arrive during some of them. So
    /// there are two bounds. An event costs at most a part (`EVENT`) of what serving costs. All events
    /// together cost at most what they would if each cost a part (`EVENT_OF_TURN`) of the overhead
    /// without events.
    fn without_events(&self, serving_ns: f64) -> f64 {
        let each = (self.covariance / (self.variance + 1.0)).clamp(0.0, serving_ns.max(1.0) * EVENT);
        (self.ns - each * self.events).max(self.ns / (1.0 + self.events * EVENT_OF_TURN))
    }
}

/// The number of new connections in a turn at which a connection costs least. The times are CPU time in
/// nanoseconds. Between two whole numbers, the lower one is used: near the minimum the cost hardly
/// changes, and a client waits less among fewer.
fn cheapest(overhead: f64, serving: f64, new: f64) -> f64 {
    let served = (CROWD * overhead / serving.max(1.0)).sqrt();
    (served * new).floor().clamp(1.0, f64::from(u32::MAX))
}

/// Nanoseconds as a floating-point number. Converting a signed number takes one instruction, an unsigned
/// one takes six.
fn ns(whole: u64) -> f64 {
    whole.cast_signed() as f64
}

/// Moves an average towards a value.
fn average(average: &mut f64, value: f64, weight: f64) {
    *average += (value - *average) * weight;
}
