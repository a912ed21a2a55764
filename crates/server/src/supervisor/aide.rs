//! A process that does one thing beside the workers: it answers status requests, or looks names up.
//!
//! It is a copy of the supervisor as of the last reload. If it ends by itself, it is started again after a
//! while: the server matters more than its aides.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sys::event::Interest;
use sys::poll;
use sys::process::{self, Ended};

use super::exit_code;
use super::remains::Remains;
use super::workers::{Foreign, LONGEST_PAUSE, QUICK};
use crate::control::{Control, Phase};
use crate::error_log;

/// Such a process, or the lack of one.
pub(super) struct Aide {
    /// What it is, in messages and as the name of the process.
    what: &'static str,
    process: Option<Process>,
    /// When to start it again.
    due: Option<Instant>,
}

/// A running process.
struct Process {
    pid: u32,
    /// Through this, the supervisor tells it that the server drains, to reopen the error log, and to finish
    /// and end.
    control: Arc<Control>,
    since: Instant,
}

impl Aide {
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, process: None, due: None }
    }

    /// Starts the process, which runs `work`. If that fails, it is [due](Self::is_due) later.
    pub(super) fn start(&mut self, foreign: &Foreign, work: impl FnOnce(&Arc<Control>) -> io::Result<()>) {
        let what = self.what;
        let fork = || -> io::Result<_> {
            let control = Arc::new(Control::new()?);
            let pid = process::fork(|| {
                process::set_name(&format!("sluice:{what}"));
                foreign.close(&[]);
                exit_code(&format!("the {what} process"), work(&control))
            })?;
            Ok(Process { pid, control, since: Instant::now() })
        };
        match fork() {
            Ok(process) => (self.process, self.due) = (Some(process), None),
            Err(error) => {
                tracing::error!("cannot start the {what} process: {error}");
                self.due = Some(Instant::now() + LONGEST_PAUSE);
            }
        }
    }

    /// Ends the process, and starts no other. `remains` gets what is left of it.
    pub(super) fn stop(&mut self, remains: &mut Remains) {
        self.due = None;
        if let Some(Process { pid, control, .. }) = self.process.take() {
            remains.add(pid);
            control.enter(Phase::Stop);
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.pid)
    }

    /// Handles the end of a process. Returns whether it was this one.
    pub(super) fn note_end(&mut self, pid: u32, how: Ended, phase: Phase) -> bool {
        let Some(process) = self.process.take_if(|process| process.pid == pid) else { return false };
        tracing::error!("the {} process has ended with {how}", self.what);
        if phase == Phase::Run {
            // One that ended soon will probably do so again.
            let pause = if process.since.elapsed() < QUICK { LONGEST_PAUSE } else { Duration::ZERO };
            self.due = Some(Instant::now() + pause);
        }
        true
    }

    /// When to start it again, if it has ended.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= Instant::now())
    }

    /// The server drains.
    pub(super) fn drain(&mut self) {
        self.due = None;
        if let Some(process) = &self.process {
            process.control.enter(Phase::Drain);
        }
    }

    pub(super) fn reopen_log(&self) {
        if let Some(process) = &self.process {
            process.control.reopen_logs();
        }
    }
}

/// What such a process does: it does the work that `begin` begins until it is to end. `drain` is called when
/// the server drains. Returns what `begin` has returned.
///
/// # Errors
///
/// The work cannot be begun.
pub(super) fn work_until_the_end<W>(
    control: &Arc<Control>,
    begin: impl FnOnce() -> io::Result<W>,
    drain: impl Fn(),
) -> io::Result<W> {
    control.attend()?;
    process::forgo_new_privileges()?;
    let work = begin()?;
    let mut reopenings = control.reopenings();
    while control.phase() != Phase::Stop {
        poll::wait_for([(control.as_fd(), Interest::READABLE)], None)?;
        control.heed();
        if std::mem::replace(&mut reopenings, control.reopenings()) != reopenings
            && let Err(error) = error_log::reopen()
        {
            tracing::error!("cannot reopen the error log: {error}");
        }
        if control.phase() >= Phase::Drain {
            drain();
        }
        if control.is_orphaned() {
            break;
        }
    }
    Ok(work)
}
