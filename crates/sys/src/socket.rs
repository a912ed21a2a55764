//! Sockets: listening, accepting, receiving, sending and ending.
//!
//! All sockets made here are non-blocking and closed on exec. Calls that find nothing to do give
//! [`WouldBlock`](std::io::ErrorKind::WouldBlock); none is retried here.

use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    self, AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrAny, SocketAddrUnix,
    SocketFlags, SocketType,
};

const NEW: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// How a TCP socket listens. Options are set before listening, and accepted sockets inherit the buffers and
/// `nodelay` from their listener without a call of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// How many established connections may wait to be accepted; the kernel takes no more than net.core.somaxconn.
    /// listen(2).
    pub backlog: u32,
    /// Others of the same user may listen at the same address, and the kernel spreads the connections over them
    /// (`SO_REUSEPORT`, socket(7)).
    pub reuse_port: bool,
    /// An IPv6 socket takes no IPv4 connections (`IPV6_V6ONLY`, ipv6(7)).
    pub v6_only: bool,
    /// Small segments are sent at once (`TCP_NODELAY`, tcp(7)).
    pub nodelay: bool,
    /// A fixed send buffer in bytes, of which the kernel keeps a double for itself (`SO_SNDBUF`, socket(7));
    /// otherwise it grows as needed.
    pub send_buffer: Option<u32>,
    /// A fixed receive buffer in bytes, as above (`SO_RCVBUF`, socket(7)).
    pub receive_buffer: Option<u32>,
    /// A connection enters the accept queue when data came, or after about that many seconds
    /// (`TCP_DEFER_ACCEPT`, tcp(7)).
    pub defer_accept: Option<u32>,
}

impl Default for ListenOptions {
    /// A backlog of 4,096, `v6_only` and `nodelay`; nothing else.
    fn default() -> Self {
        Self {
            backlog: 4_096,
            reuse_port: false,
            v6_only: true,
            nodelay: true,
            send_buffer: None,
            receive_buffer: None,
            defer_accept: None,
        }
    }
}

/// A TCP socket that listens at `address`; port 0 lets the kernel choose. `SO_REUSEADDR` is set, so that connections
/// of an earlier process in TIME-WAIT do not prevent it. socket(2), bind(2), listen(2).
pub fn listen_tcp(address: SocketAddr, options: &ListenOptions) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = net::socket_with(family, SocketType::STREAM, NEW, Some(net::ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if options.reuse_port {
        sockopt::set_socket_reuseport(&socket, true)?;
    }
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, options.v6_only)?;
    }
    if options.nodelay {
        sockopt::set_tcp_nodelay(&socket, true)?;
    }
    if let Some(bytes) = options.send_buffer {
        sockopt::set_socket_send_buffer_size(&socket, bytes as usize)?;
    }
    if let Some(bytes) = options.receive_buffer {
        sockopt::set_socket_recv_buffer_size(&socket, bytes as usize)?;
    }
    if let Some(seconds) = options.defer_accept {
        set_tcp_option(&socket, libc::TCP_DEFER_ACCEPT, seconds as libc::c_int)?;
    }
    net::bind(&socket, &address)?;
    net::listen(&socket, backlog(options.backlog))?;
    Ok(socket)
}

/// A Unix socket that listens at `path`, with the file mode `mode` if given (else what umask(2) leaves). unix(7).
///
/// A socket file is there already: it is removed if nobody answers on it any more, else this fails with `EADDRINUSE`.
/// A file of another kind is never removed.
pub fn listen_unix(path: &Path, mode: Option<u32>, backlog: u32) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, NEW, None)?;
    match net::bind(&socket, &address) {
        Err(rustix::io::Errno::ADDRINUSE) if is_stale(path, &address)? => {
            std::fs::remove_file(path)?;
            net::bind(&socket, &address)?;
        }
        other => other?,
    }
    if let Some(mode) = mode {
        // Before listening: until then nobody can connect.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    net::listen(&socket, self::backlog(backlog))?;
    Ok(socket)
}

/// Takes the first connection of the accept queue. accept4(2).
///
/// Besides `WouldBlock`: `EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM` leave the connection in the queue; `ECONNABORTED` and
/// errors of the network concern a connection that is gone.
#[inline]
pub fn accept(listener: impl AsFd) -> io::Result<OwnedFd> {
    Ok(net::accept_with(listener, NEW)?)
}

/// The same, and who it is from. accept4(2).
#[inline]
pub fn accept_from(listener: impl AsFd) -> io::Result<(OwnedFd, PeerAddress)> {
    let (socket, address) = net::acceptfrom_with(listener, NEW)?;
    Ok((socket, PeerAddress::from_any(address)))
}

/// Who a connection is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PeerAddress {
    /// A process of this machine, through a Unix socket.
    Unix,
    /// IPv4 or IPv6, as the listener's family has it.
    Inet(SocketAddr),
}

const _: () = assert!(size_of::<PeerAddress>() <= 32, "it is kept for each connection");

impl PeerAddress {
    fn from_any(address: Option<SocketAddrAny>) -> Self {
        address.and_then(|address| SocketAddr::try_from(address).ok()).map_or(Self::Unix, Self::Inet)
    }
}

impl std::fmt::Display for PeerAddress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix => formatter.write_str("unix"),
            Self::Inet(address) => address.fmt(formatter),
        }
    }
}

/// Receives into `buffer`; 0 is the end of what the peer sends. recv(2).
#[inline]
pub fn recv(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (count, _) = net::recv(fd, buffer, RecvFlags::empty())?;
    Ok(count)
}

/// Writes the slices in order, as far as there is room; at most 1,024 (`IOV_MAX`) are taken. writev(2).
///
/// A broken connection raises `SIGPIPE` unless it is ignored ([`crate::signal::ignore_broken_pipe`]).
#[inline]
pub fn write_vectored(fd: impl AsFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    Ok(rustix::io::writev(fd, slices)?)
}

/// Sends as much as there is room for. send(2) with `MSG_NOSIGNAL`.
#[inline]
pub fn send(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(net::send(fd, bytes, SendFlags::NOSIGNAL)?)
}

/// Sends the slices in order, saying that more follows at once: an incomplete segment waits for it up to 200 ms.
/// sendmsg(2) with `MSG_MORE` and `MSG_NOSIGNAL`.
#[inline]
pub fn send_more(fd: impl AsFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
    Ok(net::sendmsg(fd, slices, &mut SendAncillaryBuffer::default(), flags)?)
}

/// Sends up to `count` bytes of the file `input`, from `*offset`, which moves on; 0 is the end of the file.
/// sendfile(2).
///
/// A broken connection raises `SIGPIPE` unless it is ignored ([`crate::signal::ignore_broken_pipe`]).
#[inline]
pub fn send_file(output: impl AsFd, input: impl AsFd, offset: &mut u64, count: usize) -> io::Result<usize> {
    Ok(rustix::fs::sendfile(output, input, Some(offset), count)?)
}

/// Sends no more; what is in the buffer still goes out, then the peer sees the end. shutdown(2), `SHUT_WR`.
pub fn shutdown_write(fd: impl AsFd) -> io::Result<()> {
    Ok(net::shutdown(fd, Shutdown::Write)?)
}

/// Closes a connection with a reset: unsent data is thrown away and the peer gets an error rather than an end of
/// input that could be taken for the end of a reply. `SO_LINGER` of 0 seconds, socket(7).
pub fn reset(fd: OwnedFd) -> io::Result<()> {
    let result = sockopt::set_socket_linger(&fd, Some(Duration::ZERO));
    drop(fd);
    Ok(result?)
}

/// Holds incomplete segments back (for up to 200 ms), or sends what was held back. `TCP_CORK`, tcp(7).
pub fn set_cork(fd: impl AsFd, corked: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_cork(fd, corked)?)
}

/// Whether calls return at once where they would block, for all who share the socket. `FIONBIO`, ioctl(2).
pub fn set_nonblocking(fd: impl AsFd, nonblocking: bool) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(fd, nonblocking)?)
}

/// How long receiving on a blocking socket waits before it fails with `WouldBlock`; `None`: for as long as it takes.
/// `SO_RCVTIMEO`, socket(7).
pub fn set_receive_timeout(fd: impl AsFd, timeout: Option<Duration>) -> io::Result<()> {
    Ok(sockopt::set_socket_timeout(fd, Timeout::Recv, timeout)?)
}

/// Where a socket is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalAddress {
    /// A Unix socket: its file, if it has one.
    Unix(Option<PathBuf>),
    /// IPv4 or IPv6.
    Inet(SocketAddr),
}

impl std::fmt::Display for LocalAddress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(Some(path)) => write!(formatter, "unix:{}", path.display()),
            Self::Unix(None) => formatter.write_str("unix:"),
            Self::Inet(address) => address.fmt(formatter),
        }
    }
}

/// Where the socket is bound. getsockname(2); `EAFNOSUPPORT` for families other than [`Domain`]'s.
pub fn local_address(fd: impl AsFd) -> io::Result<LocalAddress> {
    let address = net::getsockname(fd)?;
    if address.address_family() == AddressFamily::UNIX {
        let address = SocketAddrUnix::try_from(address)?;
        return Ok(LocalAddress::Unix(address.path_bytes().map(|path| OsStr::from_bytes(path).into())));
    }
    Ok(LocalAddress::Inet(SocketAddr::try_from(address)?))
}

/// What kind of addresses a socket has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// `AF_UNIX`, unix(7)
    Unix,
    /// `AF_INET`, ip(7)
    Inet,
    /// `AF_INET6`, ipv6(7)
    Inet6,
}

/// The socket's domain (`SO_DOMAIN`, socket(7)); `EAFNOSUPPORT` for any other than those known here.
pub fn domain(fd: impl AsFd) -> io::Result<Domain> {
    match sockopt::socket_domain(fd)? {
        AddressFamily::UNIX => Ok(Domain::Unix),
        AddressFamily::INET => Ok(Domain::Inet),
        AddressFamily::INET6 => Ok(Domain::Inet6),
        _ => Err(rustix::io::Errno::AFNOSUPPORT.into()),
    }
}

/// Whether the socket listens (`SO_ACCEPTCONN`, socket(7)); `ENOTSOCK` where it is none.
pub fn is_listening(fd: impl AsFd) -> io::Result<bool> {
    Ok(sockopt::socket_acceptconn(fd)?)
}

/// Bytes that were received and wait to be read. `FIONREAD`, tcp(7).
pub fn unread_bytes(fd: impl AsFd) -> io::Result<u64> {
    Ok(rustix::io::ioctl_fionread(fd)?)
}

/// Lets a listening TCP socket answer no more connection attempts, while handshakes under way finish and connections
/// in the accept queue can still be accepted.
///
/// Closing a listener resets all that wait in its queue. So a server that ends first calls this, accepts until the
/// queue is empty and no handshake is left, then closes: a client whose attempt is dropped tries again by itself, a
/// second later, and finds the successor or a refusal.
///
/// The means is a classic BPF program (`SO_ATTACH_FILTER`, socket(7)) that drops segments with SYN set. It sees them
/// from the TCP header on, the flags in byte 13 (RFC 9293, 3.1). Connections accepted later inherit it, and do not
/// receive such segments.
pub fn refuse_new_handshakes(listener: impl AsFd) -> io::Result<()> {
    const FLAGS_AT: u32 = 13;
    const SYN: u32 = 0x02;
    let mut program = [
        instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, FLAGS_AT, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, SYN, 0, 1),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        instruction(libc::BPF_RET | libc::BPF_K, u32::MAX, 0, 0),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set_option(listener, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn instruction(code: u32, operand: u32, if_true: u8, if_false: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: if_true, jf: if_false, k: operand }
}

fn backlog(backlog: u32) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
}

fn is_stale(path: &Path, address: &SocketAddrUnix) -> io::Result<bool> {
    if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
        return Ok(false);
    }
    let probe = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, NEW, None)?;
    // A full backlog (`EAGAIN`) is an answer too.
    Ok(matches!(net::connect(&probe, address), Err(rustix::io::Errno::CONNREFUSED)))
}

fn set_tcp_option(fd: impl AsFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, option, &value)
}

fn set_option<T>(fd: impl AsFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of a live value, which the kernel only reads.
    let code = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
