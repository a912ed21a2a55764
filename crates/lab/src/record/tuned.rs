//! The dimensions and results of a search for settings: `tune.json` in its directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::unique::unique;

/// The file with the results of a search, in its directory.
pub const FOUND: &str = "tune.json";
/// The directory of the confirmatory rounds.
pub const FRESH: &str = "fresh";

/// The directory for the neighbours of the two best.
pub const STEP: &str = "step";
/// The directory for all combinations.
pub const ALL: &str = "all";
/// The beginning of the names of directories for the passes; the number follows, from 1.
pub const PASS: &str = "heat-";

/// A setting, and its possible values, from the least to the most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimension {
    /// Its name in a server's settings: `--workers`, `worker_processes`.
    pub name: String,
    /// At least two.
    pub values: Vec<String>,
}

impl Dimension {
    /// The setting with one of its values.
    pub fn with(&self, value: &str) -> String {
        format!("{}={value}", self.name)
    }
}

impl FromStr for Dimension {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = "allowed: a setting and its values, such as '--workers=1,2,4'";
        let (name, values) = text.split_once('=').ok_or_else(|| format!("{text:?}: {allowed}"))?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if name.trim().is_empty() || values.len() < 2 || values.iter().any(String::is_empty) {
            return Err(format!("{text:?}: {allowed}"));
        }
        Ok(Self { name: name.trim().to_owned(), values })
    }
}

/// The result of a pass: its candidates, the best first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pass {
    /// The name of its directory.
    pub name: String,
    /// How often everything was measured.
    pub rounds: u32,
    /// The candidates.
    pub ranks: Vec<Rank>,
}

/// A candidate's result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rank {
    /// The settings in the form in which users type them.
    pub server: String,
    /// The value of each dimension.
    pub values: Vec<String>,
    /// The median of the compared quantity; `None` if the server did not run, or did not serve its files.
    pub median: Option<f64>,
    /// Whether all its trials are valid.
    pub is_valid: bool,
}

/// All results of a search, as in `tune.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Found {
    /// The varied settings.
    pub dimensions: Vec<Dimension>,
    /// The quantity by which candidates were compared.
    pub quantity: String,
    /// All passes in order. The last is that of the confirmatory rounds.
    #[serde(rename = "heats")]
    pub passes: Vec<Pass>,
    /// The candidates that were within 2% of the best before the confirmatory rounds.
    pub plateau: Vec<String>,
}

impl Pass {
    /// A description of the search, because its directory's name may say nothing.
    pub fn in_words(&self) -> String {
        let times = if self.rounds == 1 { "once".to_owned() } else { format!("{} times", self.rounds) };
        let what = match self.name.as_str() {
            FRESH => "the two best, measured again together with the default settings".to_owned(),
            STEP => "the neighbours of the two best".to_owned(),
            ALL => "all combinations".to_owned(),
            name => match name.strip_prefix(PASS).and_then(|number| number.parse::<u32>().ok()) {
                Some(1) => "settings drawn at random".to_owned(),
                Some(_) => "the better half of those".to_owned(),
                None => name.to_owned(),
            },
        };
        format!("{what}, each {times}")
    }
}

impl Found {
    /// The best of the confirmatory rounds.
    pub fn best(&self) -> Option<&Rank> {
        self.passes.last()?.ranks.first()
    }

    /// The number of different candidates.
    pub fn tried(&self) -> usize {
        let all = self.passes.iter().flat_map(|pass| &pass.ranks).map(|rank| rank.server.as_str());
        unique(all).len()
    }

    /// The search whose confirmatory rounds are in `directory`, if there is one.
    pub fn of_fresh_rounds(directory: &Path) -> Result<Option<Self>> {
        let directory = directory.canonicalize()?;
        let parent = directory.parent().filter(|_| directory.ends_with(FRESH));
        let Some(path) = parent.map(|parent| parent.join(FOUND)).filter(|path| path.exists()) else {
            return Ok(None);
        };
        let found = serde_json::from_slice(&fs::read(&path)?);
        found.map(Some).with_context(|| format!("{} is of another version", path.display()))
    }
}

/// Whether a directory has results of a search.
pub(crate) fn is_search(directory: &Path) -> bool {
    let first = format!("{PASS}1");
    [FOUND, FRESH, &first].iter().any(|name| directory.join(name).exists())
}

/// The directory with the report: for a search, that of its confirmatory rounds.
pub fn reported(directory: &Path) -> PathBuf {
    let fresh = directory.join(FRESH);
    if directory.join(FOUND).exists() { fresh } else { directory.to_owned() }
}
