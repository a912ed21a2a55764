//! Receiving and sending bytes.

use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU8;

use rustix::net::{self, RecvFlags, SendAncillaryBuffer, SendFlags, sockopt};

/// Receives available bytes into `buffer`. 0 means that the peer has sent everything. It never blocks,
/// even on a blocking socket. recv(2) with `MSG_DONTWAIT`.
#[inline]
pub fn recv(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (count, _) = net::recv(fd, buffer, RecvFlags::DONTWAIT)?;
    Ok(count)
}

/// Waits for bytes on a blocking socket and receives them into `buffer`. A signal interrupts the wait
/// ([`crate::alarm`]), with `EINTR`. 0 means that the peer has sent everything. recv(2).
#[inline]
pub fn recv_waiting(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (count, _) = net::recv(fd, buffer, RecvFlags::empty())?;
    Ok(count)
}

/// Receives available bytes and appends them to `buffer`: at most `most` bytes, and at most what fits
/// without growing the buffer. 0 means that the peer has sent everything, or that there was no room. It
/// never blocks. recv(2) with `MSG_DONTWAIT`.
pub fn recv_behind(fd: impl AsFd, buffer: &mut Vec<u8>, most: usize) -> io::Result<usize> {
    append(fd, buffer, most, RecvFlags::DONTWAIT)
}

/// As [`recv_behind`], but waits for bytes on a blocking socket. A signal interrupts the wait
/// ([`crate::alarm`]), with `EINTR`. recv(2).
pub fn recv_waiting_behind(fd: impl AsFd, buffer: &mut Vec<u8>, most: usize) -> io::Result<usize> {
    append(fd, buffer, most, RecvFlags::empty())
}

fn append(fd: impl AsFd, buffer: &mut Vec<u8>, most: usize, flags: RecvFlags) -> io::Result<usize> {
    let length = buffer.len();
    let spare = buffer.spare_capacity_mut();
    let room = spare.len().min(most);
    let ((received, _), _) = net::recv(fd, &mut spare[..room], flags)?;
    let count = received.len();
    // SAFETY: this many bytes after the existing ones have just been written, within the capacity.
    unsafe { buffer.set_len(length + count) };
    Ok(count)
}

/// Bytes to send, from this process or from shared memory ([`crate::shared`]). Only the kernel reads
/// shared memory as a whole.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Slice<'a> {
    vector: libc::iovec,
    bytes: PhantomData<&'a [AtomicU8]>,
}

impl<'a> Slice<'a> {
    /// No bytes.
    pub const EMPTY: Self =
        Self { vector: libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }, bytes: PhantomData };

    /// Bytes of this process.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        let vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        Self { vector, bytes: PhantomData }
    }

    /// Bytes of shared memory.
    #[inline]
    pub fn shared(bytes: &'a [AtomicU8]) -> Self {
        let vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        Self { vector, bytes: PhantomData }
    }

    /// Bytes that only the kernel reads.
    ///
    /// # Safety
    ///
    /// The memory stays mapped for `'a`. Any process may change it meanwhile.
    #[inline]
    pub(crate) unsafe fn raw(memory: *mut u8, length: usize) -> Self {
        Self { vector: libc::iovec { iov_base: memory.cast(), iov_len: length }, bytes: PhantomData }
    }

    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.vector.iov_len
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes the first `count` bytes, or all bytes if there are fewer.
    #[inline]
    pub fn advance(&mut self, count: usize) {
        let count = count.min(self.len());
        self.vector.iov_base = self.vector.iov_base.wrapping_byte_add(count);
        self.vector.iov_len -= count;
    }

    /// Leaves the first `most` bytes, or all bytes if there are fewer.
    #[inline]
    pub fn truncate(&mut self, most: usize) {
        self.vector.iov_len = self.len().min(most);
    }

    /// Appends a copy of the bytes.
    #[inline]
    pub fn append_to(self, bytes: &mut Vec<u8>) {
        let (length, count) = (bytes.len(), self.len());
        bytes.reserve(count);
        // SAFETY: memory of that length that lives for 'a, into room for as many bytes that nobody else has.
        // Others may write to shared memory meanwhile: then some bytes are old and some are new, as when the
        // kernel reads them.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.vector.iov_base.cast::<u8>().cast_const(),
                bytes.as_mut_ptr().add(length),
                count,
            );
            bytes.set_len(length + count);
        }
    }

    /// A copy of the bytes.
    pub fn to_vec(self) -> Vec<u8> {
        if self.vector.iov_len == 0 {
            return Vec::new();
        }
        // SAFETY: memory of that length that lives for 'a; loading from memory that is only read is allowed
        // for atomics.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.vector.iov_base.cast::<AtomicU8>(), self.vector.iov_len)
        };
        bytes.iter().map(|byte| byte.load(std::sync::atomic::Ordering::Relaxed)).collect()
    }
}

/// Writes the slices in order, as far as there is room. At most 1,024 slices (`IOV_MAX`) are written.
/// writev(2).
///
/// A broken connection raises `SIGPIPE` unless it is ignored ([`crate::signal::ignore_broken_pipe`]).
#[inline]
pub fn write_vectored(fd: impl AsFd, slices: &[Slice<'_>]) -> io::Result<usize> {
    Ok(rustix::io::writev(fd, vectors(slices))?)
}

/// Sends as much as there is room for. send(2) with `MSG_NOSIGNAL`.
#[inline]
pub fn send(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(net::send(fd, bytes, SendFlags::NOSIGNAL)?)
}

/// Sends as much as there is room for, without blocking even on a blocking socket. send(2) with
/// `MSG_NOSIGNAL` and `MSG_DONTWAIT`.
#[inline]
pub fn send_at_once(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(net::send(fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
}

/// Sends the slices in order, and tells the kernel that more follows at once. An incomplete segment waits
/// for that for up to 200 ms. sendmsg(2) with `MSG_MORE` and `MSG_NOSIGNAL`.
#[inline]
pub fn send_more(fd: impl AsFd, slices: &[Slice<'_>]) -> io::Result<usize> {
    let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
    Ok(net::sendmsg(fd, vectors(slices), &mut SendAncillaryBuffer::default(), flags)?)
}

/// Sends the slices in order, as far as there is room, without blocking even on a blocking socket. At
/// most 1,024 slices (`IOV_MAX`) are allowed. sendmsg(2) with `MSG_NOSIGNAL` and `MSG_DONTWAIT`.
#[inline]
pub fn send_slices_at_once(fd: impl AsFd, slices: &[Slice<'_>]) -> io::Result<usize> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(net::sendmsg(fd, vectors(slices), &mut SendAncillaryBuffer::default(), flags)?)
}

/// Sends like [`send_slices_at_once`], and tells the kernel that more follows. An incomplete segment
/// waits for that until one of these happens: 200 ms or the connection's retransmission timeout passes,
/// data is acknowledged, or [`set_cork`] stops holding data back. `MSG_MORE`.
#[inline]
pub fn send_more_at_once(fd: impl AsFd, slices: &[Slice<'_>]) -> io::Result<usize> {
    let flags = SendFlags::MORE | SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(net::sendmsg(fd, vectors(slices), &mut SendAncillaryBuffer::default(), flags)?)
}

/// Sends the slices in order. A blocking socket sends all of them, unless a signal or an error interrupts
/// it. At most 1,024 slices (`IOV_MAX`) are allowed. sendmsg(2) with `MSG_NOSIGNAL`.
#[inline]
pub fn send_slices(fd: impl AsFd, slices: &[Slice<'_>]) -> io::Result<usize> {
    Ok(net::sendmsg(fd, vectors(slices), &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?)
}

/// Sends up to `count` bytes of the file `input`, from `*offset`, and advances the offset. 0 means the
/// end of the file. sendfile(2).
///
/// A broken connection raises `SIGPIPE` unless it is ignored ([`crate::signal::ignore_broken_pipe`]).
#[inline]
pub fn send_file(output: impl AsFd, input: impl AsFd, offset: &mut u64, count: usize) -> io::Result<usize> {
    Ok(rustix::fs::sendfile(output, input, Some(offset), count)?)
}

/// Holds back incomplete segments (for up to 200 ms), or sends what was held back. `TCP_CORK`, tcp(7).
pub fn set_cork(fd: impl AsFd, corked: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_cork(fd, corked)?)
}

/// Sends pending data at once, even if it is little and earlier data is unacknowledged. `TCP_NODELAY`,
/// tcp(7).
pub fn send_without_delay(fd: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(fd, true)?)
}

/// Sets whether calls return at once instead of blocking, for every process that shares the socket.
/// `FIONBIO`, ioctl(2).
pub fn set_nonblocking(fd: impl AsFd, nonblocking: bool) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(fd, nonblocking)?)
}

/// The slices in the form that the calls take.
#[inline]
pub(super) fn vectors<'a>(slices: &'a [Slice<'_>]) -> &'a [IoSlice<'a>] {
    // SAFETY: both are an `iovec` (`IoSlice` guarantees it). The result goes only to the kernel, which
    // copies the bytes even if another process changes them meanwhile. No reference to the bytes is made.
    unsafe { std::slice::from_raw_parts(slices.as_ptr().cast(), slices.len()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    use rustix::io::ioctl_fionread;

    use super::*;
    use crate::socket::shutdown_write;
    use crate::socket::tests::{connection, would_block};

    #[test]
    fn receives_until_nothing_is_left_and_until_the_end() {
        let (accepted, mut client) = connection();
        let mut buffer = [0; 3];
        assert!(would_block(recv(&accepted, &mut buffer)));
        client.write_all(b"12345").unwrap();
        assert_eq!(ioctl_fionread(&accepted).unwrap(), 5);
        assert_eq!((recv(&accepted, &mut buffer).unwrap(), &buffer), (3, b"123"));
        assert_eq!((recv(&accepted, &mut buffer).unwrap(), &buffer[..2]), (2, b"45".as_slice()));
        assert!(would_block(recv(&accepted, &mut buffer)));
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(recv(&accepted, &mut buffer).unwrap(), 0);
    }

    #[test]
    fn receiving_never_blocks() {
        let (accepted, mut client) = connection();
        set_nonblocking(&accepted, false).unwrap();
        assert!(would_block(recv(&accepted, &mut [0])));
        client.write_all(b"x").unwrap();
        assert_eq!(recv(&accepted, &mut [0]).unwrap(), 1);
        set_nonblocking(&accepted, true).unwrap();
        assert!(would_block(recv(&accepted, &mut [0])));
    }

    #[test]
    fn sends_slices_in_order_as_far_as_there_is_room() {
        let (accepted, mut client) = connection();
        let slices = [Slice::new(b"one "), Slice::new(b""), Slice::new(b"two")];
        assert_eq!(write_vectored(&accepted, &slices).unwrap(), 7);
        let mut rest = Slice::new(b"three");
        rest.advance(2);
        assert_eq!((rest.len(), rest.is_empty(), rest.to_vec()), (3, false, b"ree".to_vec()));
        let mut all = b"th".to_vec();
        for slice in [rest, Slice::EMPTY, Slice::new(b"!")] {
            slice.append_to(&mut all);
        }
        assert_eq!(all, b"three!");
        assert_eq!(send_slices_at_once(&accepted, &[Slice::new(b" th"), rest]).unwrap(), 6);
        rest.advance(4);
        assert!(rest.is_empty());
        assert_eq!(send_slices(&accepted, &[rest, Slice::new(b"!")]).unwrap(), 1);
        let mut buffer = [0; 14];
        client.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"one two three!");

        let block = vec![1; 1 << 20];
        let mut sent = 0;
        let error = loop {
            match write_vectored(&accepted, &[Slice::new(&block), Slice::new(&block)]) {
                Ok(count) => sent += count,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        shutdown_write(&accepted).unwrap();
        assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), sent);
    }

    #[test]
    fn what_more_follows_waits_for_it() {
        // The kernel waits for at most 200 ms. On a machine so busy that this test takes longer, try
        // again.
        let held_back = (0..20).any(|_| {
            let (accepted, mut client) = connection();
            assert_eq!(send_more(&accepted, &[Slice::new(b"he"), Slice::new(b"ad ")]).unwrap(), 5);
            let nothing_yet = ioctl_fionread(&client).unwrap() == 0;
            assert_eq!(send(&accepted, b"body").unwrap(), 4);
            let mut buffer = [0; 9];
            client.read_exact(&mut buffer).unwrap();
            assert_eq!(&buffer, b"head body");
            nothing_yet
        });
        assert!(held_back);
    }

    #[test]
    fn a_cork_holds_back_until_it_is_drawn() {
        let held_back = (0..20).any(|_| {
            let (accepted, mut client) = connection();
            set_cork(&accepted, true).unwrap();
            send(&accepted, b"x").unwrap();
            let nothing_yet = ioctl_fionread(&client).unwrap() == 0;
            set_cork(&accepted, false).unwrap();
            client.read_exact(&mut [0]).unwrap();
            nothing_yet
        });
        assert!(held_back);
    }

    #[test]
    fn sends_parts_of_files() {
        let (accepted, mut client) = connection();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let mut offset = 2;
        assert_eq!(send_file(&accepted, &file, &mut offset, 3).unwrap(), 3);
        assert_eq!(offset, 5);
        assert_eq!(send_file(&accepted, &file, &mut offset, 100).unwrap(), 5);
        assert_eq!(offset, 10);
        assert_eq!(send_file(&accepted, &file, &mut offset, 1).unwrap(), 0, "the end of the file");
        shutdown_write(&accepted).unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        assert_eq!(received, b"23456789");
    }

    #[test]
    fn sending_to_a_closed_connection_is_an_error_not_a_signal() {
        let (near, far) = UnixStream::pair().unwrap();
        drop(far);
        assert_eq!(send(&near, b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(send_more(&near, &[Slice::new(b"x")]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
