//! Deadlines for the server, the queue and the client.

use std::io;

use http1::Tick;

use super::super::Gateway;
use super::super::failure::Failure;
use super::super::link::Setup;
use super::{Relay, Stage};
use crate::queues::now_us;

/// How long a server may take to answer which transports it supports, if its pool does not allow less.
const ANSWER_TICKS: u32 = 1000 / Tick::MS;
/// How long a server that has not answered is not asked again.
const SILENT_TICKS: u32 = 60_000 / Tick::MS;

impl Relay {
    /// When to call [`expire`](Self::expire), unless something happens before.
    pub fn deadline(&self) -> Option<Tick> {
        let reply = self.delivery.as_ref().and_then(|delivery| delivery.reply().deadline());
        [self.server_deadline(), reply].into_iter().flatten().reduce(Tick::earlier)
    }

    pub(super) fn server_deadline(&self) -> Option<Tick> {
        let stage = match &self.stage {
            // The client is to take interim replies first.
            Stage::Over if self.named.is_some() => Some(self.active.after(self.timeouts.quiet)),
            Stage::Body | Stage::Emptying(_) | Stage::Over => return None,
            // The rest of what the client has sent.
            Stage::Joined(_) if self.is_client_gone => return Some(self.active.after(self.timeouts.quiet)),
            Stage::Joined(_) => return Some(self.active.after(self.timeouts.upgraded)),
            Stage::Queued(_) => return Some(self.asked_at.after(self.timeouts.queue)),
            Stage::Due(not_before) => *not_before,
            Stage::Asking(link) if link.setup == Setup::Connecting => {
                Some(self.active.after(self.timeouts.connect))
            }
            Stage::Asking(link) if link.setup == Setup::Negotiating => {
                Some(self.active.after(ANSWER_TICKS.min(self.timeouts.quiet)))
            }
            // The server waits for the client.
            Stage::Asking(_) if !self.wants_input() => None,
            Stage::Asking(link) if link.waits_for_body() => None,
            Stage::Asking(_) => Some(self.active.after(self.timeouts.quiet)),
        };
        [stage, self.total_deadline()].into_iter().flatten().reduce(Tick::earlier)
    }

    pub(super) fn total_deadline(&self) -> Option<Tick> {
        self.timeouts.total.map(|ticks| self.asked_at.after(ticks))
    }

    /// Handles the server's deadlines that have passed by `now`.
    ///
    /// # Errors
    ///
    /// The server has taken too long.
    pub fn expire(&mut self, gateway: &mut Gateway, now: Tick) -> Result<(), Failure> {
        let is_over = self.total_deadline().is_some_and(|total| total.reached(now));
        let is_overdue = self.server_deadline().is_some_and(|deadline| deadline.reached(now));
        if self.returned.is_some() && is_overdue {
            // The client has its whole reply, although the server has not said so.
            self.all_is_said(gateway);
            return Ok(());
        }
        if is_overdue && matches!(self.stage, Stage::Asking(_)) && self.has_whole_reply() {
            // Here the whole reply has come as well. The next turn ends it.
            self.is_overdue = true;
            return Ok(());
        }
        if is_overdue && self.is_joined() {
            // The next turn ends it.
            self.is_overdue = true;
            return Ok(());
        }
        if is_over && matches!(self.stage, Stage::Due(_) | Stage::Asking(_)) {
            return Err(Failure::TimedOut);
        }
        if matches!(self.stage, Stage::Queued(_)) {
            gateway.wake(gateway.queue_handle.queue(self.pool).look(now_us()));
        }
        let server = match &self.stage {
            _ if !is_overdue => return Ok(()),
            Stage::Asking(link) if link.setup == Setup::Connecting => link.server.at,
            Stage::Asking(link) if link.setup == Setup::Negotiating => {
                self.ask_plainly(gateway, now, SILENT_TICKS);
                return Ok(());
            }
            Stage::Queued(_) => return Err(Failure::Late),
            // Another try is due, or the total time is up.
            Stage::Due(Some(until)) if until.reached(now) => return Ok(()),
            _ => return Err(Failure::TimedOut),
        };
        self.let_go(gateway);
        self.is_away(gateway, server, io::ErrorKind::TimedOut.into(), now)
    }
}
