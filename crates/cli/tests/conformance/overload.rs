//! More clients than there is room for: nobody is turned away, and everybody is served in the end. Bursts
//! within the room, with each accept limit and event mechanism, are in `bursts.rs`.

use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use serde_json::Value;

use harness::client::{Broken, Client, connect, request};
use harness::server::{Server, Setup, first_free_descriptor, highest_descriptor, open_descriptors};
use harness::site::HELLO;
use harness::variant::{Test, Variant, tests};
use harness::{eventually, sleep_ms};

pub(crate) const TESTS: &[Test] = tests![
    Each:
        connections_beyond_the_limit_wait,
        places_are_given_by_turns,
        burst_beyond_the_limit,
        small_backlog,
        few_descriptors,
        descriptors_run_out,
        cached_files_leave_room_for_clients,
        cached_files_make_room_for_clients,
        large_replies_do_not_starve_others,
        large_replies_take_many_turns,
        request_hogs_do_not_starve_others;
];

/// Everybody is served, four at a time, though nobody leaves by itself.
fn connections_beyond_the_limit_wait(variant: &Variant) {
    let server = Setup::new(variant).argument("--max-connections=4").start();
    let mut clients: Vec<Client> = (0..12).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.ask("GET", "/hello.txt", &[]);
    }
    for client in &mut clients {
        assert_eq!(client.reply().text(), HELLO);
        assert!(server.count("connections_opened") <= server.count("connections_closed") + 4);
    }
}

/// Those who have places ask without end, and some bring half a request: all the same nobody waits until they
/// have enough.
fn places_are_given_by_turns(variant: &Variant) {
    let server = Setup::new(variant).argument("--max-connections=4").start();
    let mut slow_clients: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    for client in &mut slow_clients {
        client.send("GET /hello.txt HTTP/1.1\r\n");
    }
    let clients: Vec<_> = (0..12).map(|_| Arc::new(AtomicU64::new(0))).collect();
    for answers in &clients {
        let (address, answers) = (server.address, Arc::clone(answers));
        // It goes on until the server is gone.
        thread::spawn(move || while ask_on_a_connection(address, &answers).is_ok() {});
    }
    eventually("everybody has been served", || {
        clients.iter().all(|answers| answers.load(Ordering::Relaxed) > 0)
    });
}

/// Asks for as long as the connection lasts, and counts the answers.
fn ask_on_a_connection(server: SocketAddr, answers: &AtomicU64) -> Result<(), Broken> {
    let mut client = connect(server).map(Client::over).map_err(|_| Broken::Reset)?;
    loop {
        client.try_send(request("GET", "/hello.txt", &[]));
        let reply = client.try_reply()?;
        assert_eq!(reply.text(), HELLO);
        answers.fetch_add(1, Ordering::Relaxed);
        if reply.closes() {
            return Ok(());
        }
        sleep_ms(1);
    }
}

/// Many connections and their requests are there at once, and after that nothing happens that could wake the
/// server.
fn burst(server: &Server, count: usize) -> Vec<Client> {
    assert_eq!(server.get("/hello.txt").status, 200);
    server.stop_all();
    let mut clients: Vec<Client> = (0..count).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.ask("GET", "/hello.txt", &[]);
    }
    server.signal_all(Signal::CONT);
    clients
}

fn all_served(mut clients: Vec<Client>) {
    for (number, client) in clients.iter_mut().enumerate() {
        match client.try_reply() {
            Ok(reply) => assert_eq!(reply.text(), HELLO),
            Err(broken) => panic!("number {number} of the burst: {broken:?}"),
        }
    }
}

/// Accepting pauses again and again, and goes on each time that somebody leaves.
fn burst_beyond_the_limit(variant: &Variant) {
    for limit in ["1", "inf", "auto"] {
        let setup = Setup::new(variant).argument("--max-connections=5");
        let server = setup.argument(format!("--accept-limit={limit}")).start();
        server.stop_all();
        let mut clients: Vec<Client> = (0..60).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.ask("GET", "/hello.txt", &[("Connection", "close")]);
        }
        server.signal_all(Signal::CONT);
        all_served(clients);
    }
}

/// The kernel lets clients wait that are beyond the backlog: they are late, not lost. They are few, as each
/// time that they are put off they wait twice as long.
fn small_backlog(variant: &Variant) {
    let server = Setup::new(variant).argument("--backlog=2").argument("--accept-limit=1").start();
    let address = server.address;
    let clients: Vec<_> = (0..8)
        .map(|_| {
            thread::spawn(move || {
                let mut client = Client::connect(address);
                client.fetch("GET", "/hello.txt", &[("Connection", "close")]).status
            })
        })
        .collect();
    for client in clients {
        assert_eq!(client.join().expect("a reply"), 200);
    }
}

/// The server knows how many descriptors it has, and takes no more clients than they serve.
fn few_descriptors(variant: &Variant) {
    let server = Setup::new(variant).descriptor_limit(256).start();
    // Those that were served make room for the others as they leave.
    for (number, mut client) in burst(&server, 400).into_iter().enumerate() {
        assert_eq!(client.reply().text(), HELLO, "number {number}");
        assert!(server.processes().into_iter().all(|pid| open_descriptors(pid) <= 256));
    }
    assert_eq!(server.count("errors/accept_exhausted"), 0);
    assert_eq!(server.get("/large.bin").status, 200);
}

/// Descriptors run out although the server thought that it had many more: it waits without spinning, serves
/// those who are in, and goes on when it can.
fn descriptors_run_out(variant: &Variant) {
    let server = Server::start(variant);
    server.warm_up();
    let mut inside = server.connect();
    assert_eq!(inside.get("/hello.txt").status, 200);
    let workers = server.workers();
    // A process with one connection at a time wants no more than one.
    let room = if variant.serves_one_at_a_time() && workers.len() > 1 { 0 } else { 5 };
    let few = |&worker: &u32| limit_descriptors(worker, Some(first_free_descriptor(worker) + room));
    let limits: Vec<_> = workers.iter().map(few).collect();
    let mut clients: Vec<Client> = (0..40).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.ask("GET", "/hello.txt", &[]);
    }
    sleep_ms(100);
    let before = server.cpu_ticks();
    sleep_ms(1000);
    let spent = server.cpu_ticks() - before;
    assert!(spent < 50, "{spent} ticks of 10 ms in a second of waiting: it spins");
    if !variant.serves_one_at_a_time() {
        // There, it has made room for the others.
        assert_eq!(inside.get("/hello.txt").status, 200, "who is in, is served");
    }
    let raise = || {
        for (&worker, &before) in workers.iter().zip(&limits) {
            limit_descriptors(worker, before);
        }
    };
    if room == 0 {
        raise();
    }
    // The first to come are in, and make room by leaving.
    for (number, mut client) in clients.into_iter().enumerate() {
        assert_eq!(client.reply().text(), HELLO, "number {number}");
    }
    raise();
    assert!(server.count("errors/accept_exhausted") > 0);
    assert_eq!(server.get("/hello.txt").status, 200);
}

/// Files above `small_file`, each of which takes a descriptor while it is kept at hand.
const MANY_FILES: usize = 600;

fn with_many_files(variant: &Variant) -> Setup {
    let setup = Setup::new(variant);
    for number in 0..MANY_FILES {
        // Sparse: they take no room.
        let path = setup.root().join(format!("{number}.bin"));
        File::create(path).and_then(|file| file.set_len(20_000)).expect("a file");
    }
    setup
}

/// Has as many clients as there may be workers ask for all of these files, each in its own order.
fn walk(server: &Server) {
    let mut clients: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    for (first, client) in clients.iter_mut().enumerate() {
        let numbers = (0..MANY_FILES).map(|number| (number + 30 * first) % MANY_FILES);
        client
            .send(numbers.map(|number| request("HEAD", &format!("/{number}.bin"), &[])).collect::<String>());
    }
    for client in &mut clients {
        for _ in 0..MANY_FILES {
            assert_eq!(client.reply_to("HEAD").status, 200);
        }
    }
}

/// However many files were asked for, what is kept of them leaves to clients what they need.
fn cached_files_leave_room_for_clients(variant: &Variant) {
    let server = with_many_files(variant).descriptor_limit(300).start();
    walk(&server);
    assert!(server.count("file_table_descriptors") > 0);
    all_served(burst(&server, 60));
    assert!(server.processes().into_iter().all(|pid| open_descriptors(pid) <= 300));
    assert_eq!(server.count("errors/accept_exhausted"), 0);
    assert_eq!(server.get("/large.bin").status, 200);
}

/// Descriptors run out although there seemed to be many more: what is kept without need is closed.
fn cached_files_make_room_for_clients(variant: &Variant) {
    const KEPT: u64 = 20;
    let server = with_many_files(variant).start();
    eventually("every worker keeps files", || {
        walk(&server);
        let status = server.status();
        let mut workers = status["workers"].as_array().expect("workers").iter();
        let keeps = |worker: &Value| worker["file_table_descriptors"].as_u64() > Some(KEPT);
        // The first tells what is in a table that they share.
        if server.common_descriptors { keeps(workers.next().expect("a worker")) } else { workers.all(keeps) }
    });
    for worker in server.workers() {
        limit_descriptors(worker, Some(highest_descriptor(worker) + 1));
    }
    // More than have left. They stay, but where nobody else would be served.
    let one_at_a_time = variant.serves_one_at_a_time();
    let fields: &[(&str, &str)] = if one_at_a_time { &[("Connection", "close")] } else { &[] };
    let mut clients: Vec<Client> = (0..120).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.ask("GET", &format!("/{}.bin", 5 * number), fields);
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.reply().status, 200, "number {number}");
    }
    assert!(one_at_a_time || server.count("errors/accept_exhausted") > 0);
}

/// Sets the limit on a process's descriptors, and gives the one before.
fn limit_descriptors(pid: u32, current: Option<u64>) -> Option<u64> {
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    let pid = Pid::from_raw(pid.cast_signed());
    prlimit(pid, Resource::Nofile, Rlimit { current, maximum }).expect("a limit can be set").current
}

fn large_replies_do_not_starve_others(variant: &Variant) {
    let server = Server::start(variant);
    // Sparse: it takes no room, but time to send.
    File::create(server.root().join("huge.bin")).and_then(|file| file.set_len(8 << 30)).expect("a file");
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (address, done) = (server.address, Arc::clone(&done));
            thread::spawn(move || {
                let mut client = Client::connect(address);
                client.ask("GET", "/huge.bin", &[]);
                while !done.load(Ordering::Relaxed) {
                    assert!(
                        !client.read_raw(1 << 20).expect("more").is_empty(),
                        "the whole file has come before"
                    );
                }
            })
        })
        .collect();
    sleep_ms(50);
    let mut client = server.connect();
    for _ in 0..20 {
        assert_eq!(client.get("/hello.txt").text(), HELLO);
        assert_eq!(server.get("/large.bin").status, 200);
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().expect("it was still reading");
    }
}

/// No connection is sent more than its share in one turn, however fast its client is. Where sends block, the
/// share is one of time.
fn large_replies_take_many_turns(variant: &Variant) {
    const SIZE: usize = 4 << 20;
    let setup = Setup::new(variant).config("[event]\nquantum = \"4 KiB\"").file("big.bin", vec![b'x'; SIZE]);
    let server = setup.start();
    let before = server.count("phases");
    assert_eq!(server.get("/big.bin").body.len(), SIZE);
    let turns = server.count("phases") - before;
    assert!(variant.blocks() || turns >= SIZE as u64 / (4 << 10), "{turns} turns");
}

/// A client that sends requests without end gets its turn, and no more.
fn request_hogs_do_not_starve_others(variant: &Variant) {
    let server = Server::start(variant);
    let mut hog = server.connect();
    let mut reading = Client::over(hog.stream.try_clone().expect("a descriptor"));
    let reader = thread::spawn(move || {
        let mut count = 0;
        loop {
            match reading.try_reply() {
                Ok(_) => count += 1,
                Err(end) => return (count, end),
            }
        }
    });
    let many = request("GET", "/hello.txt", &[]).repeat(1000);
    // On a busy machine the writer may get its first turn when all others have had what they want.
    hog.send(&many);
    let done = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&done);
    let writer = thread::spawn(move || {
        let mut sent = 1000;
        while !stop.load(Ordering::Relaxed) && hog.try_send(&many) {
            sent += 1000;
        }
        (hog, sent)
    });
    sleep_ms(50);
    let mut client = server.connect();
    for _ in 0..20 {
        assert_eq!(client.get("/hello.txt").text(), HELLO);
        assert_eq!(server.get("/hello.txt").text(), HELLO);
    }
    done.store(true, Ordering::Relaxed);
    let (mut hog, sent) = writer.join().expect("a writer");
    hog.half_close();
    let (count, end) = reader.join().expect("a reader");
    assert!(count == sent, "{count} of {sent} replies: {end:?}");
    let end = hog.try_reply();
    assert!(matches!(end, Err(Broken::Closed | Broken::Reset)), "{end:?}");
    eventually("it is forgotten", || server.count("connections/writing") == 0);
}
