//! The error log: `tracing` events as lines on standard error or in a file that can be reopened.
//!
//! To log, call `tracing::error!` and its siblings; [`init`] sets once where that goes. Messages that
//! clients can provoke pass through [`Limited`], because what goes wrong for one connection tends to go
//! wrong for ten thousand. An event is one line, whatever paths, requests or files it contains
//! ([`OneLine`]).
//!
//! A message neither ends the process nor blocks, even if the disk is full or the reader of standard error
//! is asleep. What cannot be written at once is lost and counted. The next message that can be written
//! reports it.

use std::fmt::{self, Write as _};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use sys::output::{self, Heir, Output};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer, format};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

use crate::config::{self, LogLevel};
use crate::plain::Plain;

/// The error log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The file cannot be opened for appending.
    #[error("cannot open error log {path}: {source}")]
    Open {
        /// The file as configured.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no standard error, or no descriptor left for it.
    #[error("cannot write to standard error: {0}")]
    StandardError(&'static io::Error),
    /// This process already has an error log.
    #[error("the error log has been set up before")]
    Again,
}

/// The log file of this process, if it logs to one.
static LOG: OnceLock<LogFile> = OnceLock::new();

/// Standard error, opened again if possible. That takes the rights that the process was started with.
static STANDARD_ERROR: LazyLock<io::Result<Arc<Lines>>> =
    LazyLock::new(|| Output::sharing(io::stderr()).map(Lines::new));

/// A log file's path and open descriptor, which another program continues to use.
pub type HandedOn = (PathBuf, OwnedFd);

/// Sends events of at least severity `level` to `target`, and the messages of panics. This holds for this
/// process and for the processes that it forks. `handed_on` is used if it is the file that `target` names,
/// because this process may no longer be allowed to open that. Root opens the file for an `heir`.
///
/// # Errors
///
/// The file cannot be opened, or this has been called before.
pub fn init(
    target: &config::ErrorLog,
    level: LogLevel,
    handed_on: Option<HandedOn>,
    heir: Option<Heir>,
) -> Result<(), InitError> {
    let standard_error = STANDARD_ERROR.as_ref().map_err(InitError::StandardError)?;
    let lines = match target {
        config::ErrorLog::Stderr => Arc::clone(standard_error),
        config::ErrorLog::File(path) => {
            let log = match handed_on {
                Some((of, file)) if of == *path => LogFile::new(path, Output::own(file)),
                _ => LogFile::open(path, heir)?,
            };
            let lines = Arc::clone(&log.lines);
            LOG.set(log).map_err(|_| InitError::Again)?;
            lines
        }
    };
    tracing::subscriber::set_global_default(subscriber(lines, level)).map_err(|_| InitError::Again)?;
    // The usual report blocks until the reader of standard error reads it.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{}", panic.to_string().replace('\n', " "))));
    Ok(())
}

/// Whether [`init`] would find what it needs. Creates nothing.
///
/// # Errors
///
/// The file cannot be opened.
pub fn check(target: &config::ErrorLog) -> Result<(), InitError> {
    // Opened now with the initial rights, in case they are given up.
    LazyLock::force(&STANDARD_ERROR);
    let config::ErrorLog::File(path) = target else { return Ok(()) };
    output::check_append(path).map_err(|source| InitError::Open { path: path.clone(), source })
}

/// Opens what [`init`] would open, which is a certain test. A missing file is created.
///
/// # Errors
///
/// The file cannot be opened.
pub fn try_open(target: &config::ErrorLog, handed_on: Option<&HandedOn>) -> Result<(), InitError> {
    match target {
        config::ErrorLog::File(path) if handed_on.is_none_or(|(of, _)| of != path) => {
            LogFile::open(path, None).map(drop)
        }
        _ => Ok(()),
    }
}

/// The path and the open file of this process's log, if it logs to a file.
pub fn file() -> Option<(&'static Path, BorrowedFd<'static>)> {
    LOG.get().map(|log| (&*log.path, log.lines.output.as_fd()))
}

/// Opens this process's log file again by its name, for example after it was renamed. If that fails, the
/// old file stays in use.
///
/// # Errors
///
/// The file cannot be opened for appending.
pub fn reopen() -> io::Result<()> {
    LOG.get().map_or(Ok(()), LogFile::reopen)
}

/// Writes a line to standard error, wherever the log is, if that is possible at once. Characters that could
/// mislead the reader are [escaped](Plain).
pub fn say(line: &str) {
    if let Ok(standard_error) = &*STANDARD_ERROR {
        standard_error.append(format!("{}\n", Plain(line)).as_bytes());
    }
}

/// A log file with its name.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    lines: Arc<Lines>,
}

impl LogFile {
    fn open(path: &Path, heir: Option<Heir>) -> Result<Self, InitError> {
        match heir.map_or_else(|| Output::append(path), |heir| Output::append_for(path, heir)) {
            Ok(output) => Ok(Self::new(path, output)),
            Err(source) => Err(InitError::Open { path: path.to_owned(), source }),
        }
    }

    fn new(path: &Path, output: Output) -> Self {
        Self { path: path.to_owned(), lines: Lines::new(output) }
    }

    /// The descriptor's number stays the same, because other processes may share the descriptor. If the
    /// name leads to the open file, there is nothing to do, and no right to that file is needed.
    fn reopen(&self) -> io::Result<()> {
        if output::leads_to(&self.path, self.lines.output.as_fd()) {
            return Ok(());
        }
        sys::file::replace(self.lines.output.as_fd(), Output::append(&self.path)?)
    }
}

/// Where lines are appended, and the messages that were lost.
#[derive(Debug)]
struct Lines {
    output: Output,
    missed: Mutex<Missed>,
}

/// What a process could not write.
#[derive(Debug, Default)]
struct Missed {
    process: u32,
    messages: u64,
    /// The last line is incomplete.
    torn: bool,
}

impl Lines {
    fn new(output: Output) -> Arc<Self> {
        Arc::new(Self { output, missed: Mutex::default() })
    }

    /// Writes a message, and before it a report of lost messages.
    fn append(&self, message: &[u8]) {
        let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        if missed.process != process::id() {
            // The process that lost messages before a fork reports them.
            *missed = Missed { process: process::id(), ..Missed::default() };
        }
        let mut text = missed.tell();
        let told = text.len();
        text.extend_from_slice(message);
        let written = self.write(&text);
        if written >= told {
            missed.messages = 0;
        }
        if written < text.len() {
            missed.messages += 1;
        }
        if let Some(last) = text[..written].last() {
            missed.torn = *last != b'\n';
        }
    }

    /// Returns how much of the text was written.
    fn write(&self, text: &[u8]) -> usize {
        let mut written = 0;
        while written < text.len() {
            match self.output.write(&text[written..]) {
                Ok(0) => break,
                Ok(n) => written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        written
    }
}

impl Missed {
    fn tell(&self) -> Vec<u8> {
        let mut text = String::new();
        if self.torn {
            text.push('\n');
        }
        if self.messages > 0 {
            // Writing to memory cannot fail.
            let _ = SystemTime.format_time(&mut Writer::new(&mut text));
            let lost = self.messages;
            let _ = writeln!(text, "  WARN messages lost, which could not be written at once lost={lost}");
        }
        text.into_bytes()
    }
}

/// Never fails, because there is no other place to report an error.
impl io::Write for &Lines {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        self.append(message);
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lets one message a second through and counts the others. Each kind of message has its own limit.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limited {
    /// When the next message may pass, in monotonic milliseconds.
    next_ms: u64,
    suppressed: u64,
}

impl Limited {
    /// Whether a message may pass at `now_ms` (of any clock that does not go back). If so, returns how many
    /// have been suppressed since the last one.
    pub fn permit(&mut self, now_ms: u64) -> Option<u64> {
        if now_ms < self.next_ms {
            self.suppressed += 1;
            return None;
        }
        self.next_ms = now_ms + 1000;
        Some(std::mem::take(&mut self.suppressed))
    }

    /// Logs a warning, unless one was logged within the last second.
    pub fn warn(&mut self, now_ms: u64, message: &str) {
        if let Some(suppressed) = self.permit(now_ms) {
            tracing::warn!(suppressed, "{message}");
        }
    }
}

/// Formats each event as one line, and escapes what could mislead the reader.
struct OneLine<F>(F);

impl<S, N, F> FormatEvent<S, N> for OneLine<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut text = String::new();
        self.0.format_event(context, Writer::new(&mut text), event)?;
        writeln!(writer, "{}", Plain(text.trim_end_matches('\n')))
    }
}

/// `2026-11-20T10:00:00.000000Z  WARN message key=value`
fn subscriber<W>(writer: W, level: LogLevel) -> impl Subscriber
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::fmt()
        // Otherwise it would write to standard error, and panic if that fails.
        .log_internal_errors(false)
        .event_format(OneLine(format().compact().with_target(false)))
        .with_max_level(level)
        .with_writer(writer)
        .finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

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
        let log = LogFile::open(&path, None).unwrap();
        tracing::subscriber::with_default(subscriber(Arc::clone(&log.lines), LogLevel::INFO), || {
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

    fn lost(line: &str) -> Option<u64> {
        line.contains("  WARN messages lost").then(|| line.rsplit_once('=')?.1.parse().ok()).flatten()
    }

    #[test]
    fn what_finds_no_room_is_counted_and_told_later() {
        let (mut reader, writer) = io::pipe().unwrap();
        let lines = Lines::new(Output::sharing(writer).unwrap());
        let mut written = 0;
        while lines.missed.lock().unwrap().messages == 0 {
            lines.append(format!("{written:0>1023}\n").as_bytes());
            written += 1;
        }
        lines.append(b"lost, too\n");
        let mut before = vec![0; (written - 1) * 1024];
        reader.read_exact(&mut before).unwrap();
        assert!(before.ends_with(format!("{}\n", written - 2).as_bytes()));
        lines.append(b"heard\n");
        lines.append(b"as usual\n");
        drop(lines);
        let mut after = String::new();
        reader.read_to_string(&mut after).unwrap();
        let after: Vec<_> = after.lines().collect();
        assert_eq!(after.len(), 3, "{after:?}");
        assert_eq!((lost(after[0]), after[1], after[2]), (Some(2), "heard", "as usual"));
    }

    #[test]
    fn a_torn_line_gets_its_end() {
        let (mut reader, writer) = io::pipe().unwrap();
        let lines = Lines::new(Output::sharing(writer).unwrap());
        lines.append(&vec![b'x'; 1 << 20]);
        let mut before = vec![0; 1 << 16];
        let n = reader.read(&mut before).unwrap();
        assert!(before[..n].iter().all(|&byte| byte == b'x'));
        lines.append(b"heard\n");
        drop(lines);
        let mut after = String::new();
        reader.read_to_string(&mut after).unwrap();
        let after: Vec<_> = after.lines().filter(|line| !line.starts_with('x')).collect();
        let [empty @ .., told, heard] = &after[..] else { panic!("{after:?}") };
        assert!(empty.iter().all(|line| line.is_empty()) && *heard == "heard", "{after:?}");
        assert_eq!(lost(told), Some(1));
    }

    #[test]
    fn a_file_that_was_handed_on_need_not_be_opened() {
        let target = |path: &str| config::ErrorLog::File(path.into());
        let handed_on = ("/nonexistent/error.log".into(), sys::file::in_memory("log").unwrap().into());
        try_open(&target("/nonexistent/error.log"), Some(&handed_on)).unwrap();
        try_open(&target("/nonexistent/other.log"), Some(&handed_on)).unwrap_err();
        try_open(&target("/nonexistent/error.log"), None).unwrap_err();
        try_open(&config::ErrorLog::Stderr, None).unwrap();
        check(&target("/nonexistent/error.log")).unwrap_err();
        check(&config::ErrorLog::Stderr).unwrap();
    }

    #[test]
    fn an_event_is_one_line_whatever_it_tells() {
        let dir = tempfile::tempdir().unwrap();
        let log = LogFile::open(&dir.path().join("error.log"), None).unwrap();
        tracing::subscriber::with_default(subscriber(Arc::clone(&log.lines), LogLevel::INFO), || {
            let path = "/x\n2026-11-20T10:00:00Z ERROR\r\t\x1b[2J\u{85}\u{fc}";
            tracing::error!(path, "can't read {path}");
            tracing::error!(%path, "it ends with a line\n");
        });
        let text = std::fs::read_to_string(&log.path).unwrap();
        assert_eq!(text.lines().count(), 2, "{text:?}");
        let is_plain = |char: char| char == '\n' || !char.is_control();
        assert!(text.chars().all(is_plain) && text.contains("\u{fc}"), "{text:?}");
        assert!(text.contains(r"can't read /x\n2026-11-20"), "{text:?}");
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_named() {
        let error =
            init(&config::ErrorLog::File("/nonexistent/error.log".into()), LogLevel::INFO, None, None)
                .unwrap_err();
        assert!(error.to_string().contains("/nonexistent/error.log"), "{error}");
    }
}
