//! Reads and checks the rows of `experiments/papers.toml`, and the experiments that these name. Both are
//! part of the program.

use std::collections::HashSet;

use serde::Deserialize;

use crate::near;
use crate::unique::unique;

/// All rows, in the order of the papers.
#[derive(Debug)]
pub struct Catalogue {
    /// The papers of these rows.
    pub papers: Vec<Paper>,
    /// Measurements that are not in the directory with their experiment's name.
    pub kept: Vec<Kept>,
    /// The rows: tables and figures with their findings.
    pub rows: Vec<Row>,
}

/// A paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// The beginning of its rows' ids.
    pub key: String,
    /// First author and year.
    pub name: String,
    /// Its title.
    pub title: String,
}

/// Where a measurement is kept.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// The experiment, below `experiments/`.
    pub experiment: String,
    /// Its directory, below `docs/measurements/`.
    pub directory: String,
    /// The date of its publication.
    pub date: String,
}

/// A table or a figure of a paper, and the experiments that measure it.
#[derive(Debug)]
pub struct Row {
    /// The unique name of the row.
    pub id: String,
    /// The [`Paper::key`] of its paper.
    pub paper: String,
    /// Its number, as the paper prints it.
    pub figure: String,
    /// What the paper compared.
    pub varies: String,
    /// What the paper found.
    pub finding: String,
    /// The reason for a different result here, if there is one.
    pub why: Option<String>,
    /// How it is measured here, or why it is not.
    pub here: Here,
    /// Older experiments that say something about the row until its own are measured.
    pub before: Vec<String>,
}

/// How a row is measured here, or why it is not.
#[derive(Debug)]
pub enum Here {
    /// These experiments measure it.
    Measured(Vec<String>),
    /// Sluice needs this feature first.
    Waits(String),
    /// It cannot be measured here.
    NotHere {
        /// The reason.
        reason: String,
        /// What is measured instead.
        instead: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    papers: Vec<Paper>,
    kept: Vec<Kept>,
    rows: Vec<WrittenRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRow {
    id: String,
    paper: String,
    figure: String,
    varies: String,
    finding: String,
    experiment: Option<OneOrMore>,
    before: Option<OneOrMore>,
    #[serde(default)]
    planned: bool,
    waits: Option<String>,
    not_here: Option<String>,
    instead: Option<String>,
    why: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn all(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::More(more) => more,
        }
    }
}

/// The features that rows may wait for.
const WAITS: [&str; 1] = ["a server that tunes itself"];

/// The texts of experiments, with their names below `experiments/`.
const EXPERIMENTS: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/experiments.rs"));

/// The text of an experiment, if it is part of the program.
pub fn experiment(name: &str) -> Option<&'static str> {
    EXPERIMENTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

impl Catalogue {
    /// The catalogue in the program.
    ///
    /// # Errors
    /// A mistake in the catalogue.
    pub fn embedded() -> Result<Self, String> {
        Self::parse(experiment("papers.toml").unwrap_or_default())
    }

    /// Parses a catalogue.
    ///
    /// # Errors
    /// The mistake, and its place.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Written { papers, kept, rows } = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut ids = HashSet::new();
        for row in &rows {
            let at = |why: &str| Err(format!("{}: {why}", row.id));
            if !ids.insert(row.id.clone()) {
                return at("two rows have this id");
            }
            if !papers.iter().any(|paper| paper.key == row.paper) {
                return at("no paper has its key");
            }
            if !row.id.starts_with(&format!("{}-", row.paper)) {
                return at("the id does not begin with its paper");
            }
        }
        let rows = rows.into_iter().map(WrittenRow::checked).collect::<Result<_, _>>()?;
        Ok(Self { papers, kept, rows })
    }

    /// The row with that id.
    ///
    /// # Errors
    /// There is no such row.
    pub fn row(&self, id: &str) -> Result<&Row, String> {
        let row = self.rows.iter().find(|row| row.id.eq_ignore_ascii_case(id));
        row.ok_or_else(|| {
            let meant = near::meant(id, self.rows.iter().map(|row| row.id.as_str()));
            format!("no row of the papers is called {id:?}{meant}; sluicelab papers lists them")
        })
    }

    /// The paper of a row.
    pub fn paper<'a>(&'a self, row: &'a Row) -> &'a str {
        let paper = self.papers.iter().find(|paper| paper.key == row.paper);
        paper.map_or(&row.paper, |paper| &paper.name)
    }

    /// All experiments that rows name, each once.
    pub fn experiments(&self) -> Vec<&str> {
        unique(self.rows.iter().flat_map(Row::all_experiments))
    }

    /// The directory of an experiment's measurement, below `docs/measurements/`.
    pub fn directory(&self, experiment: &str) -> String {
        let kept = self.kept.iter().find(|kept| kept.experiment == experiment);
        kept.map_or_else(|| fresh_directory(experiment), |kept| kept.directory.clone())
    }
}

/// The directory in which `papers run` keeps an experiment's measurement.
pub fn fresh_directory(experiment: &str) -> String {
    format!("papers/{}", stem(experiment))
}

/// An experiment's name without directories and extension: the name of its results.
pub fn stem(experiment: &str) -> String {
    let name = experiment.strip_suffix(".toml").unwrap_or(experiment);
    name.strip_prefix("papers/").unwrap_or(name).replace('/', "-")
}

impl Row {
    /// The experiments that measure it.
    pub fn experiments(&self) -> impl Iterator<Item = &str> {
        let all: &[String] = if let Here::Measured(all) = &self.here { all } else { &[] };
        all.iter().map(String::as_str)
    }

    /// What `papers run` measures: the row's own experiments or, until these are written, the older ones.
    pub fn measurable(&self) -> Vec<&str> {
        let own: Vec<&str> = self.experiments().collect();
        let are_written = own.iter().all(|name| experiment(name).is_some());
        if are_written { own } else { self.before.iter().map(String::as_str).collect() }
    }

    /// The row's own experiments and the older ones.
    pub fn all_experiments(&self) -> impl Iterator<Item = &str> {
        self.experiments().chain(self.before.iter().map(String::as_str))
    }
}

impl WrittenRow {
    fn checked(self) -> Result<Row, String> {
        let Self { id, paper, figure, varies, finding, why, .. } = self;
        let here = match (self.experiment, self.waits, self.not_here, self.instead) {
            (Some(experiment), None, None, None) => Here::Measured(experiment.all()),
            (None, Some(waits), None, None) if WAITS.contains(&waits.as_str()) => Here::Waits(waits),
            (None, Some(waits), None, None) => {
                return Err(format!("{id}: waits = {waits:?}; allowed: {}", WAITS.join(", ")));
            }
            (None, None, Some(reason), Some(instead)) => Here::NotHere { reason, instead },
            _ => {
                return Err(format!("{id} has not exactly one of: experiment; waits; not_here with instead"));
            }
        };
        if let Here::Measured(names) = &here {
            let missing = names.iter().find(|name| experiment(name).is_none());
            if let (Some(name), false) = (missing, self.planned) {
                return Err(format!("{id}: there is no experiments/{name}, and it is not planned"));
            }
        } else if self.planned {
            return Err(format!("{id} is planned, and names no experiment"));
        }
        let before = self.before.map_or(Vec::new(), OneOrMore::all);
        if let Some(name) = before.iter().find(|name| experiment(name).is_none()) {
            return Err(format!("{id}: there is no experiments/{name}"));
        }
        if !before.is_empty() && !matches!(here, Here::Measured(_)) {
            return Err(format!("{id} was measured before, and names no experiment"));
        }
        Ok(Row { id, paper, figure, varies, finding, why, here, before })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_row_for_each_table_and_figure() {
        let catalogue = Catalogue::embedded().unwrap();
        let of = |key: &str| catalogue.rows.iter().filter(|row| row.paper == key).count();
        assert_eq!(["B04", "P07", "Y10", "H12", "S14"].map(of), [12, 12, 12, 8, 8]);
        let waits = |what: &str| {
            let is_it = |row: &&Row| matches!(&row.here, Here::Waits(waits) if waits == what);
            catalogue.rows.iter().filter(is_it).count()
        };
        assert_eq!(WAITS.map(waits), [3]);
        for row in &catalogue.rows {
            assert!(row.finding.ends_with('.') && !row.varies.ends_with('.'), "{}", row.id);
        }
    }

    #[test]
    fn a_row_has_exactly_one_state() {
        let of = |rest: &str| {
            let paper = "kept = []\n[[papers]]\nkey = 'P'\nname = 'n'\ntitle = 't'\n[[rows]]\nid = 'P-1'\n\
                         paper = 'P'\n\
                         figure = 'f'\nvaries = 'v'\nfinding = 'F.'\n";
            Catalogue::parse(&format!("{paper}{rest}"))
        };
        for fine in [
            "experiment = 'disk-2007.toml'",
            "experiment = ['disk-2007.toml', 'pipeline.toml']",
            "experiment = 'no.toml'\nplanned = true",
            "experiment = 'no.toml'\nplanned = true\nbefore = 'pipeline.toml'",
            "waits = 'a server that tunes itself'",
            "not_here = 'r'\ninstead = 'i'",
        ] {
            assert!(of(fine).is_ok(), "{fine}");
        }
        for (wrong, told) in [
            ("", "has not exactly one of"),
            ("experiment = 'disk-2007.toml'\nwaits = 'a server that tunes itself'", "has not exactly one of"),
            ("not_here = 'r'", "has not exactly one of"),
            ("experiment = 'no.toml'", "there is no experiments/no.toml"),
            ("waits = 'rain'", "allowed: a server that tunes itself"),
            ("waits = 'a server that tunes itself'\nplanned = true", "names no experiment"),
            ("waits = 'a server that tunes itself'\nbefore = 'pipeline.toml'", "was measured before"),
            ("experiment = 'pipeline.toml'\nbefore = 'no.toml'", "there is no experiments/no.toml"),
            ("says = 'x'", "unknown field"),
        ] {
            let error = of(wrong).unwrap_err();
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_row_that_is_not_there_is_told_with_the_nearest() {
        let catalogue = Catalogue::embedded().unwrap();
        assert_eq!(catalogue.row("b04-8").unwrap().id, "B04-8");
        assert!(catalogue.row("BO4-8").unwrap_err().contains("(is it B04-8?)"));
    }
}
