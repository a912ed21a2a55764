//! One thread of the generator: arrivals, events and timers of its share of the sessions.
//!
//! A turn of its loop: the sessions whose time has come arrive; events are gathered, without waiting while an
//! arrival is overdue; sessions whose sockets are ready go on; timers are looked at.
//!
//! When the run's duration is over, all threads go on as before, so that the server's load stays the same.
//! They end when the last call that was issued in that time is over, no later than its client's timeout.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use sys::event::Events;
use sys::process;

use crate::arrivals::{Arrivals, share};
use crate::kit::Kit;
use crate::measures::Recorder;
use crate::queue::{Arrival, Queue};
use crate::record::{Nanos, Outcome, SessionOutcome};
use crate::run::Class;
use crate::session::Session;
use crate::timers::Timers;

/// The longest wait: the word to stop is heard after it.
const LONGEST_WAIT: Nanos = 50_000_000;
/// After a session that failed, the next of a closed loop waits this long, or a server that is down would be
/// asked without end.
const PAUSE_AFTER_FAILURE: Nanos = 10_000_000;
/// How often measures are told of the time.
const TICK: Nanos = 100_000_000;

/// What threads and their master tell each other while a run goes on.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// Set to end the run now.
    pub(crate) stop: AtomicBool,
    /// Sessions that have arrived.
    pub(crate) arrived: AtomicU64,
    /// Sessions that go on.
    pub(crate) open: AtomicU64,
    /// Whole replies.
    pub(crate) replies: AtomicU64,
    /// Those whose status is 400 or above.
    pub(crate) bad_statuses: AtomicU64,
    /// Bytes of bodies of replies.
    pub(crate) body_bytes: AtomicU64,
    /// Calls that failed.
    pub(crate) errors: AtomicU64,
    /// Calls of the measured time that are not over.
    pub(crate) under_way: AtomicU64,
    /// Calls of each thread that wait.
    pub(crate) waiting: Vec<Waiting>,
    /// Requests that may still be asked for, where that has an end.
    pub(crate) left: Option<AtomicU64>,
    /// Threads that still have such calls, or may get some.
    pub(crate) measuring: AtomicUsize,
}

/// Calls of a thread that wait for a reply, or in a queue for a connection.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) calls: AtomicU64,
    /// Since when the first of them does; the end of time, where none does.
    pub(crate) since: AtomicU64,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { calls: AtomicU64::new(0), since: AtomicU64::new(Nanos::MAX) }
    }
}

impl Signals {
    /// For so many threads, which may ask for so many requests.
    pub(crate) fn new(threads: usize, requests: Option<u64>) -> Self {
        Self {
            measuring: AtomicUsize::new(threads),
            waiting: (0..threads).map(|_| Waiting::default()).collect(),
            left: requests.map(AtomicU64::new),
            ..Self::default()
        }
    }

    /// What each of them takes first, as the others wait for it.
    pub(crate) fn measuring(&self) -> Measuring<'_> {
        Measuring(Some(&self.measuring))
    }
}

/// One thread's part in [`Signals::measuring`]; also taken back when the thread fails, as the others wait for
/// it.
#[derive(Debug)]
pub(crate) struct Measuring<'a>(Option<&'a AtomicUsize>);

impl Measuring<'_> {
    fn end(&mut self) {
        if let Some(threads) = self.0.take() {
            threads.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Measuring<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a thread has done.
#[derive(Debug)]
pub(crate) struct Report {
    /// Its measures.
    pub(crate) recorder: Recorder,
    /// When the measured time ended for it.
    pub(crate) ended: Nanos,
    /// When it ended itself.
    pub(crate) left: Nanos,
    /// The most sessions at a time.
    pub(crate) most_open: u64,
    /// CPU time of the measured time, in user mode and in the kernel.
    pub(crate) cpu: (Duration, Duration),
}

/// A thread's share of the connections of a class that go from one session to the next: each has its own
/// slot.
struct Kept {
    connections: u64,
    /// How many of them have a slot already.
    begun: u64,
    /// Which thread of how many it is.
    thread: (u32, u32),
    /// Slots of connections that are free, and their numbers among those of all threads.
    vacant: VecDeque<(u32, u32)>,
    /// The sessions that wait for one.
    queue: Queue,
}

impl Kept {
    /// The session that has waited longest, with the slot and the number of a free connection, if there is
    /// one. Connections take turns, so that all of them are in use.
    fn next(&mut self, sessions: &mut Vec<Session>) -> Option<(Arrival, u32, u32)> {
        if self.queue.is_empty() {
            return None;
        }
        let (slot, number) = if self.begun < self.connections {
            sessions.push(Session::vacant());
            let number = self.begun as u32 * self.thread.1 + self.thread.0;
            self.begun += 1;
            (sessions.len() as u32 - 1, number)
        } else {
            self.vacant.pop_front()?
        };
        Some((self.queue.next()?, slot, number))
    }
}

pub(crate) struct Worker<'a> {
    kit: Kit<'a>,
    sessions: Vec<Session>,
    /// Slots of sessions whose connections are not kept.
    vacant: Vec<u32>,
    /// By class, where connections are kept.
    kept: Vec<Option<Kept>>,
    timers: Timers,
    arrivals: Arrivals,
    signals: &'a Signals,
    arrived: u64,
    /// What the master has been told.
    told: [u64; 7],
    /// Which thread it is.
    number: usize,
    ticks: usize,
    window: Range<Nanos>,
    measuring: Measuring<'a>,
    /// CPU time until the window began, and until it ended.
    cpu: [Option<(Duration, Duration)>; 2],
    next_tick: Nanos,
}

impl<'a> Worker<'a> {
    /// Thread `number` of so many, of a run of which `window` is measured.
    pub(crate) fn new(
        kit: Kit<'a>,
        signals: &'a Signals,
        measuring: Measuring<'a>,
        (number, threads): (usize, usize),
        window: Range<Nanos>,
    ) -> Self {
        let kept = |class: &Class| {
            class.kept_connections().map(|all| Kept {
                connections: share(all, number as u64, threads as u64),
                begun: 0,
                thread: (number as u32, threads as u32),
                vacant: VecDeque::new(),
                queue: Queue::default(),
            })
        };
        let kept = kit.run.classes.iter().map(kept).collect();
        let arrivals = Arrivals::new(&kit.run.classes, number, threads);
        Self {
            kit,
            sessions: Vec::new(),
            vacant: Vec::new(),
            kept,
            timers: Timers::new(),
            arrivals,
            signals,
            arrived: 0,
            told: [0; 7],
            number,
            ticks: 0,
            window,
            measuring,
            cpu: [None; 2],
            next_tick: TICK,
        }
    }

    /// Plays until the last session is over, the time is and all that was issued in it, or somebody says so.
    pub(crate) fn run(mut self) -> std::io::Result<Report> {
        let mut events = Events::with_capacity(512);
        for (class, at_a_time) in self.arrivals.loops() {
            for _ in 0..at_a_time {
                self.next_of_the_loop(class, 0);
            }
        }
        loop {
            let now = self.kit.now();
            self.note_window(now)?;
            if self.signals.stop.load(Ordering::Relaxed) {
                break;
            }
            self.arrivals_due(now);
            if self.all_is_measured(now) {
                break;
            }
            let over = self.arrivals.over() || self.kit.all_is_asked();
            if self.open() == 0 && over && self.queued(Nanos::MAX) == 0 {
                break;
            }
            let wait = self.wait_at_most();
            self.kit.epoll.wait_ns(&mut events, wait)?;
            for at in 0..events.len() {
                let Some(event) = events.get(at) else { break };
                let (slot, generation) = (event.token as u32, (event.token >> 32) as u32);
                if self.sessions[slot as usize].generation == generation {
                    self.with(slot, |session, kit| session.ready(kit, event));
                }
                self.arrivals_due_now();
            }
            let now = self.kit.now();
            while let Some(slot) = self.timers.expired(now) {
                self.with(slot, Session::due);
                self.arrivals_due_now();
            }
            if now >= self.next_tick {
                self.next_tick = now + TICK;
                self.kit.recorder.tick(now);
                self.tell();
                self.tell_waiting();
            }
        }
        for slot in 0..self.sessions.len() as u32 {
            self.with(slot, Session::cut_off);
        }
        for kept in self.kept.iter_mut().flatten() {
            while let Some(arrival) = kept.queue.next() {
                arrival.turn_away(&mut self.kit, Outcome::Unfinished);
            }
        }
        self.measuring.end();
        let left = self.kit.now();
        let ended = left.min(self.window.end);
        self.note_window(Nanos::MAX)?;
        self.kit.recorder.tick(left);
        self.kit.recorder.close_logs();
        self.tell();
        let most_open = self.sessions.len() as u64;
        let [before, after] = self.cpu.map(Option::unwrap_or_default);
        let cpu = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
        Ok(Report { recorder: self.kit.recorder, ended, left, most_open, cpu })
    }

    /// Notes what the window has cost so far, when it begins and when it ends.
    fn note_window(&mut self, now: Nanos) -> std::io::Result<()> {
        let bounds = [self.window.start, self.window.end];
        for (bound, cpu) in bounds.into_iter().zip(&mut self.cpu) {
            if now < bound || cpu.is_some() {
                continue;
            }
            *cpu = Some(process::thread_cpu_time()?);
            if bound == self.window.end {
                self.kit.recorder.end_of_window(self.kit.now().min(bound));
            }
        }
        Ok(())
    }

    /// Whether the measured time is over, and every call that any thread issued in it.
    fn all_is_measured(&mut self, now: Nanos) -> bool {
        if now < self.window.end {
            return false;
        }
        if self.under_way() == 0 {
            self.measuring.end();
        }
        self.signals.measuring.load(Ordering::Relaxed) == 0
    }

    /// Calls of the measured time that are not over.
    fn under_way(&self) -> u64 {
        self.kit.recorder.under_way() + self.queued(self.window.end)
    }

    /// How many sessions in the queue were due before a time.
    fn queued(&self, due: Nanos) -> u64 {
        self.kept.iter().flatten().map(|kept| kept.queue.due_before(due)).sum()
    }

    /// Lets sessions arrive between the events of others, which may be hundreds.
    fn arrivals_due_now(&mut self) {
        let now = self.kit.now();
        if self.kept.iter().any(Option::is_some) || self.arrivals.next_at() <= now {
            self.arrivals_due(now);
        }
    }

    /// Has all sessions arrive whose time has come; those that are late come at once, one after the other.
    fn arrivals_due(&mut self, now: Nanos) {
        let before = self.arrived;
        while let Some((number, intended)) = self.arrivals.due(now) {
            self.arrive(number, intended);
        }
        self.kit.recorder.arrivals(self.arrived - before);
        for class in 0..self.kept.len() {
            self.serve_queue(class, now);
        }
    }

    /// Gives a class's free connections to its sessions in the queue. A session that has waited for too long
    /// gives up.
    fn serve_queue(&mut self, class: usize, now: Nanos) {
        // The first session of a class has its number.
        let timeout = self.kit.connect_timeout(class as u32);
        while let Some(kept) = &mut self.kept[class]
            && let Some(arrival) = kept.queue.next_to_give_up(timeout, now)
        {
            arrival.turn_away(&mut self.kit, Outcome::ConnectTimeout);
        }
        while let Some(kept) = &mut self.kept[class]
            && let Some((arrival, slot, number)) = kept.next(&mut self.sessions)
        {
            self.with(slot, |session, kit| session.arrive(kit, arrival, Some(number)));
        }
    }

    /// The session after this one, where its class is a closed loop.
    fn next_of_the_loop(&mut self, session: u32, intended: Nanos) {
        if !self.kit.all_is_asked()
            && let Some(number) = self.arrivals.after(session)
        {
            self.arrive(number, intended);
        }
    }

    fn arrive(&mut self, number: u32, intended: Nanos) {
        let arrival = Arrival { number, intended, came: self.kit.now().max(intended) };
        self.arrived += 1;
        if let Some(kept) = self.kept_of(number) {
            return kept.queue.join(arrival);
        }
        // The memory of the slot that was left last is still in the caches.
        let slot = self.vacant.pop().unwrap_or_else(|| self.new_slot());
        self.with(slot, |session, kit| session.arrive(kit, arrival, None));
    }

    /// The connections that are kept for a session's class, if they are.
    fn kept_of(&mut self, session: u32) -> Option<&mut Kept> {
        let classes = self.kept.len();
        self.kept[session as usize % classes].as_mut()
    }

    fn new_slot(&mut self) -> u32 {
        self.sessions.push(Session::vacant());
        self.sessions.len() as u32 - 1
    }

    /// Lets a session do something, and then registers what it waits for.
    fn with(&mut self, slot: u32, work: impl FnOnce(&mut Session, &mut Kit<'a>)) {
        let session = &mut self.sessions[slot as usize];
        self.kit.slot = slot;
        work(session, &mut self.kit);
        self.settle(slot);
    }

    fn settle(&mut self, slot: u32) {
        let session = &mut self.sessions[slot as usize];
        let now = self.kit.now();
        if let Some(end) = session.end(now) {
            self.kit.recorder.session(&end);
            session.leave();
            let (number, kept_number) = (session.number, session.kept);
            match (self.kept_of(number), kept_number) {
                (Some(kept), Some(connection)) => kept.vacant.push_back((slot, connection)),
                _ => self.vacant.push(slot),
            }
            if end.outcome != SessionOutcome::Unfinished {
                let pause = if end.outcome == SessionOutcome::Failed { PAUSE_AFTER_FAILURE } else { 0 };
                self.next_of_the_loop(number, now + pause);
            }
        } else if let Some(until) = session.thinks_until() {
            self.timers.schedule_precisely(slot, until);
        } else if session.deadline < Nanos::MAX {
            self.timers.schedule(slot, session.deadline);
        }
    }

    fn open(&self) -> u64 {
        let kept: usize = self.kept.iter().flatten().map(|kept| kept.vacant.len()).sum();
        (self.sessions.len() - self.vacant.len() - kept) as u64
    }

    /// How long nothing is due, in nanoseconds.
    fn wait_at_most(&self) -> Nanos {
        let arrival = self.arrivals.next_at();
        let timer = self.timers.next().unwrap_or(Nanos::MAX);
        let now = self.kit.now();
        let end = if now < self.window.end { self.window.end } else { Nanos::MAX };
        let gives_up = self.kept.iter().zip(0..).filter_map(|(kept, class)| {
            let since = kept.as_ref()?.queue.since()?;
            Some(since + self.kit.connect_timeout(class))
        });
        let gives_up = gives_up.min().unwrap_or(Nanos::MAX);
        let next = arrival.min(timer).min(self.next_tick).min(end).min(gives_up);
        next.saturating_sub(now).min(LONGEST_WAIT)
    }

    /// Tells the master what waits; the more seldom, the more sessions there are to be looked at.
    fn tell_waiting(&mut self) {
        const SESSIONS_AT_EACH_TICK: usize = 1000;
        self.ticks += 1;
        if !self.ticks.is_multiple_of(1 + self.sessions.len() / SESSIONS_AT_EACH_TICK) {
            return;
        }
        let queued = self.kept.iter().flatten().filter_map(|kept| kept.queue.waits());
        let waits = self.sessions.iter().filter_map(Session::waits).chain(queued);
        let none = (Nanos::MAX, 0);
        let (since, calls) = waits.fold(none, |(since, all), (first, calls)| (since.min(first), all + calls));
        let waiting = &self.signals.waiting[self.number];
        waiting.calls.store(calls, Ordering::Relaxed);
        waiting.since.store(since, Ordering::Relaxed);
    }

    /// Tells the master what has changed.
    fn tell(&mut self) {
        let shown = self.kit.recorder.shown();
        let under_way = self.under_way();
        let now = [
            (&self.signals.arrived, self.arrived),
            (&self.signals.open, self.open()),
            (&self.signals.replies, shown.replies),
            (&self.signals.bad_statuses, shown.bad_statuses),
            (&self.signals.body_bytes, shown.body_bytes),
            (&self.signals.errors, shown.errors),
            (&self.signals.under_way, under_way),
        ];
        for ((signal, now), told) in now.into_iter().zip(&mut self.told) {
            // Wraps around where the number has gone down, and is right again in the sum.
            signal.fetch_add(now.wrapping_sub(*told), Ordering::Relaxed);
            *told = now;
        }
    }
}
