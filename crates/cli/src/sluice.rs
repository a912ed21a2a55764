//! The sluice command: parse, call, print.
//!
//! Exit codes: 0 clean, 1 failure while running, 2 bad usage or configuration.

mod affinity;
mod configuration_page;
mod console;
mod options;
mod pages;

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use console::{Unprinted, print};
use options::Options;
use server::RunError;
use server::affinity::AffinityError;
use server::allotment::Allotment;
use server::config::{self, CommandLine, ConfigError, Source, StatusAddress};
use server::content::explain;
use server::error_log;
use server::plain;
use server::status::client::{self, Form, Watch};

/// A web server for files that lets you choose how it does many things at once, and stays upright under
/// overload.
#[derive(Parser)]
#[command(name = "sluice", version, max_term_width = 110)]
#[command(after_help = "Try `sluice serve` in a directory, and look at http://127.0.0.1:8080/.")]
struct Sluice {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the files of a directory
    #[command(
        after_help = "Sizes take KB, MB, KiB, MiB; times take ms, s, min, h, d. Every option is a key of the \
        TOML file as well, its words joined by _; the file knows more, among them limits, timeouts and \
        headers.\n\n\
        Signals: TERM, INT and QUIT drain, a second one stops at once; HUP reloads; USR1 reopens logs; USR2 \
        upgrades to the program that its file holds by then.\n\
        Exit codes: 0 clean, 1 failure while running, 2 bad usage or configuration."
    )]
    Serve(Options),

    /// Check a configuration, logs and addresses without serving, and print all settings as they would be
    #[command(after_help = "Takes what `serve` takes. The output is a TOML file that means the same.\n\
        Exit codes: 0 if `serve` would accept it, 2 if not.")]
    Check {
        #[command(flatten)]
        options: Options,

        /// Print nothing but what is wrong or doubtful, for units and scripts
        #[arg(long, short)]
        quiet: bool,

        /// Print which route answers requests for this URL or path, and how, in place of the settings
        #[arg(long, value_name = "URL", conflicts_with = "quiet")]
        url: Option<String>,
    },

    /// Ask a running server what it is doing
    Status {
        #[command(flatten)]
        server: Running,

        /// As JSON, for programs
        #[arg(long)]
        json: bool,

        /// Again every second, with rates
        #[arg(long)]
        watch: bool,
    },

    /// Measure what the memory of a running server consists of, as a formula in connections, workers and
    /// files
    #[command(after_help = "Runs where the server runs, as its user or as root.")]
    Memory {
        #[command(flatten)]
        server: Running,

        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },

    /// Have packets of network interfaces handled on the CPUs of the copy that serves them (interrupts, RPS,
    /// XPS)
    #[command(
        after_help = "sluice affinity eth0=0-3 eth1=4-7                  print what would be done, as \
        commands\n\
        sluice affinity eth0=0-3 eth1=4-7 --apply >undo    do it, and keep the way back\n\
        sluice affinity --undo undo --apply                go back\n\n\
        Exit codes: 0 done, 1 the kernel refuses, 2 bad usage."
    )]
    Affinity(affinity::Options),

    /// Explain the concurrency architectures, and whether they can run here
    Architectures,

    /// Write manual pages and shell completions
    Pages(pages::Options),
}

/// Which running server is asked.
#[derive(Args)]
struct Running {
    /// Its --status address [default: the one in --config, or 127.0.0.1:8081]
    #[arg(value_name = "ADDR:PORT|unix:PATH")]
    address: Option<StatusAddress>,

    /// The server's TOML file, for its `status`
    #[arg(long, value_name = "FILE", conflicts_with = "address")]
    config: Option<PathBuf>,
}

impl Running {
    fn status_address(self) -> anyhow::Result<StatusAddress> {
        match (self.address, self.config) {
            (Some(address), _) => Ok(address),
            (None, None) => USUAL_STATUS.parse().map_err(anyhow::Error::msg),
            (None, Some(file)) => {
                let source = Source { file: Some(file), command_line: CommandLine::default() };
                source.load()?.status.context("the file sets no status address")
            }
        }
    }
}

/// Where a server is asked that nobody has told of.
const USUAL_STATUS: &str = "127.0.0.1:8081";

fn main() -> ExitCode {
    let command = Sluice::parse().command;
    let is_check = matches!(command, Command::Check { .. });
    let result = match command {
        Command::Serve(options) => serve(options.0),
        Command::Check { options, quiet, url } => check(&options.0, quiet, url.as_deref()),
        Command::Status { server, json, watch } => status(server, json, watch),
        Command::Memory { server, json } => memory(server, json),
        Command::Affinity(options) => affinity::run(&options),
        Command::Architectures => architectures(),
        Command::Pages(options) => write_pages(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = error.to_string();
            let mut causes = error.chain().filter_map(|cause| cause.downcast_ref());
            let are_problems = causes.any(|cause| matches!(cause, ConfigError::Problems(_)));
            // Each problem is a line. In anything else, names may have ends of lines.
            let lines = if are_problems { text.lines().collect() } else { vec![&*text] };
            for line in lines {
                // Whether it can be read or not, it is time to end.
                error_log::say(&format!("sluice: {line}"));
            }
            let refused = is_check && !error.is::<Unprinted>();
            ExitCode::from(if refused || is_bad_input(&error) { 2 } else { 1 })
        }
    }
}

/// Whether something else should have been typed.
fn is_bad_input(error: &anyhow::Error) -> bool {
    error.chain().any(<dyn std::error::Error>::is::<ConfigError>)
        || error.downcast_ref().is_some_and(RunError::is_bad_configuration)
        || error.downcast_ref().is_some_and(AffinityError::is_bad_input)
}

fn serve(source: Source) -> anyhow::Result<()> {
    Ok(server::run(source)?)
}

fn check(source: &Source, quiet: bool, url: Option<&str>) -> anyhow::Result<()> {
    let configuration = source.read()?;
    let settings = &configuration.settings;
    if let Some(url) = url {
        print(&format!("{}\n", explain(settings, url)))?;
        return Ok(());
    }
    let server::Findings { warnings, notes } = server::check(&configuration)?;
    let room = Allotment::explain(settings)?;
    let shortfalls = server::shortfalls::of(settings);
    for warning in warnings.iter().chain(&room.warning).chain(&shortfalls) {
        error_log::say(&format!("sluice: warning: {warning}"));
    }
    if quiet {
        return Ok(());
    }
    print(&format!("{}\n# {}\n", settings.to_toml(), room.text))?;
    for note in notes {
        print(&format!("# {note}\n"))?;
    }
    Ok(())
}

fn status(server: Running, json: bool, watch: bool) -> anyhow::Result<()> {
    let address = server.status_address()?;
    let mut watched = Watch::new(address.clone());
    let mut page = || match (json, watch) {
        (true, _) => client::fetch(&address, Form::Json),
        (false, false) => client::fetch(&address, Form::Text).map(|page| plain::page(&page)),
        (false, true) => watched.refresh().map(|page| plain::page(&page)),
    };
    // On a terminal a page takes the place of the one before.
    let clear = if watch && !json && io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
    loop {
        let anybody_reads = print(&format!("{clear}{}\n", page()?.trim_end()))?;
        if !watch || !anybody_reads {
            return Ok(());
        }
        thread::sleep(Duration::from_secs(1));
    }
}

fn memory(server: Running, json: bool) -> anyhow::Result<()> {
    let status = client::snapshot(&server.status_address()?)?;
    let memory = server::memory::measure(&status)?;
    print(&if json { server::memory::json(&memory) } else { plain::page(&server::memory::render(&memory)) })?;
    Ok(())
}

fn architectures() -> anyhow::Result<()> {
    for design in config::DESIGNED {
        let runs = design.runs_here().map_or_else(|why| why, |()| "runs here".to_owned());
        print(&format!("{:15} {}\n{:15} {runs}\n", design.name, design.purpose, ""))?;
        if !design.options.is_empty() {
            print(&format!("{:15} options: {}\n", "", design.options.concat().join(", ")))?;
        }
        for line in design.schematic.lines() {
            print(&format!("    {line}\n"))?;
        }
        print("\n")?;
    }
    for line in server::shortfalls::of_kernel() {
        print(&format!("{line}\n"))?;
    }
    Ok(())
}

fn write_pages(options: &pages::Options) -> anyhow::Result<()> {
    options.write(Sluice::command())?;
    let page = options.below("man/man5")?.join("sluice.toml.5");
    std::fs::write(&page, configuration_page::text()).with_context(|| pages::cannot_write(&page))
}
