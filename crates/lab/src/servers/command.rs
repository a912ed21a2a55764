//! Anybody's server: its command with `{port}`, `{host}`, `{root}`, `{cpus}` and `{directory}` filled in.

use anyhow::{Result, ensure};

use super::Ground;
use crate::spec::Spec;

pub(super) fn commands(spec: &Spec, ground: &Ground<'_>) -> Result<Vec<Vec<String>>> {
    ensure!(ground.listen.len() == 1, "{} can't be told of several addresses", spec.name);
    let address = ground.listen[0];
    let fill = |word: &String| {
        word.replace("{port}", &address.port().to_string())
            .replace("{host}", &address.ip().to_string())
            .replace("{root}", &ground.root.display().to_string())
            .replace("{cpus}", &ground.cpus.to_string())
            .replace("{directory}", &ground.directory.display().to_string())
    };
    Ok(vec![spec.settings.iter().map(fill).collect()])
}
