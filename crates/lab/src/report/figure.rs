//! A figure of the page: a drawing with its legend, and below it, one click away, the same as a table.

use super::svg::{Drawing, Look};

/// Headings, and rows of as many cells.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) headings: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(headings: &[&str]) -> Self {
        Self { headings: headings.iter().map(|&heading| heading.to_owned()).collect(), rows: Vec::new() }
    }
}

/// What a colour and a marker stand for.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) class: String,
    /// `None`: an area rather than a line.
    pub(super) marker: Option<String>,
    pub(super) name: String,
}

impl Key {
    pub(super) fn of(name: &str, look: Look) -> Self {
        Self { class: look.class(), marker: Some(look.marker()), name: name.to_owned() }
    }

    pub(super) fn area(name: &str, class: &str) -> Self {
        Self { class: class.to_owned(), marker: None, name: name.to_owned() }
    }
}

/// A drawing with all that belongs to it.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) title: String,
    /// How it is to be read.
    pub(super) note: &'static str,
    pub(super) keys: Vec<Key>,
    pub(super) drawing: Drawing,
    pub(super) table: Table,
}
