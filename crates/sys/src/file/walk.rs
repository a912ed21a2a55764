//! Walks along a path beneath a root, for kernels that cannot do so in one call.
//!
//! Each directory in the path is opened by its name in the one before, and never by `..`. The directories
//! passed so far are kept open, and `..` returns to the last of them. So whatever is renamed meanwhile,
//! each directory was found beneath the root. Symbolic links are read, and their targets are walked in
//! the same way. Links that lead not to a path but to an open file, as in `/proc`, are refused.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, PROC_SUPER_MAGIC};
use rustix::io::{Errno, Result};

use super::directory::{Directory, PLACE};
use super::links::{MOST_LINKS, inner};

/// Opens the file that a path leads to. Follows symbolic links if `follows` is true.
pub(super) fn walk(root: &Directory, path: &[u8], flags: OFlags, follows: bool) -> Result<OwnedFd> {
    if path.is_empty() {
        return Err(Errno::NOENT);
    }
    let mut places: Vec<OwnedFd> = Vec::new();
    let mut ahead = to_be_walked(path, b"");
    let mut links_left = MOST_LINKS;
    loop {
        let end = ahead.iter().position(|&byte| byte == b'/');
        let rest = end.map(|end| ahead.split_off(end + 1));
        let name = std::mem::replace(&mut ahead, rest.clone().unwrap_or_default());
        let name = name.strip_suffix(b"/").unwrap_or(&name);
        if name == b".." && places.pop().is_none() {
            return Err(Errno::XDEV);
        }
        let place = places.last().map_or(root.as_fd(), AsFd::as_fd);
        let stays = matches!(name, b"" | b"." | b"..");
        let found = match (&rest, stays) {
            (Some(_), true) => continue,
            (Some(_), false) => step(place, name, PLACE),
            (None, true) => return step(place, b".", flags),
            (None, false) => step(place, name, flags),
        };
        match (found, rest) {
            (Ok(found), None) => return Ok(found),
            (Ok(found), Some(_)) => places.push(found),
            (Err(Errno::LOOP), rest) if follows => {
                links_left = links_left.checked_sub(1).ok_or(Errno::LOOP)?;
                let mut target = read_link(place, name)?;
                if target.starts_with(b"/") {
                    target = inner(root, &target).ok_or(Errno::XDEV)?;
                    places.clear();
                }
                ahead = match rest {
                    Some(rest) => to_be_walked(&[&target, b"/".as_slice()].concat(), &rest),
                    None => to_be_walked(&target, b""),
                };
            }
            (Err(error), _) => return Err(error),
        }
    }
}

/// A path followed by `rest`. A final slash requires a directory, as a final dot does.
fn to_be_walked(path: &[u8], rest: &[u8]) -> Vec<u8> {
    let whole = [path, rest].concat();
    if whole.ends_with(b"/") { [&whole, b".".as_slice()].concat() } else { whole }
}

/// Opens one component, which must not be a symbolic link.
fn step(from: BorrowedFd<'_>, component: &[u8], flags: OFlags) -> Result<OwnedFd> {
    let is_link = |mode| FileType::from_raw_mode(mode) == FileType::Symlink;
    match fs::openat(from, component, flags | OFlags::NOFOLLOW, Mode::empty()) {
        // A link is not a directory either. Report which of the two it was.
        Err(Errno::NOTDIR) => match fs::statat(from, component, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if is_link(stat.st_mode) => Err(Errno::LOOP),
            _ => Err(Errno::NOTDIR),
        },
        // A file opened with `O_PATH` may be the link itself.
        Ok(found) if flags.contains(OFlags::PATH) && is_link(fs::fstat(&found)?.st_mode) => Err(Errno::LOOP),
        result => result,
    }
}

/// The target of a symbolic link. A link that has become something else meanwhile is reported as missing.
fn read_link(place: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>> {
    let link = fs::openat(place, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if fs::fstatfs(&link)?.f_type == PROC_SUPER_MAGIC {
        return Err(Errno::LOOP);
    }
    match fs::readlinkat(link, c"", Vec::new()) {
        Ok(target) => Ok(target.into_bytes()),
        Err(Errno::INVAL) => Err(Errno::NOENT),
        Err(error) => Err(error),
    }
}
