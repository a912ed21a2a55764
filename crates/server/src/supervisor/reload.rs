//! HUP: new settings are read, checked and tried, and only then those that the server serves by.
//!
//! ```text
//! HUP --> settings, listeners, logs --> a generation of workers on trial, beside the one that serves
//!         each of its workers has come to serve --> the one before retires
//!         one has ended, or takes too long ------> it retires itself, and nothing has changed
//! ```
//!
//! Until then the supervisor keeps what both generations have: the settings, listeners and logs of the one
//! that serves are its own, those of the other are the [`Reload`]'s and the [workers](super::workers)'.
//! Nothing is set on a listener that the new settings do without, and the status tells of the generation that
//! serves. Another HUP, or USR2, waits for what comes of it, and TERM ends both.

use std::time::{Duration, Instant};

use super::workers::Outcome;
use super::{RunError, Supervisor, access_logs, failed, given_up, tell_doubts, try_out};
use crate::config::Settings;
use crate::listeners::{self, Listeners};

/// How often is looked whether the workers have come to serve. That one has ended is told by a signal.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// How long they may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A reload under way.
pub(super) struct Reload {
    settings: Settings,
    /// Of each copy.
    listeners: Vec<Listeners>,
    due: Instant,
}

impl Supervisor {
    /// Checks the settings and, if they are good, has new workers try to serve by them.
    pub(super) fn reload(&mut self) {
        let mut states = vec![sd_notify::NotifyState::Reloading];
        states.extend(sd_notify::NotifyState::monotonic_usec_now());
        let _ = sd_notify::notify(&states);
        match self.try_reload() {
            Ok(reload) => self.reload = Some(reload),
            Err(error) => not_reloaded(&error.to_string()),
        }
    }

    fn try_reload(&mut self) -> Result<Reload, RunError> {
        let read = self.source.read()?;
        try_out(&read.settings)?;
        tell_doubts(&read);
        let mut settings = read.settings;
        let access_logs = access_logs(&settings, self.workers.access_logs(), None);
        let access_logs = access_logs.collect::<Result<_, _>>()?;
        for key in needs_restart(&self.settings, &settings) {
            tracing::warn!("`{key}` has changed, which takes a restart; it stays as it is");
        }
        (settings.copies, settings.copies_by) = (self.settings.copies, self.settings.copies_by);
        let listeners = listeners::reopen(&self.listeners, &settings)?;
        let retiring = given_up(&self.listeners, &listeners);
        if let Err(error) = self.workers.propose(&settings, &listeners, &retiring, access_logs) {
            self.close_new(&listeners);
            return Err(failed("start a worker")(error));
        }
        Ok(Reload { settings, listeners, due: Instant::now() + PATIENCE })
    }

    /// Goes by the new settings if their workers serve, and by those of before if they will not.
    pub(super) fn settle_reload(&mut self) {
        let Some(reload) = &self.reload else { return };
        match self.workers.outcome() {
            Outcome::Serves => self.confirm_reload(),
            Outcome::Failed(why) => self.withdraw_reload(&format!("{why} before it came to serve by them")),
            Outcome::Open if reload.due <= Instant::now() => {
                self.withdraw_reload(&format!("workers have not come to serve by them within {PATIENCE:?}"));
            }
            Outcome::Open => {}
        }
    }

    fn confirm_reload(&mut self) {
        let Some(Reload { settings, listeners, .. }) = self.reload.take() else { return };
        // Before anybody can have closed one of them.
        for listener in given_up(&self.listeners, &listeners) {
            listener.refuse_new_handshakes();
        }
        self.workers.confirm();
        // So that the status process does not come with a listener that it does not know and never closes.
        self.listeners = listeners;
        self.settings = settings;
        self.start_status_process();
        tracing::info!("settings reloaded");
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    }

    fn withdraw_reload(&mut self, why: &str) {
        if let Some(reload) = self.reload.take() {
            self.close_new(&reload.listeners);
        }
        self.workers.withdraw();
        // It counts what the clients of that generation have asked for.
        self.start_status_process();
        not_reloaded(why);
    }

    /// Closes those that were opened for this reload, for all who have them open: a worker may take its time
    /// to let go, and the next reload may want the address.
    fn close_new(&self, listeners: &[Listeners]) {
        for listener in given_up(listeners, &self.listeners) {
            listener.stop_listening();
        }
    }

    /// At the end of the server, before all workers are told: nothing is tried any more.
    pub(super) fn end_reload(&mut self) {
        let Some(reload) = self.reload.take() else { return };
        for listener in given_up(&reload.listeners, &self.listeners) {
            listener.refuse_new_handshakes();
        }
        self.workers.kill_late();
    }
}

/// Tells why, which is a line for each mistake in the settings.
fn not_reloaded(why: &str) {
    const MOST: usize = 20;
    let lines = why.lines().count();
    why.lines().take(MOST).for_each(|line| tracing::error!("settings not reloaded: {line}"));
    if lines > MOST {
        tracing::error!("settings not reloaded: {} more mistakes, which `sluice check` tells", lines - MOST);
    }
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
}

/// Keys whose change a reload can't take over.
fn needs_restart(old: &Settings, new: &Settings) -> Vec<&'static str> {
    let changed = [
        ("copies", old.copies != new.copies),
        ("copies_by", old.copies_by != new.copies_by),
        ("cpus", old.cpus != new.cpus),
        ("user", old.user != new.user || old.group != new.group),
        ("status", old.status != new.status || old.status_socket != new.status_socket),
        ("error_log", old.error_log != new.error_log || old.log_level != new.log_level),
    ];
    changed.into_iter().filter_map(|(key, changed)| changed.then_some(key)).collect()
}
