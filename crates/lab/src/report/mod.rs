//! Writes the results of an experiment as files in its directory: `report.html` for people, `results.csv`
//! and `results.json` for other programs.
//!
//! All of them come from [`Results`], as does the [`summary`] for a terminal. The `page` has its points in
//! groups (`group`), each of which becomes a `section` with figures: over the offered rate (`load_curves`),
//! as `rows`, of response `times`, and `by_name` of a size or a class of clients. A `heat_map` shows the
//! results of a search for settings, and `work` what an application did. `configurations` are the files that
//! configured the servers. A `figure` is a drawing (`svg`) with its table. A `sample` has the trials' values
//! of one quantity. [`markdown`] has tables for documents, and `sizes` draws the findings of others beside
//! ours.

mod by_name;
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

/// The names of the files, the page first.
pub const FILES: [&str; 3] = ["report.html", "results.csv", "results.json"];

/// Writes the results of `directory` into it. Returns the path of the page.
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

/// A page's address for browsers.
pub fn address(page: &Path) -> String {
    const PLAIN: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    format!("file://{}", percent_encode(page.as_os_str().as_bytes(), PLAIN))
}

#[cfg(test)]
mod tests;
