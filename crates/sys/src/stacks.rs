//! Stacks for [user-level threads](crate::coroutine), in one mapping, each with a guard below it.
//!
//! A thread that overruns its stack must not write into the stack below. A guard is a page that faults when
//! it is touched. The kernel can make one in two ways:
//!
//! - `MADV_GUARD_INSTALL` (madvise(2), Linux 6.13) marks pages in the page table. It costs no mapping.
//! - `mprotect(2)` splits the mapping, so that each stack takes two of the process's mappings. There may be
//!   `vm.max_map_count` of those (65,530 unless set otherwise), which bounds the number of stacks.
//!
//! Address space is reserved for all stacks at once. A page takes memory when it is first used. The stack
//! that was given back last is the next to be used, since its pages are most likely in the cache.

use std::cell::RefCell;
use std::io;
use std::num::NonZeroUsize;
use std::ptr;
use std::rc::Rc;

use corosensei::stack::valgrind::ValgrindStackRegistration;
use corosensei::stack::{MIN_STACK_SIZE, Stack as Switchable, StackPointer};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::overrun::Watch;

/// How guards are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guards {
    /// In the page table: `MADV_GUARD_INSTALL`.
    Marks,
    /// With a mapping each: `mprotect(2)`.
    Mappings,
}

/// `MADV_GUARD_INSTALL` of linux/mman.h.
const GUARD_INSTALL: libc::c_int = 102;

/// Mappings of a process that are left for everything but stacks.
const OTHER_MAPPINGS: usize = 4096;

impl Guards {
    /// The better way that this kernel has.
    pub fn best() -> Self {
        if probe_marks().is_ok() { Self::Marks } else { Self::Mappings }
    }

    /// How many stacks a process can have with such guards. `None`: there is no such bound.
    pub fn most_stacks(self) -> Option<usize> {
        match self {
            Self::Marks => None,
            Self::Mappings => {
                let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
                let mappings = text.trim().parse().unwrap_or(65_530_usize);
                Some(mappings.saturating_sub(OTHER_MAPPINGS) / 2)
            }
        }
    }
}

/// Whether the kernel can make guards in the page table.
pub(crate) fn probe_marks() -> io::Result<()> {
    let page = rustix::param::page_size();
    let probe = Mapping::new(page)?;
    // SAFETY: the page is the probe's, and nothing refers to it.
    unsafe { install(probe.base, page) }
}

/// Address space, given back when it is dropped.
#[derive(Debug)]
struct Mapping {
    base: usize,
    length: usize,
}

impl Mapping {
    fn new(length: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // Most of it is never used. So it must not count as memory that this process may demand.
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), length, protection, flags)? };
        // Huge pages would give each stack memory that it does not use. Some kernels have none.
        // SAFETY: the advice changes no bytes of this mapping.
        let _ = unsafe { rustix::mm::madvise(base, length, rustix::mm::Advice::LinuxNoHugepage) };
        Ok(Self { base: base as usize, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` made this very mapping, and each stack in it keeps it alive.
        unsafe {
            let _ = munmap(self.base as *mut _, self.length);
        }
    }
}

/// Marks pages as a guard.
///
/// # Safety
///
/// Nothing refers to these pages, which belong to the caller. They lose their contents.
unsafe fn install(at: usize, length: usize) -> io::Result<()> {
    // SAFETY: by the contract of this function.
    if unsafe { libc::madvise(at as *mut _, length, GUARD_INSTALL) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

/// A pool of stacks for one kernel thread.
#[derive(Clone)]
pub struct Stacks(Rc<Pool>);

struct Pool {
    _watch: Watch,
    mapping: Mapping,
    /// Bytes of a stack and its guard together.
    stride: usize,
    guards: Guards,
    most: usize,
    free: RefCell<Free>,
}

#[derive(Debug)]
struct Free {
    /// Stacks that have been given back, by number. The last one is the next to be used.
    given_back: Vec<u32>,
    /// Stacks that have been used at some time. Those have guards.
    begun: usize,
}

/// A stack of the pool. It goes back when it is dropped.
pub struct Stack {
    pool: Rc<Pool>,
    number: u32,
    /// Tells valgrind that this memory is a stack.
    _registration: ValgrindStackRegistration,
}

impl Stacks {
    /// Room for up to `most` stacks with `bytes` each, rounded up to pages.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no address space, or if `guards` allow fewer stacks.
    pub fn new(most: usize, bytes: usize, guards: Guards) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let stride = bytes.max(MIN_STACK_SIZE).checked_next_multiple_of(page);
        let stride = stride.and_then(|bytes| bytes.checked_add(page));
        let length = stride.and_then(|stride| stride.checked_mul(most.max(1)));
        let (Some(stride), Some(length)) = (stride, length) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let allowed = guards.most_stacks().unwrap_or(usize::MAX).min(u32::MAX as usize);
        if most > allowed {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let mapping = Mapping::new(length)?;
        let watch = Watch::begin(mapping.base, length, stride)?;
        let free = RefCell::new(Free { given_back: Vec::new(), begun: 0 });
        Ok(Self(Rc::new(Pool { _watch: watch, mapping, stride, guards, most, free })))
    }

    /// A stack that nothing uses. `None`: all are in use.
    ///
    /// # Errors
    ///
    /// There are no more mappings or page tables for its guard.
    pub fn take(&self) -> io::Result<Option<Stack>> {
        let pool = &self.0;
        let mut free = pool.free.borrow_mut();
        let number = match free.given_back.pop() {
            Some(number) => number,
            None if free.begun == pool.most => return Ok(None),
            None => {
                let number = free.begun as u32;
                pool.guard(number)?;
                free.begun += 1;
                number
            }
        };
        drop(free);
        let page = rustix::param::page_size();
        let lowest = (pool.limit(number) + page) as *mut u8;
        let registration = ValgrindStackRegistration::new(lowest, pool.stride - page);
        Ok(Some(Stack { pool: Rc::clone(pool), number, _registration: registration }))
    }

    /// Whether there is a stack that nothing uses.
    pub fn has_free(&self) -> bool {
        let free = self.0.free.borrow();
        !free.given_back.is_empty() || free.begun < self.0.most
    }

    /// Bytes of a stack, without its guard.
    pub fn bytes_each(&self) -> usize {
        self.0.stride - rustix::param::page_size()
    }

    /// How many stacks have been in use at the same time, at most.
    pub fn begun(&self) -> usize {
        self.0.free.borrow().begun
    }

    /// The memory of `count` stacks from the `first` one, in bytes: of the one that takes most, and of all. A
    /// page takes memory when it has been touched. `mincore(2)`.
    ///
    /// # Errors
    ///
    /// Those of mincore(2).
    pub fn touched(&self, first: usize, count: usize) -> io::Result<(usize, usize)> {
        let page = rustix::param::page_size();
        let pool = &self.0;
        let mut resident = vec![0_u8; pool.stride / page];
        let (mut most, mut all) = (0, 0);
        for number in (first..self.begun()).take(count) {
            let at = pool.mapping.base + number * pool.stride;
            // SAFETY: the range is inside the mapping, and the vector has a byte for each of its pages.
            if unsafe { libc::mincore(at as *mut _, pool.stride, resident.as_mut_ptr()) } != 0 {
                return Err(io::Error::last_os_error());
            }
            let bytes = resident.iter().filter(|page| *page & 1 == 1).count() * page;
            most = most.max(bytes);
            all += bytes;
        }
        Ok((most, all))
    }
}

impl Pool {
    /// The lowest address of a stack's guard.
    fn limit(&self, number: u32) -> usize {
        self.mapping.base + number as usize * self.stride
    }

    /// The address above a stack.
    fn base(&self, number: u32) -> usize {
        self.limit(number) + self.stride
    }

    fn guard(&self, number: u32) -> io::Result<()> {
        let (at, page) = (self.limit(number), rustix::param::page_size());
        // SAFETY: the page is in this pool's mapping, and no stack has used its own guard.
        unsafe {
            match self.guards {
                Guards::Marks => install(at, page),
                Guards::Mappings => Ok(mprotect(at as *mut _, page, MprotectFlags::empty())?),
            }
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.pool.free.borrow_mut().given_back.push(self.number);
    }
}

// SAFETY: from `limit` to `base` the memory belongs to this stack alone until it is dropped, and stays
// mapped as long as the pool that it holds. Its lowest page is a guard, which `take` has made. Page
// boundaries are aligned more than a stack must be. A stack has a page at least, which is the minimum.
unsafe impl Switchable for Stack {
    fn base(&self) -> StackPointer {
        NonZeroUsize::new(self.pool.base(self.number)).unwrap_or(NonZeroUsize::MAX)
    }

    fn limit(&self) -> StackPointer {
        NonZeroUsize::new(self.pool.limit(self.number)).unwrap_or(NonZeroUsize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::*;
    use crate::coroutine::{Context, Thread};

    const STACK: usize = 32 << 10;

    type Parks<'a> = Context<'a, (), (), ()>;

    fn parks(context: &mut Parks<'_>, (): ()) {
        context.park(());
    }

    fn mappings() -> usize {
        std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
    }

    #[test]
    fn fifty_thousand_parked_threads_take_the_pages_that_they_use_and_no_mappings() {
        const MOST: usize = 50_000;
        if Guards::best() == Guards::Mappings {
            harness::skip("guards in the page table: this kernel has no MADV_GUARD_INSTALL");
            return;
        }
        let before = mappings();
        let stacks = Stacks::new(MOST, STACK, Guards::Marks).unwrap();
        let mut threads: Vec<_> =
            (0..MOST).map(|_| Thread::new(stacks.take().unwrap().expect("a stack"), parks)).collect();
        for thread in &mut threads {
            assert!(thread.resume(&mut (), ()).is_some());
        }
        assert!(stacks.take().unwrap().is_none(), "one more than there may be");
        let ((touched, _), more) = (stacks.touched(0, MOST).unwrap(), mappings() - before);
        println!("{MOST} threads: {touched} bytes of each at most, {more} more mappings");
        assert!(more < 10, "{more} mappings");
        let page = rustix::param::page_size();
        assert!((page..=2 * page).contains(&touched), "{touched}");
        for thread in &mut threads {
            assert!(thread.resume(&mut (), ()).is_none());
        }
    }

    #[test]
    fn guards_with_mappings_end_before_the_mappings_do() {
        let most = Guards::Mappings.most_stacks().unwrap();
        assert!(Stacks::new(most + 1, STACK, Guards::Mappings).is_err());
        let before = mappings();
        let stacks = Stacks::new(100, STACK, Guards::Mappings).unwrap();
        let taken: Vec<_> = (0..100).map(|_| stacks.take().unwrap().expect("a stack")).collect();
        let more = mappings() - before;
        assert!((190..230).contains(&more), "{more} for {} stacks", taken.len());
    }

    /// Each call uses a kilobyte of stack, and the compiler can't make a loop of it.
    fn overruns(context: &mut Parks<'_>, (): ()) {
        #[inline(never)]
        fn deeper(depth: usize) -> usize {
            let used = std::hint::black_box([depth as u8; 1024]);
            if depth == 0 { 0 } else { deeper(depth - 1) + used[depth % 1024] as usize }
        }
        std::hint::black_box(deeper(1 << 20));
        context.park(());
    }

    #[test]
    fn a_thread_that_overruns_its_stack_ends_the_process_and_says_so() {
        const GUARDS: &str = "SYS_TEST_GUARDS";
        if let Some(guards) = std::env::var_os(GUARDS) {
            let guards = if guards == "marks" { Guards::Marks } else { Guards::Mappings };
            let stacks = Stacks::new(4, STACK, guards).unwrap();
            let mut threads: Vec<_> = [parks, parks, overruns, parks]
                .map(|program| Thread::new(stacks.take().unwrap().expect("a stack"), program))
                .into();
            for thread in &mut threads {
                thread.resume(&mut (), ());
            }
            return;
        }
        for guards in ["marks", "mappings"] {
            if guards == "marks" && Guards::best() != Guards::Marks {
                continue;
            }
            let test = "stacks::tests::a_thread_that_overruns_its_stack_ends_the_process_and_says_so";
            let output = Command::new(std::env::current_exe().unwrap())
                .args([test, "--exact", "--nocapture"])
                .env(GUARDS, guards)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("a user-level thread has overrun its stack"), "{guards}: {said}");
            assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{guards}: {said}");
        }
    }

    #[test]
    fn a_fault_elsewhere_is_not_called_an_overrun() {
        const FAULTS: &str = "SYS_TEST_FAULTS";
        if std::env::var_os(FAULTS).is_some() {
            let _stacks = Stacks::new(1, STACK, Guards::best()).unwrap();
            // The first one reaches the handler of the standard library, which leaves it to the next.
            for _ in 0..2 {
                // SAFETY: the signal is sent to this thread alone, and ends the process.
                unsafe {
                    libc::raise(libc::SIGSEGV);
                }
            }
            return;
        }
        let test = "stacks::tests::a_fault_elsewhere_is_not_called_an_overrun";
        let output = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(FAULTS, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("overrun"), "{said}");
        assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{said}");
    }
}
