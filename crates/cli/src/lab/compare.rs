//! `sluicelab compare`: compares two or more servers under one workload, in pairs, and prints the verdicts on
//! one screen. It writes an experiment file and runs that.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use lab::analysis::verdict::Verdict;
use lab::description::load::Load;
use lab::description::quantity::{COST, P99, REPLIES};
use lab::report::results::{LeftOut, Results};
use lab::servers::spec::Spec;
use lab::servers::tls::{Cipher, Group, Version};
use lab::statistics::FEWEST_ROUNDS;

use super::asked::Asked;
use super::{means, run};

/// `sluicelab compare`.
#[derive(Debug, Args)]
#[command(after_help = "Which of two servers is faster for your file:\n  \
    sluicelab compare nginx sluice --root /srv/www --path /logo.png\n\n\
    A server is one that the lab knows and configures (sluice, nginx, lighttpd, apache, \
    apache-worker, caddy, haproxy), one with settings ('sluice: --architecture=amped'), with a name ('two = \
    nginx: worker_processes=2'), another build ('old = sluice@path/to/sluice'), or any command ('mine = \
    ./server -p {port} {root}'). A server that is named twice is compared with itself. A server that already \
    runs is given by its URL, which is also what is requested; with its process id, CPU time is compared as \
    well:\n  \
    sluicelab compare 'http://127.0.0.1:8080/f.bin pid=71' 'http://127.0.0.1:8081/f.bin pid=72'\n\n\
    Servers are restarted in each round, and measured in slices that alternate between them, each on a whole \
    CPU. The first also runs against itself, as an A/A control (\"again\"). Servers are compared by the \
    CPU time for each reply, and at a rate ('500 requests/s', '0.5x') also by how long clients wait; under \
    more load than the first can serve ('2x'), by the number of replies. \"worse\" means that a server takes \
    more than the first, or gives less. The less CPU time a server takes for a reply, the faster it is. A \
    difference is significant if it is beyond the margin with 95% certainty; \"cannot tell\" means that \
    there may be one. The table also has replies/s, latency and memory; \">\" before a number means that \
    clients could not ask for more. The report has the configuration files of nginx and others. Change \
    their settings with 'nginx: sendfile=off'.\n\n\
    To find how much a server can serve in time, use --load 'mat: p99 < 50ms': it searches the highest rate \
    at which 99% of the replies come within 50 ms (or mean, p50, p90, p99.9). It takes about twelve times as \
    long. Below its table, every comparison by CPU time shows the most replies/s that one CPU of a server \
    can give.\n\n\
    With --tls, all servers and clients speak the same TLS: one version, one key-exchange group, one cipher \
    suite, one certificate. The results have how many handshakes were full and resumed, and how long they \
    took. --path with --requests-per-connection 1 makes a handshake for each request.\n\n\
    Pin servers that already run to CPUs that clients do not use (taskset -acp 0 PID).\n\n\
    Under '2x' each server has 30% of a CPU (root only), because clients with one CPU cannot overload a \
    whole one. The figures compare servers; they are not those of a whole CPU.\n\n\
    Exit codes: 0 compared, whatever was found; 1 a server was not compared (it did not start, or did not \
    serve its files), or a failure while running; 2 bad usage or input; 4 with --fail-if-worse: a server is \
    worse than the first.")]
pub(crate) struct Options {
    /// The servers; the first is compared with all others
    #[arg(value_name = "SERVER", required = true, num_args = 2..)]
    servers: Vec<Spec>,
    /// Number of rounds; each measures everything once. Below 6 no difference is significant [default: 10]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// How long each server is measured in each round
    #[arg(
        short = 'd',
        long,
        alias = "duration",
        value_name = "TIME",
        default_value = "2s",
        value_parser = units::parse_time
    )]
    measured: Duration,
    /// The smallest difference that counts, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    margin: f64,
    /// Length of a separate run of each server, to see whether it changes with time; 0: none [default: 25s]
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    settling: Option<Duration>,
    /// Length of a separate profile of each server's CPU time, after all else (perf(1), as root)
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    profile: Option<Duration>,
    /// Exit with code 4 if a server is worse than the first, for automatic builds
    #[arg(long)]
    fail_if_worse: bool,
    /// Seed of the order and of the arrivals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u32,
    /// A run of about two minutes: 6 rounds and no settling, unless --rounds or --settling say otherwise
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    asked: Asked,
    #[command(flatten)]
    tls: TlsOptions,
    #[command(flatten)]
    means: means::Where,
}

/// The TLS of all servers and clients.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
struct TlsOptions {
    /// Servers and clients speak TLS. All servers have the same certificate, which the lab makes
    #[arg(long)]
    tls: bool,
    /// The version: 1.2 or 1.3 [default: 1.3]
    #[arg(long, value_name = "VERSION", requires = "tls")]
    tls_version: Option<Version>,
    /// The key-exchange group: x25519, x25519mlkem768, secp256r1 or secp384r1 [default: x25519]
    #[arg(long, value_name = "NAME", requires = "tls")]
    tls_group: Option<Group>,
    /// The cipher suite, by its name at IANA. A wrong name is answered with a list of all
    /// [default: the one with AES-256-GCM]
    #[arg(long, value_name = "NAME", requires = "tls")]
    tls_cipher: Option<Cipher>,
    /// Whether clients resume sessions of earlier connections; off: all handshakes are full [default: on]
    #[arg(long, value_name = "on|off", requires = "tls", value_parser = on_or_off)]
    resumption: Option<bool>,
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("allowed: on, off".to_owned()),
    }
}

impl TlsOptions {
    /// The keys of an experiment's file, with their values.
    fn keys(&self) -> impl Iterator<Item = (&'static str, String)> {
        let Self { tls, tls_version, tls_group, tls_cipher, resumption } = self;
        let names = [
            ("tls_version", tls_version.map(|version| version.to_string())),
            ("tls_group", tls_group.map(|group| group.to_string())),
            ("tls_cipher", tls_cipher.map(|cipher| cipher.to_string())),
        ];
        let names = names.into_iter().filter_map(|(key, name)| Some((key, quoted(&name?))));
        let on = |is_on: bool| is_on.to_string();
        let tls = tls.then(|| ("tls", on(true)));
        tls.into_iter().chain(names).chain(resumption.map(|is_on| ("tls_resumption", on(is_on))))
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let text = options.experiment()?;
    let directory = options.means.out.clone().unwrap_or_else(|| run::fresh("compare"));
    run::carry_out_with_all(&text, &directory, &options.means)?;
    let results = Results::of(&directory)?;
    if !all_took_part(&results) {
        return Ok(ExitCode::FAILURE);
    }
    let is_worse = |verdict: &Verdict| verdict.is_better() == Some(false);
    let fails = options.fail_if_worse && results.verdicts.iter().any(is_worse);
    Ok(if fails { ExitCode::from(WORSE) } else { ExitCode::SUCCESS })
}

/// Whether each server was compared. Prints which one was not, and why.
fn all_took_part(results: &Results) -> bool {
    for LeftOut { server, why, .. } in &results.left_out {
        super::tell(&format!("sluicelab: {server} was not compared: {why}"));
    }
    results.left_out.is_empty()
}

/// How many rounds there are without --quick, and how long each server is watched after them.
const ROUNDS: u32 = 10;
const SETTLING: Duration = Duration::from_secs(25);

/// The exit code of --fail-if-worse.
const WORSE: u8 = 4;

/// The part of its CPU that each server has in an overload, in percent. With a whole CPU, servers would be
/// faster than the clients, which also have one.
const SHARE: u32 = 30;

impl Options {
    /// The quantities to compare. In a closed loop it is only the cost, because replies/s follow from it, or
    /// are limited by the clients. If the cost is not known, replies/s and p99 are compared.
    fn compare(&self, load: Load) -> Vec<&'static str> {
        let is_seen = self.servers.iter().all(Spec::is_seen);
        match load {
            Load::Sessions(_) if is_seen => vec![COST.name],
            Load::Sessions(_) => vec![REPLIES.name, P99.name],
            load => {
                let usual = load.usually_compared().into_iter();
                usual.filter(|of| is_seen || !of.is_of_processes()).map(|of| of.name).collect()
            }
        }
    }

    /// The experiment file for these options.
    fn experiment(&self) -> Result<String> {
        let (workload, load) = (self.asked.workload(&self.servers)?, self.asked.load());
        let servers = distinct(&self.servers);
        let usual = if self.quick { (FEWEST_ROUNDS, Duration::ZERO) } else { (ROUNDS, SETTLING) };
        let (rounds, settling) = (self.rounds.unwrap_or(usual.0), self.settling.unwrap_or(usual.1));
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        let mut text = String::new();
        let mut line = |key: &str, value: &str| writeln!(text, "{key} = {value}");
        line("title", &quoted(&format!("{}: {}, {}", names.join(", "), workload, load)))?;
        let lines: Vec<String> =
            servers.iter().map(|server| format!("  {},\n", quoted(&typed(server)))).collect();
        line("servers", &format!("[\n{}]", lines.concat()))?;
        line("rounds", &rounds.to_string())?;
        line("seed", &self.seed.to_string())?;
        line("margin", &(self.margin / 100.0).to_string())?;
        line("settling", &quoted(&format!("{} s", settling.as_secs_f64())))?;
        if let Some(profile) = self.profile {
            line("profile", &quoted(&format!("{} s", profile.as_secs_f64())))?;
        }
        line("measured", &quoted(&format!("{} s", self.measured.as_secs_f64())))?;
        for (key, value) in self.tls.keys() {
            line(key, &value)?;
        }
        let is_started = servers.iter().all(|server| server.running().is_none());
        if load.is_too_much() && is_started && self.means.may_share() {
            line("share", &SHARE.to_string())?;
        }
        line("\n[[points]]\nworkload", &quoted(&workload.typed()))?;
        line("load", &quoted(&load.to_string()))?;
        let compare: Vec<String> = self.compare(load).into_iter().map(quoted).collect();
        line("compare", &format!("[{}]", compare.join(", ")))?;
        Ok(text)
    }
}

/// A server that is typed several times is compared with itself: the second one is called "sluice 2".
fn distinct(servers: &[Spec]) -> Vec<Spec> {
    let name =
        |(at, server): (usize, &Spec)| match servers[..at].iter().filter(|other| *other == server).count() {
            0 => server.clone(),
            before => Spec { name: format!("{} {}", server.name, before + 1), ..server.clone() },
        };
    servers.iter().enumerate().map(name).collect()
}

/// A server as typed, but with the absolute path of its program.
fn typed(server: &Spec) -> String {
    let mut server = server.clone();
    server.program = server.program.map(|path| path.canonicalize().unwrap_or(path));
    server.typed()
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use lab::description::experiment::Experiment;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        options: Options,
    }

    /// The experiment of a command line.
    fn experiment(words: &[&str]) -> Experiment {
        let typed = Typed::try_parse_from([&["compare"], words].concat()).unwrap();
        Experiment::parse(&typed.options.experiment().unwrap()).unwrap()
    }

    #[test]
    fn files_are_asked_for_in_the_words_of_load() {
        let of = |words: &[&str]| {
            let words = [&["nginx", "sluice", "--root=/", "--path=/a 5", "--path=/b"], words].concat();
            let point = experiment(&words).points.remove(0);
            (point.name, point.setting.workload.typed())
        };
        let paths = |each: u32| format!("paths: root=/ path=\"/a 5\" path=/b requests-per-connection={each}");
        assert_eq!(of(&[]), ("/a 5, /b, 64 sessions".to_owned(), paths(1_000)));
        assert_eq!(of(&["--rate=500"]), ("/a 5, /b, 500 requests/s".to_owned(), paths(1)));
        let both = ["--connections=3", "--requests-per-connection=7"];
        assert_eq!(of(&both), ("/a 5, /b, 3 sessions".to_owned(), paths(7)));
    }

    #[test]
    fn running_servers_are_asked_for_the_path_of_their_urls() {
        let of = |words: &[&str]| {
            let point = experiment(words).points.remove(0);
            let compared: Vec<&str> = point.compare.iter().map(|quantity| quantity.name).collect();
            (point.setting.workload.typed(), compared.join(", "))
        };
        let urls = ["http://127.0.0.1:1/a", "http://127.0.0.1:2/a"];
        let (workload, compared) = of(&urls);
        assert_eq!(workload, "paths: path=/a requests-per-connection=1000");
        assert!(!compared.contains("CPU"), "{compared}");
        let known = urls.map(|url| format!("{url} pid=7"));
        assert!(of(&[&known[0], &known[1]]).1.contains("CPU us/reply"));
        let words = [&urls[..], &["--path=/b"]].concat();
        assert_eq!(of(&words).0, "paths: path=/b requests-per-connection=1000");
    }

    #[test]
    fn options_for_tls_are_the_keys_of_the_file() {
        let of = |words: &[&str]| {
            let words = [&["nginx", "sluice"], words].concat();
            experiment(&words).points.remove(0).setting.tls.map(|tls| tls.to_string())
        };
        assert_eq!(of(&[]), None);
        let usual = "TLS 1.3, x25519, TLS_AES_256_GCM_SHA384, sessions are resumed";
        assert_eq!(of(&["--tls"]).as_deref(), Some(usual));
        let all = ["--tls", "--tls-version=1.2", "--tls-group=secp256r1", "--resumption=off"];
        let cipher = "--tls-cipher=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
        let old = "TLS 1.2, secp256r1, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, all handshakes are full";
        assert_eq!(of(&[&all[..], &[cipher]].concat()).as_deref(), Some(old));
        let refused = |words: &[&str]| {
            let words = [&["compare", "nginx", "sluice"], words].concat();
            Typed::try_parse_from(words).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(refused(&["--tls-version=1.3"]).contains("--tls"));
        assert!(refused(&["--tls", "--tls-group=x448"]).contains("allowed: x25519, x25519mlkem768, "));
        assert!(refused(&["--tls", "--resumption=maybe"]).contains("allowed: on, off"));
    }

    #[test]
    fn a_server_that_is_there_twice_has_two_names() {
        let names = |words: &[&str]| {
            let all = experiment(words).points.remove(0).servers;
            all.into_iter().map(|server| server.name).collect::<Vec<_>>()
        };
        assert_eq!(
            names(&["sluice", "nginx", "sluice", "sluice"]),
            ["sluice", "nginx", "sluice 2", "sluice 3"]
        );
    }
}
