//! Child processes: forking them, learning how they ended, and reaping them.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use super::{check, invalid};
use crate::signal::Signal;

/// Runs `child` in a child process, and returns the child's id. The child exits with the code that
/// `child` returns (101 after a panic). fork(2).
///
/// The child continues with a copy of everything. Destructors of the caller's values do not run in it,
/// except for values moved into `child`.
///
/// # Errors
///
/// `WouldBlock` if no more processes are allowed; `InvalidInput` in a process with several threads: the
/// child would not have the other threads, but it would have the locks that they hold.
pub fn fork(child: impl FnOnce() -> u8) -> io::Result<u32> {
    check_single_threaded()?;
    // SAFETY: the only thread makes the call, so the child finds no lock held and no data half changed.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => be_child(child),
        pid => Ok(pid as u32),
    }
}

/// Runs `child` in a child process, as [`fork`] does, but with the parent's descriptor table: what either
/// process opens or closes from then on, it opens or closes for both. clone(2) with `CLONE_FILES`.
///
/// So the child must not close anything that is still used elsewhere, not even by dropping it. A panic
/// ends the child without unwinding, because destructors would close descriptors that the other processes
/// continue to use.
///
/// # Errors
///
/// As for [`fork`].
pub fn fork_sharing_descriptors(child: impl FnOnce() -> u8) -> io::Result<u32> {
    check_single_threaded()?;
    // The address where the C library keeps this thread's id. With fork(3), the kernel writes the child's
    // id there, and this call does the same.
    let id = id_of_thread();
    let settid = if id.is_null() { 0 } else { libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID };
    let flags = libc::c_ulong::from((libc::CLONE_FILES | libc::SIGCHLD | settid).cast_unsigned());
    let none = ptr::null_mut::<libc::c_void>();
    // SAFETY: as for `fork`: with one thread, no lock is held and no data is being changed, and the child
    // continues with a copy of this stack. fork(3) does more than the call, but none of that is needed:
    // handlers of pthread_atfork(3) (this project has none), the locks of malloc and stdio (free, because
    // there is one thread), the thread's id (above), and the robust list (which `be_child` forgets, so
    // that it is registered again). Architectures differ in the order of the last two arguments; the
    // kernel ignores the one that is not the child's id without CLONE_SETTLS.
    match unsafe { libc::syscall(libc::SYS_clone, flags, none, none, id, id) } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let report = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                report(panic);
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(PANICKED.into()) }
            }));
            be_child(child)
        }
        pid => Ok(pid as u32),
    }
}

/// The exit code of a child that panicked.
const PANICKED: u8 = 101;

fn check_single_threaded() -> io::Result<()> {
    if !is_single_threaded()? {
        return Err(invalid("a process with several threads can't be forked".to_owned()));
    }
    Ok(())
}

/// Whether this process has a single thread.
///
/// # Errors
///
/// `/proc` is not mounted, and a sandbox does not allow the other way to ask the kernel.
pub(crate) fn is_single_threaded() -> io::Result<bool> {
    match std::fs::read_dir("/proc/self/task") {
        Ok(threads) => Ok(threads.count() == 1),
        Err(error) if error.kind() == io::ErrorKind::NotFound => is_alone_in_its_group(),
        Err(error) => Err(error),
    }
}

/// A thread cannot leave its thread group if there are other threads. For a single thread, that call
/// changes nothing, unshare(2).
fn is_alone_in_its_group() -> io::Result<bool> {
    // SAFETY: takes a number only, and changes nothing whatever its result.
    match check(unsafe { libc::unshare(libc::CLONE_THREAD) }) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("/proc is not mounted, and the kernel does not report threads otherwise: {error}"),
        )),
    }
}

fn be_child(child: impl FnOnce() -> u8) -> ! {
    crate::lock::forget_parent();
    // A panic must not unwind past this frame, because the parent's code begins there.
    let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(PANICKED);
    // SAFETY: ends the process at once, without the parent's destructors and exit handlers.
    unsafe { libc::_exit(code.into()) }
}

/// The address where the kernel clears this thread's id at its end, and where the C library keeps the id.
/// Null if the kernel does not provide it (without `CONFIG_CHECKPOINT_RESTORE`). prctl(2),
/// `PR_GET_TID_ADDRESS`.
fn id_of_thread() -> *mut libc::c_int {
    let mut address = ptr::null_mut();
    // SAFETY: the kernel writes one pointer to where `address` is.
    match unsafe { libc::prctl(libc::PR_GET_TID_ADDRESS, &raw mut address) } {
        0 => address,
        _ => ptr::null_mut(),
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this code.
    Code(i32),
    /// A signal with this number ended it, signal(7).
    Signal(i32),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(formatter, "exit code {code}"),
            Self::Signal(number) => write!(formatter, "signal {number}"),
        }
    }
}

/// How a child ended, if it has. This keeps returning the same result until the child is [`reap`]ed.
/// waitid(2), with `WNOWAIT`.
///
/// # Errors
///
/// `ECHILD`: this process has no such child, or has reaped it.
pub fn ended(child: u32) -> io::Result<Option<Ended>> {
    Ok(look_for_ended(libc::P_PID, child)?.map(|(_, how)| how))
}

/// One of the children that have ended and not been [`reap`]ed. It keeps returning the same one. This
/// process may not have forked it, because orphans become children of a container's first process.
/// waitid(2), with `WNOWAIT`.
pub fn any_ended() -> io::Result<Option<u32>> {
    match look_for_ended(libc::P_ALL, 0) {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        ended => Ok(ended?.map(|(pid, _)| pid)),
    }
}

fn look_for_ended(kind: libc::idtype_t, child: u32) -> io::Result<Option<(u32, Ended)>> {
    let mut information = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the pointer is valid for the call.
    check(unsafe { libc::waitid(kind, child, information.as_mut_ptr(), options) })?;
    // SAFETY: it was all zeros, which is a value of this type, and only the kernel has written to it.
    // These fields are those of a child's end, or zeros if none has ended.
    let (pid, code, status) = unsafe {
        let information = information.assume_init();
        (information.si_pid(), information.si_code, information.si_status())
    };
    let how = if code == libc::CLD_EXITED { Ended::Code(status) } else { Ended::Signal(status) };
    Ok((pid != 0).then_some((pid as u32, how)))
}

/// Reaps a child that has [`ended`]. Returns false if it has not. The kernel can take seconds for this
/// while another process reads the child's files in `/proc`. waitpid(2).
///
/// # Errors
///
/// As for [`ended`].
pub fn reap(child: u32) -> io::Result<bool> {
    // SAFETY: a null pointer means that the status is not wanted.
    let reaped = unsafe { libc::waitpid(child as libc::pid_t, ptr::null_mut(), libc::WNOHANG) };
    // The call returns the child's id.
    check(reaped.min(0))?;
    Ok(reaped != 0)
}

/// Kills a child with `SIGKILL`. This does nothing to a child that has ended and not been [`reap`]ed yet.
/// kill(2).
pub fn kill(child: u32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::kill(child as libc::pid_t, libc::SIGKILL) })
}

/// Sends a signal to a child. This does nothing to a child that has ended and not been [`reap`]ed yet.
/// kill(2).
pub fn send(child: u32, signal: Signal) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::kill(child as libc::pid_t, signal.number()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_process;

    #[test]
    fn a_thread_knows_of_others_without_proc() {
        let other = std::thread::spawn(std::thread::park);
        // Containers that forbid the call have /proc.
        assert!(!is_alone_in_its_group().unwrap_or(false));
        assert!(!is_single_threaded().unwrap());
        other.thread().unpark();
        other.join().unwrap();
    }

    #[test]
    fn tells_how_children_end() {
        own_process::run("process::children::tests::tells_how_children_end", || {
            // libtest's own threads prevent a fork.
            assert_eq!(fork(|| 0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
            assert_eq!(any_ended().unwrap(), None);
            assert_eq!(ended(1).unwrap_err().raw_os_error(), Some(libc::ECHILD));
        });
    }
}
