//! Servers that take turns on one CPU, in tenths of milliseconds.
//!
//! A virtual machine's CPUs share cores and caches with others of the host. While these work, the same
//! request costs up to four times as much, for seconds at a time, and nothing in the guest tells of it.
//! Trials in a row have more or less luck, then, and many are needed to tell one server from another. Servers
//! that take turns far shorter than any such time have all the same luck.
//!
//! Each server has a [`Share`](super::share::Share). The kernel's scheduler (EEVDF) picks the one that had
//! less than the others so far. The conductor's part is to have it pick: a real-time thread that wakes after
//! each turn. And it takes from the CPU what nobody is to have: a client's connection costs as much CPU as
//! the server's, so that one client CPU could not overload servers that have a whole one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::programs::background::Background;
use crate::record::outcome::Given;
use crate::statistics::quantile;

/// How a CPU is shared.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Turns {
    /// The part of the CPU that each server has.
    pub(crate) share: f64,
    /// How long each has it at a time, in microseconds.
    pub(crate) turn_us: u32,
}

/// Gives turns until it is stopped.
pub(crate) struct Conductor(Background<Vec<Turn>>);

/// Nanoseconds in which no server had the CPU, and the turn that followed.
type Turn = (u64, u64);

/// Between two looks at the clock; more is somebody else's time.
const OWN_STEP_NS: u64 = 2_000;

/// A thread that computes for more than `kernel.sched_rt_runtime_us` (95%) would be stopped for a long while.
const LONGEST: u64 = 3;

impl Turns {
    /// How long nobody has the CPU after each turn, if so many servers share it.
    fn between_us(self, servers: usize) -> f64 {
        let turn = f64::from(self.turn_us);
        (turn / (self.share * servers as f64) - turn).max(0.0)
    }
}

impl Conductor {
    /// For so many servers on `cpu`.
    pub(crate) fn start(cpu: usize, turns: Turns, servers: usize) -> Result<Self> {
        let (ready, started) = mpsc::channel();
        let conduct = move |stop: &AtomicBool| {
            let set_up = sys::process::pin_to_cpus(&[cpu]).and_then(|()| sys::process::run_in_real_time());
            let failed = set_up.is_err();
            // The other end waits for this.
            let _ = ready.send(set_up);
            if failed { Vec::new() } else { give(turns, servers, stop) }
        };
        let this = Self(Background::start("conductor", conduct)?);
        started.recv()?.context("cannot give turns on a CPU (SCHED_FIFO needs root, or ulimit -r)")?;
        Ok(this)
    }

    pub(crate) fn stop(self) -> Result<Given> {
        summary(&self.0.stop()?).context("nobody had a turn")
    }
}

/// Computes for so much time *of its own* after each turn: what interrupts take in the meantime, packets that
/// are received above all, is no part of it. They take from the CPU's other programs, as they would on a slow
/// CPU.
fn give(turns: Turns, servers: usize, stop: &AtomicBool) -> Vec<Turn> {
    let between_ns = (turns.between_us(servers) * 1e3) as u64;
    let turn_ns = f64::from(turns.turn_us) * 1e3;
    let mut given = Vec::with_capacity(1 << 16);
    let mut woken = sys::clock::monotonic_ns();
    // By how much sleeping takes longer than it should.
    let mut overslept_ns = 0.0;
    while !stop.load(Ordering::Relaxed) {
        let (mut own_ns, mut now) = (0, woken);
        while own_ns < between_ns && now - woken < LONGEST * between_ns {
            let before = now;
            now = sys::clock::monotonic_ns();
            let passed = now - before;
            own_ns += if passed < OWN_STEP_NS { passed } else { 0 };
        }
        let asked_ns = (turn_ns - overslept_ns).max(1.0);
        thread::sleep(Duration::from_nanos(asked_ns as u64));
        let between = now - woken;
        woken = sys::clock::monotonic_ns();
        let turn = woken - now;
        overslept_ns += (turn as f64 - asked_ns - overslept_ns).clamp(-turn_ns, turn_ns) / 16.0;
        given.push((between, turn));
    }
    given
}

/// The least part of the CPU that has to be left: below that the kernel takes real-time threads off it, for
/// long stretches.
const LEAST_LEFT: f64 = 0.055;
/// The longest time without a turn: more is no slow CPU but one that was away.
const LONGEST_BETWEEN_US: f64 = 20_000.0;

/// Why figures of trials with these turns don't count, if they don't.
pub(crate) fn reason_against(given: &Given) -> Option<String> {
    let Given { part, between_us_max, .. } = *given;
    (part < LEAST_LEFT || between_us_max > LONGEST_BETWEEN_US).then(|| {
        format!(
            "servers had {:.1}% of their CPU, and none had any for up to {between_us_max:.0} us",
            part * 100.0
        )
    })
}

fn summary(turns: &[Turn]) -> Option<Given> {
    let quantiles = |of: fn(&Turn) -> u64| {
        let mut sorted: Vec<f64> = turns.iter().map(|turn| of(turn) as f64 / 1e3).collect();
        sorted.sort_by(f64::total_cmp);
        let sum: f64 = sorted.iter().sum();
        let longest = *sorted.last()?;
        Some((sum, quantile(&sorted, 0.5), quantile(&sorted, 0.99), longest))
    };
    let (without, between_us_p50, between_us_p99, between_us_max) = quantiles(|turn| turn.0)?;
    let (with, turn_us_p50, turn_us_p99, _) = quantiles(|turn| turn.1)?;
    let part = with / (with + without);
    Some(Given { part, turn_us_p50, turn_us_p99, between_us_p50, between_us_p99, between_us_max })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURNS: Turns = Turns { share: 0.05, turn_us: 100 };

    #[test]
    fn each_server_has_its_share() {
        // One in 2,000 us, three in 667 each.
        assert!((TURNS.between_us(1) - 1_900.0).abs() < 1e-6);
        assert!((TURNS.between_us(3) - 566.67).abs() < 0.01);
        // Where there is no more than they have together, there is nothing to take away.
        assert!(TURNS.between_us(20).abs() < 1e-9);
    }

    #[test]
    fn what_became_of_turns_is_told() {
        let turns: Vec<Turn> = (1..=100).map(|n| (n * 4_000, n * 1_000)).collect();
        let given = summary(&turns).unwrap();
        assert!((given.part - 0.2).abs() < 1e-9);
        assert!((given.between_us_max - 400.0).abs() < 1e-9 && (given.turn_us_p50 - 50.5).abs() < 1e-9);
        assert_eq!(reason_against(&given), None);
        let away = Given { between_us_max: 950_000.0, ..given };
        let stopped = Given { part: 0.03, ..given };
        assert!(reason_against(&away).is_some() && reason_against(&stopped).is_some());
        assert!(summary(&[]).is_none());
    }

    #[test]
    fn a_conductor_computes_and_sleeps_by_turns() {
        let conductor = Background::start("conductor", |stop| give(TURNS, 4, stop)).unwrap();
        thread::sleep(Duration::from_millis(50));
        let turns = conductor.stop().unwrap();
        assert!(!turns.is_empty());
        assert!(turns.iter().all(|(between, _)| *between >= 400_000), "{turns:?}");
    }
}
