//! A fresh Debian that has booted: its files are unpacked from an archive that `scripts/test-packages` makes,
//! and systemd is its process 1. Its network has nothing but loopback, and what apt installs there is in its
//! cache.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use harness::server::children;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long systemd may take to start, or to stop, everything.
const BOOT: Duration = Duration::from_mins(2);

pub(crate) struct Debian {
    /// Its root, and what it prints while it boots.
    scratch: TempDir,
    /// `systemd-nspawn`, while it runs.
    nspawn: Option<Child>,
}

impl Debian {
    /// Unpacks the archive into a directory that goes with this Debian.
    pub(crate) fn unpacked(archive: &Path) -> Self {
        let this = Self { scratch: harness::scratch::on_disk(), nspawn: None };
        fs::create_dir(this.root()).expect("a directory");
        let mut tar = Command::new("tar");
        tar.arg("--extract").arg("--file").arg(archive).arg("--directory").arg(this.root());
        assert!(tar.status().expect("tar").success(), "cannot unpack {}", archive.display());
        this
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.scratch.path().join("debian")
    }

    /// Starts systemd, and returns when it has started everything.
    pub(crate) fn boot(&mut self) {
        let log = self.scratch.path().join("console");
        let console = File::create(&log).expect("a file");
        let mut nspawn = Command::new("systemd-nspawn");
        nspawn.args(["--quiet", "--boot", "--register=no", "--keep-unit", "--private-network"]);
        nspawn
            .args(["--console=pipe", "--resolv-conf=off", "--timezone=off", "--directory"])
            .arg(self.root());
        nspawn.stdin(Stdio::null()).stdout(console.try_clone().expect("a file")).stderr(console);
        self.nspawn = Some(nspawn.spawn().expect("systemd-nspawn"));
        let began = Instant::now();
        loop {
            let output = self.leader().map(|_| self.types("systemctl is-system-running"));
            let state = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
            // Some units can't start in a container. Those of the packages are looked at by the test.
            if matches!(state.as_deref(), Some("running" | "degraded")) {
                return;
            }
            let console = || fs::read_to_string(&log).unwrap_or_default();
            assert!(began.elapsed() < BOOT, "it is {state:?}: {}", console());
            harness::sleep_ms(200);
        }
    }

    /// The process id of systemd, seen from outside.
    pub(crate) fn leader(&self) -> Option<u32> {
        children(self.nspawn.as_ref()?.id()).into_iter().find(|&pid| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "systemd")
        })
    }

    /// A command that runs in this Debian's network, with the programs of the machine.
    pub(crate) fn beside(&self, program: impl AsRef<OsStr>) -> Command {
        let leader = self.leader().expect("it has booted");
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={leader}")).arg("--net").arg(program);
        command
    }

    /// Types a command as root, in `/root`.
    pub(crate) fn types(&self, command: &str) -> Output {
        let leader = self.leader().expect("it has booted");
        let mut shell = Command::new("nsenter");
        shell.arg(format!("--target={leader}")).args(["--all", "--wdns=/root", "bash", "-c", command]);
        shell.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LANG", "C.UTF-8");
        shell.env("DEBIAN_FRONTEND", "noninteractive").env("HOME", "/root");
        shell.stdin(Stdio::null()).output().expect("nsenter")
    }

    /// Types a command that must succeed, and returns what it printed.
    #[track_caller]
    pub(crate) fn said(&self, command: &str) -> String {
        let output = self.types(command);
        let said = String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{command}: {}\n{said}", output.status);
        said
    }

    /// Stops everything, as before a machine is switched off.
    pub(crate) fn shut_down(&mut self) {
        if let Some(leader) = self.leader() {
            let _ = self.types("systemctl poweroff");
            let began = Instant::now();
            while self.leader() == Some(leader) && began.elapsed() < BOOT {
                harness::sleep_ms(100);
            }
        }
        if let Some(mut nspawn) = self.nspawn.take() {
            if matches!(nspawn.try_wait(), Ok(None)) {
                harness::sleep_ms(500);
                let _ = kill_process(Pid::from_child(&nspawn), Signal::TERM);
            }
            let _ = nspawn.wait();
        }
    }
}

impl Drop for Debian {
    fn drop(&mut self) {
        self.shut_down();
    }
}
