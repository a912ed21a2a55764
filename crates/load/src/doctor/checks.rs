//! The checks, each a function from the machine to what it finds there. A file that this kernel lacks gives
//! no finding unless its lack is one.

use machine::{Machine, text};

use super::Verdict::{Blind, Good, Note, Warning};
use super::{Finding, Watched};

/// Connections that the papers' experiments hold at a time.
const MANY_CONNECTIONS: u64 = 15_000;
/// How long a closed connection keeps its port (`TCP_TIMEWAIT_LEN`, include/net/tcp.h).
const TIME_WAIT_S: u64 = 60;

/// Puts all of them to the machine.
pub(super) fn all(machine: &Machine, watched: &Watched) -> Vec<Finding> {
    let maybe: [fn(&Machine) -> Option<Finding>; 19] = [
        descriptors,
        files_of_the_system,
        ports,
        waiting_ports,
        tracked_connections,
        backlog,
        syn_cookies,
        congestion_control,
        slow_start,
        processors,
        quota,
        turbo,
        sibling_threads,
        clock,
        kernel,
        preemption,
        rings,
        counters,
        memory,
    ];
    let always: [fn(&Machine) -> Finding; 3] = [governor, network, tools];
    let watching: [fn(&Watched) -> Finding; 3] = [steal, others, lateness];
    let found = maybe.iter().filter_map(|check| check(machine));
    let found = found.chain(always.iter().map(|check| check(machine)));
    found.chain(watching.iter().map(|check| check(watched))).collect()
}

fn descriptors(machine: &Machine) -> Option<Finding> {
    let limits = machine.text("/proc/self/limits")?;
    let hard = text::row(&limits, "Max open files")?.split_ascii_whitespace().nth(1)?;
    let hard = if hard == "unlimited" { u64::MAX } else { hard.parse().ok()? };
    let found = format!(
        "a process may have {hard} open at a time (hard limit, which load and sluice raise theirs to)"
    );
    Some(if hard >= MANY_CONNECTIONS + 1000 {
        Finding::new("descriptors", Good, found)
    } else {
        Finding::new("descriptors", Warning, found).advise(format!(
            "overload needs {MANY_CONNECTIONS} connections and more: `ulimit -Hn 1048576` as root, \
             LimitNOFILE= in a systemd unit, or /etc/security/limits.conf"
        ))
    })
}

fn files_of_the_system(machine: &Machine) -> Option<Finding> {
    let most = machine.number_setting("fs.file-max")?;
    let usage = machine.setting("fs.file-nr")?;
    let used: u64 = usage.split_ascii_whitespace().next()?.parse().ok()?;
    let free = most.saturating_sub(used);
    let found = format!("{used} of {most} open files in use (fs.file-max)");
    Some(if free >= 4 * MANY_CONNECTIONS {
        Finding::new("system's files", Good, found)
    } else {
        Finding::new("system's files", Warning, found)
            .advise("each connection on loopback is two: sysctl -w fs.file-max=1000000")
    })
}

fn ports(machine: &Machine) -> Option<Finding> {
    let (first, last) = machine.local_ports()?;
    let ports = (last + 1).saturating_sub(first);
    let rate = ports / TIME_WAIT_S;
    let reuse = match machine.number_setting("net.ipv4.tcp_tw_reuse") {
        Some(1) => "used again after 1 s",
        Some(2) => "used again after 1 s on loopback",
        _ => "never used again before TIME_WAIT ends",
    };
    let found = format!(
        "{first}-{last}: {ports} for each pair of a local address and a server's, {rate} connections/s at \
         {TIME_WAIT_S} s of TIME_WAIT; {reuse} (net.ipv4.tcp_tw_reuse)"
    );
    let more = "to have more, give load several --source addresses (all of 127.0.0.0/8 is available on \
        loopback), or sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"";
    Some(if ports >= 25_000 {
        Finding::new("local ports", Note, found).advise(more)
    } else {
        Finding::new("local ports", Warning, found).advise(more)
    })
}

fn waiting_ports(machine: &Machine) -> Option<Finding> {
    let sockets = machine.text("/proc/net/sockstat")?;
    let mut words = text::row(&sockets, "TCP:")?.split_ascii_whitespace().skip_while(|word| *word != "tw");
    let waiting: u64 = words.nth(1)?.parse().ok()?;
    let found = format!("{waiting} connections in TIME_WAIT now");
    Some(if waiting < 1000 {
        Finding::new("earlier load", Good, found)
    } else {
        Finding::new("earlier load", Warning, found).advise(format!(
            "they slow down connecting and take ports: wait {TIME_WAIT_S} s before measuring"
        ))
    })
}

fn tracked_connections(machine: &Machine) -> Option<Finding> {
    let most = machine.number_setting("net.netfilter.nf_conntrack_max")?;
    let used = machine.number_setting("net.netfilter.nf_conntrack_count").unwrap_or(0);
    if used == 0 {
        return Some(Finding::new(
            "connection tracking",
            Good,
            "netfilter could keep track of connections, but does not",
        ));
    }
    let found = format!("netfilter keeps track of connections: {used} of {most}");
    let advice = "it costs time on each packet, and drops connections when it is full: `iptables -t raw -A \
        PREROUTING -i lo -j NOTRACK` (and OUTPUT -o lo), or a larger net.netfilter.nf_conntrack_max";
    Some(Finding::new("connection tracking", Warning, found).advise(advice))
}

fn backlog(machine: &Machine) -> Option<Finding> {
    let accept = machine.number_setting("net.core.somaxconn")?;
    let syn = machine.number_setting("net.ipv4.tcp_max_syn_backlog").unwrap_or(0);
    let abort = machine.number_setting("net.ipv4.tcp_abort_on_overflow").unwrap_or(0);
    let found = format!(
        "accept queues hold at most {accept} (net.core.somaxconn), SYN queues {syn} \
         (net.ipv4.tcp_max_syn_backlog); connections beyond that are {}",
        if abort == 0 { "dropped silently, and clients try again after 1 s, 3 s, 7 s" } else { "reset" }
    );
    Some(if accept >= 4096 && abort == 0 {
        Finding::new("backlog", Good, found)
    } else {
        Finding::new("backlog", Warning, found).advise(
            "a server's backlog is limited to this: sysctl -w net.core.somaxconn=4096 \
             net.ipv4.tcp_max_syn_backlog=4096 net.ipv4.tcp_abort_on_overflow=0",
        )
    })
}

fn syn_cookies(machine: &Machine) -> Option<Finding> {
    let cookies = machine.number_setting("net.ipv4.tcp_syncookies")?;
    Some(match cookies {
        0 => Finding::new("SYN cookies", Note, "off: a full SYN queue drops, as it did in the papers"),
        1 => Finding::new(
            "SYN cookies",
            Note,
            "sent when a SYN queue is full, so that nothing is dropped there",
        )
        .advise(
            "drops by cause (Brecht et al. 2004, figure 16) need net.ipv4.tcp_syncookies=0 while that is \
             measured",
        ),
        _ => Finding::new("SYN cookies", Warning, "always sent (net.ipv4.tcp_syncookies=2)")
            .advise("this setting is for tests of the kernel: sysctl -w net.ipv4.tcp_syncookies=1"),
    })
}

fn congestion_control(machine: &Machine) -> Option<Finding> {
    let used = machine.setting("net.ipv4.tcp_congestion_control")?;
    let available = machine.setting("net.ipv4.tcp_available_congestion_control").unwrap_or_default();
    let discipline = machine.setting("net.core.default_qdisc").unwrap_or_default();
    let found = format!("{used} (there are: {available}); queueing discipline {discipline}");
    Some(if used == "bbr" {
        Finding::new("congestion control", Warning, found).advise(
            "bbr paces with timers, which costs CPU that the papers' servers did not spend: use \
                cubic, or say so",
        )
    } else {
        Finding::new("congestion control", Good, found)
    })
}

fn slow_start(machine: &Machine) -> Option<Finding> {
    let after_idle = machine.number_setting("net.ipv4.tcp_slow_start_after_idle")?;
    Some(if after_idle == 0 {
        Finding::new("slow start", Note, "connections keep their window over think times")
    } else {
        Finding::new("slow start", Note, "connections start slowly again after think times, as by default")
    })
}

fn processors(machine: &Machine) -> Option<Finding> {
    let cpus = machine.cores();
    let allowed = sys::process::allowed_cpus().map_or(cpus, |allowed| allowed.len());
    let found = format!("{cpus} on line, of which this process may use {allowed}");
    Some(match allowed {
        0 => return None,
        1 => Finding::new("processors", Warning, found)
            .advise("server and generator share it: results show only how both behave on one core"),
        2..=3 => Finding::new("processors", Blind, found).advise(
            "scaling over cores can't be measured; give the server --cpus 0 and load --cpus 1, and note \
             that the kernel does part of the work for each on the other's core",
        ),
        _ => Finding::new("processors", Good, found),
    })
}

fn quota(machine: &Machine) -> Option<Finding> {
    let group = machine.text("/proc/self/cgroup")?;
    let path = text::row(&group, "0::")?.trim_end_matches('/');
    let most = machine
        .text(&format!("/sys/fs/cgroup{path}/cpu.max"))
        .or_else(|| machine.text("/sys/fs/cgroup/cpu.max"))?;
    if most.starts_with("max") {
        return None;
    }
    let found = format!("the control group may use {most} us of CPU time (cpu.max: quota and period)");
    Some(Finding::new("CPU quota", Warning, found).advise(
        "when it is used up, all threads stop for the rest of the period: run outside of the container's \
         limit",
    ))
}

fn governor(machine: &Machine) -> Finding {
    let governors = machine.governors();
    if governors.is_empty() {
        Finding::new("frequency governor", Blind, "not visible here: a virtual machine, or no driver for it")
            .advise("interleave what you compare, so that a change of the clock hits all alike")
    } else if governors == ["performance"] {
        Finding::new("frequency governor", Good, "performance, on every processor")
    } else {
        Finding::new("frequency governor", Warning, governors.join(", ")).advise(
            "CPU time per request depends on the load then: `cpupower frequency-set -g performance`, or \
             write it to /sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
        )
    }
}

fn turbo(machine: &Machine) -> Option<Finding> {
    let off = machine.number("/sys/devices/system/cpu/intel_pstate/no_turbo").map(|no| no == 1);
    let boost = machine.number("/sys/devices/system/cpu/cpufreq/boost").map(|boost| boost == 0);
    Some(if off.or(boost)? {
        Finding::new("turbo", Good, "off")
    } else {
        Finding::new("turbo", Note, "on: a core is faster while the others idle")
            .advise("echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > .../cpufreq/boost")
    })
}

fn sibling_threads(machine: &Machine) -> Option<Finding> {
    let active = machine.number("/sys/devices/system/cpu/smt/active")?;
    Some(if active == 0 {
        Finding::new("sibling threads", Good, "none: each processor is a core")
    } else {
        Finding::new("sibling threads", Note, "two processors share a core's units").advise(
            "put server and generator on different cores \
             (/sys/devices/system/cpu/cpu*/topology/thread_siblings_list)",
        )
    })
}

fn clock(machine: &Machine) -> Option<Finding> {
    let source = machine.text("/sys/devices/system/clocksource/clocksource0/current_clocksource")?;
    Some(
        if matches!(source.as_str(), "tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page")
        {
            Finding::new("clock", Good, format!("{source}, read without entering the kernel"))
        } else {
            Finding::new("clock", Warning, format!("{source}: each reading is a system call or slower"))
                .advise(
                    "each time stamp then costs microseconds: boot with clocksource=tsc if the processor's \
                     is \
                stable",
                )
        },
    )
}

fn kernel(machine: &Machine) -> Option<Finding> {
    let release = machine.setting("kernel.osrelease")?;
    let mut parts = release.split(|character: char| !character.is_ascii_digit()).map(str::parse::<u32>);
    let version = (parts.next()?.ok()?, parts.next()?.ok()?);
    Some(if version >= (5, 15) {
        Finding::new(
            "kernel",
            Good,
            format!("{release}: epoll_pwait2 (5.11), IP_BIND_ADDRESS_NO_PORT (4.2), MSG_TRUNC"),
        )
    } else {
        Finding::new("kernel", Warning, release).advise("5.15 is the oldest supported kernel")
    })
}

/// Debugging files tell what is in force, and are root's; the build's configuration is the next best.
fn preemption(machine: &Machine) -> Option<Finding> {
    let in_force = machine.text("/sys/kernel/debug/sched/preempt").and_then(|models| {
        let (_, model) = models.split_once('(')?;
        Some(model.split_once(')')?.0.to_owned())
    });
    let version = machine.setting("kernel.version").unwrap_or_default();
    let built =
        ["PREEMPT_RT", "PREEMPT_DYNAMIC", "PREEMPT"].into_iter().find(|model| version.contains(model));
    let model = in_force.or_else(|| built.map(str::to_lowercase))?;
    let advice = "other work on the core can delay a ready thread until the next timer tick (up to 4 ms): \
        give load --realtime, or boot with preempt=full";
    Some(match model.as_str() {
        "full" | "preempt" | "preempt_rt" => Finding::new("preemption", Good, model),
        _ => Finding::new("preemption", Note, model).advise(advice),
    })
}

fn rings(machine: &Machine) -> Option<Finding> {
    match machine.number_setting("kernel.io_uring_disabled") {
        Some(0) => Some(Finding::new("io_uring", Good, "allowed")),
        Some(_) => Some(
            Finding::new("io_uring", Blind, "disabled (kernel.io_uring_disabled)")
                .advise("architecture uring can't be measured: sysctl -w kernel.io_uring_disabled=0"),
        ),
        // The setting came with 6.6; before, there was no way to forbid it but seccomp(2).
        None => None,
    }
}

fn counters(machine: &Machine) -> Option<Finding> {
    if !machine.has("/sys/bus/event_source/devices/cpu")
        && !machine.has("/sys/bus/event_source/devices/cpu_core")
    {
        return Some(Finding::new("hardware counters", Blind, "not available here").advise(
            "instructions, cache misses and memory accesses can't be measured (Yeung 2010 5.6, \
                 Hashemian et al. 2014 14-17); the bench counts instructions with valgrind instead",
        ));
    }
    let paranoid: i32 = machine.setting("kernel.perf_event_paranoid")?.parse().ok()?;
    Some(if paranoid <= 1 {
        Finding::new("hardware counters", Good, format!("available (kernel.perf_event_paranoid={paranoid})"))
    } else {
        Finding::new(
            "hardware counters",
            Note,
            format!("for root only (kernel.perf_event_paranoid={paranoid})"),
        )
        .advise("sysctl -w kernel.perf_event_paranoid=1")
    })
}

fn memory(machine: &Machine) -> Option<Finding> {
    let info = machine.text("/proc/meminfo")?;
    let mib = |name| Some(text::number(&info, name)? / 1024);
    let (all, available, swap) = (mib("MemTotal:")?, mib("MemAvailable:")?, mib("SwapTotal:").unwrap_or(0));
    let found = format!("{all} MiB, {available} available; swap {swap} MiB");
    Some(if available < 1024 {
        Finding::new("memory", Warning, found)
            .advise("file sets will not stay in the page cache: stop other programs")
    } else if swap > 0 {
        Finding::new("memory", Note, found)
            .advise("experiments under memory pressure should not measure swapping: swapoff -a")
    } else {
        Finding::new("memory", Good, found)
    })
}

fn network(machine: &Machine) -> Finding {
    let real: Vec<_> = machine
        .names("/sys/class/net")
        .into_iter()
        .filter(|name| machine.has(&format!("/sys/class/net/{name}/device")))
        .collect();
    if real.is_empty() {
        Finding::new("network", Blind, "no network card, only loopback and virtual interfaces").advise(
            "interrupts, their spreading, offloads and round trips can't be measured; on loopback the \
             sender's core does the receiver's work, too",
        )
    } else {
        Finding::new("network", Note, format!("cards: {}", real.join(", ")))
            .advise("measurements use loopback unless load runs on another machine; state which in a report")
    }
}

fn tools(machine: &Machine) -> Finding {
    const WANTED: [&str; 5] = ["httperf", "wrk", "nginx", "perf", "strace"];
    let is_here = |tool: &&str| {
        ["/usr/bin", "/usr/sbin", "/usr/local/bin"].iter().any(|at| machine.has(&format!("{at}/{tool}")))
    };
    let (here, missing): (Vec<_>, Vec<_>) = WANTED.into_iter().partition(is_here);
    let found = format!("here: {}", here.join(", "));
    if missing.is_empty() {
        Finding::new("tools to compare with", Good, found)
    } else {
        Finding::new("tools to compare with", Note, format!("{found}; missing: {}", missing.join(", ")))
            .advise("scripts/install-test-tools has their packages")
    }
}

fn steal(watched: &Watched) -> Finding {
    let steal = watched.percent(watched.time.steal);
    let found = format!(
        "{steal:.1}% of the processors' time during the last second went to other machines of this host"
    );
    if steal < 0.5 {
        Finding::new("stolen time", Good, found)
    } else {
        Finding::new("stolen time", Warning, found).advise(
            "repeat and interleave runs, and look at each run's own figure; runs with much stolen time are \
             not comparable",
        )
    }
}

fn others(watched: &Watched) -> Finding {
    let busy = watched.percent(watched.time.busy());
    let found = format!("processors were {busy:.1}% busy during the last second with other programs");
    if busy < 5.0 {
        Finding::new("other work", Good, found)
    } else {
        Finding::new("other work", Warning, found).advise("find it with top(1) and stop it before measuring")
    }
}

fn lateness(watched: &Watched) -> Finding {
    let spin = &watched.spin;
    let found = format!(
        "a loop that only reads the clock is up to {:.3} ms late in 99.9% of cases, {:.3} ms at worst, and \
         off its CPU for {:.2}% of the time",
        spin.lateness_ns(0.001) as f64 / 1e6,
        spin.longest_ns() as f64 / 1e6,
        spin.away_percent()
    );
    if spin.lateness_ns(0.001) < 1_000_000 {
        Finding::new("lateness", Good, found)
    } else {
        Finding::new("lateness", Warning, found).advise(
            "no generator can be more punctual here: use an idle machine, isolcpus=, nohz_full=, or another \
             host",
        )
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use machine::cpu::CpuTicks;

    use super::super::Verdict;
    use super::*;

    /// A machine made of some files.
    fn machine_of(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let machine = Machine::below(root.path());
        (root, machine)
    }

    fn verdict(check: fn(&Machine) -> Option<Finding>, files: &[(&str, &str)]) -> Option<Verdict> {
        let (_root, machine) = machine_of(files);
        check(&machine).map(|finding| {
            assert!(finding.advice.is_some() || matches!(finding.verdict, Good | Note), "{finding:?}");
            finding.verdict
        })
    }

    fn always(check: fn(&Machine) -> Finding, files: &[(&str, &str)]) -> Verdict {
        let (_root, machine) = machine_of(files);
        check(&machine).verdict
    }

    #[test]
    fn limits_are_judged() {
        let limits = |hard: &str| {
            format!("Limit  Soft Limit  Hard Limit  Units\nMax open files            1024  {hard}  files\n")
        };
        let of = |hard: &str| verdict(descriptors, &[("/proc/self/limits", &limits(hard))]);
        assert_eq!(of("4096"), Some(Warning));
        assert_eq!(of("1048576"), Some(Good));
        assert_eq!(of("unlimited"), Some(Good));
        assert_eq!(verdict(descriptors, &[]), None);
        let files = |most| {
            verdict(
                files_of_the_system,
                &[("/proc/sys/fs/file-max", most), ("/proc/sys/fs/file-nr", "900\t0\t1000")],
            )
        };
        assert_eq!((files("1000"), files("9223372036854775807")), (Some(Warning), Some(Good)));
    }

    #[test]
    fn ports_are_counted() {
        let range = "/proc/sys/net/ipv4/ip_local_port_range";
        let (_root, machine) =
            machine_of(&[(range, "32768\t60999\n"), ("/proc/sys/net/ipv4/tcp_tw_reuse", "2\n")]);
        let finding = ports(&machine).unwrap();
        assert_eq!(finding.verdict, Note);
        assert!(
            finding.found.contains("28232 for each pair") && finding.found.contains("470 connections/s"),
            "{finding:?}"
        );
        assert!(finding.found.contains("on loopback"), "{finding:?}");
        assert_eq!(verdict(ports, &[(range, "50000 50999")]), Some(Warning));
        assert_eq!(verdict(ports, &[(range, "60999 32768")]), Some(Warning));
        let sockets = |waiting| {
            format!("sockets: used 9\nTCP: inuse 5 orphan 0 tw {waiting} alloc 9 mem 1\nUDP: inuse 0 mem 0\n")
        };
        assert_eq!(verdict(waiting_ports, &[("/proc/net/sockstat", &sockets(3))]), Some(Good));
        assert_eq!(verdict(waiting_ports, &[("/proc/net/sockstat", &sockets(20_000))]), Some(Warning));
        let tracked = |used| {
            let below = "/proc/sys/net/netfilter";
            let (most, count) = (format!("{below}/nf_conntrack_max"), format!("{below}/nf_conntrack_count"));
            verdict(tracked_connections, &[(&most, "65536"), (&count, used)])
        };
        assert_eq!(
            (verdict(tracked_connections, &[]), tracked("0"), tracked("9")),
            (None, Some(Good), Some(Warning))
        );
    }

    #[test]
    fn queues_are_judged() {
        let of = |accept, abort| {
            verdict(
                backlog,
                &[
                    ("/proc/sys/net/core/somaxconn", accept),
                    ("/proc/sys/net/ipv4/tcp_abort_on_overflow", abort),
                ],
            )
        };
        assert_eq!(
            (of("4096", "0"), of("128", "0"), of("4096", "1")),
            (Some(Good), Some(Warning), Some(Warning))
        );
        let cookies = |value| verdict(syn_cookies, &[("/proc/sys/net/ipv4/tcp_syncookies", value)]);
        assert_eq!((cookies("0"), cookies("1"), cookies("2")), (Some(Note), Some(Note), Some(Warning)));
        let control =
            |value| verdict(congestion_control, &[("/proc/sys/net/ipv4/tcp_congestion_control", value)]);
        assert_eq!((control("cubic"), control("bbr")), (Some(Good), Some(Warning)));
    }

    #[test]
    fn processors_are_judged() {
        let policy = |number: u32| format!("/sys/devices/system/cpu/cpufreq/policy{number}/scaling_governor");
        let governors = |one, other| always(governor, &[(&policy(0), one), (&policy(1), other)]);
        assert_eq!(governors("performance\n", "performance\n"), Good);
        assert_eq!(governors("performance\n", "powersave\n"), Warning);
        assert_eq!(always(governor, &[]), Blind);
        assert_eq!(verdict(turbo, &[("/sys/devices/system/cpu/intel_pstate/no_turbo", "1")]), Some(Good));
        assert_eq!(verdict(turbo, &[("/sys/devices/system/cpu/cpufreq/boost", "1")]), Some(Note));
        assert_eq!(verdict(sibling_threads, &[("/sys/devices/system/cpu/smt/active", "1")]), Some(Note));
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        assert_eq!(
            (verdict(clock, &[(source, "tsc\n")]), verdict(clock, &[(source, "hpet\n")])),
            (Some(Good), Some(Warning))
        );
        let limit = |most| {
            verdict(quota, &[("/proc/self/cgroup", "0::/lab\n"), ("/sys/fs/cgroup/lab/cpu.max", most)])
        };
        assert_eq!((limit("max 100000\n"), limit("150000 100000\n")), (None, Some(Warning)));
    }

    #[test]
    fn kernels_are_judged() {
        let release = |text| verdict(kernel, &[("/proc/sys/kernel/osrelease", text)]);
        assert_eq!(
            (release("6.18.1-cloud"), release("5.15.0"), release("5.10.0-28")),
            (Some(Good), Some(Good), Some(Warning))
        );
        let models = |text| verdict(preemption, &[("/sys/kernel/debug/sched/preempt", text)]);
        assert_eq!(
            (models("(none) voluntary full lazy"), models("none voluntary (full)")),
            (Some(Note), Some(Good))
        );
        let version = |text| verdict(preemption, &[("/proc/sys/kernel/version", text)]);
        assert_eq!(
            (version("#1 SMP PREEMPT_DYNAMIC Debian"), version("#1 SMP PREEMPT_RT"), version("#1 SMP")),
            (Some(Note), Some(Good), None)
        );
        let ring = |value| verdict(rings, &[("/proc/sys/kernel/io_uring_disabled", value)]);
        assert_eq!((ring("0"), ring("2"), verdict(rings, &[])), (Some(Good), Some(Blind), None));
        let device = ("/sys/bus/event_source/devices/cpu/type", "4");
        let paranoid = |value| verdict(counters, &[device, ("/proc/sys/kernel/perf_event_paranoid", value)]);
        assert_eq!(
            (paranoid("-1"), paranoid("2"), verdict(counters, &[])),
            (Some(Good), Some(Note), Some(Blind))
        );
    }

    #[test]
    fn memory_and_network_are_judged() {
        let memory_of = |available: u64, swap| {
            let info = format!(
                "MemTotal: 8000000 kB\nMemFree: 1 kB\nMemAvailable: {available} kB\nSwapTotal: {swap} kB\n"
            );
            verdict(memory, &[("/proc/meminfo", &info)])
        };
        assert_eq!(
            (memory_of(4_000_000, 0), memory_of(4_000_000, 999_999), memory_of(99_999, 0)),
            (Some(Good), Some(Note), Some(Warning))
        );
        assert_eq!(always(network, &[("/sys/class/net/lo/mtu", "65536")]), Blind);
        assert_eq!(always(network, &[("/sys/class/net/eth0/device/vendor", "0x1af4")]), Note);
        assert_eq!(always(tools, &[("/usr/bin/wrk", "")]), Note);
    }

    #[test]
    fn what_was_watched_is_judged() {
        let watched = |steal: u64, user: u64| {
            let time = CpuTicks { user, steal, idle: 100 - user - steal, ..CpuTicks::default() };
            Watched { time, ..Watched::default() }
        };
        assert_eq!((steal(&watched(0, 0)).verdict, steal(&watched(3, 0)).verdict), (Good, Warning));
        assert_eq!((others(&watched(0, 1)).verdict, others(&watched(0, 50)).verdict), (Good, Warning));
        assert_eq!(lateness(&watched(0, 0)).verdict, Good);
    }
}
