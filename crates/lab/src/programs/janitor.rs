//! Removes what a run has set up, however the run ended: network namespaces, control groups, files for
//! sockets, and all processes that it started.
//!
//! All these have names that begin with [`prefix`], which includes this program's process id. Processes
//! have the id in their environment, in the variable [`MARK`]. [`Janitor::employ`] starts this program once
//! more, in its own process group. That process waits for the end of its standard input, which comes when
//! the run ends, even if the run panicked (which aborts it) or was killed. Then it cleans up. If that
//! process was killed as well, [`clean_up`] does it.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use machine::Machine;
use rustix::process::{Pid, Signal, kill_process};

/// Cleans up after this process.
#[derive(Debug)]
pub struct Janitor {
    child: Child,
    /// The pipe that closes when this process ends, however it ends.
    alive: Option<ChildStdin>,
}

/// The name of the subcommand that runs [`attend`].
pub const SUBCOMMAND: &str = "janitor";

/// Where control groups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";

impl Janitor {
    /// Starts the janitor process.
    pub fn employ() -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(SUBCOMMAND)
            .arg(std::process::id().to_string())
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("cannot start the janitor")?;
        let alive = child.stdin.take();
        Ok(Self { child, alive })
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.alive.take());
        let _ = self.child.wait();
    }
}

/// The beginning of all names.
const NAME: &str = "sluicegate-";

/// The beginning of names for the process `run`.
pub fn prefix(run: u32) -> String {
    format!("{NAME}{run}-")
}

/// An environment variable of all processes of a run.
pub(crate) const MARK: &str = "SLUICELAB_RUN";

/// The value of [`MARK`].
pub(crate) fn mark() -> String {
    std::process::id().to_string()
}

/// The janitor's work: waits for the end of `run`, which holds the other end of standard input, and cleans
/// up after it.
pub fn attend(run: u32) -> Result<()> {
    io::stdin().lock().read_to_end(&mut Vec::new())?;
    clean(|of| of == run).map(drop)
}

/// Cleans up after all finished runs, and returns what it removed.
pub fn clean_up() -> Result<Vec<String>> {
    clean(|run| !is_running(run))
}

/// Whether that process exists. Another process may have the id of a finished run; then its remains stay
/// for now.
fn is_running(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Something that a run has set up.
enum Left {
    /// A process: its id and its name.
    Process(u32, String),
    Namespace(String),
    Group(PathBuf),
    Directory(PathBuf),
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(pid, name) => write!(f, "process {pid} ({name})"),
            Self::Namespace(name) => write!(f, "network namespace {name}"),
            Self::Group(path) => write!(f, "control group {}", path.display()),
            Self::Directory(path) => path.display().fmt(f),
        }
    }
}

impl Left {
    fn take_away(&self) -> Result<()> {
        match self {
            Self::Process(pid, _) => kill_all(&pid.to_string()),
            Self::Namespace(name) => remove_namespace(name),
            Self::Group(path) => remove_group(path),
            Self::Directory(path) => {
                // Its owner may be removing it at the same time.
                let _ = fs::remove_dir_all(path);
                Ok(())
            }
        }
    }

    fn is_there(&self) -> bool {
        match self {
            Self::Process(pid, _) => is_running(*pid),
            Self::Namespace(name) => Path::new("/run/netns").join(name).exists(),
            Self::Group(path) | Self::Directory(path) => path.exists(),
        }
    }
}

/// Removes what finished runs have left, processes first.
fn clean(is_over: impl Fn(u32) -> bool) -> Result<Vec<String>> {
    let mut gone = Vec::new();
    for (_, left) in left().into_iter().filter(|(run, _)| is_over(*run)) {
        match left.take_away() {
            // The run may have ended just now, and have removed it itself.
            Err(error) if left.is_there() => return Err(error),
            _ => gone.push(left.to_string()),
        }
    }
    Ok(gone)
}

/// The remains of all runs, each with the run's process id.
fn left() -> Vec<(u32, Left)> {
    let others = marked().into_iter().filter(|(pid, _)| *pid != std::process::id());
    let name = |pid| machine::process::name(pid).unwrap_or_default();
    let mut all: Vec<(u32, Left)> = others.map(|(pid, run)| (run, Left::Process(pid, name(pid)))).collect();
    let run_of = |name: &str| name.strip_prefix(NAME)?.split('-').next()?.parse().ok();
    let run_at = |path: &Path| run_of(path.file_name()?.to_str()?);
    let namespaces = Machine::this().names("/run/netns").into_iter();
    all.extend(namespaces.filter_map(|name| Some((run_of(&name)?, Left::Namespace(name)))));
    // Groups are directly below the root of a hierarchy. That of version 2 is at the mount point, or beside
    // those of version 1. Hierarchies of version 1 that are mounted together have several names, which are
    // links.
    let hierarchies = directories(Path::new(CGROUPS));
    let within = hierarchies.iter().flat_map(|hierarchy| directories(hierarchy));
    let mut groups: Vec<PathBuf> =
        within.chain(hierarchies.clone()).filter_map(|path| path.canonicalize().ok()).collect();
    groups.sort();
    groups.dedup();
    all.extend(groups.into_iter().filter_map(|path| Some((run_at(&path)?, Left::Group(path)))));
    let directories = directories(&std::env::temp_dir()).into_iter();
    all.extend(directories.filter_map(|path| Some((run_at(&path)?, Left::Directory(path)))));
    all
}

/// The processes of runs, as far as this user may see them: their ids, and those of the runs.
fn marked() -> Vec<(u32, u32)> {
    let mark = format!("{MARK}=");
    let of = |name: String| {
        let pid = name.parse().ok()?;
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mut variables =
            environment.split(|byte| *byte == 0).filter_map(|text| std::str::from_utf8(text).ok());
        let run = variables.find_map(|variable| variable.strip_prefix(&mark)?.parse().ok())?;
        Some((pid, run))
    };
    Machine::this().names("/proc").into_iter().filter_map(of).collect()
}

/// Kills the processes in the namespace `name`, and deletes it.
pub fn remove_namespace(name: &str) -> Result<()> {
    let output = Command::new("ip").args(["netns", "pids", name]).output()?;
    kill_all(&String::from_utf8_lossy(&output.stdout))?;
    let status = Command::new("ip").args(["netns", "del", name]).status()?;
    ensure!(status.success(), "cannot delete network namespace {name}");
    Ok(())
}

/// Kills the processes in the control group, and deletes it.
pub fn remove_group(path: &Path) -> Result<()> {
    // Killed processes leave a moment later, and on busy CPUs seconds later. A process that is just
    // starting may still come.
    for _ in 0..1000 {
        kill_all(&fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default())?;
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                thread::sleep(Duration::from_millis(10));
            }
            done => return done.with_context(|| format!("cannot delete {}", path.display())),
        }
    }
    anyhow::bail!("control group {} does not become empty", path.display())
}

fn directories(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn kill_all(pids: &str) -> Result<()> {
    for pid in pids.split_whitespace() {
        let pid: i32 = pid.parse().with_context(|| format!("no process id: {pid:?}"))?;
        if let Some(pid) = Pid::from_raw(pid) {
            // The process may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_left_behind_is_taken_away() {
        // A finished run: no process has an id as large as this.
        let run = u32::MAX - std::process::id();
        let directory = std::env::temp_dir().join(format!("{}left", prefix(run)));
        fs::create_dir(&directory).unwrap();
        let mut sleeps = Command::new("sleep").arg("1000").env(MARK, run.to_string()).spawn().unwrap();
        // The process has its environment only once it runs.
        while !marked().contains(&(sleeps.id(), run)) {
            thread::sleep(Duration::from_millis(5));
        }
        let gone = clean_up().unwrap();
        assert!(gone.contains(&format!("process {} (sleep)", sleeps.id())), "{gone:?}");
        assert!(gone.contains(&directory.display().to_string()), "{gone:?}");
        assert!(!directory.exists() && !sleeps.wait().unwrap().success());
        assert!(!is_running(run) && is_running(std::process::id()));
    }
}
