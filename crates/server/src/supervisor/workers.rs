//! The workers: forks them, restarts those that die, and replaces one generation by the next.
//!
//! The next generation starts on trial ([`propose`](Workers::propose)). It serves beside the current
//! generation, which continues as before, until each new worker serves. Then the next generation is
//! [confirmed](Workers::confirm) and the one before retires, or the next one is
//! [withdrawn](Workers::withdraw).
//!
//! Each worker has a slot (a [`Place`]), with blocks of counters that outlive its processes. A worker
//! that dies is restarted at once. One that keeps dying is restarted after a growing pause. When retired
//! workers end, their counts are added to a block of the past.

use std::collections::HashSet;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use sys::descriptors::Ledger;
use sys::process::{self, Ended};
use sys::shared::Shared;
use sys::signal::Signal;

use super::common_table::CommonTable;
use super::{exit_code, remedy, url_of, worker};
use crate::access_log::LogFile;
use crate::common::Common;
use crate::config::{Role, Settings};
use crate::content::SharedFiles;
use crate::control::{Control, LetGo, Phase};
use crate::counters::Counters;
use crate::crew::Crew;
use crate::listeners::{Listener, Listeners, Share};
use crate::names::Watched;
use crate::placement::Position;
use crate::queues::{Lines, Queues};
use crate::status::{Endpoint, ListenerSource, Sources, WorkerSource};
use crate::tls::{Certificates, Vault};

/// All workers of this server.
pub(super) struct Workers {
    /// Workers that serve.
    serving: Vec<Place>,
    /// The generation on trial.
    next: Option<Next>,
    /// Workers of earlier generations, which finish what they began before a reload.
    retired: Vec<Place>,
    /// Workers that another program forked before this process became the current one, even those about
    /// to end. Signals are the only way to reach them.
    adopted: Vec<u32>,
    /// The adopted workers have been told to retire.
    relieved: bool,
    /// What only the supervisor uses.
    secret: Option<Arc<UnixStream>>,
    /// The counts of workers that are gone.
    past: &'static Counters,
    /// Blocks of counters that no worker uses.
    spare: Vec<&'static Counters>,
    /// A worker has lived for a while, or has served a client.
    lived: bool,
    /// The descriptor table, once there are workers that share it with the supervisor.
    common_table: Option<CommonTable>,
    /// The supervisor's listener for status requests. Workers do not use it.
    endpoint: Option<Arc<Endpoint>>,
    /// The access logs that workers write to, opened while that was permitted.
    access_logs: Vec<Arc<LogFile>>,
    /// How many retired workers still had their listeners at the last check.
    leaving: usize,
    /// The application queues that the serving workers share.
    queues: Option<Queues>,
    /// The queues of all applications that have existed.
    lines: Lines,
    /// How many handles to queues have been given out, to workers of all generations.
    queue_handles: u32,
}

/// A generation on trial.
struct Next {
    places: Vec<Place>,
    /// The listeners of each copy. Some may be open for this generation alone.
    listeners: Vec<Listeners>,
    access_logs: Vec<Arc<LogFile>>,
    queues: Queues,
    /// How the first worker to end has ended.
    failure: Option<String>,
}

/// The state of a trial.
pub(super) enum Outcome {
    /// Some workers do not serve yet.
    Open,
    /// All workers serve.
    Serves,
    /// A worker has ended.
    Failed(String),
}

/// The slot of a worker that runs, or will run again.
struct Place {
    number: usize,
    position: Position,
    /// The CPUs that it runs on; `None`: any.
    cpus: Option<Vec<usize>>,
    control: Arc<Control>,
    /// One block for each serving thread.
    counters: Vec<&'static Counters>,
    /// The number of threads that own connections. The blocks are divided among them.
    owners: usize,
    state: State,
    /// Deaths in succession, each soon after the start.
    quick_deaths: u32,
    /// For a worker that shares its descriptor table with others.
    in_common: Option<InCommon>,
    /// The queues that its threads share with the other workers.
    queues: Queues,
    /// What it needs for TLS.
    vault: Arc<Vault>,
}

/// Extra data for workers that share a descriptor table.
struct InCommon {
    files: SharedFiles,
    /// The process that runs, or ran last.
    worker: Option<Common>,
    /// The listeners that the worker accepts from. Closing them here would close them for the worker,
    /// too.
    share: Share,
}

#[derive(Clone, Copy)]
enum State {
    Runs {
        pid: u32,
        since: Instant,
        /// How many connections earlier processes in this slot had accepted.
        accepted_before: u64,
    },
    Restarts {
        at: Instant,
    },
    Gone,
}

/// A worker that dies sooner than this after its start will probably do so again.
pub(super) const QUICK: Duration = Duration::from_secs(1);
/// The longest pause before a worker is restarted.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// After this many quick deaths of a worker, if no worker has ever lived, none ever will.
const HOPELESS: u32 = 5;
/// How often to check whether workers have let go of listeners, or have been between turns.
const TIDYING: Duration = Duration::from_millis(10);

impl Workers {
    /// No workers at first, except those of the program before.
    pub(super) fn new(mut adopted: Vec<u32>, endpoint: Option<Arc<Endpoint>>) -> io::Result<Self> {
        // If a script ran between the two programs, it may have reaped some.
        adopted.retain(|&pid| process::ended(pid).is_ok());
        Ok(Self {
            serving: Vec::new(),
            next: None,
            retired: Vec::new(),
            adopted,
            relieved: false,
            past: Shared::<Counters>::new()?.leak(),
            spare: Vec::new(),
            lived: false,
            common_table: None,
            endpoint,
            access_logs: Vec::new(),
            secret: None,
            leaving: 0,
            queues: None,
            lines: Lines::default(),
            queue_handles: 0,
        })
    }

    /// From now on, processes that are started close this first.
    pub(super) fn keep_from_all(&mut self, secret: Option<Arc<UnixStream>>) {
        self.secret = secret;
    }

    /// Starts the first generation. If workers of the program before serve, what cannot be started now is
    /// started later.
    ///
    /// # Errors
    ///
    /// There are not enough processes, and no other workers serve.
    pub(super) fn begin(
        &mut self,
        settings: &Settings,
        copies: &[Listeners],
        retiring: &Listeners,
        (access_logs, vault): (Vec<Arc<LogFile>>, &Arc<Vault>),
    ) -> io::Result<()> {
        let mut places = Vec::new();
        let shared = (&*access_logs, vault);
        let started = self.start_into(&mut places, settings, copies, retiring, shared, false);
        self.access_logs = access_logs;
        self.serving = places;
        match started {
            Ok(queues) => self.queues = Some(queues),
            Err(error) if self.adopted.is_empty() || self.serving.is_empty() => return Err(error),
            Err(error) => {
                tracing::error!("cannot start all workers yet: {error}{}", remedy(&error));
                let is_missing = |place: &&mut Place| matches!(place.state, State::Gone);
                for place in self.serving.iter_mut().filter(is_missing) {
                    place.state = State::Restarts { at: Instant::now() + LONGEST_PAUSE };
                }
                self.queues = self.serving.first().map(|place| place.queues.clone());
            }
        }
        Ok(())
    }

    /// Starts the next generation, which serves beside the current one at first. `copies` are the
    /// listeners of each copy. `retiring` are the listeners that no worker is to use any more.
    ///
    /// # Errors
    ///
    /// There are not enough processes. Then nothing has changed.
    pub(super) fn propose(
        &mut self,
        settings: &Settings,
        copies: &[Listeners],
        retiring: &Listeners,
        (access_logs, vault): (Vec<Arc<LogFile>>, &Arc<Vault>),
    ) -> io::Result<()> {
        let mut places = Vec::new();
        match self.start_into(&mut places, settings, copies, retiring, (&access_logs, vault), true) {
            Ok(queues) => {
                let listeners = copies.to_vec();
                self.next = Some(Next { places, listeners, access_logs, queues, failure: None });
                Ok(())
            }
            Err(error) => {
                self.retire(places);
                Err(error)
            }
        }
    }

    /// The state of the trial.
    pub(super) fn outcome(&self) -> Outcome {
        match &self.next {
            Some(Next { failure: Some(why), .. }) => Outcome::Failed(why.clone()),
            Some(next) if !next.places.iter().all(|place| place.control.serves()) => Outcome::Open,
            _ => Outcome::Serves,
        }
    }

    /// Confirms the generation on trial. It replaces the one before, which retires.
    pub(super) fn confirm(&mut self) {
        let Some(next) = self.next.take() else { return };
        let before = std::mem::replace(&mut self.serving, next.places);
        (self.access_logs, self.queues) = (next.access_logs, Some(next.queues));
        // This comes first. When the generation before leaves a retiring listener, the workers that see
        // that empty it.
        self.serving.iter().for_each(|place| place.control.end_trial());
        self.retire(before);
    }

    /// Withdraws the generation on trial. Its clients are served to the end, and workers that do not
    /// serve yet are killed.
    pub(super) fn withdraw(&mut self) {
        if let Some(next) = self.next.take() {
            self.retire(next.places);
        }
        self.serving.iter().for_each(|place| place.control.wake());
    }

    /// Kills workers on trial that do not serve yet.
    pub(super) fn kill_late(&self) {
        self.next.iter().flat_map(|next| &next.places).for_each(Place::kill_if_late);
    }

    /// Retires workers. Their slots are kept until the last of them has ended.
    fn retire(&mut self, mut places: Vec<Place>) {
        for place in &mut places {
            place.control.end_trial();
            place.control.enter(Phase::Retire);
            place.stay_away();
            // The worker may hang and not notice. Then it would keep the listeners forever.
            place.kill_if_late();
        }
        self.retired.append(&mut places);
        self.clear_away();
        self.leaving = self.count_leaving();
    }

    /// Starts a generation that logs to `access_logs`, either on trial or confirmed.
    fn start_into(
        &mut self,
        places: &mut Vec<Place>,
        settings: &Settings,
        copies: &[Listeners],
        retiring: &Listeners,
        (access_logs, vault): (&[Arc<LogFile>], &Arc<Vault>),
        on_trial: bool,
    ) -> io::Result<Queues> {
        let usable = settings.cpus.clone().map_or_else(process::allowed_cpus, Ok)?;
        let layout = settings.layout();
        let crews = (0..settings.copies).map(|_| Crew::new(layout.processes));
        let crews = crews.collect::<io::Result<Vec<_>>>()?;
        let files = self.shared_files(settings)?;
        let threads = layout.threads(Role::Serve);
        let queue_handles = Position::all(settings).count() * threads;
        let queues = Queues::new(settings, queue_handles, self.queue_handles, &mut self.lines)?;
        self.queue_handles = self.queue_handles.wrapping_add(queue_handles as u32);
        for (number, position) in Position::all(settings).enumerate() {
            let control = Arc::new(Control::of(crews[position.copy].clone(), position.worker)?);
            if on_trial {
                control.begin_trial();
            }
            let block = |_| self.spare.pop().map_or_else(|| Shared::new().map(Shared::leak), Ok);
            let counters = (0..threads).map(block).collect::<io::Result<_>>()?;
            let cpus = position.cpus(settings, &usable);
            let (state, quick_deaths) = (State::Gone, 0);
            let in_common = files.get(position.copy).cloned().map(InCommon::new);
            let queues = queues.clone();
            places.push(Place {
                number,
                position,
                cpus,
                control,
                counters,
                owners: layout.owners(),
                state,
                quick_deaths,
                in_common,
                queues,
                vault: Arc::clone(vault),
            });
        }
        for place in &*places {
            let others = places.iter().filter(|other| place.is_beside(other));
            place.control.introduce(others.map(|other| Arc::downgrade(&other.control)).collect());
        }
        let foreign = self.foreign(copies, access_logs);
        let (common, endpoint) = (&mut self.common_table, self.endpoint.as_ref());
        places.iter_mut().try_for_each(|place| {
            place.start(settings, copies, retiring, common.as_mut(), access_logs, (&foreign, endpoint))
        })?;
        Ok(queues)
    }

    /// The access logs that workers write to.
    pub(super) fn access_logs(&self) -> &[Arc<LogFile>] {
        &self.access_logs
    }

    /// Handles the end of a process that may be a worker.
    pub(super) fn note_end(&mut self, pid: u32, how: Ended, phase: Phase) {
        if let Some(at) = self.adopted.iter().position(|&adopted| adopted == pid) {
            self.adopted.swap_remove(at);
            self.serving.iter().for_each(|place| place.control.wake());
            return;
        }
        let is_it = |place: &&mut Place| place.pid() == Some(pid);
        let on_trial = self.next.iter_mut().flat_map(|next| &mut next.places).any(|place| is_it(&place));
        let all = self.serving.iter_mut().chain(&mut self.retired);
        let mut all = all.chain(self.next.iter_mut().flat_map(|next| &mut next.places));
        let Some(place) = all.find(is_it) else { return };
        let State::Runs { since, .. } = place.state else { return };
        let expected = place.control.asked() != Phase::Run && how == Ended::Code(0);
        if !expected {
            tracing::error!("{} has ended with {how}", place.who(pid));
        }
        let in_common = place.in_common.as_mut();
        let gone = in_common.and_then(|common| common.worker.take().zip(Some(common.files.clone())));
        place.counters.iter().for_each(|block| block.settle());
        place.give_back_queued();
        self.lived |= since.elapsed() >= QUICK || place.counters.iter().any(|block| block.accepts.get() > 0);
        let failure = on_trial.then(|| format!("{} has ended with {how}", place.who(pid)));
        if phase == Phase::Run && place.control.asked() == Phase::Run && !on_trial {
            place.quick_deaths = if since.elapsed() < QUICK { place.quick_deaths + 1 } else { 0 };
            place.state = State::Restarts { at: Instant::now() + pause(place.quick_deaths) };
        } else {
            place.state = State::Gone;
        }
        if let Some((worker, files)) = gone {
            self.clean_up(&worker, &files);
        }
        if let Some(next) = &mut self.next
            && next.failure.is_none()
        {
            next.failure = failure;
        }
        // It may have been the only worker that was woken for a connection.
        self.serving.iter().for_each(|place| place.control.wake());
        self.clear_away();
    }

    /// When the next worker is to be restarted, if any.
    pub(super) fn restart_due(&self) -> Option<Instant> {
        let due = |place: &Place| if let State::Restarts { at } = place.state { Some(at) } else { None };
        self.serving.iter().filter_map(due).min()
    }

    /// Restarts the workers whose time has come. If there is no process for one now, it is tried again
    /// later.
    pub(super) fn restart(&mut self, settings: &Settings, copies: &[Listeners]) {
        let due = |place: &Place| matches!(place.state, State::Restarts { at } if at <= Instant::now());
        if !self.serving.iter().any(due) {
            return;
        }
        let foreign = self.foreign(copies, &self.access_logs);
        let (retiring, endpoint) = (Listeners::new(), self.endpoint.as_ref());
        for place in &mut self.serving {
            if !due(place) {
                continue;
            }
            let not_its_own = (&foreign, endpoint);
            let (common, logs) = (self.common_table.as_mut(), &*self.access_logs);
            match place.start(settings, copies, &retiring, common, logs, not_its_own) {
                // Counted for the process, however many threads it has.
                Ok(()) => place.counters[0].restarts.add(1),
                Err(error) => {
                    let what = remedy(&error);
                    tracing::error!("cannot start worker {} again: {error}{what}", place.number);
                    place.state = State::Restarts { at: Instant::now() + LONGEST_PAUSE };
                }
            }
        }
    }

    /// When to call [`tidy`](Self::tidy) next, if there is anything to wait for.
    pub(super) fn tidying_due(&self) -> Option<Instant> {
        let waits_for_round = self.common_table.as_ref().is_some_and(|table| table.pending_round().is_some());
        let waits = waits_for_round || self.leaving > 0 || self.all().any(Place::keeps_listeners);
        waits.then(|| Instant::now() + TIDYING).into_iter().chain(self.relief_due()).min()
    }

    /// When the workers of the program before are to retire: once each copy has a worker of this program
    /// that did not die soon after its start.
    fn relief_due(&self) -> Option<Instant> {
        if self.relieved || self.adopted.is_empty() {
            return None;
        }
        let due = |copy| self.serving.iter().filter_map(|place| place.steady_at(copy)).min();
        let copies = self.serving.iter().map(|place| place.position.copy).max()? + 1;
        (0..copies).map(due).collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Does three kinds of regular work.
    ///
    /// - Retires the workers of the program before when they are not needed any more.
    /// - Wakes the serving workers when a retired worker has left its listeners to them. It may have been
    ///   the only one that was woken for a connection, and have had no room for it.
    /// - If descriptors are shared, closes listeners that workers have let go of, and descriptors that
    ///   belong to no process.
    pub(super) fn tidy(&mut self) {
        let leaving = self.count_leaving();
        if leaving < std::mem::replace(&mut self.leaving, leaving) {
            self.serving.iter().for_each(|place| place.control.wake());
        }
        let on_trial = self.next.iter_mut().flat_map(|next| &mut next.places);
        for place in self.serving.iter_mut().chain(&mut self.retired).chain(on_trial) {
            place.drop_listeners();
        }
        if self.relief_due().is_some_and(|due| due <= Instant::now()) {
            (self.relieved, self.lived) = (true, true);
            self.send_adopted(Signal::User2);
        }
        let Some(round) = self.common_table.as_ref().and_then(CommonTable::pending_round) else { return };
        if self.all().all(|place| place.living().is_none() || place.control.has_heard(round)) {
            let living = self.living();
            if let Some(table) = &mut self.common_table {
                table.look_again(&living);
            }
        }
    }

    /// Takes the marks away before another program is executed. A descriptor marked as unowned would be
    /// inherited by it.
    pub(super) fn unmark_descriptors(&mut self) {
        if let Some(table) = &mut self.common_table {
            table.forget_suspects();
        }
    }

    /// How many retired workers still have their listeners.
    fn count_leaving(&self) -> usize {
        let is_leaving = |place: &&Place| place.pid().is_some() && place.control.let_go() != LetGo::All;
        self.retired.iter().filter(is_leaving).count()
    }

    /// Call this before executing another program, which can only send signals to workers, and again if
    /// that fails.
    pub(super) fn speak_by_signals(&self, by_signals: bool) {
        self.all().for_each(|place| place.control.speak_by_signals(by_signals));
    }

    /// What a forked process must close. It has copies of all that the supervisor has open, and uses only
    /// these listeners and access logs.
    pub(super) fn foreign(&self, known: &[Listeners], known_logs: &[Arc<LogFile>]) -> Foreign {
        let is_known = |held: &&Arc<Listener>| known.iter().flatten().any(|one| Arc::ptr_eq(one, held));
        let in_common = self.all().filter_map(|place| place.in_common.as_ref());
        let held =
            in_common.flat_map(|in_common| in_common.share.serving.iter().chain(&in_common.share.retiring));
        let on_trial = self.next.iter().flat_map(|next| next.listeners.iter().flatten());
        let listeners = held.chain(on_trial).filter(|held| !is_known(held)).map(Arc::clone).collect();
        let logs = self.access_logs.iter().chain(self.next.iter().flat_map(|next| &next.access_logs));
        let is_foreign = |log: &&Arc<LogFile>| !known_logs.iter().any(|known| Arc::ptr_eq(log, known));
        let ledger = self.common_table.as_ref().map(|table| table.ledger);
        let access_logs = logs.filter(is_foreign).cloned().collect();
        Foreign { ledger, listeners, access_logs, secret: self.secret.clone() }
    }

    /// Tables of open files for the copies of a generation, if its workers share them.
    fn shared_files(&mut self, settings: &Settings) -> io::Result<Vec<SharedFiles>> {
        if !settings.layout().shares_descriptors {
            return Ok(Vec::new());
        }
        let mut table = self.common_table.take().map_or_else(CommonTable::new, Ok)?;
        let files = (0..settings.copies).map(|_| table.files(settings)).collect();
        self.common_table = Some(table);
        files
    }

    /// Cleans up after a worker that shared its descriptor table with the others.
    fn clean_up(&mut self, worker: &Common, files: &SharedFiles) {
        let living = self.living();
        let Some(table) = &mut self.common_table else { return };
        let round = table.clean_up(worker, files, &living);
        self.all().for_each(|place| place.control.call_round(round));
    }

    /// The owners in the ledger that are alive.
    fn living(&self) -> HashSet<u32> {
        self.all().filter_map(Place::living).collect()
    }

    /// Whether every attempt to start a worker has failed, and there are none of the program before.
    pub(super) fn never_lived(&self) -> bool {
        !self.lived
            && self.adopted.is_empty()
            && self.serving.iter().any(|place| place.quick_deaths >= HOPELESS)
    }

    /// Moves all workers on to a later phase. This ends a trial.
    pub(super) fn enter(&mut self, phase: Phase) {
        self.retired.extend(self.next.take().into_iter().flat_map(|next| next.places));
        match phase {
            Phase::Run => {}
            Phase::Retire => self.send_adopted(Signal::User2),
            Phase::Drain => self.send_adopted(Signal::Terminate),
            Phase::Stop => self.kill_adopted(),
        }
        for place in self.all() {
            place.control.enter(phase);
        }
        self.serving.iter_mut().for_each(Place::stay_away);
    }

    pub(super) fn reopen_logs(&self) {
        self.all().for_each(|place| place.control.reopen_logs());
        // For workers that start later.
        let on_trial = self.next.iter().flat_map(|next| &next.access_logs);
        let is_new = |log: &&Arc<LogFile>| !self.access_logs.iter().any(|other| Arc::ptr_eq(other, log));
        for log in self.access_logs.iter().chain(on_trial.filter(is_new)) {
            if let Err(error) = log.reopen() {
                tracing::error!("cannot reopen access log {}: {error}", log.target());
            }
        }
    }

    /// The process ids of running workers.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.all().filter_map(Place::pid).chain(self.adopted.iter().copied()).collect()
    }

    /// Kills all workers that have not ended.
    pub(super) fn kill(&self) {
        self.kill_adopted();
        for place in self.all() {
            if let Some(pid) = place.pid() {
                tracing::error!("{} does not exit, and is killed", place.who(pid));
                let _ = process::kill(pid);
            }
        }
    }

    /// Whether all workers have ended.
    pub(super) fn are_gone(&self) -> bool {
        self.adopted.is_empty() && self.all().all(|place| matches!(place.state, State::Gone))
    }

    /// How many TLS handshakes have been refused since the server has started.
    pub(super) fn handshakes_refused(&self) -> u64 {
        let blocks = self.all().flat_map(|place| &place.counters).copied().chain([self.past]);
        blocks.map(|block| block.tls_handshakes_refused.get()).sum()
    }

    /// The sources of what the status endpoint reports.
    pub(super) fn sources(
        &self,
        settings: &Settings,
        started: SystemTime,
        copies: &[Listeners],
        vault: &Arc<Vault>,
    ) -> Sources {
        // The status counts as a worker what owns connections.
        let threads = |place: &Place| -> Vec<_> {
            let worker = |counters: &[&'static Counters]| {
                let control = Arc::clone(&place.control);
                WorkerSource { counters: counters.to_vec(), wake: Box::new(move || control.wake()) }
            };
            place.counters.chunks(place.counters.len() / place.owners).map(worker).collect()
        };
        let of_tls = settings.tls_addresses();
        let listener = |listener: &Arc<Listener>| ListenerSource {
            address: url_of(listener, &of_tls),
            socket: Arc::clone(listener),
        };
        let sources = Sources::new(
            settings.architecture.name(),
            started,
            self.serving.iter().flat_map(threads).collect(),
            self.retired.iter().flat_map(threads).collect(),
            self.past,
            copies.iter().flatten().map(listener).collect(),
            self.queues.clone(),
        );
        if settings.tls.listen.is_empty() {
            return sources;
        }
        sources.with_certificates(Certificates::new(settings, vault))
    }

    /// The names that the serving workers have applications at.
    pub(super) fn names(&self) -> Vec<Watched> {
        let names = self.queues.iter().flat_map(Queues::names);
        names.map(|(host, addresses)| Watched { host: host.to_owned(), addresses }).collect()
    }

    /// Drops retired workers that are gone.
    fn clear_away(&mut self) {
        let (past, spare) = (self.past, &mut self.spare);
        self.retired.retain_mut(|place| {
            let gone = matches!(place.state, State::Gone);
            if gone {
                place.counters.iter().for_each(|block| block.retire_to(past));
                spare.append(&mut place.counters);
            }
            !gone
        });
        if let Some(mut table) = self.common_table.take() {
            let keepers: HashSet<u32> = self
                .all()
                .filter_map(|place| place.in_common.as_ref())
                .map(|in_common| in_common.files.keeper())
                .collect();
            table.close_unused(|keeper| keepers.contains(&keeper));
            self.common_table = Some(table);
        }
    }

    fn send_adopted(&self, signal: Signal) {
        // A worker that has ended will be reaped.
        self.adopted.iter().for_each(|&pid| drop(process::send(pid, signal)));
    }

    fn kill_adopted(&self) {
        self.adopted.iter().for_each(|&pid| drop(process::kill(pid)));
    }

    fn all(&self) -> impl Iterator<Item = &Place> {
        let on_trial = self.next.iter().flat_map(|next| &next.places);
        self.serving.iter().chain(&self.retired).chain(on_trial)
    }
}

impl Place {
    /// Whether the two are workers of the same copy.
    fn is_beside(&self, other: &Self) -> bool {
        self.number != other.number && self.position.copy == other.position.copy
    }

    /// Gives back the slots that its threads held in shared queues.
    fn give_back_queued(&self) {
        let threads = self.counters.len();
        (0..threads).for_each(|thread| self.queues.clear(self.number * threads + thread));
    }

    fn start(
        &mut self,
        settings: &Settings,
        copies: &[Listeners],
        retiring: &Listeners,
        common_table: Option<&mut CommonTable>,
        access_logs: &[Arc<LogFile>],
        (foreign, endpoint): (&Foreign, Option<&Arc<Endpoint>>),
    ) -> io::Result<()> {
        let (control, cpus, name) = (Arc::clone(&self.control), self.cpus.as_deref(), self.name());
        control.begin();
        let accepted_before = self.accepted();
        let serving = self.position.listeners(settings, &copies[self.position.copy]);
        let queue_handle = |thread| self.queues.queue_handle(self.number * self.counters.len() + thread);
        let threads: Vec<_> =
            self.counters.iter().zip(0..).map(|(&block, at)| (block, queue_handle(at))).collect();
        let work = |share: Share, common: Option<(&Common, &SharedFiles)>| {
            let shared = (access_logs, &self.vault);
            let ended = worker::serve(settings, cpus, share, &threads, control, common, shared);
            exit_code("a worker", ended)
        };
        let pid = match (&mut self.in_common, common_table) {
            (Some(in_common), Some(table)) => {
                if let Some(endpoint) = endpoint {
                    self.control.tell_endpoint(endpoint);
                }
                let share = Share { serving, retiring: retiring.clone() };
                in_common.share = share.clone();
                let common = table.join(self.position.worker);
                in_common.worker = Some(common.clone());
                let common = Some((&common, &in_common.files));
                process::fork_sharing_descriptors(|| {
                    process::set_name(&name);
                    work(share, common)
                })?
            }
            _ => process::fork(|| {
                process::set_name(&name);
                let of_others =
                    |listener: &&Arc<Listener>| !serving.iter().any(|own| Arc::ptr_eq(own, listener));
                copies.iter().flatten().filter(of_others).for_each(|listener| listener.close());
                foreign.close(retiring);
                if let Some(endpoint) = endpoint {
                    endpoint.close();
                }
                let share = Share { serving, retiring: retiring.clone() };
                work(share, None)
            })?,
        };
        for block in &self.counters {
            block.pid.store(pid, std::sync::atomic::Ordering::Relaxed);
        }
        self.state = State::Runs { pid, since: Instant::now(), accepted_before };
        Ok(())
    }

    /// The name in process lists, at most 15 bytes. The supervisor is named after its file, so
    /// `killall sluice` and the like reach it alone.
    fn name(&self) -> String {
        let number = self.number;
        if number < 100 { format!("sluice:worker{number}") } else { format!("sluice:w{number}") }
    }

    /// When it will have lived for a while, if it runs and belongs to that copy.
    fn steady_at(&self, copy: usize) -> Option<Instant> {
        match self.state {
            State::Runs { since, .. } if self.position.copy == copy => Some(since + QUICK),
            _ => None,
        }
    }

    /// How many connections all processes in this slot have accepted.
    fn accepted(&self) -> u64 {
        self.counters.iter().map(|block| block.accepts.get()).sum()
    }

    /// Kills the worker if it does not serve yet and has no client that would be lost with it.
    fn kill_if_late(&self) {
        let State::Runs { pid, accepted_before, .. } = self.state else { return };
        if !self.control.serves() && self.accepted() == accepted_before {
            // At once, because it may be about to serve.
            let _ = process::kill(pid);
            tracing::error!("{} has not started to serve, and is killed", self.who(pid));
        }
    }

    /// Does not restart the worker if it has died.
    fn stay_away(&mut self) {
        if matches!(self.state, State::Restarts { .. }) {
            self.state = State::Gone;
        }
    }

    /// The worker's owner number in the ledger, if it has one and runs.
    fn living(&self) -> Option<u32> {
        self.pid()?;
        self.in_common.as_ref()?.worker.as_ref().map(|worker| worker.owner)
    }

    /// Whether there are listeners that the worker is still to let go of.
    fn keeps_listeners(&self) -> bool {
        let is_leaving = self.control.asked() != Phase::Run;
        self.in_common.as_ref().is_some_and(|in_common| {
            let Share { serving, retiring } = &in_common.share;
            !retiring.is_empty() || is_leaving && !serving.is_empty()
        })
    }

    /// Closes listeners that the worker has let go of, if no other slot uses them.
    fn drop_listeners(&mut self) {
        let Some(in_common) = &mut self.in_common else { return };
        let let_go = match self.state {
            State::Runs { .. } => self.control.let_go(),
            State::Restarts { .. } => LetGo::Retiring,
            State::Gone => LetGo::All,
        };
        if let_go >= LetGo::Retiring {
            in_common.share.retiring.clear();
        }
        if let_go == LetGo::All {
            in_common.share.serving.clear();
        }
    }

    /// The worker's name in the log, with the process that it is or was.
    fn who(&self, pid: u32) -> String {
        format!("worker {} (process {pid})", self.number)
    }

    /// The worker's process, if it runs.
    fn pid(&self) -> Option<u32> {
        if let State::Runs { pid, .. } = self.state { Some(pid) } else { None }
    }
}

impl InCommon {
    fn new(files: SharedFiles) -> Self {
        Self { files, worker: None, share: Share::default() }
    }
}

/// What a forked process has open that others are to close. Empty unless there is a shared descriptor
/// table.
pub(super) struct Foreign {
    ledger: Option<Ledger>,
    listeners: Listeners,
    /// Access logs that others write to.
    access_logs: Vec<Arc<LogFile>>,
    /// What only the supervisor uses.
    secret: Option<Arc<UnixStream>>,
}

impl Foreign {
    /// Closes all of it in the calling process, except the listeners in `but`.
    pub(super) fn close(&self, but: &[Arc<Listener>]) {
        let is_foreign = |held: &&Arc<Listener>| !but.iter().any(|one| Arc::ptr_eq(one, held));
        self.listeners.iter().filter(is_foreign).for_each(|listener| listener.close());
        self.access_logs.iter().for_each(|log| log.close());
        if let Some(Err(error)) = self.secret.as_ref().map(sys::socket::vacate) {
            tracing::error!("cannot close what is the supervisor's: {error}");
        }
        if let Some(Err(error)) = self.ledger.map(|ledger| ledger.close_copies()) {
            tracing::error!("cannot close what workers have open: {error}");
        }
    }
}

/// How long to wait before restarting a worker that has died `quick_deaths` times soon after its start.
fn pause(quick_deaths: u32) -> Duration {
    match quick_deaths {
        0 | 1 => Duration::ZERO,
        n => (Duration::from_millis(25) * 2_u32.saturating_pow(n - 1)).min(LONGEST_PAUSE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_stay_below_a_second() {
        let pauses: Vec<_> = (0..8).map(|deaths| pause(deaths).as_millis()).collect();
        assert_eq!(pauses, [0, 0, 50, 100, 200, 400, 500, 500]);
        assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
    }
}
