//! Where web servers connect to, and whom of them to hear.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use sys::event::Interest;
use sys::socket::{PeerAddress, accept_blocking_from};

use crate::connection::Connection;
use crate::settings::Settings;

/// A listening socket. Any number of threads and processes may accept from it.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
}

impl Listener {
    /// The socket that a FastCGI application is started with: standard input (FastCGI 1.0, section 2.2).
    ///
    /// # Errors
    ///
    /// Standard input is closed, or a setting in the environment has a value that it can't have.
    pub fn inherited() -> io::Result<Self> {
        Self::of(io::stdin().as_fd().try_clone_to_owned()?)
    }

    /// A socket that listens already.
    ///
    /// # Errors
    ///
    /// A setting in the environment has a value that it can't have.
    pub fn of(socket: impl Into<OwnedFd>) -> io::Result<Self> {
        Settings::of_process()?;
        Ok(Self { socket: socket.into() })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether requests are not to be accepted any more.
static SHUTS_DOWN: AtomicBool = AtomicBool::new(false);

/// Has no more requests accepted, by any thread: who waits for one notices with the next signal or request.
/// May be called by a signal handler.
pub fn shut_down() {
    SHUTS_DOWN.store(true, Ordering::Relaxed);
}

/// Whether that was asked for.
pub(crate) fn shuts_down() -> bool {
    SHUTS_DOWN.load(Ordering::Relaxed)
}

/// Waits for a connection of a web server that may have one. `None`: the application shuts down. With
/// `until_signal` a signal that is handled ends the wait as well.
///
/// # Errors
///
/// No connection can be accepted; or a signal, as said, with the kind `Interrupted`.
pub(crate) fn accept(listener: BorrowedFd<'_>, until_signal: bool) -> io::Result<Option<Connection>> {
    let settings = Settings::of_process()?;
    let accepted = accept_socket(listener, until_signal, welcome())?;
    Ok(accepted.map(|(socket, peer)| Connection::new(socket, peer == PeerAddress::Unix, settings.transports)))
}

/// The same for a socket alone, of a peer at one of these addresses if there are any.
pub(crate) fn accept_socket(
    listener: BorrowedFd<'_>,
    until_signal: bool,
    welcome: Option<&[IpAddr]>,
) -> io::Result<Option<(OwnedFd, PeerAddress)>> {
    loop {
        if shuts_down() {
            return Ok(None);
        }
        let error = match accept_blocking_from(listener) {
            Ok((_, PeerAddress::Inet(peer)))
                if welcome.is_some_and(|listed| !listed.contains(&peer.ip().to_canonical())) =>
            {
                continue;
            }
            Ok(accepted) => return Ok(Some(accepted)),
            Err(error) => error,
        };
        match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::Interrupted, _) if until_signal => return Err(error),
            // Somebody made the socket one that does not wait.
            (io::ErrorKind::WouldBlock, _) => {
                sys::poll::wait_for([(listener, Interest::READABLE)], None)?;
            }
            // A signal, or what concerns a connection that is gone.
            (io::ErrorKind::Interrupted, _)
            | (_, Some(libc::ECONNABORTED | libc::EPROTO | libc::ECONNRESET | libc::ETIMEDOUT)) => {}
            _ => return Err(error),
        }
    }
}

/// The addresses that web servers may connect from, if the environment lists them (FastCGI 1.0, section 3.2).
fn welcome() -> Option<&'static [IpAddr]> {
    static WELCOME: OnceLock<Option<Vec<IpAddr>>> = OnceLock::new();
    WELCOME.get_or_init(|| Some(addresses(&std::env::var("FCGI_WEB_SERVER_ADDRS").ok()?))).as_deref()
}

/// Addresses with commas between them; what is none is nobody's.
pub(crate) fn addresses(list: &str) -> Vec<IpAddr> {
    list.split(',').filter_map(|address| address.trim().parse().ok()).collect()
}

/// Reads all that is taken from the environment of the process, before that changes.
pub(crate) fn read_environment() -> io::Result<()> {
    welcome();
    Settings::of_process().map(|_| ())
}

/// A Unix socket that listens at `path`. A file of a socket that nobody listens at is replaced; who may
/// connect the umask decides.
pub(crate) fn listen_at(path: &Path, backlog: u32) -> io::Result<OwnedFd> {
    match sys::socket::check_unix(path) {
        Ok(()) if path.exists() => std::fs::remove_file(path)?,
        other => other?,
    }
    let socket = OwnedFd::from(UnixListener::bind(path)?);
    sys::socket::set_backlog(&socket, backlog)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_listed_with_commas() {
        assert_eq!(addresses("127.0.0.1, ::1,x"), ["127.0.0.1", "::1"].map(|a| a.parse::<IpAddr>().unwrap()));
    }
}
