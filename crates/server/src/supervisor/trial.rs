//! The trial of a new program before an upgrade. The new program starts as a child of the old one,
//! borrows everything that it would inherit, and runs with the same rights. It starts a worker and has it
//! answer a request. No client's connection passes through it, and it changes nothing that it shares with
//! others.
//!
//! The new program reports success in two ways: it writes down the settings that it used, and it exits
//! with code 0. A program that fails, crashes, hangs, or does not know of trials does not do both. Then
//! the old program continues.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sys::process::{self, Ended};
use sys::signal::Signal;
use sys::socket;

use super::keeper::Keeper;
use super::upgrade::{Bequest, Identity, Legacy, NotUpgraded, Program, TRIAL};
use super::workers::Workers;
use super::{RunError, failed, try_out};
use crate::access_log::LogFile;
use crate::config::{ErrorLog, LogLevel, Settings, Source};
use crate::error_log;
use crate::listeners::{Listener, Listeners};
use crate::status::Endpoint;
use crate::tls::Vault;

/// How long a trial may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long the trial's worker may take to answer, and how often to check whether it still lives.
const ANSWER: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// Most bytes of the new program's messages that are logged.
const MOST_WORDS: u64 = 4 << 10;

/// A trial under way, as seen by the old program.
pub(super) struct Trial {
    pub(super) pid: u32,
    program: PathBuf,
    file: Identity,
    settings: File,
    said: Option<ChildStderr>,
    /// When to call [`break_off`](Self::break_off). `None`: it has been called.
    pub(super) due: Option<Instant>,
}

impl Trial {
    /// Starts the program's current file in a child.
    pub(super) fn start(
        program: &Program,
        listeners: &[Listeners],
        endpoint: Option<&Endpoint>,
        access_logs: &[Arc<LogFile>],
        tls: Option<(&Vault, &Keeper)>,
    ) -> Result<Self, NotUpgraded> {
        let file = program.identity()?;
        let settings = sys::file::in_memory("settings").map_err(NotUpgraded::HandOn)?;
        // Whatever it does, the workers are not its children.
        let (settings_file, workers) = (&settings, Vec::new());
        let legacy = Legacy { listeners, endpoint, access_logs, tls, settings: settings_file, workers };
        let mut arguments = program.arguments.iter();
        let name = arguments.next();
        let spawned = legacy.hand_on(&TRIAL, |variables| {
            Command::new(&program.path)
                .arg0(name.map_or(program.path.as_os_str(), OsString::as_os_str))
                .args(arguments)
                .envs(variables)
                // Only the old program reports to systemd.
                .env_remove("NOTIFY_SOCKET")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
        });
        let cannot = |source| NotUpgraded::Run { program: program.path.clone(), source };
        let mut child = spawned.map_err(NotUpgraded::HandOn)?.map_err(cannot)?;
        let said = child.stderr.take();
        if let Some(said) = &said {
            // A child of the new program may keep the other end open.
            socket::set_nonblocking(said, true).map_err(cannot)?;
        }
        let (pid, due) = (child.id(), Some(Instant::now() + TIMEOUT));
        Ok(Self { pid, program: program.path.clone(), file, settings, said, due })
    }

    pub(super) fn is_overdue(&self) -> bool {
        self.due.is_some_and(|due| due <= Instant::now())
    }

    pub(super) fn break_off(&mut self) {
        self.due = None;
        let _ = process::kill(self.pid);
    }

    /// The outcome, once the child has ended: the file that was tried, and the settings.
    pub(super) fn outcome(self, how: Ended) -> Result<(Identity, File), NotUpgraded> {
        let has_said_so = self.settings.metadata().is_ok_and(|settings| settings.len() > 0);
        if how == Ended::Code(0) && has_said_so {
            return Ok((self.file, self.settings));
        }
        if self.due.is_none() {
            return Err(NotUpgraded::Slow(TIMEOUT, self.program));
        }
        let mut said = Vec::new();
        if let Some(stderr) = self.said {
            // When nothing more has been written, this is an error.
            let _ = stderr.take(MOST_WORDS).read_to_end(&mut said);
        }
        let said = String::from_utf8_lossy(&said);
        let lines = said.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned);
        let why = lines.chain([how.to_string()]).collect::<Vec<_>>().join("; ");
        Err(NotUpgraded::Failed { program: self.program, why })
    }
}

/// In the new program: starts a worker, has it answer a request, and reports success.
pub(super) fn run(source: &Source, lent: Bequest) -> Result<(), RunError> {
    let Bequest { opened, log, settings: mut written } = lent;
    process::set_name("sluice:trial");
    process::signal_at_end_of_parent(Signal::Terminate)
        .map_err(failed("end with the program that serves"))?;
    // The written settings, which the upgraded program will read instead, must mean the same.
    let text = source.load()?.to_toml();
    let settings = Source::default().load_text(&text)?;
    if let Some(user) = &settings.user
        && !process::runs_as(user, settings.group.as_deref()).map_err(failed(&format!("find user {user}")))?
    {
        return Err(RunError::User(user.clone()));
    }
    error_log::try_open(&settings.error_log, log.as_ref())?;
    // The old program reports the outcome.
    error_log::init(&ErrorLog::Stderr, LogLevel::ERROR, None, None)?;
    super::prepare(&settings)?;
    try_out(&settings)?;
    let access_logs = super::access_logs(&settings, &opened.access_logs, None).collect::<Result<_, _>>()?;
    // The worker must not inherit what was lent.
    let vault = opened.vault.clone();
    drop(opened);
    let vault = super::vault_for(&settings, vault)?;
    answer_one(&settings, (access_logs, &vault))?;
    written.write_all(text.as_bytes()).map_err(failed("write down the settings"))
}

/// Has a worker answer a request on a socket that no other process knows.
fn answer_one(settings: &Settings, shared: (Vec<Arc<LogFile>>, &Arc<Vault>)) -> Result<(), RunError> {
    let step = "open a socket for a trial";
    let (listener, client) = socket::listen_with_client().map_err(failed(step))?;
    let listener = Listener::adopt(listener, None, std::process::id()).map_err(failed(step))?;
    let mut one = Settings { copies: 1, workers: 1, ..settings.clone() };
    one.placement.partition = false;
    let mut workers = Workers::new(Vec::new(), None).map_err(failed("share memory"))?;
    workers
        .begin(&one, &[vec![Arc::new(listener)]], &Listeners::new(), shared)
        .map_err(failed("start a worker"))?;
    let answer = ask(client.into(), &workers.pids());
    for pid in workers.pids() {
        // The worker has nothing to finish, and no line of its log is to be written.
        let _ = process::kill(pid);
    }
    answer.map_err(failed("have a worker answer"))
}

fn ask(mut client: UnixStream, workers: &[u32]) -> io::Result<()> {
    client.set_read_timeout(Some(LOOK))?;
    client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let until = Instant::now() + ANSWER;
    let mut reply = [0; 64];
    loop {
        match client.read(&mut reply) {
            Ok(n) if reply[..n].starts_with(b"HTTP/1.1 ") => return Ok(()),
            Ok(_) => return Err(io::Error::other("it hangs up")),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        for &pid in workers {
            if let Some(how) = process::ended(pid)? {
                return Err(io::Error::other(format!("it has ended with {how}")));
            }
        }
        if Instant::now() >= until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}
