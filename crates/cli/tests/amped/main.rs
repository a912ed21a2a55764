//! AMPED when the disk is slow: what waits for it waits alone.
//!
//! The disk is one of the test's own ([`slow_disk`]), which holds back what it is told to. Where it can't be
//! mounted (that takes root and FUSE), these tests say so and pass; the last one needs a disk and nothing
//! else.

mod slow_disk;
use std::fs::{self, File};
use std::process::ExitCode;

use rustix::fs::{Advice, fadvise};
use rustix::process::Signal;

use harness::client::{Broken, Client, request};
use harness::server::{Server, Setup};
use harness::site::{HELLO, LARGE, large, pattern};
use harness::variant::{Test, Variant, tests};
use harness::{eventually, sleep_ms};
use slow_disk::{LEN, SlowDisk, content};

const TESTS: &[Test] = tests![
    Each:
        the_others_are_served_while_names_are_looked_up,
        the_others_are_served_while_bytes_are_read,
        those_who_want_the_same_wait_together,
        pipelined_requests_keep_their_order,
        clients_that_break_off_are_let_go,
        clients_that_half_close_are_answered,
        write_timeouts_are_not_for_the_disk,
        a_drain_waits_for_the_disk,
        a_drain_cuts_off_clients_of_a_disk_that_hangs,
        a_file_that_shrinks_is_cut_off,
        clients_wait_outside_while_the_disk_is_behind,
        clients_that_have_closed_are_let_go,
        replies_from_a_disk_that_hangs_are_broken_off;
    One:
        an_old_entry_is_looked_at_again_by_a_helper,
        a_disk_that_hangs_is_given_up,
        helpers_that_hang_are_replaced,
        helpers_end_when_there_is_nothing_to_do,
        what_the_table_has_outlives_its_disk,
        an_error_page_on_a_disk_that_hangs_stops_nobody,
        a_worker_that_cannot_be_killed_is_left_behind,
        a_file_is_fetched_from_a_real_disk_once;
];

const VARIANTS: &[Variant] = &[
    Variant { name: "epoll", options: &["--architecture=amped", "--workers=1", "--events=epoll"] },
    Variant {
        name: "epoll_level",
        options: &["--architecture=amped", "--workers=1", "--events=epoll-level"],
    },
    Variant { name: "poll", options: &["--architecture=amped", "--workers=1", "--events=poll"] },
    Variant { name: "select", options: &["--architecture=amped", "--workers=1", "--events=select"] },
    Variant { name: "blocking", options: &["--architecture=amped", "--workers=1", "--send=blocking"] },
    Variant { name: "uring_loads", options: &["--architecture=uring", "--workers=1"] },
];

fn main() -> ExitCode {
    harness::variant::run_for(VARIANTS, &[("slow_disk", TESTS)])
}

/// A server with a slow disk below `/slow`, unless none can be had here.
fn slow(variant: &Variant, config: &str) -> Option<(Server, SlowDisk)> {
    let setup = Setup::on_disk(variant).config(config);
    let directory = setup.root().join("slow");
    fs::create_dir(&directory).expect("a directory");
    match SlowDisk::mount(&directory) {
        Ok(disk) => {
            let server = setup.start();
            // What was never asked for is not in memory.
            others_are_served(&server);
            Some((server, disk))
        }
        Err(error) => {
            harness::skip(format!("a slow disk: a file system can't be mounted: {error}"));
            None
        }
    }
}

fn get(server: &Server, target: &str) -> Client {
    let mut client = server.connect();
    client.ask("GET", target, &[]);
    client
}

/// What lies in memory is served, on old connections and new ones.
fn others_are_served(server: &Server) {
    let mut client = server.connect();
    for _ in 0..20 {
        assert_eq!(client.get("/hello.txt").text(), HELLO);
        assert_eq!(client.get("/large.bin").body, large());
        assert_eq!(server.get("/absent").status, 404);
    }
}

#[track_caller]
fn expect_files(clients: &mut [Client], names: impl Fn(usize) -> String) {
    for (at, client) in clients.iter_mut().enumerate() {
        let reply = client.reply();
        assert_eq!((reply.status, reply.body.len()), (200, LEN));
        assert!(reply.body == content(&names(at)), "{at} got another file");
    }
}

fn the_others_are_served_while_names_are_looked_up(variant: &Variant) {
    let Some((server, disk)) = slow(variant, "") else { return };
    let looks = server.count("helper_jobs/look");
    disk.hold_look_ups();
    // More than there are helpers.
    let mut clients: Vec<Client> = (0..20).map(|n| get(&server, &format!("/slow/{n}.bin"))).collect();
    eventually("all helpers wait", || disk.waiting() == 4);
    eventually("the others wait for helpers", || server.count("helper_queue") == 20);
    others_are_served(&server);
    assert_eq!(server.count("helper_jobs/look"), looks + 20);
    disk.release();
    expect_files(&mut clients, |n| format!("{n}.bin"));
    assert_eq!(server.count("helper_queue"), 0);
}

fn the_others_are_served_while_bytes_are_read(variant: &Variant) {
    let Some((server, disk)) = slow(variant, "") else { return };
    disk.hold_reads_from(300_000);
    let mut clients: Vec<Client> = (0..20).map(|n| get(&server, &format!("/slow/{}.bin", n % 10))).collect();
    eventually("reads wait", || disk.waiting() > 0 && server.count("helper_queue") >= 10);
    others_are_served(&server);
    disk.release();
    expect_files(&mut clients, |n| format!("{}.bin", n % 10));
    assert!(server.count("residency_misses") >= 30, "three windows of ten files");
    assert_eq!(server.count("helper_queue"), 0);
}

fn those_who_want_the_same_wait_together(variant: &Variant) {
    let Some((server, disk)) = slow(variant, "[files]\nvalidity = \"10 min\"") else { return };
    let (asked, looks) = (server.count("requests"), server.count("helper_jobs/look"));
    disk.hold_look_ups();
    let mut clients: Vec<Client> = (0..20).map(|_| get(&server, "/slow/same.bin")).collect();
    eventually("all have asked", || server.count("requests") == asked + 20);
    eventually("one helper looks", || disk.waiting() == 1);
    assert_eq!(server.count("helper_queue"), 1);
    disk.release();
    expect_files(&mut clients, |_| "same.bin".to_owned());
    assert_eq!((server.count("helper_jobs/look"), disk.look_ups()), (looks + 1, 1));
}

fn an_old_entry_is_looked_at_again_by_a_helper(variant: &Variant) {
    let Some((server, disk)) = slow(variant, "[files]\nvalidity = \"10 ms\"") else { return };
    expect_files(&mut [get(&server, "/slow/old.bin")], |_| "old.bin".to_owned());
    sleep_ms(20);
    disk.hold_look_ups();
    let client = get(&server, "/slow/old.bin");
    eventually("a helper looks", || disk.waiting() == 1);
    others_are_served(&server);
    disk.release();
    expect_files(&mut [client], |_| "old.bin".to_owned());
}

fn pipelined_requests_keep_their_order(variant: &Variant) {
    let Some((server, disk)) = slow(variant, "[files]\nvalidity = \"0 s\"") else { return };
    disk.hold_look_ups();
    let mut client = server.connect();
    for target in ["/hello.txt", "/slow/a.bin", "/hello.txt", "/slow/b.bin", "/slow/"] {
        client.ask("GET", target, &[]);
    }
    // The body of a request is passed over after its reply has had to wait.
    client.send("POST /slow/a.bin HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345");
    client.ask("GET", "/slow/c.bin", &[]);
    assert_eq!(client.reply().text(), HELLO);
    eventually("a helper looks", || disk.waiting() == 1);
    client.expect_silence(50);
    disk.release();
    assert!(client.reply().body == content("a.bin"));
    assert_eq!(client.reply().text(), HELLO);
    assert!(client.reply().body == content("b.bin"));
    assert_eq!(client.reply().status, 403);
    assert_eq!(client.reply().status, 405);
    assert!(client.reply().body == content("c.bin"));
}

fn clients_that_break_off_are_let_go(variant: &Variant) {
    let Some((server, disk)) = slow(variant, "") else { return };
    let all_are_gone = || server.count("connections_opened") == server.count("connections_closed");
    eventually("all are gone", all_are_gone);
    let before = server.descriptors() - server.count("file_table_descriptors") as usize;
    for held in [|disk: &SlowDisk| disk.hold_look_ups(), |disk: &SlowDisk| disk.hold_reads_from(0)] {
        held(&disk);
        let clients: Vec<Client> = (0..50).map(|n| get(&server, &format!("/slow/{n}.bin"))).collect();
        eventually("helpers wait", || disk.waiting() >= 4 && server.count("helper_queue") >= 50);
        for client in clients {
            client.reset();
        }
        // select cannot tell that a connection broke on which nothing is wanted.
        if variant.name != "select" {
            eventually("all are gone", all_are_gone);
        }
        // Whoever comes now may get the slot of one that went.
        let mut next: Vec<Client> = (50..70).map(|n| get(&server, &format!("/slow/{n}.bin"))).collect();
        others_are_served(&server);
        disk.release();
        expect_files(&mut next, |n| format!("{}.bin", n + 50));
    }
    eventually("nothing is left to do", || server.count("helper_queue") == 0);
    eventually("all are gone", all_are_gone);
    let held = server.count("file_table_descriptors") as usize;
    assert_eq!(server.descriptors(), before + held, "descriptors are level");
}

fn clients_that_half_close_are_answered(variant: &Variant) {
    let Some((server, disk)) = slow(variant, "[amped]\ndisk_timeout = \"10 min\"") else { return };
    disk.hold_look_ups();
    let mut client = get(&server, "/slow/half.bin");
    eventually("a helper looks", || disk.waiting() == 1);
    client.half_close();
    sleep_ms(50);
    disk.hold_reads_from(0);
    disk.release_look_ups();
    eventually("a helper reads", || server.count("helper_jobs/fetch") == 1);
    disk.release();
    assert!(client.reply().body == content("half.bin"));
    client.expect_close();
    // The same with all of it there at once.
    let mut client = server.connect();
    let requests = ["a", "b", "c"].map(|name| request("GET", &format!("/slow/{name}.bin"), &[])).concat();
    client.send(requests);
    client.half_close();
    for name in ["a.bin", "b.bin", "c.bin"] {
        assert!(client.reply().body == content(name));
    }
    client.expect_close();
}

fn write_timeouts_are_not_for_the_disk(variant: &Variant) {
    let config = "[timeouts]\nheader = \"300 ms\"\nwrite = \"300 ms\"\nidle = \"300 ms\"\nbody = \"300 ms\"";
    let Some((server, disk)) = slow(variant, config) else { return };
    disk.hold_look_ups();
    let mut looked_up = get(&server, "/slow/a.bin");
    let mut with_body = server.connect();
    with_body.send("GET /slow/b.bin HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12");
    eventually("helpers look", || disk.waiting() == 2);
    sleep_ms(900);
    with_body.send("345");
    disk.hold_reads_from(LEN as u64 / 2);
    disk.release_look_ups();
    eventually("helpers read", || server.count("helper_jobs/fetch") >= 2 && disk.waiting() > 0);
    sleep_ms(900);
    disk.release();
    assert!(looked_up.reply().body == content("a.bin"));
    assert!(with_body.reply().body == content("b.bin"));
    assert_eq!((server.count("timeouts/write"), server.count("timeouts/body")), (0, 0));
}

fn a_drain_waits_for_the_disk(variant: &Variant) {
    let Some((mut server, disk)) = slow(variant, "") else { return };
    disk.hold_look_ups();
    let mut looked_up = get(&server, "/slow/a.bin");
    eventually("a helper looks", || disk.waiting() == 1);
    server.signal(Signal::TERM);
    sleep_ms(1000);
    assert!(!server.has_ended());
    disk.release();
    let reply = looked_up.reply();
    assert!(reply.body == content("a.bin"));
    looked_up.expect_close();
    drop(looked_up);
    assert_eq!(server.exit_code(), Some(0));
}

fn a_drain_cuts_off_clients_of_a_disk_that_hangs(variant: &Variant) {
    let Some((mut server, disk)) = slow(variant, "drain_timeout = \"500 ms\"") else { return };
    disk.hold_look_ups();
    let mut clients: Vec<Client> = (0..20).map(|n| get(&server, &format!("/slow/{n}.bin"))).collect();
    eventually("all helpers wait", || disk.waiting() == 4);
    server.signal(Signal::TERM);
    for client in &mut clients {
        client.expect_end();
    }
    // No process ends that has a thread in such a disk, whatever it does.
    disk.release();
    server.exit_code();
}

fn a_file_that_shrinks_is_cut_off(variant: &Variant) {
    let Some((server, disk)) = slow(variant, "") else { return };
    disk.hold_reads_from(300_000);
    let mut client = get(&server, "/slow/cut.bin");
    eventually("a helper reads", || disk.waiting() > 0);
    disk.cut(280_000);
    disk.release();
    let end = client.try_reply();
    assert!(matches!(end, Err(Broken::CutShort(_) | Broken::Reset)), "{end:?}");
    eventually("the reset is counted", || server.count("resets/file_changed") == 1);
    others_are_served(&server);
}

/// As long as it goes on: one that hangs keeps nobody else.
fn clients_wait_outside_while_the_disk_is_behind(variant: &Variant) {
    let Some((server, disk)) = slow(variant, "[amped]\ndisk_delay = \"30 ms\"") else { return };
    assert_eq!(server.count("disk_holds"), 0);
    let mut round = 0;
    // All may be finished before the loop looks.
    eventually("nobody is accepted for a while", || {
        disk.hold_look_ups();
        let name = |n: usize| format!("{round}-{n}.bin");
        let mut clients: Vec<Client> = (0..40).map(|n| get(&server, &format!("/slow/{}", name(n)))).collect();
        eventually("the others wait for helpers", || server.count("helper_queue") == 40);
        sleep_ms(200);
        others_are_served(&server);
        disk.release();
        expect_files(&mut clients, name);
        round += 1;
        server.count("disk_holds") > 0
    });
    others_are_served(&server);
    // The disk was behind when it was last heard of.
    disk.hold_look_ups();
    let mut client = get(&server, "/slow/last.bin");
    eventually("a helper looks", || disk.waiting() == 1);
    others_are_served(&server);
    disk.release();
    assert!(client.reply().body == content("last.bin"));
}

/// A disk that does not answer in this time is given up.
const HURRIED: &str = "[amped]\ndisk_timeout = \"1600 ms\"\n";

fn all_are_gone(server: &Server) -> bool {
    server.count("connections_opened") == server.count("connections_closed")
}

/// They can't be told from those who half-close, until that has lasted.
fn clients_that_have_closed_are_let_go(variant: &Variant) {
    let Some((server, disk)) = slow(variant, HURRIED) else { return };
    for held in [|disk: &SlowDisk| disk.hold_look_ups(), |disk: &SlowDisk| disk.hold_reads_from(0)] {
        let before = server.count("disk_waits_given_up/half_closed");
        held(&disk);
        let mut clients: Vec<Client> = (0..20).map(|n| get(&server, &format!("/slow/{n}.bin"))).collect();
        eventually("helpers wait", || disk.waiting() >= 4);
        clients.iter_mut().for_each(Client::half_close);
        eventually("all are gone", || all_are_gone(&server));
        assert!(server.count("disk_waits_given_up/half_closed") > before);
        disk.release();
        eventually("nothing is left to do", || server.count("helper_queue") == 0);
    }
}

fn a_disk_that_hangs_is_given_up(variant: &Variant) {
    let config = format!("max_connections = 20\n{HURRIED}");
    let Some((server, disk)) = slow(variant, &config) else { return };
    disk.hold_look_ups();
    let mut clients: Vec<Client> = (0..20).map(|n| get(&server, &format!("/slow/{n}.bin"))).collect();
    for client in &mut clients {
        let reply = client.reply();
        assert_eq!((reply.status, reply.need("Retry-After")), (503, "1"));
    }
    // They may go on, and their places may be had.
    assert_eq!(clients[0].get("/hello.txt").text(), HELLO);
    others_are_served(&server);
    drop(clients);
    eventually("the disk is known to hang", || server.count("helpers_stuck") >= 2);
    let jobs = server.count("helper_jobs/look");
    for n in 100..120 {
        assert_eq!(server.get(&format!("/slow/{n}.bin")).status, 503);
    }
    assert_eq!(server.count("helper_jobs/look"), jobs, "nobody waits for it any more");
    disk.release();
    eventually("it is asked again", || server.get("/slow/200.bin").status == 200);
    expect_files(&mut [get(&server, "/slow/0.bin")], |_| "0.bin".to_owned());
    eventually("nobody is stuck", || server.count("helpers_stuck") + server.count("helper_queue") == 0);
}

fn replies_from_a_disk_that_hangs_are_broken_off(variant: &Variant) {
    let Some((server, disk)) = slow(variant, HURRIED) else { return };
    disk.hold_reads_from(300_000);
    let mut clients: Vec<Client> = (0..20).map(|n| get(&server, &format!("/slow/{n}.bin"))).collect();
    for client in &mut clients {
        let end = client.try_reply();
        assert!(matches!(end, Err(Broken::CutShort(_) | Broken::Reset)), "{end:?}");
    }
    others_are_served(&server);
    assert_eq!(server.count("disk_waits_given_up/reply"), 20);
}

/// A listing is made by a helper, even of a directory that is in memory.
fn helpers_that_hang_are_replaced(variant: &Variant) {
    let Some((server, disk)) = slow(variant, "listing = true\n[amped]\ndisk_timeout = \"8 s\"") else {
        return;
    };
    fs::create_dir(server.root().join("other")).expect("a directory");
    disk.hold_look_ups();
    let mut clients: Vec<Client> = (0..20).map(|n| get(&server, &format!("/slow/{n}.bin"))).collect();
    eventually("all helpers wait", || disk.waiting() >= 4);
    for _ in 0..10 {
        assert_eq!(server.get("/other/").status, 200);
    }
    // Where CPUs are scarce, some have come there so late that they are not stuck yet.
    eventually("all who wait are stuck", || server.count("helpers_stuck") == disk.waiting() as u64);
    // Of those who came instead one may have gone to the same disk, between the first that was stuck there
    // and the second.
    assert!(matches!(disk.waiting(), 4 | 5), "{} wait for the same disk", disk.waiting());
    disk.release();
    expect_files(&mut clients, |n| format!("{n}.bin"));
    eventually("those who were too many are gone", || helpers(&server) <= 4);
}

fn helpers_end_when_there_is_nothing_to_do(variant: &Variant) {
    let Some((server, disk)) = slow(variant, "") else { return };
    expect_files(&mut [get(&server, "/slow/a.bin")], |_| "a.bin".to_owned());
    assert!((1..=4).contains(&helpers(&server)));
    sleep_ms(10_000);
    eventually("all have ended", || helpers(&server) == 0);
    disk.hold_look_ups();
    let mut clients: Vec<Client> = (0..20).map(|n| get(&server, &format!("/slow/{n}.bin"))).collect();
    eventually("as many as there may be wait", || disk.waiting() == 4 && helpers(&server) == 4);
    disk.release();
    expect_files(&mut clients, |n| format!("{n}.bin"));
}

/// Threads of the worker that are helpers.
fn helpers(server: &Server) -> usize {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.workers()[0])).expect("it lives");
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("helper")).count()
}

fn what_the_table_has_outlives_its_disk(variant: &Variant) {
    let config = format!("{HURRIED}[files]\nvalidity = \"10 ms\"");
    let Some((server, disk)) = slow(variant, &config) else { return };
    expect_files(&mut [get(&server, "/slow/old.bin")], |_| "old.bin".to_owned());
    sleep_ms(20);
    disk.hold_look_ups();
    expect_files(&mut [get(&server, "/slow/old.bin")], |_| "old.bin".to_owned());
    assert_eq!(server.count("disk_waits_given_up/request"), 1);
}

fn an_error_page_on_a_disk_that_hangs_stops_nobody(variant: &Variant) {
    let pages = "[error_pages]\n400 = \"/slow/400.bin\"\n503 = \"/slow/503.bin\"";
    let Some((server, disk)) = slow(variant, &format!("{HURRIED}{pages}")) else { return };
    disk.hold_look_ups();
    let mut bad = server.connect();
    bad.send("BAD\r\n\r\n");
    let mut good = get(&server, "/slow/a.bin");
    others_are_served(&server);
    assert_eq!(bad.reply().status, 400);
    bad.expect_close();
    assert_eq!(good.reply().status, 503);
    disk.release();
    let page = || server.one("BAD\r\n\r\n");
    eventually("the page is there", || page().body == content("400.bin"));
}

fn a_worker_that_cannot_be_killed_is_left_behind(variant: &Variant) {
    let Some((mut server, disk)) = slow(variant, "") else { return };
    disk.hold_look_ups();
    let _clients: Vec<Client> = (0..4).map(|n| get(&server, &format!("/slow/{n}.bin"))).collect();
    eventually("all helpers wait", || disk.waiting() == 4);
    let worker = server.workers()[0];
    server.signal(Signal::TERM);
    server.wait_for_line(|line| line.contains("draining"));
    server.signal(Signal::TERM);
    assert_eq!(server.exit_code(), Some(1));
    server.wait_for_line(|line| line.contains("left behind") && line.contains(&worker.to_string()));
}

/// A real file, put out of memory: everything of it arrives, and once it has, no helper is asked again. The
/// kernel may take pages away at any time, such as in a container with little memory, so a try can count
/// fetches that are not ours: some try must count right.
fn a_file_is_fetched_from_a_real_disk_once(variant: &Variant) {
    const LONG: usize = 3_000_000;
    let setup = Setup::on_disk(variant).config("[files]\nvalidity = \"10 min\"");
    let setup = setup.file("long.bin", pattern(9, LONG));
    let path = setup.root().join("long.bin");
    let server = setup.start();
    let file = File::open(&path).expect("the file");
    file.sync_all().expect("it is on the disk");
    let fetches = |what: &dyn Fn()| {
        let before = server.count("helper_jobs/fetch");
        what();
        server.count("helper_jobs/fetch") - before
    };
    let get = || assert!(server.get("/long.bin").body == pattern(9, LONG));
    eventually("each of 12 windows is fetched at most once", || {
        fadvise(&file, 0, None, Advice::DontNeed).expect("advice is taken");
        fetches(&get) <= 12
    });
    if server.count("residency_misses") == 0 {
        harness::skip("a file that is not in memory: the file system of temporary files keeps its pages");
        return;
    }
    assert!(server.count("helper_jobs/fetch") > 0, "what was not in memory was fetched");
    eventually("what is in memory needs no helper", || {
        let again = || {
            get();
            assert_eq!(server.get("/large.bin").body.len(), LARGE);
        };
        fetches(&again) == 0
    });
}
