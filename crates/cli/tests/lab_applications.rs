//! `sluicelab run` with an application: PHP-FPM behind nginx.

use std::fs;
use std::path::Path;
use std::process::Command;

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
    for figure in ["of its peak", "seconds in vain/s", "greedy: of what it asked for", "files: p99 ms"] {
        assert!(summary.contains(figure), "{figure} in {summary}");
    }
    let told = fs::read_to_string(path("out/results.json")).expect("results");
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let outcome = &told["found"][1]["series"][0]["rounds"][0]["outcome"];
    let part = |name: &str| {
        let parties = outcome["parties"].as_array().into_iter().flatten();
        let good =
            parties.filter(|party| party["name"] == name).find_map(|party| party["good_per_s"].as_f64());
        good.unwrap_or_else(|| panic!("no {name} in {outcome}"))
    };
    assert!(part("meek") > 0.0 && part("meek") < part("greedy"), "{outcome}");
    let computed = outcome["work"]["requests_per_s"].as_f64().expect("work that was noted");
    assert!(computed > 0.0 && computed < part("meek") + part("greedy"), "files are not computed: {outcome}");
    assert!(part("files") > 0.0 && part("computed") > 0.0);
}
