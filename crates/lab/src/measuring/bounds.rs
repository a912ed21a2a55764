//! Limits memory and disk as in the 2007 paper: a control group with little memory, which limits the page
//! cache, and a disk of known speed.
//!
//! Without the throttle, a virtual machine's disk is slow once, and later reads come from the host's
//! memory.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::fs::{Advice, fadvise, fdatasync};
use serde::Serialize;

use crate::measuring::cgroup::{Controller, Group, Version};
use crate::programs::child::Process;

/// The memory and disk that a server gets.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Bounds {
    /// Bytes for its processes, and for the page cache of what they read.
    pub(crate) memory: u64,
    /// Bytes per second that may be read from the disk.
    pub(crate) reads_per_s: u64,
    /// How many extra readers use the disk all the time, each with one read under way. A throttled disk has
    /// no seek latency, and its unused budget accumulates: it serves a read at once after a pause. With the
    /// extra readers there is no unused budget, and a read has to wait for theirs.
    pub(crate) others: u32,
}

/// A control group with limited memory and disk.
#[derive(Debug)]
pub(crate) struct Bounded {
    // Dropped before the group.
    _others: Vec<Process>,
    pub(crate) group: Group,
}

/// The bytes of each read of the extra readers.
pub(crate) const OTHERS_READ: u64 = 64 << 10;

/// The length of the file that the extra readers use.
const OTHERS_FILE: u64 = 256 << 20;

impl Bounded {
    /// Limits for reading files below `site`. The extra readers run on `others_cpu`.
    pub(crate) fn new(bounds: Bounds, site: &Path, others_cpu: usize) -> Result<Self> {
        let device = device_of(site)?;
        let group = Group::new(&[Controller::Memory, Controller::Disk])?;
        let (memory, reads, speed) = match group.version {
            Version::One => ("memory.limit_in_bytes", "blkio.throttle.read_bps_device", ""),
            Version::Two => ("memory.max", "io.max", "rbps="),
        };
        group.write(Controller::Memory, memory, &bounds.memory.to_string())?;
        group.write(Controller::Disk, reads, &format!("{device} {speed}{}", bounds.reads_per_s))?;
        let file = site.with_file_name("read-by-others");
        if bounds.others > 0 {
            ensure_file(&file)?;
        }
        // Direct reads bypass the page cache. Each reader has one read under way at any time.
        let script =
            format!("while dd if=\"$1\" of=/dev/null bs={OTHERS_READ} iflag=direct status=none; do :; done");
        let name = file.to_str().context("a path that is not UTF-8")?;
        let start = |_| group.start(Controller::Disk, others_cpu, &["sh", "-c", &script, "sh", name]);
        let others = (0..bounds.others).map(start).collect::<Result<_>>()?;
        Ok(Self { _others: others, group })
    }

    /// The bytes of the page cache that count for the group.
    pub(crate) fn page_cache(&self) -> Result<u64> {
        let name = match self.group.version {
            Version::One => "cache ",
            Version::Two => "file ",
        };
        self.counter("memory.stat", name)
    }

    /// How many processes of the group the kernel has killed for lack of memory.
    pub(crate) fn killed(&self) -> Result<u64> {
        let file = match self.group.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        self.counter(file, "oom_kill ")
    }

    fn counter(&self, file: &str, name: &str) -> Result<u64> {
        let told = self.group.read(Controller::Memory, file)?;
        let count = told.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        count.with_context(|| format!("{file} has no {name}"))
    }
}

/// Drops the pages of files from the page cache, so that the next read comes from the disk and counts for
/// the reader's group. See `posix_fadvise(2)`, `POSIX_FADV_DONTNEED`.
pub(crate) fn forget(files: &[PathBuf]) -> Result<()> {
    for path in files {
        let file = fs::File::open(path)?;
        // Pages that are not yet written cannot be dropped.
        fdatasync(&file)?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Reads files, so that they are in the page cache.
pub(crate) fn read_all(files: &[PathBuf]) -> Result<()> {
    files.iter().try_for_each(|path| Ok(fs::read(path).map(drop)?))
}

/// Makes a file whose bytes are on the disk; holes would not be read.
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

/// All files in a directory and in those below it.
pub(crate) fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            files.extend(files_below(&path)?);
        } else if kind.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

/// `major:minor` of the disk that has `path`. For a partition it is the whole disk, because a partition
/// cannot be throttled.
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_group_bounds_the_page_cache_and_the_disk() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let site = directory.path().join("site");
        fs::create_dir(&site).unwrap();
        let file = site.join("file");
        let mut writing = fs::File::create(&file).unwrap();
        for _ in 0..1024 {
            writing.write_all(&[1; 8 << 10]).unwrap();
        }
        let bounds = Bounds { memory: 4 << 20, reads_per_s: 100 << 20, others: 1 };
        // This needs root, and not every machine that runs tests has the controllers.
        let group = match Bounded::new(bounds, &site, 0) {
            Ok(group) => group,
            Err(error) => return harness::skip(format!("bounds on memory and the disk: {error:#}")),
        };
        forget(&files_below(&site).unwrap()).unwrap();
        let words = group.group.entering();
        let script = "cat \"$1\" > /dev/null; cat /proc/self/cgroup; grep read_bytes /proc/$$/io";
        let read = Command::new(&words[0])
            .args(&words[1..])
            .args(["sh".as_ref(), "-c".as_ref(), script.as_ref(), "sh".as_ref(), file.as_os_str()])
            .output();
        let said = String::from_utf8(read.unwrap().stdout).unwrap();
        assert!(said.contains(&crate::programs::janitor::prefix(std::process::id())), "{said}");
        let cached = group.page_cache().unwrap();
        assert!(cached > 1 << 20 && cached <= 4 << 20, "{cached}");
        assert_eq!(group.killed().unwrap(), 0);
        // `tail` keeps the last line, which never ends, in memory.
        let script = "head -c 32M /dev/zero | tail -n 1 > /dev/null";
        Command::new(&words[0]).args(&words[1..]).args(["sh", "-c", script]).output().unwrap();
        assert_eq!(group.killed().unwrap(), 1);
    }
}
