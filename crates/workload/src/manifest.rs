//! What a file set or a session file is: kind, parameters, seed, counts, a hash, and frequencies asked and
//! got.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base16ct::lower::encode_string as hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::check::Check;
use crate::file::Holds;
use crate::fileset::FileSet;

/// The name of a file set's manifest in its root. Servers do not serve it: its name begins with a dot.
pub const NAME: &str = ".sluicelab.json";

/// The version of the schema, and of what is made from a seed.
const VERSION: u32 = 1;

/// Name and version of the program that makes file sets and sessions from seeds.
const GENERATOR: &str = concat!("sluicelab ", env!("CARGO_PKG_VERSION"));

/// A file set that has been written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSetManifest {
    /// The version of this schema.
    pub version: u32,
    /// Name and version of the program that made it. Empty in manifests that are older than this member.
    #[serde(default)]
    pub generator: String,
    /// The set.
    #[serde(flatten)]
    pub set: FileSet,
    /// What the bytes of the files were made from.
    pub seed: u64,
    /// How many files.
    pub files: u64,
    /// All their bytes.
    pub bytes: u64,
    /// SHA-256 of paths, lengths, texts and the seed, from which all bytes follow.
    pub sha256: String,
}

/// A session file that has been written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionsManifest {
    /// The version of this schema.
    pub version: u32,
    /// Name and version of the program that made it. Empty in manifests that are older than this member.
    #[serde(default)]
    pub generator: String,
    /// Where the sessions come from: a kind of file set, or `replay`.
    pub kind: String,
    /// What they were drawn from; none for a replay.
    pub seed: Option<u64>,
    /// Sessions, calls, and different requests.
    pub sessions: u64,
    /// See above.
    pub calls: u64,
    /// See above.
    pub requests: u64,
    /// SHA-256 of the session file.
    pub sha256: String,
    /// Frequencies, asked and got.
    pub checks: Vec<Check>,
}

/// A manifest can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// There is none.
    #[error("no file set in {0}: make one with `sluicelab fileset`")]
    Missing(PathBuf),
    /// The file can't be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is not a manifest, or of another version.
    #[error("{path} is no manifest of version {VERSION}: {reason}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl FileSetManifest {
    /// Of a set that is made from a seed.
    pub fn new(set: FileSet, seed: u64) -> Self {
        let files = set.files();
        let mut hash = Sha256::new();
        hash.update(format!("{VERSION} {seed}\n"));
        for file in &files {
            hash.update(format!("{} {}\n", file.path, file.bytes));
            if let Holds::Text(text) = file.holds {
                hash.update(text);
            }
        }
        Self {
            version: VERSION,
            generator: GENERATOR.to_owned(),
            set,
            seed,
            files: files.len() as u64,
            bytes: files.iter().map(|file| file.bytes).sum(),
            sha256: hex(&hash.finalize()),
        }
    }

    /// Of the set whose root this is.
    ///
    /// # Errors
    ///
    /// There is none, or it can't be understood.
    pub fn read(root: &Path) -> Result<Self, ManifestError> {
        let path = root.join(NAME);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ManifestError::Missing(root.to_owned()));
            }
            Err(source) => return Err(ManifestError::Read { path, source }),
        };
        let wrong = |reason: String| ManifestError::Content { path: path.clone(), reason };
        let manifest: Self = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if manifest.version != VERSION {
            return Err(wrong(format!("its version is {}", manifest.version)));
        }
        Ok(manifest)
    }

    /// Writes it into the root of its set.
    ///
    /// # Errors
    ///
    /// Writing failed.
    pub fn write(&self, root: &Path) -> io::Result<()> {
        fs::write(root.join(NAME), serde_json::to_string_pretty(self)? + "\n")
    }
}

impl SessionsManifest {
    /// Of a session file with this text.
    pub fn new(
        kind: &str,
        seed: Option<u64>,
        log: &crate::session::SessionLog,
        text: &[u8],
        checks: Vec<Check>,
    ) -> Self {
        Self {
            version: VERSION,
            generator: GENERATOR.to_owned(),
            kind: kind.to_owned(),
            seed,
            sessions: log.len() as u64,
            calls: log.calls() as u64,
            requests: log.requests().len() as u64,
            sha256: hex(&Sha256::digest(text)),
            checks,
        }
    }

    /// Where it stands beside its session file.
    pub fn path(of: &Path) -> PathBuf {
        let mut name = of.as_os_str().to_owned();
        name.push(".manifest.json");
        name.into()
    }

    /// Writes it beside its session file.
    ///
    /// # Errors
    ///
    /// Writing failed.
    pub fn write(&self, of: &Path) -> io::Result<()> {
        fs::write(Self::path(of), serde_json::to_string_pretty(self)? + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let root = tempfile::tempdir().unwrap();
        let manifest = FileSetManifest::new(FileSet::Specweb99 { directories: 2 }, 7);
        assert_eq!((manifest.files, manifest.bytes), (72, 2 * 5_119_484));
        manifest.write(root.path()).unwrap();
        assert_eq!(FileSetManifest::read(root.path()).unwrap(), manifest);
        assert_ne!(FileSetManifest::new(FileSet::Specweb99 { directories: 2 }, 8).sha256, manifest.sha256);
    }

    #[test]
    fn a_manifest_that_is_older_than_the_generators_version_is_read() {
        let root = tempfile::tempdir().unwrap();
        let manifest = FileSetManifest::new(FileSet::Single, 1);
        assert!(manifest.generator.starts_with("sluicelab "));
        let mut older = serde_json::to_value(&manifest).unwrap();
        older.as_object_mut().unwrap().remove("generator").unwrap();
        fs::write(root.path().join(NAME), older.to_string()).unwrap();
        let expected = FileSetManifest { generator: String::new(), ..manifest };
        assert_eq!(FileSetManifest::read(root.path()).unwrap(), expected);
    }

    #[test]
    fn what_is_no_manifest_is_told() {
        let root = tempfile::tempdir().unwrap();
        let told = || FileSetManifest::read(root.path()).unwrap_err().to_string();
        assert!(told().starts_with("no file set in "));
        fs::write(root.path().join(NAME), "{}").unwrap();
        assert!(told().contains("is no manifest of version 1"), "{}", told());
    }
}
