//! An application: a process that answers with a constant, by one of the transports.

use std::os::fd::{AsFd as _, OwnedFd};

use anyhow::{Context as _, Result, bail, ensure};
use sys::memory_file::Mapping;
use sys::socket::{self, Slice};

use crate::message::{Inbox, Message};
use crate::{CHUNK, CHUNKS, Transport, head};

/// What an application has.
pub(crate) struct Application<'a> {
    /// What replies are made of: the beginning of it.
    pub(crate) body: &'a [u8],
    /// To the relay; it blocks.
    pub(crate) link: OwnedFd,
    pub(crate) transport: Transport,
    /// With shared memory.
    pub(crate) area: Option<Mapping>,
}

impl Application<'_> {
    /// Answers for as long as the relay lives.
    pub(crate) fn run(self) -> Result<()> {
        let (mut inbox, mut passed) = (Inbox::new(), Vec::new());
        // What it may write to: chunks in turn, as the relay frees them in the order in which they were
        // filled.
        let (mut next, mut free) = (0, CHUNKS);
        let mut known = (0, Vec::new());
        loop {
            let bytes = match self.receive(&mut inbox, &mut passed)? {
                Message::Request(bytes) => bytes,
                Message::Freed(chunks) => {
                    free += chunks as usize;
                    continue;
                }
                other => bail!("{other:?} is not for an application"),
            };
            let body = &self.body[..bytes as usize];
            match self.transport {
                Transport::Tcp | Transport::Unix => write(&self.link, &[], body)?,
                Transport::SharedMemory => {
                    let area = self.area.as_ref().context("there is no shared memory")?;
                    for piece in body.chunks(CHUNK) {
                        while free == 0 {
                            match self.receive(&mut inbox, &mut passed)? {
                                Message::Freed(chunks) => free += chunks as usize,
                                other => bail!("{other:?} before the reply has ended"),
                            }
                        }
                        area.write(next * CHUNK, piece);
                        (next, free) = ((next + 1) % CHUNKS, free - 1);
                        Message::Filled(piece.len() as u32).send(&self.link)?;
                    }
                }
                Transport::PassFd => {
                    let client = passed.pop().context("no client came with a request")?;
                    if known.0 != bytes {
                        known = (bytes, head(bytes));
                    }
                    // A client that has left is the relay's to notice.
                    let _ = write(&client, &known.1, body);
                    drop(client);
                    Message::Returned.send(&self.link)?;
                }
            }
        }
    }

    fn receive(&self, inbox: &mut Inbox, passed: &mut Vec<OwnedFd>) -> Result<Message> {
        loop {
            if let Some(message) = inbox.next()? {
                return Ok(message);
            }
            let count = match self.transport {
                Transport::PassFd => {
                    inbox.fill(|room| socket::recv_with_waiting(self.link.as_fd(), room, passed))?
                }
                _ => inbox.fill(|room| socket::recv_waiting(&self.link, room))?,
            };
            ensure!(count > 0, "the relay has ended");
        }
    }
}

/// Writes all of both to a socket that blocks.
fn write(to: &OwnedFd, head: &[u8], body: &[u8]) -> Result<()> {
    let mut written = 0;
    while written < head.len() + body.len() {
        let own = head.get(written..).unwrap_or_default();
        let slices = [Slice::new(own), Slice::new(&body[written.saturating_sub(head.len())..])];
        written += socket::write_vectored(to, if own.is_empty() { &slices[1..] } else { &slices })?;
    }
    Ok(())
}
