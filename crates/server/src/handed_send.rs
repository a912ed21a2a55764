//! Sending a range of a file by a helper thread, instead of the thread that serves the client (Pariag et al.
//! 2007, section 4.3). The disk and a full socket then hold up the helper alone.
//!
//! The helper has its own copy of the client's socket and shares the file, so that both stay open until it
//! is done. The socket stays non-blocking, because that is a property of the socket and not of the copy:
//! where the papers' helper blocks in `sendfile`, this one waits in poll(2) and goes on.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use sys::event::Interest;
use sys::{poll, socket};

use crate::content::PinnedFile;

/// A range of a file for a client.
#[derive(Debug)]
pub struct HandedSend {
    /// A copy of the client's socket.
    pub client: OwnedFd,
    /// The file.
    pub file: PinnedFile,
    /// Where the range begins, in bytes.
    pub offset: u64,
    /// Its length, at least one byte.
    pub len: u64,
    /// When the helper is done.
    pub until: Until,
}

/// When a helper is done with a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Something is sent: the papers' second implementation of the non-blocking `sendfile`.
    Something,
    /// All is sent: the papers' blocking `sendfile`.
    All,
}

/// The longest time that a helper waits for one client. The papers' non-blocking one polls for this long,
/// and their blocking one for ever. But then clients that read nothing could keep all helpers.
pub const AT_MOST_MS: u32 = 1000;

/// What came of it.
#[derive(Debug)]
pub struct Sent {
    /// How many bytes were sent. `WouldBlock` if nothing was sent in the [longest time](AT_MOST_MS), or
    /// because the file has changed; the errors of sendfile(2), if nothing was sent before.
    pub result: io::Result<u64>,
    /// How long the client had no room.
    pub waited_ms: u32,
}

impl HandedSend {
    /// Sends, and waits for room where there is none.
    pub fn run(mut self) -> Sent {
        let (mut sent, mut waited_ms) = (0, 0);
        let result = loop {
            let count = (self.len - sent) as usize;
            // The client must not get all of something that the file never was. The thread that serves it
            // decides what to do.
            if !self.file.is_unchanged() {
                break if sent > 0 { Ok(sent) } else { Err(io::ErrorKind::WouldBlock.into()) };
            }
            match socket::send_file(&self.client, &self.file, &mut self.offset, count) {
                // The file has become shorter.
                Ok(0) => break Ok(sent),
                Ok(n) => sent += n as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => break if sent > 0 { Ok(sent) } else { Err(error) },
            }
            if sent == self.len || sent > 0 && self.until == Until::Something {
                break Ok(sent);
            }
            if waited_ms >= AT_MOST_MS {
                break if sent > 0 { Ok(sent) } else { Err(io::ErrorKind::WouldBlock.into()) };
            }
            let began_ms = sys::clock::monotonic_ms();
            let for_room = (self.client.as_fd(), Interest::WRITABLE);
            if let Err(error) = poll::wait_for([for_room], Some(AT_MOST_MS - waited_ms)) {
                break if sent > 0 { Ok(sent) } else { Err(error) };
            }
            waited_ms += (sys::clock::monotonic_ms() - began_ms) as u32;
        };
        Sent { result, waited_ms }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::thread;

    use super::*;

    /// A socket, the client at its other end, and a file with this many bytes.
    fn setup(length: usize) -> (OwnedFd, TcpStream, Arc<OwnedFd>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; length]).unwrap();
        (server.into(), client, Arc::new(file.into()))
    }

    fn send(until: Until, len: u64, server: OwnedFd, file: &Arc<OwnedFd>) -> io::Result<u64> {
        let file = PinnedFile::of(Arc::clone(file)).expect("a file");
        HandedSend { client: server, file, offset: 0, len, until }.run().result
    }

    const MUCH: usize = 32 << 20;

    #[test]
    fn something_is_what_there_is_room_for() {
        let (server, _client, file) = setup(MUCH);
        let sent = send(Until::Something, MUCH as u64, server, &file).unwrap();
        assert!(sent > 0 && sent < MUCH as u64, "{sent}");
    }

    #[test]
    fn all_is_all_if_the_client_reads() {
        let (server, mut client, file) = setup(MUCH);
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            client.read_to_end(&mut all).map(|_| all.len())
        });
        assert_eq!(send(Until::All, MUCH as u64, server, &file).unwrap(), MUCH as u64);
        assert_eq!(reader.join().unwrap().unwrap(), MUCH);
    }

    #[test]
    fn a_client_that_reads_nothing_does_not_keep_a_helper() {
        let (server, _client, file) = setup(MUCH);
        let copy = server.as_fd().try_clone_to_owned().unwrap();
        let sent = send(Until::All, MUCH as u64, server, &file).unwrap();
        assert!(sent > 0 && sent < MUCH as u64, "{sent}");
        let error = send(Until::Something, 1, copy, &file).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_file_that_has_changed_is_not_sent_on() {
        let (server, _client, file) = setup(10);
        let copy = server.as_fd().try_clone_to_owned().unwrap();
        assert_eq!(send(Until::All, 100, copy, &file).unwrap(), 10, "it is shorter than was promised");
        let pinned = PinnedFile::of(Arc::clone(&file)).unwrap();
        std::fs::File::from(file.try_clone().unwrap()).write_all(b"more").unwrap();
        let send = HandedSend { client: server, file: pinned, offset: 0, len: 10, until: Until::All };
        assert_eq!(send.run().result.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
