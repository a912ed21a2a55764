//! What a serving thread owes the supervisor: a census when requested, reopened logs, and an orderly end.
//!
//! - A worker that *retires* leaves its listeners to other workers. It serves each of its connections until
//!   its next reply or its timeout. So no client ever sends a request to a connection that closes.
//! - A worker that *drains* accepts queued connections and finishes its work. It leaves idle connections
//!   open for a while, because a request may be on its way. It cuts off what takes longer than the drain
//!   timeout.

use std::sync::Arc;

use http1::Tick;
use results::Label as _;

use crate::config::Settings;
use crate::control::{Control, Phase};
use crate::counters::ConnectionState;
use crate::service::Service;

/// The progress of an end of service, and the supervisor's requests received so far.
pub(in crate::architecture) struct Ending {
    control: Arc<Control>,
    stage: Stage,
    drain_timeout_ticks: u32,
    /// How many times the logs have been reopened.
    reopenings: u32,
}

#[derive(Clone, Copy)]
enum Stage {
    NotYet,
    Retired,
    Drain {
        /// Before this, idle connections are left open.
        idle_until: Tick,
        /// At this time, the remaining connections are cut off.
        give_up: Tick,
    },
}

/// An end that begins now.
pub(in crate::architecture) enum Begins {
    /// Other workers accept from now on: release the listeners.
    Retiring,
    /// No worker accepts any more: empty the listeners and close them.
    Draining,
}

/// Connections by state, in the order of [`ConnectionState`].
pub(in crate::architecture) type Census = [u64; ConnectionState::NAMES.len()];

/// How long a drain leaves idle connections open.
const IDLE_TICKS: u32 = 500 / Tick::MS;

impl Ending {
    pub(in crate::architecture) fn new(settings: &Settings, control: Arc<Control>) -> Self {
        Self {
            stage: Stage::NotYet,
            drain_timeout_ticks: http1::Timeouts::ticks(settings.drain_timeout.as_millis() as u64),
            reopenings: control.reopenings(),
            control,
        }
    }

    /// Called between two turns: does what the supervisor requests, and returns the end that begins now, if
    /// one does.
    pub(in crate::architecture) fn heed(
        &mut self,
        service: &Service,
        census: impl FnOnce() -> Census,
    ) -> Option<Begins> {
        self.control.hear_round();
        if service.counters.census.pending().is_some() {
            service.publish();
            service.counters.answer_census(census);
        }
        let reopenings = self.control.reopenings();
        if std::mem::replace(&mut self.reopenings, reopenings) != reopenings {
            service.reopen_logs();
        }
        match (self.control.phase(), self.stage) {
            (Phase::Retire, Stage::NotYet) => {
                self.stage = Stage::Retired;
                Some(Begins::Retiring)
            }
            (Phase::Drain, Stage::NotYet | Stage::Retired) => {
                let now = service.clock.tick;
                self.stage = Stage::Drain {
                    idle_until: now.after(IDLE_TICKS),
                    give_up: now.after(self.drain_timeout_ticks),
                };
                Some(Begins::Draining)
            }
            _ => None,
        }
    }

    /// Whether connections are to end with their next reply.
    pub(in crate::architecture) fn has_begun(&self) -> bool {
        !matches!(self.stage, Stage::NotYet)
    }

    /// Whether it is a drain, so that its times have to be awaited.
    pub(in crate::architecture) fn is_draining(&self) -> bool {
        matches!(self.stage, Stage::Drain { .. })
    }

    /// Whether idle connections need not be left open any longer.
    pub(in crate::architecture) fn closes_idle_ones(&self, now: Tick) -> bool {
        matches!(self.stage, Stage::Drain { idle_until, .. } if idle_until.reached(now))
    }

    /// Whether the drain timeout is over.
    pub(in crate::architecture) fn gives_up(&self, now: Tick) -> bool {
        matches!(self.stage, Stage::Drain { give_up, .. } if give_up.reached(now))
    }
}
