//! The machine as the kernel's files tell of it: what a result must say about where it was got, and what
//! [`doctor`](crate::doctor) examines.

use std::fs;
use std::path::PathBuf;

use serde::Serialize;

/// The files below `/proc` and `/sys`, or copies of them below another directory.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
}

/// What a result says about the machine that it was got on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Description {
    /// Its name.
    pub host: String,
    /// `uname -sr`.
    pub kernel: String,
    /// The processor's model.
    pub cpu_model: String,
    /// Processors that are on line.
    pub cpus: usize,
    /// The frequency governors in use, joined by commas; `none` where there is no choice.
    pub governor: String,
    /// What the kernel's clock reads: `tsc` is cheap.
    pub clock_source: String,
    /// `net.ipv4.tcp_congestion_control`.
    pub congestion_control: String,
    /// `net.core.somaxconn`.
    pub somaxconn: Option<u64>,
    /// `net.ipv4.ip_local_port_range`.
    pub local_ports: Option<(u64, u64)>,
    /// `net.ipv4.tcp_tw_reuse`: 0 never, 1 always, 2 on loopback.
    pub tw_reuse: Option<u64>,
    /// Descriptors that this process may have.
    pub descriptors: u64,
}

/// What the processors have done since the machine started, in clock ticks over all of them (proc(5),
/// `/proc/stat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// User mode, nice or not.
    pub user: u64,
    /// Kernel mode.
    pub system: u64,
    /// Nothing to do.
    pub idle: u64,
    /// Nothing to do but wait for disks.
    pub io_wait: u64,
    /// Hard and soft interrupts.
    pub interrupts: u64,
    /// Wanted to work, but the hypervisor let somebody else.
    pub steal: u64,
}

/// Shares of the processors' time between two readings, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CpuShares {
    /// User mode.
    pub user: f64,
    /// Kernel mode.
    pub system: f64,
    /// Nothing to do.
    pub idle: f64,
    /// Waiting for disks.
    pub io_wait: f64,
    /// Interrupts.
    pub interrupts: f64,
    /// Stolen by the hypervisor.
    pub steal: f64,
}

impl Default for Machine {
    fn default() -> Self {
        Self::this()
    }
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
        let text = fs::read_to_string(self.root.join(path.trim_start_matches('/'))).ok()?;
        Some(text.trim().to_owned())
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
        let entries = fs::read_dir(self.root.join(path.trim_start_matches('/')));
        let mut names: Vec<_> = entries
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names
    }

    /// Whether there is such a file or directory.
    pub fn has(&self, path: &str) -> bool {
        self.root.join(path.trim_start_matches('/')).exists()
    }

    /// Processors that are on line.
    pub fn cpus(&self) -> usize {
        let stat = self.text("/proc/stat").unwrap_or_default();
        stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count()
    }

    /// What the processors have done so far.
    pub fn cpu_ticks(&self) -> CpuTicks {
        let stat = self.text("/proc/stat").unwrap_or_default();
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
        let ticks: Vec<u64> = line.split_ascii_whitespace().filter_map(|field| field.parse().ok()).collect();
        let at = |place: usize| ticks.get(place).copied().unwrap_or(0);
        CpuTicks {
            user: at(0) + at(1),
            system: at(2),
            idle: at(3),
            io_wait: at(4),
            interrupts: at(5) + at(6),
            steal: at(7),
        }
    }

    /// The governors of all processors, each once.
    pub fn governors(&self) -> Vec<String> {
        let mut governors: Vec<_> = self
            .names("/sys/devices/system/cpu/cpufreq")
            .iter()
            .filter_map(|policy| {
                self.text(&format!("/sys/devices/system/cpu/cpufreq/{policy}/scaling_governor"))
            })
            .collect();
        governors.sort_unstable();
        governors.dedup();
        governors
    }

    /// The first and the last of the ports that connections get.
    pub fn local_ports(&self) -> Option<(u64, u64)> {
        let range = self.setting("net.ipv4.ip_local_port_range")?;
        let mut ends = range.split_ascii_whitespace().map(str::parse);
        Some((ends.next()?.ok()?, ends.next()?.ok()?))
    }

    /// The value of a line `name : value` of `/proc/cpuinfo`.
    pub fn cpu_info(&self, name: &str) -> Option<String> {
        let info = self.text("/proc/cpuinfo")?;
        info.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    }

    /// What a result says about it.
    pub fn describe(&self) -> Description {
        let setting = |name| self.setting(name).unwrap_or_default();
        let governors = self.governors();
        Description {
            host: setting("kernel.hostname"),
            kernel: format!("{} {}", setting("kernel.ostype"), setting("kernel.osrelease")),
            cpu_model: self.cpu_info("model name").unwrap_or_default(),
            cpus: self.cpus(),
            governor: if governors.is_empty() { "none".to_owned() } else { governors.join(",") },
            clock_source: self
                .text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
                .unwrap_or_default(),
            congestion_control: setting("net.ipv4.tcp_congestion_control"),
            somaxconn: self.number_setting("net.core.somaxconn"),
            local_ports: self.local_ports(),
            tw_reuse: self.number_setting("net.ipv4.tcp_tw_reuse"),
            descriptors: sys::process::descriptor_limit(),
        }
    }
}

impl CpuTicks {
    fn sum(self) -> u64 {
        self.user + self.system + self.idle + self.io_wait + self.interrupts + self.steal
    }

    /// How the time since an earlier reading was spent; all zero if there was none.
    pub fn shares_since(self, before: Self) -> CpuShares {
        let all = self.sum().saturating_sub(before.sum());
        if all == 0 {
            return CpuShares::default();
        }
        // Idle and I/O wait may go backwards by a tick, proc(5).
        let share = |now: u64, then: u64| 100.0 * now.saturating_sub(then) as f64 / all as f64;
        CpuShares {
            user: share(self.user, before.user),
            system: share(self.system, before.system),
            idle: share(self.idle, before.idle),
            io_wait: share(self.io_wait, before.io_wait),
            interrupts: share(self.interrupts, before.interrupts),
            steal: share(self.steal, before.steal),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A machine made of some files.
    pub(crate) fn machine_of(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let machine = Machine::below(root.path());
        (root, machine)
    }

    #[test]
    fn processors_times_are_read_as_proc_5_has_them() {
        let stat = "cpu  100 10 50 800 20 3 7 10 0 0\ncpu0 50 5 25 400 10 1 4 5 0 0\ncpu1 50 5 25 400 10 2 3 5 0 0\nintr 1\n";
        let (_root, machine) = machine_of(&[("/proc/stat", stat)]);
        let ticks = machine.cpu_ticks();
        assert_eq!(
            ticks,
            CpuTicks { user: 110, system: 50, idle: 800, io_wait: 20, interrupts: 10, steal: 10 }
        );
        assert_eq!(machine.cpus(), 2);
        let before = CpuTicks { user: 60, idle: 810, steal: 10, io_wait: 20, system: 0, interrupts: 0 };
        let shares = ticks.shares_since(before);
        assert!((shares.user - 50.0).abs() < 1e-9 && (shares.system - 50.0).abs() < 1e-9, "{shares:?}");
        assert_eq!((shares.idle, shares.steal), (0.0, 0.0), "what goes backwards is nothing");
        assert_eq!(ticks.shares_since(ticks), CpuShares::default());
    }

    #[test]
    fn this_machine_is_described() {
        let description = Machine::this().describe();
        assert!(description.kernel.starts_with("Linux "), "{description:?}");
        assert!(description.cpus > 0 && description.descriptors > 0, "{description:?}");
        assert!(Machine::this().cpu_ticks().sum() > 0);
    }

    #[test]
    fn what_is_missing_is_missing() {
        let (_root, machine) = machine_of(&[("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")]);
        assert_eq!(machine.local_ports(), Some((32_768, 60_999)));
        assert_eq!((machine.number_setting("net.core.somaxconn"), machine.cpus()), (None, 0));
        assert_eq!(machine.describe().governor, "none");
    }
}
