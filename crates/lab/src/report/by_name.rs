//! Figures of calls by a name that several servers share: by the size of the body, and by the class of
//! clients. The servers' markers stand side by side above each name.

use super::figure::{Figure, Table};
use super::group::Group;
use super::sample::{cell, counts};
use super::svg::Of;
use super::svg::axis::Axis;
use super::svg::plot::Plot;
use crate::analysis::series::Found;
use crate::analysis::series::Series;
use crate::record::outcome::{OfSize, Outcome, Party};
use crate::statistics;
use crate::unique::unique;

/// Calls that outcomes have by name: where they are, and their names.
struct Named<T: 'static> {
    of: fn(&Outcome) -> &[T],
    name: fn(&T) -> &String,
}

/// A column of a table: its heading, and a figure of calls that have the same name.
type Column<T> = (&'static str, fn(&T) -> f64);

const SIZES: Named<OfSize> = Named { of: |outcome| &outcome.by_size, name: |size| &size.size };
const CLASSES: Named<Party> = Named { of: |outcome| &outcome.parties, name: |party| &party.name };

impl<T: 'static> Named<T> {
    /// The names at a point, in any trial.
    fn names(&self, found: &Found) -> Vec<String> {
        unique(outcomes(found).flat_map(self.of).map(|one| (self.name)(one).clone()))
    }

    /// The median over the trials that count.
    fn median(&self, series: &Series, name: &str, value: fn(&T) -> f64) -> Option<f64> {
        let counted = series.tries().filter(|outcome| counts(outcome));
        let same =
            counted.filter_map(|outcome| (self.of)(outcome).iter().find(|one| (self.name)(one) == name));
        // Unknown values (NaN) do not count.
        statistics::median(same.map(value).filter(|value| !value.is_nan()))
    }

    /// A table with a row for each server and name.
    fn table(&self, found: &Found, heading: &str, columns: &[Column<T>]) -> Table {
        let headings = ["server", heading].into_iter().chain(columns.iter().map(|(heading, _)| *heading));
        let mut table = Table::new(&headings.collect::<Vec<_>>());
        let names = self.names(found);
        for series in &found.series {
            for name in &names {
                let cells = columns.iter().map(|(_, value)| cell(self.median(series, name, *value)));
                table
                    .rows
                    .push([series.server.name.clone(), name.clone()].into_iter().chain(cells).collect());
            }
        }
        table
    }

    /// A figure with a marker for each server above each name. A name without a value has no marker.
    fn figure(
        &self,
        (group, found): (&Group<'_>, &Found),
        (title, label): (&str, &str),
        y: fn(Vec<f64>) -> Axis,
        value: fn(&T) -> f64,
        table: Table,
    ) -> Figure {
        let title = format!("{title}, {}", found.point.setting.load);
        let names = self.names(found);
        let value = |series: &Series, name: &str| self.median(series, name, value);
        let all = found.series.iter().flat_map(|one| names.iter().filter_map(move |name| value(one, name)));
        let label_of_all = format!("{title}, {}", group.title);
        let mut plot = Plot::new(&label_of_all, Axis::names(label, &names), y(all.collect()));
        for (number, series) in found.series.iter().enumerate() {
            let beside = ((number as f64 + 0.5) / found.series.len() as f64 - 0.5) * 0.6;
            for (place, name) in names.iter().enumerate() {
                if let Some(value) = value(series, name) {
                    let style = group.scene.style(&series.server.name);
                    plot.point(style, (place as f64 + beside, value), Of::Median);
                }
            }
        }
        let keys = found.series.iter().map(|series| group.key(&series.server.name)).collect();
        Figure { title, note: "", keys, drawing: plot.drawing(), table }
    }
}

/// Outcomes of all trials, whether they count or not.
fn outcomes(found: &Found) -> impl Iterator<Item = &Outcome> {
    found.series.iter().flat_map(Series::outcomes)
}

/// Response times by the size of the body, and the part of the calls that timed out. None if all bodies have
/// the same size, as then they say nothing that other figures don't.
pub(super) fn by_size(group: &Group<'_>, found: &Found) -> Vec<Figure> {
    if SIZES.names(found).len() < 2 {
        return Vec::new();
    }
    let timeouts = |of: &OfSize| of.timeouts / of.calls * 100.0;
    let columns: [Column<OfSize>; 5] = [
        ("calls", |of| of.calls),
        ("mean ms", |of| of.reply_time_ms_mean),
        ("p99 ms", |of| of.reply_time_ms_p99),
        ("timeouts %", timeouts),
        ("not served %", |of| of.unserved / of.calls * 100.0),
    ];
    let figure = |title, y: fn(Vec<f64>) -> Axis, value| {
        let table = SIZES.table(found, "size", &columns);
        SIZES.figure((group, found), (title, "size of the body"), y, value, table)
    };
    let times = figure(
        "Mean response time by size",
        |values| Axis::log("mean ms", values),
        |of: &OfSize| of.reply_time_ms_mean,
    );
    let timed_out = figure("Timeouts by size", |values| Axis::linear("% of the calls", values), timeouts);
    [Some(times), has_timeouts(found).then_some(timed_out)].into_iter().flatten().collect()
}

/// Whether any call timed out.
pub(super) fn has_timeouts(found: &Found) -> bool {
    outcomes(found).flat_map(|outcome| &outcome.by_size).any(|of| of.timeouts > 0.0)
}

/// The part of what each class of clients asked for that was answered well. It shows whether a server is fair
/// between clients. Also for files and computed replies, if a workload has both.
pub(super) fn by_class(group: &Group<'_>, found: &Found) -> Option<Figure> {
    if CLASSES.names(found).len() < 2 {
        return None;
    }
    let answered =
        |of: &Party| (of.replies_2xx_per_s + of.handshakes_per_s.unwrap_or(0.0)) / of.calls_per_s * 100.0;
    let mut columns: Vec<Column<Party>> = vec![
        ("calls/s", |of| of.calls_per_s),
        ("2xx/s", |of| of.replies_2xx_per_s),
        ("answered %", answered),
        ("p99 ms", |of| of.reply_time_ms_p99),
        ("p99 ms with the unanswered", |of| of.wait_ms_p99),
    ];
    if outcomes(found).flat_map(CLASSES.of).any(|of| of.handshakes_per_s.is_some()) {
        columns.insert(2, ("handshakes/s", |of| of.handshakes_per_s.unwrap_or(f64::NAN)));
    }
    let table = CLASSES.table(found, "class", &columns);
    let y: fn(Vec<f64>) -> Axis = |values| Axis::linear("% of the calls with a reply 2xx", values);
    Some(CLASSES.figure((group, found), ("Answered by class", "class of clients"), y, answered, table))
}
