//! What belongs to one request.

use http1::Head;

use super::Conversation;
use crate::service::Service;

impl Conversation {
    /// The access log's line begun for the request under way.
    pub fn take_log_line(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.log_line)
    }

    /// When the request under way was read, in monotonic milliseconds.
    pub fn request_began_ms(&self) -> u64 {
        self.request_began_ms
    }

    /// Counts a request that was read, and begins its line of the access log.
    #[inline]
    pub(super) fn begin_request(&mut self, service: &mut Service, head: &Head<'_>) {
        service.counters.requests.add(1);
        if let Some(log) = &mut service.log {
            let mut line = service.buffers.take();
            log.begin(&mut line, &self.peer, head, service.clock.unix_secs);
            self.log_line = line;
            self.request_began_ms = service.clock.ms;
        }
    }
}
