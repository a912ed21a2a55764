//! Whether this kernel offers what a [`Ring`] needs.

use std::io;
use std::os::fd::AsFd as _;

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::Ring;

/// Tries a ring, and an accept that doesn't wait (Linux 6.10), which is the youngest of what it needs. The
/// result does not depend on the network of this process.
///
/// # Errors
///
/// Those of [`Ring::new`]; `EINVAL` also where accepts always wait.
pub fn probe() -> io::Result<()> {
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
    #[test]
    fn the_machines_that_test_have_a_ring() {
        super::probe().unwrap();
    }
}
