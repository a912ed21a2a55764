//! The `sluice` command: parses the command line, calls the server's library, and prints.
//!
//! Exit codes: 0 clean, 1 failure while running, 2 bad usage or configuration.

mod affinity;
mod configuration_page;
mod console;
mod init;
mod options;
mod pages;

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use clap::error::{ContextKind, ContextValue};
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

/// A Linux web server that keeps serving under overload, with a choice of concurrency architectures
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
        after_help = "Sizes take KB, MB, KiB, MiB; times take ms, s, min, h, d. Every option is also a \
        key of the TOML file, with _ instead of -. The file has more settings, among them limits, timeouts \
        and headers.\n\n\
        Signals: TERM, INT and QUIT drain and stop, a second one stops at once; HUP reloads; USR1 reopens \
        logs; USR2 upgrades to the program that is now in its file.\n\
        Exit codes: 0 clean, 1 failure while running, 2 bad usage or configuration."
    )]
    Serve(Options),

    /// Write a commented sluice.toml for what is found: a directory, PHP-FPM, an application
    #[command(after_help = "It asks nothing, and replaces no file. Exit codes: 0 written, 2 bad usage.")]
    Init(init::Options),

    /// Check a configuration, its logs and addresses without serving, and print all settings
    #[command(after_help = "Takes what `serve` takes. The output is a TOML file with the same meaning.\n\
        Exit codes: 0 if `serve` would accept it, 2 if not.")]
    Check {
        #[command(flatten)]
        options: Options,

        /// Print only errors and warnings, for units and scripts
        #[arg(long, short)]
        quiet: bool,

        /// Print which route answers requests for this URL or path, and how, instead of the settings
        #[arg(long, value_name = "URL", conflicts_with = "quiet")]
        url: Option<String>,
    },

    /// Show what a running server is doing
    Status {
        #[command(flatten)]
        server: Running,

        /// Print JSON, for programs
        #[arg(long)]
        json: bool,

        /// Repeat every second, with rates
        #[arg(long)]
        watch: bool,
    },

    /// Measure the memory of a running server, as a formula in connections, workers and files
    #[command(after_help = "Run it on the server's machine, as the server's user or as root.")]
    Memory {
        #[command(flatten)]
        server: Running,

        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },

    /// Handle a network interface's packets on the CPUs of the copy that serves it (interrupts, RPS, XPS)
    #[command(
        after_help = "sluice affinity eth0=0-3 eth1=4-7                  print what would be done, as \
        commands\n\
        sluice affinity eth0=0-3 eth1=4-7 --apply >undo    do it, and keep the old values\n\
        sluice affinity --undo undo --apply                restore the old values\n\n\
        Exit codes: 0 done, 1 the kernel refuses, 2 bad usage."
    )]
    Affinity(affinity::Options),

    /// Explain the concurrency architectures, and say which can run here
    Architectures,

    /// Write manual pages and shell completions
    Pages(pages::Options),
}

/// The running server to ask.
#[derive(Args)]
struct Running {
    /// The server's --status address [default: the one in --config, or 127.0.0.1:8081]
    #[arg(value_name = "ADDR:PORT|unix:PATH")]
    address: Option<StatusAddress>,

    /// The server's TOML file, whose `status` address is used
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
                source.load()?.status.context("the file sets no status address; set `status`")
            }
        }
    }
}

/// The status address to ask if the command line names none.
const USUAL_STATUS: &str = "127.0.0.1:8081";

fn main() -> ExitCode {
    let command = Sluice::try_parse().unwrap_or_else(|error| with_tip(error).exit()).command;
    let is_check = matches!(command, Command::Check { .. });
    let result = match command {
        Command::Serve(options) => serve(options.0),
        Command::Init(options) => init::run(&options),
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
            // Each configuration problem is a line. Other errors are one line, although file names in them
            // may contain line breaks.
            let lines = if are_problems { text.lines().collect() } else { vec![&*text] };
            for line in lines {
                // The program ends even if standard error cannot be written.
                error_log::say(&format!("sluice: {line}"));
            }
            let refused = is_check && !error.is::<Unprinted>();
            ExitCode::from(if refused || is_bad_input(&error) { 2 } else { 1 })
        }
    }
}

/// Adds a tip to errors about options that other web servers have.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let tip = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) if option == "-t" => "to test settings: sluice check -c FILE",
        Some(ContextValue::String(option)) if option == "-c" => {
            "to serve with settings: sluice serve -c FILE"
        }
        Some(ContextValue::String(option)) if option == "-s" => {
            "to stop or reload a server, send it a signal: kill -TERM PID, kill -HUP PID"
        }
        _ => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// Whether the mistake is in the command line or in the configuration.
fn is_bad_input(error: &anyhow::Error) -> bool {
    error.chain().any(<dyn std::error::Error>::is::<ConfigError>)
        || error.downcast_ref().is_some_and(RunError::is_bad_configuration)
        || error.downcast_ref().is_some_and(AffinityError::is_bad_input)
        || error.is::<init::Refused>()
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
    // On a terminal, each page replaces the one before.
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
        print(&format!("{:15} options: {}\n", "", design.options.concat().join(", ")))?;
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
