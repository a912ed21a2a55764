//! How many threads of a stage are in use.
//!
//! SEDA's law (Welsh, Culler and Brewer 2001, section 3.4.1): a stage whose queue stays long has one more, a
//! thread that is idle for long goes. Here a queue is long from a quarter of the threads on: behind an accept
//! limit hardly more come in than there are threads. But it is so as well where the CPU is what there is too
//! little of, and threads help only against waiting. So it grows no further than keeps the CPUs busy: with
//! *r* threads running and *w* waiting for a disk or a client on average, one CPU has work for `1 + w / r` of
//! them, and for twice as many waiting ones if they wait for times that differ (Goetz et al. 2006, section
//! 8.2, has the law without that). What is above that by a half goes as well, however busy: these threads
//! wait for each other's CPU.
//!
//! So that the number stays where it has got to: between growing and shrinking lies that half; after a change
//! the averages are given time; and whoever has to grow soon after it shrank waits twice as long before it
//! shrinks the next time.

/// What was seen of a stage. It is looked at again and again, after equal times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Connections in its queue.
    pub(super) queue: usize,
    /// Threads in use that had nothing to do then.
    pub(super) idle: usize,
    /// What the kernel tells of those in use, if it does.
    pub(super) times: Option<Times>,
}

/// How many threads, on average since the last look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Were running.
    pub(super) running: f64,
    /// Were not, for want of a CPU.
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
    /// Averages over samples: threads running, and waiting for something else than a CPU.
    running: f64,
    waiting: f64,
    /// In which part of the samples it wanted to grow, on average.
    crowded: f64,
    /// Samples in a row in which there were threads to spare, and the fewest of them.
    at_leisure: u32,
    spare: usize,
    /// Samples of leisure after which it shrinks.
    patience: u32,
    /// Samples since it last changed, and since it last shrank.
    since_change: u32,
    since_shrinking: u32,
}

/// The part of the samples, with a long queue and nobody idle, that makes it grow. Not all in a row: a disk
/// serves in bursts, after each of which everybody is idle.
const CROWDED: f64 = 0.25;
/// Samples that the averages are given after a change.
const SETTLING: u32 = 4;
/// Samples of leisure before it shrinks, at first and at most.
const PATIENCE: u32 = 40;
const MOST_PATIENCE: u32 = 1200;
/// What a sample weighs in the averages.
const WEIGHT: f64 = 1.0 / 8.0;

impl Threads {
    /// For a stage of at most so many threads, with so many CPUs to run on. One is in use.
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
            patience: PATIENCE,
            since_change: 0,
            since_shrinking: u32::MAX,
        }
    }

    /// How many are in use.
    pub(super) fn in_use(&self) -> usize {
        self.in_use
    }

    /// There are no more than so many, whatever was asked for.
    pub(super) fn limit(&mut self, most: usize) {
        self.most = most.max(1);
        self.in_use = self.in_use.min(self.most);
    }

    /// Hears of a sample, and says how many are in use from here on.
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
            } else if self.at_leisure >= self.patience {
                self.shrink();
            }
        }
        self.in_use
    }

    /// As many as can be of use.
    fn enough(&mut self, sample: Sample) -> usize {
        let Some(Times { running, delayed, idle }) = sample.times else { return self.most };
        let waiting = (self.in_use as f64 - idle - running - delayed).max(0.0);
        self.running += (running - self.running) * WEIGHT;
        self.waiting += (waiting - self.waiting) * WEIGHT;
        // Who hardly runs has been seen to do little, and nothing follows from it.
        let by_cpu = 1.0 + 2.0 * self.waiting / self.running.max(0.01);
        ((self.cpus * by_cpu) as usize).clamp(1, self.most)
    }

    fn grow(&mut self, enough: usize) {
        if self.since_shrinking < self.patience.saturating_mul(2) {
            self.patience = self.patience.saturating_mul(2).min(MOST_PATIENCE);
        }
        self.change_to((self.in_use + self.in_use.div_ceil(2)).min(enough));
    }

    fn shrink(&mut self) {
        if self.since_shrinking > self.patience.saturating_mul(8) {
            self.patience = (self.patience / 2).max(PATIENCE);
        }
        self.change_to(self.in_use - self.spare.div_ceil(2));
        self.since_shrinking = 0;
    }

    fn change_to(&mut self, in_use: usize) {
        self.in_use = in_use.clamp(1, self.most);
        (self.crowded, self.at_leisure, self.spare, self.since_change) = (0.0, 0, usize::MAX, 0);
    }
}
