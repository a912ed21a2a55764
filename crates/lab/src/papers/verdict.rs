//! The verdict on a row: the least certain result of its findings, or the reason why nothing was measured.

use super::catalogue::{Catalogue, Here, Row};
use super::measured::{Checked, Measured, OfExperiment, Word};
use crate::unique::unique;

/// The verdict on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says<'a> {
    /// The result of its findings.
    Told(Word),
    /// It cannot be measured here.
    NotHere,
    /// Sluice needs this feature first.
    Waits(&'a str),
    /// There is no journal.
    NotYet,
}

/// A row with its verdict and its results.
#[derive(Debug)]
pub struct Verdict<'a> {
    /// The row.
    pub row: &'a Row,
    /// The verdict.
    pub says: Says<'a>,
    /// Its findings, each with the measurement that it rests on.
    pub findings: Vec<(&'a OfExperiment, &'a Checked)>,
}

/// For each kind of [`Says`]: its sign, a word or two for a column, its meaning, and its class on the page.
const KINDS: [(&str, &str, &str, &str); 7] = [
    ("✓", "holds", "holds", "holds"),
    ("≈", "other size", "same direction but another size", "size"),
    ("✗", "contradicted", "contradicted", "contradicted"),
    ("?", "cannot tell", "cannot tell", "cannot"),
    ("–", "not here", "not measurable here", "nothere"),
    ("…", "waits", "waits for a feature of sluice", "waits"),
    ("·", "not yet", "not measured yet", "notyet"),
];

impl Says<'_> {
    fn kind(self) -> (&'static str, &'static str, &'static str, &'static str) {
        KINDS[match self {
            Says::Told(Word::Holds) => 0,
            Says::Told(Word::OtherSize) => 1,
            Says::Told(Word::Contradicted) => 2,
            Says::Told(Word::CannotTell) => 3,
            Says::NotHere => 4,
            Says::Waits(_) => 5,
            Says::NotYet => 6,
        }]
    }

    /// Its sign.
    pub fn sign(self) -> &'static str {
        self.kind().0
    }

    /// A word or two for a column.
    pub fn short(self) -> &'static str {
        self.kind().1
    }

    /// Its meaning in words.
    pub fn words(self) -> String {
        match self {
            Says::Waits(what) => format!("waits for {what}"),
            _ => self.kind().2.to_owned(),
        }
    }

    /// Its class on the page.
    pub fn class(self) -> &'static str {
        self.kind().3
    }
}

/// The verdicts on all rows.
pub fn verdicts<'a>(catalogue: &'a Catalogue, measured: &'a Measured) -> Vec<Verdict<'a>> {
    catalogue.rows.iter().map(|row| Verdict::of(row, measured)).collect()
}

/// The number of rows of each kind that occurs: sign, words, count.
pub fn counts(verdicts: &[Verdict<'_>]) -> Vec<(&'static str, &'static str, usize)> {
    let count = |sign: &str| verdicts.iter().filter(|verdict| verdict.says.sign() == sign).count();
    let all = KINDS.iter().map(|(sign, _, words, _)| (*sign, *words, count(sign)));
    all.filter(|(_, _, count)| *count > 0).collect()
}

impl<'a> Verdict<'a> {
    /// The verdict on a row.
    pub fn of(row: &'a Row, measured: &'a Measured) -> Self {
        let told = |name: &str| {
            let of = measured.of(name).into_iter();
            of.flat_map(|of| of.findings.iter().map(move |finding| (of, finding)))
                .filter(move |(_, finding)| finding.id == row.id)
        };
        let mut findings: Vec<_> = row.experiments().flat_map(told).collect();
        if findings.is_empty() {
            findings = row.before.iter().flat_map(|name| told(name)).collect();
        }
        let says = match &row.here {
            Here::Waits(what) => Says::Waits(what),
            Here::NotHere { .. } => Says::NotHere,
            Here::Measured(_) => {
                let words = findings.iter().map(|(_, finding)| finding.word);
                words.max_by_key(|word| weight(*word)).map_or(Says::NotYet, Says::Told)
            }
        };
        Self { row, says, findings }
    }

    /// The commands that repeat the measurement, or measure the row if it is not measured yet.
    pub fn commands(&self) -> Vec<String> {
        let measurable = self.row.measurable();
        let rests_on = unique(self.findings.iter().map(|(of, _)| of.experiment.as_str()));
        let older = rests_on.into_iter().filter(|name| !measurable.contains(name));
        let older = older.map(|name| format!("sluicelab run experiments/{name}"));
        let own = (!measurable.is_empty()).then(|| format!("sluicelab papers run {}", self.row.id));
        older.chain(own).collect()
    }

    /// How many of its findings hold, out of how many, if there are several.
    pub fn held(&self) -> Option<(usize, usize)> {
        let holds = self.findings.iter().filter(|(_, finding)| finding.word == Word::Holds).count();
        (self.findings.len() > 1).then_some((holds, self.findings.len()))
    }
}

impl Checked {
    /// The sign of the verdict.
    pub fn sign(&self) -> &'static str {
        Says::Told(self.word).sign()
    }

    /// The verdict's class on the page.
    pub fn class(&self) -> &'static str {
        Says::Told(self.word).class()
    }

    /// The verdict in words.
    pub fn words(&self) -> String {
        Says::Told(self.word).words()
    }
}

/// The order of certainty. All findings of a row together are its claim. The claim is false if one of them
/// is, and unknown if one of them is.
fn weight(word: Word) -> u8 {
    match word {
        Word::Holds => 0,
        Word::OtherSize => 1,
        Word::CannotTell => 2,
        Word::Contradicted => 3,
    }
}
