//! Drawings in SVG: an [`axis`] knows where a value stands, a [`plot`] has two of them, and [`rows`] has one
//! below bars, dots and intervals of things with names. Templates write them down; colours, widths and fonts
//! are the page's, so that they follow its colour scheme.

pub(super) mod axis;
pub(super) mod plot;
pub(super) mod rows;

/// Width of every drawing, in units of its own: what a phone shows without making letters too small.
pub(super) const WIDTH: f64 = 440.0;

/// A finished drawing.
#[derive(Debug)]
pub(super) struct Drawing {
    /// Escaped.
    pub(super) svg: String,
    /// In units of the drawing, of which it is [`WIDTH`] wide.
    pub(super) height: f64,
}

/// How one server looks everywhere: a colour, and a marker for those who don't see the colour. One that was
/// measured again has those of the first, hollow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(super) number: usize,
    pub(crate) again: bool,
}

/// Colours of the page, `s0` and so on.
const COLOURS: usize = 8;
/// Markers of the page, `m0` and so on, beside `x` for what does not count. One less than colours: pairs of
/// both come again after 56 servers.
const MARKERS: usize = 7;

impl Look {
    pub(super) fn class(self) -> String {
        format!("s{}{}", self.number % COLOURS, if self.again { " again" } else { "" })
    }

    pub(super) fn marker(self) -> String {
        format!("m{}", self.number % MARKERS)
    }
}

/// A marker at a place.
#[derive(Debug)]
struct Mark {
    marker: String,
    class: String,
    /// Its place, and its size. An attribute rather than CSS, with which browsers disagree on where a `use`
    /// is that has a place of its own.
    transform: String,
}

/// What a mark stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// One repetition.
    One,
    /// One that does not count.
    Uncounted,
    /// The median.
    Median,
}

impl Mark {
    /// A circle of a class of the page.
    fn at(x: f64, y: f64, class: String) -> Self {
        Self { marker: "m0".to_owned(), class, transform: format!("translate({} {})", px(x), px(y)) }
    }

    fn new(x: f64, y: f64, look: Look, of: Of) -> Self {
        let (what, marker, scale) = match of {
            Of::One => ("one", look.marker(), " scale(.68)"),
            Of::Uncounted => ("uncounted", "x".to_owned(), ""),
            Of::Median => ("median", look.marker(), ""),
        };
        let transform = format!("translate({} {}){scale}", px(x), px(y));
        Self { marker, class: format!("{what} {}", look.class()), transform }
    }
}

/// As many digits as can be seen.
fn px(place: f64) -> f64 {
    (place * 10.0).round() / 10.0
}
