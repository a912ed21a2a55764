//! Processes that this one forks: how they begin, how they ended, and being rid of them.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use super::{check, invalid};
use crate::signal::Signal;

/// Runs `child` in a child process, which ends with the exit code that it returns (101 after a panic), and
/// gives the child's id. fork(2).
///
/// The child goes on with a copy of everything. Destructors of what the caller holds don't run in it, but for
/// what is moved into `child`.
///
/// # Errors
///
/// `WouldBlock` where there may be no more processes; `InvalidInput` in a process with several threads: the
/// others would not be there in the child, but the locks that they hold would.
pub fn fork(child: impl FnOnce() -> u8) -> io::Result<u32> {
    check_single_threaded()?;
    // SAFETY: the only thread makes the call, so that the child finds no lock held by anybody and no data
    // half changed.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => be_child(child),
        pid => Ok(pid as u32),
    }
}

/// Runs `child` in a child process, as [`fork`] does, but with the descriptors of the parent: what one of
/// them opens or closes from here on, it opens or closes for both. clone(2) with `CLONE_FILES`.
///
/// So nothing may be closed in the child that is still of use elsewhere, be it by dropping it. A panic ends
/// the child without unwinding, as destructors would close what the others go on using.
///
/// # Errors
///
/// As for [`fork`].
pub fn fork_sharing_descriptors(child: impl FnOnce() -> u8) -> io::Result<u32> {
    check_single_threaded()?;
    // Where the C library keeps this thread's id. fork(3) has the kernel write the child's there, and so does
    // this.
    let id = id_of_thread();
    let settid = if id.is_null() { 0 } else { libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID };
    let flags = libc::c_ulong::from((libc::CLONE_FILES | libc::SIGCHLD | settid).cast_unsigned());
    let none = ptr::null_mut::<libc::c_void>();
    // SAFETY: as for `fork`: with one thread, nobody holds a lock or changes data, and the child goes on with
    // a copy of this stack. What fork(3) does beyond the call is not missed: handlers of pthread_atfork(3)
    // (nobody in this project has any), the locks of malloc and stdio (free, as there is one thread), the
    // thread's id (above), and the robust list (which `be_child` forgets, so that it is registered anew).
    // Architectures differ in the order of the last two arguments; the one that is not the child's id is not
    // looked at without CLONE_SETTLS.
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
/// `/proc` is not mounted, and whoever confines this process does not let the kernel be asked in another way.
pub(crate) fn is_single_threaded() -> io::Result<bool> {
    match std::fs::read_dir("/proc/self/task") {
        Ok(threads) => Ok(threads.count() == 1),
        Err(error) if error.kind() == io::ErrorKind::NotFound => is_alone_in_its_group(),
        Err(error) => Err(error),
    }
}

/// A thread that has others beside it can't leave their group, and for one that has none that is no change,
/// unshare(2).
fn is_alone_in_its_group() -> io::Result<bool> {
    // SAFETY: takes a number only, and changes nothing whatever comes of it.
    match check(unsafe { libc::unshare(libc::CLONE_THREAD) }) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("/proc is not mounted, and the kernel does not tell of threads otherwise: {error}"),
        )),
    }
}

fn be_child(child: impl FnOnce() -> u8) -> ! {
    crate::lock::forget_parent();
    // Unwinding must not get past this frame, where the parent's code begins.
    let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(PANICKED);
    // SAFETY: ends the process at once, without the parent's destructors and exit handlers.
    unsafe { libc::_exit(code.into()) }
}

/// Where the kernel clears the id of this thread at its end, which is where the C library keeps it. Null
/// where the kernel does not tell (without `CONFIG_CHECKPOINT_RESTORE`). prctl(2), `PR_GET_TID_ADDRESS`.
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
    /// By itself, with this exit code.
    Code(i32),
    /// By a signal with this number, signal(7).
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

/// How a child has ended, if it has. It is told again and again until it is [`reap`]ed. waitid(2), with
/// `WNOWAIT`.
///
/// # Errors
///
/// `ECHILD`: this process has no such child, or has reaped it.
pub fn ended(child: u32) -> io::Result<Option<Ended>> {
    Ok(look_for_ended(libc::P_PID, child)?.map(|(_, how)| how))
}

/// One of all the children that have ended and not been [`reap`]ed, the same again and again. It may be one
/// that this process has not forked, as orphans become children of a container's first process. waitid(2),
/// with `WNOWAIT`.
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
    // SAFETY: it was all zeros, which is a value of this type, and the kernel has written nothing else. These
    // fields are those of a child's end, or zeros if none has ended.
    let (pid, code, status) = unsafe {
        let information = information.assume_init();
        (information.si_pid(), information.si_code, information.si_status())
    };
    let how = if code == libc::CLD_EXITED { Ended::Code(status) } else { Ended::Signal(status) };
    Ok((pid != 0).then_some((pid as u32, how)))
}

/// Lets a child that has [`ended`] go; false if it has not. The kernel can take seconds for it while somebody
/// looks at the child's files in `/proc`. waitpid(2).
///
/// # Errors
///
/// As for [`ended`].
pub fn reap(child: u32) -> io::Result<bool> {
    // SAFETY: a null pointer says that the status is not wanted.
    let reaped = unsafe { libc::waitpid(child as libc::pid_t, ptr::null_mut(), libc::WNOHANG) };
    // It gives the child's id.
    check(reaped.min(0))?;
    Ok(reaped != 0)
}

/// Ends a child for good, `SIGKILL`. One that has ended and not been [`reap`]ed yet takes no harm. kill(2).
pub fn kill(child: u32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::kill(child as libc::pid_t, libc::SIGKILL) })
}

/// Sends a signal to a child. One that has ended and not been [`reap`]ed yet takes no notice. kill(2).
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
            // libtest's own threads are in the way of a fork.
            assert_eq!(fork(|| 0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
            assert_eq!(any_ended().unwrap(), None);
            assert_eq!(ended(1).unwrap_err().raw_os_error(), Some(libc::ECHILD));
        });
    }
}
