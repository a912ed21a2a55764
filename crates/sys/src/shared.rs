//! Memory that processes share after fork(2).

use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{
    AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize, Ordering,
};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use crate::memory_file::MemoryFile;

/// Types that may be stored in memory shared by processes.
///
/// Declare structures of such fields with [`shareable!`](crate::shareable), which needs no `unsafe` code
/// from its user.
///
/// # Safety
///
/// Any bytes must be a valid value, beginning with all zeros, because other processes may write anything.
/// Shared references must be usable by several threads. The type must hold no pointers, which are valid
/// in one process only. So it consists of atomic integers.
pub unsafe trait Shareable: Sync {}

macro_rules! shareable_atomics {
    ($($atomic:ty),+) => {
        // SAFETY: an atomic integer is valid when zero, as with any other bytes, and holds no pointer.
        $(unsafe impl Shareable for $atomic {})+
    };
}

shareable_atomics!(AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize);
shareable_atomics!(AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize);

// SAFETY: an array is its elements.
unsafe impl<T: Shareable, const N: usize> Shareable for [T; N] {}

/// Declares a structure of [`Shareable`] fields, which makes the structure shareable as well.
///
/// ```
/// #![forbid(unsafe_code)]
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// sys::shareable! {
///     /// What one worker counts.
///     #[derive(Debug)]
///     pub struct Counts {
///         /// Connections accepted.
///         pub accepts: AtomicU64,
///         pub by_status: [AtomicU64; 5],
///     }
/// }
///
/// let counts: sys::shared::Shared<Counts> = sys::shared::Shared::new().unwrap();
/// counts.accepts.fetch_add(1, Ordering::Relaxed);
/// ```
///
/// A field that is not shareable is refused:
///
/// ```compile_fail
/// sys::shareable! {
///     struct Named {
///         name: Box<str>,
///     }
/// }
/// ```
#[macro_export]
macro_rules! shareable {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$field_attribute:meta])* $field_visibility:vis $field:ident: $type:ty),* $(,)?
        }
    ) => {
        $(#[$attribute])*
        $visibility struct $name {
            $($(#[$field_attribute])* $field_visibility $field: $type),*
        }

        // SAFETY: the structure is its fields, and each of them is shareable.
        unsafe impl $crate::shared::Shareable for $name where $($type: $crate::shared::Shareable),* {}
    };
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident($field_visibility:vis $type:ty);
    ) => {
        $(#[$attribute])*
        $visibility struct $name($field_visibility $type);

        // SAFETY: the structure is its only field, which is shareable.
        unsafe impl $crate::shared::Shareable for $name where $type: $crate::shared::Shareable {}
    };
}

/// One `T`, initially zero, in memory shared with all processes forked later (`MAP_SHARED` and
/// `MAP_ANONYMOUS`, mmap(2)). The memory is released when the last of them has dropped it or ended.
#[derive(Debug)]
pub struct Shared<T: Shareable> {
    memory: NonNull<T>,
    owns: PhantomData<T>,
}

// SAFETY: it is a pointer to a `T` that lives as long as this value. It is only ever reached by shared
// reference, which `Shareable` (hence `Sync`) allows to any thread.
unsafe impl<T: Shareable> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Shareable> Sync for Shared<T> {}

impl<T: Shareable> Shared<T> {
    /// Takes new memory of whole pages. `ENOMEM` if there is none.
    pub fn new() -> io::Result<Self> {
        const { assert!(align_of::<T>() <= 4_096, "a mapping begins at a page") };
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let memory = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                Self::LENGTH,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )?
        };
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, owns: PhantomData })
    }

    /// The beginning of a memory file. It is shared with all processes that have the file, too.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: the file is smaller. Or there is no memory.
    pub fn of_file(file: &MemoryFile) -> io::Result<Self> {
        const { assert!(align_of::<T>() <= 4_096, "a mapping begins at a page") };
        if file.size() < Self::LENGTH as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing. The file is sealed
        // against shrinking, so the memory stays there.
        let memory = unsafe { mmap(ptr::null_mut(), Self::LENGTH, access, MapFlags::SHARED, file, 0)? };
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, owns: PhantomData })
    }

    /// Keeps it for the whole life of this process and of those forked later.
    pub fn leak(self) -> &'static T {
        // SAFETY: as for `deref`; the mapping is never undone, as `self` is never dropped.
        unsafe { std::mem::ManuallyDrop::new(self).memory.as_ref() }
    }

    /// A mapping cannot be empty.
    const LENGTH: usize = if size_of::<T>() == 0 { 1 } else { size_of::<T>() };
}

impl<T: Shareable> Deref for Shared<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the mapping is large and aligned enough, lives as long as `self`, and holds a valid
        // `T`: zero at first, which `Shareable` guarantees to be valid, then changed only through shared
        // references.
        unsafe { self.memory.as_ref() }
    }
}

impl<T: Shareable> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: `new` made this very mapping, and references to it end with `self`. After an error it
        // stays mapped, which does no harm.
        unsafe {
            let _ = munmap(self.memory.as_ptr().cast(), Self::LENGTH);
        }
    }
}

/// Any number of `T`, initially zero, shared like [`Shared`]. Memory is taken only when it is used, and
/// is not counted before (`MAP_NORESERVE`).
#[derive(Debug)]
pub struct Region<T: Shareable> {
    memory: NonNull<T>,
    count: usize,
    owns: PhantomData<T>,
}

// SAFETY: as for `Shared`.
unsafe impl<T: Shareable> Send for Region<T> {}
// SAFETY: as for `Shared`.
unsafe impl<T: Shareable> Sync for Region<T> {}

impl<T: Shareable> Region<T> {
    /// Takes new memory of whole pages. `ENOMEM` if there is none, or if the size overflows.
    pub fn new(count: usize) -> io::Result<Self> {
        const { assert!(align_of::<T>() <= 4_096 && size_of::<T>() > 0, "a mapping begins at a page") };
        let length = Self::length(count).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let memory =
            unsafe { mmap_anonymous(ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, flags)? };
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, count, owns: PhantomData })
    }

    /// Keeps it for the whole life of this process and of those forked later.
    pub fn leak(self) -> &'static [T] {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: as for `deref`; the mapping is never undone, as `self` is never dropped.
        unsafe { std::slice::from_raw_parts(this.memory.as_ptr(), this.count) }
    }

    /// The size of a mapping for `count` elements. A mapping cannot be empty.
    fn length(count: usize) -> Option<usize> {
        count.max(1).checked_mul(size_of::<T>()).filter(|&length| isize::try_from(length).is_ok())
    }
}

impl<T: Shareable> Deref for Region<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping has room for `count`, is aligned, lives as long as `self`, and holds valid
        // `T`: zero at first, which `Shareable` guarantees to be valid, then changed only through shared
        // references.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.count) }
    }
}

impl<T: Shareable> Drop for Region<T> {
    fn drop(&mut self) {
        if let Some(length) = Self::length(self.count) {
            // SAFETY: `new` made this very mapping, and references to it end with `self`. After an error
            // it stays mapped, which does no harm.
            unsafe {
                let _ = munmap(self.memory.as_ptr().cast(), length);
            }
        }
    }
}

/// Returns the memory of a whole region to the system, for every process that has it mapped. The region
/// is then zero, and takes memory again when it is used. madvise(2), `MADV_REMOVE`.
///
/// # Errors
///
/// The kernel refuses: all or a part of the region stays as it is.
pub fn empty<T: Shareable>(region: &'static [T]) -> io::Result<()> {
    // No other value uses the rest of the last page.
    let end = region.as_ptr_range().end as usize;
    remove_pages(region.as_ptr() as usize, end.next_multiple_of(rustix::param::page_size()))
}

/// Returns the whole pages in a part of a region to the system, as [`empty`] does. The rest does not
/// change.
///
/// # Errors
///
/// As for [`empty`].
pub fn empty_pages<T: Shareable>(part: &'static [T]) -> io::Result<()> {
    let page = rustix::param::page_size();
    let range = part.as_ptr_range();
    remove_pages((range.start as usize).next_multiple_of(page), range.end as usize / page * page)
}

fn remove_pages(from: usize, to: usize) -> io::Result<()> {
    if from >= to {
        return Ok(());
    }
    // SAFETY: the pages hold `Shareable` values, to which zeros may be written through shared references
    // at any time, and the mapping stays. The kernel refuses memory that is not shared.
    Ok(unsafe { madvise(from as *mut _, to - from, Advice::LinuxRemove) }?)
}

/// Copies bytes into shared memory of the same length.
///
/// # Panics
///
/// The lengths differ.
pub fn copy_in(to: &[AtomicU8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "as many bytes as there is room for");
    for (to, &byte) in to.iter().zip(from) {
        to.store(byte, Ordering::Relaxed);
    }
}

/// Appends bytes of shared memory to a vector.
pub fn copy_out(from: &[AtomicU8], to: &mut Vec<u8>) {
    to.extend(from.iter().map(|byte| byte.load(Ordering::Relaxed)));
}

/// Whether shared memory holds these bytes.
#[inline]
pub fn equals(shared: &[AtomicU8], bytes: &[u8]) -> bool {
    shared.len() == bytes.len()
        && shared.iter().zip(bytes).all(|(shared, &byte)| shared.load(Ordering::Relaxed) == byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::shareable! {
        #[derive(Debug)]
        #[repr(align(128))]
        struct Block {
            one: AtomicU64,
            many: [Word; 1_000],
        }
    }

    crate::shareable! {
        #[derive(Debug)]
        struct Word(AtomicU32);
    }

    #[test]
    fn begins_as_zero_and_is_aligned() {
        let block: Shared<Block> = Shared::new().unwrap();
        assert_eq!(ptr::from_ref(&*block) as usize % 128, 0);
        assert_eq!(block.one.load(Ordering::Relaxed), 0);
        assert!(block.many.iter().all(|word| word.0.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn is_the_same_memory_after_fork() {
        let block: Shared<Block> = Shared::new().unwrap();
        // SAFETY: the child only writes atomics, and ends without running any of the parent's code.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            block.one.store(7, Ordering::Relaxed);
            block.many[999].0.store(9, Ordering::Relaxed);
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(block.one.load(Ordering::Relaxed), 7);
        assert_eq!(block.many[999].0.load(Ordering::Relaxed), 9);
    }

    #[test]
    fn regions_have_the_size_asked_for() {
        for count in [0, 1, 5_000] {
            let region: Region<AtomicU64> = Region::new(count).unwrap();
            assert_eq!(region.len(), count);
            assert!(region.iter().all(|number| number.load(Ordering::Relaxed) == 0));
        }
        assert!(Region::<AtomicU64>::new(usize::MAX / 4).is_err());
        let bytes: &'static [AtomicU8] = Region::new(10).unwrap().leak();
        copy_in(&bytes[2..7], b"hello");
        let mut copy = vec![b'>'];
        copy_out(&bytes[2..7], &mut copy);
        assert_eq!(copy, b">hello");
        assert!(
            equals(&bytes[2..7], b"hello")
                && !equals(&bytes[2..7], b"hellO")
                && !equals(&bytes[2..6], b"hello")
        );
    }

    #[test]
    fn what_is_given_back_is_zero_for_everybody() {
        let page = rustix::param::page_size();
        let bytes: &'static [AtomicU8] = Region::new(4 * page + 10).unwrap().leak();
        let is_zero =
            |range: std::ops::Range<usize>| bytes[range].iter().all(|b| b.load(Ordering::Relaxed) == 0);
        copy_in(bytes, &vec![1; bytes.len()]);
        empty_pages(&bytes[page - 10..3 * page + 10]).unwrap();
        assert!(is_zero(page..3 * page));
        assert!(!is_zero(0..page) && !is_zero(3 * page..4 * page));
        empty_pages(&bytes[10..page + 10]).unwrap();
        assert!(!is_zero(0..page));
        // SAFETY: the child does only this, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let emptied = empty(bytes);
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(i32::from(emptied.is_err())) }
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!((unsafe { libc::waitpid(child, &raw mut status, 0) }, status), (child, 0));
        assert!(is_zero(0..bytes.len()));
        bytes[0].store(1, Ordering::Relaxed);
        assert!(!is_zero(0..1));
    }

    #[test]
    fn is_unmapped_when_dropped() {
        let block: Shared<Block> = Shared::new().unwrap();
        let address = ptr::from_ref(&*block) as usize;
        let is_mapped = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            maps.lines().filter(|line| line.contains("/dev/zero (deleted)")).any(|line| {
                let (start, rest) = line.split_once('-').unwrap();
                let (end, _) = rest.split_once(' ').unwrap();
                let bound = |hex| usize::from_str_radix(hex, 16).unwrap();
                (bound(start)..bound(end)).contains(&address)
            })
        };
        assert!(is_mapped());
        drop(block);
        assert!(!is_mapped());
    }
}
