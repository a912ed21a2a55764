//! A server and its accept queue on a simulated clock, to test a policy without noise.
//!
//! One CPU does everything, as in the 2004 paper. What the kernel spends on arriving connections,
//! admitted or dropped, is taken from the server's own work. Arrivals are irregular, from a seed.
//! Everything else follows from the [`Costs`]. All computations give the same result on every machine, so
//! traces can be compared exactly.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;

use super::{AcceptPolicy, Cost, Queue, Turn};

/// The costs, in nanoseconds of the one CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    /// A get-events phase, and each event that it reports.
    pub(super) get_events: u64,
    pub(super) event: u64,
    /// Accepting a connection, or finding the queue empty.
    pub(super) accept: u64,
    /// Serving a request while nothing else waits to be served.
    pub(super) work: u64,
    /// This many connections waiting inside double the cost of serving (caches). 0: they cost nothing.
    pub(super) crowd: u64,
    /// The kernel's share of a connection that it queues, and of one that it drops.
    pub(super) handshake: u64,
    pub(super) drop: u64,
    /// How many nanoseconds of each 500 us another program uses.
    pub(super) stolen: u64,
}

/// The arriving clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Connections per second.
    pub(super) rate: u64,
    /// Requests on each connection.
    pub(super) requests: u32,
    /// Between a reply and the connection's next request.
    pub(super) think_ns: u64,
    /// In addition, this many connections arrive every 250 ms, 10 us apart.
    pub(super) burst: u64,
}

impl Load {
    /// Requests per second.
    pub(super) fn offered(&self) -> f64 {
        (self.rate + self.burst * (1_000_000_000 / BURST_EVERY_NS)) as f64 * f64::from(self.requests)
    }
}

/// A period in which nothing changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) ms: u64,
    pub(super) load: Load,
    pub(super) costs: Costs,
}

/// The results of the second half of a period. The first half is for the policy to adapt.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    began_ns: u64,
    ended_ns: u64,
    served: u64,
    pub(super) dropped: u64,
    /// Sum of the times from the arrival of a connection, or of a later request on it, to the end of the
    /// reply.
    delays_ns: u64,
    /// When each turn of the period ended, and the limit at that time. This includes the first half.
    limits: Vec<(u64, u32)>,
}

impl Outcome {
    /// Replies per second.
    pub(super) fn rate(&self) -> f64 {
        self.served as f64 * 1e9 / self.ended_ns.saturating_sub(self.began_ns).max(1) as f64
    }

    /// Mean time from the arrival of a connection, or of a later request on it, to the end of the reply.
    pub(super) fn mean_delay_ms(&self) -> f64 {
        self.delays_ns as f64 / self.served.max(1) as f64 / 1e6
    }

    /// The limit at the end.
    pub(super) fn limit(&self) -> u32 {
        self.limits.last().map_or(0, |(_, limit)| *limit)
    }

    /// Turns, and milliseconds, after which the limit stayed within a factor of two of its last value.
    pub(super) fn settled_after(&self) -> (usize, u64) {
        let (last, began_ns) = (self.limit(), self.limits.first().map_or(0, |(ns, _)| *ns));
        let far = |&(_, limit): &(u64, u32)| limit > last.saturating_mul(2) || last > limit.saturating_mul(2);
        let at = self.limits.iter().rposition(far);
        at.map_or((0, 0), |at| (at + 1, (self.limits[at].0 - began_ns).div_ceil(1_000_000)))
    }
}

/// A line of a trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Moment {
    pub(super) ms: u64,
    pub(super) step: &'static str,
    pub(super) limit: u32,
    pub(super) work_us: u64,
    pub(super) delay_us: u64,
    pub(super) overloaded: bool,
    pub(super) queue: usize,
    pub(super) inside: usize,
    pub(super) served: u64,
    pub(super) dropped: u64,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ms, step, limit, work_us, delay_us, overloaded, queue, inside, served, dropped } = self;
        let overloaded = u8::from(*overloaded);
        write!(f, "{ms},{step},{limit},{work_us},{delay_us},{overloaded},{queue},{inside},{served},{dropped}")
    }
}

impl Moment {
    /// The names of the columns.
    pub(super) const HEADINGS: &'static str =
        "ms,step,limit,work_limit_us,delay_us,overloaded,queue,inside,served,dropped";
}

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Client {
    /// When the connection, or its present request, arrived.
    since_ns: u64,
    requests_left: u32,
}

/// The server, its queue and its clients.
#[derive(Debug)]
pub(super) struct World {
    policy: AcceptPolicy,
    backlog: usize,
    now_ns: u64,
    cpu_ns: u64,
    random: u64,
    load: Load,
    costs: Costs,
    next_arrival_ns: u64,
    next_of_burst_ns: u64,
    left_of_burst: u64,
    /// Whether the kernel reports the queue's length and waiting times, as it does for TCP.
    tells: bool,
    queue: VecDeque<Client>,
    ready: VecDeque<Client>,
    thinking: BinaryHeap<Reverse<(u64, Client)>>,
    outcome: Outcome,
}

const BURST_EVERY_NS: u64 = 250_000_000;
const BURST_GAP_NS: u64 = 10_000;
const STOLEN_EVERY_NS: u64 = 500_000;
/// The kernel's timer tick, the unit of the waiting times that it reports.
const JIFFY_NS: u64 = 4_000_000;
/// Between lines of a trace.
const MOMENT_NS: u64 = 20_000_000;
/// The clock is not read after each connection. The event loop does the same.
const WORK_BETWEEN_LOOKS: u32 = 8;

impl World {
    pub(super) fn new(policy: AcceptPolicy, backlog: usize, tells: bool) -> Self {
        let load = Load { rate: 0, requests: 1, think_ns: 0, burst: 0 };
        let costs =
            Costs { get_events: 0, event: 0, accept: 0, work: 0, crowd: 0, handshake: 0, drop: 0, stolen: 0 };
        Self {
            policy,
            backlog,
            now_ns: 1,
            cpu_ns: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            load,
            costs,
            next_arrival_ns: 1,
            next_of_burst_ns: 1,
            left_of_burst: 0,
            tells,
            queue: VecDeque::new(),
            ready: VecDeque::new(),
            thinking: BinaryHeap::new(),
            outcome: Outcome::default(),
        }
    }

    /// Runs the steps.
    pub(super) fn run(&mut self, steps: &[Step]) -> (Vec<Outcome>, Vec<Moment>) {
        let (mut outcomes, mut moments) = (Vec::new(), Vec::new());
        for step in steps {
            (self.load, self.costs) = (step.load, step.costs);
            self.next_arrival_ns = self.now_ns + self.gap();
            self.next_of_burst_ns = self.now_ns + BURST_EVERY_NS / 2;
            self.left_of_burst = self.load.burst;
            self.outcome = Outcome::default();
            let end_ns = self.now_ns + step.ms * 1_000_000;
            let adapted_ns = self.now_ns + step.ms * 500_000;
            let mut adapted = false;
            let mut next_moment_ns = self.now_ns;
            while self.now_ns < end_ns {
                if !adapted && self.now_ns >= adapted_ns {
                    adapted = true;
                    let limits = std::mem::take(&mut self.outcome.limits);
                    self.outcome = Outcome { limits, began_ns: self.now_ns, ..Outcome::default() };
                }
                self.turn(end_ns);
                if self.now_ns >= next_moment_ns {
                    moments.push(self.moment(step.name));
                    next_moment_ns += MOMENT_NS;
                }
            }
            self.outcome.ended_ns = self.now_ns;
            outcomes.push(std::mem::take(&mut self.outcome));
        }
        (outcomes, moments)
    }

    fn turn(&mut self, end_ns: u64) {
        let pending = !self.queue.is_empty() || !self.ready.is_empty();
        if !pending {
            let wake = self.next_arrival().min(self.next_request_ns()).min(end_ns);
            self.now_ns = self.now_ns.max(wake);
        }
        let costly = pending && self.policy.cost_is_due(self.now_ns);
        let (began_ns, began_cpu_ns) = (self.now_ns, self.cpu_ns);
        self.spend(self.costs.get_events);
        let mut events = u32::from(!self.queue.is_empty());
        while self.next_request_ns() <= self.now_ns {
            let Some(Reverse((_, client))) = self.thinking.pop() else { break };
            self.ready.push_back(client);
            events += 1;
        }
        self.spend(self.costs.event * u64::from(events));
        let overhead_ns = self.cpu_ns - began_cpu_ns;
        let busy_from_ns = if pending { began_ns } else { self.now_ns };
        let (accepted, emptied) = if self.queue.is_empty() { (0, true) } else { self.accept_phase() };
        let worked = self.work_phase();
        if costly {
            let useful_ns = self.cpu_ns - began_cpu_ns - overhead_ns;
            self.policy.cost_seen(Cost { overhead_ns, events, useful_ns, accepted, worked });
        }
        let turn = Turn {
            busy_ns: self.now_ns - busy_from_ns,
            accepted,
            worked,
            left: self.ready.len() as u32,
            emptied,
        };
        self.policy.turned(self.now_ns, &turn);
        self.outcome.limits.push((self.now_ns, self.policy.state().limit));
    }

    fn accept_phase(&mut self) -> (u32, bool) {
        let mut sampled = self.policy.sampling_is_due(self.now_ns) && self.tells;
        if sampled {
            self.policy.queue_seen(Queue { length: self.queue.len() as u32, limit: self.backlog as u32 });
        }
        let budget = self.policy.budget().connections;
        assert!(budget > 0, "there is always room here");
        let mut accepted = 0;
        while accepted < budget {
            self.spend(self.costs.accept);
            let Some(client) = self.queue.pop_front() else { return (accepted, true) };
            if std::mem::take(&mut sampled) {
                self.policy.wait_seen((self.now_ns / JIFFY_NS - client.since_ns / JIFFY_NS) as u32 * 4);
            }
            self.ready.push_back(client);
            accepted += 1;
        }
        (accepted, false)
    }

    fn work_phase(&mut self) -> u32 {
        let until_ns = self.policy.budget().work_ns.map(|ns| self.now_ns + ns);
        let mut worked = 0;
        for _ in 0..self.ready.len() {
            if worked % WORK_BETWEEN_LOOKS == 0
                && worked > 0
                && until_ns.is_some_and(|until| self.now_ns >= until)
            {
                break;
            }
            let crowded = self.costs.work * self.ready.len() as u64;
            let Some(mut client) = self.ready.pop_front() else { break };
            self.spend(self.costs.work + crowded.checked_div(self.costs.crowd).unwrap_or(0));
            worked += 1;
            self.outcome.served += 1;
            self.outcome.delays_ns += self.now_ns - client.since_ns;
            client.requests_left -= 1;
            if client.requests_left > 0 {
                client.since_ns = self.now_ns + self.load.think_ns;
                self.thinking.push(Reverse((client.since_ns, client)));
            }
        }
        worked
    }

    /// The time at which this much CPU time, counted from `since_ns`, is used up.
    fn after(&mut self, since_ns: u64, ns: u64) -> u64 {
        self.cpu_ns += ns;
        let ours = STOLEN_EVERY_NS - self.costs.stolen;
        let used = (since_ns % STOLEN_EVERY_NS).min(ours) + ns;
        since_ns / STOLEN_EVERY_NS * STOLEN_EVERY_NS + used / ours * STOLEN_EVERY_NS + used % ours
    }

    /// Lets time pass. Arrivals in that time use their part of it.
    fn spend(&mut self, ns: u64) {
        let mut end_ns = self.after(self.now_ns, ns);
        while self.next_arrival() <= end_ns {
            let since_ns = self.next_arrival();
            if since_ns < self.next_arrival_ns {
                self.left_of_burst -= 1;
                self.next_of_burst_ns += BURST_GAP_NS;
                if self.left_of_burst == 0 {
                    self.left_of_burst = self.load.burst;
                    self.next_of_burst_ns += BURST_EVERY_NS - self.load.burst * BURST_GAP_NS;
                }
            } else {
                self.next_arrival_ns += self.gap();
            }
            let cost_ns = self.arrive(since_ns);
            end_ns = self.after(end_ns, cost_ns);
        }
        self.now_ns = end_ns;
    }

    fn arrive(&mut self, since_ns: u64) -> u64 {
        // The kernel's comparison lets one more in.
        if self.queue.len() > self.backlog {
            self.outcome.dropped += 1;
            return self.costs.drop;
        }
        self.queue.push_back(Client { since_ns, requests_left: self.load.requests });
        self.costs.handshake
    }

    fn next_arrival(&self) -> u64 {
        let burst_ns = if self.left_of_burst > 0 { self.next_of_burst_ns } else { u64::MAX };
        self.next_arrival_ns.min(burst_ns)
    }

    fn next_request_ns(&self) -> u64 {
        self.thinking.peek().map_or(u64::MAX, |Reverse((ns, _))| *ns)
    }

    /// The time to the next arrival. Half of the times are short, evenly distributed up to half the mean.
    /// Half are long, from there to three times the mean.
    fn gap(&mut self) -> u64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let random = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        let mean_ns = 1_000_000_000 / self.load.rate;
        let (least, most) =
            if random.is_multiple_of(2) { (0, mean_ns / 2) } else { (mean_ns / 2, 3 * mean_ns) };
        (least + (most - least) * random / (1 << 32)).max(1)
    }

    fn moment(&self, step: &'static str) -> Moment {
        let state = self.policy.state();
        Moment {
            ms: self.now_ns / 1_000_000,
            step,
            limit: state.limit,
            work_us: state.work_ns / 1000,
            delay_us: state.delay_ns / 1000,
            overloaded: state.overloaded,
            queue: self.queue.len(),
            inside: self.ready.len(),
            served: self.outcome.served,
            dropped: self.outcome.dropped,
        }
    }
}
