//! The supervisor: from settings to a running server and back, with sockets, privileges, workers and
//! signals.
//!
//! The supervisor opens the server's listeners, forks the [workers] and processes for the
//! [status](status_process) and for [names](names_process), and then waits for signals. It never touches a
//! connection. It restarts
//! workers that die. It has a single thread, so that it can fork at any time. Under every architecture, a
//! worker sees only its [`Control`](crate::control::Control).
//!
//! Order matters. The supervisor opens sockets with the privileges that the process was started with,
//! then drops these privileges, and only then forks workers. The line that says where the server listens
//! is printed when nothing can fail any more.
//!
//! A [`reload`] starts a new generation of workers, with settings that have been checked and listeners
//! that are open. When the new generation serves, the old one leaves the listeners to it and serves its
//! own connections to the end. The supervisor keeps each listener open as long as the settings have it.
//! So no client in a listener's queue is ever lost with a worker.

mod aide;
mod common_table;
mod floods;
mod keeper;
mod names_process;
mod reload;
mod remains;
mod status_process;
mod trial;
mod upgrade;
mod worker;
mod workers;

use std::collections::HashSet;
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use sys::output::Heir;
use sys::process::{self, Ended};
use sys::signal::{self, Signal, SignalSet};

use self::aide::Aide;
use self::floods::Floods;
use self::keeper::Keeper;
use self::reload::Reload;
use self::remains::Remains;
use self::trial::Trial;
use self::upgrade::{Bequest, Identity, Legacy, NotUpgraded, Opened, Program, TRIAL, UPGRADE};
use self::workers::Workers;
use crate::access_log::{LogFile, OpenError};
use crate::allotment::Allotment;
use crate::config::{ConfigError, Configuration, ListenAddress, Settings, Source};
use crate::content::{ContentError, Resolvers};
use crate::control::Phase;
use crate::error_log;
use crate::listeners::{self, Listener, Listeners};
use crate::shortfalls;
use crate::status::{Endpoint, Hosts};
use crate::tls::{self, PairError, Pairs, TlsError, Vault};

/// Why a server could not start, or stopped working.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The settings are not acceptable.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// A listener cannot be opened.
    #[error(transparent)]
    Listen(#[from] listeners::ListenError),
    /// The status endpoint cannot be opened.
    #[error(transparent)]
    Status(#[from] crate::status::BindError),
    /// An access log cannot be opened.
    #[error(transparent)]
    AccessLog(#[from] OpenError),
    /// The error log cannot be opened.
    #[error(transparent)]
    ErrorLog(#[from] error_log::InitError),
    /// The document root cannot be opened.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// A certificate cannot be used.
    #[error(transparent)]
    Pair(#[from] PairError),
    /// TLS cannot be spoken.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The process that reads certificates found one that cannot be used.
    #[error("{0}")]
    Keeper(String),
    /// The settings ask for a user that an upgrade cannot become.
    #[error("the settings name user {0}, but the server does not run as that user: restart it")]
    User(String),
    /// The kernel refused a step.
    #[error("cannot {step}: {source}{}", remedy(.source))]
    System {
        /// What was tried.
        step: String,
        /// Why it failed.
        source: io::Error,
    },
    /// No worker lives.
    #[error("workers die as soon as they are started; the error log says why")]
    Workers,
    /// Workers had to be killed in the end.
    #[error("workers had not exited {0:?} after their deadline, and were killed")]
    Killed(Duration),
    /// Workers could not even be killed.
    #[error("workers that can't be killed are left behind, processes {0:?}: they are stuck in disk I/O")]
    LeftBehind(Vec<u32>),
}

impl RunError {
    /// Whether the configuration is at fault. Then trying again does not help.
    pub fn is_bad_configuration(&self) -> bool {
        matches!(
            self,
            Self::Config(_)
                | Self::Content(_)
                | Self::Pair(_)
                | Self::Keeper(_)
                | Self::AccessLog(_)
                | Self::ErrorLog(error_log::InitError::Open { .. })
        )
    }
}

/// How long stopping at once may take, how long a worker may run beyond its drain timeout, and how long
/// it may take to die.
const TIMEOUT: Duration = Duration::from_secs(3);

/// How long after the drain timeout to stop a worker that has not ended by itself. It may have been told
/// another timeout before a reload, or may not have noticed this drain yet.
const SLACK: Duration = Duration::from_millis(500);

/// Serves until told to stop.
///
/// # Errors
///
/// The server cannot start, or workers do not live.
pub fn run(source: Source) -> Result<(), RunError> {
    if let Some(lent) = Bequest::take(&TRIAL, process::parent()).map_err(failed("be tried"))? {
        return trial::run(&source, lent);
    }
    let left = Bequest::take(&UPGRADE, std::process::id());
    let left = left.map_err(failed("take over from the previous program"))?;
    let (mut settings, log, opened, read) = if let Some(Bequest { settings, log, opened }) = left {
        (upgrade::settings_of(settings)?, log, Some(opened), None)
    } else {
        let read = source.read()?;
        (read.settings.clone(), None, None, Some(read))
    };
    error_log::init(&settings.error_log, settings.log_level, log, heir(&settings)?)?;
    prepare(&settings)?;

    let program = Program::of_this_process().map_err(failed("find this program's file"))?;
    let (opened, retiring) = match opened {
        Some(opened) => take_over(opened, &mut settings),
        None => (open(&settings, &source)?, Listeners::new()),
    };
    let vault = vault_for(&settings, opened.vault)?;
    let access_logs = opened.access_logs;

    let signals = SignalSet::new(&[
        Signal::Hangup,
        Signal::Interrupt,
        Signal::Quit,
        Signal::Terminate,
        Signal::User1,
        Signal::User2,
        Signal::Child,
    ]);
    signals.block().map_err(failed("block signals"))?;
    signal::notice_children().map_err(failed("watch for workers that end"))?;
    let workers = Workers::new(opened.workers, opened.endpoint.clone()).map_err(failed("share memory"))?;
    let ticket_key_left = vault.tickets().left();
    let mut supervisor = Supervisor {
        source,
        program,
        settings,
        listeners: opened.listeners,
        workers,
        remains: Remains::default(),
        endpoint: opened.endpoint,
        status: Aide::new("status"),
        names: Aide::new("names"),
        started: SystemTime::now(),
        phase: Phase::Run,
        stop_due: None,
        deadline: None,
        timely: true,
        vault,
        keeper: opened.keeper,
        ticket_key_due: Instant::now() + ticket_key_left,
        floods: Floods::new(),
        trial: None,
        reload: None,
    };
    for listener in &retiring {
        listener.refuse_new_handshakes();
    }
    supervisor.workers.keep_from_all(supervisor.keeper.as_ref().map(Keeper::channel));
    let Supervisor { workers, settings, listeners, vault, .. } = &mut supervisor;
    let started = workers.begin(settings, listeners, &retiring, (access_logs, vault));
    started.map_err(failed("start a worker"))?;
    drop(retiring);
    supervisor.start_missing_keeper();
    supervisor.start_aides();
    supervisor.announce();
    supervisor.tell_of_certificates();
    read.iter().for_each(tell_doubts);
    drop(read);
    supervisor.supervise(&signals)
}

/// Sets up the process itself, before anything is opened.
fn prepare(settings: &Settings) -> Result<(), RunError> {
    signal::ignore_broken_pipe().map_err(failed("ignore SIGPIPE"))?;
    signal::ignore_background_output().map_err(failed("ignore SIGTTOU"))?;
    raise_descriptor_limit()?;
    if let Some(cpus) = &settings.cpus {
        process::pin_to_cpus(cpus).map_err(failed(&format!("run on CPUs {cpus:?} alone")))?;
    }
    Ok(())
}

/// Raises the limit because each site keeps its root open.
pub(crate) fn raise_descriptor_limit() -> Result<(), RunError> {
    process::raise_descriptor_limit().map_err(failed("raise the descriptor limit"))?;
    Ok(())
}

/// Opens the server's listeners and logs, gives up the privileges used for that, and checks that workers
/// can start without them.
fn open(settings: &Settings, source: &Source) -> Result<Opened, RunError> {
    let (vault, keeper) = start_keeper(settings, source)?.unzip();
    process::give_up_reading().map_err(failed("give up the privilege to read all files"))?;
    let listeners = listeners::open_all(settings)?;
    let endpoint = settings.status.as_ref().map(|status| Endpoint::bind(status, &settings.status_socket));
    let endpoint = endpoint.transpose()?.map(Arc::new);
    let heir = heir(settings)?;
    let access_logs = access_logs(settings, &[], heir).collect::<Result<_, _>>()?;
    become_user(settings)?;
    try_out(settings)?;
    Ok(Opened { listeners, endpoint, access_logs, vault, keeper, workers: Vec::new() })
}

/// Gives up the privileges of the start for good, if the settings name a user.
pub(crate) fn become_user(settings: &Settings) -> Result<(), RunError> {
    let Some(user) = &settings.user else { return Ok(()) };
    process::drop_privileges(user, settings.group.as_deref()).map_err(failed(&format!("become user {user}")))
}

/// Warns of settings that are probably mistakes, as `sluice check` does.
fn tell_doubts(read: &Configuration) {
    const MOST: usize = 20;
    let doubts = read.doubts();
    doubts.iter().take(MOST).for_each(|doubt| tracing::warn!("{doubt}"));
    if doubts.len() > MOST {
        tracing::warn!("{} more warnings about the settings; `sluice check` lists them", doubts.len() - MOST);
    }
}

/// Reads the certificates with the privileges of the start, and leaves it to a process with one of them to
/// look after them. Without TLS, that process waits for settings with TLS, as no other process can read keys
/// then. `None`: there is no TLS, and the supervisor gives up nothing.
fn start_keeper(settings: &Settings, source: &Source) -> Result<Option<(Arc<Vault>, Keeper)>, RunError> {
    let gives_up = if process::is_root() {
        settings.user.is_some()
    } else {
        process::may_read_all().map_err(failed("ask for its privileges"))?
    };
    if settings.tls.listen.is_empty() && !gives_up {
        return Ok(None);
    }
    let vault = vault_for(settings, None)?;
    let keeper = Keeper::start(source, settings, &vault, || {});
    Ok(Some((vault, keeper.map_err(failed("start the process that reads certificates"))?)))
}

/// The memory for TLS: that of the program before, or new memory with the certificates that the settings
/// name.
fn vault_for(settings: &Settings, before: Option<Arc<Vault>>) -> Result<Arc<Vault>, RunError> {
    if let Some(vault) = before {
        return Ok(vault);
    }
    let vault = Vault::new().map_err(failed("share memory"))?;
    if !settings.tls.listen.is_empty() {
        vault.tickets().begin();
        vault.publish(&tls::read_all(settings)?).map_err(failed("share certificates"))?;
    }
    Ok(vault)
}

/// The user for whom root opens logs.
fn heir(settings: &Settings) -> Result<Option<Heir>, RunError> {
    let Some(user) = settings.user.as_ref().filter(|_| process::is_root()) else { return Ok(None) };
    let (user, group) =
        process::identity(user, settings.group.as_deref()).map_err(failed(&format!("find user {user}")))?;
    Ok(Some(Heir { user, group }))
}

/// The access logs of the settings. A log that is open in `before` is kept. If the file that its name
/// stands for now can be opened, the log uses that file.
fn access_logs<'a>(
    settings: &'a Settings,
    before: &'a [Arc<LogFile>],
    heir: Option<Heir>,
) -> impl Iterator<Item = Result<Arc<LogFile>, OpenError>> + 'a {
    let targets = settings.access_logs().into_iter().map(|log| &log.target);
    targets.filter(|target| target.is_there()).map(move |target| {
        let Some(before) = before.iter().find(|before| before.target() == target) else {
            return LogFile::open(target, heir).map(Arc::new);
        };
        if let Err(error) = before.reopen() {
            tracing::warn!("cannot reopen access log {target}; the open file stays in use: {error}");
        }
        Ok(Arc::clone(before))
    })
}

/// Continues with what the program before has left, and opens what else the settings ask for, if
/// possible. The trial has shown that workers can start, so nothing from here on is a reason to end. The
/// second result is the listeners that are no longer wanted.
fn take_over(mut opened: Opened, settings: &mut Settings) -> (Opened, Listeners) {
    let there = |log: Result<_, OpenError>| {
        log.inspect_err(|error| tracing::error!("there is no such access log: {error}")).ok()
    };
    opened.access_logs = access_logs(settings, &opened.access_logs, None).filter_map(there).collect();
    match listeners::reopen(&opened.listeners, settings) {
        Ok(listeners) => {
            let before = std::mem::replace(&mut opened.listeners, listeners);
            let retiring = given_up(&before, &opened.listeners);
            (opened, retiring)
        }
        Err(error) => {
            tracing::error!("the listeners stay as they were: {error}");
            settings.copies = opened.listeners.len();
            (opened, Listeners::new())
        }
    }
}

/// The listeners of `before` that are not in `now`.
fn given_up(before: &[Listeners], now: &[Listeners]) -> Listeners {
    let goes_on = |old: &&Arc<Listener>| now.iter().flatten().any(|new| Arc::ptr_eq(new, old));
    before.iter().flatten().filter(|old| !goes_on(old)).cloned().collect()
}

/// Checks for problems that would keep every worker from starting. They keep the server from starting.
pub(crate) fn try_out(settings: &Settings) -> Result<(), RunError> {
    Resolvers::new(&settings.all_sites())?;
    Ok(())
}

/// The process that starts, watches and ends everything else.
struct Supervisor {
    source: Source,
    program: Program,
    settings: Settings,
    /// The listeners of each copy.
    listeners: Vec<Listeners>,
    workers: Workers,
    remains: Remains,
    endpoint: Option<Arc<Endpoint>>,
    /// The process that answers status requests, and the one that looks names up.
    status: Aide,
    names: Aide,
    started: SystemTime,
    phase: Phase,
    /// When to stop workers that still drain.
    stop_due: Option<Instant>,
    /// When to kill workers that have not ended.
    deadline: Option<Instant>,
    /// No worker had to be killed.
    timely: bool,
    /// Certificates and keys of tickets, which all workers share.
    vault: Arc<Vault>,
    /// The process that reads certificates.
    keeper: Option<Keeper>,
    /// When to change the key of tickets.
    ticket_key_due: Instant,
    floods: Floods,
    /// The trial of the program that may replace this one.
    trial: Option<Trial>,
    /// The reload whose settings may replace these.
    reload: Option<Reload>,
}

impl Supervisor {
    /// Waits for signals and acts on them, until the last worker has ended.
    fn supervise(mut self, signals: &SignalSet) -> Result<(), RunError> {
        let during_trials = signals.without(&[Signal::Hangup, Signal::User2]);
        // The program before may have consumed signals for ended children that this one must handle.
        self.note_ends()?;
        loop {
            let due = [
                self.workers.restart_due(),
                self.workers.tidying_due(),
                self.remains.due().filter(|_| self.phase == Phase::Run),
                self.status.due(),
                self.names.due(),
                self.stop_due,
                self.deadline,
                self.trial.as_ref().and_then(|trial| trial.due),
                self.reload.as_ref().map(|_| Instant::now() + reload::LOOK),
                Some(self.ticket_key_due).filter(|_| !self.settings.tls.listen.is_empty()),
                Some(self.floods.due()).filter(|_| !self.settings.tls.listen.is_empty()),
            ];
            let wait = due.into_iter().flatten().min();
            // While a trial or reload is under way, signals that would change what is tried wait.
            let signals =
                if self.trial.is_some() || self.reload.is_some() { &during_trials } else { signals };
            let signal = match wait {
                None => signal::wait(signals).map(Some),
                Some(time) => {
                    let left = time.saturating_duration_since(Instant::now());
                    signal::wait_timeout(signals, left.as_millis() as u32 + 1)
                }
            };
            let signal = signal.map_err(failed("wait for signals"))?;
            // Before workers that have ended are told anything.
            self.note_ends()?;
            self.settle_reload();
            match signal {
                Some(Signal::Terminate | Signal::Interrupt | Signal::Quit) => self.end(),
                Some(Signal::User1) => self.reopen_logs(),
                // The other signals come too late for a server that ends.
                _ if self.phase != Phase::Run => {}
                Some(Signal::Hangup) => self.reload(),
                Some(Signal::User2) => self.upgrade(),
                Some(_) | None => {}
            }
            if self.phase != Phase::Run && self.workers.are_gone() {
                break;
            }
            self.workers.tidy();
            if self.stop_due.take_if(|due| *due <= Instant::now()).is_some() {
                self.workers.enter(Phase::Stop);
            }
            if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                if !std::mem::replace(&mut self.timely, false) {
                    break;
                }
                // A process that waits for a disk in the kernel cannot be killed until the disk answers.
                self.deadline = Instant::now().checked_add(TIMEOUT);
                self.workers.kill();
            }
            if let Some(trial) = self.trial.as_mut().filter(|trial| trial.is_overdue()) {
                trial.break_off();
            }
            if !self.settings.tls.listen.is_empty() {
                self.floods.look(|| self.workers.handshakes_refused());
            }
            if self.ticket_key_due <= Instant::now() && !self.settings.tls.listen.is_empty() {
                self.vault.tickets().change();
                self.tell_of_ends();
                self.ticket_key_due = Instant::now() + self.vault.tickets().left();
            }
            if self.phase == Phase::Run {
                self.restart();
                // Not at the end: the kernel may take longer than there is time, and reaps them when this
                // process is gone.
                self.remains.clear_away(&self.children()).map_err(failed("clear away a process"))?;
            }
        }
        self.status.stop(&mut self.remains);
        self.names.stop(&mut self.remains);
        if let Some(keeper) = &self.keeper {
            keeper.end();
        }
        if let Some(endpoint) = &self.endpoint {
            // The next server can use the address, even if the status process is still finishing its last
            // answers.
            endpoint.stop_listening();
            endpoint.remove_socket_file();
        }
        match self.workers.pids() {
            left if !left.is_empty() => Err(RunError::LeftBehind(left)),
            _ if self.timely => Ok(()),
            _ => Err(RunError::Killed(TIMEOUT)),
        }
    }

    /// Restarts what has ended and whose time has come.
    fn restart(&mut self) {
        self.workers.restart(&self.settings, &self.listeners);
        if self.status.is_due() {
            self.start_status_process();
        }
        if self.names.is_due() {
            self.start_names_process();
        }
    }

    /// Starts the processes beside the workers, which know the current settings.
    fn start_aides(&mut self) {
        self.start_status_process();
        self.start_names_process();
    }

    /// Starts a status process that knows the current workers and listeners.
    fn start_status_process(&mut self) {
        self.status.stop(&mut self.remains);
        let Some(endpoint) = &self.endpoint else { return };
        let sources = self.workers.sources(&self.settings, self.started, &self.listeners, &self.vault);
        let foreign = self.workers.foreign(&self.listeners, &[]);
        let hosts = Hosts::new(self.settings.status_hosts.clone());
        let answer = |control: &_| status_process::answer(endpoint, sources, &hosts, control);
        self.status.start(&foreign, answer);
    }

    /// Starts a process that looks up the names of the settings, if they have any.
    fn start_names_process(&mut self) {
        self.names.stop(&mut self.remains);
        let names = self.workers.names();
        if names.is_empty() {
            return;
        }
        let foreign = self.workers.foreign(&self.listeners, &[]);
        let servers = self.settings.name_servers.clone();
        self.names.start(&foreign, |control| names_process::look_up(names, servers, control));
    }

    /// The processes whose end must be handled.
    fn children(&self) -> Vec<u32> {
        let aides = [&self.status, &self.names].into_iter().filter_map(Aide::pid);
        let trial = self.trial.as_ref().map(|trial| trial.pid);
        let keeper = self.keeper.as_ref().map(|keeper| keeper.pid);
        self.workers.pids().into_iter().chain(aides).chain(trial).chain(keeper).collect()
    }

    /// Handles children that have ended.
    fn note_ends(&mut self) -> Result<(), RunError> {
        for pid in self.children() {
            let Some(how) = process::ended(pid).map_err(failed("wait for a worker"))? else { continue };
            self.remains.add(pid);
            if let Some(trial) = self.trial.take_if(|trial| trial.pid == pid) {
                self.end_trial(trial, how);
                continue;
            }
            if self.keeper.take_if(|keeper| keeper.pid == pid).is_some() {
                self.workers.keep_from_all(None);
                let what = "certificates are read again at a reload only";
                tracing::error!("the process that reads certificates has ended with {how}: {what}");
                continue;
            }
            let phase = self.phase;
            if ![&mut self.status, &mut self.names].into_iter().any(|aide| aide.note_end(pid, how, phase)) {
                self.workers.note_end(pid, how, phase);
            }
        }
        if self.phase == Phase::Run && self.workers.never_lived() {
            self.workers.kill();
            return Err(RunError::Workers);
        }
        Ok(())
    }

    /// Drains the first time, and stops the second time.
    fn end(&mut self) {
        self.phase = if self.phase == Phase::Run { Phase::Drain } else { Phase::Stop };
        tracing::info!("{}", if self.phase == Phase::Drain { "draining" } else { "stopping at once" });
        if let Some(trial) = &mut self.trial {
            trial.break_off();
        }
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        // Before a worker can have closed one of them. So no handshake is completed only to be reset.
        self.listeners.iter().flatten().for_each(|listener| listener.refuse_new_handshakes());
        self.end_reload();
        // Workers own the listeners from here on. When the last worker closes one, it must really be
        // closed.
        self.listeners.clear();
        self.status.drain();
        self.names.drain();
        self.workers.enter(self.phase);
        let drain = if self.phase == Phase::Drain { self.settings.drain_timeout } else { Duration::ZERO };
        // Another signal does not postpone the deadline.
        let after = |time: Duration| Instant::now().checked_add(time);
        self.stop_due = if self.phase == Phase::Drain { after(drain + SLACK) } else { None };
        self.deadline = self.deadline.into_iter().chain(after(drain + TIMEOUT)).min();
    }

    /// Starts a trial of the program that the file holds now.
    fn upgrade(&mut self) {
        // The program on trial reads the configuration, which may name other certificates by now.
        if let Some(Err(error)) = self.keeper.as_ref().map(Keeper::read_all) {
            return tracing::error!("not upgraded: {error}");
        }
        self.workers.unmark_descriptors();
        let logs = self.workers.access_logs();
        let tls = self.tls();
        match Trial::start(&self.program, &self.listeners, self.endpoint.as_deref(), logs, tls) {
            Ok(trial) => self.trial = Some(trial),
            Err(error) => tracing::error!("not upgraded: {error}"),
        }
    }

    /// Becomes the program that was tried, if its trial succeeded.
    fn end_trial(&mut self, trial: Trial, how: Ended) {
        if self.phase != Phase::Run {
            return;
        }
        let error = match trial.outcome(how) {
            Ok((tried, settings)) => self.go_on_as(tried, &settings),
            Err(error) => error,
        };
        tracing::error!("not upgraded: {error}");
    }

    /// What another program needs for TLS.
    fn tls(&self) -> Option<(&Vault, &Keeper)> {
        Some((&*self.vault, self.keeper.as_ref()?))
    }

    fn go_on_as(&mut self, tried: Identity, settings: &File) -> NotUpgraded {
        tracing::info!("upgrading to the program that the file contains now");
        self.workers.unmark_descriptors();
        self.status.stop(&mut self.remains);
        self.names.stop(&mut self.remains);
        let legacy = Legacy {
            listeners: &self.listeners,
            endpoint: self.endpoint.as_deref(),
            access_logs: self.workers.access_logs(),
            tls: self.tls(),
            settings,
            workers: self.workers.pids().into_iter().chain(self.remains.pids()).collect(),
        };
        self.workers.speak_by_signals(true);
        let error = self.program.execute(tried, &legacy);
        self.workers.speak_by_signals(false);
        self.start_aides();
        error
    }

    /// Warns of certificates that are not valid, or soon will not be.
    fn tell_of_ends(&self) {
        if let Ok(pairs) = Pairs::of(&self.settings, &self.vault) {
            for doubt in pairs.doubts_of_time(sys::clock::realtime_secs() as i64) {
                tracing::warn!("{doubt}");
            }
        }
    }

    /// Warns of certificates that clients refuse, or soon will.
    fn tell_of_certificates(&self) {
        if self.settings.tls.listen.is_empty() {
            return;
        }
        let now = sys::clock::realtime_secs() as i64;
        if let Ok(pairs) = Pairs::of(&self.settings, &self.vault) {
            pairs.doubts(&self.settings, now).iter().for_each(|doubt| tracing::warn!("{doubt}"));
        }
        if self.settings.tls.self_signed {
            tracing::warn!("the certificate is signed by itself: for tests only, and browsers warn of it");
        }
    }

    /// Has the certificates read that these settings name. If no process is there to do so, this one tries.
    fn read_certificates(&mut self, settings: &Settings) -> Result<(), RunError> {
        if settings.tls.listen.is_empty() {
            return Ok(());
        }
        self.vault.tickets().begin();
        self.ticket_key_due = Instant::now() + self.vault.tickets().left();
        if let Some(keeper) = &self.keeper {
            keeper.read_all().map_err(RunError::Keeper)?;
        } else {
            self.vault.publish(&tls::read_all(settings)?).map_err(failed("share certificates"))?;
        }
        Pairs::of(settings, &self.vault)?;
        Ok(())
    }

    /// Starts a process that looks after the certificates, if there is none. It has no more privileges than
    /// this one.
    fn start_missing_keeper(&mut self) {
        if self.settings.tls.listen.is_empty() || self.keeper.is_some() {
            return;
        }
        let foreign = self.workers.foreign(&[], &[]);
        let close = || {
            foreign.close(&[]);
            self.listeners.iter().flatten().for_each(|listener| listener.close());
        };
        match Keeper::start(&self.source, &self.settings, &self.vault, close) {
            Ok(keeper) => {
                self.workers.keep_from_all(Some(keeper.channel()));
                self.keeper = Some(keeper);
            }
            Err(error) => tracing::error!("renewed certificates need a reload: {error}"),
        }
    }

    fn reopen_logs(&self) {
        self.workers.reopen_logs();
        if let Some(keeper) = &self.keeper {
            keeper.reopen_log();
        }
        self.status.reopen_log();
        self.names.reopen_log();
        match error_log::reopen() {
            Ok(()) => tracing::info!("logs reopened"),
            Err(error) => tracing::error!("cannot reopen the error log: {error}"),
        }
    }

    /// Reports where the server listens, one line per listener. The lines go to standard error, whatever
    /// the log is, because scripts that asked for port 0 read them.
    fn announce(&self) {
        let Settings { copies, workers, architecture, files, .. } = &self.settings;
        let workers = match (copies, workers) {
            (1, 1) => "1 worker".to_owned(),
            (1, _) => format!("{workers} workers"),
            (_, 1) => format!("{copies} copies"),
            _ => format!("{copies} copies of {workers} workers"),
        };
        let root =
            if files.root.as_os_str().is_empty() { "no root".into() } else { files.root.to_string_lossy() };
        let what = format!("{}, {workers}, {root}", architecture.name());
        let (mut said, of_tls) = (Vec::new(), self.settings.tls_addresses());
        for listener in self.listeners.iter().flatten() {
            // Copies may share an address.
            if !said.contains(&&listener.address) {
                error_log::say(&format!("listening on {} ({what})", url_of(listener, &of_tls)));
                said.push(&listener.address);
            }
        }
        if let Some(endpoint) = &self.endpoint {
            error_log::say(&format!("status on {}", url(endpoint.address(), false)));
        }
        if let Ok(room) = Allotment::explain(&self.settings) {
            tracing::info!("{}", room.text);
            room.warning.iter().for_each(|warning| tracing::warn!("{warning}"));
        }
        for shortfall in shortfalls::of(&self.settings) {
            tracing::warn!("{shortfall}");
        }
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    }
}

/// An address as the status reports it.
pub(crate) fn url(address: &ListenAddress, speaks_tls: bool) -> String {
    match address {
        ListenAddress::Tcp(address) if speaks_tls => format!("https://{address}/"),
        ListenAddress::Tcp(address) => format!("http://{address}/"),
        ListenAddress::Unix(path) => format!("unix:{}", path.display()),
    }
}

/// The address of a listener as the status reports it.
fn url_of(listener: &Listener, of_tls: &HashSet<ListenAddress>) -> String {
    url(&listener.address, of_tls.contains(listener.asked.as_ref().unwrap_or(&listener.address)))
}

/// The exit code of a process that has done what it was forked for.
fn exit_code(who: &str, result: Result<(), impl Display>) -> u8 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            tracing::error!("{who} ends: {error}");
            1
        }
    }
}

/// A hint for a kernel error that says too little.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            "; there may be too many processes and threads: raise the limit (ulimit -u, TasksMax= of a \
             systemd unit), or have fewer workers"
        }
        _ => "",
    }
}

fn failed(step: &str) -> impl FnOnce(io::Error) -> RunError {
    let step = step.to_owned();
    move |source| RunError::System { step, source }
}
