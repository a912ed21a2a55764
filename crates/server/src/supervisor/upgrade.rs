//! USR2: the process becomes the program that its file holds now, with the same id, listeners and
//! children.
//!
//! ```text
//! old program: trial (a child) --> handover, descriptors kept open --> exec
//! new program: read the handover --> listeners --> workers of its own --> the old workers retire
//! ```
//!
//! Listeners are open all the time. The old workers serve until the new ones have served for a while, and
//! then serve their connections to the end. They know the new program only by signals: USR2 retires a
//! worker, TERM drains it.
//!
//! Once the process is the new program there is no way back. So everything that can be wrong with it must
//! be found in its [`trial`](super::trial). The new program then uses the settings exactly as they were
//! tried, whatever has become of the file since.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sys::inherited;
use sys::process;
use sys::signal::{Signal, SignalSet};

use super::keeper::Keeper;
use crate::access_log::LogFile;
use crate::config::{ConfigError, ListenAddress, Settings, Source, StatusAddress};
use crate::error_log::{self, HandedOn};
use crate::listeners::{Listener, Listeners};
use crate::status::Endpoint;
use crate::tls::Vault;

/// The program file, and its arguments.
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) arguments: Vec<OsString>,
}

/// Identifies the file that a path stands for: device, inode, and time of the last change, to the
/// nanosecond.
pub(super) type Identity = (u64, u64, i64, i64);

/// What a program leaves to its successor, or lends to one on trial.
pub(super) struct Legacy<'a> {
    /// The listeners of each copy.
    pub(super) listeners: &'a [Listeners],
    pub(super) endpoint: Option<&'a Endpoint>,
    pub(super) access_logs: &'a [Arc<LogFile>],
    /// What TLS needs, if it is spoken.
    pub(super) tls: Option<(&'a Vault, &'a Keeper)>,
    /// The settings as they were tried. In a trial, the file to write them to.
    pub(super) settings: &'a File,
    /// The program's children: running workers, and processes still to be reaped.
    pub(super) workers: Vec<u32>,
}

/// What a server has open before its first worker starts.
pub(super) struct Opened {
    /// The listeners of each copy.
    pub(super) listeners: Vec<Listeners>,
    pub(super) endpoint: Option<Arc<Endpoint>>,
    pub(super) access_logs: Vec<Arc<LogFile>>,
    /// What TLS needs, if it is spoken.
    pub(super) vault: Option<Arc<Vault>>,
    pub(super) keeper: Option<Keeper>,
    /// The children of the program before.
    pub(super) workers: Vec<u32>,
}

/// What the program before has left to this one, or lent to it for a trial.
pub(super) struct Bequest {
    pub(super) opened: Opened,
    /// The program's error log. Without the privileges of the start, it may not be possible to open it
    /// again.
    pub(super) log: Option<HandedOn>,
    /// See [`Legacy`].
    pub(super) settings: File,
}

/// Why the old program continues.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotUpgraded {
    #[error("{program} can't be run: {source}")]
    Run { program: PathBuf, source: io::Error },
    #[error("{program} has failed in its trial: {why}")]
    Failed { program: PathBuf, why: String },
    #[error("{program} has not come through its trial within {0:?}", program = .1.display())]
    Slow(Duration, PathBuf),
    #[error("{program} has been replaced again since its trial", program = .0.display())]
    Replaced(PathBuf),
    #[error("descriptors can't be handed on: {0}")]
    HandOn(#[source] io::Error),
}

/// What the new program must know in addition to the descriptors. Those come in this order: listeners, memory
/// for TLS and the keeper's channel, status, logs, settings.
#[derive(Deserialize, Serialize)]
struct Handover {
    /// For each listener, the address that was asked for. None if systemd gave the listener.
    asked: Vec<Option<String>>,
    /// The listeners of each copy, as indexes into `asked`.
    copies: Vec<Vec<usize>>,
    /// The address for status requests, if there is one.
    status: Option<String>,
    /// The error log's path, if it is a file.
    log: Option<PathBuf>,
    /// The path of an access log. It may not be possible to open this one again, either.
    #[serde(default)]
    access_log: Option<PathBuf>,
    /// The paths of the other access logs, if sites have their own logs.
    #[serde(default)]
    other_access_logs: Vec<PathBuf>,
    /// The process that reads certificates, if TLS is spoken.
    #[serde(default)]
    keeper: Option<u32>,
    workers: Vec<u32>,
}

/// The variables for a handover and for the numbers of its descriptors. A trial uses other names, because
/// a program that does not know of trials must not take it for its turn to serve.
pub(super) struct Names {
    handover: &'static str,
    descriptors: &'static str,
}

/// For the program that takes our place.
pub(super) const UPGRADE: Names =
    Names { handover: "SLUICE_UPGRADE", descriptors: "SLUICE_UPGRADE_DESCRIPTORS" };
/// For a program on trial.
pub(super) const TRIAL: Names = Names { handover: "SLUICE_TRIAL", descriptors: "SLUICE_TRIAL_DESCRIPTORS" };

impl Program {
    /// The program of this process. Call this before its file can have been replaced.
    pub(super) fn of_this_process() -> io::Result<Self> {
        Ok(Self { path: process::program()?, arguments: std::env::args_os().collect() })
    }

    /// The identity of the file that the path stands for now.
    pub(super) fn identity(&self) -> Result<Identity, NotUpgraded> {
        match fs::metadata(&self.path) {
            Ok(file) => Ok((file.dev(), file.ino(), file.ctime(), file.ctime_nsec())),
            Err(source) => Err(NotUpgraded::Run { program: self.path.clone(), source }),
        }
    }

    /// Becomes the program file that was tried. Returns only if that fails.
    pub(super) fn execute(&self, tried: Identity, legacy: &Legacy<'_>) -> NotUpgraded {
        match self.identity() {
            Ok(now) if now == tried => {}
            Ok(_) => return NotUpgraded::Replaced(self.path.clone()),
            Err(error) => return error,
        }
        // The new program needs this signal if it waits for its own children. The file may be a script.
        let of_children = SignalSet::new(&[Signal::Child]);
        let _ = of_children.unblock();
        let executed = legacy.hand_on(&UPGRADE, |ours| {
            // If this program came by an upgrade itself, its own handover is still in the environment.
            let is_new = |name: &OsString| !ours.iter().any(|(our, _)| our == name);
            let others = std::env::vars_os().filter(|(name, _)| is_new(name)).collect::<Vec<_>>();
            process::execute(&self.path, &self.arguments, &[others, ours.clone()].concat())
        });
        let _ = of_children.block();
        match executed {
            Ok(source) => NotUpgraded::Run { program: self.path.clone(), source },
            Err(error) => NotUpgraded::HandOn(error),
        }
    }
}

impl Legacy<'_> {
    /// The access logs that are files, and their paths.
    fn access_files(&self) -> impl Iterator<Item = (PathBuf, BorrowedFd<'_>)> {
        self.access_logs.iter().filter_map(|log| Some((log.path()?.to_owned(), log.as_fd())))
    }

    /// Calls `execute` with the variables of the handover. The descriptors stay open in what it executes.
    pub(super) fn hand_on<T>(
        &self,
        names: &Names,
        execute: impl FnOnce(Vec<(OsString, OsString)>) -> T,
    ) -> io::Result<T> {
        let mut distinct = Listeners::new();
        for listener in self.listeners.iter().flatten() {
            if !distinct.iter().any(|known| Arc::ptr_eq(known, listener)) {
                distinct.push(Arc::clone(listener));
            }
        }
        let log = error_log::file();
        let mut descriptors: Vec<BorrowedFd<'_>> = distinct.iter().map(|listener| listener.as_fd()).collect();
        descriptors.extend(self.tls.iter().flat_map(|(vault, keeper)| [vault.as_fd(), keeper.as_fd()]));
        descriptors.extend(self.endpoint.map(AsFd::as_fd));
        descriptors.extend(log.map(|(_, file)| file));
        descriptors.extend(self.access_files().map(|(_, file)| file));
        descriptors.push(self.settings.as_fd());
        let handover = Handover::of(self, &distinct, log.map(|(path, _)| path.to_owned()));
        let text = serde_json::to_string(&handover)?;
        let numbers = inherited::hand_on(&descriptors);
        let done = numbers.map(|numbers| {
            execute(vec![(names.handover.into(), text.into()), (names.descriptors.into(), numbers.into())])
        });
        inherited::keep(&descriptors)?;
        done
    }
}

impl Handover {
    fn of(legacy: &Legacy<'_>, distinct: &Listeners, log: Option<PathBuf>) -> Self {
        let place = |listener: &Arc<Listener>| {
            distinct.iter().position(|known| Arc::ptr_eq(known, listener)).unwrap_or_default()
        };
        let text = |listener: &Arc<Listener>| listener.asked.as_ref().map(ListenAddress::to_string);
        let mut access_logs = legacy.access_files().map(|(path, _)| path);
        Self {
            asked: distinct.iter().map(text).collect(),
            copies: legacy.listeners.iter().map(|copy| copy.iter().map(place).collect()).collect(),
            status: legacy.endpoint.map(|endpoint| endpoint.address().to_string()),
            log,
            access_log: access_logs.next(),
            other_access_logs: access_logs.collect(),
            keeper: legacy.tls.map(|(_, keeper)| keeper.pid),
            workers: legacy.workers.clone(),
        }
    }
}

impl Bequest {
    /// Takes what this process has left to itself, or was lent by its parent for a trial, if it was.
    /// `owner` is the process that owns the listeners. Call this in a process with a single thread,
    /// before anything is opened.
    pub(super) fn take(names: &Names, owner: u32) -> io::Result<Option<Self>> {
        let Some(mut descriptors) = inherited::take_handed_on(names.descriptors)? else { return Ok(None) };
        let wrong =
            |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", names.handover));
        let handover = std::env::var(names.handover).map_err(|_| wrong("is missing"))?;
        let handover: Handover = serde_json::from_str(&handover)?;
        let mut last = || descriptors.pop().ok_or_else(|| wrong("a descriptor is missing"));
        let settings = File::from(last()?);
        let paths = handover.access_log.into_iter().chain(handover.other_access_logs).rev();
        let adopt = |path| Ok(Arc::new(LogFile::adopt(path, last()?)));
        let access_logs = paths.map(adopt).collect::<io::Result<_>>()?;
        let log = handover.log.map(|path| Ok::<_, io::Error>((path, last()?))).transpose()?;
        let endpoint = handover.status.map(|address| {
            let address: StatusAddress = address.parse().map_err(|why: String| wrong(&why))?;
            Ok::<_, io::Error>(Endpoint::adopt(last()?, address))
        });
        let endpoint = endpoint.transpose()?.map(Arc::new);
        let tls = handover.keeper.map(|pid| {
            let keeper = Keeper::adopt(pid, last()?);
            Ok::<_, io::Error>((Vault::adopt(last()?)?, keeper))
        });
        let (vault, keeper) = tls.transpose()?.unzip();
        if descriptors.len() != handover.asked.len() {
            return Err(wrong("not a descriptor for each listener"));
        }
        let mut all = Listeners::new();
        for (descriptor, asked) in descriptors.into_iter().zip(&handover.asked) {
            let asked = asked.as_ref().map(|text| text.parse()).transpose();
            let asked = asked.map_err(|why: String| wrong(&why))?;
            all.push(Arc::new(Listener::adopt(descriptor, asked, owner)?));
        }
        let listener = |&place: &usize| all.get(place).cloned().ok_or_else(|| wrong("no such listener"));
        let copies = handover.copies.iter().map(|copy| copy.iter().map(listener).collect());
        let listeners = copies.collect::<io::Result<_>>()?;
        let workers = handover.workers;
        let opened = Opened { listeners, endpoint, access_logs, vault, keeper, workers };
        Ok(Some(Self { opened, log, settings }))
    }
}

/// The settings as they were tried.
pub(super) fn settings_of(mut file: File) -> Result<Settings, ConfigError> {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    read.map_err(|source| ConfigError::Read { path: "of the trial".into(), source })?;
    Source::default().load_text(&text)
}
