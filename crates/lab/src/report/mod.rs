//! What an experiment came to, as files in its directory: `report.html` for people, `results.csv` and
//! `results.json` for other programs.
//!
//! All of them are made from [`Results`], as is the [`summary`] for a terminal. The `page` has its points
//! in groups (`group`), each of which becomes a `section` with figures: over the offered rate
//! (`load_curves`), as `rows`, of response `times`; what a search for settings came to has a `heat_map`,
//! what an application did is `work`; the files by which servers were configured are `configurations`. A
//! `figure` is a drawing (`svg`) with the same as a table; what trials say about a quantity is a `sample`.
//! [`markdown`] has tables for documents, `sizes` draws what others have found beside what was found here.

mod configurations;
mod figure;
mod files;
mod forest;
mod group;
mod heat_map;
mod load_curves;
pub mod markdown;
mod page;
pub mod pictures;
#[cfg(test)]
mod power;
pub mod results;
mod rows;
mod sample;
mod section;
pub(crate) mod sizes;
pub mod summary;
mod svg;
mod times;
mod work;

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use askama::Template as _;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use self::page::Page;
use crate::record::tuned::Found;
use crate::report::results::Results;

/// The files that are written, the page first.
pub const FILES: [&str; 3] = ["report.html", "results.csv", "results.json"];

/// Writes what `directory` came to into it. Gives the path of the page.
pub fn write(results: &Results, directory: &Path) -> Result<PathBuf> {
    let searched = Found::of_fresh_rounds(directory)?;
    let texts = [
        Page::of(results, searched.as_ref(), configurations::of(results, directory)?).render()?,
        files::csv(results),
        serde_json::to_string(results)?,
    ];
    for (name, text) in FILES.iter().zip(texts) {
        let path = directory.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(directory.join(FILES[0]))
}

/// A page's address, as browsers take it.
pub fn address(page: &Path) -> String {
    const PLAIN: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    format!("file://{}", percent_encode(page.as_os_str().as_bytes(), PLAIN))
}

#[cfg(test)]
mod tests;
