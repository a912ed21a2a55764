//! An alarm that interrupts system calls which block for too long.
//!
//! A blocking `sendfile` returns when everything is in the socket's buffer. A client that reads nothing,
//! or a byte now and then, can delay that indefinitely. `SO_SNDTIMEO` (socket(7)) does not help: it
//! starts again whenever some room appears. But a signal ends the call, which then returns what it has
//! sent so far, or `EINTR` if that is nothing. So an alarm rings repeatedly while a thread makes such
//! calls, and the thread checks whenever it has rung.

use std::cell::Cell;
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

thread_local! {
    /// The counter of how often this thread's alarm has rung. It is constant at first and has no
    /// destructor, so that a signal handler may read it. The signal does not carry it, because other
    /// processes may send that signal.
    static RINGS: Cell<Option<&'static AtomicU32>> = const { Cell::new(None) };
}

/// The signal. Nothing else in the program uses it.
const SIGNAL: libc::c_int = libc::SIGALRM;

/// A timer of the thread that created it. Each time it rings, it interrupts that thread's system calls.
/// `timer_create(2)`, `CLOCK_MONOTONIC` and `SIGEV_THREAD_ID`.
///
/// A ring just before a call is noticed only after the call. So the timer rings repeatedly, and a call is
/// interrupted within two periods.
#[derive(Debug)]
pub struct Alarm {
    timer: libc::timer_t,
    period: Duration,
    running: bool,
    rings: &'static AtomicU32,
    /// Rings that the caller has already noticed.
    heard: u32,
}

// SAFETY: any thread of the process may set and delete a timer; it continues to interrupt the thread that
// created it.
unsafe impl Send for Alarm {}

impl Alarm {
    /// An alarm for the calling thread, its only one, which does not ring yet. `period` is at least a
    /// microsecond. `rings` counts how often it has rung. The thread reads `rings` after each call that
    /// may block, so place it next to the other data that the thread reads then.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if no more timers are allowed (`RLIMIT_SIGPENDING`, getrlimit(2)).
    pub fn new(period: Duration, rings: &'static AtomicU32) -> io::Result<Self> {
        install_handler()?;
        // SAFETY: all zero bytes are a valid sigevent, of which the fields that matter are set below.
        let mut event: libc::sigevent = unsafe { zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = SIGNAL;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut timer = MaybeUninit::uninit();
        // SAFETY: both pointers are valid for the call, and success initialises the timer.
        let timer = unsafe {
            if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, timer.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            timer.assume_init()
        };
        RINGS.set(Some(rings));
        let heard = rings.load(Ordering::Relaxed);
        Ok(Self { timer, period, running: false, rings, heard })
    }

    /// Starts ringing: after one period, and after each further period. Does nothing if it is already
    /// running. `timer_settime(2)`.
    #[inline]
    pub fn start(&mut self) {
        if !self.running {
            self.running = true;
            self.set(self.period);
        }
    }

    /// Stops ringing. Does nothing if it is not running. `timer_settime(2)`.
    #[inline]
    pub fn stop(&mut self) {
        if self.running {
            self.running = false;
            self.set(Duration::ZERO);
        }
    }

    /// Whether it is running.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// Whether it has rung since the last call.
    #[inline]
    pub fn has_rung(&mut self) -> bool {
        let rings = self.rings.load(Ordering::Relaxed);
        std::mem::replace(&mut self.heard, rings) != rings
    }

    fn set(&self, period: Duration) {
        let time = crate::clock::timespec(period);
        let times = libc::itimerspec { it_interval: time, it_value: time };
        // SAFETY: the timer lives as long as `self`, and the times are valid for the call, so it cannot
        // fail.
        unsafe { libc::timer_settime(self.timer, 0, &raw const times, ptr::null_mut()) };
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer was made by `new` and is not used any more.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// Without `SA_RESTART`, because with it the kernel would continue an interrupted call by itself.
/// sigaction(2).
fn install_handler() -> io::Result<()> {
    let handler: extern "C" fn(libc::c_int) = ring;
    // SAFETY: all zero bytes are a valid sigaction with no flags and an empty mask; the handler only
    // changes an atomic, which is named by a thread-local that needs no initialisation.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        if libc::sigaction(SIGNAL, &raw const action, ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

extern "C" fn ring(_: libc::c_int) {
    if let Some(rings) = RINGS.get() {
        rings.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use super::*;
    use crate::socket;

    const PERIOD: Duration = Duration::from_millis(20);

    fn alarm_of(period: Duration) -> Alarm {
        Alarm::new(period, Box::leak(Box::new(AtomicU32::new(7)))).unwrap()
    }

    #[test]
    fn rings_while_it_runs_and_not_after() {
        let mut alarm = alarm_of(PERIOD);
        std::thread::sleep(3 * PERIOD);
        assert!(!alarm.has_rung() && !alarm.is_running());
        alarm.start();
        let began = Instant::now();
        for _ in 0..2 {
            while !alarm.has_rung() {
                assert!(began.elapsed() < Duration::from_secs(10));
                std::thread::sleep(PERIOD);
            }
        }
        alarm.stop();
        alarm.has_rung();
        std::thread::sleep(3 * PERIOD);
        assert!(!alarm.has_rung());
    }

    #[test]
    fn a_signal_from_elsewhere_is_one_more_ring_or_nothing() {
        // SAFETY: takes no memory, and the handler is installed by now.
        let signal_oneself = || unsafe { libc::raise(SIGNAL) };
        let mut alarm = alarm_of(Duration::from_hours(1));
        signal_oneself();
        assert!(alarm.has_rung() && !alarm.has_rung());
        let without_alarm = std::thread::spawn(signal_oneself);
        assert_eq!(without_alarm.join().unwrap(), 0);
        assert!(!alarm.has_rung());
    }

    #[test]
    fn other_threads_are_not_disturbed() {
        let mut alarm = alarm_of(PERIOD);
        alarm.start();
        std::thread::spawn(|| {
            let mut other = alarm_of(Duration::from_hours(1));
            std::thread::sleep(3 * PERIOD);
            assert!(!other.has_rung());
        })
        .join()
        .unwrap();
    }

    /// A client that reads a byte now and then keeps a blocking send from ending, but the alarm still
    /// interrupts it.
    #[test]
    fn breaks_off_a_send_that_a_trickling_client_draws_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![b'x'; 32 << 20]).unwrap();
        file.rewind().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let trickle = std::thread::spawn(move || {
            let mut client = client;
            while !told.load(Ordering::Relaxed) {
                client.read_exact(&mut [0]).unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut alarm = alarm_of(PERIOD);
        alarm.start();
        let (mut offset, began) = (0, Instant::now());
        for _ in 0..5 {
            match socket::send_file(server.as_fd(), &file, &mut offset, 32 << 20) {
                Ok(count) => assert!(count > 0),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::Interrupted),
            }
            assert!(alarm.has_rung());
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert!(offset < 32 << 20);
        stop.store(true, Ordering::Relaxed);
        trickle.join().unwrap();
    }
}
