//! Controls how many threads of a stage are in use.
//!
//! This is SEDA's law (Welsh, Culler and Brewer 2001, section 3.4.1): a stage whose queue stays long gets
//! one more thread, and a thread that is idle for long goes out of use. Here a queue is long if it holds at
//! least a quarter as many connections as there are threads, because behind an accept limit hardly more
//! connections come in than there are threads.
//!
//! The queue is also long if the CPU is the bottleneck. But threads help only against waiting, so a stage
//! grows only until the CPUs are busy. Let *r* threads be running on average, and *w* waiting for a disk or
//! a client. Then one CPU has work for `1 + w / r` threads (Goetz et al. 2006, section 8.2). If the waiting
//! times differ, it has work for twice as many waiting threads; Goetz et al. have the law without that.
//! Threads beyond one and a half times that number go out of use too, however busy they are: they wait for
//! each other's CPU.
//!
//! Three rules keep the number stable. That half lies between growing and shrinking. After a change, the
//! averages get time to settle. A stage that has to grow soon after it shrank waits twice as long before it
//! shrinks the next time.

/// What was seen of a stage. Samples are taken at equal intervals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Connections in its queue.
    pub(super) queue: usize,
    /// Threads in use that had nothing to do at that moment.
    pub(super) idle: usize,
    /// What the kernel reports of the threads in use, if it does.
    pub(super) times: Option<Times>,
}

/// How many threads, on average since the last sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Were running.
    pub(super) running: f64,
    /// Were ready to run, but had no CPU.
    pub(super) delayed: f64,
    /// Had nothing to do.
    pub(super) idle: f64,
}

/// The state of the law.
#[derive(Debug)]
pub(super) struct Threads {
    most: usize,
    cpus: f64,
    in_use: usize,
    /// Averages over samples: threads running, and threads waiting for something other than a CPU.
    running: f64,
    waiting: f64,
    /// The average fraction of the samples in which the stage wanted to grow.
    crowded: f64,
    /// Samples in a row in which there were spare threads. `spare` is the fewest of them.
    at_leisure: u32,
    spare: usize,
    /// The number of such samples in a row after which it shrinks.
    shrink_after: u32,
    /// Samples since it last changed, and since it last shrank.
    since_change: u32,
    since_shrinking: u32,
}

/// The stage grows if this fraction of the samples shows a long queue and no idle thread. The samples need
/// not be consecutive: a disk serves in bursts, and after each burst all threads are idle.
const CROWDED: f64 = 0.25;
/// Samples after a change in which the averages settle.
const SETTLING: u32 = 4;
/// Samples with spare threads before it shrinks, at first and at most.
const LEISURE: u32 = 40;
const MOST_LEISURE: u32 = 1200;
/// What a sample weighs in the averages.
const WEIGHT: f64 = 1.0 / 8.0;

impl Threads {
    /// For a stage of at most this many threads, with this many CPUs to run on. One thread is in use.
    pub(super) fn new(most: usize, cpus: usize) -> Self {
        Self {
            most: most.max(1),
            cpus: cpus.max(1) as f64,
            in_use: 1,
            running: 0.0,
            waiting: 0.0,
            crowded: 0.0,
            at_leisure: 0,
            spare: usize::MAX,
            shrink_after: LEISURE,
            since_change: 0,
            since_shrinking: u32::MAX,
        }
    }

    /// How many are in use.
    pub(super) fn in_use(&self) -> usize {
        self.in_use
    }

    /// Allows no more than this many threads, whatever was requested.
    pub(super) fn limit(&mut self, most: usize) {
        self.most = most.max(1);
        self.in_use = self.in_use.min(self.most);
    }

    /// Takes in a sample, and returns how many threads are in use from now on.
    pub(super) fn sampled(&mut self, sample: Sample) -> usize {
        self.since_change = self.since_change.saturating_add(1);
        self.since_shrinking = self.since_shrinking.saturating_add(1);
        let enough = self.enough(sample);
        let is_crowded = sample.queue * 4 > self.in_use && sample.idle == 0 && self.in_use < enough;
        self.crowded += (f64::from(u8::from(is_crowded)) - self.crowded) * WEIGHT;
        let surplus = (self.in_use as f64 - enough as f64 * 1.5).floor().max(0.0) as usize;
        let spare = sample.idle.max(surplus).min(self.in_use - 1);
        (self.at_leisure, self.spare) =
            if spare == 0 { (0, usize::MAX) } else { (self.at_leisure + 1, self.spare.min(spare)) };
        if self.since_change >= SETTLING {
            if is_crowded && self.crowded >= CROWDED {
                self.grow(enough);
            } else if self.at_leisure >= self.shrink_after {
                self.shrink();
            }
        }
        self.in_use
    }

    /// The largest number of threads that can be useful.
    fn enough(&mut self, sample: Sample) -> usize {
        let Some(Times { running, delayed, idle }) = sample.times else { return self.most };
        let waiting = (self.in_use as f64 - idle - running - delayed).max(0.0);
        self.running += (running - self.running) * WEIGHT;
        self.waiting += (waiting - self.waiting) * WEIGHT;
        // Threads that hardly ran have done too little to draw a conclusion from.
        let by_cpu = 1.0 + 2.0 * self.waiting / self.running.max(0.01);
        ((self.cpus * by_cpu) as usize).clamp(1, self.most)
    }

    fn grow(&mut self, enough: usize) {
        if self.since_shrinking < self.shrink_after.saturating_mul(2) {
            self.shrink_after = self.shrink_after.saturating_mul(2).min(MOST_LEISURE);
        }
        self.change_to((self.in_use + self.in_use.div_ceil(2)).min(enough));
    }

    fn shrink(&mut self) {
        if self.since_shrinking > self.shrink_after.saturating_mul(8) {
            self.shrink_after = (self.shrink_after / 2).max(LEISURE);
        }
        self.change_to(self.in_use - self.spare.div_ceil(2));
        self.since_shrinking = 0;
    }

    fn change_to(&mut self, in_use: usize) {
        self.in_use = in_use.clamp(1, self.most);
        (self.crowded, self.at_leisure, self.spare, self.since_change) = (0.0, 0, usize::MAX, 0);
    }
}
