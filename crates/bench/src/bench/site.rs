//! The files that every server under test serves, and the requests made for them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

/// One kind of load: a file of some size, and whether each request comes on a connection of its own.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// What is asked for, from the root of the site.
    pub(crate) target: &'static str,
    pub(crate) body_bytes: usize,
    /// The client says `Connection: close`.
    pub(crate) close: bool,
}

/// The cases of the comparison: small, medium, large, and one that is all about accepting.
pub(crate) static CASES: [Case; 4] = [
    Case { name: "1 KB, keep-alive", target: "/1k.html", body_bytes: 1 << 10, close: false },
    Case { name: "10 KB, keep-alive", target: "/10k.html", body_bytes: 10 << 10, close: false },
    Case { name: "100 KB, keep-alive", target: "/100k.html", body_bytes: 100 << 10, close: false },
    Case { name: "1 KB, a connection each", target: "/1k.html", body_bytes: 1 << 10, close: true },
];

/// A file whose reply does not fit into socket buffers, for connections held in the middle of one.
pub(crate) const HUGE: Case = Case { name: "64 MB", target: "/64m.html", body_bytes: 64 << 20, close: false };

/// Writes the files of all cases below `directory` and returns the root of the site.
pub(crate) fn write(directory: &Path) -> Result<PathBuf> {
    let root = directory.join("site");
    fs::create_dir_all(&root)?;
    for case in CASES.iter().chain([&HUGE]) {
        let path = root.join(case.target.trim_start_matches('/'));
        fs::write(&path, text(case.body_bytes))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(root)
}

/// Readable text of exactly `bytes` bytes.
fn text(bytes: usize) -> Vec<u8> {
    let line = b"The quick brown fox jumps over the lazy dog while sluices are opened one by one.\n";
    line.iter().copied().cycle().take(bytes).collect()
}
