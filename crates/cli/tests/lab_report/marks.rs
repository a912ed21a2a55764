//! Where a browser draws the marks of a page's figures, against the data that stand below each of them.

use serde::Deserialize;

/// A figure as the browser has laid it out, with places in the drawing's own units.
#[derive(Debug, Deserialize)]
struct Figure {
    title: String,
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    /// What is written at the ticks of an axis, and where they are.
    x: Vec<(String, f64)>,
    y: Vec<(String, f64)>,
    /// The class of each mark, and its middle.
    marks: Vec<(String, f64, f64)>,
    /// The left and the right end of each bar.
    bars: Vec<(f64, f64)>,
    /// How high above each row of a drawing its name stands.
    names: Vec<f64>,
    /// The middles of the legend's marks, which belong at the origin.
    keys: Vec<(f64, f64)>,
}

/// What a browser says of `page`, for [`check`].
pub(crate) const SCRIPT: &str = r#"
    function drawn(page) {
        const cells = row => [...row.cells].map(cell => cell.textContent);
        const last = list => list[list.length - 1];
        const drawings = [...page.querySelectorAll("figure svg[role=img]")];
        // Those of the page of papers have no table.
        return drawings.filter(svg => svg.closest("figure").querySelector("h4")).map(svg => {
            const figure = svg.closest("figure");
            const rect = element => {
                const within = element.ownerSVGElement.getScreenCTM().inverse();
                const box = element.getBoundingClientRect();
                const at = (x, y) => new DOMPoint(x, y).matrixTransform(within);
                return [at(box.left, box.top), at(box.right, box.bottom)];
            };
            const middle = element => {
                const [from, to] = rect(element);
                return [(from.x + to.x) / 2, (from.y + to.y) / 2];
            };
            const lines = [...svg.querySelectorAll(".grid")].map(line => [line, middle(line)]);
            const isUpright = line => line.getAttribute("d").includes("V");
            const ticks = (anchor, places) => {
                const texts = svg.querySelectorAll(`text[text-anchor=${anchor}]:not([class])`);
                return [...texts].map((text, number) => [text.textContent, places[number]]);
            };
            const table = figure.querySelector("details table");
            return {
                title: figure.querySelector("h4").textContent,
                headings: cells(table.tHead.rows[0]), rows: [...table.tBodies[0].rows].map(cells),
                x: ticks("middle", lines.filter(([line]) => isUpright(line)).map(([, at]) => at[0])),
                y: ticks("end", lines.filter(([line]) => !isUpright(line)).map(([, at]) => at[1])),
                marks: [...svg.querySelectorAll("use")].map(mark => [mark.classList[0], ...middle(mark)]),
                bars: [...svg.querySelectorAll("rect.bar")].map(bar => rect(bar).map(end => end.x)),
                names: [...svg.querySelectorAll("text.row:not(.value)")].map(text => +text.getAttribute("y")),
                keys: [...figure.querySelectorAll(".keys use")].map(middle),
            };
        });
    }
"#;

/// Triangles and stars are not around the middle of their boxes, and figures are rounded.
const NEAR: f64 = 2.0;

/// Fails where a mark is not at its datum, or a datum has no mark. Gives how many figures there are of each
/// kind.
pub(crate) fn check(drawn: serde_json::Value) -> [usize; 6] {
    let figures: Vec<Figure> = serde_json::from_value(drawn).expect("figures");
    let mut found = [0; 6];
    for figure in figures {
        for (x, y) in &figure.keys {
            assert!(x.abs() < NEAR && y.abs() < NEAR, "{}: a key's mark is at {x}, {y}", figure.title);
        }
        let last = figure.headings.last().expect("a heading").as_str();
        let kind = match figure.headings[1].as_str() {
            _ if figure.headings[2..]
                .iter()
                .any(|heading| ["offered", "CPU %"].contains(&heading.as_str())) =>
            {
                0
            }
            _ if ["each repetition", "each round"].contains(&last) => 1,
            _ if last == "verdict" => 5,
            "size" | "class" => 3,
            "load" => 4,
            _ => 2,
        };
        found[kind] += 1;
        match kind {
            0 => figure.has_marks(&figure.curves(), true),
            1 => figure.has_marks(&figure.dots(), true),
            2 => figure.has_marks(&figure.distributions(), false),
            3 => figure.has_marks(&figure.sizes(), true),
            5 => figure.has_marks(&figure.comparisons(), true),
            _ => figure.has_bars(),
        }
    }
    found
}

type Mark = (&'static str, f64, f64);

impl Figure {
    /// Lines over the offered rate, or over what each repetition took.
    fn curves(&self) -> Vec<Mark> {
        let mut all = Vec::new();
        for row in &self.rows {
            let x = at(&self.x, number(&row[2]));
            let median = number(&row[3]);
            all.extend(median.is_finite().then(|| ("median", x, at(&self.y, median))));
            let own = row.get(5).map(|cell| each(cell).map(|(_, x)| at(&self.x, x)).collect::<Vec<_>>());
            let x_of = |number: usize| own.as_ref().map_or(x, |own| own[number]);
            let marks = each(&row[4]).enumerate();
            all.extend(marks.map(|(number, (of, value))| (of, x_of(number), at(&self.y, value))));
        }
        all
    }

    /// A row for each server.
    fn dots(&self) -> Vec<Mark> {
        let mut all = Vec::new();
        for (row, name) in self.rows.iter().zip(&self.names) {
            let y = name + 13.0;
            all.push(("median", at(&self.x, number(&row[2])), y));
            all.extend(each(row.last().expect("a cell")).map(|(of, value)| (of, at(&self.x, value), y)));
        }
        all
    }

    /// A row for each comparison. The table has them all, and the picture as many as fit.
    fn comparisons(&self) -> Vec<Mark> {
        let rows = self.rows.iter().zip(&self.names);
        rows.map(|(row, name)| ("median", at(&self.x, number(&row[3])), name + 13.0)).collect()
    }

    /// Percentiles, and cumulative distributions. Only some of the points are marked.
    fn distributions(&self) -> Vec<Mark> {
        let parts = self.headings[1..].iter().map(|heading| number(heading)).collect::<Vec<_>>();
        let of_row = |row: &Vec<String>| {
            let points =
                parts.iter().zip(&row[1..]).map(|(part, ms)| (*part, number(ms))).collect::<Vec<_>>();
            points.into_iter().map(|(part, ms)| {
                if self.title.starts_with("Percentiles") {
                    ("median", at(&self.x, part), at(&self.y, ms))
                } else {
                    ("median", at(&self.x, ms), at(&self.y, part))
                }
            })
        };
        self.rows.iter().flat_map(of_row).collect()
    }

    /// Servers beside each other for each size.
    fn sizes(&self) -> Vec<Mark> {
        let column = match self.title.split(' ').next() {
            Some("Timeouts") => "timeouts %",
            Some("Answered") => "answered %",
            _ => "mean ms",
        };
        let column = self.headings.iter().position(|heading| heading == column).expect("a column");
        let (sizes, servers) = (self.x.len(), self.rows.len() / self.x.len());
        let each = self.x[1].1 - self.x[0].1;
        let of_row = |(number_of, row): (usize, &Vec<String>)| {
            let (_, place) = self.x.iter().find(|(size, _)| *size == row[1]).expect("a size");
            let beside = (((number_of / sizes) as f64 + 0.5) / servers as f64 - 0.5) * 0.6;
            ("median", place + beside * each, at(&self.y, number(&row[column])))
        };
        self.rows.iter().enumerate().map(of_row).collect()
    }

    /// Each mark is at its datum. Both are in the same order, if all data have marks.
    fn has_marks(&self, expected: &[Mark], all: bool) {
        assert!(!self.marks.is_empty(), "{}: no marks", self.title);
        for of in ["one", "uncounted", "median"] {
            let marks = self.marks.iter().filter(|mark| mark.0 == of).collect::<Vec<_>>();
            let expected = expected.iter().filter(|one| one.0 == of).collect::<Vec<_>>();
            assert!(!all || marks.len() == expected.len(), "{}: {marks:?} for {expected:?}", self.title);
            for (number, mark) in marks.into_iter().enumerate() {
                let away = |one: &&&Mark| (one.1 - mark.1).abs().max((one.2 - mark.2).abs());
                let nearest = || expected.iter().min_by(|a, b| away(a).total_cmp(&away(b)));
                let one = if all { &expected[number] } else { nearest().expect("a datum") };
                assert!(away(&one) < NEAR, "{}: {mark:?} is not at {one:?}", self.title);
            }
        }
    }

    /// Parts beside each other, as long as they are large.
    fn has_bars(&self) {
        let mut bars = self.bars.iter();
        for row in &self.rows {
            let mut sum = 0.0;
            for part in &row[2..] {
                let (from, to) = bars.next().expect("a bar");
                let ends = [sum, sum + number(part)].map(|value| at(&self.x, value));
                assert!(
                    (from - ends[0]).abs() < NEAR && (to - ends[1]).abs() < NEAR,
                    "{}: a bar from {from} to {to} for {part} after {sum}",
                    self.title
                );
                sum += number(part);
            }
        }
        assert_eq!(bars.next(), None, "{}", self.title);
    }
}

/// The values of all trials, of which those in brackets do not count.
fn each(cell: &str) -> impl Iterator<Item = (&'static str, f64)> {
    cell.split(' ').map(|word| {
        let plain = word.trim_matches(['[', ']']);
        (if plain == word { "one" } else { "uncounted" }, number(plain))
    })
}

/// The first number of a cell or a tick.
fn number(text: &str) -> f64 {
    let end = text.find(|c: char| !c.is_ascii_digit() && !".-".contains(c)).unwrap_or(text.len());
    let factor = if text[end..].starts_with('k') { 1000.0 } else { 1.0 };
    text[..end].parse::<f64>().map_or(f64::NAN, |number| number * factor)
}

/// Where a value is on an axis with such ticks: linear, logarithmic, or one of nines.
fn at(ticks: &[(String, f64)], value: f64) -> f64 {
    let [first, .., last] = ticks else { panic!("{ticks:?}") };
    let values: Vec<f64> = ticks.iter().map(|(text, _)| number(text)).collect();
    let is_linear = values.windows(3).all(|three| {
        let [one, other] = [three[1] - three[0], three[2] - three[1]];
        (one - other).abs() < one.abs() * 0.01
    });
    let of = |value: f64| match () {
        () if ticks.iter().all(|(text, _)| text.ends_with('%')) => -(1.0 - value / 100.0).ln(),
        () if is_linear => value,
        () => value.ln(),
    };
    let (low, high) = (of(values[0]), of(values[values.len() - 1]));
    let part = ((of(value) - low) / (high - low)).clamp(0.0, 1.0);
    first.1 + part * (last.1 - first.1)
}
