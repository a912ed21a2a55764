//! Which files there are.

use serde::{Deserialize, Serialize};

use crate::file::FileSpec;
use crate::{dynamic, specweb99, support};

/// A set of files, by its kind and parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FileSet {
    /// `SPECweb99`'s static files: directories of 36 files, 4 classes of 9 sizes.
    Specweb99 {
        /// Directories, each of 5,119,484 bytes.
        directories: u32,
    },
    /// The Support workload: static files, and pages in PHP.
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
    /// Pages of these sizes with places for advertisements, which an application fills
    /// ([`crate::dynamic`]).
    DynamicFixed {
        /// Bytes, one for each page.
        sizes: Vec<u64>,
    },
}

/// Body bytes that leave room in a segment of 1,448 bytes for a head of 400.
pub const ONE_PACKET_BYTES: u64 = 1_024;

impl FileSet {
    /// Files of the sizes that Yeung's thesis of 2010 has `FastCGI` applications answer: 32 KiB to 4 MiB.
    pub fn fixed() -> Self {
        Self::Fixed { sizes: dynamic::SIZES.into() }
    }

    /// Pages of these sizes.
    pub fn dynamic_fixed() -> Self {
        Self::DynamicFixed { sizes: dynamic::SIZES.into() }
    }

    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Specweb99 { .. } => "specweb99",
            Self::Support { .. } => "support",
            Self::OnePacket => "one-packet",
            Self::Single => "single",
            Self::Fixed { .. } => "fixed",
            Self::DynamicFixed { .. } => "dynamic-fixed",
        }
    }

    /// All files, in an order that never changes.
    pub fn files(&self) -> Vec<FileSpec> {
        match self {
            Self::Specweb99 { directories } => specweb99::files(*directories),
            Self::Support { directories } => support::files(*directories),
            Self::OnePacket => vec![FileSpec::lines("one-packet.html", ONE_PACKET_BYTES)],
            Self::Single => vec![FileSpec::lines("1k.html", 1_024)],
            Self::Fixed { sizes } => {
                sizes.iter().map(|&bytes| FileSpec::lines(format!("{bytes}.bin"), bytes)).collect()
            }
            Self::DynamicFixed { sizes } => dynamic::files(sizes),
        }
    }
}
