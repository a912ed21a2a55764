//! `sluicelab tune`: looks for the settings with which a server does best.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use lab::description::experiment::Experiment;
use lab::description::quantity::Quantity;
use lab::judging::verdict::{Says, Verdict};
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
#[command(after_help = "Settings are drawn so that each value takes part as often as any other. The better \
    half of them is measured more often, twice. With more time than the default the neighbours of the two \
    best are tried as well. At last the two best are measured again beside the settings as they come, and \
    only that is reported: what was the best of many was lucky, too. It ends with the lines to write into \
    the server's configuration, and how sure that is; or it says that the settings as they come are as good. \
    Where --exhaustive is given all combinations are measured, as the papers did, however long it takes.\n\n\
    Before anything is measured, the server is asked whether it takes each value.\n\n\
    What was interrupted goes on with the same command and --out DIR.\n\n\
    Exit codes: 0 found; 1 failure while running, or interrupted; 2 bad usage or input.")]
pub(crate) struct Options {
    /// Whose settings: sluice, nginx, lighttpd, apache, with settings that stay as they are, such as
    /// 'sluice: --backlog=128'
    #[arg(value_name = "SERVER", default_value = "sluice")]
    server: Spec,
    /// A setting and its values, from the least to the most, such as '--workers=1,2,4'; may be repeated
    /// [default: what matters most for the server]
    #[arg(long, value_name = "SETTING=VALUE,VALUE...", allow_hyphen_values = true)]
    vary: Vec<Dimension>,
    /// What is to be best: replies/s, CPU us/reply, Mbit/s, 'mean ms', 'p99 ms', ...
    #[arg(long, value_name = "QUANTITY", default_value = "CPU us/reply",
        value_parser = Quantity::to_be_best)]
    by: Quantity,
    /// Workload, load and all else as an experiment's first point has them
    #[arg(long, value_name = "EXPERIMENT.toml", conflicts_with_all = ["workload", "root", "load", "rate",
          "connections", "by"])]
    like: Option<PathBuf>,
    /// How long it may take, about
    #[arg(long, value_name = "TIME", default_value = "3min", value_parser = units::parse_time)]
    budget: Duration,
    /// Measure all combinations
    #[arg(long, conflicts_with = "budget")]
    exhaustive: bool,
    /// What is drawn from
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
        // The same command, which finds the directory by itself only if that was named.
        let mut go_on = means.command.clone();
        if options.means.out.is_none() {
            go_on = format!("{go_on} --out {}", run::quoted_path(&directory));
        }
        run::or_how_to_go_on(error, &progress, &go_on, latest(&directory).as_deref())
    })?;
    for heat in &found.heats {
        print(&format!("\n{}, by {}:\n", heat.in_words(), found.quantity))?;
        for rank in heat.ranks.iter().take(8) {
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

/// What to set, how sure that is, and what more time would bring.
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

/// What became of the best that was found, beside the settings as they come.
#[derive(Debug, PartialEq)]
enum Ending {
    Better(Ratio),
    Worse(Ratio),
    /// No difference was seen.
    Tie(Ratio),
    /// Nothing can be said, and why.
    Unknown(String),
}

impl Ending {
    fn of(verdict: Option<&Verdict>) -> Self {
        let Some(verdict) = verdict else {
            return Self::Unknown("the best was not measured beside them".to_owned());
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

    /// In a sentence or two that need no table.
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
                        "Keep the {defaults}: that the best that was found differs from them is not certain; \
                         it may do so by up to {within:.1}% ({measured})."
                    )
                }
            }
            Self::Unknown(why) => {
                format!("Keep the {defaults}: nothing can be said of the best that was found, as {why}.")
            }
        }
    }
}

/// Up to how many percent what was found is called as good.
const CLOSE: f64 = 5.0;

/// How far a ratio is from one.
fn percent(ratio: f64) -> f64 {
    (ratio - 1.0).abs() * 100.0
}

/// The directory of the heat that was measured last.
fn latest(directory: &Path) -> Option<PathBuf> {
    let heats = directory.read_dir().ok()?.flatten().map(|entry| entry.path());
    let begun = heats.filter_map(|heat| Some((heat.join(JOURNAL).metadata().ok()?.modified().ok()?, heat)));
    begun.max().map(|(_, heat)| heat)
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

/// The first of a point's workloads under the first of its loads, without servers of its own.
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
        assert!(wide.contains("is not certain; it may do so by up to 20.0% (it has 0.950"), "{wide}");
        let better = told(Ending::Better(Ratio::of([0.8; 6]).unwrap()));
        assert!(
            better.starts_with("The best that was found is better than the defaults by 20.0%"),
            "{better}"
        );
        let worse = told(Ending::Worse(Ratio::of([1.1; 6]).unwrap()));
        assert!(worse.starts_with("Keep the defaults: the best that was found is worse by 10.0%"), "{worse}");
        let unknown = Ending::of(None);
        assert!(told(unknown).ends_with("as the best was not measured beside them."));
    }
}
