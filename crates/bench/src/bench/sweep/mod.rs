//! `bench sweep`: what a limit on accepts is worth below, at and beyond saturation: the 2004 paper's figures
//! 2, 8, 16 and 17.
//!
//! For each server and workload, the saturating rate is measured first; the rates of the experiment are
//! multiples of it that were chosen beforehand. Rounds of all limits at all rates then choose the best fixed
//! limit of each point. Fresh rounds judge `auto` by it: a limit that was chosen for being best owes a part
//! of that to chance, and so would whatever it is compared with in the same rounds. [`report`] says what came
//! of the first, [`judging`] of the second.

mod judging;
mod report;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::json;

use crate::claims::{self, REPLIES};
use crate::experiment::{self, Begun, Experiment, Sharing};
use crate::generator::Lengths;
use crate::journal::Journal;
use crate::remarks;
use crate::rounds::{CALIBRATING_ROUNDS, Found, MOST_ROUNDS, Order, Plan, Point, Stage};
use crate::series::Series;
use crate::subject::Variant;
use crate::trial::{Load, Site};
use crate::workload::{Kind, Workloads};

/// How the sweep is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    experiment: Experiment,
    #[command(flatten)]
    sharing: Sharing,
    /// A server: its name and settings; may be repeated
    #[arg(
        long,
        value_name = "NAME: --OPTION=VALUE ...",
        default_values = ["epoll: --architecture=sped", "select: --architecture=sped --events=select"]
    )]
    server: Vec<Variant>,
    /// Accept limits
    #[arg(long, value_name = "N|inf|auto", value_delimiter = ',', default_value = "auto,1,10,50,inf")]
    limits: Vec<String>,
    /// What clients ask for
    #[arg(long, value_enum, value_delimiter = ',', default_value = "one-packet,specweb99,one-packet-idle")]
    workloads: Vec<Kind>,
    /// Rates, as multiples of the saturating one
    #[arg(long, value_delimiter = ',', default_value = "0.8,1,2", value_parser = multiple)]
    multiples: Vec<f64>,
    /// How often everything is measured to choose the best fixed limits. Below 6 there are no intervals and
    /// no verdicts
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=MOST_ROUNDS))]
    rounds: u32,
    /// How often `auto` and the best fixed limit are measured after that, to judge `auto`. Below 6 there is
    /// no verdict
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=MOST_ROUNDS))]
    judging_rounds: u32,
    /// Length of one measurement in seconds
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Seconds before it: more than clients wait, or nobody has given up when it ends
    #[arg(long, default_value_t = 3.0)]
    warm_up: f64,
    /// How long a client waits for a connection, and then for each reply, in seconds. A SYN that was dropped
    /// is sent again after one
    #[arg(long, default_value_t = 1.1)]
    timeout: f64,
    /// How many connections may wait to be accepted
    #[arg(long, default_value_t = 128)]
    backlog: u32,
    /// Directories of the SPECweb99 set (5.1 MB each)
    #[arg(long, default_value_t = 10)]
    directories: u32,
    /// A look: two rounds of 1 s at saturation and twice that, and two that judge, from which nothing follows
    #[arg(long, conflicts_with_all = ["rounds", "judging_rounds", "seconds", "warm_up", "timeout",
          "multiples"])]
    quick: bool,
}

/// A server under a workload at a rate.
#[derive(Clone, Debug, PartialEq)]
struct At {
    /// Which of the points that calibrate has the saturating rate.
    calibrated: usize,
    server: String,
    kind: Kind,
    multiple: f64,
}

/// How many sessions at a time saturate a server.
const SESSIONS: u32 = 64;

/// The limit that is judged.
const AUTO: &str = "auto";

/// A server with the limits that it takes, each with the server's settings and called as the limit is.
type Limits = Vec<Variant>;

pub(crate) fn run(mut options: Options) -> Result<()> {
    if options.quick {
        (options.rounds, options.judging_rounds) = (2, 2);
        (options.seconds, options.warm_up, options.timeout) = (1.0, 1.0, 1.1);
        options.multiples = vec![1.0, 2.0];
    }
    let lengths = Lengths::of_seconds(options.warm_up, options.seconds, options.timeout)?;
    let turns = Some(options.sharing.turns());
    let settings = json!({
        "servers": options.server,
        "limits": options.limits,
        "backlog": options.backlog,
        "directories": options.directories,
    });
    let (mut journal, begun) = options.experiment.begin("sweep", turns, lengths, settings)?;
    let servers = options.servers(begun.as_ref(), &mut journal)?;
    let calibration = options.calibration(&servers);
    let choosing = options.choosing(&servers);
    let prepare = |Begun { site, .. }: &Begun| {
        let workloads = Workloads::prepare(site, &options.workloads, options.directories, 20_000)?;
        Ok::<_, anyhow::Error>((site.clone(), workloads))
    };
    let workloads = begun.as_ref().map(prepare).transpose()?;
    if let Some((site, workloads)) = &workloads {
        calibration.measure(&mut journal, |kind, servers, seed| {
            site.run(servers, workloads.of(*kind)?, Load::Closed(SESSIONS), seed)
        })?;
        measure(&choosing, &calibration, site, workloads, &mut journal)?;
    }
    // Whom auto is to be compared with follows from what was measured so far.
    let found = choosing.found(&journal)?;
    let judging = options.judging(&found);
    if let Some((site, workloads)) = &workloads {
        measure(&judging, &calibration, site, workloads, &mut journal)?;
    }
    drop(begun);
    options.print(&calibration, &found, &judging, &journal)
}

/// Runs what the journal does not have yet.
fn measure(
    plan: &Plan<At>,
    calibration: &Plan<Kind>,
    site: &Site,
    workloads: &Workloads,
    journal: &mut Journal,
) -> Result<()> {
    let rates = calibration.rates(journal)?;
    plan.measure(journal, |at, servers, seed| {
        let rate = rates[at.calibrated].filter(|rate| *rate > 0.0);
        let rate = rate.with_context(|| format!("{} answers nothing", at.server))?;
        site.run(servers, workloads.of(at.kind)?, Load::Open(rate * at.multiple), seed)
    })
}

impl Options {
    fn servers(&self, begun: Option<&Begun>, journal: &mut Journal) -> Result<Vec<(Variant, Limits)>> {
        let mut servers = Vec::new();
        for server in &self.server {
            let server = server.with("backlog", &self.backlog.to_string());
            let limits = self.limits.iter().map(|limit| limited(&server, limit)).collect();
            let limits = experiment::accepted(limits, begun, journal)?;
            if !limits.is_empty() {
                servers.push((server, limits));
            }
        }
        ensure!(!servers.is_empty(), "nothing is left to be measured");
        Ok(servers)
    }

    /// What each server answers when it always has 64 sessions to do, without an accept limit.
    ///
    /// Looking for the highest open rate that is answered would be truer to the word, but takes minutes: in a
    /// second or two, sessions ask for more or less than they should by several percent.
    fn calibration(&self, servers: &[(Variant, Limits)]) -> Plan<Kind> {
        let points = servers.iter().flat_map(|(server, limits)| {
            // With others beside it, as when it is measured: they have the caches in between.
            let abreast = unlimited_first(server, limits);
            self.workloads.iter().map(move |kind| {
                let name = format!("calibration, {}, {}", server.name, kind.name());
                Point::comparing(name, *kind, &abreast)
            })
        });
        self.experiment.plan(Stage::Calibrating, CALIBRATING_ROUNDS, Order::Abreast, points)
    }

    fn choosing(&self, servers: &[(Variant, Limits)]) -> Plan<At> {
        let mut points = Vec::new();
        let mut calibrated = 0;
        for (server, limits) in servers {
            for &kind in &self.workloads {
                for &multiple in &self.multiples {
                    let at = At { calibrated, server: server.name.clone(), kind, multiple };
                    points.push(Point::comparing(at.name(), at, limits));
                }
                calibrated += 1;
            }
        }
        self.experiment.plan(Stage::Measuring, self.rounds, Order::Abreast, points)
    }

    /// `auto` beside the best fixed limit, at each point where that has been chosen.
    fn judging(&self, chosen: &[Found<'_, At>]) -> Plan<At> {
        let point = |found: &Found<'_, At>| {
            let auto = &found.series.iter().find(|series| series.server.name == AUTO)?.server;
            let best = &best_fixed(&found.series)?.server;
            // Another choice would be another point: what was measured beside one limit is not compared with
            // another.
            let name = format!("judging against {}, {}", best.name, found.point.name);
            Some(Point::comparing(name, found.point.of.clone(), &[best.clone(), auto.clone()]))
        };
        let is_whole = |found: &&Found<'_, At>| {
            found.series.len() == found.point.servers.len() && found.series.iter().all(Series::is_whole)
        };
        let points = chosen.iter().filter(is_whole).filter_map(point);
        self.experiment.plan(Stage::Judging, self.judging_rounds, Order::Abreast, points)
    }

    fn print(
        &self,
        calibration: &Plan<Kind>,
        chosen: &[Found<'_, At>],
        judging: &Plan<At>,
        journal: &Journal,
    ) -> Result<()> {
        println!("{}", self.experiment.heading(journal)?);
        println!(
            "Backlog {}, {}; {} rounds of {} s after {} s of warm-up choose the best fixed limits, {} judge \
             auto; \
             clients wait {} s; medians.\n",
            self.backlog,
            self.sharing.told(),
            self.rounds,
            self.seconds,
            self.warm_up,
            self.judging_rounds,
            self.timeout,
        );
        for (number, (point, rate)) in calibration.points.iter().zip(calibration.rates(journal)?).enumerate()
        {
            let heading = point.name.replace("calibration, ", "");
            println!(
                "### {heading}\n\n1x is {:.0} requests/s: what is answered without a limit when there are \
                 always {SESSIONS} sessions.\n",
                rate.unwrap_or(0.0)
            );
            let here: Vec<&Found<'_, At>> =
                chosen.iter().filter(|found| found.point.of.calibrated == number).collect();
            println!("{}", report::tables(&here));
        }
        let all: Vec<&Series> = chosen.iter().flat_map(|found| &found.series).collect();
        println!("### Limits\n\n{}", claims::markdown(chosen, self.rounds, |_| &[REPLIES]));
        println!("{}", report::over_all(chosen, self.rounds));
        println!("{}", report::at_overload(chosen));
        let judged = judging.found(journal)?;
        println!(
            "### {AUTO} beside the best fixed limits, in fresh rounds\n\n{}",
            judging::markdown(&judged, self.judging_rounds)
        );
        let before = calibration.found(journal)?;
        let missing = chosen.iter().chain(&judged).map(|found| found.missing).sum();
        let judged = judged.iter().flat_map(|found| &found.series);
        let all: Vec<&Series> =
            before.iter().flat_map(|found| &found.series).chain(all).chain(judged).collect();
        print!("### Trials\n\n{}", remarks::markdown(&all, missing));
        Ok(())
    }
}

impl At {
    fn name(&self) -> String {
        format!("{}, {}, {}x", self.server, self.kind.name(), self.multiple)
    }
}

fn limited(server: &Variant, limit: &str) -> Variant {
    server.with("accept-limit", limit).called(limit)
}

/// A server without a limit, and with another that it has.
fn unlimited_first(server: &Variant, limits: &[Variant]) -> Vec<Variant> {
    let unlimited = limited(server, "inf");
    let other = limits.iter().find(|limit| **limit != unlimited).cloned();
    [unlimited].into_iter().chain(other).collect()
}

/// The fixed limit that is best by the median of what it has of the first's replies.
fn best_fixed(series: &[Series]) -> Option<&Series> {
    let first = series.first()?;
    let fixed = series.iter().filter(|one| one.server.name != AUTO && !one.server.is_again_of(&first.server));
    let measured = fixed.filter_map(|one| Some((one, one.ratio(first, REPLIES.of)?.median)));
    measured.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(one, _)| one)
}

fn multiple(text: &str) -> Result<f64, String> {
    let allowed = "a multiple of the saturating rate, from 0.1 to 10";
    let multiple: f64 = text.parse().map_err(|_| allowed.to_owned())?;
    if (0.1..=10.0).contains(&multiple) { Ok(multiple) } else { Err(allowed.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::journal;
    use crate::trial::tests::outcome;

    #[derive(Debug, clap::Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    fn options(words: &str) -> Options {
        use clap::Parser as _;
        Command::parse_from(format!("sweep {words}").split(' ')).options
    }

    #[test]
    fn auto_is_judged_by_a_limit_that_was_chosen_without_it_in_rounds_of_their_own() {
        let options = options("--workloads one-packet --multiples 1 --limits 1,10,auto --server epoll:");
        let mut journal = journal();
        let limits = options.limits.iter().map(|limit| limited(&options.server[0], limit)).collect();
        let choosing = options.choosing(&[(options.server[0].clone(), limits)]);
        assert!(options.judging(&choosing.found(&journal).unwrap()).points.is_empty());
        choosing
            .measure(&mut journal, |_, servers, _| {
                let replies = |server: &&Variant| match server.name.as_str() {
                    "10" => 20.0,
                    AUTO => 30.0,
                    _ => 10.0,
                };
                Ok(servers.iter().map(|server| outcome(replies(server))).collect())
            })
            .unwrap();
        let judging = options.judging(&choosing.found(&journal).unwrap());
        let names: Vec<&str> = judging.points[0].servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["10", "auto", "10 again"]);
        let mut seeds = Vec::new();
        judging
            .measure(&mut journal, |_, servers, seed| {
                seeds.push(seed);
                Ok(vec![outcome(1.0); servers.len()])
            })
            .unwrap();
        // All of them are fresh, and under arrivals that nothing was chosen by.
        assert_eq!(seeds.len(), 12);
        assert!(seeds.iter().all(|seed| *seed > u64::from(options.rounds)));
    }

    #[test]
    fn multiples_are_positive() {
        assert_eq!(multiple("1.5"), Ok(1.5));
        assert!(multiple("0").is_err() && multiple("x").is_err());
    }
}
