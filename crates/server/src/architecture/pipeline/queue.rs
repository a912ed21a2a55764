//! The queue in front of a stage: bounded, filled and taken from in batches by any number of threads.
//!
//! What is bounded has an end. A stage that brings something new ([`give`](Queue::give),
//! [`offer`](Queue::offer)) finds the queue full at its bound, and waits or keeps what it has until there is
//! room for twice as much as half of it. A stage that gives back what has been through the queue before
//! ([`give_back`](Queue::give_back)) never waits: it holds no more than the queue behind this one, which is
//! bounded too. So of the stages that stand in a circle, Read and Write, one waits for the other and not the
//! other for it.
//!
//! A thread that finds nothing sleeps on a condition of its own, and who brings something wakes the one that
//! went to sleep last, whose memory is the warmest. One that leaves something behind wakes another, which
//! takes over should the first have to wait for a disk. Nobody is called while another is on the way: that
//! one calls the next if it leaves anything. So it is one that comes in vain, not all of them, where none has
//! to wait.
//!
//! Not all of them need be [in use](Queue::use_takers). One that is not takes only what is its own, so that
//! it may be whom something is bound to, and rests otherwise.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use sys::wake::Wake;

use super::sync::{Condvar, Counter, Mutex, MutexGuard};

/// A queue of things that move from stage to stage.
#[derive(Debug)]
pub(super) struct Queue<T> {
    line: Mutex<Line<T>>,
    beds: Beds,
    /// What those sleep on who find no room.
    emptied: Condvar,
    bound: usize,
}

/// Where threads sleep that take.
#[derive(Debug)]
enum Beds {
    /// Each on a condition of its own.
    Own(Box<[Condvar]>),
    /// The only one waits for events as well, among which this is.
    Poll(Arc<Wake>),
}

#[derive(Debug)]
struct Line<T> {
    /// For whoever comes, each with the time when it came.
    common: VecDeque<(u64, T)>,
    /// For each of the threads that take alone.
    own: Box<[VecDeque<(u64, T)>]>,
    /// Which of them are to look for something else.
    poked: Box<[bool]>,
    /// Those that sleep, who came last at the end.
    asleep: Vec<usize>,
    /// Who has been woken for what is common, and has not come yet.
    called: Option<usize>,
    /// Those with a lower number take what is for whoever comes.
    in_use: usize,
    /// How many sleep for want of room.
    without_room: usize,
    /// Somebody who does not sleep for it wants to be told of room.
    calls: bool,
    closed: bool,
    /// Where the length of what is common is told, if anywhere: whoever has the lock writes it.
    gauge: Option<&'static Counter>,
}

/// What came of taking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// The sum of the times, in nanoseconds, when what was taken came.
    pub(super) since_ns: u64,
    /// There is room now, which somebody wants to be told of.
    pub(super) has_room: bool,
    /// This thread was [poked](Queue::poke).
    pub(super) is_poked: bool,
    /// Nothing will come any more.
    pub(super) is_closed: bool,
}

impl<T> Queue<T> {
    /// An empty one for so many threads that take from it, which is full with `bound`.
    pub(super) fn new(takers: usize, bound: usize) -> Self {
        let beds = (0..takers).map(|_| Condvar::new()).collect();
        Self::with(takers, bound, Beds::Own(beds))
    }

    /// An empty one for a single thread, which sleeps when it says so and is woken by that event.
    pub(super) fn polled(bound: usize, wake: Arc<Wake>) -> Self {
        Self::with(1, bound, Beds::Poll(wake))
    }

    fn with(takers: usize, bound: usize, beds: Beds) -> Self {
        let line = Line {
            common: VecDeque::new(),
            own: (0..takers).map(|_| VecDeque::new()).collect(),
            poked: vec![false; takers].into(),
            asleep: Vec::with_capacity(takers),
            called: None,
            in_use: takers,
            without_room: 0,
            calls: false,
            closed: false,
            gauge: None,
        };
        Self { line: Mutex::new(line), beds, emptied: Condvar::new(), bound }
    }

    /// Has the queue tell how much is in it for whoever comes, in a gauge that nobody else writes.
    pub(super) fn telling(self, gauge: &'static Counter) -> Self {
        self.lock().gauge = Some(gauge);
        self
    }

    /// Gives everything that is in the batch, and waits as long as there is no room for it. What is left then
    /// is for nobody: the queue is closed. Says whether it had to wait.
    pub(super) fn give(&self, batch: &mut VecDeque<T>, now_ns: u64) -> bool {
        let mut has_waited = false;
        loop {
            let mut line = self.lock();
            let woken = self.fill(&mut line, batch, now_ns);
            if woken.is_some() {
                drop(line);
                self.rouse(woken);
                line = self.lock();
            }
            if batch.is_empty() || line.closed {
                return has_waited;
            }
            if line.common.len() >= self.bound {
                has_waited = true;
                line.without_room += 1;
                line = self.emptied.wait(line).expect(SOUND);
                line.without_room -= 1;
            }
        }
    }

    /// Gives as much of the batch as there is room for. If some of it is left, a thread that takes will be
    /// told that there [is room](Taken::has_room).
    pub(super) fn offer(&self, batch: &mut VecDeque<T>, now_ns: u64) {
        let mut line = self.lock();
        let woken = self.fill(&mut line, batch, now_ns);
        line.calls |= !batch.is_empty();
        drop(line);
        self.rouse(woken);
    }

    /// Gives what has been here before.
    pub(super) fn give_back(&self, batch: &mut Vec<T>, now_ns: u64) {
        if batch.is_empty() {
            return;
        }
        let mut line = self.lock();
        let woken = if line.closed {
            None
        } else {
            line.common.extend(batch.drain(..).map(|one| (now_ns, one)));
            line.tell();
            line.wake_one()
        };
        drop(line);
        self.rouse(woken);
    }

    /// Gives something that is for one of the threads alone.
    pub(super) fn give_to(&self, taker: usize, one: T, now_ns: u64) {
        let mut line = self.lock();
        line.own[taker].push_back((now_ns, one));
        let woken = line.wake(taker);
        drop(line);
        self.rouse(woken);
    }

    /// Has one of the threads look for something else than this.
    pub(super) fn poke(&self, taker: usize) {
        let mut line = self.lock();
        line.poked[taker] = true;
        let woken = line.wake(taker);
        drop(line);
        self.rouse(woken);
    }

    /// Takes at most so much, what is this thread's alone first. Sleeps until there is something, but not for
    /// longer than that, or however long it takes (`None`).
    pub(super) fn take(
        &self,
        taker: usize,
        most: usize,
        patience: Option<Duration>,
        into: &mut Vec<T>,
    ) -> Taken {
        let mut line = self.lock();
        if let Beds::Own(beds) = &self.beds
            && !line.has_something(taker)
            && patience != Some(Duration::ZERO)
        {
            line.asleep.push(taker);
            line = match patience {
                None => beds[taker].wait(line).expect(SOUND),
                Some(patience) => beds[taker].wait_timeout(line, patience).expect(SOUND).0,
            };
        }
        line.asleep.retain(|&other| other != taker);
        line.has_come(taker);
        let mut came = Taken { is_poked: line.poked[taker], is_closed: line.closed, ..Taken::default() };
        line.poked[taker] = false;
        for _ in 0..most {
            let Some((since_ns, one)) = line.next_for(taker) else { break };
            came.since_ns = came.since_ns.wrapping_add(since_ns);
            into.push(one);
        }
        let left = line.common.len();
        line.tell();
        let has_room = left <= self.bound / 2;
        came.has_room = has_room && std::mem::take(&mut line.calls);
        let is_awaited = has_room && line.without_room > 0;
        let woken = if left > 0 { line.wake_one() } else { None };
        drop(line);
        if is_awaited {
            self.emptied.notify_all();
        }
        self.rouse(woken);
        came
    }

    /// The only thread that takes, whose queue is [polled](Self::polled), is about to sleep; says whether it
    /// may. It is woken when there is something, until it takes again.
    pub(super) fn may_sleep(&self) -> bool {
        let mut line = self.lock();
        line.has_come(0);
        let may = !line.has_something(0);
        if may && line.asleep.is_empty() {
            line.asleep.push(0);
        }
        may
    }

    /// Has only so many of the threads take what is for whoever comes, those with the lowest numbers: at
    /// least one, and all of them to begin with.
    pub(super) fn use_takers(&self, in_use: usize) {
        let mut line = self.lock();
        line.in_use = in_use.clamp(1, line.own.len());
        let woken = if line.common.is_empty() { None } else { line.wake_one() };
        drop(line);
        self.rouse(woken);
    }

    /// How much is there for whoever comes, and which of those in use sleep.
    pub(super) fn state(&self) -> (usize, Vec<usize>) {
        let line = self.lock();
        (line.common.len(), line.asleep.iter().copied().filter(|&taker| taker < line.in_use).collect())
    }

    /// How much is in it.
    pub(super) fn len(&self) -> usize {
        let line = self.lock();
        line.common.len() + line.own.iter().map(VecDeque::len).sum::<usize>()
    }

    /// Nothing goes in any more, and nobody waits.
    pub(super) fn close(&self) {
        let mut line = self.lock();
        line.closed = true;
        line.asleep.clear();
        drop(line);
        match &self.beds {
            Beds::Own(beds) => beds.iter().for_each(Condvar::notify_all),
            Beds::Poll(_) => self.rouse(Some(0)),
        }
        self.emptied.notify_all();
    }

    /// Puts in what there is room for, and says who is to be woken for it.
    fn fill(&self, line: &mut Line<T>, batch: &mut VecDeque<T>, now_ns: u64) -> Option<usize> {
        let room = self.bound.saturating_sub(line.common.len()).min(batch.len());
        if line.closed || room == 0 {
            return None;
        }
        line.common.extend(batch.drain(..room).map(|one| (now_ns, one)));
        line.tell();
        line.wake_one()
    }

    /// Wakes a thread that is among those who sleep no more. Without the lock, which it needs first of all.
    fn rouse(&self, taker: Option<usize>) {
        match (&self.beds, taker) {
            (_, None) => {}
            (Beds::Own(beds), Some(taker)) => beds[taker].notify_one(),
            // An eventfd can always be written to.
            (Beds::Poll(wake), Some(_)) => drop(wake.wake()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Line<T>> {
        self.line.lock().expect(SOUND)
    }
}

impl<T> Line<T> {
    /// Says how much is there for whoever comes.
    fn tell(&self) {
        if let Some(gauge) = self.gauge {
            gauge.set(self.common.len() as u64);
        }
    }

    fn has_something(&self, taker: usize) -> bool {
        let has_common = taker < self.in_use && !self.common.is_empty();
        has_common || !self.own[taker].is_empty() || self.poked[taker] || self.closed
    }

    /// What a thread is to take next: its own first.
    fn next_for(&mut self, taker: usize) -> Option<(u64, T)> {
        let own = self.own[taker].pop_front();
        own.or_else(|| if taker < self.in_use { self.common.pop_front() } else { None })
    }

    /// Takes the one that came last from those who sleep and are in use, unless somebody is called already.
    /// If it is out of use before it comes to take, it finds something left, and wakes another.
    fn wake_one(&mut self) -> Option<usize> {
        if self.called.is_some() {
            return None;
        }
        let at = self.asleep.iter().rposition(|&taker| taker < self.in_use)?;
        self.called = Some(self.asleep.remove(at));
        self.called
    }

    /// That thread is there, whatever it was woken for.
    fn has_come(&mut self, taker: usize) {
        if self.called == Some(taker) {
            self.called = None;
        }
    }

    /// Takes that thread from those who sleep, if it does.
    fn wake(&mut self, taker: usize) -> Option<usize> {
        let at = self.asleep.iter().position(|&other| other == taker)?;
        Some(self.asleep.remove(at))
    }
}

/// A thread that panics takes the process along.
const SOUND: &str = "nobody panics with the lock";
