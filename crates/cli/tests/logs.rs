//! What is logged ends nothing and keeps nobody waiting, whatever has become of the log: its disk is full, or
//! nobody reads.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use harness::client::{one, request};
use harness::server::{Server, Setup, children};
use harness::site::HELLO;
use harness::small_disk::SmallDisk;
use harness::terminal::Terminal;
use harness::variant::{Test, Variant, tests};
use harness::{eventually, free_address, namespace, sleep_ms};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::process::{Pid, Signal, kill_process};

const TESTS: &[Test] = tests![
    Each:
        a_full_disk,
        lines_lost_on_a_full_disk,
        standard_error_on_a_full_disk,
        a_pipe_that_nobody_reads,
        a_log_that_is_a_pipe_without_a_reader,
        a_log_whose_directory_is_gone,
        logs_in_a_directory_of_roots,
        the_end_on_a_full_disk,
        a_terminal,
        a_terminal_that_is_stopped,
        a_terminal_that_is_closed,
        a_terminal_in_whose_background_it_is,
        no_terminal;
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
    harness::variant::run_for(VARIANTS, &[("logs", TESTS)])
}

/// A server that can't be heard, so that everything else has to be looked at.
struct Unheard {
    child: Child,
    address: SocketAddr,
    setup: Setup,
}

impl Unheard {
    fn start(setup: Setup, stderr: impl Into<Stdio>) -> Self {
        let address = free_address();
        let setup = setup.argument(format!("--listen={address}"));
        let child = setup.command().stdout(Stdio::null()).stderr(stderr).spawn().expect("sluice starts");
        let server = Self { child, address, setup };
        server.listens();
        server
    }

    fn listens(&self) {
        eventually("it listens", || TcpStream::connect(self.address).is_ok());
        self.serves();
    }

    /// After its end.
    fn start_again(&mut self) {
        let mut command = self.setup.command();
        self.child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("sluice starts");
        self.listens();
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

    /// The processes that the supervisor has forked, without the one that waits for certificates: it has a
    /// privilege that the supervisor has given up, so it does not come again.
    fn forked(&self) -> Vec<u32> {
        let is_keeper = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sluice:keeper")
        };
        children(self.child.id()).into_iter().filter(|pid| !is_keeper(pid)).collect()
    }

    /// Whether the supervisor still watches: all that it has forked is killed, and comes again.
    fn heals(&mut self) {
        let mut before = Vec::new();
        eventually("workers and the status process are there", || {
            before = self.forked();
            before.len() > 1
        });
        for &pid in &before {
            let pid = Pid::from_raw(pid as i32).expect("a process");
            let _ = kill_process(pid, Signal::KILL);
        }
        eventually("workers are started again", || {
            assert_eq!(self.child.try_wait().expect("a child can be waited for"), None);
            let now = self.forked();
            now.len() >= before.len() && now.iter().all(|pid| !before.contains(pid))
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

/// Fills it, until not another byte can be appended to these files.
fn fill_up(disk: &SmallDisk, logs: &[&Path]) {
    let mut ballast = File::create(disk.path("ballast")).expect("a file");
    while ballast.write(&[0; 4096]).is_ok() {}
    for log in logs {
        let mut log = appended(log);
        while log.write(b"x").is_ok() {}
    }
}

/// Makes room, and empties these files.
fn clear(disk: &SmallDisk, logs: &[&Path]) {
    fs::remove_file(disk.path("ballast")).expect("the ballast");
    for log in logs {
        File::create(log).expect("a file");
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
    let Some(disk) = SmallDisk::mount("64k") else { return };
    let [errors, access, stderr] = ["errors", "access", "stderr"].map(|name| disk.path(name));
    let setup = setup.argument(format!("--error-log={}", errors.display()));
    let setup = setup.argument(format!("--access-log={}", access.display()));
    let mut server = Unheard::start(setup, appended(&stderr));
    let logs = [&*errors, &*access, &*stderr];
    fill_up(&disk, &logs);
    server.complain();
    server.complain();
    server.heals();
    clear(&disk, &logs);
    server.complain();
    let mut text = String::new();
    eventually("there is room again", || {
        text = fs::read_to_string(&errors).expect("a log");
        text.contains("not reloaded")
    });
    tells_what_was_lost(&text);
    assert_eq!(server.end().code(), Some(0));
}

/// Each request's line is in the file or counted, soon after it is lost and without another request.
fn lines_lost_on_a_full_disk(variant: &Variant) {
    let setup = Setup::new(variant);
    let Some(disk) = SmallDisk::mount("64k") else { return };
    let access = disk.path("access");
    let server = setup.argument(format!("--access-log={}", access.display())).start();
    let written = || fs::read(&access).expect("a log").split(|&byte| byte == b'\n').count() as u64 - 1;
    let dropped = || server.count("access_log_dropped/write_error");
    let mut asked = 0;
    // More lines than the disk has room for, of every worker; then single ones.
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for requests in [300, 1, 1] {
        for client in &mut clients {
            for _ in 0..requests {
                assert_eq!(client.get("/hello.txt").text(), HELLO);
                asked += 1;
            }
        }
        eventually("all are accounted for", || written() + dropped() == asked);
    }
    assert!(written() > 100 && dropped() > 100, "{} written, {} dropped", written(), dropped());
    assert_eq!(server.count("access_log_dropped/behind"), 0);
}

fn standard_error_on_a_full_disk(variant: &Variant) {
    let setup = Setup::new(variant);
    let Some(disk) = SmallDisk::mount("64k") else { return };
    let stderr = disk.path("stderr");
    let mut server = Unheard::start(setup, appended(&stderr));
    fill_up(&disk, &[&stderr]);
    server.complain();
    server.heals();
    clear(&disk, &[&stderr]);
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
    let Some(disk) = SmallDisk::mount("64k") else { return };
    let stderr = disk.path("stderr");
    fill_up(&disk, &[&stderr]);
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

/// Logs can't be opened anew, and go on where they are.
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
        told.contains("cannot reopen the error log") && told.contains("cannot reopen access log"),
        "{told}"
    );
    let lines = |directory: &Path| {
        fs::read_to_string(directory.join("access")).map_or(0, |text| text.lines().count())
    };
    let before = lines(&away);
    eventually("workers that came meanwhile log, too", || {
        server.serves();
        lines(&away) > before
    });
    fs::rename(&away, &gone).expect("it can be moved");
    server.signal(Signal::USR1);
    let before = lines(&gone);
    eventually("lines are written there", || {
        server.serves();
        lines(&gone) > before
    });
    assert_eq!(server.end().code(), Some(0));
}

/// The lines of requests that a terminal shows.
fn shown(terminal: &Terminal) -> Vec<String> {
    let text = terminal.shown();
    text.lines().filter(|line| line.contains(" ms  127.0.0.1  ")).map(str::to_owned).collect()
}

/// Who starts a server by hand sees what it is asked for, and nothing that steers the terminal.
fn a_terminal(variant: &Variant) {
    let (terminal, mut server) = Terminal::start(Setup::new(variant), &[]);
    let mut client = server.connect();
    client.get("/hello.txt?a=b");
    eventually("the line comes while the client is connected", || shown(&terminal).len() == 1);
    client.get("/nothing");
    assert!(server.one("GET /\u{202e}\u{9b}31m HTTP/1.1\r\nHost: x\r\n\r\n").status >= 400);
    assert!(server.one(request("GET", &format!("/{}", "x".repeat(4000)), &[])).status >= 400);
    assert_eq!(server.one("BAD\r\n\r\n").status, 400);
    eventually("all lines come", || shown(&terminal).len() == 5);
    let lines = shown(&terminal);
    assert!(
        lines[0].contains("Z 200         13 B ") && lines[0].ends_with("  GET /hello.txt?a=b"),
        "{lines:#?}"
    );
    for asked in ["  GET /nothing", r"  GET /\xE2\x80\xAE\xC2\x9B31m", "xxxxx...", "  127.0.0.1  -"] {
        assert!(lines.iter().any(|line| line.ends_with(asked)), "{asked}: {lines:#?}");
    }
    assert!(
        lines.iter().all(|line| line.len() < 200 && line.bytes().all(|byte| matches!(byte, b' '..=b'~')))
    );
    drop(client);
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
    // Where there is a log, it is the log.
    for option in ["--access-log=off", "--access-log=/dev/null"] {
        let (terminal, mut server) = Terminal::start(Setup::new(variant).argument(option), &[]);
        server.get("/hello.txt");
        server.signal(Signal::TERM);
        assert_eq!(server.exit_code(), Some(0));
        assert_eq!(terminal.shown(), "");
    }
}

const STOP: &str = "\u{13}";
const GO_ON: &str = "\u{11}";

fn a_terminal_that_is_stopped(variant: &Variant) {
    // Even where a log is to be waited for.
    let setup = Setup::new(variant).argument("--log-when-full=wait");
    let (mut terminal, mut server) = Terminal::start(setup, &[]);
    terminal.type_in(STOP);
    let mut client = server.connect();
    let target = format!("/{}", "x".repeat(119));
    eventually("lines are lost", || {
        client.send(request("GET", &target, &[]).repeat(200));
        (0..200).for_each(|_| assert_eq!(client.reply().status, 404));
        server.count("access_log_dropped/behind") > 0
    });
    let before = server.cpu_ticks();
    sleep_ms(300);
    assert!(server.cpu_ticks() - before < 15, "nobody asks all the time whether the terminal goes on");
    for _ in 0..2 {
        server.signal(Signal::HUP);
        server.wait_for_line(|line| line.contains("settings reloaded"));
        assert_eq!(server.get("/hello.txt").text(), HELLO);
    }
    assert_eq!(client.get("/hello.txt").text(), HELLO);
    terminal.type_in(GO_ON);
    eventually("it shows what it could not, and what comes", || {
        server.get("/after");
        terminal.shown().contains("GET /xxx") && terminal.shown().contains("GET /after")
    });
    terminal.type_in(STOP);
    server.get("/hello.txt");
    drop(client);
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

/// The kernel tells the server by HUP, and a shell would tell all of its processes.
fn a_terminal_that_is_closed(variant: &Variant) {
    let (terminal, mut server) = Terminal::start(Setup::new(variant), &[]);
    server.get("/hello.txt");
    // A worker that has not come to serve when it is replaced is killed, which is told.
    eventually("all workers serve", || {
        let status = server.status();
        status["workers"].as_array().expect("workers").iter().all(|worker| worker["responsive"] == true)
    });
    let retiring = server.workers();
    // What is lost with a terminal is told.
    eventually("the line is there", || terminal.shown().contains("/hello.txt"));
    drop(terminal);
    server.wait_for_line(|line| line.contains("settings reloaded"));
    server.signal_all(Signal::HUP);
    for _ in 0..20 {
        assert_eq!(server.get("/hello.txt").text(), HELLO);
    }
    // What they have used of the CPU is no longer counted then.
    eventually("those before are gone", || !server.processes().iter().any(|pid| retiring.contains(pid)));
    let before = server.cpu_ticks();
    sleep_ms(300);
    assert!(server.cpu_ticks() - before < 15, "what can't be written is not tried again and again");
    let errors: Vec<_> = server.stderr().into_iter().filter(|line| line.contains("ERROR")).collect();
    assert_eq!(errors, [""; 0]);
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

/// What somebody does there in the meantime is neither disturbed nor, if the terminal is set so, a reason to
/// stop the server.
fn a_terminal_in_whose_background_it_is(variant: &Variant) {
    let shell = ["sh", "-mc", "stty tostop; \"$0\" \"$@\" & read line"];
    let setup = Setup::new(variant).argument("--error-log=/dev/tty");
    let (terminal, server) = Terminal::start(setup, &shell);
    server.get("/hello.txt");
    for &pid in &children(server.pid()) {
        let pid = Pid::from_raw(pid as i32).expect("a process");
        kill_process(pid, Signal::USR1).expect("the process is there");
    }
    eventually("messages are for everybody", || terminal.shown().contains("logs reopened"));
    assert_eq!(server.get("/hello.txt").text(), HELLO);
    assert_eq!(shown(&terminal), [""; 0]);
    for &pid in &children(server.pid()) {
        let pid = Pid::from_raw(pid as i32).expect("a process");
        kill_process(pid, Signal::TERM).expect("the process is there");
    }
    eventually("it ends", || children(server.pid()).is_empty());
}

fn no_terminal(variant: &Variant) {
    let mut server = Server::start(variant);
    server.get("/hello.txt");
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
    assert_eq!(server.stdout(), "");
}

/// `/var/log/sluice` as a package makes it, and a server that is nobody once it listens.
fn logs_in_a_directory_of_roots(variant: &Variant) {
    let setup = Setup::new(variant);
    let logs = setup.directory().join("logs");
    fs::create_dir(&logs).expect("a directory");
    let [errors, access] = ["error.log", "access.log"].map(|name| logs.join(name));
    if chown(&logs, Some(65_534), None).and_then(|()| chown(&logs, Some(0), None)).is_err() {
        harness::skip("logs in a directory of root's: only root can become another user");
        return;
    }
    for directory in [setup.directory(), &logs] {
        fs::set_permissions(directory, Permissions::from_mode(0o755)).expect("it is root's");
    }
    let config = format!(
        "user = \"nobody\"\nerror_log = \"{}\"\naccess_log = \"{}\"",
        errors.display(),
        access.display()
    );
    let mut server = Unheard::start(setup.config(&config), Stdio::null());
    let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let told = |path: &Path, what: &str| eventually(what, || text(path).contains(what));
    let logs_to = |server: &Unheard, path: &Path| {
        let before = text(path).lines().count();
        eventually("a line is written", || {
            server.serves();
            text(path).lines().count() > before
        });
    };
    logs_to(&server, &access);
    assert_eq!([&errors, &access].map(|path| path.metadata().expect("a log").uid()), [65_534; 2]);

    let rotate = |server: &Unheard, owner: &str| {
        let (config, pid) = (server.setup.directory().join("rotate"), server.child.id());
        let logs = logs.display();
        let text = format!(
            "{logs}/*.log {{\n rotate 5\n create 640 {owner} root\n \
             sharedscripts\n postrotate\n kill -USR1 {pid}\n endscript\n}}\n"
        );
        fs::write(&config, text).expect("a file");
        let mut logrotate = Command::new("logrotate");
        logrotate.arg("--force").arg("--state").arg(config.with_extension("state")).arg(&config);
        let output = logrotate.output().expect("logrotate runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    rotate(&server, "nobody");
    told(&errors, "logs reopened");
    logs_to(&server, &access);
    server.heals();
    logs_to(&server, &access);

    // What nobody can open takes nothing away.
    let old = |path: &Path| path.with_extension("log.1");
    rotate(&server, "root");
    told(&old(&errors), "cannot reopen the error log");
    told(&old(&errors), "cannot reopen access log");
    logs_to(&server, &old(&access));
    server.heals();
    logs_to(&server, &old(&access));
    server.signal(Signal::HUP);
    told(&old(&errors), "settings reloaded");
    logs_to(&server, &old(&access));
    assert_eq!((text(&access), text(&errors)), Default::default());
    assert_eq!(server.end().code(), Some(0));

    // But root can, at the next start.
    server.start_again();
    logs_to(&server, &access);
    assert_eq!(server.end().code(), Some(0));
}
