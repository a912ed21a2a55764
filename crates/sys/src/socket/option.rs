//! Socket options that rustix does not have, socket(7).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

/// An option that rustix does not have. `T` is what the option takes. setsockopt(2).
pub(crate) fn set<T>(fd: impl AsFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of a live value, which the kernel only reads.
    let code = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The value of an option that rustix does not have. Bytes that the kernel does not write stay zero.
/// getsockopt(2).
///
/// # Safety
///
/// Any bytes, zeros included, are a valid `T`.
pub(crate) unsafe fn get<T>(fd: impl AsFd, level: libc::c_int, option: libc::c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as libc::socklen_t;
    let descriptor = fd.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes to the value, which is that long.
    let code =
        unsafe { libc::getsockopt(descriptor, level, option, value.as_mut_ptr().cast(), &raw mut length) };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all of it was zeroed, some of it was written, and the caller guarantees that any bytes are
    // valid.
    Ok(unsafe { value.assume_init() })
}
