//! Decides whether the findings of others hold here.
//!
//! A finding claims a direction, and mostly a size. Both are hypotheses. Holm's correction treats them and
//! the verdicts of the experiment as one family of comparisons:
//!
//! - If a verdict is about the same direction, both are the same hypothesis. So a finding is never surer
//!   than the verdict on its pair.
//! - That our ratio differs from the paper's is a separate hypothesis. A t-test compares the ratios'
//!   logarithms with the nearer end of the paper's range.
//! - That two are equal within a margin needs two one-sided t-tests.
//!
//! If there is doubt about the trials of a finding, the result is "cannot tell".

use serde::Serialize;

use crate::analysis::series::{Found, Series};
use crate::analysis::verdict::{self, Doubts, Says, Verdict, WITHIN};
use crate::description::finding::{Finding, Is, Of, Relation, Size, Term};
use crate::description::load::Load;
use crate::description::quantity::Quantity;
use crate::statistics::{FEWEST_ROUNDS, Ratio, chance, chance_inside, chance_outside, median};

/// The result of checking a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Holding {
    /// The finding holds here.
    Holds,
    /// The direction is the same, but the size differs.
    OtherSize,
    /// The finding is contradicted here.
    Contradicted,
    /// The data do not decide; the reason.
    CannotTell(String),
}

impl Holding {
    /// The result in a word or two.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::OtherSize => "other size",
            Self::Contradicted => "contradicted",
            Self::CannotTell(_) => "cannot tell",
        }
    }
}

/// The verdicts of all points, for each of their quantities, and the result for each finding. With each
/// result comes the ratio of the left term to the right one, if it was measured. `confirming` are points of
/// confirmatory rounds, to which findings do not apply.
pub fn evaluate(
    found: &[Found],
    confirming: &[Found],
    findings: &[Finding],
    margin: f64,
    doubts: Doubts<'_>,
) -> (Vec<Verdict>, Vec<(Option<Ratio>, Holding)>) {
    let mut verdicts = verdict::by_figures_alone(found.iter().chain(confirming), margin, doubts);
    let all: Vec<Evidence<'_>> =
        findings.iter().map(|finding| Evidence::of(finding, found, &verdicts, margin, doubts)).collect();
    let chances: Vec<Vec<f64>> = all.iter().map(|evidence| evidence.chances(margin)).collect();
    let others: Vec<f64> = chances.iter().flatten().copied().collect();
    let family = verdict::correct(&mut verdicts, &others);
    let mut are_beyond = family.others.iter().copied();
    let holding = |(evidence, chances): (Evidence<'_>, &Vec<f64>)| {
        let tests: Vec<Test> = chances
            .iter()
            .map(|chance| Test { is_beyond: are_beyond.next() == Some(true), why: family.why(*chance) })
            .collect();
        (evidence.ratio, evidence.says(&tests, &verdicts, margin))
    };
    let holdings = all.into_iter().zip(&chances).map(holding).collect();
    (verdicts, holdings)
}

/// The reason if, for example, both servers have none of a quantity.
const NO_RATIO: &str = "a round has no ratio, as one of the two has nothing of it";

/// The result of a hypothesis within its family.
#[derive(Debug)]
struct Test {
    is_beyond: bool,
    /// The reason for "cannot tell" if it is not significant.
    why: String,
}

/// A finding's measurements, before any correction for chance.
#[derive(Debug)]
struct Evidence<'a> {
    finding: &'a Finding,
    /// The ratio of the left term to the right one.
    ratio: Option<Ratio>,
    /// In each round, the term that is claimed to have more, divided by the other one. For a claim of
    /// equality, the left term divided by the right one. An error if there is doubt.
    quotients: Result<Vec<f64>, String>,
    /// The verdict with the same hypothesis, and whether it is about the left term.
    verdict: Option<(usize, bool)>,
}

impl<'a> Evidence<'a> {
    fn of(
        finding: &'a Finding,
        found: &[Found],
        verdicts: &[Verdict],
        margin: f64,
        doubts: Doubts<'_>,
    ) -> Self {
        let relation = &finding.expect;
        let Some(sides) = sides(relation, found) else {
            let quotients = Err("not measured".to_owned());
            return Self { finding, ratio: None, quotients, verdict: None };
        };
        let ratios = ratios(relation, &sides);
        let verdict = verdicts.iter().enumerate().find_map(|(at, verdict)| {
            let is_left = is_of(verdict, finding)?;
            Some((at, is_left))
        });
        let doubt = match verdict {
            Some((at, _)) if relation.is != Is::Equal => verdict::doubt(&verdicts[at]),
            _ => sides.iter().find_map(|side| side.doubt(relation.quantity, margin, doubts)),
        };
        let ratio = Ratio::of(ratios.iter().copied());
        let quotients = match (doubt, &ratio) {
            (Some(why), _) => Err(why),
            (None, None) if ratios.is_empty() => Err("not measured".to_owned()),
            (None, None) => Err(NO_RATIO.to_owned()),
            (None, Some(Ratio { interval: None, .. })) => {
                Err(format!("fewer than {FEWEST_ROUNDS} rounds cannot show a difference"))
            }
            _ if relation.is == Is::Less => Ok(ratios.iter().map(|ratio| 1.0 / ratio).collect()),
            _ => Ok(ratios),
        };
        Self { finding, ratio, quotients, verdict: verdict.filter(|_| relation.is != Is::Equal) }
    }

    /// The paper's ratio of the term that is claimed to have more to the other one.
    fn size(&self) -> Option<Size> {
        if self.finding.expect.is == Is::Less {
            self.finding.size.map(Size::inverse)
        } else {
            self.finding.size
        }
    }

    /// The range of ratios that count as equal.
    fn band(&self) -> Option<Size> {
        let within = self.finding.within?;
        let Size { least, most } = self.finding.size.unwrap_or(Size { least: 1.0, most: 1.0 });
        Some(Size { least: least / (1.0 + within), most: most * (1.0 + within) })
    }

    /// The p-value of each hypothesis that is no verdict's: direction or equality, then the size.
    fn chances(&self, margin: f64) -> Vec<f64> {
        let Ok(quotients) = &self.quotients else { return Vec::new() };
        if let Some(band) = self.band() {
            let inside = chance_inside(quotients, band.least, band.most);
            // If one of the two is below 1, the other is 1.
            return vec![inside.min(chance_outside(quotients, band.least, band.most))];
        }
        let direction = self.verdict.is_none().then(|| chance(quotients, margin));
        let size = self.size().map(|size| chance_outside(quotients, size.least, size.most));
        direction.into_iter().chain(size).collect()
    }

    /// The result, given the tests of the hypotheses that are not a verdict's.
    fn says(&self, tests: &[Test], verdicts: &[Verdict], margin: f64) -> Holding {
        let quotients = match &self.quotients {
            Ok(quotients) => quotients,
            Err(why) => return Holding::CannotTell(why.clone()),
        };
        let Some(ratio) = Ratio::of(quotients.iter().copied()) else {
            return Holding::CannotTell(NO_RATIO.to_owned());
        };
        let mut tests = tests.iter();
        if let Some(band) = self.band() {
            return equality(quotients, &ratio, band, tests.next());
        }
        let direction = match self.verdict {
            Some((at, is_left)) => of_verdict(&verdicts[at], is_left == (self.finding.expect.is == Is::More)),
            None => of_figures(&ratio, tests.next(), margin),
        };
        let is_other_size = self
            .size()
            .zip(tests.next())
            .is_some_and(|(size, test)| test.is_beyond && is_outside(&ratio, size));
        match direction {
            Ok(Direction::Claimed) if is_other_size => Holding::OtherSize,
            Ok(Direction::Claimed) => Holding::Holds,
            Ok(Direction::Opposite) => Holding::Contradicted,
            Err(_) if is_other_size && ratio.median <= 1.0 + margin => Holding::Contradicted,
            Err(why) if is_other_size => Holding::CannotTell(format!("{why}; the size is another")),
            Err(why) => Holding::CannotTell(why),
        }
    }
}

/// The direction of a significant difference.
#[derive(Debug)]
enum Direction {
    Claimed,
    Opposite,
}

/// Whether a verdict is about a finding's pair of servers; if so, whether it is about the left term.
fn is_of(verdict: &Verdict, finding: &Finding) -> Option<bool> {
    let relation = &finding.expect;
    let (left, right) = (&relation.left, &relation.right);
    let is_plain = relation.terms().iter().all(|term| term.of == Of::Server);
    let is_at = relation.point() == Some(verdict.point.as_str()) && relation.quantity == verdict.quantity;
    let names = [&left.servers[0], &right.servers[0]];
    let is_left = names == [&verdict.server, &verdict.first];
    let is_right = names == [&verdict.first, &verdict.server];
    (is_plain && is_at && (is_left || is_right)).then_some(is_left)
}

/// The direction that a verdict has found, for a server that is claimed to have more, or to have less.
fn of_verdict(verdict: &Verdict, has_more: bool) -> Result<Direction, String> {
    match &verdict.says {
        Says::More if has_more => Ok(Direction::Claimed),
        Says::Less if !has_more => Ok(Direction::Claimed),
        Says::More | Says::Less => Ok(Direction::Opposite),
        Says::CannotTell(why) | Says::Failed(why) => Err(why.clone()),
    }
}

fn of_figures(ratio: &Ratio, test: Option<&Test>, margin: f64) -> Result<Direction, String> {
    match test {
        _ if !ratio.is_off(margin) => Err(WITHIN.to_owned()),
        Some(Test { is_beyond: false, why }) => Err(why.clone()),
        _ if ratio.is_above_one(margin) => Ok(Direction::Claimed),
        _ => Ok(Direction::Opposite),
    }
}

fn equality(quotients: &[f64], ratio: &Ratio, band: Size, test: Option<&Test>) -> Holding {
    // If this test can say anything, it was the one that counts.
    let is_inside = chance_inside(quotients, band.least, band.most) < 1.0;
    match test {
        Some(Test { is_beyond: false, why }) => Holding::CannotTell(why.clone()),
        _ if is_inside => Holding::Holds,
        _ if is_outside(ratio, band) => Holding::Contradicted,
        _ => Holding::CannotTell("the interval is neither inside nor outside the band".to_owned()),
    }
}

/// Whether the whole interval is beyond a range.
fn is_outside(ratio: &Ratio, Size { least, most }: Size) -> bool {
    ratio.interval.is_some_and(|interval| interval.upper < least || interval.lower > most)
}

/// The ratio of a relation's left term to the right one; `None` if a part of it was not measured.
pub(crate) fn ratio(relation: &Relation, found: &[Found]) -> Option<Ratio> {
    Ratio::of(ratios(relation, &sides(relation, found)?))
}

fn sides<'a>(relation: &Relation, found: &'a [Found]) -> Option<[Side<'a>; 2]> {
    Some([Side::of(&relation.left, found)?, Side::of(&relation.right, found)?])
}

/// The ratio of the left term to the right one, for each round in which both are good.
fn ratios(relation: &Relation, sides: &[Side<'_>; 2]) -> Vec<f64> {
    // The first server's figures beside each server are known for one point at a time.
    let is_beside = relation.point().is_some();
    let [left, right] = sides.each_ref().map(|side| side.rounds(relation.quantity, is_beside));
    left.into_iter().zip(right).filter_map(|(left, right)| Some(left? / right?)).collect()
}

/// The measurements of a term.
#[derive(Debug)]
struct Side<'a> {
    of: Of,
    /// The candidates for the best, or the points of a peak or an area.
    places: Vec<(&'a Found, &'a Series)>,
}

impl<'a> Side<'a> {
    /// `None` if a part of it was not measured.
    fn of(term: &Term, found: &'a [Found]) -> Option<Self> {
        let mut places = Vec::new();
        for point in &term.points {
            let at = found.iter().find(|found| found.point.name == *point)?;
            for server in &term.servers {
                places.push((at, at.series.iter().find(|series| series.server.name == *server)?));
            }
        }
        Some(Self { of: term.of, places })
    }

    /// The reason why the term allows no verdict, if so.
    fn doubt(&self, quantity: Quantity, margin: f64, doubts: Doubts<'_>) -> Option<String> {
        self.places.iter().find_map(|(found, series)| {
            verdict::failure(series)
                .or_else(|| doubts(&series.server.name, &found.point.name, quantity))
                .or_else(|| verdict::against_first(found, found.series.first()?, quantity, margin))
                .or_else(|| verdict::against(series, quantity))
        })
    }

    /// The term's value in each round.
    fn rounds(&self, quantity: Quantity, is_beside: bool) -> Vec<Option<f64>> {
        let of = quantity.of;
        let of_series = |series: &Series| -> Vec<Option<f64>> {
            let of_round = |round| {
                if is_beside { series.beside_first(round, of) } else { series.alone(round, of) }
            };
            (0..series.rounds.len()).map(of_round).collect()
        };
        let all: Vec<Vec<Option<f64>>> = self.places.iter().map(|(_, series)| of_series(series)).collect();
        let rounds = all.iter().map(Vec::len).min().unwrap_or(0);
        let of_round = |round| match self.of {
            Of::Server => all[0][round],
            Of::Best | Of::Peak => all[best_of_others(&all, round, quantity)?][round],
            Of::Area => self.area(all.iter().map(|values| values[round])),
        };
        (0..rounds).map(of_round).collect()
    }

    /// The area by trapezoids over the rates of its points.
    fn area(&self, values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
        let rates = self.places.iter().map(|(found, _)| rate(found.point.setting.load));
        let mut corners: Vec<(f64, f64)> =
            rates.zip(values).map(|(rate, value)| rate.zip(value)).collect::<Option<_>>()?;
        corners.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let strip = |pair: &[(f64, f64)]| (pair[1].0 - pair[0].0) * (pair[0].1 + pair[1].1) / 2.0;
        Some(corners.windows(2).map(strip).sum())
    }
}

/// The rate of an open load, or the multiple of what saturates the first server.
fn rate(load: Load) -> Option<f64> {
    match load {
        Load::Rate(rate) | Load::Times(rate) => Some(rate),
        Load::Sessions(_) | Load::Classes | Load::Most(_) => None,
    }
}

/// Chooses the best of several by all rounds except one. If that round took part in the choice, it would
/// favour the server that was lucky in it.
fn best_of_others(all: &[Vec<Option<f64>>], but: usize, quantity: Quantity) -> Option<usize> {
    let worth = |values: &[Option<f64>]| {
        let others = values.iter().enumerate().filter(|(round, _)| *round != but);
        let known = others.filter_map(|(_, value)| *value).filter(|value| !value.is_nan());
        Some(quantity.worth(median(known)?))
    };
    let worths: Vec<f64> = all.iter().map(|values| worth(values)).collect::<Option<_>>()?;
    worths.iter().enumerate().max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::description::experiment::Experiment;
    use crate::tests::{in_doubt, series};

    const EXPERIMENT: &str = "title = 't'\n\
        servers = ['first = nginx', 'a = nginx', 'b = nginx', 'c = nginx']\n\
        [[points]]\nworkload = 'single'\nload = ['0.5x', '1x', '2x']\n\
        compare = ['replies/s']\n";

    /// Ten rounds around `middle`, with random noise.
    fn around(name: &str, middle: f64) -> Series {
        let mut noise = [0.996, 1.003, 0.999, 1.002, 0.998, 1.001, 1.0, 0.997, 1.004, 1.0];
        noise.rotate_left(middle as usize % 10);
        series(name, &noise.map(|noise| middle * noise))
    }

    /// The results of findings, given what servers did at 0.5x, 1x and 2x.
    fn evaluated(findings: &[&str], at: [Vec<Series>; 3]) -> (Vec<Verdict>, Vec<(Option<Ratio>, Holding)>) {
        let table = |text: &&str| format!("[[findings]]\npaper = 'p'\nsays = 's'\nexpect = {text}\n");
        let text = EXPERIMENT.to_owned() + &findings.iter().map(table).collect::<String>();
        let experiment = Experiment::parse(&text).unwrap();
        let points = experiment.points.iter().cloned().zip(at);
        let found: Vec<Found> = points.map(|(point, series)| Found { point, series, missing: 0 }).collect();
        evaluate(&found, &[], &experiment.findings, 0.02, &|_, _, _| None)
    }

    /// The results of findings at 2x.
    fn words(findings: &[&str], series: Vec<Series>) -> Vec<&'static str> {
        let (_, holdings) = evaluated(findings, [Vec::new(), Vec::new(), series]);
        holdings.iter().map(|(_, says)| says.word()).collect()
    }

    fn why(holding: &Holding) -> &str {
        if let Holding::CannotTell(why) = holding { why } else { panic!("{holding:?}") }
    }

    const FIRST: &str = "'a > first in replies/s at single, 2x'";

    #[test]
    fn a_finding_is_held_against_the_size_of_its_effect() {
        let sized = format!("{FIRST}\nsize = 1.25");
        let ranged = format!("{FIRST}\nsize = [1.2, 1.3]");
        let backwards = "'first < a in replies/s at single, 2x'\nsize = [0.77, 0.83]";
        let pair = "'a > b in replies/s at single, 2x'\nsize = 1.25";
        for (ours, expected) in [
            (125.0, ["holds"; 5]),
            (110.0, ["holds", "other size", "other size", "other size", "other size"]),
            (160.0, ["holds", "other size", "other size", "other size", "other size"]),
            (100.0, ["cannot tell", "contradicted", "contradicted", "contradicted", "contradicted"]),
            (80.0, ["contradicted"; 5]),
        ] {
            let all = vec![series("first", &[100.0; 10]), around("a", ours), series("b", &[100.0; 10])];
            assert_eq!(words(&[FIRST, &sized, &ranged, backwards, pair], all), expected, "{ours}");
        }
        // On the paper's side and significantly less than the paper's size, but not significantly more than
        // 1.
        let wide = [0.99, 1.06, 1.04, 1.05, 1.01, 1.06, 1.05, 1.0, 1.06, 1.05].map(|ratio| 100.0 * ratio);
        let all = vec![series("first", &[100.0; 10]), series("a", &wide)];
        let (_, holdings) = evaluated(&[&sized], [Vec::new(), Vec::new(), all]);
        assert_eq!(why(&holdings[0].1), format!("{WITHIN}; the size is another"));
    }

    #[test]
    fn nothing_is_said_where_there_is_doubt_about_trials() {
        let sized = &format!("{FIRST}\nsize = 1.25")[..];
        let equal = "'a = first in replies/s at single, 2x'\nwithin = 0.05";
        let pair = "'a > b in replies/s at single, 2x'\nsize = 1.25";
        let said = |all: Vec<Series>| {
            let (_, holdings) = evaluated(&[sized, equal, pair], [Vec::new(), Vec::new(), all]);
            holdings.into_iter().map(|(_, says)| why(&says).to_owned()).collect::<Vec<_>>()
        };
        let all = |a| vec![around("first", 100.0), a, around("b", 100.0), around("c", 100.0)];
        assert_eq!(said(all(in_doubt(around("a", 100.0)))), ["it rests on trials that are not valid"; 3]);
        let mut failed = around("a", 100.0);
        failed.rounds[3].as_mut().unwrap().outcome.failed.push("unfairness: 30%".to_owned());
        assert_eq!(said(all(failed)), ["a failed: unfairness: 30%"; 3]);
        let mut short = around("a", 100.0);
        short.rounds[3].as_mut().unwrap().outcome.clients_were_short.push("CPU 1".to_owned());
        assert!(said(all(short)).iter().all(|why| why.contains("clients had no CPU left")));
        let mut missing = around("a", 100.0);
        missing.rounds[3] = None;
        assert_eq!(said(all(missing)), ["not all rounds are measured"; 3]);
        let off = all(around("a", 125.0)).into_iter().chain([around("first again", 90.0)]).collect();
        assert!(said(off).iter().all(|why| why.contains("differs from itself: 0.900")));
        assert_eq!(said(vec![around("first", 100.0)]), ["not measured"; 3]);
        let five = |name| series(name, &[100.0; 5]);
        let few = said(vec![five("first"), five("a"), five("b")]);
        assert_eq!(few, ["fewer than 6 rounds cannot show a difference"; 3]);
    }

    #[test]
    fn servers_that_are_not_steady_are_doubtful() {
        let text = format!("{EXPERIMENT}[[findings]]\npaper = 'p'\nsays = 's'\nexpect = {FIRST}\n");
        let mut experiment = Experiment::parse(&text).unwrap();
        let point = experiment.points.remove(2);
        let series = vec![around("first", 100.0), around("a", 125.0)];
        let found = [Found { point, series, missing: 0 }];
        let doubts =
            |server: &str, _: &str, _: Quantity| (server == "a").then(|| "a is not stationary".to_owned());
        let (_, holdings) = evaluate(&found, &[], &experiment.findings, 0.02, &doubts);
        assert_eq!(why(&holdings[0].1), "a is not stationary");
    }

    /// Six rounds whose difference from 100 is significant only among few comparisons.
    const UNSURE: [f64; 6] = [143.0, 108.0, 105.0, 133.0, 115.0, 125.0];

    #[test]
    fn a_finding_is_never_surer_than_the_verdict_on_its_pair() {
        let hundred = |name| series(name, &[100.0; 6]);
        let other = |name: &str, by: f64| series(name, &[0.0, 0.1, 0.2, -0.1, 0.0, -0.2].map(|of| by + of));
        let all = || vec![hundred("first"), series("a", &UNSURE), hundred("b")];
        assert_eq!(words(&[FIRST], all()), ["holds"]);
        // The same hypothesis, repeated many times, counts once.
        assert_eq!(words(&[FIRST; 20], all()), ["holds"; 20]);
        // More verdicts, or more findings on other pairs, make both uncertain.
        let at = || [vec![hundred("first"), other("a", 100.0), other("b", 100.0), other("c", 100.0)], all()];
        let [elsewhere, here] = at();
        let (verdicts, holdings) = evaluated(&[FIRST], [elsewhere, Vec::new(), here]);
        let on_pair = verdicts.iter().find(|of| of.server == "a" && of.point == "single, 2x").unwrap();
        assert!(on_pair.to_string().contains("among 5 comparisons"), "{on_pair}");
        assert!(why(&holdings[0].1).contains("among 5 comparisons"), "{holdings:?}");
        let pair = "'a > b in replies/s at single, 2x'";
        let (verdicts, holdings) = evaluated(&[FIRST, pair, pair, pair], [Vec::new(), Vec::new(), all()]);
        assert!(verdicts[0].to_string().contains("among 5 comparisons"), "{}", verdicts[0]);
        assert!(holdings.iter().all(|(_, says)| why(says).contains("among 5 comparisons")), "{holdings:?}");
    }

    #[test]
    fn equals_are_within_a_band_by_two_tests() {
        let equal = "'a = first in replies/s at single, 2x'\nwithin = 0.05";
        let keeps = "'a = first in replies/s at single, 2x'\nwithin = 0.02\nsize = 0.95";
        for (ours, expected) in [
            (100.0, ["holds", "contradicted"]),
            (95.3, ["cannot tell", "holds"]),
            (90.0, ["contradicted", "contradicted"]),
        ] {
            let all = vec![series("first", &[100.0; 10]), around("a", ours)];
            assert_eq!(words(&[equal, keeps], all), expected, "{ours}");
        }
        // With much noise, equality cannot be shown.
        let noisy = [0.8, 1.2, 0.9, 1.1, 1.0, 1.0].map(|ratio| 100.0 * ratio);
        assert_eq!(words(&[equal], vec![series("first", &[100.0; 6]), series("a", &noisy)]), ["cannot tell"]);
    }

    #[test]
    fn a_relation_may_go_across_points() {
        let ours = |findings: &[&str]| {
            let at = |a: f64, b: f64| vec![around("first", 100.0), around("a", a), around("b", b)];
            let (_, holdings) = evaluated(findings, [at(50.0, 51.0), at(100.0, 89.0), at(95.0, 63.0)]);
            let told = |(ratio, says): &(Option<Ratio>, Holding)| {
                (format!("{:.2}", ratio.unwrap().median), says.word())
            };
            holdings.iter().map(told).collect::<Vec<_>>()
        };
        let holds = |ratio: &str| (ratio.to_owned(), "holds");
        assert_eq!(ours(&["'a at single, 2x < a at single, 1x in replies/s'\nsize = 0.95"]), [holds("0.95")]);
        let peak = "peak of a at (single, 0.5x; single, 1x; single, 2x)";
        assert_eq!(
            ours(&[&format!("'a at single, 2x = {peak} in replies/s'\nwithin = 0.1")]),
            [holds("0.95")]
        );
        let best = "'best of (a; b) > first in replies/s at single, 2x'";
        assert_eq!(ours(&[best])[0], ("0.95".to_owned(), "contradicted"));
        // (50 + 100) / 2 * 0.5 + (100 + 95) / 2 over (51 + 89) / 2 * 0.5 + (89 + 63) / 2.
        let area = |of: &str| format!("area of {of} at (single, 2x; single, 0.5x; single, 1x)");
        let areas = format!("'{} > {} in replies/s'\nsize = [1.2, 1.22]", area("a"), area("b"));
        assert_eq!(ours(&[&areas]), [holds("1.21")]);
    }

    #[test]
    fn the_best_of_a_round_is_chosen_by_the_others() {
        // Each server is lucky once, and none is better.
        let lucky = |at: usize| (0..6).map(|round| Some(if round == at { 200.0 } else { 100.0 })).collect();
        let all: Vec<Vec<Option<f64>>> = (0..6).map(lucky).collect();
        let quantity = Quantity::named("replies/s").unwrap();
        let chosen: Vec<f64> =
            (0..6).map(|round| all[best_of_others(&all, round, quantity).unwrap()][round].unwrap()).collect();
        assert!(median(chosen.iter().copied()).unwrap() < 150.0, "{chosen:?}");
        // The better one is found, in spite of one round; where less is better, the other one.
        let two = vec![vec![Some(3.0), Some(3.0), Some(3.0)], vec![Some(9.0), Some(2.0), Some(2.0)]];
        assert_eq!(best_of_others(&two, 0, quantity), Some(0));
        let times = Quantity::named("p99 ms").unwrap();
        assert_eq!(best_of_others(&two, 0, times), Some(1));
        assert_eq!(best_of_others(&[vec![Some(1.0)]], 0, quantity), None);
    }

    /// How much a result says.
    fn sureness(word: &str) -> u32 {
        match word {
            "cannot tell" => 0,
            "holds" | "contradicted" => 1,
            _ => 2,
        }
    }

    proptest! {
        #[test]
        fn the_order_in_which_servers_are_named_says_nothing(
            ratios in vec(0.7_f64..1.5, 6..12), size in 1.03_f64..1.5,
        ) {
            for other in ["first", "b"] {
                let more = format!("'a > {other} in replies/s at single, 2x'\nsize = {size}");
                let less = format!("'{other} < a in replies/s at single, 2x'\nsize = {}", 1.0 / size);
                let equal = |left: &str, right: &str| {
                    format!("'{left} = {right} in replies/s at single, 2x'\nwithin = {}", size - 1.0)
                };
                let alike = [equal("a", other), equal(other, "a")];
                let hundred = vec![100.0; ratios.len()];
                let a: Vec<f64> = ratios.iter().map(|ratio| ratio * 100.0).collect();
                let all = || vec![series("first", &hundred), series("a", &a), series("b", &hundred)];
                let said = words(&[&more, &less], all());
                prop_assert_eq!(said[0], said[1]);
                let said = words(&[&alike[0], &alike[1]], all());
                prop_assert_eq!(said[0], said[1]);
            }
        }

        #[test]
        fn no_page_is_surer_of_a_finding_than_of_its_verdict(
            ratios in vec(vec(0.7_f64..1.5, 8), 3), size in 1.03_f64..1.5,
        ) {
            let names = ["a", "b", "c"];
            let servers = names.iter().zip(&ratios);
            let servers = servers.map(|(name, ratios)| {
                series(name, &ratios.iter().map(|ratio| 100.0 * ratio).collect::<Vec<_>>())
            });
            let all = [series("first", &[100.0; 8])].into_iter().chain(servers).collect();
            let claim = |name| format!("'{name} > first in replies/s at single, 2x'\nsize = {size}");
            let claims = names.map(claim);
            let backwards = names.map(|name| format!("'first > {name} in replies/s at single, 2x'"));
            let findings: Vec<&str> = claims.iter().chain(&backwards).map(String::as_str).collect();
            let (verdicts, holdings) = evaluated(&findings, [Vec::new(), Vec::new(), all]);
            for (at, (_, says)) in holdings.iter().enumerate() {
                let verdict = &verdicts[at % 3];
                let claimed = if at < 3 { Says::More } else { Says::Less };
                if matches!(says, Holding::Holds | Holding::OtherSize) {
                    prop_assert_eq!(&verdict.says, &claimed);
                }
                if verdict.says == claimed {
                    prop_assert!(matches!(says, Holding::Holds | Holding::OtherSize));
                }
            }
        }

        #[test]
        fn what_spreads_wider_is_never_surer(
            middle in -0.3_f64..0.3, spread in vec(0.001_f64..0.1, 3..6), by in 1.0_f64..4.0,
            size in 1.03_f64..1.5,
        ) {
            for other in ["first", "b"] {
                let said = |by: f64| {
                    let sides = spread.iter().flat_map(|of| [-of, *of]);
                    let a: Vec<f64> = sides.map(|of| 100.0 * (middle + by * of).exp()).collect();
                    let hundred = vec![100.0; a.len()];
                    let all = vec![series("first", &hundred), series("a", &a), series("b", &hundred)];
                    let claim = format!("'a > {other} in replies/s at single, 2x'\nsize = {size}");
                    let equal = format!("'a = {other} in replies/s at single, 2x'\nwithin = {}", size - 1.0);
                    words(&[&claim, &equal], all)
                };
                for (narrow, wide) in said(1.0).into_iter().zip(said(by)) {
                    let is_no_surer = sureness(wide) <= sureness(narrow);
                    let agrees = wide != "contradicted" || narrow == "contradicted";
                    prop_assert!(is_no_surer && agrees, "{narrow}, then {wide}");
                }
            }
        }
    }
}
