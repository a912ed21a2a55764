//! An application: a process that answers with a constant, by one of the transports.

use std::os::fd::{AsFd as _, OwnedFd};

use anyhow::{Context as _, Result, bail, ensure};
use sys::memory_file::Mapping;
use sys::socket;

use crate::bare::unsent;
use crate::message::{Inbox, Message};
use crate::{CHUNK, CHUNKS, Transport, head};

/// What an application has.
pub(crate) struct Application<'a> {
    /// What replies are made of: the beginning of it.
    pub(crate) body: &'a [u8],
    /// To the relay; it blocks.
    pub(crate) link: OwnedFd,
    pub(crate) transport: Transport,
    /// Of shared memory.
    pub(crate) area: Mapping,
}

impl Application<'_> {
    /// Answers for as long as the relay lives.
    pub(crate) fn run(self) -> Result<()> {
        let (mut inbox, mut passed) = (Inbox::new(), Vec::new());
        let mut known = (0, Vec::new());
        loop {
            let bytes = match self.receive(&mut inbox, &mut passed)? {
                Message::Request(bytes) => bytes,
                // Of the reply before: with a request all are free.
                Message::Freed(_) => continue,
                other => bail!("{other:?} is not for an application"),
            };
            let body = &self.body[..bytes as usize];
            match self.transport {
                Transport::Tcp | Transport::Unix => write(&self.link, &[], body)?,
                Transport::SharedMemory => self.fill(body, &mut inbox, &mut passed)?,
                Transport::PassFd => {
                    let client = passed.pop().context("no client came with a request")?;
                    if known.0 != bytes {
                        known = (bytes, head(bytes));
                    }
                    // A client that has left is the relay's to notice.
                    let _ = write(&client, &known.1, body);
                    drop(client);
                    Message::Returned.send(&self.link, None)?;
                }
            }
        }
    }

    /// Writes a body into chunks in turn, from the first on, which is in the caches since the reply before:
    /// all are free by then. The relay hears of them when no more is free, or at the end.
    fn fill(&self, body: &[u8], inbox: &mut Inbox, passed: &mut Vec<OwnedFd>) -> Result<()> {
        let (mut free, mut untold) = (CHUNKS, 0);
        for (number, piece) in body.chunks(CHUNK).enumerate() {
            while free == 0 {
                match self.receive(inbox, passed)? {
                    Message::Freed(chunks) => free += chunks as usize,
                    other => bail!("{other:?} before the reply has ended"),
                }
            }
            self.area.write(number % CHUNKS * CHUNK, piece);
            (free, untold) = (free - 1, untold + piece.len() as u32);
            if free == 0 {
                Message::Filled(untold).send(&self.link, None)?;
                untold = 0;
            }
        }
        if untold > 0 { Message::Filled(untold).send(&self.link, None) } else { Ok(()) }
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
        written += socket::write_vectored(to, &unsent(head, body, written))?;
    }
    Ok(())
}
