//! TLS between a client's socket and its conversation: what is received is opened before the conversation
//! takes it, and what the conversation sends is sealed.
//!
//! ```text
//! socket --> sealed scratch --session--> input of the conversation
//! conversation's runs, files --> plain scratch --session--> leaving --> socket, or ring
//! ```
//!
//! Both scratches belong to the worker ([`Scratch`](crate::tls::Scratch)). A connection keeps only a record
//! that has not come whole, and records that the socket had no room for.
//!
//! The conversation is told that bytes are sent when the records that carry them have left, and of a record
//! that has left in part, in proportion. So its timeouts see how fast the client takes them. While records
//! are leaving, nothing else is sealed.

mod handshake;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::AsFd as _;

use sys::ring::{How, Received};
use sys::socket;

use self::handshake::{Outcome, Standing};
use super::Channel;
use super::send::Failed;
use crate::conversation::{Follows, Input, Operation, Passage, Passages, Runs, Unsent};
use crate::line::Line;
use crate::outbox::Outbox;
use crate::service::Service;
use crate::tls::Session;

/// Most bytes that are sealed at once: four of the largest records (RFC 8446 section 5.1). A client that
/// takes nothing makes the server keep this much.
const MOST_AT_ONCE: usize = 64 << 10;
/// The largest record: its head, what it may carry, and what sealing may add (RFC 5246 section 6.2.3).
const LARGEST_RECORD: usize = 5 + (16 << 10) + 2048;

/// The TLS of one client.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the client, a byte each")]
pub(super) struct Tls {
    /// `None`: its handshake is computed aside.
    session: Option<Session>,
    standing: Standing,
    /// The client has made a request.
    has_asked: bool,
    /// What has come and could not be opened yet: the beginning of a record.
    partial: Vec<u8>,
    /// A ring has received something that is in `partial`, and whether the socket has more.
    has_come: bool,
    has_more: bool,
    /// Records that are to be sent, from `left` on.
    leaving: Vec<u8>,
    left: usize,
    /// How many bytes of a reply these records carry, and of how many the conversation knows that they are
    /// sent.
    carries: u64,
    told: u64,
    /// It is the reply of an application.
    is_passed_on: bool,
}

/// What has come of receiving.
enum Came {
    /// Something that may be opened.
    Something,
    Nothing,
    /// The client has closed the connection.
    End,
    /// The connection is broken, and the conversation knows.
    Broken,
}

impl Tls {
    /// For a client that was just accepted.
    pub(super) fn new(session: Session) -> Self {
        Self {
            session: Some(session),
            standing: Standing::Free,
            has_asked: false,
            partial: Vec::new(),
            has_come: false,
            has_more: false,
            leaving: Vec::new(),
            left: 0,
            carries: 0,
            told: 0,
            is_passed_on: false,
        }
    }

    /// Whether the handshake is complete.
    pub(super) fn is_established(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_established)
    }

    /// Whether records are to be sent.
    pub(super) fn is_leaving(&self) -> bool {
        self.left < self.leaving.len()
    }

    /// Whether records are to be sent that carry nothing of a reply.
    pub(super) fn has_own_to_send(&self) -> bool {
        self.is_leaving() && self.carries == self.told
    }

    /// How many bytes more of the reply count as sent now that `left` bytes of the records have left.
    fn progress(&mut self) -> u64 {
        let all = self.leaving.len() as u64;
        let now = if self.is_leaving() {
            // The last byte of the reply is sent when the last byte of its record is.
            (self.carries * self.left as u64 / all).min(self.carries.saturating_sub(1))
        } else {
            self.carries
        };
        let more = now.saturating_sub(self.told);
        self.told += more;
        more
    }
}

/// Most bytes that a worker seals at once.
fn most_sealed(service: &Service) -> usize {
    if service.outbox.is_some() { Outbox::MOST } else { MOST_AT_ONCE }
}

impl Channel {
    /// Receives what is there, and opens it. `false`: nothing came of it, or the connection is broken.
    #[cold]
    pub(super) fn read_sealed(
        &mut self,
        service: &mut Service,
        input: &mut Input<'_>,
        share: &mut u64,
    ) -> bool {
        let mut sealed = std::mem::take(&mut service.tls.sealed);
        let is_read = self.read_into(&mut sealed, service, input, share);
        service.tls.sealed = sealed;
        is_read
    }

    fn read_into(
        &mut self,
        sealed: &mut Vec<u8>,
        service: &mut Service,
        input: &mut Input<'_>,
        share: &mut u64,
    ) -> bool {
        loop {
            let came = self.receive_sealed(sealed, service, input.room().len(), share);
            if matches!(came, Came::Something)
                && self.conversation.awaits_announcement()
                && !self.hears_announcement(service, sealed)
            {
                if self.readable && self.conversation.is_open() {
                    // The end may have come.
                    continue;
                }
                return false;
            }
            match came {
                Came::Something => {}
                Came::Nothing | Came::Broken => return false,
                Came::End => {
                    self.conversation.input_ends();
                    return true;
                }
            }
            let opened = match self.open(service, sealed, input, share) {
                Outcome::Opened(opened) => opened,
                Outcome::IsPlain => return self.goes_on_plain(service, input, sealed),
                Outcome::Waits => return false,
            };
            let Some(tls) = &mut self.tls else { return false };
            let opened = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    // The alert, if there is room for it.
                    let _ = self.send_records(service, false);
                    service.counters.tls_failures.add(1);
                    tracing::debug!("no TLS with {}: {error}", self.conversation.peer());
                    self.conversation.breaks_off();
                    return false;
                }
            };
            if opened.used < sealed.len() {
                tls.partial = service.buffers.take();
                tls.partial.extend_from_slice(&sealed[opened.used..]);
            }
            input.filled(opened.plain);
            if let Some(facts) = opened.established {
                service.counters.tls_handshakes.add(1);
                service.counters.tls_resumed.add(u64::from(facts.is_resumed));
                self.conversation.is_secured(service, facts);
            }
            self.send_own(service);
            if opened.has_ended {
                self.conversation.input_ends();
                return true;
            }
            if opened.plain > 0 || *share == 0 {
                return true;
            }
            if !self.readable {
                return false;
            }
        }
    }

    /// Has the conversation answer a client that speaks HTTP where TLS is expected: that it does.
    fn goes_on_plain(&mut self, service: &mut Service, input: &mut Input<'_>, received: &[u8]) -> bool {
        service.counters.tls_connections.add(1_u64.wrapping_neg());
        // The rest of the turn, and those that follow, are a plain client's.
        service.change_stamps();
        self.tls = None;
        self.reads_specially = self.is_local;
        self.conversation.lacks_tls();
        input.room()[..received.len()].copy_from_slice(received);
        input.filled(received.len());
        true
    }

    /// Takes the PROXY header off, which comes before the handshake. `false`: it has not come whole, or the
    /// connection ends.
    fn hears_announcement(&mut self, service: &mut Service, sealed: &mut Vec<u8>) -> bool {
        let length = self.conversation.hear_announcement(service, sealed);
        if let Some(length) = length {
            sealed.drain(..length);
        } else {
            self.keep_partial(sealed, service);
        }
        length.is_some()
    }

    /// Receives into `sealed`, behind what has come before, no more than finds room when it is opened.
    fn receive_sealed(
        &mut self,
        sealed: &mut Vec<u8>,
        service: &mut Service,
        room: usize,
        share: &mut u64,
    ) -> Came {
        let Some(tls) = &mut self.tls else { return Came::Nothing };
        sealed.clear();
        sealed.extend_from_slice(&tls.partial);
        if !tls.partial.is_empty() {
            service.buffers.give(std::mem::take(&mut tls.partial));
        }
        let has_come = std::mem::take(&mut tls.has_come);
        if has_come && (!std::mem::take(&mut tls.has_more) || sealed.len() >= room) {
            self.readable = self.hung_up || sealed.len() >= room;
            return Came::Something;
        }
        let before = sealed.len();
        let most = room.max(LARGEST_RECORD);
        let received = service.receive_behind(self.socket.as_fd(), sealed, most.saturating_sub(before));
        match received {
            Ok(0) if has_come => Came::Something,
            Ok(0) => Came::End,
            Ok(count) => {
                self.readable = before + count == most || self.hung_up;
                *share = share.saturating_sub(count as u64);
                service.counters.bytes_received.add(count as u64);
                Came::Something
            }
            Err(error) => {
                match error.kind() {
                    io::ErrorKind::WouldBlock => self.readable = false,
                    io::ErrorKind::Interrupted => {}
                    _ => {
                        self.conversation.not_received(service, &error);
                        return Came::Broken;
                    }
                }
                if has_come { Came::Something } else { self.keep_partial(sealed, service) }
            }
        }
    }

    /// Keeps what has come before: there is no more of it yet.
    fn keep_partial(&mut self, sealed: &[u8], service: &mut Service) -> Came {
        if let Some(tls) = &mut self.tls
            && !sealed.is_empty()
        {
            tls.partial = service.buffers.take();
            tls.partial.extend_from_slice(sealed);
        }
        Came::Nothing
    }

    /// Seals the next part of the reply and sends it, or more of what is sealed. Returns how many bytes of
    /// the reply were sent.
    #[cold]
    pub(super) fn send_sealed(
        &mut self,
        service: &mut Service,
        most: u64,
        resident: &mut Option<u64>,
    ) -> Result<u64, Failed> {
        if let Some(tls) = self.tls.as_ref().filter(|tls| tls.is_leaving()) {
            if tls.is_passed_on && !tls.has_own_to_send() {
                // An application's reply was given up after a part of it had been sealed. The client cannot
                // tell it from the reply that follows.
                self.conversation.machine().abort();
                return Err(Failed::Interrupted);
            }
            return self.flush(service, false);
        }
        let mut plain = std::mem::take(&mut service.tls.plain);
        plain.clear();
        let gathered = self.gather(service, &mut plain, most, resident);
        let sent = gathered.and_then(|more_follows| self.seal(service, &plain, false, more_follows));
        service.tls.plain = plain;
        sent
    }

    /// Copies the next part of the reply to `plain`, and returns whether more of it follows at once.
    fn gather(
        &self,
        service: &Service,
        plain: &mut Vec<u8>,
        most: u64,
        resident: &mut Option<u64>,
    ) -> Result<bool, Failed> {
        let most = most.min(most_sealed(service) as u64);
        let mut runs = Runs::new();
        match self.conversation.next_send(&service.content, &mut runs).ok_or(Unsent::Changed)? {
            Operation::Gather { follows } => {
                for run in &runs {
                    let mut run = *run;
                    run.truncate(most as usize - plain.len());
                    run.append_to(plain);
                }
                Ok(matches!(follows, Follows::File | Follows::Memory))
            }
            Operation::File { pin, offset, len } => {
                let wanted = super::send::sendable(service, pin, offset, len.min(most), resident)?;
                let ends = wanted == len;
                if ends && self.conversation.is_carried_over() && !service.content.intact(pin) {
                    return Err(Unsent::Changed.into());
                }
                let file = service.content.file(pin).ok_or(Unsent::Changed)?;
                let count = sys::file::read_behind(file, plain, wanted as usize, offset)?;
                if ends {
                    // What follows may be from another file.
                    *resident = None;
                }
                if count == 0 { Err(Unsent::Changed.into()) } else { Ok(!ends) }
            }
        }
    }

    /// Seals bytes of a reply and sends them. Returns how many were sent.
    fn seal(
        &mut self,
        service: &mut Service,
        plain: &[u8],
        is_passed_on: bool,
        more_follows: bool,
    ) -> Result<u64, Failed> {
        let Some(tls) = &mut self.tls else { return Ok(0) };
        tls.leaving = if service.outbox.is_some() {
            // The ring keeps the memory until it has sent.
            service.buffers.take()
        } else {
            std::mem::take(&mut service.tls.leaving)
        };
        let Some(session) = &mut tls.session else {
            return Err(Unsent::Broken(io::ErrorKind::BrokenPipe.into()).into());
        };
        let sealed = session.seal(plain, &mut tls.leaving);
        (tls.carries, tls.told, tls.is_passed_on) = (plain.len() as u64, 0, is_passed_on);
        sealed.map_err(Unsent::Broken)?;
        self.flush(service, more_follows)
    }

    /// Sends an application's reply as far as there is room. Returns how many bytes of it were sent.
    #[cold]
    pub(super) fn send_sealed_passages(&mut self, service: &mut Service) -> u64 {
        let mut gone = 0;
        while self.writable {
            let sent = if self.tls.as_ref().is_some_and(|tls| tls.is_leaving()) {
                self.flush(service, false)
            } else {
                let mut plain = std::mem::take(&mut service.tls.plain);
                plain.clear();
                let sent = match self.gather_passage(service, &mut plain) {
                    Ok(true) => self.seal(service, &plain, true, false),
                    Ok(false) => {
                        service.tls.plain = plain;
                        break;
                    }
                    Err(error) => Err(error.into()),
                };
                service.tls.plain = plain;
                sent
            };
            match sent {
                Ok(sent) => {
                    self.conversation.passed(service, sent as usize);
                    gone += sent;
                }
                Err(Failed::Full) => self.writable = false,
                Err(Failed::Interrupted) => {}
                Err(Failed::Unsent(Unsent::Broken(error))) => {
                    let line = Line::of(self.socket.as_fd(), false, self.blocks);
                    self.conversation.not_passed(service, line, &error);
                    break;
                }
                Err(Failed::Unsent(_)) => break,
            }
        }
        gone
    }

    /// Copies what is next of an application's reply to `plain`. `false`: there is nothing.
    fn gather_passage(&self, service: &Service, plain: &mut Vec<u8>) -> io::Result<bool> {
        let most = most_sealed(service);
        let mut runs = Passages::new();
        let Some(passage) = self.conversation.next_passage(&mut runs) else { return Ok(false) };
        match passage {
            Passage::Bytes(bytes) | Passage::BytesBeforePages(bytes) => {
                plain.extend_from_slice(&bytes[..bytes.len().min(most)]);
            }
            Passage::Runs => {
                for run in &runs {
                    let mut run = *run;
                    run.truncate(most - plain.len());
                    run.append_to(plain);
                }
            }
            Passage::Pages(pages, range) => {
                let most = most.min((range.end - range.start) as usize);
                sys::file::read_behind(pages, plain, most, range.start)?;
            }
        }
        Ok(!plain.is_empty())
    }

    /// Sends what TLS itself has to say: flights of a handshake, and alerts. What finds no room is sent when
    /// there is some.
    #[cold]
    pub(super) fn send_own(&mut self, service: &mut Service) {
        while self.writable && self.tls.as_ref().is_some_and(|tls| tls.has_own_to_send()) {
            match self.flush(service, false) {
                Ok(_) | Err(Failed::Interrupted) => {}
                Err(Failed::Full) => self.writable = false,
                Err(Failed::Unsent(unsent)) => return self.conversation.not_sent(service, unsent),
            }
        }
    }

    /// Sends records, or has the ring send them. Returns how many bytes of the reply count as sent by that.
    fn flush(&mut self, service: &mut Service, more_follows: bool) -> Result<u64, Failed> {
        let (Some(outbox), Some(tls)) = (&mut service.outbox, &mut self.tls) else {
            return self.send_records(service, more_follows);
        };
        let mut records = std::mem::take(&mut tls.leaving);
        records.drain(..std::mem::take(&mut tls.left));
        outbox.put_records(records, How { more_follows, zero_copy: !self.is_local });
        let sent = tls.progress();
        self.is_posted(service);
        Ok(sent)
    }

    /// Sends records by a call.
    fn send_records(&mut self, service: &mut Service, more_follows: bool) -> Result<u64, Failed> {
        let Some(tls) = &mut self.tls else { return Ok(0) };
        if !tls.is_leaving() {
            return Ok(tls.progress());
        }
        let (client, records) = (self.socket.as_fd(), &tls.leaving[tls.left..]);
        let count = if tls.has_own_to_send() || tls.is_passed_on {
            // No alarm interrupts this, even if sends block.
            socket::send_at_once(client, records)?
        } else if more_follows {
            socket::send_more(client, &[socket::Slice::new(records)])?
        } else {
            socket::send(client, records)?
        };
        tls.left += count;
        let sent = tls.progress();
        if !tls.is_leaving() {
            let mut records = std::mem::take(&mut tls.leaving);
            records.clear();
            tls.left = 0;
            service.tls.leaving = records;
        }
        Ok(sent)
    }

    /// Says that nothing more is sent. The ring sends nothing now. `false`: there is no room for that yet.
    pub(super) fn says_end(&mut self, service: &mut Service) -> bool {
        if let Some(tls) = &mut self.tls
            && let Some(session) = &mut tls.session
        {
            session.say_end(&mut tls.leaving);
        }
        while self.tls.as_ref().is_some_and(|tls| tls.is_leaving()) {
            match self.send_records(service, false) {
                Ok(_) | Err(Failed::Interrupted) => {}
                Err(Failed::Full) => {
                    self.writable = false;
                    return false;
                }
                // What cannot be said is not waited for.
                Err(Failed::Unsent(_)) => return true,
            }
        }
        true
    }

    /// Takes over what a ring has received.
    pub(super) fn has_received_sealed(&mut self, service: &mut Service, bytes: &Received<'_>) {
        // What has come is there to be read.
        self.readable = true;
        if let Some(tls) = &mut self.tls {
            if tls.partial.capacity() == 0 {
                tls.partial = service.buffers.take();
            }
            tls.partial.extend_from_slice(bytes);
            (tls.has_come, tls.has_more) = (true, bytes.has_more());
        }
    }

    /// How many bytes that are kept already find room in the conversation when they are opened.
    pub(super) fn kept_sealed(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.partial.len())
    }
}
