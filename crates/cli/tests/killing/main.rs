//! Processes of the server are killed at any moment, and take nothing with them but their own clients'
//! connections.
//!
//! `SLUICE_KILLS` says how often a worker is killed under load (default: 5).

mod crowd;

use std::collections::HashSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use harness::client::{Broken, Client, connect_within, request};
use harness::over_tls::{self, PlainOnly};
use harness::server::{Server, Setup, children, family, memory, open_descriptors, state, stop};
use harness::site::{HELLO, pattern};
use harness::variant::{self, Test, Topic, VARIANTS, Variant, tests};
use harness::{Random, TIMEOUT, eventually, owners, sleep_ms};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use crowd::{Crowd, check_all_files, stock, strangers};

const TESTS: &[Test] = tests![
    workers_under_load,
    all_workers_at_once,
    workers_just_started,
    processes_during_reload,
    worker_during_drain,
    status_process,
    supervisor,
    no_descriptor_left,
    ignored_signals_are_not_inherited,
];

const PLAIN_ONLY: &[PlainOnly] = &[
    ("killing::workers_just_started", "no client is connected when they die"),
    ("killing::processes_during_reload", "the supervisor decides it"),
    ("killing::status_process", "no client is its own"),
    ("killing::no_descriptor_left", "the supervisor decides it"),
    ("killing::ignored_signals_are_not_inherited", "the supervisor decides it"),
];

fn main() -> ExitCode {
    let topics: &[Topic] = &[("killing", TESTS)];
    let mut trials = variant::trials(&one_mechanism(), topics, "stream");
    trials.extend(over_tls::trials(topics, &over_tls::FEW, PLAIN_ONLY));
    variant::conclude(trials)
}

/// How a process waits for events makes no difference when it is killed.
fn one_mechanism() -> Vec<Variant> {
    let mut variants: Vec<Variant> = Vec::new();
    for variant in VARIANTS {
        if variants.iter().all(|known| known.without_mechanism() != variant.without_mechanism()) {
            variants.push(*variant);
        }
    }
    variants
}

/// Memory that the whole of the processes may differ by, and the supervisor, which lives through it all.
const NOISE: u64 = 4 << 20;
const SUPERVISORS_NOISE: u64 = 512 << 10;

fn kill(pid: u32) {
    let pid = Pid::from_raw(pid as i32).expect("a process");
    kill_process(pid, Signal::KILL).expect("the process is there");
}

/// Waits for what should happen within a second, and does on a machine that has nothing else to do; says how
/// long after `since` it did.
#[track_caller]
fn soon(what: &str, since: Instant, happened: impl FnMut() -> bool) -> Duration {
    eventually(what, happened);
    since.elapsed()
}

/// A worker is there again in the place of each that was killed, and answers.
fn workers_are_back(server: &Server, killed: &[u32]) -> bool {
    let status = server.status();
    let workers = status["workers"].as_array().expect("workers");
    workers.iter().all(|worker| {
        let pid = worker["pid"].as_u64().expect("a number") as u32;
        pid != 0 && !killed.contains(&pid) && worker["responsive"] == true
    })
}

/// The clients, by their ports, that each of these processes serves, itself or by those that it has made.
fn clients_of(server: &Server, processes: &[u32]) -> Vec<(u32, HashSet<u16>)> {
    let sockets = |process: u32| -> HashSet<u64> {
        if server.common_descriptors {
            owners::sockets_waited_for(process)
        } else {
            family(process).into_iter().flat_map(owners::sockets).collect()
        }
    };
    let sockets: Vec<_> = processes.iter().map(|&process| (process, sockets(process))).collect();
    // The kernel takes its time for this one. It lists a part at a time, and may leave out one connection of
    // those that share a place in its table, if another of them ends between two parts: so it is asked twice.
    let mut connections = server.connections();
    connections.extend(server.connections());
    let clients = |theirs: HashSet<u64>| {
        connections.iter().filter(|(_, inode)| theirs.contains(inode)).map(|(&port, _)| port).collect()
    };
    sockets.into_iter().map(|(process, theirs)| (process, clients(theirs))).collect()
}

/// What a server holds when it has no clients.
struct Level {
    /// Without those in the tables of open files, which are fuller the longer a worker has lived.
    descriptors: usize,
    workers: usize,
    memory: u64,
    supervisors: (usize, u64),
}

impl Level {
    /// Only when the clients are gone, or going.
    fn of(server: &Server) -> Self {
        eventually("no connection is left", || {
            let status = server.status();
            status["total"]["connections_opened"] == status["total"]["connections_closed"]
        });
        let supervisors = (open_descriptors(server.pid()), memory(server.pid()));
        let files = server.count("file_table_descriptors") as usize;
        let (descriptors, workers) = (server.descriptors() - files, server.workers().len());
        Self { descriptors, workers, memory: server.memory(), supervisors }
    }

    fn has_not_risen_since(&self, before: &Self) {
        // One more may be of whoever told the status, and a few of workers that have not told what their
        // tables hold.
        let most = before.descriptors + 1 + self.workers / 4;
        assert!(self.descriptors <= most, "{} before, {}", before.descriptors, self.descriptors);
        assert!(self.memory < before.memory + NOISE, "{} bytes before, {}", before.memory, self.memory);
        let (was, is) = (before.supervisors, self.supervisors);
        assert!(is.0 <= was.0 && is.1 <= was.1 + SUPERVISORS_NOISE, "supervisor: {was:?} before, {is:?}");
    }
}

/// The longest that anything took.
#[derive(Debug, Default)]
struct Worst {
    clients_closed: Duration,
    worker_back: Duration,
}

/// Everybody but the clients of the worker that was killed is served on as if nothing had happened.
fn workers_under_load(variant: &Variant) {
    let kills = std::env::var("SLUICE_KILLS").map_or(5, |count| count.parse().expect("a number of kills"));
    let server = stock(Setup::new(variant)).start();
    let mut random = Random(7);
    let (mut worst, mut lost, mut unharmed) = (Worst::default(), 0, 0);
    let mut go_on = |times: usize| {
        let crowd = Crowd::gather(&server);
        for _ in 0..times {
            let (victims, others) = kill_one(&server, &crowd, &mut random, &mut worst);
            lost += victims;
            unharmed += others;
        }
        crowd.disperse();
        check_all_files(&server);
        Level::of(&server)
    };
    let before = go_on(5);
    let after = go_on(kills);
    after.has_not_risen_since(&before);
    // Several workers may be in one process.
    assert!(server.count("restarts") >= 5 + kills as u64);
    assert_eq!(server.count("errors/accept_exhausted"), 0);
    eprintln!("{}: {lost} connections lost, {unharmed} not; {worst:?} in {kills} kills", variant.name);
    assert!(lost > kills);
    assert!(server.workers().len() == 1 || unharmed > kills);
}

/// How many connections were its own, and how many others'.
fn kill_one(server: &Server, crowd: &Crowd, random: &mut Random, worst: &mut Worst) -> (usize, usize) {
    crowd.is_served();
    crowd.forget_losses();
    crowd.hold(true);
    let (mut ports, mut by_worker) = (HashSet::new(), Vec::new());
    // One that has just connected may still be in the queue. Where CPUs are scarce, some are told to close
    // all the time, and wait then: whoever is connected after workers were looked at has been seen there.
    eventually("each regular has one worker", || {
        by_worker = clients_of(server, &server.workers());
        ports = crowd.ports().into_iter().collect();
        for (_, clients) in &mut by_worker {
            let clients: &mut HashSet<u16> = clients;
            clients.retain(|port| ports.contains(port));
        }
        if ports.is_empty() {
            crowd.hold(false);
            crowd.is_served();
            crowd.hold(true);
        }
        !ports.is_empty() && by_worker.iter().map(|(_, clients)| clients.len()).sum::<usize>() == ports.len()
    });
    // The one that has fewest, so that there are others.
    let with_clients = by_worker.into_iter().filter(|(_, clients)| !clients.is_empty());
    let (victim, clients) = with_clients.min_by_key(|(_, clients)| clients.len()).expect("somebody serves");
    sleep_ms(random.below(20) as u64);

    let began = Instant::now();
    kill(victim);
    // Where CPUs are scarce nobody may be free for a moment, so that one of them was to end just then anyhow.
    soon("the clients of the worker that was killed are closed", began, || {
        crowd.ports().into_iter().all(|port| !clients.contains(&port))
    });
    let back = soon("the worker is back", began, || workers_are_back(server, &[victim]));
    crowd.hold(false);
    crowd.is_served();

    for loss in crowd.losses() {
        assert!(clients.contains(&loss.port), "not a client of {victim}, and lost: {loss:?}");
        assert_ne!(loss.how, Broken::Silent, "the end of the connection was not noticed");
        worst.clients_closed = worst.clients_closed.max(loss.at.saturating_duration_since(began));
    }
    worst.worker_back = worst.worker_back.max(back);
    // Any of them may have been the victim's client, but nobody can have been so twice.
    let strangers_losses = crowd.strangers_losses();
    assert!(strangers_losses.len() <= strangers(), "{strangers_losses:?}");
    (clients.len(), ports.len() - clients.len())
}

fn all_workers_at_once(variant: &Variant) {
    let server = stock(Setup::new(variant)).start();
    let crowd = Crowd::gather(&server);
    for _ in 0..3 {
        crowd.is_served();
        let workers = server.workers();
        let began = Instant::now();
        workers.iter().copied().for_each(kill);
        soon("all workers are back", began, || workers_are_back(&server, &workers));
    }
    crowd.is_served();
    crowd.disperse();
    check_all_files(&server);
}

/// A server that has served goes on trying, however soon its workers die.
fn workers_just_started(variant: &Variant) {
    let server = Server::start(variant);
    assert_eq!(server.get("/hello.txt").text(), HELLO);
    let mut dead = Vec::new();
    for _ in 0..8 {
        let workers = server.workers();
        workers.iter().copied().for_each(kill);
        soon("all workers are back", Instant::now(), || workers_are_back(&server, &workers));
        dead.extend(workers);
    }
    assert_eq!(server.get("/hello.txt").text(), HELLO);
    eventually("the dead have been reaped", || dead.iter().all(|&pid| state(pid) != Some('Z')));
}

/// The child that is no worker. It is not looked into: that would keep the kernel from doing away with it
/// when it is killed.
fn status_process_of(server: &Server) -> u32 {
    let workers = server.workers();
    let others: Vec<u32> = children(server.pid()).into_iter().filter(|pid| !workers.contains(pid)).collect();
    assert_eq!(others.len(), 1, "{others:?}");
    others[0]
}

/// Whatever the victim is, an old worker or a new one, the new settings hold, and nothing is left of what was
/// before.
fn processes_during_reload(variant: &Variant) {
    let mut server = stock(Setup::new(variant)).start();
    let crowd = Crowd::gather(&server);
    let mut random = Random(8);
    let processes = children(server.pid()).len();
    let refusals = |server: &Server| {
        let said = server.stderr();
        said.iter().filter(|line| line.contains("settings not reloaded: ")).count()
    };
    let mut refused = 0;
    for generation in 0..6 {
        crowd.is_served();
        let text = format!("[[headers]]\nset = {{ X-Generation = \"{generation}\" }}\n");
        server.rewrite_config(&text);
        server.signal(Signal::HUP);
        sleep_ms(random.below(12) as u64);
        let running = children(server.pid());
        let victim = running[random.below(running.len())];
        crowd.forget_losses();
        // Who comes after this may be the victim's client as well.
        let known = crowd.ports_served();
        let (_, clients) = clients_of(&server, &[victim]).remove(0);
        // It may have ended by itself meanwhile.
        let _ = kill_process(Pid::from_raw(victim as i32).expect("a process"), Signal::KILL);
        let generation = generation.to_string();
        // The killed one's threads end one by one, and may let somebody in meanwhile: that may be who looks,
        // too. A new one that is killed before it has come to serve ends the reload, which is asked for
        // again.
        eventually("the new settings hold", || {
            if refusals(&server) > refused {
                refused += 1;
                server.signal(Signal::HUP);
            }
            let mut client = server.connect();
            client.try_send(request("GET", "/hello.txt", &[]));
            let reply = client.try_reply();
            reply.is_ok_and(|reply| reply.field("X-Generation") == Some(generation.as_str()))
        });
        crowd.is_served();
        for loss in crowd.losses() {
            let may_be = clients.contains(&loss.port) || !known.contains(&loss.port);
            assert!(may_be, "not a client of {victim}, and lost: {loss:?}");
        }
        eventually("the generation before is gone", || children(server.pid()).len() == processes);
    }
    crowd.disperse();
    Level::of(&server);
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}

const HUGE: usize = 4 << 20;

/// A client of each of the first workers, that has just begun to receive something big.
fn a_client_of_each(server: &Server) -> Vec<(u32, Client)> {
    let workers = server.workers();
    let go_on = |pid: u32| {
        kill_process(Pid::from_raw(pid as i32).expect("a process"), Signal::CONT).expect("it is there");
    };
    let client = |&worker: &u32| {
        // Nobody else can accept.
        let others: Vec<u32> =
            workers.iter().filter(|&&other| other != worker).flat_map(|&other| family(other)).collect();
        stop(&others);
        // Where the kernel chooses among several listeners it may be somebody else's.
        let client = (0..40).find_map(|_| begin(server)).expect("a client that is served");
        others.into_iter().for_each(go_on);
        (worker, client)
    };
    workers.iter().take(3).map(client).collect()
}

/// A client that has begun to receive, if somebody accepts it.
fn begin(server: &Server) -> Option<Client> {
    let mut client = Client::connect_narrow(server.address);
    client.ask("GET", "/huge.bin", &[]);
    client.stream.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
    let beginning = client.read_raw(1000).ok()?;
    client.stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    client.unread(beginning);
    Some(client)
}

fn lets_in(server: &Server) -> bool {
    connect_within(server.address, Duration::from_millis(100)).is_ok()
}

/// The drain goes on for the others, and comes to its end.
fn worker_during_drain(variant: &Variant) {
    let setup = Setup::new(variant).file("huge.bin", pattern(6, HUGE));
    let mut server = setup.config("[tcp]\nsend_buffer = \"64 KiB\"").start();
    let mut clients = a_client_of_each(&server);
    server.signal(Signal::TERM);
    eventually("nobody is let in", || !lets_in(&server));
    let (victim, mut client) = clients.remove(0);
    kill(victim);
    let end = client.try_reply();
    assert!(matches!(end, Err(Broken::Reset | Broken::CutShort(_))), "{end:?}");
    for (_, mut client) in clients {
        assert!(client.reply().body == pattern(6, HUGE));
        client.expect_close();
    }
    assert_eq!(server.exit_code(), Some(0));
}

/// It comes back, having forgotten nothing; no client notices.
fn status_process(variant: &Variant) {
    let server = stock(Setup::new(variant)).start();
    let crowd = Crowd::gather(&server);
    let mut accepts = server.count("accepts");
    for _ in 0..2 {
        let victim = status_process_of(&server);
        kill(victim);
        // Its socket stays open meanwhile: who asks waits until there is another.
        let now = server.count("accepts");
        assert!(now >= accepts, "{now} after {accepts}");
        assert_ne!(status_process_of(&server), victim);
        accepts = now;
        crowd.is_served();
    }
    assert_eq!(crowd.losses().len() + crowd.strangers_losses().len(), 0);
    crowd.disperse();
    assert_eq!(server.count("restarts"), 0);
}

/// Workers drain by themselves, and nothing is left running.
fn supervisor(variant: &Variant) {
    let setup = stock(Setup::new(variant)).file("huge.bin", pattern(6, HUGE));
    let mut server = setup.start();
    let mut slow = a_client_of_each(&server);
    let crowd = Crowd::gather(&server);
    let processes = server.processes();
    kill(server.pid());
    assert_eq!(server.exit_code(), None);
    for (_, client) in &mut slow {
        assert!(client.reply().body == pattern(6, HUGE));
        client.expect_close();
    }
    drop(slow);
    crowd.outlast();
    eventually("nothing is left", || processes.iter().all(|&pid| matches!(state(pid), None | Some('Z'))));
    assert!(!lets_in(&server));
    let again = Setup::new(variant).in_place_of(&server).start();
    assert_eq!(again.get("/hello.txt").text(), HELLO);
}

/// What can't be started now is started later, and clients wait for it.
fn no_descriptor_left(variant: &Variant) {
    let mut server = Server::start(variant);
    server.warm_up();
    let killed = children(server.pid());
    // What is a worker's in a common table is free when the worker is dead.
    let first_free =
        (0..u64::MAX).find(|&number| is_free(&server, number) || is_of_a_worker(&server, number));
    let first_free = first_free.expect("there are not so many");
    let before = limit_descriptors(&server, Some(first_free));
    killed.iter().copied().for_each(kill);
    // Be it that it is not started or that it can't go on.
    let fails = |line: &str| line.contains("cannot start worker") || line.contains("a worker ends");
    server.wait_for_line(fails);
    server.wait_for_line(|line| line.contains("cannot start the status process"));
    assert!(!server.has_ended());
    let mut client = server.connect();
    client.ask("GET", "/hello.txt", &[]);
    client.expect_silence(100);
    limit_descriptors(&server, before);
    assert_eq!(client.reply().text(), HELLO);
    soon("all workers are back", Instant::now(), || workers_are_back(&server, &killed));
}

/// Whether the supervisor has nothing open under that number.
fn is_free(server: &Server, number: u64) -> bool {
    !Path::new(&format!("/proc/{}/fd/{number}", server.pid())).is_symlink()
}

/// Whether the supervisor has something open that only workers use.
fn is_of_a_worker(server: &Server, number: u64) -> bool {
    let link = std::fs::read_link(format!("/proc/{}/fd/{number}", server.pid())).unwrap_or_default();
    link == Path::new("anon_inode:[eventpoll]") || link == server.root()
}

/// Of the supervisor; gives the limit that was there before.
fn limit_descriptors(server: &Server, current: Option<u64>) -> Option<u64> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let pid = Pid::from_raw(server.pid() as i32);
    prlimit(pid, Resource::Nofile, Rlimit { current, maximum }).expect("a limit can be set").current
}

/// Whoever started it may ignore signals that it needs, which a program inherits.
fn ignored_signals_are_not_inherited(variant: &Variant) {
    let setup = Setup::new(variant);
    let sluice = setup.command();
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", "trap '' CHLD HUP INT TERM USR1; exec \"$0\" \"$@\""]);
    shell.arg(sluice.get_program()).args(sluice.get_args());
    shell.stdin(std::process::Stdio::null());
    shell.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut server = setup.start_as(shell);
    assert_eq!(server.get("/hello.txt").text(), HELLO);
    let workers = server.workers();
    workers.iter().copied().for_each(kill);
    soon("all workers are back", Instant::now(), || workers_are_back(&server, &workers));
    server.signal(Signal::HUP);
    server.wait_for_line(|line| line.contains("reloaded"));
    assert_eq!(server.get("/hello.txt").text(), HELLO);
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(0));
}
