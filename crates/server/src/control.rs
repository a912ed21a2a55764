//! The supervisor's requests to a worker: serve, retire, drain, stop, reopen the logs, take a census.
//!
//! The supervisor writes a few words of shared memory, and the worker reads them. An eventfd wakes the
//! worker; any loop can wait for it together with its sockets. A worker whose supervisor is gone drains by
//! itself.
//!
//! A supervisor that has become another program no longer has this memory, and sends signals instead. It
//! announces that here beforehand. Signals from any other sender are not requests: a worker that followed
//! one would end and leave its slot empty.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use sys::process;
use sys::shared::Shared;
use sys::signal::{self, Signal};
use sys::wake::Wake;

use crate::crew::Crew;
use crate::faults;
use crate::status::Endpoint;

/// Supervisor and worker use the same object, created before the fork.
#[derive(Debug)]
pub struct Control {
    words: Shared<Words>,
    wake: Wake,
    supervisor: u32,
    /// The phase that the supervisor has requested. Only the supervisor reads this: another process may
    /// have changed the words.
    asked: AtomicU8,
    /// The phase that the worker entered without a request in the words. Only its process has it.
    by_itself: AtomicU8,
    /// Where the supervisor listens for status requests, if the worker shares its descriptors.
    endpoint: OnceLock<Arc<Endpoint>>,
    /// The `Control`s of the other workers at the same listeners.
    others: OnceLock<Vec<Weak<Control>>>,
    crew: Crew,
    number: usize,
}

sys::shareable! {
    #[derive(Debug)]
    struct Words {
        phase: AtomicU8,
        /// The supervisor has become another program, or is about to.
        by_signals: AtomicU8,
        reopenings: AtomicU32,
        /// Its generation may be withdrawn.
        on_trial: AtomicU8,
        /// Threads of the worker that are not ready to serve yet. The process's first thread is one.
        to_arrive: AtomicU32,
        /// How much of its listeners the worker has released; see [`LetGo`].
        let_go: AtomicU8,
        /// The round that the supervisor has started, and the last one that the worker has answered.
        round_called: AtomicU32,
        round_heard: AtomicU32,
    }
}

/// How often a thread checks whether all are ready to serve.
const UNTIL_ALL_ARRIVE: Duration = Duration::from_millis(1);

/// What a worker is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Serve.
    Run,
    /// Leave the listeners to other workers, finish the connections, then return.
    Retire,
    /// Accept queued connections, close the listeners, finish the work, then return.
    Drain,
    /// Return now.
    Stop,
}

/// How much of its listeners a worker has released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LetGo {
    /// None yet.
    Nothing,
    /// Those that were to be emptied.
    Retiring,
    /// All.
    All,
}

impl Control {
    /// For a worker that serves. This process is that worker, or will fork it.
    ///
    /// # Errors
    ///
    /// There is no memory or no eventfd left.
    pub fn new() -> io::Result<Self> {
        Self::of(Crew::new(1)?, 0)
    }

    /// For a worker with that number in a crew.
    ///
    /// # Errors
    ///
    /// Like [`new`](Self::new).
    pub fn of(crew: Crew, number: usize) -> io::Result<Self> {
        Ok(Self {
            words: Shared::new()?,
            wake: Wake::new()?,
            supervisor: std::process::id(),
            asked: AtomicU8::new(Phase::Run as u8),
            by_itself: AtomicU8::new(Phase::Run as u8),
            endpoint: OnceLock::new(),
            others: OnceLock::new(),
            crew,
            number,
        })
    }

    /// The worker's crew, and its number there.
    pub fn place(&self) -> (Crew, usize) {
        (self.crew.clone(), self.number)
    }

    /// In a worker, after the fork: requests a signal for the end of the supervisor.
    ///
    /// # Errors
    ///
    /// The kernel cannot report that.
    pub fn attend(self: &Arc<Self>) -> io::Result<()> {
        // Lives for ever, because the signal may come at any time.
        let forever: &'static Arc<Self> = Box::leak(Box::new(Arc::clone(self)));
        signal::wake_on(&[Signal::Terminate, Signal::User2], &forever.wake)?;
        process::signal_at_end_of_parent(Signal::Terminate)?;
        self.wake.wake()
    }

    /// Enters a later phase. Going back is not possible.
    pub fn enter(&self, phase: Phase) {
        let before = self.asked.fetch_max(phase as u8, Ordering::Relaxed);
        self.words.phase.store(before.max(phase as u8), Ordering::Release);
        self.wake();
    }

    /// Sets whether requests come as signals from now on, or in these words again.
    pub fn speak_by_signals(&self, by_signals: bool) {
        self.words.by_signals.store(by_signals.into(), Ordering::Release);
    }

    /// In the worker: the phase that it is to be in.
    pub fn phase(&self) -> Phase {
        phase_of(self.words.phase.load(Ordering::Acquire).max(self.by_itself.load(Ordering::Acquire)))
    }

    /// In the supervisor: the phase that it has requested.
    pub fn asked(&self) -> Phase {
        phase_of(self.asked.load(Ordering::Relaxed))
    }

    /// Makes the worker reopen its logs.
    pub fn reopen_logs(&self) {
        self.words.reopenings.fetch_add(1, Ordering::Release);
        self.wake();
    }

    /// How many times that was requested.
    pub fn reopenings(&self) -> u32 {
        self.words.reopenings.load(Ordering::Acquire)
    }

    /// Before the fork of a worker that shares the supervisor's descriptors: sets the status endpoint that
    /// the worker, as an orphan, must free for a successor.
    pub fn tell_endpoint(&self, endpoint: &Arc<Endpoint>) {
        // It is the same for each process of this worker.
        let _ = self.endpoint.set(Arc::clone(endpoint));
    }

    /// Before the fork: sets the workers that [`call_others`](Self::call_others) wakes.
    pub fn introduce(&self, others: Vec<Weak<Self>>) {
        // The other workers are set only once.
        let _ = self.others.set(others);
    }

    /// In a worker that was woken for a connection and cannot accept it: makes the others check their
    /// listeners.
    pub fn call_others(&self) {
        for other in self.others.get().into_iter().flatten().filter_map(Weak::upgrade) {
            other.wake();
        }
    }

    /// In a worker: reports how much of its listeners it has released.
    pub fn tell_let_go(&self, of: LetGo) {
        self.words.let_go.store(of as u8, Ordering::Release);
    }

    /// How much of its listeners the worker has released.
    pub fn let_go(&self) -> LetGo {
        const ALL: [LetGo; 3] = [LetGo::Nothing, LetGo::Retiring, LetGo::All];
        ALL[usize::from(self.words.let_go.load(Ordering::Acquire)).min(2)]
    }

    /// Resets the words before another process becomes the worker. Requests to the previous process, and
    /// its reports, no longer hold.
    pub fn begin(&self) {
        self.words.phase.store(self.asked.load(Ordering::Relaxed), Ordering::Release);
        self.words.to_arrive.store(1, Ordering::Release);
        self.tell_let_go(LetGo::Nothing);
        let called = self.words.round_called.load(Ordering::Acquire);
        self.words.round_heard.store(called.wrapping_sub(1), Ordering::Release);
    }

    /// In the supervisor: the worker's generation is on trial from its start until
    /// [`end_trial`](Self::end_trial).
    pub fn begin_trial(&self) {
        self.words.on_trial.store(1, Ordering::Release);
    }

    /// In the supervisor: the generation has been confirmed or withdrawn.
    pub fn end_trial(&self) {
        self.words.on_trial.store(0, Ordering::Release);
        self.wake();
    }

    /// In a worker: whether the previous generation still serves and may go on to. A worker that is ending
    /// need not know.
    pub fn is_on_trial(&self) -> bool {
        self.words.on_trial.load(Ordering::Acquire) != 0 && self.phase() == Phase::Run
    }

    /// In a worker: a thread is about to start, and will [`arrive`](Self::arrive).
    pub fn expect_one_more(&self) {
        self.words.to_arrive.fetch_add(1, Ordering::AcqRel);
    }

    /// In a worker: that thread could not be started. Or all threads have been started, and this one serves
    /// no clients.
    pub fn expect_one_less(&self) {
        self.words.to_arrive.fetch_sub(1, Ordering::AcqRel);
    }

    /// In a worker: this thread is ready to serve.
    pub fn arrive(&self) {
        faults::at("loop");
        self.words.to_arrive.fetch_sub(1, Ordering::AcqRel);
    }

    /// In a worker: [arrives](Self::arrive), and waits until all expected threads have. Threads that accept
    /// call this: if another thread's start ended the process, a client would be lost.
    pub fn arrive_with_all(&self) {
        self.arrive();
        while !self.serves() {
            thread::sleep(UNTIL_ALL_ARRIVE);
        }
    }

    /// Whether all of the worker's threads are ready to serve.
    pub fn serves(&self) -> bool {
        self.words.to_arrive.load(Ordering::Acquire) == 0
    }

    /// Starts a round: asks the worker to confirm that it has been between two turns since then.
    pub fn call_round(&self, round: u32) {
        self.words.round_called.store(round, Ordering::Release);
        self.wake();
    }

    /// Whether the worker has confirmed this round.
    pub fn has_heard(&self, round: u32) -> bool {
        self.words.round_heard.load(Ordering::Acquire) == round
    }

    /// In a worker, between two turns: confirms the round.
    pub fn hear_round(&self) {
        self.words.round_heard.store(self.words.round_called.load(Ordering::Acquire), Ordering::Release);
    }

    /// Makes the worker check these words, the census, and its listeners.
    pub fn wake(&self) {
        // If the eventfd is full, it wakes the worker already.
        let _ = self.wake.wake();
    }

    /// In a worker: clears wake-ups, and notices the end of the supervisor, or a signal from one that has
    /// become another program. Check everything else after this, not before.
    pub fn heed(&self) {
        let _ = self.wake.clear();
        let (terminated, told_to_retire) =
            (signal::take_arrived(Signal::Terminate), signal::take_arrived(Signal::User2));
        if self.is_orphaned() {
            self.go_on_to(Phase::Drain);
            if let Some(endpoint) = self.endpoint.get() {
                endpoint.stop_listening();
            }
        } else if self.words.by_signals.load(Ordering::Acquire) == 0 {
            if terminated || told_to_retire {
                let supervisor = self.supervisor;
                tracing::info!(
                    "a signal to a worker changes nothing: send it to the supervisor ({supervisor})"
                );
            }
        } else if terminated {
            self.go_on_to(Phase::Drain);
        } else if told_to_retire {
            self.go_on_to(Phase::Retire);
        }
    }

    /// In a worker that does not wait for the wake-up: between two turns, handles signals, including the
    /// end of the supervisor. Makes no system call if there was none.
    pub fn heed_signals(&self) {
        if signal::has_arrived() {
            self.heed();
        }
    }

    fn go_on_to(&self, phase: Phase) {
        self.by_itself.fetch_max(phase as u8, Ordering::Release);
    }

    /// In a worker: whether the supervisor is gone.
    pub fn is_orphaned(&self) -> bool {
        std::process::id() != self.supervisor && process::parent() != self.supervisor
    }
}

fn phase_of(number: u8) -> Phase {
    [Phase::Run, Phase::Retire, Phase::Drain, Phase::Stop][usize::from(number).min(3)]
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
