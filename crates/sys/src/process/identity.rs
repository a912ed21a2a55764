//! The users and groups of a process, and giving up root for one of them.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities};

use super::{check, invalid};

/// Gives up root permanently. All threads of the process take on the user `user`, its supplementary
/// groups, and `group` (its login group if `None`).
///
/// See initgroups(3), setresgid(2), setresuid(2), getpwnam(3), getgrnam(3).
///
/// # Errors
///
/// `NotFound` if there is no such user or group, `InvalidInput` if the user is root itself, or the
/// kernel's error (`EPERM` in a process that is not root's). After an error the process may have lost
/// some of its privileges and should exit.
pub fn drop_privileges(user: &str, group: Option<&str>) -> io::Result<()> {
    let name = CString::new(user)?;
    let (uid, gid) = identity(user, group)?;
    if uid == 0 {
        return Err(invalid(format!("user `{user}` is root")));
    }
    // Groups first: a process without root cannot change them.
    // SAFETY: the name is a string with its final zero; these calls touch no other memory.
    unsafe {
        check(libc::initgroups(name.as_ptr(), gid))?;
        check(libc::setresgid(gid, gid, gid))?;
        check(libc::setresuid(uid, uid, uid))?;
    }
    // SAFETY: takes numbers only.
    if unsafe { libc::setresuid(0, 0, 0) } == 0 {
        return Err(io::Error::other("root could be regained after giving it up"));
    }
    Ok(())
}

/// Gives up root as [`drop_privileges`] does, but for one privilege: to read every file and to search every
/// directory, whatever their permissions (`CAP_DAC_READ_SEARCH`, capabilities(7)). Only for a process with
/// a single thread.
///
/// # Errors
///
/// As for [`drop_privileges`].
pub fn drop_privileges_but_reading(user: &str, group: Option<&str>) -> io::Result<()> {
    set_keep_capabilities(true)?;
    drop_privileges(user, group)?;
    keep_only_reading()?;
    Ok(set_keep_capabilities(false)?)
}

/// Gives up all privileges but one, if this process has it: to read every file and to search every
/// directory (`CAP_DAC_READ_SEARCH`, capabilities(7)). Only for a process with a single thread.
///
/// # Errors
///
/// The kernel's.
pub fn keep_only_reading() -> io::Result<()> {
    let kept = capabilities(None)?.permitted & CapabilitySet::DAC_READ_SEARCH;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

/// Whether this process may read every file (`CAP_DAC_READ_SEARCH`, capabilities(7)).
///
/// # Errors
///
/// The kernel's.
pub fn may_read_all() -> io::Result<bool> {
    Ok(capabilities(None)?.permitted.contains(CapabilitySet::DAC_READ_SEARCH))
}

/// Gives up the privilege that [`keep_only_reading`] keeps, if this process has it and is not root's.
/// Programs that it executes do not have it, either. Only for a process with a single thread.
///
/// # Errors
///
/// The kernel's.
pub fn give_up_reading() -> io::Result<()> {
    let CapabilitySets { effective, permitted, inheritable } = capabilities(None)?;
    let reading = CapabilitySet::DAC_READ_SEARCH;
    if is_root() || !permitted.contains(reading) {
        return Ok(());
    }
    let [effective, permitted, inheritable] = [effective, permitted, inheritable].map(|set| set - reading);
    Ok(set_capabilities(None, CapabilitySets { effective, permitted, inheritable })?)
}

/// The user and group numbers that [`drop_privileges`] gives to a process. getpwnam(3), getgrnam(3).
///
/// # Errors
///
/// `NotFound` if there is no such user or group.
pub fn identity(user: &str, group: Option<&str>) -> io::Result<(u32, u32)> {
    let (uid, login_group) = find_user(user)?;
    Ok((uid, group.map_or(Ok(login_group), group_id)?))
}

/// Whether this process runs as root. geteuid(2).
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The number of a user, by name. getpwnam(3).
///
/// # Errors
///
/// `NotFound` if there is no such user.
pub fn user_id(name: &str) -> io::Result<u32> {
    Ok(find_user(name)?.0)
}

/// The number of a group, by name. getgrnam(3).
///
/// # Errors
///
/// `NotFound` if there is no such group.
pub fn group_id(name: &str) -> io::Result<u32> {
    find("group", name, libc::getgrnam_r, |entry| entry.gr_gid)
}

/// Whether this process has the user and group that [`drop_privileges`] would set. getresuid(2),
/// getresgid(2).
///
/// # Errors
///
/// `NotFound` if there is no such user or group.
pub fn runs_as(user: &str, group: Option<&str>) -> io::Result<bool> {
    let (uid, gid) = identity(user, group)?;
    let (mut user_ids, mut group_ids) = ([0; 3], [0; 3]);
    let ([real, effective, saved], [real_group, effective_group, saved_group]) =
        (user_ids.each_mut(), group_ids.each_mut());
    // SAFETY: six places for an id each, which live through the calls.
    unsafe {
        check(libc::getresuid(real, effective, saved))?;
        check(libc::getresgid(real_group, effective_group, saved_group))?;
    }
    Ok(user_ids == [uid; 3] && group_ids == [gid; 3])
}

/// The numbers of a user and of its login group. getpwnam(3).
fn find_user(name: &str) -> io::Result<(u32, u32)> {
    find("user", name, libc::getpwnam_r, |entry| (entry.pw_uid, entry.pw_gid))
}

/// `getpwnam_r` or `getgrnam_r`. The parameters are the name, room for the entry, room for its strings
/// and how much, and where to store whether there is an entry.
type LookUp<Entry> = unsafe extern "C" fn(
    *const libc::c_char,
    *mut Entry,
    *mut libc::c_char,
    libc::size_t,
    *mut *mut Entry,
) -> libc::c_int;

/// What `take` reads from the entry with this name. If the room for the entry's strings is too small
/// (`ERANGE`), this tries again with more.
fn find<Entry, T>(
    what: &str,
    name: &str,
    look_up: LookUp<Entry>,
    take: impl Fn(&Entry) -> T,
) -> io::Result<T> {
    const LONGEST: usize = 1 << 20;
    let c_name = CString::new(name)?;
    let mut buffer = vec![0; 1_024];
    loop {
        let mut entry = MaybeUninit::<Entry>::uninit();
        let mut found = ptr::null_mut();
        // SAFETY: all pointers are valid for the call, the length is the buffer's.
        let code = unsafe {
            look_up(c_name.as_ptr(), entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut found)
        };
        // SAFETY: a pointer that is not null points to `entry`, which the call has filled in.
        match (code, unsafe { found.as_ref() }) {
            (0, Some(entry)) => return Ok(take(entry)),
            (libc::ERANGE, _) if buffer.len() < LONGEST => buffer.resize(buffer.len() * 4, 0),
            (libc::EINTR, _) => {}
            // getpwnam(3) lists these as results for a missing entry.
            (0 | libc::ENOENT | libc::ESRCH, _) => {
                return Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no {what} `{name}`")));
            }
            (code, _) => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{getegid, geteuid, getgroups, getuid};

    use super::*;
    use crate::own_process;

    #[test]
    fn gives_up_root_in_all_threads() {
        own_process::run("process::identity::tests::gives_up_root_in_all_threads", || {
            let nobody = user_id("nobody").unwrap();
            if !getuid().is_root() {
                let error = drop_privileges("nobody", None).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                harness::skip("giving up root: only root can");
                return;
            }
            let (dropped, wait) = std::sync::mpsc::channel();
            let other = std::thread::spawn(move || {
                wait.recv().unwrap();
                (geteuid().as_raw(), getegid().as_raw())
            });
            assert!(!runs_as("nobody", Some("daemon")).unwrap());
            drop_privileges("nobody", Some("daemon")).unwrap();
            assert!(runs_as("nobody", Some("daemon")).unwrap() && !runs_as("nobody", None).unwrap());
            assert_eq!(runs_as("no-such-user", None).unwrap_err().kind(), io::ErrorKind::NotFound);
            let daemon = group_id("daemon").unwrap();
            dropped.send(()).unwrap();
            assert_eq!(other.join().unwrap(), (nobody, daemon));
            assert_eq!((geteuid().as_raw(), getegid().as_raw()), (nobody, daemon));
            assert!(
                getgroups().unwrap().iter().all(|group| group.as_raw() != 0),
                "no group of root's is kept"
            );
            assert!(drop_privileges("daemon", None).is_err(), "there is no way to another user");
        });
    }

    #[test]
    fn takes_the_login_group_unless_told() {
        own_process::run("process::identity::tests::takes_the_login_group_unless_told", || {
            if !getuid().is_root() {
                harness::skip("the login group of another user: only root can become one");
                return;
            }
            drop_privileges("nobody", None).unwrap();
            assert_eq!(getegid().as_raw(), find_user("nobody").unwrap().1);
        });
    }

    #[test]
    fn says_which_user_or_group_is_wrong() {
        let no_user = drop_privileges("no-such-user", None).unwrap_err();
        assert_eq!(no_user.kind(), io::ErrorKind::NotFound);
        assert_eq!(no_user.to_string(), "there is no user `no-such-user`");
        let no_group = drop_privileges("nobody", Some("no-such-group")).unwrap_err();
        assert_eq!(no_group.to_string(), "there is no group `no-such-group`");
        assert_eq!(drop_privileges("root", None).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(drop_privileges("a\0b", None).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
