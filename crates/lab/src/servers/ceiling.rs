//! The ceiling: a server that parses nothing and sends one reply to every request. It shows the least that
//! a request costs. Settings are its options, such as `--variant=sendfile`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{Ground, executable, not_there};
use crate::servers::spec::Spec;

/// The command line. The options about its file follow from the workload.
pub(super) fn words(spec: &Spec, ground: &Ground<'_>) -> Result<Vec<String>> {
    let name = &spec.name;
    ensure!(ground.listen.len() == 1, "{name} can't listen on several addresses");
    let constant =
        ground.constant.with_context(|| format!("{name}: the requests are not all for one file"))?;
    let program = executable(spec, ground.sluice).with_context(|| not_there(spec))?;
    let file = ground.root.join(constant.target.trim_start_matches('/'));
    let bytes = fs::metadata(&file).with_context(|| format!("no {}", file.display()))?.len();
    let mut words = vec![
        program.display().to_string(),
        format!("--listen={}", ground.listen[0]),
        format!("--body={bytes}"),
        format!("--file={}", file.display()),
    ];
    words.extend(constant.closes.then(|| "--close".to_owned()));
    words.extend(spec.settings.iter().cloned());
    Ok(words)
}

/// The program's path: beside sluice, if the spec names no other build.
pub(super) fn program(spec: &Spec, sluice: &Path) -> PathBuf {
    spec.program.clone().unwrap_or_else(|| sluice.with_file_name("ceiling"))
}
