//! The machine and the programs that a table was made with.

use std::path::Path;
use std::process::Command;

use machine::{Description, Machine};
use serde::{Deserialize, Serialize};

/// What a figure can't be read without.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Testbed {
    #[serde(flatten)]
    machine: Description,
    /// Name and version of each program that took part.
    programs: Vec<String>,
}

impl Testbed {
    /// Describes this machine, asking for the versions of the peers, the tools and `ours`.
    pub fn describe(ours: &[&Path]) -> Self {
        let commands: [&[&str]; 6] = [
            &["nginx", "-v"],
            &["lighttpd", "-v"],
            &["apache2", "-v"],
            &["haproxy", "-v"],
            &["wrk", "-v"],
            &["valgrind", "--version"],
        ];
        let mut programs: Vec<String> = commands.iter().filter_map(|words| version(words)).collect();
        programs.extend(ours.iter().filter_map(|path| version(&[&path.display().to_string(), "--version"])));
        Self { machine: Machine::this().describe(), programs }
    }

    /// One line for above a table.
    pub fn line(&self) -> String {
        let Description { processor, cores, is_virtual, memory_mib, kernel, congestion_control, .. } =
            &self.machine;
        format!(
            "{processor}, {cores} cores{}, {memory_mib} MiB, Linux {kernel}, congestion control \
             {congestion_control}; {}",
            if *is_virtual { " (virtual machine)" } else { "" },
            self.programs.join(", ")
        )
    }
}

/// The first line that the command says about itself (wrk -v and nginx -v exit or print as they like),
/// shortened to name and version.
fn version(words: &[&str]) -> Option<String> {
    let output = Command::new(words[0]).args(&words[1..]).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    let line = String::from_utf8_lossy(&said).lines().next()?.to_owned();
    let named = [("nginx version: ", ""), ("Server version: ", ""), ("HAProxy version ", "HAProxy/")];
    let line = named.iter().fold(line, |line, (usual, short)| line.replace(usual, short));
    Some(line.split_whitespace().take(2).collect::<Vec<_>>().join(" ").trim_end_matches(" -").to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_journal_that_is_older_than_some_members_is_told_as_before() {
        let written = json!({
            "congestion_control": "bbr", "cores": 2, "is_virtual": true, "kernel": "6.18.44",
            "memory_mib": 24105, "processor": "Intel(R) Xeon(R) Processor",
            "programs": ["nginx/1.22.1", "sluice 0.1.0"],
        });
        let testbed: Testbed = serde_json::from_value(written).unwrap();
        assert_eq!(
            testbed.line(),
            "Intel(R) Xeon(R) Processor, 2 cores (virtual machine), 24105 MiB, Linux 6.18.44, congestion \
             control bbr; nginx/1.22.1, sluice 0.1.0"
        );
    }
}
