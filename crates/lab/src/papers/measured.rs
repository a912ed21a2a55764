//! The results of all kept journals in one small file, which is part of the program. Journals are large,
//! and an installed program has none.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The file, below `docs/measurements/`.
pub const FILE: &str = "papers/measured.json";

/// The file with which this program was built.
const EMBEDDED: &str = include_str!("../../../../docs/measurements/papers/measured.json");

/// The results of all measured experiments.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The measured experiments, in the order of the catalogue.
    pub experiments: Vec<OfExperiment>,
}

/// The result of one experiment.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OfExperiment {
    /// Its name below `experiments/`.
    pub experiment: String,
    /// The directory with its journal.
    pub directory: String,
    /// The `version` of the experiment that was measured.
    pub version: String,
    /// The date: year, month and day.
    pub date: String,
    /// The machine.
    pub machine: String,
    /// The results of its findings.
    pub findings: Vec<Checked>,
}

/// The result of checking a finding of a paper here.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Checked {
    /// The id of the row.
    pub id: String,
    /// What the paper says.
    pub says: String,
    /// The checked relation.
    pub expect: String,
    /// The ratio in the paper, if the paper gives one: lower and upper end.
    pub size: Option<[f64; 2]>,
    /// Whether the paper claims less, not more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_less: bool,
    /// How far from equal still counts as equal, as a fraction. Only for claims of equality.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<f64>,
    /// The largest difference that does not count as one, as a fraction.
    pub margin: f64,
    /// The ratio here.
    pub ratio: Option<Here>,
    /// The conclusion.
    pub word: Word,
    /// The reason for "cannot tell", if so.
    pub reason: Option<String>,
}

/// A ratio measured here.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Here {
    /// Half of the rounds are below it.
    pub median: f64,
    /// The interval that holds the median with 95% certainty.
    pub interval: Option<[f64; 2]>,
    /// The number of rounds.
    pub rounds: usize,
}

/// The conclusion about a paper's finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// The finding holds here.
    Holds,
    /// The direction is the same, but the size differs.
    OtherSize,
    /// The finding is contradicted here.
    Contradicted,
    /// The data do not decide.
    CannotTell,
}

impl Measured {
    /// The results that are part of the program.
    ///
    /// # Errors
    /// The embedded file is malformed.
    pub fn embedded() -> Result<Self> {
        Self::parse(EMBEDDED)
    }

    /// Adds the results in a directory's file to these.
    ///
    /// # Errors
    /// The directory's file cannot be read.
    pub fn with(mut self, file: &Path) -> Result<Self> {
        if file.is_file() {
            let text = fs::read_to_string(file)?;
            let other = Self::parse(&text).with_context(|| format!("cannot read {}", file.display()))?;
            for one in other.experiments {
                self.put(one);
            }
        }
        Ok(self)
    }

    fn parse(text: &str) -> Result<Self> {
        Ok(serde_json::from_str(text)?)
    }

    /// Adds an experiment's result, and removes the previous one.
    pub fn put(&mut self, one: OfExperiment) {
        match self.experiments.iter_mut().find(|known| known.experiment == one.experiment) {
            Some(known) => *known = one,
            None => self.experiments.push(one),
        }
    }

    /// The result of an experiment, if there is one.
    pub fn of(&self, experiment: &str) -> Option<&OfExperiment> {
        self.experiments.iter().find(|known| known.experiment == experiment)
    }

    /// The content for a file.
    ///
    /// # Errors
    /// The results cannot be written as JSON.
    pub fn text(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// The root of the source tree that contains a directory, if one does.
pub fn source_tree(directory: &Path) -> Option<PathBuf> {
    let is_root = |path: &&Path| {
        path.join("experiments/papers.toml").is_file() && path.join("docs/measurements").is_dir()
    };
    directory.ancestors().find(is_root).map(Path::to_owned)
}
