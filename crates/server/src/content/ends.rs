//! Telling a file that has only grown, as a log does, from one that was written anew and became longer.
//!
//! What was promised of a log is still there when something is appended while it is sent. But neither times
//! nor size say which bytes were written. So what a file begins and ends with is remembered when it is
//! opened, and a file that has grown meanwhile is believed to have done nothing else if it still has both. A
//! header that is brought up to date, as databases and recordings have one, shows in the first; whatever is
//! written anew shows in the last.
//!
//! Nobody waits for a disk for this: what was written lately is in memory, and so is the end of a file that
//! is appended to. For the same reason nothing is remembered of a file that has been left alone for a while.
//! A file system that cannot tell what is in memory is read as it is: tmpfs, where all is, and those of
//! networks, on which opening the file has waited as well.

use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use sys::file::FileStat;

/// Bytes that are remembered at either end, by their hash.
const LEN: usize = 1 << 10;

/// For how long a file counts as one that may be appended to, in seconds.
const RECENT_SECS: u64 = 60 * 60;

/// How often a file that is written to just now is looked at again.
const ATTEMPTS: u32 = 10;

/// For how long a file that has changed is looked at, until it is longer.
const MOMENT: Duration = Duration::from_millis(1);

/// The hashes of the first and the last bytes of a file; 0: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Ends {
    /// Those of a file that has just been opened and was `stat`, if it was written to lately. That may go on
    /// meanwhile: they are of what `stat` is then.
    pub(super) fn of(file: impl AsFd, stat: &mut FileStat, unix_secs: u64) -> io::Result<Self> {
        let since = i64::try_from(unix_secs).unwrap_or(i64::MAX).saturating_sub(stat.mtime.secs);
        if since > RECENT_SECS as i64 {
            return Ok(Self::default());
        }
        for _ in 0..ATTEMPTS {
            let ends = Self::read(&file, stat.size);
            let before = std::mem::replace(stat, sys::file::stat(&file)?);
            if before == *stat {
                return Ok(ends);
            }
        }
        Ok(Self::default())
    }

    /// Whether a file that had them, and has changed since, is longer now and nothing else.
    pub(super) fn has_only_grown(self, file: impl AsFd, before: &FileStat) -> bool {
        if self.last == 0 || !is_longer(&file, before.size) {
            return false;
        }
        let now = Self::read(file, before.size);
        let has_first = self.first == 0 || now.first == 0 || self.first == now.first;
        self.last == now.last && has_first
    }

    fn read(file: impl AsFd, size: u64) -> Self {
        let mut buffer = [0; LEN];
        let bytes = &mut buffer[..LEN.min(size as usize)];
        let mut hash_at = |at| match sys::residency::read_at_unless_absent(&file, bytes, at) {
            Ok(n) if n == bytes.len() => {
                let mut hasher = DefaultHasher::new();
                hasher.write(bytes);
                (hasher.finish() as u32).max(1)
            }
            _ => 0,
        };
        Self { first: hash_at(0), last: hash_at(size.saturating_sub(LEN as u64)) }
    }
}

/// Whether a file that has changed is longer than it was. The kernel stamps a file before it appends to it,
/// so that one in the midst of that has another time and the same size, which takes some microseconds. Nobody
/// waits longer for it than a moment.
fn is_longer(file: impl AsFd, than: u64) -> bool {
    let began = Instant::now();
    loop {
        match sys::file::stat(&file) {
            Ok(now) if now.size == than && began.elapsed() < MOMENT => std::thread::yield_now(),
            now => return now.is_ok_and(|now| now.size > than),
        }
    }
}
