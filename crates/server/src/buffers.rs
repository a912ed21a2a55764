//! Byte buffers that are lent and given back, so that a request in steady state allocates nothing.

use std::sync::{Mutex, PoisonError};

/// A stack of empty buffers.
#[derive(Debug, Default)]
pub struct Buffers {
    idle: Vec<Vec<u8>>,
}

/// Room for what is usually left over of a request, and for a line of the access log.
const FIRST_CAPACITY: usize = 512;
/// Larger buffers are not kept: one long directory listing shall not be paid for ever after.
const MOST_CAPACITY: usize = 16 << 10;
/// Buffers kept.
const MOST_IDLE: usize = 256;

/// Whether something of that many bytes is kept for later, where so many others are.
pub fn is_kept(bytes: usize, others: usize) -> bool {
    (1..=MOST_CAPACITY).contains(&bytes) && others < MOST_IDLE
}

/// What some threads have left over that others lack.
#[derive(Debug)]
pub struct Surplus<T>(Mutex<Vec<T>>);

/// How many go from one thread to another at once.
const AT_ONCE: usize = 64;

impl<T> Surplus<T> {
    /// Takes some from who has many, and gives some to who has none. Who has a few touches nothing that is
    /// others' as well.
    #[inline]
    pub fn level(&self, own: &mut Vec<T>) {
        if own.is_empty() || own.len() >= 2 * AT_ONCE {
            self.exchange(own);
        }
    }

    #[inline(never)]
    fn exchange(&self, own: &mut Vec<T>) {
        let mut surplus = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if own.is_empty() {
            let from = surplus.len().saturating_sub(AT_ONCE);
            own.extend(surplus.drain(from..));
        } else {
            let more = own.drain(AT_ONCE..);
            surplus.extend(more);
            surplus.truncate(MOST_IDLE);
        }
    }
}

impl<T> Default for Surplus<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl Buffers {
    /// Those that are not lent.
    pub fn idle(&mut self) -> &mut Vec<Vec<u8>> {
        &mut self.idle
    }

    /// An empty buffer.
    pub fn take(&mut self) -> Vec<u8> {
        self.idle.pop().unwrap_or_else(|| Vec::with_capacity(FIRST_CAPACITY))
    }

    /// Takes a buffer back. One that never held anything is dropped for free.
    pub fn give(&mut self, mut buffer: Vec<u8>) {
        if is_kept(buffer.capacity(), self.idle.len()) {
            buffer.clear();
            self.idle.push(buffer);
        }
    }
}
