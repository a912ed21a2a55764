//! Which of the system calls that the server can do without are to be had: old kernels do not know them, and
//! sandboxes refuse them.

use std::io;

use crate::{file, residency, tcp_info};

/// A call, or an option of one, that need not be there.
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
}

impl Feature {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Openat2, Self::ResolveCached, Self::ReadNowait, Self::TcpInfo];

    /// The name by which people find it in documents of the kernel.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Openat2 => "openat2(2)",
            Self::ResolveCached => "RESOLVE_CACHED of openat2(2)",
            Self::ReadNowait => "RWF_NOWAIT of preadv2(2)",
            Self::TcpInfo => "TCP_INFO of a listening socket",
        }
    }

    /// Tries it, on nothing that the privileges, the files or the network of this process decide about.
    ///
    /// # Errors
    ///
    /// It is not to be had; why.
    pub fn probe(self) -> io::Result<()> {
        match self {
            Self::Openat2 => file::probe_openat2(),
            Self::ResolveCached => file::probe_resolve_cached(),
            Self::ReadNowait => {
                let Ok(probe) = file::in_memory("probe") else { return Ok(()) };
                match residency::read_now(probe, &mut [0], 0) {
                    // As before; where the file lies can't tell, file systems may.
                    Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::OPNOTSUPP) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            }
            Self::TcpInfo => {
                let local = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0));
                // Where there is no such address, others are listened at.
                local.map_or(Ok(()), |listener| tcp_info::accept_queue(listener).map(drop))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// In the environment: the program is to take itself away first.
    const GOES: &str = "SYS_TEST_GOES";

    #[test]
    fn all_are_there_on_the_machines_that_test() {
        if std::env::var_os(GOES).is_some() {
            std::fs::remove_file(std::env::current_exe().unwrap()).unwrap();
        }
        for feature in Feature::ALL {
            let probed = feature.probe();
            assert!(probed.is_ok(), "{}: {probed:?}", feature.name());
        }
    }

    /// A user may run what it can't read.
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
