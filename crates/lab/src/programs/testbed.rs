//! Describes the machine and the programs with which a table was made.

use std::path::Path;
use std::process::Command;

use machine::{Description, Machine};
use serde::{Deserialize, Serialize};

/// What a reader has to know to interpret a figure.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Testbed {
    #[serde(flatten)]
    machine: Description,
    /// Name and version of each program that took part.
    programs: Vec<String>,
}

impl Testbed {
    /// Describes this machine, and asks the programs for their versions: the peers, the tools and ours.
    /// Programs without a known way to ask are left out, and so are programs that are not installed.
    pub fn describe<'a>(programs: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut versions: Vec<String> = Vec::new();
        for version in programs.into_iter().filter_map(version) {
            if !versions.contains(&version) {
                versions.push(version);
            }
        }
        Self { machine: Machine::this().describe(), programs: versions }
    }

    /// A line to put above a table. `set` is the congestion control of the servers, if it differs from the
    /// machine's.
    pub fn line(&self, set: Option<&str>) -> String {
        let Description { processor, cores, is_virtual, memory_mib, kernel, congestion_control, .. } =
            &self.machine;
        let congestion_control = set.unwrap_or(congestion_control);
        format!(
            "{processor}, {cores} cores{}, {memory_mib} MiB, Linux {kernel}, congestion control \
             {congestion_control}; {}",
            if *is_virtual { " (virtual machine)" } else { "" },
            self.programs.join(", ")
        )
    }
}

/// The options that print a program's version, by the beginning of its name.
const ASKED: [(&str, &str); 9] = [
    ("nginx", "-v"),
    ("lighttpd", "-v"),
    ("apache2", "-v"),
    ("caddy", "version"),
    ("haproxy", "-v"),
    ("php-fpm", "-v"),
    ("wrk", "-v"),
    ("valgrind", "--version"),
    ("sluice", "--version"),
];

/// The first line of a program's version output, reduced to name and version. wrk -v and nginx -v differ
/// from others in exit code and output.
fn version(program: &Path) -> Option<String> {
    let name = program.file_name()?.to_str()?;
    let (_, option) = ASKED.iter().find(|(known, _)| name.starts_with(known))?;
    let output = Command::new(program).arg(option).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    let line = String::from_utf8_lossy(&said).lines().next()?.to_owned();
    let named = [("nginx version: ", ""), ("Server version: ", ""), ("HAProxy version ", "HAProxy/")];
    // Caddy says its version without its name.
    let line =
        if name.starts_with("caddy") { format!("Caddy/{}", line.trim_start_matches('v')) } else { line };
    let line = named.iter().fold(line, |line, (usual, short)| line.replace(usual, short));
    Some(line.split_whitespace().take(2).collect::<Vec<_>>().join(" ").trim_end_matches(" -").to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;

    #[test]
    fn only_programs_that_took_part_are_told_each_once() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for (name, says) in [
            ("sluice-old", "sluice 0.0.9"),
            ("nginx", "nginx version: nginx/1.2"),
            ("mine", "oh"),
            ("caddy", "v2.6.2 h1:x"),
        ] {
            fs::write(at(name), format!("#!/bin/sh\necho {says}\n")).unwrap();
            fs::set_permissions(at(name), Permissions::from_mode(0o755)).unwrap();
        }
        let paths = ["nginx", "mine", "sluice-old", "nginx", "haproxy", "caddy"].map(at);
        let testbed = Testbed::describe(paths.iter().map(PathBuf::as_path));
        assert_eq!(testbed.programs, ["nginx/1.2", "sluice 0.0.9", "Caddy/2.6.2 h1:x"]);
    }

    #[test]
    fn a_journal_that_is_older_than_some_members_is_told_as_before() {
        let written = json!({
            "congestion_control": "bbr", "cores": 2, "is_virtual": true, "kernel": "6.18.44",
            "memory_mib": 24105, "processor": "Intel(R) Xeon(R) Processor",
            "programs": ["nginx/1.22.1", "sluice 0.1.0"],
        });
        let testbed: Testbed = serde_json::from_value(written).unwrap();
        assert_eq!(
            testbed.line(None),
            "Intel(R) Xeon(R) Processor, 2 cores (virtual machine), 24105 MiB, Linux 6.18.44, congestion \
             control bbr; nginx/1.22.1, sluice 0.1.0"
        );
        assert!(testbed.line(Some("reno")).contains("congestion control reno;"));
    }
}
