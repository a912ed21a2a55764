//! The machine and the programs that a table was made with.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// What a figure can't be read without.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Machine {
    processor: String,
    cores: usize,
    is_virtual: bool,
    memory_mib: u64,
    kernel: String,
    /// BBR paces what it sends with timers, which costs more than anything that a server does: see README.md.
    congestion_control: String,
    /// Name and version of each program that took part.
    programs: Vec<String>,
}

impl Machine {
    /// Describes this machine, asking for the versions of the peers, the tools and `ours`.
    pub(crate) fn describe(ours: &[&Path]) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let setting =
            |name| fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default().trim().to_owned();
        let commands: [&[&str]; 4] =
            [&["nginx", "-v"], &["lighttpd", "-v"], &["wrk", "-v"], &["valgrind", "--version"]];
        let mut programs: Vec<String> = commands.iter().filter_map(|words| version(words)).collect();
        programs.extend(ours.iter().filter_map(|path| version(&[&path.display().to_string(), "--version"])));
        Self {
            processor: value(&cpuinfo, "model name"),
            cores: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            is_virtual: value(&cpuinfo, "flags").split(' ').any(|flag| flag == "hypervisor"),
            memory_mib: value(&meminfo, "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0) / 1024,
            kernel: setting("kernel/osrelease"),
            congestion_control: setting("net/ipv4/tcp_congestion_control"),
            programs,
        }
    }

    /// One line for above a table.
    pub(crate) fn line(&self) -> String {
        format!(
            "{}, {} cores{}, {} MiB, Linux {}, congestion control {}; {}",
            self.processor,
            self.cores,
            if self.is_virtual { " (virtual machine)" } else { "" },
            self.memory_mib,
            self.kernel,
            self.congestion_control,
            self.programs.join(", ")
        )
    }
}

fn value(text: &str, name: &str) -> String {
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_once(':'))
        .map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
}

/// The first line that the command says about itself (wrk -v and nginx -v exit or print as they like),
/// shortened to name and version.
fn version(words: &[&str]) -> Option<String> {
    let output = Command::new(words[0]).args(&words[1..]).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    let line = String::from_utf8_lossy(&said).lines().next()?.replace("nginx version: ", "");
    Some(line.split_whitespace().take(2).collect::<Vec<_>>().join(" ").trim_end_matches(" -").to_owned())
}
