//! How large batches are: the smallest that sustain the highest throughput (Welsh, Culler and Brewer 2001,
//! section 3.4.2). Small ones are handed on sooner; large ones spare threads to take turns.
//!
//! Throughput is connections by CPU time here, as that is what batches save: by the clock it would follow the
//! load. And it changes with what is asked for, so a size is not held against what was seen some time ago. A
//! *trial* compares it with the largest, in slices by turns: largest, it, it, largest, in which what rises or
//! falls steadily counts for both alike. Half the present size is tried; if it comes near enough to the
//! largest it is the present one from there on. In between the present one is tried itself, and doubled if it
//! has fallen behind, which is further than it may have been when it was chosen. A trial that changes nothing
//! is followed by a rest that is twice as long as the last. And each time that a size which was chosen falls
//! behind after all, as where sizes hardly differ, rests are longer from there on.

/// The state of the law.
#[derive(Debug)]
pub(super) struct Batch {
    most: u32,
    /// The present size.
    size: u32,
    phase: Phase,
    /// Samples to rest after a trial that changes nothing.
    rest: u32,
    /// Half the present size is tried next, not that itself.
    tries_half: bool,
    /// The present size was chosen because it was smaller.
    was_halved: bool,
    /// The least rest between trials of smaller sizes.
    caution: u32,
}

#[derive(Debug)]
enum Phase {
    /// For so many samples.
    Rest(u32),
    Trial(Trial),
}

/// A trial under way.
#[derive(Debug)]
struct Trial {
    size: u32,
    samples: u32,
    /// Connections and nanoseconds with the largest, and with this one.
    of_most: (u64, u64),
    of_size: (u64, u64),
}

/// Samples of a slice, of which the first counts for nothing: what was begun before goes on in it.
const SLICE: u32 = 4;
/// Samples between trials, at first and at most.
const REST: u32 = 20;
const MOST_REST: u32 = 400;
/// Connections in the slices of either size without which nothing follows.
const ENOUGH: u64 = 64;
/// The part of the largest's throughput that a size must have to be chosen, and to be kept.
const CHOSEN: f64 = 0.97;
const KEPT: f64 = 0.94;

impl Batch {
    /// Up to the largest, which is the present one.
    pub(super) fn new(most: u32) -> Self {
        Self {
            most,
            size: most,
            phase: Phase::Rest(REST),
            rest: REST,
            tries_half: true,
            was_halved: false,
            caution: REST,
        }
    }

    /// The present size.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Hears how many connections were worked on since the last sample, and how much CPU time that took. Says
    /// how large batches are from here on: the present size, or during a trial the one that is tried.
    pub(super) fn sampled(&mut self, connections: u64, cpu_ns: u64) -> u32 {
        match &mut self.phase {
            Phase::Rest(left) if *left > 0 => *left -= 1,
            Phase::Rest(_) => self.begin(),
            Phase::Trial(trial) => {
                let slice = trial.samples / SLICE;
                if !trial.samples.is_multiple_of(SLICE) {
                    let sum = if trial.is_of_most() { &mut trial.of_most } else { &mut trial.of_size };
                    *sum = (sum.0.saturating_add(connections), sum.1.saturating_add(cpu_ns));
                }
                trial.samples += 1;
                if slice == 3 && trial.samples == 4 * SLICE {
                    self.end();
                }
            }
        }
        match &self.phase {
            Phase::Trial(trial) if trial.is_of_most() => self.most,
            Phase::Trial(trial) => trial.size,
            Phase::Rest(_) => self.size,
        }
    }

    fn begin(&mut self) {
        let half = (self.size / 2).max(1);
        let size = if self.tries_half && half < self.size { half } else { self.size };
        self.tries_half = !self.tries_half;
        if size == self.most {
            self.phase = Phase::Rest(self.rest);
        } else {
            self.phase = Phase::Trial(Trial { size, samples: 0, of_most: (0, 0), of_size: (0, 0) });
        }
    }

    fn end(&mut self) {
        let Phase::Trial(trial) = &self.phase else { return };
        let (size, is_half) = (trial.size, trial.size < self.size);
        match trial.part() {
            Some(part) if is_half && part >= CHOSEN => {
                self.size = size;
                (self.tries_half, self.was_halved) = (true, true);
                self.rest = self.caution;
            }
            Some(part) if !is_half && part < KEPT => {
                self.size = size.saturating_mul(2).min(self.most);
                if std::mem::take(&mut self.was_halved) {
                    self.caution = (self.caution * 4).min(MOST_REST);
                }
                self.tries_half = false;
                self.rest = REST;
            }
            _ => self.rest = (self.rest * 2).clamp(self.caution, MOST_REST),
        }
        self.phase = Phase::Rest(self.rest);
    }
}

impl Trial {
    fn is_of_most(&self) -> bool {
        matches!(self.samples / SLICE, 0 | 3)
    }

    /// The part of the largest's throughput, if both had enough to do.
    fn part(&self) -> Option<f64> {
        let ((most, most_ns), (size, size_ns)) = (self.of_most, self.of_size);
        let is_enough = most.min(size) >= ENOUGH && most_ns.min(size_ns) > 0;
        is_enough.then(|| size as f64 / size_ns as f64 / (most as f64 / most_ns as f64))
    }
}
