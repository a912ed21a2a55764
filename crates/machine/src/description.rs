//! What figures can't be read without: the machine that they were got on.

use serde::{Deserialize, Serialize};

use crate::Machine;
use crate::text;

/// A machine as results tell of it. What could not be found out is empty, zero or `None`, as it is in results
/// that are older than a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Description {
    /// Its name, `kernel.hostname`.
    pub host: String,
    /// The processor as it calls itself.
    pub processor: String,
    /// Processors that are on line.
    pub cores: usize,
    /// Whether it is a guest of a hypervisor that says so.
    pub is_virtual: bool,
    /// Memory that the kernel can use, in MiB.
    pub memory_mib: u64,
    /// The kernel's release, `uname -r`.
    pub kernel: String,
    /// The frequency governors in use, joined by commas; `none` where there is no choice.
    pub governor: String,
    /// What the kernel's clock reads: `tsc` is cheap.
    pub clock_source: String,
    /// `net.ipv4.tcp_congestion_control`. BBR paces what it sends with timers, which costs more than anything
    /// that a server does.
    pub congestion_control: String,
    /// `net.core.somaxconn`: the most connections that an accept queue holds.
    pub somaxconn: Option<u64>,
    /// `net.ipv4.ip_local_port_range`, first and last: `32768-60999`.
    pub port_range: String,
    /// `net.ipv4.tcp_tw_reuse`: 0 never, 1 always, 2 on loopback.
    pub tw_reuse: Option<u64>,
}

impl Machine {
    /// What results say about it.
    pub fn describe(&self) -> Description {
        let setting = |name| self.setting(name).unwrap_or_default();
        let text = |path| self.text(path).unwrap_or_default();
        let (cpu_info, memory) = (text("/proc/cpuinfo"), text("/proc/meminfo"));
        let of_cpu = |name| text::row(&cpu_info, name)?.split_once(':').map(|(_, value)| value.trim());
        let governors = self.governors();
        Description {
            host: setting("kernel.hostname"),
            processor: of_cpu("model name").unwrap_or("unknown").to_owned(),
            cores: self.cores(),
            is_virtual: of_cpu("flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            memory_mib: text::number(&memory, "MemTotal:").unwrap_or(0) / 1024,
            kernel: setting("kernel.osrelease"),
            governor: if governors.is_empty() { "none".to_owned() } else { governors.join(",") },
            clock_source: text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            congestion_control: setting("net.ipv4.tcp_congestion_control"),
            somaxconn: self.number_setting("net.core.somaxconn"),
            port_range: self
                .local_ports()
                .map_or_else(String::new, |(first, last)| format!("{first}-{last}")),
            tw_reuse: self.number_setting("net.ipv4.tcp_tw_reuse"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::machine_of;

    #[test]
    fn a_machine_is_described_by_its_files() {
        let info = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu hypervisor lm\n\n\
                    processor\t: 1\nmodel name\t: AMD EPYC\n";
        let (_root, machine) = machine_of(&[
            ("/proc/cpuinfo", info),
            ("/proc/stat", "cpu  1\ncpu0 1\ncpu1 1\n"),
            ("/proc/meminfo", "MemTotal:  2048000 kB\n"),
            ("/proc/sys/kernel/osrelease", "6.18.1\n"),
            ("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
            ("/proc/sys/net/core/somaxconn", "4096\n"),
        ]);
        let expected = Description {
            processor: "AMD EPYC".to_owned(),
            cores: 2,
            is_virtual: true,
            memory_mib: 2000,
            kernel: "6.18.1".to_owned(),
            governor: "none".to_owned(),
            port_range: "32768-60999".to_owned(),
            somaxconn: Some(4096),
            ..Description::default()
        };
        assert_eq!(machine.describe(), expected);
    }

    #[test]
    fn this_machine_is_described() {
        let description = Machine::this().describe();
        assert!(!description.kernel.is_empty() && !description.port_range.is_empty(), "{description:?}");
        assert!(description.cores > 0 && description.memory_mib > 0, "{description:?}");
    }
}
