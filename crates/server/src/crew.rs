//! Which of the workers that accept from the same listeners are free.
//!
//! A worker with one client at a time checks this before it continues to wait for a slow client. If no
//! worker is free and others wait to be accepted, the slow client is closed. Each worker writes its own
//! word. So the word of a worker that dies is wrong only until the worker has been started again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use sys::shared::Shared;

/// The workers of a crew, by their numbers.
#[derive(Clone, Debug)]
pub struct Crew {
    free: Arc<Shared<[AtomicU8; Self::MOST]>>,
    size: usize,
}

impl Crew {
    /// The largest crew.
    pub const MOST: usize = 1024;

    /// A crew of `size` workers, all of them busy. Processes that are forked later share it.
    ///
    /// # Errors
    ///
    /// There is no memory left.
    pub fn new(size: usize) -> io::Result<Self> {
        Ok(Self { free: Arc::new(Shared::new()?), size: size.min(Self::MOST) })
    }

    /// Sets whether a worker waits for a client to come.
    pub fn set_free(&self, number: usize, free: bool) {
        if let Some(word) = self.free.get(number) {
            word.store(free.into(), Ordering::Relaxed);
        }
    }

    /// Whether a worker waits for a client to come.
    pub fn has_free(&self) -> bool {
        self.free[..self.size].iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_is_free_is_enough() {
        let crew = Crew::new(3).unwrap();
        let other = crew.clone();
        assert!(!crew.has_free());
        other.set_free(2, true);
        other.set_free(1, true);
        other.set_free(1, false);
        assert!(crew.has_free());
        other.set_free(2, false);
        assert!(!crew.has_free());
        other.set_free(Crew::MOST, true);
        assert!(!crew.has_free());
    }
}
