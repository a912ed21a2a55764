//! The queue in front of a stage. It is bounded; any number of threads fill it and take from it, in
//! batches.
//!
//! A stage that brings something new ([`give`](Queue::give), [`offer`](Queue::offer)) may find the queue
//! full. Then it waits, or keeps what it has, until the queue is at most half full. A stage that gives back
//! what has been through the queue before ([`give_back`](Queue::give_back)) never waits: it holds no more
//! than the queue behind this one, which is bounded too. Read and Write form a circle, so only one of them
//! ever waits for the other.
//!
//! A thread that finds nothing sleeps on its own condition. A thread that brings something wakes the one
//! that went to sleep last, because its memory is the warmest. A thread that leaves something behind wakes
//! another, which takes over if the first one has to wait for a disk. While a woken thread is on its way,
//! no other is woken: that thread wakes the next if it leaves anything. So if no thread has to wait, one
//! thread wakes in vain, not all of them.
//!
//! Not all threads need be [in use](Queue::use_takers). A thread that is not in use takes only its own
//! things, so that things can be bound to it. Otherwise it rests.

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
    /// Threads that find no room sleep on this.
    emptied: Condvar,
    bound: usize,
}

/// Where the threads that take from the queue sleep.
#[derive(Debug)]
enum Beds {
    /// Each one sleeps on its own condition.
    Own(Box<[Condvar]>),
    /// The only thread also waits for events; this is one of them.
    Poll(Arc<Wake>),
}

#[derive(Debug)]
struct Line<T> {
    /// For any thread, each with the time when it came.
    common: VecDeque<(u64, T)>,
    /// For one thread alone; one queue for each.
    own: Box<[VecDeque<(u64, T)>]>,
    /// Which of the threads are to look for something else.
    poked: Box<[bool]>,
    /// Sleeping threads; the one that came last is at the end.
    asleep: Vec<usize>,
    /// The thread that has been woken for `common`, and has not come yet.
    called: Option<usize>,
    /// Threads with a lower number take from `common`.
    in_use: usize,
    /// How many threads sleep because there is no room.
    without_room: usize,
    /// A thread that does not sleep wants to learn when there is room.
    calls: bool,
    closed: bool,
    /// Reports the length of `common`, if set. Written only under the lock.
    gauge: Option<&'static Counter>,
}

/// The result of taking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// The sum of the times, in nanoseconds, at which the taken things came.
    pub(super) since_ns: u64,
    /// There is room now, and another thread wants to know.
    pub(super) has_room: bool,
    /// This thread was [poked](Queue::poke).
    pub(super) is_poked: bool,
    /// Nothing more will come.
    pub(super) is_closed: bool,
}

impl<T> Queue<T> {
    /// An empty queue for this many threads that take from it. It is full with `bound` things.
    pub(super) fn new(takers: usize, bound: usize) -> Self {
        let beds = (0..takers).map(|_| Condvar::new()).collect();
        Self::with(takers, bound, Beds::Own(beds))
    }

    /// An empty queue for a single thread. The thread announces that it will sleep, and this event wakes
    /// it.
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

    /// Makes the queue report the length of its common part in a gauge. Nothing else may write that gauge.
    pub(super) fn telling(self, gauge: &'static Counter) -> Self {
        self.lock().gauge = Some(gauge);
        self
    }

    /// Gives everything in the batch, and waits while there is no room. If anything is left, the queue is
    /// closed. Returns whether it had to wait.
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

    /// Gives as much of the batch as there is room for. If some of it is left, a thread that takes will
    /// learn that there [is room](Taken::has_room).
    pub(super) fn offer(&self, batch: &mut VecDeque<T>, now_ns: u64) {
        let mut line = self.lock();
        let woken = self.fill(&mut line, batch, now_ns);
        line.calls |= !batch.is_empty();
        drop(line);
        self.rouse(woken);
    }

    /// Gives back what has been in the queue before.
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

    /// Gives something that only one of the threads may take.
    pub(super) fn give_to(&self, taker: usize, one: T, now_ns: u64) {
        let mut line = self.lock();
        line.own[taker].push_back((now_ns, one));
        let woken = line.wake(taker);
        drop(line);
        self.rouse(woken);
    }

    /// Makes one of the threads look for something outside this queue.
    pub(super) fn poke(&self, taker: usize) {
        let mut line = self.lock();
        line.poked[taker] = true;
        let woken = line.wake(taker);
        drop(line);
        self.rouse(woken);
    }

    /// Takes at most `most` things, those for this thread alone first. If there is nothing, it sleeps until
    /// something comes, for `patience` at most, or without a limit (`None`).
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

    /// For the only thread of a [polled](Self::polled) queue, when it is about to sleep: returns whether it
    /// may. If something comes before the thread takes again, the thread is woken.
    pub(super) fn may_sleep(&self) -> bool {
        let mut line = self.lock();
        line.has_come(0);
        let may = !line.has_something(0);
        if may && line.asleep.is_empty() {
            line.asleep.push(0);
        }
        may
    }

    /// Lets only this many of the threads take from the common part, those with the lowest numbers. There
    /// is at least one. At first all of them take from it.
    pub(super) fn use_takers(&self, in_use: usize) {
        let mut line = self.lock();
        line.in_use = in_use.clamp(1, line.own.len());
        let woken = if line.common.is_empty() { None } else { line.wake_one() };
        drop(line);
        self.rouse(woken);
    }

    /// The length of the common part, and which of the threads in use sleep.
    pub(super) fn state(&self) -> (usize, Vec<usize>) {
        let line = self.lock();
        (line.common.len(), line.asleep.iter().copied().filter(|&taker| taker < line.in_use).collect())
    }

    /// How many things are in the queue.
    pub(super) fn len(&self) -> usize {
        let line = self.lock();
        line.common.len() + line.own.iter().map(VecDeque::len).sum::<usize>()
    }

    /// Accepts nothing more, and wakes all waiting threads.
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

    /// Puts in what there is room for, and returns the thread to wake for it.
    fn fill(&self, line: &mut Line<T>, batch: &mut VecDeque<T>, now_ns: u64) -> Option<usize> {
        let room = self.bound.saturating_sub(line.common.len()).min(batch.len());
        if line.closed || room == 0 {
            return None;
        }
        line.common.extend(batch.drain(..room).map(|one| (now_ns, one)));
        line.tell();
        line.wake_one()
    }

    /// Wakes a thread that has left the list of sleeping threads. The lock is not held, because the thread
    /// needs it first.
    fn rouse(&self, taker: Option<usize>) {
        match (&self.beds, taker) {
            (_, None) => {}
            (Beds::Own(beds), Some(taker)) => beds[taker].notify_one(),
            // Writing to an eventfd cannot fail here.
            (Beds::Poll(wake), Some(_)) => drop(wake.wake()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Line<T>> {
        self.line.lock().expect(SOUND)
    }
}

impl<T> Line<T> {
    /// Reports the length of the common part.
    fn tell(&self) {
        if let Some(gauge) = self.gauge {
            gauge.set(self.common.len() as u64);
        }
    }

    fn has_something(&self, taker: usize) -> bool {
        let has_common = taker < self.in_use && !self.common.is_empty();
        has_common || !self.own[taker].is_empty() || self.poked[taker] || self.closed
    }

    /// The next thing for a thread: its own things first.
    fn next_for(&mut self, taker: usize) -> Option<(u64, T)> {
        let own = self.own[taker].pop_front();
        own.or_else(|| if taker < self.in_use { self.common.pop_front() } else { None })
    }

    /// Removes from the sleeping threads the one that came last and is in use, unless another one has been
    /// woken already. If it goes out of use before it takes, it finds something left, and wakes another.
    fn wake_one(&mut self) -> Option<usize> {
        if self.called.is_some() {
            return None;
        }
        let at = self.asleep.iter().rposition(|&taker| taker < self.in_use)?;
        self.called = Some(self.asleep.remove(at));
        self.called
    }

    /// That thread has come, for whatever reason.
    fn has_come(&mut self, taker: usize) {
        if self.called == Some(taker) {
            self.called = None;
        }
    }

    /// Removes that thread from the sleeping threads, if it sleeps.
    fn wake(&mut self, taker: usize) -> Option<usize> {
        let at = self.asleep.iter().position(|&other| other == taker)?;
        Some(self.asleep.remove(at))
    }
}

/// A thread that panics ends the process.
const SOUND: &str = "nobody panics with the lock";
