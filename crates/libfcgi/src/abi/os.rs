//! `fcgios.h`: libfcgi's wrappers of system calls, which are part of its interface. The program `cgi-fcgi`
//! uses them.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::ptr;
use std::sync::Mutex;

use libc::size_t;

use super::EOF;
use crate::listener;

/// A callback that gets the number of bytes read or written.
type AsyncProc = unsafe extern "C" fn(data: *mut c_void, length: c_int);

/// A read or write that is to be done as soon as the descriptor is ready.
struct Pending {
    fd: c_int,
    is_write: bool,
    buffer: *mut c_void,
    length: c_int,
    proc: AsyncProc,
    data: *mut c_void,
}

// SAFETY: the pointers belong to the program, and its callback runs in the thread that waits.
unsafe impl Send for Pending {}

static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());

extern "C" fn ignore(_: c_int) {}

extern "C" fn shut_down(_: c_int) {
    listener::shut_down();
}

/// Installs a handler for a signal that has none yet, so that the signal interrupts waits. Ignoring the
/// signal would not do, because executed programs would inherit that.
///
/// # Safety
///
/// The handler does what signal-safety(7) allows.
unsafe fn handle(signal: c_int, handler: extern "C" fn(c_int)) {
    // SAFETY: both are system structures, all zeros are valid, and they live for the calls.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, ptr::null(), &raw mut before) == 0 && before.sa_sigaction == libc::SIG_DFL
        {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn OS_LibInit(_stdio: *mut c_int) -> c_int {
    // SAFETY: one handler does nothing, the other stores to an atomic.
    unsafe {
        handle(libc::SIGPIPE, ignore);
        handle(libc::SIGUSR1, shut_down);
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn OS_LibShutdown() {
    pending().clear();
}

#[unsafe(no_mangle)]
extern "C" fn OS_ShutdownPending() {
    listener::shut_down();
}

/// Listens at `path`. If that is `:PORT` or `HOST:PORT`, listens at the port instead, on all addresses if the
/// host is empty or `*`. The socket is blocking, and executed programs inherit it.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn OS_CreateLocalIpcFd(path: *const c_char, backlog: c_int) -> c_int {
    if path.is_null() {
        return EOF;
    }
    // SAFETY: the caller's pointer, as in the header.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let backlog = u32::try_from(backlog).unwrap_or(0);
    let socket = match address(path) {
        Some(address) => {
            let options = sys::socket::ListenOptions { backlog, ..sys::socket::ListenOptions::default() };
            sys::socket::listen_tcp(address, &options)
        }
        None => listener::listen_at(Path::new(OsStr::from_bytes(path)), backlog),
    };
    socket.and_then(leave_to_programs).unwrap_or(EOF)
}

/// The address that `HOST:PORT` names.
fn address(text: &[u8]) -> Option<SocketAddr> {
    let (host, port) = str::from_utf8(text).ok()?.rsplit_once(':')?;
    let port: u16 = port.parse().ok().filter(|&port| port != 0)?;
    match host {
        "" | "*" => Some(([0, 0, 0, 0], port).into()),
        host => std::net::ToSocketAddrs::to_socket_addrs(&(host, port)).ok()?.next(),
    }
}

fn leave_to_programs(socket: OwnedFd) -> std::io::Result<c_int> {
    sys::socket::set_nonblocking(&socket, false)?;
    let number = socket.into_raw_fd();
    // SAFETY: it is open, and owned only here.
    unsafe { libc::fcntl(number, libc::F_SETFD, 0) };
    Ok(number)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OS_FcgiConnect(path: *mut c_char) -> c_int {
    if path.is_null() {
        return EOF;
    }
    // SAFETY: the caller's pointer, as in the header.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let socket = match address(path) {
        Some(address) => std::net::TcpStream::connect(address).map(OwnedFd::from),
        None => std::os::unix::net::UnixStream::connect(OsStr::from_bytes(path)).map(OwnedFd::from),
    };
    socket.map_or(EOF, IntoRawFd::into_raw_fd)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OS_Read(fd: c_int, buffer: *mut c_char, length: size_t) -> c_int {
    // SAFETY: the caller's, as in the header.
    unsafe { libc::read(fd, buffer.cast(), length.min(c_int::MAX as usize)) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn OS_Write(fd: c_int, buffer: *mut c_char, length: size_t) -> c_int {
    // SAFETY: the caller's, as in the header.
    unsafe { libc::write(fd, buffer.cast(), length.min(c_int::MAX as usize)) as c_int }
}

/// Starts a program with `listen` as its standard input.
#[unsafe(no_mangle)]
unsafe extern "C" fn OS_SpawnChild(program: *mut c_char, listen: c_int) -> c_int {
    if program.is_null() || listen < 0 {
        return EOF;
    }
    // SAFETY: the caller's pointer, as in the header; the socket is open for the call.
    let (program, listen) = unsafe { (CStr::from_ptr(program), BorrowedFd::borrow_raw(listen)) };
    let Ok(listen) = listen.try_clone_to_owned() else { return EOF };
    let mut command = Command::new(OsStr::from_bytes(program.to_bytes()));
    command.stdin(listen).stdout(Stdio::null()).stderr(Stdio::null());
    // The calling program must wait for the child.
    command.spawn().map_or(EOF, |_| 0)
}

#[unsafe(no_mangle)]
extern "C" fn OS_AsyncReadStdin(
    buffer: *mut c_void,
    length: c_int,
    proc: AsyncProc,
    data: *mut c_void,
) -> c_int {
    OS_AsyncRead(0, 0, buffer, length, proc, data)
}

#[unsafe(no_mangle)]
extern "C" fn OS_AsyncRead(
    fd: c_int,
    _offset: c_int,
    buffer: *mut c_void,
    length: c_int,
    proc: AsyncProc,
    data: *mut c_void,
) -> c_int {
    pending().push(Pending { fd, is_write: false, buffer, length, proc, data });
    0
}

#[unsafe(no_mangle)]
extern "C" fn OS_AsyncWrite(
    fd: c_int,
    _offset: c_int,
    buffer: *mut c_void,
    length: c_int,
    proc: AsyncProc,
    data: *mut c_void,
) -> c_int {
    pending().push(Pending { fd, is_write: true, buffer, length, proc, data });
    0
}

/// Waits until a pending read or write can be done, does all that can, and calls their callbacks.
#[unsafe(no_mangle)]
unsafe extern "C" fn OS_DoIo(timeout: *mut libc::timeval) -> c_int {
    // SAFETY: the caller's pointer, as in the header.
    let timeout_ms = unsafe { timeout.as_ref() }
        .map_or(-1, |time| (time.tv_sec.saturating_mul(1_000) + time.tv_usec / 1_000).clamp(0, 1 << 30));
    let waiting = std::mem::take(&mut *pending());
    let of = |pending: &Pending| libc::pollfd {
        fd: pending.fd,
        events: if pending.is_write { libc::POLLOUT } else { libc::POLLIN },
        revents: 0,
    };
    let mut polled: Vec<_> = waiting.iter().map(of).collect();
    // SAFETY: the pointer and the length are those of a live vector.
    let count = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout_ms as c_int) };
    for (pending_one, polled) in waiting.into_iter().zip(polled) {
        if count <= 0 || polled.revents == 0 {
            pending().push(pending_one);
            continue;
        }
        let Pending { fd, is_write, buffer, length, proc, data } = pending_one;
        // SAFETY: the program passed the buffer and the function for this purpose.
        unsafe {
            let length = length.max(0) as usize;
            let done =
                if is_write { libc::write(fd, buffer, length) } else { libc::read(fd, buffer, length) };
            proc(data, done as c_int);
        }
    }
    if count < 0 { EOF } else { 0 }
}

#[unsafe(no_mangle)]
extern "C" fn OS_Close(fd: c_int, shutdown: c_int) -> c_int {
    if fd < 0 {
        return EOF;
    }
    pending().retain(|pending| pending.fd != fd);
    // SAFETY: the program's descriptor, which the program gives up.
    unsafe {
        if shutdown != 0 {
            libc::shutdown(fd, libc::SHUT_WR);
        }
        libc::close(fd)
    }
}

#[unsafe(no_mangle)]
extern "C" fn OS_CloseRead(fd: c_int) -> c_int {
    pending().retain(|pending| pending.fd != fd || pending.is_write);
    // SAFETY: it takes any number.
    unsafe { libc::shutdown(fd, libc::SHUT_RD) }
}

/// Accepts a connection from a web server at one of the comma-separated addresses, or at any address for
/// NULL.
#[unsafe(no_mangle)]
unsafe extern "C" fn OS_Accept(listen: c_int, fail_on_intr: c_int, addresses: *const c_char) -> c_int {
    if listen < 0 {
        return EOF;
    }
    // SAFETY: the caller's pointer, as in the header; the socket is open for the call.
    let (listen, addresses) = unsafe {
        let addresses = (!addresses.is_null()).then(|| CStr::from_ptr(addresses).to_string_lossy());
        (BorrowedFd::borrow_raw(listen), addresses)
    };
    let welcome = addresses.as_deref().map(listener::addresses);
    match listener::accept_socket(listen, fail_on_intr != 0, welcome.as_deref()) {
        Ok(Some((socket, _))) => socket.into_raw_fd(),
        Ok(None) => EOF,
        Err(error) => {
            // SAFETY: errno belongs to this thread.
            unsafe { *libc::__errno_location() = error.raw_os_error().unwrap_or(libc::EIO) };
            EOF
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn OS_IpcClose(fd: c_int, shutdown: c_int) -> c_int {
    OS_Close(fd, shutdown)
}

/// Whether a socket listens, which means that it has no peer.
#[unsafe(no_mangle)]
pub(super) extern "C" fn OS_IsFcgi(sock: c_int) -> c_int {
    // SAFETY: both live for the call, and the length is that of the address.
    unsafe {
        let mut address: libc::sockaddr_storage = std::mem::zeroed();
        let mut length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        let code = libc::getpeername(sock, (&raw mut address).cast(), &raw mut length);
        (code != 0 && *libc::__errno_location() == libc::ENOTCONN).into()
    }
}

#[unsafe(no_mangle)]
extern "C" fn OS_SetFlags(fd: c_int, flags: c_int) {
    // SAFETY: it takes any number.
    unsafe {
        let before = libc::fcntl(fd, libc::F_GETFL);
        if before >= 0 {
            libc::fcntl(fd, libc::F_SETFL, before | flags);
        }
    }
}

fn pending() -> std::sync::MutexGuard<'static, Vec<Pending>> {
    PENDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
