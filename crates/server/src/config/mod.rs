//! Configuration: from what was typed to [`Settings`].
//!
//! [`Source::load`] reads the file and lays the command line over it (`typed`: a tree of values that know
//! their keys and places), reads every key by the table of them (`keys`, `resolve`), and checks what must
//! hold between them and in the world (`checks`). What need not hold, but is hardly meant, is told by
//! `doubts`. It never binds or changes anything, so it serves `sluice check`, the start and a reload alike.
//! The same table prints settings, and makes the options of the command line ([`options`]).
//!
//! All problems are reported at once ([`ConfigError`]). The rest of the server imports this module, which
//! imports nothing of it but how text is shown.

mod address;
mod checks;
mod copies;
#[cfg(test)]
mod documents;
mod doubts;
mod error;
mod files;
mod headers;
mod host;
mod key;
mod keys;
mod layout;
mod logs;
mod names;
mod network;
mod pattern;
mod pools;
mod print;
mod resolve;
mod routes;
mod settings;
mod sites;
mod target;
#[cfg(test)]
mod tests;
mod typed;
mod values;

use std::path::{Path, PathBuf};

pub use address::{ListenAddress, StatusAddress};
pub(crate) use copies::dealt;
pub use error::{ConfigError, Place, Problem};
pub use host::HostPattern;
pub use key::Key;
pub use keys::options;
pub use layout::{Layout, Role, StageThreads, Threads};
pub use names::{DESIGNED, Design};
pub use network::{Network, ToldOrigin, TrustedProxy};
pub use pattern::{NamePattern, Pattern, Segment};
pub use settings::{
    AcceptLimit, AccessLogSettings, AmpedSettings, Architecture, AreaSend, Coalesce, ConnectionSettings,
    CopiesBy, ErrorLog, EventSettings, Events, FileSettings, HeaderRule, Limits, LogFormat, LogLevel,
    LogTarget, Mapping, Php, PipelineSettings, PlacementSettings, PoolRule, RouteRule, Sends, Settings,
    SiteSettings, SocketFileSettings, Stages, Symlinks, Timeouts, Transport, Wake, WhenBehind,
};
pub use target::{Part, Target, literal_prefix};
pub use typed::CommandLine;

/// Where settings come from. It can be loaded again, and then sees the file as it is by then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The TOML file. Relative paths in it start from its directory.
    pub file: Option<PathBuf>,
    /// What was typed, which wins. Relative paths in it start from the current directory.
    pub command_line: CommandLine,
}

impl Source {
    /// Reads and checks everything.
    ///
    /// # Errors
    ///
    /// The file can't be read, or something in it or on the command line is wrong.
    pub fn load(&self) -> Result<Settings, ConfigError> {
        Ok(self.read()?.settings)
    }

    /// The same, with what it takes to [doubt](Configuration::doubts) it.
    ///
    /// # Errors
    ///
    /// As of [`load`](Self::load).
    pub fn read(&self) -> Result<Configuration, ConfigError> {
        match &self.file {
            None => self.read_text(""),
            Some(path) => match std::fs::read_to_string(path) {
                Ok(text) => self.read_text(&text),
                Err(source) => Err(ConfigError::Read { path: path.clone(), source }),
            },
        }
    }

    /// Checks everything as if `text` were in the file.
    ///
    /// # Errors
    ///
    /// Something in the text or on the command line is wrong.
    pub fn load_text(&self, text: &str) -> Result<Settings, ConfigError> {
        Ok(self.read_text(text)?.settings)
    }

    fn read_text(&self, text: &str) -> Result<Configuration, ConfigError> {
        let current = std::env::current_dir().map_err(ConfigError::CurrentDirectory)?;
        let path = self.file.as_deref().unwrap_or(Path::new(""));
        let typed = typed::read(path, text, &self.command_line).map_err(ConfigError::Problems)?;
        let settings = resolve::resolve(&typed, current).map_err(ConfigError::Problems)?;
        Ok(Configuration { settings, typed, has_file: self.file.is_some() })
    }
}

/// Settings, and what was typed for them.
#[derive(Debug)]
pub struct Configuration {
    /// The settings.
    pub settings: Settings,
    typed: typed::Table,
    /// Whether some of it was typed in a file.
    has_file: bool,
}

impl Configuration {
    /// What is hardly meant in the settings, or will not work as it is for the user that this process runs
    /// as: warnings.
    pub fn doubts(&self) -> Vec<Problem> {
        doubts::doubts(&self.settings, &self.typed, self.has_file)
    }
}

impl Settings {
    /// Writes these settings as a TOML file that yields the same settings.
    pub fn to_toml(&self) -> String {
        print::print(self)
    }
}
