//! What relay and applications say to each other besides replies: eight bytes, two numbers. They trust each
//! other: one program forked into all of them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context as _, Result, bail, ensure};
use sys::socket::{self, Slice};

/// A message, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// To an application: a reply of so many bytes is wanted. In pass-fd the client comes with it.
    Request(u32),
    /// To the relay: the next chunks of the shared memory hold so many bytes.
    Filled(u32),
    /// To an application, before its reply has ended: so many more chunks are its own again.
    Freed(u32),
    /// To the relay: the client has its whole reply, and nobody holds a copy of its socket any more.
    Returned,
}

/// Bytes of a message.
pub(crate) const LENGTH: usize = 8;

impl Message {
    fn bytes(self) -> [u8; LENGTH] {
        let (kind, number) = match self {
            Self::Request(bytes) => (1, bytes),
            Self::Filled(bytes) => (2, bytes),
            Self::Freed(chunks) => (3, chunks),
            Self::Returned => (4, 0),
        };
        (kind << u32::BITS | u64::from(number)).to_ne_bytes()
    }

    fn of(bytes: [u8; LENGTH]) -> Result<Self> {
        let both = u64::from_ne_bytes(bytes);
        let number = both as u32;
        Ok(match both >> u32::BITS {
            1 => Self::Request(number),
            2 => Self::Filled(number),
            3 => Self::Freed(number),
            4 => Self::Returned,
            kind => bail!("a message of kind {kind}"),
        })
    }

    /// Sends it, perhaps with a descriptor; there is always room for so little, as both ends read before they
    /// say more.
    pub(crate) fn send(self, link: impl AsFd, passed: Option<&OwnedFd>) -> Result<()> {
        let bytes = self.bytes();
        let sent = match passed {
            Some(passed) => socket::send_with(link, &[Slice::new(&bytes)], passed.as_fd()),
            None => socket::send(link, &bytes),
        };
        ensure!(sent.context("cannot send a message")? == LENGTH, "a message was cut");
        Ok(())
    }
}

/// Messages that have come, whole or in part.
#[derive(Debug)]
pub(crate) struct Inbox {
    buffer: [u8; 512],
    begin: usize,
    end: usize,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self { buffer: [0; 512], begin: 0, end: 0 }
    }

    /// The next one that is here.
    pub(crate) fn next(&mut self) -> Result<Option<Message>> {
        let here = &self.buffer[self.begin..self.end];
        let Some(bytes) = here.first_chunk::<LENGTH>() else { return Ok(None) };
        let message = Message::of(*bytes)?;
        self.begin += LENGTH;
        Ok(Some(message))
    }

    /// Takes more in, by `receive`, which is given room for it: how many bytes that were.
    pub(crate) fn fill(&mut self, receive: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        self.buffer.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        let count = receive(&mut self.buffer[self.end..])?;
        self.end += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_whole_however_they_are_cut() {
        let sent = [Message::Request(4 << 20), Message::Filled(1), Message::Freed(16), Message::Returned];
        let bytes: Vec<u8> = sent.iter().flat_map(|message| message.bytes()).collect();
        for piece in 1..bytes.len() {
            let (mut inbox, mut got) = (Inbox::new(), Vec::new());
            for cut in bytes.chunks(piece) {
                let put = |room: &mut [u8]| {
                    room[..cut.len()].copy_from_slice(cut);
                    Ok(cut.len())
                };
                assert_eq!(inbox.fill(put).unwrap(), cut.len());
                while let Some(message) = inbox.next().unwrap() {
                    got.push(message);
                }
            }
            assert_eq!(got, sent, "in pieces of {piece}");
        }
        assert!(Message::of([9; LENGTH]).is_err());
    }
}
