//! `sluice` as an experiment runs it: some variant of its settings, in a namespace or control group made for
//! it.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use machine::process;
use serde::Serialize;
use serde_json::Value;

use crate::child::output;
use crate::interrupt;
use crate::launcher::{PATIENCE, Place, Server, announced};
use crate::servers::sluice_serves;

/// Settings of the server with a name. As text: `NAME: --option=value ... table.key=value ...`; words with
/// dashes are for the command line, the others are lines of its TOML file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Variant {
    pub(crate) name: String,
    options: Vec<String>,
    toml: Vec<String>,
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = "allowed: NAME: --option=value ... table.key=value ...";
        let (name, words) =
            text.split_once(':').ok_or_else(|| format!("{text:?} has no colon; {allowed}"))?;
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        if let Some(word) = words.iter().find(|word| !word.contains('=')) {
            return Err(format!("{word:?} has no equals sign; {allowed}"));
        }
        let (options, toml) = words.into_iter().partition(|word| word.starts_with("--"));
        Ok(Self { name: name.trim().to_owned(), options, toml })
    }
}

/// The settings as they are typed.
impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = self.options.iter().chain(&self.toml).map(String::as_str).collect();
        f.write_str(&words.join(" "))
    }
}

impl Variant {
    /// These settings with one option more.
    pub(crate) fn with(&self, option: &str, value: &str) -> Self {
        let mut this = self.clone();
        this.options.push(format!("--{option}={value}"));
        this
    }

    /// These settings under another name.
    pub(crate) fn called(&self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self.clone() }
    }

    /// These settings, to be measured once more beside themselves.
    pub(crate) fn again(&self) -> Self {
        self.called(&format!("{} again", self.name))
    }

    pub(crate) fn is_again_of(&self, other: &Self) -> bool {
        *self == other.again()
    }

    /// Why this server won't run so with that many addresses, if it won't. Those of an experiment's networks
    /// are not there yet, so it is asked with others.
    pub(crate) fn refusal(&self, sluice: &Path, addresses: usize, scratch: &Path) -> Result<Option<String>> {
        let config = self.write_config(scratch)?;
        let output = Command::new(sluice)
            .arg("check")
            .arg(scratch)
            .arg(format!("--config={}", config.display()))
            .args((1..=addresses).map(|host| format!("--listen=127.0.0.{host}:0")))
            .args(&self.options)
            .output()
            .with_context(|| format!("cannot run {}", sluice.display()))?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        match output.status.code() {
            Some(0) => Ok(None),
            Some(2) => Ok(Some(said.lines().next().unwrap_or("no reason given").to_owned())),
            _ => bail!("sluice check ended with {}: {said}", output.status),
        }
    }

    fn write_config(&self, directory: &Path) -> Result<PathBuf> {
        let path = directory.join("sluice.toml");
        fs::write(&path, format!("drain_timeout = \"200 ms\"\n{}\n", self.toml.join("\n")))?;
        Ok(path)
    }
}

/// Where and how a variant is started.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) sluice: &'a Path,
    pub(crate) root: &'a Path,
    pub(crate) listen: Vec<SocketAddr>,
    pub(crate) cpus: &'a [usize],
    /// Words before the server's own command line.
    pub(crate) wrapper: Vec<String>,
    /// For its configuration, log and status socket.
    pub(crate) directory: &'a Path,
}

/// A running `sluice`. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) running: Server,
    sluice: PathBuf,
    status: String,
}

impl Subject {
    /// Starts it, and waits until it listens everywhere.
    pub(crate) fn start(variant: &Variant, launch: &Launch<'_>) -> Result<Self> {
        let config = variant.write_config(launch.directory)?;
        let status = format!("unix:{}", launch.directory.join("status").display());
        let mut words = sluice_serves(launch.sluice, launch.root, &config, &launch.listen);
        words.push(format!("--status={status}"));
        words.extend(variant.options.iter().cloned());
        let log = launch.directory.join("stderr");
        let place = Place { cpus: launch.cpus, wrapper: &launch.wrapper, log: &log };
        let running = Server::start(&words, place, |said| {
            let addresses = announced(said);
            if addresses.len() < launch.listen.len() { None } else { addresses.first().copied() }
        })?;
        Ok(Self { running, sluice: launch.sluice.to_owned(), status })
    }

    /// The process that tells its status.
    pub(crate) fn status_process(&self) -> Result<u32> {
        let is_it = |pid: &u32| process::name(*pid).is_ok_and(|name| name == "sluice:status");
        // It gives itself that name once it runs.
        let found = interrupt::wait_for(PATIENCE, || Ok(self.running.processes()?.into_iter().find(is_it)))?;
        found.context("it has no process for its status")
    }

    /// Its counters, see docs/status.md.
    pub(crate) fn status(&self) -> Result<Value> {
        let told = output(Command::new(&self.sluice).args(["status", &self.status, "--json"]), "")?;
        serde_json::from_str(&told).context("no JSON from sluice status")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_a_name_options_and_lines_of_toml() {
        let text = "two, direct: --architecture=symped --workers=2 placement.mapping=\"direct\"";
        let variant: Variant = text.parse().unwrap();
        assert_eq!(variant.name, "two, direct");
        assert_eq!(variant.options, ["--architecture=symped", "--workers=2"]);
        assert_eq!(variant.toml, ["placement.mapping=\"direct\""]);
        let limited = variant.with("accept-limit", "10");
        assert_eq!(
            limited.to_string(),
            "--architecture=symped --workers=2 --accept-limit=10 placement.mapping=\"direct\""
        );
    }

    #[test]
    fn the_servers_of_all_tables_are_understood() {
        use crate::{architectures, disk, partition};
        let usual = [&architectures::SERVERS[..], &disk::SERVERS, &partition::SERVERS];
        for server in usual.into_iter().flatten() {
            server.parse::<Variant>().unwrap();
        }
    }

    #[test]
    fn a_variant_that_cannot_be_understood_is_refused() {
        assert!("no colon".parse::<Variant>().is_err());
        let error = "name: --workers 2".parse::<Variant>().unwrap_err();
        assert!(error.contains("\"--workers\" has no equals sign"), "{error}");
    }
}
