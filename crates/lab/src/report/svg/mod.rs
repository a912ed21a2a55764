//! Drawings in SVG: an [`axis`] has the position of each value, a [`plot`] has two axes, and [`rows`] has
//! one axis below bars, dots and intervals of named things. Templates write the SVG. Colours, widths and
//! fonts come from the page, so they follow its colour scheme.

pub(super) mod axis;
pub(super) mod plot;
pub(super) mod rows;

/// The width of every drawing in its own units: as much as a phone can show with readable letters.
pub(super) const WIDTH: f64 = 440.0;

/// A finished drawing.
#[derive(Debug)]
pub(super) struct Drawing {
    /// The SVG text, with special characters escaped.
    pub(super) svg: String,
    /// The height in units of the drawing, which is [`WIDTH`] wide.
    pub(super) height: f64,
}

/// A server's style in all pictures: a colour, and a marker for readers who cannot distinguish colours. The
/// A/A control has the style of the first server, but hollow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    pub(super) number: usize,
    pub(crate) is_control: bool,
}

/// The number of colours of the page, `s0` and so on.
const COLOURS: usize = 8;
/// The number of markers of the page, `m0` and so on, besides `x` for values that don't count. One less
/// than colours: pairs of both repeat only after 56 servers.
const MARKERS: usize = 7;

impl Style {
    pub(super) fn class(self) -> String {
        format!("s{}{}", self.number % COLOURS, if self.is_control { " control" } else { "" })
    }

    pub(super) fn marker(self) -> String {
        format!("m{}", self.number % MARKERS)
    }
}

/// A marker at a position.
#[derive(Debug)]
struct Mark {
    marker: String,
    class: String,
    /// Its position and size. It is an attribute because browsers disagree on the effect of CSS on a `use`
    /// that has its own position.
    transform: String,
}

/// The meaning of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// One repetition.
    One,
    /// A repetition that does not count.
    Uncounted,
    /// The median.
    Median,
}

impl Mark {
    /// A circle with a class of the page.
    fn at(x: f64, y: f64, class: String) -> Self {
        Self { marker: "m0".to_owned(), class, transform: format!("translate({} {})", px(x), px(y)) }
    }

    fn new(x: f64, y: f64, style: Style, of: Of) -> Self {
        let (what, marker, scale) = match of {
            Of::One => ("one", style.marker(), " scale(.68)"),
            Of::Uncounted => ("uncounted", "x".to_owned(), ""),
            Of::Median => ("median", style.marker(), ""),
        };
        let transform = format!("translate({} {}){scale}", px(x), px(y));
        Self { marker, class: format!("{what} {}", style.class()), transform }
    }
}

/// Rounds to the digits that can be seen.
fn px(place: f64) -> f64 {
    (place * 10.0).round() / 10.0
}
