//! What the kernel tells of processes: who descends from whom, and what memory each uses. proc(5).

use std::fs;
use std::io;

/// Memory that a process uses, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Pages that no other process has, but for memory that is shared: whoever has touched it so far, it is
    /// there for others.
    pub(crate) private: u64,
    /// The same, and its part of those that others have as well.
    pub(crate) proportional: u64,
}

impl Usage {
    /// Of the calling process.
    pub(crate) fn here() -> io::Result<Self> {
        Self::of(std::process::id())
    }

    /// Of a process. `smaps_rollup` for the sums, which it does not round mapping by mapping, and `smaps` for
    /// what is shared.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let each = fs::read_to_string(format!("/proc/{pid}/smaps"))?;
        Self::parse(&rollup, &each).ok_or_else(|| io::Error::other("smaps_rollup is not as proc(5) says"))
    }

    fn parse(rollup: &str, each: &str) -> Option<Self> {
        let of = |name: &str| rollup.lines().find_map(|line| kilobytes(line, name));
        let private = of("Private_Clean:")? + of("Private_Dirty:")?;
        let private = private.saturating_sub(touched_by_one(each));
        Some(Self { private: private * 1024, proportional: of("Pss:")? * 1024 })
    }
}

/// A row's value, if it is the row of that name.
fn kilobytes(line: &str, name: &str) -> Option<u64> {
    line.strip_prefix(name)?.split_ascii_whitespace().next()?.parse().ok()
}

/// Kilobytes of shared memory that only this process has touched so far.
fn touched_by_one(smaps: &str) -> u64 {
    let (mut shared, mut sum) = (false, 0);
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next()) {
            // A mapping begins: `FROM-TO rw-s ...`.
            (Some(first), Some(rights)) if !first.ends_with(':') => shared = rights.ends_with('s'),
            _ if shared => {
                let value =
                    ["Private_Clean:", "Private_Dirty:"].iter().find_map(|name| kilobytes(line, name));
                sum += value.unwrap_or(0);
            }
            _ => {}
        }
    }
    sum
}

/// A process and all that descend from it, each with its ancestors up to that one, itself included.
pub(super) fn descendants(root: u32) -> Vec<(u32, Vec<u32>)> {
    let mut found = vec![(root, vec![root])];
    let mut looked_at = 0;
    while let Some((pid, ancestors)) = found.get(looked_at).cloned() {
        looked_at += 1;
        // A child belongs to the thread that made it.
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            for child in children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()) {
                let mut line = ancestors.clone();
                line.push(child);
                found.push((child, line));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollup_is_read_by_names() {
        let text = "5500-7ff0 ---p 00000000 00:00 0 [rollup]\nRss:  900 kB\nPss:  500 kB\nPss_Dirty: 9 kB\n\
                    Shared_Clean: 300 kB\nPrivate_Clean:  100 kB\nPrivate_Dirty:   28 kB\nReferenced: 1 kB\n";
        let mappings = "5500-5600 r-xp 00000000 fd:00 7 /bin/x\nPrivate_Clean:  100 kB\nPrivate_Dirty: 8 kB\n\
                        5600-7ff0 rw-s 00000000 00:01 9 /dev/zero (deleted)\nRss:  40 kB\nPrivate_Clean: 0 kB\n\
                        Private_Dirty: 20 kB\nVmFlags: rd wr\n";
        let usage = Usage { private: 108 * 1024, proportional: 500 * 1024 };
        assert_eq!(Usage::parse(text, mappings), Some(usage));
        assert_eq!(Usage::parse(text, ""), Some(Usage { private: 128 * 1024, ..usage }));
        assert_eq!(Usage::parse("Rss: 1 kB\n", ""), None);
    }

    #[test]
    fn memory_that_is_used_is_seen() {
        let before = Usage::here().unwrap();
        let held = vec![1_u8; 8 << 20];
        let after = Usage::here().unwrap();
        assert!(after.private > before.private + (6 << 20), "{before:?} {after:?}");
        assert!(after.proportional >= after.private);
        drop(held);
    }

    #[test]
    fn children_are_found_with_their_ancestors() {
        let mut child = std::process::Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let own = std::process::id();
        let mut line = Vec::new();
        for _ in 0..1000 {
            let all = descendants(own);
            if let Some((_, found)) =
                all.into_iter().find(|(_, line)| line.len() == 3 && line[1] == child.id())
            {
                line = found;
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(line.first(), Some(&own), "the shell's child was not found");
        let sleep = std::process::Command::new("kill").arg(line[2].to_string()).status().unwrap();
        assert!(sleep.success());
        child.wait().unwrap();
    }
}
