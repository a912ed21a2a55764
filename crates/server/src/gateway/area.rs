//! Memory that the connection to an application shares with it, into which it writes its replies (*shared
//! memory*; Yeung 2010, section 2.2.3).
//!
//! ```text
//! FILLED --> waiting --> supplied to the reply --> sent --> free --> FREE
//! ```
//!
//! A chunk is the application's again when it has been told so, and not before. So no more of them are to be
//! told of than there are, whatever it says, and however long it does not read.
//!
//! The application may write anywhere in it at any time. So everything that matters is known here and not
//! there: which chunks are whose, and how much of each is filled. Nothing in this process reads the memory
//! but to copy it: what is to be understood (the reply's head), or kept for later, is copied first, and what
//! is sent is read by the kernel.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use fastcgi::transport::{self, Filled};
use sys::file::read_at;
use sys::memory_file::{Access, Mapping, MemoryFile};
use sys::socket::Slice;

use super::failure::Failure;
use crate::config::AreaSend;

/// Bytes of a chunk: the pages that a hole can be punched for, and few records for a large reply.
const CHUNK: u64 = 64 << 10;

/// Memory that is shared with one application.
#[derive(Debug)]
pub struct Area {
    file: MemoryFile,
    memory: Mapping,
    layout: transport::Area,
    /// Pages are sent themselves, and not copied.
    is_sent_by_page: bool,
    /// Which chunks are not the application's, by number.
    ours: Vec<bool>,
    /// What is filled and has not been supplied, in order, and bytes of it all.
    waiting: VecDeque<Range<u64>>,
    waiting_bytes: u64,
    /// Chunks that were supplied, in order: each with how many bytes of it are sent.
    supplied: VecDeque<(u16, u64)>,
    /// Bytes of it all.
    supplied_bytes: u64,
    /// Chunks that the application is to be told of, and that are its own then.
    free: Vec<u16>,
    /// The connection is gone: nobody is told.
    is_last: bool,
}

impl Area {
    /// The size of one of at least that size.
    pub(super) fn size_of(size: u64) -> u64 {
        layout(size).size()
    }

    /// One of at least that size.
    ///
    /// # Errors
    ///
    /// There is no descriptor or no memory.
    pub(super) fn new(size: u64, send: AreaSend) -> io::Result<Self> {
        let layout = layout(size);
        let file = MemoryFile::new("sluice-area", layout.size())?;
        // Only the kernel reads it there.
        let memory = Mapping::new(&file, layout.size(), Access::Read)?;
        Ok(Self {
            file,
            memory,
            layout,
            is_sent_by_page: send == AreaSend::Sendfile,
            ours: vec![false; layout.chunks.into()],
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            supplied: VecDeque::new(),
            supplied_bytes: 0,
            free: Vec::new(),
            is_last: false,
        })
    }

    /// Its size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.layout.size()
    }

    /// Appends the record that tells of it.
    pub(super) fn tell(&self, out: &mut Vec<u8>) {
        transport::area(out, self.layout);
    }

    /// Appends what the application is to be told of chunks that are its again, until there are so many
    /// bytes.
    pub(super) fn tell_free(&mut self, out: &mut Vec<u8>, most: usize) {
        let count = most.saturating_sub(out.len()).div_ceil(transport::FREE_RECORD).min(self.free.len());
        for chunk in self.free.drain(..count) {
            self.ours[usize::from(chunk)] = false;
            transport::free(out, chunk);
        }
    }

    /// Whether there is any for it to be told of.
    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// The application has filled a chunk.
    ///
    /// # Errors
    ///
    /// It can't have.
    pub(super) fn take(&mut self, Filled { chunk, length }: Filled) -> Result<(), Failure> {
        let ours = self.ours.get_mut(usize::from(chunk)).ok_or(Failure::Chunk { chunk, length })?;
        if length > self.layout.chunk_size || std::mem::replace(ours, true) {
            return Err(Failure::Chunk { chunk, length });
        }
        if length == 0 {
            self.give_back(chunk);
        } else {
            let start = u64::from(chunk) * CHUNK;
            self.waiting.push_back(start..start + u64::from(length));
            self.waiting_bytes += u64::from(length);
        }
        Ok(())
    }

    /// Bytes that wait to be supplied.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting_bytes
    }

    /// Where the next bytes are that wait.
    pub(super) fn next(&self) -> Option<Range<u64>> {
        self.waiting.front().cloned()
    }

    /// Copies the next bytes that wait, and says how many.
    pub(super) fn copy_next(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let Some(range) = self.waiting.pop_front() else { return Ok(0) };
        let chunk = (range.start / CHUNK) as u16;
        let most = room.len().min((range.end - range.start) as usize);
        let count = read_at(&self.file, &mut room[..most], range.start)?;
        self.waiting_bytes -= count as u64;
        let rest = range.start + count as u64..range.end;
        if rest.is_empty() {
            self.give_back(chunk);
        } else {
            self.waiting.push_front(rest);
        }
        Ok(count)
    }

    /// The next bytes that wait, all of that range, have been supplied to a reply that sends so many of them.
    pub(super) fn supply_next(&mut self, taken: u64) {
        if let Some(range) = self.waiting.pop_front() {
            self.waiting_bytes -= range.end - range.start;
            self.supplied.push_back(((range.start / CHUNK) as u16, taken));
            self.supplied_bytes += taken;
        }
    }

    /// So many bytes of what was supplied are unsent: the chunks before them are the application's again.
    pub(super) fn settle(&mut self, unsent: u64) {
        while let Some((chunk, taken)) = self.supplied.front().copied()
            && self.supplied_bytes - taken >= unsent
        {
            self.supplied.pop_front();
            self.supplied_bytes -= taken;
            self.give_back(chunk);
        }
    }

    /// Nothing of it is wanted any more.
    pub(super) fn drop_waiting(&mut self) {
        while let Some(range) = self.waiting.pop_front() {
            self.give_back((range.start / CHUNK) as u16);
        }
        self.waiting_bytes = 0;
    }

    /// Whether there is anything in it that has not been sent.
    pub(super) fn is_in_use(&self) -> bool {
        !self.supplied.is_empty() || !self.waiting.is_empty()
    }

    /// Nobody will be told of chunks any more: what is not in use gives its memory back, now or when it has
    /// been sent.
    pub(super) fn is_last(&mut self) {
        self.is_last = true;
        for chunk in self.free.drain(..) {
            self.ours[usize::from(chunk)] = false;
        }
        let chunks = 0..self.layout.chunks;
        for chunk in chunks.filter(|chunk| !self.ours[usize::from(*chunk)]).collect::<Vec<_>>() {
            self.punch(chunk);
        }
    }

    fn give_back(&mut self, chunk: u16) {
        // On loopback a receiver's queue has the very pages, acknowledged or not: they are never written to
        // again.
        let is_fresh = !(self.is_sent_by_page || self.is_last) || self.punch(chunk);
        if is_fresh && !self.is_last {
            self.free.push(chunk);
        }
    }

    fn punch(&self, chunk: u16) -> bool {
        self.file.punch(u64::from(chunk) * CHUNK, CHUNK).is_ok()
    }

    /// A range as the kernel takes it.
    pub fn slice(&self, range: &Range<u64>) -> Slice<'_> {
        self.memory.slice(range.start as usize, (range.end - range.start) as usize)
    }

    /// The file, where pages are to be sent from that themselves.
    pub fn pages(&self) -> Option<BorrowedFd<'_>> {
        self.is_sent_by_page.then(|| self.file.as_fd())
    }
}

fn layout(size: u64) -> transport::Area {
    let chunks = size.div_ceil(CHUNK).min(u16::MAX.into());
    transport::Area { chunks: chunks as u16, chunk_size: CHUNK as u32 }
}

impl AsFd for Area {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(chunks: u16) -> Area {
        Area::new(u64::from(chunks) * CHUNK, AreaSend::Copy).unwrap()
    }

    fn told(area: &mut Area, most: usize) -> usize {
        let mut out = Vec::new();
        area.tell_free(&mut out, most);
        out.len() / transport::FREE_RECORD
    }

    #[test]
    fn a_chunk_is_the_applications_when_it_has_been_told_so() {
        let mut area = area(3);
        for length in [0, 1] {
            area.take(Filled { chunk: 1, length }).unwrap();
            area.drop_waiting();
            assert!(area.has_free() && area.waiting() == 0);
            assert!(matches!(area.take(Filled { chunk: 1, length: 0 }), Err(Failure::Chunk { .. })));
            assert_eq!(told(&mut area, 1), 1);
        }
        for chunk in 0..3 {
            area.take(Filled { chunk, length: 7 }).unwrap();
        }
        assert_eq!(area.waiting(), 21);
        assert_eq!(area.copy_next(&mut [0; 3]).unwrap(), 3);
        assert_eq!(area.waiting(), 18);
        area.supply_next(4);
        area.settle(0);
        area.drop_waiting();
        assert_eq!(
            [1, 17, 1].map(|most| told(&mut area, most)),
            [1, 2, 0],
            "no more at a time than asked for"
        );
    }
}
