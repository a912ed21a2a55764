//! What a run came to, for people and programs: functions of its [measures](crate::measures) and its
//! [facts](Facts).

mod answer;
mod chart;
mod csv;
mod facts;
mod failures;
mod httperf;
mod joining;
mod json;
mod queues;
mod table;
mod thresholds;
mod validity;
pub mod verification;

pub use chart::Bars;
pub use csv::render as csv;
pub use failures::{failures, some_without_success, without_success};
pub use httperf::render as httperf;
pub use joining::ServerLog;
pub use json::{json, results};
pub use queues::Queues;
pub use results::load::{AskedOfClass, Facts, Joined, Outcome as RunOutcome};
pub use table::render as table;
pub use thresholds::{Misunderstood, Threshold, judge};
pub use validity::{MAY_WAIT, reasons_against, remarks_on, short_of_cpu};

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use workload::session::{Builder, Request};

    use super::{Facts, Joined, RunOutcome};
    pub(super) use crate::measures::tests::call;
    use crate::measures::{Kinds, Measures, Recorder, Scope};
    use crate::record::{ConnectionEnd, Outcome, SessionEnd, SessionOutcome};

    /// Ten seconds of ten sessions of one call each, every tenth of which times out.
    pub(super) fn sample() -> (Measures, Facts) {
        const MS: u64 = 1_000_000;
        let mut log = Builder::new();
        log.call(Request::default());
        let kinds = Arc::new(Kinds::of(&log.finish()));
        let scope = Scope { window: 0..10_000 * MS, requests: 1 };
        let mut recorder = Recorder::new(scope, None).with_kinds(&kinds).with_classes(1);
        for number in 0..100 {
            let began = number * 100 * MS;
            let failed = number % 10 == 9;
            let (outcome, session) = if failed {
                (Outcome::ReplyTimeout, SessionOutcome::Failed)
            } else {
                (Outcome::Reply, SessionOutcome::Completed)
            };
            let ended = began + MS;
            let replies = u32::from(!failed);
            recorder.call(&call(outcome, began, ended));
            let connected = Some(began);
            recorder.connection(&ConnectionEnd { started: began, connected, ended, replies, lost: false });
            let (intended, started) = (began, began);
            recorder.session(&SessionEnd {
                intended,
                started,
                ended,
                replies,
                connections: 1,
                outcome: session,
            });
        }
        let mut measures = Measures::merge(vec![recorder]);
        measures.most_open = 7;
        let facts = Facts {
            version: "1.2.3".into(),
            command: vec!["sluicelab".into(), "load".into()],
            began_unix_s: 1_800_000_000,
            targets: vec!["http://127.0.0.1:80".into()],
            model: "sessions".into(),
            unit: "sessions".into(),
            requests: None,
            arrivals: Some("exponential".into()),
            asked_sessions_per_s: Some(10.0),
            asked_requests_per_s: Some(10.0),
            connections: None,
            classes: Vec::new(),
            seed: Some(1),
            log_sessions: 1,
            log_requests: 1,
            warm_up_s: 0.0,
            connect_timeout_s: 10.0,
            reply_timeout_s: 10.0,
            verified: false,
            cpus: vec![1],
            realtime: false,
            may_wait: 0.05,
            machine: machine::Machine::this().describe(),
            outcome: RunOutcome {
                duration_s: 10.0,
                drain_s: 0.0,
                interrupted: false,
                due_sessions: Some(100),
                cpu_s: vec![(1.0, 1.0)],
                stolen_s: 0.0,
                server_log: Some(Joined::default()),
                queue_drops: Some(super::queues::tests::sample()),
            },
        };
        (measures, facts)
    }
}
