//! HUP: reads new settings, checks and tries them, and only then uses them.
//!
//! ```text
//! HUP --> settings, listeners, logs --> a generation of workers on trial, beside the one that serves
//!         each of its workers has come to serve --> the one before retires
//!         one has ended, or takes too long ------> it retires itself, and nothing has changed
//! ```
//!
//! Until the outcome, the supervisor keeps what both generations have. The settings, listeners and logs
//! of the serving generation are its own. Those of the other belong to the [`Reload`] and to the
//! [workers](super::workers). Listeners that the new settings no longer have are left unchanged, and the
//! status reports the serving generation. Another HUP or USR2 waits for the outcome. TERM ends both
//! generations.

use std::time::{Duration, Instant};

use super::workers::Outcome;
use super::{RunError, Supervisor, access_logs, failed, given_up, tell_doubts, try_out};
use crate::config::Settings;
use crate::listeners::{self, Listeners};

/// How often to check whether the workers serve. A signal reports that one has ended.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// How long they may take to serve.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A reload under way.
pub(super) struct Reload {
    settings: Settings,
    /// The listeners of each copy.
    listeners: Vec<Listeners>,
    due: Instant,
}

impl Supervisor {
    /// Checks the settings and, if they are good, starts new workers with them on trial.
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
        for (key, what) in needs_more(&self.settings, &settings) {
            tracing::warn!("`{key}` has changed, which requires {what}; the old value stays in use");
        }
        self.read_certificates(&settings)?;
        (settings.copies, settings.copies_by) = (self.settings.copies, self.settings.copies_by);
        let listeners = listeners::reopen(&self.listeners, &settings)?;
        let retiring = given_up(&self.listeners, &listeners);
        let shared = (access_logs, &self.vault);
        if let Err(error) = self.workers.propose(&settings, &listeners, &retiring, shared) {
            self.close_new(&listeners);
            return Err(failed("start a worker")(error));
        }
        Ok(Reload { settings, listeners, due: Instant::now() + TIMEOUT })
    }

    /// Uses the new settings if their workers serve, or keeps the old ones if the workers fail.
    pub(super) fn settle_reload(&mut self) {
        let Some(reload) = &self.reload else { return };
        match self.workers.outcome() {
            Outcome::Serves => self.confirm_reload(),
            Outcome::Failed(why) => self.withdraw_reload(&format!("{why} before it served with them")),
            Outcome::Open if reload.due <= Instant::now() => {
                self.withdraw_reload(&format!("workers have not started to serve within {TIMEOUT:?}"));
            }
            Outcome::Open => {}
        }
    }

    fn confirm_reload(&mut self) {
        let Some(Reload { settings, listeners, .. }) = self.reload.take() else { return };
        // Before any worker can have closed one of them.
        for listener in given_up(&self.listeners, &listeners) {
            listener.refuse_new_handshakes();
        }
        self.workers.confirm();
        if let Some(keeper) = &self.keeper {
            keeper.confirm();
        }
        // This comes first, so that the new status process does not hold a listener that it does not know
        // and never closes.
        self.listeners = listeners;
        self.settings = settings;
        self.start_aides();
        tracing::info!("settings reloaded");
        // These settings may be the first with TLS.
        self.start_missing_keeper();
        self.tell_of_certificates();
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    }

    fn withdraw_reload(&mut self, why: &str) {
        if let Some(reload) = self.reload.take() {
            self.close_new(&reload.listeners);
        }
        self.workers.withdraw();
        // The new status process counts what the clients of the withdrawn generation have asked for.
        self.start_status_process();
        not_reloaded(why);
    }

    /// Closes the listeners that were opened for this reload, in all processes that have them open. A
    /// worker may be slow to let go, and the next reload may want the address.
    fn close_new(&self, listeners: &[Listeners]) {
        for listener in given_up(listeners, &self.listeners) {
            listener.stop_listening();
        }
    }

    /// Ends the trial when the server ends, before the workers learn of that.
    pub(super) fn end_reload(&mut self) {
        let Some(reload) = self.reload.take() else { return };
        for listener in given_up(&reload.listeners, &self.listeners) {
            listener.refuse_new_handshakes();
        }
        self.workers.kill_late();
    }
}

/// Logs the reason, with a line for each mistake in the settings.
fn not_reloaded(why: &str) {
    const MOST: usize = 20;
    let lines = why.lines().count();
    why.lines().take(MOST).for_each(|line| tracing::error!("settings not reloaded: {line}"));
    if lines > MOST {
        tracing::error!("settings not reloaded: {} more mistakes; `sluice check` lists them", lines - MOST);
    }
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
}

/// Keys that have changed but that a reload cannot change, each with what can.
fn needs_more(old: &Settings, new: &Settings) -> impl Iterator<Item = (&'static str, &'static str)> {
    const UPGRADE: &str = "an upgrade in place (USR2) or a restart";
    const RESTART: &str = "a restart";
    let changed = [
        ("copies", UPGRADE, old.copies != new.copies),
        ("copies_by", UPGRADE, old.copies_by != new.copies_by),
        ("cpus", UPGRADE, old.cpus != new.cpus),
        ("error_log", UPGRADE, old.error_log != new.error_log || old.log_level != new.log_level),
        ("user", RESTART, old.user != new.user || old.group != new.group),
        ("status", RESTART, old.status != new.status || old.status_socket != new.status_socket),
    ];
    changed.into_iter().filter_map(|(key, what, has_changed)| has_changed.then_some((key, what)))
}
