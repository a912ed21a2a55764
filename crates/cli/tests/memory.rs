//! `sluice memory`: the model of a running server's memory against what the kernel says of its processes.

use std::fs;
use std::process::{Command, ExitCode, Output};
use std::sync::{Mutex, PoisonError};

use harness::client::Client;
use harness::eventually;
use harness::server::{Server, Setup};
use harness::variant::{TLS, Test, Variant, tests};
use serde_json::Value;

const TESTS: &[Test] = tests![
    Each: model;
    // What a mechanism keeps for each connection is in the model.
    Drivers: growth;
    One: text, sessions, nobody_there;
];

fn main() -> ExitCode {
    harness::variant::run(&[("memory", TESTS)])
}

/// Files of the root that are not the standard site's.
const FILES: usize = 40;

fn start(variant: &Variant) -> Server {
    let files = (0..FILES).map(|n| (format!("{n}.bin"), vec![b'x'; 2000 + 10 * n]));
    // Thousands of connections take more than the usual minute to come, on a busy machine.
    let setup = Setup::new(variant).config("[timeouts]\nidle = \"10 min\"");
    files.fold(setup, |setup, (name, content)| setup.file(&name, content)).start()
}

/// Waits until no other server shares the pages of the program's file.
fn is_alone(server: &Server) {
    eventually("the server of the test before is gone", || {
        let own = server.processes();
        those_of_the_program().all(|pid| own.contains(&pid))
    });
}

/// Processes that run the program, also those that are about to end.
fn those_of_the_program() -> impl Iterator<Item = u32> {
    let processes = fs::read_dir("/proc").expect("processes").filter_map(Result::ok);
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let program = |pid: &u32| fs::read_link(format!("/proc/{pid}/exe"));
    pids.filter(move |pid| program(pid).is_ok_and(|file| file == *env!("CARGO_BIN_EXE_sluice")))
}

/// How many connections a test may hold at once of those that it wants: some architectures have few workers,
/// and take no more.
fn at_most(variant: &Variant, count: usize) -> usize {
    if variant.serves_one_at_a_time() { count.min(15) } else { count }
}

/// Connections that are kept alive after a request each.
fn hold(server: &Server, connections: &mut Vec<Client>, count: usize) {
    while connections.len() < count {
        let mut client = server.connect();
        assert_eq!(client.get(&format!("/{}.bin", connections.len() % FILES)).status, 200);
        connections.push(client);
    }
    eventually("all are idle", || server.count("connections/idle") as usize == count);
}

/// One test at a time: another server of the same program shares the pages of its file, and descriptors are
/// few.
static ALONE: Mutex<()> = Mutex::new(());

fn sluice(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluice")).arg("memory").args(arguments).output().expect("it runs")
}

fn endpoint(server: &Server) -> String {
    format!("unix:{}", server.directory().join("status").display())
}

fn memory(server: &Server) -> Value {
    let output = sluice(&[&endpoint(server), "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn number(memory: &Value, path: &str) -> u64 {
    memory.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path}: {memory:#}"))
}

/// A row of `smaps_rollup` of all processes of the server together, in bytes.
fn rollup(server: &Server, names: &[&str]) -> u64 {
    let of = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("a rollup");
        let rows = text.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
        rows.map(|row| row.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).expect("a number"))
            .sum::<u64>()
    };
    server.processes().into_iter().map(of).sum::<u64>() * 1024
}

/// Whether one number is that of another, give or take some percent.
fn is_about(found: u64, expected: u64, percent: u64) -> bool {
    found.abs_diff(expected) * 100 <= expected * percent
}

/// What the formula of an idle server says of one with a thousand connections is so.
fn model(variant: &Variant) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let server = start(variant);
    is_alone(&server);
    let mut connections = Vec::new();
    hold(&server, &mut connections, 10);
    let idle = memory(&server);
    let (connection, worker) = (number(&idle, "/connections/each"), number(&idle, "/workers/each"));
    let (file, once) = (number(&idle, "/files/each"), number(&idle, "/once"));
    let digits: String = idle["formula"].as_str().expect("a formula").replace(',', "");
    let threads = idle["threads"]["each"].as_u64().map_or_else(String::new, |each| format!(" + t*{each}"));
    assert_eq!(digits, format!("memory = c*{connection}{threads} + p*({worker}) + f*{file} + {once}"));
    assert!((100..2000).contains(&connection), "{idle:#}");
    assert!(file >= 2000, "{idle:#}");
    assert!(number(&idle, "/workers/each_at_start") > 4096, "{idle:#}");

    let many = at_most(variant, 1000);
    hold(&server, &mut connections, many);
    let loaded = memory(&server);
    assert_eq!(number(&loaded, "/connections/open"), many as u64);
    let (places, entries) = (number(&loaded, "/connections/places"), number(&loaded, "/files/entries"));
    let count = number(&loaded, "/workers/count");
    assert!(places >= many as u64 && entries >= 10, "{loaded:#}");
    let predicted = places * connection + count * worker + entries * file + once;
    let used = rollup(&server, &["Pss:"]);
    assert!(is_about(predicted, used, 25), "{predicted} for {used}: {idle:#} {loaded:#}");
    assert!(is_about(number(&loaded, "/measured"), used, 5), "{used}: {loaded:#}");
    assert!(is_about(number(&loaded, "/sum"), used, 5), "{used}: {loaded:#}");
}

/// A connection takes what the sizes of its parts say.
fn growth(variant: &Variant) {
    if variant.serves_one_at_a_time() {
        return; // Nothing grows with connections.
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Threads that are busy for the first time while connections come, on a busy machine more of them, have
    // what they take in the growth.
    let mut said = Vec::new();
    while let Err(wrong) = grow(variant) {
        said.push(wrong);
        assert!(said.len() < 3, "{said:#?}");
    }
}

/// Bytes of its stack and its heap that a thread touches with its first request: a guess.
const FIRST_TOUCHED: u64 = 32 << 10;

fn threads(server: &Server) -> u64 {
    let tasks = |pid| fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    server.workers().into_iter().map(tasks).sum::<usize>() as u64
}

/// Whether a new server's growth with its connections is what it says of them, and what is wrong otherwise.
fn grow(variant: &Variant) -> Result<(), String> {
    let server = start(variant);
    let mut connections = Vec::new();
    // Pages of the program's file are not among these, which are dirty when it has just been built.
    let own = || rollup(&server, &["Anonymous:"]);
    hold(&server, &mut connections, 500);
    let (before, places_before) = (own(), number(&memory(&server), "/connections/places"));
    hold(&server, &mut connections, 4500);
    let (after, memory) = (own(), memory(&server));
    let growth = (after - before) / (number(&memory, "/connections/places") - places_before);
    let each = number(&memory, "/connections/each");
    // What the first requests took is in the server's own: so are stacks and heaps of helpers.
    let of_threads = threads(&server) * FIRST_TOUCHED / number(&memory, "/connections/open");
    let by_growth = number(&memory, "/connections/each_by_growth");
    let is_right = is_about(growth, each, 25)
        && (is_about(by_growth, each, 40) || is_about(by_growth.saturating_sub(of_threads), each, 40));
    if is_right { Ok(()) } else { Err(format!("{growth} by growth: {memory:#}")) }
}

fn text(variant: &Variant) {
    let server = start(variant);
    assert_eq!(server.get("/0.bin").status, 200);
    let output = sluice(&[&endpoint(&server)]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let terms =
        ["memory = c*", "c connections ", "p workers ", "f cached files ", "once ", "sum ", "measured "];
    for start in terms {
        assert!(text.lines().any(|line| line.starts_with(start)), "{start}\n{text}");
    }
    let processes = server.processes().len();
    let rows = text
        .lines()
        .filter(|line| ["worker ", "supervisor ", "other "].iter().any(|role| line.starts_with(role)));
    assert_eq!(rows.count(), processes, "{text}");
}

/// The term of TLS sessions is what they take: without it, the term of workers would grow with them.
fn sessions(variant: &Variant) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let server = start(&variant.over_tls(TLS[0]));
    let mut connections = Vec::new();
    hold(&server, &mut connections, 100);
    let few = memory(&server);
    hold(&server, &mut connections, 2100);
    let many = memory(&server);
    assert_eq!(number(&many, "/sessions/open"), 2100);
    let each = number(&many, "/sessions/each");
    let workers = |memory: &Value| number(memory, "/workers/each") * number(memory, "/workers/count");
    let growth = (workers(&many) + 2000 * each - workers(&few)) / 2000;
    let aside = server.count("tls_handshakes_aside");
    assert!(is_about(growth, each, 15), "{growth}, {aside} aside: {few:#} {many:#}");
}

fn nobody_there(_variant: &Variant) {
    let output = sluice(&["unix:/nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("sluice: no status from unix:/nowhere"));
}
