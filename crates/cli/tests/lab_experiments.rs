//! `sluicelab run` and `compare` as people use them, with real servers: what is found, what is refused, what
//! is left behind, and how they go on after they were killed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lab::programs::launcher::{Place, Server, announced};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The server with a fault: examples are built beside tests.
fn faulty() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a file");
    let built = test.parent().and_then(Path::parent).expect("tests are in target/debug/deps");
    let path = built.join("examples/faulty");
    assert!(path.is_file(), "no {} (cargo build --examples)", path.display());
    path
}

/// A directory that keeps everything, and files that are served from it.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("www");
        fs::create_dir(&root).expect("a root");
        fs::write(root.join("small.html"), [b'a'; 900]).expect("a file");
        fs::write(root.join("large.html"), vec![b'b'; 120_000]).expect("a file");
        let calls = "/small.html\n/small.html\n/large.html\n/small.html\n\n";
        fs::write(directory.path().join("log"), calls.repeat(20)).expect("a log");
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Its workload, as it is typed.
    fn workload(&self) -> String {
        format!("mine: root={} sessions={}", self.path("www").display(), self.path("log").display())
    }

    /// Servers, one after the other, for a moment; on loopback, so that anybody may.
    fn experiment(&self, servers: &[String], rounds: u32, more: &str) -> PathBuf {
        let servers: Vec<String> = servers.iter().map(|server| format!("  '{server}',\n")).collect();
        let text = format!(
            "title = 'A test'\nrounds = {rounds}\nwarm_up = '100ms'\nmeasured = '400ms'\ntimeout = '2 s'\n\
             slices = 2\n{more}\nservers = [\n{}]\n[[points]]\nworkload = '{}'\nload = '4 sessions'\n",
            servers.concat(),
            self.workload()
        );
        let path = self.path("experiment.toml");
        fs::write(&path, text).expect("it is written");
        path
    }

    /// One whose servers answer for as short as can be.
    fn short(&self) -> String {
        let path = self.experiment(&["nginx".to_owned()], 1, "");
        let written = fs::read_to_string(&path).expect("it was written");
        let shorter = written.replace("'400ms'", "'200ms'").replace("'100ms'", "'50ms'");
        fs::write(&path, shorter).expect("it is written");
        text(&path)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.command_where_it_may(words);
        command.arg("--loopback");
        command
    }

    /// With networks and control groups of its own, if it may have them.
    fn command_where_it_may(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluicelab"));
        command.args(words).arg(format!("--data={}", self.path("data").display()));
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("sluicelab runs")
    }
}

fn faulty_with(name: &str, fault: &str) -> String {
    format!("{name} = {} --port {{port}} --root {{root}} --fault {fault}", faulty().display())
}

/// A command that serves without a fault.
fn serving() -> String {
    format!("{} --port {{port}} --root {{root}}", faulty().display())
}

fn last_line(told: &str) -> &str {
    told.lines().next_back().unwrap_or_default()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path that is UTF-8").to_owned()
}

/// The keys of what was measured, in order.
fn keys(directory: &Path) -> Vec<String> {
    let journal = fs::read_to_string(directory.join("journal.jsonl")).unwrap_or_default();
    let whole = journal.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let key = |line: &str| {
        let entry: Value = serde_json::from_str(line).expect("a line of JSON");
        entry["key"].as_str().map(str::to_owned)
    };
    whole.filter_map(key).collect()
}

#[test]
fn servers_speak_tls_with_one_certificate() {
    let bench = Bench::new();
    let servers = ["ours = sluice".to_owned(), "nginx".to_owned(), "haproxy".to_owned()];
    let more = "again = false\ntls = true\ntls_group = 'secp256r1'\ntls_resumption = false";
    let (experiment, out) = (bench.experiment(&servers, 1, more), bench.path("results"));
    // Handshakes on a busy machine take a while.
    let longer = fs::read_to_string(&experiment).expect("it was written").replace("'400ms'", "'2 s'");
    fs::write(&experiment, longer).expect("it is written");
    let output = bench.run(&["run", &text(&experiment), "--out", &text(&out)]);
    assert!(output.status.success() && !said(&output).contains("failed"), "{}", said(&output));
    let pem = fs::metadata(out.join("tls.pem")).expect("a certificate");
    assert_eq!(pem.permissions().mode() & 0o777, 0o600);
    harness::schema::check("results", &out.join("results.json"));
    harness::schema::check("journal", &out.join("journal.jsonl"));
    let json = |path: &Path| -> Value { serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap() };
    let results = json(&out.join("results.json"));
    for at in 0..servers.len() {
        let outcome = &results["found"][0]["series"][at]["rounds"][0]["outcome"];
        let per_s = |what: &str| outcome["handshakes"][format!("{what}_per_s")].as_f64();
        assert!(per_s("full") > Some(0.0), "{outcome}");
        assert_eq!((per_s("resumed"), per_s("failed")), (Some(0.0), Some(0.0)), "{outcome}");
        let load = json(&out.join(outcome["directory"].as_str().expect("a directory")).join("load.json"));
        assert_eq!(load["run"]["tls"]["roots"], "file");
        let agreed = load["tls"]["negotiated"].as_array().expect("what handshakes agreed on");
        assert_eq!(agreed.len(), 1, "{agreed:?}");
        assert_eq!((&agreed[0]["version"], &agreed[0]["group"]), (&"1.3".into(), &"secp256r1".into()));
        assert_eq!(agreed[0]["cipher"], "TLS_AES_256_GCM_SHA384");
    }
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("TLS 1.3, secp256r1, TLS_AES_256_GCM_SHA384, all handshakes are full"));
    assert!(!page.contains("PRIVATE KEY"), "reports are for everybody");
}

/// Each server gets multiples of what it can do, for each class of clients, and a resumed run has the same.
/// Servers have an RSA certificate, and a slow CPU where that is allowed.
#[test]
fn a_flood_of_handshakes_comes_beside_other_clients() {
    let bench = Bench::new();
    let is_slow = thread::spawn(|| sys::process::run_in_real_time().is_ok()).join().expect("no panic");
    if !is_slow {
        harness::skip("a slow CPU: real-time priority is not allowed");
    }
    let slow = if is_slow { "slow_cpu = '200 us of 400 us'\n" } else { "" };
    let point = |name: &str, flood: &str| {
        format!(
            "[[points]]\nname = '{name}'\nid = '{name}'\nworkload = 'fixed: bytes=1KiB calls=1'\n\
             load = 'classes'\ncompare = ['2xx/s of class 1', 'p99 ms of class 1']\n\
             clients = ['--class=kept: connections=4 rate=0.2x', '--class=new: rate=20'{flood}]\n"
        )
    };
    let flood = ", '--class=flood: handshakes-only rate=0.5x source={networks}.3.1'";
    let experiment = bench.path("flood.toml");
    let written = format!(
        "title = 'A flood'\nrounds = 1\nagain = false\norder = 'in-turn'\ntls = true\ntls_key = 'rsa'\n\
         tls_resumption = false\nrules = 'none'\nwarm_up = '300ms'\nmeasured = '700ms'\ntimeout = '2 s'\n\
         {slow}servers = ['ours = sluice: --architecture=sped', 'nginx']\n{}{}\
         [[findings]]\npaper = 'none'\nsays = 'a flood takes nothing'\nwithin = 0.1\n\
         expect = 'ours at flood = ours at alone in 2xx/s of class 1'\n",
        point("alone", ""),
        point("flood", flood)
    );
    fs::write(&experiment, written).expect("it is written");
    let out = bench.path("results");
    let run = || bench.run(&["run", &text(&experiment), "--out", &text(&out)]);
    let output = run();
    assert!(output.status.success(), "{}", said(&output));
    harness::schema::check("results", &out.join("results.json"));
    harness::schema::check("journal", &out.join("journal.jsonl"));
    assert!(out.join("tls-rsa.pem").is_file() && !out.join("tls.pem").exists());

    let json = |path: &Path| -> Value { serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap() };
    let results = json(&out.join("results.json"));
    for point in 0..2 {
        for server in 0..2 {
            let outcome = &results["found"][point]["series"][server]["rounds"][0]["outcome"];
            let parties = outcome["parties"].as_array().expect("classes");
            // The classes, and files.
            assert_eq!(parties.len(), 3 + point, "{outcome}");
            assert!(parties[0]["replies_2xx_per_s"].as_f64() > Some(0.0), "{parties:?}");
            assert!(parties[1]["replies_2xx_per_s"].as_f64() > Some(0.0), "{parties:?}");
            assert_eq!(parties[2]["handshakes_per_s"].as_f64() > Some(0.0), point == 1, "{parties:?}");
            assert_eq!(outcome["turns"].is_object(), is_slow, "{outcome}");
            let load = out.join(outcome["directory"].as_str().expect("a directory")).join("load.json");
            assert_eq!(json(&load)["calls"]["outcomes"]["tls_error"], 0);
        }
    }
    let before = keys(&out);
    // On a machine that is busy, some are tried again.
    let is_first = |key: &&String| key.starts_with("calib") && !key.contains(", try ");
    let of = |what: &str| before.iter().filter(is_first).filter(|key| key.contains(what)).count();
    assert_eq!((of("ours, class kept"), of("nginx, class kept"), of("class flood")), (3, 3, 6), "{before:?}");
    assert!(run().status.success());
    assert_eq!(keys(&out), before);
}

#[test]
fn compare_speaks_tls() {
    let bench = Bench::new();
    let (out, workload) = (bench.path("compared"), format!("--workload={}", bench.workload()));
    let usual = ["compare", "nginx", "sluice", &workload, "--rounds=1", "-d", "400ms", "--settling=0s"];
    let output = bench.run(&[&usual[..], &["--tls", "--out", &text(&out)]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let written = fs::read_to_string(out.join("experiment.toml")).unwrap();
    assert!(written.contains("\ntls = true\n"), "{written}");
    let apart = ["--tls", "--tls-version=1.2", "--tls-group=x25519mlkem768"];
    let refused = bench.run(&[&usual[..], &apart].concat());
    assert_eq!(refused.status.code(), Some(2));
    let why = "tls_group: x25519mlkem768 is not in TLS 1.2; allowed: x25519, secp256r1, secp384r1";
    assert!(said(&refused).contains(why), "{}", said(&refused));
}

#[test]
fn servers_are_run_and_everything_is_kept() {
    let bench = Bench::new();
    let servers = ["ours = sluice".to_owned(), "nginx".to_owned(), faulty_with("mine", "none")];
    let (experiment, out) = (bench.experiment(&servers, 1, ""), bench.path("results"));
    let output = bench.run(&["run", &text(&experiment), "--out", &text(&out)]);
    assert!(output.status.success(), "{}", said(&output));
    let told = said(&output);
    // One round says nothing.
    assert!(told.contains("cannot tell nginx from ours") && told.contains("ours again"), "{told}");
    assert_eq!(
        fs::read_to_string(out.join("experiment.toml")).unwrap(),
        fs::read_to_string(&experiment).unwrap()
    );
    let environment: Value =
        serde_json::from_str(&fs::read_to_string(out.join("environment.json")).unwrap()).unwrap();
    assert_eq!(environment["settings"]["network"], "loopback");
    assert!(environment["machine"]["kernel"].is_string(), "{environment}");
    let configured = out.join("trials/verifying-1-nginx/0/nginx.conf");
    assert!(fs::read_to_string(&configured).unwrap().contains("open_file_cache"), "{}", configured.display());
    // The page has it for when the trials are gone.
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("<summary>nginx: start-nginx.sh</summary>") && page.contains("open_file_cache"));
    assert!(page.contains("<summary>ours: start-ours.sh</summary>"));
    let sums =
        Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&out).output();
    let sums = sums.expect("sha256sum");
    assert!(sums.status.success(), "{}", said(&sums));
    // It is told again from what is there, and nothing is measured twice.
    let before = keys(&out);
    let again = bench.run(&["run", &text(&experiment), "--out", &text(&out)]);
    assert!(again.status.success(), "{}", said(&again));
    assert_eq!(keys(&out), before);
    let report =
        Command::new(env!("CARGO_BIN_EXE_sluicelab")).arg("report").arg(&out).output().expect("a report");
    assert!(said(&report).contains("cannot tell nginx from ours"), "{}", said(&report));
    // By the record of a trial alone each is started again: the rest may be gone.
    let servers = ["ours", "nginx", "mine"];
    let scripts = servers.map(|server| script_of(server, &bench, &out));
    fs::rename(&out, bench.path("elsewhere")).unwrap();
    for (server, script) in servers.iter().zip(scripts) {
        starts_again(&script, &bench.path(&format!("run-of-{server}")));
    }
}

/// What there is for other programs: each column has its row in the documentation, and files are what their
/// schemas say.
#[test]
fn other_programs_are_told_what_they_read() {
    let bench = Bench::new();
    let servers = ["ours = sluice".to_owned(), faulty_with("mine", "none")];
    let (experiment, out) = (bench.experiment(&servers, 2, "settling = '1 s'"), bench.path("results"));
    let output = bench.run(&["run", &text(&experiment), "--out", &text(&out)]);
    assert!(output.status.success(), "{}", said(&output));
    harness::schema::check("results", &out.join("results.json"));
    harness::schema::check("journal", &out.join("journal.jsonl"));
    let page = fs::read_to_string(harness::workspace::root().join("docs/lab-data.md")).expect("a page");
    let csv = fs::read_to_string(out.join("results.csv")).expect("it was written");
    let names: Vec<&str> = csv.lines().next().expect("names").split(',').collect();
    for name in &names {
        // Causes of drops are in docs/status.md.
        let documented = if name.starts_with("drops_per_s_") { "drops_per_s_..." } else { name };
        let rows = page.lines().filter(|line| line.starts_with('|'));
        let has = rows
            .filter_map(|row| row.split('|').nth(1))
            .any(|cell| cell.contains(&format!("`{documented}`")));
        assert!(has, "{name} is not documented");
    }
    for wanted in ["valid", "invalid", "failed", "directory", "generator_cpu_us_per_call", "wait_ms_p99"] {
        assert!(names.contains(&wanted), "{wanted} is not among {names:?}");
    }
}

/// The script that starts a server as one of its trials did, copied from the results.
fn script_of(server: &str, bench: &Bench, out: &Path) -> PathBuf {
    let name = format!("start-{server}.sh");
    let trials = fs::read_dir(out.join("trials")).expect("trials").map(|entry| entry.expect("one").path());
    let measured = trials
        .filter(|path| path.file_name().is_some_and(|name| name.display().to_string().starts_with("meas")));
    let mut each = measured.flat_map(|trial| (0..8).map(move |number| trial.join(number.to_string())));
    let record = each.find_map(|of| Some(of.join(&name)).filter(|script| script.is_file()));
    let script = bench.path(&name);
    fs::copy(record.expect("a script"), &script).expect("it is copied");
    script
}

/// Runs such a script, asks the server for a file, and ends it.
fn starts_again(script: &Path, directory: &Path) {
    let address = harness::free_address();
    let mut command = Command::new(script);
    command.env("port", address.port().to_string()).env("run", directory).stderr(Stdio::null());
    let mut started = command.spawn().expect("a shell");
    harness::eventually("somebody listens", || TcpStream::connect(address).is_ok());
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    stream
        .write_all(b"GET /small.html HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .expect("it is read");
    // Not all servers close what is to be closed.
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let (mut reply, mut part) = (String::new(), [0; 4096]);
    while !reply.ends_with(&"a".repeat(900)) {
        let length = stream.read(&mut part).expect("a reply");
        assert!(length > 0, "{}: {reply}", script.display());
        reply += &String::from_utf8_lossy(&part[..length]);
    }
    kill_process(Pid::from_child(&started), Signal::TERM).expect("it is there");
    started.wait().expect("it ends");
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{}: {reply}", script.display());
}

#[test]
fn servers_have_networks_and_shares_of_their_own() {
    let bench = Bench::new();
    let servers = ["ours = sluice".to_owned(), "nginx".to_owned()];
    let (experiment, out) = (bench.experiment(&servers, 1, "again = false"), bench.path("results"));
    let with_share = fs::read_to_string(&experiment).unwrap() + "share = 20\n";
    fs::write(&experiment, with_share).unwrap();
    let run = bench
        .command_where_it_may(&["run", &text(&experiment), "--out", &text(&out)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let run = run.expect("sluicelab runs");
    let id = run.id();
    let output = run.wait_with_output().expect("it ends");
    let told = said(&output);
    if !output.status.success() {
        // Only root may, and not every machine that runs tests has the controllers.
        assert!(told.contains("namespaces") || told.contains("cgroup"), "{told}");
        return harness::skip(format!("servers with networks and shares of their own: {}", last_line(&told)));
    }
    let environment: Value =
        serde_json::from_str(&fs::read_to_string(out.join("environment.json")).unwrap()).unwrap();
    assert_eq!(environment["settings"]["network"], "namespaces");
    let results: Value =
        serde_json::from_str(&fs::read_to_string(out.join("results.json")).unwrap()).unwrap();
    let found = results["found"].as_array().unwrap();
    let outcomes: Vec<&Value> = found
        .iter()
        .flat_map(|point| point["series"].as_array().unwrap())
        .map(|series| &series["rounds"][0]["outcome"])
        .collect();
    assert_eq!(outcomes.len(), 2);
    assert!(outcomes.iter().all(|outcome| outcome["replies_per_s"].as_f64() > Some(0.0)), "{results}");
    assert!(outcomes.iter().all(|outcome| !outcome["turns"].is_null()), "{results}");
    let networks = Command::new("ip").args(["netns", "list"]).output().expect("ip");
    assert!(!said(&networks).contains(&format!("sluicegate-{id}-")), "{}", said(&networks));
    assert!(started_by(id).is_empty() && !scratch_of(id), "left behind: {:?}", started_by(id));
}

#[test]
fn servers_of_a_grid_run_on_as_many_cpus_as_a_point_says() {
    let bench = Bench::new();
    let servers = ["w{n} = sluice: --workers={n}".to_owned()];
    let (path, out) = (bench.experiment(&servers, 1, "again = false"), bench.path("results"));
    let written = fs::read_to_string(&path).expect("it was written");
    let more = "id = 'all'\ncpus = 2\nrules = 'none'\ncompare = ['event waits/s']\n[vary]\nn = [1, 2]\n\
                [[findings]]\npaper = 'p'\nsays = 's'\nexpect = 'w2 > w1 in event waits/s at all'\n";
    fs::write(&path, written + more).expect("it is written");
    let output = bench.run(&["run", &text(&path), "--out", &text(&out)]);
    assert!(output.status.success(), "{}", said(&output));
    let read = |file: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(out.join(file)).expect("a file")).expect("JSON")
    };
    let (results, cpus) = (read("results.json"), &read("environment.json")["settings"]["cpus"]);
    let series = results["found"][0]["series"].as_array().expect("an array");
    let both = format!("taskset -c {},{} ", cpus["server"][0], cpus["clients"][0]);
    for (series, name) in series.iter().zip(["w1", "w2"]) {
        assert_eq!(series["server"]["name"], name);
        let outcome = &series["rounds"][0]["outcome"];
        assert!(outcome["accepting"]["event_waits_per_s"].as_f64() > Some(0.0), "{outcome}");
        let script = fs::read_to_string(script_of(name, &bench, &out)).expect("a script");
        assert!(script.contains(&both), "{both}: {script}");
    }
    let found = &results["findings"][0]["ratio"]["median"];
    assert!(found.as_f64() > Some(0.0), "{}", results["findings"]);
}

#[test]
fn a_server_that_does_not_serve_its_files_is_shown_as_failed() {
    let bench = Bench::new();
    let servers = [
        faulty_with("good", "none"),
        faulty_with("bytes", "wrong-bytes"),
        faulty_with("large", "drops-large"),
        faulty_with("mortal", "ends=200"),
    ];
    let (experiment, out) = (bench.experiment(&servers, 1, ""), bench.path("results"));
    let output = bench.run(&["run", &text(&experiment), "--out", &text(&out)]);
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    // As it is said, wherever lines end.
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    for why in [
        "replies that were compared differ from their files",
        "large is left out: failures of a size: ",
        "mortal is left out: it ended by itself",
    ] {
        assert!(told.contains(why), "{told}");
    }
    // Who failed is not measured, and the others are.
    let measured: Vec<String> = keys(&out).into_iter().filter(|key| key.contains(", round ")).collect();
    assert!(measured.len() >= 2, "{measured:?}");
    assert!(measured.iter().all(|key| key.contains(": good")), "{measured:?}");
}

#[test]
fn what_cpus_run_is_sampled_after_all_else() {
    let bench = Bench::new();
    let more = "profile = '3 s'\n";
    let (experiment, out) = (bench.experiment(&["ours = sluice".to_owned()], 1, more), bench.path("results"));
    let output = bench.run(&["run", &text(&experiment), "--out", &text(&out)]);
    if !output.status.success() {
        // Not every machine that runs tests has perf, or lets it be used.
        let told = said(&output);
        assert!(told.contains("`profile` takes samples with perf"), "{told}");
        return harness::skip(format!("where CPU time goes: {}", last_line(&told)));
    }
    let results: Value =
        serde_json::from_str(&fs::read_to_string(out.join("results.json")).unwrap()).unwrap();
    let groups = results["profiles"][0]["groups"].as_array().unwrap();
    let percent = |name: &str| {
        groups.iter().find(|group| group["group"] == name).and_then(|group| group["percent"].as_f64())
    };
    assert!(percent("networking").unwrap() > 5.0 && percent("the server").unwrap() > 0.0, "{groups:?}");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("networking"), "no table of groups");
}

#[test]
fn the_most_that_is_answered_in_time_is_searched_for() {
    let bench = Bench::new();
    let (experiment, out) = (bench.experiment(&["ours = sluice".to_owned()], 1, ""), bench.path("results"));
    let written = fs::read_to_string(&experiment).unwrap();
    fs::write(&experiment, written.replace("4 sessions", "mat: p50 < 5ms")).unwrap();
    let output = bench.run(&["run", &text(&experiment), "--out", &text(&out)]);
    assert!(output.status.success(), "{}", said(&output));
    let results: Value =
        serde_json::from_str(&fs::read_to_string(out.join("results.json")).unwrap()).unwrap();
    let outcome = &results["found"][0]["series"][0]["rounds"][0]["outcome"];
    let probes = outcome["probes"].as_array().unwrap();
    let rate = |is_served: bool| {
        probes
            .iter()
            .filter(move |probe| probe["is_served"] == is_served)
            .filter_map(|probe| probe["asked_requests_per_s"].as_f64())
    };
    let (served, too_much) = (rate(true).fold(0.0, f64::max), rate(false).fold(f64::INFINITY, f64::min));
    assert!(served > 0.0 && too_much / served <= 1.03, "{probes:?}");
    assert!((outcome["asked_requests_per_s"].as_f64().unwrap() - served).abs() < 1.0, "{outcome}");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("in time in every round"), "no bracket");
}

#[test]
fn what_was_killed_goes_on_and_leaves_nothing_behind() {
    let bench = Bench::new();
    let servers = ["ours = sluice".to_owned(), faulty_with("mine", "none")];
    let (experiment, out) = (bench.experiment(&servers, 3, ""), bench.path("results"));
    let started =
        bench.command(&["run", &text(&experiment), "--out", &text(&out)]).stderr(Stdio::null()).spawn();
    let mut run = started.expect("sluicelab runs");
    wait_for("a round", &mut run, || keys(&out).iter().any(|key| key.contains("round 1")));
    // In the middle of the next: its servers are there.
    thread::sleep(Duration::from_millis(300));
    let id = run.id();
    assert!(!started_by(id).is_empty(), "nothing runs");
    run.kill().expect("it is killed");
    run.wait().expect("it is gone");
    let since = Instant::now();
    while !started_by(id).is_empty() || scratch_of(id) {
        assert!(since.elapsed() < Duration::from_mins(1), "left behind: {:?}", started_by(id));
        thread::sleep(Duration::from_millis(20));
    }
    let before = keys(&out);
    let output = bench.run(&["run", "--resume", &text(&out)]);
    assert!(output.status.success(), "{}", said(&output));
    let after = keys(&out);
    assert_eq!(after[..before.len()], before, "what was there stays");
    let rounds: BTreeSet<&String> = after.iter().filter(|key| key.contains(", round ")).collect();
    assert!(rounds.len() >= 9, "{after:?}");
    // Another experiment does not go on there.
    let other = bench.experiment(&servers, 4, "");
    let output = bench.run(&["run", &text(&other), "--out", &text(&out)]);
    assert!(!output.status.success() && said(&output).contains("is another experiment"), "{}", said(&output));
}

#[test]
fn what_was_interrupted_says_how_it_goes_on() {
    let bench = Bench::new();
    let (experiment, out) = (bench.experiment(&["ours = sluice".to_owned()], 3, ""), bench.path("e 1"));
    let started = bench
        .command(&["run", &text(&experiment), "--out", &text(&out)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut run = started.expect("sluicelab runs");
    wait_for("a round", &mut run, || keys(&out).iter().any(|key| key.contains("round 1")));
    kill_process(Pid::from_child(&run), Signal::INT).expect("it is there");
    let output = run.wait_with_output().expect("it ends");
    let told = said(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let after = |what: &str| {
        let found = told.lines().find_map(|line| line.strip_prefix(&format!("sluicelab: {what}")));
        found.unwrap_or_else(|| panic!("no {what:?} in {told}")).to_owned()
    };
    let done = after("interrupted after ");
    assert!(done.ends_with(" of 6 trials"), "{done}");
    // There is no progress yet if the first try was not valid.
    let last = told.lines().rfind(|line| line.starts_with('[')).unwrap_or("[0/6,").to_owned();
    let counted = done.trim_end_matches(" trials").replace(" of ", "/");
    assert!(last.starts_with(&format!("[{counted},")), "{done}, but {last}");
    // Both commands can be pasted, and the report counts the same.
    let shell = |line: &str| Command::new("sh").args(["-c", line]).output().expect("a shell");
    let report = said(&shell(&after("see the report so far with: ")));
    assert!(report.contains(&format!("so far       {done} are measured.")), "{report}");
    let go_on = after("continue with: ");
    assert!(go_on.contains(" run --resume '") && go_on.ends_with(" --loopback"), "{go_on}");
    let output = shell(&go_on);
    assert!(output.status.success() && !said(&output).contains("so far"), "{}", said(&output));
    assert!(keys(&out).iter().filter(|key| key.contains(", round ")).count() >= 6);
}

fn wait_for(what: &str, run: &mut Child, is_there: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_there() {
        assert!(since.elapsed() < Duration::from_mins(2), "no {what} in time");
        assert!(run.try_wait().expect("a child").is_none(), "it has ended before {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Processes that a run has started, but for the one that cleans up behind it.
fn started_by(run: u32) -> Vec<u32> {
    let mark = format!("SLUICELAB_RUN={run}");
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let is_marked = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_marked).collect()
}

fn scratch_of(run: u32) -> bool {
    let prefix = format!("sluicegate-{run}-");
    let entries = fs::read_dir(std::env::temp_dir()).expect("a directory").flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
}

#[test]
fn settings_are_tuned_in_passes_that_go_on_where_they_were_killed() {
    let bench = Bench::new();
    let (like, out) = (bench.short(), bench.path("tuned"));
    let directory = text(&out);
    let varied = ["--vary=--workers=1,2", "--vary=--send=non-blocking,blocking", "--budget=5min"];
    let words = [&["tune", "sluice", "--like", &like, "--out", &directory][..], &varied].concat();
    let started = bench.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut search = started.expect("sluicelab runs");
    let first = out.join("heat-1");
    wait_for("a trial", &mut search, || keys(&first).iter().any(|key| key.contains(", round 1")));
    search.kill().expect("it is killed");
    search.wait().expect("it is gone");
    let before = keys(&first);
    let output = bench.run(&words);
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    let after = keys(&first);
    assert_eq!(after[..before.len()], before, "what was there stays");
    for expected in [
        "settings drawn at random, each once, by CPU us/reply:",
        "the better half of those, each 4 times",
        "the neighbours of the two best, each 2 times",
        "the two best, measured again together with the default settings, each 10 times",
        "sluice: --workers=2 --send=blocking",
        "as good as the best, within 2%, before the two best were measured again: ",
        "as it comes again",
    ] {
        assert!(told.contains(expected), "no {expected:?} in {told}");
    }
    let page = fs::read_to_string(out.join("fresh/report.html")).expect("a page");
    assert!(page.contains("How these were found") && page.contains("<table class=\"heat\">"), "no map");
    // There is no time for anything.
    let output = bench.run(&["tune", "sluice", "--vary=--workers=1,2", "--like", &like, "--budget=10s"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("--budget: 0.2 minutes are too few"), "{}", said(&output));
}

#[test]
fn all_combinations_are_measured_where_that_is_asked_for() {
    let bench = Bench::new();
    let like = bench.short();
    let tune = |varied: &str, out: &Path| {
        bench.command(&["tune", "nginx", varied, "--exhaustive", "--like", &like, "--out", &text(out)])
    };
    let out = bench.path("tuned");
    let started = tune("--vary=sendfile=off,on", &out).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut search = started.expect("sluicelab runs");
    // The fresh rounds behind it are as after any search.
    wait_for("fresh rounds", &mut search, || out.join("fresh/journal.jsonl").is_file());
    kill_process(Pid::from_child(&search), Signal::INT).expect("it is there");
    let told = said(&search.wait_with_output().expect("it is gone"));
    let go_on = format!("--exhaustive --like {like} --out {} ", text(&out));
    let report = format!("see the report so far with: {} report ", env!("CARGO_BIN_EXE_sluicelab"));
    for expected in [
        "all combinations, each 2 times: 2 settings",
        "round 2: ",
        "the two best, measured again together with the default settings, each 10 times: 2 settings",
        &go_on,
        &format!("{report}{}", text(&out.join("fresh"))),
    ] {
        assert!(told.contains(expected), "no {expected:?} in {told}");
    }
    // What the server refuses is told before anything is measured.
    let out = bench.path("none");
    let output = tune("--vary=no_such_directive=1,2", &out).output().expect("sluicelab runs");
    let told = said(&output);
    assert!(output.status.code() == Some(2) && told.contains("no_such_directive"), "{told}");
    assert!(!out.exists(), "something was begun");
    // What nobody can run is nobody's best.
    let server = format!("mine = sh -c \"exec {} ${{0%=*}} ${{0#*=}}\"", serving());
    let words = ["tune", &server, "--vary=--fault=wrong-bytes,drops-large", "--exhaustive", "--like", &like];
    let told = said(&bench.run(&[&words[..], &["--out", &text(&out)]].concat()));
    assert!(told.contains("none of 2 candidates runs"), "{told}");
}

#[test]
fn mistakes_are_told_with_their_place_before_anything_runs() {
    let bench = Bench::new();
    let path = bench.path("experiment.toml");
    let good = fs::read_to_string(bench.experiment(&["nginx".to_owned()], 1, "")).expect("it was written");
    let many: [(&str, &str, &[&str]); 7] = [
        ("'nginx'", "'ngnix'", &["line 9", "is it nginx?"]),
        ("rounds = 1", "rounds = 0", &["rounds: 0 is not allowed; allowed: 1 to 1000"]),
        ("'4 sessions'", "'4 people'", &["4 people", "allowed: loads such as '64 sessions'"]),
        ("slices = 2", "slice = 2", &["\"slice\" is no key of an experiment (is it slices?)"]),
        ("warm_up = '100ms'", "warm_up = 'soon'", &["\"soon\": not a time; allowed: a number and a unit"]),
        ("warm_up = '100ms'", "warm_up = '20'", &["\"20\": a time needs a unit; allowed: us, ms, s"]),
        ("\nload", "\nshare = 90\nload", &["share: 90 is not allowed; allowed: 3 to 50"]),
    ];
    for (right, wrong, expected) in many {
        fs::write(&path, good.replace(right, wrong)).expect("it is written");
        let output = bench.run(&["run", &text(&path), "--out", &text(&bench.path("results"))]);
        let told = said(&output);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {told}");
        for words in expected.iter().chain(&["experiment.toml"]) {
            assert!(told.contains(words), "{wrong}: {told}");
        }
    }
    // What needs namespaces is refused where there are none.
    fs::write(&path, good.replace("\nload", "\nshare = 30\nload")).expect("it is written");
    let output = bench.run(&["run", &text(&path), "--out", &text(&bench.path("results"))]);
    assert!(
        !output.status.success() && said(&output).contains("has share, which needs"),
        "{}",
        said(&output)
    );
    let output = bench.run(&["compare", "nginx", "apachee"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("is it apache?"), "{}", said(&output));
}

#[test]
fn experiments_of_the_project_are_understood() {
    // What they name is named from there.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project");
    let directory = root.join("experiments");
    let entries = |directory: &Path| {
        let entries = fs::read_dir(directory).expect("experiments");
        entries.map(|entry| entry.expect("an entry").path()).collect::<Vec<_>>()
    };
    let parts = ["", "applications", "overload", "papers"].map(|part| entries(&directory.join(part)));
    // One shows where a difference would be, the other what to set.
    let tell_nothing = ["full.toml", "nginx.toml"];
    let mut count = 0;
    // The catalogue of papers names experiments.
    let is_one =
        |path: &PathBuf| path.extension().is_some_and(|of| of == "toml") && !path.ends_with("papers.toml");
    for path in parts.concat().into_iter().filter(is_one) {
        let output = Command::new(env!("CARGO_BIN_EXE_sluicelab"))
            .current_dir(&root)
            .args(["run", "--check"])
            .arg(&path)
            .output();
        let output = output.expect("sluicelab runs");
        assert!(output.status.success(), "{}", said(&output));
        let may_tell_nothing = tell_nothing.iter().any(|name| path.ends_with(name));
        assert_eq!(said(&output).contains("too few"), may_tell_nothing, "{}", said(&output));
        count += 1;
    }
    assert!(count >= 23, "only {count} experiments");
}

#[test]
fn a_server_that_does_not_start_is_the_exit_code_of_a_comparison() {
    let bench = Bench::new();
    let (workload, out) = (bench.workload(), text(&bench.path("results")));
    let words = ["--rounds=1", "--measured=200ms", "--settling=0s", "--workload", &workload, "--out", &out];
    let compared = |server: &str| {
        let output = bench.run(&[&["compare", "sluice", server][..], &words].concat());
        (output.status.code(), said(&output))
    };
    // One that does not start at all is told before anything is measured.
    let (code, told) = compared("broken = /bin/false {port}");
    assert!(
        code == Some(2) && told.contains("/bin/false {port}: ") && told.contains("exit status: 1"),
        "{told}"
    );
    assert!(!Path::new(&out).exists(), "something was begun");
    // It starts where there is nothing to serve.
    let broken = format!("broken = sh -c \"test -e {{root}}/large.html || exec {}\"", serving());
    let (code, told) = compared(&broken);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("sluicelab: broken was not compared: it does not start"), "{told}");
}

#[test]
fn two_servers_are_compared_by_one_command() {
    let bench = Bench::new();
    let (workload, out) = (bench.workload(), text(&bench.path("results")));
    let words = ["--rounds=1", "--measured=400ms", "--settling=1s", "--workload", &workload, "--out", &out];
    let output = bench.run(&[&["compare", "sluice", "lighttpd"][..], &words].concat());
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("sluice again") && told.contains("cannot tell lighttpd from sluice"), "{told}");
    // What it did is a file that can be run.
    let file = Path::new(&out).join("experiment.toml");
    let check = Command::new(env!("CARGO_BIN_EXE_sluicelab")).args(["run", "--check"]).arg(file).output();
    assert!(check.expect("sluicelab runs").status.success());
}

#[test]
fn a_server_is_compared_with_itself_for_files_of_ones_own() {
    let bench = Bench::new();
    let (root, out) = (text(&bench.path("www")), text(&bench.path("results")));
    let asked = ["--root", &root, "--path", "/small.html 3", "--path=/large.html", "--connections=4"];
    let words =
        ["--requests-per-connection=7", "--rounds=1", "--measured=400ms", "--settling=0", "--out", &out];
    let output = bench.run(&[&["compare", "sluice", "sluice"][..], &asked, &words].concat());
    let told = said(&output);
    assert!(output.status.success(), "{told}");
    let flat = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("/small.html 3, /large.html, 4 sessions"), "{told}");
    assert!(flat.contains("cannot tell sluice 2 from sluice") && flat.contains("sluice again"), "{told}");
    // Three of four are small.
    let trial = bench.path("results/trials/verifying-1-sluice/0/load.json");
    let results: Value = serde_json::from_str(&fs::read_to_string(trial).expect("results")).expect("JSON");
    let calls = |class: &Value| class["calls"].as_f64().unwrap_or(0.0);
    let classes: Vec<&Value> = results["by_size"].as_array().into_iter().flatten().collect();
    let all: f64 = classes.iter().map(|class| calls(class)).sum();
    let most = classes.iter().map(|class| calls(class)).fold(0.0, f64::max);
    assert!((0.7..0.8).contains(&(most / all)), "{}", results["by_size"]);
}

#[test]
fn servers_that_run_already_are_compared_and_go_on() {
    let bench = Bench::new();
    let start = |name: &str| {
        let words =
            [env!("CARGO_BIN_EXE_sluice"), "serve", &text(&bench.path("www")), "--listen=127.0.0.1:0"];
        let place = Place { cpus: &[0], wrapper: &[], log: &bench.path(name) };
        Server::start(&words.map(str::to_owned), place, |said| announced(said).first().copied())
    };
    let (one, two) = (start("one").expect("a server"), start("two").expect("another"));
    let servers =
        [format!("known = {} pid={}", one.url("/"), one.id()), format!("unknown = {}", two.url("/"))];
    let (experiment, out) = (bench.experiment(&servers, 1, "again = false"), bench.path("results"));
    let written = fs::read_to_string(&experiment).unwrap();
    let asked = written.replace(&bench.workload(), "paths: path=/small.html requests-per-connection=9");
    fs::write(&experiment, asked).unwrap();
    // Wherever namespaces may be made.
    let output = bench.command_where_it_may(&["run", &text(&experiment), "--out", &text(&out)]).output();
    let output = output.expect("sluicelab runs");
    assert!(output.status.success(), "{}", said(&output));
    let told = said(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("cannot tell unknown from known in replies/s") && !told.contains("NaN"), "{told}");
    let results: Value =
        serde_json::from_str(&fs::read_to_string(out.join("results.json")).unwrap()).unwrap();
    let of = |at: usize| &results["found"][0]["series"][at]["rounds"][0]["outcome"];
    assert!(of(0)["cpu"]["server_us_per_reply"].as_f64() > Some(0.0), "{}", of(0));
    assert!(of(0)["memory_mb"].as_f64() > Some(0.0) && of(0)["replies_per_s"].as_f64() > Some(0.0));
    // What nobody knows is absent.
    assert!(of(1)["cpu"]["server_us_per_reply"].is_null() && of(1)["memory_mb"].is_null(), "{}", of(1));
    for name in ["descriptors", "context_switches_per_s", "read_mb_per_s"] {
        assert!(of(0)[name].is_number() && of(1)[name].is_null(), "{name}: {}", of(1));
    }
    harness::schema::check("results", &out.join("results.json"));
    harness::schema::check("journal", &out.join("journal.jsonl"));
    // In CSV it is empty.
    let csv = fs::read_to_string(out.join("results.csv")).unwrap();
    let lines: Vec<Vec<String>> = csv.lines().map(harness::csv::fields).collect();
    let column = |name: &str| lines[0].iter().position(|heading| heading == name).expect("a column");
    let (server, descriptors) = (column("server"), column("descriptors"));
    let line = |name: &str| lines.iter().find(|line| line[server] == name).expect("a line");
    assert!(!line("known")[descriptors].is_empty() && line("unknown")[descriptors].is_empty(), "{csv}");
    // Both are pinned to the first CPU, and the clients are on the last.
    assert!(!told.contains("may run on CPU"), "{told}");
    assert!(of(1)["replies_per_s"].as_f64() > Some(0.0) && of(1)["wait_ms"]["p99"].as_f64() > Some(0.0));
    assert!(!one.has_ended().unwrap() && !two.has_ended().unwrap(), "they were ended");
}
