//! What others have found, and whether it holds here: a relation between two servers of an experiment, as one
//! line.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::description::quantity::Quantity;

/// A relation that somebody has found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Its row of the catalogue of papers, such as `B04-8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Where it is told.
    pub paper: String,
    /// What is told there, in words.
    pub says: String,
    /// The same, to be looked at here.
    pub expect: Relation,
}

/// `A > B in QUANTITY at POINT`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Relation {
    /// The server that has more.
    pub more: String,
    /// The one that has less.
    pub less: String,
    /// Of what.
    pub quantity: Quantity,
    /// Where.
    pub point: String,
}

impl<'de> Deserialize<'de> for Relation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let allowed = || {
            D::Error::custom(format!(
                "{text:?} is no relation; allowed: 'SERVER > SERVER in QUANTITY at POINT', such as 'nginx > \
                 lighttpd in replies/s at one-packet, 2x'"
            ))
        };
        let (more, rest) = text.split_once(" > ").ok_or_else(allowed)?;
        let (less, rest) = rest.split_once(" in ").ok_or_else(allowed)?;
        let (quantity, point) = rest.split_once(" at ").ok_or_else(allowed)?;
        let quantity = Quantity::named(quantity.trim()).map_err(D::Error::custom)?;
        let owned = |text: &str| text.trim().to_owned();
        Ok(Self { more: owned(more), less: owned(less), quantity, point: owned(point) })
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {} in {} at {}", self.more, self.less, self.quantity.name, self.point)
    }
}
