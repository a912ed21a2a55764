//! Symbolic links with an absolute target beneath the root, as `ln -s "$PWD/file"` makes them.
//!
//! The kernel follows no absolute link beneath a directory. It does not know by which path the directory
//! was opened, and returns `EXDEV`. Here, such a link in a path is replaced by its target relative to the
//! root, and the kernel is asked again. So only files that the kernel resolves beneath the root are ever
//! opened, however links change meanwhile.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{self, OFlags, ResolveFlags};
use rustix::io::{Errno, Result};

use super::directory::{Directory, resolve};
use super::path_of;

/// Most symbolic links that are followed in one path, as in the kernel, `path_resolution(7)`.
pub(super) const MOST_LINKS: usize = 40;

/// Opens the file that a path leads to through symbolic links beneath the root. `how` applies to every
/// step.
pub(super) fn follow(root: &Directory, path: &[u8], flags: OFlags, how: ResolveFlags) -> Result<OwnedFd> {
    let mut path = Cow::Borrowed(path);
    let mut links_left = MOST_LINKS;
    loop {
        match resolve(root, &path, flags, how) {
            Err(Errno::XDEV) => path = Cow::Owned(without_absolute(root, &path, how, &mut links_left)?),
            result => return result,
        }
    }
}

/// Replaces everything up to the first absolute link in the path by the link's target. The kernel's error
/// says that there is such a link, or that the path leaves the root.
fn without_absolute(
    root: &Directory,
    path: &[u8],
    how: ResolveFlags,
    links_left: &mut usize,
) -> Result<Vec<u8>> {
    // `behind` has only names of directories, so that `..` removes the last one. `ahead` is the part
    // still to be walked.
    let mut behind: Vec<u8> = Vec::new();
    let mut ahead = path.to_vec();
    while !ahead.is_empty() {
        let end = ahead.iter().position(|&byte| byte == b'/').unwrap_or(ahead.len());
        let rest = ahead.split_off((end + 1).min(ahead.len()));
        let component = std::mem::replace(&mut ahead, rest);
        let name = component.strip_suffix(b"/").unwrap_or(&component);
        let parent = behind.len();
        match name {
            b"" | b"." => continue,
            b".." if behind.is_empty() => return Err(Errno::XDEV),
            b".." => {
                behind.truncate(behind.iter().rposition(|&byte| byte == b'/').unwrap_or(0));
                continue;
            }
            _ if behind.is_empty() => behind.extend_from_slice(name),
            _ => behind.extend([b"/", name].concat()),
        }
        let Some(target) = read_link(root, &behind, how)? else { continue };
        *links_left = links_left.checked_sub(1).ok_or(Errno::LOOP)?;
        behind.truncate(parent);
        let rest = [&component[name.len()..], &ahead].concat();
        if target.starts_with(b"/") {
            return Ok([inner(root, &target).ok_or(Errno::XDEV)?, rest].concat());
        }
        ahead = [target, rest].concat();
    }
    Err(Errno::XDEV)
}

/// The target of the symbolic link at a path that contains no other links. `None`: it is not a link.
fn read_link(root: &Directory, path: &[u8], how: ResolveFlags) -> Result<Option<Vec<u8>>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = resolve(root, path, flags, how | ResolveFlags::NO_SYMLINKS)?;
    match fs::readlinkat(found, c"", Vec::new()) {
        Ok(target) => Ok(Some(target.into_bytes())),
        // readlink(2): it is not a symbolic link.
        Err(Errno::NOENT | Errno::INVAL) => Ok(None),
        Err(error) => Err(error),
    }
}

/// An absolute path relative to the root, if it begins with a path of the root.
pub(super) fn inner(root: &Directory, target: &[u8]) -> Option<Vec<u8>> {
    let target = Path::new(OsStr::from_bytes(target));
    let real = path_of(root).ok();
    let inner = [Some(&root.path), real.as_ref()]
        .into_iter()
        .flatten()
        .find_map(|path| target.strip_prefix(path).ok())?;
    let inner = inner.as_os_str().as_bytes();
    Some(if inner.is_empty() { b"." } else { inner }.to_vec())
}
