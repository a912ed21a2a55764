//! Anybody's server: its command with `{port}`, `{host}`, `{root}`, `{cpus}`, `{directory}`
//! and an application's `{socket}` filled in.

use anyhow::{Result, ensure};

use super::Ground;
use super::application::socket;
use crate::spec::Spec;

pub(super) fn words(spec: &Spec, ground: &Ground<'_>) -> Result<Vec<String>> {
    ensure!(ground.listen.len() == 1, "{} can't be told of several addresses", spec.name);
    let address = ground.listen[0];
    let fill = |word: &String| {
        word.trim_matches('"')
            .replace("{port}", &address.port().to_string())
            .replace("{host}", &address.ip().to_string())
            .replace("{root}", &ground.root.display().to_string())
            .replace("{cpus}", &ground.cpus.to_string())
            .replace("{directory}", &ground.directory.display().to_string())
            .replace("{socket}", &socket(ground).to_string())
    };
    Ok(spec.settings.iter().map(fill).collect())
}
