//! Checks that the catalogue, the kept journals, and the published results agree.

use std::fs;
use std::path::PathBuf;

use super::catalogue::{Catalogue, experiment};
use super::kept::{COMPRESSED, evaluate, evaluate_all, is_kept, keep, version};
use super::measured::{FILE, Measured};
use super::quick::Quick;
use super::verdict::{Says, Verdict, verdicts};
use super::{document, page, show, text};
use crate::description::experiment::{Experiment, PointSpec};
use crate::description::finding::Of;
use crate::report::results::JOURNAL;

fn root() -> PathBuf {
    harness::workspace::root()
}

fn catalogue() -> Catalogue {
    Catalogue::embedded().unwrap()
}

/// The experiments of the catalogue that exist.
fn experiments(catalogue: &Catalogue) -> Vec<(&str, Experiment)> {
    let of = |name| Some((name, Experiment::parse(experiment(name)?).unwrap()));
    catalogue.experiments().into_iter().filter_map(of).collect()
}

#[test]
fn a_row_that_has_an_experiment_is_checked_by_a_finding() {
    let catalogue = catalogue();
    let experiments = experiments(&catalogue);
    for row in &catalogue.rows {
        for name in row.all_experiments() {
            let Some((_, experiment)) = experiments.iter().find(|(known, _)| *known == name) else {
                continue;
            };
            let checks = experiment.findings.iter().any(|finding| finding.id.as_ref() == Some(&row.id));
            assert!(checks, "no finding of experiments/{name} has the id {}", row.id);
        }
    }
    for (name, experiment) in &experiments {
        for id in experiment.findings.iter().filter_map(|finding| finding.id.as_ref()) {
            let row = catalogue.row(id).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(
                row.all_experiments().any(|other| other == *name),
                "{id} does not name experiments/{name}"
            );
        }
    }
}

const HOW_TO_MEND: &str =
    "is not what the journals say: run sluicelab papers report and look at what changes";

#[test]
fn what_is_published_is_what_the_journals_say() {
    let (catalogue, root) = (catalogue(), root());
    let measured = evaluate_all(&catalogue, &root).unwrap();
    let published = fs::read_to_string(root.join("docs/measurements").join(FILE)).unwrap();
    assert!(published == measured.text().unwrap(), "docs/measurements/{FILE} {HOW_TO_MEND}");
    assert_eq!(Measured::embedded().unwrap(), measured);
    let document = fs::read_to_string(root.join(document::FILE)).unwrap();
    assert!(document == document::markdown(&catalogue, &measured), "{} {HOW_TO_MEND}", document::FILE);
}

/// A small measurement: its experiment and its directory.
const SMALL: (&str, &str) =
    ("applications/transports-cpus.toml", "docs/measurements/applications/transports-cpus");

#[test]
fn a_relation_that_was_made_false_is_found() {
    let (name, directory) = SMALL;
    let catalogue = catalogue();
    let today = Experiment::parse(experiment(name).unwrap()).unwrap();
    let published = Measured::embedded().unwrap();
    let row = catalogue.row("Y10-5.2").unwrap();
    let says = Verdict::of(row, &published).says;
    let document = document::markdown(&catalogue, &published);

    let mut other = today.clone();
    for finding in &mut other.findings {
        let relation = &mut finding.expect;
        std::mem::swap(&mut relation.left, &mut relation.right);
    }
    let at = (directory, Some("2026-11-26"));
    let mut changed = published.clone();
    changed.put(evaluate((name, &other), &root().join(directory), at).unwrap());
    assert_ne!(Verdict::of(row, &changed).says, says);
    assert_ne!(document::markdown(&catalogue, &changed), document);
}

#[test]
fn what_is_complete_is_kept_and_says_the_same_there() {
    let (name, directory) = SMALL;
    let from = root().join(directory);
    let [work, to] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for file in ["experiment.toml", "environment.json"] {
        fs::copy(from.join(file), work.path().join(file)).unwrap();
    }
    let mut journal = String::new();
    let packed = fs::File::open(from.join(COMPRESSED)).unwrap();
    std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(packed), &mut journal).unwrap();
    let written = work.path().join(JOURNAL);

    // The last trial is not measured yet.
    let trials: Vec<&str> = journal.lines().collect();
    let at = trials.iter().rposition(|line| line.contains(", round ")).unwrap();
    let cut: String =
        trials.iter().enumerate().filter(|(n, _)| *n != at).flat_map(|(_, line)| [*line, "\n"]).collect();
    fs::write(&written, cut).unwrap();
    let error = keep(work.path(), to.path(), "2026-12-01").unwrap_err().to_string();
    assert!(error.contains("1 trials are not measured yet"), "{error}");

    fs::write(&written, &journal).unwrap();
    keep(work.path(), to.path(), "2026-12-01").unwrap();
    let measured = Experiment::read(&from.join("experiment.toml")).unwrap();
    assert!(is_kept(&measured, to.path()).unwrap());
    let today = Experiment::parse(experiment(name).unwrap()).unwrap();
    let of = |path, at| evaluate((name, &today), path, at).unwrap();
    let (there, here) = (of(to.path(), ("x", None)), of(&from, ("x", Some("2026-12-01"))));
    assert_eq!(there, here);
    assert_eq!(there.date, "2026-12-01");
}

#[test]
fn another_version_measures_something_else() {
    let of = |text: &str| version(&Experiment::parse(text).unwrap()).unwrap();
    let text = experiment("disk-2007.toml").unwrap();
    let said = text.replace("title = 'Files on a slow disk'", "title = 'Another'");
    assert_ne!(said, text);
    assert_eq!(of(text), of(&said));
    let (without, _) = text.split_once("[[findings]]").unwrap();
    assert_eq!(of(text), of(without));
    assert_ne!(of(text), of(&text.replace("rounds = 10", "rounds = 11")));
}

#[test]
fn each_row_has_a_quick_form_that_takes_no_root_and_three_minutes() {
    let catalogue = catalogue();
    for (name, experiment) in experiments(&catalogue) {
        for row in catalogue.rows.iter().filter(|row| row.all_experiments().any(|other| other == name)) {
            let quick = Quick::of(&experiment, &row.id).unwrap_or_else(|error| panic!("{}: {error}", row.id));
            let parsed = Experiment::parse(&quick.text).unwrap();
            crate::run::needs_no_namespaces(&parsed).unwrap_or_else(|error| panic!("{}: {error}", row.id));
            let time = crate::description::expected::expected(&parsed).as_secs();
            assert!(time <= 140, "{}: {time} s", row.id);
            assert!(quick.left_out.iter().any(|line| line.starts_with("rounds: ")), "{:?}", quick.left_out);
            for term in quick.findings.iter().flat_map(|finding| finding.expect.terms()) {
                for name in &term.points {
                    let is_its = |point: &&PointSpec| point.name.ends_with(&format!(", {name}"));
                    let point = parsed.points.iter().find(is_its).unwrap_or_else(|| panic!("{name}"));
                    let has = |name: &String| point.servers.iter().any(|server| server.name == *name);
                    assert!(term.servers.iter().all(has), "{}: {name}", row.id);
                    assert!(term.of != Of::Area || point.setting.load.is_open(), "{}: {name}", row.id);
                }
            }
        }
    }
}

#[test]
fn every_row_is_listed_shown_and_on_the_page() {
    let (catalogue, measured) = (catalogue(), Measured::embedded().unwrap());
    let all = verdicts(&catalogue, &measured);
    let narrow = text::Terminal { width: Some(80), has_colours: false };
    let list = text::list(&all, narrow);
    assert!(list.lines().all(|line| line.chars().count() <= 110), "{list}");
    let rows: Vec<&str> = list.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(rows.len(), 52);
    assert!(rows.iter().all(|line| line.chars().count() <= 80), "{list}");
    assert!(list.contains("\n52 rows:\n"), "{list}");
    let page = page::html(&catalogue, &measured).unwrap();
    for verdict in &all {
        let row = verdict.row;
        assert!(page.contains(&format!("id=\"{}\"", row.id)), "{}", row.id);
        let shown = show::text(&catalogue, verdict, narrow);
        assert!(shown.contains(&row.id) && shown.contains(&verdict.says.words()), "{shown}");
        assert!(!shown.contains('\x1b'), "{shown}");
        if matches!(verdict.says, Says::Told(_)) {
            assert!(shown.contains("Raw results docs/measurements/"), "{shown}");
        }
    }
    let coloured = text::list(&all, text::Terminal { width: None, has_colours: true });
    assert!(coloured.contains("\x1b["), "{coloured}");
}
