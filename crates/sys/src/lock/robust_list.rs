//! What the kernel and this process know of the locks that a thread holds: the list of `set_robust_list(2)`,
//! and the same from memory of the thread's own.

use std::cell::Cell;
use std::mem::offset_of;
use std::sync::atomic::{AtomicIsize, AtomicU32, AtomicUsize, Ordering, compiler_fence};

use super::entry::Mutex;

/// The head of the kernel's list of the locks that a thread holds: `struct robust_list_head` of
/// linux/futex.h.
#[repr(C)]
struct Head {
    first: AtomicUsize,
    word_offset: AtomicIsize,
    /// The lock that is being taken or given back: the kernel looks at it as well.
    pending: AtomicUsize,
}

/// The most locks that a thread holds at a time.
const MOST_HELD: usize = 4;

/// What a thread needs to take locks.
struct OfThread {
    head: Head,
    /// Its id; 0 until the kernel knows of `head`.
    id: AtomicU32,
    /// What it holds, the first that it took first: the kernel's list from its end, which lies where others
    /// can write.
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
        // SAFETY: the head lies in the thread's own memory, which is there until after the kernel has read it
        // at the thread's end, and from here on always is a valid list. It replaces the list of the C
        // library, which is for robust mutexes of pthread_mutexattr_setrobust(3), of which this project makes
        // none.
        let code = unsafe { libc::syscall(libc::SYS_set_robust_list, head, size_of::<Head>()) };
        assert_eq!(code, 0, "every kernel with futexes takes a list of this size");
        let id = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        own.id.store(id, Ordering::Relaxed);
        Self { own, id }
    }

    fn own(&self) -> &OfThread {
        // SAFETY: it is the calling thread's own, and `Thread` does not leave the function that asked for it.
        unsafe { &*self.own }
    }

    fn head(&self) -> &Head {
        &self.own().head
    }

    #[inline]
    pub(super) fn holds(&self, mutex: &Mutex) -> bool {
        self.own().held.iter().any(|held| held.get().is_some_and(|held| std::ptr::eq(held, mutex)))
    }

    /// Should the thread end between a change of the lock's word and the change of the list that goes with
    /// it, the kernel looks at this lock, too.
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

    /// The address of the lock that was taken before the one at that place, or of the head, which is the end
    /// of the list.
    fn before(&self, at: usize) -> usize {
        let last = self.own().held[..at].iter().rev().find_map(Cell::get);
        last.map_or(&raw const *self.head() as usize, Mutex::address)
    }
}

/// In a child process: it holds none of its parent's locks, has an id of its own, and the kernel knows no
/// list of it.
pub(crate) fn forget_parent() {
    OF_THREAD.with(|own| own.id.store(0, Ordering::Relaxed));
}
