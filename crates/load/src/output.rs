//! Files that a run writes: opened before it begins, so that one that can't be had is told then; emptied as
//! it begins, so that a run that is refused leaves what an earlier one has written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A file that is open for writing.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    file: File,
    /// Others write to it as well, from where this process stands in it: it is not ours to empty.
    shared: bool,
}

/// A file could not be written to its end.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {error}", path.display())]
pub struct Unwritten {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

impl Output {
    /// Opens it, or makes it. What is in it stays for now. A path that leads to this process's standard
    /// output or standard error (`/dev/stdout`) means those.
    ///
    /// # Errors
    ///
    /// It can't be opened for writing, or made.
    pub fn open(path: &Path) -> io::Result<Self> {
        let stream = standard_stream(path)?;
        let shared = stream.is_some();
        let file = match stream {
            Some(stream) => stream,
            None => OpenOptions::new().write(true).create(true).truncate(false).open(path)?,
        };
        Ok(Self { path: path.to_owned(), file, shared })
    }

    /// Empties it, if it is a file.
    ///
    /// # Errors
    ///
    /// The file system refuses.
    pub fn begin(&self) -> Result<(), Unwritten> {
        let emptied = self.file.metadata().and_then(|metadata| {
            if metadata.is_file() && !self.shared { self.file.set_len(0) } else { Ok(()) }
        });
        emptied.map_err(|error| self.unwritten(error))
    }

    /// Writes all of it now: nothing is held back that would be lost with this process.
    ///
    /// # Errors
    ///
    /// The disk is full, the reader of a pipe has gone, and what else may befall a write.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Unwritten> {
        self.file.write_all(bytes).map_err(|error| self.unwritten(error))
    }

    pub(crate) fn unwritten(&self, error: io::Error) -> Unwritten {
        Unwritten { path: self.path.clone(), error }
    }
}

/// What it is given is written at once, as by [`Output::write`].
impl Write for &Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.file).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opened anew, a file would be written from its beginning, over what others write to the stream.
fn standard_stream(path: &Path) -> io::Result<Option<File>> {
    let Ok(wanted) = fs::metadata(path) else { return Ok(None) };
    for stream in [io::stdout().as_fd(), io::stderr().as_fd()] {
        let stream = File::from(stream.try_clone_to_owned()?);
        let found = stream.metadata()?;
        if (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()) {
            return Ok(Some(stream));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_run_has_written_stays_until_the_next_begins() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results");
        fs::write(&path, "of an earlier run").unwrap();
        let mut output = Output::open(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "of an earlier run");
        output.begin().unwrap();
        output.write(b"one, ").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one, ");
        output.write(b"two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one, two");
    }

    #[test]
    fn what_is_no_file_is_written_to_all_the_same() {
        let mut null = Output::open(Path::new("/dev/null")).unwrap();
        null.begin().unwrap();
        null.write(b"nothing").unwrap();
        let mut full = Output::open(Path::new("/dev/full")).unwrap();
        full.begin().unwrap();
        let error = full.write(b"too much").unwrap_err();
        assert_eq!(error.to_string(), "cannot write /dev/full: No space left on device (os error 28)");
        let error = Output::open(Path::new("/nonexistent/x")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
