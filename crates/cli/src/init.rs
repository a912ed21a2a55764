//! `sluice init`: writes a commented `sluice.toml` for what it finds. It asks nothing.
//!
//! `found` looks at the site's directory and at the machine, and `text` writes the settings. The result is
//! read back as `serve` would read it, so that it works as it stands.

mod found;
mod text;

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use server::config::{CommandLine, Source};

use crate::console::print;
use found::Found;

/// What `sluice init` takes.
#[derive(Args)]
pub(crate) struct Options {
    /// The site's directory; files may be in a directory below it, such as `public`
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,

    /// The file to write, which must not exist yet; `-` prints the settings
    #[arg(long, short, value_name = "FILE", default_value = "sluice.toml")]
    output: PathBuf,
}

/// The output file exists already, or the directory does not.
#[derive(Debug)]
pub(crate) struct Refused(String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Writes the settings, and prints what was found.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let directory = options.directory.canonicalize();
    let directory = directory
        .ok()
        .filter(|path| path.is_dir())
        .ok_or_else(|| Refused(format!("{} is not a directory", options.directory.display())))?;
    let output = &options.output;
    let is_printed = output == Path::new("-");
    let beside = if is_printed { Path::new("") } else { output.parent().unwrap_or(Path::new("")) };
    let beside = if beside.as_os_str().is_empty() { Path::new(".") } else { beside };
    let beside = beside
        .canonicalize()
        .map_err(|error| Refused(format!("cannot write {}: {error}", output.display())))?;

    let found = Found::of(&directory, Path::new("/"));
    // Clients must not be able to fetch the settings.
    let name = output.file_name().filter(|_| !is_printed && beside.starts_with(&found.root));
    let hidden =
        name.and_then(|name| beside.join(name).strip_prefix(&found.root).ok().map(Path::to_path_buf));
    let text = text::of(&found, hidden.as_deref());
    let source = Source { file: Some(beside.join("sluice.toml")), command_line: CommandLine::default() };
    source
        .load_text(&text)
        .context("init made settings that cannot be loaded; please report this as a bug")?;
    if is_printed {
        print(&text)?;
        return Ok(());
    }

    let created = OpenOptions::new().write(true).create_new(true).open(output);
    let written = match created {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let what =
                format!("{} exists already; remove it, or name another file with --output", output.display());
            return Err(Refused(what).into());
        }
        Err(error) => Err(error),
        Ok(mut file) => file.write_all(text.as_bytes()),
    };
    written.with_context(|| format!("cannot write {}", output.display()))?;
    let said: Vec<String> = found.lines().into_iter().map(|line| format!("found    {line}\n")).collect();
    let (config, address) = (output.display(), found.address());
    let next = format!("wrote    {config}\nserve    sluice serve --config {config}\nopen     {address}\n");
    print(&(said.concat() + &next))?;
    Ok(())
}
