//! `sluice affinity`: makes a plan from the command line, and prints or applies it.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Args, ValueEnum};
use server::affinity::{AffinityError, Assignment, Plan, Roots, of_settings};
use server::config::{CommandLine, Mapping, Source};
use server::error_log;

use crate::console::print;

/// Which packets go to which CPUs.
#[derive(Args)]
pub(crate) struct Options {
    /// A network interface or one of its addresses, and the CPUs of the copy that serves it, such as
    /// eth0=0-3. Give one for each copy
    #[arg(value_name = "INTERFACE=LIST", required_unless_present_any = ["config", "undo"])]
    assignments: Vec<String>,

    /// Take interfaces and CPUs from the server's TOML file: the addresses and the CPU set of each copy
    #[arg(long, value_name = "FILE", conflicts_with = "assignments")]
    config: Option<PathBuf>,

    /// Whose CPUs handle an interface's packets: its own copy's (direct), or the next copy's (indirect)
    #[arg(long, value_enum, default_value = "direct", conflicts_with_all = ["config", "undo"])]
    mapping: MappingName,

    /// Restore the values that --apply printed, from this file (-: standard input)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["assignments", "config"])]
    undo: Option<PathBuf>,

    /// Make the changes, and print the commands that undo them; without --apply, the commands are printed
    /// and nothing is changed
    #[arg(long)]
    apply: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum MappingName {
    Direct,
    Indirect,
}

impl From<MappingName> for Mapping {
    fn from(name: MappingName) -> Self {
        match name {
            MappingName::Direct => Self::Direct,
            MappingName::Indirect => Self::Indirect,
        }
    }
}

/// Prints the plan, or applies it.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let roots = Roots::default();
    let plan = match &options.undo {
        Some(path) => Plan::read(&text_of(path)?, &roots)?,
        None => Plan::new(&assignments(options)?, options.mapping.into(), &roots)?,
    };
    let remarks = plan.remarks.iter().map(|remark| format!("# {remark}\n")).collect::<Vec<_>>().concat();
    if plan.changes.is_empty() {
        print(&format!("{remarks}# nothing to change: all values are set already\n"))?;
        return Ok(());
    }
    if !options.apply {
        print(&format!("{remarks}{plan}"))?;
        return Ok(());
    }
    // The old values are printed before anything is changed. If nothing reads them, nothing is changed.
    let kept = print(&format!(
        "{remarks}# to undo: sluice affinity --undo FILE --apply, where FILE has these lines\n{}",
        plan.inverse()
    ))?;
    if !kept {
        anyhow::bail!(
            "standard output was closed before the old values were printed, so nothing was changed; run it \
             again with >FILE to save them"
        );
    }
    plan.apply()?;
    error_log::say(&format!("sluice: {} files changed", plan.changes.len()));
    Ok(())
}

fn assignments(options: &Options) -> anyhow::Result<Vec<Assignment>> {
    match &options.config {
        Some(file) => {
            let source = Source { file: Some(file.clone()), command_line: CommandLine::default() };
            Ok(of_settings(&source.load()?)?)
        }
        None => {
            Ok(options.assignments.iter().map(|typed| typed.parse()).collect::<Result<_, AffinityError>>()?)
        }
    }
}

fn text_of(path: &Path) -> Result<String, AffinityError> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(path)
    };
    text.map_err(|error| AffinityError::Input {
        typed: path.display().to_string(),
        problem: error.to_string(),
    })
}
