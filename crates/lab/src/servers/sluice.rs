//! Ours: settings that begin with dashes are options, the others lines of its TOML file.

use anyhow::Result;

use super::{Ground, write};
use crate::spec::Spec;

/// What its status is asked at.
pub(crate) const STATUS: &str = "status";

pub(super) fn words(spec: &Spec, ground: &Ground<'_>) -> Result<Vec<String>> {
    let Ground { root, listen, sockets, capacity, sluice, .. } = ground;
    let (options, toml): (Vec<&String>, Vec<&String>) =
        spec.settings.iter().partition(|word| word.starts_with("--"));
    let sets = |name: &str| spec.settings.iter().any(|word| word.trim_start_matches('-').starts_with(name));
    let mut lines = vec!["drain_timeout = \"200 ms\"".to_owned()];
    if !sets("max_connections") && !sets("max-connections") {
        lines.push(format!("max_connections = {capacity}"));
    }
    lines.extend(toml.into_iter().cloned());
    let config = write(ground, "sluice.toml", &(lines.join("\n") + "\n"))?;
    let executable = spec.program.as_deref().unwrap_or(sluice);
    let mut words = vec![executable.display().to_string(), "serve".to_owned(), root.display().to_string()];
    words.push(format!("--config={config}"));
    words.extend(listen.iter().map(|address| format!("--listen={address}")));
    words.push(format!("--status=unix:{}", sockets.join(STATUS).display()));
    words.extend(options.into_iter().cloned());
    Ok(words)
}
