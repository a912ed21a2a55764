//! Searches for the settings with which a server does best under a workload.
//!
//! Settings are drawn as a Latin hypercube: each value of each setting takes part as often as any other.
//! Then come passes with fewer and fewer candidates in more and more rounds (successive halving). If there
//! is time, the next pass tries a step up and down around the two that remain. Last come confirmatory
//! rounds of the winner, the runner-up and the default settings. Only these rounds are reported, because a
//! winner owes a part of its figure to chance.
//!
//! Each pass is an experiment in its own directory below that of the search, so an interrupted search can
//! continue. See docs/experiments.md for the sources.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;

use crate::analysis::series::Series;
use crate::description::experiment::Experiment;
use crate::description::quantity::Quantity;
use crate::measuring::means::Means;
use crate::measuring::plan::number;
use crate::progress::Progress;
use crate::record::tuned::{ALL, Dimension, FOUND, FRESH, Found, PASS, Pass, Rank, STEP};
use crate::report::results::{EXPERIMENT, JOURNAL, Results};
use crate::run::{self, Refused};
use crate::servers::Tls;
use crate::servers::spec::{Kind, Spec};
use crate::statistics::FEWEST_ROUNDS;
use crate::unique::unique;

/// The settings that a search varies by default, because the papers found that they matter (Harji et al.
/// 2012, section 10): how many workers run at the same time, how sends wait, how many connections are
/// accepted in a row.
pub fn usual(kind: Kind) -> Vec<Dimension> {
    let all: &[&str] = match kind {
        Kind::Sluice => &[
            "--architecture=sped,symped,shared-symped,amped,pipeline",
            "--workers=1,2,4,8,16",
            "--accept-limit=auto,1,10,100,inf",
            "--send=non-blocking,blocking",
            "--small-file=0,16KiB,128KiB",
        ],
        Kind::Nginx => &[
            "worker_processes=1,2,4,8,16",
            "multi_accept=off,on",
            "sendfile=off,on",
            "tcp_nopush=off,on",
            "aio=off,threads",
        ],
        Kind::Lighttpd => &["server.max-worker=0,2,4,8,16", "server.network-backend=sendfile,writev"],
        Kind::Apache | Kind::ApacheWorker => &["ThreadsPerChild=16,32,64,128", "EnableSendfile=Off,On"],
        Kind::Caddy | Kind::Haproxy | Kind::Ceiling | Kind::Command | Kind::Running => &[],
    };
    all.iter().filter_map(|text| text.parse().ok()).collect()
}

/// A search: its server, settings and workload.
#[derive(Clone, Debug)]
pub struct Search {
    /// The server.
    pub server: Spec,
    /// The varied settings.
    pub dimensions: Vec<Dimension>,
    /// The experiment whose first point has the workload, as a table of TOML without servers.
    pub like: toml::Table,
    /// The approximate time of the whole search.
    pub budget: Duration,
    /// Whether to measure all combinations, as the papers did.
    pub is_exhaustive: bool,
    /// The seed of the random draw.
    pub seed: u32,
}

/// The rounds of each pass. Half of the candidates continue to the next.
const PASS_ROUNDS: [u32; 3] = [1, 2, 4];
/// The rounds for the neighbours of the two best.
const STEP_ROUNDS: u32 = 2;
/// The rounds for all combinations.
const ALL_ROUNDS: u32 = 2;
/// The most combinations with other values in which a server is asked whether it accepts a value.
const MOST_ASKED: usize = 24;

/// One value of each dimension, by its index there.
type Candidate = Vec<usize>;

/// The size of a search, as its budget allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The number of candidates that are drawn.
    pub candidates: usize,
    /// Whether the neighbours of the two best are tried.
    pub steps: bool,
    /// The number of confirmatory rounds.
    pub fresh_rounds: u32,
}

/// The most candidates, unless all combinations are measured.
const MOST_CANDIDATES: usize = 24;
/// With fewer candidates there are no steps: drawing more is a better use of the time.
const CANDIDATES_BEFORE_STEPS: usize = 12;
/// If there is time for fewer candidates only, there is no search.
const FEWEST_CANDIDATES: usize = 4;
/// The confirmatory rounds, if there is time for steps, or if all combinations are measured.
const FRESH_ROUNDS: u32 = 10;

/// The time of each trial for starting and stopping the server and the generators.
const BESIDES: Duration = Duration::from_millis(1_200);
/// The time to compare a candidate's replies with their files, once.
const COMPARING: Duration = Duration::from_secs(3);

impl Search {
    /// Checks that there is something to search for, and enough time. Call this before anything runs.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.server.running().is_none(),
            "{}: only servers that the lab starts are tuned",
            self.server
        );
        ensure!(!self.dimensions.is_empty(), "nothing is varied: name settings with --vary");
        for (number, dimension) in self.dimensions.iter().enumerate() {
            let name = &dimension.name;
            let is_its = |setting: &&String| setting.split('=').next() == Some(name.as_str());
            if let Some(setting) = self.server.settings.iter().find(is_its) {
                bail!(
                    "--vary {name}: it is set as well ({setting}); allowed: one of both, with all values to \
                     try in --vary"
                );
            }
            let is_twice = self.dimensions[..number].iter().any(|other| other.name == *name);
            ensure!(!is_twice, "--vary {name}: it is there twice; allowed: once, with all values to try");
        }
        self.extent()?;
        let experiment = self.experiment(&[vec![0; self.dimensions.len()]], 1)?;
        let by = experiment.points.first().and_then(|point| point.compare.first());
        by.map(|by| Quantity::to_be_best(by.name)).transpose().map_err(anyhow::Error::msg)?;
        experiment.check_files().map_err(anyhow::Error::msg)
    }

    /// Checks that the search can run with these means in that directory, as far as possible before
    /// measuring: the directory, programs, and whether the server accepts each value.
    ///
    /// # Errors
    /// The reason why it cannot run.
    pub fn possible(&self, directory: &Path, means: &Means) -> Result<(), Refused> {
        let refused = |error: anyhow::Error| Refused::new(&error);
        let extent = self.extent().map_err(refused)?;
        let (name, candidates, rounds) = self.first(extent);
        for other in [EXPERIMENT, JOURNAL] {
            if directory.join(other).exists() {
                let directory = directory.display();
                return Err(Refused::new(&anyhow!(
                    "{directory} has the results of another command: name another directory"
                )));
            }
        }
        let text = self.text(&name, &candidates, rounds).map_err(refused)?;
        let tls = run::check(&text, &directory.join(&name), means)?.experiment.points[0].setting.tls;
        if let Some(why) = run::objection(&self.server, tls, means)? {
            return Err(Refused::new(&anyhow!("{}: {why}", self.server)));
        }
        for (number, dimension) in self.dimensions.iter().enumerate() {
            for value in 0..dimension.values.len() {
                self.takes(number, value, tls, means)?;
            }
        }
        Ok(())
    }

    /// Checks that the server accepts a value: alone, or with some values of the others, which the value
    /// may need.
    fn takes(&self, dimension: usize, value: usize, tls: Option<Tls>, means: &Means) -> Result<(), Refused> {
        let chosen = &self.dimensions[dimension];
        let alone = self.with(&[chosen.with(&chosen.values[value])]);
        let Some(why) = run::objection(&alone, tls, means)? else { return Ok(()) };
        let with_others = self.all().into_iter().filter(|candidate| candidate[dimension] == value);
        for candidate in with_others.take(MOST_ASKED) {
            if run::objection(&self.server(&candidate), tls, means)?.is_none() {
                return Ok(());
            }
        }
        Err(Refused::new(&anyhow!("{alone}: {why}")))
    }

    /// The first pass: its name, its candidates, and its rounds.
    fn first(&self, extent: Extent) -> (String, Vec<Candidate>, u32) {
        if self.is_exhaustive {
            (ALL.to_owned(), self.all(), ALL_ROUNDS)
        } else {
            (format!("{PASS}1"), self.draw(extent.candidates), PASS_ROUNDS[0])
        }
    }

    /// Runs the missing parts of the search, in `directory`.
    pub fn run(&self, directory: &Path, means: &Means, progress: &Progress) -> Result<Found> {
        let mut passes: Vec<Pass> = Vec::new();
        let mut hold = |name: &str, candidates: &[Candidate], rounds| {
            let held = self.hold(&directory.join(name), name, candidates, rounds, means, progress);
            held.map(|(pass, best)| {
                passes.push(pass);
                best
            })
        };
        let extent = self.extent()?;
        let best = if self.is_exhaustive {
            hold(ALL, &self.all(), ALL_ROUNDS)?
        } else {
            let mut left = self.draw(extent.candidates);
            for (number, rounds) in PASS_ROUNDS.into_iter().enumerate() {
                let best = hold(&format!("{PASS}{}", number + 1), &left, rounds)?;
                left = best.into_iter().take((left.len() / 2).max(2)).collect();
            }
            if extent.steps { hold(STEP, &self.around(&left), STEP_ROUNDS)? } else { left }
        };
        hold(FRESH, &best[..best.len().min(2)], extent.fresh_rounds)?;
        let plateau = plateau(&passes[passes.len() - 2]);
        let quantity = self.experiment(&best[..1], 1)?.points[0].compare[0].name.to_owned();
        let found = Found { dimensions: self.dimensions.clone(), quantity, passes, plateau };
        fs::write(directory.join(FOUND), serde_json::to_string_pretty(&found)?)?;
        Ok(found)
    }

    /// The number of combinations.
    pub fn combinations(&self) -> usize {
        self.dimensions.iter().map(|dimension| dimension.values.len()).product()
    }

    /// The size of the search that its budget allows.
    ///
    /// # Errors
    ///
    /// There is too little time for any search.
    pub fn extent(&self) -> Result<Extent> {
        if self.is_exhaustive {
            return Ok(Extent { candidates: self.combinations(), steps: false, fresh_rounds: FRESH_ROUNDS });
        }
        let extents = [true, false].into_iter().flat_map(|steps| {
            let least = if steps { CANDIDATES_BEFORE_STEPS } else { FEWEST_CANDIDATES };
            let fresh_rounds = if steps { FRESH_ROUNDS } else { FEWEST_ROUNDS };
            let all = self.combinations();
            let extent = move |most: usize| Extent { candidates: most.min(all), steps, fresh_rounds };
            (least..=MOST_CANDIDATES).rev().map(extent)
        });
        let mut shortest = Duration::ZERO;
        for extent in extents {
            shortest = self.time(extent)?;
            if shortest <= self.budget {
                return Ok(extent);
            }
        }
        let least = (shortest.as_secs_f64() / 6.0).ceil() / 10.0;
        let budget = units::print_beside(self.budget.as_secs_f64() / 60.0, least, 1);
        bail!(
            "--budget: {budget} minutes are too few for a search; allowed: {least:.1} or more with these \
             settings"
        )
    }

    /// The size of a longer search, and its time.
    pub fn longer(&self) -> Result<Option<(Duration, Extent)>> {
        let candidates = MOST_CANDIDATES.min(self.combinations());
        let most = Extent { candidates, steps: true, fresh_rounds: FRESH_ROUNDS };
        Ok((!self.is_exhaustive && self.extent()? != most).then_some((self.time(most)?, most)))
    }

    /// The approximate time of a search of that size.
    pub fn time(&self, extent: Extent) -> Result<Duration> {
        let lengths = self.experiment(&[vec![0; self.dimensions.len()]], 1)?.points[0].setting.lengths;
        let Extent { candidates, steps, fresh_rounds } = extent;
        // The default settings take part in each pass; in confirmatory rounds they take part twice, beside
        // the two best.
        let mut trials = fresh_rounds * 4;
        let mut left = candidates as u32;
        for rounds in PASS_ROUNDS {
            trials += rounds * (left + 1);
            left = (left / 2).max(2);
        }
        // Each of the two best, and a step up and down in each dimension.
        let around = 2 * (1 + 2 * self.dimensions.len() as u32);
        trials += if steps { STEP_ROUNDS * (around + 1) } else { 0 };
        let compared = candidates as u32 + if steps { around } else { 0 };
        Ok((lengths.warm_up * 2 + lengths.measured + BESIDES) * trials + COMPARING * compared)
    }

    /// Draws a Latin hypercube: every value of each dimension appears as often as any other, in a random
    /// order for each dimension.
    fn draw(&self, count: usize) -> Vec<Candidate> {
        let mut random = Pcg64Mcg::seed_from_u64(u64::from(self.seed));
        let mut columns = Vec::new();
        for dimension in &self.dimensions {
            let mut column: Vec<usize> = (0..count).map(|number| number % dimension.values.len()).collect();
            column.shuffle(&mut random);
            columns.push(column);
        }
        let mut drawn: Vec<Candidate> =
            (0..count).map(|number| columns.iter().map(|column| column[number]).collect()).collect();
        drawn.sort();
        drawn.dedup();
        drawn
    }

    /// All combinations.
    fn all(&self) -> Vec<Candidate> {
        self.dimensions.iter().fold(vec![Vec::new()], |all, dimension| {
            let with = |candidate: &Candidate| {
                (0..dimension.values.len())
                    .map(|value| [candidate.as_slice(), &[value]].concat())
                    .collect::<Vec<_>>()
            };
            all.iter().flat_map(with).collect()
        })
    }

    /// The two best, and all that differ from one of them by one step in one dimension.
    fn around(&self, best: &[Candidate]) -> Vec<Candidate> {
        let best = &best[..best.len().min(2)];
        let step = |candidate: &Candidate, at: usize, step: isize| {
            let mut other = candidate.clone();
            other[at] = candidate[at].checked_add_signed(step)?;
            (other[at] < self.dimensions[at].values.len()).then_some(other)
        };
        let steps = best.iter().flat_map(|candidate| {
            (0..candidate.len()).flat_map(move |at| [-1, 1].map(|by| step(candidate, at, by)))
        });
        unique(best.iter().cloned().chain(steps.flatten()))
    }

    /// The server with a candidate's settings.
    fn server(&self, candidate: &Candidate) -> Spec {
        let chosen = self.dimensions.iter().zip(candidate);
        let chosen = chosen.map(|(dimension, value)| dimension.with(&dimension.values[*value]));
        self.with(&chosen.collect::<Vec<_>>())
    }

    /// The server with these settings added.
    fn with(&self, chosen: &[String]) -> Spec {
        let settings = [self.server.settings.as_slice(), chosen].concat();
        Spec { name: named(&self.server, chosen), settings, ..self.server.clone() }
    }

    /// The text of a pass's experiment. The default settings take part in each, first.
    fn text(&self, name: &str, candidates: &[Candidate], rounds: u32) -> Result<String> {
        let mut table = self.like.clone();
        let default = Spec { name: AS_IT_COMES.to_owned(), ..self.server.clone() };
        let servers = [default].into_iter().chain(candidates.iter().map(|candidate| self.server(candidate)));
        table.insert("servers".to_owned(), servers.map(|server| server.typed()).collect::<Vec<_>>().into());
        table.insert("rounds".to_owned(), i64::from(rounds).into());
        // Confirmatory rounds have new arrivals.
        let seed = self.seed ^ (number(name) & 0x7fff_ffff) as u32;
        table.insert("seed".to_owned(), i64::from(seed).into());
        // Only confirmatory rounds have an A/A control.
        table.insert("again".to_owned(), (name == FRESH).into());
        Ok(toml::to_string(&table)?)
    }

    fn experiment(&self, candidates: &[Candidate], rounds: u32) -> Result<Experiment> {
        Experiment::of_options(&self.text("", candidates, rounds)?).map_err(anyhow::Error::msg)
    }

    /// Runs an experiment with these candidates, and returns them in order, the best first. Those that
    /// don't run are left out.
    fn hold(
        &self,
        directory: &Path,
        name: &str,
        candidates: &[Candidate],
        rounds: u32,
        means: &Means,
        progress: &Progress,
    ) -> Result<(Pass, Vec<Candidate>)> {
        let pass = Pass { name: name.to_owned(), rounds, ranks: Vec::new() };
        progress.remark(&format!("{}: {} settings", pass.in_words(), candidates.len()));
        run::run(&self.text(name, candidates, rounds)?, directory, means, progress)?;
        let results = Results::of(directory)?;
        let found = results.found.first().context("an experiment without points")?;
        let quantity = *found.point.compare.first().context("nothing is compared")?;
        let rank = |candidate: &Candidate| {
            let server = self.server(candidate);
            let series = found.series.iter().find(|series| series.server == server);
            let good = series.filter(|series| series.failures().is_empty());
            let values = self.dimensions.iter().zip(candidate).map(|(of, value)| of.values[*value].clone());
            Rank {
                server: server.to_string(),
                values: values.collect(),
                median: good.and_then(|series| series.median(quantity.of)),
                is_valid: series.is_none_or(Series::is_valid),
            }
        };
        let mut ranked: Vec<(&Candidate, Rank)> = candidates.iter().map(|one| (one, rank(one))).collect();
        // Candidates without a figure come last.
        let worth = |rank: &Rank| rank.median.map_or(f64::NEG_INFINITY, |median| quantity.worth(median));
        ranked.sort_by(|(_, one), (_, other)| worth(other).total_cmp(&worth(one)));
        let run = ranked.iter().filter(|(_, rank)| rank.median.is_some());
        let best: Vec<Candidate> = run.map(|(candidate, _)| (*candidate).clone()).collect();
        let (count, see) = (candidates.len(), directory.display());
        ensure!(!best.is_empty(), "none of {count} candidates runs; see {see}");
        let ranks = ranked.into_iter().map(|(_, rank)| rank).collect();
        Ok((Pass { ranks, ..pass }, best))
    }
}

/// The name of a server with these settings besides its own.
pub fn named(server: &Spec, settings: &[String]) -> String {
    [server.settings.as_slice(), settings].concat().join(" ").replace('=', " ").replace("--", "")
}

/// The name of the server with its default settings.
pub const AS_IT_COMES: &str = "as it comes";

/// How far below the best still counts as equally good, as a fraction.
const PLATEAU: f64 = 0.02;

fn plateau(pass: &Pass) -> Vec<String> {
    let Some(best) = pass.ranks.first().and_then(|rank| rank.median) else { return Vec::new() };
    let is_near = |rank: &&Rank| rank.median.is_some_and(|median| (median / best - 1.0).abs() <= PLATEAU);
    pass.ranks.iter().filter(is_near).map(|rank| rank.server.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(budget: u64) -> Search {
        let like = "title = 't'\nmeasured = '2 s'\n[[points]]\nworkload = 'single'\nload = '64 sessions'";
        Search {
            server: "sluice: --backlog=128".parse().unwrap(),
            dimensions: ["--workers=1,2,4,8", "--send=blocking,nonblocking"]
                .map(|text| text.parse().unwrap())
                .into(),
            like: like.parse().unwrap(),
            budget: Duration::from_secs(budget),
            is_exhaustive: false,
            seed: 1,
        }
    }

    #[test]
    fn every_value_is_drawn_as_often_as_any_other() {
        let drawn = search(1_000).draw(8);
        assert!(drawn.len() >= 4 && drawn.len() <= 8, "{drawn:?}");
        for value in 0..4 {
            assert!(drawn.iter().any(|candidate| candidate[0] == value), "{drawn:?}");
        }
        assert_eq!(drawn, search(1_000).draw(8));
        assert_eq!(search(1_000).all().len(), 8);
    }

    #[test]
    fn a_step_changes_one_setting_by_one() {
        let around = search(1_000).around(&[vec![0, 1], vec![2, 0], vec![3, 1]]);
        let expected = [[0, 1], [2, 0], [1, 1], [0, 0], [1, 0], [3, 0], [2, 1]];
        assert_eq!(around, expected.map(|candidate| candidate.to_vec()));
    }

    #[test]
    fn a_pass_is_an_experiment_with_the_settings_as_they_come() {
        let experiment = search(1_000).experiment(&[vec![3, 0]], 2).unwrap();
        let servers: Vec<String> = experiment.servers().iter().map(|server| server.typed()).collect();
        let expected = [
            "as it comes = sluice: --backlog=128",
            "backlog 128 workers 8 send blocking = sluice: --backlog=128 --workers=8 --send=blocking",
        ];
        assert_eq!(servers, expected);
        assert_eq!((experiment.rounds, experiment.control), (2, false));
    }

    #[test]
    fn a_budget_says_how_much_is_tried() {
        let mut all = search(3_600);
        all.dimensions.push("--backlog=1,2,3,4,5".parse().unwrap());
        assert_eq!(all.combinations(), 40);
        let extent = |budget: u64| Search { budget: Duration::from_secs(budget), ..all.clone() }.extent();
        let long = Extent { candidates: MOST_CANDIDATES, steps: true, fresh_rounds: FRESH_ROUNDS };
        assert_eq!(extent(3_600).unwrap(), long);
        let short = extent(400).unwrap();
        assert!(!short.steps && (FEWEST_CANDIDATES..MOST_CANDIDATES).contains(&short.candidates));
        assert_eq!(short.fresh_rounds, FEWEST_ROUNDS);
        assert!(all.time(short).unwrap() < Duration::from_secs(400));
        let error = extent(60).unwrap_err().to_string();
        assert!(error.starts_with("--budget: 1.0 minutes are too few for a search; allowed: "), "{error}");
        // The draw is never larger than the number of combinations.
        assert_eq!(search(3_600).extent().unwrap().candidates, 8);
        assert_eq!(search(3_600).longer().unwrap(), None);
        let (time, longer) = Search { budget: Duration::from_secs(400), ..all }.longer().unwrap().unwrap();
        assert!(longer == long && time > Duration::from_secs(400));
    }

    #[test]
    fn a_setting_is_either_set_or_varied() {
        let mut search = search(3_600);
        search.check().unwrap();
        search.dimensions[0] = "--backlog=1,2".parse().unwrap();
        let error = search.check().unwrap_err().to_string();
        assert!(error.starts_with("--vary --backlog: it is set as well (--backlog=128); allowed"), "{error}");
        search.dimensions[0] = search.dimensions[1].clone();
        let error = search.check().unwrap_err().to_string();
        assert!(error.starts_with("--vary --send: it is there twice"), "{error}");
    }

    #[test]
    fn what_is_varied_is_a_setting_with_values() {
        for kind in [Kind::Sluice, Kind::Nginx, Kind::Lighttpd, Kind::Apache] {
            assert!(usual(kind).len() >= 2, "{kind:?}");
        }
        for text in ["--workers", "--workers=1", "=1,2", "--workers=1,"] {
            assert!(text.parse::<Dimension>().unwrap_err().contains("allowed: a setting and its values"));
        }
    }

    #[test]
    fn a_plateau_is_within_two_percent() {
        let rank = |server: &str, median| Rank {
            server: server.to_owned(),
            values: Vec::new(),
            median,
            is_valid: true,
        };
        let ranks =
            vec![rank("a", Some(100.0)), rank("b", Some(98.5)), rank("c", Some(97.0)), rank("d", None)];
        assert_eq!(plateau(&Pass { name: String::new(), rounds: 1, ranks }), ["a", "b"]);
    }
}
