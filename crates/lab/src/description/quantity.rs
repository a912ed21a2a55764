//! What servers are compared by.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::record::outcome::{Outcome, Slice};

/// A figure of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// What it is called, in experiments and in reports; its unit is part of that.
    pub name: &'static str,
    /// Whether more of it is better.
    pub more_is_better: bool,
    /// Whether it is the clients' doing where these could not have asked for more: rates and times.
    pub is_of_pace: bool,
    /// How many digits after the point are told.
    pub digits: usize,
    /// What a trial says of it; not a number where it says nothing.
    pub of: fn(&Outcome) -> f64,
}

/// CPU time of all the server's processes for each reply.
pub const COST: Quantity = cost("CPU us/reply", 2, |of| of.cpu.server_us_per_reply);
/// Whole replies.
pub const REPLIES: Quantity = rate("replies/s", 0, |of| of.replies_per_s);
/// Those of status 2xx.
pub const GOOD: Quantity = rate("2xx/s", 1, |of| of.replies_2xx_per_s.unwrap_or(f64::NAN));
/// Bits of bodies.
pub const BITS: Quantity = rate("Mbit/s", 1, |of| of.replies_body_mbps.unwrap_or(f64::NAN));
/// How long half of the clients wait at most.
pub const MEDIAN: Quantity = time("p50 ms", |of| of.wait_ms.p50);
/// How long 99 of 100 clients wait at most.
pub const P99: Quantity = time("p99 ms", |of| of.wait_ms.p99);
/// Memory of all the server's processes.
pub const MEMORY: Quantity = cost("memory MB", 1, |of| of.memory_mb);

const ALL: [Quantity; 10] = [
    COST,
    REPLIES,
    GOOD,
    BITS,
    time("mean ms", |of| of.wait_ms.mean),
    MEDIAN,
    time("p90 ms", |of| of.wait_ms.p90),
    P99,
    time("p99.9 ms", |of| of.wait_ms.p999),
    MEMORY,
];

/// What the server takes.
const fn cost(name: &'static str, digits: usize, of: fn(&Outcome) -> f64) -> Quantity {
    Quantity { name, more_is_better: false, is_of_pace: false, digits, of }
}

/// What clients get.
const fn rate(name: &'static str, digits: usize, of: fn(&Outcome) -> f64) -> Quantity {
    Quantity { name, more_is_better: true, is_of_pace: true, digits, of }
}

/// How long they wait.
const fn time(name: &'static str, of: fn(&Outcome) -> f64) -> Quantity {
    Quantity { name, more_is_better: false, is_of_pace: true, digits: 2, of }
}

/// Of these wrk tells nothing: a status is one of 4xx or 5xx there, or another; and it counts heads and
/// bodies together.
const UNTOLD_BY_WRK: [Quantity; 2] = [GOOD, BITS];

impl Quantity {
    /// Whether trials by wrk tell it.
    pub(crate) fn is_told_by_wrk(&self) -> bool {
        !UNTOLD_BY_WRK.contains(self)
    }

    /// Whether it takes the server's processes to be known.
    pub fn is_of_processes(&self) -> bool {
        [COST, MEMORY].contains(self)
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

    /// What a slice of a trial says of it, if slices do.
    pub(crate) fn of_slice(&self) -> Option<fn(&Slice) -> f64> {
        match *self {
            of if of == COST => Some(|slice| slice.cpu_server_us_per_reply),
            of if of == REPLIES => Some(|slice| slice.replies_per_s),
            _ => None,
        }
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
