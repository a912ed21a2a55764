//! Tests the page and the terminal's text with invented results.

use serde_json::json;

use super::*;
use crate::analysis::holding;
use crate::analysis::series::Found;
use crate::analysis::series::Series;
use crate::description::experiment::Experiment;
use crate::description::quantity::COST;
use crate::report::results::LeftOut;
use crate::report::summary;
use crate::tests::outcome;
use crate::tests::{in_doubt, series};

/// A name with characters that are special in HTML.
const NAME: &str = "<b>&\"'";

fn experiment() -> Experiment {
    let text = format!(
        "title = 'A {NAME}'\nservers = ['sped = nginx', {:?}]\n[[points]]\nworkload = 'single'\n\
         load = ['1x', '2x', '64 sessions']\n",
        format!("{NAME} = nginx")
    );
    // In TOML, a string with an apostrophe needs double quotes.
    Experiment::parse(&text.replace(&format!("'A {NAME}'"), "\"A <b>&\\\"'\"")).unwrap()
}

/// Results in which `of` gives the series of each point.
fn results(of: impl Fn(usize) -> Vec<Series>) -> Results {
    let experiment = experiment();
    let points = experiment.points.iter().enumerate();
    let found: Vec<Found> = points
        .map(|(number, point)| Found { point: point.clone(), series: of(number), missing: 0 })
        .collect();
    let (verdicts, _) = holding::evaluate(&found, &[], &[], experiment.margin, &|_, _, _| None);
    Results {
        schema: super::results::SCHEMA,
        settings: json!({ "builds": {}, "cpus": { "server": [0], "clients": [1] }, "network": "loopback" }),
        sessions: Vec::new(),
        left_out: Vec::new(),
        calibrating: Vec::new(),
        confirming: Vec::new(),
        unsteady: Vec::new(),
        findings: Vec::new(),
        system_calls: Vec::new(),
        profiles: Vec::new(),
        trials: 0,
        missing: 0,
        experiment,
        found,
        verdicts,
    }
}

/// Ten rounds of two servers and of the A/A control. The second server is slower the higher the load is.
fn measured() -> Results {
    results(|number| {
        let at = |replies: f64| {
            let asked = (number < 2).then_some(100.0 * (number as f64 + 1.0));
            let mut all = [replies; 10].map(outcome);
            for outcome in &mut all {
                outcome.asked_requests_per_s = asked;
            }
            all.map(|outcome| crate::analysis::series::Taken::of(vec![outcome])).into()
        };
        let of = |name: &str, replies| Series { rounds: at(replies), ..series(name, &[]) };
        vec![of("sped", 100.0), of(NAME, 80.0 - 20.0 * number as f64), of("sped again", 100.0)]
    })
}

fn page(results: &Results) -> String {
    Page::of(results, None, Vec::new()).render().unwrap()
}

#[track_caller]
fn holds(page: &str, expected: &[&str]) {
    for expected in expected {
        assert!(page.contains(expected), "{expected} is not there");
    }
}

#[test]
fn names_are_text_wherever_they_stand() {
    let page = page(&measured());
    assert!(!page.contains("<b>"), "{page}");
    holds(&page, &["<title>A &#60;b&#62;&#38;&#34;&#39;</title>", "<td>&#60;b&#62;&#38;&#34;&#39;</td>"]);
}

#[test]
fn nothing_is_asked_for_from_anywhere() {
    let page = page(&measured());
    holds(&page, &["default-src 'none'; style-src 'unsafe-inline'"]);
    for bad in ["http:", "https:", "url(", "@import", "<script", "<link", "<img", " src="] {
        assert!(!page.contains(bad), "{bad}");
    }
}

#[test]
fn a_page_has_verdicts_curves_and_rows() {
    let page = page(&measured());
    let curves = ["Reply rate", "Throughput", "Mean response time", "Cumulative distribution, 64 sessions"];
    holds(&page, &curves);
    holds(&page, &["Mean response time over CPU time, single", "<th>CPU % of each</th>"]);
    holds(
        &page,
        &[
            "comparisons: sped is better in 4",
            "All comparisons with sped",
            "<li class=\"worse\"><span class=\"badge\">sped is better</span>",
            "has 60.0% less replies/s than sped (0.400 to 0.400 times",
            "<h2 id=\"w1\">single, clients come at set rates</h2>",
            "<h2 id=\"w2\">single, 64 sessions</h2>",
            "class=\"diagonal\" d=\"M52 246L",
            "replies/s (more is better), compared with sped",
            "class=\"margin\"",
            // The second server's curve: (80 + 60) / 2 of the 100 of the first.
            "<td>0.700</td>",
            "All 90 trials count.",
            "<summary>Data and settings</summary>",
        ],
    );
}

#[test]
fn files_and_what_is_computed_have_curves_of_their_own() {
    let mut results = measured();
    assert!(!page(&results).contains("Cumulative distribution, computed"));
    for series in results.found.iter_mut().flat_map(|found| &mut found.series) {
        for taken in series.rounds.iter_mut().flatten() {
            let mut party = taken.outcome.parties[0].clone();
            (party.name, party.percentiles) = ("computed".to_owned(), vec![(0.5, 31.0), (0.99, 47.0)]);
            taken.outcome.parties.push(party);
        }
    }
    let page = page(&results);
    holds(&page, &["Cumulative distribution, computed, 64 sessions", "Percentiles, meek, 1x"]);
    holds(&page, &["<th>99% ms</th>", "<td>31.0</td><td>47.0</td>"]);
}

#[test]
fn results_without_anything_are_a_page() {
    let nothing = results(|_| Vec::new());
    holds(&page(&nothing), &["No server was compared with another.", "All 0 trials count."]);
    let unmeasured = results(|_| vec![Series { rounds: vec![None; 6], ..series("sped", &[]) }]);
    let unmeasured = Results { trials: 18, missing: 6, ..unmeasured };
    holds(&page(&unmeasured), &["12 of 18 trials are measured."]);
    assert_eq!(files::csv(&nothing).lines().count(), 1);
}

#[test]
fn what_is_missing_failed_or_not_valid_is_shown_and_not_averaged_in() {
    let mut results = results(|_| {
        let mut missing = series("sped", &[100.0; 6]);
        missing.rounds[2] = None;
        let mut failed = series(NAME, &[50.0; 6]);
        if let Some(Some(taken)) = failed.rounds.first_mut() {
            taken.outcome.failed.push("unfairness: 30%".to_owned());
            taken.outcome.replies_per_s = 7777.0;
        }
        vec![missing, failed, in_doubt(series("sped again", &[100.0; 6]))]
    });
    let why = "it does not listen".to_owned();
    results.left_out.push(LeftOut { server: "gone".to_owned(), point: "single, 1x".to_owned(), why });
    let page = page(&results);
    holds(
        &page,
        &[
            "gone is left out: it does not listen.",
            "<li class=\"failed\"><span class=\"badge\">failed</span>",
            "<td>unfairness: 30%</td>",
            "<td>late</td>",
            "6 of 51 trials are shown as crosses and are part of no average",
            "<use href=\"#x\" class=\"uncounted s1\"",
            "<td>50.0</td><td>50.0 50.0 50.0 50.0 50.0 [7777]</td>",
        ],
    );
}

#[test]
fn programs_get_a_line_for_each_trial() {
    let results = measured();
    let csv = files::csv(&results);
    let mut lines = csv.lines();
    let headings: Vec<&str> = lines.next().unwrap().split(',').collect();
    assert_eq!(headings[..4], ["stage", "point", "load", "server"]);
    let column = headings.iter().position(|name| *name == "replies_per_s").unwrap();
    assert!(
        headings.contains(&"wait_ms_p999") && headings.contains(&"drops_per_s_listen_drops"),
        "{headings:?}"
    );
    let first: Vec<&str> = lines.next().unwrap().split(',').collect();
    // The point's name has a comma, so it is quoted.
    assert_eq!((first[1], first[2], first[column + 1]), ("\"single", " 1x\"", "100"));
    assert_eq!(csv.lines().count(), 91);
    let quoted = csv.lines().find(|line| line.contains("<b>")).unwrap();
    assert!(quoted.contains("\"<b>&\"\"'\""), "{quoted}");
}

#[test]
fn files_are_written_and_addressed() {
    let directory = tempfile::tempdir().unwrap();
    let page = write(&measured(), directory.path()).unwrap();
    for name in FILES {
        assert!(directory.path().join(name).metadata().unwrap().len() > 1_000, "{name}");
    }
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(directory.path().join("results.json")).unwrap()).unwrap();
    assert_eq!(json["verdicts"][0]["says"], "less");
    assert_eq!(json["found"][2]["series"][0]["rounds"][0]["outcome"]["replies_per_s"], 100.0);
    assert!(address(&page).starts_with("file:///"));
    assert_eq!(address(Path::new("/a b/ü#.html")), "file:///a%20b/%C3%BC%23.html");
}

#[test]
fn a_terminal_is_told_in_eighty_columns() {
    let text = summary::text(&measured());
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    holds(
        &text,
        &[
            "worse        single, 2x: <b>&\"' has 40.0% less replies/s than sped (0.600 to\n",
            "single: replies/s over offered requests/s",
            "a sped, b <b>&\"', * several",
            "  sped               ███",
        ],
    );
}

#[test]
fn a_terminal_has_whole_names_and_says_what_is_faster() {
    let long = "http://127.0.0.1:8080/a/file.bin pid=71";
    let mut results = measured();
    let found = &mut results.found[2];
    found.point.compare = vec![COST];
    found.series.pop();
    found.series[1].server.name = long.to_owned();
    for (series, cost) in found.series.iter_mut().zip([12.5, 20.0]) {
        for taken in series.rounds.iter_mut().flatten() {
            taken.outcome.cpu.server_us_per_reply = cost;
        }
    }
    for taken in found.series[0].rounds.iter_mut().flatten() {
        taken.outcome.clients_were_short.push("the generator's CPU 1 was full".to_owned());
    }
    let text = summary::text(&results);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    holds(
        &flat,
        &[
            "64 sessions times sped replies/s mean ms",
            "sped 1 >100 ",
            "> : clients had no CPU time left to send more;",
            &format!("{long} 1.600 (1.600 to 1.600) 40 "),
            &format!("1,000,000 / (CPU us/reply) replies/s: sped 80000, {long} 50000."),
            &format!("Memory: sped 5 MB, {long} 5 MB."),
        ],
    );
}
