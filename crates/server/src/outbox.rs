//! What a turn sends through a ring. The channel puts bytes here, and the event loop hands them to the ring
//! ([`sys::ring`]) when the turn is over. One turn puts something in once: the channel sends no more on a
//! connection before that is sent.

use sys::ring::Shared;
use sys::socket::Slice;

/// What the present turn sends, if anything.
#[derive(Debug, Default)]
pub struct Outbox(Option<Post>);

/// What a ring is to send.
#[derive(Debug, PartialEq)]
pub struct Post {
    /// Bytes, and those that follow them.
    pub bytes: (Vec<u8>, Option<Shared>),
    /// They may wait for what comes behind them.
    pub more_follows: bool,
}

impl Outbox {
    /// The most bytes that a ring sends at once. More are sent by calls, so that the client's timeouts see
    /// how fast it takes them.
    pub const MOST: usize = 16 << 10;
    /// From how many bytes on sharing them is worth more than a copy.
    pub const WORTH_SHARING: usize = 2 << 10;

    /// Puts in copies of these runs of memory, and what follows them. `buffer` is empty, and is used for the
    /// copies.
    #[inline]
    pub fn put(
        &mut self,
        mut buffer: Vec<u8>,
        (runs, shared): (&[Slice<'_>], Option<Shared>),
        more_follows: bool,
    ) {
        debug_assert!(self.0.is_none(), "one turn sends once");
        for run in runs {
            run.append_to(&mut buffer);
        }
        self.0 = Some(Post { bytes: (buffer, shared), more_follows });
    }

    /// Takes out what is to be sent.
    #[inline]
    pub fn take(&mut self) -> Option<Post> {
        self.0.take()
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
        outbox.put(Vec::new(), (&runs, None), true);
        assert_eq!(outbox.take(), Some(Post { bytes: (b"headbody".to_vec(), None), more_follows: true }));
        assert!(outbox.take().is_none());
    }
}
