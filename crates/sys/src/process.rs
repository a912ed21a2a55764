//! What a process may use and how it appears to others: descriptors, CPUs, priority, name. The submodules
//! cover its user and group, and the processes that it forks.

mod children;
mod identity;

pub(crate) use children::is_single_threaded;
pub use children::{Ended, any_ended, ended, fork, fork_sharing_descriptors, kill, reap, send};
pub use identity::{
    drop_privileges, drop_privileges_but_reading, give_up_reading, group_id, identity, is_root,
    keep_only_reading, may_read_all, runs_as, user_id,
};

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::signal::Signal;

/// Lets other threads that want this CPU run first, if there are any. `sched_yield(2)`.
#[inline]
pub fn yield_cpu() {
    rustix::thread::sched_yield();
}

/// When the calling thread is woken, it waits until the running thread gives up its CPU or has used its
/// time slice (`SCHED_BATCH`; sched(7)). A thread that was started with another policy keeps that policy.
/// If a filter of system calls forbids the change, nothing changes.
pub fn break_nobody_off() {
    if scheduling_policy() == libc::SCHED_OTHER {
        let _ = set_scheduling_policy(libc::SCHED_BATCH, 0);
    }
}

/// From now on the calling thread runs only while no other thread wants its CPU (`SCHED_IDLE`; sched(7)).
/// The kernel takes the CPU from it as soon as another thread is woken. A thread cannot take this back. If a
/// filter of system calls forbids the change, nothing changes.
pub fn run_only_when_idle() {
    let _ = set_scheduling_policy(libc::SCHED_IDLE, 0);
}

/// The calling thread's scheduling policy, or -1. It asks the kernel itself, as musl's functions for policies
/// always fail (`sched_setscheduler(2)`).
fn scheduling_policy() -> libc::c_int {
    // SAFETY: it takes only a number; 0 is the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) as libc::c_int }
}

fn set_scheduling_policy(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    // SAFETY: 0 is the calling thread. The kernel's structure has one member, the priority, which lives
    // through the call.
    check(unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) as libc::c_int
    })
}

/// How many descriptors the process may have open (`RLIMIT_NOFILE`, getrlimit(2)); `u64::MAX` if there is
/// no limit.
pub fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the soft limit of open descriptors to the hard limit (`RLIMIT_NOFILE`, setrlimit(2)), and
/// returns it.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    }
    Ok(descriptor_limit())
}

/// Lowers the soft limit of open descriptors (`RLIMIT_NOFILE`, setrlimit(2)). A lower limit stays
/// unchanged.
pub fn lower_descriptor_limit(most: u64) -> io::Result<()> {
    if descriptor_limit() > most {
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum })?;
    }
    Ok(())
}

/// Whether an error means that there is no such process (`ESRCH`). Files in `/proc/PID` return it when
/// the process ends while they are read.
pub fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

/// Lets the calling thread run only on these CPUs. Threads and processes that it starts inherit this.
/// `sched_setaffinity(2)`; `EINVAL` if no CPU is given or none of them exists.
pub fn pin_to_cpus(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(rustix::io::Errno::INVAL.into());
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// The CPUs that the calling thread may run on, in ascending order. `sched_getaffinity(2)`.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Sets how long after its time a sleep of the calling thread may end, so that the kernel can wake
/// several threads at once. The default is 50 us. prctl(2), `PR_SET_TIMERSLACK`.
pub fn set_timer_slack_ns(slack_ns: u32) -> io::Result<()> {
    // SAFETY: this option takes a number; 0 would mean the default, so 1 is the minimum.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, libc::c_ulong::from(slack_ns.max(1))) })
}

/// Makes the calling thread run before all threads of its CPU without this policy, as soon as it has
/// something to do (`SCHED_FIFO`, at its lowest priority; sched(7)). Threads and processes that it starts
/// do not have the policy. A thread that never sleeps keeps the others off its CPU, except for the 5%
/// that `kernel.sched_rt_runtime_us` reserves for them.
///
/// # Errors
///
/// This requires `CAP_SYS_NICE`, or an `RLIMIT_RTPRIO` above 0.
pub fn run_in_real_time() -> io::Result<()> {
    set_scheduling_policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1)
}

/// The kernel's id of the calling thread. gettid(2).
pub fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// CPU time that the calling thread has used so far, in user mode and in kernel mode. getrusage(2),
/// `RUSAGE_THREAD`.
pub fn thread_cpu_time() -> io::Result<(Duration, Duration)> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: there is room for the result, which is initialised if the call succeeds.
    let usage = unsafe {
        check(libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()))?;
        usage.assume_init()
    };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1_000);
    Ok((time(usage.ru_utime), time(usage.ru_stime)))
}

/// The file that this process runs, under the name that it was executed by. The path is absolute if
/// `/proc` provides it. Otherwise it is valid only as long as the current directory is that of the start.
/// getauxval(3), `AT_EXECFN`.
///
/// # Errors
///
/// There is no current directory.
pub fn program() -> io::Result<PathBuf> {
    std::env::current_exe().or_else(|_| {
        // rustix's function for this finds nothing in a static program.
        // SAFETY: it takes only a number.
        let name = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const libc::c_char;
        // SAFETY: the kernel has put a string there that lives as long as the process. It is not null: every
        // Linux since 2.6.26 provides the value.
        std::path::absolute(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()))
    })
}

/// Replaces this process's program by another one, with these arguments (the first is its name) and these
/// variables. Blocked signals stay blocked, so that none is lost meanwhile. execve(2).
///
/// Returns the error if that fails. Otherwise it does not return.
pub fn execute(program: &Path, arguments: &[OsString], variables: &[(OsString, OsString)]) -> io::Error {
    fn text(parts: &[&OsStr]) -> io::Result<CString> {
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.as_bytes()).copied().collect();
        CString::new(bytes).map_err(io::Error::from)
    }
    let text_of = |argument: &OsString| text(&[argument]);
    let variable = |(name, value): &(OsString, OsString)| text(&[name, OsStr::new("="), value]);
    let texts = || -> io::Result<(CString, Vec<CString>, Vec<CString>)> {
        let arguments = arguments.iter().map(text_of).collect::<io::Result<_>>()?;
        let variables = variables.iter().map(variable).collect::<io::Result<_>>()?;
        Ok((text(&[program.as_os_str()])?, arguments, variables))
    };
    let (program, arguments, variables) = match texts() {
        Ok(texts) => texts,
        Err(error) => return error,
    };
    let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argument_pointers, variable_pointers) = (pointers(&arguments), pointers(&variables));
    // SAFETY: a string and two lists of strings, each list ended by a null pointer, that live through the
    // call.
    unsafe { libc::execve(program.as_ptr(), argument_pointers.as_ptr(), variable_pointers.as_ptr()) };
    io::Error::last_os_error()
}

/// Makes the kernel send a signal to this process when its parent ends. prctl(2), `PR_SET_PDEATHSIG`.
///
/// This does not notice a parent that has already ended: compare [`parent`] with its earlier value.
pub fn signal_at_end_of_parent(signal: Signal) -> io::Result<()> {
    // SAFETY: this option takes a number.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal.number()) })
}

/// Prevents programs that this process or its children execute from gaining privileges. Set-user-ID bits
/// and file capabilities have no effect from now on. It cannot be undone. prctl(2),
/// `PR_SET_NO_NEW_PRIVS`.
pub fn forgo_new_privileges() -> io::Result<()> {
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Sets the name of this thread for process lists (`ps`, `top`, `pgrep`). For the first thread, this is
/// also the name of the process. The kernel keeps 15 bytes. prctl(2), `PR_SET_NAME`.
pub fn set_name(name: &str) {
    let name = CString::new(name.replace('\0', " ")).unwrap_or_default();
    // The kernel refuses no name.
    let _ = rustix::thread::set_name(&name);
}

/// Whether this process is in the foreground of a terminal, where the terminal's user addresses it. It is
/// not if the terminal has been closed, or belongs to another session. tcgetpgrp(3), credentials(7).
pub fn is_in_foreground(terminal: impl AsFd) -> bool {
    rustix::termios::tcgetpgrp(terminal).is_ok_and(|foreground| foreground == rustix::process::getpgrp())
}

/// The id of the parent. getppid(2).
pub fn parent() -> u32 {
    std::os::unix::process::parent_id()
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_process;

    #[test]
    fn raises_the_descriptor_limit_to_the_hard_one() {
        own_process::run("process::tests::raises_the_descriptor_limit_to_the_hard_one", || {
            let hard = getrlimit(Resource::Nofile).maximum;
            setrlimit(Resource::Nofile, Rlimit { current: Some(100), maximum: hard }).unwrap();
            assert_eq!(descriptor_limit(), 100);
            assert_eq!(raise_descriptor_limit().unwrap(), hard.unwrap_or(u64::MAX));
            assert_eq!(descriptor_limit(), hard.unwrap_or(u64::MAX));
        });
    }

    #[test]
    fn who_breaks_nobody_off_is_one_thread() {
        // SAFETY: 0 is the calling thread.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let before = policy();
        std::thread::spawn(move || {
            break_nobody_off();
            assert_eq!(policy(), if before == libc::SCHED_OTHER { libc::SCHED_BATCH } else { before });
        })
        .join()
        .unwrap();
        assert_eq!(policy(), before);
    }

    #[test]
    fn real_time_is_a_matter_of_permission() {
        std::thread::spawn(|| match run_in_real_time() {
            Ok(()) => {
                // SAFETY: 0 is the calling thread.
                let policy = unsafe { libc::sched_getscheduler(0) };
                assert_eq!(policy & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO);
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
        })
        .join()
        .unwrap();
    }

    #[test]
    fn computing_takes_time() {
        set_timer_slack_ns(1).unwrap();
        let (before, _) = thread_cpu_time().unwrap();
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_millis(30) {
            std::hint::black_box(0);
        }
        let (user, system) = thread_cpu_time().unwrap();
        assert!(user + system > before);
    }

    #[test]
    fn pins_a_thread_and_what_it_starts() {
        let before = allowed_cpus().unwrap();
        let last = *before.last().unwrap();
        std::thread::spawn(move || {
            pin_to_cpus(&[last]).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [last]);
            std::thread::spawn(move || assert_eq!(allowed_cpus().unwrap(), [last])).join().unwrap();
        })
        .join()
        .unwrap();
        assert_eq!(allowed_cpus().unwrap(), before, "other threads are left alone");
    }

    #[test]
    fn refuses_cpus_that_do_not_exist() {
        for cpus in [[].as_slice(), &[CpuSet::MAX_CPU - 1], &[CpuSet::MAX_CPU], &[usize::MAX]] {
            assert_eq!(pin_to_cpus(cpus).unwrap_err().raw_os_error(), Some(libc::EINVAL), "{cpus:?}");
        }
    }
}
