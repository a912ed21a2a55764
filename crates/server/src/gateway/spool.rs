//! A request's body, kept until an application takes it: in memory while it is small, then in a file without
//! a name, which ends with it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bodies up to this size are kept in memory.
const IN_MEMORY: usize = 64 << 10;

/// A body: it is written, then read.
#[derive(Debug, Default)]
pub(super) struct Spool {
    memory: Vec<u8>,
    file: Option<File>,
    length: u64,
    read: u64,
}

impl Spool {
    /// Adds to the body. Files are made in that directory; if this made one, it is told.
    pub(super) fn write(&mut self, bytes: &[u8], directory: &Path) -> io::Result<Option<&File>> {
        self.length += bytes.len() as u64;
        if let Some(file) = &mut self.file {
            file.write_all(bytes)?;
            return Ok(None);
        }
        if self.memory.len() + bytes.len() <= IN_MEMORY {
            self.memory.extend_from_slice(bytes);
            return Ok(None);
        }
        let file = self.file.insert(tempfile::tempfile_in(directory)?);
        file.write_all(&std::mem::take(&mut self.memory))?;
        file.write_all(bytes)?;
        Ok(Some(file))
    }

    /// Bytes of it all.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Bytes that have not been read.
    pub(super) fn left(&self) -> u64 {
        self.length - self.read
    }

    /// Its file, if it is in one.
    pub(super) fn file(&self) -> Option<impl AsFd> {
        self.file.as_ref()
    }

    /// Has it read from its beginning again.
    pub(super) fn rewind(&mut self) {
        self.read = 0;
    }

    /// Puts the next bytes into the room, and says how many; 0 at the end.
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

    #[test]
    fn a_body_comes_back_from_memory_and_from_a_file() {
        let directory = tempfile::tempdir().unwrap();
        for (length, in_file) in
            [(0, false), (1, false), (IN_MEMORY, false), (IN_MEMORY + 1, true), (300_000, true)]
        {
            for step in [1000, 65_536, 299_999] {
                let body: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
                let mut spool = Spool::default();
                for piece in body.chunks(step) {
                    spool.write(piece, directory.path()).unwrap();
                }
                assert_eq!((spool.length(), spool.file().is_some()), (length as u64, in_file));
                let (mut back, mut room) = (Vec::new(), [0; 7777]);
                loop {
                    match spool.read(&mut room).unwrap() {
                        0 => break,
                        n => back.extend_from_slice(&room[..n]),
                    }
                }
                assert!(back == body);
            }
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "a file without a name");
    }

    #[test]
    fn where_no_file_can_be_made_it_is_told() {
        let mut spool = Spool::default();
        let error = spool.write(&vec![0; IN_MEMORY + 1], Path::new("/nonexistent")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
