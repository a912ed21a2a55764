//! Sockets: listening, accepting, receiving, sending and ending.
//!
//! All sockets made here are closed on exec, and non-blocking but for those of [`accept_blocking_from`].
//! Calls that find nothing to do give [`WouldBlock`](std::io::ErrorKind::WouldBlock); none is retried here.

use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
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
    /// How many established connections may wait to be accepted; the kernel takes no more than
    /// net.core.somaxconn. listen(2).
    pub backlog: u32,
    /// It joins those of the same user that listen at the same address already and [`share_port`], and the
    /// kernel spreads the connections over them (`SO_REUSEPORT`, socket(7)).
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

/// A TCP socket that listens at `address`; port 0 lets the kernel choose. `SO_REUSEADDR` is set, so that
/// connections of an earlier process in TIME-WAIT do not prevent it. socket(2), bind(2), listen(2).
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

/// Whether [`listen_tcp`] could have the address; it is bound for a moment, and nothing listens.
///
/// # Errors
///
/// Those of bind(2).
pub fn check_tcp(address: SocketAddr) -> io::Result<()> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = net::socket_with(family, SocketType::STREAM, NEW, Some(net::ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    Ok(net::bind(&socket, &address)?)
}

/// Whether [`listen_unix`] could have the path; nothing is made there.
///
/// # Errors
///
/// `EADDRINUSE` where somebody answers, or what is there is no socket; else why no file could be made.
pub fn check_unix(path: &Path) -> io::Result<()> {
    let address = SocketAddrUnix::new(path)?;
    match is_stale(path, &address) {
        Ok(true) => Ok(()),
        Ok(false) => Err(rustix::io::Errno::ADDRINUSE.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => crate::output::check_append(path),
        Err(error) => Err(error),
    }
}

/// Lets others of the same user listen at the address of a socket that listens, with
/// [`ListenOptions::reuse_port`].
///
/// It is for the first of them. A socket that is opened so joins whoever has the address and lets it, be it
/// another program; one that lets others join only when it listens has the address to itself before.
/// `SO_REUSEPORT`, socket(7).
pub fn share_port(listener: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_reuseport(listener, true)?)
}

/// Whose the file of a Unix socket is, and who may connect: that takes the right to write to it. unix(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketFile {
    /// Its permission bits, whatever the umask.
    pub mode: u32,
    /// Its user and group, by number; `None`: those of the process.
    pub owner: Option<u32>,
    /// See `owner`.
    pub group: Option<u32>,
}

/// A Unix socket that listens at `path`, with such a file. Nobody can connect before the file is as it shall
/// be. unix(7).
///
/// A socket file is there already: it is removed if nobody answers on it any more, else this fails with
/// `EADDRINUSE`. A file of another kind is never removed.
///
/// # Errors
///
/// The address can't be had, or the file can't be given away: `EPERM` for all but root.
pub fn listen_unix(path: &Path, file: SocketFile, backlog: u32) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, NEW, None)?;
    // The file is made with the mode of the socket that is bound: nobody else's until it is complete, and
    // without a change of the umask, which all threads have in common.
    rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(0o600))?;
    match net::bind(&socket, &address) {
        Err(rustix::io::Errno::ADDRINUSE) if is_stale(path, &address)? => {
            std::fs::remove_file(path)?;
            net::bind(&socket, &address)?;
        }
        other => other?,
    }
    let complete = || {
        std::os::unix::fs::chown(path, file.owner, file.group)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(file.mode))?;
        Ok(net::listen(&socket, self::backlog(backlog))?)
    };
    if let Err(error) = complete() {
        // It is this call's own.
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    Ok(socket)
}

/// A Unix socket that listens under a name that the kernel has chosen (unix(7), "Autobind feature"), and a
/// connection that waits there to be accepted.
pub fn listen_with_client() -> io::Result<(OwnedFd, OwnedFd)> {
    let listener = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, NEW, None)?;
    let client = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    net::bind(&listener, &SocketAddrUnix::new_unnamed())?;
    net::listen(&listener, 1)?;
    net::connect(&client, &net::getsockname(&listener)?)?;
    Ok((listener, client))
}

/// Whether an error of [`accept`] says that descriptors or memory ran out, here or in the whole system:
/// trying again at once is useless. accept(2), "Errors".
pub fn is_exhaustion(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// Takes the first connection of the accept queue. accept4(2).
///
/// Besides `WouldBlock`: `EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM` leave the connection in the queue;
/// `ECONNABORTED` and errors of the network concern a connection that is gone.
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

/// The same, but sends on the accepted socket block while its buffer is full. accept4(2) without
/// `SOCK_NONBLOCK`.
#[inline]
pub fn accept_blocking_from(listener: impl AsFd) -> io::Result<(OwnedFd, PeerAddress)> {
    let (socket, address) = net::acceptfrom_with(listener, SocketFlags::CLOEXEC)?;
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

/// Receives into `buffer` what is there; 0 is the end of what the peer sends. Never blocks, be the socket one
/// that does. recv(2) with `MSG_DONTWAIT`.
#[inline]
pub fn recv(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (count, _) = net::recv(fd, buffer, RecvFlags::DONTWAIT)?;
    Ok(count)
}

/// Receives into `buffer` when something comes, on a socket that blocks: until a signal breaks that off
/// ([`crate::alarm`]), which is `EINTR`. 0 is the end of what the peer sends. recv(2).
#[inline]
pub fn recv_waiting(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (count, _) = net::recv(fd, buffer, RecvFlags::empty())?;
    Ok(count)
}

/// Bytes to be sent: of this process, or of shared memory ([`crate::shared`]), which only the kernel reads as
/// a whole.
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

    /// The bytes, copied.
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

/// As the calls take them.
#[inline]
fn vectors<'a>(slices: &'a [Slice<'_>]) -> &'a [IoSlice<'a>] {
    // SAFETY: both are an `iovec` (`IoSlice` says so), and what is made here goes to the kernel, which copies
    // the bytes that it is given whoever changes them. No reference to them is made.
    unsafe { std::slice::from_raw_parts(slices.as_ptr().cast(), slices.len()) }
}

/// Writes the slices in order, as far as there is room; at most 1,024 (`IOV_MAX`) are taken. writev(2).
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

/// Sends the slices in order, saying that more follows at once: an incomplete segment waits for it up to 200
/// ms. sendmsg(2) with `MSG_MORE` and `MSG_NOSIGNAL`.
#[inline]
pub fn send_more(fd: impl AsFd, slices: &[Slice<'_>]) -> io::Result<usize> {
    let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
    Ok(net::sendmsg(fd, vectors(slices), &mut SendAncillaryBuffer::default(), flags)?)
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

/// Whether a connection is gone in both directions, so that nothing can be sent on it any more; a peer that
/// has only shut down its own side is still there. poll(2), `POLLERR` and `POLLHUP`.
pub fn is_broken(fd: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&fd, PollFlags::empty())];
    // An error says nothing about the connection.
    rustix::event::poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

/// Whether the peer has said that it sends no more, be it that it only shut down its own side, or that it is
/// gone, which can't be told apart; what it sent before may be unread. poll(2), `POLLRDHUP`.
pub fn has_hung_up(fd: impl AsFd) -> bool {
    let mut polled = [PollFd::new(&fd, PollFlags::RDHUP)];
    rustix::event::poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

/// Closes a connection with a reset: unsent data is thrown away and the peer gets an error rather than an end
/// of input that could be taken for the end of a reply. `SO_LINGER` of 0 seconds, socket(7).
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

/// How long receiving on a blocking socket waits before it fails with `WouldBlock`; `None`: for as long as it
/// takes. `SO_RCVTIMEO`, socket(7).
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

/// Closes a socket in this process although somebody may still hold its descriptor, which is at end of file
/// from here on.
///
/// For one that came with a fork: what the parent held is still held in the child, where nobody will drop it.
pub fn vacate(fd: impl AsFd) -> io::Result<()> {
    let nothing = std::fs::File::open("/dev/null")?;
    // SAFETY: the descriptor stays open and its owner's; only what it stands for changes, as dup2(2) does in
    // one step.
    let result = unsafe { libc::dup3(nothing.as_raw_fd(), fd.as_fd().as_raw_fd(), libc::O_CLOEXEC) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the kernel choose among the sockets of an `SO_REUSEPORT` group by the CPU on which a handshake is
/// received: pairs of a CPU and the socket's place in the group, which is the order in which they began to
/// listen. For other CPUs the hash decides.
///
/// The means is a classic BPF program (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)) that compares the CPU with
/// each, so the list is bounded by [`MAX_STEERED_CPUS`]; `EINVAL` beyond it. One socket of the group is
/// enough.
pub fn steer_by_cpu(listener: impl AsFd, places: &[(usize, usize)]) -> io::Result<()> {
    // Its value is negative: an offset into what the kernel knows of a packet, not into the packet.
    const CPU: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_CPU) as u32;
    // A place that no socket has.
    const NONE: u32 = u32::MAX;
    if places.len() > MAX_STEERED_CPUS {
        return Err(rustix::io::Errno::INVAL.into());
    }
    let mut program = vec![instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, CPU, 0, 0)];
    for &(cpu, place) in places {
        program.push(instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, cpu as u32, 0, 1));
        program.push(instruction(libc::BPF_RET | libc::BPF_K, place as u32, 0, 0));
    }
    program.push(instruction(libc::BPF_RET | libc::BPF_K, NONE, 0, 0));
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set_option(listener, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}

/// A classic BPF program has at most 4,096 instructions.
pub const MAX_STEERED_CPUS: usize = 2_000;

/// Lets a listening TCP socket answer no more connection attempts, while handshakes under way finish and
/// connections in the accept queue can still be accepted.
///
/// Closing a listener resets all that wait in its queue. So a server that ends first calls this, accepts
/// until the queue is empty and no handshake is left, then closes: a client whose attempt is dropped tries
/// again by itself, a second later, and finds the successor or a refusal.
///
/// The means is a classic BPF program (`SO_ATTACH_FILTER`, socket(7)) that drops segments with SYN set. It
/// sees them from the TCP header on, the flags in byte 13 (RFC 9293, 3.1). Connections accepted later inherit
/// it, and do not receive such segments.
///
/// The program sits on the socket, not on the descriptor: it holds for every process that has the socket
/// open, and after the end of the one that called this, until the socket is closed or
/// [`answer_new_handshakes`] is called. So it is for those alone who know that nobody is to accept from this
/// socket any more.
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

/// Takes back [`refuse_new_handshakes`]. On a socket that has refused none it does nothing.
/// `SO_DETACH_FILTER`, socket(7).
pub fn answer_new_handshakes(listener: impl AsFd) -> io::Result<()> {
    match set_option(listener, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        done => done,
    }
}

/// Has a socket listen no more, whoever else has it open: its address is free for others, who are refused if
/// they connect meanwhile, and those who wait in its accept queue are reset. shutdown(2).
pub fn stop_listening(listener: impl AsFd) -> io::Result<()> {
    Ok(net::shutdown(listener, Shutdown::Read)?)
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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown as Side, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::thread::sleep;

    use super::*;
    use crate::epoll::Epoll;
    use crate::event::{Events, Interest};

    fn listen(options: ListenOptions) -> (OwnedFd, SocketAddr) {
        listen_at("127.0.0.1:0", options)
    }

    fn listen_at(address: &str, options: ListenOptions) -> (OwnedFd, SocketAddr) {
        let listener = listen_tcp(address.parse().unwrap(), &options).unwrap();
        let LocalAddress::Inet(address) = local_address(&listener).unwrap() else {
            unreachable!("asked for TCP")
        };
        (listener, address)
    }

    /// Both ends of a TCP connection: accepted, client.
    fn connection() -> (OwnedFd, TcpStream) {
        let (listener, address) = listen(ListenOptions::default());
        let client = TcpStream::connect(address).unwrap();
        (accept(&listener).unwrap(), client)
    }

    /// Begins to connect to `address`, and does not wait for it.
    fn begin_connecting(address: SocketAddr) -> OwnedFd {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let client = net::socket_with(family, SocketType::STREAM, NEW, None).unwrap();
        assert_eq!(net::connect(&client, &address), Err(rustix::io::Errno::INPROGRESS));
        client
    }

    /// The file of whoever makes the socket.
    const OWN: SocketFile = SocketFile { mode: 0o600, owner: None, group: None };

    fn is_connected(client: &OwnedFd, within_ms: u32) -> bool {
        let epoll = Epoll::new().unwrap();
        epoll.add(client, 0, Interest::WRITABLE).unwrap();
        let count = epoll.wait(&mut Events::default(), Some(within_ms)).unwrap();
        count == 1 && sockopt::socket_error(client).unwrap().is_ok()
    }

    fn would_block<T: std::fmt::Debug>(result: io::Result<T>) -> bool {
        result.unwrap_err().kind() == io::ErrorKind::WouldBlock
    }

    #[test]
    fn a_half_closed_connection_is_not_broken() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert!(!is_broken(&server));
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(std::io::Read::read(&mut &server, &mut [0]).unwrap(), 0);
        assert!(!is_broken(&server));
        reset(client.into()).unwrap();
        assert!(is_broken(&server));
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(!is_broken(&near));
        drop(far);
        assert!(is_broken(&near));
    }

    #[test]
    fn accepted_sockets_inherit_the_listeners_options() {
        let fixed = ListenOptions {
            send_buffer: Some(100_000),
            receive_buffer: Some(50_000),
            nodelay: true,
            ..ListenOptions::default()
        };
        let left = ListenOptions { nodelay: false, ..ListenOptions::default() };
        for (options, nodelay) in [(fixed, true), (left, false)] {
            let (listener, address) = listen(options);
            let _client = TcpStream::connect(address).unwrap();
            let accepted = accept(&listener).unwrap();
            assert_eq!(sockopt::tcp_nodelay(&accepted).unwrap(), nodelay);
            if let Some(bytes) = options.send_buffer {
                assert_eq!(sockopt::socket_send_buffer_size(&accepted).unwrap(), 2 * bytes as usize);
            }
            if let Some(bytes) = options.receive_buffer {
                assert_eq!(sockopt::socket_recv_buffer_size(&accepted).unwrap(), 2 * bytes as usize);
            }
            let flags = rustix::fs::fcntl_getfl(&accepted).unwrap();
            assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
            assert_eq!(rustix::io::fcntl_getfd(&accepted).unwrap(), rustix::io::FdFlags::CLOEXEC);
        }
    }

    #[test]
    fn accepts_in_order_and_says_who_it_is() {
        let (listener, address) = listen(ListenOptions::default());
        assert!(would_block(accept(&listener)));
        let first = TcpStream::connect(address).unwrap();
        let second = TcpStream::connect(address).unwrap();
        for client in [&first, &second] {
            let (_, peer) = accept_from(&listener).unwrap();
            assert_eq!(peer, PeerAddress::Inet(client.local_addr().unwrap()));
            assert_eq!(peer.to_string(), client.local_addr().unwrap().to_string());
        }
        assert!(would_block(accept_from(&listener)));
    }

    #[test]
    fn an_ipv6_listener_takes_ipv4_only_if_told() {
        let (both, address) = listen_at("[::]:0", ListenOptions { v6_only: false, ..Default::default() });
        assert_eq!(domain(&both).unwrap(), Domain::Inet6);
        let client = TcpStream::connect(("127.0.0.1", address.port())).unwrap();
        let (_, peer) = accept_from(&both).unwrap();
        let PeerAddress::Inet(peer) = peer else { panic!("{peer:?}") };
        assert_eq!(peer.ip().to_canonical(), client.local_addr().unwrap().ip());

        let (_listener, address) = listen_at("[::]:0", ListenOptions::default());
        let refused = TcpStream::connect(("127.0.0.1", address.port())).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        TcpStream::connect(("::1", address.port())).unwrap();
    }

    #[test]
    fn several_listen_at_one_port_if_told() {
        let alone = ListenOptions::default();
        let joins = ListenOptions { reuse_port: true, ..alone };
        let (first, address) = listen(alone);
        let is_refused =
            |options| listen_tcp(address, options).unwrap_err().kind() == io::ErrorKind::AddrInUse;
        assert!(is_refused(&joins) && is_refused(&alone));
        assert_eq!(check_tcp(address).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        share_port(&first).unwrap();
        let second = listen_tcp(address, &joins).unwrap();
        assert!(is_refused(&alone));
        let clients: Vec<_> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
        let accepted = |listener: &OwnedFd| std::iter::from_fn(|| accept(listener).ok()).count();
        let both = [accepted(&first), accepted(&second)];
        assert_eq!(both.iter().sum::<usize>(), clients.len());
        assert!(!both.contains(&0), "connections go to both: {both:?}");
    }

    #[test]
    fn a_deferred_connection_is_accepted_when_data_came() {
        let (listener, address) = listen(ListenOptions { defer_accept: Some(5), ..Default::default() });
        let mut client = TcpStream::connect(address).unwrap();
        sleep(Duration::from_millis(20));
        assert!(would_block(accept(&listener)));
        client.write_all(b"x").unwrap();
        let accepted = accept(&listener).unwrap();
        assert_eq!(recv(&accepted, &mut [0; 8]).unwrap(), 1);
    }

    #[test]
    fn a_unix_listener_replaces_a_dead_one_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let in_use = |result: io::Result<OwnedFd>| result.unwrap_err().kind() == io::ErrorKind::AddrInUse;

        let listener = listen_unix(&path, SocketFile { mode: 0o620, ..OWN }, 8).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o620);
        assert_eq!(check_unix(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(recv(accept(&listener).unwrap(), &mut [0]).unwrap(), 0);
        check_unix(&directory.path().join("free")).unwrap();
        check_unix(&directory.path().join("none/free")).unwrap_err();
        assert_eq!(local_address(&listener).unwrap(), LocalAddress::Unix(Some(path.clone())));
        assert_eq!(domain(&listener).unwrap(), Domain::Unix);
        assert!(in_use(listen_unix(&path, OWN, 8)), "somebody answers");
        // The attempt to find out has left a connection that is closed already.
        assert_eq!(recv(accept(&listener).unwrap(), &mut [0]).unwrap(), 0);

        let mut client = UnixStream::connect(&path).unwrap();
        let (accepted, peer) = accept_from(&listener).unwrap();
        assert_eq!(peer, PeerAddress::Unix);
        assert_eq!(send(&accepted, b"hello").unwrap(), 5);
        client.read_exact(&mut [0; 5]).unwrap();

        drop(listener);
        assert!(path.exists());
        let next = listen_unix(&path, OWN, 8).unwrap();
        UnixStream::connect(&path).unwrap();
        accept(&next).unwrap();

        let file = directory.path().join("file");
        std::fs::write(&file, "kept").unwrap();
        assert!(in_use(listen_unix(&file, OWN, 8)));
        assert_eq!(std::fs::read(&file).unwrap(), b"kept");
    }

    #[test]
    fn a_unix_listener_with_a_full_backlog_is_not_dead() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let _listener = listen_unix(&path, OWN, 0).unwrap();
        let _waiting = UnixStream::connect(&path).unwrap();
        assert_eq!(listen_unix(&path, OWN, 0).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn receives_until_nothing_is_left_and_until_the_end() {
        let (accepted, mut client) = connection();
        let mut buffer = [0; 3];
        assert!(would_block(recv(&accepted, &mut buffer)));
        client.write_all(b"12345").unwrap();
        assert_eq!(unread_bytes(&accepted).unwrap(), 5);
        assert_eq!((recv(&accepted, &mut buffer).unwrap(), &buffer), (3, b"123"));
        assert_eq!((recv(&accepted, &mut buffer).unwrap(), &buffer[..2]), (2, b"45".as_slice()));
        assert!(would_block(recv(&accepted, &mut buffer)));
        client.shutdown(Side::Write).unwrap();
        assert_eq!(recv(&accepted, &mut buffer).unwrap(), 0);
    }

    #[test]
    fn sends_slices_in_order_as_far_as_there_is_room() {
        let (accepted, mut client) = connection();
        let slices = [Slice::new(b"one "), Slice::new(b""), Slice::new(b"two")];
        assert_eq!(write_vectored(&accepted, &slices).unwrap(), 7);
        let mut buffer = [0; 7];
        client.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"one two");

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
        // The kernel waits for 200 ms at most: on a machine so busy that it takes us longer, try again.
        let held_back = (0..20).any(|_| {
            let (accepted, mut client) = connection();
            assert_eq!(send_more(&accepted, &[Slice::new(b"he"), Slice::new(b"ad ")]).unwrap(), 5);
            let nothing_yet = unread_bytes(&client).unwrap() == 0;
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
            let nothing_yet = unread_bytes(&client).unwrap() == 0;
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
    fn a_reset_is_an_error_to_the_peer_and_a_close_is_not() {
        let (accepted, mut client) = connection();
        send(&accepted, b"part").unwrap();
        reset(accepted).unwrap();
        let error = client.read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);

        let (accepted, mut client) = connection();
        send(&accepted, b"part").unwrap();
        drop(accepted);
        assert_eq!(client.read_to_end(&mut Vec::new()).unwrap(), 4);
    }

    #[test]
    fn sending_to_a_closed_connection_is_an_error_not_a_signal() {
        let (near, far) = UnixStream::pair().unwrap();
        drop(far);
        assert_eq!(send(&near, b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(send_more(&near, &[Slice::new(b"x")]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_blocking_socket_waits_no_longer_than_its_timeout() {
        let (accepted, mut client) = connection();
        set_nonblocking(&accepted, false).unwrap();
        set_receive_timeout(&accepted, Some(Duration::from_millis(20))).unwrap();
        assert!(would_block(recv(&accepted, &mut [0])));
        set_receive_timeout(&accepted, None).unwrap();
        client.write_all(b"x").unwrap();
        assert_eq!(recv(&accepted, &mut [0]).unwrap(), 1);
        set_nonblocking(&accepted, true).unwrap();
        assert!(would_block(recv(&accepted, &mut [0])));
    }

    #[test]
    fn tells_listeners_from_other_descriptors() {
        let (accepted, client) = connection();
        let (listener, _) = listen(ListenOptions::default());
        assert!(is_listening(&listener).unwrap());
        assert!(!is_listening(&accepted).unwrap());
        assert_eq!(domain(&client).unwrap(), Domain::Inet);
        let file = tempfile::tempfile().unwrap();
        assert_eq!(is_listening(&file).unwrap_err().raw_os_error(), Some(libc::ENOTSOCK));
        let (unnamed, _) = UnixStream::pair().unwrap();
        assert_eq!(local_address(&unnamed).unwrap(), LocalAddress::Unix(None));
        let _std_listener: UnixListener = UnixListener::from(listener);
    }

    #[test]
    fn a_listener_that_refuses_new_handshakes_keeps_those_it_has() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (listener, address) = listen_at(address, ListenOptions::default());
            let mut queued = TcpStream::connect(address).unwrap();
            queued.write_all(b"early").unwrap();
            refuse_new_handshakes(&listener).unwrap();

            let late = begin_connecting(address);
            assert!(!is_connected(&late, 200));
            let accepted = accept(&listener).unwrap();
            assert_eq!(recv(&accepted, &mut [0; 8]).unwrap(), 5);
            assert!(would_block(accept(&listener)), "the late one is not in the queue");

            send(&accepted, b"reply").unwrap();
            drop(listener);
            assert_eq!(send(&accepted, b" and more").unwrap(), 9, "closing resets nobody");
            drop(accepted);
            let mut reply = String::new();
            queued.read_to_string(&mut reply).unwrap();
            assert_eq!(reply, "reply and more");
        }
    }

    #[test]
    fn refusing_holds_until_it_is_taken_back() {
        let (listener, address) = listen(ListenOptions::default());
        answer_new_handshakes(&listener).expect("there is nothing to take back");
        let holder = listener.try_clone().unwrap();
        refuse_new_handshakes(&listener).unwrap();
        drop(listener);
        assert!(!is_connected(&begin_connecting(address), 200), "who refused is gone, and it still holds");
        answer_new_handshakes(&holder).unwrap();
        assert!(is_connected(&begin_connecting(address), 200));
    }

    #[test]
    fn what_listens_no_more_leaves_its_address_to_others() {
        let (listener, address) = listen(ListenOptions::default());
        let held_elsewhere = listener.try_clone().unwrap();
        stop_listening(&listener).unwrap();
        assert!(!is_connected(&begin_connecting(address), 200));
        let successor = listen_tcp(address, &ListenOptions::default()).unwrap();
        TcpStream::connect(address).unwrap();
        assert!(accept(&successor).is_ok());
        drop((listener, held_elsewhere));

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = listen_unix(&path, OWN, 8).unwrap();
        stop_listening(&listener).unwrap();
        let _successor = listen_unix(&path, OWN, 8).expect("nobody listens there");
        UnixStream::connect(&path).unwrap();
    }

    #[test]
    fn a_handshake_under_way_finishes_after_new_ones_are_refused() {
        // A deferred connection is what the kernel keeps as a handshake under way: it ends with the first
        // data.
        let (listener, address) = listen(ListenOptions { defer_accept: Some(5), ..Default::default() });
        let mut client = TcpStream::connect(address).unwrap();
        refuse_new_handshakes(&listener).unwrap();
        assert!(would_block(accept(&listener)));
        assert!(!is_connected(&begin_connecting(address), 50));
        client.write_all(b"request").unwrap();
        let accepted = accept(&listener).unwrap();
        assert_eq!(recv(&accepted, &mut [0; 8]).unwrap(), 7);
        send(&accepted, b"reply").unwrap();
        client.write_all(b"again").unwrap();
        assert_eq!(recv(&accepted, &mut [0; 8]).unwrap(), 5);
        drop(accepted);
        let mut reply = String::new();
        client.read_to_string(&mut reply).unwrap();
        assert_eq!(reply, "reply");
    }
}
