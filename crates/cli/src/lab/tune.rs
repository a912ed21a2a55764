//! `sluicelab tune`: searches for the settings with which a server is best by a measured quantity.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use lab::analysis::verdict::{Says, Verdict};
use lab::description::experiment::Experiment;
use lab::description::quantity::Quantity;
use lab::programs::interrupt;
use lab::progress::Progress;
use lab::record::tuned::{Dimension, FRESH, Found};
use lab::report::results::{JOURNAL, Results};
use lab::servers;
use lab::servers::spec::Spec;
use lab::statistics::{Interval, Ratio};
use lab::tuning::tune::{self, Search};
use toml::Table;

use super::asked::Asked;
use super::{BadInput, means, run};
use crate::console::print;

/// `sluicelab tune`.
#[derive(Debug, Args)]
#[command(after_help = "Combinations of settings are drawn so that each value occurs equally often. The \
    better half of them is measured again with more rounds, twice. With more time than the default, the \
    neighbours of the two best are tried as well. Finally the two best are measured again next to the \
    unchanged settings. Only this last measurement is reported, because the best of many is partly luck. The \
    output ends with the lines to write into the server's configuration, and how certain the gain is; or it \
    says that the unchanged settings are as good. --exhaustive measures all combinations, as the papers did, \
    however long that takes.\n\n\
    Before anything is measured, the server is asked whether it accepts each value.\n\n\
    To continue an interrupted search, repeat the command with --out DIR.\n\n\
    Exit codes: 0 found; 1 failure while running, or interrupted; 2 bad usage or input.")]
pub(crate) struct Options {
    /// The server, such as nginx or 'sluice: --backlog=128': sluice, nginx, lighttpd or apache, optionally
    /// with settings that stay fixed
    #[arg(value_name = "SERVER", default_value = "sluice")]
    server: Spec,
    /// A setting and its values, from the lowest to the highest, such as '--workers=1,2,4'; may be repeated
    /// [default: what matters most for the server]
    #[arg(long, value_name = "SETTING=VALUE,VALUE...", allow_hyphen_values = true)]
    vary: Vec<Dimension>,
    /// The quantity to optimize: replies/s, CPU us/reply, Mbit/s, 'mean ms', 'p99 ms', ...
    #[arg(long, value_name = "QUANTITY", default_value = "CPU us/reply",
        value_parser = Quantity::to_be_best)]
    by: Quantity,
    /// Take workload, load and everything else from the first point of this experiment
    #[arg(long, value_name = "EXPERIMENT.toml", conflicts_with_all = ["workload", "root", "load", "rate",
          "connections", "by"])]
    like: Option<PathBuf>,
    /// How long the search may take, approximately
    #[arg(long, value_name = "TIME", default_value = "3min", value_parser = units::parse_time)]
    budget: Duration,
    /// Measure all combinations
    #[arg(long, conflicts_with = "budget")]
    exhaustive: bool,
    /// Seed of the random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u32,
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    means: means::Where,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let dimensions =
        if options.vary.is_empty() { tune::usual(options.server.kind) } else { options.vary.clone() };
    let search = Search {
        server: options.server.clone(),
        dimensions,
        like: options.like()?,
        budget: options.budget,
        is_exhaustive: options.exhaustive,
        seed: options.seed,
    };
    search.check().map_err(|error| BadInput(error.to_string()))?;
    let directory = options.means.out.clone().unwrap_or_else(|| run::fresh("tune"));
    let means = options.means.means()?;
    search.possible(&directory, &means)?;
    interrupt::catch()?;
    let extent = search.extent().map_err(|error| BadInput(error.to_string()))?;
    let time = search.time(extent)?;
    super::tell(&means.where_it_runs());
    super::tell(&format!(
        "trying {} of {} combinations, and the two best again in {} rounds: about {:.0} minutes",
        extent.candidates,
        search.combinations(),
        extent.fresh_rounds,
        (time.as_secs_f64() / 60.0).ceil()
    ));
    let progress = Progress::new();
    let found = search.run(&directory, &means, &progress).map_err(|error| {
        // The same command continues, with --out if that was not given.
        let mut go_on = means.command.clone();
        if options.means.out.is_none() {
            go_on = format!("{go_on} --out {}", run::quoted_path(&directory));
        }
        run::or_how_to_go_on(error, &progress, &go_on, latest(&directory).as_deref())
    })?;
    for pass in &found.passes {
        print(&format!("\n{}, by {}:\n", pass.in_words(), found.quantity))?;
        for rank in pass.ranks.iter().take(8) {
            let mark = if rank.is_valid { "" } else { "!" };
            let median =
                rank.median.map_or("would not run".to_owned(), |median| format!("{median:.2}{mark}"));
            print(&format!("  {median:>14}  {}\n", rank.server))?;
        }
    }
    print(&format!(
        "\nas good as the best, within 2%, before the two best were measured again: {}\n\n",
        found.plateau.join("; ")
    ))?;
    run::tell(&directory)?;
    print(&format!("\n{}\n", conclusion(&search, &found, &directory)?))?;
    Ok(ExitCode::SUCCESS)
}

/// What to set, how certain the gain is, and what more time would add.
fn conclusion(search: &Search, found: &Found, directory: &Path) -> Result<String> {
    let Results { verdicts, .. } = Results::of(&directory.join(FRESH))?;
    let best = found.best().context("none of the two best could be measured again")?;
    let settings: Vec<String> =
        found.dimensions.iter().zip(&best.values).map(|(of, value)| of.with(value)).collect();
    let name = tune::named(&search.server, &settings);
    let verdict = verdicts.iter().find(|verdict| verdict.server == name);
    let tried = format!("{} of {} combinations were tried", found.tried(), search.combinations());
    let is_left = found.tried() < search.combinations();
    let more = search.longer()?.filter(|_| is_left).map_or(String::new(), |(budget, extent)| {
        let steps = if extent.steps { ", tries the neighbours of the two best," } else { "" };
        format!(
            " --budget {:.0}min tries {}{steps} and measures the two best again in {} rounds.",
            (budget.as_secs_f64() / 60.0).ceil(),
            extent.candidates,
            extent.fresh_rounds
        )
    });
    let outcome = Ending::of(verdict);
    let as_they_come = match &search.server.settings[..] {
        [] => "defaults".to_owned(),
        own => format!("settings as they are ({})", own.join(" ")),
    };
    let mut said = format!("{} {tried}.{more}", outcome.told(&as_they_come, &found.quantity));
    let whether = match outcome {
        Ending::Better(_) => "Write",
        Ending::Tie(_) => "If you want the best that was found all the same, write",
        Ending::Worse(_) | Ending::Unknown(_) => return Ok(said),
    };
    let lines = servers::lines(&search.server, &[search.server.settings.as_slice(), &settings].concat());
    let file = search.server.kind.configuration();
    write!(said, " {whether} into {file}:\n\n    {}", lines.join("\n    "))?;
    Ok(said)
}

/// How the best that was found compares with the unchanged settings.
#[derive(Debug, PartialEq)]
enum Ending {
    Better(Ratio),
    Worse(Ratio),
    /// No significant difference.
    Tie(Ratio),
    /// Nothing can be said, and why.
    Unknown(String),
}

impl Ending {
    fn of(verdict: Option<&Verdict>) -> Self {
        let Some(verdict) = verdict else {
            return Self::Unknown("the best was not measured next to them".to_owned());
        };
        match (&verdict.says, verdict.ratio) {
            (Says::Less | Says::More, Some(ratio)) if verdict.is_better() == Some(true) => {
                Self::Better(ratio)
            }
            (Says::Less | Says::More, Some(ratio)) => Self::Worse(ratio),
            (Says::CannotTell(_), Some(ratio)) if verdict.is_by_figures() => Self::Tie(ratio),
            (Says::CannotTell(why) | Says::Failed(why), _) => Self::Unknown(why.clone()),
            (Says::Less | Says::More, None) => Self::Unknown("there are no figures".to_owned()),
        }
    }

    /// In a sentence or two, without a table.
    fn told(&self, defaults: &str, quantity: &str) -> String {
        let measured = |ratio: &Ratio| {
            let range = ratio.interval.map_or_else(String::new, |Interval { lower, upper }| {
                format!(", and with 95% certainty {lower:.3} to {upper:.3} times")
            });
            format!("it has {:.3} times their {quantity}{range}, in {} rounds", ratio.median, ratio.pairs)
        };
        match self {
            Self::Better(ratio) => format!(
                "The best that was found is better than the {defaults} by {:.1}% ({}).",
                percent(ratio.median),
                measured(ratio)
            ),
            Self::Worse(ratio) => format!(
                "Keep the {defaults}: the best that was found is worse by {:.1}% ({}).",
                percent(ratio.median),
                measured(ratio)
            ),
            Self::Tie(ratio) => {
                let within = ratio.interval.map_or_else(
                    || percent(ratio.median),
                    |Interval { lower, upper }| percent(lower).max(percent(upper)),
                );
                let measured = measured(ratio);
                if within <= CLOSE {
                    format!(
                        "Keep the {defaults}: they are as good as the best that was found, within \
                         {within:.1}% ({measured})."
                    )
                } else {
                    format!(
                        "Keep the {defaults}: the best that was found is not significantly different; it may \
                         differ by up to {within:.1}% ({measured})."
                    )
                }
            }
            Self::Unknown(why) => {
                format!(
                    "Keep the {defaults}: the best that was found cannot be compared with them, because \
                     {why}."
                )
            }
        }
    }
}

/// Up to how many percent of difference settings are called as good.
const CLOSE: f64 = 5.0;

/// How far a ratio is from one.
fn percent(ratio: f64) -> f64 {
    (ratio - 1.0).abs() * 100.0
}

/// The directory of the most recent pass.
fn latest(directory: &Path) -> Option<PathBuf> {
    let passes = directory.read_dir().ok()?.flatten().map(|entry| entry.path());
    let begun = passes.filter_map(|pass| Some((pass.join(JOURNAL).metadata().ok()?.modified().ok()?, pass)));
    begun.max().map(|(_, pass)| pass)
}

impl Options {
    /// The experiment without its servers.
    fn like(&self) -> Result<Table> {
        if let Some(path) = &self.like {
            Experiment::read(path).map_err(BadInput)?;
            let mut table: Table = std::fs::read_to_string(path)?.parse()?;
            // One point, with the servers of the search.
            if let Some(points) = table.get_mut("points").and_then(toml::Value::as_array_mut) {
                points.truncate(1);
                points.iter_mut().filter_map(toml::Value::as_table_mut).for_each(one_point);
            }
            for key in ["judge", "findings", "profile", "settling"] {
                table.remove(key);
            }
            return Ok(table);
        }
        let (workload, load) = (self.asked.workload(std::slice::from_ref(&self.server))?, self.asked.load());
        let mut table = Table::new();
        table.insert("title".to_owned(), format!("Settings of {}: {workload}, {load}", self.server).into());
        for (key, value) in [("warm_up", "300 ms"), ("measured", "1 s")] {
            table.insert(key.to_owned(), value.into());
        }
        table.insert("slices".to_owned(), 2.into());
        let mut point = Table::new();
        point.insert("workload".to_owned(), workload.typed().into());
        point.insert("load".to_owned(), load.to_string().into());
        point.insert("compare".to_owned(), vec![self.by.name].into());
        table.insert("points".to_owned(), vec![toml::Value::Table(point)].into());
        Ok(table)
    }
}

/// The first of a point's workloads under the first of its loads, without its own servers.
fn one_point(point: &mut Table) {
    point.remove("servers");
    for key in ["workload", "load"] {
        let first = point.get(key).and_then(toml::Value::as_array).and_then(|all| all.first()).cloned();
        if let Some(first) = first {
            point.insert(key.to_owned(), first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tie_is_told_in_plain_words() {
        let ratio = Ratio::of([0.97, 0.98, 0.99, 1.0, 1.01, 1.02]).unwrap();
        let told = |ending: Ending| ending.told("defaults", "CPU us/reply");
        let tie = told(Ending::Tie(ratio));
        let within =
            "Keep the defaults: they are as good as the best that was found, within 3.0% (it has 0.995";
        assert!(tie.starts_with(within), "{tie}");
        assert!(tie.ends_with("certainty 0.970 to 1.020 times, in 6 rounds)."), "{tie}");
        let wide = told(Ending::Tie(Ratio::of([0.8, 0.9, 0.9, 1.0, 1.1, 1.2]).unwrap()));
        let wide_told = "is not significantly different; it may differ by up to 20.0% (it has 0.950";
        assert!(wide.contains(wide_told), "{wide}");
        let better = told(Ending::Better(Ratio::of([0.8; 6]).unwrap()));
        assert!(
            better.starts_with("The best that was found is better than the defaults by 20.0%"),
            "{better}"
        );
        let worse = told(Ending::Worse(Ratio::of([1.1; 6]).unwrap()));
        assert!(worse.starts_with("Keep the defaults: the best that was found is worse by 10.0%"), "{worse}");
        let unknown = Ending::of(None);
        assert!(told(unknown).ends_with("because the best was not measured next to them."));
    }
}
