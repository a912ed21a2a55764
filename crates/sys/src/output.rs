//! Writes that never wait, to outputs that other processes may have open, and to outputs without a
//! reader.
//!
//! Whether a write waits is a flag of the *open file* (`O_NONBLOCK`, open(2)). A process shares the open
//! file of its standard error with the shell that started it, and with the shell's other programs. They
//! do not expect the flag to change, so this program must not set it. A pipe or a terminal can be opened
//! a second time, which gives the program its own open file. If that is not permitted (for a pipe that
//! another user created), the program checks for room before each write.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{
    Access, AtFlags, CWD, FileType, Gid, Mode, OFlags, PROC_SUPER_MAGIC, Uid, accessat, fchown, fcntl_getfl,
    fcntl_setfl, fstat, fstatfs, open, openat, readlinkat,
};
use rustix::io::{Errno, ReadWriteFlags, pwritev2, write};
use rustix::net::{SendFlags, send};
use rustix::pipe::PIPE_BUF;

/// An output that never waits. For a file on a disk, a write may wait only for the disk.
#[derive(Debug)]
pub struct Output {
    descriptor: OwnedFd,
    way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The open file has the flag not to wait.
    Plain,
    /// A socket. Each call on it says whether to wait.
    Socket,
    /// The open file is shared with other processes, and may wait.
    LookFirst,
}

/// The user and the group that a process of root is going to become, by number. Root opens files for
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heir {
    /// The user.
    pub user: u32,
    /// The group.
    pub group: u32,
}

/// Used instead of an offset, because a pipe has none (-1 in pwritev2(2)).
const AT_THE_END: u64 = u64::MAX;

impl Output {
    /// Appends to the file at `path`, which is created if it is missing.
    ///
    /// # Errors
    ///
    /// Those of open(2); `ENXIO` for a pipe without a reader.
    pub fn append(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file =
            options.append(true).create(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
        Ok(Self::own(file.into()))
    }

    /// Appends to the file at `path`, in a process of root that is going to become `heir`. A new file
    /// belongs to the heir, so that the heir can reopen it. An existing file keeps its owner.
    ///
    /// Symbolic links in the path are followed only in directories that only root can write to. Any other
    /// user with write permission could have made the link, and root would write to a file of that user's
    /// choice. For the same reason, in a directory that others can write to, root refuses a file that
    /// has other names and does not belong to the heir.
    ///
    /// # Errors
    ///
    /// As for [`append`](Self::append); `ELOOP` if there is such a link, `EPERM` if there is such a file.
    pub fn append_for(path: &Path, heir: Heir) -> io::Result<Self> {
        let Place { directory, name, is_ours } = place_of(path)?;
        let mut flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        flags.set(OFlags::NOFOLLOW, !is_ours);
        match openat(&directory, &name, flags | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(0o666)) {
            Ok(made) => {
                fchown(&made, Some(Uid::from_raw(heir.user)), Some(Gid::from_raw(heir.group)))?;
                Ok(Self::own(made))
            }
            Err(Errno::EXIST) => {
                let known = openat(&directory, &name, flags, Mode::empty())?;
                let stat = fstat(&known)?;
                if stat.st_nlink > 1 && stat.st_uid != heir.user && !is_roots(&directory)? {
                    return Err(Errno::PERM.into());
                }
                Ok(Self::own(known))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes over an open file that does not wait.
    pub fn own(descriptor: OwnedFd) -> Self {
        Self { descriptor, way: Way::Plain }
    }

    /// Writes to the open file of `shared`, whose flags stay unchanged.
    ///
    /// # Errors
    ///
    /// No descriptor is available.
    pub fn sharing(shared: impl AsFd) -> io::Result<Self> {
        let shared = shared.as_fd();
        let way = match FileType::from_raw_mode(fstat(shared)?.st_mode) {
            FileType::Socket => Way::Socket,
            FileType::Fifo | FileType::CharacterDevice => match reopen(shared) {
                Ok(own) => return Ok(Self::own(own.into())),
                Err(_) => Way::LookFirst,
            },
            _ => Way::Plain,
        };
        Ok(Self { descriptor: shared.try_clone_to_owned()?, way })
    }

    /// Writes as much as there is room for. A pipe accepts up to `PIPE_BUF` bytes (4,096) completely or
    /// not at all, pipe(7).
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no room; those of write(2).
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self.way {
            Way::Plain => write(&self.descriptor, bytes),
            Way::Socket => send(&self.descriptor, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            Way::LookFirst => self.write_where_there_is_room(&bytes[..bytes.len().min(PIPE_BUF)]),
        };
        Ok(written?)
    }

    /// If a pipe has room for one byte, it has room for `PIPE_BUF`, unless another process takes it at
    /// the same moment. Kernels from 6.4 on do not wait in that case either.
    fn write_where_there_is_room(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let mut room = [PollFd::new(&self.descriptor, PollFlags::OUT)];
        if poll(&mut room, Some(&Timespec::default()))? == 0 {
            return Err(Errno::AGAIN);
        }
        match pwritev2(&self.descriptor, &[IoSlice::new(bytes)], AT_THE_END, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write(&self.descriptor, bytes),
            other => other,
        }
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Most symbolic links that are followed in one path, as in the kernel (`path_resolution(7)`).
const MOST_LINKS: usize = 40;

/// The place where a file exists or will be created.
struct Place {
    directory: OwnedFd,
    name: OsString,
    /// The name is a link in `/proc/self/fd` to a file that this process has open, as for `/dev/stdout`.
    /// Any other name is not a link.
    is_ours: bool,
}

/// Finds the place of a file. Follows only links that only root can have made.
fn place_of(path: &Path) -> Result<Place, Errno> {
    let from = |path: &Path| {
        let start = if path.is_absolute() { "/" } else { "." };
        open(start, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    };
    let steps = |path: &Path| -> Vec<OsString> {
        let names = path.components().filter(|component| *component != Component::RootDir);
        names.map(|component| component.as_os_str().to_owned()).rev().collect()
    };
    let mut directory = from(path)?;
    let mut left = steps(path);
    let mut links = 0;
    while let Some(name) = left.pop() {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = match openat(&directory, &name, flags, Mode::empty()) {
            Err(Errno::NOENT) if left.is_empty() => return Ok(Place { directory, name, is_ours: false }),
            next => next?,
        };
        if FileType::from_raw_mode(fstat(&next)?.st_mode) == FileType::Symlink {
            links += 1;
            if left.is_empty() && name != "self" && fstatfs(&directory)?.f_type == PROC_SUPER_MAGIC {
                return Ok(Place { directory, name, is_ours: true });
            }
            if links > MOST_LINKS || !is_roots(&directory)? {
                return Err(Errno::LOOP);
            }
            let target = readlinkat(&next, "", Vec::new())?;
            let target = Path::new(OsStr::from_bytes(target.to_bytes()));
            if target.is_absolute() {
                directory = from(target)?;
            }
            left.extend(steps(target));
        } else if left.is_empty() {
            return Ok(Place { directory, name, is_ours: false });
        } else {
            directory = next;
        }
    }
    Err(Errno::ISDIR)
}

/// Whether only root can write to a directory.
fn is_roots(directory: &OwnedFd) -> Result<bool, Errno> {
    let stat = fstat(directory)?;
    Ok(stat.st_uid == 0 && stat.st_mode & 0o022 == 0)
}

/// Opens the file at `path` for appending, for a caller that may wait in its writes. Opening it does not
/// wait. The file is created if it is missing.
///
/// # Errors
///
/// As for [`Output::append`].
pub fn open_to_wait(path: &Path, heir: Option<Heir>) -> io::Result<File> {
    let opened = heir.map_or_else(|| Output::append(path), |heir| Output::append_for(path, heir));
    let Output { descriptor, .. } = opened?;
    fcntl_setfl(&descriptor, fcntl_getfl(&descriptor)? - OFlags::NONBLOCK)?;
    Ok(descriptor.into())
}

/// Whether this process could append to a file, or create it if it is missing. It does neither.
/// faccessat(2).
///
/// # Errors
///
/// The reason why not.
pub fn check_append(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(file) if file.is_dir() => Err(Errno::ISDIR.into()),
        Ok(_) => Ok(accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let to_make_one = Access::WRITE_OK | Access::EXEC_OK;
            Ok(accessat(CWD, directory_of(path), to_make_one, AtFlags::EACCESS)?)
        }
        Err(error) => Err(error),
    }
}

/// Whether a path leads to this open file.
pub fn leads_to(path: &Path, file: impl AsFd) -> bool {
    let (there, open) = (path.metadata(), fstat(file));
    there.is_ok_and(|there| open.is_ok_and(|open| (there.dev(), there.ino()) == (open.st_dev, open.st_ino)))
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str() != OsStr::new("") => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

fn reopen(shared: BorrowedFd<'_>) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", shared.as_raw_fd());
    OpenOptions::new().append(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A write that waits for room would hang here.
    fn fill(output: &Output) -> usize {
        let mut written = 0;
        loop {
            match output.write(&[b'x'; 4_096]) {
                Ok(n) => written += n,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    return written;
                }
            }
        }
    }

    fn waits(descriptor: impl AsFd) -> bool {
        !fcntl_getfl(descriptor).unwrap().contains(OFlags::NONBLOCK)
    }

    #[test]
    fn a_pipe_is_opened_once_more() {
        let (mut reader, writer) = io::pipe().unwrap();
        let output = Output::sharing(&writer).unwrap();
        assert_eq!(output.way, Way::Plain);
        let written = fill(&output);
        assert!(written > 0 && waits(&writer) && !waits(&output));
        reader.read_exact(&mut vec![0; written]).unwrap();
        assert_eq!(output.write(b"again").unwrap(), 5);
    }

    /// Checks that writes do not wait for a reader, that reading makes room, and that a lost reader is
    /// reported.
    fn fills_and_goes_on(output: &Output, mut reader: impl Read, writer: impl AsFd) {
        let written = fill(output);
        assert!(written > 0 && waits(writer));
        reader.read_exact(&mut vec![0; written]).unwrap();
        assert_eq!(output.write(b"again").unwrap(), 5);
        drop(reader);
        assert_eq!(output.write(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_pipe_of_somebody_elses_is_looked_at_first() {
        let (reader, writer) = io::pipe().unwrap();
        let output = Output { descriptor: writer.try_clone().unwrap().into(), way: Way::LookFirst };
        fills_and_goes_on(&output, reader, &writer);
    }

    #[test]
    fn a_socket_is_told_with_each_call() {
        let (reader, writer) = UnixStream::pair().unwrap();
        let output = Output::sharing(&writer).unwrap();
        assert_eq!(output.way, Way::Socket);
        fills_and_goes_on(&output, reader, &writer);
    }

    #[test]
    fn a_file_is_appended_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, "before ").unwrap();
        assert_eq!(Output::append(&path).unwrap().write(b"after").unwrap(), 5);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before after");
    }

    #[test]
    fn what_root_makes_for_another_is_theirs() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let (path, heir) = (directory.path().join("log"), Heir { user: 1, group: 2 });
        let whose = || path.metadata().map(|file| (file.uid(), file.gid())).unwrap();
        assert_eq!(Output::append_for(&path, heir).unwrap().write(b"a").unwrap(), 1);
        assert_eq!(whose(), (1, 2));
        std::os::unix::fs::chown(&path, Some(3), Some(3)).unwrap();
        assert_eq!(Output::append_for(&path, heir).unwrap().write(b"b").unwrap(), 1);
        assert_eq!((whose(), std::fs::read_to_string(&path).unwrap().as_str()), ((3, 3), "ab"));
        // A link is followed if only root can have made it.
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(leads_to(&link, Output::append_for(&link, heir).unwrap()));
        std::os::unix::fs::chown(directory.path(), Some(1), None).unwrap();
        assert_eq!(Output::append_for(&link, heir).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        Output::append_for(&path, heir).unwrap();
        Output::append_for(Path::new("/"), heir).unwrap_err();
        // Nor is a directory followed that another user can replace by a link, nor a name of another
        // user's file.
        std::fs::create_dir(directory.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", directory.path().join("logs")).unwrap();
        let by_link = directory.path().join("logs/log");
        assert_eq!(Output::append_for(&by_link, heir).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        std::fs::hard_link(&path, directory.path().join("other name")).unwrap();
        assert_eq!(Output::append_for(&path, heir).unwrap_err().raw_os_error(), Some(libc::EPERM));
        std::os::unix::fs::chown(directory.path(), Some(0), None).unwrap();
        Output::append_for(&path, heir).unwrap();
        Output::append_for(&by_link, heir).unwrap();
        assert!(directory.path().join("real/log").exists());
    }

    #[test]
    fn what_is_open_can_be_named() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let output = Output::append_for(Path::new(&path), Heir { user, group });
        // A process that is not root cannot follow links there, and opens logs for no other user.
        if rustix::process::geteuid().is_root() {
            assert_eq!(output.unwrap().write(b"a").unwrap(), 1);
            let mut read = [0; 1];
            reader.read_exact(&mut read).unwrap();
            assert_eq!(read, *b"a");
        }
    }

    #[test]
    fn what_can_be_appended_to_is_told_without_doing_so() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        check_append(&path).unwrap();
        assert!(!path.exists());
        std::fs::write(&path, "").unwrap();
        check_append(&path).unwrap();
        check_append(Path::new("/dev/null")).unwrap();
        for (path, why) in [
            (directory.path().to_owned(), io::ErrorKind::IsADirectory),
            (directory.path().join("none/log"), io::ErrorKind::NotFound),
            (path.join("log"), io::ErrorKind::NotADirectory),
        ] {
            assert_eq!(check_append(&path).unwrap_err().kind(), why, "{}", path.display());
        }
    }

    #[test]
    fn a_named_pipe_without_a_reader_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(Output::append(&path).unwrap_err().raw_os_error(), Some(libc::ENXIO));
        assert_eq!(open_to_wait(&path, None).unwrap_err().raw_os_error(), Some(libc::ENXIO));
        let _reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
        assert!(waits(open_to_wait(&path, None).unwrap()) && !waits(Output::append(&path).unwrap()));
    }
}
