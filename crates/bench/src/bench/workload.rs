//! What an experiment's clients ask for: a file set and sessions for it, made by `sluicelab` and kept for the
//! next run.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;

use crate::child::output;
use crate::trial::Site;

/// The workloads of the 2004 paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// One file of 1,024 bytes, which fits into a packet with its head; a connection for each request.
    OnePacket,
    /// That file, while 4,000 other clients are connected who ask for nothing: some event mechanisms look at
    /// each of them in every get-events phase (Banga and Mogul 1998).
    OnePacketIdle,
    /// The static files of `SPECweb99`; sessions of about 7.3 requests on a connection that is kept.
    Specweb99,
}

impl Kind {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// How many connections are held open besides.
    pub(crate) fn idle_connections(self) -> usize {
        if self == Self::OnePacketIdle { 4_000 } else { 0 }
    }

    /// What `sluicelab` calls the files and sessions.
    fn set(self) -> Self {
        if self == Self::OnePacketIdle { Self::OnePacket } else { self }
    }
}

/// Files and sessions on the disk.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) kind: Kind,
    pub(crate) root: PathBuf,
    pub(crate) sessions: PathBuf,
}

impl Workload {
    /// Makes what is missing of it where such things are kept: of `SPECweb99` so many directories of 36 files
    /// and 5.1 MB, and so many sessions.
    fn prepare(site: &Site, kind: Kind, directories: u32, sessions: u32) -> Result<Self> {
        let Site { sluicelab, data, .. } = site;
        let set = kind.set().name();
        let name = if kind == Kind::Specweb99 { format!("{set}-{directories}") } else { set.clone() };
        let root = data.join(&name);
        let file = data.join(format!("{name}-{sessions}.sessions"));
        std::fs::create_dir_all(data)?;
        eprintln!("files and sessions: {}", root.display());
        let mut fileset = Command::new(sluicelab);
        fileset.args(["fileset", &set, "--root"]).arg(&root);
        let mut draw = Command::new(sluicelab);
        draw.args(["sessions", &set, "--fileset"]).arg(&root).arg("--out").arg(&file);
        if kind == Kind::Specweb99 {
            fileset.arg(format!("--directories={directories}"));
            draw.arg(format!("--count={sessions}"));
        }
        output(&mut fileset, "")?;
        if !file.is_file() {
            output(&mut draw, "")?;
        }
        Ok(Self { kind, root, sessions: file })
    }
}

/// Those of an experiment.
#[derive(Debug)]
pub(crate) struct Workloads(Vec<Workload>);

impl Workloads {
    /// See [`Workload::prepare`].
    pub(crate) fn prepare(site: &Site, kinds: &[Kind], directories: u32, sessions: u32) -> Result<Self> {
        let each = |kind: &Kind| Workload::prepare(site, *kind, directories, sessions);
        Ok(Self(kinds.iter().map(each).collect::<Result<_>>()?))
    }

    pub(crate) fn of(&self, kind: Kind) -> Result<&Workload> {
        let found = self.0.iter().find(|workload| workload.kind == kind);
        found.with_context(|| format!("{} is not prepared", kind.name()))
    }
}
