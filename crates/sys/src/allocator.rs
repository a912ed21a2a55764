//! How the allocator treats freed memory.
//!
//! The C library returns large freed blocks to the kernel. When the program needs such memory again, each
//! page causes a fault, in which the kernel clears the page. For a buffer of 1 MiB that a server needs
//! for each request, this costs more than filling the buffer.

/// Makes the allocator keep freed memory for later requests, in the whole process. Each arena keeps up to
/// `most` bytes, in pieces up to `largest` bytes. Larger pieces are returned to the kernel as before.
/// This uses mallopt(3), `M_TRIM_THRESHOLD` and `M_MMAP_THRESHOLD`, if the C library is glibc. Otherwise
/// it does nothing.
pub fn keep_freed(most: usize, largest: usize) {
    #[cfg(target_env = "gnu")]
    {
        let limit = |bytes: usize| libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        // SAFETY: this changes when memory is returned, and nothing about memory that is in use. The
        // allocator has a lock. A value that it does not accept (a size beyond 32 MiB) changes nothing.
        unsafe {
            libc::mallopt(libc::M_TRIM_THRESHOLD, limit(most));
            libc::mallopt(libc::M_MMAP_THRESHOLD, limit(largest));
        }
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = (most, largest);
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use std::hint::black_box;

    use super::*;
    use crate::own_process;

    /// Page faults of this process so far that needed no read from a disk.
    fn faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        stat.rsplit(')').next().unwrap().split_whitespace().nth(7).unwrap().parse().unwrap()
    }

    fn ask_for(size: usize, pieces: usize) {
        let pieces: Vec<Vec<u8>> = (0..pieces).map(|_| black_box(vec![1; size])).collect();
        black_box(&pieces);
    }

    #[test]
    fn what_is_freed_is_there_for_the_next() {
        own_process::run("allocator::tests::what_is_freed_is_there_for_the_next", || {
            keep_freed(16 << 20, 2 << 20);
            let faults_of = |size, pieces| {
                ask_for(size, pieces);
                let before = faults();
                for _ in 0..10 {
                    ask_for(size, pieces);
                }
                faults() - before
            };
            let (kept, returned) = (faults_of(1 << 20, 8), faults_of(12 << 20, 1));
            assert!(kept < 2_048, "{kept} faults for 10 times 2,048 pages");
            assert!(returned >= 30_000, "{returned} faults for 10 times 3,072 pages");
        });
    }
}
