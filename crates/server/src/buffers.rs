//! Byte buffers that are reused, so that a request in steady state allocates nothing.

use std::sync::{Mutex, PoisonError};

/// A stack of empty buffers.
#[derive(Debug, Default)]
pub struct Buffers {
    idle: Vec<Vec<u8>>,
}

/// Room for the usual leftover of a request, and for a line of the access log.
const FIRST_CAPACITY: usize = 512;
/// Larger buffers are not kept: one long directory listing must not cost memory for ever after.
const MOST_CAPACITY: usize = 16 << 10;
/// The most buffers that are kept.
const MOST_IDLE: usize = 256;

/// Whether something of that many bytes is kept for later, if this many others are kept already.
pub fn is_kept(bytes: usize, others: usize) -> bool {
    (1..=MOST_CAPACITY).contains(&bytes) && others < MOST_IDLE
}

/// Surplus of some threads, for other threads that have too little.
#[derive(Debug)]
pub struct Surplus<T>(Mutex<Vec<T>>);

/// How many move from one thread to another at once.
const AT_ONCE: usize = 64;

impl<T> Surplus<T> {
    /// Takes some from a thread that has many, and gives some to a thread that has none. A thread that has
    /// a few touches no shared memory.
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
    /// The buffers that are not in use.
    pub fn idle(&mut self) -> &mut Vec<Vec<u8>> {
        &mut self.idle
    }

    /// An empty buffer.
    pub fn take(&mut self) -> Vec<u8> {
        self.idle.pop().unwrap_or_else(|| Vec::with_capacity(FIRST_CAPACITY))
    }

    /// Takes a buffer back. Dropping one that never held anything costs nothing.
    pub fn give(&mut self, mut buffer: Vec<u8>) {
        if is_kept(buffer.capacity(), self.idle.len()) {
            buffer.clear();
            self.idle.push(buffer);
        }
    }
}
