//! Verdicts of an experiment: which servers differ from the first of their point, by how much, and where
//! the data cannot tell.
//!
//! A verdict claims a difference only if all of these hold:
//!
//! - the interval of the median ratio is wholly beyond the margin that was set before the run;
//! - a t-test of the pairs is significant after Holm's correction over all comparisons of the experiment,
//!   including those of findings (see [`holding`](super::holding));
//! - the first server, measured twice, does not differ significantly from itself;
//! - all trials that it rests on are valid and good.
//!
//! Everything else is "cannot tell", which is no proof of equality.

use std::fmt;

use serde::Serialize;

use crate::analysis::series::Found;
use crate::analysis::series::{Series, Taken};
use crate::description::quantity::{Better, Quantity};
use crate::statistics::{FEWEST_ROUNDS, Interval, LEVEL, Ratio, bootstrap, chance, holm};

/// The result of comparing one server with the first at one point.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The point's name.
    pub point: String,
    /// The compared quantity.
    pub quantity: Quantity,
    /// The server's name.
    pub server: String,
    /// The name of the server with which it is compared.
    pub first: String,
    /// The ratio of the server's values to the first's. `None` without pairs.
    pub ratio: Option<Ratio>,
    /// The interval of a bootstrap over rounds and slices, if there are enough of them.
    pub bootstrap: Option<Interval>,
    /// The p-value: the probability of ratios this far beyond the margin if there is no difference.
    pub chance: f64,
    /// The conclusion.
    pub says: Says,
}

/// The conclusion of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Says {
    /// The server has less than the first.
    Less,
    /// The server has more than the first.
    More,
    /// The data do not show a difference; the reason.
    CannotTell(String),
    /// The server, or the first one, failed; how.
    Failed(String),
}

/// What is known of servers besides their trials. Given a server's name, a point's name and the compared
/// quantity, it returns a reason against any verdict: for example, that the server changes over time, or
/// that the quantity jumps between two states.
pub type Doubts<'a> = &'a dyn Fn(&str, &str, Quantity) -> Option<String>;

/// The verdicts of all points, for each of their quantities, before any correction for chance.
pub(super) fn by_figures_alone<'a>(
    found: impl IntoIterator<Item = &'a Found>,
    margin: f64,
    doubts: Doubts<'_>,
) -> Vec<Verdict> {
    found.into_iter().flat_map(|found| at_point(found, margin, doubts)).collect()
}

/// All comparisons of an experiment, for Holm's correction.
#[derive(Debug)]
pub(super) struct Family {
    count: usize,
    /// For each comparison that is not a verdict, whether it is significant.
    pub(super) others: Vec<bool>,
}

impl Family {
    /// The reason why an insignificant comparison has no verdict.
    pub(super) fn why(&self, chance: f64) -> String {
        let count = self.count;
        format!("{AMONG} {count} comparisons, chance alone makes one like it too often ({chance:.3})")
    }
}

/// Applies Holm's correction: a verdict that is not significant becomes "cannot tell". `others` are the
/// p-values of the other comparisons.
pub(super) fn correct(verdicts: &mut [Verdict], others: &[f64]) -> Family {
    let tests: Vec<&mut Verdict> = verdicts.iter_mut().filter(|verdict| doubt(verdict).is_none()).collect();
    let mut chances: Vec<f64> = tests.iter().map(|verdict| verdict.chance).collect();
    chances.extend(others);
    let are_beyond = holm(&chances, LEVEL);
    let family = Family { count: chances.len(), others: are_beyond[tests.len()..].to_vec() };
    for (verdict, is_beyond) in tests.into_iter().zip(are_beyond) {
        if verdict.is_a_difference() && !is_beyond {
            verdict.says = Says::CannotTell(family.why(verdict.chance));
        }
    }
    family
}

/// The reason why figures did not decide a verdict, if so.
pub(super) fn doubt(verdict: &Verdict) -> Option<String> {
    match &verdict.says {
        Says::Less | Says::More => None,
        Says::CannotTell(why) => (why != WITHIN).then(|| why.clone()),
        Says::Failed(how) => Some(how.clone()),
    }
}

/// The reason if the clients were short of CPU.
const CLIENTS_WERE_SHORT: &str = "clients had no CPU left to send more, so a server may be faster than \
    measured; compare CPU us/reply";

/// The start of the reason if a difference is not significant.
const AMONG: &str = "among";

/// The reason if the interval does not decide.
pub(super) const WITHIN: &str = "the interval is not beyond the margin";

/// The reason if some round has no ratio.
const NO_RATIO: &str = "in some round one of the two values is zero or unknown, so that there is no ratio";

fn at_point(found: &Found, margin: f64, doubts: Doubts<'_>) -> Vec<Verdict> {
    let Some(first) = found.series.first() else { return Vec::new() };
    let others = || found.series[1..].iter().filter(|other| !other.server.is_control_of(&first.server));
    let mut all = Vec::new();
    for &quantity in &found.point.compare {
        let against_first = against_first(found, first, quantity, margin);
        for other in others() {
            let quotients = other.quotients(first, quantity.of);
            let ratio = Ratio::of(quotients.iter().copied());
            let have_ratio = quotients.iter().all(|quotient| quotient.is_finite() && *quotient > 0.0);
            let names = [&other.server.name, &first.server.name];
            let doubt = names.iter().find_map(|name| doubts(name, &found.point.name, quantity));
            let doubt = doubt
                .or_else(|| against_first.clone())
                .or_else(|| against(first, quantity))
                .or_else(|| against(other, quantity));
            let says = match (failure(other).or_else(|| failure(first)), doubt) {
                (Some(how), _) => Says::Failed(how),
                (None, Some(why)) => Says::CannotTell(why),
                (None, None) if !have_ratio => Says::CannotTell(NO_RATIO.to_owned()),
                (None, None) => by_figures(ratio.as_ref(), margin),
            };
            all.push(Verdict {
                point: found.point.name.clone(),
                quantity,
                server: other.server.name.clone(),
                first: first.server.name.clone(),
                ratio,
                bootstrap: slices(other, first, quantity).and_then(|rounds| bootstrap(&rounds)),
                chance: chance(&quotients, margin),
                says,
            });
        }
    }
    all
}

/// How a server failed, if it did.
pub(super) fn failure(series: &Series) -> Option<String> {
    let failures = series.failures();
    let first = failures.first()?;
    Some(format!("{} failed: {first}", series.server.name))
}

/// The reason why trials of a server allow no verdict, if so.
pub(super) fn against(series: &Series, quantity: Quantity) -> Option<String> {
    let why = if quantity.is_of_pace && series.were_clients_short() {
        CLIENTS_WERE_SHORT
    } else if !series.is_whole() {
        "not all rounds are measured"
    } else if !series.is_valid() {
        "it rests on trials that are not valid"
    } else {
        return None;
    };
    Some(why.to_owned())
}

fn by_figures(ratio: Option<&Ratio>, margin: f64) -> Says {
    match ratio {
        Some(ratio) if ratio.is_below_one(margin) => Says::Less,
        Some(ratio) if ratio.is_above_one(margin) => Says::More,
        Some(Ratio { interval: Some(_), .. }) => Says::CannotTell(WITHIN.to_owned()),
        _ => Says::CannotTell(format!("fewer than {FEWEST_ROUNDS} rounds cannot show a difference")),
    }
}

/// The reason why a point allows no verdict, if so: the first server differs from itself, or cannot be
/// compared with itself.
pub(super) fn against_first(
    found: &Found,
    first: &Series,
    quantity: Quantity,
    margin: f64,
) -> Option<String> {
    let name = format!("{} of {}", quantity.name, first.server.name);
    if !first.is_whole() {
        return Some(format!("{name}: not all rounds are measured"));
    }
    if !first.is_valid() {
        return Some(format!("{name} rests on trials that are not valid"));
    }
    // Without the A/A control there is nothing to check.
    let control = found.series.iter().find(|series| series.server.is_control_of(&first.server))?;
    if !control.counts() {
        return Some(format!("{name}, measured again, has trials that are missing, failed or not valid"));
    }
    match control.ratio(first, quantity.of) {
        Some(ratio) if ratio.is_off(margin) => {
            Some(format!("{name}, measured twice, differs from itself: {ratio:.3}"))
        }
        Some(_) => None,
        None => Some(format!("{name}, measured twice, has no ratio to itself in some round")),
    }
}

/// The values of the slices of each round, of both servers.
fn slices(one: &Series, other: &Series, quantity: Quantity) -> Option<Vec<(Vec<f64>, Vec<f64>)>> {
    let of = quantity.of_slice()?;
    let of_round = |round: &Option<Taken>| Some(round.as_ref()?.outcome.slices.iter().map(of).collect());
    let values = |series: &Series| series.rounds.iter().map(of_round).collect::<Option<Vec<Vec<f64>>>>();
    Some(values(one)?.into_iter().zip(values(other)?).collect())
}

impl Verdict {
    /// Whether the verdict is a difference.
    pub fn is_a_difference(&self) -> bool {
        matches!(self.says, Says::Less | Says::More)
    }

    /// Whether valid figures decided the verdict, even if they show no difference.
    pub fn is_by_figures(&self) -> bool {
        let by_chance = |why: &str| why == WITHIN || why.starts_with(AMONG);
        self.is_a_difference() || matches!(&self.says, Says::CannotTell(why) if by_chance(why))
    }

    /// Whether the server is better than the first. `None` without a difference, or if neither more nor
    /// less is better.
    pub fn is_better(&self) -> Option<bool> {
        let has_more = match self.says {
            Says::More => true,
            Says::Less => false,
            Says::CannotTell(_) | Says::Failed(_) => return None,
        };
        match self.quantity.better {
            Better::More => Some(has_more),
            Better::Less => Some(!has_more),
            Better::Neither => None,
        }
    }

    /// The verdict in a word or two.
    pub fn word(&self) -> &'static str {
        match self.says {
            Says::Less | Says::More => match self.is_better() {
                Some(true) => "better",
                Some(false) => "worse",
                None => "differs",
            },
            Says::CannotTell(_) => "cannot tell",
            Says::Failed(_) => "failed",
        }
    }

    /// The better of the two, in words.
    pub fn badge(&self) -> String {
        match self.is_better() {
            Some(true) => format!("{} is better", self.server),
            Some(false) => format!("{} is better", self.first),
            None => self.word().to_owned(),
        }
    }
}

/// Formats the verdict as a sentence.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quantity, server, first, ratio, says, .. } = self;
        match (says, ratio) {
            (Says::Less | Says::More, Some(ratio)) => {
                let percent = (ratio.median - 1.0).abs() * 100.0;
                let word = if *says == Says::More { "more" } else { "less" };
                write!(f, "{server} has {percent:.1}% {word} {} than {first}", quantity.name)?;
                if let Some(Interval { lower, upper }) = ratio.interval {
                    write!(
                        f,
                        " ({lower:.3} to {upper:.3} times, with 95% certainty, {} rounds)",
                        ratio.pairs
                    )?;
                }
                Ok(())
            }
            (Says::Failed(how), _) => write!(f, "no verdict on {server} and {first}: {how}"),
            (Says::CannotTell(why), _) => {
                write!(f, "cannot tell {server} from {first} in {}", quantity.name)?;
                if let Some(ratio) = ratio {
                    write!(f, " ({ratio:.3} times)")?;
                }
                write!(f, ": {why}")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::holding;
    use crate::description::experiment::Experiment;
    use crate::record::outcome::Outcome;
    use crate::tests::{in_doubt, series};

    /// Ten rounds around `middle`, with random noise.
    fn around(name: &str, middle: f64) -> Series {
        let noise = [0.996, 1.003, 0.999, 1.002, 0.998, 1.001, 1.0, 0.997, 1.004, 1.0];
        series(name, &noise.map(|noise| middle * noise))
    }

    fn by(quantity: &str, series: Vec<Series>) -> Vec<Verdict> {
        let text = format!(
            "title = 't'\nservers = ['sluice']\n[[points]]\nworkload = 'single'\nload = '2x'\n\
             compare = ['{quantity}']"
        );
        let point = Experiment::parse(&text).unwrap().points.remove(0);
        let found = [Found { point, series, missing: 0 }];
        holding::evaluate(&found, &[], &[], 0.02, &|_, _, _| None).0
    }

    fn said(series: Vec<Series>) -> Vec<String> {
        by("replies/s", series).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn more_is_better_or_worse_or_neither() {
        let words = |quantity: &str, of: fn(&mut Outcome, f64)| {
            let series = [("sped", 100.0), ("more", 110.0), ("less", 90.0)].map(|(name, middle)| {
                let mut series = around(name, middle);
                for taken in series.rounds.iter_mut().flatten() {
                    let value = taken.outcome.replies_per_s;
                    of(&mut taken.outcome, value);
                }
                series
            });
            by(quantity, series.into()).iter().map(Verdict::word).collect::<Vec<_>>()
        };
        assert_eq!(words("replies/s", |_, _| ()), ["better", "worse"]);
        assert_eq!(words("errors %", |of, value| of.calls_errors_part = value), ["worse", "better"]);
        let differs = words("switches/s", |of, value| of.context_switches_per_s = value);
        assert_eq!(differs, ["differs", "differs"]);
    }

    #[test]
    fn of_what_one_of_them_has_none_there_is_no_ratio() {
        let drops = |name: &str, per_s: f64| {
            let mut series = around(name, 100.0);
            for taken in series.rounds.iter_mut().flatten() {
                taken.outcome.drops_per_s.insert("listen_drops".to_owned(), per_s);
            }
            series
        };
        for (first, other) in [(0.0, 0.0), (0.0, 5.0), (5.0, 0.0)] {
            let all = by("drops/s", vec![drops("sped", first), drops("other", other)]);
            let said = all[0].to_string();
            assert!(said.ends_with("is zero or unknown, so that there is no ratio"), "{said}");
        }
    }

    #[test]
    fn differences_are_beyond_the_margin() {
        let said = said(vec![
            series("sped", &[100.0; 10]),
            around("slow", 90.0),
            around("nearly", 98.5),
            around("fast", 110.0),
            around("sped again", 100.0),
        ]);
        assert_eq!(
            said,
            [
                "slow has 10.0% less replies/s than sped (0.897 to 0.903 times, with 95% certainty, 10 \
                 rounds)",
                "cannot tell nearly from sped in replies/s (0.985 (0.982 to 0.988) times): the interval is \
                 not beyond the margin",
                "fast has 10.0% more replies/s than sped (1.097 to 1.103 times, with 95% certainty, 10 \
                 rounds)",
            ]
        );
    }

    #[test]
    fn few_rounds_say_less_the_more_is_asked() {
        let six = |name: &str, ratios: [f64; 6]| series(name, &ratios.map(|ratio| 100.0 * ratio));
        let sped = || six("sped", [1.0; 6]);
        let slow = || six("slow", [0.70, 0.95, 0.97, 0.75, 0.90, 0.80]);
        let alone = said(vec![sped(), slow()]);
        assert!(alone[0].starts_with("slow has 15.0% less"), "{alone:?}");
        let same = ["one", "two", "three"].map(|name| six(name, [1.0, 1.01, 0.99, 1.0, 1.01, 0.99]));
        let far = six("far", [1.58, 1.82, 1.74, 1.74, 1.70, 1.80]);
        let page = said([sped(), slow(), far].into_iter().chain(same).collect());
        assert!(page[0].contains("cannot tell slow from sped") && page[0].contains("among 5"), "{page:?}");
        assert!(page[1].starts_with("far has 74.0% more"), "{page:?}");
        let five = said(vec![series("sped", &[100.0; 5]), series("slow", &[50.0; 5])]);
        assert!(five[0].contains("fewer than 6 rounds"), "{five:?}");
    }

    #[test]
    fn where_one_thing_differs_from_itself_nothing_is_said() {
        let all =
            |control: f64| vec![around("sped", 100.0), around("slow", 50.0), around("sped again", control)];
        let told = said(all(95.0));
        assert!(told[0].contains("measured twice, differs from itself: 0.950"), "{told:?}");
        // A difference within the margin does not count here, either.
        assert!(said(all(99.0))[0].starts_with("slow has 50.0% less"));
    }

    #[test]
    fn nothing_is_said_of_a_quantity_with_two_states() {
        let text = "title = 't'\nservers = ['nginx']\n[[points]]\nworkload = 'single'\nload = '2x'\n\
                    compare = ['replies/s', '2xx/s']";
        let point = Experiment::parse(text).unwrap().points.remove(0);
        let series = vec![around("sped", 100.0), around("slow", 50.0)];
        let jumps = |name: &str, _: &str, of: Quantity| {
            (name == "slow" && of.name == "replies/s").then(|| "two states: 40 and 60".to_owned())
        };
        let all = holding::evaluate(&[Found { point, series, missing: 0 }], &[], &[], 0.02, &jumps).0;
        let told: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert!(told[0].starts_with("cannot tell slow from sped in replies/s"), "{told:?}");
        assert!(told[0].ends_with(": two states: 40 and 60"), "{told:?}");
        assert!(told[1].starts_with("slow has 50.0% less 2xx/s than sped"), "{told:?}");
    }

    #[test]
    fn nothing_is_said_of_trials_that_are_not_valid_or_not_good() {
        let doubtful = said(vec![around("sped", 100.0), in_doubt(around("slow", 50.0))]);
        assert!(doubtful[0].contains("rests on trials that are not valid"), "{doubtful:?}");
        let mut short = around("slow", 50.0);
        for taken in short.rounds.iter_mut().flatten() {
            taken.outcome.clients_were_short.push("the generator's CPU 1 was saturated".to_owned());
        }
        let bound = said(vec![around("sped", 100.0), short]);
        assert!(bound[0].contains("clients had no CPU left to send more"), "{bound:?}");
        let mut bad = around("slow", 50.0);
        if let Some(Some(taken)) = bad.rounds.last_mut() {
            taken.outcome.failed.push("unfairness: 30%".to_owned());
        }
        let failed = said(vec![around("sped", 100.0), bad]);
        assert_eq!(failed, ["no verdict on slow and sped: slow failed: unfairness: 30%"]);
    }
}
