//! Whether a run may be compared with others, by the rules of the papers: few enough timeouts, calls of all
//! sizes served alike, and means that are sure enough.
//!
//! A server that answers small files and lets large ones time out looks faster than one that is fair (Pariag
//! et al. 2007, section 3.4; Harji et al. 2012, section 4). So does one that refuses requests explicitly,
//! which is what the paper of 2012 means to find; its clients did not tell that from a timeout. Here, by
//! size, a call counts as *not served* if it was connected and no whole reply came, or a wrong one, or one
//! with a status of 5xx. Calls that were never connected don't count: the server has not seen them, so it
//! can't have chosen among them. What was never answered is of unknown size, all of it together, and held to
//! the rules as any other size.

use super::Joined;
use crate::measures::{CLIENTS, Cohort, Confidence, Measures, OfClass, SizeClass};
use crate::record::Outcome;

/// Part of the calls that the server read that may time out (Harji et al. 2012, as the next three).
const TIMEOUTS: f64 = 0.10;
/// Part of the calls for any one size that may fail.
const FAILURES_OF_A_SIZE: f64 = 0.02;
/// Part of a single client's calls for any one size that may fail: a client is a shard of the sessions, where
/// a size may be unlucky.
const FAILURES_OF_A_SIZE_AT_A_CLIENT: f64 = 0.05;
/// How far the part of any one size may lie above that of all (2% in Pariag et al. 2007).
const UNFAIRNESS: f64 = 0.05;
/// Half the width of the mean reply time's 95% confidence interval, as a part of the mean (Hashemian et al.
/// 2014).
const UNCERTAINTY: f64 = 0.01;

/// One rule and what was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What was looked at.
    pub rule: &'static str,
    /// What was found, as a part of one.
    pub found: f64,
    /// What is allowed.
    pub allowed: f64,
    /// More about it.
    pub remark: String,
}

impl Check {
    /// Whether the rule is kept.
    pub fn holds(&self) -> bool {
        self.found <= self.allowed
    }
}

/// Holds a run against the rules. With the server's log joined, calls that it never read are left out of the
/// first; without it, calls that were not connected are. A rule about nothing is broken.
pub fn check(measures: &Measures, joined: Option<Joined>) -> Vec<Check> {
    let Cohort { outcomes, by_size, .. } = &measures.cohort;
    let mut sizes: Vec<(Option<u64>, OfClass)> =
        by_size.each_size().into_iter().map(|(size, of)| (Some(size), of)).collect();
    sizes.push((None, by_size.of(SizeClass::Unknown)));
    let sum = |of: fn(&OfClass) -> u64| sizes.iter().map(|(_, class)| of(class)).sum::<u64>();
    let (reached, unserved) = (sum(|of| of.reached), sum(|of| of.unserved));

    let (late, read, remark) = if let Some(joined) = joined {
        (joined.too_slow, joined.read, "of what the server read, by its log".to_owned())
    } else {
        let late = outcomes.of(Outcome::TlsTimeout) + outcomes.of(Outcome::ReplyTimeout);
        (late, reached, "of what was connected; no server's log".to_owned())
    };
    let mean = part(unserved, reached);
    let worst = sizes
        .iter()
        .filter(|(_, of)| of.reached > 0)
        .map(|(size, of)| (*size, part(of.unserved, of.reached)))
        .max_by(|(_, a), (_, b)| a.total_cmp(b));
    let (size, worst) =
        worst.map_or(("nothing was connected".to_owned(), mean), |(size, part)| (named(size), part));
    let mut checks = vec![
        Check { rule: "timeouts", found: part(late, read), allowed: TIMEOUTS, remark },
        Check {
            rule: "failures of a size",
            found: worst,
            allowed: FAILURES_OF_A_SIZE,
            remark: format!("the worst: {size}"),
        },
        of_clients(measures),
        Check {
            rule: "unfairness",
            found: (worst - mean).max(0.0),
            allowed: UNFAIRNESS,
            remark: format!("{size}, against {:.2}% of all", mean * 100.0),
        },
    ];
    checks.extend(of_the_mean(measures));
    checks
}

/// Of nothing, everything: what nobody saw is no success.
fn part(of: u64, all: u64) -> f64 {
    if all == 0 { 1.0 } else { of as f64 / all as f64 }
}

fn named(size: Option<u64>) -> String {
    size.map_or_else(|| "what was never answered, of unknown size".to_owned(), |size| format!("{size} bytes"))
}

/// Nothing can be told of a run with replies in few seconds only.
fn of_the_mean(measures: &Measures) -> Option<Check> {
    let Confidence { mean_ms, error_ms } = measures.flow.seconds.confidence()?;
    Some(Check {
        rule: "uncertainty of the mean",
        found: error_ms / mean_ms,
        allowed: UNCERTAINTY,
        remark: format!("{mean_ms:.3} ms +- {error_ms:.3} ms with 95% confidence"),
    })
}

/// The fewest calls of a client for a size of which a part can be told.
const LEAST_CALLS: u64 = 20;

fn of_clients(measures: &Measures) -> Check {
    let Cohort { by_size, by_client, .. } = &measures.cohort;
    let (found, remark) = match by_client.worst(by_size, LEAST_CALLS) {
        Some((size, client, tally)) => {
            let remark = format!(
                "the worst of {CLIENTS} is client {client}: {} of {} calls for {}",
                tally.unserved,
                tally.reached,
                named(size)
            );
            (tally.part(), remark)
        }
        None => (0.0, format!("none of {CLIENTS} has made {LEAST_CALLS} calls for any one size")),
    };
    Check { rule: "failures of a size at a client", found, allowed: FAILURES_OF_A_SIZE_AT_A_CLIENT, remark }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::{Recorder, Scope};
    use crate::record::Call;
    use crate::report::tests::call;

    fn found(calls: &[(u32, u64, Outcome, u32)], joined: Option<Joined>) -> Vec<(f64, bool)> {
        let mut recorder = Recorder::new(Scope { window: 0..u64::MAX, requests: 10 }, None);
        for &(request, body_bytes, outcome, count) in calls {
            for _ in 0..count {
                recorder.call(&Call { request, body_bytes, ..call(outcome, 0, 1_000_000) });
            }
        }
        let checks = check(&Measures::merge(vec![recorder]), joined);
        checks.iter().map(|check| ((check.found * 1000.0).round() / 1000.0, check.holds())).collect()
    }

    #[test]
    fn a_fair_run_passes() {
        let calls = [
            (0, 1000, Outcome::Reply, 99),
            (0, 0, Outcome::ReplyTimeout, 1),
            (1, 9000, Outcome::Reply, 99),
            (1, 0, Outcome::ReplyTimeout, 1),
        ];
        assert_eq!(found(&calls, None), [(0.01, true), (0.01, true), (0.01, true), (0.0, true)]);
    }

    #[test]
    fn a_mean_is_uncertain_while_it_moves() {
        let mut recorder = Recorder::new(Scope { window: 0..u64::MAX, requests: 1 }, None);
        for second in 0..30 {
            recorder.call(&call(
                Outcome::Reply,
                second * 1_000_000_000,
                second * 1_000_000_000 + 1_000_000 + second,
            ));
        }
        let steady = |recorder| {
            let checks = check(&Measures::merge(vec![recorder]), None);
            checks.iter().find(|check| check.rule == "uncertainty of the mean").map(Check::holds)
        };
        let few = Recorder::new(Scope { window: 0..u64::MAX, requests: 1 }, None);
        assert_eq!((steady(recorder), steady(few)), (Some(true), None));
    }

    #[test]
    fn large_files_that_starve_are_found() {
        let calls =
            [(0, 1000, Outcome::Reply, 90), (1, 9000, Outcome::Reply, 5), (1, 0, Outcome::ReplyTimeout, 5)];
        assert_eq!(found(&calls, None)[..4], [(0.05, true), (0.5, false), (0.0, true), (0.45, false)]);
    }

    #[test]
    fn what_was_never_read_does_not_count() {
        let calls = [(0, 1000, Outcome::Reply, 50), (0, 0, Outcome::ReplyTimeout, 50)];
        assert_eq!(found(&calls, None)[0], (0.5, false));
        let joined = Joined { issued: 100, read: 50, never_read: 50, ..Joined::default() };
        assert_eq!(found(&calls, Some(joined))[0], (0.0, true));
        let unconnected = [(0, 1000, Outcome::Reply, 50), (0, 0, Outcome::ConnectTimeout, 50)];
        assert_eq!(found(&unconnected, None)[0], (0.0, true));
    }

    #[test]
    fn sizes_that_nobody_ever_saw_are_found() {
        for never in
            [Outcome::ReplyTimeout, Outcome::Reset, Outcome::Closed, Outcome::CutShort, Outcome::Malformed]
        {
            let calls = [(0, 1000, Outcome::Reply, 981), (1, 0, never, 15), (2, 0, never, 4)];
            let late = if never == Outcome::ReplyTimeout { 0.019 } else { 0.0 };
            let expected = [(late, true), (1.0, false), (0.0, true), (0.981, false)];
            assert_eq!(found(&calls, None)[..4], expected, "{never:?}");
        }
        // The client of session 0 made enough calls to tell.
        let calls = [(0, 1000, Outcome::Reply, 975), (1, 0, Outcome::ReplyTimeout, 25)];
        assert_eq!(found(&calls, None)[2], (1.0, false));
    }

    #[test]
    fn a_refusal_in_words_is_one() {
        let mut recorder = Recorder::new(Scope { window: 0..u64::MAX, requests: 2 }, None);
        for number in 0..100 {
            let status = if number % 10 == 0 { 503 } else { 200 };
            let request = u32::from(status == 503);
            recorder.call(&Call { request, status, ..call(Outcome::Reply, 0, 1_000_000) });
        }
        let checks = check(&Measures::merge(vec![recorder]), None);
        let worst = checks.iter().find(|check| check.rule == "failures of a size").unwrap();
        assert!(!worst.holds() && worst.remark.contains("unknown size"), "{worst:?}");
    }

    #[test]
    fn what_was_never_connected_is_nobodys_choice() {
        for outcome in [Outcome::ConnectTimeout, Outcome::Refused, Outcome::Unreachable] {
            let calls = [(0, 1000, Outcome::Reply, 50), (1, 0, outcome, 50), (0, 0, Outcome::Abandoned, 9)];
            assert!(found(&calls, None).iter().all(|(_, holds)| *holds), "{outcome:?}");
            // But nothing at all is no success.
            let [timeouts, size, ..] = found(&[(0, 0, outcome, 50)], None)[..] else { panic!("no rules") };
            assert_eq!((timeouts, size), ((1.0, false), (1.0, false)), "{outcome:?}");
        }
    }
}
