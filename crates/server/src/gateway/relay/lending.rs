//! The client of a request while it is lent, and when it comes back, or not.

use fastcgi::transport::Returned;
use http1::{Limits, Tick};

use super::super::failure::Failure;
use super::super::loan::{self, Lendable, Look};
use super::super::{Gateway, Tools};
use super::{Relay, Stage};

/// What has come of a client for whom there will be no reply, or no more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// It can be told so, if it has been sent nothing.
    Answerable,
    /// The same, but the connection is to end with that.
    AnswerableOnce,
    /// Somebody else has sent it so many bytes, or may still send some.
    Spoilt(u64),
}

impl Relay {
    /// Whether the client is lent: it is nobody's here.
    pub fn is_lent(&self) -> bool {
        self.loan.is_some()
    }

    /// Whether it is, or was.
    pub fn has_lent(&self) -> bool {
        self.has_lent
    }

    /// Looks after the client that is lent, if it is. Says whether it takes the reply too slowly.
    pub fn look_after_loan(&mut self, client: Lendable<'_>, limits: &Limits, now: Tick) -> bool {
        let Some(loan) = &mut self.loan else { return false };
        let look = loan.look(client, limits, now);
        if look == Look::Busy {
            // The client keeps the server waiting, or the server is at work.
            self.active = now;
        }
        look == Look::Slow
    }

    /// The client comes back, as the server says.
    pub(super) fn take_back(
        &mut self,
        gateway: &Gateway,
        returned: Returned,
        tools: &Tools<'_>,
    ) -> Result<(), Failure> {
        let Some(loan) = &self.loan else { return Err(Failure::Unasked) };
        let client = tools.client.ok_or(Failure::Unasked)?;
        let may_go_on = loan.end(client, returned, gateway.nodelay)?;
        self.loan = None;
        self.terms.persistent &= may_go_on;
        if returned.sent == 0 {
            // The server will see the reply.
            return Ok(());
        }
        self.course.has_reply();
        self.has_used = true;
        let is_persistent = returned.is_persistent && self.terms.persistent;
        self.returned = Some(Returned { is_persistent, ..returned });
        if returned.is_whole { Ok(()) } else { Err(Failure::Unfinished) }
    }

    /// How the client was returned, with all of the reply, once the server has said all.
    pub fn returned(&self) -> Option<Returned> {
        self.returned.filter(|returned| returned.is_whole && matches!(self.stage, Stage::Over))
    }

    /// What can be done for the client after that failure. A server that has ended its connection is taken to
    /// have ended, and the client, as far as it can be, is what it was then.
    pub fn afterwards(
        &mut self,
        client: Option<Lendable<'_>>,
        failure: &Failure,
        gateway: &Gateway,
    ) -> Afterwards {
        if let Some(returned) = self.returned {
            return Afterwards::Spoilt(returned.body);
        }
        let (Some(loan), Some(client)) = (self.loan.take(), client) else { return Afterwards::Answerable };
        let sent = loan.sent(client);
        if sent > 0 || !matches!(failure, Failure::Closed | Failure::Broken(_)) {
            return Afterwards::Spoilt(if sent == u64::MAX { 0 } else { sent });
        }
        loan::put_back(client, gateway.nodelay);
        Afterwards::AnswerableOnce
    }
}
