//! Parts of files that are being read into the page cache. The bytes themselves are of no use: the kernel
//! writes all of them to the same scratch memory, one over another, and nothing reads that. A file stays
//! open until its operation has completed.

use std::cell::UnsafeCell;
use std::mem;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::Fd;

/// Bytes of scratch memory, and how often an operation fills it.
const SCRATCH: usize = 16 << 10;
const TIMES: usize = 16;
/// The most bytes of one operation.
pub(super) const MOST: usize = SCRATCH * TIMES;

/// Reads in flight, each in a numbered place.
#[derive(Default)]
pub(super) struct Reads {
    /// Made when it is needed first.
    scratch: Option<Box<Scratch>>,
    places: Vec<Option<Reading>>,
    free: Vec<u32>,
}

/// Memory for the kernel to write to, and the runs that operations name: all of them are that memory.
struct Scratch {
    _memory: Box<UnsafeCell<[u8; SCRATCH]>>,
    runs: [libc::iovec; TIMES],
}

struct Reading {
    /// The caller's name for it.
    token: u64,
    _file: Arc<OwnedFd>,
}

impl Reads {
    /// Keeps the file. Returns the number of the place, and the operation that reads `length` bytes from
    /// `offset`, or a few more, but at most [`MOST`], as far as the file has them.
    pub(super) fn insert(
        &mut self,
        token: u64,
        file: Arc<OwnedFd>,
        offset: u64,
        length: usize,
    ) -> (u32, Entry) {
        let runs = &self.scratch.get_or_insert_with(Scratch::new).runs;
        let count = length.div_ceil(SCRATCH).clamp(1, TIMES);
        let read = opcode::Readv::new(Fd(file.as_raw_fd()), runs.as_ptr(), count as u32).offset(offset);
        let reading = Some(Reading { token, _file: file });
        let number = if let Some(number) = self.free.pop() {
            self.places[number as usize] = reading;
            number
        } else {
            self.places.push(reading);
            self.places.len() as u32 - 1
        };
        (number, read.build())
    }

    /// The operation has completed. Returns its name. `None`: there was none.
    pub(super) fn remove(&mut self, number: u32) -> Option<u64> {
        let reading = mem::take(self.places.get_mut(number as usize)?)?;
        self.free.push(number);
        Some(reading.token)
    }
}

impl Scratch {
    fn new() -> Box<Self> {
        let memory = Box::new(UnsafeCell::new([0; SCRATCH]));
        let run = libc::iovec { iov_base: memory.get().cast(), iov_len: SCRATCH };
        Box::new(Self { _memory: memory, runs: [run; TIMES] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_open_until_they_are_read() {
        let file = Arc::new(OwnedFd::from(std::fs::File::open("/proc/self/exe").unwrap()));
        let mut reads = Reads::default();
        let (first, _) = reads.insert(7, Arc::clone(&file), 0, 1);
        let (second, _) = reads.insert(8, Arc::clone(&file), 0, MOST + 1);
        assert_eq!(Arc::strong_count(&file), 3);
        assert_eq!((reads.remove(first), reads.remove(first), reads.remove(99)), (Some(7), None, None));
        assert_eq!((reads.insert(9, Arc::clone(&file), 0, 1).0, reads.remove(second)), (first, Some(8)));
        assert_eq!(Arc::strong_count(&file), 2);
    }
}
