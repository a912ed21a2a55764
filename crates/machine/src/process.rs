//! What processes are called, descend from and use. All of a process that has ended gives an error:
//! [`NotFound`](io::ErrorKind::NotFound), or `ESRCH` where it ended while its file was read.

use std::collections::HashMap;
use std::fs;
use std::io;

use crate::cpu::TICKS_PER_S;
use crate::odd;
use crate::text::{column, number};

/// What a thread did with its processor so far, in nanoseconds (`schedstat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTime {
    /// Running. It includes what soft interrupts did meanwhile, which on loopback is the receiver's half of
    /// TCP, unless the kernel was built with `CONFIG_IRQ_TIME_ACCOUNTING`.
    pub ran: u64,
    /// Waiting for the processor although there was something to do.
    pub waited: u64,
}

impl RunTime {
    /// Of the calling thread; `None` where the kernel keeps no account.
    pub fn of_this_thread() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
    }

    /// Of a thread of this process, by the kernel's number; `None` as well where there is no such thread.
    pub fn of_thread(id: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/self/task/{id}/schedstat")).ok()?)
    }

    fn parse(schedstat: &str) -> Option<Self> {
        Some(Self { ran: column(schedstat, 0)?, waited: column(schedstat, 1)? })
    }
}

/// CPU time that a process has used so far, in nanoseconds. See [`RunTime::ran`]; where threads have ended,
/// in steps of a tick of 10 ms.
pub fn cpu_time_ns(pid: u32) -> io::Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between the listing and the reading.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        sum += RunTime::parse(&text).ok_or_else(|| odd("schedstat"))?.ran;
    }
    // These have the time of threads that have ended as well.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = stat_field(&stat, 14).zip(stat_field(&stat, 15)).ok_or_else(|| odd("stat"))?;
    Ok(sum.max((ticks.0 + ticks.1) * (1_000_000_000 / TICKS_PER_S)))
}

/// CPU time of the children that a process has waited for, in nanoseconds, in steps of a tick of 10 ms.
pub fn waited_children_cpu_ns(pid: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Fields 16 and 17: cutime, cstime.
    let ticks = stat_field(&stat, 16).zip(stat_field(&stat, 17)).ok_or_else(|| odd("stat"))?;
    Ok((ticks.0 + ticks.1) * (1_000_000_000 / TICKS_PER_S))
}

/// Bytes that a process has had read from disks so far.
pub fn bytes_read(pid: u32) -> io::Result<u64> {
    number(&fs::read_to_string(format!("/proc/{pid}/io"))?, "read_bytes:").ok_or_else(|| odd("io"))
}

/// How many descriptors a process has open.
///
/// Linux 6.2 and later tell the number as the directory's size. To count its entries is to have the kernel
/// make one for each descriptor, and take them all away when the process ends.
pub fn open_descriptors(pid: u32) -> io::Result<u64> {
    let directory = format!("/proc/{pid}/fd");
    match fs::metadata(&directory)?.len() {
        0 => {
            let count = fs::read_dir(directory)?.count() as u64;
            // The listing itself has one open.
            Ok(count.saturating_sub(u64::from(pid == std::process::id())))
        }
        count => Ok(count),
    }
}

/// What a process calls itself, 15 bytes at most.
pub fn name(pid: u32) -> io::Result<String> {
    Ok(fs::read_to_string(format!("/proc/{pid}/comm"))?.trim_end().to_owned())
}

/// The CPUs that a process may run on, as the kernel lists them: `0-3,8`.
pub fn allowed_cpus(pid: u32) -> io::Result<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map(|list| list.trim().to_owned()).ok_or_else(|| odd("status"))
}

/// The ids of a process's threads; the first thread's is the process's own.
pub fn threads(pid: u32) -> io::Result<Vec<u32>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
    Ok(tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect())
}

/// What the threads of a process call themselves.
pub fn thread_names(pid: u32) -> io::Result<Vec<String>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
    // A thread may end in between.
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    Ok(names.map(|name| name.trim_end().to_owned()).collect())
}

/// A process and all that descend from it, ancestors first: each with the ids of its ancestors from that one
/// on, itself included.
pub fn descendants(root: u32) -> io::Result<Vec<(u32, Vec<u32>)>> {
    let mut children = HashMap::<u32, Vec<u32>>::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(pid) = entry?.file_name().to_string_lossy().parse() else { continue };
        // It may have ended since the listing.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let parent = stat_field(&stat, 4).ok_or_else(|| odd("stat"))?;
        children.entry(parent as u32).or_default().push(pid);
    }
    let mut found = vec![(root, vec![root])];
    let mut at = 0;
    while let Some((parent, ancestors)) = found.get(at).cloned() {
        // Taken, so that each is found once, whatever the kernel told while ids were given anew.
        found.extend(children.remove(&parent).into_iter().flatten().map(|child| {
            let line = ancestors.iter().copied().chain([child]);
            (child, line.collect())
        }));
        at += 1;
    }
    Ok(found)
}

/// The ids of a process and of all that descend from it, ancestors first.
pub fn tree(root: u32) -> io::Result<Vec<u32>> {
    Ok(descendants(root)?.into_iter().map(|(pid, _)| pid).collect())
}

/// CPU time of a process and of the children that it has waited for, in ticks of
/// [`crate::cpu::TICKS_PER_S`]: in user mode, and in the kernel.
pub fn cpu_ticks(pid: u32) -> io::Result<(u64, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Fields 14 to 17: utime, stime, cutime, cstime.
    let field = |number| stat_field(&stat, number).ok_or_else(|| odd("stat"));
    Ok((field(14)? + field(16)?, field(15)? + field(17)?))
}

/// How often the threads of a process left a CPU: to wait, or because others were to have it.
pub fn context_switches(pid: u32) -> io::Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between the listing and the reading.
        let Ok(text) = fs::read_to_string(task?.path().join("status")) else { continue };
        let of = |name| number(&text, name).ok_or_else(|| odd("status"));
        sum += of("voluntary_ctxt_switches:")? + of("nonvoluntary_ctxt_switches:")?;
    }
    Ok(sum)
}

/// A number in `/proc/PID/stat`, by the number that proc(5) gives its field: 4 and up. The name, field 2, is
/// in parentheses and may hold anything; what follows the last of them is field 3.
fn stat_field(stat: &str, field: usize) -> Option<u64> {
    column(stat.rsplit_once(") ")?.1, field - 3)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_process_has_used_time_and_left_the_cpu() {
        let before = context_switches(std::process::id()).unwrap();
        thread::sleep(Duration::from_millis(1));
        assert!(context_switches(std::process::id()).unwrap() > before);
        let start = Instant::now();
        while cpu_ticks(std::process::id()).unwrap() == (0, 0) {
            assert!(start.elapsed() < Duration::from_mins(1), "no ticks are counted");
        }
        assert!(cpu_ticks(u32::MAX).is_err() && context_switches(u32::MAX).is_err());
    }

    #[test]
    fn computing_is_accounted_for() {
        let Some(before) = RunTime::of_this_thread() else { return };
        let began = Instant::now();
        while began.elapsed().as_millis() < 30 {
            std::hint::black_box(0);
        }
        assert!(RunTime::of_this_thread().unwrap().ran > before.ran, "{before:?}");
        assert!(cpu_time_ns(std::process::id()).unwrap() > before.ran);
        assert_eq!(RunTime::parse("123 45 6\n"), Some(RunTime { ran: 123, waited: 45 }));
        assert_eq!((RunTime::parse("123"), RunTime::parse("x y")), (None, None));
    }

    #[test]
    fn a_process_has_cpus_that_it_may_run_on() {
        let list = allowed_cpus(std::process::id()).unwrap();
        let is_one_of = |letter: char| letter.is_ascii_digit() || "-,".contains(letter);
        assert!(!list.is_empty() && list.chars().all(is_one_of), "{list}");
        assert!(allowed_cpus(u32::MAX).is_err());
    }

    #[test]
    fn threads_are_listed() {
        let own = std::process::id();
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let other = thread::spawn(move || told.recv());
        let all = threads(own).unwrap();
        assert!(all.contains(&own) && all.len() >= 2, "{all:?}");
        drop(tell);
        assert!(other.join().unwrap().is_err());
    }

    #[test]
    fn descriptors_are_counted() {
        let own = || open_descriptors(std::process::id()).unwrap();
        let before = own();
        let held: Vec<_> = (0..500).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        // Other tests open and close files meanwhile, but not as many.
        assert!(own() > before + 300, "{before}");
        drop(held);
    }

    #[test]
    fn children_are_found_with_their_ancestors_and_figures() {
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", "cat; :"]).stdin(Stdio::piped()).spawn().unwrap();
        let own = std::process::id();
        let is_it = |(_, line): &(u32, Vec<u32>)| line.len() == 3 && line[1] == child.id();
        let mut found = None;
        for _ in 0..1000 {
            found = descendants(own).unwrap().into_iter().find(is_it);
            if found.as_ref().is_some_and(|(pid, _)| name(*pid).is_ok_and(|name| name == "cat")) {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let (cat, line) = found.expect("the shell's child");
        assert_eq!((line[0], line[2]), (own, cat));
        assert_eq!(
            (tree(child.id()).unwrap(), thread_names(cat).unwrap()),
            (line[1..].to_vec(), vec!["cat".into()])
        );
        assert!(bytes_read(cat).is_ok() && open_descriptors(cat).unwrap() >= 3);
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        assert!(waited_children_cpu_ns(std::process::id()).is_ok());
        assert!(cpu_time_ns(cat).is_err() && name(cat).is_err());
    }

    proptest! {
        #[test]
        fn a_name_may_hold_anything(name: String, parent: u32, rest: [u64; 3]) {
            let stat = format!("7 ({name}) S {parent} {} {} {}\n", rest[0], rest[1], rest[2]);
            prop_assert_eq!(stat_field(&stat, 4), Some(u64::from(parent)));
            prop_assert_eq!(stat_field(&stat, 7), Some(rest[2]));
        }
    }
}
