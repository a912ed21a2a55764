//! Draws a finding with plain characters in one line: the paper's size beside the interval that was
//! measured here.

use super::measured::Checked;

/// The lines of the picture, if there is a ratio to show.
pub(super) fn picture(finding: &Checked, columns: usize) -> Option<[String; 2]> {
    let here = finding.ratio.as_ref()?;
    let [low, high] = here.interval.unwrap_or([here.median; 2]);
    let margin = [1.0 - finding.margin, 1.0 + finding.margin];
    let theirs = finding.range();
    let ends = [low, high].into_iter().chain(margin).chain(theirs.into_iter().flatten());
    let (least, most) = ends.fold((f64::MAX, f64::MIN), |(least, most), end| (least.min(end), most.max(end)));
    // A logarithmic axis, because the values are ratios.
    let (from, to) = ((least * 0.97).ln(), (most * 1.03).ln());
    let place = |value: f64| ((value.ln() - from) / (to - from) * (columns - 1) as f64).round() as usize;
    let mut line = vec![' '; columns];
    let mut draw = |from: f64, to: f64, letter: char| {
        let end = place(to).min(columns - 1);
        line[place(from).min(end)..=end].fill(letter);
    };
    draw(margin[0], margin[1], ':');
    draw(1.0, 1.0, '|');
    draw(low, high, '-');
    draw(low, low, '[');
    draw(high, high, ']');
    draw(here.median, here.median, 'o');
    if let Some([from, to]) = theirs {
        draw(from, to, 'P');
    }
    let mut scale = vec![' '; columns];
    let marks = [low, here.median, high, 1.0].into_iter().chain(theirs.into_iter().flatten());
    let mut marks: Vec<(usize, String)> = marks.map(|value| (place(value), number(value))).collect();
    marks.sort();
    marks.dedup_by(|a, b| a.1 == b.1);
    let mut free = 0;
    for (at, text) in marks {
        let begin = at.saturating_sub(text.len() / 2).min(columns - text.len());
        if begin >= free {
            scale[begin..].iter_mut().zip(text.chars()).for_each(|(at, letter)| *at = letter);
            free = begin + text.len() + 1;
        }
    }
    Some([scale, line].map(|line| line.into_iter().collect::<String>().trim_end().to_owned()))
}

/// What the letters of the picture mean.
pub(super) const LEGEND: &str = "[--o--] here, with 95% certainty; P the paper; | equal; : no difference";

/// A ratio, with enough digits to show its difference from 1.
pub(super) fn number(value: f64) -> String {
    let digits = if value < 10.0 { 2 } else { 1 };
    format!("{value:.digits$}")
}

/// `1.26 to 1.31`, or one number.
pub(super) fn size([from, to]: [f64; 2]) -> String {
    if (from - to).abs() < 5e-4 { number(from) } else { format!("{} to {}", number(from), number(to)) }
}

/// A fraction as a percentage, without meaningless digits.
fn percent(part: f64) -> f64 {
    (part * 1e4).round() / 1e2
}

impl Checked {
    /// The range of the paper's size; for claims of equality, the band.
    pub(super) fn range(&self) -> Option<[f64; 2]> {
        match self.within {
            Some(within) => {
                let [from, to] = self.size.unwrap_or([1.0; 2]);
                Some([from / (1.0 + within), to * (1.0 + within)])
            }
            None => self.size,
        }
    }

    /// The paper's size as text.
    pub fn theirs(&self) -> String {
        let by_sign = || match self.within {
            Some(within) => format!("equal within {}%", percent(within)),
            None if self.is_less => "less".to_owned(),
            None => "more".to_owned(),
        };
        match (self.size, self.within) {
            (Some(middle), Some(within)) => {
                format!("{} within {}%", size(middle), percent(within))
            }
            (Some(own), None) => size(own),
            (None, _) => by_sign(),
        }
    }

    /// Our ratio: `1.13 (1.02 to 1.21)`.
    pub fn ours(&self) -> String {
        let Some(here) = &self.ratio else { return "not measured".to_owned() };
        let interval = here.interval.map(|interval| format!(" ({})", size(interval)));
        number(here.median) + &interval.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::measured::{Here, Word};
    use super::*;

    #[test]
    fn everything_stands_at_its_place() {
        let finding = Checked {
            id: "X-1".to_owned(),
            says: String::new(),
            expect: String::new(),
            size: Some([2.0, 2.2]),
            is_less: false,
            within: None,
            margin: 0.02,
            ratio: Some(Here { median: 1.2, interval: Some([1.1, 1.3]), rounds: 10 }),
            word: Word::OtherSize,
            reason: None,
        };
        let [scale, line] = picture(&finding, 61).unwrap();
        assert_eq!(scale, " 1.00   1.10  1.20  1.30                         2.00   2.20");
        assert_eq!(line, "  :|::    [-----o-----]                            PPPPPPPP");
        assert_eq!(
            (finding.theirs(), finding.ours()),
            ("2.00 to 2.20".to_owned(), "1.20 (1.10 to 1.30)".to_owned())
        );
        assert_eq!(picture(&Checked { ratio: None, ..finding.clone() }, 61), None);
        let told = |size, within, is_less| Checked { size, is_less, within, ..finding.clone() }.theirs();
        assert_eq!(told(None, Some(0.025), false), "equal within 2.5%");
        assert_eq!(told(Some([0.95; 2]), Some(0.02), false), "0.95 within 2%");
        assert_eq!((told(None, None, true), told(None, None, false)), ("less".to_owned(), "more".to_owned()));
    }
}
