//! Unmodified C programs, compiled with the distribution's header and linked with its library, and run with
//! ours in its place: on every transport, behind another web server, and under valgrind. On plain FastCGI the
//! distribution's library has to say the same.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;

use fastcgi::transport::{Area, Lent, Returned};
use fastcgi::{Role, Transports};
use sys::memory_file::{Access, Mapping, MemoryFile};
use tempfile::TempDir;

use super::web_server::{Said, WebServer};

/// A directory with our library by the name that programs ask for. It is the same for all tests of a build.
static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("library");
    fs::create_dir_all(&directory).unwrap();
    // target/PROFILE/deps/TEST
    let built = std::env::current_exe().unwrap().parent().unwrap().join("libfcgi.so");
    // Another test may make it at the same moment: each puts its own in place in one step.
    let own = directory.join(std::process::id().to_string());
    symlink(built, &own).unwrap();
    fs::rename(own, directory.join("libfcgi.so.0")).unwrap();
    directory
});

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/programs");
const SHARED: Area = Area { chunks: 5, chunk_size: 8_192 };
const LENT: Lent<'static> = Lent { is_http11: true, is_persistent: true, has_body: true, server: b"tested" };

/// Whose library a program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Library {
    Ours,
    Distributions,
}

/// The way of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Plain,
    PassFd,
    SharedMemory,
}

const WAYS: [(Library, Way); 4] = [
    (Library::Distributions, Way::Plain),
    (Library::Ours, Way::Plain),
    (Library::Ours, Way::PassFd),
    (Library::Ours, Way::SharedMemory),
];

/// A program that runs, with a socket that it accepts from.
struct Program {
    directory: TempDir,
    child: Child,
}

/// What a request came to: its reply as a CGI response or its body, the error log, the exit status.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    reply: Vec<u8>,
    errors: String,
    exit: u32,
}

/// One connection to a program, whose replies come a certain way.
struct Asker {
    web_server: WebServer,
    way: Way,
    memory: Option<Mapping>,
}

fn compile(source: &str, directory: &Path, libraries: &[&str]) -> PathBuf {
    let program = directory.join("program");
    let status = Command::new("cc")
        .args(["-O1", "-Wall", "-Werror", "-o"])
        .arg(&program)
        .arg(Path::new(SOURCES).join(source))
        .args(libraries)
        .status()
        .expect("a C compiler");
    assert!(status.success());
    program
}

impl Program {
    fn start(source: &str, library: Library) -> Self {
        eprintln!("{source} with {library:?}");
        Self::start_by(source, library, &[])
    }

    /// By another program, which is given this one as its last argument.
    fn start_by(source: &str, library: Library, by: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let program = compile(source, directory.path(), &["-lfcgi", "-pthread"]);
        Self::run(directory, &program, library, by)
    }

    fn run(directory: TempDir, program: &Path, library: Library, by: &[&str]) -> Self {
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        let mut words: Vec<_> = by.iter().map(Path::new).collect();
        words.push(program);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(OwnedFd::from(listener));
        if library == Library::Ours {
            command.env("LD_LIBRARY_PATH", LIBRARY.as_path());
        }
        Self { child: command.spawn().unwrap(), directory }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn ask(&self, way: Way) -> Asker {
        let mut web_server = WebServer::connect(&self.socket());
        let mut memory = None;
        if way != Way::Plain {
            assert_eq!(web_server.ask(), Transports { pass_fd: true, shared_memory: true, waits: true });
        }
        if way == Way::SharedMemory {
            let file = MemoryFile::new("test", SHARED.size()).unwrap();
            memory = Some(Mapping::new(&file, SHARED.size(), Access::Read).unwrap());
            web_server.share(SHARED, file.as_fd());
        }
        Asker { web_server, way, memory }
    }

    /// Asks it to end, and waits for that.
    fn end(mut self) -> ExitStatus {
        // It may not wait yet for what a signal interrupts.
        loop {
            sys::process::send(self.child.id(), sys::signal::Signal::User1).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        if std::thread::panicking() {
            eprintln!("it ended with {:?}", self.child.wait());
        }
        let _ = self.child.wait();
    }
}

impl Asker {
    fn request(&mut self, role: Role, params: &[(&str, &str)], body: &[u8], data: &[u8]) -> Outcome {
        let Self { web_server, way, memory } = self;
        if *way == Way::PassFd {
            let (near, far) = client();
            // Somebody has to take it while it comes.
            let reader = std::thread::spawn(move || read_to_end(far));
            web_server.lend(LENT, near.as_fd(), params, body);
            let mut said = web_server.said();
            near.shutdown(Shutdown::Write).unwrap();
            let (reply, sent) = reader.join().unwrap();
            let at = said.iter().position(|said| matches!(said, Said::Returned(_))).expect("it comes back");
            let Said::Returned(returned) = said.remove(at) else { unreachable!() };
            assert!(matches!(returned, Returned { status: 200, is_whole: true, is_persistent: true, .. }));
            assert_eq!((returned.body, returned.sent), (body_of(&reply).len() as u64, sent));
            return outcome(said, Some(reply));
        }
        web_server.begin(role, true, params, body);
        if role == Role::Filter {
            web_server.data(data);
        }
        match memory {
            Some(memory) => {
                let (reply, _, rest) = web_server.read_shared(memory, SHARED.chunk_size);
                outcome(rest, Some(reply))
            }
            None => outcome(web_server.said(), None),
        }
    }
}

fn outcome(said: Vec<Said>, reply: Option<Vec<u8>>) -> Outcome {
    let mut outcome = Outcome { reply: reply.unwrap_or_default(), errors: String::new(), exit: u32::MAX };
    for said in said {
        match said {
            Said::Stdout(bytes) => outcome.reply.extend_from_slice(&bytes),
            Said::Stderr(bytes) => outcome.errors.push_str(std::str::from_utf8(&bytes).unwrap()),
            Said::End(exit) => outcome.exit = exit,
            other => panic!("{other:?}"),
        }
    }
    outcome
}

/// Both ends of a client's connection: the web server's and its own.
fn client() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let near = listener.accept().unwrap().0;
    near.set_nonblocking(true).unwrap();
    (near, far)
}

/// A reply over HTTP, the framing of its body undone, and how many bytes it was.
fn read_to_end(mut far: TcpStream) -> (Vec<u8>, u64) {
    let mut received = Vec::new();
    far.read_to_end(&mut received).unwrap();
    let head = head_end(&received);
    let mut reply = received[..head].to_vec();
    if String::from_utf8_lossy(&reply).contains("Transfer-Encoding: chunked") {
        let mut rest = &received[head..];
        while !rest.is_empty() {
            let line = rest.iter().position(|byte| *byte == b'\r').unwrap();
            let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
            reply.extend_from_slice(&rest[line + 2..][..length]);
            rest = &rest[line + 2 + length + 2..];
        }
    } else {
        reply.extend_from_slice(&received[head..]);
    }
    (reply, received.len() as u64)
}

fn head_end(reply: &[u8]) -> usize {
    let end = |end: &[u8]| reply.windows(end.len()).position(|at| at == end).map(|at| at + end.len());
    end(b"\r\n\r\n").or_else(|| end(b"\n\n")).expect("a head")
}

fn body_of(reply: &[u8]) -> &[u8] {
    &reply[head_end(reply)..]
}

fn letters(size: usize) -> Vec<u8> {
    (0..size).map(|at| b'a' + (at % 26) as u8).collect()
}

#[test]
fn put_str_says_the_same_on_every_way() {
    for (library, way) in WAYS {
        let program = Program::start("put_str.c", library);
        let mut asker = program.ask(way);
        for (size, pieces, told) in
            [(0, 1, 0), (10, 3, 1), (8_192, 1, 1), (100_000, 7, 0), (1_000_000, 1, 0), (3_000_000, 999, 1)]
        {
            let query = format!("{size},{pieces},{told}");
            let body = letters(size / 10);
            let sum = body.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
            let outcome = asker.request(Role::Responder, &[("QUERY_STRING", &query)], &body, b"");
            assert!(body_of(&outcome.reply) == letters(size), "{library:?}, {way:?}, {query}");
            let head = String::from_utf8_lossy(&outcome.reply[..head_end(&outcome.reply)]);
            assert!(head.contains(&format!("X-Body: {} {sum}\r\n", body.len())), "{way:?}: {head}");
            assert_eq!((outcome.errors.as_str(), outcome.exit), ("", 0));
        }
        assert!(program.end().success());
    }
}

#[test]
fn threads_accept_side_by_side() {
    for (library, way) in WAYS {
        let program = Program::start("threads.c", library);
        std::thread::scope(|scope| {
            for client in 0..6 {
                let program = &program;
                scope.spawn(move || {
                    let mut asker = program.ask(way);
                    for request in 0..40_usize {
                        let token = format!("token-{client}-{request}");
                        let count = request * request;
                        let params = [("TOKEN", token.as_str()), ("QUERY_STRING", &count.to_string())];
                        let outcome = asker.request(Role::Responder, &params, b"", b"");
                        let expected = format!("{token}\n").repeat(count);
                        assert!(body_of(&outcome.reply) == expected.as_bytes(), "{library:?}, {way:?}");
                    }
                });
            }
        });
    }
}

#[test]
fn stdio_says_the_same_on_every_way() {
    let mut seen = Vec::new();
    for (library, way) in WAYS {
        let program = Program::start("stdio.c", library);
        let mut asker = program.ask(way);
        let mut replies = Vec::new();
        for (query, body) in
            [("a=b", "one\ntwo is a long line that fills the block\nthree"), ("", "x"), ("c", "")]
        {
            let outcome = asker.request(Role::Responder, &[("QUERY_STRING", query)], body.as_bytes(), b"");
            replies.push((body_of(&outcome.reply).to_vec(), outcome.errors, outcome.exit));
        }
        let first = String::from_utf8_lossy(&replies[0].0);
        assert!(first.contains("first=one\nnext=t again=t\nblock=wo is a long li"), "{first}");
        assert!(first.ends_with("end=1 error=0 fileno=0\nin a file of its own 20\n"), "{first}");
        assert_eq!((replies[2].1.as_str(), replies[2].2), ("request 3", 3));
        seen.push((library, way, replies));
    }
    for (library, way, replies) in &seen[1..] {
        assert_eq!(*replies, seen[0].2, "{library:?}, {way:?}");
    }
}

#[test]
fn a_stdio_program_is_a_cgi_program_too() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile("stdio.c", directory.path(), &["-lfcgi"]);
    let mut outputs = Vec::new();
    for library in [LIBRARY.as_path(), Path::new("/nonexistent")] {
        let mut child = Command::new(&program)
            .env("LD_LIBRARY_PATH", library)
            .env("QUERY_STRING", "a=b")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"line\nxblock").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        assert_eq!(output.stderr, b"request 1");
        outputs.push(String::from_utf8(output.stdout).unwrap());
    }
    assert!(outputs[0].contains("first=line\nnext=x again=x\nblock=block\nend=1 error=0 fileno=1\n"));
    assert_eq!(outputs[0], outputs[1]);
}

#[test]
fn streams_do_as_the_header_says() {
    let mut seen = Vec::new();
    for (library, way) in WAYS {
        let program = Program::start("streams.c", library);
        let mut asker = program.ask(way);
        let role = if way == Way::PassFd { Role::Responder } else { Role::Filter };
        let outcome = asker.request(role, &[("A", "b")], b"the body", b"line\nlong line\n");
        let body = String::from_utf8_lossy(body_of(&outcome.reply)).into_owned();
        let common = format!("role={} fd=1 in=1 out=0\nmissing=1\n1 -1\n", role as u16);
        let rest = match role {
            Role::Filter => "The body eof=-1 data=0\n[line\n][long li][ne\n] again=1",
            _ => "data=1 error=-5",
        };
        let expected =
            if way == Way::PassFd || library == Library::Ours { common + rest } else { body.clone() };
        assert_eq!(body, expected, "{library:?}, {way:?}");
        assert_eq!((outcome.errors.as_str(), outcome.exit), ("to the log", 5), "{library:?}, {way:?}");
        seen.push(body);
        // It goes on with the next one, on another connection: libfcgi closes one whose input had an error,
        // and ours would wait for more on it.
        drop(asker);
        program.ask(way).request(Role::Responder, &[], b"", b"");
        assert!(program.end().success());
    }
    assert_eq!(seen[0], seen[1], "as with the distribution's library");
}

#[test]
fn processes_that_are_forked_share_the_socket() {
    for (library, way) in WAYS {
        let mut program = Program::start("prefork.c", library);
        let answer = || body_of(&program.ask(way).request(Role::Responder, &[], b"", b"").reply).to_vec();
        let mut pids = [answer(), answer(), answer()];
        pids.sort();
        assert!(pids[0] != pids[1] && pids[1] != pids[2], "{library:?}, {way:?}");
        assert!(program.child.wait().unwrap().success(), "{library:?}, {way:?}");
    }
}

/// It waits for more where a question is not padded.
#[test]
fn the_distributions_library_answers_what_it_is_asked() {
    let program = Program::start("put_str.c", Library::Distributions);
    assert_eq!(WebServer::connect(&program.socket()).ask(), Transports::default());
}

#[test]
fn the_environment_restricts_what_is_admitted() {
    for (value, expected) in [
        ("none", Transports::default()),
        ("pass-fd", Transports { pass_fd: true, shared_memory: false, waits: true }),
        ("shared-memory", Transports { pass_fd: false, shared_memory: true, waits: true }),
    ] {
        let setting = format!("SLUICE_FCGI_TRANSPORTS={value}");
        let program = Program::start_by("put_str.c", Library::Ours, &["env", &setting]);
        assert_eq!(WebServer::connect(&program.socket()).ask(), expected);
    }
    let mut program =
        Program::start_by("put_str.c", Library::Ours, &["env", "SLUICE_FCGI_TRANSPORTS=pigeons"]);
    // Its accepting fails.
    assert!(program.child.wait().unwrap().success());
}

#[test]
fn pieces_that_are_not_copied_arrive_whole() {
    let setting = ["env", "SLUICE_FCGI_SEND=zerocopy"];
    let program = Program::start_by("put_str.c", Library::Ours, &setting);
    let mut asker = program.ask(Way::PassFd);
    for query in ["1000000,1,0", "3000000,7,1", "100000,1,0", "10,1,0"] {
        let size = query.split(',').next().unwrap().parse().unwrap();
        let outcome = asker.request(Role::Responder, &[("QUERY_STRING", query)], b"", b"");
        assert!(body_of(&outcome.reply) == letters(size), "{query}");
    }
    // The program wants to put its next piece where the last one was; nobody takes either.
    let (near, mut far) = client();
    asker.web_server.lend(LENT, near.as_fd(), &[("QUERY_STRING", "50000000,5,0")], b"");
    far.read_exact(&mut [0; 1_000]).unwrap();
    asker.web_server.abort();
    let said = asker.web_server.said();
    assert!(matches!(said[..], [Said::Returned(Returned { is_whole: false, .. }), Said::End(0)]), "{said:?}");
    assert_eq!(far.read_to_end(&mut Vec::new()).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

/// No signal comes any more that could end its wait for another on the same connection.
#[test]
fn a_program_that_is_told_to_end_in_a_request_ends_behind_it() {
    let mut program = Program::start("put_str.c", Library::Ours);
    let mut web_server = WebServer::connect(&program.socket());
    web_server.begin(Role::Responder, true, &[("QUERY_STRING", "10000000,1,0")], b"");
    web_server.await_input();
    sys::process::send(program.child.id(), sys::signal::Signal::User1).unwrap();
    assert_eq!(web_server.said().last(), Some(&Said::End(0)));
    assert!(web_server.has_ended());
    assert!(program.child.wait().unwrap().success());
}

#[test]
fn an_application_that_is_killed_leaves_nothing_open() {
    let mut program = Program::start("put_str.c", Library::Ours);
    let mut web_server = WebServer::connect(&program.socket());
    let (near, mut far) = client();
    web_server.lend(LENT, near.as_fd(), &[("QUERY_STRING", "100000000,1,0")], b"");
    far.read_exact(&mut [0; 100]).unwrap();
    program.child.kill().unwrap();
    assert!(web_server.has_ended());
    drop(near);
    let mut rest = Vec::new();
    far.read_to_end(&mut rest).unwrap();
    assert!(!rest.ends_with(b"0\r\n\r\n"));
}

const VALGRIND: [&str; 9] = [
    "valgrind",
    "--quiet",
    "--error-exitcode=9",
    "--leak-check=full",
    "--errors-for-leak-kinds=definite",
    "--show-leak-kinds=definite",
    "--track-fds=no",
    "--trace-children=no",
    "--child-silent-after-fork=yes",
];

const CHECKED: [&str; 4] = ["put_str.c", "stdio.c", "streams.c", "threads.c"];

/// Asks it on each way, and has it end well.
fn is_clean(program: Program, name: &str, more: &[(&str, &str)]) {
    for way in [Way::Plain, Way::PassFd, Way::SharedMemory] {
        let mut asker = program.ask(way);
        for size in ["10", "100000"] {
            let params = [&[("QUERY_STRING", size), ("TOKEN", "t"), ("CONTENT_LENGTH", "7")], more].concat();
            asker.request(Role::Responder, &params, b"abc\ndef", b"");
        }
    }
    let status = program.end();
    assert!(status.success(), "{name}: {status}");
}

#[test]
fn programs_are_clean_under_valgrind() {
    for source in CHECKED {
        is_clean(Program::start_by(source, Library::Ours, &VALGRIND), source, &[]);
    }
}

#[test]
fn fcgiwrap_is_clean_under_valgrind() {
    let (program, script) = fcgiwrap_by(Library::Ours, &VALGRIND);
    is_clean(program, "fcgiwrap", &[("SCRIPT_FILENAME", &script), ("REQUEST_METHOD", "POST")]);
}

/// The programs are instrumented, and what they and the library have of the heap is checked, leaks included;
/// the library's own code is where that was built so (`scripts/asan`).
#[test]
fn programs_are_clean_under_the_address_sanitizer() {
    for source in CHECKED {
        let directory = tempfile::tempdir().unwrap();
        let sanitized =
            ["-lfcgi", "-pthread", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        let program = compile(source, directory.path(), &sanitized);
        is_clean(Program::run(directory, &program, Library::Ours, &[]), source, &[]);
    }
}

#[test]
fn the_library_shows_what_the_distributions_does() {
    let shown = |library: &Path| {
        let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let of_line = |line: &str| line.split_once(' ').map(|(_, rest)| rest.to_owned());
        text.lines().filter_map(of_line).collect::<Vec<_>>()
    };
    let name = |library: &Path| {
        let output = Command::new("readelf").arg("-d").arg(library).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().find(|line| line.contains("(SONAME)")).unwrap().split('[').nth(1).unwrap().to_owned()
    };
    // Where the linker finds it, whatever this machine's directories are called.
    let found = Command::new("cc").arg("-print-file-name=libfcgi.so").output().unwrap().stdout;
    let theirs = PathBuf::from(String::from_utf8(found).unwrap().trim()).canonicalize().unwrap();
    let ours = LIBRARY.as_path().join("libfcgi.so.0");
    assert!(shown(&theirs).len() > 50);
    assert_eq!(shown(&ours), shown(&theirs));
    assert_eq!(name(&ours), name(&theirs));
}

const FCGIWRAP: &str = "/usr/sbin/fcgiwrap";
const SCRIPT: &str = r#"#!/bin/sh
printf 'Content-Type: text/plain\r\nX-Query: %s\r\n\r\n' "$QUERY_STRING"
cat
head -c "${QUERY_STRING:-0}" /dev/zero | tr '\0' x
"#;

fn fcgiwrap(library: Library) -> (Program, String) {
    fcgiwrap_by(library, &[])
}

fn fcgiwrap_by(library: Library, by: &[&str]) -> (Program, String) {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    fs::write(&script, SCRIPT).unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = Program::run(directory, Path::new(FCGIWRAP), library, by);
    (program, script.to_str().unwrap().to_owned())
}

#[test]
fn fcgiwrap_says_the_same_on_every_way() {
    for (library, way) in WAYS {
        let (program, script) = fcgiwrap(library);
        let mut asker = program.ask(way);
        for size in [0_usize, 10, 300_000] {
            let query = size.to_string();
            let params = [
                ("SCRIPT_FILENAME", script.as_str()),
                ("QUERY_STRING", &query),
                ("REQUEST_METHOD", "POST"),
                ("CONTENT_LENGTH", "9"),
            ];
            let outcome = asker.request(Role::Responder, &params, b"the body\n", b"");
            let expected = [b"the body\n", "x".repeat(size).as_bytes()].concat();
            assert!(body_of(&outcome.reply) == expected, "{library:?}, {way:?}, {size}");
            let head = String::from_utf8_lossy(&outcome.reply[..head_end(&outcome.reply)]);
            assert!(head.contains(&format!("X-Query: {size}\r\n")), "{head}");
            assert_eq!((outcome.errors.as_str(), outcome.exit), ("", 0));
        }
        if way != Way::PassFd {
            let params = [("SCRIPT_FILENAME", "/nonexistent/script"), ("REQUEST_METHOD", "GET")];
            let outcome = asker.request(Role::Responder, &params, b"", b"");
            assert!(outcome.reply.starts_with(b"Status: 403"), "{library:?}, {way:?}");
        }
    }
}

/// A web server, and the directory that its socket is in.
struct Nginx(Child, TempDir);

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Nginx {
    /// Which asks a program by its socket, with a script's name where that needs one.
    fn start(application: &Path, script: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().display();
        let temporary = |what: &str| format!("{what}_temp_path {at}/{what};");
        let configuration = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/errors; events {{}}
            http {{ access_log off; {} {} {} {} {}
            server {{ listen unix:{at}/http; location / {{ fastcgi_pass unix:{}; fastcgi_keep_conn on;
            fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param CONTENT_LENGTH $content_length; fastcgi_param TOKEN $arg_token;
            fastcgi_param SCRIPT_FILENAME \"{script}\"; }} }} }}",
            temporary("client_body"),
            temporary("proxy"),
            temporary("fastcgi"),
            temporary("uwsgi"),
            temporary("scgi"),
            application.display(),
        );
        fs::write(directory.path().join("conf"), configuration).unwrap();
        let child = Command::new("nginx")
            .arg("-p")
            .arg(directory.path())
            .arg("-c")
            .arg(directory.path().join("conf"))
            .spawn()
            .expect("nginx");
        let mut this = Self(child, directory);
        // The socket is there before anybody listens at it.
        while std::os::unix::net::UnixStream::connect(this.1.path().join("http")).is_err() {
            assert!(this.0.try_wait().unwrap().is_none(), "nginx has ended");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        this
    }

    fn ask(&self, query: &str, body: &str) -> Vec<u8> {
        let mut client = std::os::unix::net::UnixStream::connect(self.1.path().join("http")).unwrap();
        let length = body.len();
        write!(client, "POST /?{query} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).unwrap();
        assert!(reply.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&reply));
        body_of(&reply).to_vec()
    }
}

#[test]
fn another_web_server_has_the_same_from_it() {
    let program = Program::start("put_str.c", Library::Ours);
    let nginx = Nginx::start(&program.socket(), "");
    for _ in 0..3 {
        assert!(nginx.ask("500000,3,0", "") == letters(500_000));
    }
    let program = Program::start("stdio.c", Library::Ours);
    let nginx = Nginx::start(&program.socket(), "");
    assert!(String::from_utf8(nginx.ask("q", "line\n")).unwrap().contains("first=line\n"));
    let (program, script) = fcgiwrap(Library::Ours);
    let nginx = Nginx::start(&program.socket(), &script);
    assert_eq!(nginx.ask("3", "body\n"), b"body\nxxx");
    let program = Program::start("threads.c", Library::Ours);
    let nginx = Nginx::start(&program.socket(), "");
    std::thread::scope(|scope| {
        for token in 0..5 {
            let nginx = &nginx;
            scope.spawn(move || {
                for _ in 0..20 {
                    // atol() takes the number in front.
                    let body = nginx.ask(&format!("30&token=t{token}"), "");
                    assert_eq!(body, format!("t{token}\n").repeat(30).as_bytes());
                }
            });
        }
    });
}
