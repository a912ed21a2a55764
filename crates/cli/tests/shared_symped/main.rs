//! Shared-SYMPED under the kill: workers that have everything in common, and die at any moment.

mod garbage;
mod generations;
mod stopped;

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::client::{Broken, Client};
use harness::server::{Server, Setup, children, open_descriptors};
use harness::site::HELLO;
use harness::variant::{Variant, raise_descriptor_limit};
use harness::{Random, TIMEOUT, eventually, sleep_ms};
use rustix::process::{Pid, Signal, kill_process};

const SHARED: Variant = Variant {
    name: "shared_symped",
    options: &["--architecture=shared-symped", "--workers=3", "--events=epoll"],
};

/// Partitioned: two copies in one descriptor table, each with an address.
const PARTITIONED: Variant = Variant {
    name: "shared_symped_copies",
    options: &[
        "--architecture=shared-symped",
        "--workers=2",
        "--copies=2",
        "--copies-by=address",
        "--events=epoll",
    ],
};

/// Files that the table has no room for all of, so that names come and go all the time.
const FILES: usize = 200;
const ROOM: usize = 48;

/// Nobody could take one for another, and every third is too large to be sent from memory.
fn content(file: usize) -> Vec<u8> {
    let len = if file.is_multiple_of(3) { 40_000 } else { 900 };
    Random(file as u64).bytes(len + file)
}

fn start() -> Server {
    stock(Setup::new(&SHARED)).start()
}

fn stock(setup: Setup) -> Setup {
    raise_descriptor_limit();
    let setup = setup.config(&format!("[files]\nmax_open = {ROOM}\nvalidity = \"50 ms\""));
    (0..FILES).fold(setup, |setup, file| setup.file(&format!("many/{file}.bin"), content(file)))
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).expect("a process"), Signal::KILL).expect("the worker is there");
}

/// Kills the worker of that number, and waits until there is another; says how long that took.
fn replace_worker(server: &Server, number: usize) -> Duration {
    let workers = server.workers();
    let began = Instant::now();
    kill(workers[number]);
    eventually("the worker is back", || {
        let now = server.workers()[number];
        now != 0 && now != workers[number]
    });
    began.elapsed()
}

/// Asks for files in no order, on one connection after another, until told to stop. What comes must be right;
/// that connections break is to be expected.
fn keep_asking(address: SocketAddr, seed: u64, stop: &AtomicBool, served: &AtomicUsize) {
    let mut random = Random(seed);
    while !stop.load(Ordering::Relaxed) {
        let mut client = Client::connect(address);
        for _ in 0..20 {
            let file = random.below(FILES);
            let path = format!("/many/{file}.bin");
            if !client.try_send(harness::client::request("GET", &path, &[])) {
                break;
            }
            match client.try_reply() {
                Ok(reply) if reply.status == 503 => {}
                Ok(reply) => {
                    assert_eq!(reply.status, 200, "{path}");
                    assert!(reply.body == content(file), "{path} is another file's");
                    served.fetch_add(1, Ordering::Relaxed);
                }
                Err(Broken::Closed | Broken::Reset | Broken::CutShort(_)) => break,
                Err(broken) => panic!("{path}: {broken:?}"),
            }
        }
    }
}

/// Descriptors beside those of the open-file table.
fn beside_files(server: &Server) -> usize {
    let status = server.status();
    let files = status["workers"][0]["file_table_descriptors"].as_u64().expect("a number") as usize;
    server.descriptors() - files
}

/// Connections of each worker that are open.
fn open_connections(server: &Server) -> Vec<u64> {
    let status = server.status();
    let number = |worker: &serde_json::Value, name: &str| worker[name].as_u64().expect("a number");
    let workers = status["workers"].as_array().expect("workers").iter();
    workers
        .map(|worker| number(worker, "connections_opened") - number(worker, "connections_closed"))
        .collect()
}

/// The clients of a killed worker, and no others, see their connections closed.
#[test]
fn a_killed_worker_takes_its_own_clients_along() {
    let server = start();
    server.warm_up();
    let mut clients: Vec<Client> = (0..60).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.ask("GET", "/hello.txt", &[]);
    }
    assert!(clients.iter_mut().all(|client| client.reply().status == 200));
    eventually("the others are gone", || open_connections(&server).iter().sum::<u64>() == 60);
    let open = open_connections(&server);
    let victim = (0..open.len()).max_by_key(|&worker| open[worker]).expect("workers");
    let began = Instant::now();
    kill(server.workers()[victim]);
    sleep_ms(1_000);
    let mut closed = 0;
    for mut client in clients {
        match client.try_reply_within(Duration::from_millis(1)) {
            Err(Broken::Closed | Broken::Reset) => closed += 1,
            _ => assert_eq!(client.get("/hello.txt").text(), HELLO, "a client of another worker"),
        }
    }
    assert_eq!(closed, open[victim], "{open:?} after {:?}", began.elapsed());
    assert!(closed > 0);
}

/// Workers are killed again and again while names come and go in the table. The connections of one that is
/// not killed go on, whatever is answered is the right file, and nothing is left in the end.
#[test]
fn killed_again_and_again_under_load() {
    let server = start();
    let address = server.address;
    server.warm_up();
    // Which connections are of the worker that is spared: those that outlive the others.
    let mut bystanders: Vec<Client> = (0..60).map(|_| server.connect()).collect();
    for client in &mut bystanders {
        assert_eq!(client.get("/hello.txt").status, 200);
    }
    let open = open_connections(&server);
    let spared = (0..open.len()).max_by_key(|&worker| open[worker]).expect("workers");
    let victims: Vec<usize> = (0..open.len()).filter(|&worker| worker != spared).collect();
    for &victim in &victims {
        replace_worker(&server, victim);
    }
    sleep_ms(1_000);
    bystanders.retain_mut(|client| {
        !matches!(client.try_reply_within(Duration::from_millis(1)), Err(Broken::Closed | Broken::Reset))
    });
    assert!(!bystanders.is_empty());
    eventually("the rest are gone", || {
        open_connections(&server).iter().sum::<u64>() == bystanders.len() as u64
    });
    let before = beside_files(&server);

    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut slowest = Duration::ZERO;
    thread::scope(|scope| {
        for seed in 0..6 {
            let (stop, answered) = (&stop, &answered);
            scope.spawn(move || keep_asking(address, seed, stop, answered));
        }
        let mut random = Random(3);
        for round in 0..100 {
            sleep_ms(random.below(30) as u64);
            slowest = slowest.max(replace_worker(&server, victims[round % 2]));
            let one = round % bystanders.len();
            assert_eq!(bystanders[one].get("/hello.txt").text(), HELLO, "round {round}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(answered.load(Ordering::Relaxed) > 100, "{answered:?}");
    for client in &mut bystanders {
        assert_eq!(client.get("/hello.txt").text(), HELLO);
    }
    eventually("the others' connections are closed", || {
        open_connections(&server).iter().sum::<u64>() == bystanders.len() as u64
    });
    let mut after = 0;
    let began = Instant::now();
    while began.elapsed() < TIMEOUT && after != before {
        after = beside_files(&server);
        sleep_ms(50);
    }
    assert_eq!(after, before, "descriptors beside those of files");
    // The table is usable: every file is still answered right.
    let mut client = server.connect();
    for file in 0..FILES {
        assert!(client.get(&format!("/many/{file}.bin")).body == content(file), "{file}");
    }
    println!("{answered:?} replies; a worker was back after {slowest:?} at the latest");
}

/// Each copy has open files of its own in the descriptor table that all have in common. What dies in one is
/// nothing to the other.
#[test]
fn copies_keep_their_files_apart() {
    let setup = stock(Setup::new(&PARTITIONED));
    let server = setup.argument("--listen=127.0.0.1:0").argument("--listen=127.0.0.2:0").start();
    let addresses = server.addresses();
    let ask_for = |copy: usize, files: usize| {
        let mut client = Client::connect(addresses[copy]);
        for file in 0..files {
            assert!(client.get(&format!("/many/{file}.bin")).body == content(file), "{file}");
        }
    };
    ask_for(0, 10);
    ask_for(1, 20);
    let entries = || -> Vec<u64> {
        let status = server.status();
        let workers = status["workers"].as_array().expect("workers").iter();
        workers.map(|worker| worker["file_table_entries"].as_u64().expect("a number")).collect()
    };
    eventually("the first of each copy tells what its table holds", || entries() == [10, 0, 20, 0]);
    let mut bystanders: Vec<Client> = (0..10).map(|_| Client::connect(addresses[1])).collect();
    for round in 0..20 {
        replace_worker(&server, round % 2);
        for client in &mut bystanders {
            assert_eq!(client.get("/hello.txt").text(), HELLO, "round {round}");
        }
        ask_for(0, FILES);
    }
    ask_for(1, 20);
    // Nothing but what the bystanders asked for.
    eventually("the other table is as it was", || entries()[2] == 21);
    assert!(server.count("file_table_entries") <= ROOM as u64 + 21);
}

/// The process that answers for the status.
fn status_process(server: &Server) -> u32 {
    let workers = server.workers();
    let mut others = children(server.pid()).into_iter().filter(|pid| !workers.contains(pid));
    others.next().expect("a status process")
}

/// Settings anew: other workers, who answer, and none of those before when they have answered the last client
/// of theirs.
fn reload(server: &Server) {
    let mut client = server.connect();
    assert_eq!(client.get("/hello.txt").status, 200);
    let workers: HashSet<u32> = server.workers().into_iter().collect();
    server.signal(Signal::HUP);
    eventually("others serve", || server.workers().iter().all(|pid| *pid != 0 && !workers.contains(pid)));
    server.warm_up();
    assert_eq!(client.get("/hello.txt").status, 200);
    drop(client);
    // The status process before is another that has to go.
    eventually("the old ones are gone", || children(server.pid()).len() == server.workers().len() + 1);
    assert!(children(server.pid()).iter().all(|pid| !workers.contains(pid)));
}

/// What the status process has open, but for what it wakes others with: it also has copies of what workers
/// were woken by that retired when it was started, unless their numbers have gone to workers since.
fn held_by_status_process(server: &Server) -> usize {
    let held = fs::read_dir(format!("/proc/{}/fd", status_process(server))).into_iter().flatten().flatten();
    let links = held.filter_map(|entry| fs::read_link(entry.path()).ok());
    let (wakes, others): (Vec<_>, Vec<_>) =
        links.partition(|link| link.as_os_str() == "anon_inode:[eventfd]");
    assert!(wakes.len() <= 2 + 2 * server.workers().len(), "{wakes:?}");
    others.len()
}

/// Reloads leave nothing, neither in the common descriptor table nor in the status process, which begins with
/// a copy of it.
#[test]
fn nothing_is_left_of_generations() {
    let server = start();
    server.warm_up();
    reload(&server);
    eventually("nobody is there", || open_connections(&server).iter().sum::<u64>() == 0);
    let level = || {
        (beside_files(&server) - open_descriptors(status_process(&server)), held_by_status_process(&server))
    };
    let before = level();
    for _ in 0..6 {
        reload(&server);
    }
    let mut after = (0, 0);
    let began = Instant::now();
    while began.elapsed() < TIMEOUT && after != before {
        after = level();
        sleep_ms(50);
    }
    assert_eq!(after, before, "descriptors beside those of files, and of the status process");
}

/// A worker that is killed while it answers leaves its replies unfinished, and its files to the others.
#[test]
fn a_reply_under_way_ends_with_its_worker() {
    raise_descriptor_limit();
    let setup = Setup::new(&SHARED).file("big.bin", harness::site::pattern(6, 4 << 20));
    let server = setup.config("[tcp]\nsend_buffer = \"64 KiB\"").start();
    let mut slow = Client::connect_narrow(server.address);
    slow.ask("GET", "/big.bin", &[]);
    let beginning = slow.read_raw(1000).expect("a beginning");
    slow.unread(beginning);
    for worker in 0..3 {
        replace_worker(&server, worker);
    }
    assert!(matches!(slow.try_reply(), Err(Broken::Reset | Broken::CutShort(_))));
    assert!(server.get("/big.bin").body == harness::site::pattern(6, 4 << 20));
}
