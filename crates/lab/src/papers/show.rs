//! Shows one row on a terminal: the paper's numbers, ours, a picture, and how to repeat it.

use std::fmt::Write as _;

use super::catalogue::{Catalogue, Here, experiment};
use super::measured::Word;
use super::picture::{LEGEND, picture};
use super::text::Terminal;
use super::verdict::{Says, Verdict};
use crate::description::expected::expected;
use crate::description::experiment::Experiment;
use crate::unique::unique;

/// The longest line, and the length of lines where the output has no width.
const COLUMNS: usize = 100;

/// The text about a row.
pub fn text(catalogue: &Catalogue, verdict: &Verdict<'_>, terminal: Terminal) -> String {
    let row = verdict.row;
    let columns = terminal.width.unwrap_or(COLUMNS).clamp(40, COLUMNS);
    let mut text = format!("{}  {}, {}\n", row.id, catalogue.paper(row), row.figure);
    let mut item = |name: &str, says: &str| wrapped(&mut text, name, says, columns);
    item("Varies", &row.varies);
    item("The paper", &row.finding);
    let held = verdict.held().map(|(holds, all)| format!(" ({holds} of {all} findings hold)"));
    let says = verdict.says.words() + &held.unwrap_or_default();
    match &row.here {
        Here::NotHere { reason, instead } => {
            item("Here", &format!("{says}: {reason}"));
            item("Instead", instead);
        }
        Here::Waits(_) | Here::Measured(_) => item("Here", &says),
    }
    if let Some(why) = &row.why {
        item("Why", why);
    }
    for (_, finding) in &verdict.findings {
        let word = terminal.coloured(Says::Told(finding.word), &finding.words());
        let _ = writeln!(text, "\n  {}", finding.expect);
        let _ = writeln!(text, "  paper {}, here {}: {word}", finding.theirs(), finding.ours());
        if let (Word::CannotTell, Some(reason)) = (finding.word, &finding.reason) {
            wrapped(&mut text, " ", reason, columns);
        }
        if let Some([scale, line]) = picture(finding, columns.saturating_sub(8).min(72)) {
            let _ = writeln!(text, "    {scale}\n    {line}");
        }
    }
    if !verdict.findings.is_empty() {
        let _ = writeln!(text, "\n  {LEGEND}");
    }
    text.push('\n');
    for of in unique(verdict.findings.iter().map(|(of, _)| *of)) {
        let at = format!("{} on {}", of.date, of.machine);
        wrapped(&mut text, "Measured", &at, columns);
        wrapped(&mut text, "Raw results", &of.directory, columns);
    }
    let experiments: Vec<&str> = row.experiments().collect();
    if !experiments.is_empty() {
        let file = |name: &&str| {
            let note = if experiment(name).is_none() { " (not written yet)" } else { "" };
            format!("experiments/{name}{note}")
        };
        let files: Vec<String> = experiments.iter().map(file).collect();
        wrapped(&mut text, "Experiment", &files.join(", "), columns);
        for (number, command) in verdict.commands().iter().enumerate() {
            let name = match number {
                0 if verdict.findings.is_empty() => "Measure it",
                0 => "Repeat it",
                _ => "Newer",
            };
            let own = command.contains(" papers ").then(|| minutes(&row.measurable())).flatten();
            let about = own.map_or_else(String::new, |minutes| format!("  (about {minutes} minutes)"));
            wrapped(&mut text, name, &format!("{command}{about}"), columns);
        }
    }
    text
}

/// How long the experiments take, if they exist.
fn minutes(experiments: &[&str]) -> Option<u64> {
    let times = experiments.iter().map(|name| Some(expected(&Experiment::parse(experiment(name)?).ok()?)));
    let seconds = times.sum::<Option<std::time::Duration>>()?.as_secs();
    Some(seconds.div_ceil(60))
}

/// A name, and lines of text beside it.
fn wrapped(text: &mut String, name: &str, says: &str, columns: usize) {
    const NAME: usize = 12;
    let mut line = format!("{name:NAME$}");
    for word in says.split_whitespace() {
        if line.chars().count() + word.chars().count() + 1 > columns && line.trim_end().chars().count() > NAME
        {
            let _ = writeln!(text, "{}", line.trim_end());
            line = " ".repeat(NAME);
        }
        let gap = if line.ends_with(' ') { "" } else { " " };
        let _ = write!(line, "{gap}{word}");
    }
    let _ = writeln!(text, "{}", line.trim_end());
}
