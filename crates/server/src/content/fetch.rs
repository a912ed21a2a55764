//! Brings parts of a file into memory, window by window, so that sending them need not wait. Remembers
//! for a moment which windows are in memory.

use std::cell::Cell;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Bytes of a window, which is what a connection sends in a turn by default. It is small enough that the
/// loop does not block for long if the kernel evicts a window between the check and the sending. It is
/// large enough that the disk is read in long runs.
const WINDOW: u64 = 256 << 10;

const _: () = assert!(WINDOW <= sys::ring::Ring::MOST_LOADED as u64, "a ring loads a window at once");

/// A window of a file that should be in memory.
#[derive(Debug)]
pub struct Fetch {
    pub(super) file: Arc<OwnedFd>,
    pub(super) device: u64,
    pub(super) inode: u64,
    /// Its number, starting at 0.
    pub window: u64,
}

impl Fetch {
    /// The window that contains a byte.
    #[inline]
    pub fn window_of(offset: u64) -> u64 {
        offset / WINDOW
    }

    /// The first byte after a window.
    #[inline]
    pub fn end_of(window: u64) -> u64 {
        (window + 1) * WINDOW
    }

    /// The name that all fetches of the same bytes have in common: device, inode and window.
    pub fn shared_name(&self) -> (u64, u64, u64) {
        (self.device, self.inode, self.window)
    }

    /// Whether a window of a file of that size can be sent without waiting for a disk, as far as the
    /// kernel can say.
    pub fn is_needless(file: BorrowedFd<'_>, size: u64, window: u64) -> bool {
        let from = window * WINDOW;
        sys::residency::is_resident(file, from, WINDOW.min(size.saturating_sub(from)))
    }

    /// The file, and the bytes of the window.
    pub fn into_range(self) -> (Arc<OwnedFd>, Range<u64>) {
        let from = self.window * WINDOW;
        (self.file, from..from + WINDOW)
    }

    /// Reads the window, and makes the kernel begin with the next, so that the disk is not idle while
    /// this one is sent. Errors are not reported, as the sending will fail with the same error.
    pub fn run(&self) {
        let from = self.window * WINDOW;
        let _ = sys::residency::will_need(&*self.file, from, 2 * WINDOW);
        sys::residency::fetch(&*self.file, from, WINDOW);
    }
}

/// Windows of a file that were recently found in memory. So the kernel need not be asked about a file
/// each time that the file is sent; asking takes 2 us for 100 KB.
///
/// The price is a window that the kernel evicts within [`LATELY_MS`] after the check. The loop then waits
/// for the disk, at most once for each window in that time. The kernel evicts what was used longest ago.
/// So it would have to fill all of its memory with new pages in that time.
#[derive(Debug, Default)]
pub(super) struct Resident(Cell<Lately>);

#[derive(Clone, Copy, Debug, Default)]
struct Lately {
    /// A bit for each of the first windows.
    windows: u64,
    until_ms: u64,
}

/// How long the result of a check is trusted.
const LATELY_MS: u64 = 100;

impl Resident {
    /// Records that a window was found in memory. Windows from the 65th on, 16 MiB into the file, are not
    /// recorded.
    pub(super) fn note(&self, window: u64, now_ms: u64) {
        let Some(bit) = bit(window) else { return };
        let Lately { windows, until_ms } = self.0.get();
        self.0.set(if now_ms < until_ms {
            // The oldest check bounds the time for all windows.
            Lately { windows: windows | bit, until_ms }
        } else {
            Lately { windows: bit, until_ms: now_ms + LATELY_MS }
        });
    }

    /// Whether a window was recently found in memory.
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
