//! Metadata of files, and the names in a directory.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};

use super::beneath::READ;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// Anything else: a device, a pipe, a socket, a symbolic link.
    Other,
}

/// Metadata of a file, inode(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// Its kind.
    pub kind: FileKind,
    /// Its length in bytes.
    pub size: u64,
    /// The file system that contains it.
    pub device: u64,
    /// Its inode number there.
    pub inode: u64,
    /// When the content last changed.
    pub mtime: FileTime,
    /// When the content or other metadata last changed. Unlike `mtime`, it cannot be set freely.
    pub ctime: FileTime,
    /// The permission bits, 0 to 0o7777.
    pub mode: u32,
    /// The number of its names. It is 0 if the file was removed, or replaced under its only name.
    pub links: u64,
}

/// A moment on a file's clock, since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileTime {
    /// Whole seconds; negative before 1970.
    pub secs: i64,
    /// Nanoseconds beyond them, 0 to 999,999,999.
    pub nanos: u32,
}

/// The metadata of an open file. fstat(2).
pub fn stat(fd: impl AsFd) -> io::Result<FileStat> {
    Ok(FileStat::of(&fs::fstat(fd)?))
}

/// The metadata of a name in an open directory. A symbolic link is not followed. fstatat(2).
pub fn stat_in(directory: impl AsFd, name: &[u8]) -> io::Result<FileStat> {
    Ok(FileStat::of(&fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?))
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The name: any bytes except `/` and NUL.
    pub name: OsString,
    /// Its kind, if the file system returns it with the name. A symbolic link is `Other`.
    pub kind: Option<FileKind>,
}

/// The names in a directory, in no particular order, without `.` and `..`. getdents64(2).
pub fn list(directory: impl AsFd) -> io::Result<impl Iterator<Item = io::Result<DirectoryEntry>>> {
    // A new descriptor with its own position, because `directory` may have none (`O_PATH`).
    let readable = fs::openat(directory, c".", READ | OFlags::DIRECTORY, Mode::empty())?;
    let is_itself_or_parent = |entry: &rustix::io::Result<fs::DirEntry>| {
        entry.as_ref().is_ok_and(|entry| matches!(entry.file_name().to_bytes(), b"." | b".."))
    };
    Ok(Dir::new(readable)?.filter(move |entry| !is_itself_or_parent(entry)).map(|entry| {
        let entry = entry?;
        let kind = match entry.file_type() {
            FileType::Unknown => None,
            known => Some(FileKind::from_type(known)),
        };
        Ok(DirectoryEntry { name: OsString::from_vec(entry.file_name().to_bytes().to_vec()), kind })
    }))
}

impl FileStat {
    fn of(stat: &fs::Stat) -> Self {
        Self {
            kind: FileKind::from_type(FileType::from_raw_mode(stat.st_mode)),
            size: stat.st_size as u64,
            device: stat.st_dev,
            inode: stat.st_ino,
            mtime: FileTime { secs: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 },
            ctime: FileTime { secs: stat.st_ctime, nanos: stat.st_ctime_nsec as u32 },
            mode: stat.st_mode & 0o7777,
            links: links(stat),
        }
    }
}

impl FileKind {
    fn from_type(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => Self::Regular,
            FileType::Directory => Self::Directory,
            _ => Self::Other,
        }
    }
}

/// The number of names. Its type differs between processors.
#[allow(clippy::useless_conversion, reason = "on x86-64 it is a u64 already")]
fn links(stat: &rustix::fs::Stat) -> u64 {
    stat.st_nlink.into()
}

#[cfg(test)]
mod tests {
    use std::fs as std_fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::file::beneath::tests::tree;
    use crate::file::{Directory, Symlinks, open_beneath};

    #[test]
    fn knows_what_a_file_is() {
        let tree = tree();
        let path = tree.inside.join("file");
        std_fs::set_permissions(&path, std_fs::Permissions::from_mode(0o640)).unwrap();
        let root = Directory::open(&tree.inside).unwrap();
        let file = open_beneath(&root, b"file", Symlinks::None).unwrap();
        let before = stat(&file).unwrap();
        let expected = std_fs::metadata(&path).unwrap();
        {
            use std::os::unix::fs::MetadataExt;
            assert_eq!((before.kind, before.size, before.mode), (FileKind::Regular, 7, 0o640));
            assert_eq!((before.device, before.inode), (expected.dev(), expected.ino()));
            assert_eq!(
                before.mtime,
                FileTime { secs: expected.mtime(), nanos: expected.mtime_nsec() as u32 }
            );
            assert_eq!(
                before.ctime,
                FileTime { secs: expected.ctime(), nanos: expected.ctime_nsec() as u32 }
            );
        }
        std_fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b" grows").unwrap();
        std_fs::File::open(&path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        let after = stat(&file).unwrap();
        assert_eq!((after.size, after.mtime), (13, FileTime { secs: 0, nanos: 0 }));
        assert!(after.ctime >= before.ctime, "a set modification time does not hide the change");
    }

    #[test]
    fn names_in_a_directory_are_looked_at_where_they_are() {
        let tree = tree();
        let root = Directory::open(&tree.inside).unwrap();
        let kind = |name: &[u8]| stat_in(&root, name).map(|stat| stat.kind);
        assert_eq!(stat_in(&root, b"file").unwrap().size, 7);
        assert_eq!(kind(b"sub").unwrap(), FileKind::Directory);
        assert_eq!(kind(b"link").unwrap(), FileKind::Other, "and not the file that it leads to");
        assert_eq!(kind(b"absent").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn lists_names_and_kinds() {
        let tree = tree();
        let root = Directory::open(&tree.inside).unwrap();
        let directory = open_beneath(&root, b".", Symlinks::None).unwrap();
        for _ in 0..2 {
            let mut entries: Vec<_> = list(&directory).unwrap().map(Result::unwrap).collect();
            entries.sort_by(|one, other| one.name.cmp(&other.name));
            let names: Vec<_> = entries.iter().map(|entry| entry.name.to_str().unwrap()).collect();
            let expected = [
                "absolute",
                "absolute-escape",
                "absolute-loop",
                "absolute-twice",
                "escape",
                "escape-directory",
                "file",
                "link",
                "link-to-directory",
                "loop",
                "outside",
                "sub",
            ];
            assert_eq!(names, expected);
            let kind = |name: &str| entries[names.binary_search(&name).unwrap()].kind.unwrap();
            assert_eq!(kind("file"), FileKind::Regular);
            assert_eq!(kind("sub"), FileKind::Directory);
            assert_eq!(kind("link"), FileKind::Other);
        }
        assert_eq!(list(&root).unwrap().count(), 12, "the root itself will do");
        let file = open_beneath(&root, b"file", Symlinks::None).unwrap();
        assert_eq!(list(&file).err().unwrap().raw_os_error(), Some(libc::ENOTDIR));
    }
}
