//! Delivers an application's reply to its client. What the client takes soon is kept in memory. The rest
//! of what a slow client has not taken goes to disk, so that the application is free.
//!
//! ```text
//! server --> spill (on the disk) --> behind --> OpenReply --> client
//! ```
//!
//! With a quick client nothing goes to disk. If the disk is full, no more is received than the client
//! takes. Bytes in memory that is shared with the server stay there until they are sent, up to half of
//! that memory. For a slow client, the rest is copied to disk.

use std::io;

use http1::OpenReply;

use super::area::Area;
use super::failure::Failure;
use super::spool::Spool;
use super::{Gateway, Tools};
use crate::content::Pin;

/// A reply whose head has come.
#[derive(Debug)]
pub(super) struct Delivery {
    reply: OpenReply<Pin>,
    /// The spilled bytes: on disk, for the client later.
    spill: Spool,
    /// Bytes that come after the spilled ones: they have just come, or find no room on disk.
    behind: Vec<u8>,
    /// While this many bytes are unsent, no more are kept in memory. No more than `most_spilled` are on
    /// disk at a time.
    most_unsent: u64,
    most_spilled: u64,
    /// The client's buffers have no room for more.
    is_client_slow: bool,
    /// The server has sent all, and the client is still to be told so.
    is_said: bool,
}

/// Most unsent bytes of a reply in memory, normally and when memory is short.
const MOST_UNSENT: u64 = 256 << 10;
const SCANT_UNSENT: u64 = 16 << 10;
/// Bytes that are copied from shared memory at a time.
const COPIED: usize = 16 << 10;

impl Delivery {
    /// A delivery with as much memory and disk as the gateway has for it.
    pub(super) fn new(reply: OpenReply<Pin>, gateway: &Gateway) -> Self {
        let mut this = Self {
            reply,
            spill: Spool::default(),
            behind: Vec::new(),
            most_unsent: MOST_UNSENT,
            most_spilled: gateway.most_spilled,
            is_client_slow: false,
            is_said: false,
        };
        this.note_memory(!gateway.has_memory_for(0));
        this
    }

    /// A delivery of a reply that goes only as fast as the client takes it.
    pub(super) fn never_on_disk(reply: OpenReply<Pin>, gateway: &Gateway) -> Self {
        Self { most_spilled: 0, ..Self::new(reply, gateway) }
    }

    /// The part of `bytes` that belongs to the reply: no more than it has promised. `waiting` bytes come
    /// before them in shared memory.
    pub(super) fn wanted<'a>(&self, bytes: &'a [u8], waiting: u64) -> &'a [u8] {
        let owed = self.reply.owed().map_or(u64::MAX, |owed| owed.saturating_sub(self.later() + waiting));
        &bytes[..bytes.len().min(usize::try_from(owed).unwrap_or(usize::MAX))]
    }

    /// Adds bytes of the reply, none beyond what was promised. After each receive, pass what the client
    /// does not take soon to [`put_by`](Self::put_by).
    pub(super) fn supply(&mut self, bytes: &[u8], tools: &Tools<'_>) {
        let has_room = self.reply.left() < self.most_unsent || self.most_spilled == 0;
        if has_room && !self.has_spilled() {
            self.reply.supply(tools.limits, tools.now, bytes);
        } else {
            self.behind.extend_from_slice(bytes);
        }
    }

    /// The buffer that more of the reply may be received into, and how many bytes at most. `None`: what comes
    /// goes to disk first, is framed, or has to wait.
    pub(super) fn room_for_body(&mut self) -> Option<(&mut Vec<u8>, u64)> {
        if self.has_spilled() || self.reply.left() >= self.most_unsent {
            return None;
        }
        self.reply.room_for_body()
    }

    /// Writes bytes to disk that have just come and that the client takes later.
    ///
    /// # Errors
    ///
    /// There is no room on the disk. Nothing is lost, but from now on the reply goes only as fast as the
    /// client takes it.
    pub(super) fn put_by(&mut self, (gateway, pool): (&Gateway, usize)) -> io::Result<()> {
        if self.behind.is_empty() || self.most_spilled == 0 {
            return Ok(());
        }
        match self.spill.write(&self.behind, 0, &gateway.spool) {
            Ok(None) => {}
            Ok(Some(file)) => {
                gateway.own(file);
                gateway.queue_handle.counters(pool).spilled.add_among_others(1);
            }
            Err(error) => {
                self.most_spilled = 0;
                return Err(error);
            }
        }
        self.behind = Vec::new();
        Ok(())
    }

    /// Supplies waiting bytes from shared memory, as far as there is room, or all of them. Returns an
    /// error if there is no room on the disk, as [`put_by`](Self::put_by) does.
    ///
    /// # Errors
    ///
    /// The bytes cannot be copied.
    pub(super) fn supply_from(
        &mut self,
        area: &mut Area,
        is_all: bool,
        of: (&Gateway, usize),
        tools: &Tools<'_>,
    ) -> Result<Option<io::Error>, Failure> {
        let mut full = None;
        area.settle(self.reply.left_elsewhere());
        while let Some(range) = area.next() {
            let has_room = self.reply.left() < self.most_unsent.min(area.size() / 2);
            let is_for_later = self.is_client_slow && self.behind.is_empty();
            let may_spill = is_for_later && self.spill.length() < self.most_spilled;
            if !self.has_spilled() && (has_room || is_all && !may_spill) {
                area.supply_next(self.reply.supply_elsewhere(tools.limits, tools.now, range));
            } else if is_all || may_spill {
                full = self.copy_from(area, of, tools)?.or(full);
            } else {
                break;
            }
        }
        area.settle(self.reply.left_elsewhere());
        Ok(full)
    }

    #[cold]
    fn copy_from(
        &mut self,
        area: &mut Area,
        of: (&Gateway, usize),
        tools: &Tools<'_>,
    ) -> Result<Option<io::Error>, Failure> {
        let mut copied = [0; COPIED];
        let count = area.copy_next(&mut copied).map_err(Failure::Area)?;
        self.supply(self.wanted(&copied[..count], 0), tools);
        Ok(self.put_by(of).err())
    }

    /// The server has sent all. Ends the reply after the spilled bytes.
    ///
    /// # Errors
    ///
    /// See [`take_up`](Self::take_up).
    pub(super) fn finish(&mut self, tools: &mut Tools<'_>) -> Result<(), Failure> {
        self.is_said = true;
        if self.has_spilled() { Ok(()) } else { self.take_up(tools) }
    }

    /// Supplies the client with more spilled bytes, as far as there is room, and then with the end of the
    /// reply.
    ///
    /// # Errors
    ///
    /// The spilled bytes cannot be read, or the reply is shorter than announced.
    pub(super) fn take_up(&mut self, tools: &mut Tools<'_>) -> Result<(), Failure> {
        if !self.is_said && !self.has_spilled() {
            return Ok(());
        }
        while self.spill.left() > 0 && self.reply.left() < self.most_unsent {
            let count = self.spill.read(tools.scratch).map_err(Failure::Spill)?;
            self.reply.supply(tools.limits, tools.now, &tools.scratch[..count]);
        }
        if self.spill.left() > 0 {
            return Ok(());
        }
        self.spill.clear();
        self.reply.supply(tools.limits, tools.now, &std::mem::take(&mut self.behind));
        if std::mem::take(&mut self.is_said) && !self.reply.finish(tools.limits, tools.now) {
            return Err(Failure::Short);
        }
        Ok(())
    }

    fn has_spilled(&self) -> bool {
        self.spill.left() > 0 || !self.behind.is_empty()
    }

    /// Whether more may be received. That is so if the client has taken enough of what is there, or if it
    /// is slow and there is room on disk.
    pub(super) fn wants_more(&self) -> bool {
        // If the file were never read to its end, it would grow as long as the reply.
        let has_room = self.is_client_slow && self.spill.length() < self.most_spilled;
        let is_soon_sent = self.spill.left() == 0 && self.reply.left() < self.most_unsent;
        self.behind.is_empty() && (has_room || is_soon_sent)
    }

    /// Whether all bytes that the reply has promised are there, with `waiting` bytes of them in shared
    /// memory.
    pub(super) fn has_all_promised(&self, waiting: u64) -> bool {
        self.reply.owed().is_some_and(|owed| owed <= self.later() + waiting)
    }

    /// Bytes that are for later.
    fn later(&self) -> u64 {
        self.spill.left() + self.behind.len() as u64
    }

    /// Records whether the client's buffers have no room for more.
    pub(super) fn note_client(&mut self, is_slow: bool) {
        self.is_client_slow = is_slow;
    }

    /// Whether the client's buffers have no room for more.
    pub(super) fn is_client_slow(&self) -> bool {
        self.is_client_slow
    }

    /// Records whether memory is short.
    pub(super) fn note_memory(&mut self, is_scant: bool) {
        self.most_unsent = if is_scant { SCANT_UNSENT } else { MOST_UNSENT };
    }

    /// Bytes of the reply in memory.
    pub(super) fn in_memory(&self) -> usize {
        self.reply.own_left() + self.behind.len()
    }

    /// The reply as the client receives it.
    pub(super) fn reply(&self) -> &OpenReply<Pin> {
        &self.reply
    }

    /// The reply as the client receives it, for sending.
    pub(super) fn reply_mut(&mut self) -> &mut OpenReply<Pin> {
        &mut self.reply
    }

    /// Ends the delivery. Returns the spooled bytes and the reply as sent to the client.
    pub(super) fn end(self) -> (Spool, OpenReply<Pin>) {
        (self.spill, self.reply)
    }
}
