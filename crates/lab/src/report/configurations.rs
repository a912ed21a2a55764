//! What the lab has written for servers to be configured by, so that a page tells what was measured when the
//! trials are gone. Taken from where each server was started first: to have its replies compared.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::report::results::Results;

/// A file of a server's configuration.
#[derive(Debug)]
pub(super) struct Configuration {
    pub(super) server: String,
    /// Its name.
    pub(super) file: String,
    pub(super) text: String,
}

/// Of all servers, as far as their trials are still in `directory`.
pub(super) fn of(results: &Results, directory: &Path) -> Result<Vec<Configuration>> {
    let mut all = Vec::new();
    let trials = directory.join("trials");
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
        for path in files {
            let is_configuration = ["conf", "cfg", "toml"].map(|known| Some(known.as_ref()));
            if is_configuration.contains(&path.extension()) {
                let file = path.file_name().unwrap_or_default().display().to_string();
                let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
                all.push(Configuration { server: server.name.clone(), file, text });
            }
        }
    }
    Ok(all)
}
