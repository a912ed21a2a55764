//! Stages on a simulated clock: what the control laws meet, without noise. The results are the same on
//! every machine, so traces can be compared exactly.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::super::tokens::Tokens;
use super::INTERVAL_NS;
use super::admission::{self, Admission};
use super::batch::Batch;
use super::threads::{self, Threads, Times};

/// Pseudo-random numbers from a seed (Knuth's MMIX constants).
#[derive(Debug)]
struct Lots(u64);

impl Lots {
    /// A number from this range.
    fn draw(&mut self, (least, most): (u64, u64)) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        least + (self.0 >> 33) % (most - least + 1)
    }
}

/// A period with one kind of load. A reply takes a time of `disk` and a time of `cpu`. Each pair is a
/// shortest and a longest time, in steps of [`STEP_NS`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) ms: u64,
    pub(super) disk: (u64, u64),
    pub(super) cpu: (u64, u64),
    /// How long a client waits before its next request.
    pub(super) think: (u64, u64),
}

pub(super) const STEP_NS: u64 = 50_000;
/// Steps between two samples. `QUANTUM`: steps for which a thread has the CPU.
const LOOK: u64 = INTERVAL_NS / STEP_NS;
const QUANTUM: u64 = 20;

/// How many threads there are: the law's number, or one that is fixed.
#[derive(Debug)]
pub(super) enum Number {
    Law(Threads),
    Fixed(usize),
}

/// The result of half a second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moment {
    pub(super) threads: usize,
    pub(super) queue: usize,
    pub(super) idle: usize,
    pub(super) replies: u64,
}

/// One CPU, a disk that serves any number at a time, and a stage whose threads wait for both: first for the
/// disk, then for the CPU. A hundred clients send their next request when they have received and read their
/// replies.
#[derive(Debug)]
pub(super) struct Writers {
    number: Number,
    lots: Lots,
    step: u64,
    thinking: BinaryHeap<Reverse<u64>>,
    queue: usize,
    /// Threads with a reply.
    busy: usize,
    on_disk: BinaryHeap<Reverse<u64>>,
    /// What each thread that wants the CPU still has to do; the first has the CPU.
    runnable: VecDeque<u64>,
    turn: u64,
    /// Since the last sample: steps that threads ran, that they waited for the CPU, and that they were
    /// idle.
    ran: u64,
    delayed: u64,
    rested: u64,
    replies: u64,
}

impl Writers {
    pub(super) const CLIENTS: usize = 100;

    pub(super) fn new(number: Number) -> Self {
        Self {
            number,
            lots: Lots(1),
            step: 0,
            thinking: BinaryHeap::new(),
            queue: Self::CLIENTS,
            busy: 0,
            on_disk: BinaryHeap::new(),
            runnable: VecDeque::new(),
            turn: 0,
            ran: 0,
            delayed: 0,
            rested: 0,
            replies: 0,
        }
    }

    /// Simulates a period, half a second at a time.
    pub(super) fn run(&mut self, load: &Load) -> Vec<Moment> {
        (0..load.ms / 500).map(|_| self.half_a_second(load)).collect()
    }

    fn half_a_second(&mut self, load: &Load) -> Moment {
        let before = self.replies;
        for _ in 0..500_000_000 / STEP_NS {
            self.step(load);
            if self.step.is_multiple_of(LOOK) {
                self.look();
            }
        }
        Moment {
            threads: self.threads(),
            queue: self.queue,
            idle: self.idle(),
            replies: self.replies - before,
        }
    }

    fn threads(&self) -> usize {
        match &self.number {
            Number::Law(law) => law.in_use(),
            Number::Fixed(number) => *number,
        }
    }

    fn idle(&self) -> usize {
        self.threads().saturating_sub(self.busy)
    }

    fn step(&mut self, load: &Load) {
        self.step += 1;
        while self.thinking.peek().is_some_and(|Reverse(until)| *until <= self.step) {
            self.thinking.pop();
            self.queue += 1;
        }
        while self.queue > 0 && self.busy < self.threads() {
            self.queue -= 1;
            self.busy += 1;
            let disk = self.lots.draw(load.disk);
            self.on_disk.push(Reverse(self.step + disk));
        }
        while self.on_disk.peek().is_some_and(|Reverse(until)| *until <= self.step) {
            self.on_disk.pop();
            let cpu = self.lots.draw(load.cpu);
            self.runnable.push_back(cpu);
        }
        self.rested += self.idle() as u64;
        let Some(left) = self.runnable.front_mut() else { return };
        *left -= 1;
        self.turn += 1;
        self.ran += 1;
        self.delayed += self.runnable.len() as u64 - 1;
        if self.runnable[0] == 0 {
            self.runnable.pop_front();
            self.turn = 0;
            self.busy -= 1;
            self.replies += 1;
            let think = self.lots.draw(load.think);
            self.thinking.push(Reverse(self.step + think));
        } else if self.turn == QUANTUM {
            self.runnable.rotate_left(1);
            self.turn = 0;
        }
    }

    fn look(&mut self) {
        let steps = [&mut self.ran, &mut self.delayed, &mut self.rested].map(std::mem::take);
        let [running, delayed, idle] = steps.map(|steps| steps as f64 / LOOK as f64);
        let times = Some(Times { running, delayed, idle });
        let (queue, idle) = (self.queue, self.idle());
        if let Number::Law(law) = &mut self.number {
            law.sampled(threads::Sample { queue, idle, times });
        }
    }
}

/// The cost of a connection in a batch of a given size. It is `each`, plus its part of `batch`, both in
/// nanoseconds. `noise` is the random variation, in thousandths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) name: &'static str,
    pub(super) ms: u64,
    pub(super) each: u64,
    pub(super) batch: u64,
    pub(super) noise: u64,
}

/// The size at the end of each second of a period in which one CPU always has more to do.
pub(super) fn batches(law: &mut Batch, size: &mut u32, cost: &Cost) -> Vec<u32> {
    let mut lots = Lots(2);
    let looks = cost.ms * 1_000_000 / INTERVAL_NS;
    let mut sizes = Vec::new();
    for look in 1..=looks {
        let each = cost.each + cost.batch / u64::from(*size);
        let each = each * (1000 - cost.noise + lots.draw((0, 2 * cost.noise))) / 1000;
        *size = law.sampled(INTERVAL_NS / each, INTERVAL_NS);
        if (look * INTERVAL_NS).is_multiple_of(1_000_000_000) {
            sizes.push(law.size());
        }
    }
    sizes
}

/// A period in which `rate` connections arrive each second. Each takes between the two `service_us` times
/// of the one CPU, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    pub(super) name: &'static str,
    pub(super) ms: u64,
    pub(super) rate: u64,
    pub(super) service_us: (u64, u64),
}

/// The result of half a second at a server with admission control.
#[derive(Clone, Debug, Default)]
pub(super) struct Hour {
    /// Connections a second that are admitted, if they are bounded.
    pub(super) rate: Option<f64>,
    pub(super) outside: usize,
    pub(super) inside: usize,
    /// How long each completed reply took, in microseconds.
    pub(super) times_us: Vec<u64>,
}

impl Hour {
    /// Nine of ten replies took no longer, in microseconds.
    pub(super) fn percentile_us(times: impl IntoIterator<Item = u64>) -> u64 {
        let mut times: Vec<_> = times.into_iter().collect();
        times.sort_unstable();
        times.get((times.len() * 9).div_ceil(10).saturating_sub(1)).copied().unwrap_or(0)
    }
}

/// A server with one CPU, which serves one connection at a time, and the clients that wait to be accepted.
/// Simulated time is counted in microseconds.
#[derive(Debug)]
pub(super) struct OneCpuServer {
    law: Option<Admission>,
    target_us: u64,
    tokens: Tokens,
    lots: Lots,
    us: u64,
    next_us: u64,
    outside: usize,
    /// When each was accepted.
    inside: VecDeque<u64>,
    served_us: u64,
    seen: admission::Sample,
}

impl OneCpuServer {
    /// When this many clients wait to be accepted, further ones are refused.
    const BACKLOG: usize = 1024;

    /// A server with that target, or without a control law.
    pub(super) fn new(target_us: u64, has_law: bool) -> Self {
        Self {
            law: has_law.then(|| Admission::new(target_us * 1000)),
            target_us,
            tokens: Tokens::default(),
            lots: Lots(3),
            us: 0,
            next_us: 0,
            outside: 0,
            inside: VecDeque::new(),
            served_us: 0,
            seen: admission::Sample::default(),
        }
    }

    pub(super) fn run(&mut self, demand: &Demand) -> Vec<Hour> {
        (0..demand.ms / 500).map(|_| self.half_a_second(demand)).collect()
    }

    fn half_a_second(&mut self, demand: &Demand) -> Hour {
        let mut hour = Hour::default();
        let end_us = self.us + 500_000;
        while self.us < end_us {
            self.us += 50;
            self.step(demand, &mut hour);
            if (self.us * 1000).is_multiple_of(INTERVAL_NS) {
                self.look();
            }
        }
        hour.rate = self.law.as_ref().and_then(Admission::rate);
        (hour.outside, hour.inside) = (self.outside, self.inside.len());
        hour
    }

    fn step(&mut self, demand: &Demand, hour: &mut Hour) {
        while self.next_us <= self.us {
            self.outside = (self.outside + 1).min(Self::BACKLOG);
            self.next_us += self.lots.draw((0, 2_000_000 / demand.rate));
        }
        while self.outside > 0 && self.tokens.take(self.us * 1000) {
            self.outside -= 1;
            self.seen.accepted += 1;
            if self.inside.is_empty() {
                self.served_us = self.us + self.lots.draw(demand.service_us);
            }
            self.inside.push_back(self.us);
        }
        while self.served_us <= self.us
            && let Some(accepted_us) = self.inside.pop_front()
        {
            let time_us = self.us - accepted_us;
            hour.times_us.push(time_us);
            let count = if time_us > self.target_us { &mut self.seen.late } else { &mut self.seen.timely };
            *count += 1;
            self.served_us += self.lots.draw(demand.service_us);
        }
    }

    fn look(&mut self) {
        let seen = std::mem::take(&mut self.seen);
        let has_held = self.tokens.has_refused();
        if let Some(law) = &mut self.law {
            self.tokens.fill_at(law.sampled(admission::Sample { ns: INTERVAL_NS, has_held, ..seen }));
        }
    }
}
