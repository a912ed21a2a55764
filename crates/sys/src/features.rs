//! Checks which optional system calls are available. The server can do without them: old kernels do not
//! know them, and sandboxes refuse them.

use std::io;

use crate::{file, residency, stacks, tcp_info};

/// An optional system call, or an option of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// openat2(2), Linux 5.6.
    Openat2,
    /// `RESOLVE_CACHED` of openat2(2), Linux 5.12.
    ResolveCached,
    /// `RWF_NOWAIT` of `preadv2(2)`, Linux 4.14.
    ReadNowait,
    /// `TCP_INFO` of a listener, tcp(7).
    TcpInfo,
    /// `MADV_GUARD_INSTALL` of madvise(2), Linux 6.13.
    GuardInstall,
}

impl Feature {
    /// All features.
    pub const ALL: [Self; 5] =
        [Self::Openat2, Self::ResolveCached, Self::ReadNowait, Self::TcpInfo, Self::GuardInstall];

    /// The name used in the kernel's documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Openat2 => "openat2(2)",
            Self::ResolveCached => "RESOLVE_CACHED of openat2(2)",
            Self::ReadNowait => "RWF_NOWAIT of preadv2(2)",
            Self::TcpInfo => "TCP_INFO of a listening socket",
            Self::GuardInstall => "MADV_GUARD_INSTALL of madvise(2)",
        }
    }

    /// Tries the feature. The result does not depend on the privileges, files or network of this process.
    ///
    /// # Errors
    ///
    /// The feature is not available, with the reason.
    pub fn probe(self) -> io::Result<()> {
        match self {
            Self::Openat2 => file::probe_openat2(),
            Self::ResolveCached => file::probe_resolve_cached(),
            Self::ReadNowait => {
                let Ok(probe) = file::in_memory("probe") else { return Ok(()) };
                match residency::read_now(probe, &mut [0], 0) {
                    // The call works. Where this file is, the kernel may not support the check, but file
                    // systems may.
                    Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::OPNOTSUPP) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            }
            Self::TcpInfo => {
                let local = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0));
                // Without such an address, the server listens on others.
                local.map_or(Ok(()), |listener| tcp_info::accept_queue(listener).map(drop))
            }
            Self::GuardInstall => stacks::probe_marks(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// An environment variable: the program must remove its own file first.
    const GOES: &str = "SYS_TEST_GOES";

    #[test]
    fn all_are_there_on_the_machines_that_test() {
        if std::env::var_os(GOES).is_some() {
            std::fs::remove_file(std::env::current_exe().unwrap()).unwrap();
        }
        // The kernels of some of them are older.
        for feature in Feature::ALL.into_iter().filter(|feature| *feature != Feature::GuardInstall) {
            let probed = feature.probe();
            assert!(probed.is_ok(), "{}: {probed:?}", feature.name());
        }
    }

    /// A user may run a program that it cannot read.
    #[test]
    fn the_programs_own_file_is_not_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let mut command = Command::new(program);
        command.args(["--exact", "features::tests::all_are_there_on_the_machines_that_test"]);
        let output = command.env(GOES, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(output.stdout.windows(8).any(|text| text == b"1 passed"));
    }
}
