//! Buffers a request's body until an application takes it, or the part of a reply that its client has not
//! taken. The bytes are in memory while there is room, then in a file without a name. The file ends with
//! the spool.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are read in the order in which they were written.
#[derive(Debug, Default)]
pub(super) struct Spool {
    memory: Vec<u8>,
    file: Option<File>,
    length: u64,
    read: u64,
}

impl Spool {
    /// Adds bytes. If the spool's bytes would exceed `room`, all go to a file in `directory`. Returns the
    /// file if this call created it. If writing fails, the new bytes are not added, and the earlier ones
    /// are still there.
    pub(super) fn write(&mut self, bytes: &[u8], room: usize, directory: &Path) -> io::Result<Option<&File>> {
        let is_new = self.file.is_none();
        if let Some(file) = &self.file {
            file.write_all_at(bytes, self.length)?;
        } else if self.memory.len() + bytes.len() <= room {
            self.memory.extend_from_slice(bytes);
        } else {
            let file = tempfile::tempfile_in(directory)?;
            file.write_all_at(&self.memory, 0)?;
            file.write_all_at(bytes, self.length)?;
            self.memory = Vec::new();
            self.file = Some(file);
        }
        self.length += bytes.len() as u64;
        Ok(self.file.as_ref().filter(|_| is_new))
    }

    /// Reserves memory for `count` more bytes at once. If there is none, memory is allocated as the bytes
    /// come.
    pub(super) fn expect(&mut self, count: usize) {
        let _ = self.memory.try_reserve_exact(count);
    }

    /// The reserved memory, behind what has been written, if there is no file. After bytes have been
    /// appended to it, call [`received`](Self::received).
    pub(super) fn room(&mut self) -> Option<&mut Vec<u8>> {
        self.file.is_none().then_some(&mut self.memory)
    }

    /// Counts `count` bytes that have been appended to the [room](Self::room).
    pub(super) fn received(&mut self, count: usize) {
        self.length += count as u64;
        debug_assert_eq!(self.length, self.memory.len() as u64);
    }

    /// Bytes of memory that the spool has.
    pub(super) fn in_memory(&self) -> usize {
        self.memory.capacity()
    }

    /// Empties the spool when nothing is left to be read, and gives the disk space back.
    pub(super) fn clear(&mut self) {
        self.memory.clear();
        if let Some(file) = &self.file {
            // This fails only for files that are not on a disk, and then everything is as before.
            let _ = file.set_len(0);
        }
        (self.length, self.read) = (0, 0);
    }

    /// Total bytes written.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Bytes that have not been read.
    pub(super) fn left(&self) -> u64 {
        self.length - self.read
    }

    /// The file, if the bytes are in one.
    pub(super) fn file(&self) -> Option<impl AsFd> {
        self.file.as_ref()
    }

    /// Makes the next read start from the beginning.
    pub(super) fn rewind(&mut self) {
        self.read = 0;
    }

    /// Whether all of it is in memory.
    pub(super) fn is_in_memory(&self) -> bool {
        self.file.is_none()
    }

    /// The next bytes of those in memory, at most `most`.
    pub(super) fn upcoming(&self, most: usize) -> &[u8] {
        let rest = self.memory.get(self.read as usize..).unwrap_or_default();
        &rest[..most.min(rest.len())]
    }

    /// Skips `count` bytes, as if they had been read.
    pub(super) fn skip(&mut self, count: usize) {
        self.read = (self.read + count as u64).min(self.length);
    }

    /// Reads the next bytes into `room`, and returns how many. 0: the end.
    pub(super) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.left()).unwrap_or(usize::MAX);
        let count = left.min(room.len());
        let room = &mut room[..count];
        match &self.file {
            Some(file) => file.read_exact_at(room, self.read)?,
            None => room.copy_from_slice(&self.memory[self.read as usize..][..count]),
        }
        self.read += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 64 << 10;

    fn read_all(spool: &mut Spool) -> Vec<u8> {
        let (mut back, mut room) = (Vec::new(), [0; 7777]);
        loop {
            match spool.read(&mut room).unwrap() {
                0 => return back,
                n => back.extend_from_slice(&room[..n]),
            }
        }
    }

    #[test]
    fn a_body_comes_back_from_memory_and_from_a_file() {
        let directory = tempfile::tempdir().unwrap();
        for (length, in_file) in [(0, false), (1, false), (ROOM, false), (ROOM + 1, true), (300_000, true)] {
            for step in [1000, 65_536, 299_999] {
                let body: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
                let mut spool = Spool::default();
                // Twice, as for a reply whose client takes bytes in between.
                for _ in 0..2 {
                    for piece in body.chunks(step) {
                        spool.write(piece, ROOM, directory.path()).unwrap();
                    }
                    assert_eq!((spool.length(), spool.file().is_some()), (length as u64, in_file));
                    assert_eq!(spool.in_memory() >= length, !in_file || length == 0);
                    assert!(read_all(&mut spool) == body);
                    spool.rewind();
                    assert!(read_all(&mut spool) == body);
                    spool.clear();
                }
            }
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "a file without a name");
    }

    #[test]
    fn where_no_file_can_be_made_it_is_told_and_nothing_is_lost() {
        let mut spool = Spool::default();
        spool.write(b"here", ROOM, Path::new("/nonexistent")).unwrap();
        let error = spool.write(&vec![0; ROOM], ROOM, Path::new("/nonexistent")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!((read_all(&mut spool), spool.length()), (b"here".to_vec(), 4));
    }
}
