//! What the kernel knows about a TCP socket (`TCP_INFO`, tcp(7)).

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};

/// `TCP_LISTEN` of the kernel's `net/tcp_states.h`.
const LISTEN: u8 = 10;

/// The accept queue of a listening socket: connections that are established and wait to be accepted. listen(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptQueue {
    /// Connections that wait now.
    pub length: u32,
    /// How many the kernel lets wait: the backlog, or net.core.somaxconn if that is less. The kernel's comparison
    /// lets one more in.
    pub limit: u32,
}

/// The accept queue of a listening TCP socket. `EINVAL` where the socket does not listen, `ENOPROTOOPT` or
/// `EOPNOTSUPP` where it is not TCP's.
///
/// A listener's `TCP_INFO` has the length in `tcpi_unacked` and the limit in `tcpi_sacked` (`tcp_get_info` in the
/// kernel's `net/ipv4/tcp.c`).
pub fn accept_queue(listener: impl AsFd) -> io::Result<AcceptQueue> {
    let info = tcp_info(listener)?;
    if info.tcpi_state != LISTEN {
        return Err(rustix::io::Errno::INVAL.into());
    }
    Ok(AcceptQueue { length: info.tcpi_unacked, limit: info.tcpi_sacked })
}

/// Milliseconds since the last segment came on a TCP connection: of one just accepted, at most how long it is since
/// its client was heard, and so at least how long it has waited in the accept queue, to the kernel's timer tick.
///
/// The larger of `tcpi_last_data_recv` and `tcpi_last_ack_recv`: a client that sends its request at once has its data
/// there a round trip after its handshake at the latest.
pub fn waited_ms(accepted: impl AsFd) -> io::Result<u32> {
    let info = tcp_info(accepted)?;
    Ok(info.tcpi_last_data_recv.max(info.tcpi_last_ack_recv))
}

fn tcp_info(fd: impl AsFd) -> io::Result<libc::tcp_info> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `info`, which is that long.
    let code = unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the structure consists of integers; all of it was zeroed and some of it written by the kernel.
    Ok(unsafe { info.assume_init() })
}
