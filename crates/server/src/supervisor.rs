//! From settings to a running server and back: sockets, privileges, helper threads, signals, the architecture.
//!
//! Order matters. Sockets are opened with the privileges that the process was started with, which are then dropped;
//! only then come threads (so that all of them have dropped them), and the line that says the server listens is
//! printed when nothing can fail any more.

use std::io::{self, Write as _};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use sys::signal::{self, Signal, SignalSet};

use crate::access_log::Writer;
use crate::architecture::sped;
use crate::config::{Architecture, ConfigError, ListenAddress, Settings, Source};
use crate::content::ContentError;
use crate::counters::Counters;
use crate::error_log::{self, ErrorLog};
use crate::listeners::{self, Listeners};
use crate::service::Service;
use crate::shutdown::{Changes, Phase, Shutdown};
use crate::status::{Endpoint, ListenerSource, Serving, Sources, WorkerSource};

/// A server could not start, or stopped working.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The settings are not acceptable.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// A listener can't be had.
    #[error(transparent)]
    Listen(#[from] listeners::ListenError),
    /// The status endpoint can't be had.
    #[error(transparent)]
    Status(#[from] crate::status::BindError),
    /// A log can't be opened.
    #[error(transparent)]
    AccessLog(#[from] crate::access_log::OpenError),
    /// A log can't be opened.
    #[error(transparent)]
    ErrorLog(#[from] error_log::InitError),
    /// The document root can't be opened.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// A step that needs the kernel's consent failed.
    #[error("cannot {step}: {source}")]
    System {
        /// What was tried.
        step: String,
        /// Why it failed.
        source: io::Error,
    },
}

/// Descriptors set aside for what is neither a connection nor a cached file.
const RESERVED_DESCRIPTORS: u64 = 64;

/// How long the access log's last lines may take to be written.
const LAST_LINES: Duration = Duration::from_secs(2);

/// How long stopping at once may take, before it is done without anybody's help.
const AT_ONCE: Duration = Duration::from_secs(3);

/// Serves until told to stop.
///
/// # Errors
///
/// The server can't start, or the architecture stops working.
pub fn run(source: Source) -> Result<(), RunError> {
    let settings = source.load()?;
    let error_log = error_log::init(&settings.error_log, settings.log_level)?;
    sys::signal::ignore_broken_pipe().map_err(failed("ignore SIGPIPE"))?;
    let signals =
        SignalSet::new(&[Signal::Hangup, Signal::Interrupt, Signal::Quit, Signal::Terminate, Signal::User1]);
    sys::process::raise_descriptor_limit().map_err(failed("raise the descriptor limit"))?;

    let listeners = listeners::open_all(&settings)?;
    let endpoint = settings.status.as_ref().map(Endpoint::bind).transpose()?;
    if let Some(user) = &settings.user {
        sys::process::drop_privileges(user, settings.group.as_deref())
            .map_err(failed(&format!("become user {user}")))?;
    }
    if let Some(cpus) = &settings.cpus {
        sys::process::pin_to_cpus(cpus).map_err(failed(&format!("run on CPUs {cpus:?} alone")))?;
    }

    signals.block().map_err(failed("block signals"))?;
    let counters = Arc::new(Counters::default());
    let shutdown = Arc::new(Shutdown::new().map_err(failed("make an eventfd"))?);
    let writer =
        settings.access_log.as_ref().map(|log| Writer::start(&log.target, 1)).transpose()?.map(Arc::new);
    let log = settings
        .access_log
        .as_ref()
        .zip(writer.as_ref())
        .map(|(log, writer)| writer.worker(log.format, log.when_full, Arc::clone(&counters)));
    let service = Service::new(&settings, Arc::clone(&counters), log)?;

    let sources = Arc::new(Sources::new(
        name(settings.architecture),
        vec![WorkerSource { counters: Arc::clone(&counters), wake: waker(&shutdown) }],
        listener_sources(&listeners),
    ));
    let serving = endpoint.map(|endpoint| endpoint.serve(Arc::clone(&sources))).transpose();
    let serving = serving.map_err(failed("start the status thread"))?;

    announce(&settings, &listeners, serving.as_ref());
    let attendant = Attendant {
        source,
        settings: settings.clone(),
        listeners: listeners.clone(),
        error_log,
        writer: writer.as_ref().map(Arc::downgrade),
        shutdown: Arc::clone(&shutdown),
        sources,
    };
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || attendant.attend(&signals))
        .map_err(failed("start the signal thread"))?;

    let result = match settings.architecture {
        Architecture::Sped => sped::run(service, listeners, &settings, Arc::clone(&shutdown)),
    };
    if let Some(serving) = serving {
        serving.stop();
    }
    if let Some(writer) = writer {
        // The signal thread holds it weakly; the service, whose log has been flushed into it, is gone.
        if let Some(writer) = Arc::into_inner(writer)
            && !writer.finish(LAST_LINES)
        {
            tracing::error!("the access log's last lines were not written within {LAST_LINES:?}");
        }
    }
    result.map_err(failed("go on serving"))
}

/// Connections that may be open at once: the setting, and in any case what the descriptor limit has room for.
pub fn max_connections(settings: &Settings) -> u32 {
    let files = u64::from(settings.files.max_open.get());
    let limit = sys::process::descriptor_limit();
    // Half is left to connections even where the table of open files could take it all.
    let room = limit.saturating_sub(RESERVED_DESCRIPTORS + files.min(limit / 2)).max(1);
    let asked = settings.connections.max.map_or(u64::MAX, |max| max.get() as u64);
    asked.min(room).min(u64::from(u32::MAX)) as u32
}

/// Who attends to signals.
struct Attendant {
    source: Source,
    settings: Settings,
    listeners: Listeners,
    error_log: ErrorLog,
    writer: Option<Weak<Writer>>,
    shutdown: Arc<Shutdown>,
    sources: Arc<Sources>,
}

impl Attendant {
    /// Waits for signals and acts on them, as long as the process lives.
    fn attend(mut self, signals: &SignalSet) {
        loop {
            match signal::wait(signals) {
                Ok(Signal::Terminate | Signal::Interrupt | Signal::Quit) => self.end(),
                Ok(Signal::Hangup) => self.reload(),
                Ok(Signal::User1) => self.reopen_logs(),
                Ok(_) => {}
                Err(error) => {
                    tracing::error!("cannot wait for signals: {error}");
                    return;
                }
            }
        }
    }

    /// The first time drains, the second time stops.
    fn end(&mut self) {
        let next = if self.shutdown.phase() == Phase::Run { Phase::Drain } else { Phase::Stop };
        tracing::info!("{}", if next == Phase::Drain { "draining" } else { "stopping at once" });
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        // The architecture owns its listeners from here on: what it closes must be closed.
        self.listeners.clear();
        self.shutdown.enter(next);
        if next == Phase::Stop {
            // Whoever should stop may hang in a disk that stands still.
            thread::sleep(AT_ONCE);
            tracing::error!("not stopped after {AT_ONCE:?}: giving up");
            std::process::exit(1);
        }
    }

    /// Checks the settings and, if they are good, hands them over.
    fn reload(&mut self) {
        if self.shutdown.phase() != Phase::Run {
            return;
        }
        let settings = match self.source.load() {
            Ok(settings) => settings,
            Err(error) => return tracing::error!("settings not reloaded: {error}"),
        };
        for key in needs_restart(&self.settings, &settings) {
            tracing::warn!("`{key}` has changed, which takes a restart; it stays as it is");
        }
        match listeners::reopen(&self.listeners, &self.settings, &settings) {
            Ok(listeners) => {
                self.sources.set_listeners(listener_sources(&listeners));
                self.listeners.clone_from(&listeners);
                self.settings = settings.clone();
                self.shutdown.change(Changes { settings, listeners });
            }
            Err(error) => tracing::error!("settings not reloaded: {error}"),
        }
    }

    fn reopen_logs(&self) {
        if let Some(writer) = self.writer.as_ref().and_then(Weak::upgrade) {
            writer.reopen();
        }
        match self.error_log.reopen() {
            Ok(()) => tracing::info!("logs reopened"),
            Err(error) => tracing::error!("cannot reopen the error log: {error}"),
        }
    }
}

/// Keys whose change a running server can't take over.
fn needs_restart(old: &Settings, new: &Settings) -> Vec<&'static str> {
    let changed = [
        ("architecture", old.architecture != new.architecture),
        ("workers", old.workers != new.workers),
        ("events", old.event.mechanism != new.event.mechanism),
        ("cpus", old.cpus != new.cpus),
        ("user", old.user != new.user || old.group != new.group),
        ("status", old.status != new.status),
        ("access_log", old.access_log != new.access_log),
        ("error_log", old.error_log != new.error_log || old.log_level != new.log_level),
    ];
    changed.into_iter().filter_map(|(key, changed)| changed.then_some(key)).collect()
}

/// Says where the server listens, one line for each listener, on standard error whatever the log is: scripts that
/// asked for port 0 read it.
fn announce(settings: &Settings, listeners: &Listeners, serving: Option<&Serving>) {
    let workers =
        if settings.workers == 1 { "1 worker".into() } else { format!("{} workers", settings.workers) };
    let what = format!("{}, {workers}, {}", name(settings.architecture), settings.files.root.display());
    for listener in listeners {
        say(&format!("listening on {} ({what})", url(&listener.address)));
    }
    if let Some(serving) = serving {
        say(&format!("status on {}", url(serving.address())));
    }
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
}

/// A line on standard error, if anybody reads it.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn url(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Tcp(address) => format!("http://{address}/"),
        ListenAddress::Unix(path) => format!("unix:{}", path.display()),
    }
}

fn name(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Sped => "sped",
    }
}

fn waker(shutdown: &Arc<Shutdown>) -> Box<dyn Fn() + Send + Sync> {
    let shutdown = Arc::clone(shutdown);
    Box::new(move || shutdown.wake())
}

fn listener_sources(listeners: &Listeners) -> Vec<ListenerSource> {
    let source = |listener: &Arc<listeners::Listener>| {
        let shared: Arc<dyn std::os::fd::AsFd + Send + Sync> = Arc::<listeners::Listener>::clone(listener);
        ListenerSource { address: url(&listener.address), socket: Arc::downgrade(&shared) }
    };
    listeners.iter().map(source).collect()
}

fn failed(step: &str) -> impl FnOnce(io::Error) -> RunError {
    let step = step.to_owned();
    move |source| RunError::System { step, source }
}
