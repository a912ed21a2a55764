//! The helper thread that writes access log lines, so that a slow or full disk delays only this thread.
//!
//! The thread takes full buffers from the workers' channel, appends each with one write, and sends the
//! buffer back. It counts lines that could not be written for the worker that they came from. A thread
//! does not survive a fork, so start it in the process that logs.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::line::TimeText;
use super::target::{LogFile, OpenError};
use super::terminal::{self, LAST_LINES_TO_WATCH};
use super::{AccessLog, BUFFER_SIZE, BUFFERS, FLUSH_AFTER_MS, count_lines};
use crate::config::{LogFormat, LogTarget, WhenBehind};
use crate::counters::Counters;
use crate::error_log::Limited;

/// How long writing the last lines may take.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The writer's thread, and the channel to it.
#[derive(Debug)]
pub struct Writer {
    thread: JoinHandle<()>,
    log: Arc<LogFile>,
    messages: SyncSender<Message>,
    reopen: Arc<AtomicBool>,
    workers: AtomicUsize,
}

impl Writer {
    /// Starts the thread for `workers` workers. Their lines go to `log`.
    ///
    /// # Errors
    ///
    /// No thread could be started.
    pub fn start(log: Arc<LogFile>, workers: usize) -> Result<Self, OpenError> {
        // There is room for all buffers that the workers can have in flight, for their registration, and
        // for a nudge. So no sender waits here.
        let (sender, messages) = sync_channel(workers * (BUFFERS + 2) + 1);
        let reopen = Arc::new(AtomicBool::new(false));
        let output = Output {
            log: Arc::clone(&log),
            torn: false,
            reopen: Arc::clone(&reopen),
            began: Instant::now(),
            complaints: Limited::default(),
        };
        let thread = std::thread::Builder::new()
            .name("access-log".into())
            .spawn(move || output.run(&messages))
            .map_err(|source| OpenError::new(log.target(), source))?;
        Ok(Self { thread, log, messages: sender, reopen, workers: AtomicUsize::new(0) })
    }

    /// A worker's handle. Its `counters` count lost lines.
    pub fn worker(
        &self,
        format: LogFormat,
        when_behind: WhenBehind,
        counters: &'static Counters,
    ) -> AccessLog {
        // A returning buffer always finds room, because a worker has no more buffers than this.
        let (home, from_writer) = sync_channel(BUFFERS);
        let _ = self.messages.send(Message::Worker { home, counters });
        AccessLog {
            format,
            when_behind,
            time: TimeText::default(),
            buffer: Vec::with_capacity(BUFFER_SIZE),
            linger_ms: if *self.log.target() == LogTarget::Terminal { 0 } else { FLUSH_AFTER_MS },
            due_ms: 0,
            buffers_made: 1,
            worker: self.workers.fetch_add(1, Ordering::Relaxed),
            to_writer: self.messages.clone(),
            from_writer,
            reopen: Arc::clone(&self.reopen),
            counters,
        }
    }

    /// Keeps the log's descriptor open until the process ends, and returns it.
    pub fn keep_open(&self) -> BorrowedFd<'_> {
        std::mem::forget(Arc::clone(&self.log));
        self.log.as_fd()
    }

    /// The target that lines are written to.
    pub fn target(&self) -> &LogTarget {
        self.log.target()
    }

    /// Stops the writer: it accepts no more lines. All [`AccessLog`]s must have been dropped, or another
    /// thread must be about to drop them.
    pub fn end(self) -> Ending {
        let timeout = if *self.target() == LogTarget::Terminal { LAST_LINES_TO_WATCH } else { LAST_LINES };
        Ending { thread: self.thread, log: self.log, began: Instant::now(), timeout }
    }
}

/// A writer that only writes its last lines.
#[derive(Debug)]
pub struct Ending {
    thread: JoinHandle<()>,
    log: Arc<LogFile>,
    began: Instant,
    pub(super) timeout: Duration,
}

impl Ending {
    /// Waits until everything is written, and returns whether it was. If this takes too long, it reports
    /// that and gives up, because the disk may hang.
    pub fn wait(self) -> bool {
        // Joining the thread could block forever.
        while !self.thread.is_finished() {
            if self.began.elapsed() >= self.timeout {
                let (log, timeout) = (self.log.target(), self.timeout);
                tracing::error!("the last lines of access log {log} were not written within {timeout:?}");
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }
}

/// Messages from the workers, and from [`Writer`] about them, to the thread.
#[derive(Debug)]
pub(super) enum Message {
    /// Registers the next worker: the channel for its empty buffers, and the counters for its lost lines.
    /// Workers are numbered in the order of these messages.
    Worker { home: SyncSender<Vec<u8>>, counters: &'static Counters },
    /// Lines to be written.
    Lines { worker: usize, bytes: Vec<u8> },
    /// Check the flags.
    Nudge,
}

/// The thread's state.
struct Output {
    log: Arc<LogFile>,
    /// The last write ended in the middle of a line.
    torn: bool,
    reopen: Arc<AtomicBool>,
    began: Instant,
    complaints: Limited,
}

impl Output {
    fn run(mut self, messages: &Receiver<Message>) {
        let mut workers = Vec::new();
        while let Ok(message) = messages.recv() {
            if self.reopen.swap(false, Ordering::AcqRel) {
                match self.log.reopen() {
                    Ok(is_another) => self.torn &= !is_another,
                    Err(error) => tracing::error!(%error, "cannot reopen access log {}", self.log.target()),
                }
            }
            match message {
                Message::Worker { home, counters } => workers.push((home, counters)),
                Message::Nudge => {}
                Message::Lines { worker, bytes: mut buffer } => {
                    let lines_lost = self.append(&buffer);
                    buffer.clear();
                    // One huge request must not occupy memory permanently.
                    buffer.shrink_to(BUFFER_SIZE);
                    if let Some((home, counters)) = workers.get(worker) {
                        counters.access_log_lost(lines_lost);
                        // A worker that has exited needs no buffer.
                        let _ = home.try_send(buffer);
                    }
                }
            }
        }
    }

    /// Writes lines and returns how many of them were lost.
    fn append(&mut self, lines: &[u8]) -> u64 {
        if *self.log.target() == LogTarget::Terminal && !terminal::is_watched() {
            return 0;
        }
        let mut rest = lines;
        if self.torn {
            // Ends the torn line, so that its rest does not become the beginning of the next line.
            match (&self.log.file).write(b"\n") {
                Ok(1) => self.torn = false,
                Ok(_) => return count_lines(rest),
                Err(error) => return self.complain(&error, rest),
            }
        }
        while !rest.is_empty() {
            match (&self.log.file).write(rest) {
                Ok(0) => return self.complain(&io::ErrorKind::WriteZero.into(), rest),
                Ok(n) => {
                    self.torn = rest[n - 1] != b'\n';
                    rest = &rest[n..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.complain(&error, rest),
            }
        }
        0
    }

    fn complain(&mut self, error: &io::Error, rest: &[u8]) -> u64 {
        let lost = count_lines(rest);
        if let Some(suppressed) = self.complaints.permit(self.began.elapsed().as_millis() as u64) {
            tracing::error!(%error, lost, suppressed, "cannot write to access log {}", self.log.target());
        }
        lost
    }
}
