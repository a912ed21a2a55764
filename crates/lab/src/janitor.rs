//! Takes away what a run set up (network namespaces, control groups, files for sockets, and all processes
//! that it started), however it ended.
//!
//! All of it has names that begin with [`prefix`], which holds this program's process id; processes have it
//! in their environment, under [`MARK`]. [`Janitor::employ`] starts this program once more, in a process
//! group of its own, as one that waits for the end of its standard input, which comes with the end of the
//! run: also when that panicked (which aborts it) or was killed. Then it cleans up. Where that one was killed
//! as well, [`clean_up`] does it.

use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// Cleans up behind this process.
#[derive(Debug)]
pub struct Janitor {
    child: Child,
    /// Closed with the last breath of this process.
    alive: Option<ChildStdin>,
}

/// The name of the subcommand that [`attend`]s.
pub const SUBCOMMAND: &str = "janitor";

/// Where control groups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";

impl Janitor {
    /// Starts it.
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

/// What all names begin with.
const NAME: &str = "sluicegate-";

/// What names of the process `run` begin with.
pub fn prefix(run: u32) -> String {
    format!("{NAME}{run}-")
}

/// The variable that all processes of a run have in their environment.
pub(crate) const MARK: &str = "SLUICELAB_RUN";

/// Its value.
pub(crate) fn mark() -> String {
    std::process::id().to_string()
}

/// What the janitor does: waits for the end of `run`, whose pipe standard input is, and cleans up behind it.
pub fn attend(run: u32) -> Result<()> {
    io::stdin().lock().read_to_end(&mut Vec::new())?;
    clean(run).map(drop)
}

/// Cleans up behind all runs that are over, and tells what it took away.
pub fn clean_up() -> Result<Vec<String>> {
    let names = namespaces()?.into_iter().chain(file_names(&groups(Path::new(CGROUPS), "")));
    let names = names.chain(file_names(&directories(&std::env::temp_dir())));
    let mut runs: Vec<u32> =
        names.filter_map(|name| name.strip_prefix(NAME)?.split('-').next()?.parse().ok()).collect();
    runs.extend(marked().into_iter().map(|(_, run)| run));
    runs.sort_unstable();
    runs.dedup();
    let mut gone = Vec::new();
    for run in runs.into_iter().filter(|run| !is_running(*run)) {
        gone.extend(clean(run)?);
    }
    Ok(gone)
}

/// Whether that process is there. Its id may be another's by now; then what is left stays a while longer.
fn is_running(run: u32) -> bool {
    Path::new("/proc").join(run.to_string()).exists()
}

/// Ends all processes of a run, and removes its namespaces, control groups and directories.
fn clean(run: u32) -> Result<Vec<String>> {
    let prefix = prefix(run);
    let mut gone = Vec::new();
    for (pid, _) in marked().into_iter().filter(|(pid, of)| *of == run && *pid != std::process::id()) {
        let name = machine::process::name(pid).unwrap_or_default();
        kill_all(&pid.to_string())?;
        gone.push(format!("process {pid} ({name})"));
    }
    for name in namespaces()?.into_iter().filter(|name| name.starts_with(&prefix)) {
        remove_namespace(&name)?;
        gone.push(format!("network namespace {name}"));
    }
    for group in groups(Path::new(CGROUPS), &prefix) {
        remove_group(&group)?;
        gone.push(format!("control group {}", group.display()));
    }
    for directory in directories(&std::env::temp_dir()) {
        if directory.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix)) {
            // Its owner may be taking it away as well.
            let _ = fs::remove_dir_all(&directory);
            gone.push(directory.display().to_string());
        }
    }
    Ok(gone)
}

/// Processes of runs, as far as this user may look: their ids, and the runs'.
fn marked() -> Vec<(u32, u32)> {
    let mark = format!("{MARK}=");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_string_lossy().parse().ok()?;
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let mut variables =
            environment.split(|byte| *byte == 0).filter_map(|text| std::str::from_utf8(text).ok());
        let run = variables.find_map(|variable| variable.strip_prefix(&mark)?.parse().ok())?;
        Some((pid, run))
    };
    entries.filter_map(of).collect()
}

/// Kills what runs in the namespace `name` and deletes it.
pub fn remove_namespace(name: &str) -> Result<()> {
    let output = Command::new("ip").args(["netns", "pids", name]).output()?;
    kill_all(&String::from_utf8_lossy(&output.stdout))?;
    let status = Command::new("ip").args(["netns", "del", name]).status()?;
    ensure!(status.success(), "cannot delete network namespace {name}");
    Ok(())
}

/// Kills what runs in the control group and deletes it.
pub fn remove_group(path: &Path) -> Result<()> {
    kill_all(&fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default())?;
    // Processes that were killed leave a moment later.
    for _ in 0..200 {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                thread::sleep(Duration::from_millis(10));
            }
            done => return done.with_context(|| format!("cannot delete {}", path.display())),
        }
    }
    anyhow::bail!("control group {} does not become empty", path.display())
}

fn namespaces() -> Result<Vec<String>> {
    match fs::read_dir("/run/netns") {
        Ok(entries) => {
            let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            names.collect()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).context("cannot list network namespaces"),
    }
}

/// Groups directly below the root of a hierarchy: version 2 has one at the mount point, or beside those of
/// version 1.
fn groups(root: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found = directories(root);
    found.extend(directories(root).iter().flat_map(|hierarchy| directories(hierarchy)));
    found.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)));
    // Hierarchies of version 1 that are mounted together have several names, which are links.
    found.sort();
    found
}

fn directories(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn file_names(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect()
}

fn kill_all(pids: &str) -> Result<()> {
    for pid in pids.split_whitespace() {
        let pid: i32 = pid.parse().with_context(|| format!("no process id: {pid:?}"))?;
        if let Some(pid) = Pid::from_raw(pid) {
            // It may have left by itself.
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
        // A run that is over: no process has so large an id.
        let run = u32::MAX - std::process::id();
        let directory = std::env::temp_dir().join(format!("{}left", prefix(run)));
        fs::create_dir(&directory).unwrap();
        let mut sleeps = Command::new("sleep").arg("1000").env(MARK, run.to_string()).spawn().unwrap();
        // It has its environment once it runs.
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
