//! Whether this kernel offers what a [`Ring`] needs.

use std::io;
use std::os::fd::AsFd as _;
use std::thread;
use std::time::Duration;

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::Ring;
use crate::process::is_single_threaded;

/// How often to look whether the kernel has forgotten a thread that has ended, and how many times.
const LOOK: Duration = Duration::from_micros(100);
const LOOKS: u32 = 1_000;

/// Tries a ring, and an accept that doesn't wait (Linux 6.10), which is the youngest of what it needs. The
/// result does not depend on the network of this process.
///
/// A thread does it. When a ring is closed, the kernel interrupts the thread that had it a while later, in
/// whatever call that waits then (`EINTR`). This process may be forked as before when this returns.
///
/// # Errors
///
/// Those of [`Ring::new`]; `EINVAL` also where accepts always wait.
pub fn probe() -> io::Result<()> {
    let was_alone = is_single_threaded().unwrap_or(false);
    let tried = thread::Builder::new().name("ring".to_owned()).spawn(try_ring)?.join();
    for _ in 0..LOOKS {
        if !was_alone || is_single_threaded().unwrap_or(true) {
            break;
        }
        thread::sleep(LOOK);
    }
    tried.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

fn try_ring() -> io::Result<()> {
    let mut ring = Ring::new()?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let Ok(listener) = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None) else {
        return Ok(());
    };
    // Without a name, it gets one that is free: unix(7), "Autobind feature".
    let bound = net::bind(&listener, &SocketAddrUnix::new_unnamed());
    if bound.and_then(|()| net::listen(&listener, 1)).is_err() {
        return Ok(());
    }
    match ring.accept(listener.as_fd(), 1) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn the_machines_that_test_have_a_ring() {
        super::probe().unwrap();
    }

    /// The kernel closes a ring some milliseconds after its owner has.
    #[test]
    fn no_call_is_interrupted_afterwards() {
        let (mut near, _far) = UnixStream::pair().unwrap();
        near.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        for _ in 0..3 {
            super::probe().unwrap();
            let waited = near.read(&mut [0]).unwrap_err();
            assert_eq!(waited.kind(), std::io::ErrorKind::WouldBlock);
        }
    }
}
