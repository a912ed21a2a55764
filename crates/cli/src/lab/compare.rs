//! `sluicelab compare`: two servers or more under one workload, in pairs, and a verdict in one screen. It
//! writes an experiment's file of its own, and runs that.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use lab::description::load::Load;
use lab::description::quantity::COST;
use lab::description::workload::Workload;
use lab::judging::verdict::Verdict;
use lab::report::results::{LeftOut, Results};
use lab::servers::spec::Spec;
use lab::statistics::FEWEST_ROUNDS;

use super::{means, run};

/// `sluicelab compare`.
#[derive(Debug, Args)]
#[command(
    after_help = "A server is one that the lab knows and configures (sluice, nginx, lighttpd, apache, \
    apache-worker), one with settings ('sluice: --architecture=amped'), with a name ('four = sluice: \
    --workers=4'), another build ('old = sluice@path/to/sluice'), or any command ('mine = ./server --port \
    {port} {root}').\n\n\
    Servers are started anew in each round, and asked in slices that alternate between them, each on a whole \
    CPU. The first is held against itself as well (\"again\"). What decides is the CPU time for each reply, \
    and at a rate ('500 requests/s', '0.5x') also how long clients wait; under more load than the first can \
    serve ('2x') it is the number of replies. \"worse\" says of another server that it takes more than the \
    first, or gives less. A difference is told where it is beyond the margin with 95% certainty; where it \
    says \"cannot tell\", there may be one. The report has throughput and memory as well, and the files by \
    which nginx and others were configured, which can be changed ('nginx: sendfile=off').\n\n\
    Under '2x' each server has 30% of a CPU (root only), as clients with one CPU could not ask a whole one \
    for more than it can do. Its figures compare servers; they are none of a whole CPU."
)]
pub(crate) struct Options {
    /// Who is compared; the first with all others
    #[arg(value_name = "SERVER", required = true, num_args = 2..)]
    servers: Vec<Spec>,
    /// What clients ask for: one-packet, single, fixed, specweb99, support, or mine: root=DIR sessions=FILE
    #[arg(long, default_value = "specweb99")]
    workload: String,
    /// How much: '64 sessions' at a time, '500 requests/s', '0.5x' of what the first can serve
    #[arg(long, default_value = "64 sessions")]
    load: Load,
    /// How often everything is measured. Below 6 nothing can be told
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// For how long each server is measured in each round
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = units::parse_time)]
    measured: Duration,
    /// What is called a difference is larger than this, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    margin: f64,
    /// For how long each server is watched once, for how it changes with time; 0: not at all
    #[arg(long, value_name = "TIME", default_value = "25s", value_parser = units::parse_time)]
    settling: Duration,
    /// Sample for so long, after all else, where each server's CPU time goes (perf(1), as root)
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    profile: Option<Duration>,
    /// Exit with 4 if a server is worse than the first, for builds to take notice of
    #[arg(long)]
    fail_if_worse: bool,
    /// What the order and the arrivals are drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u32,
    /// Two minutes: 6 rounds, and nobody is watched for longer
    #[arg(long, conflicts_with_all = ["rounds", "settling"])]
    quick: bool,
    #[command(flatten)]
    means: means::Where,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let text = options.experiment()?;
    let directory = options.means.out.clone().unwrap_or_else(|| run::fresh("compare"));
    run::carry_out(&text, &directory, &options.means)?;
    let results = Results::of(&directory)?;
    if !all_took_part(&results) {
        return Ok(ExitCode::FAILURE);
    }
    let is_worse = |verdict: &Verdict| verdict.is_a_difference() && !verdict.is_better();
    let fails = options.fail_if_worse && results.verdicts.iter().any(is_worse);
    Ok(if fails { ExitCode::from(WORSE) } else { ExitCode::SUCCESS })
}

/// Whether each server was compared. Which one was not, and why, is told.
fn all_took_part(results: &Results) -> bool {
    for LeftOut { server, why, .. } in &results.left_out {
        super::tell(&format!("sluicelab: {server} was not compared: {why}"));
    }
    results.left_out.is_empty()
}

/// What a comparison ends with that was not to find anything worse.
const WORSE: u8 = 4;

/// The part of its CPU that each server has where more is asked for than it can serve, in percent: with a
/// whole one, servers would be faster than clients that have one as well.
const SHARE: u32 = 30;

impl Options {
    /// By what: in a closed loop by the cost alone, since replies/s say the same or are the clients'.
    fn compare(&self) -> Vec<&'static str> {
        match self.load {
            Load::Sessions(_) => vec![COST.name],
            load => load.usually_compared().into_iter().map(|of| of.name).collect(),
        }
    }

    /// The file that says the same.
    fn experiment(&self) -> Result<String> {
        self.workload.parse::<Workload>().map_err(super::BadInput)?;
        let (rounds, settling) =
            if self.quick { (FEWEST_ROUNDS, Duration::ZERO) } else { (self.rounds, self.settling) };
        let names: Vec<&str> = self.servers.iter().map(|server| server.name.as_str()).collect();
        let mut text = String::new();
        let mut line = |key: &str, value: &str| writeln!(text, "{key} = {value}");
        line("title", &quoted(&format!("{}: {}, {}", names.join(", "), self.workload, self.load)))?;
        let servers: Vec<String> =
            self.servers.iter().map(|server| format!("  {},\n", quoted(&typed(server)))).collect();
        line("servers", &format!("[\n{}]", servers.concat()))?;
        line("rounds", &rounds.to_string())?;
        line("seed", &self.seed.to_string())?;
        line("margin", &(self.margin / 100.0).to_string())?;
        line("settling", &quoted(&format!("{} s", settling.as_secs_f64())))?;
        if let Some(profile) = self.profile {
            line("profile", &quoted(&format!("{} s", profile.as_secs_f64())))?;
        }
        line("measured", &quoted(&format!("{} s", self.measured.as_secs_f64())))?;
        if self.load.is_too_much() && self.means.may_share() {
            line("share", &SHARE.to_string())?;
        }
        line("\n[[points]]\nworkload", &quoted(&self.workload))?;
        line("load", &quoted(&self.load.to_string()))?;
        let compare: Vec<String> = self.compare().iter().map(|of| quoted(of)).collect();
        line("compare", &format!("[{}]", compare.join(", ")))?;
        Ok(text)
    }
}

/// With programs found from anywhere.
fn typed(server: &Spec) -> String {
    let mut server = server.clone();
    server.program = server.program.map(|path| path.canonicalize().unwrap_or(path));
    server.typed()
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
