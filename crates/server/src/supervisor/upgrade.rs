//! USR2: the process goes on as the program that its file holds by now, with the same id, listeners and children.
//!
//! ```text
//! old program: check (a child) --> letter, descriptors kept open --> exec
//! new program: take the letter --> listeners --> workers of its own --> the old workers retire
//! ```
//!
//! Listeners are open all the time, and the old workers see their connections to the end. They know nothing of the new
//! program but signals: USR2 has a worker retire, TERM has it drain.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sys::inherited;
use sys::process;

use crate::config::{ListenAddress, StatusAddress};
use crate::listeners::{Listener, Listeners};
use crate::status::Endpoint;

/// The program file and what it was started with.
pub(super) struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

/// What a program leaves to the one that takes its place.
pub(super) struct Estate {
    /// Of each copy.
    pub(super) listeners: Vec<Listeners>,
    pub(super) endpoint: Option<Arc<Endpoint>>,
    /// Its children: workers that run, and whatever is still to be reaped.
    pub(super) workers: Vec<u32>,
}

/// Why the program goes on as it is.
#[derive(Debug, thiserror::Error)]
pub enum NotUpgraded {
    #[error("{program} can't be run: {source}")]
    Run { program: PathBuf, source: io::Error },
    #[error("{program} refuses the settings: {why}")]
    Refused { program: PathBuf, why: String },
    #[error("{program} has not checked the settings within {0:?}", program = .1.display())]
    Slow(Duration, PathBuf),
    #[error("descriptors can't be handed on: {0}")]
    HandOn(#[source] io::Error),
}

/// What the new program must know beside descriptors.
#[derive(Deserialize, Serialize)]
struct Letter {
    /// Of each listener the address that was asked for; none where systemd gave it.
    asked: Vec<Option<String>>,
    /// The listeners of each copy, by their place in `asked`.
    copies: Vec<Vec<usize>>,
    /// Where status requests are answered, if anywhere: the last descriptor.
    status: Option<String>,
    workers: Vec<u32>,
}

const LETTER: &str = "SLUICE_UPGRADE";
const DESCRIPTORS: &str = "SLUICE_UPGRADE_DESCRIPTORS";

/// How long the new program may take to check the settings.
const CHECKING: Duration = Duration::from_secs(10);

impl Program {
    /// What this process runs. Ask before the file can have been replaced.
    pub(super) fn of_this_process() -> io::Result<Self> {
        Ok(Self { path: std::env::current_exe()?, arguments: std::env::args_os().collect() })
    }

    /// Goes on as what the file holds by now; comes back only if that can't be.
    pub(super) fn execute(&self, estate: &Estate) -> NotUpgraded {
        let mut distinct = Listeners::new();
        for listener in estate.listeners.iter().flatten() {
            if !distinct.iter().any(|known| Arc::ptr_eq(known, listener)) {
                distinct.push(Arc::clone(listener));
            }
        }
        let letter = Letter::of(estate, &distinct);
        let mut descriptors: Vec<_> = distinct.iter().map(|listener| listener.as_fd()).collect();
        descriptors.extend(estate.endpoint.as_ref().map(AsFd::as_fd));
        let variables = || -> io::Result<Vec<(OsString, OsString)>> {
            let numbers = inherited::hand_on(&descriptors)?;
            let letter = serde_json::to_string(&letter)?;
            let ours = [(LETTER.into(), letter.into()), (DESCRIPTORS.into(), numbers.into())];
            // Where this program came by an upgrade itself, the letter to it is still there.
            let others = std::env::vars_os().filter(|(name, _)| name != LETTER && name != DESCRIPTORS);
            Ok(others.chain(ours).collect())
        };
        let error = match variables() {
            Err(error) => NotUpgraded::HandOn(error),
            Ok(variables) => {
                let source = process::execute(&self.path, &self.arguments, &variables);
                NotUpgraded::Run { program: self.path.clone(), source }
            }
        };
        match inherited::keep(&descriptors) {
            Ok(()) => error,
            Err(error) => NotUpgraded::HandOn(error),
        }
    }

    /// Has the new program check the settings: `sluice serve ...` becomes `sluice check ...`.
    ///
    /// # Errors
    ///
    /// It can't be run, or refuses them.
    pub(super) fn check(&self) -> Result<(), NotUpgraded> {
        let cannot = |source| NotUpgraded::Run { program: self.path.clone(), source };
        let mut child = Command::new(&self.path)
            .arg("check")
            .args(self.arguments.iter().skip(2))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(cannot)?;
        let until = Instant::now() + CHECKING;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(cannot)? {
                break status;
            }
            if Instant::now() >= until {
                let _ = child.kill();
                let _ = child.wait();
                return Err(NotUpgraded::Slow(CHECKING, self.path.clone()));
            }
            thread::sleep(Duration::from_millis(10));
        };
        if status.success() {
            return Ok(());
        }
        let mut why = String::new();
        if let Some(stderr) = &mut child.stderr {
            let _ = io::Read::read_to_string(stderr, &mut why);
        }
        let why = if why.trim().is_empty() { status.to_string() } else { why.trim().replace('\n', "; ") };
        Err(NotUpgraded::Refused { program: self.path.clone(), why })
    }
}

impl Letter {
    fn of(estate: &Estate, distinct: &Listeners) -> Self {
        let place = |listener: &Arc<Listener>| {
            distinct.iter().position(|known| Arc::ptr_eq(known, listener)).unwrap_or_default()
        };
        let text = |listener: &Arc<Listener>| listener.asked.as_ref().map(ListenAddress::to_string);
        Self {
            asked: distinct.iter().map(text).collect(),
            copies: estate.listeners.iter().map(|copy| copy.iter().map(place).collect()).collect(),
            status: estate.endpoint.as_ref().map(|endpoint| endpoint.address().to_string()),
            workers: estate.workers.clone(),
        }
    }
}

impl Estate {
    /// What this process has left to itself, if it has. In a process with a single thread, before anything is opened.
    pub(super) fn take() -> io::Result<Option<Self>> {
        let Some(mut descriptors) = inherited::take_handed_on(DESCRIPTORS)? else { return Ok(None) };
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{LETTER}: {what}"));
        let letter = std::env::var(LETTER).map_err(|_| wrong("is missing"))?;
        let letter: Letter = serde_json::from_str(&letter)?;
        let endpoint = match (&letter.status, letter.status.is_some().then(|| descriptors.pop()).flatten()) {
            (Some(address), Some(descriptor)) => {
                let address: StatusAddress = address.parse().map_err(|why: String| wrong(&why))?;
                Some(Arc::new(Endpoint::adopt(descriptor, address)))
            }
            _ => None,
        };
        if descriptors.len() != letter.asked.len() {
            return Err(wrong("not a descriptor for each listener"));
        }
        let mut all = Listeners::new();
        for (descriptor, asked) in descriptors.into_iter().zip(&letter.asked) {
            let asked = asked.as_ref().map(|text| text.parse()).transpose();
            let asked = asked.map_err(|why: String| wrong(&why))?;
            all.push(Arc::new(Listener::adopt(descriptor, asked)?));
        }
        let listener = |&place: &usize| all.get(place).cloned().ok_or_else(|| wrong("no such listener"));
        let copies = letter.copies.iter().map(|copy| copy.iter().map(listener).collect());
        Ok(Some(Self { listeners: copies.collect::<io::Result<_>>()?, endpoint, workers: letter.workers }))
    }
}
