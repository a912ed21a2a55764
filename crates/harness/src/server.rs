//! Runs the real `sluice serve` on its own files, observes it through `/proc` and its standard error, and
//! stops it when the test ends. Between a server that speaks TLS and its clients, it puts a tunnel.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Client, Reply, request};
use crate::tunnel::Tunnel;
use crate::variant::Variant;
use crate::{TIMEOUT, conveyed, eventually, owners, scratch, site, sleep_ms};

/// A server before its start.
pub struct Setup {
    program: PathBuf,
    directory: TempDir,
    arguments: Vec<String>,
    config: String,
    last_tables: &'static str,
    descriptor_limit: Option<u32>,
    common_descriptors: bool,
    tls_versions: TlsVersions,
}

/// The versions of TLS that a variant's clients speak. Empty: they speak plain HTTP.
type TlsVersions = &'static [&'static rustls::SupportedProtocolVersion];

/// A running server.
pub struct Server {
    child: Child,
    /// The address of the first listener, or of the tunnel to it.
    pub address: SocketAddr,
    /// Leads to the first listener, if it speaks TLS.
    tunnel: Option<Tunnel>,
    directory: TempDir,
    /// Whether workers and supervisor share one descriptor table.
    pub common_descriptors: bool,
    /// Whether it has applications. Their replies may have unknown length.
    has_applications: bool,
    stderr: Arc<Lines>,
    ended: Option<ExitStatus>,
}

/// What the server has written to standard error so far.
#[derive(Default)]
struct Lines {
    said: Mutex<(Vec<String>, bool)>,
    more: Condvar,
}

impl Setup {
    /// A server for the standard site, on a free port.
    pub fn new(variant: &Variant) -> Self {
        Self::of(variant, scratch::directory())
    }

    /// A server for the standard site whose files are on a disk instead of in memory.
    pub fn on_disk(variant: &Variant) -> Self {
        Self::of(variant, scratch::on_disk())
    }

    fn of(variant: &Variant, directory: TempDir) -> Self {
        site::make(directory.path());
        let mut setup = Self {
            program: variant.program(),
            directory,
            arguments: Vec::new(),
            config: String::new(),
            last_tables: variant.tables(),
            descriptor_limit: None,
            common_descriptors: variant.has_common_descriptors(),
            tls_versions: variant.tls_versions(),
        };
        setup.arguments.extend(variant.options.iter().map(|&option| option.to_owned()));
        setup
    }

    /// Sets keys of the TOML file. Each call appends text, so keys of the top must come before tables.
    pub fn config(mut self, text: &str) -> Self {
        self.config.push_str(text);
        self.config.push('\n');
        self
    }

    /// Adds an argument for `sluice serve`.
    pub fn argument(mut self, text: impl Into<String>) -> Self {
        self.arguments.push(text.into());
        self
    }

    /// Has it listen at the first address of another server.
    pub fn in_place_of(mut self, other: &Server) -> Self {
        let Some(tunnel) = &other.tunnel else { return self.argument(format!("--listen={}", other.address)) };
        self.arguments.retain(|argument| !argument.starts_with("--listen-tls="));
        self.argument(format!("--listen-tls={}", tunnel.server()))
    }

    /// Limits the number of the server's descriptors.
    pub fn descriptor_limit(mut self, limit: u32) -> Self {
        self.descriptor_limit = Some(limit);
        self
    }

    /// Adds a file to the root.
    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, content).expect("a file");
        self
    }

    /// The root directory.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    /// The directory that contains the root and everything else of this server.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The command that starts the server. It uses a free port, unless arguments or the first line of the
    /// configuration set one.
    pub fn command(&self) -> Command {
        let directory = self.directory.path();
        let config = directory.join("sluice.toml");
        let text = config_text(directory, &self.config, self.speaks_tls()) + self.last_tables;
        fs::write(&config, text).expect("a file");
        let mut command = match self.descriptor_limit {
            None => Command::new(&self.program),
            Some(limit) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\"")]);
                shell.arg(&self.program);
                shell
            }
        };
        command.arg("serve").arg(self.root()).arg("--config").arg(config);
        let told = |argument: &String| argument.starts_with("--listen=");
        if !self.speaks_tls() && !self.arguments.iter().any(told) && !self.config.starts_with("listen =") {
            command.arg("--listen=127.0.0.1:0");
        }
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn speaks_tls(&self) -> bool {
        !self.tls_versions.is_empty()
    }

    fn has_applications(&self) -> bool {
        ["pools]]", "php ="].iter().any(|key| self.config.contains(key))
            || self.arguments.iter().any(|argument| argument.starts_with("--php"))
    }

    /// The output of a server that should exit by itself. If it keeps serving, `timeout` ends it.
    pub fn output(&self) -> Output {
        let usual = self.command();
        let mut command = Command::new("timeout");
        command.arg("10").arg(usual.get_program()).args(usual.get_args()).stdin(Stdio::null());
        command.output().expect("sluice runs")
    }

    /// Starts the server and waits until it listens.
    #[track_caller]
    pub fn start(self) -> Server {
        let command = self.command();
        self.start_as(command)
    }

    /// The command that starts the server as systemd does with a socket unit: it gets this listener as
    /// descriptor 3.
    pub fn command_with(&self, listener: &TcpListener) -> Command {
        let usual = self.command();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\" 3<&0 0</dev/null"]);
        command.arg(usual.get_program()).args(usual.get_args());
        let listener = listener.try_clone().expect("a descriptor");
        command.stdin(OwnedFd::from(listener)).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts the server with another command, and waits until it listens.
    #[track_caller]
    pub fn start_as(self, mut command: Command) -> Server {
        settle();
        let has_applications = self.has_applications();
        let versions = self.tls_versions;
        let mut child = command.spawn().expect("sluice starts");
        let stderr = Lines::of(child.stderr.take().expect("a pipe"));
        let mut server = Server {
            child,
            address: ([127, 0, 0, 1], 0).into(),
            tunnel: None,
            directory: self.directory,
            common_descriptors: self.common_descriptors,
            has_applications,
            stderr,
            ended: None,
        };
        // A message in the error log begins with a time, and this line does not.
        if versions.is_empty() {
            let line = server.wait_for_line(|line| line.starts_with("listening on http://"));
            server.address = parse_address(&line).unwrap_or_else(|| panic!("no address in {line:?}"));
        } else {
            let tunnel = Tunnel::start(server.tls_address(), versions);
            server.address = tunnel.address();
            server.tunnel = Some(tunnel);
        }
        server
    }
}

impl Server {
    /// Starts a server for the standard site without further settings.
    #[track_caller]
    pub fn start(variant: &Variant) -> Self {
        Setup::new(variant).start()
    }

    /// Starts a server for the standard site with these keys of the TOML file.
    #[track_caller]
    pub fn with(variant: &Variant, config: &str) -> Self {
        Setup::new(variant).config(config).start()
    }

    /// Connects to its first listener.
    pub fn connect(&self) -> Client {
        self.client_over(Client::connect(self.address))
    }

    /// A connection that accepts at most a few kilobytes that the test does not read.
    pub fn connect_narrow(&self) -> Client {
        self.client_over(Client::connect_narrow(self.address))
    }

    fn client_over(&self, client: Client) -> Client {
        if self.has_applications { client.taking_chunks() } else { client }
    }

    /// Sends GET on a new connection.
    #[track_caller]
    pub fn get(&self, target: &str) -> Reply {
        self.fetch("GET", target, &[])
    }

    /// Sends a request on a new connection.
    #[track_caller]
    pub fn fetch(&self, method: &str, target: &str, fields: &[(&str, &str)]) -> Reply {
        self.connect().fetch(method, target, fields)
    }

    /// Sends bytes on a new connection and reads one reply.
    #[track_caller]
    pub fn one(&self, bytes: impl AsRef<[u8]>) -> Reply {
        let mut client = self.connect();
        client.send(bytes);
        client.reply()
    }

    /// The root directory.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    /// The directory that contains the root and everything else of this server.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file into the root, and waits until the server treats it like the others.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        fs::write(self.root().join(path), content).expect("a file");
        settle();
    }

    /// Replaces a file in one step. The new file may have no validators yet.
    pub fn replace(&self, path: &str, content: impl AsRef<[u8]>) {
        let fresh = self.directory.path().join("fresh");
        fs::write(&fresh, content).expect("a file");
        fs::rename(fresh, self.root().join(path)).expect("a file can be moved");
    }

    /// Replaces the TOML file, for a reload.
    pub fn rewrite_config(&self, text: &str) {
        let directory = self.directory.path();
        let text = config_text(directory, text, self.tunnel.is_some());
        fs::write(directory.join("sluice.toml"), text).expect("a file");
    }

    /// The process that was started.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the process that was started.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the server is there");
    }

    /// Sends a signal to all processes of the server.
    pub fn signal_all(&self, signal: Signal) {
        for pid in self.processes() {
            let pid = Pid::from_raw(pid as i32).expect("a process");
            kill_process(pid, signal).expect("the process is there");
        }
    }

    /// Stops all processes of the server. They notice nothing that happens until they continue.
    pub fn stop_all(&self) {
        stop(&self.processes());
    }

    /// Whether the server has exited.
    pub fn has_ended(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("a child can be waited for");
        }
        self.ended.is_some()
    }

    /// Waits for the server's exit and returns the exit code. `None`: a signal ended it.
    #[track_caller]
    pub fn exit_code(&mut self) -> Option<i32> {
        let began = Instant::now();
        while !self.has_ended() {
            assert!(began.elapsed() < TIMEOUT, "the server has not ended after {TIMEOUT:?}");
            thread::sleep(Duration::from_millis(5));
        }
        self.ended.and_then(|status| status.code())
    }

    /// The first matching line of standard error, already written or still to come.
    #[track_caller]
    pub fn wait_for_line(&self, like: impl Fn(&str) -> bool) -> String {
        self.stderr.wait_for(like).unwrap_or_else(|| panic!("no such line in: {:#?}", self.stderr()))
    }

    /// The lines of standard error so far.
    pub fn stderr(&self) -> Vec<String> {
        self.stderr.said.lock().expect("no reader panics").0.clone()
    }

    /// Everything that the server has written to standard output. Call this only after it has exited.
    pub fn stdout(&mut self) -> String {
        let mut text = String::new();
        self.child.stdout.take().expect("asked once").read_to_string(&mut text).expect("text");
        text
    }

    /// A page of the status endpoint: status code, and text.
    pub fn status_page(&self, path: &str) -> (u16, String) {
        self.try_status_page(path, TIMEOUT).expect("an endpoint that answers")
    }

    /// A page of the status endpoint, for a server that may be stopped.
    fn try_status_page(&self, path: &str, timeout: Duration) -> io::Result<(u16, String)> {
        let mut stream = UnixStream::connect(self.directory.path().join("status"))?;
        stream.set_read_timeout(Some(timeout))?;
        stream.write_all(request("GET", path, &[("Connection", "close")]).as_bytes())?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        let (head, body) = reply.split_once("\r\n\r\n").expect("a head and a body");
        Ok((head[9..12].parse().expect("a status code"), body.to_owned()))
    }

    /// The status as JSON.
    pub fn status(&self) -> Value {
        let (code, text) = self.status_page("/json");
        assert_eq!(code, 200, "{text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// A counter in the status's total, by its path, such as `replies/2xx`.
    #[track_caller]
    pub fn count(&self, path: &str) -> u64 {
        let status = self.status();
        let value = status.pointer(&format!("/total/{path}"));
        value.and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path} in {status:#}"))
    }

    /// A counter of the first pool of applications, such as `failures`.
    #[track_caller]
    pub fn pool_count(&self, name: &str) -> u64 {
        let status = self.status();
        let value = status["pools"][0][name].as_u64();
        value.unwrap_or_else(|| panic!("no {name} of a pool in {status:#}"))
    }

    /// The first pool's counts of replies that were passed, were shared, and came by the stream
    /// nevertheless, and of clients that disconnected. `None` if there is no answer or no pool.
    fn transports(&self) -> Option<[u64; 4]> {
        let (_, text) = self.try_status_page("/json", Duration::from_secs(1)).ok()?;
        let status: Value = serde_json::from_str(&text).expect("JSON");
        let pool = status["pools"].get(0)?;
        Some(
            ["passed", "shared", "fell_back", "clients_left"]
                .map(|name| pool[name].as_u64().expect("a count")),
        )
    }

    /// The TCP addresses that it listens on, in the order in which it reports them.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        // The line after the addresses.
        self.wait_for_line(|line| line.starts_with("status on "));
        self.stderr().iter().filter_map(|line| parse_address(line)).collect()
    }

    /// The address of its first listener that speaks TLS.
    #[track_caller]
    pub fn tls_address(&self) -> SocketAddr {
        let line = self.wait_for_line(|line| line.starts_with("listening on https://"));
        parse_tls_address(&line).unwrap_or_else(|| panic!("no address in {line:?}"))
    }

    /// Its ends of the connections to its first listener: the port of each client, and the inode of the
    /// socket.
    pub fn connections(&self) -> HashMap<u16, u64> {
        let Some(tunnel) = &self.tunnel else { return owners::connections(self.address) };
        let of_tunnel = owners::connections(tunnel.server()).into_iter();
        of_tunnel.filter_map(|(port, inode)| Some((tunnel.client_of(port)?, inode))).collect()
    }

    /// The worker processes, by the number of the worker.
    pub fn workers(&self) -> Vec<u32> {
        let status = self.status();
        let workers = status["workers"].as_array().expect("workers");
        let pids = workers.iter().map(|worker| worker["pid"].as_u64().expect("a process") as u32);
        // Workers that are threads have the same process.
        let mut pids: Vec<u32> = pids.collect();
        pids.dedup();
        pids
    }

    /// Makes every worker answer requests, so that each has started and has the file open.
    pub fn warm_up(&self) {
        eventually("every worker has answered", || {
            let mut clients: Vec<Client> = (0..20).map(|_| self.connect()).collect();
            for client in &mut clients {
                client.ask("GET", "/hello.txt", &[]);
            }
            assert!(clients.iter_mut().all(|client| client.reply().status == 200));
            let status = self.status();
            let mut workers = status["workers"].as_array().expect("workers").iter();
            workers.all(|worker| worker["requests"].as_u64() > Some(0))
        });
    }

    /// Open descriptors in all processes of the server together.
    pub fn descriptors(&self) -> usize {
        // If workers share the supervisor's descriptors, these count once.
        let counted = if self.common_descriptors { self.workers() } else { Vec::new() };
        self.processes().into_iter().filter(|pid| !counted.contains(pid)).map(open_descriptors).sum()
    }

    /// Resident memory of all processes of the server, without file pages, in bytes.
    pub fn memory(&self) -> u64 {
        self.processes().into_iter().map(memory).sum()
    }

    /// CPU time that the server has used so far, in clock ticks of 10 ms.
    pub fn cpu_ticks(&self) -> u64 {
        self.processes().into_iter().map(cpu_ticks).sum()
    }

    /// The server's process and its descendants.
    pub fn processes(&self) -> Vec<u32> {
        family(self.pid())
    }
}

/// A process and its descendants.
pub fn family(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut looked_at = 0;
    while let Some(&pid) = found.get(looked_at) {
        looked_at += 1;
        found.extend(children(pid));
    }
    found
}

/// The children of a process. A child that has ended is included until its parent has reaped it.
pub fn children(pid: u32) -> Vec<u32> {
    let mut found: Vec<u32> = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    found.retain(|&pid| state(pid).is_some_and(|state| state != 'Z'));
    found
}

/// Stops processes, and waits until all their threads have stopped. A thread continues until the kernel
/// has processed the signal for it.
pub fn stop(pids: &[u32]) {
    for &pid in pids {
        kill_process(Pid::from_raw(pid as i32).expect("a process"), Signal::STOP)
            .expect("the process is there");
    }
    eventually("they have stopped", || pids.iter().all(|&pid| is_stopped(pid)));
}

fn is_stopped(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut states = threads.filter_map(|thread| state_in(&thread.path()));
    states.all(|state| state == 'T')
}

/// The state of a process as proc(5) abbreviates it: `T` if it is stopped, `Z` if its parent has not
/// reaped it yet.
pub fn state(pid: u32) -> Option<char> {
    state_in(Path::new(&format!("/proc/{pid}")))
}

/// The state of a process or thread, by its directory.
fn state_in(directory: &Path) -> Option<char> {
    let stat = fs::read_to_string(directory.join("stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Open descriptors of a process. 0 if there is no such process.
pub fn open_descriptors(pid: u32) -> usize {
    let directory = format!("/proc/{pid}/fd");
    match fs::metadata(&directory).map_or(0, |directory| directory.len()) {
        // Kernels before Linux 6.2.
        0 => fs::read_dir(directory).map_or(0, Iterator::count),
        count => count as usize,
    }
}

/// The number that the next descriptor of a process will get.
pub fn first_free_descriptor(pid: u32) -> u64 {
    let is_free = |number: &u64| !Path::new(&format!("/proc/{pid}/fd/{number}")).is_symlink();
    (0..u64::MAX).find(is_free).expect("there are not so many")
}

/// The highest descriptor number of a process.
pub fn highest_descriptor(pid: u32) -> u64 {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).expect("a process");
    let numbers = open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.max().expect("it has some open")
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the server said: {:#?}", self.stderr());
        }
        if self.has_ended() {
            return;
        }
        let counted = if thread::panicking() { None } else { conveyed::miscounted(|| self.transports()) };
        // The test may have stopped it.
        let _ = kill_process(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
        assert_eq!(counted, None, "the server counts something else");
    }
}

impl Lines {
    fn of(stream: impl Read + Send + 'static) -> Arc<Self> {
        let lines = Arc::new(Self::default());
        let said = Arc::clone(&lines);
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                said.said.lock().expect("no reader panics").0.push(line);
                said.more.notify_all();
            }
            said.said.lock().expect("no reader panics").1 = true;
            said.more.notify_all();
        });
        lines
    }

    fn wait_for(&self, like: impl Fn(&str) -> bool) -> Option<String> {
        let began = Instant::now();
        let mut said = self.said.lock().expect("no reader panics");
        loop {
            if let Some(line) = said.0.iter().find(|line| like(line)) {
                return Some(line.clone());
            }
            let left = TIMEOUT.checked_sub(began.elapsed())?;
            if said.1 {
                return None;
            }
            said = self.more.wait_timeout(said, left).expect("no reader panics").0;
        }
    }
}

/// Waits until file times have advanced. A file that was changed a moment ago may be changed again
/// without a trace in its times. Until then, the server sends it without validators.
pub fn settle() {
    sleep_ms(40);
}

/// The text of the TOML file. Every server has a status endpoint, at its own Unix socket. A server that
/// speaks TLS has no plain listeners, unless the test says so.
fn config_text(directory: &Path, text: &str, speaks_tls: bool) -> String {
    let listen = if speaks_tls && !text.starts_with("listen =") { "listen = []\n" } else { "" };
    format!("status = \"unix:{}\"\n{listen}{text}", directory.join("status").display())
}

/// The address in `listening on http://ADDRESS/ (...)`.
pub fn parse_address(line: &str) -> Option<SocketAddr> {
    line.strip_prefix("listening on http://")?.split('/').next()?.parse().ok()
}

/// The address in `listening on https://ADDRESS/ (...)`.
pub fn parse_tls_address(line: &str) -> Option<SocketAddr> {
    line.strip_prefix("listening on https://")?.split('/').next()?.parse().ok()
}

/// Resident memory of a process, without file pages, in bytes.
pub fn memory(pid: u32) -> u64 {
    proc_field(pid, "RssAnon:") + proc_field(pid, "RssShmem:")
}

/// A value of `/proc/PID/status` in kilobytes, as bytes.
fn proc_field(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may contain blanks, and ends at the last bracket.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let number = |place: usize| -> u64 {
        after_name.split_whitespace().nth(place).and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    number(11) + number(12)
}
