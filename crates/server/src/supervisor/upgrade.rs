//! USR2: the process goes on as the program that its file holds by now, with the same id, listeners and
//! children.
//!
//! ```text
//! old program: trial (a child) --> handover, descriptors kept open --> exec
//! new program: read the handover --> listeners --> workers of its own --> the old workers retire
//! ```
//!
//! Listeners are open all the time. The old workers serve until the new ones have done so for a while, and
//! see their connections to the end. They know nothing of the new program but signals: USR2 has a worker
//! retire, TERM has it drain.
//!
//! Once the process is the new program there is no way back, so whatever can be wrong with it is to be found
//! in its [`trial`](super::trial). It then goes on by the settings as they were tried, whatever has become of
//! the file since.

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

use crate::access_log::LogFile;
use crate::config::{ConfigError, ListenAddress, Settings, Source, StatusAddress};
use crate::error_log::{self, HandedOn};
use crate::listeners::{Listener, Listeners};
use crate::status::Endpoint;

/// The program file and what it was started with.
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) arguments: Vec<OsString>,
}

/// Which file a path stands for: device, inode, and when it was changed, to the nanosecond.
pub(super) type Identity = (u64, u64, i64, i64);

/// What a program leaves to the one that takes its place, or that is tried for it.
pub(super) struct Legacy<'a> {
    /// Of each copy.
    pub(super) listeners: &'a [Listeners],
    pub(super) endpoint: Option<&'a Endpoint>,
    pub(super) access_logs: &'a [Arc<LogFile>],
    /// The settings as they were tried; in a trial, where to write them.
    pub(super) settings: &'a File,
    /// Its children: workers that run, and whatever is still to be reaped.
    pub(super) workers: Vec<u32>,
}

/// What a server has open before its first worker.
pub(super) struct Opened {
    /// Of each copy.
    pub(super) listeners: Vec<Listeners>,
    pub(super) endpoint: Option<Arc<Endpoint>>,
    pub(super) access_logs: Vec<Arc<LogFile>>,
    /// The children of the program before.
    pub(super) workers: Vec<u32>,
}

/// What the program before has left to this one, or lent to it for a trial.
pub(super) struct Bequest {
    pub(super) opened: Opened,
    /// Its error log, which may be one that can't be opened any more without the privileges of the start.
    pub(super) log: Option<HandedOn>,
    /// As of [`Legacy`].
    pub(super) settings: File,
}

/// Why the program goes on as it is.
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

/// What the new program must know beside descriptors, which come in this order: listeners, status, logs,
/// settings.
#[derive(Deserialize, Serialize)]
struct Handover {
    /// Of each listener the address that was asked for; none where systemd gave it.
    asked: Vec<Option<String>>,
    /// The listeners of each copy, by their place in `asked`.
    copies: Vec<Vec<usize>>,
    /// Where status requests are answered, if anywhere.
    status: Option<String>,
    /// The error log's file, if it is one.
    log: Option<PathBuf>,
    /// An access log's, which need not be one that can be opened, either.
    #[serde(default)]
    access_log: Option<PathBuf>,
    /// Those of others, where sites have logs of their own.
    #[serde(default)]
    other_access_logs: Vec<PathBuf>,
    workers: Vec<u32>,
}

/// The variables that hold a handover, and the numbers of its descriptors. A program that knows
/// nothing of trials must not take one for its turn to serve, so there they are others.
pub(super) struct Names {
    handover: &'static str,
    descriptors: &'static str,
}

/// To the program that takes our place.
pub(super) const UPGRADE: Names =
    Names { handover: "SLUICE_UPGRADE", descriptors: "SLUICE_UPGRADE_DESCRIPTORS" };
/// To the one that is tried.
pub(super) const TRIAL: Names = Names { handover: "SLUICE_TRIAL", descriptors: "SLUICE_TRIAL_DESCRIPTORS" };

impl Program {
    /// What this process runs. Ask before the file can have been replaced.
    pub(super) fn of_this_process() -> io::Result<Self> {
        Ok(Self { path: process::program()?, arguments: std::env::args_os().collect() })
    }

    /// What the path stands for now.
    pub(super) fn identity(&self) -> Result<Identity, NotUpgraded> {
        match fs::metadata(&self.path) {
            Ok(file) => Ok((file.dev(), file.ino(), file.ctime(), file.ctime_nsec())),
            Err(source) => Err(NotUpgraded::Run { program: self.path.clone(), source }),
        }
    }

    /// Goes on as the file that has been tried; comes back only if that can't be.
    pub(super) fn execute(&self, tried: Identity, legacy: &Legacy<'_>) -> NotUpgraded {
        match self.identity() {
            Ok(now) if now == tried => {}
            Ok(_) => return NotUpgraded::Replaced(self.path.clone()),
            Err(error) => return error,
        }
        // Whoever waits for children of its own needs that one: the file may be a script.
        let of_children = SignalSet::new(&[Signal::Child]);
        let _ = of_children.unblock();
        let executed = legacy.hand_on(&UPGRADE, |ours| {
            // Where this program came by an upgrade itself, the handover to it is still there.
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

    /// Does something with the variables of the handover, while the descriptors stay open in what is
    /// executed.
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
            workers: legacy.workers.clone(),
        }
    }
}

impl Bequest {
    /// What this process has left to itself, or was lent by its parent for a trial, if it was; `owner` says
    /// whose the listeners are. In a process with a single thread, before anything is opened.
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
        let opened = Opened { listeners, endpoint, access_logs, workers: handover.workers };
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
