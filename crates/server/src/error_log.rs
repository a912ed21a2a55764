//! The error log: `tracing` events as lines on standard error or in a file that can be reopened.
//!
//! Whoever logs calls `tracing::error!` and its siblings; [`init`] says once where that goes. Messages from
//! an event loop pass through [`Limited`], because what goes wrong for one connection tends to go wrong for
//! ten thousand.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::{self, LogLevel};

/// The error log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The file can't be opened for appending.
    #[error("cannot open error log {path}: {source}")]
    Open {
        /// The file as configured.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// This process has one already.
    #[error("the error log has been set up before")]
    Again,
}

/// The file that this process logs to, if it is one.
static LOG: OnceLock<LogFile> = OnceLock::new();

/// Sends the events of this process, and of those that it forks, that are at least as severe as `level` to `target`.
///
/// # Errors
///
/// The file can't be opened, or this has been called before.
pub fn init(target: &config::ErrorLog, level: LogLevel) -> Result<(), InitError> {
    let config::ErrorLog::File(path) = target else {
        return set_global(subscriber(|| StandardError, level));
    };
    let log = LogFile::open(path).map_err(|source| InitError::Open { path: path.clone(), source })?;
    set_global(subscriber(log.writer(), level))?;
    LOG.set(log).map_err(|_| InitError::Again)
}

/// Opens the file of this process's log anew by its name, as after it was renamed. If that fails, the old one stays in use.
///
/// # Errors
///
/// The file can't be opened for appending.
pub fn reopen() -> io::Result<()> {
    LOG.get().map_or(Ok(()), LogFile::reopen)
}

/// A log file with its name.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    file: Arc<File>,
}

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), file: Arc::new(open(path)?) })
    }

    /// The descriptor stays the same: other processes may have it in common with this one.
    fn reopen(&self) -> io::Result<()> {
        sys::file::replace(&*self.file, open(&self.path)?)
    }

    fn writer(&self) -> impl Fn() -> Arc<File> + Send + Sync + 'static {
        let file = Arc::clone(&self.file);
        move || Arc::clone(&file)
    }
}

/// Standard error as long as somebody reads it. Once nobody does, messages are lost: a server must not fail for lack of a
/// reader, and the subscriber would report its own failure there, too.
struct StandardError;

impl io::Write for StandardError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lets through one message a second and counts the others. Each kind of message has its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limited {
    /// When the next message may pass, in monotonic milliseconds.
    next_ms: u64,
    suppressed: u64,
}

impl Limited {
    /// Whether a message may pass at `now_ms` (of any clock that does not go back), and then the number of
    /// those since the last that might not.
    pub fn permit(&mut self, now_ms: u64) -> Option<u64> {
        if now_ms < self.next_ms {
            self.suppressed += 1;
            return None;
        }
        self.next_ms = now_ms + 1000;
        Some(std::mem::take(&mut self.suppressed))
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// `2026-11-20T10:00:00.000000Z  WARN message key=value`
fn subscriber<W>(writer: W, level: LogLevel) -> impl Subscriber
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::fmt()
        .compact()
        .with_target(false)
        .with_max_level(filter(level))
        .with_writer(writer)
        .finish()
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

fn set_global(subscriber: impl Subscriber + Send + Sync + 'static) -> Result<(), InitError> {
    tracing::subscriber::set_global_default(subscriber).map_err(|_| InitError::Again)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_a_second_passes_and_the_others_are_counted() {
        let mut limited = Limited::default();
        let passed: Vec<_> = [0, 1, 999, 1000, 1500, 5000, 5001].map(|now| limited.permit(now)).into();
        assert_eq!(passed, [Some(0), None, None, Some(2), None, Some(1), None]);
    }

    #[test]
    fn lines_go_to_the_file_and_after_a_rotation_to_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("error.log"), dir.path().join("error.log.1"));
        let log = LogFile::open(&path).unwrap();
        tracing::subscriber::with_default(subscriber(log.writer(), LogLevel::Info), || {
            tracing::warn!(suppressed = 3, "disk is slow");
            tracing::debug!("not severe enough");
            std::fs::rename(&path, &old).unwrap();
            tracing::info!("still the old file");
            log.reopen().unwrap();
            tracing::error!("a new file");
        });
        let old = std::fs::read_to_string(old).unwrap();
        let lines: Vec<_> = old.lines().collect();
        assert_eq!(lines.len(), 2, "{old}");
        assert!(lines[0].contains("WARN disk is slow suppressed=3"), "{old}");
        assert!(lines[0].starts_with("20"), "{old}");
        assert!(lines[1].ends_with("INFO still the old file"), "{old}");
        let new = std::fs::read_to_string(path).unwrap();
        assert!(new.ends_with("ERROR a new file\n"), "{new}");
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let error =
            init(&config::ErrorLog::File("/nonexistent/error.log".into()), LogLevel::Info).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/error.log"), "{error}");
    }
}
