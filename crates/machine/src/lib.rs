//! What the kernel's files tell of this machine and of the processes on it: proc(5), sysfs(5).
//!
//! [`Machine`] reads the files, or copies of them, and [`describe`](Machine::describe)s the machine as all
//! results do. [`cpu`] has the processors' times, [`memory`] and [`process`] what processes use, [`network`]
//! and [`queue_drops`] the counters of a network namespace, [`text`] the rows that most files are made of.
//! What parses takes text alone; a file that is not as proc(5) has it gives no value, or an error of the kind
//! [`InvalidData`](io::ErrorKind::InvalidData).

pub mod cpu;
mod description;
pub mod memory;
pub mod network;
pub mod process;
pub mod queue_drops;
pub mod text;

use std::fs;
use std::io;
use std::path::PathBuf;

pub use self::description::Description;
use crate::cpu::CpuTicks;

/// The files below `/proc` and `/sys`, or copies of them below another directory.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
}

impl Machine {
    /// The one that this runs on.
    pub fn this() -> Self {
        Self::below("/")
    }

    /// One whose files have been copied below a directory.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// A file's text without spaces around it, if it can be read. `path` is absolute.
    pub fn text(&self, path: &str) -> Option<String> {
        Some(fs::read_to_string(self.path(path)).ok()?.trim().to_owned())
    }

    /// A file's single number.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// A kernel setting by the name that sysctl(8) has for it.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.text(&format!("/proc/sys/{}", name.replace('.', "/")))
    }

    /// A kernel setting that is a number.
    pub fn number_setting(&self, name: &str) -> Option<u64> {
        self.setting(name)?.parse().ok()
    }

    /// Names in a directory, sorted; none if it can't be read.
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten();
        let mut names: Vec<_> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// Whether there is such a file or directory.
    pub fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// How many processors are on line.
    pub fn cores(&self) -> usize {
        cpu::cores(&self.text("/proc/stat").unwrap_or_default())
    }

    /// Bytes of files that are in memory, `None` where the kernel does not tell.
    pub fn page_cache(&self) -> Option<u64> {
        text::number(&self.text("/proc/meminfo")?, "Cached:")?.checked_mul(1024)
    }

    /// What all processors together have done since the machine started. All zero if it does not tell.
    pub fn cpu_ticks(&self) -> CpuTicks {
        self.text("/proc/stat").and_then(|stat| CpuTicks::of_all(&stat)).unwrap_or_default()
    }

    /// What these processors together have done since the machine started. `None` if one of them is not on
    /// line.
    pub fn cpu_ticks_of(&self, cpus: &[usize]) -> Option<CpuTicks> {
        CpuTicks::of(&self.text("/proc/stat")?, cpus)
    }

    /// The frequency governors of all processors, each once. None where there is no choice.
    pub fn governors(&self) -> Vec<String> {
        const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";
        let policies = self.names(POLICIES);
        let governor = |policy: &String| self.text(&format!("{POLICIES}/{policy}/scaling_governor"));
        let mut governors: Vec<_> = policies.iter().filter_map(governor).collect();
        governors.sort_unstable();
        governors.dedup();
        governors
    }

    /// The first and the last of the ports that connections get, `net.ipv4.ip_local_port_range`.
    pub fn local_ports(&self) -> Option<(u64, u64)> {
        let range = self.setting("net.ipv4.ip_local_port_range")?;
        let mut ends = range.split_ascii_whitespace().map(str::parse);
        Some((ends.next()?.ok()?, ends.next()?.ok()?))
    }

    fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute.trim_start_matches('/'))
    }
}

/// That a file is not as proc(5) has it.
fn odd(file: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{file} is not as proc(5) says"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A machine made of some files.
    pub(crate) fn machine_of(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::below(root.path());
        for (path, text) in files {
            let path = machine.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (root, machine)
    }

    #[test]
    fn settings_and_names_are_found() {
        let policy = |number: u32| format!("/sys/devices/system/cpu/cpufreq/policy{number}/scaling_governor");
        let (_root, machine) = machine_of(&[
            ("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
            ("/proc/sys/net/core/somaxconn", "4096\n"),
            (&policy(0), "powersave\n"),
            (&policy(1), "performance\n"),
            (&policy(2), "powersave\n"),
        ]);
        assert_eq!(machine.local_ports(), Some((32_768, 60_999)));
        assert_eq!(machine.number_setting("net.core.somaxconn"), Some(4096));
        assert_eq!(machine.number_setting("net.ipv4.ip_local_port_range"), None);
        assert_eq!(machine.governors(), ["performance", "powersave"]);
        assert!(machine.has("/proc/sys/net") && !machine.has("/proc/stat"));
    }

    #[test]
    fn what_is_missing_is_missing() {
        let (_root, machine) = machine_of(&[]);
        assert_eq!((machine.local_ports(), machine.number_setting("net.core.somaxconn")), (None, None));
        assert_eq!((machine.cores(), machine.cpu_ticks()), (0, CpuTicks::default()));
        assert_eq!((machine.cpu_ticks_of(&[0]), machine.names("/sys")), (None, vec![]));
    }
}
