//! Whether `auto` is as good as the best fixed limit, where the one and the other are measured anew, side by
//! side.
//!
//! "As good" is what is shown, not what is assumed until the contrary is: at a point it holds where the whole
//! interval of the ratio is at least [`ENOUGH`].

use super::{AUTO, At};
use crate::claims::{REPLIES, differs_from_itself, only_a_look};
use crate::rounds::Found;
use crate::series::{INVALID, Series};
use crate::statistics::{FEWEST_ROUNDS, Ratio};
use crate::table;

/// What `auto` has to have of the best fixed limit's replies.
const ENOUGH: f64 = 0.95;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// It has enough, with 95% certainty.
    Holds,
    /// It may have enough or not.
    NotShown,
    /// It has not enough, with 95% certainty.
    Below,
    /// Why nothing can be said.
    None(String),
}

impl Verdict {
    fn told(&self) -> String {
        match self {
            Self::Holds => "holds".to_owned(),
            Self::NotShown => "NOT SHOWN".to_owned(),
            Self::Below => "BELOW".to_owned(),
            Self::None(why) => format!("no verdict: {why}"),
        }
    }
}

pub(super) fn markdown(judged: &[Found<'_, At>], rounds: u32) -> String {
    if judged.is_empty() {
        return format!("Nothing is judged: rounds are missing, or {AUTO} or fixed limits.\n");
    }
    let mut headings = vec!["point", "best fixed", "its replies/s", "auto: replies/s"];
    headings.extend(["auto to best (95%)", "best to best (95%)", INVALID, "verdict"]);
    let mut rows = Vec::new();
    let mut holds = 0;
    for Found { point, series, .. } in judged {
        let verdict = verdict(series, rounds);
        holds += usize::from(verdict == Verdict::Holds);
        let [best, auto, again] = &series[..] else {
            let mut row = vec![point.of.name()];
            row.resize(headings.len() - 1, "–".to_owned());
            row.push(verdict.told());
            rows.push(row);
            continue;
        };
        rows.push(vec![
            point.of.name(),
            best.server.name.clone(),
            best.median_cell(REPLIES.of, 0),
            auto.median_cell(REPLIES.of, 0),
            auto.ratio_cell(best, REPLIES.of),
            again.ratio_cell(best, REPLIES.of),
            series.iter().map(Series::invalid).collect::<Vec<_>>().join(", "),
            verdict.told(),
        ]);
    }
    let conclusion = only_a_look(rounds).unwrap_or_else(|| {
        format!(
            "{AUTO} has at least {ENOUGH} of the best fixed limit's replies at {holds} of {} points, with \
             95% certainty at each.",
            judged.len()
        )
    });
    format!("{}\n{conclusion}\n", table::markdown(&headings, rows))
}

/// Of the best fixed limit, `auto`, and the best fixed limit again.
fn verdict(series: &[Series], rounds: u32) -> Verdict {
    if rounds < FEWEST_ROUNDS {
        return Verdict::None("a look".to_owned());
    }
    let [best, auto, _] = series else { return Verdict::None("not measured yet".to_owned()) };
    if !series.iter().all(Series::is_whole) {
        return Verdict::None("not measured in all rounds yet".to_owned());
    }
    if !series.iter().all(Series::is_valid) {
        return Verdict::None("trials are not valid".to_owned());
    }
    if let Some(why) = differs_from_itself(best, series, REPLIES) {
        return Verdict::None(why);
    }
    match auto.ratio(best, REPLIES.of) {
        Some(Ratio { interval: Some(interval), .. }) if interval.lower >= ENOUGH => Verdict::Holds,
        Some(Ratio { interval: Some(interval), .. }) if interval.upper >= ENOUGH => Verdict::NotShown,
        Some(Ratio { interval: Some(_), .. }) => Verdict::Below,
        _ => Verdict::None("not measured often enough".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::Point;
    use crate::series::tests::{in_doubt, series};
    use crate::workload::Kind;

    /// Ten rounds between two rates.
    fn between(name: &str, low: f64, high: f64) -> Series {
        let replies: Vec<f64> = (0..10).map(|round| low + (high - low) * f64::from(round) / 9.0).collect();
        series(name, &replies)
    }

    fn judged(auto: (f64, f64), again: (f64, f64)) -> [Series; 3] {
        [series("10", &[100.0; 10]), between(AUTO, auto.0, auto.1), between("10 again", again.0, again.1)]
    }

    #[test]
    fn auto_holds_where_that_is_shown() {
        let of = |low, high| verdict(&judged((low, high), (99.0, 101.0)), 10);
        assert_eq!(of(95.5, 101.0), Verdict::Holds);
        // The second of ten and the ninth are what counts: one odd round is none.
        assert_eq!(of(94.9, 110.0), Verdict::Holds);
        assert_eq!(of(90.0, 105.0), Verdict::NotShown);
        assert_eq!(of(80.0, 95.5), Verdict::Below);
    }

    #[test]
    fn without_evidence_nothing_holds() {
        let of = |series: &[Series], rounds| verdict(series, rounds).told();
        let same = judged((100.0, 100.0), (100.0, 100.0));
        assert_eq!(of(&same, 10), "holds");
        assert_eq!(of(&same, 5), "no verdict: a look");
        assert_eq!(of(&same[..2], 10), "no verdict: not measured yet");
        let said = of(&judged((100.0, 100.0), (103.0, 104.0)), 10);
        assert!(said.starts_with("no verdict: replies/s of 10 measured twice differ: 1.035"), "{said}");
        let [best, auto, again] = judged((100.0, 100.0), (100.0, 100.0));
        assert_eq!(of(&[best, in_doubt(auto), again], 10), "no verdict: trials are not valid");
        let few = [series("10", &[1.0; 5]), series(AUTO, &[1.0; 5]), series("10 again", &[1.0; 5])];
        assert!(of(&few, 10).starts_with("no verdict"), "{}", of(&few, 10));
    }

    #[test]
    fn the_report_says_where_it_holds() {
        let at = |multiple| At { calibrated: 0, server: "epoll".to_owned(), kind: Kind::OnePacket, multiple };
        let points =
            [1.0, 2.0].map(|multiple| Point { name: String::new(), of: at(multiple), servers: Vec::new() });
        let series = [judged((99.0, 100.0), (99.0, 101.0)), judged((90.0, 99.0), (99.0, 101.0))];
        let found: Vec<Found<'_, At>> = points
            .iter()
            .zip(series)
            .map(|(point, series)| Found { point, series: series.into(), missing: 0 })
            .collect();
        let said = markdown(&found, 10);
        assert!(said.contains("at 1 of 2 points"), "{said}");
        assert!(said.contains("| epoll, one-packet, 2x | 10 |") && said.contains("| NOT SHOWN |"), "{said}");
        assert!(markdown(&found, 2).contains("This is a look"));
    }
}
