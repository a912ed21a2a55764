//! Samples what a server's CPUs run, with perf(1)'s software clock, and sums the samples by groups of
//! functions as a [`Profile`](crate::record::profile). A sampled trial is not measured.
//!
//! It counts what the server's own processes run. It also counts what the kernel does for them on the same
//! CPUs while no other program runs: soft interrupts hit whatever process is running. Idle time is left
//! out.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::programs::child::{Process, list, on_cpus, output};
use crate::record::profile::Part;

/// perf(1) that takes samples. Dropping it ends perf.
#[derive(Debug)]
pub(crate) struct Profiler {
    process: Process,
    samples: PathBuf,
    log: PathBuf,
}

/// Samples per second of each CPU: a prime number, so that sampling does not follow anything that happens
/// every millisecond.
const PER_S: u32 = 1_999;

/// The separator of columns in `perf report`. No function name contains it.
const COLUMN: char = '\t';

/// How long perf may take to write its samples.
const TIMEOUT: Duration = Duration::from_secs(20);

impl Profiler {
    /// Begins after `delay`, and samples what runs on `cpus`. perf itself runs on `own_cpus`.
    pub(crate) fn start(
        cpus: &[usize],
        own_cpus: &[usize],
        delay: Duration,
        directory: &Path,
    ) -> Result<Self> {
        let (samples, log) = (directory.join("perf.data"), directory.join("perf.stderr"));
        let mut command = on_cpus(own_cpus);
        command.args(["perf", "record", "--quiet", "--no-buildid-cache", "--all-cpus", "--event=cpu-clock"]);
        command.arg(format!("--freq={PER_S}")).arg(format!("--cpu={}", list(cpus)));
        command.arg(format!("--delay={}", delay.as_millis())).arg("--output").arg(&samples);
        command.stdout(Stdio::null()).stderr(File::create(&log)?);
        Ok(Self { process: Process::start(&mut command)?, samples, log })
    }

    /// Ends sampling, and groups the samples of the server's threads, which are in `server`. Other programs
    /// are left out, and so is the kernel's work for these.
    pub(crate) fn finish(self, server: &[u32]) -> Result<Vec<Part>> {
        let stopped = self.process.stop(TIMEOUT);
        let told = fs::read_to_string(&self.log).unwrap_or_default();
        ensure!(stopped.is_ok() && self.samples.exists(), "perf record took no samples: {}", told.trim());
        let mut report = Command::new("perf");
        report.args(["report", "--stdio", "--quiet", "--no-children", "--call-graph=none"]);
        report.args(["--fields=sample,pid,dso,sym", "--field-separator"]).arg(COLUMN.to_string());
        let said = output(report.arg("--input").arg(&self.samples), "")?;
        // Keeps only the text: it is enough, at a hundredth of the size.
        fs::write(self.samples.with_extension("txt"), &said)?;
        fs::remove_file(&self.samples)?;
        groups(&said, server)
    }
}

/// Checks that perf can take samples here.
pub(crate) fn check() -> Result<()> {
    let words = ["record", "--quiet", "--all-cpus", "--event=cpu-clock", "--output=/dev/null", "true"];
    let hint = " (Debian package linux-perf, for `profile`)";
    output(Command::new("perf").args(words), hint).map(|_| ()).context("`profile` takes samples with perf")
}

/// The groups in the lines of `perf report`.
fn groups(report: &str, server: &[u32]) -> Result<Vec<Part>> {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for line in report.lines().filter(|line| !line.trim().is_empty()) {
        let sample = Sample::parse(line).with_context(|| format!("perf report has a line {line:?}"))?;
        if let Some(group) = sample.group(server) {
            *all.entry(group).or_default() += sample.count;
        }
    }
    let sum: u64 = all.values().sum();
    ensure!(sum > 0, "perf took no samples of the server");
    let part = |(group, count): (&str, u64)| Part {
        group: group.to_owned(),
        percent: count as f64 * 100.0 / sum as f64,
    };
    let mut parts: Vec<Part> = all.into_iter().map(part).collect();
    parts.sort_by(|one, other| other.percent.total_cmp(&one.percent));
    Ok(parts)
}

/// The samples of one function.
struct Sample<'a> {
    count: u64,
    /// The thread, although perf calls it a process. -1 if the thread had ended before perf could look it
    /// up.
    thread: i64,
    command: &'a str,
    object: &'a str,
    is_kernel: bool,
    function: &'a str,
}

impl<'a> Sample<'a> {
    /// Parses a line such as `"  621\t 19391:sluice:worker0\t[kernel.kallsyms]\t[k] tcp_sendmsg"`.
    fn parse(line: &'a str) -> Option<Self> {
        let mut columns = line.split(COLUMN).map(str::trim);
        let count = columns.next()?.parse().ok()?;
        let (thread, command) = columns.next()?.split_once(':')?;
        let object = columns.next()?;
        let (mode, function) = columns.next()?.split_once(']')?;
        let thread = thread.trim().parse().ok()?;
        Some(Self { count, thread, command, object, is_kernel: mode == "[k", function: function.trim() })
    }

    /// The group of the sample. `None`: it is not the server's.
    fn group(&self, server: &[u32]) -> Option<&'static str> {
        let is_servers = server.iter().any(|thread| i64::from(*thread) == self.thread);
        if !self.is_kernel {
            let is_library = self.object.starts_with("libc") || self.object.starts_with("ld-linux");
            let group = if is_library || self.object == "[vdso]" { "C library" } else { "the server" };
            return is_servers.then_some(group);
        }
        let is_nobodys = self.thread == 0 || KERNEL_THREADS.iter().any(|name| self.command.starts_with(name));
        let is_idle = IDLE.iter().any(|name| self.function.contains(name));
        ((is_servers || is_nobodys) && !is_idle).then(|| kernel_group(self.function))
    }
}

/// The kernel's threads that do work caused by the server.
const KERNEL_THREADS: [&str; 2] = ["ksoftirqd", "kworker"];

/// The kernel's functions that wait for work.
const IDLE: [&str; 7] =
    ["safe_halt", "default_idle", "mwait_idle", "intel_idle", "acpi_idle", "cpuidle", "do_idle"];

/// The group of a kernel function: the longest matching beginning of its name decides.
fn kernel_group(function: &str) -> &'static str {
    let name = function.trim_start_matches('_');
    let known =
        BEGINNINGS.iter().flat_map(|(group, all)| all.split_whitespace().map(move |one| (group, one)));
    let fitting = known.filter(|(_, beginning)| name.starts_with(beginning));
    fitting.max_by_key(|(_, beginning)| beginning.len()).map_or("kernel, others", |(group, _)| group)
}

/// The groups of table 1 in the 2007 paper, and how the names of their functions begin in Linux 5 and 6,
/// without leading underscores.
const BEGINNINGS: [(&str, &str); 9] = [
    (
        "networking",
        "tcp ip_ ip4 ipv4 ip_finish inet sk_ sock skb netif net_ dev_ napi veth loopback process_backlog \
         nf_ bbr reno cubictcp minmax rack fib neigh dst_ consume_skb kfree_skb alloc_skb build_skb \
         sys_recv sys_send sys_accept sys_socket sys_shutdown do_accept import_ lock_sock release_sock \
         qdisc pfifo fq_ sch_ eth_ validate_xmit rps get_rps enqueue_to_backlog csum raw_v4 raw_local \
         move_addr sys_setsockopt sys_getsockopt udp unix_ page_pool gro rtm sysctl_tcp icmp security_sock \
         secure_tcp siphash jhash queued_skb x64_sys_recv x64_sys_send x64_sys_accept simple_copy_to_iter \
         bpf xdp local_bh do_softirq net_rx",
    ),
    (
        "memory management",
        "kmem kmalloc kfree slab cache_from_obj alloc_pages alloc_frozen free_frozen get_page free_unref \
         free_pages page_ put_page folio_lru folio_batch lru mem_cgroup obj_cgroup memcg try_charge \
         refill_ drain_ handle_mm do_fault do_user_addr exc_page_fault asm_exc_page_fault unmap zap \
         flush_tlb tlb pte pmd pud p4d vma mmap mas_ mt_ shrink evict_folios scan_ isolate kvmalloc \
         vmalloc clear_page memset rmqueue prep_new_page get_obj_cgroup do_anonymous wp_page page_counter \
         free_to_pcp free_one_page pcpu percpu damon workingset reclaim",
    ),
    (
        "file system",
        "vfs fget fput fdget file filemap generic_file generic_fillattr splice do_sendfile sys_sendfile \
         x64_sys_sendfile ext4 xfs btrfs path link_path lookup dput dentry d_ inode open do_open \
         do_sys_open do_filp getname putname stat newfstat cp_new_stat iov_iter iter_ xas xa_ mapping \
         folio_mark folio_wait folio_add folio_put pipe shmem touch_atime atime security_file rw_verify \
         ksys x64_sys_write x64_sys_read x64_sys_pwrite x64_sys_pread x64_sys_open do_writev do_readv \
         x64_sys_writev x64_sys_close close alloc_fd rw_copy_check import_iovec copy_iovec page_cache \
         ondemand_readahead readahead read_pages do_page_cache mpage may_open terminate_walk \
         walk_component step_into complete_walk try_to_unlazy legitimize anon_pipe alloc_empty_file \
         init_file do_dentry fsnotify locks_ eventfd",
    ),
    (
        "disk",
        "bio blk submit_bio nvme virtblk virtio virtqueue scsi dm_ throtl tg_ mq_ elv dd_ bfq io_schedule \
         end_bio",
    ),
    (
        "polling",
        "ep_ epi_ epoll do_epoll sys_epoll x64_sys_epoll eventpoll sock_poll tcp_poll \
         tcp_stream_memory_free sys_poll do_poll do_sys_poll x64_sys_poll select do_select pollwait poll_ \
         x64_sys_ppoll reverse_path_check io_uring",
    ),
    (
        "data copying",
        "copy_ rep_movs rep_stos memcpy memmove csum_and_copy csum_partial_copy skb_copy skb_datagram \
         check_object_size check_heap_object raw_copy",
    ),
    (
        "scheduling",
        "schedule sched try_to_wake ttwu enqueue_ dequeue_ update_curr update_rq update_load update_cfs \
         update_min update_entity pick_ finish_task_switch select_task_rq select_idle switch_to switch_mm \
         prepare_task_switch set_next put_prev reweight place_entity avg_vruntime wake default_wake \
         autoremove_wake woken_wake psi cpuacct futex x64_sys_futex do_futex hrtick yield do_sched_yield \
         x64_sys_sched native_sched_clock context_switch check_preempt resched tick_nohz prepare_to_wait \
         finish_wait add_wait_queue remove_wait_queue load_balance vruntime entity_eligible min_vruntime \
         entity_tick task_tick rseq raw_spin_rq",
    ),
    (
        "locks, clocks and interrupts",
        "raw_spin raw_read raw_write raw_callee queued_spin pv_queued native_queued mutex down_ up_ rwsem \
         irq hrtimer timer mod_timer run_timer tick ktime read_tsc clockevents apic rcu smp_call \
         handle_softirqs common_interrupt sysvec asm_sysvec native_write_msr x2apic kvm pvclock \
         getnstimeofday lock_timer call_timer detach calc_wheel enqueue_timer internal_add posix_",
    ),
    (
        "system calls",
        "entry_ do_syscall syscall x64_sys_call its_return_thunk return_thunk retbleed srso exit_to_user \
         fpregs restore_fpregs asm_ error_ x86_indirect fred native_irq",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_put_where_they_belong() {
        for (function, group) in [
            ("tcp_sendmsg_locked", "networking"),
            ("__tcp_transmit_skb", "networking"),
            ("tcp_poll", "polling"),
            ("ep_send_events", "polling"),
            ("_copy_from_iter", "data copying"),
            ("copy_iovec_from_user", "file system"),
            ("skb_copy_datagram_iter", "data copying"),
            ("kmem_cache_alloc_node_noprof", "memory management"),
            ("finish_task_switch.isra.0", "scheduling"),
            ("_raw_spin_unlock_irqrestore", "locks, clocks and interrupts"),
            ("do_syscall_64", "system calls"),
            ("filemap_get_pages", "file system"),
            ("blk_mq_submit_bio", "disk"),
            ("something_new", "kernel, others"),
        ] {
            assert_eq!(kernel_group(function), group, "{function}");
        }
    }

    #[test]
    fn samples_of_others_are_left_out() {
        let report = "\
            \x20 50\t  7:server\t[kernel.kallsyms]\t[k] tcp_sendmsg\n\
            \x20 20\t  7:server\tserver\t[.] 0x000000000029f8eb\n\
            \x20 10\t  7:server\tlibc.so.6\t[.] memmove\n\
            \x20 10\t  0:swapper\t[kernel.kallsyms]\t[k] tcp_ack\n\
            \x20 10\t  9:ksoftirqd/1\t[kernel.kallsyms]\t[k] __tcp_push\n\
            \x20 99\t  0:swapper\t[kernel.kallsyms]\t[k] pv_native_safe_halt\n\
            \x20 99\t  8:other\t[kernel.kallsyms]\t[k] tcp_ack\n\
            \x20 99\t  8:other\tserver\t[.] main\n\
            \x20 1\t -1::-1\t[kernel.kallsyms]\t[k] d_walk\n\n";
        let part = |group: &str, percent| Part { group: group.to_owned(), percent };
        let parts = [part("networking", 70.0), part("the server", 20.0), part("C library", 10.0)];
        assert_eq!(groups(report, &[7]).unwrap(), parts);
        assert!(groups(report, &[5]).is_ok(), "soft interrupts are somebody's");
        assert!(groups("", &[7]).is_err());
        let error = groups("what\n", &[7]).unwrap_err().to_string();
        assert!(error.contains("\"what\""), "{error}");
    }
}
