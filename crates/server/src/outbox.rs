//! What a turn sends through a ring. The channel puts bytes here, and whoever gave the connection its turn
//! hands them to the ring ([`sys::ring`]). One turn puts something in once: the channel sends no more on a
//! connection before that is sent.

use std::mem;

use sys::socket::Slice;

/// The bytes that the present turn sends, if any.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    more_follows: bool,
}

impl Outbox {
    /// The most bytes that are worth a copy. More are sent by a call, which copies them once.
    pub const MOST: usize = 16 << 10;

    /// Puts runs of memory in, and returns how many bytes they have. `more_follows`: they may wait for
    /// what comes behind them.
    ///
    /// `buffer` is empty, and is used for them.
    #[inline]
    pub fn put(&mut self, buffer: Vec<u8>, runs: &[Slice<'_>], more_follows: bool) -> usize {
        debug_assert!(self.bytes.is_empty(), "one turn sends once");
        (self.bytes, self.more_follows) = (buffer, more_follows);
        for run in runs {
            run.append_to(&mut self.bytes);
        }
        self.bytes.len()
    }

    /// Takes out what is to be sent, and whether it may wait for more.
    #[inline]
    pub fn take(&mut self) -> Option<(Vec<u8>, bool)> {
        (!self.bytes.is_empty()).then(|| (mem::take(&mut self.bytes), self.more_follows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_comes_out_once() {
        let mut outbox = Outbox::default();
        assert!(outbox.take().is_none());
        let runs = [Slice::new(b"head"), Slice::EMPTY, Slice::new(b"body")];
        assert_eq!(outbox.put(Vec::new(), &runs, true), 8);
        assert_eq!(outbox.take(), Some((b"headbody".to_vec(), true)));
        assert!(outbox.take().is_none());
    }
}
