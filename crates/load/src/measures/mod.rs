//! What a run measures: counts, sums, and histograms of times, taken in as calls, connections and sessions
//! end.
//!
//! What is measured is a [window](Scope::window) of the run, from the end of its warm-up to the end of its
//! duration. Two kinds of figures look at it, and must not be mixed:
//!
//! - **The flow** ([`Flow`], [`Sessions`]): what *happened* in the window, whenever it began. Rates are made
//!   of it: a server that answers 100 requests a second answers 100 in each second, also if each takes it
//!   three.
//! - **The cohort** ([`Cohort`], [`Connections`], [`Handshakes`]): what became of the calls that were
//!   *issued* in the window (of those that queue for a connection: that were due in it), whenever they were
//!   over. Times, shares and rules are made of it. The run goes on, under the same load, until the last of
//!   them is over; one that somebody did not wait for is known to have taken as long as it was waited for, at
//!   least.
//!
//! A client that only wants a TLS handshake makes no call, although its attempts are recorded like one. They
//! count by class of clients ([`OfClientClass`]), in [`Flow::handshakes`], and in no figure of calls.
//!
//! Each thread owns a [`Recorder`], into which nothing is allocated while the run goes on;
//! [`Measures::merge`] makes one of all. Two times are kept of each reply: from when its call was *issued*,
//! and *corrected*, from when it should have been. The two differ only for a session's first call, which
//! can be late or queue. With a log's times they also differ for a burst's first call. Every other call
//! follows a reply, so nothing says when it should have been issued (`HdrHistogram`'s issue 148 has the
//! argument).

mod asked;
mod calls;
mod classes;
mod clients;
mod cohort;
mod connections;
mod flow;
mod handshakes;
mod intervals;
mod kinds;
mod live;
mod outcomes;
mod pressure;
mod rates;
mod seconds;
mod sessions;
mod sizes;
mod times;
mod verified;
mod waits;

use std::ops::Range;
use std::sync::Arc;

use pressure::Account;

use crate::record::{Call, ConnectionEnd, Nanos, Outcome, SessionEnd};
pub use asked::{Asked, AskedFor};
pub use calls::{CallLog, CallWriter};
pub use classes::{ByClass, OfClientClass};
pub use clients::{ByClient, CLIENTS, Tally};
pub use cohort::Cohort;
pub use connections::Connections;
pub use flow::Flow;
pub use handshakes::Handshakes;
pub use intervals::{IntervalLog, IntervalWriter};
pub use kinds::{ByKind, Kind, Kinds, OfKind};
pub use live::{Live, Snapshot};
pub use outcomes::Outcomes;
pub use pressure::Pressure;
pub use rates::Rates;
pub use seconds::{Confidence, Second, Seconds};
pub use sessions::Sessions;
pub use sizes::{BySize, OfClass, SizeClass};
pub use times::{Moments, Times};
pub use verified::Verified;
pub use waits::{Found, Waits};

/// What a recorder has to know beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The measured part of the run; without an end, to the run's own.
    pub window: Range<Nanos>,
    /// Different requests of the log.
    pub requests: usize,
}

/// One thread's measures.
#[derive(Debug)]
pub struct Recorder {
    window: Range<Nanos>,
    measures: Measures,
    calls: Option<CallLog>,
    intervals: Option<IntervalLog>,
    /// Calls count by when they were due, not by when they were issued: some queue for a connection.
    by_intended: bool,
    /// Calls of the cohort that are not over.
    under_way: u64,
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
    /// Those whose status is 400 or above.
    pub bad_statuses: u64,
    /// Bytes of bodies of replies.
    pub body_bytes: u64,
    /// Calls that failed.
    pub errors: u64,
}

/// What was measured, of one thread or of all.
#[derive(Clone, Debug)]
pub struct Measures {
    /// Requests and replies of the window.
    pub flow: Flow,
    /// What became of the calls that were issued in it.
    pub cohort: Cohort,
    /// Connections that were begun in it.
    pub connections: Connections,
    /// TLS on those connections.
    pub handshakes: Handshakes,
    /// Sessions that arrived in it, and those that ended.
    pub sessions: Sessions,
    /// All that was issued since the warm-up, by request: what a server's log should know of.
    pub asked: Asked,
    /// Replies of the whole run that were compared with their files.
    pub verified: Verified,
    /// The most sessions at a time.
    pub most_open: u64,
    /// How late sessions arrived: the generator's own fault.
    pub lateness: Times,
    /// The most sessions that one thread had arrive at once, because they were overdue: httperf's burst
    /// length.
    pub longest_burst: u64,
    /// Whether threads had the CPU time that they wanted.
    pub pressure: Pressure,
}

impl Recorder {
    /// Nothing measured yet. `calls` gets every call of the run, those outside of the window as well.
    pub fn new(scope: Scope, calls: Option<CallLog>) -> Self {
        let from = scope.window.start;
        Self {
            measures: Measures::new(from, scope.requests),
            calls,
            intervals: None,
            by_intended: false,
            under_way: 0,
            shown: Shown::default(),
            live: Arc::default(),
            account: None,
            next_second: from,
            window: scope.window,
        }
    }

    /// Tells calls of different kinds apart.
    #[must_use]
    pub fn with_kinds(mut self, kinds: &Arc<Kinds>) -> Self {
        self.measures.cohort.by_kind = ByKind::new(Arc::clone(kinds));
        self
    }

    /// Tells calls of so many classes of clients apart.
    #[must_use]
    pub fn with_classes(mut self, classes: usize) -> Self {
        self.measures.cohort.by_class = ByClass::new(classes);
        self
    }

    /// Tells how large what requests ask for is, by their numbers in the log, as far as that is known before
    /// any reply.
    #[must_use]
    pub fn with_sizes(mut self, sizes: &[Option<u64>]) -> Self {
        self.measures.cohort.by_size.know(sizes);
        self
    }

    /// Counts calls into the cohort by when they were due, where the server decides when they are issued:
    /// those that queue for a connection.
    #[must_use]
    pub fn by_intended_start(mut self, by_intended: bool) -> Self {
        self.by_intended = by_intended;
        self
    }

    /// Gives each second's reply times to a log, those of the warm-up as well.
    #[must_use]
    pub fn with_intervals(mut self, intervals: Option<IntervalLog>) -> Self {
        self.intervals = intervals;
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

    /// Takes notice of a call that is issued. [`call`](Self::call) will be told of it once, when it is over.
    pub fn issue(&mut self, call: &Call) {
        self.under_way += u64::from(self.window.contains(&self.begin_of(call)));
    }

    /// By what a call is or is not in the window's cohort.
    fn begin_of(&self, call: &Call) -> Nanos {
        if self.by_intended { call.intended } else { call.issued }
    }

    /// Calls of the cohort that are not over.
    pub fn under_way(&self) -> u64 {
        self.under_way
    }

    /// Takes in a call that is over.
    pub fn call(&mut self, call: &Call) {
        if let Some(calls) = &mut self.calls {
            calls.take(call);
        }
        self.shown.errors += u64::from(call.outcome.is_error());
        if call.is_handshake {
            return self.handshake(call);
        }
        if call.outcome == Outcome::Reply {
            self.shown.replies += 1;
            self.live.record(call.ended.saturating_sub(call.issued));
            self.shown.bad_statuses += u64::from(call.status >= 400);
            self.shown.body_bytes += call.body_bytes;
            if let Some(intervals) = &mut self.intervals
                && call.ended < self.window.end
            {
                intervals.record(call.ended, call.ended - call.intended.min(call.ended));
            }
        }
        self.measures.verified.call(call);
        self.measures.flow.call(call, &self.window);
        let begin = self.begin_of(call);
        if self.window.contains(&begin) {
            self.under_way = self.under_way.saturating_sub(1);
            self.measures.cohort.call(call);
        }
        if begin >= self.window.start {
            self.measures.asked.call(call);
        }
    }

    /// Takes in what came of a client that only wants a handshake.
    fn handshake(&mut self, call: &Call) {
        self.measures.flow.handshake(call, &self.window);
        if self.window.contains(&self.begin_of(call)) {
            self.under_way = self.under_way.saturating_sub(1);
            self.measures.cohort.by_class.take(call);
        }
    }

    /// Takes in a connection that is over.
    pub fn connection(&mut self, connection: &ConnectionEnd) {
        if self.window.contains(&connection.started) {
            self.measures.connections.connection(connection);
            self.measures.handshakes.connection(connection);
        }
    }

    /// Takes notice that TLS failed for this reason on a connection that was started at that time.
    pub fn tls_error(&mut self, started: Nanos, reason: &str) {
        if self.window.contains(&started) {
            self.measures.handshakes.error(reason);
        }
    }

    /// Takes in a session that is over.
    pub fn session(&mut self, session: &SessionEnd) {
        if self.window.contains(&session.intended) {
            self.measures.lateness.record(session.started.saturating_sub(session.intended));
            self.measures.flow.seconds.session(session);
        }
        self.measures.sessions.session(session, &self.window);
    }

    /// Takes notice of so many sessions that arrived one right after the other.
    pub fn arrivals(&mut self, at_once: u64) {
        self.measures.longest_burst = self.measures.longest_burst.max(at_once);
    }

    /// Told about ten times a second what time it is.
    pub fn tick(&mut self, now: Nanos) {
        const SECOND: Nanos = 1_000_000_000;
        if now >= self.next_second && now < self.window.end {
            self.next_second = now + SECOND;
            self.sample_account(now);
        }
        if let Some(calls) = &mut self.calls {
            calls.tick();
        }
        if let Some(intervals) = &mut self.intervals {
            intervals.tick(now.min(self.window.end));
        }
    }

    /// Told when the window ends: what is left of a second counts as well.
    pub fn end_of_window(&mut self, now: Nanos) {
        self.sample_account(now);
        self.next_second = Nanos::MAX;
    }

    fn sample_account(&mut self, now: Nanos) {
        let account = Account::of_this_thread(now);
        if let (Some(before), Some(account)) = (self.account, account) {
            self.measures.pressure.add(before, account);
        }
        self.account = account;
    }

    /// Gives the logs what is left: nothing more comes from this thread, and the files need not wait for it.
    pub fn close_logs(&mut self) {
        (self.calls, self.intervals) = (None, None);
    }

    /// Counts so far.
    pub fn shown(&self) -> Shown {
        self.shown
    }
}

impl Measures {
    fn new(from: Nanos, requests: usize) -> Self {
        Self {
            flow: Flow::new(from),
            cohort: Cohort::new(requests),
            connections: Connections::default(),
            handshakes: Handshakes::default(),
            sessions: Sessions::new(from),
            asked: Asked::new(requests),
            verified: Verified::default(),
            most_open: 0,
            lateness: Times::new(),
            longest_burst: 0,
            pressure: Pressure::default(),
        }
    }

    /// Makes one of all threads' measures.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn merge(recorders: Vec<Recorder>) -> Self {
        let mut all = recorders.into_iter().map(|recorder| recorder.measures);
        let mut merged = all.next().expect("a run has at least one thread");
        all.for_each(|other| merged.take_in(&other));
        merged
    }

    fn take_in(&mut self, other: &Self) {
        self.flow.take_in(&other.flow);
        self.cohort.take_in(&other.cohort);
        self.connections.take_in(&other.connections);
        self.handshakes.take_in(&other.handshakes);
        self.sessions.take_in(&other.sessions);
        self.asked.take_in(&other.asked);
        self.verified.take_in(other.verified);
        self.lateness.take_in(&other.lateness);
        self.longest_burst = self.longest_burst.max(other.longest_burst);
        self.pressure.take_in(&other.pressure);
    }
}

/// Counts a reply by the class of its status. Beyond 599 no status has a meaning, and clients are to take
/// them for 5xx (RFC 9110 section 15).
fn count_status(classes: &mut [u64; 5], status: u16) {
    if let Some(class) = usize::from(status / 100).min(classes.len()).checked_sub(1) {
        classes[class] += 1;
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
    const SCOPE: Scope = Scope { window: 0..Nanos::MAX, requests: 3 };

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
            promised: None,
            resent: 0,
            compared: false,
            gives_up: Nanos::MAX,
            is_handshake: false,
            outcome,
        }
    }

    #[test]
    fn a_reply_is_measured_from_its_issue_and_from_its_intended_start() {
        let mut recorder = Recorder::new(SCOPE, None);
        recorder.call(&call(Outcome::Reply, 10 * MS, 12 * MS + MS / 10));
        let measures = Measures::merge(vec![recorder]);
        let ms = |times: &Times| times.mean_ms();
        let Measures { flow, cohort, .. } = &measures;
        assert!((ms(&cohort.reply_times) - 2.1).abs() < 0.005, "{}", ms(&cohort.reply_times));
        assert!((ms(&cohort.corrected_times) - 3.1).abs() < 0.005);
        assert!((ms(&cohort.response_times) - 1.0).abs() < 0.005);
        assert!((ms(&cohort.transfer_times) - 1.0).abs() < 0.005);
        assert_eq!((flow.replies(), flow.requests, flow.bytes()), (1, 1, 1260));
    }

    #[test]
    fn rates_are_of_what_ended_and_times_of_what_was_issued() {
        let mut recorder = Recorder::new(Scope { window: 10 * MS..40 * MS, ..SCOPE }, None);
        for (outcome, issued, ended) in [
            (Outcome::Reply, 9, 30),
            (Outcome::ReplyTimeout, 10, 30),
            (Outcome::Reply, 39, 90),
            (Outcome::Reply, 41, 42),
        ] {
            recorder.issue(&call(outcome, issued * MS, ended * MS));
            recorder.call(&call(outcome, issued * MS, ended * MS));
        }
        assert_eq!(recorder.shown(), Shown { replies: 3, bad_statuses: 0, body_bytes: 3000, errors: 1 });
        recorder.issue(&call(Outcome::Reply, 20 * MS, 90 * MS));
        recorder.issue(&call(Outcome::Reply, 40 * MS, 90 * MS));
        assert_eq!(recorder.under_way(), 1);
        let Measures { flow, cohort, asked, .. } = Measures::merge(vec![recorder]);
        assert_eq!((flow.replies(), flow.outcomes.timeouts()), (1, 1));
        assert_eq!((cohort.issued, cohort.outcomes.of(Outcome::Reply), cohort.outcomes.errors()), (2, 1, 1));
        assert!((cohort.reply_times.mean_ms() - 51.0).abs() < 0.1);
        assert_eq!((asked.of(0).calls, asked.of(0).timeouts), (3, 1));
    }

    #[test]
    fn a_queued_call_counts_from_when_it_was_due() {
        let scope = Scope { window: 10 * MS..40 * MS, ..SCOPE };
        let mut recorder = Recorder::new(scope, None).by_intended_start(true);
        for (intended, issued) in [(9, 20), (10, 45), (39, 100), (40, 41)] {
            let call =
                Call { intended: intended * MS, ..call(Outcome::Reply, issued * MS, (issued + 1) * MS) };
            recorder.issue(&call);
            recorder.call(&call);
        }
        assert_eq!(recorder.under_way(), 0);
        let Measures { flow, cohort, .. } = Measures::merge(vec![recorder]);
        assert_eq!((flow.replies(), cohort.issued), (1, 2));
        assert!((cohort.waits.mean().unwrap().ms - 49.0).abs() < 0.1 && cohort.reply_times.mean_ms() < 1.1);
    }

    proptest! {
        #[test]
        fn threads_merged_are_one_thread(
            times in proptest::collection::vec(
                (0_u64..10_000, 1_u64..100_000, 0_usize..Outcome::ALL.len()),
                1..200,
            ),
            threads in 1_usize..5,
        ) {
            let calls: Vec<Call> = times
                .iter()
                .map(|&(issued, took, outcome)| (Outcome::ALL[outcome], issued * MS, took * 1000))
                .map(|(outcome, issued, took)| call(outcome, issued, issued + took))
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
            prop_assert_eq!(alone.cohort.outcomes, shared.cohort.outcomes);
            prop_assert_eq!(alone.flow.statuses, shared.flow.statuses);
            prop_assert_eq!(&alone.cohort.reply_times, &shared.cohort.reply_times);
            prop_assert_eq!(&alone.cohort.corrected_times, &shared.cohort.corrected_times);
            prop_assert_eq!(&alone.cohort.timeout_times, &shared.cohort.timeout_times);
            prop_assert_eq!(&alone.flow.reply_rates, &shared.flow.reply_rates);
            prop_assert_eq!(alone.flow.bytes(), shared.flow.bytes());
            prop_assert_eq!(&alone.cohort.response_times, &shared.cohort.response_times);
            prop_assert_eq!(&alone.flow.seconds, &shared.flow.seconds);
            prop_assert_eq!(&alone.cohort.waits, &shared.cohort.waits);
            prop_assert_eq!(&alone.asked, &shared.asked);
            let classes = |measures: &Measures| SizeClass::ALL.map(|class| measures.cohort.by_size.of(class));
            prop_assert_eq!(classes(&alone), classes(&shared));
            let kinds = |measures: &Measures| {
                let all = measures.cohort.by_kind.each();
                all.map(|(kind, of)| (kind.clone(), of.clone())).collect::<Vec<_>>()
            };
            prop_assert_eq!(kinds(&alone), kinds(&shared));
            let clients = |measures: &Measures| measures.cohort.by_client.each(&measures.cohort.by_size);
            prop_assert_eq!(clients(&alone), clients(&shared));
        }
    }
}
