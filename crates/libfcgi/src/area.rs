//! The memory that a web server shares for replies: tracks which chunks belong to the application.
//!
//! The application takes a chunk and fills it. From then on the chunk belongs to the web server, until the
//! web server gives it back. The library checks the chunks that the web server frees against its own state.

use std::io;
use std::os::fd::AsFd;

use fastcgi::transport;
use sys::memory_file::{Access, Mapping};

/// An area, mapped.
#[derive(Debug)]
pub(crate) struct Area {
    memory: Mapping,
    chunk_size: usize,
    /// The chunks that belong to the application, as a list and by number. The chunk given back last is used
    /// first, because it may still be in a processor's cache.
    free: Vec<u16>,
    is_free: Vec<bool>,
}

/// A chunk that is being filled.
#[derive(Debug)]
pub(crate) struct Chunk {
    number: u16,
    filled: usize,
}

impl Area {
    /// Maps a memory file with the announced size.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: the file does not have that size, or could shrink, or has no chunks. Any other error:
    /// it cannot be mapped.
    pub(crate) fn new(file: impl AsFd, area: transport::Area) -> io::Result<Self> {
        let memory = Mapping::new(file, area.size(), Access::Write)?;
        // The size is not zero, so neither of its factors is. It fits into the address space, so they do.
        let chunk_size = area.chunk_size as usize;
        let free = (0..area.chunks).rev().collect();
        Ok(Self { memory, chunk_size, free, is_free: vec![true; area.chunks.into()] })
    }

    /// Takes a free chunk, if there is one.
    pub(crate) fn take(&mut self) -> Option<Chunk> {
        let number = self.free.pop()?;
        self.is_free[usize::from(number)] = false;
        Some(Chunk { number, filled: 0 })
    }

    /// Marks a chunk as free, which the web server has given back.
    ///
    /// # Errors
    ///
    /// The chunk was free already, or no chunk has that number.
    pub(crate) fn give_back(&mut self, number: u16) -> io::Result<()> {
        match self.is_free.get_mut(usize::from(number)) {
            Some(is_free @ false) => {
                *is_free = true;
                self.free.push(number);
                Ok(())
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "a chunk is freed that was not used")),
        }
    }

    /// Appends as many bytes to the chunk as fit, and returns their number.
    pub(crate) fn fill(&self, chunk: &mut Chunk, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.chunk_size - chunk.filled);
        let from = usize::from(chunk.number) * self.chunk_size + chunk.filled;
        self.memory.write(from, &bytes[..count]);
        chunk.filled += count;
        count
    }

    /// Whether a chunk is full.
    pub(crate) fn is_full(&self, chunk: &Chunk) -> bool {
        chunk.filled == self.chunk_size
    }
}

impl Chunk {
    /// The announcement of this chunk to the web server.
    pub(crate) fn filled(&self) -> transport::Filled {
        transport::Filled { chunk: self.number, length: self.filled as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::memory_file::MemoryFile;

    #[test]
    fn chunks_are_taken_filled_and_given_back() {
        let file = MemoryFile::new("test", 8_192).unwrap();
        let theirs = Mapping::new(&file, 8_192, Access::Read).unwrap();
        let mut area = Area::new(&file, transport::Area { chunks: 2, chunk_size: 4_096 }).unwrap();
        assert!(area.give_back(0).is_err(), "it is free");
        assert!(area.give_back(2).is_err(), "there is none");
        let mut chunk = area.take().unwrap();
        assert_eq!(area.fill(&mut chunk, &[7; 4_000]), 4_000);
        assert!(!area.is_full(&chunk));
        assert_eq!(area.fill(&mut chunk, &[8; 4_000]), 96);
        assert!(area.is_full(&chunk));
        assert_eq!(chunk.filled(), transport::Filled { chunk: 0, length: 4_096 });
        let mut bytes = [0; 4_097];
        theirs.read(0, &mut bytes);
        assert!(bytes[..4_000] == [7; 4_000] && bytes[4_000..4_096] == [8; 96] && bytes[4_096] == 0);
        assert!(area.take().is_some() && area.take().is_none());
        area.give_back(1).unwrap();
        area.give_back(0).unwrap();
        assert!(area.give_back(0).is_err());
        assert!(area.take().is_some() && area.take().is_some() && area.take().is_none());
    }

    #[test]
    fn an_area_without_chunks_is_none() {
        let file = MemoryFile::new("test", 4_096).unwrap();
        for (chunks, chunk_size) in [(0, 4_096), (1, 0), (2, 4_096), (u16::MAX, u32::MAX)] {
            let error = Area::new(&file, transport::Area { chunks, chunk_size }).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
