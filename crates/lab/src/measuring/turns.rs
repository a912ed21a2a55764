//! Gives servers quanta on one CPU, each of tenths of a millisecond: several servers, so that they can be
//! measured concurrently, or one, whose CPU is then slow.
//!
//! A virtual machine's CPUs share cores and caches with other machines on the host. While those work, the
//! same request costs up to four times as much, for seconds at a time, and the guest cannot see that. So
//! sequential trials depend on luck, and many are needed to find a difference. Servers with quanta far
//! shorter than such a disturbance all get the same luck.
//!
//! Each server has a [`Share`](super::share::Share). The kernel's scheduler (EEVDF) picks the server that
//! had the least CPU time so far. The conductor is a real-time thread that wakes after each quantum, and so
//! makes the scheduler pick again. It also uses up the CPU time that no server is to have. A connection
//! costs the clients as much CPU time as the server, so the clients' one CPU could not overload servers
//! that have a whole one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::description::slow_cpu::SlowCpu;
use crate::programs::background::Background;
use crate::record::outcome::Given;
use crate::statistics::quantile;

/// The quanta of a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turns {
    /// The quantum in microseconds.
    turn_us: f64,
    /// How long no server has the CPU after each quantum, in microseconds.
    between_us: f64,
}

/// Gives quanta until it is stopped.
pub(crate) struct Conductor(Background<Vec<Turn>>);

/// The nanoseconds in which no server had the CPU, and those of the quantum after that.
type Turn = (u64, u64);

/// The longest step between two readings of the clock that counts as own time; in a longer step, something
/// else had the CPU.
const OWN_STEP_NS: u64 = 2_000;

/// The most time between quanta, as a multiple of the planned one. The kernel stops a thread that computes
/// for more than `kernel.sched_rt_runtime_us` (95%) for a long while.
const LONGEST: u64 = 3;

impl Turns {
    /// The quanta of this many servers, each of which has the same part of the CPU.
    pub(crate) fn shared(turn_us: u32, share: f64, servers: usize) -> Self {
        let turn_us = f64::from(turn_us);
        Self { turn_us, between_us: (turn_us / (share * servers as f64) - turn_us).max(0.0) }
    }

    /// The quanta on a slow CPU. Unlike with a share, the server's CPU may be idle, and nothing runs there
    /// then. So what a server does in idle time costs it nothing.
    pub(crate) fn slow(SlowCpu { taken_us, of_us }: SlowCpu) -> Self {
        Self { turn_us: f64::from(of_us - taken_us), between_us: f64::from(taken_us) }
    }
}

impl Conductor {
    /// Starts the conductor on `cpu`.
    pub(crate) fn start(cpu: usize, turns: Turns) -> Result<Self> {
        let (ready, started) = mpsc::channel();
        let conduct = move |stop: &AtomicBool| {
            let set_up = sys::process::pin_to_cpus(&[cpu]).and_then(|()| sys::process::run_in_real_time());
            let failed = set_up.is_err();
            // The caller waits for this.
            let _ = ready.send(set_up);
            if failed { Vec::new() } else { give(turns, stop) }
        };
        let this = Self(Background::start("conductor", conduct)?);
        started.recv()?.context("cannot give turns on a CPU: SCHED_FIFO needs root or ulimit -r")?;
        Ok(this)
    }

    pub(crate) fn stop(self) -> Result<Given> {
        summary(&self.0.stop()?).context("no server has run")
    }
}

/// Computes for a fixed time after each quantum. Only the thread's own time counts, without interrupts,
/// which are mostly packets that arrive. Interrupts take their time from other programs, as on a slow CPU.
fn give(turns: Turns, stop: &AtomicBool) -> Vec<Turn> {
    let between_ns = (turns.between_us * 1e3) as u64;
    let turn_ns = turns.turn_us * 1e3;
    let mut given = Vec::with_capacity(1 << 16);
    let mut woken = sys::clock::monotonic_ns();
    // How much longer than requested the thread sleeps.
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

/// The smallest part of the CPU that servers must have had. Below that, the kernel stops real-time threads
/// for long periods.
const LEAST_LEFT: f64 = 0.055;
/// The longest allowed time without a quantum. A longer one does not show a slow CPU, but one that the host
/// took away.
const LONGEST_BETWEEN_US: f64 = 20_000.0;

/// The reason against trials with these quanta, if there is one.
pub(crate) fn reason_against(given: &Given) -> Option<String> {
    let Given { part, between_us_max, .. } = *given;
    (part < LEAST_LEFT || between_us_max > LONGEST_BETWEEN_US).then(|| {
        format!(
            "servers had only {:.1}% of their CPU, with gaps of up to {between_us_max:.0} us without any \
             server",
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

    #[test]
    fn each_server_has_its_share() {
        // One server: a quantum every 2,000 us. Three servers: one every 667 us.
        let between_us = |servers| Turns::shared(100, 0.05, servers).between_us;
        assert!((between_us(1) - 1_900.0).abs() < 1e-6);
        assert!((between_us(3) - 566.67).abs() < 0.01);
        // If servers are to have the whole CPU together, the conductor uses none.
        assert!(between_us(20).abs() < 1e-9);
        let slow = Turns::slow("300 us of 400 us".parse().unwrap());
        assert!((slow.turn_us - 100.0).abs() < 1e-9 && (slow.between_us - 300.0).abs() < 1e-9);
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
        let conductor =
            Background::start("conductor", |stop| give(Turns::shared(100, 0.05, 4), stop)).unwrap();
        thread::sleep(Duration::from_millis(50));
        let turns = conductor.stop().unwrap();
        assert!(!turns.is_empty());
        assert!(turns.iter().all(|(between, _)| *between >= 400_000), "{turns:?}");
    }
}
