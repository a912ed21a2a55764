//! What the rounds that choose found: a table for each server and workload, and how `auto` compares with each
//! fixed limit.

use std::fmt::Write as _;

use super::{AUTO, At, best_fixed};
use crate::claims::{COST, REPLIES, only_a_look};
use crate::rounds::Found;
use crate::series::{INVALID, Series, mark};
use crate::statistics::{Ratio, geometric_mean};
use crate::table::{self, Column};
use crate::trial::Outcome;

/// Of one server and workload at all rates.
pub(super) fn tables(here: &[&Found<'_, At>]) -> String {
    type Row<'a> = (&'a Found<'a, At>, &'a Series);
    let rows: Vec<Row<'_>> =
        here.iter().flat_map(|found| found.series.iter().map(|of| (*found, of))).collect();
    let to_best = |(found, of): &Row<'_>| {
        best_fixed(&found.series).map_or_else(String::new, |best| of.bare_ratio_cell(best, REPLIES.of))
    };
    let columns: &[Column<'_, Row<'_>>] = &[
        ("rate", &|(found, _)| format!("{}x", found.point.of.multiple)),
        ("limit", &|(_, of)| of.server.name.clone()),
        ("replies/s", &|(_, of)| of.median_cell(REPLIES.of, 0)),
        ("to the first (95%)", &|(found, of)| of.ratio_cell(&found.series[0], REPLIES.of)),
        ("to the best fixed", &to_best),
        ("timeouts, %", &|(_, of)| of.median_cell(|of| of.timeouts * 100.0, 1)),
        ("accepts/s", &|(_, of)| of.median_cell(|of| of.accepting.accepts_per_s, 0)),
        ("accepts per phase", &|(_, of)| of.median_cell(|of| of.accepting.accepts_per_phase, 2)),
        ("phases/s", &|(_, of)| of.median_cell(|of| of.accepting.phases_per_s, 0)),
        ("mean, ms", &|(_, of)| of.median_cell(|of| of.times.mean, 2)),
        ("p50, ms", &|(_, of)| of.median_cell(|of| of.times.p50, 2)),
        ("p99, ms", &|(_, of)| of.median_cell(|of| of.times.p99, 1)),
        ("server CPU, %", &|(_, of)| of.median_cell(|of| of.cpu.server * 100.0, 1)),
        ("softirq there, %", &|(_, of)| of.median_cell(|of| of.cpu.server_softirq * 100.0, 1)),
        ("server us per reply", &|(_, of)| of.median_cell(COST.of, 1)),
        ("client us per call", &|(_, of)| of.median_cell(|of| of.cpu.client_us_per_call, 1)),
        ("client softirq, %", &|(_, of)| of.median_cell(|of| of.cpu.client_softirq * 100.0, 1)),
        (INVALID, &|(_, of)| of.invalid()),
    ];
    table::of(columns, &rows) + &dropped_at(here)
}

/// Connections dropped per second, by the kernel's counters; those that stayed at 0 everywhere are left out.
fn dropped_at(here: &[&Found<'_, At>]) -> String {
    let outcomes = || {
        let taken = here.iter().flat_map(|found| found.series.iter().flat_map(Series::taken));
        taken.map(|taken| &taken.outcome)
    };
    let mut names: Vec<&String> = outcomes().flat_map(|of| of.drops_per_s.keys()).collect();
    names.sort();
    names.dedup();
    names.retain(|name| outcomes().any(|of| of.drops_per_s.get(*name).is_some_and(|rate| *rate > 0.0)));
    if names.is_empty() {
        return "\nThe kernel dropped nothing.\n".to_owned();
    }
    let mut headings = vec!["dropped per second", "limit"];
    headings.extend(names.iter().map(|name| name.as_str()));
    let mut rows = Vec::new();
    for Found { point, series, .. } in here {
        for of in series {
            let mut row = vec![format!("{}x", point.of.multiple), of.server.name.clone()];
            let dropped = |name: &String| {
                of.median_cell(|of: &Outcome| of.drops_per_s.get(name).copied().unwrap_or(0.0), 0)
            };
            row.extend(names.iter().map(|name| dropped(name)));
            rows.push(row);
        }
    }
    format!("\n{}", table::markdown(&headings, rows))
}

fn of_limit<'a>(found: &'a Found<'_, At>, limit: &str) -> Option<&'a Series> {
    found.series.iter().find(|series| series.server.name == limit)
}

/// All limits of the experiment, in order.
fn limits(chosen: &[Found<'_, At>]) -> Vec<String> {
    let mut limits = Vec::new();
    for Found { series, .. } in chosen {
        for one in series.iter().filter(|one| !one.server.is_again_of(&series[0].server)) {
            if !limits.contains(&one.server.name) {
                limits.push(one.server.name.clone());
            }
        }
    }
    limits
}

/// How `auto` compares with each fixed limit over all points. No limit is chosen for this, so the rounds that
/// choose will do.
pub(super) fn over_all(chosen: &[Found<'_, At>], rounds: u32) -> String {
    let first = |found: &Found<'_, At>| found.series.first().map(|first| first.server.clone());
    let again = ratio_over_all(chosen, |found| {
        let first = found.series.first()?;
        Some((found.series.iter().find(|one| one.server.is_again_of(&first.server))?, first))
    });
    let same = again.as_ref().and_then(|(ratio, is_valid)| ratio.interval.filter(|_| *is_valid));
    let is_same = same.is_some_and(|interval| interval.lower <= 1.0 && interval.upper >= 1.0);
    let mut text = String::new();
    if let Some((ratio, is_valid)) = &again {
        let name = chosen.iter().find_map(first).map_or_else(String::new, |first| first.name);
        let _ =
            writeln!(text, "- Over all points limit {name} again to itself: {ratio:.3}{}", mark(*is_valid));
    }
    for limit in limits(chosen).iter().filter(|limit| *limit != AUTO) {
        let ratio = ratio_over_all(chosen, |found| Some((of_limit(found, AUTO)?, of_limit(found, limit)?)));
        let Some((ratio, is_valid)) = ratio else { continue };
        let word = match (is_same && is_valid && only_a_look(rounds).is_none(), &ratio) {
            (false, _) => "(no verdict) to",
            (true, ratio) if ratio.is_above_one() => "is above",
            (true, ratio) if ratio.is_below_one() => "is BELOW",
            (true, _) => "(no claim) to",
        };
        let _ = writeln!(text, "- Over all points {AUTO} {word} limit {limit}: {ratio:.3}{}", mark(is_valid));
    }
    text
}

/// The geometric mean over all points of the ratio of two series, in each round; then over the rounds. And
/// whether all of them are valid. `None` where a point has not both.
fn ratio_over_all<'a>(
    chosen: &'a [Found<'_, At>],
    two: impl Fn(&'a Found<'_, At>) -> Option<(&'a Series, &'a Series)>,
) -> Option<(Ratio, bool)> {
    let pairs: Vec<(&Series, &Series)> = chosen.iter().map(two).collect::<Option<_>>()?;
    let rounds = pairs.iter().map(|(one, _)| one.rounds.len()).min()?;
    // A round that is not whole would weigh points differently.
    let of_round = |round: usize| {
        let quotient = |(one, other): &(&Series, &Series)| one.quotient(other, round, REPLIES.of);
        geometric_mean(&pairs.iter().map(quotient).collect::<Option<Vec<f64>>>()?)
    };
    let ratio = Ratio::of((0..rounds).filter_map(of_round))?;
    Some((ratio, pairs.iter().all(|(one, other)| one.is_valid() && other.is_valid())))
}

/// What each limit keeps at the highest rate of what it has at the saturating one, or what comes nearest to
/// it.
pub(super) fn at_overload(chosen: &[Found<'_, At>]) -> String {
    let mut text = String::new();
    let mut seen = Vec::new();
    for Found { point, .. } in chosen {
        if seen.contains(&point.of.calibrated) {
            continue;
        }
        seen.push(point.of.calibrated);
        let same = || chosen.iter().filter(|other| other.point.of.calibrated == point.of.calibrated);
        let multiple = |found: &Found<'_, At>| found.point.of.multiple;
        let most = same().max_by(|one, other| multiple(one).total_cmp(&multiple(other)));
        let from_one = |found: &Found<'_, At>| (multiple(found) - 1.0).abs();
        let nearest = same().min_by(|one, other| from_one(one).total_cmp(&from_one(other)));
        let Some((most, nearest)) = most.zip(nearest) else { continue };
        if most.point.name == nearest.point.name {
            continue;
        }
        let kept = limits(chosen).into_iter().filter_map(|limit| {
            let (most, nearest) = (of_limit(most, &limit)?, of_limit(nearest, &limit)?);
            Some(format!("{limit} {}", most.across_cell(nearest, REPLIES.of)))
        });
        let _ = writeln!(
            text,
            "- {}, {}: at {}x each limit keeps of what it has at {}x: {}",
            point.of.server,
            point.of.kind.name(),
            multiple(most),
            multiple(nearest),
            kept.collect::<Vec<_>>().join("; ")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::Point;
    use crate::series::tests::series;
    use crate::workload::Kind;

    const NOISE: [f64; 6] = [0.999, 1.0, 1.001, 1.0005, 0.9995, 1.0];

    /// Says something of points at 1x and 2x, with what each limit has there.
    fn said(of_limits: &[(&str, f64, f64)], say: impl Fn(&[Found<'_, At>]) -> String) -> String {
        let points = [1.0, 2.0].map(|multiple| {
            let at = At { calibrated: 0, server: "sped".to_owned(), kind: Kind::OnePacket, multiple };
            Point { name: at.name(), of: at, servers: Vec::new() }
        });
        let at = |point, of: fn(&(&str, f64, f64)) -> f64| {
            let each = of_limits.iter().map(|limit| series(limit.0, &NOISE.map(|noise| of(limit) * noise)));
            Found { point, series: each.collect(), missing: 0 }
        };
        say(&[at(&points[0], |limit| limit.1), at(&points[1], |limit| limit.2)])
    }

    #[test]
    fn auto_is_compared_with_each_limit_over_all_points() {
        let mut limits = [
            ("1", 900.0, 700.0),
            ("inf", 1_000.0, 850.0),
            ("50", 1_000.0, 790.0),
            ("auto", 1_000.0, 780.0),
            ("1 again", 900.0, 700.0),
        ];
        let said = said(&limits, |found| over_all(found, 6));
        assert!(said.contains("auto is above limit 1: 1.113 (1.113 to 1.113)"), "{said}");
        assert!(said.contains("auto is BELOW limit inf: 0.958"), "{said}");
        assert!(said.contains("auto (no claim) to limit 50: 0.994"), "{said}");
        limits[4].1 = 905.0;
        let said = super::tests::said(&limits, |found| over_all(found, 6));
        assert!(said.contains("limit 1 again to itself: 1.003"), "{said}");
        assert!(said.contains("auto (no verdict) to limit 1: 1.113"), "{said}");
    }

    #[test]
    fn overload_is_compared_with_saturation() {
        let limits = [("1", 1_000.0, 500.0), ("10", 1_000.0, 990.0)];
        let said = said(&limits, at_overload);
        assert!(said.contains("at 2x each limit keeps of what it has at 1x: 1 0.500"), "{said}");
        assert!(said.contains("10 0.990") && !said.contains("auto"), "{said}");
        assert_eq!(said.lines().count(), 1);
    }

    #[test]
    fn the_best_fixed_limit_is_neither_auto_nor_a_second_measurement() {
        let of = [("1", 10.0), ("10", 12.0), ("auto", 20.0), ("1 again", 30.0)];
        let all = of.map(|(name, replies)| series(name, &[replies; 6]));
        assert_eq!(best_fixed(&all).unwrap().server.name, "10");
    }
}
