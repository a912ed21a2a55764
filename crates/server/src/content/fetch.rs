//! Bringing parts of a file into memory, window by window, so that sending them need not wait, and
//! remembering for a moment which of them are.

use std::cell::Cell;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Bytes of a window. It is what a connection sends in a turn by default: small enough that a window which
/// was forgotten between the look at it and the sending does not stop the loop for long, and large enough
/// that a disk is read in long runs.
const WINDOW: u64 = 256 << 10;

/// A window of a file that is to be in memory.
#[derive(Debug)]
pub struct Fetch {
    pub(super) file: Arc<OwnedFd>,
    pub(super) device: u64,
    pub(super) inode: u64,
    /// Its number, from 0.
    pub window: u64,
}

impl Fetch {
    /// The window that a byte lies in.
    #[inline]
    pub fn window_of(offset: u64) -> u64 {
        offset / WINDOW
    }

    /// The first byte behind a window.
    #[inline]
    pub fn end_of(window: u64) -> u64 {
        (window + 1) * WINDOW
    }

    /// The name that all fetches of the same bytes have in common: device, inode and window.
    pub fn shared_name(&self) -> (u64, u64, u64) {
        (self.device, self.inode, self.window)
    }

    /// Whether a window of a file of that size can be sent without waiting for a disk, as far as can be told.
    pub fn is_needless(file: BorrowedFd<'_>, size: u64, window: u64) -> bool {
        let from = window * WINDOW;
        sys::residency::is_resident(file, from, WINDOW.min(size.saturating_sub(from)))
    }

    /// Reads the window, and has the kernel begin with the next, so that the disk is not idle while this one
    /// is sent. Failures are not told: whoever sends the bytes will meet them.
    pub fn run(&self) {
        let from = self.window * WINDOW;
        let _ = sys::residency::will_need(&*self.file, from, 2 * WINDOW);
        sys::residency::fetch(&*self.file, from, WINDOW);
    }
}

/// Windows of a file that have been found in memory lately, so that the kernel is not asked about a file each
/// time that it is sent: that takes 2 us for 100 KB.
///
/// What the kernel forgets within [`LATELY_MS`] after a look is the price: the loop waits for the disk then,
/// at most once for each window in that time. The kernel forgets first what was used longest ago, so it would
/// have to take up new pages for all of its memory in as short a time.
#[derive(Debug, Default)]
pub(super) struct Resident(Cell<Lately>);

#[derive(Clone, Copy, Debug, Default)]
struct Lately {
    /// A bit for each of the first windows.
    windows: u64,
    until_ms: u64,
}

/// For how long a look is believed.
const LATELY_MS: u64 = 100;

impl Resident {
    /// Takes note that a window was found in memory. Those from the 65th on, 16 MiB into the file, are not
    /// remembered.
    pub(super) fn note(&self, window: u64, now_ms: u64) {
        let Some(bit) = bit(window) else { return };
        let Lately { windows, until_ms } = self.0.get();
        self.0.set(if now_ms < until_ms {
            // An older look bounds the time of all.
            Lately { windows: windows | bit, until_ms }
        } else {
            Lately { windows: bit, until_ms: now_ms + LATELY_MS }
        });
    }

    /// Whether a window was found in memory lately.
    pub(super) fn has(&self, window: u64, now_ms: u64) -> bool {
        let Lately { windows, until_ms } = self.0.get();
        now_ms < until_ms && bit(window).is_some_and(|bit| windows & bit != 0)
    }
}

fn bit(window: u64) -> Option<u64> {
    1_u64.checked_shl(u32::try_from(window).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_resident_is_believed_for_a_moment() {
        let resident = Resident::default();
        assert!(!resident.has(0, 0));
        resident.note(0, 1_000);
        resident.note(63, 1_000 + LATELY_MS / 2);
        resident.note(64, 1_000);
        resident.note(u64::MAX, 1_000);
        let last = 1_000 + LATELY_MS - 1;
        let has = |now_ms| [0, 1, 63, 64, u64::MAX].map(|window| resident.has(window, now_ms));
        assert_eq!(has(last), [true, false, true, false, false]);
        assert_eq!(has(last + 1), [false; 5], "nothing is believed for longer, whatever was noted since");
        resident.note(1, last + 1);
        assert_eq!(has(last + 1), [false, true, false, false, false], "what was noted before is out of date");
    }
}
