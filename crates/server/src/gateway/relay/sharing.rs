//! A reply in memory shared with the server, and a connection whose memory still holds bytes for the
//! client.

use fastcgi::transport::Filled;
use http1::Tick;

use super::super::area::Area;
use super::super::delivery::Delivery;
use super::super::failure::Failure;
use super::super::link::Link;
use super::super::{Gateway, Tools};
use super::{Relay, Stage};
use crate::queues::now_us;

/// Bytes of shared memory that are copied at a time, in search of the end of a head.
const HEAD_COPIED: usize = 4 << 10;

impl Relay {
    /// Takes a part of the reply that is in shared memory.
    pub(super) fn take_filled(
        &mut self,
        gateway: &mut Gateway,
        filled: Filled,
        tools: &mut Tools<'_>,
    ) -> Result<(), Failure> {
        self.course.has_reply();
        let waiting = self.shared()?.waiting();
        let is_wanted = self.delivery.as_ref().is_some_and(|delivery| !delivery.has_all_promised(waiting));
        if filled.length > 0 && is_wanted {
            self.active = tools.now;
        }
        self.shared()?.take(filled)?;
        self.has_used = true;
        // Whatever must be parsed is copied first.
        while self.delivery.is_none() && self.named.is_none() && self.shared()?.next().is_some() {
            let mut copied = [0; HEAD_COPIED];
            let count = self.shared()?.copy_next(&mut copied).map_err(Failure::Area)?;
            self.take_reply(gateway, &copied[..count], tools)?;
        }
        if self.named.is_some() {
            self.shared()?.drop_waiting();
        }
        self.take_from_area(gateway, false, tools)
    }

    /// The memory that is shared with the server.
    pub(super) fn shared(&mut self) -> Result<&mut Area, Failure> {
        match &mut self.stage {
            Stage::Asking(Link { area: Some(area), .. }) => Ok(area),
            _ => Err(Failure::Unasked),
        }
    }

    /// Supplies the client with the bytes that wait in shared memory, as far as there is room, or with
    /// all of them.
    pub(super) fn take_from_area(
        &mut self,
        gateway: &mut Gateway,
        is_all: bool,
        tools: &Tools<'_>,
    ) -> Result<(), Failure> {
        let area = match &mut self.stage {
            Stage::Asking(link) | Stage::Emptying(link) => &mut link.area,
            _ => &mut self.area,
        };
        let (Some(area), Some(delivery)) = (area, &mut self.delivery) else { return Ok(()) };
        if let Some(error) = delivery.supply_from(area, is_all, (gateway, self.pool), tools)? {
            gateway.complain(now_us() / 1000, &self.request(), &Failure::Spill(error));
        }
        Ok(())
    }

    /// Keeps the server's connection for another request, if that is allowed and possible. `behind` has
    /// come after the reply.
    pub(super) fn rest(&mut self, gateway: &mut Gateway, behind: &[u8], now: Tick) {
        let Stage::Asking(link) = &mut self.stage else { return };
        if gateway.may_keep(self.pool)
            && gateway.pools[self.pool].is_settled(link.server.at, link.knows, now)
            && link.may_rest(behind)
            && let Stage::Asking(link) = std::mem::replace(&mut self.stage, Stage::Over)
        {
            self.stage = Stage::Emptying(link);
            self.end_emptying(gateway);
        }
    }

    /// Keeps the connection once all bytes in its memory are sent. If the client is slow, gives the
    /// connection up.
    pub(super) fn end_emptying(&mut self, gateway: &mut Gateway) {
        let Stage::Emptying(link) = &mut self.stage else { return };
        let left = self.delivery.as_ref().map_or(0, |delivery| delivery.reply().left_elsewhere());
        if let Some(area) = &mut link.area {
            area.settle(left);
        }
        let is_slow = self.delivery.as_ref().is_some_and(Delivery::is_client_slow);
        if left > 0 && !is_slow {
            return;
        }
        if left == 0
            && link.rest()
            && let Stage::Emptying(link) = std::mem::replace(&mut self.stage, Stage::Over)
        {
            gateway.pools[self.pool].end(link.server.at);
            gateway.resting.push((self.pool, link));
        } else {
            self.let_go(gateway);
        }
    }
}
