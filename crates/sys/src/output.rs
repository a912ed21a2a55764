//! Writing to what others may have open as well, and to what nobody may read, without ever waiting.
//!
//! Whether a write waits is a flag of the *open file* (`O_NONBLOCK`, open(2)), which a standard error has in
//! common with the shell that started the program and with whatever else that started: they would not expect
//! it, so it isn't ours to set. A pipe or a terminal can be opened once more, which gives an open file of our
//! own. Where that is not permitted (a pipe that another user has made), there is room to be looked for
//! before each write.

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

/// Somewhere to write to without waiting; for a file on a disk, without waiting for anything but the disk.
#[derive(Debug)]
pub struct Output {
    descriptor: OwnedFd,
    way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The open file is one that does not wait.
    Plain,
    /// It is a socket, of which each call says whether it waits.
    Socket,
    /// The open file is others' as well, and may wait.
    LookFirst,
}

/// Whom root opens a file for: the user and the group that the process goes on as, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heir {
    /// The user.
    pub user: u32,
    /// The group.
    pub group: u32,
}

/// Instead of an offset, as a pipe has none (-1 in pwritev2(2)).
const AT_THE_END: u64 = u64::MAX;

impl Output {
    /// Appends to the file at `path`, which is made if it is missing.
    ///
    /// # Errors
    ///
    /// Those of open(2); `ENXIO` where it is a pipe that nobody reads.
    pub fn append(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file =
            options.append(true).create(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
        Ok(Self::own(file.into()))
    }

    /// Appends to the file at `path` in a process of root's that goes on as `heir`: a file that is made is
    /// theirs, so that they can open it anew. What is there already stays whose it is.
    ///
    /// A symbolic link, on the way or at its end, is followed out of a directory that nobody but root can
    /// write to. Whoever else can might have put it there, and root write to a file of their choice. For the
    /// same reason a file in such a directory that has other names and is not theirs is none to write to.
    ///
    /// # Errors
    ///
    /// As of [`append`](Self::append); `ELOOP` where there is such a link, `EPERM` where there is such a
    /// file.
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

    /// Takes over an open file that waits for nobody.
    pub fn own(descriptor: OwnedFd) -> Self {
        Self { descriptor, way: Way::Plain }
    }

    /// Writes where `shared` leads to, whose flags stay as they are.
    ///
    /// # Errors
    ///
    /// There is no descriptor to be had.
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

    /// Writes as much as there is room for. Up to `PIPE_BUF` bytes (4,096) go into a pipe all or not at all,
    /// pipe(7).
    ///
    /// # Errors
    ///
    /// `WouldBlock` where there is no room; those of write(2).
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self.way {
            Way::Plain => write(&self.descriptor, bytes),
            Way::Socket => send(&self.descriptor, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            Way::LookFirst => self.write_where_there_is_room(&bytes[..bytes.len().min(PIPE_BUF)]),
        };
        Ok(written?)
    }

    /// Room for one byte of a pipe is room for `PIPE_BUF`, unless somebody else takes it at the same moment;
    /// kernels from 6.4 on don't wait in that case either.
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

/// Most symbolic links that are followed on one way, as in the kernel (`path_resolution(7)`).
const MOST_LINKS: usize = 40;

/// Where a file is or is to be made.
struct Place {
    directory: OwnedFd,
    name: OsString,
    /// It is one that this process has open, by its link in `/proc/self/fd`, as `/dev/stdout` leads to. Any
    /// other name is no link.
    is_ours: bool,
}

/// Finds the place of a file, by links that only root can have made.
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

/// Whether nobody but root can write to a directory.
fn is_roots(directory: &OwnedFd) -> Result<bool, Errno> {
    let stat = fstat(directory)?;
    Ok(stat.st_uid == 0 && stat.st_mode & 0o022 == 0)
}

/// Opens the file at `path` to be appended to by who may wait, without waiting in opening it. It is made if
/// it is missing.
///
/// # Errors
///
/// As of [`Output::append`].
pub fn open_to_wait(path: &Path, heir: Option<Heir>) -> io::Result<File> {
    let opened = heir.map_or_else(|| Output::append(path), |heir| Output::append_for(path, heir));
    let Output { descriptor, .. } = opened?;
    fcntl_setfl(&descriptor, fcntl_getfl(&descriptor)? - OFlags::NONBLOCK)?;
    Ok(descriptor.into())
}

/// Whether a file could be appended to, or made where it is missing, by this process, which does neither.
/// faccessat(2).
///
/// # Errors
///
/// Why not.
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

/// Whether a path leads to an open file.
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

    /// Whoever waits for room hangs here.
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

    /// What nobody reads is not waited for, what is read makes room, and a reader that has gone is told.
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
        // A link is followed as long as only root can have made it.
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(leads_to(&link, Output::append_for(&link, heir).unwrap()));
        std::os::unix::fs::chown(directory.path(), Some(1), None).unwrap();
        assert_eq!(Output::append_for(&link, heir).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        Output::append_for(&path, heir).unwrap();
        Output::append_for(Path::new("/"), heir).unwrap_err();
        // Nor is a directory on the way that somebody else can exchange for a link, nor a name of somebody
        // else's file.
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
        // Whoever is not root can't follow links there, and has nobody to open logs for.
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
