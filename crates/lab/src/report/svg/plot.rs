//! A plot with two axes: lines, bands around them and points, with a separate style for each server.

use std::fmt::Write as _;

use askama::Template;

use super::axis::Axis;
use super::{Drawing, Mark, Of, Style, WIDTH, px};

/// The drawing, with positions in its units.
#[derive(Debug, Template)]
#[template(path = "plot.svg")]
pub(in crate::report) struct Plot {
    label: String,
    x: Axis,
    y: Axis,
    frame: Frame,
    diagonal: String,
    bands: Vec<Shape>,
    lines: Vec<Shape>,
    marks: Vec<Mark>,
}

/// The area between the axes.
#[derive(Debug)]
struct Frame {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

const FRAME: Frame =
    Frame { width: WIDTH, height: 290.0, left: 52.0, right: 416.0, top: 26.0, bottom: 246.0 };

/// A path, and how it looks.
#[derive(Debug)]
struct Shape {
    class: String,
    path: String,
}

impl Plot {
    /// A plot with axes only. The label is for readers who cannot see it.
    pub(in crate::report) fn new(label: &str, x: Axis, y: Axis) -> Self {
        let (label, none) = (label.to_owned(), String::new());
        Self { label, x, y, frame: FRAME, diagonal: none, bands: vec![], lines: vec![], marks: vec![] }
    }

    pub(in crate::report) fn drawing(&self) -> Drawing {
        Drawing { svg: self.to_string(), height: self.frame.height }
    }

    fn x_of(&self, value: f64) -> f64 {
        px(self.frame.left + self.x.place(value) * (self.frame.right - self.frame.left))
    }

    fn y_of(&self, value: f64) -> f64 {
        px(self.frame.bottom - self.y.place(value) * (self.frame.bottom - self.frame.top))
    }

    /// The positions of an axis's ticks, and their labels.
    fn x_ticks(&self) -> impl Iterator<Item = (f64, &str)> {
        self.x.ticks.iter().map(|(value, text)| (self.x_of(*value), text.as_str()))
    }

    fn y_ticks(&self) -> impl Iterator<Item = (f64, &str)> {
        self.y.ticks.iter().map(|(value, text)| (self.y_of(*value), text.as_str()))
    }

    fn path(&self, points: impl IntoIterator<Item = (f64, f64)>) -> String {
        let mut path = String::new();
        for (x, y) in points {
            let letter = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{} {}", self.x_of(x), self.y_of(y));
        }
        path
    }

    /// A line where y is this multiple of x, from the origin as far as the axes reach.
    pub(in crate::report) fn diagonal(&mut self, factor: f64) {
        let end = self.x.high.min(self.y.high / factor);
        self.diagonal = self.path([(0.0, 0.0), (end, end * factor)]);
    }

    pub(in crate::report) fn line(&mut self, style: Style, points: impl IntoIterator<Item = (f64, f64)>) {
        self.lines.push(Shape { class: style.class(), path: self.path(points) });
    }

    /// A band between two values at each position.
    pub(in crate::report) fn band(&mut self, style: Style, band: &[(f64, f64, f64)]) {
        let below = band.iter().map(|(x, low, _)| (*x, *low));
        let above = band.iter().rev().map(|(x, _, high)| (*x, *high));
        self.bands.push(Shape { class: style.class(), path: self.path(below.chain(above)) + "Z" });
    }

    pub(in crate::report) fn point(&mut self, style: Style, (x, y): (f64, f64), of: Of) {
        self.marks.push(Mark::new(self.x_of(x), self.y_of(y), style, of));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: Style = Style { number: 9, is_control: false };

    #[test]
    fn values_stand_where_their_axes_have_them() {
        let mut plot = Plot::new("a <b>&\" label", Axis::linear("x", [100.0]), Axis::linear("y", [50.0]));
        plot.point(STYLE, (100.0, 0.0), Of::Median);
        plot.line(STYLE, [(0.0, 50.0), (50.0, 25.0)]);
        plot.band(STYLE, &[(0.0, 0.0, 50.0), (100.0, 0.0, 50.0)]);
        plot.diagonal(1.0);
        let drawn = plot.to_string();
        for expected in [
            "<use href=\"#m2\" class=\"median s1\" transform=\"translate(416 246)\"/>",
            "d=\"M52 26L234 136\"",
            "d=\"M52 246L416 246L416 26L52 26Z\"",
            "class=\"diagonal\" d=\"M52 246L234 26\"",
            "role=\"img\" aria-label=\"a &#60;b&#62;&#38;&#34; label\"",
        ] {
            assert!(drawn.contains(expected), "{expected} is not in {drawn}");
        }
    }
}
