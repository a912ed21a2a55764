//! `sluicelab sessions`: writes session files, generated for a file set or taken from an access log.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand, ValueEnum};
use load::output::Output;
use workload::check::Check;
use workload::fileset::FileSet;
use workload::manifest::{FileSetManifest, SessionsManifest};
use workload::offtimes::OffTimes;
use workload::replay::LeftOut;
use workload::session::SessionLog;
use workload::urls::Urls;
use workload::{dynamic, replay, simple, specweb99, support, wsesslog};

use super::{BadInput, output, tell};
use crate::console::print;

/// The kinds of sessions.
#[derive(Subcommand)]
#[command(after_help = "The files are in the syntax of httperf's --wsesslog, and can be written by hand:\n\
        \x20 /index.html think=2.0             not indented: begins a burst; clients pause 2 s after it\n\
        \x20     /style.css                    indented: sent after the first reply of the burst\n\
        \x20 /form method=POST contents=\"a=b\"  another burst of the same client\n\
        \x20                                   an empty line ends a session\n\
        \x20 /another.html\n\
        docs/lab.md (Sessions) has the full syntax. FILE.manifest.json describes a generated file.")]
pub(crate) enum Options {
    /// SPECweb99's: 30% have one request, the others 5 to 15, for files by Zipf's law
    Specweb99(Specweb99),
    /// Users who look for a driver, page by page with images; some download it
    Support(Support),
    /// Requests for the file of one packet
    OnePacket(Simple),
    /// Requests for the file of 1 KiB
    Single(Simple),
    /// Requests for each size of the file set, or for one
    Fixed(Fixed),
    /// SPECweb99's dynamic requests for pages of one size, for an application on libfcgi
    DynamicFixed(DynamicFixed),
    /// Requests for an application that computes nothing, for replies of one size
    Constant(Constant),
    /// Requests for paths of your own, in turn
    Paths(Paths),
    /// The requests of an access log, to repeat yesterday's traffic
    Replay(Replay),
}

/// Options of generated sessions.
#[derive(Args)]
pub(crate) struct Draw {
    /// The root of a set of this kind that `sluicelab fileset` has written
    #[arg(long, value_name = "DIR")]
    fileset: PathBuf,

    /// Number of sessions
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: u32,

    /// Seed of the random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Args)]
pub(crate) struct Specweb99 {
    #[command(flatten)]
    draw: Draw,

    /// Pauses within sessions: none, those of the 2007 paper (3 s and 0.343 s), or SURGE's distributions
    #[arg(long, value_enum, value_name = "SPEC", default_value = "none")]
    off_times: OffTimesName,

    /// The part of the requests that an application answers, from 0 to 1 (SPECweb99: 0.3)
    #[arg(long, value_name = "PART", default_value_t = 0.0, value_parser = part)]
    dynamic: f64,
}

/// Options of sessions with replies of one size.
#[derive(Args)]
pub(crate) struct Replies {
    /// The size of all replies: one of the file set's, 32KiB to 4MiB
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    bytes: u64,

    /// How many requests a session has, one after the other on a connection
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    calls: u32,

    /// Whether the application sends the length of its replies; in Yeung's thesis it does not
    #[arg(long, value_enum, value_name = "YES/NO", default_value = "no")]
    length: YesNo,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum YesNo {
    Yes,
    No,
}

#[derive(Args)]
pub(crate) struct DynamicFixed {
    #[command(flatten)]
    draw: Draw,

    #[command(flatten)]
    replies: Replies,
}

#[derive(Args)]
pub(crate) struct Constant {
    #[command(flatten)]
    plain: Plain,

    #[command(flatten)]
    replies: Replies,
}

#[derive(Args)]
pub(crate) struct Support {
    #[command(flatten)]
    draw: Draw,

    /// The part of the dynamic requests that static files of the same size replace, 0 to 1 (Hashemian 2014:
    /// 0.2, 0.4, 0.6)
    #[arg(long, value_name = "PART", default_value_t = 0.0, value_parser = part)]
    replaced: f64,

    /// The average pause between pages; 0s: none, which makes short runs steady
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::parse_time)]
    think: Duration,
}

#[derive(Args)]
pub(crate) struct Plain {
    /// The root of a set of this kind that `sluicelab fileset` has written
    #[arg(long, value_name = "DIR")]
    fileset: PathBuf,

    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Args)]
pub(crate) struct Simple {
    #[command(flatten)]
    plain: Plain,

    /// How many requests a session has, one after the other on a connection
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    calls: u32,
}

#[derive(Args)]
pub(crate) struct Fixed {
    #[command(flatten)]
    simple: Simple,

    /// Only sessions for the file of this size [default: for each size of the file set]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    bytes: Option<u64>,
}

#[derive(Args)]
#[command(after_help = "Example, three requests of four for one of two paths, 100 on each connection:\n  \
    sluicelab sessions paths --path '/index.html 3' --path /logo.png --requests-per-connection 100 \
    --out mine")]
pub(crate) struct Paths {
    /// A path, such as /index.html, with an optional number, how often it is requested among the others:
    /// '/index.html 5'. May be repeated
    #[arg(long, value_name = "PATH", required = true)]
    path: Vec<String>,

    /// Requests on each connection, one after the other
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests_per_connection: u32,

    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Args)]
pub(crate) struct Replay {
    /// An access log in the combined format (Apache, nginx, ours), or in our JSON
    #[arg(value_name = "LOG")]
    log: PathBuf,

    /// After a pause this long, a client's next request begins another session
    #[arg(long, value_name = "TIME", default_value = "30min", value_parser = units::parse_time)]
    gap: Duration,

    /// Replay this many times faster, 0.01 to 1000: the arrivals of sessions, and all pauses within
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = factor)]
    speed_up: f64,

    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum OffTimesName {
    None,
    Fixed,
    Surge,
}

/// Writes a session file and its manifest.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    match options {
        Options::Specweb99(options) => run_specweb99(options),
        Options::Support(options) => run_support(options),
        Options::OnePacket(options) => run_simple(options, None, "one-packet"),
        Options::Single(options) => run_simple(options, None, "single"),
        Options::Fixed(Fixed { simple, bytes }) => run_simple(simple, *bytes, "fixed"),
        Options::DynamicFixed(options) => run_dynamic_fixed(options),
        Options::Constant(options) => run_constant(options),
        Options::Paths(paths) => run_paths(paths),
        Options::Replay(replay) => run_replay(replay),
    }
}

fn run_specweb99(options: &Specweb99) -> Result<ExitCode> {
    let FileSet::Specweb99 { directories } = file_set(&options.draw.fileset, "specweb99")? else {
        return Err(another_set(&options.draw.fileset, "specweb99"));
    };
    let off_times = match options.off_times {
        OffTimesName::None => OffTimes::None,
        OffTimesName::Fixed => OffTimes::Fixed,
        OffTimesName::Surge => OffTimes::Surge,
    };
    let Draw { count, seed, ref out, .. } = options.draw;
    let file = to_write(out)?;
    let dynamic = options.dynamic;
    let (log, checks) =
        specweb99::sessions(specweb99::Sessions { directories, count, seed, off_times, dynamic });
    write(file, out, "specweb99", Some(seed), &log, checks)
}

fn run_support(options: &Support) -> Result<ExitCode> {
    let FileSet::Support { directories } = file_set(&options.draw.fileset, "support")? else {
        return Err(another_set(&options.draw.fileset, "support"));
    };
    let Draw { count, seed, ref out, .. } = options.draw;
    let file = to_write(out)?;
    let (replaced, think) = (options.replaced, options.think);
    let (log, checks) = support::sessions(support::Sessions { directories, count, seed, replaced, think });
    write(file, out, "support", Some(seed), &log, checks)
}

fn run_dynamic_fixed(options: &DynamicFixed) -> Result<ExitCode> {
    let Draw { count, seed, ref out, ref fileset } = options.draw;
    let Replies { bytes, calls, length } = options.replies;
    has_size(fileset, bytes)?;
    let file = to_write(out)?;
    let with_length = length == YesNo::Yes;
    let log = dynamic::sessions(dynamic::Sessions { bytes, count, calls, seed, with_length });
    write(file, out, "dynamic-fixed", Some(seed), &log, Vec::new())
}

fn run_constant(options: &Constant) -> Result<ExitCode> {
    let Plain { fileset, out } = &options.plain;
    let Replies { bytes, calls, length } = options.replies;
    has_size(fileset, bytes)?;
    let file = to_write(out)?;
    let log = dynamic::constant(bytes, calls, length == YesNo::Yes);
    write(file, out, "constant", None, &log, Vec::new())
}

/// Checks that the set in a directory has a page of that size.
fn has_size(root: &Path, bytes: u64) -> Result<()> {
    let FileSet::DynamicFixed { sizes } = file_set(root, "dynamic-fixed")? else {
        return Err(another_set(root, "dynamic-fixed"));
    };
    is_one_of(&sizes, bytes)
}

fn is_one_of(sizes: &[u64], bytes: u64) -> Result<()> {
    if sizes.contains(&bytes) {
        return Ok(());
    }
    let told = |bytes: &u64| {
        if bytes.is_multiple_of(1024) { format!("{}KiB", bytes >> 10) } else { bytes.to_string() }
    };
    let allowed: Vec<_> = sizes.iter().map(told).collect();
    Err(BadInput(format!("--bytes {bytes}: allowed: {}", allowed.join(", "))).into())
}

fn run_simple(options: &Simple, bytes: Option<u64>, kind: &str) -> Result<ExitCode> {
    let Simple { plain: Plain { fileset, out }, calls } = options;
    let mut set = file_set(fileset, kind)?;
    if let (Some(bytes), FileSet::Fixed { sizes }) = (bytes, &mut set) {
        is_one_of(sizes, bytes)?;
        *sizes = vec![bytes];
    }
    let file = to_write(out)?;
    write(file, out, kind, None, &simple::sessions(&set, *calls), Vec::new())
}

/// The set in a directory, which must be of that kind.
fn file_set(root: &Path, kind: &str) -> Result<FileSet> {
    let set = FileSetManifest::read(root).map_err(|error| BadInput(format!("--fileset: {error}")))?.set;
    if set.name() == kind { Ok(set) } else { Err(another_set(root, kind)) }
}

fn another_set(root: &Path, kind: &str) -> anyhow::Error {
    BadInput(format!("--fileset {}: holds no set of the kind {kind}", root.display())).into()
}

fn run_paths(options: &Paths) -> Result<ExitCode> {
    let Paths { path, requests_per_connection, out } = options;
    let urls = Urls::parse(path.join("\n").as_bytes());
    let urls = urls.map_err(|mistake| BadInput(format!("--path: {}", mistake.reason)))?;
    let file = to_write(out)?;
    write(file, out, "paths", None, &urls.sessions(*requests_per_connection), Vec::new())
}

fn run_replay(options: &Replay) -> Result<ExitCode> {
    let name = options.log.display();
    let text = fs::read(&options.log).map_err(|error| BadInput(format!("{name}: {error}")))?;
    let file = to_write(&options.out)?;
    let replayed = replay::sessions(&text, options.gap, options.speed_up);
    if !replayed.odd.is_empty() {
        let (odd, lines) = (replayed.odd.len(), replayed.lines);
        tell(&format!("sluicelab: {name}: {odd} of {lines} lines are left out:"));
    }
    for LeftOut { reason, lines, first } in replayed.left_out() {
        let from = if lines == 1 { "" } else { "from " };
        tell(&format!("sluicelab: {lines:>8}: {reason} ({from}line {first})"));
    }
    if replayed.log.is_empty() {
        // The file was made only to see whether it can be written.
        if fs::metadata(&options.out).is_ok_and(|made| made.len() == 0) {
            let _ = fs::remove_file(&options.out);
        }
        return Err(BadInput(format!("{name}: no request in it can be replayed")).into());
    }
    write(file, &options.out, "replay", None, &replayed.log, Vec::new())
}

/// The file to write. An existing file is overwritten only if it has a manifest, so that no log to replay is
/// lost.
fn to_write(out: &Path) -> Result<Output, BadInput> {
    let is_there = fs::metadata(out).is_ok_and(|there| there.is_file() && there.len() > 0);
    let manifest = SessionsManifest::path(out);
    if is_there && !manifest.exists() {
        return Err(BadInput(format!(
            "--out {}: the file exists, and without {} it may not be a session file; allowed: another \
             name",
            out.display(),
            manifest.display()
        )));
    }
    output("--out", out)
}

fn write(
    mut file: Output,
    out: &Path,
    kind: &str,
    seed: Option<u64>,
    log: &SessionLog,
    checks: Vec<Check>,
) -> Result<ExitCode> {
    let mut text = Vec::new();
    wsesslog::write(&mut text, log)?;
    file.begin()?;
    file.write(&text)?;
    let broken: Vec<_> = checks.iter().filter(|check| !check.holds()).cloned().collect();
    let manifest = SessionsManifest::new(kind, seed, log, &text, checks);
    manifest.write(out).with_context(|| format!("cannot write the manifest of {}", out.display()))?;
    let over = log.last_time().map_or_else(String::new, |last| format!(" over {}", in_words(last)));
    let checked = match manifest.checks.len() {
        // Nothing was drawn.
        0 => String::new(),
        count => format!(", {count} frequencies checked"),
    };
    let printed = print(&format!(
        "{}: {} sessions{over}, {} calls of {} different requests{checked}\n",
        out.display(),
        manifest.sessions,
        manifest.calls,
        manifest.requests,
    ));
    for Check { what, asked, got, tolerance } in &broken {
        tell(&format!(
            "sluicelab: {what}: {got:.4} instead of {asked:.4}, allowed difference {tolerance:.4}; try \
             another --seed"
        ));
    }
    printed?;
    Ok(ExitCode::from(u8::from(!broken.is_empty())))
}

/// A time as people say it: `12 s`, `3 min 5 s`, `24 h 0 min`.
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

fn part(text: &str) -> Result<f64, String> {
    let part = text.parse().ok().filter(|part| (0.0..=1.0).contains(part));
    part.ok_or_else(|| "allowed: a number from 0 to 1".to_owned())
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (0.01..=1000.0).contains(factor));
    factor.ok_or_else(|| "allowed: a number from 0.01 to 1000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_times_are_told_in_hours() {
        let told = [0, 59, 60, 185, 3_599, 3_600, 86_430].map(|time| in_words(Duration::from_secs(time)));
        assert_eq!(told, ["0 s", "59 s", "1 min 0 s", "3 min 5 s", "59 min 59 s", "1 h 0 min", "24 h 0 min"]);
    }
}
