//! Sending without a copy: the kernel reads the bytes where they are, and reports when it no longer needs
//! them. `MSG_ZEROCOPY`, `Documentation/networking/msg_zerocopy.rst` of the kernel.
//!
//! Until that report, the memory must not change. Each call that sent something is reported once, in the
//! socket's error queue. All processes that have the socket share this queue. While it is not empty, poll
//! reports an error to each of them.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use super::option;
use crate::event::Interest;

/// Whether [`send_uncopied`] avoids copies on this socket. `SO_ZEROCOPY`, socket(7).
pub fn has_zero_copy(fd: impl AsFd) -> io::Result<bool> {
    // SAFETY: any bytes are an integer.
    let value: libc::c_int = unsafe { option::get(fd, libc::SOL_SOCKET, libc::SO_ZEROCOPY)? };
    Ok(value != 0)
}

/// Allows or forbids sending without a copy, for every process that has the socket. `SO_ZEROCOPY`,
/// socket(7); `EOPNOTSUPP` if the kind of socket does not support it.
pub fn set_zero_copy(fd: impl AsFd, is_allowed: bool) -> io::Result<()> {
    option::set(fd, libc::SOL_SOCKET, libc::SO_ZEROCOPY, &libc::c_int::from(is_allowed))
}

/// Bytes that a socket sends without a copy, so that the kernel may still read them ([`send_uncopied`]).
pub struct Uncopied<'socket, 'bytes> {
    socket: BorrowedFd<'socket>,
    wait: &'socket mut dyn FnMut(Interest) -> io::Result<()>,
    /// How many calls sent something that the kernel has not yet reported as finished.
    under_way: u32,
    bytes: PhantomData<&'bytes [u8]>,
}

/// Lets `send` send bytes without a copy, on a socket that [allows it](has_zero_copy). Returns when the
/// kernel has reported that it no longer needs them; they are borrowed until then. Meanwhile it calls
/// `wait`, which must wait until poll reports the requested readiness of the socket, or an error. `wait`
/// may return earlier.
///
/// The kernel needs bytes until they are acknowledged. So `send` should send the last bytes with other
/// calls: [more than a segment](segment), because the receiver may delay the acknowledgement of less by
/// 40 ms (RFC 1122, 4.2.3.2; `tcp_delack_min` of Linux).
///
/// # Errors
///
/// Those of `send` and `wait`. If one occurs while bytes are borrowed, the connection is reset, because
/// it is unknown how much was sent.
pub fn send_uncopied<'bytes>(
    socket: BorrowedFd<'_>,
    mut wait: impl FnMut(Interest) -> io::Result<()>,
    send: impl FnOnce(&mut Uncopied<'_, 'bytes>) -> io::Result<()>,
) -> io::Result<()> {
    let mut uncopied = Uncopied { socket, wait: &mut wait, under_way: 0, bytes: PhantomData };
    send(&mut uncopied)?;
    while uncopied.under_way > 0 {
        uncopied.wait_for(Interest::NONE)?;
    }
    Ok(())
}

impl<'bytes> Uncopied<'_, 'bytes> {
    /// Sends the bytes, as far as there is room, and returns how many. More must follow at once: an
    /// incomplete segment waits for it. sendmsg(2) with `MSG_ZEROCOPY`, `MSG_MORE`, `MSG_DONTWAIT` and
    /// `MSG_NOSIGNAL`.
    ///
    /// # Errors
    ///
    /// Those of send(2). `ENOBUFS`: more data is in flight than a socket may have
    /// (`net.core.optmem_max`).
    pub fn send(&mut self, bytes: &'bytes [u8]) -> io::Result<usize> {
        let flags = libc::MSG_ZEROCOPY | libc::MSG_MORE | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the kernel only reads the bytes, which are borrowed for longer than this value lives.
        // Dropping this value waits until the kernel has reported that it is done with them, and only
        // `send_uncopied` makes and drops it.
        let count = unsafe { libc::send(self.socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        self.under_way += u32::from(count > 0);
        Ok(count)
    }

    /// Takes the kernel's reports. Then it waits for `what`, unless `what` is [`Interest::NONE`] and there
    /// were reports. It may return earlier.
    ///
    /// # Errors
    ///
    /// Those of `wait`, and of the connection.
    pub fn wait_for(&mut self, what: Interest) -> io::Result<()> {
        let before = self.under_way;
        // While reports are in the queue, poll would report an error.
        while self.under_way > 0
            && let Some(count) = completed(self.socket)?
        {
            self.under_way = self.under_way.saturating_sub(count);
        }
        if self.under_way < before && what == Interest::NONE { Ok(()) } else { (self.wait)(what) }
    }
}

impl Drop for Uncopied<'_, '_> {
    /// Bytes are still in flight here only after an error, when no code waits for them any more. Packets that
    /// are being sent hold the memory until they are freed. After a reset, nothing delays that.
    fn drop(&mut self) {
        if self.under_way == 0 {
            return;
        }
        let _ = super::disconnect(self.socket);
        for _ in 0..RESET_MS {
            match completed(self.socket) {
                Ok(Some(count)) => self.under_way = self.under_way.saturating_sub(count),
                // The queue also reports how the connection ended.
                Err(_) => {}
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
            }
            if self.under_way == 0 {
                return;
            }
        }
    }
}

/// Bytes of a full segment on this connection. `TCP_MAXSEG`, tcp(7).
pub fn segment(socket: impl AsFd) -> io::Result<usize> {
    // SAFETY: any bytes are an integer.
    let value: libc::c_int = unsafe { option::get(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG)? };
    Ok(usize::try_from(value).unwrap_or(0))
}

/// How long packets of a reset connection may still take to leave.
const RESET_MS: u32 = 1_000;

/// Takes the kernel's next report, if there is one: how many calls it has finished. recvmsg(2) with
/// `MSG_ERRQUEUE`.
///
/// # Errors
///
/// Something else is in the error queue: a failure of the connection.
fn completed(fd: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    /// Space for a control message: aligned, with room for the error and an address after it.
    #[repr(C, align(8))]
    struct Space([u8; 128]);

    let mut space = Space([0; 128]);
    // SAFETY: all zeros are a valid message, whose fields below live for the call.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = space.0.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Space>() as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: as above.
    if unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, flags) } < 0 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    }
    // SAFETY: the kernel has said how much of the space is valid, and the header is searched for within
    // that.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
    let Some(header) = header else { return Ok(None) };
    let has_error = matches!(
        (header.cmsg_level, header.cmsg_type),
        (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
    );
    // SAFETY: it only computes.
    let least = unsafe { libc::CMSG_LEN(size_of::<libc::sock_extended_err>() as u32) };
    if !has_error || header.cmsg_len < least as _ {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: the check above shows that the message is this long; any bytes are a valid error.
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
    use crate::socket::tests::connection;
    use crate::socket::{Slice, send_slices_at_once};

    #[test]
    fn what_is_sent_is_borrowed_until_it_is_gone() {
        let (accepted, mut client) = connection();
        assert!(!has_zero_copy(&accepted).unwrap());
        set_zero_copy(&accepted, true).unwrap();
        assert!(has_zero_copy(&accepted).unwrap());
        let bytes: Vec<u8> = (0..20_000).map(|at| at as u8).collect();
        for pieces in 1..4 {
            let (mut received, mut waited) = (vec![0; bytes.len()], 0);
            let wait = |what| {
                if waited == 0 {
                    client.read_exact(&mut received)?;
                }
                waited += 1;
                crate::poll::wait_for([(accepted.as_fd(), what)], None).map(|_| ())
            };
            send_uncopied(accepted.as_fd(), wait, |uncopied| {
                let (front, rest) = bytes.split_at(15_000);
                for piece in front.chunks(front.len() / pieces) {
                    assert_eq!(uncopied.send(piece)?, piece.len());
                }
                assert_eq!(uncopied.under_way, pieces as u32);
                assert_eq!(send_slices_at_once(&accepted, &[Slice::new(rest)])?, rest.len());
                Ok(())
            })
            .unwrap();
            assert_eq!(completed(accepted.as_fd()).unwrap(), None, "nothing is left for others to see");
            if waited == 0 {
                client.read_exact(&mut received).unwrap();
            }
            assert!(received == bytes);
        }
        set_zero_copy(&accepted, false).unwrap();
        assert!(!has_zero_copy(&accepted).unwrap());
    }

    #[test]
    fn who_does_not_wait_resets() {
        let bytes = vec![7; 1 << 20];
        for waits in [false, true] {
            let (accepted, mut client) = connection();
            set_zero_copy(&accepted, true).unwrap();
            // The client takes nothing: all of this can't be gone.
            let sent = send_uncopied(
                accepted.as_fd(),
                |_| Err(io::ErrorKind::TimedOut.into()),
                |uncopied| {
                    while uncopied.send(&bytes).is_ok() {}
                    if waits { uncopied.wait_for(Interest::WRITABLE) } else { Ok(()) }
                },
            );
            assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::TimedOut);
            let end = client.read_to_end(&mut Vec::new());
            assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        }
    }

    #[test]
    fn a_segment_fits_into_a_packet() {
        let (accepted, _client) = connection();
        assert!((500..=65_535).contains(&segment(&accepted).unwrap()));
    }

    #[test]
    fn a_socket_without_it_says_so() {
        let (near, _far) = UnixStream::pair().unwrap();
        set_zero_copy(&near, true).unwrap_err();
    }
}
