//! `sluicelab run` with applications: PHP-FPM behind nginx, the Support workload with its back end, and
//! programs in C behind nginx and ours.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

const EXPERIMENT: &str = "
    title = 'A page in PHP beside a file'
    servers = ['nginx']
    application = 'php-fpm: workers=2 access.log={directory}/application.log access.format=%{microseconds}d'
    rounds = 1
    again = false
    warm_up = '200ms'
    measured = '600ms'
    slices = 1
    [[points]]
    workload = 'mine: root=SITE/www sessions=SITE/sessions'
    load = '4 sessions'
    [[points]]
    workload = 'mine: root=SITE/www sessions=SITE/sessions'
    load = '200 requests/s'
    clients = [
      '--class=meek: rate=50 source={networks}.1.1',
      '--class=greedy: rate=150 source={networks}.2.1',
    ]
";

fn load_json(directory: &Path) -> Option<Value> {
    let text = fs::read_to_string(directory.join("load.json")).ok()?;
    Some(serde_json::from_str(&text).expect("JSON"))
}

#[test]
fn pages_are_computed_behind_a_server_and_measured() {
    let site = tempfile::tempdir().expect("a directory");
    let path = |name: &str| site.path().join(name);
    fs::create_dir(path("www")).expect("a directory");
    fs::write(path("www/page.php"), "<?php echo str_repeat('=', $_GET['n']);").expect("a file");
    fs::write(path("www/file.html"), "a file").expect("a file");
    fs::write(path("sessions"), "/page.php?n=3000\n/file.html\n").expect("a file");
    let text = EXPERIMENT.replace("SITE", &site.path().display().to_string());
    fs::write(path("php.toml"), text).expect("a file");
    let run = Command::new(env!("CARGO_BIN_EXE_sluicelab"))
        .arg("run")
        .arg(path("php.toml"))
        .arg("--out")
        .arg(path("out"))
        .args(["--sluice", env!("CARGO_BIN_EXE_sluice"), "--loopback", "--data"])
        .arg(path("data"))
        .output()
        .expect("sluicelab runs");
    assert!(run.status.success(), "{run:?}");
    let trials = fs::read_dir(path("out/trials")).expect("trials");
    let results: Vec<Value> =
        trials.filter_map(|trial| load_json(&trial.expect("an entry").path().join("0"))).collect();
    assert!(results.len() >= 3, "one whose replies are judged, and two that are measured, if not several");
    for results in results {
        let replies = |dynamic: bool| {
            let of = results["by_kind"].as_array().into_iter().flatten().find(|of| of["dynamic"] == dynamic);
            of.and_then(|of| of["statuses"]["2xx"].as_u64()).unwrap_or_else(|| panic!("none in {results}"))
        };
        let (computed, files) = (replies(true), replies(false));
        assert!(computed > 10 && files > 10, "{computed} and {files}");
        let bytes = results["replies"]["body_bytes"].as_u64().expect("a number");
        assert!((computed * 3_000 + files * 6).abs_diff(bytes) < 10 * 3_006, "{bytes}");
    }
    let summary =
        String::from_utf8(run.stdout).expect("text").split_whitespace().collect::<Vec<_>>().join(" ");
    for figure in ["of its peak", "wasted seconds/s", "greedy: 2xx/call", "files: p99 ms"] {
        assert!(summary.contains(figure), "{figure} in {summary}");
    }
    let told = fs::read_to_string(path("out/results.json")).expect("results");
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let outcome = &told["found"][1]["series"][0]["rounds"][0]["outcome"];
    let part = |name: &str| {
        let parties = outcome["parties"].as_array().into_iter().flatten();
        let good = parties
            .filter(|party| party["name"] == name)
            .find_map(|party| party["replies_2xx_per_s"].as_f64());
        good.unwrap_or_else(|| panic!("no {name} in {outcome}"))
    };
    assert!(part("meek") > 0.0 && part("meek") < part("greedy"), "{outcome}");
    let computed = outcome["work"]["requests_per_s"].as_f64().expect("work that was noted");
    assert!(computed > 0.0 && computed < part("meek") + part("greedy"), "files are not computed: {outcome}");
    assert!(part("files") > 0.0 && part("computed") > 0.0);
}

/// Carries out an experiment on the loopback interface: what it told, and the results of each server's
/// trials.
fn carried_out(text: &str, directory: &Path) -> (String, Vec<Value>) {
    fs::write(directory.join("experiment.toml"), text).expect("a file");
    let run = Command::new(env!("CARGO_BIN_EXE_sluicelab"))
        .arg("run")
        .arg(directory.join("experiment.toml"))
        .arg("--out")
        .arg(directory.join("out"))
        .args(["--sluice", env!("CARGO_BIN_EXE_sluice"), "--loopback", "--data"])
        .arg(directory.join("data"))
        .output()
        .expect("sluicelab runs");
    assert!(run.status.success(), "{run:?}");
    let trials = fs::read_dir(directory.join("out/trials")).expect("trials");
    let each = |trial: fs::DirEntry| {
        let servers = fs::read_dir(trial.path()).expect("a trial");
        servers.filter_map(|server| load_json(&server.expect("an entry").path())).collect::<Vec<_>>()
    };
    let results = trials.flat_map(|trial| each(trial.expect("an entry"))).collect();
    (String::from_utf8_lossy(&run.stderr).into_owned(), results)
}

/// Bytes of each body, on average, and how many there were.
fn body_bytes(results: &Value) -> (f64, u64) {
    let of =
        |name: &str| results["replies"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {results}"));
    assert_eq!(results["replies"]["statuses"]["2xx"].as_u64(), Some(of("count")), "{results}");
    (of("body_bytes") as f64 / of("count") as f64, of("count"))
}

#[test]
fn programs_in_c_answer_behind_servers_over_both_kinds_of_socket() {
    let site = tempfile::tempdir().expect("a directory");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/applications");
    let text = "
        title = 'Programs in C'
        servers = ['sluice: pool.children=4 pool.keep=4', 'sluice: application.socket=tcp', 'nginx']
        rounds = 1
        again = false
        warm_up = '100ms'
        measured = '400ms'
        slices = 1
        [[points]]
        application = 'c: SOURCES/constant.c workers=8'
        workload = 'constant: bytes=64KiB calls=10'
        load = '4 sessions'
        [[points]]
        application = 'c: SOURCES/specweb99.c workers=8'
        workload = 'dynamic-fixed: bytes=64KiB calls=5 sessions=50 length=yes'
        load = '4 sessions'
        [[points]]
        application = 'c: SOURCES/fragments.c workers=8 FILES={directory}'
        workload = 'dynamic-fixed: bytes=64KiB calls=5 sessions=50'
        load = '4 sessions'
        servers = [
          'copied = sluice: pool.keep=4',
          'named = sluice: pool.keep=4 pool.send_files={\"/f/\"=\"{directory}\"} application.FRAGMENTS=named',
        ]
    ";
    let (told, results) = carried_out(&text.replace("SOURCES", &sources.display().to_string()), site.path());
    assert!(!told.contains("failed: "), "{told}");
    assert!(results.len() >= 16, "three servers at two points, two at one: {}", results.len());
    for results in results {
        let (each, count) = body_bytes(&results);
        assert!((each - 65_536.0).abs() < 1e-9 && count > 10, "{count} of {each} bytes");
    }
}

/// Each server before the lab's own application, and before one that a command starts.
#[test]
fn applications_answer_over_http_behind_servers() {
    let site = tempfile::tempdir().expect("a directory");
    fs::write(site.path().join("app.sessions"), "/app/3000\n".repeat(5)).expect("a file");
    let script = "\
import socketserver, sys
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while self.rfile.readline() not in (b'', b'\\r\\n'):
            pass
        self.wfile.write(b'HTTP/1.0 200 OK\\r\\nContent-Length: 3000\\r\\n\\r\\n' + b'y' * 3000)
class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    request_queue_size = 100
Server(sys.argv[1], Handler).serve_forever()
";
    fs::write(site.path().join("app.py"), script).expect("a file");
    let text = "
        title = 'Applications over HTTP'
        servers = ['sluice', 'nginx', 'haproxy = haproxy: behind=application', 'caddy']
        rounds = 1
        again = false
        warm_up = '100ms'
        measured = '400ms'
        slices = 1
        [[points]]
        name = 'its own'
        application = 'standard: time=1ms workers=3'
        workload = 'mine: root=SITE sessions=SITE/app.sessions'
        load = '4 sessions'
        [[points]]
        name = 'a command'
        application = 'http: /usr/bin/python3 SITE/app.py {socket} workers=2'
        workload = 'mine: root=SITE sessions=SITE/app.sessions'
        load = '4 sessions'
    ";
    let (told, results) = carried_out(&text.replace("SITE", &site.path().display().to_string()), site.path());
    assert!(!told.contains("failed: "), "{told}");
    assert!(results.len() >= 8, "four servers at two points: {}", results.len());
    for results in results {
        let (each, count) = body_bytes(&results);
        assert!((each - 3_000.0).abs() < 1e-9 && count > 10, "{count} of {each} bytes");
    }
}

#[test]
fn support_is_computed_in_php_that_asks_a_back_end() {
    let site = tempfile::tempdir().expect("a directory");
    fs::write(site.path().join("product"), "/support/product.php?item=7\n").expect("a file");
    // The second point is refused if its files are nowhere. The first one makes them.
    fs::create_dir_all(site.path().join("data/support-1")).expect("a directory");
    let text = "
        title = 'Support'
        servers = ['sluice', 'nginx']
        application = 'php-fpm: workers=2 env[BESIM]={besim}'
        rounds = 1
        again = false
        warm_up = '200ms'
        measured = '800ms'
        slices = 1
        [[points]]
        workload = 'support-modified: directories=1 sessions=60 replaced=0.4'
        load = '50 sessions'
        [[points]]
        workload = 'mine: root=SITE/data/support-1 sessions=SITE/product'
        load = '2 sessions'
    ";
    let (told, results) = carried_out(&text.replace("SITE", &site.path().display().to_string()), site.path());
    assert!(!told.contains("failed: "), "{told}");
    let (mut mixed, mut pages) = (0, 0);
    for results in results {
        let (each, count) = body_bytes(&results);
        let kinds = results["by_kind"].as_array().map_or(0, Vec::len);
        if kinds == 2 {
            mixed += 1;
        } else {
            pages += 1;
            assert!((each - 52_700.0).abs() < 1e-9 && count > 5, "{count} pages of {each} bytes");
        }
    }
    assert!(mixed >= 4 && pages >= 4, "two servers, judged and measured: {mixed} and {pages}");
}

#[test]
fn the_back_end_answers_over_http() {
    let mut besim = Command::new(env!("CARGO_BIN_EXE_sluicelab"))
        .args(["besim", "--listen=127.0.0.1:0", "--threads=2"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    BufReader::new(besim.stderr.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
    let address = line.split('/').nth(2).expect("an address");
    let ask = |request: &str| {
        let mut client = TcpStream::connect(address).expect("it listens");
        client.write_all(request.as_bytes()).expect("it takes a request");
        let mut reply = String::new();
        // Whoever is silent loses the connection: the end comes by itself.
        client.read_to_string(&mut reply).expect("text");
        reply
    };
    let twice =
        ask("GET /file?file=3 HTTP/1.1\r\nHost: a\r\n\r\nGET /prices HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(twice.starts_with("HTTP/1.1 200 OK\r\n") && twice.contains("\r\nConnection: keep-alive\r\n"));
    let (_, records) = twice.split_once("\r\n\r\n").expect("a head");
    assert_eq!(records.split("HTTP/1.1 404 Not Found").next().expect("records").lines().count(), 24);
    assert!(twice.ends_with("allowed: categories, search, products, product, files, file\n"), "{twice}");
    assert!(ask("POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 400 Bad Request\r\n"));
    assert!(ask("rubbish\r\n\r\n").starts_with("HTTP/1.1 400"));
    besim.kill().expect("it is there");
    besim.wait().expect("it has ended");
}
