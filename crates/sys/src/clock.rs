//! Clock readings. The vDSO serves all of them without a system call, except those of CPU time.
//!
//! The coarse clocks tick with the kernel's timer (every 1 to 10 ms) and cost a few nanoseconds: an event
//! loop reads them once per turn. See `clock_gettime(2)`.
//!
//! The readings go through rustix, not through the C library. rustix calls the vDSO directly. The library
//! touches three more pages of memory to find it, and a process that gets the CPU after other processes
//! pays for each page (docs/design/architectures.md, "Where a worker has one client").

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

const NANOS_PER_MS: u64 = 1_000_000;

/// Milliseconds of the monotonic clock, rounded down to a timer tick (`CLOCK_MONOTONIC_COARSE`,
/// `clock_gettime(2)`).
#[inline]
pub fn monotonic_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    seconds(&now) * 1_000 + nanos(&now) / NANOS_PER_MS
}

/// Nanoseconds of the monotonic clock, exact (`CLOCK_MONOTONIC`, `clock_gettime(2)`).
#[inline]
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    seconds(&now) * 1_000_000_000 + nanos(&now)
}

/// Nanoseconds of CPU time that the calling thread has used (`CLOCK_THREAD_CPUTIME_ID`,
/// `clock_gettime(2)`). This is a system call.
#[inline]
pub fn thread_cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    seconds(&now) * 1_000_000_000 + nanos(&now)
}

/// Nanoseconds of CPU time that all threads of the process have used (`CLOCK_PROCESS_CPUTIME_ID`,
/// `clock_gettime(2)`). This is a system call.
pub fn process_cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    seconds(&now) * 1_000_000_000 + nanos(&now)
}

/// Whole seconds since 1970-01-01 UTC, rounded down to a timer tick (`CLOCK_REALTIME_COARSE`,
/// `clock_gettime(2)`).
#[inline]
pub fn realtime_secs() -> u64 {
    seconds(&clock_gettime(ClockId::RealtimeCoarse))
}

/// Seconds since 1970-01-01 UTC, and the milliseconds (0 to 999) beyond them, rounded down to a timer
/// tick (`CLOCK_REALTIME_COARSE`, `clock_gettime(2)`).
#[inline]
pub fn realtime() -> (u64, u16) {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    (seconds(&now), (nanos(&now) / NANOS_PER_MS) as u16)
}

/// A time span as the kernel's type, timespec(3type).
#[inline]
pub(crate) const fn timespec(time: Duration) -> libc::timespec {
    libc::timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ }
}

/// A clock that is set before 1970 reads as 1970.
fn seconds(time: &Timespec) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0)
}

fn nanos(time: &Timespec) -> u64 {
    time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_monotonic_clocks_agree_and_advance() {
        let (coarse_ms, exact_ns) = (monotonic_ms(), monotonic_ns());
        assert!(exact_ns / NANOS_PER_MS + 1 >= coarse_ms, "the coarse clock never runs ahead");
        assert!(exact_ns / NANOS_PER_MS - coarse_ms < 1_000, "both count from the same moment");
        while monotonic_ms() == coarse_ms {
            std::hint::spin_loop();
        }
        assert!(monotonic_ms() > coarse_ms);
        assert!(monotonic_ns() > exact_ns);
    }

    #[test]
    fn cpu_time_passes_while_one_works_and_not_while_one_sleeps() {
        let (cpu_ns, ns) = (thread_cpu_ns(), monotonic_ns());
        std::thread::sleep(std::time::Duration::from_millis(50));
        while thread_cpu_ns() < cpu_ns + 1_000_000 {
            std::hint::spin_loop();
        }
        assert!(thread_cpu_ns() - cpu_ns < monotonic_ns() - ns - 40_000_000);
    }

    #[test]
    fn the_realtime_clock_is_the_systems() {
        let reference = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!(realtime_secs().abs_diff(reference) <= 1);
        let (seconds, millis) = realtime();
        assert!(seconds.abs_diff(reference) <= 1);
        assert!(millis < 1_000);
    }
}
