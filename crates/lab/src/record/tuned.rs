//! What a search for settings was about, and what it came to: `tune.json` in its directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::unique::unique;

/// What a search came to, in its directory.
pub const FOUND: &str = "tune.json";
/// The directory of the fresh rounds.
pub const FRESH: &str = "fresh";

/// The directory of the neighbours of the two best.
pub const STEP: &str = "step";
/// The directory of all combinations.
pub const ALL: &str = "all";
/// How directories of passes through what was drawn begin; behind it is their number, from 1.
pub const PASS: &str = "heat-";

/// A setting, and the values that it may have, from the least to the most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimension {
    /// As a server's settings have it: `--workers`, `worker_processes`.
    pub name: String,
    /// At least two.
    pub values: Vec<String>,
}

impl Dimension {
    /// The setting with one of the values.
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

/// What came of a heat: who took part, best first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Heat {
    /// Its directory.
    pub name: String,
    /// How often everything was measured.
    pub rounds: u32,
    /// The candidates.
    pub ranks: Vec<Rank>,
}

/// A candidate's place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rank {
    /// Its settings, as they are typed.
    pub server: String,
    /// The value of each dimension.
    pub values: Vec<String>,
    /// The median of what is compared; `None` if it would not run, or not serve its files.
    pub median: Option<f64>,
    /// Whether all of its trials are valid.
    pub is_valid: bool,
}

/// Everything that a search came to, as `tune.json` has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Found {
    /// What was varied.
    pub dimensions: Vec<Dimension>,
    /// By what candidates were compared.
    pub quantity: String,
    /// The heats, the first first. The last is that of fresh rounds.
    pub heats: Vec<Heat>,
    /// Who took part before the fresh rounds and was within 2% of the best there.
    pub plateau: Vec<String>,
}

impl Heat {
    /// What it was for, in words. Its directory's name says nothing to anybody.
    pub fn in_words(&self) -> String {
        let times = if self.rounds == 1 { "once".to_owned() } else { format!("{} times", self.rounds) };
        let what = match self.name.as_str() {
            FRESH => "the two best, measured again beside the settings as they come".to_owned(),
            STEP => "the neighbours of the two best".to_owned(),
            ALL => "all combinations".to_owned(),
            name => match name.strip_prefix(PASS).and_then(|number| number.parse::<u32>().ok()) {
                Some(1) => "settings that were drawn".to_owned(),
                Some(_) => "the better half of those".to_owned(),
                None => name.to_owned(),
            },
        };
        format!("{what}, each {times}")
    }
}

impl Found {
    /// The best of the fresh rounds.
    pub fn best(&self) -> Option<&Rank> {
        self.heats.last()?.ranks.first()
    }

    /// How many different candidates took part.
    pub fn tried(&self) -> usize {
        let all = self.heats.iter().flat_map(|heat| &heat.ranks).map(|rank| rank.server.as_str());
        unique(all).len()
    }

    /// Of the search whose fresh rounds are in `directory`, if they are a search's.
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

/// Whether a directory has a search's results, or some of them.
pub(crate) fn is_search(directory: &Path) -> bool {
    let first = format!("{PASS}1");
    [FOUND, FRESH, &first].iter().any(|name| directory.join(name).exists())
}

/// The directory that has a report: of a search, that of its fresh rounds.
pub fn reported(directory: &Path) -> PathBuf {
    let fresh = directory.join(FRESH);
    if directory.join(FOUND).exists() { fresh } else { directory.to_owned() }
}
