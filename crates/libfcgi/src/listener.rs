//! Listening sockets of an application, and which web servers may connect.

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

    /// Wraps a socket that already listens.
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

/// Whether the application accepts no more requests.
static SHUTS_DOWN: AtomicBool = AtomicBool::new(false);

/// Stops accepting requests in all threads. A thread that waits for a request notices with the next signal or
/// request. A signal handler may call this.
pub fn shut_down() {
    SHUTS_DOWN.store(true, Ordering::Relaxed);
}

/// Whether [`shut_down`] was called.
pub(crate) fn shuts_down() -> bool {
    SHUTS_DOWN.load(Ordering::Relaxed)
}

/// Waits for a connection from a permitted web server. `None`: the application shuts down. With
/// `until_signal` a handled signal also ends the wait.
///
/// # Errors
///
/// No connection can be accepted. With `until_signal`, `Interrupted` after a handled signal.
pub(crate) fn accept(listener: BorrowedFd<'_>, until_signal: bool) -> io::Result<Option<Connection>> {
    let settings = Settings::of_process()?;
    let accepted = accept_socket(listener, until_signal, welcome())?;
    Ok(accepted.map(|(socket, peer)| Connection::new(socket, peer == PeerAddress::Unix, settings.transports)))
}

/// Like [`accept`], but returns the socket. If `welcome` is given, a TCP peer must have one of these
/// addresses.
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
            // The socket has been made non-blocking.
            (io::ErrorKind::WouldBlock, _) => {
                sys::poll::wait_for([(listener, Interest::READABLE)], None)?;
            }
            // A signal, or an error of a connection that is gone.
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

/// Parses addresses separated by commas. Invalid entries are ignored.
pub(crate) fn addresses(list: &str) -> Vec<IpAddr> {
    list.split(',').filter_map(|address| address.trim().parse().ok()).collect()
}

/// Reads all settings from the environment of the process, before the program changes it.
pub(crate) fn read_environment() -> io::Result<()> {
    welcome();
    Settings::of_process().map(|_| ())
}

/// Creates a Unix socket that listens at `path`. A socket file at which no program listens is replaced. The
/// umask sets the permission to connect.
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
