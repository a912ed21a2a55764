//! Signals that a thread waits for and takes one by one, instead of handlers.
//!
//! The first thread blocks the set of signals before it starts other threads, which inherit the mask.
//! Then it waits. The only handler wakes an event loop, which finds out the reason itself. A program that
//! the process executes inherits the mask ([`execute`](crate::process::execute)). It must wait for these
//! signals as well, or unblock them.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::wake::Wake;

/// The signals that a server handles, signal(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Signal {
    /// `SIGHUP`
    Hangup = libc::SIGHUP,
    /// `SIGINT`
    Interrupt = libc::SIGINT,
    /// `SIGQUIT`
    Quit = libc::SIGQUIT,
    /// `SIGTERM`
    Terminate = libc::SIGTERM,
    /// `SIGUSR1`
    User1 = libc::SIGUSR1,
    /// `SIGUSR2`
    User2 = libc::SIGUSR2,
    /// `SIGCHLD`
    Child = libc::SIGCHLD,
}

impl Signal {
    const ALL: [Self; 7] =
        [Self::Hangup, Self::Interrupt, Self::Quit, Self::Terminate, Self::User1, Self::User2, Self::Child];

    /// The number, signal(7).
    pub const fn number(self) -> i32 {
        self as i32
    }

    fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|signal| signal.number() == number)
    }
}

/// A set of signals, sigsetops(3).
#[derive(Clone)]
pub struct SignalSet {
    set: libc::sigset_t,
}

impl SignalSet {
    /// The set of these signals.
    #[must_use]
    pub fn new(signals: &[Signal]) -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises the set; sigaddset then gets an initialised set and a valid
        // number.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in signals {
                libc::sigaddset(set.as_mut_ptr(), signal.number());
            }
            Self { set: set.assume_init() }
        }
    }

    /// The set without these signals.
    #[must_use]
    pub fn without(&self, signals: &[Signal]) -> Self {
        let mut rest = self.clone();
        for signal in signals {
            // SAFETY: the set is initialised and the number valid.
            unsafe { libc::sigdelset(&raw mut rest.set, signal.number()) };
        }
        rest
    }

    /// Blocks these signals in the calling thread, and in the threads that it starts from now on, so that
    /// a thread can wait for them. `pthread_sigmask(3)`.
    pub fn block(&self) -> io::Result<()> {
        self.mask(libc::SIG_BLOCK)
    }

    /// Unblocks these signals in the calling thread. `pthread_sigmask(3)`.
    pub fn unblock(&self) -> io::Result<()> {
        self.mask(libc::SIG_UNBLOCK)
    }

    fn mask(&self, how: libc::c_int) -> io::Result<()> {
        // SAFETY: the set is initialised; the old mask is not requested.
        match unsafe { libc::pthread_sigmask(how, &raw const self.set, ptr::null_mut()) } {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }
}

impl std::fmt::Debug for SignalSet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: the set is initialised and the number valid.
        let member =
            |signal: &Signal| unsafe { libc::sigismember(&raw const self.set, signal.number()) } == 1;
        formatter.debug_set().entries(Signal::ALL.iter().filter(|signal| member(signal))).finish()
    }
}

/// Waits for one signal of a blocked set, and takes it. sigwait(3).
pub fn wait(set: &SignalSet) -> io::Result<Signal> {
    let mut number = 0;
    // SAFETY: both pointers are valid for the call.
    match unsafe { libc::sigwait(&raw const set.set, &raw mut number) } {
        0 => known(number),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Waits for one signal of a blocked set for at most `timeout_ms`. sigtimedwait(2).
pub fn wait_timeout(set: &SignalSet, timeout_ms: u32) -> io::Result<Option<Signal>> {
    let end = Instant::now() + Duration::from_millis(u64::from(timeout_ms));
    loop {
        let timeout = crate::clock::timespec(end.saturating_duration_since(Instant::now()));
        // SAFETY: the set and the timeout are valid for the call; details of the signal are not
        // requested.
        let number = unsafe { libc::sigtimedwait(&raw const set.set, ptr::null_mut(), &raw const timeout) };
        if number > 0 {
            return known(number).map(Some);
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            // Another signal, which is not in the set, was handled meanwhile.
            error if error.kind() == io::ErrorKind::Interrupted => {}
            error => return Err(error),
        }
    }
}

/// Makes writing to a closed connection an error (`EPIPE`) instead of the end of the process. signal(7),
/// `SIGPIPE`.
///
/// Rust's startup code does the same. A library entered from elsewhere, or a program started with another
/// disposition, must set this itself.
pub fn ignore_broken_pipe() -> io::Result<()> {
    // SAFETY: ignoring installs no handler.
    unsafe { dispose(libc::SIGPIPE, libc::SIG_IGN) }
}

/// Lets a process in the background write to its terminal, whatever the terminal's settings (`stty
/// tostop`). Otherwise a message of one process would stop all of them. signal(7), `SIGTTOU`.
pub fn ignore_background_output() -> io::Result<()> {
    // SAFETY: ignoring installs no handler.
    unsafe { dispose(libc::SIGTTOU, libc::SIG_IGN) }
}

/// Makes the kernel report children that end, by `SIGCHLD` and waitpid(2). The process that started this
/// program may have ignored that signal, and a program inherits this. Its children would then vanish
/// without a trace (waitpid(2), "NOTES").
pub fn notice_children() -> io::Result<()> {
    // SAFETY: the default disposition installs no handler.
    unsafe { dispose(libc::SIGCHLD, libc::SIG_DFL) }
}

/// Wakes `wake` whenever one of `signals` arrives from now on, and unblocks them in the calling thread.
/// [`take_arrived`] says which signal arrived. sigaction(2).
///
/// A process has one wake-up of this kind. The last call replaces the earlier ones.
pub fn wake_on(signals: &[Signal], wake: &'static Wake) -> io::Result<()> {
    WOKEN.store(wake.as_fd().as_raw_fd(), Ordering::Release);
    let handler: extern "C" fn(libc::c_int) = write_to_woken;
    for signal in signals {
        // SAFETY: the handler changes an atomic, makes one async-signal-safe call (signal-safety(7)) and
        // restores errno.
        unsafe { dispose(signal.number(), handler as libc::sighandler_t) }?;
    }
    SignalSet::new(signals).unblock()
}

/// Whether a signal given to [`wake_on`] has arrived since the last call.
pub fn take_arrived(signal: Signal) -> bool {
    let bit = 1 << signal.number();
    ARRIVED.fetch_and(!bit, Ordering::AcqRel) & bit != 0
}

/// Whether any signal has arrived that [`take_arrived`] would report. This costs one memory access.
#[inline]
pub fn has_arrived() -> bool {
    ARRIVED.load(Ordering::Acquire) != 0
}

static WOKEN: AtomicI32 = AtomicI32::new(-1);
/// One bit for each signal number.
static ARRIVED: AtomicU64 = AtomicU64::new(0);

extern "C" fn write_to_woken(number: libc::c_int) {
    ARRIVED.fetch_or(1 << number, Ordering::Release);
    let one = 1_u64.to_ne_bytes();
    // SAFETY: this is the location of this thread's errno; the write takes bytes that live through the
    // call. For a number that is not a descriptor, the call fails, and no other code is affected.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::write(WOKEN.load(Ordering::Acquire), one.as_ptr().cast(), one.len());
        *errno = before;
    }
}

/// Sets the disposition of a signal, signal(2).
///
/// # Safety
///
/// `disposition` is a handler that may run at any moment, or installs none.
unsafe fn dispose(number: libc::c_int, disposition: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: as the caller promises.
    match unsafe { libc::signal(number, disposition) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn known(number: i32) -> io::Result<Signal> {
    Signal::from_number(number).ok_or_else(|| io::Error::other(format!("unexpected signal {number}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends the signal only to the calling thread, so that tests in other threads are not disturbed.
    fn raise(signal: Signal) {
        // SAFETY: sends a signal that the caller has blocked to the calling thread.
        assert_eq!(unsafe { libc::pthread_kill(libc::pthread_self(), signal.number()) }, 0);
    }

    #[test]
    fn takes_blocked_signals_one_by_one() {
        let set = SignalSet::new(&[Signal::User1, Signal::Terminate]);
        set.block().unwrap();
        assert_eq!(wait_timeout(&set, 1).unwrap(), None);
        raise(Signal::Terminate);
        assert_eq!(wait(&set).unwrap(), Signal::Terminate);
        raise(Signal::User1);
        assert_eq!(wait_timeout(&set, 1_000).unwrap(), Some(Signal::User1));
        assert_eq!(wait_timeout(&set, 0).unwrap(), None);
    }

    #[test]
    fn names_its_members() {
        let set = SignalSet::new(&[Signal::Hangup, Signal::Child]);
        assert_eq!(format!("{set:?}"), "{Hangup, Child}");
        assert_eq!(format!("{:?}", set.without(&[Signal::Hangup, Signal::User2])), "{Child}");
    }

    #[test]
    fn wakes_a_loop() {
        let wake: &'static Wake = Box::leak(Box::new(Wake::new().unwrap()));
        SignalSet::new(&[Signal::User2]).block().unwrap();
        raise(Signal::User2);
        assert!(!wake.clear().unwrap());
        wake_on(&[Signal::User2], wake).unwrap();
        assert!(wake.clear().unwrap(), "one that was pending");
        assert!(has_arrived());
        assert!(take_arrived(Signal::User2) && !take_arrived(Signal::User2) && !take_arrived(Signal::Hangup));
        assert!(!has_arrived());
        raise(Signal::User2);
        assert!(wake.clear().unwrap());
    }

    #[test]
    fn writing_to_a_closed_pipe_is_an_error() {
        ignore_broken_pipe().unwrap();
        let (reader, mut writer) = std::io::pipe().unwrap();
        drop(reader);
        let error = std::io::Write::write(&mut writer, b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
