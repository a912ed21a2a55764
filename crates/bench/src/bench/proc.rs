//! What `/proc` says about a server and the machine: CPU time, memory, stolen time. See proc(5).

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// CPU time used so far by the live threads of all `pids`, in nanoseconds (`schedstat`, first field).
///
/// It includes what soft interrupts did while those threads were running, which on loopback is the receiver's
/// half of TCP, unless the kernel was built with `CONFIG_IRQ_TIME_ACCOUNTING`.
pub(crate) fn cpu_time_ns(pids: &[u32]) -> Result<u64> {
    let mut sum = 0;
    for pid in pids {
        for task in
            fs::read_dir(format!("/proc/{pid}/task")).with_context(|| format!("process {pid} is gone"))?
        {
            let path = task?.path().join("schedstat");
            // A thread may end between the listing and the reading.
            let Ok(text) = fs::read_to_string(&path) else { continue };
            sum += field(&text, 0, &path)?;
        }
    }
    Ok(sum)
}

/// How many bytes all `pids` together have had read from disks, `/proc/PID/io`.
pub(crate) fn bytes_read(pids: &[u32]) -> Result<u64> {
    let mut sum = 0;
    for pid in pids {
        let path = format!("/proc/{pid}/io");
        let io = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let line = io.lines().find_map(|line| line.strip_prefix("read_bytes: "));
        sum += line.and_then(|bytes| bytes.parse::<u64>().ok()).with_context(|| format!("{path}: {io:?}"))?;
    }
    Ok(sum)
}

/// How many descriptors all `pids` together have open.
pub(crate) fn open_descriptors(pids: &[u32]) -> Result<usize> {
    let mut sum = 0;
    for pid in pids {
        sum += fs::read_dir(format!("/proc/{pid}/fd"))?.count();
    }
    Ok(sum)
}

/// `root` and all processes that descend from it.
pub(crate) fn process_tree(root: u32) -> Result<Vec<u32>> {
    let mut tree = vec![root];
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(pid) = entry?.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        // The name in parentheses may hold anything; what follows the last parenthesis is state and parent.
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<u32>().ok());
        parents.extend(parent.map(|parent| (pid, parent)));
    }
    let mut at = 0;
    while at < tree.len() {
        let of = tree[at];
        tree.extend(parents.iter().filter(|(_, parent)| *parent == of).map(|(pid, _)| *pid));
        at += 1;
    }
    Ok(tree)
}

/// CPU time of the children that this process has waited for, in nanoseconds (10 ms steps: clock ticks).
pub(crate) fn waited_children_cpu_ns() -> Result<u64> {
    let path = Path::new("/proc/self/stat");
    let stat = fs::read_to_string(path)?;
    let (_, after_name) = stat.rsplit_once(") ").context("unexpected /proc/self/stat")?;
    // Fields 16 and 17 of proc(5): cutime, cstime; the state, field 3, comes first here.
    let ticks = field(after_name, 13, path)? + field(after_name, 14, path)?;
    Ok(ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second())
}

/// Time that the hypervisor gave to others while this machine wanted to run, all CPUs together, in clock
/// ticks.
pub(crate) fn steal_ticks() -> Result<u64> {
    let path = Path::new("/proc/stat");
    field(&fs::read_to_string(path)?, 8, path)
}

/// Time that CPUs have spent so far in some ways, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuTicks {
    /// With nothing to do, or with what is nice: fillers of shares ([`crate::share`]).
    pub(crate) idle: u64,
    pub(crate) io_wait: u64,
    pub(crate) softirq: u64,
}

/// What `/proc/stat` says about these CPUs together.
pub(crate) fn cpu_ticks(cpus: &[usize]) -> Result<CpuTicks> {
    let path = Path::new("/proc/stat");
    let stat = fs::read_to_string(path)?;
    let mut sum = CpuTicks { idle: 0, io_wait: 0, softirq: 0 };
    for cpu in cpus {
        let name = format!("cpu{cpu} ");
        let line = stat.lines().find(|line| line.starts_with(&name));
        let line = line.with_context(|| format!("no CPU {cpu}"))?;
        sum.idle += field(line, 2, path)? + field(line, 4, path)?;
        sum.io_wait += field(line, 5, path)?;
        sum.softirq += field(line, 7, path)?;
    }
    Ok(sum)
}

pub(crate) fn ticks_in_seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// The counters of `TcpExt` in `/proc/net/netstat`: a line of names, then one of values.
pub(crate) fn tcp_extensions(netstat: &str) -> HashMap<&str, u64> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let (names, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let pairs = names.split(' ').zip(values.split(' '));
    pairs.filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect()
}

/// Packets dropped as a CPU's backlog was full, all CPUs together: the second column of
/// `/proc/net/softnet_stat`.
pub(crate) fn softnet_drops(softnet: &str) -> u64 {
    let drops = softnet.lines().filter_map(|line| line.split_whitespace().nth(1));
    drops.filter_map(|drops| u64::from_str_radix(drops, 16).ok()).sum()
}

/// The memory of one or more processes, in bytes.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(crate) struct Memory {
    /// Resident and only its own.
    pub(crate) private: u64,
    /// Resident and mapped by others as well (its proportional part).
    pub(crate) shared: u64,
    /// Size of all writable mappings, whether their pages were ever touched or not: slabs show here.
    pub(crate) writable: u64,
}

/// The user memory of all `pids` together.
pub(crate) fn memory(pids: &[u32]) -> Result<Memory> {
    let mut sum = Memory::default();
    for pid in pids {
        let path = format!("/proc/{pid}/smaps_rollup");
        let rollup = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let private = kilobytes(&rollup, "Private_Clean") + kilobytes(&rollup, "Private_Dirty");
        sum.private += private * 1024;
        sum.shared += kilobytes(&rollup, "Pss").saturating_sub(private) * 1024;
        sum.writable += writable_mappings(&fs::read_to_string(format!("/proc/{pid}/maps"))?)?;
    }
    Ok(sum)
}

fn kilobytes(rollup: &str, name: &str) -> u64 {
    let line = rollup.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn writable_mappings(maps: &str) -> Result<u64> {
    let mut sum = 0;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(permissions)) = (words.next(), words.next()) else { continue };
        if permissions.as_bytes().get(1) == Some(&b'w') {
            let Some((start, end)) = range.split_once('-') else { bail!("unexpected mapping {line:?}") };
            sum += u64::from_str_radix(end, 16)? - u64::from_str_radix(start, 16)?;
        }
    }
    Ok(sum)
}

fn field(text: &str, index: usize, path: &Path) -> Result<u64> {
    let word = text.split_whitespace().nth(index);
    word.and_then(|word| word.parse().ok())
        .with_context(|| format!("{} has no number as word {index}: {text:?}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_is_found_and_has_used_time_and_memory() {
        let own = std::process::id();
        assert_eq!(process_tree(own).unwrap()[0], own);
        assert!(cpu_time_ns(&[own]).unwrap() > 0);
        let before = memory(&[own]).unwrap();
        // Not zeroed pages from calloc: touched ones.
        let filled = vec![1u8; 8 << 20];
        let after = memory(&[own]).unwrap();
        assert!(after.private + after.shared >= before.private + before.shared + (7 << 20));
        assert!(after.writable >= before.writable + (7 << 20));
        drop(filled);
    }

    #[test]
    fn the_kernels_counters_are_read() {
        let netstat = "TcpExt: SyncookiesSent ListenDrops\nTcpExt: 3 12\nIpExt: InOctets\nIpExt: 7\n";
        assert_eq!(tcp_extensions(netstat), HashMap::from([("SyncookiesSent", 3), ("ListenDrops", 12)]));
        assert_eq!(softnet_drops("0001 0000000a 00\n0002 00000001 00\n"), 11);
        assert!(cpu_ticks(&[0]).unwrap().idle > 0);
        assert!(cpu_ticks(&[0, 9_999]).is_err());
    }

    #[test]
    fn only_writable_mappings_count() {
        let maps = "1000-3000 r--p 00000000 00:00 0 /lib/a\n3000-4000 rw-p 00000000 00:00 0\n4000-9000 rw-s 0 00:00 0 /memfd\n";
        assert_eq!(writable_mappings(maps).unwrap(), 0x6000);
    }
}
