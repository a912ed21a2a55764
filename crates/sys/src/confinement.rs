//! Confines a process to a few system calls.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// The system calls that a process needs that reads files, works in memory, and answers over descriptors
/// that it has.
const READING: &[i64] = &[
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_openat,
    libc::SYS_close,
    // To open a log again.
    libc::SYS_dup3,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_newfstatat,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_lseek,
    libc::SYS_fcntl,
    libc::SYS_ppoll,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // As the C library of x86-64 still calls them.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];

/// Leaves this thread and its children only what reading files takes: they can open files, and use
/// descriptors that they have. They can make no socket, run no program, and change neither files nor
/// privileges. A forbidden system call fails with `EPERM`. It cannot be undone. seccomp(2).
///
/// Opening may still create or change files, where the permissions of the process allow it.
///
/// # Errors
///
/// The kernel has no filters of system calls, or this machine is of another kind.
pub fn leave_only_reading() -> io::Result<()> {
    let wrong = |error: seccompiler::BackendError| io::Error::other(error.to_string());
    let machine = TargetArch::try_from(std::env::consts::ARCH).map_err(wrong)?;
    let rules: BTreeMap<i64, Vec<_>> = READING.iter().map(|&call| (call, Vec::new())).collect();
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, machine).map_err(wrong)?;
    let program: BpfProgram = filter.try_into().map_err(wrong)?;
    seccompiler::apply_filter(&program).map_err(|error| io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_only_reads_reads() {
        std::thread::spawn(|| {
            // The filter needs this, or root.
            crate::process::forgo_new_privileges().unwrap();
            leave_only_reading().unwrap();
            assert!(!std::fs::read("/proc/self/status").unwrap().is_empty());
            let refused = std::net::UdpSocket::bind("127.0.0.1:0").unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
            let refused = std::process::Command::new("/bin/true").status().unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
            assert!(std::fs::remove_file("/tmp/there is no such file").is_err());
        })
        .join()
        .unwrap();
    }
}
