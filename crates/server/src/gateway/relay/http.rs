//! A reply over HTTP. Its head becomes that of a reply as CGI has it, so that everything behind is the same.

use fastcgi::response;
use http1::client::{Event, ResponseHead};
use http1::{Head, Status, Tick, Version};

use super::super::failure::Failure;
use super::super::link::{Link, Speaks};
use super::super::{Gateway, Tools};
use super::{Relay, Stage};

/// If less of a body than this is to come, it is received together with what may follow it.
const WORTH_A_CALL: u64 = 16 << 10;

/// Most of a body in one call.
const MOST_AT_ONCE: u64 = 128 << 10;

impl Relay {
    /// Receives a body of known length where the reply is sent from, so that it is not copied. Returns
    /// whether to call again at once. `None`: it has to be received otherwise.
    ///
    /// # Errors
    ///
    /// As for [`take_in_http`](Self::take_in_http).
    pub(super) fn receive_http_body(
        &mut self,
        gateway: &mut Gateway,
        tools: &mut Tools<'_>,
    ) -> Result<Option<bool>, Failure> {
        let (Stage::Asking(link), Some(delivery)) = (&mut self.stage, &mut self.delivery) else {
            return Ok(None);
        };
        let Speaks::Http(http) = &link.speaks else { return Ok(None) };
        let comes = http.connection.skip_body_hint();
        if comes < WORTH_A_CALL || !link.can_receive_behind() || !self.head.is_empty() {
            return Ok(None);
        }
        let Some((room, owed)) = delivery.room_for_body() else { return Ok(None) };
        let most = comes.min(owed).min(MOST_AT_ONCE);
        if most < WORTH_A_CALL {
            return Ok(None);
        }
        room.reserve(most as usize);
        let received = link.receive_behind(room, most as usize, tools.share).map_err(Failure::Broken)?;
        let Some(count) = received else { return Ok(Some(link.readable)) };
        if let Speaks::Http(http) = &mut link.speaks {
            http.connection.skipped(count as u64);
        }
        if count > 0 {
            delivery.reply_mut().received(tools.limits, tools.now, count);
            self.active = tools.now;
        }
        if count == 0 || count as u64 == comes {
            self.take_in_http(gateway, &[], count == 0, tools)?;
        }
        Ok(Some(true))
    }

    /// Handles bytes from a server. `is_end`: it has closed the connection.
    pub(super) fn take_in_http(
        &mut self,
        gateway: &mut Gateway,
        input: &[u8],
        is_end: bool,
        tools: &mut Tools<'_>,
    ) -> Result<(), Failure> {
        // The beginning of a head that was not whole.
        let mut begun = std::mem::take(&mut self.head);
        let mut input = if begun.is_empty() {
            input
        } else {
            begun.extend_from_slice(input);
            &begun
        };
        loop {
            let Stage::Asking(Link { speaks: Speaks::Http(http), .. }) = &mut self.stage else {
                return Ok(());
            };
            let (used, event) = http.connection.receive(input, is_end)?;
            match event {
                Event::NeedInput => {
                    self.head.extend_from_slice(&input[used..]);
                    return Ok(());
                }
                Event::Interim(head) => self.take_http_head(gateway, &head, tools)?,
                Event::Head(head) => {
                    self.course.has_reply();
                    self.active = tools.now;
                    self.take_http_head(gateway, &head, tools)?;
                    if self.is_joined() {
                        self.supply_joined(&input[used..], tools);
                        return Ok(());
                    }
                    self.join_no_more(gateway);
                }
                Event::Body(range) => self.take_reply(gateway, &input[range], tools)?,
                Event::EndOfReply { keep_alive } => {
                    http.is_free = keep_alive;
                    self.rest(gateway, &input[used..], tools.now);
                    return self.end_reply(gateway, tools);
                }
                Event::Closed => return Err(Failure::Closed),
            }
            input = &input[used..];
        }
    }

    fn take_http_head(
        &mut self,
        gateway: &mut Gateway,
        head: &ResponseHead<'_>,
        tools: &mut Tools<'_>,
    ) -> Result<(), Failure> {
        // What the Connection field names is for this server only (RFC 9110 section 7.6.1).
        let (status, length) = ((head.status.0, head.reason), head.announced_length());
        let fields = head.fields().filter(|(name, _)| !head.is_for_connection(name));
        let Some(terms) = gateway.pools[self.pool].http.as_ref().filter(|terms| terms.rewrites) else {
            let told = response::Head::of(status, length, fields);
            return self.take_told_head(gateway, (head, &told), tools);
        };
        let asked = Head::again(&self.consumed, self.terms).ok_or(Failure::Unreadable)?;
        let host = terms.host(&asked, &self.asker);
        let fields = fields.map(|(name, value)| (name, terms.for_client(name, value, host)));
        let fields: Vec<_> = fields.collect();
        let fields = fields.iter().map(|(name, value)| (*name, &**value));
        let told = response::Head::of(status, length, fields);
        self.take_told_head(gateway, (head, &told), tools)
    }

    /// Takes a head, and what of it the client may be told.
    fn take_told_head(
        &mut self,
        gateway: &mut Gateway,
        (head, told): (&ResponseHead<'_>, &response::Head<'_>),
        tools: &mut Tools<'_>,
    ) -> Result<(), Failure> {
        match head.status {
            Status::SWITCHING_PROTOCOLS => self.join(gateway, head, told, tools),
            Status(..200) => {
                self.take_interim(told, tools.now);
                Ok(())
            }
            _ => self.take_head(gateway, told, tools),
        }
    }

    /// Takes what the client may be told of an interim reply. A 100 would ask for a body that the server asks
    /// for itself, and a client of HTTP/1.0 knows no interim replies. What the client does not get is no
    /// progress.
    fn take_interim(&mut self, told: &response::Head<'_>, now: Tick) {
        let is_for_client = told.status != 100 && self.terms.version == Version::Http11;
        if is_for_client && self.interims.add(told) {
            self.active = now;
        }
    }
}
