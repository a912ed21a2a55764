//! Passing descriptors together with bytes between processes over a Unix socket. unix(7), `SCM_RIGHTS`.
//!
//! A passed descriptor belongs to both processes from then on: they share the open file, with its status
//! flags and options. It arrives with the first byte that was sent with it. A process that receives from
//! a peer that may send descriptors must always provide room for them. Without room, the kernel closes
//! them ([`recv_without`]), and a plain read does not report that.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::net::{
    self, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::Slice;
use super::transfer::vectors;

/// How many descriptors that come with the same bytes there is room for. The kernel closes any others,
/// except those that fit in alignment padding.
pub const MOST_PASSED: usize = 4;

/// Sends the slices in order, as far as there is room, and a descriptor with the first byte that is sent.
/// It never blocks. If no byte is sent, the descriptor is not sent either. sendmsg(2) with `MSG_DONTWAIT`
/// and `MSG_NOSIGNAL`.
///
/// # Errors
///
/// Besides those of send(2): `ETOOMANYREFS` while too many descriptors are in flight, sent but not
/// received.
pub fn send_with(fd: impl AsFd, slices: &[Slice<'_>], passed: BorrowedFd<'_>) -> io::Result<usize> {
    let passed = [passed];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let has_room = control.push(SendAncillaryMessage::ScmRights(&passed));
    debug_assert!(has_room, "the space is that of one");
    Ok(net::sendmsg(fd, vectors(slices), &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
}

/// Receives available bytes into `buffer`, and appends the descriptors that came with them, which are
/// closed on exec. 0 means that the peer has sent everything. See [`MOST_PASSED`]. It never blocks.
/// recvmsg(2) with `MSG_DONTWAIT` and `MSG_CMSG_CLOEXEC`.
pub fn recv_with(fd: impl AsFd, buffer: &mut [u8], passed: &mut Vec<OwnedFd>) -> io::Result<usize> {
    receive(fd.as_fd(), buffer, passed, RecvFlags::DONTWAIT)
}

/// Receives available bytes into `buffer`. Returns also whether descriptors came with them; the kernel
/// has closed those. 0 means that the peer has sent everything. A read ends after the bytes that a
/// descriptor came with, so more may be available although the buffer is not full. It never blocks.
/// recvmsg(2) with `MSG_DONTWAIT`, and `MSG_CTRUNC` in its result.
pub fn recv_without(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, bool)> {
    let mut control = RecvAncillaryBuffer::default();
    let received = net::recvmsg(fd, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::DONTWAIT)?;
    Ok((received.bytes, received.flags.contains(ReturnFlags::CTRUNC)))
}

/// Waits for bytes on a blocking socket and receives them as [`recv_with`] does; `EINTR` after a signal.
pub fn recv_with_waiting(fd: impl AsFd, buffer: &mut [u8], passed: &mut Vec<OwnedFd>) -> io::Result<usize> {
    receive(fd.as_fd(), buffer, passed, RecvFlags::empty())
}

fn receive(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    passed: &mut Vec<OwnedFd>,
    flags: RecvFlags,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST_PASSED))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let received = net::recvmsg(fd, &mut [IoSliceMut::new(buffer)], &mut control, flags)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            passed.extend(descriptors);
        }
    }
    Ok(received.bytes)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use rustix::io::{FdFlags, fcntl_getfd};

    use super::*;
    use crate::socket::tests::would_block;

    #[test]
    fn a_descriptor_goes_with_bytes_and_is_the_same_socket() {
        let (near, far) = UnixStream::pair().unwrap();
        let (mut client, lent) = UnixStream::pair().unwrap();
        let (mut passed, mut buffer) = (Vec::new(), [0; 16]);
        assert!(would_block(recv_with(&far, &mut buffer, &mut passed)));

        let slices = [Slice::new(b"with "), Slice::new(b"it")];
        assert_eq!(send_with(&near, &slices, lent.as_fd()).unwrap(), 7);
        (&near).write_all(b" more").unwrap();
        assert_eq!(recv_with_waiting(&far, &mut buffer, &mut passed).unwrap(), 7);
        assert_eq!((&buffer[..7], passed.len()), (b"with it".as_slice(), 1));
        assert!(fcntl_getfd(&passed[0]).unwrap().contains(FdFlags::CLOEXEC));
        assert_eq!(recv_with(&far, &mut buffer, &mut passed).unwrap(), 5);
        assert_eq!(passed.len(), 1);

        drop(lent);
        UnixStream::from(passed.pop().unwrap()).write_all(b"hello").unwrap();
        let mut received = String::new();
        client.read_to_string(&mut received).unwrap();
        assert_eq!(received, "hello", "and the end, as nobody else has it any more");
        drop(near);
        assert_eq!(recv_with(&far, &mut buffer, &mut passed).unwrap(), 0);
    }

    #[test]
    fn a_read_without_room_for_descriptors_ends_behind_them_and_says_so() {
        let (near, far) = UnixStream::pair().unwrap();
        let (client, lent) = UnixStream::pair().unwrap();
        let mut buffer = [0; 16];
        let with = |bytes| send_with(&near, &[Slice::new(bytes)], lent.as_fd()).unwrap();
        (&near).write_all(b"a").unwrap();
        with(b"b");
        with(b"c");
        (&near).write_all(b"d").unwrap();
        for (expected, has_descriptors) in [(&b"ab"[..], true), (b"c", true), (b"d", false)] {
            let (count, told) = recv_without(&far, &mut buffer).unwrap();
            assert_eq!((&buffer[..count], told), (expected, has_descriptors));
        }
        assert_eq!(recv_without(&far, &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop((near, lent));
        assert_eq!(recv_without(&far, &mut buffer).unwrap(), (0, false));
        assert_eq!(crate::socket::recv(&client, &mut [0]).unwrap(), 0, "no copy is left");
    }

    #[test]
    fn more_descriptors_than_there_is_room_for_are_closed() {
        let (near, far) = UnixStream::pair().unwrap();
        let (client, lent) = UnixStream::pair().unwrap();
        let many = [lent.as_fd(); 4 * MOST_PASSED];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(4 * MOST_PASSED))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&many)));
        net::sendmsg(&near, vectors(&[Slice::new(b"x")]), &mut control, SendFlags::empty()).unwrap();
        drop(lent);
        let mut passed = Vec::new();
        assert_eq!(recv_with(&far, &mut [0], &mut passed).unwrap(), 1);
        assert!((MOST_PASSED..2 * MOST_PASSED).contains(&passed.len()), "{}", passed.len());
        passed.clear();
        assert_eq!(crate::socket::recv(&client, &mut [0]).unwrap(), 0, "no copy is left");
    }
}
