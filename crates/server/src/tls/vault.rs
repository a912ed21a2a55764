//! Memory that all processes of the server share for TLS: the certificates with their keys, and the keys of
//! tickets. It is a file in memory, so that the program after an upgrade has it, too.
//!
//! One process writes certificates: the keeper, if there is one. It writes a whole new set beside the one
//! that is in use, and then counts the generation up. Workers compare the generation at each handshake.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

use sys::memory_file::MemoryFile;
use sys::shared::{self, Shared};

use super::tickets::Keys;
use crate::config::PairFiles;

/// The layout of the memory. A program that knows another one does not use it.
const LAYOUT: u32 = 2;
/// Room for a set of certificates: some 8,000 with their chains. It takes memory when it is used.
const ROOM: usize = 64 << 20;

sys::shareable! {
    /// The layout of the memory.
    struct Board {
        layout: AtomicU32,
        tickets: Keys,
        /// Counts sets. The set is in the half that this number is odd or even for.
        generation: AtomicU64,
        lengths: [AtomicU64; 2],
        halves: [[AtomicU8; ROOM]; 2],
    }
}

/// The memory.
pub struct Vault {
    file: MemoryFile,
    board: Shared<Board>,
}

/// A certificate and its key, as their files have them.
#[derive(Clone, PartialEq, Eq)]
pub struct Texts {
    /// The files. None is set for a certificate that comes from no file.
    pub files: PairFiles,
    /// The chain in PEM.
    pub chain: Vec<u8>,
    /// The key in PEM.
    pub key: Vec<u8>,
}

impl Vault {
    /// Without certificates, and without a key for tickets.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub fn new() -> io::Result<Arc<Self>> {
        let file = MemoryFile::new("sluice-tls", size_of::<Board>() as u64)?;
        let board = Shared::<Board>::of_file(&file)?;
        board.layout.store(LAYOUT, Ordering::Relaxed);
        Ok(Arc::new(Self { file, board }))
    }

    /// The memory of the program before.
    ///
    /// # Errors
    ///
    /// It is no such memory, or has another layout.
    pub fn adopt(file: OwnedFd) -> io::Result<Arc<Self>> {
        let file = MemoryFile::adopt(file)?;
        let board = Shared::<Board>::of_file(&file)?;
        if board.layout.load(Ordering::Relaxed) != LAYOUT {
            return Err(io::Error::other("memory for TLS that another program has laid out"));
        }
        Ok(Arc::new(Self { file, board }))
    }

    /// The keys of tickets.
    pub fn tickets(&self) -> &Keys {
        &self.board.tickets
    }

    /// The number of the set that is in use.
    pub fn generation(&self) -> u64 {
        self.board.generation.load(Ordering::Acquire)
    }

    /// Puts a set of certificates to use. One process may do this at a time.
    ///
    /// # Errors
    ///
    /// There is no room for so many.
    pub fn publish(&self, all: &[Texts]) -> io::Result<()> {
        let bytes: Vec<u8> = all.iter().flat_map(Texts::encoded).collect();
        let next = self.generation().wrapping_add(1);
        let half = (next % 2) as usize;
        let Some(place) = self.board.halves[half].get(..bytes.len()) else {
            let what = format!("{} bytes of certificates; at most {ROOM} are possible", bytes.len());
            return Err(io::Error::other(what));
        };
        // A reader that sees some of these bytes sees that the set before is in use.
        fence(Ordering::Release);
        shared::copy_in(place, &bytes);
        self.board.lengths[half].store(bytes.len() as u64, Ordering::Relaxed);
        self.board.generation.store(next, Ordering::Release);
        Ok(())
    }

    /// The certificates in use, and the number of the set.
    pub fn contents(&self) -> (u64, Vec<Texts>) {
        loop {
            let generation = self.generation();
            let half = (generation % 2) as usize;
            let length = self.board.lengths[half].load(Ordering::Relaxed) as usize;
            let mut bytes = Vec::new();
            shared::copy_out(&self.board.halves[half][..length.min(ROOM)], &mut bytes);
            fence(Ordering::Acquire);
            // The set after the next one is written over this one.
            if self.generation() == generation {
                return (generation, Texts::decoded(&bytes));
            }
        }
    }
}

impl AsFd for Vault {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vault").field("generation", &self.generation()).finish_non_exhaustive()
    }
}

impl Texts {
    /// Four texts, each after its length.
    fn encoded(&self) -> Vec<u8> {
        use std::os::unix::ffi::OsStrExt as _;
        let name = |path: &Option<PathBuf>| -> Vec<u8> {
            path.as_ref().map_or_else(Vec::new, |path| path.as_os_str().as_bytes().to_vec())
        };
        let (certificate, key) = (name(&self.files.certificate), name(&self.files.key));
        let mut bytes = Vec::new();
        for text in [&certificate, &key, &self.chain, &self.key] {
            bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
            bytes.extend_from_slice(text);
        }
        bytes
    }

    /// All that are whole.
    fn decoded(mut bytes: &[u8]) -> Vec<Self> {
        use std::os::unix::ffi::OsStringExt as _;
        let mut next = || {
            let (length, rest) = bytes.split_first_chunk::<4>()?;
            let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            bytes = rest;
            Some(text.to_vec())
        };
        let path = |name: Vec<u8>| (!name.is_empty()).then(|| std::ffi::OsString::from_vec(name).into());
        let mut all = Vec::new();
        while let (Some(certificate), Some(key), Some(chain), Some(text)) = (next(), next(), next(), next()) {
            let files = PairFiles { certificate: path(certificate), key: path(key) };
            all.push(Self { files, chain, key: text });
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(number: u8) -> Texts {
        let files = PairFiles {
            certificate: Some(format!("/etc/{number}.pem").into()),
            key: (number > 0).then(|| "/etc/key".into()),
        };
        Texts { files, chain: vec![number; 5000], key: vec![number; usize::from(number)] }
    }

    #[test]
    fn what_is_put_in_comes_out_in_all_processes_that_have_it() {
        let vault = Vault::new().unwrap();
        assert_eq!(vault.contents().1.len(), 0);
        let heir = Vault::adopt(vault.as_fd().try_clone_to_owned().unwrap()).unwrap();
        for count in [3_u8, 1, 0, 2] {
            let all: Vec<_> = (0..count).map(texts).collect();
            let before = vault.generation();
            vault.publish(&all).unwrap();
            let (generation, read) = heir.contents();
            assert!(generation == before + 1 && read == all, "{count}");
        }
    }

    #[test]
    fn something_else_is_not_adopted() {
        let small = MemoryFile::new("small", 4096).unwrap();
        assert!(Vault::adopt(small.as_fd().try_clone_to_owned().unwrap()).is_err());
        let other = MemoryFile::new("other", size_of::<Board>() as u64).unwrap();
        assert!(Vault::adopt(other.as_fd().try_clone_to_owned().unwrap()).is_err());
        assert!(Vault::adopt(tempfile::tempfile().unwrap().into()).is_err());
    }
}
