//! What a sweep found: a table for each server and workload, and verdicts that follow from pairs.
//!
//! Limits are compared by replies per second, in pairs of the same round: geometric means of the ratios, with 95% intervals of
//! Student's t on their logarithms. One thing is called below another only where that whole interval is below 1 (by 0.2%).

use std::fmt::Write as _;

use super::{Point, SESSIONS, Saturation};
use crate::spinner::Gaps;
use crate::statistics::{Ratio, Spread};
use crate::table;
use crate::trial::Outcome;
use crate::workload::Kind;

const AUTO: &str = "auto";

/// One server under one workload at one rate: all limits and rounds.
struct Cell<'a> {
    server: &'a str,
    workload: Kind,
    multiple: f64,
    points: Vec<&'a Point>,
}

pub(super) fn markdown(points: &[Point], rates: &[(String, Kind, Saturation)], limits: &[String]) -> String {
    let cells = cells(points);
    let mut text = String::new();
    for (server, workload, saturation) in rates {
        let cells: Vec<&Cell<'_>> =
            cells.iter().filter(|cell| cell.server == *server && cell.workload == *workload).collect();
        let _ = writeln!(
            text,
            "### {server}, {}\n\n1x is {:.0} requests/s: what is answered without a limit when there are always {SESSIONS} sessions.\n",
            workload.name(),
            saturation.rate,
        );
        text += &table_of(&cells, limits);
        text += &dropped_at(&cells, limits);
        text.push('\n');
    }
    text += &gaps(points);
    text += "\n### Verdicts\n\n";
    for verdict in verdicts(&cells, limits) {
        let _ = writeln!(text, "- {verdict}");
    }
    text
}

fn cells(points: &[Point]) -> Vec<Cell<'_>> {
    let mut cells: Vec<Cell<'_>> = Vec::new();
    for point in points {
        let same = |cell: &&mut Cell<'_>| {
            cell.server == point.server
                && cell.workload == point.workload
                && cell.multiple.total_cmp(&point.multiple).is_eq()
        };
        match cells.iter_mut().find(same) {
            Some(cell) => cell.points.push(point),
            None => cells.push(Cell {
                server: &point.server,
                workload: point.workload,
                multiple: point.multiple,
                points: vec![point],
            }),
        }
    }
    cells
}

impl Cell<'_> {
    fn name(&self) -> String {
        format!("{}, {}, {}x", self.server, self.workload.name(), self.multiple)
    }

    fn outcomes<'a>(&'a self, limit: &'a str) -> impl Iterator<Item = &'a Outcome> + 'a {
        self.points.iter().filter(move |point| point.limit == limit).map(|point| &point.outcome)
    }

    /// The median over the rounds; `None` where there is none.
    fn median(&self, limit: &str, value: impl Fn(&Outcome) -> f64) -> Option<f64> {
        Spread::of(self.outcomes(limit).map(value)).map(|spread| spread.median)
    }

    fn replies(&self, limit: &str, round: u32) -> Option<f64> {
        let of = |point: &&&Point| point.limit == limit && point.round == round;
        self.points.iter().find(of).map(|point| point.outcome.replies_per_s)
    }

    fn rounds(&self) -> u32 {
        self.points.iter().map(|point| point.round + 1).max().unwrap_or(0)
    }

    /// The fixed limit with the highest median.
    fn best_fixed<'a>(&self, limits: &'a [String]) -> Option<&'a str> {
        let fixed = limits.iter().filter(|limit| *limit != AUTO);
        let measured = fixed.filter_map(|limit| Some((limit, self.median(limit, |of| of.replies_per_s)?)));
        measured.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(limit, _)| limit.as_str())
    }

    /// Replies with `limit` over those with `other`, in the rounds that have both.
    fn ratio(&self, limit: &str, other: &str) -> Option<Ratio> {
        let pairs = (0..self.rounds())
            .filter_map(|round| Some((self.replies(limit, round)?, self.replies(other, round)?)));
        Ratio::of(pairs)
    }
}

fn table_of(cells: &[&Cell<'_>], limits: &[String]) -> String {
    let headings = [
        "rate",
        "limit",
        "replies/s",
        "to the best fixed (95%)",
        "timeouts, %",
        "accepts/s",
        "accepts per phase",
        "phases/s",
        "mean, ms",
        "p50, ms",
        "p99, ms",
        "server CPU, %",
        "softirq there, %",
        "server us per reply",
        "client us per call",
        "client softirq, %",
    ];
    let mut rows = Vec::new();
    for cell in cells {
        let best = cell.best_fixed(limits);
        // A server that does not take a limit has no row for it.
        for limit in limits.iter().filter(|limit| cell.outcomes(limit).next().is_some()) {
            let number = |value: fn(&Outcome) -> f64, digits: usize| {
                cell.median(limit, value).map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
            };
            let ratio = match best {
                Some(best) if best == limit => "best".to_owned(),
                Some(best) => {
                    cell.ratio(limit, best).map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}"))
                }
                None => "–".to_owned(),
            };
            rows.push(vec![
                format!("{}x", cell.multiple),
                limit.clone(),
                number(|of| of.replies_per_s, 0),
                ratio,
                number(|of| of.timeouts * 100.0, 1),
                number(|of| of.accepting.accepts_per_s, 0),
                number(|of| of.accepting.accepts_per_phase, 2),
                number(|of| of.accepting.phases_per_s, 0),
                number(|of| of.times.mean, 2),
                number(|of| of.times.p50, 2),
                number(|of| of.times.p99, 1),
                number(|of| of.cpu.server * 100.0, 1),
                number(|of| of.cpu.server_softirq * 100.0, 1),
                number(|of| of.cpu.server_us_per_reply, 1),
                number(|of| of.cpu.client_us_per_call, 1),
                number(|of| of.cpu.client_softirq * 100.0, 1),
            ]);
        }
    }
    table::markdown(&headings, rows)
}

/// Connections dropped per second, by the kernel's counters; those that stayed at 0 everywhere are left out.
fn dropped_at(cells: &[&Cell<'_>], limits: &[String]) -> String {
    let outcomes = || cells.iter().flat_map(|cell| cell.points.iter().map(|point| &point.outcome));
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
    for cell in cells {
        for limit in limits.iter().filter(|limit| cell.outcomes(limit).next().is_some()) {
            let mut row = vec![format!("{}x", cell.multiple), limit.clone()];
            row.extend(names.iter().map(|name| {
                let rate = cell.median(limit, |of| of.drops_per_s.get(*name).copied().unwrap_or(0.0));
                rate.map_or_else(|| "–".to_owned(), |rate| format!("{rate:.0}"))
            }));
            rows.push(row);
        }
    }
    format!("\n{}", table::markdown(&headings, rows))
}

fn gaps(points: &[Point]) -> String {
    let gaps: Vec<&Gaps> = points.iter().filter_map(|point| point.outcome.gaps.as_ref()).collect();
    let median = |value: fn(&Gaps) -> f64| Spread::of(gaps.iter().map(|gaps| value(gaps)));
    let invalid: Vec<&Point> = points.iter().filter(|point| !point.outcome.invalid.is_empty()).collect();
    let mut text = match (
        median(|gaps| gaps.left),
        median(|gaps| gaps.gap_us_p50),
        median(|gaps| gaps.gap_us_p99),
        median(|gaps| gaps.gap_us_max),
        median(|gaps| gaps.window_us_p50),
    ) {
        (Some(left), Some(middle), Some(p99), Some(longest), Some(window)) => format!(
            "Slowness as achieved, medians over the points (quartiles): {:.1}% of the CPU left in windows of {window:.0} us, gaps of \
             {middle:.0} us, 99% below {p99:.0} us, longest {longest:.0} us.\n",
            left.median * 100.0
        ),
        _ => String::new(),
    };
    if !invalid.is_empty() {
        let _ = writeln!(
            text,
            "\n{} of {} points are not valid by the generator's own judgement, such as: {}",
            invalid.len(),
            points.len(),
            invalid[0].outcome.invalid.join("; ")
        );
    }
    text
}

fn verdicts(cells: &[Cell<'_>], limits: &[String]) -> Vec<String> {
    let mut verdicts = vec![difference(cells, limits)];
    verdicts.extend(limits.iter().any(|limit| limit == AUTO).then(|| auto_at_points(cells, limits)));
    verdicts.extend(auto_over_all(cells, limits));
    verdicts.extend(at_overload(cells, limits));
    verdicts
}

fn difference(cells: &[Cell<'_>], limits: &[String]) -> String {
    let mut differ = Vec::new();
    for cell in cells {
        let Some(best) = cell.best_fixed(limits) else { continue };
        let below: Vec<String> = limits
            .iter()
            .filter(|limit| *limit != AUTO && *limit != best)
            .filter_map(|limit| Some((limit, cell.ratio(limit, best)?)))
            .filter(|(_, ratio)| ratio.is_below_one())
            .map(|(limit, ratio)| format!("{limit} has {:.3}", ratio.mean))
            .collect();
        if !below.is_empty() {
            differ.push(format!("{} (best: {best}; {})", cell.name(), below.join(", ")));
        }
    }
    let same = cells.len() - differ.len();
    if differ.is_empty() {
        return format!("Fixed limits do not differ significantly at any of {same} points.");
    }
    format!(
        "Fixed limits do not differ significantly at {same} of {} points; they do at: {}.",
        cells.len(),
        differ.join("; ")
    )
}

fn auto_at_points(cells: &[Cell<'_>], limits: &[String]) -> String {
    let mut below = Vec::new();
    let mut compared = 0;
    for cell in cells {
        let Some(ratio) = cell.best_fixed(limits).and_then(|best| cell.ratio(AUTO, best)) else { continue };
        compared += 1;
        if ratio.is_below_one() {
            below.push(format!("{} ({ratio:.3})", cell.name()));
        }
    }
    if below.is_empty() {
        return format!("auto is significantly below the best fixed limit at none of {compared} points.");
    }
    format!(
        "auto IS significantly below the best fixed limit at {} of {compared} points: {}.",
        below.len(),
        below.join("; ")
    )
}

/// For each fixed limit: the geometric mean over all points of auto's ratio to it, in each round; then over the rounds.
fn auto_over_all(cells: &[Cell<'_>], limits: &[String]) -> Vec<String> {
    let rounds = cells.iter().map(Cell::rounds).max().unwrap_or(0);
    let mut verdicts = Vec::new();
    for limit in limits.iter().filter(|limit| *limit != AUTO) {
        let of_round = |round| {
            let pair = |cell: &Cell<'_>| Some((cell.replies(AUTO, round)?, cell.replies(limit, round)?));
            let pairs: Option<Vec<(f64, f64)>> = cells.iter().map(pair).collect();
            Some(Ratio::of(pairs?)?.mean.ln())
        };
        // A round that is not whole would weigh points differently.
        let logarithms: Vec<f64> = (0..rounds).filter_map(of_round).collect();
        let Some(ratio) = Ratio::of_logarithms(&logarithms) else { continue };
        let word = if ratio.is_above_one() {
            "above"
        } else if ratio.is_below_one() {
            "BELOW"
        } else {
            "not significantly different from"
        };
        verdicts.push(format!("Over the whole set auto is {word} limit {limit}: {ratio:.3}."));
    }
    verdicts
}

/// What each limit keeps of its peak at the highest rate.
fn at_overload(cells: &[Cell<'_>], limits: &[String]) -> Vec<String> {
    let mut verdicts = Vec::new();
    let mut seen: Vec<(&str, Kind)> = Vec::new();
    for cell in cells {
        if seen.contains(&(cell.server, cell.workload)) {
            continue;
        }
        seen.push((cell.server, cell.workload));
        let same: Vec<&Cell<'_>> = cells
            .iter()
            .filter(|other| other.server == cell.server && other.workload == cell.workload)
            .collect();
        let Some(most) = same.iter().max_by(|one, other| one.multiple.total_cmp(&other.multiple)) else {
            continue;
        };
        let median = |cell: &Cell<'_>, limit: &str| cell.median(limit, |of| of.replies_per_s).unwrap_or(0.0);
        let mut kept = Vec::new();
        for limit in limits {
            let peak = same.iter().max_by(|one, other| median(one, limit).total_cmp(&median(other, limit)));
            let Some(peak) = peak else { continue };
            let pairs = (0..most.rounds())
                .filter_map(|round| Some((most.replies(limit, round)?, peak.replies(limit, round)?)));
            kept.extend(Ratio::of(pairs).map(|ratio| (limit, peak.multiple, ratio)));
        }
        kept.sort_by(|one, other| other.2.mean.total_cmp(&one.2.mean));
        let each: Vec<String> = kept
            .iter()
            .map(|(limit, peak, ratio)| {
                let ratio =
                    if *peak < most.multiple { format!("{ratio:.3}") } else { "1, its peak".to_owned() };
                format!("{limit} {ratio}")
            })
            .collect();
        verdicts.push(format!(
            "{}, {}: at {}x saturation each limit keeps of its peak: {}.",
            cell.server,
            cell.workload.name(),
            most.multiple,
            each.join("; ")
        ));
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::tests::outcome;

    /// Points at 1x and 2x, three rounds, with the replies per second that each limit gets, give or take a little.
    fn points(of_limits: &[(&str, f64, f64)]) -> Vec<Point> {
        let mut points = Vec::new();
        for (limit, at_once, at_twice) in of_limits {
            for (multiple, replies) in [(1.0, at_once), (2.0, at_twice)] {
                for (round, noise) in [0.999, 1.0, 1.001].into_iter().enumerate() {
                    points.push(Point {
                        server: "sped".to_owned(),
                        workload: Kind::OnePacket,
                        multiple,
                        limit: (*limit).to_owned(),
                        // The noise is the round's, not the limit's: pairs cancel it.
                        round: round as u32,
                        outcome: outcome(replies * noise * (1.0 + 1e-4 * (round as f64 * *replies).sin())),
                    });
                }
            }
        }
        points
    }

    fn said(of_limits: &[(&str, f64, f64)]) -> String {
        let points = points(of_limits);
        let limits: Vec<String> = of_limits.iter().map(|(limit, ..)| (*limit).to_owned()).collect();
        verdicts(&cells(&points), &limits).join("\n")
    }

    #[test]
    fn an_auto_that_falls_behind_is_told_where() {
        let said = said(&[("1", 900.0, 700.0), ("inf", 1_000.0, 800.0), ("auto", 1_000.0, 780.0)]);
        assert!(
            said.contains(
                "auto IS significantly below the best fixed limit at 1 of 2 points: sped, one-packet, 2x"
            ),
            "{said}"
        );
        assert!(said.contains("auto is above limit 1"), "{said}");
        assert!(said.contains("auto is BELOW limit inf"), "{said}");
    }

    #[test]
    fn limits_that_do_not_differ_are_a_finding() {
        let said = said(&[("1", 1_000.0, 800.0), ("inf", 1_000.01, 800.01), ("auto", 1_000.0, 800.0)]);
        assert!(said.contains("Fixed limits do not differ significantly at any of 2 points"), "{said}");
        assert!(said.contains("at none of 2 points"), "{said}");
    }

    #[test]
    fn overload_is_compared_with_the_peak() {
        let said = said(&[("1", 1_000.0, 500.0), ("10", 1_000.0, 990.0)]);
        assert!(said.contains("at 2x saturation each limit keeps of its peak: 10 0.990"), "{said}");
        assert!(said.contains("1 0.500"), "{said}");
        assert!(!said.contains("auto"), "{said}");
    }
}
