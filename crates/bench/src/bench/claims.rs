//! What an experiment says: which alternatives are below or above the first of their point, and where nothing
//! is said.
//!
//! A claim needs an interval that is wholly beyond [`MARGIN`], valid trials, and a point at which the first
//! alternative, measured twice, is not found to differ from itself by as much. No claim is no proof of
//! equality.

use std::fmt::Write as _;

use crate::rounds::Found;
use crate::series::Series;
use crate::statistics::{FEWEST_ROUNDS, MARGIN, Ratio, coverage, ranks};
use crate::trial::Outcome;

/// What alternatives are compared by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    pub(crate) name: &'static str,
    pub(crate) of: fn(&Outcome) -> f64,
}

pub(crate) const REPLIES: Quantity = Quantity { name: "replies/s", of: |of| of.replies_per_s };
pub(crate) const COST: Quantity =
    Quantity { name: "server us per reply", of: |of| of.cpu.server_us_per_reply };

/// What has been compared so far.
#[derive(Debug, Default)]
struct Tally {
    comparisons: usize,
    claims: usize,
    /// How many claims there would be, at most, if there were nothing to find.
    by_chance: f64,
}

/// The claims on all points, each compared by its `quantities`.
pub(crate) fn markdown<T>(
    found: &[Found<'_, T>],
    rounds: u32,
    quantities: impl Fn(&T) -> &'static [Quantity],
) -> String {
    if let Some(look) = only_a_look(rounds) {
        return format!("{look}\n");
    }
    let mut tally = Tally::default();
    let mut text = String::new();
    for Found { point, series, .. } in found {
        for line in at_point(series, quantities(&point.of), &mut tally) {
            let _ = writeln!(text, "- {}: {line}", point.name);
        }
    }
    format!("{text}\n{}\n", tally.told())
}

/// What is said instead of verdicts where there are too few rounds for any.
pub(crate) fn only_a_look(rounds: u32) -> Option<String> {
    (rounds < FEWEST_ROUNDS).then(|| {
        format!(
            "This is a look: {rounds} rounds are fewer than {FEWEST_ROUNDS}, so that there are no intervals \
             and no \
             verdicts."
        )
    })
}

/// Why a point says nothing, if it doesn't: two series of the same thing differ, or can't be compared.
pub(crate) fn differs_from_itself(first: &Series, series: &[Series], quantity: Quantity) -> Option<String> {
    let of_name = format!("{} of {}", quantity.name, first.server.name);
    let Some(again) = series.iter().find(|series| series.server.is_again_of(&first.server)) else {
        return Some(format!("{of_name} were not measured twice"));
    };
    if !(first.is_whole() && again.is_whole()) {
        return Some(format!("{of_name} are not measured in all rounds yet"));
    }
    if !(first.is_valid() && again.is_valid()) {
        return Some(format!("{of_name} measured twice rest on trials that are not valid"));
    }
    match again.ratio(first, quantity.of) {
        Some(ratio @ Ratio { interval: Some(_), .. }) => {
            let differs = ratio.is_below_one() || ratio.is_above_one();
            differs.then(|| format!("{of_name} measured twice differ: {ratio:.3}"))
        }
        _ => Some(format!("{of_name} have not been measured often enough twice")),
    }
}

fn at_point(series: &[Series], quantities: &[Quantity], tally: &mut Tally) -> Vec<String> {
    let Some(first) = series.first() else { return Vec::new() };
    let against = quantities.iter().find_map(|quantity| differs_from_itself(first, series, *quantity));
    if let Some(against) = against {
        return vec![format!("NO VERDICT, for {against}")];
    }
    let others = || series[1..].iter().filter(|other| !other.server.is_again_of(&first.server));
    let each = quantities.iter().map(|quantity| {
        let (mut below, mut above, mut invalid, mut neither) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for other in others() {
            let Some(ratio) = other.ratio(first, quantity.of).filter(|_| other.is_whole()) else { continue };
            let told = format!("{} {ratio:.3}", other.server.name);
            if !other.is_valid() {
                invalid.push(told);
                continue;
            }
            tally.count(&ratio);
            match (ratio.is_below_one(), ratio.is_above_one()) {
                (true, _) => below.push(told),
                (_, true) => above.push(told),
                _ => neither += 1,
            }
        }
        tally.claims += below.len() + above.len();
        let mut told = Vec::new();
        for (word, which) in [
            (format!("below {}", first.server.name), below),
            (format!("above {}", first.server.name), above),
            ("no verdict, as trials are not valid, on".to_owned(), invalid),
        ] {
            if !which.is_empty() {
                told.push(format!("{word}: {}", which.join(", ")));
            }
        }
        told.extend((neither > 0).then(|| format!("no claim on {neither}")));
        format!("{}: {}", quantity.name, told.join("; "))
    });
    each.collect()
}

impl Tally {
    fn count(&mut self, ratio: &Ratio) {
        if let Some((low, _)) = ranks(ratio.pairs) {
            self.comparisons += 1;
            self.by_chance += 1.0 - coverage(ratio.pairs, low);
        }
    }

    fn told(&self) -> String {
        format!(
            "{} claims from {} comparisons. A claim is made where the whole interval is more than {:.0}% \
             from 1; were there nothing to find, chance alone would make {:.1} of them on average, at most. \
             Where there is no claim nothing is \
             said; equality is not, either.",
            self.claims,
            self.comparisons,
            MARGIN * 100.0,
            self.by_chance
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::tests::{in_doubt, series};

    /// Six rounds around `middle`, each with noise of its own.
    fn around(name: &str, middle: f64) -> Series {
        let rounds: Vec<f64> = [0.996, 1.003, 0.999, 1.002, 0.998, 1.001].map(|noise| middle * noise).into();
        series(name, &rounds)
    }

    fn said(all: &[Series]) -> (String, Tally) {
        let mut tally = Tally::default();
        (at_point(all, &[REPLIES], &mut tally).join("\n"), tally)
    }

    #[test]
    fn claims_are_beyond_the_margin() {
        let again = series("sped again", &[101.0, 99.0, 100.5, 99.5, 100.1, 99.9]);
        let first = series("sped", &[100.0; 6]);
        let others = [around("slow", 90.0), around("nearly", 98.5), around("fast", 110.0)];
        let all: Vec<Series> = [first].into_iter().chain(others).chain([again]).collect();
        let (said, tally) = said(&all);
        assert_eq!(
            said,
            "replies/s: below sped: slow 0.900 (0.896 to 0.903); above sped: fast 1.100 (1.096 to 1.103); \
             no claim on 1"
        );
        assert_eq!((tally.comparisons, tally.claims), (3, 2));
        assert!((tally.by_chance - 3.0 / 32.0).abs() < 1e-9, "{tally:?}");
    }

    #[test]
    fn where_one_thing_differs_from_itself_nothing_is_said() {
        let again = |replies: f64| series("sped again", &[replies; 6]);
        let all = |again| [series("sped", &[100.0; 6]), series("slow", &[50.0; 6]), again];
        let (told, tally) = said(&all(again(97.0)));
        assert_eq!(told, "NO VERDICT, for replies/s of sped measured twice differ: 0.970 (0.970 to 0.970)");
        assert_eq!(tally.comparisons, 0);
        // Less than what is called a difference is none here, either.
        assert!(said(&all(again(99.0))).0.contains("below sped: slow"));
        let (told, _) = said(&[series("sped", &[100.0; 6]), series("slow", &[50.0; 6])]);
        assert!(told.starts_with("NO VERDICT"), "{told}");
    }

    #[test]
    fn nothing_is_claimed_of_trials_that_are_not_valid() {
        let all = |first| [first, around("slow", 50.0), around("sped again", 100.0)];
        let first = || series("sped", &[100.0; 6]);
        let (told, tally) = said(&[first(), in_doubt(around("slow", 50.0)), around("sped again", 100.0)]);
        assert!(told.starts_with("replies/s: no verdict, as trials are not valid, on: slow 0.500"), "{told}");
        assert_eq!((tally.comparisons, tally.claims), (0, 0));
        assert!(said(&all(in_doubt(first()))).0.starts_with("NO VERDICT"));
        assert_eq!(said(&all(first())).1.claims, 1);
    }

    #[test]
    fn five_rounds_are_a_look() {
        let plan = crate::rounds::tests::plan(&["sped", "slow"], 5);
        let journal = crate::journal::tests::journal();
        let said = markdown(&plan.found(&journal).unwrap(), 5, |_| &[REPLIES]);
        assert!(said.starts_with("This is a look"), "{said}");
        assert_eq!(only_a_look(6), None);
    }
}
