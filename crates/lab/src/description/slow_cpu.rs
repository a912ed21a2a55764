//! How much of its CPU a server does not get: `300 us of 400 us`.
//!
//! A generator of load has to be faster than the server. Where both have one CPU each, and a request costs
//! both about as much, the server's CPU is made slow.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A part of each period for which nothing else runs on the server's CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowCpu {
    /// The microseconds of a period that are taken.
    pub taken_us: u32,
    /// The period in microseconds.
    pub of_us: u32,
}

/// The period, in microseconds. Below that the server would hardly run between two switches, and above it
/// clients would see the gaps.
const PERIOD_US: [u32; 2] = [50, 10_000];

/// The largest part that may be taken. The kernel stops real-time threads that run for longer
/// (`kernel.sched_rt_runtime_us`, 95%).
const MOST_TAKEN: f64 = 0.9;

impl FromStr for SlowCpu {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [shortest, longest] = PERIOD_US;
        let allowed = || {
            format!(
                "allowed: a part of a period, such as '300 us of 400 us'; periods from {shortest} us to \
                 {longest} us, of which at most {:.0}% are taken",
                MOST_TAKEN * 100.0
            )
        };
        let us = |text: &str| {
            let time: Duration = units::parse_time(text.trim()).ok()?;
            u32::try_from(time.as_micros()).ok().filter(|us| *us > 0)
        };
        let (taken, of) = text.split_once(" of ").ok_or_else(allowed)?;
        let (taken_us, of_us) = us(taken).zip(us(of)).ok_or_else(allowed)?;
        let is_possible =
            (shortest..=longest).contains(&of_us) && f64::from(taken_us) <= f64::from(of_us) * MOST_TAKEN;
        is_possible.then_some(Self { taken_us, of_us }).ok_or_else(allowed)
    }
}

impl fmt::Display for SlowCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} us of {} us", self.taken_us, self.of_us)
    }
}

impl Serialize for SlowCpu {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SlowCpu {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|allowed| D::Error::custom(format!("{text:?}: {allowed}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_as_they_are_written() {
        for text in ["300 us of 400 us", "9 us of 50 us", "9000 us of 10000 us"] {
            assert_eq!(text.parse::<SlowCpu>().unwrap().to_string(), text);
        }
        assert_eq!("1ms of 2 ms".parse(), Ok(SlowCpu { taken_us: 1_000, of_us: 2_000 }));
        for text in ["", "300 us", "300 of 400", "0 us of 400 us", "9 us of 49 us", "1 us of 10001 us"] {
            assert!(text.parse::<SlowCpu>().is_err(), "{text}");
        }
        let error = "361 us of 400 us".parse::<SlowCpu>().unwrap_err();
        assert!(error.starts_with("allowed: a part of a period") && error.contains("at most 90%"), "{error}");
    }
}
