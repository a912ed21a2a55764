//! Tests how often a page of verdicts is right, and how often it reports a difference where there is none.
//! The pages are drawn from kept rounds of a server that was measured against itself
//! (`docs/measurements/equals`). To simulate a difference, the figures are multiplied.

use std::fs;
use std::path::Path;
use std::process::Command;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::analysis::holding;
use crate::analysis::series::{Found, Series, Taken};
use crate::analysis::verdict::{Says, Verdict};
use crate::report::results::{EXPERIMENT, JOURNAL, Results};

const PAGES: u32 = 1_000;
/// The number of rounds of `sluicelab compare`.
const ROUNDS: usize = 10;
const MARGIN: f64 = 0.02;

/// The kept measurements, in a closed loop and at a rate.
fn kept() -> Vec<Found> {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/measurements/equals");
    let directory = tempfile::tempdir().unwrap();
    fs::copy(kept.join(EXPERIMENT), directory.path().join(EXPERIMENT)).unwrap();
    let unpacked = Command::new("gzip").arg("-dc").arg(kept.join("journal.jsonl.gz")).output().unwrap();
    assert!(unpacked.status.success(), "{unpacked:?}");
    fs::write(directory.path().join(JOURNAL), unpacked.stdout).unwrap();
    let mut results = Results::of(directory.path()).unwrap();
    assert_eq!(results.missing, 0);
    // Verdicts do not use slices. Without them there is no bootstrap, which would take most of the time.
    let series = results.found.iter_mut().flat_map(|found| &mut found.series);
    series
        .flat_map(|series| series.rounds.iter_mut().flatten())
        .for_each(|taken| taken.outcome.slices.clear());
    results.found
}

/// A page with rounds that are drawn from these. `times` changes the second server's figures.
fn page(found: &[Found], random: &mut Pcg64Mcg, times: impl Fn(&Found, &mut Taken)) -> Vec<Verdict> {
    let pages: Vec<Found> = found
        .iter()
        .map(|found| {
            let all = found.series[0].rounds.len();
            let drawn: Vec<usize> = (0..ROUNDS).map(|_| random.random_range(0..all)).collect();
            let series = found.series.iter().map(|series| {
                let mut rounds: Vec<_> = drawn.iter().map(|round| series.rounds[*round].clone()).collect();
                if series.server.name == "two" {
                    rounds.iter_mut().flatten().for_each(|taken| times(found, taken));
                }
                Series { server: series.server.clone(), rounds, beside: None }
            });
            Found { point: found.point.clone(), series: series.collect(), missing: 0 }
        })
        .collect();
    holding::evaluate(&pages, &[], &[], MARGIN, &|_, _, _| None).0
}

/// The fraction of pages for which it is true.
fn part(what: impl Fn(&mut Pcg64Mcg) -> bool) -> f64 {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    f64::from((0..PAGES).filter(|_| what(&mut random)).count() as u32) / f64::from(PAGES)
}

#[test]
fn equals_differ_significantly_on_one_page_of_twenty_at_most() {
    let found = kept();
    let is_wrong = |random: &mut Pcg64Mcg| {
        let page = page(&found, random, |_, _| {});
        assert_eq!(page.len(), 6, "comparisons");
        page.iter().any(Verdict::is_a_difference)
    };
    let wrong = part(is_wrong);
    assert!(wrong <= 0.05, "{wrong} of the pages have a significant difference");
}

#[test]
fn a_server_that_costs_more_or_takes_twice_as_long_is_significant_on_nine_pages_of_ten() {
    let found = kept();
    let planted = |found: &Found, taken: &mut Taken| {
        let Taken { outcome, .. } = taken;
        if found.point.setting.load.is_open() {
            let times = &mut outcome.wait_ms;
            (times.p50, times.p99) = (times.p50 * 2.0, times.p99 * 2.0);
        } else {
            outcome.cpu.server_us_per_reply *= 1.3;
        }
    };
    let is_significant = |random: &mut Pcg64Mcg| {
        let page = page(&found, random, planted);
        let says = |point: &str, quantity: &str| {
            let of = |verdict: &&Verdict| {
                verdict.server == "two" && verdict.quantity.name == quantity && verdict.point.contains(point)
            };
            page.iter().find(of).map(|verdict| &verdict.says) == Some(&Says::More)
        };
        says("sessions", "CPU us/reply") && says("requests/s", "p50 ms")
    };
    let significant = part(is_significant);
    assert!(significant >= 0.9, "{significant} of the pages have both differences");
}
