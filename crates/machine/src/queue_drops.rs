//! What the kernel refused at the queues of listening sockets, by cause: counters of a network namespace,
//! from `/proc/PID/net/netstat` (proc(5); `TcpExt` of the kernel's `net/ipv4/proc.c`).
//!
//! They count for all TCP sockets of the namespace together, since it was made. What one socket dropped is in
//! `tcp_info` and `sock_diag` of crate `sys`, without the cause.
//! When each of them grows is in `docs/status.md`, with what Brecht et al. 2004 (section 7, figure 16) called
//! the causes.

use std::fs;

use crate::network::tcp_extension;

/// One cause, or another thing that happens when a queue is full.
#[derive(Debug, PartialEq, Eq)]
pub struct Cause {
    /// For programs.
    pub name: &'static str,
    /// One sentence for people, without the full stop, with the kernel's name of the counter.
    pub help: &'static str,
}

/// All of them, in the order of [`QueueDrops::counts`].
pub const CAUSES: [Cause; 7] = [
    Cause {
        name: "listen_overflows",
        help: "SYNs, and last packets of handshakes, dropped as an accept queue was full (ListenOverflows)",
    },
    Cause { name: "req_queue_full_drops", help: "SYNs dropped as a SYN queue was full (TCPReqQFullDrop)" },
    Cause {
        name: "req_queue_full_cookies",
        help: "SYNs to be answered with a cookie as a SYN queue was full (TCPReqQFullDoCookies)",
    },
    Cause { name: "syn_cookies_sent", help: "SYNs answered with a cookie (SyncookiesSent)" },
    Cause {
        name: "embryonic_resets",
        help: "Half-open connections reset: by the kernel as an accept queue was full, where \
               net.ipv4.tcp_abort_on_overflow is 1, or by the client (EmbryonicRsts)",
    },
    Cause {
        name: "listen_drops",
        help: "SYNs and last packets of handshakes dropped for whatever reason (ListenDrops)",
    },
    Cause {
        name: "other_listen_drops",
        help: "Those of listen_drops with neither queue full: without cookies, SYNs dropped as three \
            quarters of net.ipv4.tcp_max_syn_backlog were taken; rarely for lack of memory or of a route",
    },
];

/// The last of [`CAUSES`] is what the ones before it leave over.
const COUNTERS: [&str; CAUSES.len() - 1] = [
    "ListenOverflows",
    "TCPReqQFullDrop",
    "TCPReqQFullDoCookies",
    "SyncookiesSent",
    "EmbryonicRsts",
    "ListenDrops",
];

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDrops {
    /// In the order of [`CAUSES`]; `None` where this kernel does not count it.
    pub counts: [Option<u64>; CAUSES.len()],
}

impl QueueDrops {
    /// Those of the calling thread's network namespace. All `None` where `/proc` is not there.
    pub fn here() -> Self {
        Self::parse(&fs::read_to_string("/proc/thread-self/net/netstat").unwrap_or_default())
    }

    /// Those of a process's network namespace.
    ///
    /// # Errors
    ///
    /// There is no such process, or it may not be looked at.
    pub fn of_process(pid: u32) -> std::io::Result<Self> {
        Ok(Self::parse(&fs::read_to_string(format!("/proc/{pid}/net/netstat"))?))
    }

    /// What has come since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut grown = *self;
        for (count, earlier) in grown.counts.iter_mut().zip(earlier.counts) {
            *count = count.zip(earlier).map(|(now, before)| now.saturating_sub(before));
        }
        grown
    }

    /// How often that happened; `None` where the kernel does not count it, or there is no cause of that name.
    pub fn of(&self, name: &str) -> Option<u64> {
        CAUSES.iter().zip(self.counts).find(|(cause, _)| cause.name == name)?.1
    }

    fn parse(netstat: &str) -> Self {
        let mut drops = Self::default();
        for (count, name) in drops.counts.iter_mut().zip(COUNTERS) {
            *count = tcp_extension(netstat, name);
        }
        let [overflows, syn_queue, .., all, other] = &mut drops.counts;
        *other = match (*all, *overflows, *syn_queue) {
            // They are summed over CPUs one after the other, not at one moment.
            (Some(all), Some(overflows), Some(syn_queue)) => Some(all.saturating_sub(overflows + syn_queue)),
            _ => None,
        };
        drops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_counts_all() {
        assert!(QueueDrops::here().counts.iter().all(Option::is_some), "{:?}", QueueDrops::here());
        let own = QueueDrops::of_process(std::process::id()).unwrap();
        assert!(own.since(&QueueDrops::here()).counts.iter().all(|count| count.is_some_and(|n| n < 1000)));
        assert!(QueueDrops::of_process(u32::MAX).is_err());
    }

    #[test]
    fn a_value_is_found_by_its_name_and_not_its_place() {
        let netstat = "TcpExt: A ListenDrops ListenOverflows B TCPReqQFullDrop\nTcpExt: 1 30 22 3 5\n\
                       IpExt: A ListenOverflows\nIpExt: 8 9\n";
        let drops = QueueDrops::parse(netstat);
        assert_eq!(drops.of("listen_overflows"), Some(22));
        assert_eq!(drops.of("other_listen_drops"), Some(3));
        assert_eq!(drops.of("syn_cookies_sent"), None);
        assert_eq!(drops.of("ListenOverflows"), None);
        assert_eq!(QueueDrops::parse(""), QueueDrops::default());
    }

    #[test]
    fn what_has_come_is_told_from_what_was_there() {
        let at = |overflows: u64, all: u64| {
            QueueDrops::parse(&format!(
                "TcpExt: ListenOverflows ListenDrops TCPReqQFullDrop\nTcpExt: {overflows} {all} 1\n"
            ))
        };
        let grown = at(10, 19).since(&at(4, 10));
        assert_eq!(
            ["listen_overflows", "listen_drops", "other_listen_drops"].map(|name| grown.of(name)),
            [Some(6), Some(9), Some(3)]
        );
        assert_eq!(grown.of("embryonic_resets"), None);
    }
}
