//! What the commands that run experiments take: programs, CPUs, directories.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use lab::measuring::means::Means;

use super::BadInput;

/// Programs, CPUs, directories.
#[derive(Debug, Args)]
#[command(next_help_heading = "Where and with what")]
pub(crate) struct Where {
    /// Our server, where no other build is named [default: beside this program]
    #[arg(long, value_name = "FILE")]
    sluice: Option<PathBuf>,
    /// The CPUs that servers run on [default: the first]
    #[arg(long, value_name = "LIST", value_parser = Cpus::read)]
    server_cpus: Option<Cpus>,
    /// The CPUs that clients run on [default: the last]
    #[arg(long, value_name = "LIST", value_parser = Cpus::read)]
    client_cpus: Option<Cpus>,
    /// Where files and sessions are kept for the next experiment [default: sluicelab in the user's cache
    /// directory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The directory of results; one that is there is gone on with [default: results/ and what is run]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Use the loopback interface even where network namespaces may be made
    #[arg(long)]
    loopback: bool,
}

#[derive(Clone, Debug)]
struct Cpus(Vec<usize>);

impl Cpus {
    fn read(text: &str) -> Result<Self, String> {
        units::parse_cpus(text).map(Self)
    }
}

impl Where {
    /// Whether servers may have a share of a CPU each: of one that they have for themselves.
    pub(super) fn may_share(&self) -> bool {
        let one = self.server_cpus.as_ref().is_none_or(|Cpus(cpus)| cpus.len() == 1);
        one && !self.loopback && lab::run::may_isolate()
    }

    /// What an experiment is run with.
    pub(super) fn means(&self) -> Result<Means> {
        let sluicelab = std::env::current_exe()?;
        let sluice = self.sluice.clone().unwrap_or_else(|| sluicelab.with_file_name("sluice"));
        let sluice = sluice.canonicalize().map_err(|error| {
            BadInput(format!("--sluice {}: {error} (cargo build --release)", sluice.display()))
        })?;
        let cores = std::thread::available_parallelism()?.get();
        if cores < 2 {
            return Err(BadInput("servers and clients need a CPU each, and there is one".to_owned()).into());
        }
        let or = |cpus: &Option<Cpus>, usual: usize| cpus.clone().map_or(vec![usual], |Cpus(cpus)| cpus);
        let (server_cpus, client_cpus) = (or(&self.server_cpus, 0), or(&self.client_cpus, cores - 1));
        if server_cpus.iter().any(|cpu| client_cpus.contains(cpu)) {
            let said = "--server-cpus and --client-cpus have one in common: allowed: different ones";
            return Err(BadInput(said.to_owned()).into());
        }
        let data = match &self.data {
            Some(data) => data.clone(),
            None => {
                cache().context("neither XDG_CACHE_HOME nor HOME is set: name a directory with --data")?
            }
        };
        let command = std::env::args().map(|word| quoted(&word)).collect::<Vec<_>>().join(" ");
        Ok(Means { sluice, sluicelab, data, server_cpus, client_cpus, loopback: self.loopback, command })
    }
}

fn cache() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    cache.map(|cache| cache.join("sluicelab"))
}

/// As a shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=+,./:@%".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted() {
        let words = ["run", "a.toml", "a: --b=c", "it's", ""];
        assert_eq!(words.map(quoted).join(" "), "run a.toml 'a: --b=c' 'it'\\''s' ''");
    }
}
