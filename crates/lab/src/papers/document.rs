//! Writes all rows with their verdicts as a document in Markdown: `docs/papers.md`.

use std::fmt::Write as _;

use super::catalogue::{Catalogue, Here};
use super::measured::Measured;
use super::page::sentence;
use super::verdict::{Verdict, counts, verdicts};
use crate::table;
use crate::unique::unique;

/// Its path in the source tree.
pub const FILE: &str = "docs/papers.md";

/// The text above the tables.
const ABOUT: &str = "\
# What papers found, and whether it holds here

Five papers studied web servers from 2004 to 2014. This page has a row for each of their tables and figures.
It is made by `sluicelab papers report` from `experiments/papers.toml` and from the journals in
`docs/measurements`. A test compares it with both.

    sluicelab papers                 # this list on a terminal
    sluicelab papers show B04-8      # one row: the paper's numbers, ours, and a picture
    sluicelab papers run B04-8       # measure it again
    sluicelab papers report          # this page in HTML, with plots

Numbers are how many times as much one server has as the other, here with the interval that holds the median
with 95% certainty. A row is as sure as the least sure of its findings.
";

/// The document with all rows.
pub fn markdown(catalogue: &Catalogue, measured: &Measured) -> String {
    let verdicts = verdicts(catalogue, measured);
    let mut text = format!("{ABOUT}\n{}\n\n", lines(&sentence(&verdicts)));
    let kinds = counts(&verdicts).into_iter();
    text += &table::markdown(
        &["verdict", "rows"],
        kinds.map(|(sign, words, count)| vec![format!("{sign} {words}"), count.to_string()]),
    );
    for paper in &catalogue.papers {
        let _ = write!(text, "\n## {}: {}\n\n", paper.name, paper.title);
        let of = verdicts.iter().filter(|verdict| verdict.row.paper == paper.key);
        text += "| row | what varies | the paper | here | verdict |\n|---|---|---|---|---|\n";
        for verdict in of {
            let row = verdict.row;
            let cells = [
                format!("{}<br>{}", row.id, row.figure),
                row.varies.clone(),
                row.finding.clone(),
                here(verdict),
                format!("{} {}", verdict.says.sign(), verdict.says.words()),
            ];
            let _ = writeln!(text, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
        }
    }
    text += "\n## Where it was measured\n\n";
    let of = |name: &&str| measured.of(name);
    let rows = unique(catalogue.experiments().iter().filter_map(of)).into_iter().map(|of| {
        let name = &of.experiment;
        vec![
            format!("`experiments/{name}`"),
            of.date.clone(),
            of.machine.clone(),
            format!("`{}`", of.directory),
        ]
    });
    text + &table::markdown(&["experiment", "date", "machine", "raw results"], rows).replace("---:|", "---|")
}

/// Wraps prose to the longest allowed line.
fn lines(text: &str) -> String {
    const COLUMNS: usize = 110;
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.len() - 1;
        if lines[line].len() + word.len() < COLUMNS {
            if !lines[line].is_empty() {
                lines[line].push(' ');
            }
            lines[line].push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

/// The result for a row here.
fn here(verdict: &Verdict<'_>) -> String {
    let row = verdict.row;
    let mut all = Vec::new();
    if let Here::NotHere { reason, instead } = &row.here {
        all.push(format!("{reason}; instead: {instead}"));
    }
    for (_, finding) in &verdict.findings {
        let reason = finding.reason.as_ref().map_or_else(String::new, |reason| format!(" ({reason})"));
        let sign = finding.sign();
        all.push(format!(
            "{sign} {}: here {}, paper {}{reason}",
            finding.expect,
            finding.ours(),
            finding.theirs()
        ));
    }
    all.extend(row.why.clone());
    all.join("<br>")
}
