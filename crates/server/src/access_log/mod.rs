//! The access log: one line for each request, written without ever making the event loop wait for a disk.
//!
//! A line is made in two halves ([`mod@line`]): what the request says is noted while its head is at hand
//! ([`AccessLog::begin`]), the outcome when the reply has ended ([`AccessLog::end`]). Whole lines gather in
//! the worker's buffer, which goes to the helper thread ([`writer`]) when it is full or a second old, and
//! comes back empty through another channel. Each worker owns a fixed number of buffers; when all of them are
//! with the helper, the disk has fallen behind, and lines are either dropped and counted or the worker waits,
//! as the operator chose.

mod line;
mod logs;
mod target;
mod terminal;
mod trace;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

use http1::Head;
use sys::socket::PeerAddress;

use crate::config::{LogFormat, WhenBehind};
use crate::counters::Counters;
use crate::proxies::origin::Origin;
use line::TimeText;
pub use logs::{AccessLogs, LogNumber};
pub use target::{LogFile, OpenError};
use writer::Message;
pub use writer::{Ending, Writer};

/// A worker's end of the access log.
#[derive(Debug)]
pub struct AccessLog {
    format: LogFormat,
    when_behind: WhenBehind,
    time: TimeText,
    buffer: Vec<u8>,
    /// How long lines may stay in `buffer`.
    linger_ms: u64,
    /// When what is in `buffer` is to be handed over, in monotonic milliseconds.
    due_ms: u64,
    /// Buffers this worker has made so far, wherever they are now.
    buffers_made: usize,
    worker: usize,
    to_writer: SyncSender<Message>,
    from_writer: Receiver<Vec<u8>>,
    /// Asks the writer to open its file anew.
    reopen: Arc<AtomicBool>,
    counters: &'static Counters,
}

/// Bytes of lines that are handed over at once.
const BUFFER_SIZE: usize = 64 << 10;

/// Buffers for each worker: how far the writer may fall behind. All but two are made only when it does.
const BUFFERS: usize = 16;

/// Lines become visible after this time at the latest, if the worker ticks and the writer keeps up.
const FLUSH_AFTER_MS: u64 = 1000;

impl AccessLog {
    /// Begins the line of a request that was read at `unix_secs`. `line` is overwritten; it has no meaning
    /// but for [`end`](Self::end).
    pub fn begin(&mut self, line: &mut Vec<u8>, peer: &PeerAddress, head: &Head<'_>, unix_secs: u64) {
        line::begin(self.format, line, peer, Some(head), self.time.at(self.format, unix_secs));
    }

    /// Begins the line of a request whose head could not be read.
    pub fn begin_unreadable(&mut self, line: &mut Vec<u8>, peer: &PeerAddress, unix_secs: u64) {
        line::begin(self.format, line, peer, None, self.time.at(self.format, unix_secs));
    }

    /// Has a line begun by [`begin`](Self::begin) say, where the format has room for it, how long the
    /// connection waited in the accept queue at least.
    pub fn add_accept(&self, line: &mut Vec<u8>, waited_ms: u32) {
        line::add_accept(self.format, line, waited_ms);
    }

    /// Has a line begun by [`begin`](Self::begin) say, where the format has room for it, what a proxy has
    /// told of the request's origin.
    pub fn add_origin(&self, line: &mut Vec<u8>, origin: &Origin) {
        line::add_origin(self.format, line, origin);
    }

    /// Has a line begun by [`begin`](Self::begin) say, where the format has room for it, of which pool an
    /// application answered, how long the request waited in the pool's queue, and how long it was in flight.
    pub fn add_application(&self, line: &mut Vec<u8>, pool: &str, queue_ms: u64, application_ms: u64) {
        line::add_application(self.format, line, pool, queue_ms, application_ms);
    }

    /// Completes a line begun by [`begin`](Self::begin): the reply's status, the bytes of its body that were
    /// sent, and how long it took from the request's last byte to the reply's.
    pub fn end(&mut self, line: &[u8], status: u16, body_bytes: u64, duration_ms: u64) {
        if self.buffer.len() + line.len() + line::OUTCOME_ROOM > BUFFER_SIZE
            && !self.buffer.is_empty()
            && !self.hand_over()
        {
            self.counters.access_log_behind();
            return;
        }
        line::end(self.format, &mut self.buffer, line, status, body_bytes, duration_ms);
    }

    /// Hands over lines that have waited for a second; those for a terminal at once. To be called in every
    /// turn, and at least as often as [`wait_at_most_ms`](Self::wait_at_most_ms) says.
    pub fn tick(&mut self, now_ms: u64) {
        if self.buffer.is_empty() {
            self.due_ms = now_ms + self.linger_ms;
        } else if now_ms >= self.due_ms {
            // A writer that has fallen behind will not have caught up by the next turn.
            self.due_ms = now_ms + if self.hand_over() { self.linger_ms } else { FLUSH_AFTER_MS };
        }
    }

    /// How long a worker with nothing else to do may sleep, if lines wait to be handed over.
    pub fn wait_at_most_ms(&self, now_ms: u64) -> Option<u64> {
        (!self.buffer.is_empty()).then(|| self.due_ms.saturating_sub(now_ms))
    }

    /// Has the file opened anew by its name, as after it was renamed. Returns at once.
    pub fn reopen(&self) {
        self.reopen.store(true, Ordering::Release);
        // If there is no room, messages are waiting, and the flag is looked at before each.
        let _ = self.to_writer.try_send(Message::Nudge);
    }

    /// Gives the buffer to the writer and takes an empty one. False: there is none, so the writer has fallen
    /// behind.
    fn hand_over(&mut self) -> bool {
        let Some(empty) = self.empty_buffer() else { return false };
        let bytes = std::mem::replace(&mut self.buffer, empty);
        self.send(bytes);
        true
    }

    fn send(&self, bytes: Vec<u8>) {
        // The channel has room for every worker's buffers. It is closed only when the writer has died.
        if let Err(unsent) = self.to_writer.send(Message::Lines { worker: self.worker, bytes })
            && let Message::Lines { bytes, .. } = unsent.0
        {
            self.counters.access_log_lost(count_lines(&bytes));
        }
    }

    fn empty_buffer(&mut self) -> Option<Vec<u8>> {
        match self.from_writer.try_recv() {
            Ok(buffer) => Some(buffer),
            Err(_) if self.buffers_made < BUFFERS => {
                self.buffers_made += 1;
                Some(Vec::with_capacity(BUFFER_SIZE))
            }
            Err(_) if self.when_behind == WhenBehind::Wait => self.from_writer.recv().ok(),
            Err(_) => None,
        }
    }
}

impl Drop for AccessLog {
    /// What has been logged gets written.
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.buffer);
        if !bytes.is_empty() {
            self.send(bytes);
        }
    }
}

/// Lines end with a line feed and hold no other.
fn count_lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests;
