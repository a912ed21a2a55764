//! Controls the batch size: the smallest that sustains the highest throughput (Welsh, Culler and Brewer
//! 2001, section 3.4.2). Small batches are handed on sooner; large ones save switches between threads.
//!
//! Throughput means connections per CPU time here, because CPU time is what batches save. Connections per
//! second would follow the load.
//!
//! Throughput also changes with what clients request, so a size is not compared with earlier measurements.
//! A *trial* compares the size with the largest one, in alternating slices: largest, size, size, largest.
//! In this order a steady rise or fall affects both alike.
//!
//! - A trial tests half the present size. If its throughput is near enough to that of the largest, it
//!   becomes the present size.
//! - Every other trial tests the present size itself. If that has fallen behind, it is doubled. The
//!   threshold for falling behind is lower than the one for being chosen.
//! - A trial that changes nothing is followed by a rest that is twice as long as the last.
//! - A chosen size may fall behind after all, as where sizes hardly differ. Each time that happens, later
//!   rests are longer.

/// The state of the law.
#[derive(Debug)]
pub(super) struct Batch {
    most: u32,
    /// The present size.
    size: u32,
    phase: Phase,
    /// Samples to rest after a trial that changes nothing.
    rest: u32,
    /// The next trial tests half the present size, not the present size.
    tries_half: bool,
    /// The present size was chosen because it was smaller.
    was_halved: bool,
    /// The shortest rest between trials of smaller sizes.
    caution: u32,
}

#[derive(Debug)]
enum Phase {
    /// For this many samples.
    Rest(u32),
    Trial(Trial),
}

/// A trial under way.
#[derive(Debug)]
struct Trial {
    size: u32,
    samples: u32,
    /// Connections and nanoseconds with the largest size. `of_size` has those with the tested size.
    of_most: (u64, u64),
    of_size: (u64, u64),
}

/// Samples of a slice. The first one does not count: work begun before the slice goes on in it.
const SLICE: u32 = 4;
/// Samples between trials, at first and at most.
const REST: u32 = 20;
const MOST_REST: u32 = 400;
/// A trial gives no result with fewer connections than this in the slices of either size.
const ENOUGH: u64 = 64;
/// The fraction of the largest size's throughput that a size needs to be chosen. It needs `KEPT` to be
/// kept.
const CHOSEN: f64 = 0.97;
const KEPT: f64 = 0.94;

impl Batch {
    /// Starts with the largest size.
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

    /// Takes in the connections worked on since the last sample, and the CPU time that they took. Returns
    /// the batch size from here on: the present size, or during a trial the one that is tested.
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

    /// The fraction of the largest size's throughput, if both sizes had enough connections.
    fn part(&self) -> Option<f64> {
        let ((most, most_ns), (size, size_ns)) = (self.of_most, self.of_size);
        let is_enough = most.min(size) >= ENOUGH && most_ns.min(size_ns) > 0;
        is_enough.then(|| size as f64 / size_ns as f64 / (most as f64 / most_ns as f64))
    }
}
