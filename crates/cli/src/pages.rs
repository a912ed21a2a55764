//! Writes manual pages and shell completions. They are generated from the definition of the command line, so
//! they always match it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Command};
use clap_complete::Shell;

/// Where pages and completions are written to.
#[derive(Args)]
pub(crate) struct Options {
    /// The directory to write below, such as /usr/local/share or ~/.local/share
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Where each shell looks for completions, below a directory for shared data.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions"),
    (Shell::Zsh, "zsh/site-functions"),
    (Shell::Fish, "fish/vendor_completions.d"),
];

impl Options {
    /// Writes a page for `command`, a page for each of its subcommands, and completions for each shell.
    pub(crate) fn write(&self, mut command: Command) -> anyhow::Result<()> {
        let pages = self.below("man/man1")?;
        clap_mangen::generate_to(command.clone(), &pages).with_context(|| cannot_write(&pages))?;
        let name = command.get_name().to_owned();
        for (shell, place) in COMPLETIONS {
            let directory = self.below(place)?;
            clap_complete::generate_to(shell, &mut command, &name, &directory)
                .with_context(|| cannot_write(&directory))?;
        }
        Ok(())
    }

    /// A directory below that of shared data, made if it is missing.
    pub(crate) fn below(&self, place: &str) -> anyhow::Result<PathBuf> {
        let directory = self.directory.join(place);
        fs::create_dir_all(&directory).with_context(|| cannot_write(&directory))?;
        Ok(directory)
    }
}

pub(crate) fn cannot_write(to: &Path) -> String {
    format!("cannot write to {}", to.display())
}
