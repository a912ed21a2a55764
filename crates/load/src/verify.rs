//! Comparing replies with the files that they should be, byte by byte.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use workload::session::{Method, SessionLog};

use crate::record::Outcome;

/// The files that replies should be.
#[derive(Debug)]
pub(crate) struct Files {
    /// By request; `None` for what is not compared.
    paths: Vec<Option<PathBuf>>,
    /// Their lengths as the run begins.
    sizes: Vec<Option<u64>>,
    scratch: Vec<u8>,
}

/// There is nothing to compare a reply with.
#[derive(Debug, thiserror::Error)]
#[error("no file to compare {uri} with: {}: {source}", path.display())]
pub struct NoFile {
    uri: String,
    path: PathBuf,
    source: io::Error,
}

/// One reply's comparison.
#[derive(Debug)]
pub(crate) struct Comparison {
    file: File,
    length: u64,
    differs: bool,
}

impl Files {
    /// The files below `root` that the log's requests name.
    pub(crate) fn new(root: &Path, log: &SessionLog) -> Result<Self, NoFile> {
        let (mut paths, mut sizes) = (Vec::new(), Vec::new());
        for request in log.requests() {
            if request.method != Method::GET {
                paths.push(None);
                sizes.push(None);
                continue;
            }
            let path = root.join(relative(&request.uri));
            match path.metadata() {
                Ok(found) if found.is_file() => {
                    paths.push(Some(path));
                    sizes.push(Some(found.len()));
                }
                found => {
                    let source = found.err().unwrap_or_else(|| io::ErrorKind::IsADirectory.into());
                    return Err(NoFile { uri: request.uri.to_string(), path, source });
                }
            }
        }
        Ok(Self { paths, sizes, scratch: vec![0; 64 << 10] })
    }

    /// By request: how long its file is, if it has one.
    pub(crate) fn sizes(&self) -> &[Option<u64>] {
        &self.sizes
    }

    /// Begins to compare the reply to a request.
    pub(crate) fn begin(&self, request: u32) -> Option<Comparison> {
        let path = self.paths.get(request as usize)?.as_ref()?;
        let file = File::open(path).ok()?;
        let length = file.metadata().ok()?.len();
        Some(Comparison { file, length, differs: false })
    }

    /// Compares a piece of the body that begins at `offset`.
    pub(crate) fn compare(&mut self, comparison: &mut Comparison, offset: u64, piece: &[u8]) {
        for (number, part) in piece.chunks(self.scratch.len()).enumerate() {
            let expected = &mut self.scratch[..part.len()];
            let at = offset + (number * (64 << 10)) as u64;
            // What lies behind the file's end is a matter of its length.
            let within = comparison.length.saturating_sub(at).min(part.len() as u64) as usize;
            let read = comparison.file.read_exact_at(&mut expected[..within], at);
            comparison.differs |= read.is_err() || expected[..within] != part[..within];
        }
    }
}

impl Comparison {
    /// What the whole reply comes to, if it is not the file.
    pub(crate) fn end(&self, body_bytes: u64) -> Option<Outcome> {
        match () {
            () if self.differs => Some(Outcome::WrongBytes),
            () if body_bytes != self.length => Some(Outcome::WrongLength),
            () => None,
        }
    }
}

/// A target as a path: without query, decoded, and with the index file where it is a directory.
fn relative(uri: &str) -> PathBuf {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let mut path = percent_decode_str(path.trim_start_matches('/')).decode_utf8_lossy().into_owned();
    if path.is_empty() || path.ends_with('/') {
        path.push_str("index.html");
    }
    path.into()
}

#[cfg(test)]
mod tests {
    use workload::session::{Builder, Request};

    use super::*;

    fn files(root: &Path, uris: &[&str]) -> Result<Files, NoFile> {
        let mut log = Builder::new();
        for &uri in uris {
            log.call(Request { uri: uri.into(), ..Request::default() });
        }
        log.call(Request { method: Method::POST, uri: "/no-file".into(), ..Request::default() });
        Files::new(root, &log.finish())
    }

    #[test]
    fn differences_are_found_wherever_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(directory.path().join("a b"), &content).unwrap();
        let mut files = files(directory.path(), &["/a%20b?q"]).unwrap();
        assert!(files.begin(1).is_none(), "replies to POST are not compared");
        let mut whole = |change: Option<usize>, length: usize| {
            let mut body = content.clone();
            body.resize(length, 0);
            if let Some(at) = change {
                body[at] ^= 1;
            }
            let mut comparison = files.begin(0).unwrap();
            for (number, piece) in body.chunks(150_000).enumerate() {
                files.compare(&mut comparison, number as u64 * 150_000, piece);
            }
            comparison.end(length as u64)
        };
        assert_eq!(whole(None, 200_000), None);
        for at in [0, 65_535, 65_536, 149_999, 150_000, 199_999] {
            assert_eq!(whole(Some(at), 200_000), Some(Outcome::WrongBytes), "{at}");
        }
        assert_eq!(whole(None, 199_999), Some(Outcome::WrongLength));
        assert_eq!(whole(None, 200_001), Some(Outcome::WrongLength));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("d")).unwrap();
        let error = files(directory.path(), &["/absent"]).unwrap_err().to_string();
        assert!(error.starts_with("no file to compare /absent with: "), "{error}");
        assert!(files(directory.path(), &["/d"]).is_err());
        std::fs::write(directory.path().join("d/index.html"), "x").unwrap();
        assert!(files(directory.path(), &["/d/"]).is_ok());
    }
}
