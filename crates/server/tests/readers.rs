//! What we write, read by those for whom it is written: goaccess reads the access log, Prometheus's own
//! parser the metrics. Needs the Debian packages `goaccess` and `python3-prometheus-client`.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::{Command, Output, Stdio};

use http1::{Fields, Head, Method, Terms, Version};
use server::access_log::{AccessLog, LogFile, Writer};
use server::config::{LogFormat, LogTarget, PoolRule, Settings, WhenBehind};
use server::counters::Counters;
use server::queues::{Lines, Queues};
use server::status::{Exposition, Sources, WorkerSource, prometheus};
use sys::socket::PeerAddress;

#[test]
fn goaccess_understands_every_combined_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let log = LogFile::open(&LogTarget::File(path.clone()), None).unwrap();
    let writer = Writer::start(log.into(), 1).unwrap();
    let mut log = writer.worker(LogFormat::Combined, WhenBehind::Wait, Box::leak(Box::default()));
    let usual = Fields::new(
        b"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0\r\n\
          Referer: http://example.org/\r\n",
    );
    let hostile = Fields::new(b"User-Agent: \" 200 1 \"\\\n\x00\xff\r\n");
    for n in 0..50 {
        log_one(&mut log, format!("/page-{}.html?q=%22", n % 5).as_bytes(), usual);
    }
    log_one(&mut log, b"/\"quoted\"", hostile);
    log_one(&mut log, b"/plain", Fields::default());
    drop(log);
    writer.end().wait();

    let report = dir.path().join("report.json");
    let arguments = ["--log-format=COMBINED", "--no-global-config", "-o"];
    run(Command::new("goaccess").arg(&path).args(arguments).arg(&report), b"", "goaccess");
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    let general = &report["general"];
    assert_eq!(
        (&general["valid_requests"], &general["failed_requests"]),
        (&52.into(), &0.into()),
        "{general}"
    );
    assert_eq!(general["bandwidth"], 52 * 1234);
    assert_eq!(report["status_codes"]["data"][0]["hits"]["count"], 52);
}

#[test]
fn prometheus_understands_the_metrics() {
    let counters: &'static Counters = Box::leak(Box::default());
    counters.accept_phase(3);
    counters.reply(200);
    let worker =
        |counters: &'static Counters| WorkerSource { counters: vec![counters], wake: Box::new(|| {}) };
    let workers = vec![worker(counters), worker(Box::leak(Box::default()))];
    let mut settings = Settings::new("/".into());
    settings.pools.push(PoolRule { name: "php unix:/a\"b".into(), ..PoolRule::default() });
    let pools = Queues::new(&settings, 1, 0, &mut Lines::default()).unwrap();
    let started = std::time::SystemTime::now();
    let past = Box::leak(Box::default());
    let (name, pools) = ("quoted \"name\" \\", Some(pools));
    let sources = Sources::new(name, started, workers, Vec::new(), past, Vec::new(), pools);
    // The parsers check names, types, suffixes, the order of lines and the buckets of histograms.
    let read_as = |parser: &str, exposition: Exposition| {
        let script = format!(
            "
import sys
from prometheus_client.{parser} import text_string_to_metric_families as parse
for family in parse(sys.stdin.read()):
    for sample in family.samples:
        print(family.type, sample.name, sorted(sample.labels.items()), sample.value)
"
        );
        let metrics = prometheus::render(sources.snapshot(), exposition, prometheus::Rows::Workers);
        // Debian's, which sees Debian's packages, whatever else is called python3 here.
        let mut parser = Command::new("/usr/bin/python3");
        let output = run(parser.args(["-c", &script]), metrics.as_bytes(), "python3-prometheus-client");
        String::from_utf8(output.stdout).unwrap().replace(".0\n", "\n")
    };
    let open_metrics = read_as("openmetrics.parser", Exposition::OpenMetrics);
    let plain = read_as("parser", Exposition::Plain);
    for read in [&open_metrics, &plain] {
        for line in [
            "counter sluice_accepts_total [('worker', '0')] 3",
            "counter sluice_replies_total [('class', '2xx'), ('worker', '0')] 1",
            "histogram sluice_accepts_per_phase_bucket [('le', '4.0'), ('worker', '0')] 1",
            "gauge sluice_worker_responsive [('worker', '1')] 0",
            "gauge sluice_pool_in_flight [('pool', 'php unix:/a\"b')] 0",
            "histogram sluice_pool_waits_seconds_count [('pool', 'php unix:/a\"b')] 0",
        ] {
            assert!(read.lines().any(|l| l == line), "{line}\n{read}");
        }
        assert!(read.contains(r#"('architecture', 'quoted "name" \\')"#), "{read}");
        assert!(!read.lines().any(|line| line.starts_with("unknown ")), "each has a type: {read}");
    }
    // What never changes has a type of its own in one of them only, and memory changes between two looks.
    let names = |read: &str| -> Vec<String> {
        let lines = read.lines().filter_map(|line| line.split_once(' ')?.1.rsplit_once(' '));
        lines.map(|(sample, _)| sample.to_owned()).collect()
    };
    assert_eq!(names(&open_metrics), names(&plain));
}

fn log_one(log: &mut AccessLog, target: &[u8], fields: Fields<'_>) {
    let terms = Terms { version: Version::Http11, persistent: true, body: true };
    let head = Head { method: Method::Get, target, path: target, is_encoded: false, fields, terms };
    let peer = PeerAddress::Inet((Ipv4Addr::new(192, 0, 2, 7), 40_000).into());
    let mut line = Vec::new();
    log.begin(&mut line, &peer, &head, 1_790_000_000);
    log.end(&line, 200, 1234, 1);
}

/// Runs a program to its end, feeding it `input`; `package` is where to get it.
fn run(command: &mut Command, input: &[u8], package: &str) -> Output {
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.unwrap_or_else(|error| panic!("{error}: install the Debian package {package}"));
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{package}: {}", String::from_utf8_lossy(&output.stderr));
    output
}
