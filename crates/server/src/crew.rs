//! Who of the workers that accept from the same listeners has nothing to do.
//!
//! A worker with one client at a time asks before it goes on waiting for a client that is slow: if everybody
//! is taken and others wait to be accepted, the slow one gives way. Each worker writes a word of its own, so
//! that one which dies says something wrong only until it has been started again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use sys::shared::Shared;

/// Workers, by their numbers.
#[derive(Clone, Debug)]
pub struct Crew {
    free: Arc<Shared<[AtomicU8; Self::MOST]>>,
    size: usize,
}

impl Crew {
    /// The largest crew.
    pub const MOST: usize = 1024;

    /// A crew of `size` workers, all of them busy; processes forked later share it.
    ///
    /// # Errors
    ///
    /// There is no memory to be had.
    pub fn new(size: usize) -> io::Result<Self> {
        Ok(Self { free: Arc::new(Shared::new()?), size: size.min(Self::MOST) })
    }

    /// Says of a worker whether it waits for a client to come.
    pub fn set_free(&self, number: usize, free: bool) {
        if let Some(word) = self.free.get(number) {
            word.store(free.into(), Ordering::Relaxed);
        }
    }

    /// Whether somebody waits for a client to come.
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
