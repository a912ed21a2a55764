//! Takes away what a run set up in the kernel (network namespaces, control groups, and the processes in
//! them), however it ended.
//!
//! All of it has names that begin with [`prefix`], which holds this program's process id. [`Janitor::employ`]
//! starts this program once more, in a process group of its own, as one that waits for the end of its
//! standard input, which comes with the end of the run: also when that panicked (which aborts it) or was
//! killed. Then it [`clean`]s up.

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

/// What names of the process `run` begin with.
pub fn prefix(run: u32) -> String {
    format!("sluicegate-{run}-")
}

/// What the janitor does: waits for the end of `run`, whose pipe standard input is, and cleans up behind it.
pub fn attend(run: u32) -> Result<()> {
    io::stdin().lock().read_to_end(&mut Vec::new())?;
    clean(&prefix(run))
}

/// Ends all processes in namespaces and control groups whose names begin with `prefix`, and removes these.
fn clean(prefix: &str) -> Result<()> {
    for name in namespaces()?.iter().filter(|name| name.starts_with(prefix)) {
        remove_namespace(name)?;
    }
    for group in groups(Path::new(CGROUPS), prefix) {
        remove_group(&group)?;
    }
    Ok(())
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
    let directories = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let mut found = directories(root);
    found.extend(directories(root).iter().flat_map(|hierarchy| directories(hierarchy)));
    found.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)));
    // Hierarchies of version 1 that are mounted together have several names, which are links.
    found.sort();
    found
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
