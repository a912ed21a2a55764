//! Checks that the kernel leaves memory alone that a ring has released. A sanitizer can't: it doesn't see
//! what the kernel does. Only with the feature `quarantine`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

/// What a buffer is filled with before it is the kernel's.
const UNTOUCHED: u8 = 0xa5;
/// How many released regions stay mapped without access.
const KEPT: usize = 512;

thread_local! {
    static RELEASED: RefCell<VecDeque<Mapping>> = const { RefCell::new(VecDeque::new()) };
}

/// A copy of bytes that the kernel reads. When it is dropped, the kernel can't read it any more, and an
/// operation that does fails with `EFAULT`.
#[derive(Debug)]
pub(super) struct Region(Option<Mapping>);

#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Region {
    /// The copy, and where it is.
    pub(super) fn with(bytes: &[u8]) -> (Self, *const u8) {
        let length = bytes.len().max(1);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), length, access, MapFlags::PRIVATE) };
        let start = start.ok().and_then(|start| NonNull::new(start.cast())).expect("memory for a test");
        // SAFETY: the new mapping is as long as that, and nobody else has it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), start.as_ptr(), bytes.len()) };
        (Self(Some(Mapping { start, length })), start.as_ptr())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let Some(mapping) = self.0.take() else { return };
        let no_access = MprotectFlags::empty();
        // SAFETY: this mapping is the region's, which nobody reads any more.
        let done = unsafe { rustix::mm::mprotect(mapping.start.as_ptr().cast(), mapping.length, no_access) };
        assert!(done.is_ok(), "{done:?}");
        RELEASED.with_borrow_mut(|released| {
            released.push_back(mapping);
            if released.len() > KEPT {
                released.pop_front();
            }
        });
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nobody has its address any more.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// A buffer becomes the kernel's.
pub(super) fn goes(buffer: &mut [u8]) {
    buffer.fill(UNTOUCHED);
}

/// The kernel has written `length` bytes to a buffer, and no others.
pub(super) fn comes_back(buffer: &[u8], length: usize) {
    let touched = buffer[length..].iter().position(|byte| *byte != UNTOUCHED);
    assert!(touched.is_none(), "byte {touched:?} behind {length} was written to");
}
