//! What is logged ends nothing and keeps nobody waiting, whatever has become of the log: its disk is full, or nobody reads.

mod support;

use std::fs::{self, File, OpenOptions};
use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Pid, Signal, kill_process};
use support::client::{one, request};
use support::server::{Setup, children};
use support::site::HELLO;
use support::variant::{Test, Variant, tests};
use support::{eventually, namespace, sleep_ms};

const TESTS: &[Test] = tests![
    a_full_disk,
    standard_error_on_a_full_disk,
    a_pipe_that_nobody_reads,
    a_log_that_is_a_pipe_without_a_reader,
    a_log_whose_directory_is_gone,
    the_end_on_a_full_disk,
];

/// Every way in which processes share descriptors and have threads.
const VARIANTS: &[Variant] = &[
    Variant { name: "symped", options: &["--architecture=symped", "--workers=2"] },
    Variant { name: "shared_symped", options: &["--architecture=shared-symped", "--workers=2"] },
    Variant { name: "threads", options: &["--architecture=threads", "--workers=4"] },
];

fn main() -> ExitCode {
    if !namespace::enter() {
        return ExitCode::SUCCESS;
    }
    support::variant::run_for(VARIANTS, &[("logs", TESTS)])
}

/// A server that can't be heard, so that everything else has to be looked at.
struct Unheard {
    child: Child,
    address: SocketAddr,
    setup: Setup,
}

impl Unheard {
    fn start(setup: Setup, stderr: impl Into<Stdio>) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = free.local_addr().expect("an address");
        drop(free);
        let setup = setup.argument(format!("--listen={address}"));
        let child = setup.command().stdout(Stdio::null()).stderr(stderr).spawn().expect("sluice starts");
        let server = Self { child, address, setup };
        eventually("it listens", || TcpStream::connect(address).is_ok());
        server.serves();
        server
    }

    fn serves(&self) {
        assert_eq!(one(self.address, request("GET", "/hello.txt", &[])).text(), HELLO);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the server is there");
    }

    /// Has the supervisor log an error.
    fn complain(&self) {
        fs::write(self.setup.directory().join("sluice.toml"), "listing = 3").expect("a file");
        self.signal(Signal::HUP);
        sleep_ms(50);
    }

    /// Whether the supervisor still watches: all that it has forked is killed, and comes again.
    fn heals(&mut self) {
        let mut before = Vec::new();
        eventually("workers and the status process are there", || {
            before = children(self.child.id());
            before.len() > 1
        });
        for &pid in &before {
            let pid = Pid::from_raw(pid as i32).expect("a process");
            let _ = kill_process(pid, Signal::KILL);
        }
        eventually("workers are started again", || {
            assert_eq!(self.child.try_wait().expect("a child can be waited for"), None);
            let now = children(self.child.id());
            now.len() == before.len() && now.iter().all(|pid| !before.contains(pid))
        });
        self.serves();
    }

    fn end(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        let mut ended = None;
        eventually("the server has ended", || {
            ended = self.child.try_wait().expect("a child can be waited for");
            ended.is_some()
        });
        ended.expect("it has ended")
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file system that is easily filled.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(below: &Path) -> Self {
        let directory = below.join("disk");
        fs::create_dir(&directory).expect("a directory");
        let options = c"size=64k,mode=777";
        mount("tmpfs", &directory, "tmpfs", MountFlags::empty(), options).expect("root may mount");
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Until not another byte can be appended to these files.
    fn fill(&self, logs: &[&Path]) {
        let mut ballast = File::create(self.path("ballast")).expect("a file");
        while ballast.write(&[0; 4096]).is_ok() {}
        for log in logs {
            let mut log = appended(log);
            while log.write(b"x").is_ok() {}
        }
    }

    /// Makes room, and empties these files.
    fn clear(&self, logs: &[&Path]) {
        fs::remove_file(self.path("ballast")).expect("the ballast");
        for log in logs {
            File::create(log).expect("a file");
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

fn appended(path: &Path) -> File {
    OpenOptions::new().append(true).create(true).open(path).expect("a file")
}

/// What could not be written is counted, and told as soon as something can be.
#[track_caller]
fn tells_what_was_lost(text: &str) {
    assert!(text.contains("not reloaded"), "{text}");
    let lost = text.lines().find(|line| line.contains("messages lost")).unwrap_or_else(|| panic!("{text}"));
    assert!(lost.contains("WARN"), "{lost}");
}

fn a_full_disk(variant: &Variant) {
    let setup = Setup::new(variant);
    let disk = SmallDisk::mount(setup.directory());
    let [errors, access, stderr] = ["errors", "access", "stderr"].map(|name| disk.path(name));
    let setup = setup.argument(format!("--error-log={}", errors.display()));
    let setup = setup.argument(format!("--access-log={}", access.display()));
    let mut server = Unheard::start(setup, appended(&stderr));
    let logs = [&*errors, &*access, &*stderr];
    disk.fill(&logs);
    server.complain();
    server.complain();
    server.heals();
    disk.clear(&logs);
    server.complain();
    let mut text = String::new();
    eventually("there is room again", || {
        text = fs::read_to_string(&errors).expect("a log");
        text.contains("not reloaded")
    });
    tells_what_was_lost(&text);
    assert_eq!(server.end().code(), Some(0));
}

fn standard_error_on_a_full_disk(variant: &Variant) {
    let setup = Setup::new(variant);
    let disk = SmallDisk::mount(setup.directory());
    let stderr = disk.path("stderr");
    let mut server = Unheard::start(setup, appended(&stderr));
    disk.fill(&[&stderr]);
    server.complain();
    server.heals();
    disk.clear(&[&stderr]);
    server.complain();
    let mut text = String::new();
    eventually("there is room again", || {
        text = fs::read_to_string(&stderr).expect("a log");
        text.contains("not reloaded")
    });
    tells_what_was_lost(&text);
    assert_eq!(server.end().code(), Some(0));
}

/// What `main` has to say in the end may be lost, but not the exit code.
fn the_end_on_a_full_disk(variant: &Variant) {
    let setup = Setup::new(variant).config("listing = 3");
    let disk = SmallDisk::mount(setup.directory());
    let stderr = disk.path("stderr");
    disk.fill(&[&stderr]);
    for command in ["serve", "check"] {
        let usual = setup.command();
        let mut sluice = Command::new(usual.get_program());
        sluice.arg(command).args(usual.get_args().skip(1)).stdout(Stdio::null()).stderr(appended(&stderr));
        assert_eq!(sluice.status().expect("sluice runs").code(), Some(2), "{command}");
    }
}

/// Fills a pipe by an open file of the test's own, whose flags are nobody else's.
fn fill(writer: &PipeWriter) {
    let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let flags = OFlags::NONBLOCK.bits() as i32;
    let mut own = OpenOptions::new().write(true).custom_flags(flags).open(path).expect("a pipe");
    while own.write(&[b'x'; 4096]).is_ok() {}
    while own.write(b"x").is_ok() {}
}

/// What the pipe holds by now.
fn drain(reader: &PipeReader) -> String {
    let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
    let flags = OFlags::NONBLOCK.bits() as i32;
    let mut own = OpenOptions::new().read(true).custom_flags(flags).open(path).expect("a pipe");
    let mut bytes = Vec::new();
    // The end of what is there is an error.
    let _ = own.read_to_end(&mut bytes);
    String::from_utf8(bytes).expect("text")
}

fn a_pipe_that_nobody_reads(variant: &Variant) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let stderr = writer.try_clone().expect("a descriptor");
    let mut server = Unheard::start(Setup::new(variant), stderr);
    fill(&writer);
    server.complain();
    server.heals();
    server.complain();
    server.serves();
    let flags = fcntl_getfl(&writer).expect("flags");
    assert!(!flags.contains(OFlags::NONBLOCK), "the pipe's other writers would not expect that");
    drop(drain(&reader));
    server.complain();
    let mut text = String::new();
    eventually("it can be heard again", || {
        text.push_str(&drain(&reader));
        text.contains("not reloaded")
    });
    tells_what_was_lost(&text);
    fill(&writer);
    assert_eq!(server.end().code(), Some(0));
}

/// The log's reader has gone, and comes back only after the logs were to be opened anew.
fn a_log_that_is_a_pipe_without_a_reader(variant: &Variant) {
    let setup = Setup::new(variant);
    let pipe = setup.directory().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    let flags = OFlags::NONBLOCK.bits() as i32;
    let read = || OpenOptions::new().read(true).custom_flags(flags).open(&pipe).expect("a pipe");
    let reader = read();
    let setup = setup.argument(format!("--error-log={}", pipe.display()));
    let mut server = Unheard::start(setup, Stdio::null());
    drop(reader);
    server.complain();
    server.signal(Signal::USR1);
    server.heals();
    let mut reader = read();
    server.signal(Signal::USR1);
    server.complain();
    eventually("it can be heard again", || {
        let mut text = Vec::new();
        let _ = reader.read_to_end(&mut text);
        String::from_utf8_lossy(&text).contains("not reloaded")
    });
    assert_eq!(server.end().code(), Some(0));
}

/// A worker that takes the place of another finds no access log, and the supervisor no error log.
fn a_log_whose_directory_is_gone(variant: &Variant) {
    let setup = Setup::new(variant);
    let [gone, away] = ["gone", "away"].map(|name| setup.directory().join(name));
    fs::create_dir(&gone).expect("a directory");
    let setup = setup.argument(format!("--error-log={}", gone.join("errors").display()));
    let setup = setup.argument(format!("--access-log={}", gone.join("access").display()));
    let mut server = Unheard::start(setup, Stdio::null());
    fs::rename(&gone, &away).expect("it can be moved");
    server.signal(Signal::USR1);
    server.heals();
    let told = fs::read_to_string(away.join("errors")).expect("a log");
    assert!(
        told.contains("cannot reopen the error log") && told.contains("cannot open access log"),
        "{told}"
    );
    fs::rename(&away, &gone).expect("it can be moved");
    server.signal(Signal::USR1);
    eventually("lines are written again", || {
        server.serves();
        let lines = fs::read_to_string(gone.join("access")).expect("a log").lines().count();
        lines > 1
    });
    assert_eq!(server.end().code(), Some(0));
}
