//! Network interfaces in the calling thread's namespace. getifaddrs(3).

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// The interface that has an address, if there is one. All addresses in 127.0.0.0/8 belong to the
/// loopback interface, although the kernel lists only 127.0.0.1.
pub fn with_address(address: IpAddr) -> io::Result<Option<String>> {
    let wanted = if matches!(address, IpAddr::V4(v4) if v4.is_loopback()) {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    } else {
        address
    };
    let mut list: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the call writes the list's first element to `list`.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = None;
    let mut next = list;
    // SAFETY: elements are valid until the list is freed below, and the last one's `ifa_next` is null.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: an element's address is null or valid, as long as its family says.
        if found.is_none() && unsafe { address_of(entry.ifa_addr) } == Some(wanted) {
            // SAFETY: an element has a name that ends with a zero.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found = Some(name.to_string_lossy().into_owned());
        }
    }
    // SAFETY: the list came from getifaddrs, and nothing keeps a reference into it.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// # Safety
///
/// `address` is null or points to an address as long as its family says.
unsafe fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: as the caller promises.
    match i32::from(unsafe { address.as_ref() }?.sa_family) {
        libc::AF_INET => {
            // SAFETY: the address has this family; the read does not require alignment.
            let inet = unsafe { ptr::read_unaligned(address.cast::<libc::sockaddr_in>()) };
            Some(Ipv4Addr::from(u32::from_be(inet.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the address has this family; the read does not require alignment.
            let inet = unsafe { ptr::read_unaligned(address.cast::<libc::sockaddr_in6>()) };
            Some(Ipv6Addr::from(inet.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_its_addresses() {
        for address in ["127.0.0.1", "127.9.9.9"] {
            assert_eq!(with_address(address.parse().unwrap()).unwrap().as_deref(), Some("lo"));
        }
        // Addresses reserved for documentation, RFC 5737 and RFC 3849.
        for address in ["192.0.2.1", "2001:db8::1"] {
            assert_eq!(with_address(address.parse().unwrap()).unwrap(), None);
        }
    }
}
