//! What memory processes use.

use std::fs;
use std::io;

use crate::odd;
use crate::text::number;

/// Memory of user space that a process uses, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Pages that no other process has, but for memory that is shared: whoever has touched it so far, it is
    /// there for others.
    pub private: u64,
    /// Those of them that it has written to. The others are of files as they are on disk, such as the program
    /// itself, and become one process's own as others that have them end.
    pub own: u64,
    /// All pages that it has, those that `n` processes have counted as an `n`th each.
    pub proportional: u64,
}

impl Usage {
    /// Of the calling process. See [`Usage::of`].
    pub fn here() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// Of a process. `smaps_rollup` for the sums, which it does not round mapping by mapping, and `smaps` for
    /// what is shared.
    pub fn of(pid: u32) -> io::Result<Self> {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let each = fs::read_to_string(format!("/proc/{pid}/smaps"))?;
        Self::parse(&rollup, &each).ok_or_else(|| odd("smaps_rollup"))
    }

    fn parse(rollup: &str, each: &str) -> Option<Self> {
        let (clean, dirty) = (number(rollup, "Private_Clean:")?, number(rollup, "Private_Dirty:")?);
        let private = clean.checked_add(dirty)?.saturating_sub(touched_by_one(each, &PRIVATE));
        let own = dirty.saturating_sub(touched_by_one(each, &PRIVATE[1..]));
        let bytes = |kilobytes: u64| kilobytes.checked_mul(1024);
        Some(Self {
            private: bytes(private)?,
            own: bytes(own)?,
            proportional: bytes(number(rollup, "Pss:")?)?,
        })
    }
}

/// The size of all writable mappings of a process in bytes, whether their pages were ever touched or not:
/// what was set aside shows here.
pub fn writable(pid: u32) -> io::Result<u64> {
    writable_mappings(&fs::read_to_string(format!("/proc/{pid}/maps"))?).ok_or_else(|| odd("maps"))
}

/// Rows begin `FROM-TO rw-p`, in hexadecimal.
fn writable_mappings(maps: &str) -> Option<u64> {
    let rows = maps.lines().filter_map(|line| line.split_once(' '));
    let mut writable = rows.filter(|(_, rights)| rights.as_bytes().get(1) == Some(&b'w'));
    writable.try_fold(0_u64, |sum, (range, _)| {
        let (from, to) = range.split_once('-')?;
        let [from, to] = [from, to].map(|end| u64::from_str_radix(end, 16).ok());
        sum.checked_add(to?.checked_sub(from?)?)
    })
}

/// Rows for pages that no other process has.
const PRIVATE: [&str; 2] = ["Private_Clean:", "Private_Dirty:"];

/// Kilobytes of shared memory that only this process has touched so far, by these rows.
fn touched_by_one(smaps: &str, rows: &[&str]) -> u64 {
    let (mut shared, mut sum) = (false, 0);
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next()) {
            // A mapping begins: `FROM-TO rw-s ...`.
            (Some(first), Some(rights)) if !first.ends_with(':') => shared = rights.ends_with('s'),
            _ if shared => {
                let value = rows.iter().find_map(|row| number(line, row));
                sum = u64::saturating_add(sum, value.unwrap_or(0));
            }
            _ => {}
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_rollup_is_read_by_names() {
        let text = "5500-7ff0 ---p 00000000 00:00 0 [rollup]\nRss:  900 kB\nPss:  500 kB\nPss_Dirty: 9 kB\n\
                    Shared_Clean: 300 kB\nPrivate_Clean:  100 kB\nPrivate_Dirty:   28 kB\nReferenced: 1 kB\n";
        let mappings = "5500-5600 r-xp 00000000 fd:00 7 /bin/x\nPrivate_Clean:  100 kB\nPrivate_Dirty: 8 kB\n\
                        5600-7ff0 rw-s 00000000 00:01 9 /dev/zero (deleted)\nRss:  40 kB\n\
                        Private_Clean: 0 kB\nPrivate_Dirty: 20 kB\nVmFlags: rd wr\n";
        let usage = Usage { private: 108 * 1024, own: 8 * 1024, proportional: 500 * 1024 };
        assert_eq!(Usage::parse(text, mappings), Some(usage));
        let all = Usage { private: 128 * 1024, own: 28 * 1024, ..usage };
        assert_eq!(Usage::parse(text, ""), Some(all));
        assert_eq!(Usage::parse("Rss: 1 kB\n", ""), None);
    }

    #[test]
    fn memory_that_is_used_is_seen() {
        let own = std::process::id();
        let (before, mapped) = (Usage::here().unwrap(), writable(own).unwrap());
        // Not zeroed pages from calloc: touched ones.
        let held = vec![1_u8; 8 << 20];
        let after = Usage::here().unwrap();
        assert!(after.private > before.private + (6 << 20), "{before:?} {after:?}");
        assert!(after.own > before.own + (6 << 20), "{before:?} {after:?}");
        assert!(after.proportional >= after.private);
        assert!(writable(own).unwrap() >= mapped + (6 << 20), "{mapped}");
        drop(held);
    }

    #[test]
    fn only_writable_mappings_count() {
        let maps = "1000-3000 r--p 00000000 00:00 0 /lib/a\n3000-4000 rw-p 00000000 00:00 0\n\
                    4000-9000 rw-s 0 00:00 0 /memfd\n";
        assert_eq!(writable_mappings(maps), Some(0x6000));
        assert_eq!((writable_mappings("here rw-p 0"), writable_mappings("9-1 rw-p 0")), (None, None));
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(
            text: String,
            rows in "(Private_Dirty: [0-9]{0,20} kB\n|[0-9a-f]{1,17}-[0-9]{1,17} rw-s\n)*",
        ) {
            let _ = (Usage::parse(&text, &rows), Usage::parse(&rows, &text));
            let _ = (writable_mappings(&text), writable_mappings(&rows));
        }
    }
}
