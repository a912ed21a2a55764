//! `sluicelab report`: the page that it writes of a directory of results, in a real browser.
//!
//! The results are made up, of every kind that there is: servers that answer more the more they are asked
//! until they are saturated, one with a name that is no HTML, trials that are not valid and trials that
//! failed.

mod marks;
mod papers;
mod published;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

const EXPERIMENT: &str = r#"
title = "Three servers, from half of what saturates the first to twice as much"
about = "Whether more of them is better where clients come faster than they are answered."
servers = ["sluice", "nginx", "a <b>&\" = lighttpd"]
rounds = 10
share = 30

[[points]]
workload = "specweb99"
load = ["0.5x", "1x", "2x"]
compare = ["replies/s", "p99 ms"]

[[points]]
workload = "one-packet"
load = "64 sessions"
compare = ["CPU us/reply", "replies/s"]

[[findings]]
paper = "Harji 2012, figure 3"
says = "the pipeline server answers more than nginx"
expect = "sluice > nginx in replies/s at specweb99, 2x"
"#;

/// Names as they are typed, what saturates them, and microseconds for each reply.
const SERVERS: [(&str, &str, f64, f64); 4] = [
    ("sluice", "sluice", 12_000.0, 21.5),
    ("nginx", "nginx", 8_000.0, 33.0),
    ("a <b>&\"", "lighttpd", 9_500.0, 28.4),
    ("sluice again", "sluice", 12_000.0, 21.5),
];

/// The same noise for the same trial, within 2%.
fn noise(words: &[&str], round: u64) -> f64 {
    let step = |number: u64, byte: u8| (number ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let bytes = words.iter().flat_map(|word| word.bytes()).chain(round.to_le_bytes());
    let number = bytes.fold(0xcbf2_9ce4_8422_2325, step);
    let mixed = (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    0.98 + mixed as f64 / 65536.0 * 0.04
}

/// What came of a trial in which so much was asked for, or as much as possible.
fn outcome(server: (&str, &str, f64, f64), asked: Option<f64>, round: u64) -> Value {
    let (name, _, most, cost) = server;
    let noise = noise(&[name, &format!("{asked:?}")], round);
    let load = asked.map_or(1.0, |asked| asked / most);
    let replies = asked.map_or(most, |asked| asked.min(most * (1.0 - 0.05 * (load - 1.0).max(0.0)))) * noise;
    let times = |part: f64| noise * (2.0 + 8.0 * load.powi(3).min(40.0)) * (1.0 / (1.0 - part)).powf(0.45);
    let fractions = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999];
    let timeouts = (load - 1.5).max(0.0) * 0.1;
    let sizes = [("< 1 KiB", 0.35), ("< 10 KiB", 0.5), ("< 100 KiB", 0.14), ("< 1 MiB", 0.01)];
    let by_size: Vec<Value> = sizes
        .iter()
        .zip([1.0, 1.1, 1.4, 3.0])
        .map(|((size, part), factor)| {
            let calls = replies * part * 4.0;
            json!({
                "size": size, "calls": calls, "reached": calls, "timeouts": calls * timeouts * factor,
                "unserved": 0.0,
                "reply_time_ms_mean": times(0.5) * factor, "reply_time_ms_p99": times(0.99) * factor,
            })
        })
        .collect();
    let busy = replies * cost / 1e6;
    json!({
        "asked_requests_per_s": asked, "replies_per_s": replies, "served_replies_per_s": null,
        "replies_body_mbps": replies * 0.113, "replies_2xx_per_s": replies, "replies_4xx_5xx_part": 0.0,
        "calls_timeouts_part": timeouts, "calls_errors_part": timeouts * 1.1,
        "wait_ms": {
            "mean": times(0.4), "p50": times(0.5), "p90": times(0.9), "p99": times(0.99),
            "p999": times(0.999), "max": times(0.99999),
            "percentiles": fractions.map(|part| (part, times(part))),
        },
        "by_size": by_size, "accepting": null,
        "drops_per_s": {
            "listen_drops": (load - 1.0).max(0.0) * 900.0,
            "req_queue_full_drops": (load - 1.0).max(0.0) * 300.0, "softnet_drops": 0.0
        },
        "cpu": {
            "server_cpus": busy, "server_user_part": 0.21, "server_us_per_reply": cost * noise,
            "server_softirq_cpus": busy * 0.4, "server_io_wait_cpus": 0.02,
            "server_idle_cpus": (0.8 - busy).max(0.05), "client_softirq_cpus": 0.2, "client_idle_cpus": 0.3,
        },
        "generator_cpu_us_per_call": 15.0,
        "context_switches_per_s": 600.0, "memory_mb": 3.0 + most / 4000.0 + load, "descriptors": 200,
        "page_cache_mb": 126.0, "read_mb_per_s": 0.0, "turns": null,
        "looks": { "began_after_ms": 50.0, "off_ms": 2.0 },
        "replies_each_second": vec![replies; 4], "slices": [], "invalid": [], "failed": [],
    })
}

/// A directory of results, as `sluicelab run` would have left it.
fn results(directory: &Path) {
    fs::create_dir_all(directory).expect("a directory");
    fs::write(directory.join("experiment.toml"), EXPERIMENT).expect("a file");
    let mut lines = vec![json!({ "schema": 3, "settings": {
        "builds": { "sluice": "377bfc3a41528d98", "nginx": "bc08ffbb8c8dcc4a", "sluicelab": "63e6c0057e01" },
        "cpus": { "server": [0], "clients": [1] }, "network": "namespaces",
    }})];
    let mut put = |key: &str, value: Value| lines.push(json!({ "key": key, "value": value }));
    let machine = json!({
        "clock_source": "tsc", "congestion_control": "bbr", "cores": 2, "governor": "none", "host": "lab",
        "is_virtual": true, "kernel": "6.18.44", "memory_mib": 24105, "port_range": "32768-60999",
        "processor": "Intel(R) Xeon(R) Processor", "programs": ["nginx/1.22.1", "sluice 0.1.0"],
        "somaxconn": 4096, "tw_reuse": 2,
    });
    put("session 1", json!({ "command": "sluicelab run three.toml --out made-up", "machine": machine }));
    for round in 0..10 {
        for (point, asked) in [("0.5x", Some(6e3)), ("1x", Some(12e3)), ("2x", Some(24e3)), ("", None)] {
            let workload = if asked.is_some() {
                format!("specweb99, {point}")
            } else {
                "one-packet, 64 sessions".into()
            };
            for server in SERVERS {
                let key = format!("{workload}: {} ({}), round {}", server.0, server.1, round + 1);
                let mut outcome = outcome(server, asked, round);
                match (round, server.0, point) {
                    (2, "nginx", "1x") => {
                        let mut late = outcome.clone();
                        late["invalid"] = json!(["sessions began late: 99.9% within 17 ms"]);
                        late["replies_per_s"] = json!(3_000.0);
                        put(&key, late);
                        put(&format!("{key}, try 2"), outcome);
                        continue;
                    }
                    (4, "a <b>&\"", "2x") => {
                        outcome["failed"] = json!(["unfairness: 12.00%, at most 5.00% is allowed (< 1 MiB)"]);
                    }
                    // The last round is not measured yet.
                    (9, "a <b>&\"", "") => continue,
                    _ => {}
                }
                put(&key, outcome);
            }
        }
    }
    let profile = json!([
        { "group": "networking", "percent": 41.3 }, { "group": "data copying", "percent": 17.7 },
    ]);
    put(&format!("profile of {} at specweb99, 1x", SERVERS[0].1), profile);
    let text: Vec<String> = lines.iter().map(ToString::to_string).collect();
    fs::write(directory.join("journal.jsonl"), text.join("\n") + "\n").expect("a file");
}

/// Left there for people to look at.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lab_report").join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("a directory");
    directory
}

/// What the program says of a directory.
fn report(directory: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicelab"));
    let output = command.arg("report").arg(directory).output().expect("it runs");
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

const HOW_TO_GET: &str = "apt-get install chromium";

/// A page of this width, in a light or a dark browser: what a script says of it. The picture stays beside it.
fn seen(page: &Path, width: u32, is_dark: bool) -> Value {
    let scheme = if is_dark { "dark" } else { "light" };
    let name = |what: &str| page.with_file_name(format!("{width}-{scheme}{what}"));
    // Windows can't be as narrow as phones, frames can. All that is one click away is there as well.
    let frame = format!(
        r#"<!doctype html><meta name="color-scheme" content="light dark">
        <style>body {{ margin: 0 }} iframe {{ border: 0; width: {width}px; height: 100vh }}</style>
        <iframe src="{}"></iframe><script>
        {script}
        onload = () => {{
            const inside = document.querySelector("iframe").contentWindow, page = inside.document;
            const closed = page.documentElement.scrollHeight;
            for (const details of page.querySelectorAll("details")) details.open = true;
            const root = page.documentElement;
            const labels = [...page.querySelectorAll("figure svg[role=img]")].map(svg => svg.ariaLabel);
            document.title = JSON.stringify({{
                width: root.clientWidth, scroll: root.scrollWidth, closed, opened: root.scrollHeight,
                requests: inside.performance.getEntriesByType("resource").length,
                paper: inside.getComputedStyle(page.body).backgroundColor,
                drawings: labels.length, unnamed: labels.filter(label => !label).length,
                // The smallest letters in a drawing, as they are seen.
                letters: Math.min(...[...page.querySelectorAll("figure svg text")].map(
                    text => parseFloat(inside.getComputedStyle(text).fontSize) * text.getScreenCTM().a)),
                bold: page.querySelectorAll("b").length,
                drawn: drawn(page),
            }});
            for (const details of page.querySelectorAll("details")) details.open = false;
        }};
        </script>"#,
        page.file_name().expect("a name").display(),
        script = marks::SCRIPT
    );
    fs::write(name(".html"), frame).expect("a file");
    let profile = tempfile::tempdir().expect("a directory");
    let mut browser = Command::new("chromium");
    browser.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
    ]);
    browser.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    browser.args([
        "--allow-file-access-from-files",
        "--hide-scrollbars",
        "--enable-logging=stderr",
        "--dump-dom",
    ]);
    browser.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark)));
    browser.arg(format!("--window-size={},8000", width.max(500)));
    browser.arg(format!("--screenshot={}", name(".png").display()));
    browser.arg(format!("--user-data-dir={}", profile.path().display()));
    browser.arg(format!("file://{}", name(".html").display()));
    let output = browser.output().unwrap_or_else(|error| panic!("chromium: {error}; {HOW_TO_GET}"));
    let (document, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!said.contains("CONSOLE"), "{said}");
    let picture = fs::read(name(".png")).expect("a picture");
    assert!(picture.len() > 50_000, "an empty picture: {} bytes", picture.len());
    let title = document.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    let title = title.unwrap_or_else(|| panic!("no title: {document} {said}")).0;
    let plain = [("&quot;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
    let title = plain.iter().fold(title.to_owned(), |title, (from, to)| title.replace(from, to));
    serde_json::from_str(&title).expect("JSON")
}

#[test]
fn a_browser_shows_it_on_any_screen_and_asks_nobody() {
    let directory = directory("any-screen");
    results(&directory);
    report(&directory);
    let page = directory.join("report.html");
    for width in [360, 1280] {
        let [light, dark] = [false, true].map(|is_dark| seen(&page, width, is_dark));
        // Lines over the rate, rows of dots, distributions, sizes and bars.
        let kinds = marks::check(light["drawn"].clone());
        assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");
        for seen in [&light, &dark] {
            assert_eq!((&seen["width"], &seen["scroll"]), (&json!(width), &json!(width)));
            assert_eq!(
                (&seen["requests"], &seen["unnamed"], &seen["bold"]),
                (&json!(0), &json!(0), &json!(0))
            );
            let number = |name: &str| seen[name].as_f64().unwrap_or_default();
            assert!(number("drawings") > 25.0 && number("letters") > 9.0, "{seen}");
            assert!(number("opened") > number("closed") * 1.2, "{seen}");
        }
        assert_eq!(
            (&light["paper"], &dark["paper"]),
            (&json!("rgb(255, 255, 255)"), &json!("rgb(22, 24, 28)"))
        );
    }
}

#[test]
fn the_script_of_the_page_for_other_programs_draws_a_figure() {
    let page = fs::read_to_string(harness::workspace::root().join("docs/lab-data.md")).expect("a page");
    let (_, script) = page.split_once("```python\n").expect("a script");
    let (script, _) = script.split_once("```").expect("its end");
    assert_eq!(script.lines().filter(|line| !line.is_empty()).count(), 10, "{script}");
    if !harness::schema::has_python("pandas, matplotlib", "a figure by pandas") {
        return;
    }
    let directory = directory("a figure");
    results(&directory);
    report(&directory);
    assert_eq!(harness::schema::run_python(script, &[], &directory), Ok(()));
    let figure = fs::read_to_string(directory.join("figure.svg")).expect("a figure");
    // Letters are shapes, and named in comments.
    for drawn in ["<svg", "<!-- sluice -->", "<!-- nginx -->", "<!-- specweb99, 0.5x -->"] {
        assert!(figure.contains(drawn), "no {drawn}");
    }
}

#[test]
fn a_terminal_has_the_verdict_and_the_address_of_the_page() {
    let directory = directory("a terminal");
    results(&directory);
    let said = report(&directory);
    harness::schema::check("results", &directory.join("results.json"));
    harness::schema::check("journal", &directory.join("journal.jsonl"));
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 80 || line.contains('/')), "{said}");
    for expected in [
        "so far       159 of 163 trials are measured.",
        "worse        one-packet, 64 sessions: nginx has ",
        "failed       specweb99, 2x: no verdict on a <b>&\" and sluice:",
        "holds         Harji 2012, figure 3: \"the pipeline server",
        "specweb99: replies/s over offered requests/s",
        "a sluice, b nginx, c a <b>&\", * several",
        "  Trials of nginx that were not valid and were measured again: 1.",
        "one-packet, 64 sessions: CPU us/reply (less is better; ▒: 95% certain)",
    ] {
        assert!(said.contains(expected), "{expected} is not in {said}");
    }
    assert_eq!(lines[lines.len() - 2], format!("results: {}", directory.display()));
    let encoded = directory.display().to_string().replace(' ', "%20");
    assert_eq!(lines[lines.len() - 1], format!("report:  file://{encoded}/report.html"));
    for (name, beginning) in [("results.csv", "stage,point,load,server,"), ("results.json", "{\"")] {
        let text = fs::read_to_string(directory.join(name)).expect(name);
        assert!(text.starts_with(beginning), "{text}");
    }
    // It can be made again.
    assert_eq!(report(&directory), said);
}
