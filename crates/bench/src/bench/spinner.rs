//! Load that takes a server's CPU away from it, so that the server is what is short.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::pace::Probe;
use crate::statistics::quantile;

/// Threads that compute nothing, as fast as they can, until they are dropped.
pub(crate) struct Spinners {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Spinners {
    /// `count` threads on one CPU: another program there is left one share of `count + 1`.
    pub(crate) fn start(cpu: usize, count: usize) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut this = Self { stop, threads: Vec::new() };
        for _ in 0..count {
            let stop = Arc::clone(&this.stop);
            this.threads.push(thread::Builder::new().name("spinner".to_owned()).spawn(move || {
                if sys::process::pin_to_cpus(&[cpu]).is_ok() {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                }
            })?);
        }
        Ok(this)
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A spinner that panicked has stopped as well.
            let _ = thread.join();
        }
    }
}

/// How long the thread of a [`Slowdown`] computes at a time, and how long it then leaves the CPU to others
/// while a connection costs [`NOMINAL_NS`].
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Duty {
    pub(crate) busy_us: u32,
    pub(crate) asleep_us: u32,
}

/// What a [`Slowdown`] came to: the gaps that others of the CPU saw, and what they were left in between.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Gaps {
    /// Part of the time in which the spinner slept.
    pub(crate) left: f64,
    /// How long others had to wait at a time, in microseconds.
    pub(crate) gap_us_p50: f64,
    pub(crate) gap_us_p99: f64,
    pub(crate) gap_us_max: f64,
    /// How long they had the CPU at a time, in microseconds.
    pub(crate) window_us_p50: f64,
    pub(crate) window_us_p99: f64,
    /// What a connection cost on that CPU, in microseconds: the median.
    pub(crate) connection_us: f64,
}

/// Makes a CPU slow, evenly: a real-time thread that computes and sleeps by turns, about once in a
/// millisecond.
///
/// It computes for so much time *of its own*: what interrupts take in the meantime, packets that are received above all, is
/// no part of it. They take from the CPU's other programs, as they would on a slow CPU, and not from the spinner.
///
/// When connections cost more for a while, because of what others do on the host ([`crate::pace`]), it sleeps
/// for longer: what others get done in the meantime stays about the same, and trials can be compared that had
/// more or less luck.
pub(crate) struct Slowdown {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Vec<Cycle>>>>,
}

/// A turn: nanoseconds that the spinner held the CPU, that it slept, and that a connection cost.
type Cycle = (u64, u64, u64);

/// What a connection costs on a CPU of 2025 that it has for itself.
const NOMINAL_NS: f64 = 20_000.0;

/// A request costs a server more, where a connection of the probe does, than that one: its files and its own
/// code are out of the caches as well, which the probe has just filled. Seen: 19 and 30 us for a connection,
/// 16 and 40 us for a request.
const WORSE: i32 = 2;

/// How many turns the cost of a connection is averaged over, more or less: a few milliseconds, where
/// neighbours stay for seconds.
const AVERAGED: f64 = 8.0;

/// How much longer, or shorter, than at the nominal cost it sleeps at most.
const FACTORS: (f64, f64) = (0.8, 8.0);

/// Between two looks at the clock; more is somebody else's time.
const OWN_STEP_NS: u64 = 2_000;

/// A thread that computes for more than `kernel.sched_rt_runtime_us` (95%) would be stopped for a long while.
const LONGEST_BUSY: u64 = 3;

impl Slowdown {
    pub(crate) fn start(cpu: usize, duty: Duty) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let (ready, started) = mpsc::channel();
        let probe = Probe::new().context("cannot listen for connections of one's own")?;
        let spin = move || {
            let set_up = sys::process::pin_to_cpus(&[cpu]).and_then(|()| sys::process::run_in_real_time());
            let failed = set_up.is_err();
            // The other end waits for this.
            let _ = ready.send(set_up);
            if failed { Ok(Vec::new()) } else { cycles(duty, &probe, &told) }
        };
        let thread = thread::Builder::new().name("slowdown".to_owned()).spawn(spin)?;
        let this = Self { stop, thread: Some(thread) };
        started.recv()?.context("cannot slow a CPU down (SCHED_FIFO needs root, or ulimit -r)")?;
        Ok(this)
    }

    pub(crate) fn stop(mut self) -> Result<Gaps> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("stopped twice")?;
        let cycles = thread.join().map_err(|_| anyhow::anyhow!("the spinner panicked"))??;
        Gaps::of(&cycles).context("the spinner did not spin")
    }
}

impl Drop for Slowdown {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A spinner that panicked has stopped as well.
            let _ = thread.join();
        }
    }
}

fn cycles(duty: Duty, probe: &Probe, stop: &AtomicBool) -> io::Result<Vec<Cycle>> {
    let wanted_ns = u64::from(duty.busy_us) * 1_000;
    let mut cycles = Vec::with_capacity(1 << 16);
    let mut woken = sys::clock::monotonic_ns();
    let mut cost_ns = probe.cost_ns()? as f64;
    // By how much sleeping takes longer than it should.
    let mut overslept_ns = 0.0;
    loop {
        let (mut own_ns, mut now) = (0, woken);
        while own_ns < wanted_ns && now - woken < LONGEST_BUSY * wanted_ns {
            let before = now;
            now = sys::clock::monotonic_ns();
            let passed = now - before;
            own_ns += if passed < OWN_STEP_NS { passed } else { 0 };
        }
        // While it computed, neighbours may have taken the caches. Others find the kernel's part of them
        // filled again, whatever it was before, and what that took is not theirs.
        let _ = probe.cost_ns();
        let costs = [probe.cost_ns(), probe.cost_ns()];
        // A connection that got lost is no news.
        let this_ns = costs.into_iter().flatten().min().unwrap_or(cost_ns as u64);
        // Interrupts in between are no news of the cost.
        cost_ns += ((this_ns as f64).min(2.0 * cost_ns) - cost_ns) / AVERAGED;
        let factor = (cost_ns / NOMINAL_NS).powi(WORSE).clamp(FACTORS.0, FACTORS.1);
        let window_ns = f64::from(duty.asleep_us) * 1e3 * factor;
        let asked_ns = (window_ns - overslept_ns).max(1.0);
        now = sys::clock::monotonic_ns();
        thread::sleep(Duration::from_nanos(asked_ns as u64));
        let busy = now - woken;
        woken = sys::clock::monotonic_ns();
        let asleep = woken - now;
        overslept_ns += (asleep as f64 - asked_ns - overslept_ns).clamp(-window_ns, window_ns) / 16.0;
        cycles.push((busy, asleep, this_ns));
        if stop.load(Ordering::Relaxed) {
            return Ok(cycles);
        }
    }
}

/// The least part of the CPU that has to be left: below that the kernel takes real-time threads off it, for
/// long stretches.
const LEAST_LEFT: f64 = 0.055;
/// The longest gap: more is no slow CPU but one that was away.
const LONGEST_GAP_US: f64 = 20_000.0;

impl Gaps {
    /// Why figures of a trial with these gaps don't count, if they don't.
    pub(crate) fn reason_against(&self) -> Option<String> {
        let Self { left, gap_us_max, .. } = *self;
        (left < LEAST_LEFT || gap_us_max > LONGEST_GAP_US).then(|| {
            format!(
                "the server was left {:.1}% of its CPU, with gaps of up to {gap_us_max:.0} us",
                left * 100.0
            )
        })
    }

    fn of(cycles: &[Cycle]) -> Option<Self> {
        if cycles.is_empty() {
            return None;
        }
        let quantiles = |of: fn(&Cycle) -> u64| {
            let mut sorted: Vec<f64> = cycles.iter().map(|cycle| of(cycle) as f64 / 1e3).collect();
            sorted.sort_by(f64::total_cmp);
            let sum: f64 = sorted.iter().sum();
            Some((sum, quantile(&sorted, 0.5), quantile(&sorted, 0.99), *sorted.last()?))
        };
        let (busy, gap_us_p50, gap_us_p99, gap_us_max) = quantiles(|cycle| cycle.0)?;
        let (asleep, window_us_p50, window_us_p99, _) = quantiles(|cycle| cycle.1)?;
        let (_, connection_us, ..) = quantiles(|cycle| cycle.2)?;
        Some(Self {
            left: asleep / (busy + asleep),
            gap_us_p50,
            gap_us_p99,
            gap_us_max,
            window_us_p50,
            window_us_p99,
            connection_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_others_wait() {
        let cycles: Vec<Cycle> = (1..=100).map(|n| (n * 4_000, n * 1_000, 25_000)).collect();
        let gaps = Gaps::of(&cycles).unwrap();
        assert!((gaps.left - 0.2).abs() < 1e-9);
        assert!((gaps.gap_us_max - 400.0).abs() < 1e-9 && (gaps.window_us_p50 - 50.5).abs() < 1e-9);
        assert!((gaps.connection_us - 25.0).abs() < 1e-9);
        assert_eq!(gaps.reason_against(), None);
        let throttled = Gaps { gap_us_max: 950_000.0, ..gaps };
        let stalled = Gaps { left: 0.03, ..gaps };
        assert!(throttled.reason_against().is_some() && stalled.reason_against().is_some());
        assert!(Gaps::of(&[]).is_none());
    }

    #[test]
    fn a_spinner_computes_and_sleeps_by_turns() {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let spinner =
            thread::spawn(move || cycles(Duty { busy_us: 400, asleep_us: 100 }, &Probe::new()?, &told));
        thread::sleep(Duration::from_millis(50));
        stop.store(true, Ordering::Relaxed);
        let cycles = spinner.join().unwrap().unwrap();
        assert!(!cycles.is_empty());
        assert!(cycles.iter().all(|(busy, ..)| *busy >= 400_000), "{cycles:?}");
    }
}
