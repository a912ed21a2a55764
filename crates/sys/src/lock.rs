//! Locks in memory that processes share, safe against processes that are killed at any moment.
//!
//! Both kinds are robust. The kernel keeps a list of the locks that each thread holds, and releases them
//! when the thread ends, however it ends (`set_robust_list(2)`, `robust_futexes` in the kernel's
//! documentation). The thread that takes the lock next learns that the owner died, and repairs what the
//! lock protects.
//!
//! - [`Mutex`] is held by one thread at a time.
//! - [`ReadersWriter`] is held by any number of readers or by one writer. Each reader has its own
//!   *place*, a word on its own cache line, so readers neither wait for nor slow down each other. The
//!   writer waits for the words of all places. If a reader is killed, the process that notices this
//!   clears the reader's word: [`ReadersWriter::clear`].
//!
//! Every wait has a time limit set by the caller. The owner may have been stopped (`SIGSTOP`), and then
//! it is unknown when it continues.
//!
//! What a lock protects consists of atomics, as all shared memory does ([`crate::shared`]). So a mistake
//! with locks gives wrong data, never undefined behaviour. The same holds if other processes overwrite
//! the lock itself. A thread knows from its own memory which locks it holds, and never follows an address
//! read from shared memory. If a word names no living thread as the owner, the owner counts as dead.

mod entry;
mod mutex;
mod readers_writer;
mod robust_list;

pub use entry::Mutex;
pub use mutex::Held;
pub use readers_writer::{Reader, ReadersWriter, Reading, Unread, Writer, Writing};
pub(crate) use robust_list::forget_parent;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use rustix::thread::futex;

    use super::entry::{OWNER, OWNER_DIED, WAITERS};
    use super::robust_list::Thread;
    use super::*;
    use crate::shared::{Region, Shared};

    /// Longer than anything here takes.
    const TIMEOUT: Duration = Duration::from_secs(20);
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
                        let held = mutex.lock(TIMEOUT).unwrap();
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
        let [a, b, c] = [0, 1, 2].map(|at| mutexes[at].lock(TIMEOUT).unwrap());
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
        thread::spawn(|| std::mem::forget(mutex.lock(TIMEOUT).unwrap())).join().unwrap();
        let held = mutex.lock(NONE).unwrap();
        assert!(held.owner_died());
        drop(held);
        assert!(!mutex.lock(TIMEOUT).unwrap().owner_died());
    }

    /// The owner may have been stopped. The waiting thread gives up in the end, and a later attempt gets
    /// the lock.
    #[test]
    fn nobody_waits_for_longer_than_he_says() {
        let (mutex, lock) = (mutex(), lock(2));
        let (held, writing) = (mutex.lock(NONE), lock.write(NONE));
        thread::spawn(move || {
            let timeout = Duration::from_millis(5);
            assert!(mutex.lock(timeout).is_none());
            assert!(matches!(lock.read(0, timeout), Err(Unread::Busy)));
            assert!(lock.write(timeout).is_none());
        })
        .join()
        .unwrap();
        drop((held, writing));
        assert!(mutex.lock(NONE).is_some() && lock.read(0, NONE).is_ok() && lock.write(NONE).is_some());
    }

    /// One thread is woken and dies before it has taken the lock. Then another thread takes the lock,
    /// without knowing of a third thread that sleeps.
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
        let waiter = thread::spawn(move || drop(mutex.lock(TIMEOUT).unwrap()));
        thread::sleep(Duration::from_millis(20));
        drop(held);
        drop(mutex.lock(NONE));
        dies.join().unwrap();
        waiter.join().unwrap();
    }

    /// A thread never follows what other processes write into the locks, and an owner that does not exist
    /// counts as none.
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
        let (first, second) = (lock.read(0, TIMEOUT).unwrap(), lock.read(1, TIMEOUT).unwrap());
        assert!(lock.write(Duration::from_millis(5)).is_none());
        drop(first);
        assert!(lock.write(Duration::from_millis(5)).is_none());
        let (done, is_done) = mpsc::channel();
        let writer = thread::spawn(move || {
            let writing = lock.write(TIMEOUT).unwrap();
            done.send(()).unwrap();
            thread::sleep(Duration::from_millis(20));
            drop(writing);
        });
        assert!(is_done.recv_timeout(Duration::from_millis(20)).is_err());
        drop(second);
        is_done.recv().unwrap();
        // After the writer.
        drop(lock.read(0, TIMEOUT).unwrap());
        writer.join().unwrap();
    }

    #[test]
    fn what_a_reader_left_is_cleared() {
        let lock = lock(2);
        std::mem::forget(lock.read(1, TIMEOUT).unwrap());
        let writer = thread::spawn(move || drop(lock.write(TIMEOUT).unwrap()));
        thread::sleep(Duration::from_millis(10));
        assert!(!writer.is_finished());
        lock.clear(1);
        writer.join().unwrap();
    }

    #[test]
    fn a_reader_behind_a_dead_writer_repairs() {
        let lock = lock(2);
        thread::spawn(move || std::mem::forget(lock.write(TIMEOUT).unwrap())).join().unwrap();
        let Err(Unread::Repair(writing)) = lock.read(0, TIMEOUT) else { panic!("nobody has repaired it") };
        assert!(writing.owner_died());
        drop(writing);
        assert!(lock.read(0, TIMEOUT).is_ok() && !lock.write(TIMEOUT).unwrap().owner_died());
    }

    #[test]
    fn who_gives_up_waiting_leaves_the_repair_to_the_next() {
        let lock = lock(2);
        let reading = lock.read(1, TIMEOUT).unwrap();
        let dying = thread::spawn(move || {
            std::mem::forget(lock.announce_writing(lock.writer.mutex.lock(TIMEOUT).unwrap()));
        });
        dying.join().unwrap();
        assert!(lock.write(Duration::from_millis(5)).is_none());
        drop(reading);
        assert!(lock.read(0, TIMEOUT).is_err_and(|unread| matches!(unread, Unread::Repair(_))));
        assert!(lock.read(0, TIMEOUT).is_ok());
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
                            let _writing = lock.write(TIMEOUT).unwrap();
                            for number in numbers {
                                number.store(number.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                            }
                        }
                        let _reading = lock.read(place, TIMEOUT).unwrap();
                        assert_eq!(numbers[0].load(Ordering::Relaxed), numbers[1].load(Ordering::Relaxed));
                    }
                });
            }
        });
        assert_eq!(numbers[0].load(Ordering::Relaxed), 300);
    }
}
