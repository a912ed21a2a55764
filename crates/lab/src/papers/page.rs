//! The page with all rows: a matrix of verdicts, then each finding with its plot. The page loads nothing
//! from outside, and tells the browser to refuse that.

use askama::Template;

use super::catalogue::{Catalogue, Here, Row};
use super::measured::{Checked, Measured, Word};
use super::verdict::{Says, Verdict, counts, verdicts};
use crate::report::sizes::{Size, drawing};
use crate::statistics::Interval;
use crate::unique::unique;

/// The data of the template.
#[derive(Debug, Template)]
#[template(path = "papers.html")]
struct Page<'a> {
    summary: Summary,
    papers: Vec<OfPaper<'a>>,
}

/// A summary of all rows, in one sentence and as a legend.
#[derive(Debug)]
struct Summary {
    sentence: String,
    legend: Vec<(&'static str, &'static str, &'static str)>,
}

/// A paper with its rows.
#[derive(Debug)]
struct OfPaper<'a> {
    key: &'a str,
    name: &'a str,
    title: &'a str,
    rows: Vec<OfRow<'a>>,
}

/// A row with its verdict and its plot.
#[derive(Debug)]
struct OfRow<'a> {
    row: &'a Row,
    /// Its id without the paper.
    short: &'a str,
    says: Says<'a>,
    words: String,
    /// More about it: how many findings hold, or the reason why it cannot be measured, and what is measured
    /// instead.
    notes: Vec<(&'static str, String)>,
    drawing: String,
    findings: Vec<&'a Checked>,
    measured: Vec<String>,
    commands: Vec<String>,
}

/// Makes the page.
///
/// # Errors
/// The template fails.
pub fn html(catalogue: &Catalogue, measured: &Measured) -> anyhow::Result<String> {
    let verdicts = verdicts(catalogue, measured);
    let summary = Summary::of(&verdicts);
    let papers = catalogue.papers.iter().map(|paper| {
        let rows = verdicts.iter().filter(|verdict| verdict.row.paper == paper.key);
        OfPaper {
            key: &paper.key,
            name: &paper.name,
            title: &paper.title,
            rows: rows.map(OfRow::of).collect(),
        }
    });
    Ok(Page { summary, papers: papers.collect() }.render()?)
}

impl Summary {
    fn of(verdicts: &[Verdict<'_>]) -> Self {
        let kinds = [
            Says::Told(Word::Holds),
            Says::Told(Word::OtherSize),
            Says::Told(Word::Contradicted),
            Says::Told(Word::CannotTell),
            Says::NotHere,
            Says::Waits("a feature of sluice"),
            Says::NotYet,
        ];
        let word = |kind: Says<'static>| match kind {
            Says::Waits(_) => "waits for a feature of sluice",
            kind => kind.short(),
        };
        let legend = kinds.map(|kind| (kind.class(), kind.sign(), word(kind))).into();
        Self { sentence: sentence(verdicts), legend }
    }
}

/// A sentence with the number of rows of each kind.
pub fn sentence(verdicts: &[Verdict<'_>]) -> String {
    let all: Vec<String> = counts(verdicts)
        .into_iter()
        .map(|(sign, _, count)| {
            let says = match sign {
                "✓" => {
                    if count == 1 {
                        "holds"
                    } else {
                        "hold"
                    }
                }
                "≈" => "have the same direction but another size",
                "✗" => "are contradicted",
                "?" => "can't be told",
                "–" => "can't be measured here",
                "…" => "wait for a feature of sluice",
                _ => "are not measured yet",
            };
            let says = if count == 1 { singular(says) } else { says };
            format!("{count} {says}")
        })
        .collect();
    let (last, before) =
        all.split_last().map_or((String::new(), &all[..]), |(last, before)| (last.clone(), before));
    let joined = if before.is_empty() { last } else { format!("{} and {last}", before.join(", ")) };
    format!("Of {} findings {joined}.", verdicts.len())
}

fn singular(says: &'static str) -> &'static str {
    match says {
        "have the same direction but another size" => "has the same direction but another size",
        "are contradicted" => "is contradicted",
        "wait for a feature of sluice" => "waits for a feature of sluice",
        "are not measured yet" => "is not measured yet",
        other => other,
    }
}

impl<'a> OfRow<'a> {
    fn of(verdict: &'a Verdict<'a>) -> Self {
        let row = verdict.row;
        let mut notes = Vec::new();
        if let Here::NotHere { reason, instead } = &row.here {
            notes.push(("Not here", reason.clone()));
            notes.push(("Instead", instead.clone()));
        }
        if let Some((holds, all)) = verdict.held() {
            notes.push(("Findings", format!("{holds} of {all} hold")));
        }
        notes.extend(row.why.iter().map(|why| ("Why", why.clone())));
        let findings: Vec<&Checked> = verdict.findings.iter().map(|(_, finding)| *finding).collect();
        let measured = unique(verdict.findings.iter().map(|(of, _)| *of));
        let measured = measured.iter().map(|of| format!("{}, {}: {}", of.date, of.machine, of.directory));
        Self {
            row,
            short: row.id.strip_prefix(row.paper.as_str()).unwrap_or(&row.id).trim_start_matches('-'),
            says: verdict.says,
            words: verdict.says.words(),
            notes,
            drawing: drawn(row, &findings),
            measured: measured.collect(),
            commands: verdict.commands(),
            findings,
        }
    }
}

/// The findings of a row that have figures.
fn drawn(row: &Row, findings: &[&Checked]) -> String {
    let size = |finding: &&Checked| {
        let ours = finding.ratio.as_ref()?;
        let interval = ours.interval.map(|[lower, upper]| Interval { lower, upper });
        Some(Size {
            name: format!("{} {}", finding.sign(), finding.expect),
            told: String::new(),
            theirs: finding.range(),
            ours: Some((ours.median, interval)),
        })
    };
    let sizes: Vec<Size> = findings.iter().filter_map(size).collect();
    let margin = findings.first().map_or(0.0, |finding| finding.margin);
    if sizes.is_empty() {
        return String::new();
    }
    drawing(&format!("{}: the paper's size beside the interval that was measured", row.id), margin, &sizes)
}
