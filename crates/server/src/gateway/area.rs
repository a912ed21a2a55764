//! Memory that this server shares with an application over their connection. The application writes its
//! replies into it (*shared memory*; Yeung 2010, section 2.2.3).
//!
//! ```text
//! FILLED --> waiting --> supplied to the reply --> sent --> free --> FREE
//! ```
//!
//! A chunk belongs to the application again once the application has been told so, and not before. So the
//! server never has more chunks to report than there are, whatever the application sends, and however
//! long it does not read.
//!
//! The application may write anywhere in this memory at any time. So the server keeps everything that
//! matters elsewhere: who owns each chunk, and how much of it is filled. This process reads the memory
//! only to copy it. What must be parsed (the reply's head) or kept for later is copied first. What is
//! sent is read by the kernel.

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

/// Bytes of a chunk. The size allows punching holes of whole pages, and a large reply needs few records.
const CHUNK: u64 = 64 << 10;

/// Memory that is shared with one application.
#[derive(Debug)]
pub struct Area {
    file: MemoryFile,
    memory: Mapping,
    layout: transport::Area,
    /// Pages are sent themselves (sendfile), and not copied.
    is_sent_by_page: bool,
    /// For each chunk number, whether the chunk belongs to this server.
    ours: Vec<bool>,
    /// Filled ranges that have not been supplied to a reply, in order, and their total bytes.
    waiting: VecDeque<Range<u64>>,
    waiting_bytes: u64,
    /// Chunks that were supplied, in order. Each has the number of its bytes that the reply sends.
    supplied: VecDeque<(u16, u64)>,
    /// The sum of these bytes.
    supplied_bytes: u64,
    /// Chunks to report to the application as free. They belong to the application after that.
    free: Vec<u16>,
    /// The connection is gone, so no more chunks are reported.
    is_last: bool,
}

impl Area {
    /// The size in bytes of an area with room for at least `size` bytes.
    pub(super) fn size_of(size: u64) -> u64 {
        layout(size).size()
    }

    /// An area of at least `size` bytes.
    ///
    /// # Errors
    ///
    /// There is no descriptor or no memory.
    pub(super) fn new(size: u64, send: AreaSend) -> io::Result<Self> {
        let layout = layout(size);
        let file = MemoryFile::new("sluice-area", layout.size())?;
        // Only the kernel reads through this mapping.
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

    /// The area's size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.layout.size()
    }

    /// Appends the record that describes the area to the application.
    pub(super) fn tell(&self, out: &mut Vec<u8>) {
        transport::area(out, self.layout);
    }

    /// Appends the records that give chunks back to the application, until `out` has `most` bytes.
    pub(super) fn tell_free(&mut self, out: &mut Vec<u8>, most: usize) {
        let count = most.saturating_sub(out.len()).div_ceil(transport::FREE_RECORD).min(self.free.len());
        for chunk in self.free.drain(..count) {
            self.ours[usize::from(chunk)] = false;
            transport::free(out, chunk);
        }
    }

    /// Whether there are chunks to report to the application.
    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Takes a chunk that the application reports as filled.
    ///
    /// # Errors
    ///
    /// The application cannot have filled it.
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

    /// Bytes that wait to be supplied to a reply.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting_bytes
    }

    /// The range of the next waiting bytes.
    pub(super) fn next(&self) -> Option<Range<u64>> {
        self.waiting.front().cloned()
    }

    /// Copies the next waiting bytes, and returns how many.
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

    /// The whole next waiting range has been supplied to a reply, which sends `taken` bytes of it.
    pub(super) fn supply_next(&mut self, taken: u64) {
        if let Some(range) = self.waiting.pop_front() {
            self.waiting_bytes -= range.end - range.start;
            self.supplied.push_back(((range.start / CHUNK) as u16, taken));
            self.supplied_bytes += taken;
        }
    }

    /// `unsent` bytes of what was supplied have not been sent. The chunks before them belong to the
    /// application again.
    pub(super) fn settle(&mut self, unsent: u64) {
        while let Some((chunk, taken)) = self.supplied.front().copied()
            && self.supplied_bytes - taken >= unsent
        {
            self.supplied.pop_front();
            self.supplied_bytes -= taken;
            self.give_back(chunk);
        }
    }

    /// Drops all waiting bytes, which are not wanted any more.
    pub(super) fn drop_waiting(&mut self) {
        while let Some(range) = self.waiting.pop_front() {
            self.give_back((range.start / CHUNK) as u16);
        }
        self.waiting_bytes = 0;
    }

    /// Whether the area has bytes that have not been sent.
    pub(super) fn is_in_use(&self) -> bool {
        !self.supplied.is_empty() || !self.waiting.is_empty()
    }

    /// Call this when the connection is gone, so no more chunks can be reported. Chunks that are not in
    /// use give their memory back now, the others once they have been sent.
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
        // On loopback the receiver's queue holds these very pages, whether acknowledged or not. They are
        // never written to again.
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

    /// The file, if its pages are to be sent themselves.
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
