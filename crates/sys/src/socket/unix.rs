//! Listening on a Unix socket. A process that has exited may have left its socket file behind.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::{NEW, listen};

/// The owner and mode of a Unix socket's file. They decide which processes may connect, which requires
/// write permission. unix(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketFile {
    /// Its permission bits, independent of the umask.
    pub mode: u32,
    /// Its owner, by number. `None`: the user of the process.
    pub owner: Option<u32>,
    /// Its group, by number. `None`: the group of the process.
    pub group: Option<u32>,
}

/// A Unix socket that listens at `path`, with such a file. No client can connect before the file has its
/// final owner and mode. unix(7).
///
/// If a socket file already exists, it is removed if no process answers on it. Otherwise this fails with
/// `EADDRINUSE`. A file of another kind is never removed.
///
/// # Errors
///
/// The address is not available, or the file's owner cannot be changed: `EPERM` for every user except
/// root.
pub fn listen_unix(path: &Path, file: SocketFile, backlog: u32) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, NEW, None)?;
    // The file gets the mode of the socket that is bound. So no other user can reach it until it is
    // complete, and the umask, which all threads share, does not change.
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
        Ok(net::listen(&socket, listen::backlog(backlog))?)
    };
    if let Err(error) = complete() {
        // This call created the file.
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    Ok(socket)
}

/// Whether [`listen_unix`] could listen at the path. This creates nothing.
///
/// # Errors
///
/// `EADDRINUSE` if a process answers, or if the file is not a socket. Otherwise, the reason why no file
/// could be created.
pub fn check_unix(path: &Path) -> io::Result<()> {
    let address = SocketAddrUnix::new(path)?;
    match is_stale(path, &address) {
        Ok(true) => Ok(()),
        Ok(false) => Err(rustix::io::Errno::ADDRINUSE.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => crate::output::check_append(path),
        Err(error) => Err(error),
    }
}

/// Whether this process may connect to the socket at a path, which requires write permission, unix(7).
/// This makes no connection. faccessat(2).
///
/// # Errors
///
/// The reason why not.
pub fn check_connect(path: &Path) -> io::Result<()> {
    Ok(accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)?)
}

/// A Unix socket that listens under a name chosen by the kernel (unix(7), "Autobind feature"), and a
/// connection that waits there to be accepted.
pub fn listen_with_client() -> io::Result<(OwnedFd, OwnedFd)> {
    let listener = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, NEW, None)?;
    let client = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    net::bind(&listener, &SocketAddrUnix::new_unnamed())?;
    net::listen(&listener, 1)?;
    net::connect(&client, &net::getsockname(&listener)?)?;
    Ok((listener, client))
}

fn is_stale(path: &Path, address: &SocketAddrUnix) -> io::Result<bool> {
    if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
        return Ok(false);
    }
    let probe = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, NEW, None)?;
    // A full backlog (`EAGAIN`) also means that a process listens.
    Ok(matches!(net::connect(&probe, address), Err(rustix::io::Errno::CONNREFUSED)))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::socket::tests::OWN;
    use crate::socket::{LocalAddress, PeerAddress, accept, accept_from, local_address, recv, send};

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
        assert!(in_use(listen_unix(&path, OWN, 8)), "somebody answers");
        // The check for a listening process has left a connection, which is already closed.
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
}
