//! What a terminal is told of results: sentences first, then a table for each point.

use std::fmt::Write as _;

use crate::plan::Found;
use crate::quantity::Quantity;
use crate::results::{Held, Results};
use crate::series::Series;
use crate::table::{self, Column};

/// Everything, as Markdown that is read without being set.
pub fn markdown(results: &Results) -> String {
    let mut text = format!("# {}\n\n", results.experiment.title);
    if results.missing > 0 {
        let _ = writeln!(text, "{} trials are not measured yet.\n", results.missing);
    }
    for sentence in results.sentences() {
        let _ = writeln!(text, "- {sentence}");
    }
    for why in &results.unsteady {
        let _ = writeln!(text, "- {why}.");
    }
    for held in &results.findings {
        let _ = writeln!(text, "- {}", told(held));
    }
    for found in results.found.iter().chain(&results.judged) {
        let _ = writeln!(text, "\n## {}\n\n{}", found.point.name, of_point(found));
    }
    let mut machines: Vec<String> = results.sessions.iter().map(|session| session.machine.line()).collect();
    machines.dedup();
    let _ = writeln!(text, "\n{}", machines.join("\n"));
    text
}

/// A finding of others, and ours.
pub fn told(held: &Held) -> String {
    let finding = &held.finding;
    let ours = held.ratio.map_or_else(|| "not measured".to_owned(), |ratio| format!("{ratio:.3} times"));
    let verdict = match held.holds {
        Some(true) => "holds here",
        Some(false) => "does NOT hold here",
        None => "cannot be told here",
    };
    format!("{}: \"{}\": {verdict} ({}: {ours}).", finding.paper, finding.says, finding.expect)
}

fn of_point(found: &Found) -> String {
    let Some(first) = found.series.first() else { return "Nothing was measured.\n".to_owned() };
    let compared = |quantity: Quantity| {
        let median = move |of: &Series| of.median_cell(quantity.of, quantity.digits);
        let ratio = move |of: &Series| of.ratio_cell(first, quantity.of);
        (median, ratio)
    };
    let cells: Vec<_> =
        found.point.compare.iter().map(|quantity| (quantity.name, compared(*quantity))).collect();
    let mut columns: Vec<Column<'_, Series>> = vec![("server", &|of| of.server.name.clone())];
    for (name, (median, ratio)) in &cells {
        columns.push((name, median));
        columns.push(("to the first (95%)", ratio));
    }
    let others: [Column<'_, Series>; 6] = [
        ("mean ms", &|of| of.median_cell(|of| of.times.mean, 2)),
        ("p99 ms", &|of| of.median_cell(|of| of.times.p99, 2)),
        ("errors %", &|of| of.median_cell(|of| of.errors * 100.0, 2)),
        ("server CPU %", &|of| of.median_cell(|of| of.cpu.server * 100.0, 1)),
        ("memory MB", &|of| of.median_cell(|of| of.memory_mb, 1)),
        ("invalid (left)", &Series::invalid),
    ];
    columns.extend(others);
    table::of(&columns, &found.series)
}
