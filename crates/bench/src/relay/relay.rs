//! The relay: an event loop between clients and applications, edge-triggered, in one thread.
//!
//! A client that has asked gets a free application, or queues. With the streams and with shared memory, the
//! application fills, and the relay empties as far as the client takes it. With pass-fd the application
//! sends to the client itself, until it says that it is done.

use std::collections::VecDeque;
use std::mem;
use std::os::fd::{AsRawFd as _, OwnedFd};

use anyhow::{Context as _, Result, bail, ensure};
use sys::epoll::Epoll;
use sys::event::{Events, Interest};
use sys::memory_file::Mapping;
use sys::socket::{self, Slice};

use crate::bare::{Requests, next_client, unless_blocked};
use crate::message::{Inbox, Message};
use crate::{CHUNK, CHUNKS, MOST, Transport, head};

/// An application.
pub(crate) struct Link {
    socket: OwnedFd,
    transport: Transport,
    inbox: Inbox,
    reply: Reply,
    /// Of the streams: what came last.
    piece: Box<[u8]>,
    /// Of shared memory: a ring.
    area: Mapping,
}

/// What an application is making.
#[derive(Default)]
struct Reply {
    /// Who it is for; nobody, if they have left.
    client: Option<usize>,
    /// Bytes of its head that were sent.
    head_sent: usize,
    /// Bytes of its body (0: there is no reply), how many of them have come, and how many of those are gone
    /// again.
    bytes: usize,
    come: usize,
    gone: usize,
    /// How many had come before the last piece.
    before: usize,
}

struct Client {
    socket: OwnedFd,
    requests: Requests,
    /// How long replies are, and their head.
    bytes: u32,
    head: Vec<u8>,
    /// The application that makes the present one.
    served_by: Option<usize>,
}

pub(crate) struct Relay {
    epoll: Epoll,
    listener: OwnedFd,
    transport: Transport,
    links: Vec<Link>,
    /// Applications with nothing to do; the last one's memory is the warmest.
    free: Vec<usize>,
    queue: VecDeque<usize>,
    /// By descriptor number, which is the token as well.
    clients: Vec<Option<Client>>,
    buffer: Vec<u8>,
}

const LISTENER: u64 = u64::MAX;
/// Tokens of applications begin here.
const LINKS: u64 = 1 << 32;

/// How much of a stream is received at a time.
const PIECE: usize = 64 << 10;

/// All shared memory of an application: the chunks are filled in turn, all but a reply's last one whole.
const RING: usize = CHUNK * CHUNKS;

impl Link {
    pub(crate) fn new(socket: OwnedFd, transport: Transport, area: Mapping) -> Self {
        let (inbox, reply, piece) = (Inbox::new(), Reply::default(), vec![0; PIECE].into());
        Self { socket, transport, inbox, reply, piece, area }
    }
}

impl Relay {
    pub(crate) fn new(listener: OwnedFd, links: Vec<Link>, transport: Transport) -> Result<Self> {
        sys::process::raise_descriptor_limit()?;
        let epoll = Epoll::new()?;
        epoll.add(&listener, LISTENER, Interest::READABLE.on_edge())?;
        for (number, link) in links.iter().enumerate() {
            epoll.add(&link.socket, LINKS + number as u64, Interest::READABLE.on_edge())?;
        }
        let free = (0..links.len()).rev().collect();
        let (queue, clients, buffer) = (VecDeque::new(), Vec::new(), vec![0; 16 << 10]);
        Ok(Self { epoll, listener, transport, links, free, queue, clients, buffer })
    }

    pub(crate) fn run(&mut self) -> Result<()> {
        let mut events = Events::default();
        loop {
            self.epoll.wait(&mut events, None)?;
            for ready in events.iter() {
                match ready.token {
                    LISTENER => self.accept()?,
                    token if token >= LINKS => self.pump((token - LINKS) as usize)?,
                    token => self.turn(token as usize, ready.readable || ready.hang_up || ready.error)?,
                }
            }
        }
    }

    fn accept(&mut self) -> Result<()> {
        // Whoever is lent a client waits in a write for it, so that the socket blocks.
        let accept = || match self.transport {
            Transport::PassFd => socket::accept_blocking_from(&self.listener).map(|(socket, _)| socket),
            _ => socket::accept(&self.listener),
        };
        while let Some(socket) = next_client(accept)? {
            let index = socket.as_raw_fd() as usize;
            if index >= self.clients.len() {
                self.clients.resize_with(index + 1, || None);
            }
            self.epoll.add(&socket, index as u64, Interest::BOTH.on_edge())?;
            self.clients[index] = Some(Client::new(socket));
        }
        Ok(())
    }

    /// A client can be received from, or takes more.
    fn turn(&mut self, index: usize, readable: bool) -> Result<()> {
        // It may have been closed earlier in the same batch of events.
        let Some(client) = self.clients.get_mut(index).and_then(Option::as_mut) else { return Ok(()) };
        if client.served_by.is_some() && self.transport == Transport::PassFd {
            // It is somebody else's, and looked at when it comes back.
            return Ok(());
        }
        if readable && client.receive(&mut self.buffer).is_err() {
            let link = client.served_by;
            self.close(index);
            // Whatever is still to come goes nowhere, and nobody else would take it from the application.
            return link.map_or(Ok(()), |link| self.pump(link));
        }
        match client.served_by {
            Some(link) => self.pump(link),
            None => self.serve(index),
        }
    }

    /// Has the next reply made that a client is owed, by an application that is free.
    fn serve(&mut self, index: usize) -> Result<()> {
        let Some(client) = self.clients[index].as_mut() else { return Ok(()) };
        if client.requests.owed == 0 || client.served_by.is_some() || self.queue.contains(&index) {
            return Ok(());
        }
        let Some(number) = self.free.pop() else {
            self.queue.push_back(index);
            return Ok(());
        };
        client.served_by = Some(number);
        let link = &mut self.links[number];
        link.reply = Reply { client: Some(index), bytes: client.bytes as usize, ..Reply::default() };
        let passed = (self.transport == Transport::PassFd).then_some(&client.socket);
        Message::Request(client.bytes).send(&link.socket, passed)
    }

    /// Moves on what an application has made, as far as that goes.
    fn pump(&mut self, number: usize) -> Result<()> {
        let link = &mut self.links[number];
        let client = link.reply.client.and_then(|index| self.clients[index].as_ref());
        match link.forward(client)? {
            Moved::Everything => self.finish(number),
            Moved::WhatThereWas => Ok(()),
            // The application goes on, for nobody.
            Moved::Nowhere => {
                if let Some(index) = link.reply.client {
                    self.close(index);
                }
                self.pump(number)
            }
        }
    }

    /// A reply is over: its client may be owed another, and its application is free for whoever waits.
    fn finish(&mut self, number: usize) -> Result<()> {
        let reply = mem::take(&mut self.links[number].reply);
        self.free.push(number);
        if let Some(index) = reply.client
            && let Some(client) = self.clients[index].as_mut()
        {
            client.served_by = None;
            client.requests.owed -= 1;
            if self.transport == Transport::PassFd && client.receive(&mut self.buffer).is_err() {
                self.close(index);
            } else {
                self.serve(index)?;
            }
        }
        while !self.free.is_empty()
            && let Some(index) = self.queue.pop_front()
        {
            self.serve(index)?;
        }
        Ok(())
    }

    fn close(&mut self, index: usize) {
        if let Some(client) = self.clients[index].take()
            && let Some(number) = client.served_by
        {
            self.links[number].reply.client = None;
        }
        self.queue.retain(|other| *other != index);
    }
}

/// How far a reply was moved on.
enum Moved {
    Everything,
    WhatThereWas,
    /// The client has left.
    Nowhere,
}

impl Link {
    /// Sends what has come, and receives more, in turn, as far as both go. Without a client it goes nowhere.
    fn forward(&mut self, client: Option<&Client>) -> Result<Moved> {
        while self.reply.bytes > 0 {
            while self.reply.gone < self.reply.come {
                let Some(client) = client else {
                    self.let_go(self.reply.come - self.reply.gone)?;
                    continue;
                };
                let head = &client.head[self.reply.head_sent..];
                let [piece, more] = self.here();
                let sent = socket::write_vectored(&client.socket, &[Slice::new(head), piece, more]);
                let Ok(sent) = unless_blocked(sent) else { return Ok(Moved::Nowhere) };
                let Some(sent) = sent else { return Ok(Moved::WhatThereWas) };
                let of_head = sent.min(head.len());
                self.reply.head_sent += of_head;
                self.let_go(sent - of_head)?;
            }
            if self.reply.gone == self.reply.bytes {
                return Ok(Moved::Everything);
            }
            if !self.receive()? {
                break;
            }
        }
        Ok(Moved::WhatThereWas)
    }

    /// What has come and is not gone.
    fn here(&self) -> [Slice<'_>; 2] {
        let Reply { come, gone, before, .. } = self.reply;
        if self.transport != Transport::SharedMemory {
            let piece = &self.piece[gone - before..come - before];
            return [Slice::new(piece), Slice::EMPTY];
        }
        let (at, bytes) = (gone % RING, come - gone);
        let first = bytes.min(RING - at);
        [self.area.slice(at, first), self.area.slice(0, bytes - first)]
    }

    /// So much is gone; an application that waits for room hears of chunks that are its own again.
    fn let_go(&mut self, bytes: usize) -> Result<()> {
        let reply = &mut self.reply;
        let chunks = (reply.gone + bytes) / CHUNK - reply.gone / CHUNK;
        reply.gone += bytes;
        // With its next request it has all of them anyway.
        if self.transport == Transport::SharedMemory && chunks > 0 && reply.gone < reply.bytes {
            Message::Freed(chunks as u32).send(&self.socket, None)?;
        }
        Ok(())
    }

    /// Receives from the application, a piece of the reply or what it says of it; `false` where nothing is
    /// there.
    fn receive(&mut self) -> Result<bool> {
        let Self { socket, inbox, reply, .. } = self;
        let is_stream = matches!(self.transport, Transport::Tcp | Transport::Unix);
        let received = if is_stream {
            socket::recv(&*socket, &mut self.piece[..PIECE.min(reply.bytes - reply.come)])
        } else {
            inbox.fill(|room| socket::recv(&*socket, room))
        };
        let Some(count) = unless_blocked(received).context("an application")? else { return Ok(false) };
        ensure!(count > 0, "an application has ended");
        if is_stream {
            (reply.before, reply.come) = (reply.come, reply.come + count);
        }
        while let Some(message) = inbox.next()? {
            match message {
                Message::Filled(bytes) => reply.come += bytes as usize,
                Message::Returned => (reply.come, reply.gone) = (reply.bytes, reply.bytes),
                other => bail!("{other:?} is not for the relay"),
            }
        }
        Ok(true)
    }
}

impl Client {
    fn new(socket: OwnedFd) -> Self {
        Self { socket, requests: Requests::default(), bytes: 0, head: Vec::new(), served_by: None }
    }

    /// Receives what is there, and counts requests, of which the first says how long replies are; an error
    /// where there won't be any more.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<()> {
        while let Some(count) = unless_blocked(socket::recv(&self.socket, buffer))? {
            ensure!(count > 0, "the client has closed");
            if self.requests.count(&buffer[..count]) {
                self.bytes = length_in(&buffer[..count]).context("no bytes= in the first request")?;
                self.head = head(self.bytes);
            }
            if count < buffer.len() {
                break;
            }
        }
        Ok(())
    }
}

/// The number behind `bytes=` in a request.
fn length_in(request: &[u8]) -> Result<u32> {
    let request = String::from_utf8_lossy(request);
    let (_, behind) = request.split_once("bytes=").context("it is not there")?;
    let end = behind.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(behind.len());
    let bytes = behind[..end].parse().context("no number")?;
    ensure!((1..=MOST).contains(&bytes), "{bytes} bytes; allowed: 1 to {MOST}");
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_says_how_long_replies_are() {
        assert_eq!(length_in(b"GET /fcgi/constant?bytes=32768&length=1 HTTP/1.1").unwrap(), 32_768);
        for request in ["GET / HTTP/1.1", "GET /?bytes= HTTP/1.1", "GET /?bytes=0", "GET /?bytes=67108865"] {
            assert!(length_in(request.as_bytes()).is_err(), "{request}");
        }
    }
}
