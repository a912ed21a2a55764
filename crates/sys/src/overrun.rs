//! What happens when a user-level thread overruns its stack: the process says so on standard error, and
//! ends with the signal SIGSEGV, as it would without this module.
//!
//! The overrun touches a [guard](crate::stacks), and the kernel sends SIGSEGV. Its handler needs another
//! stack, since the thread has none left (`sigaltstack(2)`). It compares the address with the guards of
//! all pools. Rust's standard library does the same for kernel threads, so faults elsewhere are passed on to
//! its handler.

use std::cell::Cell;
use std::io;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The stacks of one pool. A `length` of 0: none.
struct Watched {
    base: AtomicUsize,
    length: AtomicUsize,
    stride: AtomicUsize,
}

/// Pools of a process: one for each kernel thread that runs user-level threads.
const MOST_POOLS: usize = 64;

static WATCHED: [Watched; MOST_POOLS] = [const {
    Watched { base: AtomicUsize::new(0), length: AtomicUsize::new(0), stride: AtomicUsize::new(0) }
}; MOST_POOLS];

/// What handled SIGSEGV before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

const MESSAGE: &[u8] = b"a user-level thread has overrun its stack; this process ends\n";

/// Bytes that the handler needs for its stack: its own, and those of the standard library's handler.
const HANDLER_STACK: usize = 64 << 10;

/// While it lives, overruns of a pool's stacks are reported.
pub(crate) struct Watch {
    base: usize,
}

impl Watch {
    /// Watches `length` bytes from `base`. Each stack in them takes `stride` bytes and begins with a guard of
    /// one page. The calling thread is the one that runs on these stacks.
    pub(crate) fn begin(base: usize, length: usize, stride: usize) -> io::Result<Self> {
        install_handler()?;
        give_handler_a_stack()?;
        for watched in &WATCHED {
            if watched.base.compare_exchange(0, base, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                watched.stride.store(stride, Ordering::Relaxed);
                watched.length.store(length, Ordering::Release);
                return Ok(Self { base });
            }
        }
        Err(io::Error::other("a process has at most 64 pools of stacks"))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for watched in &WATCHED {
            if watched.base.load(Ordering::Relaxed) == self.base {
                watched.length.store(0, Ordering::Release);
                watched.base.store(0, Ordering::Release);
            }
        }
    }
}

/// Gives the calling thread a stack for signal handlers that is large enough. It is never freed, since
/// another signal may always come.
fn give_handler_a_stack() -> io::Result<()> {
    thread_local! {
        static HAS_ONE: Cell<bool> = const { Cell::new(false) };
    }
    if HAS_ONE.get() {
        return Ok(());
    }
    let memory = Box::leak(Box::<[u8]>::new_uninit_slice(HANDLER_STACK));
    let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
    // SAFETY: the pointer is valid for the call, and nothing else ever uses that memory.
    if unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    HAS_ONE.set(true);
    Ok(())
}

fn is_guard(address: usize) -> bool {
    let page = rustix::param::page_size();
    WATCHED.iter().any(|watched| {
        let length = watched.length.load(Ordering::Acquire);
        let (base, stride) = (watched.base.load(Ordering::Relaxed), watched.stride.load(Ordering::Relaxed));
        let at = address.wrapping_sub(base);
        length > 0 && at < length && at % stride < page
    })
}

fn install_handler() -> io::Result<()> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    // SAFETY: all zero bytes are a valid sigaction. The pointers are valid for the calls, and the handler
    // has the signature that SA_SIGINFO asks for.
    unsafe {
        let mut before: libc::sigaction = mem::zeroed();
        if libc::sigaction(libc::SIGSEGV, ptr::null(), &raw mut before) != 0 {
            return Err(io::Error::last_os_error());
        }
        // Another thread may have been faster; then that one installs the handler.
        if BEFORE.set(before).is_err() {
            return Ok(());
        }
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        if libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Makes only calls that a signal handler may make (signal-safety(7)).
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo with an address for this signal.
    let address = unsafe { (*info).si_addr() } as usize;
    let before = BEFORE.get();
    if !is_guard(address)
        && let Some(before) = before
        && before.sa_flags & libc::SA_SIGINFO != 0
    {
        // SAFETY: the flag says that it is such a function, and it gets what this one got.
        unsafe {
            let pass_on: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                mem::transmute(before.sa_sigaction);
            pass_on(signal, info, context);
        }
        return;
    }
    // SAFETY: the message is valid for the call. Then the default action is set; the instruction that failed
    // fails again when this returns, and that ends the process.
    unsafe {
        if is_guard(address) {
            libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
        }
        libc::signal(signal, libc::SIG_DFL);
    }
}
