//! What is wrong with a configuration, told so that it can be put right at once: every problem, each with its
//! place.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::plain::Plain;

/// No settings could be made.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The directory that relative paths start from could not be learnt.
    #[error("cannot tell the current directory: {0}")]
    CurrentDirectory(io::Error),
    /// What was typed does not make sense: at least one problem.
    #[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
    Problems(Vec<Problem>),
}

/// One thing that is wrong. It is told in one line, in which what could mislead whoever reads it is escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it was typed.
    pub place: Place,
    /// The key, with its table (`limits.body`); empty where the file is no TOML.
    pub key: String,
    /// The value as it was typed, shortened; empty where the key itself is wrong.
    pub typed: String,
    /// What is wrong and what is allowed.
    pub what: String,
}

/// Where something was typed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In the file; line and column count from 1, the column in characters.
    File {
        /// The file as it was named.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// On the command line, as this option.
    Option(String),
    /// Nowhere: it is the default.
    Default,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, typed) = (Plain(&self.key), Plain(&self.typed));
        match &self.place {
            Place::File { path, line, column } => {
                write!(f, "{}:{line}:{column}: ", Plain(&path.to_string_lossy()))?;
                match (self.key.as_str(), self.typed.as_str()) {
                    ("", _) => {}
                    (_, "") => write!(f, "{key}: ")?,
                    _ => write!(f, "{key} = {typed}: ")?,
                }
            }
            Place::Option(option) => write!(f, "{option} {typed}: ")?,
            Place::Default => write!(f, "{key}: ")?,
        }
        Plain(&self.what).fmt(f)
    }
}
