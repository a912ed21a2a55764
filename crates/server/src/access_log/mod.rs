//! The access log: one line for each request, written without ever making the event loop wait for a disk.
//!
//! A line is made in two halves ([`mod@line`]). [`AccessLog::begin`] records the request while its head
//! is available. [`AccessLog::end`] adds the outcome when the reply has ended. Whole lines gather in the
//! worker's buffer. When the buffer is full or a second old, it goes to the helper thread ([`writer`]),
//! and it comes back empty through another channel.
//!
//! Each worker owns a fixed number of buffers. When all of them are with the helper thread, the disk has
//! fallen behind. Then either lines are dropped and counted, or the worker waits. The operator chooses
//! which.

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
use crate::secured::Facts;
use line::TimeText;
pub use logs::{AccessLogs, LogNumber};
pub use target::{LogFile, OpenError};
use writer::Message;
pub use writer::{Ending, Writer};

/// A worker's handle for an access log.
#[derive(Debug)]
pub struct AccessLog {
    format: LogFormat,
    when_behind: WhenBehind,
    time: TimeText,
    buffer: Vec<u8>,
    /// How long lines may stay in `buffer`.
    linger_ms: u64,
    /// When `buffer` must be handed over, in monotonic milliseconds.
    due_ms: u64,
    /// How many buffers this worker has made so far, wherever they are now.
    buffers_made: usize,
    worker: usize,
    to_writer: SyncSender<Message>,
    from_writer: Receiver<Vec<u8>>,
    /// Tells the writer to reopen its file.
    reopen: Arc<AtomicBool>,
    counters: &'static Counters,
}

/// The size of a buffer. A full buffer is handed over as a whole.
const BUFFER_SIZE: usize = 64 << 10;

/// Most buffers for each worker: how far the writer may fall behind. The worker makes more than two only
/// when it does.
const BUFFERS: usize = 16;

/// The longest time until a line becomes visible, if the worker ticks and the writer keeps up.
const FLUSH_AFTER_MS: u64 = 1000;

impl AccessLog {
    /// Begins the line of a request that was read at `unix_secs`. Overwrites `line`, whose content only
    /// [`end`](Self::end) understands.
    pub fn begin(&mut self, line: &mut Vec<u8>, peer: &PeerAddress, head: &Head<'_>, unix_secs: u64) {
        line::begin(self.format, line, peer, Some(head), self.time.at(self.format, unix_secs));
    }

    /// Begins the line of a request whose head could not be read.
    pub fn begin_unreadable(&mut self, line: &mut Vec<u8>, peer: &PeerAddress, unix_secs: u64) {
        line::begin(self.format, line, peer, None, self.time.at(self.format, unix_secs));
    }

    /// Adds to a line begun by [`begin`](Self::begin) how long the connection waited in the accept queue
    /// at least, if the format has this value.
    pub fn add_accept(&self, line: &mut Vec<u8>, waited_ms: u32) {
        line::add_accept(self.format, line, waited_ms);
    }

    /// Adds to a line begun by [`begin`](Self::begin) what a proxy stated about the request's origin, if
    /// the format has it.
    pub fn add_origin(&self, line: &mut Vec<u8>, origin: &Origin) {
        line::add_origin(self.format, line, origin);
    }

    /// Adds to a line begun by [`begin`](Self::begin) what a TLS handshake has established, if the format has
    /// it.
    pub fn add_tls(&self, line: &mut Vec<u8>, facts: &Facts) {
        line::add_tls(self.format, line, facts);
    }

    /// Adds to a line begun by [`begin`](Self::begin) the pool of the application that answered, how long
    /// the request waited in the pool's queue, and how long it was in flight, if the format has these
    /// values.
    pub fn add_application(&self, line: &mut Vec<u8>, pool: &str, queue_ms: u64, application_ms: u64) {
        line::add_application(self.format, line, pool, queue_ms, application_ms);
    }

    /// Completes a line begun by [`begin`](Self::begin). The parameters are the reply's status, the bytes
    /// sent of its body, and the time from the request's last byte to the reply's last byte.
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

    /// Hands over lines that have waited for a second. Lines for a terminal go at once. Call this in
    /// every turn, and at least as often as [`wait_at_most_ms`](Self::wait_at_most_ms) says.
    pub fn tick(&mut self, now_ms: u64) {
        if self.buffer.is_empty() {
            self.due_ms = now_ms + self.linger_ms;
        } else if now_ms >= self.due_ms {
            // A writer that has fallen behind will not catch up before the next turn.
            self.due_ms = now_ms + if self.hand_over() { self.linger_ms } else { FLUSH_AFTER_MS };
        }
    }

    /// How long an idle worker may sleep, if lines wait to be handed over.
    pub fn wait_at_most_ms(&self, now_ms: u64) -> Option<u64> {
        (!self.buffer.is_empty()).then(|| self.due_ms.saturating_sub(now_ms))
    }

    /// Reopens the file by name, for example after it was renamed. Returns at once.
    pub fn reopen(&self) {
        self.reopen.store(true, Ordering::Release);
        // If the channel is full, messages are waiting, and the writer checks the flag before each
        // message.
        let _ = self.to_writer.try_send(Message::Nudge);
    }

    /// Gives the buffer to the writer and takes an empty one. Returns false if there is none: the writer
    /// has fallen behind.
    fn hand_over(&mut self) -> bool {
        let Some(empty) = self.empty_buffer() else { return false };
        let bytes = std::mem::replace(&mut self.buffer, empty);
        self.send(bytes);
        true
    }

    fn send(&self, bytes: Vec<u8>) {
        // The channel has room for all workers' buffers. It is closed only if the writer has died.
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
    /// Hands over the last lines to the writer.
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.buffer);
        if !bytes.is_empty() {
            self.send(bytes);
        }
    }
}

/// Each line ends with a line feed and contains no other.
fn count_lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests;
