//! Configuration errors: every problem with its place, so that the operator can correct all of them at
//! once.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::plain::Plain;

/// Why no settings could be made.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The current directory, from which relative paths start, could not be determined.
    #[error("cannot find out the current directory: {0}")]
    CurrentDirectory(io::Error),
    /// What was typed is wrong: at least one problem.
    #[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
    Problems(Vec<Problem>),
}

/// One problem. It is printed on one line, with escapes for characters that could mislead a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it was typed.
    pub place: Place,
    /// The key, with its table (`limits.body`). Empty if the file is not valid TOML.
    pub key: String,
    /// The value as it was typed, shortened. Empty if the key itself is wrong.
    pub typed: String,
    /// What is wrong and what is allowed.
    pub what: String,
}

/// Where something was typed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In the file. Line and column start at 1; the column counts characters.
    File {
        /// The file, as the operator named it.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// On the command line, in this option.
    Option(String),
    /// Not typed: it is the default.
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
