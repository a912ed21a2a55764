//! A section of the page for each group of points: a summary, then figures of throughput, comparison,
//! classes of clients, response times, sizes, and the server's machine.

use std::collections::BTreeSet;

use super::figure::{Figure, Table};
use super::group::{Group, Place};
use super::load_curves::{self, CPU, Curve, RATE, areas};
use super::rows::Part;
use super::sample::{Value, cell, counts};
use super::{by_name, rows, times, work};
use crate::description::quantity::{BITS, GOOD, MEMORY, Quantity};
use crate::description::setting::Setting;
use crate::record::outcome::{Cpu, Outcome};
use crate::unique::unique;

/// A section of the page.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) title: String,
    pub(super) setting: String,
    pub(super) overview: Table,
    pub(super) blocks: Vec<Block>,
}

/// The figures about one topic.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) title: &'static str,
    pub(super) note: String,
    pub(super) figures: Vec<Figure>,
    pub(super) table: Option<Table>,
}

impl Section {
    pub(super) fn of(group: &Group<'_>) -> Self {
        let blocks = [
            throughput(group),
            compared(group),
            classes(group),
            times_of(group),
            sizes(group),
            machine(group),
        ];
        Self {
            title: group.heading(),
            setting: group.setting(),
            overview: overview(group),
            blocks: blocks.into_iter().filter(|block| !block.figures.is_empty()).collect(),
        }
    }
}

fn overview(group: &Group<'_>) -> Table {
    let quantities = compared_by(group);
    let mut table = Table::new(&["server", "load"]);
    for quantity in &quantities {
        table.headings.extend([quantity.name.to_owned(), "times the first".to_owned()]);
    }
    let columns: [(&str, Value); 6] = [
        ("Mbit/s", BITS.of),
        ("mean ms", |of| of.wait_ms.mean),
        ("p99 ms", |of| of.wait_ms.p99),
        ("errors %", |of| of.calls_errors_part * 100.0),
        ("server CPU %", |of| of.cpu.server_cpus * 100.0),
        ("memory MB", |of| of.memory_mb),
    ];
    let is_there = |name: &str| quantities.iter().any(|quantity| quantity.name == name);
    let columns = || columns.into_iter().filter(|(name, _)| !is_there(name));
    table.headings.extend(columns().map(|(name, _)| name.to_owned()));
    let of_work = group.places().flat_map(|place| work::figures(group.scene, place));
    let of_work = unique(of_work.map(|(heading, _)| heading));
    table.headings.extend(of_work.iter().cloned());
    table.headings.push("trials that count".to_owned());
    for place in group.places() {
        let Place { found, series } = place;
        let mut row = place.cells([]);
        for quantity in &quantities {
            row.extend([place.sample(quantity.of).told(), series.ratio_cell(&found.series[0], quantity.of)]);
        }
        row.extend(columns().map(|(_, of)| cell(place.sample(of).median())));
        let figures = work::figures(group.scene, place);
        let told = |heading| figures.iter().find(|(other, _)| other == heading).map(|(_, told)| told.clone());
        row.extend(of_work.iter().map(|heading| told(heading).unwrap_or_default()));
        let counted = series.tries().filter(|outcome| counts(outcome)).count();
        row.push(format!("{counted} of {}", series.tries().count()));
        table.rows.push(row);
    }
    table
}

/// The quantities by which any of its points is compared.
fn compared_by(group: &Group<'_>) -> Vec<Quantity> {
    unique(group.points.iter().flat_map(|found| found.point.compare.iter().copied()))
}

fn throughput(group: &Group<'_>) -> Block {
    if !group.is_open() {
        let mut quantities = compared_by(group);
        for name in ["replies/s", "Mbit/s"] {
            quantities.extend(Quantity::named(name).ok().filter(|of| !quantities.contains(of)));
        }
        let is_told = |quantity: &Quantity| {
            group.places().any(|place| place.sample(quantity.of).all().next().is_some())
        };
        let told = quantities.into_iter().filter(is_told);
        let figures = told.map(|quantity| rows::dots(group, quantity)).collect();
        let (mut note, table) = (rows::READING.to_owned(), brackets(group));
        if table.is_some() {
            note += " Below: the lower and upper bound of the highest rate, in requests per second, that is \
                answered in time.";
        }
        return Block { title: "What servers do", note, figures, table };
    }
    // The average size of a reply at the lowest load, where most requests are answered.
    let bits = |of: &Outcome| (BITS.of)(of) / of.replies_per_s;
    let per_reply = group.places().find_map(|place| place.sample(bits).median());
    let curve = |title, unit, of, per_request| {
        load_curves::figure(group, &Curve { over: RATE, title, unit, of, is_log: false, per_request })
    };
    let mut figures = vec![
        curve("Reply rate", "replies/s", |of| of.replies_per_s, Some(1.0)),
        curve("Throughput", "Mbit/s", BITS.of, per_reply.filter(|bits| *bits > 0.0)),
    ];
    if compared_by(group).contains(&GOOD) {
        figures.insert(0, curve("Good replies", "2xx/s", GOOD.of, Some(1.0)));
    }
    if group.places().any(|place| place.sample(|of| of.calls_errors_part).all().any(|errors| errors > 0.0)) {
        figures.push(curve("Calls that failed", "% of the calls", |of| of.calls_errors_part * 100.0, None));
    }
    let mut table = Table::new(&["server", "area, replies/s", "area, Mbit/s"]);
    let part = |part: Option<f64>| part.map_or("–".to_owned(), |part| format!("{part:.3}"));
    let [replies, mbps] = [areas(group, |of| of.replies_per_s), areas(group, BITS.of)];
    for ((name, replies), (_, mbps)) in replies.into_iter().zip(mbps) {
        table.rows.push(vec![name, part(replies), part(mbps)]);
    }
    let table = (group.points.len() > 1).then_some(table);
    let mut note =
        format!("{} A server that answers all that is offered is on the diagonal.", load_curves::READING);
    if table.is_some() {
        note += " Below: areas under the curves, over the rates that were measured, as parts of the largest.";
    }
    Block { title: "Throughput", note, figures, table }
}

/// The bracket of each search for the highest rate: the rates between which it lies.
fn brackets(group: &Group<'_>) -> Option<Table> {
    let rates = |of: &Outcome, is_served: bool| {
        let fitting = of.probes.iter().filter(move |probe| probe.is_served == is_served);
        fitting.map(|probe| probe.asked_requests_per_s).collect::<Vec<_>>()
    };
    let served = |of: &Outcome| rates(of, true).into_iter().fold(f64::NAN, f64::max);
    let too_much = |of: &Outcome| rates(of, false).into_iter().fold(f64::NAN, f64::min);
    let mut table = Table::new(&["server", "load", "in time in every round", "in time", "too much"]);
    for place in group.places() {
        let (low, high) = (place.sample(served), place.sample(too_much));
        let least = low.counted.iter().copied().fold(f64::NAN, f64::min);
        let cells = [Some(least).filter(|rate| rate.is_finite()), low.median(), high.median()];
        table.rows.push(place.cells(cells.map(cell)));
    }
    let is_searched = group.places().any(|place| place.series.outcomes().any(|of| !of.probes.is_empty()));
    is_searched.then_some(table)
}

fn compared(group: &Group<'_>) -> Block {
    let figures = compared_by(group).into_iter().filter_map(|quantity| rows::ratios(group, quantity));
    let margin = (group.scene.results.experiment.margin * 1e4).round() / 1e2;
    let note = format!(
        "Large: medians of the ratios of each round; bars: their 95% confidence intervals; shaded: \
         ±{margin}%, which is called no difference."
    );
    Block { title: "Compared with the first", note, figures: figures.collect(), table: None }
}

fn times_of(group: &Group<'_>) -> Block {
    let mut figures = Vec::new();
    if group.is_open() && group.points.len() > 1 {
        let curves: [(&str, Value); 4] = [
            ("Mean response time", |of| of.wait_ms.mean),
            ("Median response time", |of| of.wait_ms.p50),
            ("99% of response times are below", |of| of.wait_ms.p99),
            ("99.9% of response times are below", |of| of.wait_ms.p999),
        ];
        figures.extend(curves.map(|(title, of)| {
            let curve = Curve { over: RATE, title, unit: "ms", of, is_log: true, per_request: None };
            load_curves::figure(group, &curve)
        }));
        if group.places().any(|place| place.sample(|of| of.cpu.server_cpus).all().next().is_some()) {
            let title = "Mean response time over CPU time";
            let of: Value = |of| of.wait_ms.mean;
            let curve = Curve { over: CPU, title, unit: "ms", of, is_log: true, per_request: None };
            figures.push(load_curves::figure(group, &curve));
        }
    }
    figures.extend(group.points.iter().flat_map(|found| times::distributions(group, found)));
    let note = if group.points[0].point.setting.generator.is_sluicelab() {
        "From when a call should have been made, connecting included, to the last byte of its reply, or to \
         when its client gave up. Medians over the trials that count."
    } else {
        "From when wrk had sent a request to the last byte of its reply. For one that took long wrk counts \
         others as well, which would have waited behind it. Medians over the trials that count."
    };
    Block { title: "Response times", note: note.to_owned(), figures, table: None }
}

fn sizes(group: &Group<'_>) -> Block {
    let figures: Vec<Figure> = group.points.iter().flat_map(|found| by_name::by_size(group, found)).collect();
    let without = !group.points.iter().any(|found| by_name::has_timeouts(found));
    let note =
        if without { "Medians over the trials that count. No call timed out." } else { times::READING };
    Block { title: "By size of the body", note: note.to_owned(), figures, table: None }
}

fn classes(group: &Group<'_>) -> Block {
    let figures = group.points.iter().filter_map(|found| by_name::by_class(group, found)).collect();
    let note = "The part of each class's requests that was answered with a status 2xx, or of its handshakes \
        that were completed. Times with the unanswered begin when a call was due. Medians over the trials \
        that count.";
    Block { title: "By class of clients", note: note.to_owned(), figures, table: None }
}

fn machine(group: &Group<'_>) -> Block {
    let mut figures = vec![cpu(group), memory(group)];
    let causes: BTreeSet<&String> = group
        .places()
        .flat_map(|place| place.series.tries())
        .flat_map(|outcome| outcome.drops_per_s.iter().filter(|(_, drops)| **drops > 0.0))
        .map(|(cause, _)| cause)
        .collect();
    let parts = causes.into_iter().enumerate().map(|(at, cause)| {
        let per_s = move |of: &Outcome| of.drops_per_s.get(cause).copied().unwrap_or(0.0);
        Part::new(cause, format!("s{}", at % 8), per_s)
    });
    let parts: Vec<Part<'_>> = parts.collect();
    let note = if parts.is_empty() { "The kernel dropped no connection and no packet." } else { "" };
    if !parts.is_empty() {
        let told = ("Drops by cause", "per second", "The kernel's counters.");
        figures.push(rows::parts(group, told, &parts));
    }
    Block { title: "The server's machine", note: note.to_owned(), figures, table: Some(sampled(group)) }
}

/// A table of other counters.
fn sampled(group: &Group<'_>) -> Table {
    let columns: [(&str, Value); 5] = [
        ("context switches/s", |of| of.context_switches_per_s),
        ("descriptors", |of| of.descriptors.map_or(f64::NAN, |count| count as f64)),
        ("page cache MB", |of| of.page_cache_mb),
        ("read from the disk, MB/s", |of| of.read_mb_per_s),
        ("accepts in a phase", |of| of.accepting.as_ref().map_or(f64::NAN, |of| of.accepts_per_phase)),
    ];
    let mut table = Table::new(&["server", "load"]);
    table.headings.extend(columns.map(|(name, _)| name.to_owned()));
    for place in group.places() {
        let median = |of| place.sample(of).median().filter(|median: &f64| median.is_finite());
        table.rows.push(place.cells(columns.map(|(_, of)| cell(median(of)))));
    }
    table
}

const CPU_NOTE: &str = "CPUs of the server. Soft interrupts, whichever process they interrupted, and user \
    mode are sampled at timer ticks, and a short trial has few of these. System is the remaining CPU time \
    of the server's processes. Others is the rest.";

fn cpu(group: &Group<'_>) -> Figure {
    let cpus = |who: &str| {
        let of = group.scene.results.settings["cpus"][who].as_array();
        of.map_or(0, Vec::len)
    };
    let Setting { both_cpus, cpus: own, .. } = &group.points[0].point.setting;
    let all = cpus("server") + if *both_cpus { cpus("clients") } else { 0 };
    let cpus = own.map_or(all, |own| own as usize).max(1) as f64;
    let user = |cpu: &Cpu| cpu.server_cpus * cpu.server_user_part;
    let system = |cpu: &Cpu| (cpu.server_cpus - user(cpu) - cpu.server_softirq_cpus).max(0.0);
    let known = |cpu: &Cpu| {
        user(cpu) + system(cpu) + cpu.server_softirq_cpus + cpu.server_io_wait_cpus + cpu.server_idle_cpus
    };
    let parts = [
        Part::new("user", "user", |of| 100.0 * user(&of.cpu)),
        Part::new("system", "system", |of| 100.0 * system(&of.cpu)),
        Part::new("soft interrupts", "softirq", |of| 100.0 * of.cpu.server_softirq_cpus),
        Part::new("disk wait", "iowait", |of| 100.0 * of.cpu.server_io_wait_cpus),
        Part::new("idle", "idle", |of| 100.0 * of.cpu.server_idle_cpus),
        Part::new("others", "others", |of| 100.0 * (cpus - known(&of.cpu)).max(0.0)),
    ];
    rows::parts(group, ("CPU time", "% of a CPU", CPU_NOTE), &parts)
}

fn memory(group: &Group<'_>) -> Figure {
    if group.is_open() && group.points.len() > 1 {
        let (title, unit) = ("Memory of the server's processes", "MB");
        let (over, of) = (RATE, MEMORY.of);
        let curve = Curve { over, title, unit, of, is_log: false, per_request: None };
        return load_curves::figure(group, &curve);
    }
    rows::dots(group, MEMORY)
}
