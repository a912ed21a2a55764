//! Chooses which CPUs handle the packets of a network interface, by interrupt affinity and by receive and
//! transmit packet steering.
//!
//! In a partitioned server, each copy has its own CPUs and serves its own interfaces. With the *direct*
//! mapping, the same CPUs handle the packets of these interfaces (Harji, Buhr and Brecht 2012, section 4;
//! Hashemian, Krishnamurthy, Arlitt and Carlsson 2014, section 3.7). With the *indirect* mapping, another
//! copy's CPUs handle them. This separates the gain of the mapping from the gain of copies. Three kinds
//! of kernel files control this:
//!
//! - `/proc/irq/N/smp_affinity_list`: which CPU takes an interrupt of the interface, and so the packets
//!   of its queue;
//! - `/sys/class/net/IF/queues/rx-N/rps_cpus`: which CPUs that CPU passes packets on to (receive packet
//!   steering). This is used if there are fewer queues than CPUs, or no interrupts to place, as with veth
//!   and loopback;
//! - `/sys/class/net/IF/queues/tx-N/xps_cpus`: which CPUs send through a queue, if there are several
//!   queues.
//!
//! [`Plan::new`] reads the interfaces and decides what each file should hold. It changes nothing.
//! [`Plan::apply`] writes the files. If one cannot be written, it restores those that it has changed. A
//! plan prints itself as shell commands, which [`Plan::read`] parses again: that is how a change is
//! undone. See `Documentation/networking/scaling.rst` in the kernel's sources.

mod assignment;
mod cpus;
mod interface;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use self::assignment::{Assignment, of_settings};
pub use self::cpus::CpuSet;
use self::interface::Interface;
use crate::config::Mapping;

/// The roots of the kernel's files: `/proc` and `/sys`, except in tests.
#[derive(Clone, Debug)]
pub struct Roots {
    /// The root of proc(5).
    pub proc: PathBuf,
    /// The root of sysfs(5).
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into() }
    }
}

/// A plan: files, and what they should hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// What cannot be done, or will not last, as text for operators.
    pub remarks: Vec<String>,
}

/// A change to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The file.
    pub path: PathBuf,
    /// Its current content.
    pub old: String,
    /// Its new content.
    pub new: String,
    /// What the change is about, as text for operators.
    pub what: String,
}

/// Why the affinity cannot be set.
#[derive(Debug, thiserror::Error)]
pub enum AffinityError {
    /// What was typed is invalid.
    #[error("{typed}: {problem}")]
    Input {
        /// What was typed.
        typed: String,
        /// What is wrong, and what is allowed.
        problem: String,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error(
        "cannot write {value} to {}: {}; earlier changes have been undone",
        path.display(),
        refusal(path, source)
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// The value for the file.
        value: String,
        /// The reason.
        source: io::Error,
    },
}

impl AffinityError {
    /// Whether the operator should correct what was typed.
    pub fn is_bad_input(&self) -> bool {
        matches!(self, Self::Input { .. })
    }
}

/// The meaning of the kernel's refusal.
fn refusal(path: &Path, error: &io::Error) -> String {
    let reason = match error.kind() {
        io::ErrorKind::PermissionDenied => "only root may do this",
        io::ErrorKind::ReadOnlyFilesystem => "it is mounted read-only, as in containers; do it on the host",
        _ if path.ends_with("smp_affinity_list") => {
            "this interrupt is placed by the kernel or its controller alone, and can't be moved"
        }
        _ => return error.to_string(),
    };
    format!("{error}: {reason}")
}

impl Plan {
    /// The changes that make each interface's packets go to its CPUs. This changes nothing.
    ///
    /// # Errors
    ///
    /// An interface or CPU does not exist, an interface is named twice, or the kernel's files cannot be
    /// read.
    pub fn new(assignments: &[Assignment], mapping: Mapping, roots: &Roots) -> Result<Self, AffinityError> {
        let online = CpuSet::online(&roots.sys)?;
        let mut plan = Self::default();
        let mut seen: Vec<(String, CpuSet)> = Vec::new();
        for Assignment { interface: typed, cpus } in assignment::mapped(assignments, mapping)? {
            cpus.check_online(&online).map_err(|problem| input(&typed, problem))?;
            let name = interface::name(&typed, roots)?;
            match seen.iter().find(|(known, _)| *known == name) {
                None => plan.add(&Interface::look(&name, roots)?, &cpus, roots)?,
                // Several addresses of a group are on the same interface.
                Some((_, same)) if *same == cpus => {}
                Some(_) => return Err(input(&typed, format!("{name} has been given other CPUs already"))),
            }
            seen.push((name, cpus));
        }
        if let Some(pid) = running(&roots.proc, "irqbalance") {
            plan.remarks.push(format!(
                "irqbalance (process {pid}) is running and may move interrupts: stop it, or exclude these \
                 interrupts (--banirq)"
            ));
        }
        Ok(plan)
    }

    /// Parses a printed plan.
    ///
    /// # Errors
    ///
    /// The text has a line that does not belong to a plan.
    pub fn read(text: &str, roots: &Roots) -> Result<Self, AffinityError> {
        let mut plan = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let command = line.split_once(" #").map_or(line, |(command, _)| command.trim_end());
            let parts = command.strip_prefix("echo ").and_then(|rest| rest.split_once(" > "));
            let Some((value, path)) = parts.filter(|(value, path)| is_ours(value, Path::new(path), roots))
            else {
                let problem = "is not a line that `sluice affinity` prints: echo VALUE > FILE, where the \
                               file is an interrupt's smp_affinity_list, or a queue's rps_cpus or xps_cpus";
                return Err(input(line, problem.to_owned()));
            };
            let what = what_is(Path::new(path));
            plan.change(Path::new(path), value, what)?;
        }
        Ok(plan)
    }

    /// The plan that undoes this one.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let back =
            |change: &Change| Change { old: change.new.clone(), new: change.old.clone(), ..change.clone() };
        Self { changes: self.changes.iter().rev().map(back).collect(), remarks: Vec::new() }
    }

    /// Writes the files.
    ///
    /// # Errors
    ///
    /// A file cannot be written. The files before it have their old contents again.
    pub fn apply(&self) -> Result<(), AffinityError> {
        for (done, change) in self.changes.iter().enumerate() {
            if let Err(source) = fs::write(&change.path, &change.new) {
                for before in self.changes[..done].iter().rev() {
                    // This file was writable a moment ago.
                    let _ = fs::write(&before.path, &before.old);
                }
                let (path, value) = (change.path.clone(), change.new.clone());
                return Err(AffinityError::Write { path, value, source });
            }
        }
        Ok(())
    }

    fn add(&mut self, interface: &Interface, cpus: &CpuSet, roots: &Roots) -> Result<(), AffinityError> {
        let list = cpus.list();
        for interrupt in &interface.interrupts {
            let path = roots.proc.join("irq").join(interrupt.number.to_string()).join("smp_affinity_list");
            let cpu = cpus.nth(interrupt.queue.unwrap_or(0));
            self.change(&path, &cpu.to_string(), format!("{}, {}", interface.name, interrupt.name))?;
        }
        let placed = interface.receive_interrupts();
        if placed == 0 {
            self.remarks.push(interface.why_no_interrupts());
        }
        // With an interrupt for each CPU, there are no other CPUs to pass packets to.
        let steering = if placed >= list.len() { CpuSet::default() } else { cpus.clone() };
        let queues = interface.directory.join("queues");
        for queue in 0..interface.receive_queues {
            let path = queues.join(format!("rx-{queue}")).join("rps_cpus");
            let what = format!("{}, receive queue {queue}", interface.name);
            self.change(&path, &steering.mask(), what)?;
        }
        // With a single queue, the kernel has no such files.
        for queue in 0..if interface.transmit_queues > 1 { interface.transmit_queues } else { 0 } {
            let path = queues.join(format!("tx-{queue}")).join("xps_cpus");
            let share = cpus.of_queue(queue, interface.transmit_queues);
            self.change(&path, &share.mask(), format!("{}, transmit queue {queue}", interface.name))?;
        }
        Ok(())
    }

    /// Adds a change to a file, unless the file already holds the new content.
    fn change(&mut self, path: &Path, new: &str, what: String) -> Result<(), AffinityError> {
        let old = fs::read_to_string(path)
            .map_err(|source| AffinityError::Read { path: path.to_owned(), source })?;
        let old = old.trim().to_owned();
        let is_mask = !path.ends_with("smp_affinity_list");
        let same = if is_mask {
            CpuSet::from_mask(&old).is_some() && CpuSet::from_mask(&old) == CpuSet::from_mask(new)
        } else {
            old == new
        };
        if !same {
            self.changes.push(Change { path: path.to_owned(), old, new: new.to_owned(), what });
        }
        Ok(())
    }
}

/// Prints the plan as shell commands.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Change { path, old, new, what } in &self.changes {
            writeln!(f, "echo {new} > {} # {what}; instead of {old}", path.display())?;
        }
        Ok(())
    }
}

/// Whether a plan may contain this value and this file.
fn is_ours(value: &str, path: &Path, roots: &Roots) -> bool {
    let names: Vec<_> = path.iter().map(|name| name.to_string_lossy()).collect();
    // The path must not leave the root through `..`.
    if names.iter().any(|name| name == "..") {
        return false;
    }
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names[..] {
        [.., "irq", number, "smp_affinity_list"] => {
            path.starts_with(&roots.proc) && number.parse::<u32>().is_ok() && CpuSet::from_list(value).is_ok()
        }
        [.., "class", "net", _, "queues", _, "rps_cpus" | "xps_cpus"] => {
            path.starts_with(&roots.sys) && CpuSet::from_mask(value).is_some()
        }
        _ => false,
    }
}

/// A description of a file in a parsed plan.
fn what_is(path: &Path) -> String {
    let names: Vec<_> = path.iter().rev().take(4).map(|name| name.to_string_lossy()).collect();
    match names.as_slice() {
        [_, queue, _, interface] if !path.ends_with("smp_affinity_list") => {
            format!("{interface}, queue {queue}")
        }
        [_, number, ..] => format!("interrupt {number}"),
        _ => String::new(),
    }
}

/// The id of the first process with this name.
fn running(proc: &Path, name: &str) -> Option<u32> {
    let entries = fs::read_dir(proc).ok()?.flatten();
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        fs::read_to_string(proc.join(pid.to_string()).join("comm")).is_ok_and(|comm| comm.trim() == name)
    })
}

fn input(typed: &str, problem: String) -> AffinityError {
    AffinityError::Input { typed: typed.to_owned(), problem }
}

#[cfg(test)]
mod tests;
