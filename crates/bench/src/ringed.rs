//! The ceiling with a ring: the operations that ours hands over for each request, in the same order, and no
//! others. The head is copied, and the rest is shared, as ours are.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::Arc;

use anyhow::Result;
use sys::event::{Events, Interest};
use sys::ring::{Completion, How, Ring};

use crate::bare::{Requests, next_client};

/// A client, by its descriptor's number, which names its operations.
struct Client {
    socket: OwnedFd,
    requests: Requests,
    /// The ring is sending a reply.
    is_sending: bool,
}

const LISTENER: u64 = u64::MAX >> 8;
/// More than a client sends at a time.
const MOST: usize = 4 << 10;

/// How to serve.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    /// Each connection ends with its first reply.
    pub(crate) closes: bool,
    /// Replies are sent without a copy.
    pub(crate) zero_copy: bool,
    /// Clients' sockets are registered with the ring.
    pub(crate) registered: bool,
}

/// Serves for ever.
pub(crate) fn serve(listener: &OwnedFd, own: &[u8], pinned: &Arc<[u8]>, options: Options) -> Result<()> {
    let Options { closes, zero_copy, registered } = options;
    let mut ring = Ring::new()?;
    if registered {
        ring.register_descriptors()?;
    }
    ring.add(listener, LISTENER, Interest::READABLE)?;
    let mut events = Events::default();
    let mut clients: Vec<Option<Client>> = Vec::new();
    let mut buffers: Vec<Vec<u8>> = Vec::new();
    let (mut due, mut over): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    loop {
        if ring.wait(&mut events, None)? > 0 {
            accept(&mut ring, listener, &mut clients)?;
        }
        while let Some(completion) = ring.next_completion() {
            match completion {
                Completion::Received { token, result } => {
                    let index = token as usize;
                    let Some(client) = clients[index].as_mut() else { continue };
                    client.requests.count(result.as_deref().unwrap_or_default());
                    if result.is_ok_and(|bytes| !bytes.is_empty()) {
                        due.push(index);
                    } else {
                        over.push(index);
                    }
                }
                Completion::Released { mut bytes, .. } => {
                    bytes.clear();
                    buffers.push(bytes);
                }
                Completion::Loaded { .. } => {}
                Completion::Sent { token, result, mut bytes } => {
                    bytes.clear();
                    if bytes.capacity() > 0 {
                        buffers.push(bytes);
                    }
                    let Some(client) = clients[token as usize].as_mut() else { continue };
                    client.is_sending = false;
                    if closes || result.is_err() {
                        over.push(token as usize);
                    } else if client.requests.owed > 0 {
                        due.push(token as usize);
                    }
                }
            }
        }
        for client in over.drain(..).filter_map(|index| clients[index].take()) {
            ring.close(client.socket);
        }
        for index in due.drain(..) {
            let Some(client) = clients[index].as_mut().filter(|client| !client.is_sending) else { continue };
            if client.requests.owed > 0 {
                client.requests.owed -= 1;
                client.is_sending = true;
                let mut bytes = buffers.pop().unwrap_or_default();
                bytes.extend_from_slice(own);
                ring.send(
                    client.socket.as_fd(),
                    index as u64,
                    (bytes, Some((Arc::clone(pinned), 0..pinned.len()))),
                    How { more_follows: closes, zero_copy },
                );
            }
            if !closes {
                ring.receive(client.socket.as_fd(), index as u64, MOST, true);
            }
        }
    }
}

fn accept(ring: &mut Ring, listener: &OwnedFd, clients: &mut Vec<Option<Client>>) -> Result<()> {
    loop {
        let Some(socket) = next_client(|| Ok(ring.accept(listener.as_fd(), u32::MAX)?.0))? else {
            // An accept that found nothing may have been one of several.
            if ring.has_accepted() {
                continue;
            }
            return Ok(());
        };
        let index = socket.as_raw_fd() as usize;
        if index >= clients.len() {
            clients.resize_with(index + 1, || None);
        }
        ring.register(socket.as_fd());
        ring.receive(socket.as_fd(), index as u64, MOST, false);
        clients[index] = Some(Client { socket, requests: Requests::default(), is_sending: false });
    }
}
