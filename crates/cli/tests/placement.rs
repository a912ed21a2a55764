//! Copies with listeners of their own, CPU sets, and partitioned addresses: what the settings say is what the
//! kernel is told.

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpListener};

use rustix::process::{Pid, Signal, kill_process};

use harness::client::{Client, one, request};
use harness::server::{Server, Setup, children, stop};
use harness::site::HELLO;
use harness::variant::Variant;
use harness::{eventually, free_address};

const N_COPY: Variant = Variant { name: "n_copy", options: &["--architecture=n-copy", "--copies=2"] };
const TWO_OF_TWO: Variant =
    Variant { name: "two_of_two", options: &["--architecture=symped", "--workers=2", "--copies=2"] };
const TWO_WORKERS: Variant =
    Variant { name: "two_workers", options: &["--architecture=symped", "--workers=2"] };

/// Every connection is served, and each worker says how many it had.
fn accepts(server: &Server, addresses: &[SocketAddr]) -> Vec<u64> {
    for _ in 0..20 {
        for &address in addresses {
            assert_eq!(one(address, request("GET", "/hello.txt", &[])).text(), HELLO);
        }
    }
    let status = server.status();
    let workers = status["workers"].as_array().expect("workers");
    workers.iter().map(|worker| worker["accepts"].as_u64().expect("a number")).collect()
}

fn cpus(pid: u32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let (_, rest) = status.split_once("Cpus_allowed_list:").expect("CPUs");
    rest.lines().next().expect("a line").trim().to_owned()
}

/// Two ports, one after the other, that are free.
fn two_ports() -> (SocketAddr, SocketAddr) {
    loop {
        let address = free_address();
        let next = SocketAddr::new(address.ip(), address.port() + 1);
        if TcpListener::bind(next).is_ok() {
            return (address, next);
        }
    }
}

fn usable_cpus() -> usize {
    std::thread::available_parallelism().expect("CPUs").get()
}

#[test]
fn copies_at_one_address_share_connections() {
    let server = Server::start(&N_COPY);
    eventually("both are chosen by the hash", || {
        accepts(&server, &[server.address]).iter().all(|&count| count > 0)
    });
    let sets: BTreeSet<_> = server.workers().into_iter().map(cpus).collect();
    assert_eq!(
        sets.len(),
        usable_cpus().min(2),
        "each has CPUs of its own, where there are several: {sets:?}"
    );
}

/// Copies share an address among themselves, and with nobody else.
#[test]
fn an_address_is_one_servers_whoever_comes_first() {
    let by_cpu = || Setup::new(&N_COPY).argument("--copies-by=cpu");
    let kinds: [fn() -> Setup; 3] = [|| Setup::new(&N_COPY), by_cpu, || Setup::new(&TWO_WORKERS)];
    for (at, first) in kinds.iter().enumerate() {
        let server = first().start();
        for second in &kinds[if at == 2 { 0 } else { at }..] {
            let output = second().argument(format!("--listen={}", server.address)).output();
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code() == Some(1) && told.contains("in use"), "{told}");
        }
        assert_eq!(accepts(&server, &[server.address]).iter().sum::<u64>(), 20, "all are the first's");
    }
}

#[test]
fn connections_go_to_the_copy_on_their_cpu() {
    let server = Setup::new(&N_COPY).argument("--copies-by=cpu").start();
    let workers = server.workers();
    for copy in 0..usable_cpus().min(2) {
        // Over loopback the handshake is received where it was sent.
        let before = accepts(&server, &[]);
        let cpu = cpus(workers[copy]);
        let output = std::process::Command::new("taskset")
            .args(["-c", &cpu, "curl", "-s", &format!("http://{}/hello.txt?[1-20]", server.address)])
            .output()
            .expect("taskset and curl");
        assert!(output.status.success());
        let after = accepts(&server, &[]);
        assert_eq!(after[copy] - before[copy], 1, "one connection for all: {before:?} {after:?}");
        assert_eq!(after[1 - copy], before[1 - copy]);
    }
}

/// In `ps`, `top` and `pgrep`. Who asks for `sluice` alone finds the process that takes orders.
#[test]
fn processes_say_what_they_are() {
    let name =
        |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).expect("a process").trim().to_owned();
    let server = Server::start(&TWO_OF_TWO);
    server.warm_up();
    assert_eq!(name(server.pid()), "sluice");
    let workers: Vec<_> = server.workers().into_iter().map(name).collect();
    assert_eq!(workers, ["sluice:worker0", "sluice:worker1", "sluice:worker2", "sluice:worker3"]);
    let mut all: Vec<_> = children(server.pid()).into_iter().map(name).collect();
    all.retain(|name| !workers.contains(name));
    assert_eq!(all, ["sluice:status"]);
}

#[test]
fn copies_by_port() {
    let (first, second) = two_ports();
    let server =
        Setup::new(&N_COPY).argument("--copies-by=port").argument(format!("--listen={first}")).start();
    assert_eq!(accepts(&server, &[first]), [20, 0]);
    assert_eq!(accepts(&server, &[second]), [20, 20]);
}

#[test]
fn copies_by_address() {
    let listen =
        ["--listen=127.0.0.1:0", "--listen=127.0.0.2:0", "--listen=127.0.0.3:0", "--listen=127.0.0.4:0"];
    let mut setup = Setup::new(&TWO_OF_TWO).argument("--copies-by=address");
    for argument in listen {
        setup = setup.argument(argument);
    }
    let server = setup.start();
    let addresses = server.addresses();
    let counts = accepts(&server, &addresses[..2]);
    assert_eq!((counts[0] + counts[1], counts[2] + counts[3]), (40, 0), "{counts:?}");
    let counts = accepts(&server, &addresses[2..]);
    assert_eq!((counts[0] + counts[1], counts[2] + counts[3]), (40, 40), "{counts:?}");
}

#[test]
fn addresses_are_partitioned_over_workers() {
    let setup = Setup::new(&TWO_WORKERS).argument("--listen=127.0.0.1:0").argument("--listen=127.0.0.2:0");
    let server = setup.config("[placement]\npartition = true").start();
    let addresses = server.addresses();
    assert_eq!(accepts(&server, &addresses[..1]), [20, 0]);
    assert_eq!(accepts(&server, &addresses[1..]), [20, 20]);
}

#[test]
fn sets_of_cpus_are_mapped_directly_and_indirectly() {
    let last = usable_cpus() - 1;
    for (mapping, expected) in
        [("direct", ["0".to_owned(), last.to_string()]), ("indirect", [last.to_string(), "0".to_owned()])]
    {
        let config = format!("[placement]\ncpus = [\"0\", \"{last}\"]\nmapping = \"{mapping}\"");
        for variant in [N_COPY, TWO_WORKERS] {
            let server = Server::with(&variant, &config);
            let sets: Vec<_> = server.workers().into_iter().map(cpus).collect();
            assert_eq!(sets, expected, "{variant:?} {mapping}");
        }
    }
}

/// Who waits in the queue of a copy that dies is served by the one that takes its place; no listener is ever
/// missing.
#[test]
fn the_queue_of_a_dead_copy_is_kept() {
    let (first, second) = two_ports();
    let server =
        Setup::new(&N_COPY).argument("--copies-by=port").argument(format!("--listen={first}")).start();
    for round in 0..5 {
        let victim = server.workers()[0];
        stop(&[victim]);
        let mut waiting: Vec<Client> = (0..10).map(|_| Client::connect(first)).collect();
        for client in &mut waiting {
            client.ask("GET", "/hello.txt", &[]);
        }
        assert_eq!(one(second, request("GET", "/hello.txt", &[])).text(), HELLO, "the other goes on");
        kill_process(Pid::from_raw(victim as i32).expect("a process"), Signal::KILL).expect("it is there");
        for client in &mut waiting {
            assert_eq!(client.reply().text(), HELLO, "round {round}");
        }
    }
}

#[test]
fn a_reload_moves_addresses_but_not_the_number_of_copies() {
    let (first, second) = two_ports();
    let server = Server::with(&TWO_OF_TWO, &format!("listen = \"{first}\""));
    server.rewrite_config(&format!("listen = [\"{first}\", \"{second}\"]\ncopies_by = \"port\""));
    server.signal(Signal::HUP);
    server.wait_for_line(|line| {
        line.contains("`copies_by` has changed, which requires an upgrade in place (USR2)")
    });
    eventually("both copies listen at the second", || {
        std::net::TcpStream::connect(second).is_ok() && {
            let counts = accepts(&server, &[second]);
            counts[0] + counts[1] > 0 && counts[2] + counts[3] > 0
        }
    });
    assert_eq!(one(first, request("GET", "/hello.txt", &[])).text(), HELLO);
}
