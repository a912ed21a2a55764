//! Handles Ctrl-C and other signals to end. Long work stops at the next check or wait, and removes what it
//! has set up.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// After this call, INT, TERM and HUP no longer end this program. Instead, [`is_asked`] returns true and
/// [`check`] fails. Calling it again does no harm.
pub fn catch() -> Result<()> {
    static CAUGHT: OnceLock<Result<(), ctrlc::Error>> = OnceLock::new();
    let catch = || ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
    match CAUGHT.get_or_init(catch) {
        Ok(()) => Ok(()),
        Err(error) => bail!("cannot catch signals: {error}"),
    }
}

/// Whether a signal has told this program to end.
pub fn is_asked() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Fails once a signal has told this program to end.
pub fn check() -> Result<()> {
    if is_asked() {
        bail!("interrupted; the same command goes on from here where it keeps a journal");
    }
    Ok(())
}

/// Polls until there is an answer. Fails if interrupted. `None`: there was no answer in time.
pub fn wait_for<T>(timeout: Duration, mut answer: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let start = Instant::now();
    loop {
        check()?;
        let found = answer()?;
        if found.is_some() || start.elapsed() > timeout {
            return Ok(found);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Sleeps until that time. Fails if interrupted.
pub fn sleep_until(then: Instant) -> Result<()> {
    loop {
        check()?;
        let left = then.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(Duration::from_millis(50)));
    }
}
