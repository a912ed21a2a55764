//! A disk as the 2007 paper had it: a control group with little memory, which bounds the page cache, and a disk of known speed.
//!
//! Without the throttle a virtual machine's disk is slow once and then served from the host's memory. Both versions of control
//! groups are known. See cgroups(7) and, in the kernel's documentation, admin-guide/cgroup-v1/memory.rst and blkio-controller.rst,
//! admin-guide/cgroup-v2.rst.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use rustix::fs::{Advice, fadvise, fdatasync};
use serde::Serialize;

use crate::child::Process;
use crate::janitor;

/// How much memory and disk a server has.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Bounds {
    /// For processes and the page cache of what they read, in bytes.
    pub(crate) memory: u64,
    /// Bytes per second that may be read from the disk.
    pub(crate) reads_per_s: u64,
    /// How many others read from it all the time, each with one read under way. A throttled disk has no latency: what it did not
    /// read while nobody asked, it reads at once afterwards. Others take that away, and a read has to wait for theirs.
    pub(crate) others: u32,
}

/// A control group. Dropping it ends what runs in it and removes it.
#[derive(Debug)]
pub(crate) struct Group {
    version: Version,
    /// Of version 1, memory and blkio; of version 2 only one.
    paths: Vec<PathBuf>,
    others: Vec<Process>,
}

/// How much each of the others reads at a time, in bytes.
pub(crate) const OTHERS_READ: u64 = 64 << 10;

/// The length of the file that they read.
const OTHERS_FILE: u64 = 256 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

const ROOT: &str = "/sys/fs/cgroup";

impl Group {
    /// A group for reading files below `site`; the others run on `others_cpu`.
    pub(crate) fn new(bounds: Bounds, site: &Path, others_cpu: usize) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{number}", janitor::prefix(std::process::id()));
        let device = device_of(site)?;
        let root = Path::new(ROOT);
        let mut this = if root.join("memory/memory.limit_in_bytes").exists() {
            let paths = ["memory", "blkio"].map(|controller| root.join(controller).join(&name)).to_vec();
            Self { version: Version::One, paths, others: Vec::new() }
        } else {
            let controllers = fs::read_to_string(root.join("cgroup.controllers"));
            let controllers = controllers.context("no control groups in /sys/fs/cgroup")?;
            let has = |name| controllers.split_whitespace().any(|controller| controller == name);
            ensure!(has("memory") && has("io"), "control groups here have only: {}", controllers.trim());
            write(&root.join("cgroup.subtree_control"), "+memory +io")?;
            Self { version: Version::Two, paths: vec![root.join(&name)], others: Vec::new() }
        };
        for path in &this.paths {
            fs::create_dir(path)
                .with_context(|| format!("cannot make control group {} (needs root)", path.display()))?;
        }
        let (memory, reads) = match this.version {
            Version::One => ("memory.limit_in_bytes", "blkio.throttle.read_bps_device"),
            Version::Two => ("memory.max", "io.max"),
        };
        write(&this.memory().join(memory), &bounds.memory.to_string())?;
        let speed = match this.version {
            Version::One => format!("{device} {}", bounds.reads_per_s),
            Version::Two => format!("{device} rbps={}", bounds.reads_per_s),
        };
        write(&this.disk().join(reads), &speed)?;
        if bounds.others > 0 {
            let file = site.with_file_name("read-by-others");
            ensure_file(&file)?;
            for _ in 0..bounds.others {
                let other = this.start_other(&file, others_cpu)?;
                this.others.push(other);
            }
        }
        Ok(this)
    }

    /// Words before a command that has it run in the group.
    pub(crate) fn entering(&self) -> Vec<String> {
        let enter: Vec<String> =
            self.paths.iter().map(|path| format!("echo $$ > {}/cgroup.procs", path.display())).collect();
        let script = format!("{} && exec \"$@\"", enter.join(" && "));
        vec!["sh".to_owned(), "-c".to_owned(), script, "sh".to_owned()]
    }

    /// Bytes of the page cache that count for this group.
    pub(crate) fn page_cache(&self) -> Result<u64> {
        let memory = fs::read_to_string(self.memory().join("memory.stat"))?;
        let name = match self.version {
            Version::One => "cache ",
            Version::Two => "file ",
        };
        let line = memory.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|bytes| bytes.trim().parse().ok()).context("memory.stat tells no page cache")
    }

    /// Starts somebody else who reads from the same disk past the page cache, again and again, with one read of
    /// [`OTHERS_READ`] under way at any time.
    fn start_other(&self, file: &Path, cpu: usize) -> Result<Process> {
        let script = format!(
            "echo $$ > {}/cgroup.procs && while dd if=\"$1\" of=/dev/null bs={OTHERS_READ} iflag=direct status=none; do :; done",
            self.disk().display()
        );
        let child = Command::new("taskset")
            .args(["-c", &cpu.to_string(), "sh", "-c", &script, "sh"])
            .arg(file)
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot run taskset (Debian package util-linux)")?;
        Ok(Process::of(child))
    }

    fn memory(&self) -> &Path {
        &self.paths[0]
    }

    fn disk(&self) -> &Path {
        &self.paths[self.paths.len() - 1]
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.others.clear();
        for path in &self.paths {
            if path.exists()
                && let Err(error) = janitor::remove_group(path)
            {
                eprintln!("bench: {error:#}");
            }
        }
    }
}

/// Has the kernel forget the pages of all files below `root`, so that they have to be read from the disk, and count for who reads
/// them. `posix_fadvise(2)`, `POSIX_FADV_DONTNEED`.
pub(crate) fn forget(root: &Path) -> Result<()> {
    each_file(root, &|path| {
        let file = fs::File::open(path)?;
        // Pages that are not written yet can't be forgotten.
        fdatasync(&file)?;
        Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
    })
}

/// Reads all files below `root`, so that they are in the page cache.
pub(crate) fn read_all(root: &Path) -> Result<()> {
    each_file(root, &|path| {
        fs::read(path)?;
        Ok(())
    })
}

/// A file that has its bytes on the disk: holes would not be read.
fn ensure_file(path: &Path) -> Result<()> {
    if fs::metadata(path).is_ok_and(|metadata| metadata.len() == OTHERS_FILE) {
        return Ok(());
    }
    let mut file = fs::File::create(path)?;
    let piece = vec![1; 1 << 20];
    for _ in 0..OTHERS_FILE >> 20 {
        file.write_all(&piece)?;
    }
    Ok(fdatasync(&file)?)
}

fn each_file(directory: &Path, act: &dyn Fn(&Path) -> Result<()>) -> Result<()> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            each_file(&path, act)?;
        } else if kind.is_file() {
            act(&path)?;
        }
    }
    Ok(())
}

/// `major:minor` of the disk that `path` is on: of the whole one where that is a partition, which cannot be throttled.
fn device_of(path: &Path) -> Result<String> {
    let device = fs::metadata(path)?.dev();
    let name = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let block = PathBuf::from("/sys/dev/block").join(&name);
    ensure!(
        block.exists(),
        "{} is on no disk (device {name}): put --data on a file system that has one",
        path.display()
    );
    if block.join("partition").exists() {
        let whole = fs::read_to_string(fs::canonicalize(&block)?.join("../dev"))?;
        return Ok(whole.trim().to_owned());
    }
    Ok(name)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {text:?} to {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_bounds_the_page_cache_and_the_disk() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let site = directory.path().join("site");
        fs::create_dir(&site).unwrap();
        let file = site.join("file");
        let mut writing = fs::File::create(&file).unwrap();
        for _ in 0..1024 {
            writing.write_all(&[1; 8 << 10]).unwrap();
        }
        let bounds = Bounds { memory: 4 << 20, reads_per_s: 100 << 20, others: 1 };
        // Not every machine that runs tests has the controllers.
        let Ok(group) = Group::new(bounds, &site, 0) else { return };
        forget(&site).unwrap();
        let words = group.entering();
        let script = "cat \"$1\" > /dev/null; cat /proc/self/cgroup; grep read_bytes /proc/$$/io";
        let read = Command::new(&words[0])
            .args(&words[1..])
            .args(["sh".as_ref(), "-c".as_ref(), script.as_ref(), "sh".as_ref(), file.as_os_str()])
            .output();
        let said = String::from_utf8(read.unwrap().stdout).unwrap();
        let name = group.paths[0].file_name().unwrap().to_str().unwrap().to_owned();
        assert!(said.contains(&name), "{said}");
        let cached = group.page_cache().unwrap();
        assert!(cached > 1 << 20 && cached <= 4 << 20, "{cached}");
        let paths = group.paths.clone();
        drop(group);
        assert!(paths.iter().all(|path| !path.exists()));
    }
}
