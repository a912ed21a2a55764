//! How each server is configured and started: command lines with generated configurations, which are kept in
//! the trial's directory for everybody to see.
//!
//! Each runs in the foreground, with what its documentation and the papers found good for static files: as
//! many workers as it has CPUs, an open-file cache, no access log, and connections that are kept for as long
//! as clients want. A setting `name=value` replaces what is generated.

mod command;
mod lighttpd;
mod nginx;
mod sluice;

pub(crate) use sluice::STATUS;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::spec::{Kind, Spec};

/// Where and for what a server is started.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// Of the files.
    pub root: &'a Path,
    /// All of them are listened on.
    pub listen: &'a [SocketAddr],
    /// For its configuration, logs and sockets.
    pub directory: &'a Path,
    /// For its sockets, whose paths have to be short: `unix(7)` has 108 bytes for one.
    pub sockets: &'a Path,
    /// How many CPUs it has.
    pub cpus: usize,
    /// How many connections it has to have room for.
    pub capacity: usize,
    /// Our server, where a spec names no other build.
    pub sluice: &'a Path,
}

/// The commands that make up the server, in the order in which they are started: clients talk to the last.
/// Configurations are written to the ground's directory.
///
/// # Errors
/// Where a setting is unknown, or a file can't be written.
pub fn commands(spec: &Spec, ground: &Ground<'_>) -> Result<Vec<Vec<String>>> {
    let settings = Settings::of(spec);
    match spec.kind {
        Kind::Sluice => sluice::commands(spec, ground),
        Kind::Nginx => nginx::commands(spec, settings, ground),
        Kind::Lighttpd => lighttpd::commands(spec, settings, ground),
        Kind::Apache | Kind::ApacheWorker | Kind::Haproxy => bail!("{} is not there yet", spec.name),
        Kind::Command => command::commands(spec, ground),
    }
}

/// The executable that makes a spec what it is, for its version and the hash of its bytes; `None` for
/// commands of several words that name none.
pub(crate) fn executable(spec: &Spec, sluice: &Path) -> Option<PathBuf> {
    let usual = match spec.kind {
        Kind::Sluice => return Some(spec.program.clone().unwrap_or_else(|| sluice.to_owned())),
        Kind::Nginx => "nginx",
        Kind::Lighttpd => "lighttpd",
        Kind::Apache | Kind::ApacheWorker => "apache2",
        Kind::Haproxy => "haproxy",
        Kind::Command => spec.settings.first()?.as_str(),
    };
    found(&spec.program.clone().unwrap_or_else(|| usual.into()))
}

/// An executable by its path, or where the shell and Debian's administrators look.
fn found(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.canonicalize().ok();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let all = path.split(':').chain(["/usr/sbin", "/sbin", "/usr/local/sbin"]);
    all.map(|directory| Path::new(directory).join(program)).find(|path| path.is_file())
}

/// The executable of a peer, or an error that names the package.
fn peer(spec: &Spec, package: &str) -> Result<String> {
    let path = executable(spec, Path::new(""));
    let path = path.with_context(|| format!("{} is not installed (Debian package {package})", spec.name))?;
    Ok(path.display().to_string())
}

/// Settings `name=value` of a spec: those that a configuration asks for, and what is left.
#[derive(Debug)]
struct Settings<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Settings<'a> {
    fn of(spec: &'a Spec) -> Self {
        Self(spec.settings.iter().filter_map(|word| word.split_once('=')).collect())
    }

    /// What was set under `name`, or `usual`.
    fn take(&mut self, name: &str, usual: &dyn ToString) -> String {
        match self.0.iter().position(|(other, _)| *other == name) {
            Some(at) => self.0.remove(at).1.to_owned(),
            None => usual.to_string(),
        }
    }

    /// The others, a line for each.
    fn rest(self, line: impl Fn(&str, &str) -> String) -> String {
        self.0.into_iter().map(|(name, value)| line(name, value)).collect()
    }
}

fn write(ground: &Ground<'_>, name: &str, text: &str) -> Result<String> {
    let path = ground.directory.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path.display().to_string())
}

/// Words of a command line.
fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written for a server that listens at 127.0.0.1:8080.
    pub(super) fn configured(text: &str) -> (Vec<Vec<String>>, String) {
        let scratch = tempfile::tempdir().unwrap();
        let ground = Ground {
            root: Path::new("/srv/www"),
            listen: &["127.0.0.1:8080".parse().unwrap()],
            directory: scratch.path(),
            sockets: scratch.path(),
            cpus: 2,
            capacity: 1_000,
            sluice: Path::new("/bin/true"),
        };
        let spec: Spec = text.parse().unwrap();
        let commands = commands(&spec, &ground).unwrap();
        let mut files: Vec<PathBuf> =
            fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        (commands, files.iter().map(|path| fs::read_to_string(path).unwrap_or_default()).collect())
    }

    #[test]
    fn settings_replace_what_is_generated_and_others_are_added() {
        let (_, usual) = configured("nginx");
        assert!(usual.contains("worker_processes 2;") && usual.contains("sendfile on;"), "{usual}");
        let (_, set) = configured("nginx: worker_processes=5 sendfile=off aio=threads");
        assert!(set.contains("worker_processes 5;") && set.contains("sendfile off;"), "{set}");
        assert!(set.contains("aio threads;") && !set.contains("sendfile on;"), "{set}");
        let (_, set) = configured("lighttpd: server.network-backend=writev server.max-worker=3");
        assert!(set.contains("\"writev\"") && set.contains("server.max-worker = 3"), "{set}");
    }

    #[test]
    fn ours_takes_options_and_lines_of_its_file() {
        let (commands, file) = configured("sluice: --workers=4 placement.mapping=\"direct\"");
        assert_eq!(commands.len(), 1);
        assert!(commands[0].contains(&"--workers=4".to_owned()), "{commands:?}");
        assert!(file.contains("placement.mapping=\"direct\""), "{file}");
    }

    #[test]
    fn a_command_has_its_places_filled() {
        let (commands, _) = configured("mine = ./server -p {port} --cpus {cpus} {root}");
        assert_eq!(commands, [["./server", "-p", "8080", "--cpus", "2", "/srv/www"]]);
    }
}
