//! Files beneath a root directory that no path can leave.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{self, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::directory::{Directory, PLACE, Resolution, probe_resolve_cached, resolve};
use super::{links, walk};

/// The flags for opening a served file. It does not wait for a pipe's writer, and a terminal does not
/// become the controlling terminal of the process.
pub(super) const READ: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// The flags for a file that is only examined.
const FOUND: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Which symbolic links in a path are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symlinks {
    /// None: a path with one fails with `ELOOP`.
    None,
    /// Those that stay beneath the root, `path_resolution(7)`; others fail with `EXDEV`. An absolute
    /// target stays beneath the root if it begins with the path that the root was opened by, or with the
    /// root's real path (which requires `/proc`).
    Beneath,
    /// Any, wherever it leads.
    Any,
}

impl Directory {
    /// Opens the root of a tree, with the best resolution that works here. open(2) with `O_PATH`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let directory = Self::open_with(path, Resolution::Kernel)?;
        match open_beneath(&directory, b".", Symlinks::Beneath) {
            Err(error) if is_refused(&error) => Ok(Self { resolution: Resolution::Stepwise, ..directory }),
            _ if probe_resolve_cached().is_err() => {
                Ok(Self { resolution: Resolution::KernelUncached, ..directory })
            }
            // Any other problem will appear when a path is opened.
            _ => Ok(directory),
        }
    }

    /// A root that is not a directory and has no files: nothing can be opened beneath it.
    /// `memfd_create(2)`.
    pub fn none() -> io::Result<Self> {
        let descriptor = super::in_memory("no directory")?.into();
        Ok(Self { descriptor, path: PathBuf::new(), resolution: Resolution::Kernel })
    }

    fn open_with(path: &Path, resolution: Resolution) -> io::Result<Self> {
        let descriptor = open_place(path)?;
        Ok(Self { descriptor, path: std::path::absolute(path)?, resolution })
    }

    /// Opens the directory that a path names now, which may be another one than this. open(2) with
    /// `O_PATH`.
    pub fn reopen(&self, path: &Path) -> io::Result<OwnedFd> {
        Ok(open_place(path)?)
    }

    /// Opens the directory that a path names now, if the kernel has the whole path in memory. Fails with
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) in the same cases as [`open_beneath_cached`].
    pub fn reopen_cached(&self, path: &Path) -> io::Result<OwnedFd> {
        Ok(match self.resolution {
            Resolution::Kernel => fs::openat2(CWD, path, PLACE, Mode::empty(), ResolveFlags::CACHED),
            Resolution::KernelUncached | Resolution::Stepwise => Err(Errno::AGAIN),
        }?)
    }
}

/// Opens the file or directory at `path` beneath `root` for reading, without waiting for the other end of
/// a pipe. openat2(2), openat(2).
///
/// The path is relative (`.` is the root itself). A path that begins with `/` or has a `..` component
/// fails with `EXDEV`, whatever the symbolic links. A path with a NUL fails with `EINVAL`.
pub fn open_beneath(root: &Directory, path: &[u8], symlinks: Symlinks) -> io::Result<OwnedFd> {
    Ok(open_as(root, path, symlinks, READ, ResolveFlags::empty())?)
}

/// Opens what [`open_beneath`] would open, if the kernel has all of it in memory. Otherwise it fails with
/// [`WouldBlock`](io::ErrorKind::WouldBlock), because it would have to read from a disk. In a sandbox
/// that does not know openat2(2), it always fails so. It also fails occasionally for what is in memory,
/// when anything on the system is mounted or renamed meanwhile. openat2(2) with `RESOLVE_CACHED`.
pub fn open_beneath_cached(root: &Directory, path: &[u8], symlinks: Symlinks) -> io::Result<OwnedFd> {
    Ok(open_as(root, path, symlinks, READ, ResolveFlags::CACHED)?)
}

/// The file at `path`, found as [`open_beneath`] finds it, to be examined. The file is not opened
/// (`O_PATH`), so neither a device nor the writer of a pipe notices.
pub fn find_beneath(root: &Directory, path: &[u8], symlinks: Symlinks) -> io::Result<OwnedFd> {
    Ok(open_as(root, path, symlinks, FOUND, ResolveFlags::empty())?)
}

/// Like [`find_beneath`], if the kernel has everything that it needs in memory.
pub fn find_beneath_cached(root: &Directory, path: &[u8], symlinks: Symlinks) -> io::Result<OwnedFd> {
    Ok(open_as(root, path, symlinks, FOUND, ResolveFlags::CACHED)?)
}

/// Whether an error of [`open_beneath`] means that the path contains a symbolic link that may not be
/// followed.
pub fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

/// Why a file could not be opened, as far as callers distinguish it. `path_resolution(7)`, open(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFailure {
    /// There is no such file.
    Missing,
    /// The path, or a symbolic link in it, leads out of the root.
    Outside,
    /// The path contains a symbolic link that may not be followed, or too many links.
    Link,
    /// The file may not be read, or a directory in the path may not be searched.
    Denied,
    /// The file is of a kind that cannot be read: a socket, or a device without a driver.
    Irregular,
    /// The process or the system has run out of descriptors.
    Exhausted,
    /// The file system failed.
    Failed,
}

impl OpenFailure {
    /// The failure that an error of [`open_beneath`] stands for.
    pub fn of(error: &io::Error) -> Self {
        match Errno::from_io_error(error) {
            Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL) => Self::Missing,
            Some(Errno::XDEV) => Self::Outside,
            Some(Errno::LOOP) => Self::Link,
            Some(Errno::ACCESS | Errno::PERM) => Self::Denied,
            Some(Errno::NXIO | Errno::NODEV) => Self::Irregular,
            Some(Errno::MFILE | Errno::NFILE) => Self::Exhausted,
            None if error.kind() == io::ErrorKind::NotFound => Self::Missing,
            _ => Self::Failed,
        }
    }
}

/// `how` is empty, or restricts the call to what is in memory.
fn open_as(
    root: &Directory,
    path: &[u8],
    symlinks: Symlinks,
    flags: OFlags,
    how: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    if leaves(path) {
        return Err(Errno::XDEV);
    }
    let cached = how == ResolveFlags::CACHED;
    match (symlinks, root.resolution) {
        (_, Resolution::Stepwise | Resolution::KernelUncached) if cached => Err(Errno::AGAIN),
        (Symlinks::Any, _) if cached => fs::openat2(root, path, flags, Mode::empty(), how),
        (Symlinks::Any, _) => fs::openat(root, path, flags, Mode::empty()),
        (Symlinks::Beneath, Resolution::Kernel | Resolution::KernelUncached) => {
            links::follow(root, path, flags, how)
        }
        (Symlinks::None, Resolution::Kernel | Resolution::KernelUncached) => {
            resolve(root, path, flags, how | ResolveFlags::NO_SYMLINKS)
        }
        (Symlinks::None | Symlinks::Beneath, Resolution::Stepwise) => {
            walk::walk(root, path, flags, symlinks == Symlinks::Beneath)
        }
    }
}

fn open_place(path: &Path) -> rustix::io::Result<OwnedFd> {
    fs::openat(CWD, path, PLACE, Mode::empty())
}

/// Whether the text of a path leads out of the root.
fn leaves(path: &[u8]) -> bool {
    path.starts_with(b"/") || path.split(|byte| *byte == b'/').any(|component| component == b"..")
}

/// Old kernels and seccomp sandboxes refuse openat2(2).
fn is_refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs as std_fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use std::thread;
    use std::time::Duration;

    use rustix::fs::FileType;
    use tempfile::TempDir;

    use super::*;
    use crate::file::{FileKind, path_of, read_at, stat};
    use crate::own_process;

    /// `inside` is served, `outside` must not be.
    pub(in crate::file) struct Tree {
        _keep: TempDir,
        pub(in crate::file) inside: PathBuf,
    }

    pub(in crate::file) fn tree() -> Tree {
        let keep = tempfile::tempdir().unwrap();
        let inside = keep.path().join("inside");
        std_fs::create_dir_all(inside.join("sub/deep")).unwrap();
        std_fs::create_dir(keep.path().join("outside")).unwrap();
        std_fs::write(keep.path().join("outside/secret"), "secret").unwrap();
        std_fs::write(inside.join("file"), "content").unwrap();
        std_fs::write(inside.join("sub/deep/file"), "deep content").unwrap();
        symlink("sub/deep/file", inside.join("link")).unwrap();
        symlink("../file", inside.join("sub/up")).unwrap();
        symlink("sub", inside.join("link-to-directory")).unwrap();
        symlink("../outside/secret", inside.join("escape")).unwrap();
        symlink("../outside", inside.join("escape-directory")).unwrap();
        symlink(inside.join("file"), inside.join("absolute")).unwrap();
        symlink(&inside, inside.join("sub/root")).unwrap();
        symlink(inside.join("sub/root/link"), inside.join("absolute-twice")).unwrap();
        symlink(inside.join("../outside/secret"), inside.join("absolute-escape")).unwrap();
        symlink(keep.path().join("outside/secret"), inside.join("outside")).unwrap();
        symlink(inside.join("absolute-loop"), inside.join("absolute-loop")).unwrap();
        symlink("loop", inside.join("loop")).unwrap();
        Tree { _keep: keep, inside }
    }

    fn content(fd: &OwnedFd) -> String {
        let mut buffer = [0; 100];
        let count = read_at(fd, &mut buffer, 0).unwrap();
        String::from_utf8(buffer[..count].to_vec()).unwrap()
    }

    fn error(result: io::Result<OwnedFd>) -> i32 {
        result.unwrap_err().raw_os_error().unwrap()
    }

    const POLICIES: [Symlinks; 3] = [Symlinks::None, Symlinks::Beneath, Symlinks::Any];
    const RESOLUTIONS: [Resolution; 2] = [Resolution::Kernel, Resolution::Stepwise];

    /// Every policy with every resolution.
    fn all_ways(inside: &Path) -> Vec<(Directory, Symlinks)> {
        let root = |resolution| Directory::open_with(inside, resolution).unwrap();
        RESOLUTIONS.iter().flat_map(|way| POLICIES.map(|policy| (root(*way), policy))).collect()
    }

    #[test]
    fn opens_what_is_there() {
        let tree = tree();
        for (root, policy) in all_ways(&tree.inside) {
            for (path, expected) in [
                (b"file".as_slice(), "content"),
                (b"./file", "content"),
                (b"sub//deep/./file", "deep content"),
                (b"sub/deep/file", "deep content"),
            ] {
                assert_eq!(content(&open_beneath(&root, path, policy).unwrap()), expected);
            }
            for path in [b".".as_slice(), b"./", b"sub", b"sub/", b"sub/deep", b"sub/deep//", b"sub/."] {
                let opened = open_beneath(&root, path, policy).unwrap();
                assert_eq!(stat(&opened).unwrap().kind, FileKind::Directory);
            }
        }
    }

    #[test]
    fn looks_at_files_without_opening_them() {
        let tree = tree();
        let pipe = tree.inside.join("pipe");
        fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        for (root, policy) in all_ways(&tree.inside) {
            let seen = |path: &str| find_beneath(&root, path.as_bytes(), policy).and_then(stat);
            assert_eq!(seen("sub/deep/file").unwrap().size, 12);
            assert_eq!(seen("sub").unwrap().kind, FileKind::Directory);
            assert_eq!(seen("pipe").unwrap().kind, FileKind::Other);
            assert!(seen("absent").is_err() && seen("../outside/secret").is_err());
            let escaped = seen("escape").is_ok_and(|stat| stat.kind == FileKind::Regular);
            assert_eq!(escaped, policy == Symlinks::Any);
        }
    }

    /// The result of a lookup in memory. Before each attempt, a lookup that may wait loads the path.
    /// Mounts and renames by other processes make a lookup fail while they last, and what was loaded may
    /// be evicted.
    fn repeated(tries: u32, bring: impl Fn(), look: impl Fn() -> io::Result<OwnedFd>) -> io::Result<OwnedFd> {
        for _ in 0..tries {
            bring();
            match look() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    thread::sleep(Duration::from_millis(1));
                }
                found => return found,
            }
        }
        look()
    }

    #[test]
    fn what_is_in_memory_is_opened_without_waiting() {
        let tree = tree();
        for (root, policy) in all_ways(&tree.inside) {
            let paths = [
                &b"file"[..],
                b"sub/deep/file",
                b"sub/",
                b".",
                b"absent",
                b"link",
                b"absolute",
                b"../outside/secret",
            ];
            for path in paths {
                let waited = open_beneath(&root, path, policy);
                let tries = if root.resolution == Resolution::Stepwise { 1 } else { 1000 };
                let bring = || drop(open_beneath(&root, path, policy));
                let cached = repeated(tries, bring, || open_beneath_cached(&root, path, policy));
                let looked_at =
                    repeated(tries, bring, || find_beneath_cached(&root, path, policy)).and_then(stat);
                let kind = |error: &io::Error| error.raw_os_error();
                match (root.resolution, waited) {
                    (Resolution::Stepwise, _) if path != b"../outside/secret" => {
                        assert_eq!(cached.unwrap_err().kind(), io::ErrorKind::WouldBlock);
                        assert_eq!(looked_at.unwrap_err().kind(), io::ErrorKind::WouldBlock);
                    }
                    (_, Ok(file)) => {
                        assert_eq!(stat(cached.unwrap()).unwrap(), stat(&file).unwrap());
                        assert_eq!(looked_at.unwrap(), stat(file).unwrap());
                    }
                    (_, Err(error)) => {
                        assert_eq!(kind(&cached.unwrap_err()), kind(&error), "{policy:?} {path:?}");
                        assert_eq!(kind(&looked_at.unwrap_err()), kind(&error), "{policy:?} {path:?}");
                    }
                }
            }
        }
        let root = Directory::open(&tree.inside).unwrap();
        let never_seen = open_beneath_cached(&root, b"never-seen", Symlinks::Beneath).unwrap_err();
        assert_eq!(never_seen.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn tells_why_a_file_could_not_be_opened() {
        let tree = tree();
        let root = Directory::open(&tree.inside).unwrap();
        let failure =
            |path: &[u8]| OpenFailure::of(&open_beneath(&root, path, Symlinks::Beneath).unwrap_err());
        for path in ["absent", "file/x", "a\0b", &"x".repeat(256)] {
            assert_eq!(failure(path.as_bytes()), OpenFailure::Missing, "{path}");
        }
        for path in ["escape", "../x", "absolute-escape"] {
            assert_eq!(failure(path.as_bytes()), OpenFailure::Outside, "{path}");
        }
        assert_eq!(failure(b"loop"), OpenFailure::Link);
        std::os::unix::net::UnixListener::bind(tree.inside.join("socket")).unwrap();
        assert_eq!(failure(b"socket"), OpenFailure::Irregular);
        assert_eq!(OpenFailure::of(&Errno::ACCESS.into()), OpenFailure::Denied);
        assert_eq!(OpenFailure::of(&Errno::MFILE.into()), OpenFailure::Exhausted);
        assert_eq!(OpenFailure::of(&Errno::IO.into()), OpenFailure::Failed);
    }

    #[test]
    fn fails_as_the_kernel_does() {
        let tree = tree();
        for (root, policy) in all_ways(&tree.inside) {
            for (path, expected) in [
                (b"absent".as_slice(), libc::ENOENT),
                (b"sub/absent/file", libc::ENOENT),
                (b"", libc::ENOENT),
                (b"file/", libc::ENOTDIR),
                (b"file/x", libc::ENOTDIR),
                (b"file\0", libc::EINVAL),
                (&[b'x'; 300], libc::ENAMETOOLONG),
            ] {
                let case = format!("{:?} {policy:?} {path:?}", root.resolution);
                assert_eq!(error(open_beneath(&root, path, policy)), expected, "{case}");
            }
        }
    }

    #[test]
    fn never_leaves_the_root_by_the_path() {
        let tree = tree();
        for (root, policy) in all_ways(&tree.inside) {
            for path in [
                b"..".as_slice(),
                b"../outside/secret",
                b"sub/../../outside/secret",
                b"sub/../file",
                b"sub/..",
                b"/etc/passwd",
                b"//etc/passwd",
                b"/",
            ] {
                assert_eq!(error(open_beneath(&root, path, policy)), libc::EXDEV, "{policy:?} {path:?}");
            }
            // These names only look like `..`.
            assert_eq!(error(open_beneath(&root, b"...", policy)), libc::ENOENT);
            assert_eq!(error(open_beneath(&root, b"..x", policy)), libc::ENOENT);
        }
    }

    const LINKS_INSIDE: [&[u8]; 8] = [
        b"link",
        b"sub/up",
        b"link-to-directory/deep/file",
        b"link-to-directory/up",
        b"absolute",
        b"absolute-twice",
        b"sub/root/sub/root/absolute",
        b"link-to-directory/root/",
    ];
    const LINKS_OUTSIDE: [&[u8]; 5] =
        [b"escape", b"escape-directory/secret", b"outside", b"absolute-escape", b"sub/root/escape"];

    #[test]
    fn a_kernel_that_cannot_say_what_it_has_in_memory_is_waited_for() {
        let tree = tree();
        let root = Directory::open_with(&tree.inside, Resolution::KernelUncached).unwrap();
        let blocks = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
        for policy in POLICIES {
            for path in [&b"file"[..], b"absent"] {
                assert!(blocks(open_beneath_cached(&root, path, policy).unwrap_err()));
                assert!(blocks(find_beneath_cached(&root, path, policy).unwrap_err()));
            }
            open_beneath(&root, b"file", policy).unwrap();
            assert_eq!(error(open_beneath(&root, b"absent", policy)), libc::ENOENT);
        }
        open_beneath(&root, b"link", Symlinks::Beneath).unwrap();
        assert_eq!(error(open_beneath(&root, b"link", Symlinks::None)), libc::ELOOP);
        assert!(blocks(root.reopen_cached(&tree.inside).unwrap_err()));
    }

    #[test]
    fn follows_symbolic_links_by_policy() {
        let tree = tree();
        let root = Directory::open(&tree.inside).unwrap();
        assert_eq!(root.resolution, Resolution::Kernel);
        for path in LINKS_INSIDE {
            assert_eq!(error(open_beneath(&root, path, Symlinks::None)), libc::ELOOP);
            open_beneath(&root, path, Symlinks::Beneath).unwrap();
            open_beneath(&root, path, Symlinks::Any).unwrap();
        }
        for path in LINKS_OUTSIDE {
            assert_eq!(error(open_beneath(&root, path, Symlinks::None)), libc::ELOOP);
            assert_eq!(error(open_beneath(&root, path, Symlinks::Beneath)), libc::EXDEV);
            open_beneath(&root, path, Symlinks::Any).unwrap();
        }
        for policy in POLICIES {
            assert_eq!(error(open_beneath(&root, b"loop", policy)), libc::ELOOP);
            assert_eq!(error(open_beneath(&root, b"absolute-loop", policy)), libc::ELOOP);
        }
        // The kernel reports these errors for paths, and the code must preserve them: a file is not a
        // directory.
        assert_eq!(error(open_beneath(&root, b"absolute/", Symlinks::Beneath)), libc::ENOTDIR);
        let round = b"sub/root/".repeat(41);
        assert_eq!(error(open_beneath(&root, &round, Symlinks::Beneath)), libc::ELOOP);
    }

    /// Tests an absolute link with each name of the root.
    #[test]
    fn follows_absolute_links_by_every_name_of_the_root() {
        let tree = tree();
        let name = tree.inside.with_file_name("name");
        symlink("inside", &name).unwrap();
        symlink(name.join("file"), tree.inside.join("by-name")).unwrap();
        symlink(tree.inside.with_file_name("inside-not/file"), tree.inside.join("similar")).unwrap();
        let real = Directory::open(&tree.inside).unwrap();
        assert_eq!(error(open_beneath(&real, b"by-name", Symlinks::Beneath)), libc::EXDEV);
        let named = Directory::open(&name).unwrap();
        for path in [b"by-name".as_slice(), b"absolute"] {
            assert_eq!(content(&open_beneath(&named, path, Symlinks::Beneath).unwrap()), "content");
            // Following a link in the same tick that created it updates its access time, and the next
            // lookup must update it again (`relatime`), which requires waiting. The lookup after that
            // does not.
            let cached = (0..100).find_map(|_| {
                open_beneath(&named, path, Symlinks::Beneath).unwrap();
                let cached = open_beneath_cached(&named, path, Symlinks::Beneath);
                thread::sleep(Duration::from_millis(u64::from(cached.is_err())));
                cached.ok()
            });
            assert_eq!(content(&cached.expect("it is in memory")), "content");
        }
        assert_eq!(error(open_beneath(&named, b"similar", Symlinks::Beneath)), libc::EXDEV);
    }

    /// The stepwise walk leads where the kernel's does, and fails in the same way.
    #[test]
    fn leads_to_the_same_step_by_step() {
        const NAMES: [&[u8]; 17] = [
            b".",
            b"",
            b"sub",
            b"deep",
            b"file",
            b"link",
            b"up",
            b"link-to-directory",
            b"root",
            b"escape",
            b"escape-directory",
            b"absolute",
            b"absolute-twice",
            b"absolute-escape",
            b"loop",
            b"absent",
            b"up-up",
        ];
        let tree = tree();
        symlink("../../sub/../", tree.inside.join("sub/deep/up-up")).unwrap();
        symlink("deep/up-up/sub/deep/", tree.inside.join("sub/root-deep")).unwrap();
        let open = |way| Directory::open_with(&tree.inside, way).unwrap();
        let roots = RESOLUTIONS.map(open);
        let outcome = |found: io::Result<OwnedFd>| match found {
            Ok(found) => Ok(fs::fstat(found).unwrap().st_ino),
            Err(error) => Err(error.raw_os_error()),
        };
        let paths = NAMES
            .iter()
            .flat_map(|one| NAMES.iter().flat_map(move |two| NAMES.map(|three| [*one, *two, three])));
        for path in paths.map(|path| path.join(&b'/')).chain([b"sub/root-deep".to_vec(), b"file/".to_vec()]) {
            for policy in [Symlinks::None, Symlinks::Beneath] {
                let name = String::from_utf8_lossy(&path);
                let [by_kernel, by_us] =
                    roots.each_ref().map(|root| outcome(open_beneath(root, &path, policy)));
                assert_eq!(by_kernel, by_us, "{name} {policy:?}");
                let [by_kernel, by_us] =
                    roots.each_ref().map(|root| outcome(find_beneath(root, &path, policy)));
                assert_eq!(by_kernel, by_us, "{name} {policy:?}, looked at");
            }
        }
    }

    /// A directory is moved out of the root while a link leads through it and back by `..`.
    #[test]
    fn never_leaves_the_root_by_a_rename() {
        let tree = tree();
        symlink("../secret", tree.inside.join("sub/deep/climb")).unwrap();
        let (here, there) = (tree.inside.join("sub/deep"), tree.inside.join("../outside/deep"));
        std::thread::scope(|scope| {
            let mover = scope.spawn(|| {
                for _ in 0..500 {
                    std_fs::rename(&here, &there).unwrap();
                    std_fs::rename(&there, &here).unwrap();
                }
            });
            let roots = RESOLUTIONS.map(|way| Directory::open_with(&tree.inside, way).unwrap());
            while !mover.is_finished() {
                for root in &roots {
                    open_beneath(root, b"sub/deep/climb", Symlinks::Beneath).unwrap_err();
                }
            }
        });
    }

    #[test]
    fn a_file_found_by_a_link_is_known_by_its_own_path() {
        let tree = tree();
        let root = Directory::open(&tree.inside).unwrap();
        let error = find_beneath(&root, b"sub/up", Symlinks::None).unwrap_err();
        assert!(is_link(&error) && !is_link(&find_beneath(&root, b"absent", Symlinks::None).unwrap_err()));
        let found = find_beneath(&root, b"sub/up", Symlinks::Beneath).unwrap();
        assert_eq!(path_of(&found).unwrap(), path_of(&root).unwrap().join("file"));
    }

    #[test]
    fn follows_no_magic_links() {
        for resolution in RESOLUTIONS {
            let root = Directory::open_with(Path::new("/proc/self"), resolution).unwrap();
            for policy in [Symlinks::None, Symlinks::Beneath] {
                assert_eq!(error(open_beneath(&root, b"root/etc/passwd", policy)), libc::ELOOP);
                assert_eq!(error(open_beneath(&root, b"exe", policy)), libc::ELOOP);
            }
        }
    }

    #[test]
    fn does_not_wait_for_a_pipes_writer() {
        let tree = tree();
        rustix::fs::mknodat(CWD, tree.inside.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        for (root, policy) in all_ways(&tree.inside) {
            let pipe = open_beneath(&root, b"pipe", policy).unwrap();
            assert_eq!(stat(&pipe).unwrap().kind, FileKind::Other);
        }
    }

    #[test]
    fn survives_renames_in_the_middle_of_a_path() {
        let tree = tree();
        let root = Directory::open(&tree.inside).unwrap();
        let (here, there) = (tree.inside.join("sub/deep"), tree.inside.join("sub/moved"));
        std::thread::scope(|scope| {
            let mover = scope.spawn(|| {
                for _ in 0..200 {
                    std_fs::rename(&here, &there).unwrap();
                    std_fs::rename(&there, &here).unwrap();
                }
            });
            while !mover.is_finished() {
                // `up` leads through `..`, for which the kernel requires that nothing moved meanwhile.
                match open_beneath(&root, b"sub/up", Symlinks::Beneath) {
                    Ok(file) => assert_eq!(content(&file), "content"),
                    Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EAGAIN)),
                }
                match open_beneath(&root, b"sub/deep/file", Symlinks::Beneath) {
                    Ok(file) => assert_eq!(content(&file), "deep content"),
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound),
                }
            }
        });
    }

    #[test]
    fn walks_step_by_step_where_a_sandbox_refuses_openat2() {
        own_process::run("file::beneath::tests::walks_step_by_step_where_a_sandbox_refuses_openat2", || {
            let tree = tree();
            refuse_openat2();
            let root = Directory::open(&tree.inside).unwrap();
            assert_eq!(root.resolution, Resolution::Stepwise);
            assert_eq!(
                content(&open_beneath(&root, b"sub/deep/file", Symlinks::Beneath).unwrap()),
                "deep content"
            );
            assert_eq!(content(&open_beneath(&root, b"link", Symlinks::Beneath).unwrap()), "deep content");
            assert_eq!(error(open_beneath(&root, b"link", Symlinks::None)), libc::ELOOP);
        });
    }

    /// Imitates old container runtimes, where an unknown system call fails with EPERM. seccomp(2).
    fn refuse_openat2() {
        let instruction = |code: u32, operand: u32, if_true: u8, if_false: u8| libc::sock_filter {
            code: code as u16,
            jt: if_true,
            jf: if_false,
            k: operand,
        };
        let mut program = [
            // The call's number comes first in the data of a filter.
            instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_openat2 as u32, 0, 1),
            instruction(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0),
            instruction(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
        ];
        let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        // SAFETY: the program lives during the calls, which only change what this process may do.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
        }
    }
}
