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
    state: Mutex<State<T>>,
    wakeups: TakerWakeups,
    /// Threads that find no room sleep on this.
    emptied: Condvar,
    bound: usize,
}

/// Where the threads that take from the queue sleep.
#[derive(Debug)]
enum TakerWakeups {
    /// Each one sleeps on its own condition.
    Own(Box<[Condvar]>),
    /// The only thread also waits for events; this is one of them.
    Poll(Arc<Wake>),
}

#[derive(Debug)]
struct State<T> {
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
        let wakeups = (0..takers).map(|_| Condvar::new()).collect();
        Self::with(takers, bound, TakerWakeups::Own(wakeups))
    }

    /// An empty queue for a single thread. The thread announces that it will sleep, and this event wakes
    /// it.
    pub(super) fn polled(bound: usize, wake: Arc<Wake>) -> Self {
        Self::with(1, bound, TakerWakeups::Poll(wake))
    }

    fn with(takers: usize, bound: usize, wakeups: TakerWakeups) -> Self {
        let state = State {
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
        Self { state: Mutex::new(state), wakeups, emptied: Condvar::new(), bound }
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
            let mut state = self.lock();
            let woken = self.fill(&mut state, batch, now_ns);
            if woken.is_some() {
                drop(state);
                self.rouse(woken);
                state = self.lock();
            }
            if batch.is_empty() || state.closed {
                return has_waited;
            }
            if state.common.len() >= self.bound {
                has_waited = true;
                state.without_room += 1;
                state = self.emptied.wait(state).expect(SOUND);
                state.without_room -= 1;
            }
        }
    }

    /// Gives as much of the batch as there is room for. If some of it is left, a thread that takes will
    /// learn that there [is room](Taken::has_room).
    pub(super) fn offer(&self, batch: &mut VecDeque<T>, now_ns: u64) {
        let mut state = self.lock();
        let woken = self.fill(&mut state, batch, now_ns);
        state.calls |= !batch.is_empty();
        drop(state);
        self.rouse(woken);
    }

    /// Gives back what has been in the queue before.
    pub(super) fn give_back(&self, batch: &mut Vec<T>, now_ns: u64) {
        if batch.is_empty() {
            return;
        }
        let mut state = self.lock();
        let woken = if state.closed {
            None
        } else {
            state.common.extend(batch.drain(..).map(|one| (now_ns, one)));
            state.tell();
            state.wake_one()
        };
        drop(state);
        self.rouse(woken);
    }

    /// Gives something that only one of the threads may take.
    pub(super) fn give_to(&self, taker: usize, one: T, now_ns: u64) {
        let mut state = self.lock();
        state.own[taker].push_back((now_ns, one));
        let woken = state.wake(taker);
        drop(state);
        self.rouse(woken);
    }

    /// Makes one of the threads look for something outside this queue.
    pub(super) fn poke(&self, taker: usize) {
        let mut state = self.lock();
        state.poked[taker] = true;
        let woken = state.wake(taker);
        drop(state);
        self.rouse(woken);
    }

    /// Takes at most `most` things, those for this thread alone first. If there is nothing, it sleeps until
    /// something comes, for `timeout` at most, or without a limit (`None`).
    pub(super) fn take(
        &self,
        taker: usize,
        most: usize,
        timeout: Option<Duration>,
        into: &mut Vec<T>,
    ) -> Taken {
        let mut state = self.lock();
        if let TakerWakeups::Own(wakeups) = &self.wakeups
            && !state.has_something(taker)
            && timeout != Some(Duration::ZERO)
        {
            state.asleep.push(taker);
            state = match timeout {
                None => wakeups[taker].wait(state).expect(SOUND),
                Some(timeout) => wakeups[taker].wait_timeout(state, timeout).expect(SOUND).0,
            };
        }
        state.asleep.retain(|&other| other != taker);
        state.has_come(taker);
        let mut came = Taken { is_poked: state.poked[taker], is_closed: state.closed, ..Taken::default() };
        state.poked[taker] = false;
        for _ in 0..most {
            let Some((since_ns, one)) = state.next_for(taker) else { break };
            came.since_ns = came.since_ns.wrapping_add(since_ns);
            into.push(one);
        }
        let left = state.common.len();
        state.tell();
        let has_room = left <= self.bound / 2;
        came.has_room = has_room && std::mem::take(&mut state.calls);
        let is_awaited = has_room && state.without_room > 0;
        let woken = if left > 0 { state.wake_one() } else { None };
        drop(state);
        if is_awaited {
            self.emptied.notify_all();
        }
        self.rouse(woken);
        came
    }

    /// For the only thread of a [polled](Self::polled) queue, when it is about to sleep: returns whether it
    /// may. If something comes before the thread takes again, the thread is woken.
    pub(super) fn may_sleep(&self) -> bool {
        let mut state = self.lock();
        state.has_come(0);
        let may = !state.has_something(0);
        if may && state.asleep.is_empty() {
            state.asleep.push(0);
        }
        may
    }

    /// Lets only this many of the threads take from the common part, those with the lowest numbers. There
    /// is at least one. At first all of them take from it.
    pub(super) fn use_takers(&self, in_use: usize) {
        let mut state = self.lock();
        state.in_use = in_use.clamp(1, state.own.len());
        let woken = if state.common.is_empty() { None } else { state.wake_one() };
        drop(state);
        self.rouse(woken);
    }

    /// The length of the common part, and which of the threads in use sleep.
    pub(super) fn state(&self) -> (usize, Vec<usize>) {
        let state = self.lock();
        (state.common.len(), state.asleep.iter().copied().filter(|&taker| taker < state.in_use).collect())
    }

    /// How many things are in the queue.
    pub(super) fn len(&self) -> usize {
        let state = self.lock();
        state.common.len() + state.own.iter().map(VecDeque::len).sum::<usize>()
    }

    /// Accepts nothing more, and wakes all waiting threads.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.asleep.clear();
        drop(state);
        match &self.wakeups {
            TakerWakeups::Own(wakeups) => wakeups.iter().for_each(Condvar::notify_all),
            TakerWakeups::Poll(_) => self.rouse(Some(0)),
        }
        self.emptied.notify_all();
    }

    /// Puts in what there is room for, and returns the thread to wake for it.
    fn fill(&self, state: &mut State<T>, batch: &mut VecDeque<T>, now_ns: u64) -> Option<usize> {
        let room = self.bound.saturating_sub(state.common.len()).min(batch.len());
        if state.closed || room == 0 {
            return None;
        }
        state.common.extend(batch.drain(..room).map(|one| (now_ns, one)));
        state.tell();
        state.wake_one()
    }

    /// Wakes a thread that has left the list of sleeping threads. The lock is not held, because the thread
    /// needs it first.
    fn rouse(&self, taker: Option<usize>) {
        match (&self.wakeups, taker) {
            (_, None) => {}
            (TakerWakeups::Own(wakeups), Some(taker)) => wakeups[taker].notify_one(),
            // Writing to an eventfd cannot fail here.
            (TakerWakeups::Poll(wake), Some(_)) => drop(wake.wake()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().expect(SOUND)
    }
}

impl<T> State<T> {
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
