//! How the supervisor speaks to a worker: serve, retire, drain, stop, reopen the logs, take a census.
//!
//! A few words of shared memory, which the supervisor writes and the worker reads, and an eventfd that any
//! loop can wait for beside its sockets. A worker whose supervisor is gone drains by itself.
//!
//! A supervisor that has become another program does not have these words, and sends signals instead. Before,
//! it says so here: signals from anybody else are not orders, and a worker that followed one would leave its
//! place empty.

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

/// The supervisor's end and the worker's end are the same object, made before the fork.
#[derive(Debug)]
pub struct Control {
    words: Shared<Words>,
    wake: Wake,
    supervisor: u32,
    /// The phase that the supervisor has asked for. Its own to look at: what lies in the words may be
    /// somebody else's doing.
    asked: AtomicU8,
    /// The phase that the worker moved on to without having been asked in the words. Of its process alone.
    by_itself: AtomicU8,
    /// What the supervisor listens at for status requests, where its descriptors are the worker's as well.
    endpoint: OnceLock<Arc<Endpoint>>,
    /// Those of the other workers at the same listeners.
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
        /// Threads of the worker that have not come to serve yet. The first of the process is one.
        to_arrive: AtomicU32,
        /// How much of its listeners the worker has let go of; see [`LetGo`].
        let_go: AtomicU8,
        /// The round that the supervisor has called, and the last that the worker has heard.
        round_called: AtomicU32,
        round_heard: AtomicU32,
    }
}

/// How often a thread looks whether all have come to serve.
const UNTIL_ALL_ARRIVE: Duration = Duration::from_millis(1);

/// What a worker is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Serve.
    Run,
    /// Leave the listeners to others, see one's connections to their end, then return.
    Retire,
    /// Accept what is queued, close the listeners, finish what is under way, then return.
    Drain,
    /// Return now.
    Stop,
}

/// How much of its listeners a worker has let go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LetGo {
    /// Of none yet.
    Nothing,
    /// Of those that were to be emptied.
    Retiring,
    /// Of all.
    All,
}

impl Control {
    /// Of a worker that serves, which this process is or will fork.
    ///
    /// # Errors
    ///
    /// There is no memory or no eventfd to be had.
    pub fn new() -> io::Result<Self> {
        Self::of(Crew::new(1)?, 0)
    }

    /// Of a worker with that number in a crew.
    ///
    /// # Errors
    ///
    /// As of [`new`](Self::new).
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

    /// In a worker, after the fork: has the end of the supervisor noticed.
    ///
    /// # Errors
    ///
    /// The kernel has no such notice.
    pub fn attend(self: &Arc<Self>) -> io::Result<()> {
        // For ever, as the signal may come at any time.
        let forever: &'static Arc<Self> = Box::leak(Box::new(Arc::clone(self)));
        signal::wake_on(&[Signal::Terminate, Signal::User2], &forever.wake)?;
        process::signal_at_end_of_parent(Signal::Terminate)?;
        self.wake.wake()
    }

    /// Moves on to a later phase; moving back is not possible.
    pub fn enter(&self, phase: Phase) {
        let before = self.asked.fetch_max(phase as u8, Ordering::Relaxed);
        self.words.phase.store(before.max(phase as u8), Ordering::Release);
        self.wake();
    }

    /// Has orders come by signals from now on, or by these words again.
    pub fn speak_by_signals(&self, by_signals: bool) {
        self.words.by_signals.store(by_signals.into(), Ordering::Release);
    }

    /// In the worker: the phase that it is to be in.
    pub fn phase(&self) -> Phase {
        phase_of(self.words.phase.load(Ordering::Acquire).max(self.by_itself.load(Ordering::Acquire)))
    }

    /// In the supervisor: the phase that it has asked for.
    pub fn asked(&self) -> Phase {
        phase_of(self.asked.load(Ordering::Relaxed))
    }

    /// Has the logs opened anew.
    pub fn reopen_logs(&self) {
        self.words.reopenings.fetch_add(1, Ordering::Release);
        self.wake();
    }

    /// How often that was asked for.
    pub fn reopenings(&self) -> u32 {
        self.words.reopenings.load(Ordering::Acquire)
    }

    /// Before the fork of a worker that has its descriptors in common with the supervisor: what an orphan is
    /// to free for a successor.
    pub fn tell_endpoint(&self, endpoint: &Arc<Endpoint>) {
        // It is the same for each process of this worker.
        let _ = self.endpoint.set(Arc::clone(endpoint));
    }

    /// Before the fork: whom [`call_others`](Self::call_others) calls.
    pub fn introduce(&self, others: Vec<Weak<Self>>) {
        // A worker's company is decided once.
        let _ = self.others.set(others);
    }

    /// In a worker that was woken for a connection and can't accept it: has the others look.
    pub fn call_others(&self) {
        for other in self.others.get().into_iter().flatten().filter_map(Weak::upgrade) {
            other.wake();
        }
    }

    /// In a worker: says how much of its listeners it has let go of.
    pub fn tell_let_go(&self, of: LetGo) {
        self.words.let_go.store(of as u8, Ordering::Release);
    }

    /// How much of its listeners the worker has let go of.
    pub fn let_go(&self) -> LetGo {
        const ALL: [LetGo; 3] = [LetGo::Nothing, LetGo::Retiring, LetGo::All];
        ALL[usize::from(self.words.let_go.load(Ordering::Acquire)).min(2)]
    }

    /// Before another process becomes the worker: what the one before it was told, or told, does not hold any
    /// more.
    pub fn begin(&self) {
        self.words.phase.store(self.asked.load(Ordering::Relaxed), Ordering::Release);
        self.words.to_arrive.store(1, Ordering::Release);
        self.tell_let_go(LetGo::Nothing);
        let called = self.words.round_called.load(Ordering::Acquire);
        self.words.round_heard.store(called.wrapping_sub(1), Ordering::Release);
    }

    /// In the supervisor: the worker's generation is tried from its start on, until
    /// [`end_trial`](Self::end_trial).
    pub fn begin_trial(&self) {
        self.words.on_trial.store(1, Ordering::Release);
    }

    /// In the supervisor: the generation has been confirmed or withdrawn.
    pub fn end_trial(&self) {
        self.words.on_trial.store(0, Ordering::Release);
        self.wake();
    }

    /// In a worker: whether the generation before still serves, and may go on to. Whoever ends need not ask.
    pub fn is_on_trial(&self) -> bool {
        self.words.on_trial.load(Ordering::Acquire) != 0 && self.phase() == Phase::Run
    }

    /// In a worker: a thread is about to be started that [`arrive`](Self::arrive)s.
    pub fn expect_one_more(&self) {
        self.words.to_arrive.fetch_add(1, Ordering::AcqRel);
    }

    /// In a worker: that thread could not be started; or all have been, and this one serves nobody.
    pub fn expect_one_less(&self) {
        self.words.to_arrive.fetch_sub(1, Ordering::AcqRel);
    }

    /// In a worker: this thread has all that it serves with.
    pub fn arrive(&self) {
        faults::at("loop");
        self.words.to_arrive.fetch_sub(1, Ordering::AcqRel);
    }

    /// In a worker: [arrives](Self::arrive), and waits until all have that are expected. Threads that accept
    /// call this: a client would be lost if another thread's start took the process along.
    pub fn arrive_with_all(&self) {
        self.arrive();
        while !self.serves() {
            thread::sleep(UNTIL_ALL_ARRIVE);
        }
    }

    /// Whether all of the worker's threads have come to serve.
    pub fn serves(&self) -> bool {
        self.words.to_arrive.load(Ordering::Acquire) == 0
    }

    /// Calls a round: asks the worker to say that it has been between two turns since.
    pub fn call_round(&self, round: u32) {
        self.words.round_called.store(round, Ordering::Release);
        self.wake();
    }

    /// Whether it has said so.
    pub fn has_heard(&self, round: u32) -> bool {
        self.words.round_heard.load(Ordering::Acquire) == round
    }

    /// In a worker, between two turns: hears the round.
    pub fn hear_round(&self) {
        self.words.round_heard.store(self.words.round_called.load(Ordering::Acquire), Ordering::Release);
    }

    /// Makes the worker look, here, at the census, and at the listeners.
    pub fn wake(&self) {
        // A full eventfd is one that wakes already.
        let _ = self.wake.wake();
    }

    /// In a worker: forgets wake-ups so far, and notices the end of the supervisor, or a signal from one that
    /// has become another program. Look at everything else after this, not before.
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

    /// In a worker that does not come to wait for the wake-up: between two turns, heeds what a signal told,
    /// the end of the supervisor among it. Without a system call if there was none.
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
