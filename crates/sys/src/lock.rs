//! Locks in memory that processes share, for processes that may be killed at any moment.
//!
//! Both kinds are robust: the kernel keeps a list of what each thread holds, and lets go of it when the
//! thread ends, however it ends (`set_robust_list(2)`, `robust_futexes` in the kernel's documentation).
//! Whoever takes the lock next is told that its owner died, and repairs what the lock protects.
//!
//! - [`Mutex`] is held by one thread at a time.
//! - [`ReadersWriter`] is held by any number of readers or one writer. Each reader has a *place* of its own,
//!   a word on its own cache line, so that readers neither wait for nor slow each other. The writer waits for
//!   the words of all places, and what a killed reader has left there is cleared by whoever has noticed its
//!   end: [`ReadersWriter::clear`].
//!
//! Nobody waits for longer than he says: the owner may have been stopped (`SIGSTOP`), and then nothing tells
//! when it goes on.
//!
//! What a lock protects consists of atomics, as all shared memory does ([`crate::shared`]), so a mistake with
//! locks gives wrong data, never undefined behaviour. The same holds for what others write where a lock lies:
//! what this thread holds it knows from memory of its own, and never follows an address that it has read from
//! there. A word that names nobody's thread as the owner is taken for a dead one's.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::sync::atomic::{AtomicIsize, AtomicU32, AtomicUsize, Ordering, compiler_fence, fence};
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};
use rustix::thread::futex;

crate::shareable! {
    /// A mutex that tells when its last owner died. It must not be moved while it is held; `lock` sees to
    /// that.
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

/// The longest that anybody sleeps before it looks at a lock again. Who is woken may be killed before it has
/// taken the lock, and then nobody wakes the next one (the kernel does only where nobody has taken it since).
const NAP: Duration = Duration::from_millis(5);

impl Mutex {
    /// Holds the mutex as soon as nobody else does. `None`: that takes longer than `patience`; zero asks
    /// without waiting.
    ///
    /// # Panics
    ///
    /// The calling thread holds it already.
    pub fn lock(&'static self, patience: Duration) -> Option<Held> {
        let thread = Thread::current();
        assert!(!thread.holds(self), "a mutex locked twice by one thread");
        thread.announce(self);
        let held = match self.take(thread.id, 0) {
            Ok(()) => Some(self.held(&thread, false)),
            Err(_) => self.lock_contended(&thread, patience),
        };
        if held.is_none() {
            thread.withdraw();
        }
        held
    }

    #[cold]
    fn lock_contended(&'static self, thread: &Thread, patience: Duration) -> Option<Held> {
        let end = Instant::now() + patience;
        let mut contended = 0;
        loop {
            let Err(now) = self.take(thread.id, contended) else { return Some(self.held(thread, false)) };
            let left = end.saturating_duration_since(Instant::now());
            // Without an owner there is nobody who would give it back, nor is it who does not know of it.
            let is_left =
                now & OWNER_DIED != 0 || matches!(now & OWNER, owner if owner == 0 || owner == thread.id);
            if is_left || left.is_zero() && !is_thread(now & OWNER) {
                let claimed = thread.id | (now & WAITERS) | contended;
                if self.word.compare_exchange(now, claimed, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return Some(self.held(thread, true));
                }
                continue;
            }
            if left.is_zero() {
                return None;
            }
            let waited_for = now | WAITERS;
            if now == waited_for
                || self.word.compare_exchange(now, waited_for, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                // Woken, changed meanwhile, or interrupted: look again. From here on others may be asleep as
                // well.
                sleep(&self.word, waited_for, left);
                contended = WAITERS;
            }
        }
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

/// Sleeps while the word is the same, for `left` at most, and not for long.
fn sleep(word: &AtomicU32, same: u32, left: Duration) {
    let time = futex::Timespec { tv_sec: 0, tv_nsec: left.min(NAP).subsec_nanos().into() };
    let _ = futex::wait(word, futex::Flags::empty(), same, Some(&time));
}

/// Whether there is a thread of that id, be it on its way out. kill(2) with signal 0.
fn is_thread(id: u32) -> bool {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

impl Held {
    /// Whether the owner before died while it held the mutex, so that what it protects may be half changed.
    /// One is told once: repair before this is dropped.
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
        let head = Head { first: AtomicUsize::new(0), word_offset: AtomicIsize::new(0), pending: AtomicUsize::new(0) };
        OfThread { head, id: AtomicU32::new(0), held: [const { Cell::new(None) }; MOST_HELD] }
    };
}

struct Thread {
    own: *const OfThread,
    id: u32,
}

impl Thread {
    #[inline]
    fn current() -> Self {
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
    fn holds(&self, mutex: &Mutex) -> bool {
        self.own().held.iter().any(|held| held.get().is_some_and(|held| std::ptr::eq(held, mutex)))
    }

    /// Should the thread end between a change of the lock's word and the change of the list that goes with
    /// it, the kernel looks at this lock, too.
    fn announce(&self, mutex: &Mutex) {
        self.head().pending.store(mutex.address(), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    fn withdraw(&self) {
        compiler_fence(Ordering::SeqCst);
        self.head().pending.store(0, Ordering::Relaxed);
    }

    fn link(&self, mutex: &'static Mutex) {
        let held = &self.own().held;
        let free = held.iter().rposition(|held| held.get().is_some()).map_or(0, |last| last + 1);
        held.get(free).expect("a thread holds few locks at a time").set(Some(mutex));
        mutex.next.store(self.before(free), Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.head().first.store(mutex.address(), Ordering::Relaxed);
        self.withdraw();
    }

    fn unlink(&self, mutex: &Mutex) {
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

/// Why there is no right to read.
#[derive(Debug)]
pub enum Unread {
    /// The last writer died: the caller has become the writer, is to repair what is half changed, and asks
    /// again.
    Repair(Writing),
    /// Somebody has been at work for longer than the caller's patience.
    Busy,
}

/// So often a writer looks at a reader's word before it sleeps.
const LOOKS: u32 = 200;

impl ReadersWriter {
    /// A lock made of its parts, which lie in shared memory.
    pub fn new(writer: &'static Writer, readers: &'static [Reader]) -> Self {
        Self { writer, readers }
    }

    /// Waits until no writer is at work, and reads from `place`, which nobody else uses and which does not
    /// read already.
    #[inline]
    pub fn read(&self, place: usize, patience: Duration) -> Result<Reading, Unread> {
        self.readers[place].reading.store(1, Ordering::SeqCst);
        if self.writer.writing.load(Ordering::SeqCst) == 0 {
            return Ok(Reading { lock: *self, place });
        }
        self.read_behind_writer(place, patience)
    }

    #[cold]
    fn read_behind_writer(&self, place: usize, patience: Duration) -> Result<Reading, Unread> {
        self.leave(place);
        let end = Instant::now() + patience;
        let held = self.writer.mutex.lock(patience).ok_or(Unread::Busy)?;
        if held.owner_died() {
            return Err(self.begin_to_write(held, end).map_or(Unread::Busy, Unread::Repair));
        }
        // With the mutex held there is no writer, whatever the word says.
        self.writer.writing.store(0, Ordering::SeqCst);
        self.readers[place].reading.store(1, Ordering::SeqCst);
        Ok(Reading { lock: *self, place })
    }

    /// Waits until there are neither readers nor another writer. `None`: that takes longer than `patience`.
    pub fn write(&self, patience: Duration) -> Option<Writing> {
        let end = Instant::now() + patience;
        self.begin_to_write(self.writer.mutex.lock(patience)?, end)
    }

    /// Becomes a lock that nobody holds. Only when nobody uses it.
    pub fn renew(&self) {
        self.writer.mutex.word.store(0, Ordering::Relaxed);
        self.writer.writing.store(0, Ordering::Relaxed);
        self.readers.iter().for_each(|reader| reader.reading.store(0, Ordering::Relaxed));
    }

    /// Clears what a reader that has ended may have left at its place.
    pub fn clear(&self, place: usize) {
        self.leave(place);
    }

    /// With the mutex held, waits for the readers.
    fn begin_to_write(&self, held: Held, end: Instant) -> Option<Writing> {
        let mut writing = self.announce_writing(held);
        for reader in self.readers {
            let mut looks = 0;
            loop {
                let now = reader.reading.load(Ordering::SeqCst);
                if now == 0 {
                    break;
                }
                looks += 1;
                if looks < LOOKS {
                    std::hint::spin_loop();
                    continue;
                }
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    writing.held.unrepaired = writing.held.owner_died;
                    return None;
                }
                sleep(&reader.reading, now, left);
            }
        }
        Some(writing)
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
    /// Whether the writer before died at work, so that what the lock protects may be half changed; see
    /// [`Held::owner_died`].
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

    /// Longer than anything here takes.
    const PATIENCE: Duration = Duration::from_secs(20);
    const NONE: Duration = Duration::ZERO;

    fn mutex() -> &'static Mutex {
        Shared::<Mutex>::new().unwrap().leak()
    }

    #[test]
    fn a_mutex_is_held_by_one_thread_at_a_time() {
        let mutex: &'static Mutex = mutex();
        let sum: &'static AtomicU64 = Shared::<AtomicU64>::new().unwrap().leak();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let held = mutex.lock(PATIENCE).unwrap();
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
        let [a, b, c] = [0, 1, 2].map(|at| mutexes[at].lock(PATIENCE).unwrap());
        assert!(thread::spawn(|| mutexes.iter().all(|mutex| mutex.lock(NONE).is_none())).join().unwrap());
        drop(b);
        drop(a);
        assert!(mutexes[1].lock(NONE).is_some() && mutexes[0].lock(NONE).is_some());
        drop(c);
        assert!(mutexes[2].lock(NONE).is_some());
    }

    #[test]
    fn a_thread_that_ends_with_a_lock_has_died_with_it() {
        let mutex: &'static Mutex = mutex();
        thread::spawn(|| std::mem::forget(mutex.lock(PATIENCE).unwrap())).join().unwrap();
        let held = mutex.lock(NONE).unwrap();
        assert!(held.owner_died());
        drop(held);
        assert!(!mutex.lock(PATIENCE).unwrap().owner_died());
    }

    /// Be it that the owner has been stopped: who waits goes on in the end, and who asks again later holds
    /// it.
    #[test]
    fn nobody_waits_for_longer_than_he_says() {
        let (mutex, lock) = (mutex(), lock(2));
        let (held, writing) = (mutex.lock(NONE), lock.write(NONE));
        thread::spawn(move || {
            let patience = Duration::from_millis(5);
            assert!(mutex.lock(patience).is_none());
            assert!(matches!(lock.read(0, patience), Err(Unread::Busy)));
            assert!(lock.write(patience).is_none());
        })
        .join()
        .unwrap();
        drop((held, writing));
        assert!(mutex.lock(NONE).is_some() && lock.read(0, NONE).is_ok() && lock.write(NONE).is_some());
    }

    /// One is woken and dies before it has taken the lock; somebody else takes it, who does not know of the
    /// other that sleeps.
    #[test]
    fn who_dies_when_woken_leaves_nobody_asleep() {
        let mutex = mutex();
        let held = mutex.lock(NONE).unwrap();
        let word = held.mutex.word.load(Ordering::Relaxed) | WAITERS;
        mutex.word.store(word, Ordering::Relaxed);
        let dies = thread::spawn(move || {
            let _ = futex::wait(&mutex.word, futex::Flags::empty(), word, None);
        });
        thread::sleep(Duration::from_millis(20));
        let waiter = thread::spawn(move || drop(mutex.lock(PATIENCE).unwrap()));
        thread::sleep(Duration::from_millis(20));
        drop(held);
        drop(mutex.lock(NONE));
        dies.join().unwrap();
        waiter.join().unwrap();
    }

    /// What others write where the locks lie is not followed, and an owner that there is not is none.
    #[test]
    fn garbage_in_a_mutex_harms_nobody() {
        let mutexes: &'static [Mutex] = Region::<Mutex>::new(3).unwrap().leak();
        let garbage = || mutexes.iter().for_each(|mutex| mutex.next.store(0x4141_4141, Ordering::Relaxed));
        let [a, b, c] = [0, 1, 2].map(|at| mutexes[at].lock(NONE).unwrap());
        garbage();
        drop(b);
        garbage();
        drop(a);
        drop(c);
        let own = Thread::current().id;
        for word in [own, own | WAITERS, WAITERS, OWNER - 1, WAITERS | (OWNER - 1), OWNER_DIED | 7] {
            mutexes[0].word.store(word, Ordering::Relaxed);
            assert!(mutexes[0].lock(Duration::from_millis(5)).unwrap().owner_died(), "{word:x}");
            assert!(!mutexes[0].lock(NONE).unwrap().owner_died());
        }
        let lock = lock(2);
        lock.writer.writing.store(77, Ordering::Relaxed);
        lock.readers[1].reading.store(77, Ordering::Relaxed);
        assert!(lock.read(0, NONE).is_ok());
        assert!(lock.write(Duration::from_millis(5)).is_none());
        drop(lock.read(1, NONE).unwrap());
        assert!(lock.write(NONE).is_some());
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
        let (first, second) = (lock.read(0, PATIENCE).unwrap(), lock.read(1, PATIENCE).unwrap());
        assert!(lock.write(Duration::from_millis(5)).is_none());
        drop(first);
        assert!(lock.write(Duration::from_millis(5)).is_none());
        let (done, is_done) = mpsc::channel();
        let writer = thread::spawn(move || {
            let writing = lock.write(PATIENCE).unwrap();
            done.send(()).unwrap();
            thread::sleep(Duration::from_millis(20));
            drop(writing);
        });
        assert!(is_done.recv_timeout(Duration::from_millis(20)).is_err());
        drop(second);
        is_done.recv().unwrap();
        // Behind the writer.
        drop(lock.read(0, PATIENCE).unwrap());
        writer.join().unwrap();
    }

    #[test]
    fn what_a_reader_left_is_cleared() {
        let lock = lock(2);
        std::mem::forget(lock.read(1, PATIENCE).unwrap());
        let writer = thread::spawn(move || drop(lock.write(PATIENCE).unwrap()));
        thread::sleep(Duration::from_millis(10));
        assert!(!writer.is_finished());
        lock.clear(1);
        writer.join().unwrap();
    }

    #[test]
    fn a_reader_behind_a_dead_writer_repairs() {
        let lock = lock(2);
        thread::spawn(move || std::mem::forget(lock.write(PATIENCE).unwrap())).join().unwrap();
        let Err(Unread::Repair(writing)) = lock.read(0, PATIENCE) else { panic!("nobody has repaired it") };
        assert!(writing.owner_died());
        drop(writing);
        assert!(lock.read(0, PATIENCE).is_ok() && !lock.write(PATIENCE).unwrap().owner_died());
    }

    #[test]
    fn who_gives_up_waiting_leaves_the_repair_to_the_next() {
        let lock = lock(2);
        let reading = lock.read(1, PATIENCE).unwrap();
        let dying = thread::spawn(move || {
            std::mem::forget(lock.announce_writing(lock.writer.mutex.lock(PATIENCE).unwrap()));
        });
        dying.join().unwrap();
        assert!(lock.write(Duration::from_millis(5)).is_none());
        drop(reading);
        assert!(lock.read(0, PATIENCE).is_err_and(|unread| matches!(unread, Unread::Repair(_))));
        assert!(lock.read(0, PATIENCE).is_ok());
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
                            let _writing = lock.write(PATIENCE).unwrap();
                            for number in numbers {
                                number.store(number.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                            }
                        }
                        let _reading = lock.read(place, PATIENCE).unwrap();
                        assert_eq!(numbers[0].load(Ordering::Relaxed), numbers[1].load(Ordering::Relaxed));
                    }
                });
            }
        });
        assert_eq!(numbers[0].load(Ordering::Relaxed), 300);
    }
}
