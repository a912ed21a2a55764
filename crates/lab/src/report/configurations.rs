//! The scripts that start the servers, or for older results the servers' configuration files. With these, a
//! page shows what was measured even when the trials' directories are gone. They come from the first start
//! of each server, for comparing its replies.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::record::TRIALS;
use crate::report::results::Results;
use crate::servers::script;

/// Whether the lab wrote a file, as a server's configuration or as a script.
fn is_told(path: &Path) -> bool {
    let ends = script::CONFIGURATIONS.into_iter().chain(["sh"]);
    path.extension().is_some_and(|extension| ends.into_iter().any(|end| extension == end))
}

/// A file with a server's configuration.
#[derive(Debug)]
pub(super) struct Configuration {
    pub(super) server: String,
    /// Its name.
    pub(super) file: String,
    pub(super) text: String,
}

/// The files of all servers, as far as their trials are still in `directory`.
pub(super) fn of(results: &Results, directory: &Path) -> Result<Vec<Configuration>> {
    let mut all = Vec::new();
    let trials = directory.join(TRIALS);
    if !trials.is_dir() {
        return Ok(all);
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&trials)? {
        names.extend(entry?.file_name().into_string());
    }
    names.sort_unstable();
    for server in results.experiment.servers() {
        let is_its = |name: &&String| {
            let rest = name.strip_prefix("verifying-").and_then(|rest| rest.split_once('-'));
            rest.is_some_and(|(_, whose)| whose == server.plain_name())
        };
        let Some(first) = names.iter().find(is_its) else { continue };
        let mut files = Vec::new();
        for entry in fs::read_dir(trials.join(first).join("0"))? {
            files.push(entry?.path());
        }
        files.sort_unstable();
        // A script includes all configuration files.
        let script = files.iter().find(|path| path.ends_with(script::name(server))).cloned();
        let files = script.map_or(files, |script| vec![script]);
        for path in files {
            if is_told(&path) {
                let file = path.file_name().unwrap_or_default().display().to_string();
                let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
                all.push(Configuration { server: server.name.clone(), file, text });
            }
        }
    }
    Ok(all)
}
