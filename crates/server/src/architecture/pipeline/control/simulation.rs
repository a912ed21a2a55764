//! Stages on a simulated clock: what the laws meet, without the noise. Nothing is computed that could come
//! out otherwise on another machine, so that traces can be compared to the letter.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::super::tokens::Tokens;
use super::INTERVAL_NS;
use super::admission::{self, Admission};
use super::batch::Batch;
use super::threads::{self, Threads, Times};

/// Numbers that look drawn by lot, from a seed (Knuth's MMIX constants).
#[derive(Debug)]
struct Lots(u64);

impl Lots {
    /// One of those.
    fn draw(&mut self, (least, most): (u64, u64)) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        least + (self.0 >> 33) % (most - least + 1)
    }
}

/// A stretch of time in which replies take so long, all in steps of [`STEP_NS`], from and to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) ms: u64,
    pub(super) disk: (u64, u64),
    pub(super) cpu: (u64, u64),
    /// What a client does before it asks again.
    pub(super) think: (u64, u64),
}

pub(super) const STEP_NS: u64 = 50_000;
/// Steps between two looks, and that a thread has the CPU for.
const LOOK: u64 = INTERVAL_NS / STEP_NS;
const QUANTUM: u64 = 20;

/// How many threads there are: the law's number, or one that is fixed.
#[derive(Debug)]
pub(super) enum Number {
    Law(Threads),
    Fixed(usize),
}

/// What came of half a second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moment {
    pub(super) threads: usize,
    pub(super) queue: usize,
    pub(super) idle: usize,
    pub(super) replies: u64,
}

/// One CPU, a disk that serves any number at a time, and a stage whose threads wait for both: first for the
/// disk, then for the CPU. A hundred clients ask again when they have got and read their replies.
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
    /// What they have to do yet, those that want the CPU; the first has it.
    runnable: VecDeque<u64>,
    turn: u64,
    /// Since the last look: steps that threads ran, that they would have, and that they had nothing to do.
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

    /// Goes through a stretch of time, half a second by half a second.
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

/// What a connection costs in a batch of so many: its own part, and its part of what a batch costs, in
/// nanoseconds; with so many parts of a thousand more or less.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) name: &'static str,
    pub(super) ms: u64,
    pub(super) each: u64,
    pub(super) batch: u64,
    pub(super) noise: u64,
}

/// The size at the end of each second of a stretch of time in which one CPU has always more to do.
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

/// A stretch of time in which so many connections come in a second, and each takes from and to so many
/// microseconds of the one CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    pub(super) name: &'static str,
    pub(super) ms: u64,
    pub(super) rate: u64,
    pub(super) service_us: (u64, u64),
}

/// What came of half a second at a server with a door.
#[derive(Clone, Debug, Default)]
pub(super) struct Hour {
    /// Connections a second that are admitted, if they are bounded.
    pub(super) rate: Option<f64>,
    pub(super) outside: usize,
    pub(super) inside: usize,
    /// How long each reply took that ended, in microseconds.
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

/// A server of one CPU, which serves one after the other, and those who wait to be accepted. A second of
/// simulated time has a million steps.
#[derive(Debug)]
pub(super) struct Door {
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

impl Door {
    /// More who wait to be accepted are turned away.
    const BACKLOG: usize = 1024;

    /// One with that target, or without a law.
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
