//! The relay: an event loop between clients and applications, edge-triggered, in one thread.
//!
//! A client that has asked gets an application that is free, or waits in line. By the streams and by shared
//! memory the application then fills, and the relay empties, as far as the client takes it; by pass-fd the
//! client is the application's until it says that it is done.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd as _, OwnedFd};

use anyhow::{Context as _, Result, bail, ensure};
use sys::epoll::Epoll;
use sys::event::{Events, Interest};
use sys::memory_file::Mapping;
use sys::socket::{self, Slice};

use crate::bare::{Requests, next_client, unless_blocked};
use crate::message::{Inbox, Message};
use crate::{CHUNK, CHUNKS, MOST, Transport, head};

/// An application, and the reply that it is making.
pub(crate) struct Link {
    socket: OwnedFd,
    transport: Transport,
    inbox: Inbox,
    /// Who the reply is for, and whether they are still there.
    client: Option<usize>,
    is_wanted: bool,
    /// Bytes of the reply's head that were sent.
    head_sent: usize,
    /// Bytes of its body, how many of them have come, and how many of those are gone again.
    bytes: usize,
    come: usize,
    gone: usize,
    /// Of the streams: what came last, and how many bytes had come before.
    piece: Box<[u8]>,
    before: usize,
    /// Of shared memory: a ring.
    area: Option<Mapping>,
}

struct Client {
    socket: OwnedFd,
    requests: Requests,
    /// How long replies are, and their head.
    bytes: u32,
    head: Vec<u8>,
    /// The application that makes the present one.
    served_by: Option<usize>,
    is_in_line: bool,
}

pub(crate) struct Relay {
    epoll: Epoll,
    listener: OwnedFd,
    transport: Transport,
    links: Vec<Link>,
    /// Applications with nothing to do; the last one's memory is the warmest.
    free: Vec<usize>,
    line: VecDeque<usize>,
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
    pub(crate) fn new(socket: OwnedFd, transport: Transport, area: Option<Mapping>) -> Self {
        Self {
            socket,
            transport,
            inbox: Inbox::new(),
            client: None,
            is_wanted: false,
            head_sent: 0,
            bytes: 0,
            come: 0,
            gone: 0,
            piece: vec![0; PIECE].into(),
            before: 0,
            area,
        }
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
        let (line, clients, buffer) = (VecDeque::new(), Vec::new(), vec![0; 16 << 10]);
        Ok(Self { epoll, listener, transport, links, free, line, clients, buffer })
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
        if client.requests.owed == 0 || client.served_by.is_some() || client.is_in_line {
            return Ok(());
        }
        let Some(number) = self.free.pop() else {
            client.is_in_line = true;
            self.line.push_back(index);
            return Ok(());
        };
        client.served_by = Some(number);
        let link = &mut self.links[number];
        (link.client, link.is_wanted) = (Some(index), true);
        (link.head_sent, link.bytes) = (0, client.bytes as usize);
        (link.come, link.gone) = (0, 0);
        match self.transport {
            Transport::PassFd => Message::Request(client.bytes).send_with(&link.socket, &client.socket),
            _ => Message::Request(client.bytes).send(&link.socket),
        }
    }

    /// Moves on what an application has made, as far as that goes.
    fn pump(&mut self, number: usize) -> Result<()> {
        let link = &mut self.links[number];
        let client = link.client.filter(|_| link.is_wanted).and_then(|index| self.clients[index].as_ref());
        match link.forward(client)? {
            Moved::Everything => self.finish(number),
            Moved::WhatThereWas => Ok(()),
            // The application goes on, for nobody.
            Moved::Nowhere => {
                if let Some(index) = link.client {
                    self.close(index);
                }
                self.pump(number)
            }
        }
    }

    /// A reply is over: its client may be owed another, and its application is free for whoever waits.
    fn finish(&mut self, number: usize) -> Result<()> {
        let link = &mut self.links[number];
        let client = link.client.take().filter(|_| link.is_wanted);
        self.free.push(number);
        if let Some(index) = client
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
            && let Some(index) = self.line.pop_front()
        {
            if let Some(client) = self.clients[index].as_mut() {
                client.is_in_line = false;
                self.serve(index)?;
            }
        }
        Ok(())
    }

    fn close(&mut self, index: usize) {
        if let Some(client) = self.clients[index].take()
            && let Some(number) = client.served_by
        {
            self.links[number].is_wanted = false;
        }
        self.line.retain(|other| *other != index);
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
        loop {
            while self.gone < self.come {
                let Some(client) = client else {
                    self.let_go(self.come - self.gone)?;
                    continue;
                };
                let head = &client.head[self.head_sent..];
                let [piece, more] = self.here();
                let sent = socket::write_vectored(&client.socket, &[Slice::new(head), piece, more]);
                let Ok(sent) = unless_blocked(sent) else { return Ok(Moved::Nowhere) };
                let Some(sent) = sent else { return Ok(Moved::WhatThereWas) };
                let of_head = sent.min(head.len());
                self.head_sent += of_head;
                self.let_go(sent - of_head)?;
            }
            if self.gone == self.bytes && self.client.is_some() {
                return Ok(Moved::Everything);
            }
            if self.client.is_none() || !self.receive()? {
                return Ok(Moved::WhatThereWas);
            }
        }
    }

    /// What has come and is not gone.
    fn here(&self) -> [Slice<'_>; 2] {
        let Some(area) = &self.area else {
            let piece = &self.piece[self.gone - self.before..self.come - self.before];
            return [Slice::new(piece), Slice::EMPTY];
        };
        let (at, bytes) = (self.gone % RING, self.come - self.gone);
        let first = bytes.min(RING - at);
        [area.slice(at, first), area.slice(0, bytes - first)]
    }

    /// So much is gone; an application that waits for room hears of chunks that are its own again.
    fn let_go(&mut self, bytes: usize) -> Result<()> {
        let chunks = (self.gone + bytes) / CHUNK - self.gone / CHUNK;
        self.gone += bytes;
        // With its next request it has all of them anyway.
        if self.area.is_some() && chunks > 0 && self.gone < self.bytes {
            Message::Freed(chunks as u32).send(&self.socket)?;
        }
        Ok(())
    }

    /// Receives from the application, a piece of the reply or what it says of it; `false` where nothing is
    /// there.
    fn receive(&mut self) -> Result<bool> {
        let socket = &self.socket;
        let is_stream = matches!(self.transport, Transport::Tcp | Transport::Unix);
        let received = if is_stream {
            let room = PIECE.min(self.bytes - self.come);
            socket::recv(socket, &mut self.piece[..room])
        } else {
            self.inbox.fill(|room| socket::recv(socket, room))
        };
        let Some(count) = unless_blocked(received).context("an application")? else { return Ok(false) };
        ensure!(count > 0, "an application has ended");
        if is_stream {
            (self.before, self.come) = (self.come, self.come + count);
        }
        while let Some(message) = self.inbox.next()? {
            match message {
                Message::Filled(bytes) => self.come += bytes as usize,
                Message::Returned => (self.come, self.gone) = (self.bytes, self.bytes),
                other => bail!("{other:?} is not for the relay"),
            }
        }
        Ok(true)
    }
}

impl Client {
    fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            requests: Requests::default(),
            bytes: 0,
            head: Vec::new(),
            served_by: None,
            is_in_line: false,
        }
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
