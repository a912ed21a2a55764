//! Named rows over one axis: bars in parts, or dots with a median and its interval. Names stand above the
//! marks, so that there is room for long names.

use askama::Template;

use super::axis::Axis;
use super::{Drawing, Mark, Of, Style, WIDTH, px};
use crate::statistics::Interval;

/// The drawing, with positions in its units.
#[derive(Debug, Template)]
#[template(path = "rows.svg")]
pub(in crate::report) struct Rows {
    label: String,
    x: Axis,
    width: f64,
    bottom: f64,
    /// The range that counts as no difference: its start and its width.
    margin: Option<(f64, f64)>,
    /// The position of equality.
    origin: Option<f64>,
    all: Vec<Row>,
}

/// One row.
#[derive(Debug)]
struct Row {
    /// A line of text instead of all else; empty in other rows.
    heading: String,
    name: String,
    /// The value at its end, and the height of its line.
    value: String,
    value_y: f64,
    y: f64,
    class: String,
    bars: Vec<Bar>,
    interval: Option<(f64, f64)>,
    marks: Vec<Mark>,
}

/// A part of a bar.
#[derive(Debug)]
struct Bar {
    class: String,
    x: f64,
    width: f64,
}

const LEFT: f64 = 20.0;
const RIGHT: f64 = WIDTH - 20.0;
/// The distances from the top to the first name, and from row to row.
const TOP: f64 = 14.0;
const ROW: f64 = 40.0;
/// The distance from a name to its marks.
const BELOW: f64 = 13.0;
/// The number of letters of a name.
const LETTERS: usize = 38;
/// The widths of wide fonts' average letters, of a name and of its value, which is bold.
const LETTER: f64 = 7.9;
const BOLD_LETTER: f64 = 8.6;
/// The distance from a value to a name that does not fit beside it.
const LINE: f64 = 15.0;
/// Above a heading, and from a heading to the next name.
const ABOVE_HEADING: f64 = 6.0;
const HEADING: f64 = 20.0;
/// Letters of a heading, which has the whole width.
const LETTERS_OF_HEADING: usize = 46;

/// A name that is no longer than so many letters.
fn cut(name: &str, letters: usize) -> String {
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    name.chars().take(letters - 1).chain(['…']).collect()
}

/// Whether a name fits on the line of its value.
fn fits_beside(name: &str, value: &str) -> bool {
    let width = |text: &str, letter: f64| text.chars().count() as f64 * letter;
    value.is_empty() || width(name, LETTER) + width(value, BOLD_LETTER) < RIGHT - LEFT
}

impl Rows {
    /// An axis without rows. The label is for readers who cannot see it.
    pub(in crate::report) fn new(label: &str, x: Axis) -> Self {
        let (label, bottom) = (label.to_owned(), TOP + 6.0);
        Self { label, x, width: WIDTH, bottom, margin: None, origin: None, all: Vec::new() }
    }

    pub(in crate::report) fn drawing(&self) -> Drawing {
        Drawing { svg: self.to_string(), height: self.height() }
    }

    fn height(&self) -> f64 {
        self.bottom + 40.0
    }

    fn x_of(&self, value: f64) -> f64 {
        px(LEFT + self.x.place(value) * (RIGHT - LEFT))
    }

    /// The positions of the axis's ticks, and their labels.
    fn x_ticks(&self) -> impl Iterator<Item = (f64, &str)> {
        self.x.ticks.iter().map(|(value, text)| (self.x_of(*value), text.as_str()))
    }

    /// Marks 1, and the range that counts as no difference from 1.
    pub(in crate::report) fn margin(&mut self, margin: f64) {
        let (low, high) = (self.x_of(1.0 - margin), self.x_of(1.0 + margin));
        (self.margin, self.origin) = (Some((low, px(high - low))), Some(self.x_of(1.0)));
    }

    fn row(&mut self, name: &str, value: String, class: String) -> Row {
        let name = cut(name, LETTERS);
        let line = if fits_beside(&name, &value) { 0.0 } else { LINE };
        let y = self.bottom + line + BELOW;
        self.bottom += line + ROW;
        Row {
            heading: String::new(),
            name,
            value,
            value_y: y - BELOW - line,
            y,
            class,
            bars: Vec::new(),
            interval: None,
            marks: Vec::new(),
        }
    }

    /// A line of text above rows that belong together.
    pub(in crate::report) fn heading(&mut self, name: &str) {
        self.bottom += ABOVE_HEADING;
        let mut row = self.row("", String::new(), String::new());
        row.heading = cut(name, LETTERS_OF_HEADING);
        self.bottom -= ROW - HEADING;
        self.all.push(row);
    }

    /// Parts of a bar, one after the other, each with a class of the page.
    pub(in crate::report) fn bars(&mut self, name: &str, value: String, parts: &[(String, f64)]) {
        let mut row = self.row(name, value, String::new());
        let mut before = 0.0;
        for (class, part) in parts {
            let (x, end) = (self.x_of(before), self.x_of(before + part));
            row.bars.push(Bar { class: class.clone(), x, width: px(end - x) });
            before += part;
        }
        self.all.push(row);
    }

    /// A size that others have found, as a bar, and the interval that was measured here.
    pub(in crate::report) fn beside(
        &mut self,
        (name, style): (&str, Style),
        value: String,
        theirs: Option<[f64; 2]>,
        ours: Option<(f64, Option<Interval>)>,
    ) {
        self.dots((name, style, ""), value, (&[], &[]), ours);
        let bar = theirs.map(|[from, to]| {
            let (from, to) = (self.x_of(from), self.x_of(to));
            // A single number is visible as well.
            let width = px(to - from).max(5.0);
            Bar { class: "theirs".to_owned(), x: px((from + to - width) / 2.0), width }
        });
        if let Some(row) = self.all.last_mut() {
            row.bars.extend(bar);
        }
    }

    /// The median of a ratio and its interval. The class shows the conclusion.
    pub(in crate::report) fn compared(
        &mut self,
        name: &str,
        class: &str,
        value: String,
        (median, interval): (f64, Option<Interval>),
    ) {
        let mut row = self.row(name, value, class.to_owned());
        row.interval = interval.map(|interval| (self.x_of(interval.lower), self.x_of(interval.upper)));
        let (x, y) = (self.x_of(median), row.y);
        row.marks.push(Mark::at(x, y, format!("median {class}")));
        self.all.push(row);
    }

    /// Values that count and others that don't, with their median. The class shows the conclusion.
    pub(in crate::report) fn dots(
        &mut self,
        (name, style, class): (&str, Style, &str),
        value: String,
        (counted, uncounted): (&[f64], &[f64]),
        middle: Option<(f64, Option<Interval>)>,
    ) {
        let mut row = self.row(name, value, format!("{} {class}", style.class()));
        let y = row.y;
        let mark = |value: f64, of| Mark::new(self.x_of(value), y, style, of);
        row.interval = middle
            .and_then(|(_, interval)| interval)
            .map(|interval| (self.x_of(interval.lower), self.x_of(interval.upper)));
        row.marks.extend(counted.iter().map(|value| mark(*value, Of::One)));
        row.marks.extend(uncounted.iter().map(|value| mark(*value, Of::Uncounted)));
        row.marks.extend(middle.map(|(median, _)| mark(median, Of::Median)));
        self.all.push(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_below_each_other() {
        let mut rows = Rows::new("", Axis::linear("", [10.0]));
        rows.bars("a <b>&\"", "7".to_owned(), &[("user".to_owned(), 5.0), ("system".to_owned(), 2.5)]);
        let style = Style { number: 0, is_control: true };
        let interval = Some(Interval { lower: 0.0, upper: 10.0 });
        rows.dots(
            (&"long ".repeat(20), style, "more"),
            String::new(),
            (&[5.0], &[10.0]),
            Some((5.0, interval)),
        );
        let drawn = rows.to_string();
        for expected in [
            "a &#60;b&#62;&#38;&#34;",
            "class=\"bar user\" x=\"20\" y=\"27\" width=\"200\"",
            "class=\"bar system\" x=\"220\" y=\"27\" width=\"100\"",
            "class=\"interval s0 control more\" x1=\"20\" x2=\"420\" y1=\"73\"",
            "class=\"one s0 control\" transform=\"translate(220 73) scale(.68)\"",
            "class=\"uncounted s0 control\" transform=\"translate(420 73)\"",
            "viewBox=\"0 0 440 140\"",
            "long lo…",
        ] {
            assert!(drawn.contains(expected), "{expected} is not in {drawn}");
        }
    }
}
