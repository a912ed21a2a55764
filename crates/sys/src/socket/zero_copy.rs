//! Sending from where the bytes are, without a copy: the kernel tells when it needs them no more.
//! `MSG_ZEROCOPY`, `Documentation/networking/msg_zerocopy.rst` of the kernel.
//!
//! Until then the memory must stay as it is. Each call that sent something is told of once, in the socket's
//! error queue, which all who have the socket share: poll reports it as an error to each of them while there
//! is something in it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use super::{Slice, option};

/// Whether [`send_uncopied`] does what it says on this socket. `SO_ZEROCOPY`, socket(7).
pub fn has_zero_copy(fd: impl AsFd) -> io::Result<bool> {
    // SAFETY: any bytes are an integer.
    let value: libc::c_int = unsafe { option::get(fd, libc::SOL_SOCKET, libc::SO_ZEROCOPY)? };
    Ok(value != 0)
}

/// Allows or forbids it, for all who have the socket. `SO_ZEROCOPY`, socket(7); `EOPNOTSUPP` where the kind
/// of socket has none.
pub fn set_zero_copy(fd: impl AsFd, is_allowed: bool) -> io::Result<()> {
    option::set(fd, libc::SOL_SOCKET, libc::SO_ZEROCOPY, &libc::c_int::from(is_allowed))
}

/// Sends the slices in order, as far as there is room, without a copy. What is sent is borrowed until the
/// kernel has told that it needs it no more: `wait` is called until then, and returns when poll says of the
/// socket that there is an error, or earlier. sendmsg(2) with `MSG_ZEROCOPY`, `MSG_DONTWAIT` and
/// `MSG_NOSIGNAL`.
///
/// # Errors
///
/// Those of send(2). `ENOBUFS`: more is under way than a socket may have (`net.core.optmem_max`). If `wait`
/// fails, its error, after the connection was reset, as nobody knows how much of this went out.
pub fn send_uncopied(
    fd: impl AsFd,
    slices: &[Slice<'_>],
    mut wait: impl FnMut() -> io::Result<()>,
) -> io::Result<usize> {
    let fd = fd.as_fd();
    // SAFETY: all zeros are a valid message, whose fields below live for the call.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = slices.as_ptr().cast_mut().cast();
    message.msg_iovlen = slices.len();
    let flags = libc::MSG_ZEROCOPY | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: as above; slices are vectors that the kernel only reads.
    let count = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, flags) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    while count > 0 && completed(fd)?.is_none() {
        if let Err(error) = wait() {
            // Packets that are on their way have the memory until they are freed, which nothing holds up now.
            let _ = super::disconnect(fd);
            for _ in 0..RESET_MS {
                if !matches!(completed(fd), Ok(None)) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            return Err(error);
        }
    }
    Ok(count)
}

/// How long packets of a connection that was reset may be on their way out.
const RESET_MS: u32 = 1_000;

/// Takes the next of what the kernel says, if there is something: how many calls it is done with. recvmsg(2)
/// with `MSG_ERRQUEUE`.
///
/// # Errors
///
/// Something else is in the error queue: a failure of the connection.
fn completed(fd: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    /// A control message that is aligned, and has room for the error and an address behind it.
    #[repr(C, align(8))]
    struct Space([u8; 128]);

    let mut space = Space([0; 128]);
    // SAFETY: all zeros are a valid message, whose fields below live for the call.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = space.0.as_mut_ptr().cast();
    message.msg_controllen = space.0.len();
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: as above.
    if unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, flags) } < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    }
    // SAFETY: the kernel has said how much of the space is valid, and the header is looked for in that.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
    let Some(header) = header else { return Ok(None) };
    let has_error = matches!(
        (header.cmsg_level, header.cmsg_type),
        (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
    );
    // SAFETY: it only computes.
    let least = unsafe { libc::CMSG_LEN(size_of::<libc::sock_extended_err>() as u32) } as usize;
    if !has_error || header.cmsg_len < least {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: the message is that long, by what was just looked at; any bytes are a valid error.
    let error = unsafe { libc::CMSG_DATA(header).cast::<libc::sock_extended_err>().read_unaligned() };
    if error.ee_origin != ORIGIN_ZERO_COPY {
        return Err(io::Error::from_raw_os_error(error.ee_errno.cast_signed()));
    }
    Ok(Some(error.ee_data.wrapping_sub(error.ee_info).wrapping_add(1)))
}

/// `SO_EE_ORIGIN_ZEROCOPY` of linux/errqueue.h.
const ORIGIN_ZERO_COPY: u8 = 5;

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::event::Interest;
    use crate::socket::tests::connection;

    #[test]
    fn what_is_sent_is_borrowed_until_it_is_gone() {
        let (accepted, mut client) = connection();
        assert!(!has_zero_copy(&accepted).unwrap());
        set_zero_copy(&accepted, true).unwrap();
        assert!(has_zero_copy(&accepted).unwrap());
        let bytes = vec![7; 20_000];
        for _ in 0..2 {
            let mut received = vec![0; bytes.len()];
            let mut has_received = false;
            let count = send_uncopied(&accepted, &[Slice::new(&bytes)], || {
                if !has_received {
                    client.read_exact(&mut received)?;
                    has_received = true;
                }
                crate::poll::wait_for([(accepted.as_fd(), Interest::NONE)], None).map(|_| ())
            });
            assert_eq!(count.unwrap(), bytes.len());
            assert_eq!(completed(accepted.as_fd()).unwrap(), None, "nothing is left for others to see");
            if has_received {
                assert!(received == bytes);
            } else {
                client.read_exact(&mut received).unwrap();
            }
        }
        set_zero_copy(&accepted, false).unwrap();
        assert!(!has_zero_copy(&accepted).unwrap());
    }

    #[test]
    fn who_does_not_wait_resets() {
        let (accepted, mut client) = connection();
        set_zero_copy(&accepted, true).unwrap();
        let bytes = vec![7; 1 << 20];
        let refuse = || Err(io::ErrorKind::TimedOut.into());
        // The client takes nothing: all of this can't be gone.
        let sent = send_uncopied(&accepted, &[Slice::new(&bytes)], refuse);
        assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(client.read_to_end(&mut Vec::new()).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn a_socket_without_it_says_so() {
        let (near, _far) = UnixStream::pair().unwrap();
        set_zero_copy(&near, true).unwrap_err();
    }
}
