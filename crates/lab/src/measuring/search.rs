//! The highest rate at which a server's replies come in time: its maximum achievable throughput (MAT;
//! Hashemian et al. 2014, section 3).
//!
//! The search doubles or halves the rate until one rate is served in time and another one is not. Then it
//! tries the rate halfway between the two, as a factor, until they are close to each other. The report has
//! both: the throughput lies between them.
//!
//! A machine with other guests disturbs short probes. A probe that is not valid decides nothing: its rate is
//! tried again.

use anyhow::Result;

use crate::description::load::Threshold;
use crate::record::outcome::{Outcome, Probe};

/// The first rate.
const FIRST: f64 = 1_000.0;

/// The search ends at these.
const LEAST: f64 = 10.0;
const MOST: f64 = 1e6;

/// How close the two are at last, as a factor.
const CLOSE: f64 = 1.03;

/// The part of the calls that may fail where the rest comes in time.
const MAY_FAIL: f64 = 0.01;

/// How often a rate is tried while its probes are not valid.
const TRIES: usize = 3;

/// Searches for the highest rate that is served within `threshold`, by measuring rates with `probe`. Returns
/// the outcome at that rate, with all rates that were tried.
///
/// `cpus_are_shared`: servers and clients run on the same CPUs. A generator without CPU time shows then that
/// the rate is too much. Otherwise it shows that the clients were short, and the rate found is a lower bound.
pub(crate) fn highest(
    threshold: Threshold,
    cpus_are_shared: bool,
    mut probe: impl FnMut(f64) -> Result<Outcome>,
) -> Result<Outcome> {
    let mut probes: Vec<Probe> = Vec::new();
    let (mut served, mut too_much) = (None, None);
    while let Some(rate) = next(rate_of(served.as_ref()), rate_of(too_much.as_ref())) {
        let mut outcome = probe(rate)?;
        for _ in 1..TRIES {
            if outcome.is_valid() || outcome.lacked_cpu_only {
                break;
            }
            outcome = probe(rate)?;
        }
        let ms = (threshold.of.of)(&outcome);
        let in_time = ms < threshold.time.as_secs_f64() * 1e3 && outcome.calls_errors_part <= MAY_FAIL;
        let is_served = in_time && outcome.is_valid() && outcome.is_good() && outcome.replies_per_s > 0.0;
        probes.push(Probe { asked_requests_per_s: rate, found_ms: ms, is_served });
        *(if is_served { &mut served } else { &mut too_much }) = Some((rate, outcome));
    }
    let beyond = too_much.as_ref().map(|(_, outcome)| outcome.invalid.clone()).unwrap_or_default();
    let lacked_cpu = too_much.as_ref().is_some_and(|(_, outcome)| outcome.lacked_cpu_only);
    let mut found = match (served, too_much) {
        (Some((_, outcome)), Some(_)) => outcome,
        (Some((rate, mut outcome)), None) => {
            let why = format!("it serves even {rate:.0} requests/s in time, the highest rate of the search");
            outcome.invalid.push(why);
            outcome
        }
        (None, too_much) => {
            let (rate, mut outcome) = too_much.unwrap_or_default();
            outcome.failed.push(format!("not even {rate:.0} requests/s are served with {threshold}"));
            outcome
        }
    };
    // A generator that did not make the load has not shown that the rate is too much.
    let beyond = beyond.into_iter().map(|reason| format!("at the rate that is too high, {reason}"));
    match (lacked_cpu, cpus_are_shared) {
        (true, true) => {}
        (true, false) => found.clients_were_short.extend(beyond),
        (false, _) => found.invalid.extend(beyond),
    }
    found.probes = probes;
    Ok(found)
}

fn rate_of(tried: Option<&(f64, Outcome)>) -> Option<f64> {
    tried.map(|(rate, _)| *rate)
}

/// The rate to be tried after the highest that was served, and the lowest that was too much.
fn next(served: Option<f64>, too_much: Option<f64>) -> Option<f64> {
    match (served, too_much) {
        (None, None) => Some(FIRST),
        (Some(served), None) => Some(served * 2.0).filter(|rate| *rate <= MOST),
        (None, Some(too_much)) => Some(too_much / 2.0).filter(|rate| *rate >= LEAST),
        (Some(served), Some(too_much)) => (too_much / served > CLOSE).then(|| (served * too_much).sqrt()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::load::Load;
    use crate::tests::outcome;

    /// A server that takes 1 ms up to this rate, and 100 above it.
    fn search(most: f64) -> Outcome {
        let Load::Most(threshold) = "mat: mean < 5ms".parse().unwrap() else { panic!("another load") };
        let probe = |rate: f64| {
            let mut outcome = outcome(rate);
            outcome.calls_errors_part = 0.0;
            outcome.wait_ms.mean = if rate > most { 100.0 } else { 1.0 };
            Ok(outcome)
        };
        highest(threshold, false, probe).unwrap()
    }

    #[test]
    fn the_highest_rate_is_found_from_below_and_from_above() {
        for most in [30.0, 999.0, 1_000.0, 12_345.0, 400_000.0] {
            let outcome = search(most);
            assert!(outcome.replies_per_s <= most && outcome.replies_per_s * CLOSE >= most, "{outcome:?}");
            let of = |is_served| outcome.probes.iter().filter(move |probe| probe.is_served == is_served);
            let served = of(true).map(|probe| probe.asked_requests_per_s).fold(0.0, f64::max);
            let too_much = of(false).map(|probe| probe.asked_requests_per_s).fold(f64::INFINITY, f64::min);
            assert!((served - outcome.replies_per_s).abs() < 1e-6);
            assert!(too_much / served <= CLOSE && too_much > most, "{outcome:?}");
            assert!(outcome.is_valid() && outcome.is_good() && outcome.probes.len() < 20);
        }
    }

    #[test]
    fn a_generator_that_has_no_cpu_for_more_has_found_a_lower_bound() {
        let Load::Most(threshold) = "mat: mean < 5ms".parse().unwrap() else { panic!("another load") };
        let found = |lacked_cpu_only: bool, cpus_are_shared: bool| {
            let probe = |rate: f64| {
                let mut outcome = outcome(rate);
                outcome.calls_errors_part = 0.0;
                if rate > 5_000.0 {
                    outcome.wait_ms.mean = 100.0;
                    outcome.invalid.push("the generator's CPU 1 was full".to_owned());
                    outcome.lacked_cpu_only = lacked_cpu_only;
                }
                Ok(outcome)
            };
            let found = highest(threshold, cpus_are_shared, probe).unwrap();
            (found.is_valid(), found.clients_were_short)
        };
        let reason = "at the rate that is too high, the generator's CPU 1 was full".to_owned();
        assert_eq!(found(true, false), (true, vec![reason]));
        assert_eq!(found(false, false), (false, Vec::new()));
        // Clients on the servers' CPUs are a part of what is full.
        assert_eq!(found(true, true), (true, Vec::new()));
        assert_eq!(found(false, true), (false, Vec::new()));
    }

    #[test]
    fn a_disturbed_probe_decides_nothing() {
        let Load::Most(threshold) = "mat: mean < 5ms".parse().unwrap() else { panic!("another load") };
        // Each rate is disturbed at first: below the most it looks like too much, and above it like too
        // little.
        let mut tried = Vec::new();
        let probe = |rate: f64| {
            let mut outcome = outcome(rate);
            outcome.calls_errors_part = 0.0;
            let is_too_much = rate > 5_000.0;
            let is_disturbed = tried.last() != Some(&rate);
            outcome.wait_ms.mean = if is_too_much == is_disturbed { 1.0 } else { 100.0 };
            outcome.invalid.extend(is_disturbed.then(|| "stolen".to_owned()));
            tried.push(rate);
            Ok(outcome)
        };
        let found = highest(threshold, false, probe).unwrap();
        assert!(found.is_valid() && found.is_good());
        assert!(found.replies_per_s <= 5_000.0 && found.replies_per_s * CLOSE >= 5_000.0, "{found:?}");
    }

    #[test]
    fn what_has_no_end_is_said() {
        assert!(!search(1.0).is_good());
        assert!(!search(f64::INFINITY).is_valid());
    }
}
