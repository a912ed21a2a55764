//! A server as a trial runs it: all its processes, in a namespace or control group made for it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use machine::process;
use serde_json::Value;

use crate::child::output;
use crate::interrupt;
use crate::launcher::{PATIENCE, Place, Server};
use crate::network::Network;
use crate::servers::{self, Ground};
use crate::spec::{Kind, Spec};

/// A running server. It ends when this is dropped, those in front before those behind.
#[derive(Debug)]
pub(crate) struct Subject {
    /// Clients talk to the first.
    running: Vec<Server>,
    /// Who is asked for the status, and where.
    status: Option<(PathBuf, String)>,
}

impl Subject {
    /// Starts it, and waits until it listens everywhere. `wrapper` stands before each command.
    pub(crate) fn start(
        spec: &Spec,
        ground: &Ground<'_>,
        network: &Network,
        cpus: &[usize],
        wrapper: &[String],
    ) -> Result<Self> {
        let commands = servers::commands(spec, ground)?;
        let mut running = Vec::new();
        let last = commands.len().saturating_sub(1);
        for (number, words) in commands.iter().enumerate() {
            let log = ground.directory.join(if number == last {
                "stderr".to_owned()
            } else {
                format!("stderr-{number}")
            });
            let place = Place { cpus, wrapper, log: &log };
            // Those behind are waited for by those in front.
            let server = Server::start(words, place, |_| {
                let all = || ground.listen.iter().all(|address| network.connect(*address, 1).is_ok());
                (number < last || all()).then(|| ground.listen[0])
            })?;
            running.insert(0, server);
        }
        let status = (spec.kind == Kind::Sluice).then(|| {
            let at = ground.sockets.join(servers::STATUS);
            (
                spec.program.clone().unwrap_or_else(|| ground.sluice.to_owned()),
                format!("unix:{}", at.display()),
            )
        });
        Ok(Self { running, status })
    }

    /// The process that was started last.
    pub(crate) fn id(&self) -> u32 {
        self.running[0].id()
    }

    /// All its processes.
    pub(crate) fn processes(&self) -> Result<Vec<u32>> {
        let all = self.running.iter().map(Server::processes).collect::<Result<Vec<_>>>()?;
        Ok(all.concat())
    }

    /// The process that tells its status, if it is ours.
    pub(crate) fn status_process(&self) -> Result<Option<u32>> {
        if self.status.is_none() {
            return Ok(None);
        }
        let is_it = |pid: &u32| process::name(*pid).is_ok_and(|name| name == "sluice:status");
        // It gives itself that name once it runs.
        let found = interrupt::wait_for(PATIENCE, || Ok(self.processes()?.into_iter().find(is_it)))?;
        found.context("it has no process for its status").map(Some)
    }

    /// Its counters, see docs/status.md; `None` of a server that is not ours.
    pub(crate) fn status(&self) -> Result<Option<Value>> {
        let Some((sluice, at)) = &self.status else { return Ok(None) };
        let told = output(Command::new(sluice).args(["status", at, "--json"]), "")?;
        serde_json::from_str(&told).context("no JSON from sluice status").map(Some)
    }
}

/// Why our server won't run with these settings at so many addresses, if it won't. Those of an experiment's
/// networks are not there yet, so it is asked with others. Of other servers nobody can be asked.
pub(crate) fn refusal(
    spec: &Spec,
    sluice: &Path,
    addresses: usize,
    scratch: &Path,
) -> Result<Option<String>> {
    if spec.kind != Kind::Sluice {
        return Ok(None);
    }
    let listen: Vec<_> =
        (1..=addresses).map(|host| std::net::SocketAddr::from(([127, 0, 0, host as u8], 0))).collect();
    let ground = Ground {
        root: scratch,
        listen: &listen,
        directory: scratch,
        sockets: scratch,
        cpus: 1,
        capacity: 1_000,
        sluice,
    };
    let mut words = servers::commands(spec, &ground)?.concat();
    "check".clone_into(&mut words[1]);
    words.retain(|word| !word.starts_with("--status="));
    let output = Command::new(&words[0])
        .args(&words[1..])
        .output()
        .with_context(|| format!("cannot run {}", words[0]))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.code() {
        Some(0) => Ok(None),
        Some(2) => Ok(Some(said.lines().next().unwrap_or("no reason given").to_owned())),
        _ => anyhow::bail!("{} ended with {}: {said}", words.join(" "), output.status),
    }
}
