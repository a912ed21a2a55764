//! A client's connection that is joined with a server's, because the server has switched to another protocol
//! (101). Bytes pass in both directions as they come, and the server does not look into them.
//!
//! ```text
//! client --> Link's output --> server
//! client <-- OpenReply <------ server
//! ```
//!
//! In each direction no more is received than the other side takes soon. The end of either side ends both,
//! once what that side has sent before is passed on. So does silence of both sides for the pool's
//! `upgrade_timeout`. A client that takes too little is too slow, as for any reply.
//!
//! The request has left the pool's queue, where it would take the place of others for hours. A queue of its
//! own bounds how many connections are joined, from the request on.

use fastcgi::response;
use http1::client::ResponseHead;
use http1::{Head, OpenReply, Plan, Status, Terms, Tick};

use super::super::delivery::Delivery;
use super::super::failure::Failure;
use super::super::upgrade;
use super::super::{Gateway, Tools};
use super::{Relay, Stage};
use crate::account::Account;
use crate::content::Pin;
use crate::queues::{Entry, now_us};

/// While so many bytes wait for the server, no more are taken from the client.
const MOST_UNSENT: usize = 16 << 10;

impl Relay {
    /// Takes a place among the pool's upgraded connections, if the request offers an upgrade and the pool
    /// allows any.
    ///
    /// # Errors
    ///
    /// There is no place.
    pub(super) fn ask_to_join(&mut self, gateway: &mut Gateway) -> Result<(), Failure> {
        let Some(queue) = gateway.queue_handle.of_upgrades(self.pool).filter(|_| self.offers_upgrade) else {
            self.offers_upgrade = false;
            return Ok(());
        };
        let account = Account::of(&self.asker.client);
        match queue.enter(gateway.queue_handle.worker(), account, now_us()).0 {
            Entry::Goes(ticket) => {
                self.joining = Some(ticket);
                Ok(())
            }
            Entry::Waits(ticket) => {
                queue.leave(ticket, now_us());
                Err(Failure::TooManyUpgrades)
            }
            Entry::Full => Err(Failure::TooManyUpgrades),
        }
    }

    /// Gives up the place, if there is one.
    pub(super) fn join_no_more(&mut self, gateway: &Gateway) {
        if let Some(ticket) = self.joining.take()
            && let Some(queue) = gateway.queue_handle.of_upgrades(self.pool)
        {
            queue.leave(ticket, now_us());
        }
    }

    /// The server has switched, with this head. `fields` are its fields for the client.
    ///
    /// # Errors
    ///
    /// The protocol was not offered.
    pub(super) fn join(
        &mut self,
        gateway: &mut Gateway,
        head: &ResponseHead<'_>,
        fields: &response::Head<'_>,
        tools: &mut Tools<'_>,
    ) -> Result<(), Failure> {
        let request = Head::again(&self.consumed, self.terms).ok_or(Failure::Unreadable)?;
        let protocol = upgrade::chosen(head, &request).ok_or(Failure::NotOffered)?;
        let reply = self.switch(head.reason, protocol, fields, tools);
        self.delivery = Some(Delivery::never_on_disk(reply, gateway));
        self.course.has_all();
        self.leave_queue(gateway);
        gateway.queue_handle.counters(self.pool).upgrades.add_among_others(1);
        if let Stage::Asking(mut link) = std::mem::replace(&mut self.stage, Stage::Over) {
            link.joins();
            self.stage = Stage::Joined(link);
        }
        self.active = tools.now;
        Ok(())
    }

    fn switch(
        &self,
        reason: Option<&[u8]>,
        protocol: &[u8],
        fields: &response::Head<'_>,
        tools: &mut Tools<'_>,
    ) -> OpenReply<Pin> {
        let sheet = tools.sheets.pop().unwrap_or_default();
        let terms = Terms { persistent: true, ..self.terms };
        let mut plan = Plan::with_reason(sheet, (Status::SWITCHING_PROTOCOLS, reason), terms, tools.stamp);
        for (name, value) in fields.for_client() {
            plan.field(name, value);
        }
        plan.field("Upgrade", protocol);
        plan.switch(tools.limits, tools.now)
    }

    /// Whether the client's connection is joined with the server's.
    pub fn is_joined(&self) -> bool {
        matches!(self.stage, Stage::Joined(_))
    }

    /// Whether the server takes bytes from the client now: because it is joined, or of the body.
    pub fn takes_input(&self) -> bool {
        match &self.stage {
            Stage::Joined(link) => !self.is_client_gone && link.unsent() < MOST_UNSENT,
            _ => self.takes_body(),
        }
    }

    /// Whether it is joined, and the client will send no more.
    pub fn has_lost_client(&self) -> bool {
        self.is_joined() && self.is_client_gone
    }

    /// Takes bytes of the client for the server.
    pub fn pass_on(&mut self, bytes: &[u8], now: Tick) {
        if let Stage::Joined(link) = &mut self.stage
            && !bytes.is_empty()
        {
            link.pass_on(bytes);
            self.active = now;
        }
    }

    /// The client sends no more.
    pub fn client_ends(&mut self) {
        self.is_client_gone = true;
    }

    /// Takes bytes of the server for the client.
    pub(super) fn supply_joined(&mut self, bytes: &[u8], tools: &mut Tools<'_>) {
        if let Some(delivery) = &mut self.delivery {
            delivery.reply_mut().supply(tools.limits, tools.now, bytes);
        }
    }

    /// Moves bytes both ways as far as possible without waiting.
    pub(super) fn exchange_joined(
        &mut self,
        gateway: &mut Gateway,
        tools: &mut Tools<'_>,
    ) -> Result<(), Failure> {
        loop {
            let Stage::Joined(link) = &mut self.stage else { return Ok(()) };
            if link.send(&mut self.body, None, tools.share).map_err(Failure::Broken)? {
                self.active = tools.now;
            }
            let is_over = self.is_client_gone && link.unsent() == 0;
            if is_over || std::mem::take(&mut self.is_overdue) {
                return self.end_joined(gateway, tools);
            }
            let Some(delivery) = self.delivery.as_mut().filter(|delivery| delivery.wants_more()) else {
                return Ok(());
            };
            if self.is_client_gone || !link.readable || *tools.share == 0 {
                return Ok(());
            }
            match link.receive(tools.scratch, tools.share).map_err(Failure::Broken)? {
                None => {}
                Some(0) => return self.end_joined(gateway, tools),
                Some(count) => {
                    self.active = tools.now;
                    delivery.reply_mut().supply(tools.limits, tools.now, &tools.scratch[..count]);
                }
            }
        }
    }

    /// One of the two has ended. The client still gets what there is for it.
    fn end_joined(&mut self, gateway: &mut Gateway, tools: &mut Tools<'_>) -> Result<(), Failure> {
        self.let_go(gateway);
        self.join_no_more(gateway);
        self.delivery.as_mut().map_or(Ok(()), |delivery| delivery.finish(tools))
    }
}
