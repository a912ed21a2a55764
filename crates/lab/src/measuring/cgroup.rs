//! Control groups of both versions, made for a trial and removed after it.
//!
//! See cgroups(7) and, in the kernel's documentation, admin-guide/cgroup-v1 and admin-guide/cgroup-v2.rst.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};

use crate::programs::child::{Process, on_cpus};
use crate::programs::janitor;

/// A control group. Dropping it ends its processes and removes it.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) version: Version,
    /// In version 1, one path for each controller; in version 2, only one.
    paths: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

/// A controller, with its name in version 1 and in version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controller {
    Cpu,
    Memory,
    Disk,
}

const ROOT: &str = "/sys/fs/cgroup";

impl Controller {
    fn name(self, version: Version) -> &'static str {
        match (self, version) {
            (Self::Cpu, _) => "cpu",
            (Self::Memory, _) => "memory",
            (Self::Disk, Version::One) => "blkio",
            (Self::Disk, Version::Two) => "io",
        }
    }
}

impl Group {
    /// A group with these controllers.
    pub(crate) fn new(controllers: &[Controller]) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{number}", janitor::prefix(std::process::id()));
        let root = Path::new(ROOT);
        let hierarchy = |controller: &Controller| root.join(controller.name(Version::One));
        let this = if controllers.iter().all(|controller| hierarchy(controller).join("tasks").exists()) {
            let paths = controllers.iter().map(|controller| hierarchy(controller).join(&name)).collect();
            Self { version: Version::One, paths }
        } else {
            let there = fs::read_to_string(root.join("cgroup.controllers"));
            let there = there.context("no control groups in /sys/fs/cgroup")?;
            for controller in controllers {
                let name = controller.name(Version::Two);
                ensure!(
                    there.split_whitespace().any(|other| other == name),
                    "control groups here have no {name}, only: {}",
                    there.trim()
                );
                write(&root.join("cgroup.subtree_control"), &format!("+{name}"))?;
            }
            Self { version: Version::Two, paths: vec![root.join(&name)] }
        };
        for path in &this.paths {
            fs::create_dir(path)
                .with_context(|| format!("cannot make control group {} (needs root)", path.display()))?;
        }
        Ok(this)
    }

    /// The directory of one of the group's controllers.
    fn of(&self, controller: Controller) -> &Path {
        let hierarchy = Path::new(ROOT).join(controller.name(Version::One));
        self.paths.iter().find(|path| path.starts_with(&hierarchy)).unwrap_or(&self.paths[0])
    }

    pub(crate) fn write(&self, controller: Controller, file: &str, text: &str) -> Result<()> {
        write(&self.of(controller).join(file), text)
    }

    pub(crate) fn read(&self, controller: Controller, file: &str) -> Result<String> {
        let path = self.of(controller).join(file);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Words that, in front of a command, make the command run in the group.
    pub(crate) fn entering(&self) -> Vec<String> {
        entering(self.paths.iter().map(PathBuf::as_path))
    }

    /// Moves a process out of the group, for one controller.
    pub(crate) fn dismiss(&self, controller: Controller, pid: u32) -> Result<()> {
        let root = self.of(controller).parent().context("a group is in a hierarchy")?;
        write(&root.join("cgroup.procs"), &pid.to_string())
    }

    /// Starts another program on one CPU that counts for one controller only.
    pub(crate) fn start(&self, controller: Controller, cpu: usize, words: &[&str]) -> Result<Process> {
        Process::start(on_cpus(&[cpu]).args(entering([self.of(controller)])).args(words))
    }
}

fn entering<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Vec<String> {
    let enter: Vec<String> =
        paths.into_iter().map(|path| format!("echo $$ > {}/cgroup.procs", path.display())).collect();
    let script = format!("{} && exec \"$@\"", enter.join(" && "));
    vec!["sh".to_owned(), "-c".to_owned(), script, "sh".to_owned()]
}

impl Drop for Group {
    fn drop(&mut self) {
        for path in &self.paths {
            if path.exists()
                && let Err(error) = janitor::remove_group(path)
            {
                eprintln!("{error:#}");
            }
        }
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {text:?} to {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_group_is_entered_and_goes_with_what_runs_in_it() {
        // This needs root, and not every machine that runs tests has the controllers.
        let group = match Group::new(&[Controller::Cpu]) {
            Ok(group) => group,
            Err(error) => return harness::skip(format!("a control group of CPUs: {error:#}")),
        };
        let words = group.entering();
        let said = Command::new(&words[0]).args(&words[1..]).args(["cat", "/proc/self/cgroup"]).output();
        let said = String::from_utf8(said.unwrap().stdout).unwrap();
        let name = group.paths[0].file_name().unwrap().to_str().unwrap();
        assert!(said.contains(name), "{said}");
        let sleeps = group.start(Controller::Cpu, 0, &["sleep", "1000"]).unwrap();
        let dismissed = group.start(Controller::Cpu, 0, &["sleep", "1000"]).unwrap();
        let is_in_it = || {
            let groups = fs::read_to_string(format!("/proc/{}/cgroup", dismissed.id())).unwrap();
            groups.contains(name)
        };
        harness::eventually("it has entered", is_in_it);
        group.dismiss(Controller::Cpu, dismissed.id()).unwrap();
        assert!(!is_in_it());
        let paths = group.paths.clone();
        drop(sleeps);
        drop(group);
        assert!(paths.iter().all(|path| !path.exists()));
    }
}
