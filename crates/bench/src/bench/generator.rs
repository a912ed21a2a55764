//! `sluicelab load` as an experiment runs it: in a namespace made for it, with results as JSON.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::child::Process;
use crate::interrupt;

/// A run of the load generator that is under way. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Generator {
    process: Process,
    results: PathBuf,
    log: PathBuf,
}

impl Generator {
    /// Starts `sluicelab load` with `options`; `wrapper` stands before it.
    pub(crate) fn start(
        sluicelab: &Path,
        wrapper: &[String],
        options: &[String],
        directory: &Path,
    ) -> Result<Self> {
        let results = directory.join("load.json");
        let log = directory.join("load.stderr");
        let child = Command::new("env")
            .args(wrapper)
            .arg(sluicelab)
            .args(["load", &format!("--json={}", results.display())])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .process_group(0)
            .spawn()
            .context("cannot run env")?;
        Ok(Self { process: Process::of(child), results, log })
    }

    /// Waits for its end, and gives its results, see docs/lab-results.md.
    pub(crate) fn finish(mut self, patience: Duration) -> Result<Value> {
        let start = Instant::now();
        let status = loop {
            interrupt::check()?;
            if let Some(status) = self.process.ended()? {
                break status;
            }
            ensure!(start.elapsed() < patience, "sluicelab load has not ended in time");
            thread::sleep(Duration::from_millis(2));
        };
        let told = fs::read_to_string(&self.log).unwrap_or_default();
        // 3: not valid, which the results say as well.
        ensure!(matches!(status.code(), Some(0 | 3)), "sluicelab load ended with {status}: {}", told.trim());
        serde_json::from_str(&fs::read_to_string(&self.results)?).context("no JSON from sluicelab load")
    }
}
