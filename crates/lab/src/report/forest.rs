//! The first picture of a page: a row for every comparison, all over one axis. A row has the interval of
//! the ratio, beside the margin within which two servers count as equal. The sentence above it counts which
//! server is better in how many comparisons.

use super::figure::{Figure, Key, Table};
use super::svg::axis::Axis;
use super::svg::rows::Rows;
use crate::analysis::verdict::{Says, Verdict};
use crate::report::results::Results;
use crate::unique::unique;

/// The most rows of the picture. The table below it has all comparisons.
const MOST: usize = 24;

/// The picture, if any two servers were compared. It has the differences first if not all rows fit.
pub(super) fn figure(results: &Results) -> Option<Figure> {
    let mut compared: Vec<&Verdict> = results.verdicts.iter().filter(|of| of.ratio.is_some()).collect();
    if compared.len() > MOST {
        compared.sort_by_key(|verdict| !verdict.is_a_difference());
    }
    let mut table = Table::new(&["point", "server", "quantity", "times as much", "compared with", "verdict"]);
    for verdict in &compared {
        let ratio = verdict.ratio.as_ref().map(|ratio| format!("{ratio:.3}")).unwrap_or_default();
        let Verdict { point, server, quantity, first, .. } = verdict;
        let row = [point, server, &quantity.name.to_owned(), &ratio, first, &verdict.badge()];
        table.rows.push(row.map(String::clone).into());
    }
    let shown = &compared[..compared.len().min(MOST)];
    let firsts = unique(shown.iter().map(|verdict| verdict.first.as_str()));
    let first = if let [first] = firsts[..] { first } else { "the first server" };
    (!shown.is_empty()).then(|| drawn(results, shown, first, table))
}

fn drawn(results: &Results, shown: &[&Verdict], first: &str, table: Table) -> Figure {
    let margin = results.experiment.margin;
    let points = unique(shown.iter().map(|verdict| verdict.point.as_str()));
    let ends = |verdict: &&Verdict| {
        let ratio = verdict.ratio.as_ref();
        let interval = ratio.and_then(|ratio| ratio.interval);
        let ends = interval.map(|interval| [interval.lower, interval.upper]);
        ends.into_iter().flatten().chain(ratio.map(|ratio| ratio.median)).collect::<Vec<f64>>()
    };
    let ends = shown.iter().flat_map(ends).filter(|end| end.is_finite());
    let axis = Axis::around(&format!("times {first}"), ends.chain([1.0 - margin * 2.0, 1.0 + margin * 2.0]));
    let title = format!("All comparisons with {first}");
    let mut rows = Rows::new(&title, axis);
    rows.margin(margin);
    let mut before = None;
    for verdict in shown {
        let Verdict { point, quantity, server, ratio: Some(ratio), .. } = verdict else { continue };
        if points.len() > 1 && before.replace(point) != Some(point) {
            rows.heading(point);
        }
        let name = format!("{server}: {}", quantity.name);
        rows.compared(&name, class(verdict), format!("{:.2}", ratio.median), (ratio.median, ratio.interval));
    }
    let keys = [
        ("better", format!("better than {first}")),
        ("worse", format!("{first} is better")),
        ("differs", "a difference, neither is better".to_owned()),
        ("unsure", "inconclusive".to_owned()),
    ];
    let is_shown = |class: &str| shown.iter().any(|verdict| self::class(verdict) == class);
    let keys = keys.iter().filter(|(class, _)| is_shown(class));
    Figure {
        title,
        note: "Marks: medians of the ratios. Bars: their 95% intervals. Line: equal. Band: the margin.",
        keys: keys.map(|(class, name)| Key::area(name, class)).collect(),
        drawing: rows.drawing(),
        table,
    }
}

/// The class of the page that colours a row.
fn class(verdict: &Verdict) -> &'static str {
    match (&verdict.says, verdict.is_better()) {
        (Says::CannotTell(_) | Says::Failed(_), _) => "unsure",
        (_, Some(true)) => "better",
        (_, Some(false)) => "worse",
        (_, None) => "differs",
    }
}

/// "6 comparisons: nginx is better in 4, 2 are inconclusive". Empty if no servers were compared.
pub(super) fn headline(results: &Results) -> String {
    let verdicts = &results.verdicts;
    let better = |verdict: &&Verdict| match verdict.is_better() {
        Some(true) => Some(verdict.server.clone()),
        Some(false) => Some(verdict.first.clone()),
        None => None,
    };
    let winners: Vec<String> = verdicts.iter().filter_map(|verdict| better(&verdict)).collect();
    let mut parts: Vec<String> = Vec::new();
    for name in unique(winners.iter().map(String::as_str)) {
        let count = winners.iter().filter(|winner| *winner == name).count();
        parts.push(format!("{name} is better in {count}"));
    }
    let count = |of: fn(&Verdict) -> bool| verdicts.iter().filter(|verdict| of(verdict)).count();
    for (count, one, more) in [
        (
            count(|of| of.is_a_difference() && of.is_better().is_none()),
            "shows a difference",
            "show a difference",
        ),
        (count(|of| matches!(of.says, Says::CannotTell(_))), "is inconclusive", "are inconclusive"),
        (count(|of| matches!(of.says, Says::Failed(_))), "failed", "failed"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {}", if count == 1 { one } else { more }));
        }
    }
    let what = if verdicts.len() == 1 { "comparison" } else { "comparisons" };
    if parts.is_empty() { String::new() } else { format!("{} {what}: {}.", verdicts.len(), parts.join("; ")) }
}
