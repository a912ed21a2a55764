//! The files that every server under test serves.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// What most requests are for.
pub(crate) const SMALL: &str = "/1k.html";
/// A file whose reply does not fit into socket buffers, for connections held in the middle of one.
pub(crate) const HUGE: &str = "/64m.html";

/// All files: what they are asked for as, from the root of the site, and their lengths.
const FILES: [(&str, usize); 4] =
    [(SMALL, 1 << 10), ("/10k.html", 10 << 10), ("/100k.html", 100 << 10), (HUGE, 64 << 20)];

/// Writes them below `directory` and returns the root of the site.
pub(crate) fn write(directory: &Path) -> Result<PathBuf> {
    let root = directory.join("site");
    fs::create_dir_all(&root)?;
    for (target, bytes) in FILES {
        let path = root.join(target.trim_start_matches('/'));
        fs::write(&path, text(bytes)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(root)
}

/// Readable text of exactly `bytes` bytes.
fn text(bytes: usize) -> Vec<u8> {
    let line = b"The quick brown fox jumps over the lazy dog while sluices are opened one by one.\n";
    line.iter().copied().cycle().take(bytes).collect()
}
