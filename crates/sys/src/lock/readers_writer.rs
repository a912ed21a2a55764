//! A lock for many readers or one writer, any of which may be killed.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

use rustix::thread::futex;

use super::mutex::sleep;
use super::{Held, Mutex};

crate::shareable! {
    /// The writers' half of a [`ReadersWriter`].
    #[derive(Debug)]
    #[repr(C, align(128))]
    pub struct Writer {
        pub(super) mutex: Mutex,
        /// A writer is active or waits for readers.
        pub(super) writing: AtomicU32,
    }
}

crate::shareable! {
    /// The place of one reader of a [`ReadersWriter`].
    #[derive(Debug)]
    #[repr(C, align(128))]
    pub struct Reader {
        /// 1 while the reader reads.
        pub(super) reading: AtomicU32,
    }
}

/// A lock for many readers, each with its own place, or one writer.
#[derive(Clone, Copy, Debug)]
pub struct ReadersWriter {
    pub(super) writer: &'static Writer,
    pub(super) readers: &'static [Reader],
}

/// Permission to read. Dropping this ends it.
#[derive(Debug)]
#[must_use]
pub struct Reading {
    lock: ReadersWriter,
    place: usize,
}

/// Permission to write. Dropping this ends it.
#[derive(Debug)]
#[must_use]
pub struct Writing {
    lock: ReadersWriter,
    held: Held,
}

/// Why reading is not possible.
#[derive(Debug)]
pub enum Unread {
    /// The last writer died. The caller is now the writer: it must repair what is half changed, and then
    /// try again.
    Repair(Writing),
    /// Another process has held the lock for longer than the caller's `timeout`.
    Busy,
}

/// How often a writer checks a reader's word before it sleeps.
const LOOKS: u32 = 200;

impl ReadersWriter {
    /// A lock made of its parts, which are in shared memory.
    pub fn new(writer: &'static Writer, readers: &'static [Reader]) -> Self {
        Self { writer, readers }
    }

    /// Waits until no writer is active, then reads from `place`. No other reader may use this place, and
    /// it must not be reading already.
    #[inline]
    pub fn read(&self, place: usize, timeout: Duration) -> Result<Reading, Unread> {
        self.readers[place].reading.store(1, Ordering::SeqCst);
        if self.writer.writing.load(Ordering::SeqCst) == 0 {
            return Ok(Reading { lock: *self, place });
        }
        self.read_behind_writer(place, timeout)
    }

    #[cold]
    fn read_behind_writer(&self, place: usize, timeout: Duration) -> Result<Reading, Unread> {
        self.clear(place);
        let end = Instant::now() + timeout;
        let held = self.writer.mutex.lock(timeout).ok_or(Unread::Busy)?;
        if held.owner_died() {
            return Err(self.begin_to_write(held, end).map_or(Unread::Busy, Unread::Repair));
        }
        // While the mutex is held, there is no writer, whatever the word says.
        self.writer.writing.store(0, Ordering::SeqCst);
        self.readers[place].reading.store(1, Ordering::SeqCst);
        Ok(Reading { lock: *self, place })
    }

    /// Waits until there are no readers and no other writer. `None`: that takes longer than `timeout`.
    pub fn write(&self, timeout: Duration) -> Option<Writing> {
        let end = Instant::now() + timeout;
        self.begin_to_write(self.writer.mutex.lock(timeout)?, end)
    }

    /// Resets the lock to its free state. Call this only when no process uses it.
    pub fn renew(&self) {
        self.writer.mutex.word.store(0, Ordering::Relaxed);
        self.writer.writing.store(0, Ordering::Relaxed);
        self.readers.iter().for_each(|reader| reader.reading.store(0, Ordering::Relaxed));
    }

    /// Clears the place of a reader: at the end of its reading, or when it has been killed.
    #[inline]
    pub fn clear(&self, place: usize) {
        let reading = &self.readers[place].reading;
        reading.store(0, Ordering::SeqCst);
        if self.writer.writing.load(Ordering::SeqCst) != 0 {
            let _ = futex::wake(reading, futex::Flags::empty(), 1);
        }
    }

    /// Waits for the readers, with the mutex held.
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

    pub(super) fn announce_writing(&self, held: Held) -> Writing {
        self.writer.writing.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Writing { lock: *self, held }
    }
}

impl Drop for Reading {
    #[inline]
    fn drop(&mut self) {
        self.lock.clear(self.place);
    }
}

impl Writing {
    /// Whether the previous writer died while it was active, so that what the lock protects may be half
    /// changed. See [`Held::owner_died`].
    pub fn owner_died(&self) -> bool {
        self.held.owner_died()
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // The mutex is released after this. Until the data has been repaired, no process may read it.
        if !self.held.unrepaired {
            self.lock.writer.writing.store(0, Ordering::SeqCst);
        }
    }
}
