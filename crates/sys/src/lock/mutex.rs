//! A mutex whose owner may be killed.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};
use rustix::thread::futex;

use super::entry::{Mutex, OWNER, OWNER_DIED, WAITERS};
use super::robust_list::Thread;

/// A held mutex. Dropping this releases it.
#[derive(Debug)]
#[must_use]
pub struct Held {
    pub(super) mutex: &'static Mutex,
    pub(super) owner_died: bool,
    /// Nothing has been repaired, so the next owner must also learn that an owner died.
    pub(super) unrepaired: bool,
    /// The kernel's list belongs to a thread.
    of_thread: PhantomData<*const ()>,
}

/// The longest time that a thread sleeps before it checks the lock again. A woken thread may be killed
/// before it has taken the lock, and then no thread wakes the next one. The kernel does so only if no
/// thread has taken the lock since.
const NAP: Duration = Duration::from_millis(5);

impl Mutex {
    /// Takes the mutex as soon as no other thread holds it. `None`: that takes longer than `timeout`.
    /// With zero, this tries once without waiting.
    ///
    /// # Panics
    ///
    /// The calling thread already holds it.
    pub fn lock(&'static self, timeout: Duration) -> Option<Held> {
        let thread = Thread::current();
        assert!(!thread.holds(self), "a mutex locked twice by one thread");
        thread.announce(self);
        let held = match self.take(thread.id, 0) {
            Ok(()) => Some(self.held(&thread, false)),
            Err(_) => self.lock_contended(&thread, timeout),
        };
        if held.is_none() {
            thread.withdraw();
        }
        held
    }

    #[cold]
    fn lock_contended(&'static self, thread: &Thread, timeout: Duration) -> Option<Held> {
        let end = Instant::now() + timeout;
        let mut contended = 0;
        loop {
            let Err(now) = self.take(thread.id, contended) else { return Some(self.held(thread, false)) };
            let left = end.saturating_duration_since(Instant::now());
            // Without an owner, no thread would release the lock. If the word names this thread, which
            // does not hold the lock, the word is wrong as well.
            let is_left =
                now & OWNER_DIED != 0 || matches!(now & OWNER, owner if owner == 0 || owner == thread.id);
            if is_left || left.is_zero() && !is_thread(now & OWNER) {
                let claimed = thread.id | (now & WAITERS) | contended;
                if self.word.compare_exchange(now, claimed, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return Some(self.held(thread, true));
                }
                continue;
            }
            if left.is_zero() {
                return None;
            }
            let waited_for = now | WAITERS;
            if now == waited_for
                || self.word.compare_exchange(now, waited_for, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                // Woken, changed meanwhile, or interrupted: check again. From here on, other threads may
                // be asleep as well.
                sleep(&self.word, waited_for, left);
                contended = WAITERS;
            }
        }
    }

    /// Takes the lock if it is free. Otherwise returns the word.
    #[inline]
    fn take(&self, owner: u32, contended: u32) -> Result<(), u32> {
        self.word.compare_exchange(0, owner | contended, Ordering::Acquire, Ordering::Relaxed).map(drop)
    }

    fn held(&'static self, thread: &Thread, owner_died: bool) -> Held {
        thread.link(self);
        Held { mutex: self, owner_died, unrepaired: false, of_thread: PhantomData }
    }
}

/// Sleeps while the word keeps this value, for at most `left`, and never for long.
pub(super) fn sleep(word: &AtomicU32, same: u32, left: Duration) {
    let time = futex::Timespec { tv_sec: 0, tv_nsec: left.min(NAP).subsec_nanos().into() };
    let _ = futex::wait(word, futex::Flags::empty(), same, Some(&time));
}

/// Whether a thread with this id exists, even one that is ending. kill(2) with signal 0.
fn is_thread(id: u32) -> bool {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

impl Held {
    /// Whether the previous owner died while it held the mutex, so that what it protects may be half
    /// changed. This is reported once: repair before you drop this.
    pub fn owner_died(&self) -> bool {
        self.owner_died
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let thread = Thread::current();
        thread.announce(self.mutex);
        thread.unlink(self.mutex);
        let left = if self.unrepaired { OWNER_DIED } else { 0 };
        let was = self.mutex.word.swap(left, Ordering::Release);
        if was & WAITERS != 0 {
            let _ = futex::wake(&self.mutex.word, futex::Flags::empty(), 1);
        }
        thread.withdraw();
    }
}
