//! The load generators: `sluicelab`, `wrk`, `wrk: close`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A load generator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tool {
    /// `sluicelab load`.
    #[default]
    Sluicelab,
    /// wrk, whose connections request the same file again and again.
    Wrk {
        /// Whether each request has the header `Connection: close`, so that each has a new connection.
        closes: bool,
    },
}

const ALLOWED: &str = "allowed: sluicelab, wrk, which keeps its connections, and 'wrk: close', which opens \
    a connection for each request";

impl FromStr for Tool {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, how) = text.split_once(':').unwrap_or((text, ""));
        match (name.trim(), how.trim()) {
            ("sluicelab", "") => Ok(Self::Sluicelab),
            ("wrk", "") => Ok(Self::Wrk { closes: false }),
            ("wrk", "close") => Ok(Self::Wrk { closes: true }),
            _ => Err(format!("{text:?} is no generator; {ALLOWED}")),
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sluicelab => "sluicelab",
            Self::Wrk { closes: false } => "wrk",
            Self::Wrk { closes: true } => "wrk: close",
        })
    }
}

impl Serialize for Tool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Tool {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Tool {
    /// Whether it is sluicelab itself.
    pub fn is_sluicelab(&self) -> bool {
        *self == Self::Sluicelab
    }

    /// Whether each connection ends after one reply.
    pub(crate) fn closes(self) -> bool {
        self == Self::Wrk { closes: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_are_read_as_they_are_written() {
        for text in ["sluicelab", "wrk", "wrk: close"] {
            assert_eq!(text.parse::<Tool>().unwrap().to_string(), text);
        }
        for text in ["", "ab", "wrk: keep", "sluicelab: close"] {
            let error = text.parse::<Tool>().unwrap_err();
            assert!(error.contains("is no generator; allowed: sluicelab, wrk"), "{error}");
        }
    }
}
