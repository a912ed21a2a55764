//! What a turn sends through a ring. The channel puts bytes here, and the event loop hands them to the ring
//! ([`sys::ring`]) when the turn is over. One turn puts something in once: the channel sends no more on a
//! connection before that is sent.

use sys::ring::{How, Shared};
use sys::socket::Slice;

/// What the present turn sends, if anything.
#[derive(Debug, Default)]
pub struct Outbox {
    post: Option<Post>,
    /// Whether large posts are sent without a copy, where that is possible.
    zero_copy: bool,
}

/// What a ring is to send.
#[derive(Debug, PartialEq)]
pub struct Post {
    /// Bytes, and those that follow them.
    pub bytes: (Vec<u8>, Option<Shared>),
    /// How they are sent.
    pub how: How,
}

impl Outbox {
    /// The most bytes that a ring sends at once. More are sent by calls, so that the client's timeouts see
    /// how fast it takes them.
    pub const MOST: usize = 16 << 10;
    /// From how many bytes on sharing them is worth more than a copy.
    pub const WORTH_SHARING: usize = 2 << 10;
    /// From how many bytes on sending them without a copy may be worth that the kernel tells twice.
    const WORTH_ZERO_COPY: usize = 4 << 10;

    /// `zero_copy`: large posts are sent without a copy, where that is possible.
    pub fn new(zero_copy: bool) -> Self {
        Self { post: None, zero_copy }
    }

    /// Puts in copies of these runs of memory, and what follows them. `buffer` is empty, and is used for the
    /// copies. `how` says what is possible.
    #[inline]
    pub fn put(&mut self, mut buffer: Vec<u8>, (runs, shared): (&[Slice<'_>], Option<Shared>), mut how: How) {
        debug_assert!(self.post.is_none(), "one turn sends once");
        for run in runs {
            run.append_to(&mut buffer);
        }
        let length = buffer.len() + shared.as_ref().map_or(0, |(_, range)| range.len());
        how.zero_copy &= self.zero_copy && length >= Self::WORTH_ZERO_COPY;
        self.post = Some(Post { bytes: (buffer, shared), how });
    }

    /// Puts in records of TLS. `how` says what is possible.
    pub fn put_records(&mut self, records: Vec<u8>, mut how: How) {
        debug_assert!(self.post.is_none(), "one turn sends once");
        how.zero_copy &= self.zero_copy && records.len() >= Self::WORTH_ZERO_COPY;
        self.post = Some(Post { bytes: (records, None), how });
    }

    /// Takes out what is to be sent.
    #[inline]
    pub fn take(&mut self) -> Option<Post> {
        self.post.take()
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
        let how = How { more_follows: true, zero_copy: true };
        outbox.put(Vec::new(), (&runs, None), how);
        let how = How { more_follows: true, zero_copy: false };
        assert_eq!(outbox.take(), Some(Post { bytes: (b"headbody".to_vec(), None), how }));
        assert!(outbox.take().is_none());
    }

    #[test]
    fn only_what_is_large_goes_without_a_copy() {
        let mut outbox = Outbox::new(true);
        let large = vec![0; Outbox::WORTH_ZERO_COPY];
        let mut goes = |bytes: &[u8], zero_copy| {
            outbox.put(Vec::new(), (&[Slice::new(bytes)], None), How { more_follows: false, zero_copy });
            outbox.take().unwrap().how.zero_copy
        };
        assert!(goes(&large, true) && !goes(&large[1..], true) && !goes(&large, false));
    }
}
