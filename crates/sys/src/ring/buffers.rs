//! Buffers that the kernel chooses from when something is received (`io_uring_register_buf_ring(3)`). A
//! socket that is silent holds none. A buffer is the kernel's until an operation has filled it, and again
//! from when its [`Filled`] is dropped.

use std::io;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use rustix::mm::{MapFlags, ProtFlags};

#[cfg(feature = "quarantine")]
use super::quarantine;

/// The bytes of a buffer. Nearly every request fits, and what does not is received by a call.
pub(super) const SIZE: usize = 2 << 10;

/// How many there are, a power of two. If all are taken, the operation fails with `ENOBUFS`.
const COUNT: u16 = 256;

/// The ring of free buffers, followed by the memory of all buffers.
#[derive(Debug)]
pub(super) struct Buffers {
    entries: NonNull<BufRingEntry>,
    tail: u16,
    is_left: bool,
}

/// Bytes that an operation has received, in a buffer that belongs to the caller meanwhile.
pub(super) struct Filled<'a> {
    buffers: &'a mut Buffers,
    number: u16,
    length: usize,
}

/// The ring of free buffers takes the first page.
const ENTRIES: usize = COUNT as usize * size_of::<BufRingEntry>();
const ALL: usize = ENTRIES + COUNT as usize * SIZE;
const _: () = assert!(ENTRIES.is_multiple_of(4096), "buffers begin with a page");

impl Buffers {
    /// Maps the memory, and makes every buffer free.
    pub(super) fn new() -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // The kernel takes the buffers in turn, so that all are used soon.
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let memory = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), ALL, access, flags)? };
        let entries = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut this = Self { entries, tail: 0, is_left: false };
        for number in 0..COUNT {
            this.give(number);
        }
        Ok(this)
    }

    /// Where the ring of free buffers is, and how many entries it has.
    pub(super) fn ring(&self) -> (u64, u16) {
        (self.entries.as_ptr() as u64, COUNT)
    }

    /// The bytes of the buffer that the kernel has filled.
    ///
    /// # Safety
    ///
    /// The kernel has just said in a completion that it has put `length` bytes into this buffer.
    pub(super) unsafe fn filled(&mut self, number: u16, length: usize) -> Filled<'_> {
        let (number, length) = (number % COUNT, length.min(SIZE));
        #[cfg(feature = "quarantine")]
        quarantine::comes_back(self.bytes(number), length);
        Filled { length, number, buffers: self }
    }

    /// Leaves the memory to the kernel for good.
    pub(super) fn leave(&mut self) {
        self.is_left = true;
    }

    fn memory(&self, number: u16) -> NonNull<u8> {
        // SAFETY: within the mapping, as `number` is below `COUNT`.
        unsafe { self.entries.cast::<u8>().add(ENTRIES + usize::from(number) * SIZE) }
    }

    /// All bytes of a buffer that is not the kernel's.
    #[cfg(feature = "quarantine")]
    fn bytes(&mut self, number: u16) -> &mut [u8] {
        // SAFETY: the buffer's memory, which the caller has and the kernel has not.
        unsafe { std::slice::from_raw_parts_mut(self.memory(number).as_ptr(), SIZE) }
    }

    /// Gives a buffer to the kernel.
    fn give(&mut self, number: u16) {
        #[cfg(feature = "quarantine")]
        quarantine::goes(self.bytes(number));
        let memory = self.memory(number);
        let at = usize::from(self.tail % COUNT);
        // SAFETY: the entry is within the ring, and the kernel doesn't read it before the tail is behind
        // it. Entry 0 also holds the tail, in a field that these three don't touch.
        unsafe {
            let entry = self.entries.add(at).as_mut();
            entry.set_addr(memory.as_ptr() as u64);
            entry.set_len(SIZE as u32);
            entry.set_bid(number);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail's place, which the kernel reads at any time; so it is written as an atomic.
        let tail = unsafe { &*BufRingEntry::tail(self.entries.as_ptr()).cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        // SAFETY: the mapping of `new`. `Ring` drops its buffers only when no operation can fill one.
        let _ = unsafe { rustix::mm::munmap(self.entries.as_ptr().cast(), ALL) };
    }
}

impl Deref for Filled<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the kernel has written so many bytes there, and doesn't write again before `drop`.
        unsafe { std::slice::from_raw_parts(self.buffers.memory(self.number).as_ptr(), self.length) }
    }
}

impl Drop for Filled<'_> {
    fn drop(&mut self) {
        self.buffers.give(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_do_not_overlap() {
        let buffers = Buffers::new().unwrap();
        let (ring, count) = buffers.ring();
        let mut before = ring as usize + ENTRIES;
        assert!((ring as usize).is_multiple_of(4096));
        for number in 0..count {
            assert_eq!(buffers.memory(number).as_ptr() as usize, before);
            before += SIZE;
        }
        assert_eq!(before, ring as usize + ALL);
        assert_eq!(buffers.tail, count);
    }
}
