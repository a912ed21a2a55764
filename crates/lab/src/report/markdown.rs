//! The results of an experiment as tables in Markdown, for documents. A row is a point, and a column is a
//! kind of server, with the best of its settings.

use std::fmt::Write as _;

use crate::analysis::series::{Found, Series};
use crate::description::quantity::Quantity;
use crate::report::results::Results;
use crate::servers::spec::Spec;
use crate::table;
use crate::unique::unique;

/// The tables: the first quantity of each point, and system calls if they were counted.
pub fn text(results: &Results) -> String {
    let kinds = unique(results.found.iter().flat_map(|found| servers(found).map(kind)));
    let headings: Vec<&str> = ["point"].into_iter().chain(kinds.iter().map(String::as_str)).collect();
    let rows = |cell: &dyn Fn(&Found, &Series) -> String| {
        let row = |found: &Found| {
            let of = |kind: &String| best(found, kind).map_or_else(String::new, |best| cell(found, best));
            [found.point.name.clone()].into_iter().chain(kinds.iter().map(of)).collect::<Vec<_>>()
        };
        table::markdown(&headings, results.found.iter().map(row))
    };
    let quantities = unique(results.found.iter().filter_map(|found| Some(found.point.compare.first()?.name)));
    let mut text = format!(
        "{}: medians of {} rounds; times the first of the row, with the interval that holds the median with \
         95% certainty. {}\n\n{}",
        quantities.join(", "),
        results.experiment.rounds,
        results.machines().join("; "),
        rows(&told)
    );
    if !results.system_calls.is_empty() {
        let of = |found: &Found, series: &Series| {
            let is_its =
                |point: &str, server: &str| point == found.point.name && server == series.server.name;
            let calls = results.system_calls.iter().find(|of| is_its(&of.point, &of.server));
            calls.map_or_else(String::new, |calls| format!("{:.2}", calls.per_reply))
        };
        let _ = write!(text, "\nSystem calls for each reply, of the same servers:\n\n{}", rows(&of));
    }
    text
}

/// A cell, such as `4.98, 1.29 (1.27 to 1.31), sendfile=off`.
fn told(found: &Found, series: &Series) -> String {
    let Some(quantity) = found.point.compare.first() else { return String::new() };
    let first = &found.series[0];
    let mut told = vec![series.median_cell(quantity.of, quantity.digits)];
    if !std::ptr::eq(first, series) {
        told.extend(series.ratio(first, quantity.of).map(|ratio| format!("{ratio:.2}")));
    }
    let its_kind = kind(&series.server);
    if servers(found).filter(|server| kind(server) == its_kind).count() > 1 {
        let settings = series.server.settings.join(" ");
        told.push(if settings.is_empty() { "as it comes".to_owned() } else { settings });
    }
    told.join(", ")
}

/// The compared servers, without the A/A control.
fn servers(found: &Found) -> impl Iterator<Item = &Spec> {
    let first = &found.point.servers[0];
    found.point.servers.iter().filter(move |server| !server.is_control_of(first))
}

/// The kind of a server. Each command is its own kind.
fn kind(spec: &Spec) -> String {
    spec.kind.name().unwrap_or(&spec.name).to_owned()
}

/// The best server of a kind, by the first quantity of its point.
fn best<'a>(found: &'a Found, of: &str) -> Option<&'a Series> {
    let quantity: &Quantity = found.point.compare.first()?;
    let first = &found.point.servers[0];
    let series = found.series.iter().filter(|series| !series.server.is_control_of(first));
    let worths = series
        .filter(|series| kind(&series.server) == of)
        .filter_map(|series| Some((series, quantity.worth(series.median(quantity.of)?))));
    worths.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(series, _)| series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::experiment::Experiment;
    use crate::tests::series;

    #[test]
    fn the_best_of_each_kind_stands_beside_the_first() {
        let text = "title = 't'\nservers = ['ceiling', 'slow = nginx', 'fast = nginx: sendfile=off']\n\
                    [[points]]\nworkload = 'single'\nload = '4 sessions'\ncompare = ['replies/s']";
        let point = Experiment::parse(text).unwrap().points.remove(0).with_control();
        let of = |at: usize, value: f64| {
            let server: &Spec = &point.servers[at];
            Series { server: server.clone(), ..series("any", &[value; 6]) }
        };
        let all = vec![of(0, 100.0), of(1, 50.0), of(2, 80.0), of(3, 100.0)];
        let found = Found { point: point.clone(), series: all, missing: 0 };
        assert_eq!(unique(servers(&found).map(kind)), ["ceiling", "nginx"]);
        let of = |kind| told(&found, best(&found, kind).unwrap());
        assert_eq!(of("ceiling"), "100");
        assert_eq!(of("nginx"), "80, 0.80 (0.80 to 0.80), sendfile=off");
        assert!(best(&found, "sluice").is_none());
    }
}
