//! Why a run is no measurement of a server, whatever its figures: nobody was answered, or not with what was
//! asked for.
//!
//! An overloaded server may fail many calls, and how many is a result. That none of them was answered is
//! none.

use std::path::Path;

use super::Facts;
use super::validity::nothing_measured;
use crate::measures::{Measures, Outcomes, Verified};
use crate::record::Outcome;

/// In sentences; empty if the run is one.
pub fn failures(measures: &Measures, facts: &Facts) -> Vec<String> {
    let mut reasons = Vec::new();
    let handshakes = measures.flow.handshakes.all();
    let Verified { compared, wrong } = measures.verified;
    if wrong > 0 {
        reasons.push(format!("{wrong} of {compared} replies that were compared differ from their files"));
    } else if nothing_measured(measures, facts).is_some() {
        return reasons;
    } else if nobody_answered(measures) {
        reasons.push(match measures.cohort.issued {
            0 if handshakes > 0 => {
                let cause = main_cause(&measures.flow.handshakes, measures, &facts.targets);
                format!("none of {handshakes} handshakes was completed{cause}")
            }
            0 => "no call was made in the measured time".to_owned(),
            issued => {
                let cause = main_cause(&measures.cohort.outcomes, measures, &facts.targets);
                format!("none of {issued} calls was answered{cause}")
            }
        });
    }
    if facts.verified && compared == 0 {
        reasons.push("no reply was compared with its file: only whole replies of status 200 are".to_owned());
    }
    reasons
}

/// What most of the calls or handshakes came to that failed.
fn main_cause(outcomes: &Outcomes, Measures { handshakes, .. }: &Measures, targets: &[String]) -> String {
    let causes = Outcome::ALL.into_iter().filter(|outcome| outcome.is_error());
    let causes = causes.map(|outcome| (outcomes.of(outcome), outcome));
    match causes.max_by_key(|(count, _)| *count) {
        Some((count, outcome)) if count > 0 => {
            let times = if count == 1 { "time" } else { "times" };
            // The record takes a Unix socket that is not there for one that refuses.
            let sockets = targets.iter().filter_map(|target| target.strip_prefix("unix:"));
            let absent =
                sockets.map(Path::new).find(|socket| outcome == Outcome::Refused && !socket.exists());
            let reasons = handshakes.reasons();
            let reason = reasons.first().filter(|_| outcome == Outcome::TlsError);
            let told = match (absent, reason) {
                (Some(socket), _) => format!("there is no socket {}", socket.display()),
                (None, Some((reason, _))) => format!("{}: {reason}", outcome.told()),
                (None, None) => outcome.told().to_owned(),
            };
            format!(": {told} ({}), {count} {times}", outcome.name())
        }
        _ => String::new(),
    }
}

/// What to say of a run whose replies all have a status other than 2xx: with them a server may look fast.
pub fn without_success(measures: &Measures, facts: &Facts) -> Option<String> {
    let [_, good, ..] = measures.flow.statuses;
    if good > 0 || measures.flow.replies() == 0 || nothing_measured(measures, facts).is_some() {
        return None;
    }
    let classes = measures.flow.statuses.iter().zip(1..).filter(|(count, _)| **count > 0);
    let classes: Vec<String> = classes.map(|(count, class)| format!("{count} of {class}xx")).collect();
    Some(format!("no reply has a status of 2xx: {}", classes.join(", ")))
}

/// What to say of a run some of whose replies have a status other than 2xx, if no threshold is on statuses.
pub fn some_without_success(measures: &Measures) -> Option<String> {
    let [_, good, ..] = measures.flow.statuses;
    let others = measures.flow.replies() - good;
    (others > 0).then(|| {
        format!(
            "{others} replies have a status other than 2xx, and no threshold is on statuses: add --fail-if \
             'non-2xx > 0'"
        )
    })
}

/// Whether calls were over, and none of them with a reply, nor any handshake of clients that only want these.
/// Calls that the end of the run cut off may still have been answered.
fn nobody_answered(Measures { cohort, flow, .. }: &Measures) -> bool {
    let cut_off = cohort.outcomes.of(Outcome::Unfinished);
    let all_cut_off = cut_off > 0 && cut_off == cohort.issued;
    let is_established = flow.handshakes.of(Outcome::Handshake) > 0;
    cohort.outcomes.of(Outcome::Reply) == 0 && flow.replies() == 0 && !all_cut_off && !is_established
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::{Recorder, Scope};
    use crate::report::tests::{call, sample};

    #[test]
    fn a_run_without_an_answer_has_a_cause() {
        let (_, facts) = sample();
        let told_of = |outcomes: &[Outcome], facts: &Facts| {
            let mut recorder = Recorder::new(Scope { window: 0..10_000_000, requests: 1 }, None);
            recorder.tls_error(0, "the server sent the alert unknown_ca");
            for outcome in outcomes {
                recorder.call(&call(*outcome, 0, 1_000_000));
            }
            failures(&Measures::merge(vec![recorder]), facts).concat()
        };
        let mut absent = facts.clone();
        absent.targets = vec!["unix:/nonexistent/x".to_owned()];
        assert_eq!(
            told_of(&[Outcome::Refused], &absent),
            "none of 1 calls was answered: there is no socket /nonexistent/x (refused), 1 time"
        );
        let told = |outcomes: &[Outcome]| told_of(outcomes, &facts);
        assert_eq!(
            told(&[Outcome::Refused]),
            "none of 1 calls was answered: connection refused (refused), 1 time"
        );
        assert_eq!(
            told(&[Outcome::Reset, Outcome::ReplyTimeout, Outcome::ReplyTimeout, Outcome::Abandoned]),
            "none of 4 calls was answered: no whole reply in time (reply_timeout), 2 times"
        );
        assert_eq!(
            told(&[Outcome::TlsError]),
            "none of 1 calls was answered: TLS failed: the server sent the alert unknown_ca (tls_error), \
             1 time"
        );
        assert_eq!(told(&[Outcome::Reply, Outcome::Refused]), "");
        assert_eq!(told(&[]), "no call was made in the measured time");
    }

    #[test]
    fn a_run_without_a_2xx_is_told() {
        let (mut measures, facts) = sample();
        assert_eq!(without_success(&measures, &facts), None);
        measures.flow.statuses = [0, 0, 0, 7, 3];
        assert_eq!(
            without_success(&measures, &facts).as_deref(),
            Some("no reply has a status of 2xx: 7 of 4xx, 3 of 5xx")
        );
        measures.flow.statuses = [0, 1, 0, 7, 3];
        assert_eq!(without_success(&measures, &facts), None);
        measures.flow.statuses = [0; 5];
        assert_eq!(without_success(&measures, &facts), None);
    }
}
