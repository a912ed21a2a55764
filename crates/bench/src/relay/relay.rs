//! The relay: an event loop between clients and applications, edge-triggered, in one thread.
//!
//! A client that has asked gets an application that is free, or waits in line. By the streams and by shared
//! memory the application then fills, and the relay empties, as far as the client takes it; by pass-fd the
//! client is the application's until it says that it is done.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd as _, OwnedFd};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use sys::epoll::Epoll;
use sys::event::{Events, Interest};
use sys::memory_file::Mapping;
use sys::socket::{self, Slice};

use crate::message::{Inbox, Message};
use crate::{CHUNK, CHUNKS, MOST, Transport, head};

/// An application, and the reply that it is making.
pub(crate) struct Link {
    socket: OwnedFd,
    area: Option<Mapping>,
    inbox: Inbox,
    /// Who the reply is for, and whether they are still there.
    client: Option<usize>,
    is_wanted: bool,
    /// Bytes of the reply's head that were sent, and bytes of its body that were not received (streams) or
    /// not sent (shared memory).
    head_sent: usize,
    left: usize,
    /// Of the streams: what was received, how much of it that is, and how much of that was sent.
    here: Box<[u8]>,
    here_end: usize,
    here_sent: usize,
    /// Of shared memory: what the chunks hold from `first` on, and how much of the first was sent.
    filled: VecDeque<usize>,
    first: usize,
    first_sent: usize,
}

struct Client {
    socket: OwnedFd,
    /// Length of the first request, and, it is assumed, of all others; 0 before it came.
    request_bytes: usize,
    /// Bytes of requests received and not yet counted as a whole one.
    received: usize,
    /// Replies that are owed.
    owed: usize,
    /// How long they are, and their head.
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

impl Link {
    pub(crate) fn new(socket: OwnedFd, area: Option<Mapping>) -> Self {
        Self {
            socket,
            area,
            inbox: Inbox::new(),
            client: None,
            is_wanted: false,
            head_sent: 0,
            left: 0,
            here: vec![0; PIECE].into(),
            here_end: 0,
            here_sent: 0,
            filled: VecDeque::with_capacity(CHUNKS),
            first: 0,
            first_sent: 0,
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
        loop {
            // Whoever is lent a client waits in a write for it, so that the socket blocks.
            let accepted = match self.transport {
                Transport::PassFd => socket::accept_blocking_from(&self.listener).map(|(socket, _)| socket),
                _ => socket::accept(&self.listener),
            };
            let socket = match accepted {
                Ok(socket) => socket,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error).context("cannot accept"),
            };
            let index = socket.as_raw_fd() as usize;
            if index >= self.clients.len() {
                self.clients.resize_with(index + 1, || None);
            }
            self.epoll.add(&socket, index as u64, Interest::BOTH.on_edge())?;
            self.clients[index] = Some(Client::new(socket));
        }
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
        if client.owed == 0 || client.served_by.is_some() || client.is_in_line {
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
        (link.head_sent, link.left, link.first) = (0, client.bytes as usize, 0);
        match self.transport {
            Transport::PassFd => Message::Request(client.bytes).send_with(&link.socket, &client.socket),
            _ => Message::Request(client.bytes).send(&link.socket),
        }
    }

    /// Moves on what an application has made, as far as that goes.
    fn pump(&mut self, number: usize) -> Result<()> {
        let link = &mut self.links[number];
        let client = link.client.filter(|_| link.is_wanted);
        let client = client.and_then(|index| self.clients[index].as_ref());
        let moved = match self.transport {
            Transport::Tcp | Transport::Unix => link.stream_to(client),
            Transport::SharedMemory => link.send_chunks_to(client),
            Transport::PassFd => link.is_returned(),
        };
        match moved {
            Ok(true) => self.finish(number),
            Ok(false) => Ok(()),
            // Of the client; the application goes on, for nobody.
            Err(Moved::Client) => {
                if let Some(index) = link.client {
                    self.close(index);
                }
                self.pump(number)
            }
            Err(Moved::Application(error)) => Err(error),
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
            client.owed -= 1;
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

/// Whose fault it is that a reply does not move on.
enum Moved {
    Client,
    Application(anyhow::Error),
}

impl From<anyhow::Error> for Moved {
    fn from(error: anyhow::Error) -> Self {
        Self::Application(error)
    }
}

impl Link {
    /// Sends what comes, piece by piece; `true` once all of it is sent. Without a client it goes nowhere.
    fn stream_to(&mut self, client: Option<&Client>) -> Result<bool, Moved> {
        loop {
            if self.here_sent < self.here_end {
                let Some(client) = client else {
                    self.here_sent = self.here_end;
                    continue;
                };
                let rest = [Slice::new(&self.here[self.here_sent..self.here_end])];
                match client.take(&mut self.head_sent, &rest)? {
                    None => return Ok(false),
                    Some(count) => self.here_sent += count,
                }
                continue;
            }
            if self.left == 0 {
                return Ok(self.client.is_some());
            }
            let room = &mut self.here[..PIECE.min(self.left)];
            match unless_blocked(socket::recv(&self.socket, room)).context("an application")? {
                None => return Ok(false),
                Some(0) => return Err(anyhow!("an application has ended").into()),
                Some(count) => {
                    (self.here_sent, self.here_end) = (0, count);
                    self.left -= count;
                }
            }
        }
    }

    /// Sends the chunks that are filled, and frees them; `true` once all are sent.
    fn send_chunks_to(&mut self, client: Option<&Client>) -> Result<bool, Moved> {
        let socket = &self.socket;
        loop {
            while let Some(message) = self.inbox.next()? {
                let Message::Filled(bytes) = message else {
                    return Err(anyhow!("{message:?} is not for the relay").into());
                };
                // All chunks but the last are full.
                let mut rest = bytes as usize;
                while rest > 0 {
                    self.filled.push_back(rest.min(CHUNK));
                    rest -= rest.min(CHUNK);
                }
            }
            if self.filled.is_empty() {
                if self.left == 0 {
                    return Ok(self.client.is_some());
                }
                let received = self.inbox.fill(|room| socket::recv(socket, room));
                match unless_blocked(received).context("an application")? {
                    None => return Ok(false),
                    Some(0) => return Err(anyhow!("an application has ended").into()),
                    Some(_) => continue,
                }
            }
            let area = self.area.as_ref().context("there is no shared memory")?;
            let mut count = match client {
                None => self.filled.iter().sum::<usize>() - self.first_sent,
                Some(client) => {
                    let slice = |(at, bytes): (usize, &usize)| {
                        let chunk = (self.first + at) % CHUNKS;
                        let sent = if at == 0 { self.first_sent } else { 0 };
                        area.slice(chunk * CHUNK + sent, bytes - sent)
                    };
                    let slices: Vec<_> = self.filled.iter().enumerate().map(slice).collect();
                    match client.take(&mut self.head_sent, &slices)? {
                        None => return Ok(false),
                        Some(count) => count,
                    }
                }
            };
            self.left -= count;
            let mut freed = 0;
            while let Some(bytes) = self.filled.front()
                && count >= bytes - self.first_sent
            {
                count -= bytes - self.first_sent;
                (self.first, self.first_sent) = ((self.first + 1) % CHUNKS, 0);
                self.filled.pop_front();
                freed += 1;
            }
            self.first_sent += count;
            // With its next request an application has all of them anyway.
            if freed > 0 && self.left > 0 {
                Message::Freed(freed).send(&self.socket)?;
            }
        }
    }

    /// Whether the client has come back.
    fn is_returned(&mut self) -> Result<bool, Moved> {
        let socket = &self.socket;
        let received = unless_blocked(self.inbox.fill(|room| socket::recv(socket, room)));
        if received.context("an application")? == Some(0) {
            return Err(anyhow!("an application has ended").into());
        }
        match self.inbox.next()? {
            None => Ok(false),
            Some(Message::Returned) => Ok(true),
            Some(other) => Err(anyhow!("{other:?} is not for the relay").into()),
        }
    }
}

impl Client {
    fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            request_bytes: 0,
            received: 0,
            owed: 0,
            bytes: 0,
            head: Vec::new(),
            served_by: None,
            is_in_line: false,
        }
    }

    /// Receives what is there, and counts requests; an error where there won't be any more.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<()> {
        loop {
            let count = match unless_blocked(socket::recv(&self.socket, buffer))? {
                None => return Ok(()),
                Some(0) => bail!("the client has closed"),
                Some(count) => count,
            };
            self.count_requests(&buffer[..count])?;
            if count < buffer.len() {
                return Ok(());
            }
        }
    }

    /// The first request ends at the first empty line, and says how long replies are; after that, lengths are
    /// enough.
    fn count_requests(&mut self, input: &[u8]) -> Result<()> {
        self.received += input.len();
        if self.request_bytes == 0 {
            let Some(end) = input.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(()) };
            self.request_bytes = self.received - input.len() + end + 4;
            self.bytes = length_in(&input[..end]).context("no bytes= in the first request")?;
            self.head = head(self.bytes);
        }
        self.owed += self.received / self.request_bytes;
        self.received %= self.request_bytes;
        Ok(())
    }

    /// Sends what is left of the head, and of a body as much as it takes: how many bytes of that were; `None`
    /// where it takes nothing now.
    fn take(&self, head_sent: &mut usize, body: &[Slice<'_>]) -> Result<Option<usize>, Moved> {
        let rest = &self.head[*head_sent..];
        let written = if rest.is_empty() {
            socket::write_vectored(&self.socket, body)
        } else {
            let slices: Vec<_> = [Slice::new(rest)].into_iter().chain(body.iter().copied()).collect();
            socket::write_vectored(&self.socket, &slices)
        };
        let Some(written) = unless_blocked(written).map_err(|_| Moved::Client)? else { return Ok(None) };
        let of_head = written.min(rest.len());
        *head_sent += of_head;
        Ok(Some(written - of_head))
    }
}

/// The number behind `bytes=` in a request.
fn length_in(request: &[u8]) -> Result<u32> {
    const KEY: &[u8] = b"bytes=";
    let at = request.windows(KEY.len()).position(|window| window == KEY).context("it is not there")?;
    let digits: String = request[at + KEY.len()..]
        .iter()
        .map(|byte| char::from(*byte))
        .take_while(char::is_ascii_digit)
        .collect();
    let bytes = digits.parse().context("no number")?;
    ensure!((1..=MOST).contains(&bytes), "{bytes} bytes; allowed: 1 to {MOST}");
    Ok(bytes)
}

/// `None` where there is nothing to do now.
fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
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
