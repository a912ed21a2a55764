//! Waiting for events with select(2): one bit per descriptor number and direction.
//!
//! The limit of 1,024 descriptors is that of libc's `fd_set`, not the kernel's. The sets here grow with
//! the highest descriptor number, and go directly to the system call (pselect6, whose timeout does not
//! depend on the word size). Each wait copies the sets, because the call overwrites them with its answer.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::clock::timespec;
use crate::event::{self, Events, Interest};

/// A set of descriptors for select(2).
///
/// A descriptor must be removed before it is closed; otherwise `wait` fails with `EBADF`.
#[derive(Debug, Default)]
pub struct SelectSet {
    /// One bit for each descriptor in the set, including those without interest.
    present: BitSet,
    readable: BitSet,
    writable: BitSet,
    /// The tokens, by descriptor number.
    tokens: Vec<u64>,
    answer: Answer,
}

/// The sets that a wait gives to the kernel. The kernel replaces them by what is ready.
#[derive(Debug, Default)]
struct Answer {
    readable: BitSet,
    writable: BitSet,
}

impl SelectSet {
    /// Bytes of memory for each descriptor: a token, and a bit in each of five sets, rounded up.
    pub const BYTES_EACH: usize = size_of::<u64>() + 1;

    /// A new, empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Watches `fd`. Its events carry `token`. `EEXIST` if it is already watched.
    pub fn add(&mut self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let number = index(fd);
        if self.present.contains(number) {
            return Err(Errno::EXIST.into());
        }
        self.present.cover(number);
        self.readable.cover(number);
        self.writable.cover(number);
        if number >= self.tokens.len() {
            self.tokens.resize(number + 1, 0);
        }
        self.present.set(number, true);
        self.watch(number, token, interest);
        Ok(())
    }

    /// Changes what is watched. `ENOENT` if it is not watched.
    #[inline]
    pub fn modify(&mut self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let number = index(fd);
        if !self.present.contains(number) {
            return Err(Errno::NOENT.into());
        }
        self.watch(number, token, interest);
        Ok(())
    }

    /// Stops watching. `ENOENT` if it is not watched.
    #[inline]
    pub fn remove(&mut self, fd: impl AsFd) -> io::Result<()> {
        let number = index(fd);
        if !self.present.contains(number) {
            return Err(Errno::NOENT.into());
        }
        self.present.set(number, false);
        self.watch(number, 0, Interest::NONE);
        Ok(())
    }

    /// Waits until something happens or `timeout_ms` has passed (`None`: no limit; 0: does not wait).
    /// Returns the number of events (one per descriptor), 0 after a timeout or a signal. select(2).
    pub fn wait(&mut self, events: &mut Events, timeout_ms: Option<u32>) -> io::Result<usize> {
        events.clear();
        // Both sets cover the same numbers; the words above the highest descriptor need not be copied or
        // scanned.
        let words = self.readable.words_in_use().max(self.writable.words_in_use());
        self.answer.readable.copy_from(&self.readable, words);
        self.answer.writable.copy_from(&self.writable, words);
        let bits = pselect(&mut self.answer.readable.words, &mut self.answer.writable.words, timeout_ms)?;

        // A descriptor that is ready both ways counts twice in the answer.
        events.prepare(bits);
        if bits > 0 {
            self.collect(events);
        }
        Ok(events.len())
    }

    #[inline]
    fn watch(&mut self, number: usize, token: u64, interest: Interest) {
        self.readable.set(number, interest.readable);
        self.writable.set(number, interest.writable);
        self.tokens[number] = token;
    }

    fn collect(&self, events: &mut Events) {
        let words = self.answer.readable.words.iter().zip(&self.answer.writable.words);
        for (place, (&readable, &writable)) in words.enumerate() {
            let mut either = readable | writable;
            while either != 0 {
                let bit = either & either.wrapping_neg();
                either ^= bit;
                let number = place * WORD_BITS + bit.trailing_zeros() as usize;
                let mut flags = EventFlags::empty();
                flags.set(EventFlags::IN, readable & bit != 0);
                flags.set(EventFlags::OUT, writable & bit != 0);
                events.push(self.tokens[number], flags);
            }
        }
    }
}

/// The system call. It replaces both sets by what is ready, and returns the number of bits set.
fn pselect(readable: &mut [usize], writable: &mut [usize], timeout_ms: Option<u32>) -> io::Result<usize> {
    debug_assert_eq!(readable.len(), writable.len());
    let mut timeout = timeout_ms.map(|ms| timespec(Duration::from_millis(ms.into())));
    let timeout = timeout.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
    // SAFETY: the kernel reads and writes as many bits of each set as its first argument says, which is
    // their length; the timeout is null or lives until the end of this function.
    let count = unsafe {
        libc::syscall(
            libc::SYS_pselect6,
            (readable.len() * WORD_BITS) as libc::c_int,
            readable.as_mut_ptr(),
            writable.as_mut_ptr(),
            ptr::null_mut::<usize>(),
            timeout,
            ptr::null::<u8>(),
        )
    };
    event::count(count)
}

fn index(fd: impl AsFd) -> usize {
    let number: RawFd = fd.as_fd().as_raw_fd();
    number as usize
}

/// The kernel's sets consist of words of the size of `unsigned long`, the lowest number in the lowest bit.
const WORD_BITS: usize = usize::BITS as usize;

#[derive(Debug, Default)]
struct BitSet {
    words: Vec<usize>,
}

impl BitSet {
    fn cover(&mut self, number: usize) {
        let words = number / WORD_BITS + 1;
        if words > self.words.len() {
            self.words.resize(words, 0);
        }
    }

    fn contains(&self, number: usize) -> bool {
        self.words.get(number / WORD_BITS).is_some_and(|word| word >> (number % WORD_BITS) & 1 == 1)
    }

    /// Sets a bit. The number must be within the set.
    fn set(&mut self, number: usize, value: bool) {
        let word = &mut self.words[number / WORD_BITS];
        let bit = 1 << (number % WORD_BITS);
        *word = if value { *word | bit } else { *word & !bit };
    }

    fn words_in_use(&self) -> usize {
        self.words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1)
    }

    fn copy_from(&mut self, other: &Self, words: usize) {
        self.words.clear();
        self.words.extend_from_slice(&other.words[..words]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::event::tests::mechanism_tests!(SelectSet::new());

    #[test]
    fn looks_no_further_than_the_highest_descriptor_of_interest() {
        let mut set = SelectSet::new();
        let (near, _far) = crate::event::tests::pair();
        let high = crate::event::tests::under_high_number(&near);
        set.add(&near, 1, Interest::READABLE).unwrap();
        set.add(&high, 2, Interest::READABLE).unwrap();
        set.modify(&high, 2, Interest::NONE).unwrap();
        assert_eq!(set.readable.words_in_use(), index(&near) / WORD_BITS + 1);
        set.modify(&high, 2, Interest::WRITABLE).unwrap();
        assert_eq!(set.wait(&mut Events::default(), Some(1_000)).unwrap(), 1);
    }

    #[test]
    fn fails_on_a_descriptor_that_is_not_open() {
        let mut set = SelectSet::new();
        let (near, _far) = crate::event::tests::pair();
        let high = crate::event::tests::under_high_number(&near);
        set.add(&high, 2, Interest::READABLE).unwrap();
        drop(high);
        // Another test may have opened this number. The highest possible word belongs to no descriptor.
        let last = set.readable.words.len() - 1;
        set.readable.words[last] |= 1 << (WORD_BITS - 1);
        set.writable.words[last] |= 1 << (WORD_BITS - 1);
        let error = set.wait(&mut Events::default(), Some(0)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }
}
