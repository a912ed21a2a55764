//! A figure of the page: a drawing with its legend. Below it, one click away, is a table with the same
//! data.

use super::svg::{Drawing, Style};

/// A table: headings, and rows with a cell for each of them.
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

/// An entry of the legend: a colour and a marker.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) class: String,
    /// `None`: the entry is for an area, not a line.
    pub(super) marker: Option<String>,
    pub(super) name: String,
}

impl Key {
    pub(super) fn of(name: &str, style: Style) -> Self {
        Self { class: style.class(), marker: Some(style.marker()), name: name.to_owned() }
    }

    pub(super) fn area(name: &str, class: &str) -> Self {
        Self { class: class.to_owned(), marker: None, name: name.to_owned() }
    }
}

/// A drawing with its title, legend and table.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) title: String,
    /// How to read the figure.
    pub(super) note: &'static str,
    pub(super) keys: Vec<Key>,
    pub(super) drawing: Drawing,
    pub(super) table: Table,
}

/// A title as a file's name: lower case, words joined by hyphens.
pub(super) fn slug(title: &str) -> String {
    let words = title.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}
