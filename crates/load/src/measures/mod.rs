//! What a run measures: counts, sums, and histograms of times, taken in as calls, connections and sessions end.
//!
//! Each thread owns a [`Recorder`], into which nothing is allocated while the run goes on; [`Measures::merge`] makes one of
//! all. Only what was *issued* after the warm-up and ended before the end of the run counts. Two times are kept of each
//! reply: from when its call was *issued*, and *corrected*, from when it should have been. Only a session's first call can
//! be late: those after it depend on a reply, so they have no time of their own at which they should have been issued
//! (`HdrHistogram`'s issue 148 has the argument).

mod calls;
mod clients;
mod kinds;
mod live;
mod pressure;
mod rates;
mod seconds;
mod sizes;
mod times;

use std::sync::Arc;

use pressure::Account;

use crate::record::{Call, ConnectionEnd, Nanos, Outcome, SessionEnd, SessionOutcome};
pub use calls::{CallLog, CallWriter};
pub use clients::{ByClient, CLIENTS, Tally};
pub use kinds::{ByKind, Kind, Kinds, OfKind};
pub use live::{Live, Snapshot};
pub use pressure::Pressure;
pub use rates::{Rates, SAMPLE};
pub use seconds::{Confidence, Second, Seconds};
pub use sizes::{BySize, OfClass, SizeClass};
pub use times::{Interval, Moments, Times};

/// What a recorder has to know beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Calls, connections and sessions that began before this are left out.
    pub warm_up: Nanos,
    /// Different requests of the log.
    pub requests: usize,
    /// Keep a histogram for each second.
    pub intervals: bool,
}

/// One thread's measures.
#[derive(Debug)]
pub struct Recorder {
    scope: Scope,
    measures: Measures,
    calls: Option<CallLog>,
    interval: Option<Times>,
    interval_began: Nanos,
    /// Replies and bytes so far, for those who watch.
    shown: Shown,
    live: Arc<Live>,
    /// This thread's account at the last whole second.
    account: Option<Account>,
    next_second: Nanos,
}

/// Counts that are shown while a run goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Whole replies.
    pub replies: u64,
    /// Bytes of replies, heads included.
    pub bytes: u64,
    /// Calls that failed.
    pub errors: u64,
}

/// What was measured, of one thread or of all.
#[derive(Clone, Debug)]
pub struct Measures {
    /// Connections that were tried.
    pub connections: u64,
    /// The most sessions at a time.
    pub most_open: u64,
    /// Connections that came up.
    pub connected: u64,
    /// Connections with at least one reply, from the first packet to the end, in milliseconds.
    pub connection_time_ms: Moments,
    /// The same as a histogram.
    pub connection_times: Times,
    /// From the first packet to when it was up.
    pub connect_times: Times,
    /// Replies of connections with at least one reply.
    pub replies_of_connections: u64,

    /// Calls that were issued.
    pub issued: u64,
    /// Calls whose request was sent whole.
    pub requests: u64,
    /// Bytes of those requests.
    pub request_bytes: u64,
    /// Calls by outcome.
    pub outcomes: Outcomes,
    /// Bytes of heads and of bodies of whole replies.
    pub head_bytes: u64,
    /// See above.
    pub body_bytes: u64,
    /// Whole replies by the first digit of their status, from 1xx.
    pub statuses: [u64; 5],
    /// Whole replies in each five seconds of the run.
    pub reply_rates: Rates,

    /// Whole replies, from issue to the last byte.
    pub reply_times: Times,
    /// The same, from the intended start.
    pub corrected_times: Times,
    /// Calls to which a reply began, from the first byte sent to the first byte received: httperf's `response`.
    pub response_times: Times,
    /// Whole replies, from the first byte received to the last: httperf's `transfer`.
    pub transfer_times: Times,
    /// Timeouts, from issue to when the client gave up.
    pub timeout_times: Times,
    /// What happened in each second of the run, the warm-up left out.
    pub seconds: Seconds,
    /// Calls, replies and times by the size of what was asked for.
    pub by_size: BySize,
    /// The same by size and client.
    pub by_client: ByClient,
    /// The same by method, and static or dynamic.
    pub by_kind: ByKind,

    /// Sessions that arrived.
    pub sessions: u64,
    /// Sessions whose calls were all answered.
    pub completed: u64,
    /// Sessions with a call that failed.
    pub failed: u64,
    /// Sessions that the end of the run cut off.
    pub unfinished: u64,
    /// Completed sessions in each five seconds.
    pub session_rates: Rates,
    /// Completed sessions, from arrival to the end, in seconds.
    pub lifetime_s: Moments,
    /// Failed sessions, from arrival to the failure, in seconds.
    pub failtime_s: Moments,
    /// Connections of completed sessions.
    pub connections_of_sessions: u64,
    /// How many sessions that have ended got so many replies; the last place counts those with more.
    pub session_lengths: Vec<u64>,
    /// How late sessions arrived: the generator's own fault.
    pub lateness: Times,
    /// The most sessions that one thread had arrive at once, because they were overdue: httperf's burst length.
    pub longest_burst: u64,
    /// Whether threads had the CPU time that they wanted.
    pub pressure: Pressure,
    /// Histograms of corrected times, for each second and thread.
    pub intervals: Vec<Interval>,
}

/// Session lengths that are told apart.
const LONGEST_SESSION: usize = 1024;

/// Calls by what came of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes([u64; Outcome::ALL.len()]);

impl Outcomes {
    /// How many calls had that outcome.
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.0[outcome as usize]
    }

    /// Calls that failed, whatever way. Those that the end of the run cut off have not, and those that went down with
    /// another call are counted as that one.
    pub fn errors(&self) -> u64 {
        Outcome::ALL.into_iter().filter(|outcome| outcome.is_error()).map(|outcome| self.of(outcome)).sum()
    }

    fn add(&mut self, outcome: Outcome) {
        self.0[outcome as usize] += 1;
    }
}

impl Recorder {
    /// Nothing measured yet. `calls` gets every call of the run, those of the warm-up as well.
    pub fn new(scope: Scope, calls: Option<CallLog>) -> Self {
        Self {
            scope,
            measures: Measures::new(scope.warm_up, scope.requests),
            calls,
            interval: scope.intervals.then(Times::new),
            interval_began: 0,
            shown: Shown::default(),
            live: Arc::default(),
            account: None,
            next_second: scope.warm_up,
        }
    }

    /// Tells calls of different kinds apart.
    #[must_use]
    pub fn with_kinds(mut self, kinds: &Arc<Kinds>) -> Self {
        self.measures.by_kind = ByKind::new(Arc::clone(kinds));
        self
    }

    /// Reply times so far, for those who watch from other threads.
    pub fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live)
    }

    /// Whether calls should say which port they came from.
    pub fn wants_ports(&self) -> bool {
        self.calls.is_some()
    }

    /// Takes in a call that is over.
    pub fn call(&mut self, call: &Call) {
        if let Some(calls) = &mut self.calls {
            calls.take(call);
        }
        self.shown.errors += u64::from(call.outcome.is_error());
        if call.outcome == Outcome::Reply {
            self.shown.replies += 1;
            self.live.record(call.ended.saturating_sub(call.issued));
            self.shown.bytes += u64::from(call.head_bytes) + call.body_bytes;
            if let Some(interval) = &mut self.interval {
                interval.record(call.ended - call.intended.min(call.ended));
            }
        }
        if call.issued >= self.scope.warm_up {
            self.measures.call(call);
        }
    }

    /// Takes in a connection that is over.
    pub fn connection(&mut self, connection: &ConnectionEnd) {
        if connection.started >= self.scope.warm_up {
            self.measures.connection(connection);
        }
    }

    /// Takes in a session that is over.
    pub fn session(&mut self, session: &SessionEnd) {
        if session.intended >= self.scope.warm_up {
            self.measures.session(session);
        }
    }

    /// Takes notice of so many sessions that arrived one right after the other.
    pub fn arrivals(&mut self, at_once: u64) {
        self.measures.longest_burst = self.measures.longest_burst.max(at_once);
    }

    /// Told about ten times a second what time it is.
    pub fn tick(&mut self, now: Nanos) {
        const SECOND: Nanos = 1_000_000_000;
        if now >= self.next_second {
            self.next_second = now + SECOND;
            let account = Account::of_this_thread(now);
            if let (Some(before), Some(account)) = (self.account, account) {
                self.measures.pressure.add(before, account);
            }
            self.account = account;
        }
        if let Some(calls) = &mut self.calls {
            calls.tick();
        }
        if let Some(times) = &mut self.interval
            && now / SECOND > self.interval_began / SECOND
        {
            // Once a second, not for each call: here it may allocate.
            let times = std::mem::take(times);
            self.measures.intervals.push(Interval { began: self.interval_began, ended: now, times });
            self.interval_began = now;
        }
    }

    /// Counts so far.
    pub fn shown(&self) -> Shown {
        self.shown
    }
}

impl Measures {
    fn new(warm_up: Nanos, requests: usize) -> Self {
        Self {
            connections: 0,
            most_open: 0,
            connected: 0,
            connection_time_ms: Moments::default(),
            connection_times: Times::new(),
            connect_times: Times::new(),
            replies_of_connections: 0,
            issued: 0,
            requests: 0,
            request_bytes: 0,
            outcomes: Outcomes::default(),
            head_bytes: 0,
            body_bytes: 0,
            statuses: [0; 5],
            reply_rates: Rates::new(warm_up),
            reply_times: Times::new(),
            corrected_times: Times::new(),
            response_times: Times::new(),
            transfer_times: Times::new(),
            timeout_times: Times::new(),
            seconds: Seconds::new(),
            by_size: BySize::new(requests),
            by_client: ByClient::new(requests),
            by_kind: ByKind::default(),
            sessions: 0,
            completed: 0,
            failed: 0,
            unfinished: 0,
            session_rates: Rates::new(warm_up),
            lifetime_s: Moments::default(),
            failtime_s: Moments::default(),
            connections_of_sessions: 0,
            session_lengths: vec![0; LONGEST_SESSION + 1],
            lateness: Times::new(),
            longest_burst: 0,
            pressure: Pressure::default(),
            intervals: Vec::new(),
        }
    }

    /// Makes one of all threads' measures. Files of calls are written to their end.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn merge(recorders: Vec<Recorder>) -> Self {
        let mut all = recorders.into_iter().map(|mut recorder| {
            if let Some(times) = recorder.interval.take() {
                let began = recorder.interval_began;
                recorder.measures.intervals.push(Interval { began, ended: began, times });
            }
            // What is left of its calls goes out as the log is dropped.
            recorder.calls = None;
            recorder.measures
        });
        let mut merged = all.next().expect("a run has at least one thread");
        all.for_each(|other| merged.take_in(&other));
        merged.intervals.sort_by_key(|interval| interval.began);
        merged
    }

    /// Bytes sent and received by calls that were answered: httperf's net I/O.
    pub fn bytes(&self) -> u64 {
        self.request_bytes + self.head_bytes + self.body_bytes
    }

    /// Whole replies.
    pub fn replies(&self) -> u64 {
        self.statuses.iter().sum()
    }

    /// Calls that the client gave up, while connecting or while waiting for the reply.
    pub fn timeouts(&self) -> u64 {
        self.outcomes.of(Outcome::ConnectTimeout) + self.outcomes.of(Outcome::ReplyTimeout)
    }

    fn call(&mut self, call: &Call) {
        self.issued += 1;
        self.outcomes.add(call.outcome);
        if call.sent.is_some() {
            self.requests += 1;
            self.request_bytes += u64::from(call.request_bytes);
        }
        if let (Some(sent), Some(first)) = (call.send_started, call.first_byte) {
            self.response_times.record(first.saturating_sub(sent));
        }
        let since = |from: Nanos| call.ended.saturating_sub(from);
        match call.outcome {
            Outcome::Reply | Outcome::WrongBytes | Outcome::WrongLength if call.status > 0 => {
                self.head_bytes += u64::from(call.head_bytes);
                self.body_bytes += call.body_bytes;
                if let Some(class) = self.statuses.get_mut(usize::from(call.status / 100).wrapping_sub(1)) {
                    *class += 1;
                }
                self.reply_rates.add(call.ended);
                self.reply_times.record(since(call.issued));
                self.corrected_times.record(since(call.intended));
                if let Some(first) = call.first_byte {
                    self.transfer_times.record(since(first));
                }
            }
            Outcome::ConnectTimeout | Outcome::ReplyTimeout => self.timeout_times.record(since(call.issued)),
            _ => {}
        }
        self.seconds.call(call);
        self.by_size.take(call);
        self.by_client.take(call);
        self.by_kind.take(call);
    }

    fn connection(&mut self, connection: &ConnectionEnd) {
        self.connections += 1;
        if let Some(connected) = connection.connected {
            self.connected += 1;
            self.connect_times.record(connected - connection.started);
        }
        if connection.replies > 0 {
            let time = connection.ended.saturating_sub(connection.started);
            self.connection_time_ms.add(time as f64 / 1e6);
            self.connection_times.record(time);
            self.replies_of_connections += u64::from(connection.replies);
        }
    }

    fn session(&mut self, session: &SessionEnd) {
        self.sessions += 1;
        self.seconds.session(session);
        self.lateness.record(session.started.saturating_sub(session.intended));
        let seconds = session.ended.saturating_sub(session.started) as f64 / 1e9;
        match session.outcome {
            SessionOutcome::Completed => {
                self.completed += 1;
                self.connections_of_sessions += u64::from(session.connections);
                self.lifetime_s.add(seconds);
                self.session_rates.add(session.ended);
            }
            SessionOutcome::Failed => {
                self.failed += 1;
                self.failtime_s.add(seconds);
            }
            SessionOutcome::Unfinished => {
                self.unfinished += 1;
                return;
            }
        }
        self.session_lengths[(session.replies as usize).min(LONGEST_SESSION)] += 1;
    }

    fn take_in(&mut self, other: &Self) {
        self.connections += other.connections;
        self.connected += other.connected;
        self.connection_time_ms.take_in(&other.connection_time_ms);
        self.replies_of_connections += other.replies_of_connections;
        self.issued += other.issued;
        self.requests += other.requests;
        self.request_bytes += other.request_bytes;
        self.head_bytes += other.head_bytes;
        self.body_bytes += other.body_bytes;
        self.sessions += other.sessions;
        self.pressure.take_in(&other.pressure);
        self.longest_burst = self.longest_burst.max(other.longest_burst);
        self.completed += other.completed;
        self.failed += other.failed;
        self.unfinished += other.unfinished;
        self.lifetime_s.take_in(&other.lifetime_s);
        self.failtime_s.take_in(&other.failtime_s);
        self.connections_of_sessions += other.connections_of_sessions;
        add_all(&mut self.outcomes.0, &other.outcomes.0);
        add_all(&mut self.statuses, &other.statuses);
        add_all(&mut self.session_lengths, &other.session_lengths);
        self.reply_rates.take_in(&other.reply_rates);
        self.session_rates.take_in(&other.session_rates);
        self.seconds.take_in(&other.seconds);
        self.by_size.take_in(&other.by_size);
        self.by_client.take_in(&other.by_client);
        self.by_kind.take_in(&other.by_kind);
        let times = [
            (&mut self.connection_times, &other.connection_times),
            (&mut self.connect_times, &other.connect_times),
            (&mut self.reply_times, &other.reply_times),
            (&mut self.corrected_times, &other.corrected_times),
            (&mut self.response_times, &other.response_times),
            (&mut self.transfer_times, &other.transfer_times),
            (&mut self.timeout_times, &other.timeout_times),
            (&mut self.lateness, &other.lateness),
        ];
        for (mine, theirs) in times {
            mine.take_in(theirs);
        }
        self.intervals.extend_from_slice(&other.intervals);
    }
}

fn add_all(mine: &mut [u64], theirs: &[u64]) {
    mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use workload::session::{Builder, Request};

    use super::*;

    const MS: Nanos = 1_000_000;
    const SCOPE: Scope = Scope { warm_up: 0, requests: 3, intervals: false };

    pub(crate) fn call(outcome: Outcome, issued: Nanos, ended: Nanos) -> Call {
        let sent = (issued + MS / 10).min(ended);
        let answered = outcome == Outcome::Reply;
        Call {
            request: 0,
            session: 0,
            position: 0,
            connection: 0,
            client_port: 0,
            intended: issued.saturating_sub(MS),
            issued,
            connected: None,
            send_started: Some(sent),
            sent: Some(sent),
            first_byte: answered.then_some(sent + (ended - sent) / 2),
            ended,
            status: if answered { 200 } else { 0 },
            request_bytes: 60,
            head_bytes: if answered { 200 } else { 0 },
            body_bytes: if answered { 1000 } else { 0 },
            outcome,
        }
    }

    #[test]
    fn a_reply_is_measured_from_its_issue_and_from_its_intended_start() {
        let mut recorder = Recorder::new(SCOPE, None);
        recorder.call(&call(Outcome::Reply, 10 * MS, 12 * MS + MS / 10));
        let measures = Measures::merge(vec![recorder]);
        let ms = |times: &Times| times.mean_ms();
        assert!((ms(&measures.reply_times) - 2.1).abs() < 0.005, "{}", ms(&measures.reply_times));
        assert!((ms(&measures.corrected_times) - 3.1).abs() < 0.005);
        assert!((ms(&measures.response_times) - 1.0).abs() < 0.005);
        assert!((ms(&measures.transfer_times) - 1.0).abs() < 0.005);
        assert_eq!((measures.replies(), measures.requests, measures.bytes()), (1, 1, 1260));
    }

    #[test]
    fn the_warm_up_is_left_out() {
        let mut recorder = Recorder::new(Scope { warm_up: 10 * MS, ..SCOPE }, None);
        recorder.call(&call(Outcome::Reply, 9 * MS, 30 * MS));
        recorder.call(&call(Outcome::ReplyTimeout, 10 * MS, 30 * MS));
        assert_eq!(recorder.shown(), Shown { replies: 1, bytes: 1200, errors: 1 });
        let measures = Measures::merge(vec![recorder]);
        assert_eq!((measures.issued, measures.replies(), measures.timeouts()), (1, 0, 1));
        assert_eq!(measures.outcomes.errors(), 1);
    }

    #[test]
    fn connections_without_a_reply_have_no_time() {
        let mut recorder = Recorder::new(SCOPE, None);
        let ends = |replies, connected, ended| ConnectionEnd { started: MS, connected, ended, replies };
        recorder.connection(&ends(2, Some(2 * MS), 5 * MS));
        recorder.connection(&ends(0, Some(2 * MS), 50 * MS));
        recorder.connection(&ends(0, None, 50 * MS));
        let measures = Measures::merge(vec![recorder]);
        assert_eq!((measures.connections, measures.connected, measures.replies_of_connections), (3, 2, 2));
        assert_eq!((measures.connection_time_ms.count(), measures.connection_time_ms.mean()), (1, 4.0));
        assert!((measures.connect_times.mean_ms() - 1.0).abs() < 0.005);
    }

    #[test]
    fn intervals_are_kept_for_each_second() {
        let mut recorder = Recorder::new(Scope { intervals: true, ..SCOPE }, None);
        for tenth in 1..=25 {
            let now = tenth * 100 * MS;
            recorder.call(&call(Outcome::Reply, now - MS, now));
            recorder.tick(now);
        }
        let measures = Measures::merge(vec![recorder]);
        let counts: Vec<_> = measures.intervals.iter().map(|interval| interval.times.count()).collect();
        assert_eq!(counts, [10, 10, 5]);
    }

    proptest! {
        #[test]
        fn threads_merged_are_one_thread(
            times in proptest::collection::vec((0_u64..10_000, 1_u64..100_000, 0_usize..Outcome::ALL.len()), 1..200),
            threads in 1_usize..5,
        ) {
            let calls: Vec<Call> = times
                .iter()
                .map(|&(issued, took, outcome)| call(Outcome::ALL[outcome], issued * MS, issued * MS + took * 1000))
                .collect();
            let mut log = Builder::new();
            log.call(Request::default());
            let kinds = Arc::new(Kinds::of(&log.finish()));
            let new = || Recorder::new(SCOPE, None).with_kinds(&kinds);
            let mut alone = new();
            let mut shared: Vec<_> = (0..threads).map(|_| new()).collect();
            for (number, call) in calls.iter().enumerate() {
                alone.call(call);
                shared[number % threads].call(call);
            }
            let (alone, shared) = (Measures::merge(vec![alone]), Measures::merge(shared));
            prop_assert_eq!(alone.outcomes, shared.outcomes);
            prop_assert_eq!(alone.statuses, shared.statuses);
            prop_assert_eq!(&alone.reply_times, &shared.reply_times);
            prop_assert_eq!(&alone.corrected_times, &shared.corrected_times);
            prop_assert_eq!(&alone.timeout_times, &shared.timeout_times);
            prop_assert_eq!(&alone.reply_rates, &shared.reply_rates);
            prop_assert_eq!(alone.bytes(), shared.bytes());
            prop_assert_eq!(&alone.response_times, &shared.response_times);
            prop_assert_eq!(&alone.seconds, &shared.seconds);
            let classes = |measures: &Measures| SizeClass::ALL.map(|class| measures.by_size.of(class));
            prop_assert_eq!(classes(&alone), classes(&shared));
            let kinds = |measures: &Measures| measures.by_kind.each().map(|(kind, of)| (kind, of.clone())).collect::<Vec<_>>();
            prop_assert_eq!(kinds(&alone), kinds(&shared));
            // A timeout before the first reply that a thread sees is of no size there.
            let replies = |measures: &Measures| -> u64 {
                let tallies = measures.by_client.each().flat_map(|(_, clients)| clients.iter());
                tallies.map(|tally| tally.calls - tally.timeouts).sum()
            };
            prop_assert_eq!(replies(&alone), replies(&shared));
        }
    }
}
