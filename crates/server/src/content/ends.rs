//! Tells a file that has only grown, as a log does, from one that was rewritten and became longer.
//!
//! When something is appended to a log while it is sent, the promised bytes are still there. But neither
//! times nor size say which bytes were written. So the server remembers the beginning and the end of a
//! file when it opens the file. If a file has grown meanwhile and still has both, the server assumes that
//! it has done nothing else. An updated header, as databases and recordings have, shows in the beginning.
//! Rewritten content shows in the end.
//!
//! No worker waits for a disk for this. Bytes written recently are in memory, and so is the end of a file
//! that is appended to. For the same reason the server remembers nothing of a file that was not changed
//! for a while. Some file systems cannot say what is in memory; they are simply read. These are tmpfs,
//! where everything is in memory, and network file systems, where opening the file has waited as well.

use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use sys::file::FileStat;

/// Bytes that are remembered at each end, as their hash.
const LEN: usize = 1 << 10;

/// How long after a change a file counts as one that may be appended to, in seconds.
const RECENT_SECS: u64 = 60 * 60;

/// How often to try again with a file that is being written to.
const ATTEMPTS: u32 = 10;

/// How long to wait for a file that has changed to become longer.
const MOMENT: Duration = Duration::from_millis(1);

/// The hashes of the first and the last bytes of a file; 0: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Ends {
    /// The ends of a file that has just been opened and was `stat`, if it was written to recently. The
    /// file may change meanwhile: then `stat` is updated, and the ends belong to the new `stat`.
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

    /// Whether a file that had these ends, and has changed since, has only become longer.
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

/// Whether a file that has changed is longer than it was. The kernel sets a file's time before it appends
/// to the file. So during an append, for some microseconds, the time is new and the size old. This waits
/// for that, but only for a moment.
fn is_longer(file: impl AsFd, than: u64) -> bool {
    let began = Instant::now();
    loop {
        match sys::file::stat(&file) {
            Ok(now) if now.size == than && began.elapsed() < MOMENT => std::thread::yield_now(),
            now => return now.is_ok_and(|now| now.size > than),
        }
    }
}
