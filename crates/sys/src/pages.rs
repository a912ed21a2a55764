//! Memory that is reserved first, and takes physical pages only when it is used.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Bytes in whole pages, initially zero (`MAP_PRIVATE` and `MAP_ANONYMOUS`, mmap(2)). A page takes memory
/// only when it is first written to. calloc(3) does not guarantee this: it clears memory that it already
/// has, which touches all of it.
#[derive(Debug)]
pub struct Pages {
    memory: NonNull<u8>,
    /// 0: there is no mapping.
    length: usize,
}

// SAFETY: it owns its bytes as a `Box<[u8]>` does, which may move to any thread.
unsafe impl Send for Pages {}
// SAFETY: as above; a shared reference only reads.
unsafe impl Sync for Pages {}

impl Pages {
    /// This many bytes. `ENOMEM` if there is no room, `EINVAL` for a length of 0.
    pub fn new(length: usize) -> io::Result<Self> {
        if isize::try_from(length).is_err() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let memory = unsafe { mmap_anonymous(ptr::null_mut(), length, protection, MapFlags::PRIVATE)? };
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, length })
    }
}

/// No bytes, and no mapping.
impl Default for Pages {
    #[inline]
    fn default() -> Self {
        Self { memory: NonNull::dangling(), length: 0 }
    }
}

impl Deref for Pages {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has that length, holds initialised bytes (zeros, or what was written), and
        // belongs to `self` alone for as long as it lives. For a length of 0, any aligned address is
        // valid.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.length) }
    }
}

impl DerefMut for Pages {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `self` is borrowed mutably, so there is no other reference.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.length) }
    }
}

impl Drop for Pages {
    #[inline]
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: `new` made this very mapping, and references to it end with `self`. After an error
            // it stays mapped, which does no harm.
            unsafe {
                let _ = munmap(self.memory.as_ptr().cast(), self.length);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of memory that the mapping at this address takes, from smaps (proc(5)).
    fn taken(pages: &Pages) -> usize {
        let (mut is_it, address) = (false, pages.as_ptr() as usize);
        for line in std::fs::read_to_string("/proc/self/smaps").unwrap().lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            if let Some((from, to)) = range {
                let [from, to] = [from, to].map(|at| usize::from_str_radix(at, 16).unwrap_or(0));
                is_it = (from..to).contains(&address);
            } else if is_it && let Some(size) = line.strip_prefix("Anonymous:") {
                return size.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024;
            }
        }
        panic!("no mapping at {address:x}");
    }

    #[test]
    fn it_is_taken_as_it_is_used() {
        // A similar mapping next to it would be shown together with it as one.
        let alone = 3 << 20;
        let mut pages = Pages::new(alone).unwrap();
        // SAFETY: the advice changes no bytes; it makes the kernel show the mapping separately.
        unsafe {
            rustix::mm::madvise(pages.memory.as_ptr().cast(), alone, rustix::mm::Advice::LinuxDontFork)
        }
        .unwrap();
        assert_eq!((pages.len(), pages[alone - 1], taken(&pages)), (alone, 0, 0));
        pages[2 << 20] = 7;
        assert_eq!((pages[2 << 20], taken(&pages)), (7, rustix::param::page_size()));
    }

    #[test]
    fn none_is_no_mapping() {
        let none = std::mem::take(&mut Pages::new(1).unwrap());
        assert_eq!((none.len(), Pages::default().len()), (1, 0));
        assert!(Pages::new(0).is_err() && Pages::new(usize::MAX).is_err());
    }
}
