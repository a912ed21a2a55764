//! How much load clients make: `64 sessions`, `500 requests/s`, `2x`, `classes`, `mat: mean < 0.5ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::description::quantity::{COST, MEDIAN, P99, Quantity, REPLIES};

/// The amount of load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// This many sessions at a time, each followed by another.
    Sessions(u32),
    /// This many requests per second: sessions arrive at that pace, whatever the server does.
    Rate(f64),
    /// A rate as a multiple of what the point's first server answers when saturated.
    Times(f64),
    /// The rates of the classes of clients, which may be multiples of what each server does for that class.
    Classes,
    /// The highest rate at which replies come in time, the maximum achievable throughput (MAT; Hashemian et
    /// al. 2014, section 3). Each trial searches for it.
    Most(Threshold),
}

/// The condition for replies to be in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// The time that counts: a quantity in milliseconds.
    pub of: Quantity,
    /// The time has to be below this.
    pub time: Duration,
}

/// The text of the load that classes of clients make.
const CLASSES: &str = "classes";

/// The end of the names of quantities that are times.
const MS: &str = " ms";

impl Load {
    /// Whether clients come at a set rate, whatever the server does.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Rate(_) | Self::Times(_) | Self::Classes)
    }

    /// The default quantities. In a closed loop, where the server always gets more requests: the cost of a
    /// reply, and the rate of replies. At a rate that the server can serve: the cost of a reply, and how
    /// long clients wait, since the rate itself is given. If clients request more than it can serve, or a
    /// search looks for the highest rate: the rate of replies.
    pub fn usually_compared(self) -> Vec<Quantity> {
        match self {
            Self::Sessions(_) => vec![COST, REPLIES],
            Self::Times(_) if self.is_too_much() => vec![REPLIES],
            Self::Rate(_) | Self::Times(_) | Self::Classes => vec![COST, MEDIAN, P99],
            Self::Most(_) => vec![REPLIES],
        }
    }

    /// Whether the load is more than the first server can serve.
    pub fn is_too_much(self) -> bool {
        matches!(self, Self::Times(times) if times >= 1.0)
    }
}

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = "allowed: loads such as '64 sessions', '500 requests/s', '2x', 'classes', 'mat: p99.9 \
                       < 4ms'";
        let positive = |number: &str| {
            let number: Option<f64> = number.trim().parse().ok();
            number.filter(|number| number.is_finite() && *number > 0.0)
        };
        let text = text.trim();
        let load = if text == CLASSES {
            Some(Self::Classes)
        } else if let Some(threshold) = text.strip_prefix("mat:") {
            Threshold::parse(threshold).map(Self::Most)
        } else if let Some(times) = text.strip_suffix('x') {
            positive(times).map(Self::Times)
        } else if let Some((number, unit)) = text.split_once(' ') {
            match unit.trim() {
                "sessions" | "connections" => {
                    number.parse().ok().filter(|count| *count > 0).map(Self::Sessions)
                }
                "requests/s" => positive(number).map(Self::Rate),
                _ => None,
            }
        } else {
            None
        };
        load.ok_or_else(|| allowed.to_owned())
    }
}

impl Threshold {
    fn parse(text: &str) -> Option<Self> {
        let (name, time) = text.split_once('<')?;
        let of = Quantity::named(&format!("{}{MS}", name.trim())).ok()?;
        let time = units::parse_time(time.trim()).ok().filter(|time| !time.is_zero())?;
        Some(Self { of, time })
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} < {}ms", self.of.name.trim_end_matches(MS), self.time.as_micros() as f64 / 1e3)
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sessions(count) => write!(f, "{count} sessions"),
            Self::Rate(rate) => write!(f, "{rate} requests/s"),
            Self::Times(times) => write!(f, "{times}x"),
            Self::Classes => f.write_str(CLASSES),
            Self::Most(threshold) => write!(f, "mat: {threshold}"),
        }
    }
}

impl Serialize for Load {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Load {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|allowed| D::Error::custom(format!("{text:?}: {allowed}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read_as_they_are_written() {
        for text in ["64 sessions", "500 requests/s", "0.5 requests/s", "2x", "classes", "mat: mean < 0.5ms"]
        {
            let load: Load = text.parse().unwrap();
            assert_eq!(load.to_string(), text);
        }
        assert_eq!("mat: p99.9<4 ms".parse::<Load>().unwrap().to_string(), "mat: p99.9 < 4ms");
        for text in
            ["", "64", "0 sessions", "-1x", "1 request", "mat: mean", "mat: p98 < 1ms", "mat: mean < 0"]
        {
            let error = text.parse::<Load>().unwrap_err();
            assert!(error.starts_with("allowed: "), "{text}: {error}");
        }
    }
}
