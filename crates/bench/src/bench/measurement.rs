//! What all measurements of servers and load generators take on the command line, where they find files and
//! what becomes of their results. (Experiments have [`lab::run`] for that.)

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::servers::Environment;
use crate::site;
use lab::programs::launcher;
use lab::programs::testbed::Testbed;

/// Where servers run, and what is done with results.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Our server, where no other build is named
    #[arg(long, value_name = "FILE", default_value = "target/release/sluice")]
    sluice: PathBuf,
    /// The CPU that servers run on
    #[arg(long, default_value_t = 0)]
    pub(crate) server_cpu: usize,
    /// Write everything that was measured to this file as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What measurements of our load generator take besides.
#[derive(Debug, Args)]
pub(crate) struct Lab {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Our load generator
    #[arg(long, value_name = "FILE", default_value = "target/release/sluicelab")]
    sluicelab: PathBuf,
}

impl Common {
    /// Has `measure` start servers, on files that are there for it alone.
    pub(crate) fn measure<T>(&self, measure: impl FnOnce(Environment<'_>) -> Result<T>) -> Result<T> {
        let scratch = tempfile::tempdir()?;
        let (site, scratch) = (&site::write(scratch.path())?, scratch.path());
        let (sluice, cpu) = (&self.sluice, self.server_cpu);
        measure(Environment { site, scratch, sluice, cpu, capacity: 9_000, wrapper: &[] })
    }

    /// Prints `text` below a line on the machine, and writes `results` where the command line says, under
    /// `name`.
    pub(crate) fn report(&self, name: &str, results: &impl Serialize, text: &str) -> Result<()> {
        let tools = ["nginx", "lighttpd", "apache2", "haproxy", "wrk", "valgrind"].map(Path::new);
        let machine = Testbed::describe(tools.into_iter().chain([self.sluice.as_path()]));
        print!("{}\n\n{text}", machine.line(None));
        let Some(path) = &self.json else { return Ok(()) };
        let json = json!({ "machine": machine, name: results });
        fs::write(path, serde_json::to_string_pretty(&json)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Lab {
    pub(crate) fn executable(&self) -> Result<PathBuf> {
        launcher::program("sluicelab", &self.sluicelab)
    }
}
