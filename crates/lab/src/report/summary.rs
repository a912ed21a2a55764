//! The results as text for a terminal, in one screen if possible: verdicts first, then the servers' figures
//! at each point, as bars or over the offered rate.

use std::fmt::Write as _;

use crate::analysis::series::{Found, Series};
use crate::description::finding::Finding;
use crate::description::quantity::{COST, MEMORY, Quantity, REPLIES};
use crate::report::group::{Group, Place, Scene};
use crate::report::results::{Held, Results, Sentence};
use crate::report::sample::Value;
use crate::report::work;
use crate::statistics::median;

/// The columns that every terminal has.
const COLUMNS: usize = 80;
/// The width of the badge before a sentence.
const BADGE: usize = 13;
/// The widths of a server's name (without its own line), and of a bar.
const NAME: usize = 18;
const BAR: usize = 28;
/// The width of a ratio with its interval.
const RATIO: usize = 22;
/// The columns and lines of a plot.
const PLOT: (usize, usize) = (64, 10);

/// The other columns for each server: headings, widths, digits, and figures.
const FIGURES: [(&str, usize, usize, Value); 4] = [
    ("mean ms", 7, 2, |of| of.wait_ms.mean),
    ("p99 ms", 6, 1, |of| of.wait_ms.p99),
    ("err %", 5, 2, |of| of.calls_errors_part * 100.0),
    ("CPU %", 5, 1, |of| of.cpu.server_cpus * 100.0),
];
/// The heading and width of the column with replies per second.
const REPLIES_PER_S: (&str, usize) = ("replies/s", 9);

/// The whole text.
pub fn text(results: &Results) -> String {
    let mut text = format!("{}\n\n", results.experiment.title);
    if let Some(so_far) = results.so_far() {
        sentence(&mut text, "so far", &so_far);
    }
    for Sentence { word, point, says, .. } in results.sentences() {
        sentence(&mut text, word, &format!("{point}: {says}"));
    }
    if !results.verdicts.is_empty() {
        let percent = (results.experiment.margin * 1e5).round() / 1e3;
        let says = format!("{percent}%, set in advance: a smaller difference is called no difference.");
        sentence(&mut text, "margin", &says);
    }
    for why in &results.unsteady {
        sentence(&mut text, "not steady", &format!("{why}."));
    }
    for held in &results.findings {
        finding(&mut text, held);
    }
    for group in Scene::of(results).groups() {
        if group.is_open() && group.points.len() > 1 {
            plot(&mut text, &group);
        } else {
            bars(&mut text, &group);
        }
        figures(&mut text, &group);
    }
    text.push('\n');
    for machine in results.machines() {
        wrapped(&mut text, "", 0, &machine);
    }
    text
}

/// How many requests a connection carries. Figures depend on this more than on most other things: opening
/// and closing a connection can cost a server twice as much as a small reply.
fn on_a_connection(requests: f64) -> String {
    if requests < 1.05 {
        "a connection for each request".to_owned()
    } else {
        format!("{requests:.1} requests on each connection")
    }
}

fn sentence(text: &mut String, badge: &str, says: &str) {
    wrapped(text, &format!("{badge:BADGE$}"), BADGE, says);
}

/// A finding of others, and ours.
fn finding(text: &mut String, held: &Held) {
    let Finding { paper, says, expect, .. } = &held.finding;
    let says = format!("{paper}: \"{says}\" ({expect}: {}).", held.told());
    wrapped(text, &format!("{:BADGE$} ", held.says.word()), BADGE + 1, &says);
}

/// Wraps words to the width of the terminal. All lines except the first are indented by this many spaces.
fn wrapped(text: &mut String, before: &str, indent: usize, says: &str) {
    let mut line = before.to_owned();
    for word in says.split_whitespace() {
        let is_full = line.chars().count() + word.chars().count() + 1 > COLUMNS;
        if is_full && line.chars().count() > indent {
            let _ = writeln!(text, "{}", line.trim_end());
            line = " ".repeat(indent);
        }
        let gap = if line.is_empty() || line.ends_with(' ') { "" } else { " " };
        let _ = write!(line, "{gap}{word}");
    }
    let _ = writeln!(text, "{line}");
}

/// A row that begins with a name. A name that is too long for its column gets its own line.
fn row(text: &mut String, name: &str, rest: &str) {
    let _ = if name.chars().count() > NAME {
        writeln!(text, "  {name}\n  {:NAME$} {rest}", "")
    } else {
        writeln!(text, "  {name:NAME$} {rest}")
    };
}

/// A bar for each server: the median and, lighter, its interval.
fn bars(text: &mut String, group: &Group<'_>) {
    for found in &group.points {
        let Some(quantity) = found.point.compare.first() else { continue };
        let better = quantity.better.told().map_or(String::new(), |better| format!("{better}; "));
        let (point, quantity_name) = (&found.point.name, quantity.name);
        let _ = writeln!(text, "\n{point}: {quantity_name} ({better}▒: 95% certain)");
        let samples: Vec<_> =
            found.series.iter().map(|series| (series, Place { found, series }.sample(quantity.of))).collect();
        let ends = samples.iter().filter_map(|(_, sample)| sample.middle());
        let most =
            ends.map(|(median, of)| of.map_or(median, |of| of.upper)).fold(f64::MIN_POSITIVE, f64::max);
        let columns = |value: f64| (value / most * BAR as f64).round().clamp(0.0, BAR as f64) as usize;
        for (series, sample) in &samples {
            let bar = sample.middle().map_or(String::new(), |(median, interval)| {
                let (lower, upper) = interval.map_or((median, median), |of| (of.lower, of.upper));
                "█".repeat(columns(lower)) + &"▒".repeat(columns(upper) - columns(lower))
            });
            row(text, &series.server.name, &format!("{bar:BAR$} {}", sample.told()));
        }
    }
}

/// The servers' figures over the offered rate: letters for their medians, dots for the offered rate itself.
fn plot(text: &mut String, group: &Group<'_>) {
    let Some(quantity) = group.points[0].point.compare.first() else { return };
    let mut letters = ('a'..='z').cycle();
    let mut marks: Vec<(char, f64, f64)> = Vec::new();
    let mut legend = Vec::new();
    let is_compared = |(name, _): &(&str, Vec<Place<'_>>)| !group.scene.style(name).is_control;
    for (name, places) in group.by_server().into_iter().filter(is_compared) {
        let letter = letters.next().unwrap_or('*');
        legend.push(format!("{letter} {name}"));
        let place = |place: &Place<'_>| Some((letter, place.offered()?, place.sample(quantity.of).median()?));
        marks.extend(places.iter().filter_map(place));
    }
    let most = |of: fn(&(char, f64, f64)) -> f64| marks.iter().map(of).fold(f64::MIN_POSITIVE, f64::max);
    let (most_x, most_y) = (most(|mark| mark.1), most(|mark| mark.2));
    let (columns, lines) = PLOT;
    let mut cells = vec![vec![' '; columns]; lines];
    let column = |x: f64| (x / most_x * (columns - 1) as f64).round() as usize;
    let line = |y: f64| lines - 1 - (y / most_y * (lines - 1) as f64).round() as usize;
    if quantity.name == crate::description::quantity::REPLIES.name {
        for (at, x) in (0..columns).map(|at| (at, at as f64 / (columns - 1) as f64 * most_x)) {
            if x <= most_y {
                cells[line(x)][at] = '.';
            }
        }
    }
    for (letter, x, y) in marks {
        let cell = &mut cells[line(y)][column(x)];
        *cell = if cell.is_ascii_lowercase() { '*' } else { letter };
    }
    let (digits, quantity) = (quantity.digits, quantity.name);
    let _ = writeln!(text, "\n{}: {quantity} over offered requests/s\n", group.title);
    for (number, cells) in cells.iter().enumerate() {
        let edge = if number == 0 { format!("{most_y:.digits$}") } else { String::new() };
        let _ = writeln!(text, "{edge:>11} |{}", cells.iter().collect::<String>().trim_end());
    }
    let _ = writeln!(text, "{:>11} +{}", 0, "-".repeat(columns));
    let _ = writeln!(text, "{:12}0{most_x:>width$.0}", "", width = columns);
    wrapped(text, &" ".repeat(BADGE), BADGE, &format!("{}, * several", legend.join(", ")));
}

/// The other figures of each server at each point.
fn figures(text: &mut String, group: &Group<'_>) {
    for found in &group.points {
        let Some(first) = found.series.first() else { continue };
        let Some(quantity) = found.point.compare.first() else { continue };
        let (heading, width) = REPLIES_PER_S;
        let headings = FIGURES.map(|(heading, width, ..)| format!(" {heading:>width$}")).concat();
        let ratio = format!("times {}", first.server.name);
        let ratio = if ratio.chars().count() > RATIO { "times the first" } else { ratio.as_str() };
        text.push('\n');
        let load = found.point.setting.load.to_string();
        row(text, &load, &format!("{ratio:>RATIO$} {heading:>width$}{headings}"));
        if let Some(each) = median(first.outcomes().filter_map(|of| of.requests_per_connection)) {
            wrapped(text, "  ", 2, &on_a_connection(each));
        }
        for series in &found.series {
            let cell = |(_, width, digits, of)| format!(" {:>width$}", series.median_cell(of, digits));
            let (replies, ratio) = (replies_per_s(series), series.ratio_cell(first, quantity.of));
            let figures = FIGURES.map(cell).concat();
            row(text, &series.server.name, &format!("{ratio:>RATIO$} {replies:>width$}{figures}"));
        }
        legend(text, found, *quantity);
        for series in &found.series {
            let of_work = work::figures(group.scene, Place { found, series });
            if !of_work.is_empty() {
                let told: Vec<String> =
                    of_work.iter().map(|(heading, told)| format!("{heading} {told}")).collect();
                wrapped(text, &format!("  {} ", series.server.name), 4, &told.join(", "));
            }
        }
        let invalid = found.series.iter().map(|series| (&series.server.name, series.invalid()));
        for (name, count) in invalid.filter(|(_, count)| count != "0") {
            let told = format!("Trials of {name} that were not valid and were measured again: {count}.");
            wrapped(text, "  ", 2, &told);
        }
    }
}

/// The replies per second, with a mark if the server may be able to give more.
fn replies_per_s(series: &Series) -> String {
    let bound = if series.were_clients_short() { ">" } else { "" };
    let cell = series.median_cell(REPLIES.of, REPLIES.digits);
    if cell.is_empty() { cell } else { format!("{bound}{cell}") }
}

/// The explanation of a point's figures: the meaning of the mark, which server is faster, and the servers'
/// memory.
fn legend(text: &mut String, found: &Found, quantity: Quantity) {
    let mut say = |words: &str| wrapped(text, "  ", 2, words);
    if found.series.iter().any(Series::were_clients_short) {
        say("> : clients had no CPU time left to send more; the server may give more replies/s.");
    }
    let each = |of: &dyn Fn(&Series) -> Option<String>| {
        let told = found.series.iter().filter_map(|series| Some((&series.server.name, of(series)?)));
        told.map(|(name, told)| format!("{name} {told}")).collect::<Vec<_>>().join(", ")
    };
    // With a share of a CPU, a reply takes a different time than with a whole CPU.
    if quantity == COST && found.point.setting.share.is_none() {
        let most = each(&|series| {
            let cost = series.median(COST.of).filter(|cost| *cost > 0.0)?;
            Some(format!("{:.0}", 1e6 / cost))
        });
        if !most.is_empty() {
            say(&format!(
                "The less CPU time a reply takes, the faster the server is. A CPU that is always busy gives \
                 about 1,000,000 / (CPU us/reply) replies/s: {most}."
            ));
        }
    }
    let memory = each(&|series| Some(format!("{:.0} MB", series.median(MEMORY.of)?)));
    if !memory.is_empty() {
        say(&format!("Memory: {memory}."));
    }
}
