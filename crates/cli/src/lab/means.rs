//! What the commands that run experiments take: programs, CPUs, directories.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use lab::measuring::means::Means;
use lab::programs::child::list;
use lab::programs::shell;

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

    /// What goes on with a directory has to be told again: all of these but the directory, as a shell takes
    /// them.
    pub(super) fn typed(&self) -> String {
        let path = |name: &str, path: &Option<PathBuf>| {
            path.as_ref().map(|path| format!("--{name}={}", path.display()))
        };
        let cpus = |name: &str, cpus: &Option<Cpus>| {
            cpus.as_ref().map(|Cpus(cpus)| format!("--{name}={}", list(cpus)))
        };
        let all = [
            path("sluice", &self.sluice),
            cpus("server-cpus", &self.server_cpus),
            cpus("client-cpus", &self.client_cpus),
            path("data", &self.data),
            self.loopback.then(|| "--loopback".to_owned()),
        ];
        all.into_iter().flatten().flat_map(|option| [" ".to_owned(), shell::quoted(&option)]).collect()
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
        let command = shell::line(std::env::args());
        Ok(Means { sluice, sluicelab, data, server_cpus, client_cpus, loopback: self.loopback, command })
    }
}

fn cache() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    cache.map(|cache| cache.join("sluicelab"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_told_again() {
        #[derive(clap::Parser)]
        struct Typed {
            #[command(flatten)]
            means: Where,
        }
        use clap::Parser as _;
        let words = "x --client-cpus 2-3 --server-cpus=0 --out a --loopback --data";
        let typed = Typed::parse_from(words.split(' ').chain(["a b"])).means.typed();
        assert_eq!(typed, " --server-cpus=0 --client-cpus=2,3 '--data=a b' --loopback");
    }
}
