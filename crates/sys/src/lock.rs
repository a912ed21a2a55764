//! Locks in memory that processes share, for processes that may be killed at any moment.
//!
//! Both kinds are robust: the kernel keeps a list of what each thread holds, and lets go of it when the thread ends, however it
//! ends (`set_robust_list(2)`, `robust_futexes` in the kernel's documentation). Whoever takes the lock next is told that its
//! owner died, and repairs what the lock protects.
//!
//! - [`Mutex`] is held by one thread at a time.
//! - [`ReadersWriter`] is held by any number of readers or one writer. Each reader has a *place* of its own, a word on its own
//!   cache line, so that readers neither wait for nor slow each other. The writer waits for the words of all places, and what a
//!   killed reader has left there is cleared by whoever has noticed its end: [`ReadersWriter::clear`].
//!
//! What a lock protects consists of atomics, as all shared memory does ([`crate::shared`]), so a mistake with locks gives wrong
//! data, never undefined behaviour.

use std::marker::PhantomData;
use std::mem::offset_of;
use std::sync::atomic::{AtomicIsize, AtomicU32, AtomicUsize, Ordering, compiler_fence, fence};
use std::time::{Duration, Instant};

use rustix::thread::futex;

crate::shareable! {
    /// A mutex that tells when its last owner died. It must not be moved while it is held; `lock` sees to that.
    #[derive(Debug)]
    #[repr(C)]
    pub struct Mutex {
        /// The next lock that the owner holds, of the kernel's list.
        next: AtomicUsize,
        /// 0, or the owner's thread id and the two bits below.
        word: AtomicU32,
    }
}

/// Somebody waits for the lock.
const WAITERS: u32 = 1 << 31;
/// The owner ended without giving the lock back.
const OWNER_DIED: u32 = 1 << 30;
const OWNER: u32 = OWNER_DIED - 1;

/// A mutex that is held, until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Held {
    mutex: &'static Mutex,
    owner_died: bool,
    /// Whoever holds it next is told that its owner died, as nothing has been repaired.
    unrepaired: bool,
    /// The kernel's list belongs to a thread.
    of_thread: PhantomData<*const ()>,
}

impl Mutex {
    /// Waits until the mutex can be held.
    ///
    /// # Panics
    ///
    /// The calling thread holds it already.
    pub fn lock(&'static self) -> Held {
        let thread = Thread::current();
        thread.announce(self);
        let mut contended = 0;
        loop {
            let Err(now) = self.take(thread.id, contended) else { break self.held(&thread, false) };
            if now & OWNER_DIED != 0 {
                let claimed = thread.id | (now & WAITERS) | contended;
                if self.word.compare_exchange(now, claimed, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    break self.held(&thread, true);
                }
                continue;
            }
            assert!(now & OWNER != thread.id, "a mutex locked twice by one thread");
            let waited_for = now | WAITERS;
            if now == waited_for
                || self.word.compare_exchange(now, waited_for, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                // Woken, changed meanwhile, or interrupted: look again. From here on others may be asleep as well.
                let _ = futex::wait(&self.word, futex::Flags::empty(), waited_for, None);
                contended = WAITERS;
            }
        }
    }

    /// Holds the mutex if nobody does.
    pub fn try_lock(&'static self) -> Option<Held> {
        let thread = Thread::current();
        thread.announce(self);
        let taken = match self.take(thread.id, 0) {
            Ok(()) => Some(self.held(&thread, false)),
            Err(now) if now & OWNER_DIED != 0 => {
                let claimed = thread.id | (now & WAITERS);
                let claim = self.word.compare_exchange(now, claimed, Ordering::Acquire, Ordering::Relaxed);
                claim.ok().map(|_| self.held(&thread, true))
            }
            Err(_) => None,
        };
        if taken.is_none() {
            thread.withdraw();
        }
        taken
    }

    /// The word if it was not free.
    #[inline]
    fn take(&self, owner: u32, contended: u32) -> Result<(), u32> {
        self.word.compare_exchange(0, owner | contended, Ordering::Acquire, Ordering::Relaxed).map(drop)
    }

    fn held(&'static self, thread: &Thread, owner_died: bool) -> Held {
        thread.link(self);
        Held { mutex: self, owner_died, unrepaired: false, of_thread: PhantomData }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }
}

impl Held {
    /// Whether the owner before died while it held the mutex, so that what it protects may be half changed. One is told once:
    /// repair before this is dropped.
    pub fn owner_died(&self) -> bool {
        self.owner_died
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let thread = Thread::current();
        thread.announce(self.mutex);
        thread.unlink(self.mutex);
        let left = if self.unrepaired { OWNER_DIED } else { 0 };
        let was = self.mutex.word.swap(left, Ordering::Release);
        if was & WAITERS != 0 {
            let _ = futex::wake(&self.mutex.word, futex::Flags::empty(), 1);
        }
        thread.withdraw();
    }
}

/// The head of the kernel's list of the locks that a thread holds: `struct robust_list_head` of linux/futex.h.
#[repr(C)]
struct Head {
    first: AtomicUsize,
    word_offset: AtomicIsize,
    /// The lock that is being taken or given back: the kernel looks at it as well.
    pending: AtomicUsize,
}

/// What a thread needs to take locks.
struct OfThread {
    head: Head,
    /// Its id; 0 until the kernel knows of `head`.
    id: AtomicU32,
}

thread_local! {
    static OF_THREAD: OfThread = const {
        let head = Head { first: AtomicUsize::new(0), word_offset: AtomicIsize::new(0), pending: AtomicUsize::new(0) };
        OfThread { head, id: AtomicU32::new(0) }
    };
}

struct Thread {
    head: *const Head,
    id: u32,
}

impl Thread {
    #[inline]
    fn current() -> Self {
        OF_THREAD.with(|own| {
            let head = &raw const own.head;
            match own.id.load(Ordering::Relaxed) {
                0 => Self::register(own),
                id => Self { head, id },
            }
        })
    }

    #[cold]
    fn register(own: &OfThread) -> Self {
        let head = &raw const own.head;
        own.head.first.store(head as usize, Ordering::Relaxed);
        own.head.pending.store(0, Ordering::Relaxed);
        let offset = offset_of!(Mutex, word) - offset_of!(Mutex, next);
        own.head.word_offset.store(offset as isize, Ordering::Relaxed);
        // SAFETY: the head lies in the thread's own memory, which is there until after the kernel has read it at the thread's
        // end, and from here on always is a valid list. It replaces the list of the C library, which is for robust mutexes of
        // pthread_mutexattr_setrobust(3), of which this project makes none.
        let code = unsafe { libc::syscall(libc::SYS_set_robust_list, head, size_of::<Head>()) };
        assert_eq!(code, 0, "every kernel with futexes takes a list of this size");
        let id = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        own.id.store(id, Ordering::Relaxed);
        Self { head, id }
    }

    fn head(&self) -> &Head {
        // SAFETY: it is the calling thread's own, and `Thread` does not leave the function that asked for it.
        unsafe { &*self.head }
    }

    /// Should the thread end between a change of the lock's word and the change of the list that goes with it, the kernel looks
    /// at this lock, too.
    fn announce(&self, mutex: &Mutex) {
        self.head().pending.store(mutex.address(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    fn withdraw(&self) {
        compiler_fence(Ordering::SeqCst);
        self.head().pending.store(0, Ordering::Relaxed);
    }

    fn link(&self, mutex: &'static Mutex) {
        mutex.next.store(self.head().first.load(Ordering::Relaxed), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.head().first.store(mutex.address(), Ordering::Relaxed);
        self.withdraw();
    }

    /// Takes the lock out of the list, in which there are only ever a few.
    fn unlink(&self, mutex: &Mutex) {
        let end = self.head as usize;
        let mut link = &self.head().first;
        while link.load(Ordering::Relaxed) != mutex.address() {
            let next = link.load(Ordering::Relaxed);
            if next == end {
                return;
            }
            // SAFETY: what is in the list was put there by `link` of this thread: a mutex that lives for ever, whose first
            // field is the link.
            link = unsafe { &*(next as *const AtomicUsize) };
        }
        link.store(mutex.next.load(Ordering::Relaxed), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }
}

/// In a child process: it holds none of its parent's locks, has an id of its own, and the kernel knows no list of it.
pub(crate) fn forget_parent() {
    OF_THREAD.with(|own| own.id.store(0, Ordering::Relaxed));
}

crate::shareable! {
    /// The writers' half of a [`ReadersWriter`].
    #[derive(Debug)]
    #[repr(C, align(128))]
    pub struct Writer {
        mutex: Mutex,
        /// A writer is at work or waits for readers.
        writing: AtomicU32,
    }
}

crate::shareable! {
    /// The place of one reader of a [`ReadersWriter`].
    #[derive(Debug)]
    #[repr(C, align(128))]
    pub struct Reader {
        /// 1 while it reads.
        reading: AtomicU32,
    }
}

/// A lock for many readers, who have a place each, or one writer.
#[derive(Clone, Copy, Debug)]
pub struct ReadersWriter {
    writer: &'static Writer,
    readers: &'static [Reader],
}

/// The right to read, until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Reading {
    lock: ReadersWriter,
    place: usize,
}

/// The right to write, until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Writing {
    lock: ReadersWriter,
    held: Held,
}

/// So often a writer looks at a reader's word before it sleeps.
const LOOKS: u32 = 200;

impl ReadersWriter {
    /// A lock made of its parts, which lie in shared memory.
    pub fn new(writer: &'static Writer, readers: &'static [Reader]) -> Self {
        Self { writer, readers }
    }

    /// Waits until no writer is at work, and reads from `place`, which nobody else uses and which does not read already.
    ///
    /// # Errors
    ///
    /// The last writer died: the caller has become the writer, is to repair what is half changed, and asks again.
    #[inline]
    pub fn read(&self, place: usize) -> Result<Reading, Writing> {
        self.readers[place].reading.store(1, Ordering::SeqCst);
        if self.writer.writing.load(Ordering::SeqCst) == 0 {
            return Ok(Reading { lock: *self, place });
        }
        self.read_behind_writer(place)
    }

    #[cold]
    fn read_behind_writer(&self, place: usize) -> Result<Reading, Writing> {
        self.leave(place);
        let held = self.writer.mutex.lock();
        if held.owner_died() {
            return Err(self.begin_to_write(held));
        }
        // With the mutex held there is no writer.
        self.readers[place].reading.store(1, Ordering::SeqCst);
        Ok(Reading { lock: *self, place })
    }

    /// Waits until there are neither readers nor another writer.
    pub fn write(&self) -> Writing {
        self.begin_to_write(self.writer.mutex.lock())
    }

    /// The same if it takes no longer than `patience` and nobody else writes.
    pub fn try_write(&self, patience: Duration) -> Option<Writing> {
        let held = self.writer.mutex.try_lock()?;
        let end = Instant::now() + patience;
        let mut writing = self.announce_writing(held);
        for reader in self.readers {
            while reader.reading.load(Ordering::SeqCst) != 0 {
                let Some(left) = end.checked_duration_since(Instant::now()) else {
                    writing.held.unrepaired = writing.held.owner_died;
                    return None;
                };
                let left =
                    futex::Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
                let _ = futex::wait(&reader.reading, futex::Flags::empty(), 1, Some(&left));
            }
        }
        Some(writing)
    }

    /// Clears what a reader that has ended may have left at its place.
    pub fn clear(&self, place: usize) {
        self.leave(place);
    }

    fn begin_to_write(&self, held: Held) -> Writing {
        let writing = self.announce_writing(held);
        for reader in self.readers {
            let mut looks = 0;
            while reader.reading.load(Ordering::SeqCst) != 0 {
                looks += 1;
                if looks < LOOKS {
                    std::hint::spin_loop();
                } else {
                    let _ = futex::wait(&reader.reading, futex::Flags::empty(), 1, None);
                }
            }
        }
        writing
    }

    fn announce_writing(&self, held: Held) -> Writing {
        self.writer.writing.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Writing { lock: *self, held }
    }

    #[inline]
    fn leave(&self, place: usize) {
        let reading = &self.readers[place].reading;
        reading.store(0, Ordering::SeqCst);
        if self.writer.writing.load(Ordering::SeqCst) != 0 {
            let _ = futex::wake(reading, futex::Flags::empty(), 1);
        }
    }
}

impl Drop for Reading {
    #[inline]
    fn drop(&mut self) {
        self.lock.leave(self.place);
    }
}

impl Writing {
    /// Whether the writer before died at work, so that what the lock protects may be half changed; see [`Held::owner_died`].
    pub fn owner_died(&self) -> bool {
        self.held.owner_died()
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // The mutex goes after this. Until somebody has repaired what there is, nobody may read it.
        if !self.held.unrepaired {
            self.lock.writer.writing.store(0, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::shared::{Region, Shared};

    #[test]
    fn a_mutex_is_held_by_one_thread_at_a_time() {
        let mutex: &'static Mutex = Shared::<Mutex>::new().unwrap().leak();
        let sum: &'static AtomicU64 = Shared::<AtomicU64>::new().unwrap().leak();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let held = mutex.lock();
                        sum.store(sum.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        assert!(!held.owner_died());
                    }
                });
            }
        });
        assert_eq!(sum.load(Ordering::Relaxed), 80_000);
    }

    #[test]
    fn several_are_given_back_in_any_order() {
        let mutexes: &'static [Mutex] = Region::<Mutex>::new(3).unwrap().leak();
        let [a, b, c] = [0, 1, 2].map(|at| mutexes[at].lock());
        assert!(thread::spawn(|| mutexes.iter().all(|mutex| mutex.try_lock().is_none())).join().unwrap());
        drop(b);
        drop(a);
        assert!(mutexes[1].try_lock().is_some() && mutexes[0].try_lock().is_some());
        drop(c);
        assert!(mutexes[2].try_lock().is_some());
    }

    #[test]
    fn a_thread_that_ends_with_a_lock_has_died_with_it() {
        let mutex: &'static Mutex = Shared::<Mutex>::new().unwrap().leak();
        thread::spawn(|| std::mem::forget(mutex.lock())).join().unwrap();
        let held = mutex.try_lock().unwrap();
        assert!(held.owner_died());
        drop(held);
        assert!(!mutex.lock().owner_died());
    }

    fn lock(readers: usize) -> ReadersWriter {
        ReadersWriter::new(
            Shared::<Writer>::new().unwrap().leak(),
            Region::<Reader>::new(readers).unwrap().leak(),
        )
    }

    #[test]
    fn readers_read_at_once_and_exclude_writers() {
        let lock = lock(2);
        let (first, second) = (lock.read(0).unwrap(), lock.read(1).unwrap());
        assert!(lock.try_write(Duration::from_millis(5)).is_none());
        drop(first);
        assert!(lock.try_write(Duration::from_millis(5)).is_none());
        let (done, is_done) = mpsc::channel();
        let writer = thread::spawn(move || {
            let writing = lock.write();
            done.send(()).unwrap();
            thread::sleep(Duration::from_millis(20));
            drop(writing);
        });
        assert!(is_done.recv_timeout(Duration::from_millis(20)).is_err());
        drop(second);
        is_done.recv().unwrap();
        // Behind the writer.
        drop(lock.read(0).unwrap());
        writer.join().unwrap();
    }

    #[test]
    fn what_a_reader_left_is_cleared() {
        let lock = lock(2);
        std::mem::forget(lock.read(1).unwrap());
        let writer = thread::spawn(move || drop(lock.write()));
        thread::sleep(Duration::from_millis(10));
        assert!(!writer.is_finished());
        lock.clear(1);
        writer.join().unwrap();
    }

    #[test]
    fn a_reader_behind_a_dead_writer_repairs() {
        let lock = lock(2);
        thread::spawn(move || std::mem::forget(lock.write())).join().unwrap();
        let writing = lock.read(0).unwrap_err();
        assert!(writing.owner_died());
        drop(writing);
        assert!(lock.read(0).is_ok() && !lock.write().owner_died());
    }

    #[test]
    fn who_gives_up_waiting_leaves_the_repair_to_the_next() {
        let lock = lock(2);
        let reading = lock.read(1).unwrap();
        let dying = thread::spawn(move || std::mem::forget(lock.announce_writing(lock.writer.mutex.lock())));
        dying.join().unwrap();
        assert!(lock.try_write(Duration::from_millis(5)).is_none());
        drop(reading);
        assert!(lock.read(0).is_err_and(|writing| writing.owner_died()));
        assert!(lock.read(0).is_ok());
    }

    #[test]
    fn numbers_written_together_are_read_together() {
        let lock = lock(3);
        let numbers: &'static [AtomicU64] = Region::<AtomicU64>::new(2).unwrap().leak();
        thread::scope(|scope| {
            for place in 0..3 {
                scope.spawn(move || {
                    for round in 0..5_000 {
                        if round % 50 == 0 {
                            let _writing = lock.write();
                            for number in numbers {
                                number.store(number.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                            }
                        }
                        let _reading = lock.read(place).unwrap();
                        assert_eq!(numbers[0].load(Ordering::Relaxed), numbers[1].load(Ordering::Relaxed));
                    }
                });
            }
        });
        assert_eq!(numbers[0].load(Ordering::Relaxed), 300);
    }
}
