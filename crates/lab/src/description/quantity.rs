//! What servers are compared by.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::record::outcome::Outcome;

/// A figure of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// What it is called, in experiments and in reports; its unit is part of that.
    pub name: &'static str,
    /// Whether more of it is better.
    pub more_is_better: bool,
    /// How many digits after the point are told.
    pub digits: usize,
    /// What a trial says of it; not a number where it says nothing.
    pub of: fn(&Outcome) -> f64,
}

/// CPU time of all the server's processes for each reply.
pub const COST: Quantity =
    Quantity { name: "CPU us/reply", more_is_better: false, digits: 2, of: |of| of.cpu.server_us_per_reply };
/// Whole replies.
pub const REPLIES: Quantity =
    Quantity { name: "replies/s", more_is_better: true, digits: 0, of: |of| of.replies_per_s };
/// Those of status 2xx.
pub const GOOD: Quantity =
    Quantity { name: "2xx/s", more_is_better: true, digits: 1, of: |of| of.good_per_s.unwrap_or(f64::NAN) };
/// Bits of bodies.
pub const BITS: Quantity =
    Quantity { name: "Mbit/s", more_is_better: true, digits: 1, of: |of| of.body_mbps.unwrap_or(f64::NAN) };
/// Memory of all the server's processes.
pub const MEMORY: Quantity =
    Quantity { name: "memory MB", more_is_better: false, digits: 1, of: |of| of.memory_mb };

const ALL: [Quantity; 10] = [
    COST,
    REPLIES,
    GOOD,
    BITS,
    Quantity { name: "mean ms", more_is_better: false, digits: 2, of: |of| of.times.mean },
    Quantity { name: "p50 ms", more_is_better: false, digits: 2, of: |of| of.times.p50 },
    Quantity { name: "p90 ms", more_is_better: false, digits: 2, of: |of| of.times.p90 },
    Quantity { name: "p99 ms", more_is_better: false, digits: 2, of: |of| of.times.p99 },
    Quantity { name: "p99.9 ms", more_is_better: false, digits: 2, of: |of| of.times.p999 },
    MEMORY,
];

/// Of these wrk tells nothing: a status is one of 4xx or 5xx there, or another; and it counts heads and
/// bodies together.
const UNTOLD_BY_WRK: [Quantity; 2] = [GOOD, BITS];

impl Quantity {
    /// Whether trials by wrk tell it.
    pub(crate) fn is_told_by_wrk(&self) -> bool {
        !UNTOLD_BY_WRK.contains(self)
    }

    /// By its name.
    ///
    /// # Errors
    /// The names that there are.
    pub fn named(name: &str) -> Result<Self, String> {
        let names = || ALL.map(|quantity| quantity.name).join(", ");
        let found = ALL.into_iter().find(|quantity| quantity.name == name);
        found.ok_or_else(|| format!("{name:?} is no quantity; allowed: {}", names()))
    }

    /// What is more the better a value is.
    pub(crate) fn worth(&self, value: f64) -> f64 {
        if self.more_is_better { value } else { -value }
    }

    /// A value with its digits.
    pub fn told(&self, value: f64) -> String {
        format!("{value:.*}", self.digits)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::named(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
