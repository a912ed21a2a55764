//! Ctrl-C, and being told to end: long work stops at the next place that asks, and takes away what it has set
//! up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on INT, TERM and HUP don't end this program but make [`check`] fail.
pub(crate) fn catch() -> Result<()> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed)).context("cannot catch signals")
}

/// Fails once somebody wants this program to end.
pub(crate) fn check() -> Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        bail!("interrupted; the same command goes on from here");
    }
    Ok(())
}

/// Waits until then, unless interrupted.
pub(crate) fn sleep_until(then: Instant) -> Result<()> {
    loop {
        check()?;
        let left = then.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(Duration::from_millis(50)));
    }
}
