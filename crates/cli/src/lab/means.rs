//! The options that all commands that run experiments share: programs, CPUs, directories.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use lab::measuring::means::Means;
use lab::programs::child::list;
use lab::programs::shell;

use super::BadInput;

/// Programs, CPUs, directories.
#[derive(Debug, Args)]
#[command(next_help_heading = "Programs, CPUs and directories")]
pub(crate) struct Where {
    /// The `sluice` to run, unless a server names another build [default: next to this program]
    #[arg(long, value_name = "FILE")]
    sluice: Option<PathBuf>,
    /// CPUs for the servers [default: the first]
    #[arg(long, value_name = "LIST", value_parser = Cpus::read)]
    server_cpus: Option<Cpus>,
    /// CPUs for the clients [default: the last]
    #[arg(long, value_name = "LIST", value_parser = Cpus::read)]
    client_cpus: Option<Cpus>,
    /// Where to keep files and sessions for later experiments [default: sluicelab in the user's cache
    /// directory]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The directory for results; an existing one is continued [default: a new one in results/]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Use the loopback interface even if network namespaces can be made
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
    /// Whether each server can be limited to a part of a CPU. That requires a single CPU for the servers.
    pub(super) fn may_share(&self) -> bool {
        let one = self.server_cpus.as_ref().is_none_or(|Cpus(cpus)| cpus.len() == 1);
        one && !self.loopback && lab::run::may_isolate()
    }

    /// These options as a shell takes them, without the directory. The command that resumes a directory has
    /// to repeat them.
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

    /// The programs, CPUs and directories of an experiment, checked.
    pub(super) fn means(&self) -> Result<Means> {
        let sluicelab = std::env::current_exe()?;
        let sluice = self.sluice.clone().unwrap_or_else(|| sluicelab.with_file_name("sluice"));
        let sluice = sluice.canonicalize().map_err(|error| {
            BadInput(format!("--sluice {}: {error}; build it with `cargo build --release`", sluice.display()))
        })?;
        let cores = std::thread::available_parallelism()?.get();
        if cores < 2 {
            let said = "servers and clients need a CPU each, but this machine has only one";
            return Err(BadInput(said.to_owned()).into());
        }
        let or = |cpus: &Option<Cpus>, usual: usize| cpus.clone().map_or(vec![usual], |Cpus(cpus)| cpus);
        let (server_cpus, client_cpus) = (or(&self.server_cpus, 0), or(&self.client_cpus, cores - 1));
        if server_cpus.iter().any(|cpu| client_cpus.contains(cpu)) {
            let said = "--server-cpus and --client-cpus have a CPU in common; allowed: different CPUs";
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
