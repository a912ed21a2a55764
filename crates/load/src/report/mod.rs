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
pub use results::load::{AskedOfClass, AskedOfTls, Facts, Joined, Outcome as RunOutcome};
pub use table::render as table;
pub use thresholds::{Misunderstood, Threshold, judge};
pub use validity::{MAY_WAIT, reasons_against, remarks_on, short_of_cpu};

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use workload::session::{Builder, Request};

    use super::{AskedOfTls, Facts, Joined, RunOutcome};
    pub(super) use crate::measures::tests::call;
    use crate::measures::{Handshakes, Kinds, Measures, Recorder, Scope};
    use crate::record::{
        Agreed, ConnectionEnd, Established, Handshake, HandshakeKind, Outcome, SessionEnd, SessionOutcome,
    };

    /// Handshakes of four connections, and what was asked of them.
    pub(super) fn tls() -> (Handshakes, Option<AskedOfTls>) {
        const MS: u64 = 1_000_000;
        const NEW: Agreed =
            Agreed { version: "1.3", cipher: "TLS_AES_128_GCM_SHA256", group: Some("x25519") };
        const OLD: Agreed =
            Agreed { version: "1.2", cipher: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", group: None };
        let done = |ms, kind, agreed| Handshake::Done(Established { at: ms * MS, kind, agreed });
        let mut recorder = Recorder::new(Scope { window: 0..MS, requests: 1 }, None);
        for handshake in [
            done(2, HandshakeKind::Full, NEW),
            done(4, HandshakeKind::FullAfterRetry, NEW),
            done(1, HandshakeKind::Resumed, OLD),
            Handshake::Failed,
        ] {
            recorder.connection(&ConnectionEnd {
                started: 0,
                connected: Some(0),
                handshake: Some(handshake),
                ended: 5 * MS,
                replies: 0,
                lost: false,
            });
        }
        recorder.tls_error(0, "the server sent the alert unknown_ca");
        let asked = AskedOfTls {
            roots: "file".into(),
            resumption: true,
            version: Some("1.3".into()),
            group: Some("x25519".into()),
            cipher: Some("TLS_AES_128_GCM_SHA256".into()),
        };
        (Measures::merge(vec![recorder]).handshakes, Some(asked))
    }

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
            recorder.connection(&ConnectionEnd {
                started: began,
                connected,
                handshake: None,
                ended,
                replies,
                lost: false,
            });
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
            tls: None,
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
