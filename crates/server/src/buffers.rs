//! Byte buffers that are lent and given back, so that a request in steady state allocates nothing.

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

impl Buffers {
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
