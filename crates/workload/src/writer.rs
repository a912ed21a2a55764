//! Writing a file set: gigabytes that can be interrupted, and gone on with.
//!
//! Each file gets bytes that follow from the seed and its path, so that any one of them can be checked alone.
//! It is written under another name and then renamed: a file that is there with its length is whole, and is
//! left as it is.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use sha2::{Digest as _, Sha256};

use crate::dynamic::PLACE;
use crate::file::{FileSpec, Holds};
use crate::manifest::FileSetManifest;

/// A set could not be written, or is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A file can't be written.
    #[error("cannot write {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Somebody asked to stop. What has been written stays.
    #[error("interrupted; the same command goes on where it stopped")]
    Interrupted,
    /// There is another set in this directory.
    #[error("{0} holds another file set; choose another directory")]
    Another(PathBuf),
}

/// How far writing is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Files that are there.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that were there before.
    pub kept: u64,
}

/// Writes the files of a set that are not there yet, then its manifest. `go_on` is told how far it is after
/// each file and may end it.
///
/// # Errors
///
/// A file can't be written; `go_on` said no; the directory holds another set.
pub fn write(
    root: &Path,
    manifest: &FileSetManifest,
    mut go_on: impl FnMut(Written) -> bool,
) -> Result<Written, WriteError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| WriteError::File { path, source }
    };
    fs::create_dir_all(root).map_err(failed(root))?;
    // The manifest of a set that is not complete has another name.
    let begun = root.join(".sluicelab.begun");
    let known = fs::read_to_string(&begun)
        .ok()
        .or_else(|| FileSetManifest::read(root).ok().map(|known| known.sha256));
    if known.is_some_and(|known| known.trim() != manifest.sha256) {
        return Err(WriteError::Another(root.to_owned()));
    }
    fs::write(&begun, &manifest.sha256).map_err(failed(&begun))?;

    let mut written = Written::default();
    let mut buffer = vec![0; 256 << 10];
    let mut directory = PathBuf::new();
    for file in manifest.set.files() {
        if !go_on(written) {
            return Err(WriteError::Interrupted);
        }
        let path = root.join(&file.path);
        let parent = path.parent().unwrap_or(root);
        if parent != directory {
            fs::create_dir_all(parent).map_err(failed(parent))?;
            parent.clone_into(&mut directory);
        }
        if fs::metadata(&path).is_ok_and(|found| found.is_file() && found.len() == file.bytes) {
            written.kept += file.bytes;
        } else {
            write_file(&path, &file, manifest.seed, &mut buffer).map_err(failed(&path))?;
        }
        written.files += 1;
        written.bytes += file.bytes;
    }
    manifest.write(root).map_err(failed(root))?;
    fs::remove_file(&begun).map_err(failed(&begun))?;
    go_on(written);
    Ok(written)
}

/// Compares the files of a set with what they should be, byte by byte, and gives the paths of those that
/// differ.
pub fn compare(root: &Path, manifest: &FileSetManifest) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in manifest.set.files() {
        let mut expected = vec![0; file.bytes as usize];
        Content::new(&file, manifest.seed).fill(&mut expected);
        if fs::read(root.join(&file.path)).ok().as_deref() != Some(&expected) {
            wrong.push(file.path);
        }
    }
    wrong
}

fn write_file(path: &Path, file: &FileSpec, seed: u64, buffer: &mut [u8]) -> io::Result<()> {
    let unfinished = path.with_extension("part");
    let mut to = File::create(&unfinished)?;
    let mut content = Content::new(file, seed);
    let mut left = file.bytes as usize;
    while left > 0 {
        let piece = left.min(buffer.len());
        content.fill(&mut buffer[..piece]);
        to.write_all(&buffer[..piece])?;
        left -= piece;
    }
    drop(to);
    fs::rename(unfinished, path)
}

/// The bytes of a file: lines of letters and digits, so that a browser shows them, with what stands among
/// them; or a text.
struct Content {
    random: Pcg64Mcg,
    holds: Holds,
    /// Bytes so far.
    at: usize,
}

/// Bytes from one place for an advertisement to the next.
const BETWEEN_PLACES: usize = 4 << 10;

impl Content {
    fn new(file: &FileSpec, seed: u64) -> Self {
        let hash = Sha256::digest(format!("{seed} {}", file.path));
        let mut state = [0; 16];
        state.copy_from_slice(&hash[..16]);
        Self { random: Pcg64Mcg::from_seed(state), holds: file.holds, at: 0 }
    }

    /// Pieces must come in order, and all but the last have a multiple of 64 bytes.
    fn fill(&mut self, piece: &mut [u8]) {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let first = self.at;
        self.at += piece.len();
        if let Holds::Text(text) = self.holds {
            piece.copy_from_slice(&text.as_bytes()[first..self.at]);
            return;
        }
        for (number, line) in piece.chunks_mut(64).enumerate() {
            let is_place =
                self.holds == Holds::Places && (first + number * 64).is_multiple_of(BETWEEN_PLACES);
            if is_place && line.len() == PLACE.len() {
                line.copy_from_slice(PLACE);
                continue;
            }
            self.random.fill_bytes(line);
            for byte in line.iter_mut() {
                *byte = LETTERS[usize::from(*byte & 63)];
            }
            if let Some(end) = line.get_mut(63) {
                *end = b'\n';
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fileset::FileSet;

    fn manifest() -> FileSetManifest {
        FileSetManifest::new(FileSet::Specweb99 { directories: 2 }, 1)
    }

    #[test]
    fn a_set_is_written_whole_and_can_be_checked() {
        let root = tempfile::tempdir().unwrap();
        let mut told = Vec::new();
        let written = write(root.path(), &manifest(), |written| {
            told.push(written.files);
            true
        });
        assert_eq!(written.unwrap(), Written { files: 72, bytes: 10_238_968, kept: 0 });
        assert_eq!(told, (0..=72).collect::<Vec<_>>());
        assert_eq!(FileSetManifest::read(root.path()).unwrap(), manifest());
        assert!(compare(root.path(), &manifest()).is_empty());
        let path = root.path().join("file_set/dir00001/class2_3");
        let mut bytes = fs::read(&path).unwrap();
        bytes[30_000] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(compare(root.path(), &manifest()), ["file_set/dir00001/class2_3"]);
        let first = fs::read_to_string(root.path().join("file_set/dir00000/class0_9")).unwrap();
        assert!(first.lines().all(|line| line.len() <= 63 && line.is_ascii()));
    }

    #[test]
    fn pages_have_places_and_programs_their_text() {
        let root = tempfile::tempdir().unwrap();
        let manifest = FileSetManifest::new(FileSet::DynamicFixed { sizes: vec![10_000, 300_000] }, 1);
        write(root.path(), &manifest, |_| true).unwrap();
        assert!(compare(root.path(), &manifest).is_empty());
        for (name, places) in [("10000.html", 3), ("300000.html", 74)] {
            let page = fs::read_to_string(root.path().join("dynamic").join(name)).unwrap();
            let place = std::str::from_utf8(PLACE).unwrap();
            assert_eq!(page.matches(place).count(), places, "{name}");
            assert!(page.match_indices(place).all(|(at, _)| at % BETWEEN_PLACES == 0));
        }
        let root = tempfile::tempdir().unwrap();
        let set = FileSet::Support { directories: 0 };
        write(root.path(), &FileSetManifest::new(set, 1), |_| true).unwrap();
        let script = fs::read_to_string(root.path().join("support/home.php")).unwrap();
        assert!(script.starts_with("<?php"), "{script}");
    }

    #[test]
    fn writing_goes_on_where_it_stopped() {
        let root = tempfile::tempdir().unwrap();
        let error = write(root.path(), &manifest(), |written| written.files < 40).unwrap_err();
        assert!(matches!(error, WriteError::Interrupted), "{error}");
        assert!(FileSetManifest::read(root.path()).is_err(), "it is not complete");
        fs::write(root.path().join("file_set/dir00000/class1_1"), "cut short").unwrap();
        let written = write(root.path(), &manifest(), |_| true).unwrap();
        assert_eq!(written.files, 72);
        assert!(written.kept > 5_000_000 && written.kept < written.bytes);
        assert!(compare(root.path(), &manifest()).is_empty());
        assert_eq!(write(root.path(), &manifest(), |_| true).unwrap().kept, 10_238_968);
    }

    #[test]
    fn another_set_is_not_overwritten() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), &FileSetManifest::new(FileSet::Single, 1), |_| true).unwrap();
        let error = write(root.path(), &manifest(), |_| true).unwrap_err();
        assert!(matches!(error, WriteError::Another(_)), "{error}");
    }
}
