//! The memory layout of a mutex: an entry in the kernel's list of the locks that a thread holds.

use std::sync::atomic::{AtomicU32, AtomicUsize};

crate::shareable! {
    /// A mutex that reports when its last owner died. It must not be moved while it is held; `lock`
    /// ensures that.
    #[derive(Debug)]
    #[repr(C)]
    pub struct Mutex {
        /// The next lock that the owner holds, in the kernel's list.
        pub(super) next: AtomicUsize,
        /// 0, or the owner's thread id and the two bits below.
        pub(super) word: AtomicU32,
    }
}

/// A thread waits for the lock.
pub(super) const WAITERS: u32 = 1 << 31;
/// The owner ended without releasing the lock.
pub(super) const OWNER_DIED: u32 = 1 << 30;
pub(super) const OWNER: u32 = OWNER_DIED - 1;

impl Mutex {
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}
