//! The locks that a thread holds, as the kernel and this process know them: the list of
//! `set_robust_list(2)`, and a copy in the thread's own memory.

use std::cell::Cell;
use std::mem::offset_of;
use std::sync::atomic::{AtomicIsize, AtomicU32, AtomicUsize, Ordering, compiler_fence};

use super::entry::Mutex;

/// The head of the kernel's list of the locks that a thread holds: `struct robust_list_head` in
/// linux/futex.h.
#[repr(C)]
struct Head {
    first: AtomicUsize,
    word_offset: AtomicIsize,
    /// The lock that is being taken or released. The kernel checks it as well.
    pending: AtomicUsize,
}

/// Most locks that a thread holds at the same time.
const MOST_HELD: usize = 4;

/// The data that a thread needs to take locks.
struct OfThread {
    head: Head,
    /// The thread's id. 0 until the kernel knows `head`.
    id: AtomicU32,
    /// The locks that the thread holds, in the order in which it took them. The kernel's list has the
    /// reverse order, and is in memory that other processes can write to.
    held: [Cell<Option<&'static Mutex>>; MOST_HELD],
}

thread_local! {
    static OF_THREAD: OfThread = const {
        let (first, pending) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let head = Head { first, word_offset: AtomicIsize::new(0), pending };
        OfThread { head, id: AtomicU32::new(0), held: [const { Cell::new(None) }; MOST_HELD] }
    };
}

pub(super) struct Thread {
    own: *const OfThread,
    pub(super) id: u32,
}

impl Thread {
    #[inline]
    pub(super) fn current() -> Self {
        OF_THREAD.with(|own| match own.id.load(Ordering::Relaxed) {
            0 => Self::register(own),
            id => Self { own, id },
        })
    }

    #[cold]
    fn register(own: &OfThread) -> Self {
        let head = &raw const own.head;
        own.head.first.store(head as usize, Ordering::Relaxed);
        own.head.pending.store(0, Ordering::Relaxed);
        own.held.iter().for_each(|held| held.set(None));
        let offset = offset_of!(Mutex, word) - offset_of!(Mutex, next);
        own.head.word_offset.store(offset as isize, Ordering::Relaxed);
        // SAFETY: the head is in the thread's own memory. That memory exists until the kernel has read it
        // at the thread's end, and from here on it always holds a valid list. This replaces the C
        // library's list, which is for robust mutexes of pthread_mutexattr_setrobust(3). This project
        // uses none of those.
        let code = unsafe { libc::syscall(libc::SYS_set_robust_list, head, size_of::<Head>()) };
        assert_eq!(code, 0, "every kernel with futexes takes a list of this size");
        let id = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        own.id.store(id, Ordering::Relaxed);
        Self { own, id }
    }

    fn own(&self) -> &OfThread {
        // SAFETY: it is the calling thread's own, and `Thread` does not leave the function that asked for
        // it.
        unsafe { &*self.own }
    }

    fn head(&self) -> &Head {
        &self.own().head
    }

    #[inline]
    pub(super) fn holds(&self, mutex: &Mutex) -> bool {
        self.own().held.iter().any(|held| held.get().is_some_and(|held| std::ptr::eq(held, mutex)))
    }

    /// Announces a change of this lock. If the thread ends between changing the lock's word and changing
    /// the list, the kernel checks this lock as well.
    pub(super) fn announce(&self, mutex: &Mutex) {
        self.head().pending.store(mutex.address(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    pub(super) fn withdraw(&self) {
        compiler_fence(Ordering::SeqCst);
        self.head().pending.store(0, Ordering::Relaxed);
    }

    pub(super) fn link(&self, mutex: &'static Mutex) {
        let held = &self.own().held;
        let free = held.iter().rposition(|held| held.get().is_some()).map_or(0, |last| last + 1);
        held.get(free).expect("a thread holds few locks at a time").set(Some(mutex));
        mutex.next.store(self.before(free), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.head().first.store(mutex.address(), Ordering::Relaxed);
        self.withdraw();
    }

    pub(super) fn unlink(&self, mutex: &Mutex) {
        let held = &self.own().held;
        let Some(at) = held.iter().position(|held| held.get().is_some_and(|held| std::ptr::eq(held, mutex)))
        else {
            return;
        };
        let link = held[at + 1..].iter().find_map(Cell::get).map_or(&self.head().first, |later| &later.next);
        link.store(self.before(at), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        held[at].set(None);
    }

    /// The address of the lock that was taken before the one at this index, or of the head, which ends
    /// the list.
    fn before(&self, at: usize) -> usize {
        let last = self.own().held[..at].iter().rev().find_map(Cell::get);
        last.map_or(&raw const *self.head() as usize, Mutex::address)
    }
}

/// Call this in a child process: it holds none of its parent's locks, has its own id, and the kernel does
/// not know its list.
pub(crate) fn forget_parent() {
    OF_THREAD.with(|own| own.id.store(0, Ordering::Relaxed));
}
