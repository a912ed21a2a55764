//! Writes the figures of a page as separate SVG files, for documents. Their styles are inside, light or
//! dark as the reader's system is. `sluicelab report DIR --pictures OUT` writes them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use askama::Template;

use super::figure::{Figure, Key};
use super::page::Page;
use super::svg::WIDTH;
use crate::report::results::Results;

/// A figure with its title and its legend above it.
#[derive(Debug, Template)]
#[template(path = "picture.svg")]
struct Picture<'a> {
    figure: &'a Figure,
    keys: Vec<Placed<'a>>,
    width: f64,
    height: f64,
    /// The vertical position of the drawing.
    top: f64,
}

/// An entry of the legend, and its position.
#[derive(Debug)]
struct Placed<'a> {
    of: &'a Key,
    x: f64,
    y: f64,
}

/// The distances from the top to the legend, and between lines of the legend.
const TITLE: f64 = 40.0;
const LINE: f64 = 18.0;

impl<'a> Picture<'a> {
    fn of(figure: &'a Figure) -> Self {
        let placed = |(line, of)| Placed { of, x: 26.0, y: TITLE + LINE * line as f64 + 4.0 };
        let keys: Vec<Placed<'_>> = figure.keys.iter().enumerate().map(placed).collect();
        let top = TITLE + LINE * keys.len() as f64;
        Self { figure, keys, width: WIDTH, height: top + figure.drawing.height, top }
    }
}

/// Writes every figure of the page into `out`, named after its section and its title. Returns the paths.
pub fn write(results: &Results, out: &Path) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let page = Page::of(results, None, Vec::new());
    let mut written: Vec<PathBuf> = Vec::new();
    for (name, figure) in page.figures() {
        let mut path = out.join(format!("{name}.svg"));
        for number in 2.. {
            if !written.contains(&path) {
                break;
            }
            path = out.join(format!("{name}-{number}.svg"));
        }
        fs::write(&path, Picture::of(figure).render()?)
            .with_context(|| format!("cannot write {}", path.display()))?;
        written.push(path);
    }
    Ok(written)
}
