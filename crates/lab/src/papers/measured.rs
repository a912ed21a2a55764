//! What kept journals say of the rows, as a small file that is part of the program: journals are large, and
//! an installed program has none.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The file, below `docs/measurements/`.
pub const FILE: &str = "papers/measured.json";

/// The one that this program was built with.
const EMBEDDED: &str = include_str!("../../../../docs/measurements/papers/measured.json");

/// What each experiment came to.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Those that are measured, in the order of the catalogue.
    pub experiments: Vec<OfExperiment>,
}

/// What one experiment came to.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OfExperiment {
    /// Its name below `experiments/`.
    pub experiment: String,
    /// Where its journal is.
    pub directory: String,
    /// Of what was measured: `version` of its experiment.
    pub version: String,
    /// When, as year, month and day.
    pub date: String,
    /// On what.
    pub machine: String,
    /// What it says of the rows.
    pub findings: Vec<Checked>,
}

/// What a finding of a paper comes to here.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Checked {
    /// Of the row.
    pub id: String,
    /// What the paper says.
    pub says: String,
    /// The relation that was looked at.
    pub expect: String,
    /// How many times as much one has as the other, in the paper, if it says so: from and to.
    pub size: Option<[f64; 2]>,
    /// Whether less is what the paper says, where it is not more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_less: bool,
    /// How far from equal is called equal, as a part of one, where two are said to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<f64>,
    /// What is called no difference, as a part of one.
    pub margin: f64,
    /// The same here.
    pub ratio: Option<Here>,
    /// What follows.
    pub word: Word,
    /// Why nothing can be told, if that is so.
    pub reason: Option<String>,
}

/// How many times as much one has as the other, here.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Here {
    /// Half of the rounds had less.
    pub median: f64,
    /// Where the median is with 95% certainty.
    pub interval: Option<[f64; 2]>,
    /// How many rounds.
    pub rounds: usize,
}

/// What a finding of a paper comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// It is so here.
    Holds,
    /// The direction is the same, and the size is another.
    OtherSize,
    /// It is not so here.
    Contradicted,
    /// Neither can be told.
    CannotTell,
}

impl Measured {
    /// The program's own.
    ///
    /// # Errors
    /// It is no such file.
    pub fn embedded() -> Result<Self> {
        Self::parse(EMBEDDED)
    }

    /// With what a directory of measurements has beside it.
    ///
    /// # Errors
    /// The directory's file can't be read.
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

    /// What an experiment came to, in place of what was known of it.
    pub fn put(&mut self, one: OfExperiment) {
        match self.experiments.iter_mut().find(|known| known.experiment == one.experiment) {
            Some(known) => *known = one,
            None => self.experiments.push(one),
        }
    }

    /// What is known of an experiment.
    pub fn of(&self, experiment: &str) -> Option<&OfExperiment> {
        self.experiments.iter().find(|known| known.experiment == experiment)
    }

    /// As it is written to a file.
    ///
    /// # Errors
    /// It is no JSON.
    pub fn text(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// The root of the source tree that a directory is in, if it is in one.
pub fn source_tree(directory: &Path) -> Option<PathBuf> {
    let is_root = |path: &&Path| {
        path.join("experiments/papers.toml").is_file() && path.join("docs/measurements").is_dir()
    };
    directory.ancestors().find(is_root).map(Path::to_owned)
}
