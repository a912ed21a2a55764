//! What a process may use and who it is: descriptor limit, CPUs, user and group; and the processes that it
//! forks.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How many descriptors the process may have open (`RLIMIT_NOFILE`, getrlimit(2)); `u64::MAX` where there is
/// no limit.
pub fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the soft limit of open descriptors to the hard one (`RLIMIT_NOFILE`, setrlimit(2)), and gives it.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    }
    Ok(descriptor_limit())
}

/// Whether an error says that there is no such process (`ESRCH`), as files of `/proc/PID` do when it ends
/// while they are read.
pub fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

/// Lowers the soft limit of open descriptors (`RLIMIT_NOFILE`, setrlimit(2)); one that is lower stays.
pub fn lower_descriptor_limit(most: u64) -> io::Result<()> {
    if descriptor_limit() > most {
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum })?;
    }
    Ok(())
}

/// Lets the calling thread run on these CPUs only; threads and processes that it starts inherit that.
/// `sched_setaffinity(2)`; `EINVAL` where there is no such CPU or none is given.
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

/// How long after its time a sleep of the calling thread may end, so that the kernel can wake several at
/// once; 50 us is usual. prctl(2), `PR_SET_TIMERSLACK`.
pub fn set_timer_slack_ns(slack_ns: u32) -> io::Result<()> {
    // SAFETY: this option takes a number; 0 would mean the usual, so 1 is the least.
    check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, libc::c_ulong::from(slack_ns.max(1))) })
}

/// Has the calling thread run before all others of its core that are not of this kind, as soon as there is
/// something for it to do (`SCHED_FIFO`, the lowest priority of it; sched(7)). What it starts is not of this
/// kind. A thread that never sleeps keeps others off its core, but for the 5% that
/// `kernel.sched_rt_runtime_us` leaves them.
///
/// # Errors
///
/// Needs `CAP_SYS_NICE`, or an `RLIMIT_RTPRIO` above 0.
pub fn run_in_real_time() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is the calling thread, and the parameter lives through the call.
    check(unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) })
}

/// CPU time that the calling thread has used so far, in user and in kernel mode. getrusage(2),
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

/// Gives up root for good: takes on the user `user`, its supplementary groups, and `group` (its login group
/// if `None`), in all threads of the process.
///
/// See initgroups(3), setresgid(2), setresuid(2), getpwnam(3), getgrnam(3).
///
/// # Errors
///
/// `NotFound` where there is no such user or group, `InvalidInput` where the user is root itself, the
/// kernel's error (`EPERM` in a process that is not root's). After an error the process may have lost some of
/// its rights and should end.
pub fn drop_privileges(user: &str, group: Option<&str>) -> io::Result<()> {
    let name = CString::new(user)?;
    let (uid, gid) = identity(user, group)?;
    if uid == 0 {
        return Err(invalid(format!("user `{user}` is root")));
    }
    // The groups first: without root they cannot be changed any more.
    // SAFETY: the name is a string with its final zero; these calls touch no other memory.
    unsafe {
        check(libc::initgroups(name.as_ptr(), gid))?;
        check(libc::setresgid(gid, gid, gid))?;
        check(libc::setresuid(uid, uid, uid))?;
    }
    // SAFETY: takes numbers only.
    if unsafe { libc::setresuid(0, 0, 0) } == 0 {
        return Err(io::Error::other("root could be regained after giving it up"));
    }
    Ok(())
}

/// The numbers of who [`drop_privileges`] makes of a process: user and group. getpwnam(3), getgrnam(3).
///
/// # Errors
///
/// `NotFound` where there is no such user or group.
pub fn identity(user: &str, group: Option<&str>) -> io::Result<(u32, u32)> {
    let account = find_user(&CString::new(user)?)?;
    Ok((account.uid, group.map_or(Ok(account.gid), group_id)?))
}

/// Whether this process is root's. geteuid(2).
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The number of a user, by name. getpwnam(3).
///
/// # Errors
///
/// `NotFound` where there is no such user.
pub fn user_id(name: &str) -> io::Result<u32> {
    Ok(find_user(&CString::new(name)?)?.uid)
}

/// The number of a group, by name. getgrnam(3).
///
/// # Errors
///
/// `NotFound` where there is no such group.
pub fn group_id(name: &str) -> io::Result<u32> {
    find_group(&CString::new(name)?)
}

/// Whether this process is what [`drop_privileges`] makes of one. getresuid(2), getresgid(2).
///
/// # Errors
///
/// `NotFound` where there is no such user or group.
pub fn runs_as(user: &str, group: Option<&str>) -> io::Result<bool> {
    let (uid, gid) = identity(user, group)?;
    let (mut user_ids, mut group_ids) = ([0; 3], [0; 3]);
    let ([real, effective, saved], [real_group, effective_group, saved_group]) =
        (user_ids.each_mut(), group_ids.each_mut());
    // SAFETY: six places for an id each, which live through the calls.
    unsafe {
        check(libc::getresuid(real, effective, saved))?;
        check(libc::getresgid(real_group, effective_group, saved_group))?;
    }
    Ok(user_ids == [uid; 3] && group_ids == [gid; 3])
}

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

/// The same, but for the descriptors, which parent and child have in common from here on: what one opens or
/// closes, it opens or closes for both. clone(2) with `CLONE_FILES`.
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

/// The file that this process runs, by the name that it was executed by. It is absolute where the kernel
/// tells it by `/proc`; otherwise as far as the current directory is still the one of the start.
/// getauxval(3), `AT_EXECFN`.
///
/// # Errors
///
/// There is no current directory.
pub fn program() -> io::Result<PathBuf> {
    std::env::current_exe().or_else(|_| {
        let name = OsStr::from_bytes(rustix::param::linux_execfn().to_bytes());
        std::path::absolute(name)
    })
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
pub fn send(child: u32, signal: crate::signal::Signal) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::kill(child as libc::pid_t, signal.number()) })
}

/// Has this process go on as another program, with these arguments (the first is its name) and these
/// variables. Blocked signals stay blocked, so that none is lost meanwhile. execve(2).
///
/// Gives the error if that fails; otherwise it does not return.
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
    // SAFETY: a text and two lists of texts, each list ended by a null, that live through the call.
    unsafe { libc::execve(program.as_ptr(), argument_pointers.as_ptr(), variable_pointers.as_ptr()) };
    io::Error::last_os_error()
}

/// Has the kernel send a signal to this process when its parent ends. prctl(2), `PR_SET_PDEATHSIG`.
///
/// A parent that has ended already is not noticed: compare [`parent`] with what it was.
pub fn signal_at_end_of_parent(signal: crate::signal::Signal) -> io::Result<()> {
    // SAFETY: this option takes a number.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal.number()) })
}

/// Has no program that this process or its children execute from now on have more privileges than it has
/// itself: set-user-ID bits and file capabilities count for nothing. It can't be taken back. prctl(2),
/// `PR_SET_NO_NEW_PRIVS`.
pub fn forgo_new_privileges() -> io::Result<()> {
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Names this thread, and the process if it is its first, for lists of processes (`ps`, `top`, `pgrep`). The
/// kernel keeps 15 bytes. prctl(2), `PR_SET_NAME`.
pub fn set_name(name: &str) {
    let name = CString::new(name.replace('\0', " ")).unwrap_or_default();
    // There is no name that it refuses.
    let _ = rustix::thread::set_name(&name);
}

/// Whether this process is one of those to whom the user of a terminal speaks, and not in the background. It
/// is not if the terminal has been closed, or belongs to another session. tcgetpgrp(3), credentials(7).
pub fn is_in_foreground(terminal: impl AsFd) -> bool {
    rustix::termios::tcgetpgrp(terminal).is_ok_and(|foreground| foreground == rustix::process::getpgrp())
}

/// The id of the parent. getppid(2).
pub fn parent() -> u32 {
    std::os::unix::process::parent_id()
}

#[derive(Debug)]
struct Account {
    uid: libc::uid_t,
    gid: libc::gid_t,
}

fn find_user(name: &CStr) -> io::Result<Account> {
    let account = with_growing_buffer(|buffer| {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found = ptr::null_mut();
        // SAFETY: all pointers are valid for the call, the length is the buffer's.
        let code = unsafe {
            libc::getpwnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr(),
                buffer.len(),
                &raw mut found,
            )
        };
        // SAFETY: a pointer that is not null points to `entry`, which the call has filled in.
        (code, unsafe { found.as_ref() }.map(|entry| Account { uid: entry.pw_uid, gid: entry.pw_gid }))
    })?;
    account.ok_or_else(|| not_found("user", name))
}

fn find_group(name: &CStr) -> io::Result<libc::gid_t> {
    let group = with_growing_buffer(|buffer| {
        let mut entry = MaybeUninit::<libc::group>::uninit();
        let mut found = ptr::null_mut();
        // SAFETY: all pointers are valid for the call, the length is the buffer's.
        let code = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr(),
                buffer.len(),
                &raw mut found,
            )
        };
        // SAFETY: a pointer that is not null points to `entry`, which the call has filled in.
        (code, unsafe { found.as_ref() }.map(|entry| entry.gr_gid))
    })?;
    group.ok_or_else(|| not_found("group", name))
}

/// Calls `look_up` with more and more room for an entry's strings while it says that there is too little
/// (`ERANGE`).
fn with_growing_buffer<T>(
    mut look_up: impl FnMut(&mut [libc::c_char]) -> (libc::c_int, Option<T>),
) -> io::Result<Option<T>> {
    const LONGEST: usize = 1 << 20;
    let mut buffer = vec![0; 1_024];
    loop {
        match look_up(&mut buffer) {
            (0, found) => return Ok(found),
            (libc::ERANGE, _) if buffer.len() < LONGEST => buffer.resize(buffer.len() * 4, 0),
            (libc::EINTR, _) => {}
            // getpwnam(3) lists these as ways to say that there is no such entry.
            (libc::ENOENT | libc::ESRCH, _) => return Ok(None),
            (code, _) => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

fn not_found(what: &str, name: &CStr) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no {what} `{}`", name.to_string_lossy()))
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use rustix::process::{getegid, geteuid, getgroups, getuid};

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
    fn tells_how_children_end() {
        own_process::run("process::tests::tells_how_children_end", || {
            // libtest's own threads are in the way of a fork.
            assert_eq!(fork(|| 0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
            assert_eq!(any_ended().unwrap(), None);
            assert_eq!(ended(1).unwrap_err().raw_os_error(), Some(libc::ECHILD));
        });
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

    #[test]
    fn gives_up_root_in_all_threads() {
        own_process::run("process::tests::gives_up_root_in_all_threads", || {
            let account = find_user(c"nobody").unwrap();
            if !getuid().is_root() {
                let error = drop_privileges("nobody", None).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                return;
            }
            let (dropped, wait) = std::sync::mpsc::channel();
            let other = std::thread::spawn(move || {
                wait.recv().unwrap();
                (geteuid().as_raw(), getegid().as_raw())
            });
            assert!(!runs_as("nobody", Some("daemon")).unwrap());
            drop_privileges("nobody", Some("daemon")).unwrap();
            assert!(runs_as("nobody", Some("daemon")).unwrap() && !runs_as("nobody", None).unwrap());
            assert_eq!(runs_as("no-such-user", None).unwrap_err().kind(), io::ErrorKind::NotFound);
            let daemon = find_group(c"daemon").unwrap();
            dropped.send(()).unwrap();
            assert_eq!(other.join().unwrap(), (account.uid, daemon));
            assert_eq!((geteuid().as_raw(), getegid().as_raw()), (account.uid, daemon));
            assert!(
                getgroups().unwrap().iter().all(|group| group.as_raw() != 0),
                "no group of root's is kept"
            );
            assert!(drop_privileges("daemon", None).is_err(), "there is no way to another user");
        });
    }

    #[test]
    fn takes_the_login_group_unless_told() {
        own_process::run("process::tests::takes_the_login_group_unless_told", || {
            if getuid().is_root() {
                drop_privileges("nobody", None).unwrap();
                assert_eq!(getegid().as_raw(), find_user(c"nobody").unwrap().gid);
            }
        });
    }

    #[test]
    fn says_which_user_or_group_is_wrong() {
        let no_user = drop_privileges("no-such-user", None).unwrap_err();
        assert_eq!(no_user.kind(), io::ErrorKind::NotFound);
        assert_eq!(no_user.to_string(), "there is no user `no-such-user`");
        let no_group = drop_privileges("nobody", Some("no-such-group")).unwrap_err();
        assert_eq!(no_group.to_string(), "there is no group `no-such-group`");
        assert_eq!(drop_privileges("root", None).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(drop_privileges("a\0b", None).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
