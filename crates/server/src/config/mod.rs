//! Configuration: reads the TOML file and the command line, checks them, and produces [`Settings`].
//!
//! [`Source::load`] works in three steps:
//!
//! 1. It reads the file and lays the command line over it (`typed`: a tree of values that know their keys
//!    and places).
//! 2. It reads every key by the table of keys (`keys`, `resolve`).
//! 3. It checks what must hold between keys, and against the system (`checks`).
//!
//! `doubts` warns about what is allowed but is probably a mistake. Loading never binds or changes
//! anything, so `sluice check`, the start and a reload all use it. The same table of keys prints settings
//! and defines the command line's options ([`options`]).
//!
//! All problems are reported at once ([`ConfigError`]). The rest of the server imports this module. This
//! module imports only the helpers that display text.

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
mod schematics;
mod server_address;
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
pub use names::{DESIGNED, Design, no_ring};
pub use network::{Network, ToldOrigin, TrustedProxy};
pub use pattern::{NamePattern, Pattern, Segment};
pub use server_address::{ServerAddress, ServerName};
pub use settings::{
    AcceptLimit, Accepting, AccessLogSettings, AmpedSettings, Application, Architecture, AreaSend, Coalesce,
    ConnectionSettings, CopiesBy, ErrorLog, EventSettings, Events, FileSettings, HandshakeSettings,
    HeaderRule, Limits, Loads, LogFormat, LogLevel, LogTarget, Mapping, PairFiles, PipelineSettings,
    PlacementSettings, PoolRule, Protocol, RouteRule, Sends, Settings, SiteSettings, SocketFileSettings,
    Stages, Symlinks, Timeouts, TlsSettings, Transport, Uploads, UserThreadSettings, Wake, WhenBehind,
};
pub use target::{Part, Target, literal_prefix};
pub use typed::CommandLine;

/// Where settings come from. A source can be loaded again, and then reads the file's present content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The TOML file. Relative paths in it start from the file's directory.
    pub file: Option<PathBuf>,
    /// The command line, which overrides the file. Relative paths in it start from the current directory.
    pub command_line: CommandLine,
}

impl Source {
    /// Reads and checks everything.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a value in it or on the command line is wrong.
    pub fn load(&self) -> Result<Settings, ConfigError> {
        Ok(self.read()?.settings)
    }

    /// Reads and checks everything, and keeps what [`Configuration::doubts`] needs
    /// to warn about mistakes.
    ///
    /// # Errors
    ///
    /// As for [`load`](Self::load).
    pub fn read(&self) -> Result<Configuration, ConfigError> {
        match &self.file {
            None => self.read_text(""),
            Some(path) => match std::fs::read_to_string(path) {
                Ok(text) => self.read_text(&text),
                Err(source) => Err(ConfigError::Read { path: path.clone(), source }),
            },
        }
    }

    /// Reads everything, but checks only each value, not whether they fit together and to this machine.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is no TOML.
    pub(crate) fn unchecked(&self) -> Result<Settings, ConfigError> {
        let current = std::env::current_dir().map_err(ConfigError::CurrentDirectory)?;
        let path = self.file.as_deref().unwrap_or(Path::new(""));
        let failed = |source| ConfigError::Read { path: path.to_owned(), source };
        let text = self.file.as_ref().map_or(Ok(String::new()), std::fs::read_to_string).map_err(failed)?;
        let typed = typed::read(path, &text, &self.command_line).map_err(ConfigError::Problems)?;
        Ok(resolve::read_keys(&typed, current).0)
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

/// Settings, together with the text that they were read from.
#[derive(Debug)]
pub struct Configuration {
    /// The settings.
    pub settings: Settings,
    typed: typed::Table,
    /// Whether a file was read.
    has_file: bool,
}

impl Configuration {
    /// Warnings: settings that are probably a mistake, or that will not work for the user that this
    /// process runs as.
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
