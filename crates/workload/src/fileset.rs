//! Which files there are.

use serde::{Deserialize, Serialize};

use crate::{specweb99, support};

/// A set of files, by its kind and parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FileSet {
    /// `SPECweb99`'s static files: directories of 36 files, 4 classes of 9 sizes.
    Specweb99 {
        /// Directories, each of 5,119,484 bytes.
        directories: u32,
    },
    /// The static files of the Support workload.
    Support {
        /// Directories of downloads, of 68,472,021 bytes each.
        directories: u32,
    },
    /// One file so small that head and body fill one packet (Brecht et al. 2004, section 5).
    OnePacket,
    /// One file of 1 KiB.
    Single,
    /// Files of these sizes, named after them.
    Fixed {
        /// Bytes, one for each file.
        sizes: Vec<u64>,
    },
}

/// A file to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// From the root, with slashes, without one in front.
    pub path: String,
    /// Its length.
    pub bytes: u64,
}

/// Body bytes that leave room in a segment of 1,448 bytes for a head of 400.
pub const ONE_PACKET_BYTES: u64 = 1_024;

impl FileSet {
    /// The sizes that Yeung's thesis of 2010 has `FastCGI` applications answer: 32 KiB to 4 MiB.
    pub fn fixed() -> Self {
        Self::Fixed { sizes: [32, 64, 128, 256, 512, 1024, 2048, 4096].map(|kib| kib << 10).into() }
    }

    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Specweb99 { .. } => "specweb99",
            Self::Support { .. } => "support",
            Self::OnePacket => "one-packet",
            Self::Single => "single",
            Self::Fixed { .. } => "fixed",
        }
    }

    /// All files, in an order that never changes.
    pub fn files(&self) -> Vec<FileSpec> {
        match self {
            Self::Specweb99 { directories } => specweb99::files(*directories),
            Self::Support { directories } => support::files(*directories),
            Self::OnePacket => vec![FileSpec { path: "one-packet.html".into(), bytes: ONE_PACKET_BYTES }],
            Self::Single => vec![FileSpec { path: "1k.html".into(), bytes: 1_024 }],
            Self::Fixed { sizes } => {
                sizes.iter().map(|&bytes| FileSpec { path: format!("{bytes}.bin"), bytes }).collect()
            }
        }
    }
}
