//! Before the start: whether source addresses are there, and descriptors and ports suffice for what is asked,
//! so that a run does not measure their lack.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use machine::Machine;

use crate::run::{Class, Load, Run, Target};

/// Descriptors that are used for something else than connections, for each thread and in all.
const OTHER_DESCRIPTORS: u64 = 32;

/// How long a port stays taken after its connection was closed (`TCP_TIMEWAIT_LEN`, include/net/tcp.h).
const TIME_WAIT: Duration = Duration::from_mins(1);
/// On loopback a port is free again after a second (`tcp_tw_reuse` 2, the default; ip-sysctl.rst in the
/// kernel's documentation).
const TIME_WAIT_LOOPBACK: Duration = Duration::from_secs(1);

/// What a run needs is not to be had here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Shortage {
    /// Descriptors.
    #[error(
        "{needed} concurrent connections need as many descriptors, and {limit} are allowed (ulimit -n); use \
         fewer connections, or raise the limit"
    )]
    Descriptors {
        /// Connections that may be open at the same time.
        needed: u64,
        /// `RLIMIT_NOFILE`.
        limit: u64,
    },
    /// Local ports.
    #[error(
        "{needed} ports are needed at a time, and {available} are available: {per_pair} for each of {pairs} \
         pairs of a source address and a target (net.ipv4.ip_local_port_range); name more addresses with \
         --source, such as 127.0.0.2-127.0.0.9"
    )]
    Ports {
        /// Ports in use and waiting at the same time.
        needed: u64,
        /// Ports that there are.
        available: u64,
        /// Ports of the range.
        per_pair: u64,
        /// Pairs of a source and a target.
        pairs: u64,
    },
    /// A source address that is none of this machine's.
    #[error(
        "cannot connect from {address}: {reason}; --source takes addresses of this machine (ip address), \
         and all of 127.0.0.0/8"
    )]
    Source {
        /// The address.
        address: IpAddr,
        /// What the kernel says.
        reason: io::ErrorKind,
    },
}

/// What the machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    /// Descriptors that this process may have open.
    pub descriptors: u64,
    /// Ports of the local range.
    pub ports: u64,
    /// Whether loopback's ports are used again after a second.
    pub reuses_loopback_ports: bool,
}

impl Means {
    /// Those of this machine, after the limit of descriptors has been raised as far as it goes.
    pub fn of_this_machine() -> Self {
        let machine = Machine::this();
        let descriptors =
            sys::process::raise_descriptor_limit().unwrap_or_else(|_| sys::process::descriptor_limit());
        let ports = match machine.local_ports() {
            Some((first, last)) if first <= last => last - first + 1,
            // The kernel's default.
            _ => 28_232,
        };
        let reuse = machine.number_setting("net.ipv4.tcp_tw_reuse");
        Self { descriptors, ports, reuses_loopback_ports: reuse != Some(0) }
    }
}

/// Compares what a run needs with what there is. A run needs the connections that it keeps. How many sessions
/// are open that arrive at a rate is up to the server: such a run begins with what there is, and counts what
/// did not fit. Returned is what it will be short of however fast the server is.
///
/// # Errors
///
/// What is short, with the figures and the way out.
pub fn check(run: &Run, means: Means) -> Result<Option<Shortage>, Shortage> {
    for &address in run.classes.iter().flat_map(|class| &class.sources) {
        // A datagram socket takes no port that connections could use.
        if let Err(error) = UdpSocket::bind(SocketAddr::new(address, 0)) {
            return Err(Shortage::Source { address, reason: error.kind() });
        }
    }
    let open = run.classes.iter().map(kept_open).sum();
    if open > most_connections(run, means) {
        return Err(Shortage::Descriptors { needed: open, limit: means.descriptors });
    }
    let addresses: Vec<SocketAddr> = run.targets.iter().filter_map(Target::address).collect();
    if addresses.is_empty() {
        return Ok(None);
    }
    let local = addresses.iter().all(|address| address.ip().is_loopback());
    let wait = if local && means.reuses_loopback_ports { TIME_WAIT_LOOPBACK } else { TIME_WAIT };
    let mut short = None;
    for class in &run.classes {
        let pairs = (addresses.len() * class.sources.len().max(1)) as u64;
        let available = means.ports * pairs;
        let shortage = |needed| Shortage::Ports { needed, available, per_pair: means.ports, pairs };
        if kept_open(class) > available {
            return Err(shortage(kept_open(class)));
        }
        let needed = waiting(class, wait, run.duration);
        if needed > available {
            short = Some(shortage(needed));
        }
    }
    Ok(short)
}

/// How many connections all threads together may have open.
pub(crate) fn most_connections(run: &Run, means: Means) -> u64 {
    means.descriptors.saturating_sub(OTHER_DESCRIPTORS * (1 + run.cpus.len() as u64))
}

/// Connections that are open all the time.
fn kept_open(class: &Class) -> u64 {
    match &class.load {
        Load::Closed { connections, .. } | Load::Arriving { kept: Some(connections), .. } => {
            u64::from(*connections)
        }
        Load::Arriving { kept: None, .. } => 0,
    }
}

/// Ports that wait after their connection: at least one connection for each session, closed by the client.
fn waiting(class: &Class, wait: Duration, duration: Option<Duration>) -> u64 {
    match &class.load {
        // How often they connect is up to the server's speed.
        Load::Closed { .. } | Load::Arriving { kept: Some(_), .. } => 0,
        Load::Arriving { schedule, count, kept: None } => {
            let wait = duration.map_or(wait, |duration| wait.min(duration));
            let most = schedule.most_within(wait, duration.unwrap_or(Duration::MAX));
            ((most - 1e-6).ceil() as u64).min(count.unwrap_or(u64::MAX))
        }
    }
}

#[cfg(test)]
mod tests {
    use workload::session::SessionLog;

    use super::*;
    use crate::run::Timeouts;
    use crate::schedule::{Arrivals, Rate, Schedule};

    fn run(per_second: f64, sources: usize) -> Run {
        let second = Duration::from_secs(1);
        Run {
            log: SessionLog::default(),
            targets: vec![Target::Inet(([127, 0, 0, 1], 80).into())],
            host: "localhost".into(),
            headers: String::new(),
            classes: vec![Class {
                name: String::new(),
                load: Load::Arriving {
                    schedule: Schedule::drawn(Rate::constant(per_second).unwrap(), Arrivals::Exponential, 1),
                    count: None,
                    kept: None,
                },
                sources: (0..sources).map(|n| [127, 0, 0, n as u8 + 2].into()).collect(),
                handshakes_only: false,
                timeouts: Timeouts { connect: 10 * second, reply: 10 * second, think: second, retries: 0 },
            }],
            duration: Some(60 * second),
            requests: None,
            verify: None,
            tls: crate::tls::Settings::default(),
            cpus: vec![0],
            realtime: false,
        }
    }

    const MEANS: Means = Means { descriptors: 20_000, ports: 28_232, reuses_loopback_ports: true };

    fn closed(connections: u32, sources: usize) -> Run {
        let mut run = run(1.0, sources);
        run.classes[0].load = Load::Closed { connections, count: None, kept: false };
        run
    }

    #[test]
    fn what_is_kept_must_fit() {
        assert_eq!(check(&closed(19_936, 0), MEANS), Ok(None));
        let error = check(&closed(19_937, 0), MEANS).unwrap_err();
        assert_eq!(error, Shortage::Descriptors { needed: 19_937, limit: 20_000 });
        assert!(error.to_string().contains("ulimit -n"));
        let many = Means { descriptors: 1 << 20, ..MEANS };
        assert!(matches!(check(&closed(33_000, 0), many), Err(Shortage::Ports { needed: 33_000, .. })));
        assert_eq!(check(&closed(33_000, 2), many), Ok(None));
        let mut unix = closed(33_000, 0);
        unix.targets = vec![Target::Unix("/run/socket".into())];
        assert_eq!(check(&unix, many), Ok(None), "it takes no ports");
        let mut paced = run(1.0, 0);
        if let Load::Arriving { kept, .. } = &mut paced.classes[0].load {
            *kept = Some(19_937);
        }
        assert!(check(&paced, MEANS).is_err());
    }

    #[test]
    fn a_rate_begins_with_what_there_is() {
        for rate in [1_900.0, 2_000.0, 28_000.0] {
            assert_eq!(check(&run(rate, 0), MEANS), Ok(None));
        }
        // As many connections in a second as there are ports, each of which waits for one.
        let short = |run: &Run, means| check(run, means).unwrap();
        assert!(matches!(short(&run(33_000.0, 0), MEANS), Some(Shortage::Ports { needed: 33_000, .. })));
        assert_eq!(short(&run(33_000.0, 2), MEANS), None);
        let slow = Means { reuses_loopback_ports: false, ..MEANS };
        assert!(matches!(short(&run(3_000.0, 2), slow), Some(Shortage::Ports { needed: 180_000, .. })));
        let mut unix = run(33_000.0, 0);
        unix.targets = vec![Target::Unix("/run/socket".into())];
        assert_eq!(check(&unix, MEANS), Ok(None), "it takes no ports");
    }

    #[test]
    fn classes_share_descriptors_and_have_ports_of_their_own() {
        let mut several = closed(9_000, 1);
        several.classes.extend(closed(9_000, 1).classes);
        assert_eq!(check(&several, MEANS), Ok(None));
        several.classes.extend(closed(9_000, 1).classes);
        assert!(matches!(check(&several, MEANS), Err(Shortage::Descriptors { needed: 27_000, .. })));
        let many = Means { descriptors: 1 << 20, ..MEANS };
        assert_eq!(check(&several, many), Ok(None));
        several.classes.extend(closed(33_000, 1).classes);
        assert!(matches!(check(&several, many), Err(Shortage::Ports { needed: 33_000, .. })));
    }

    #[test]
    fn a_bounded_number_of_sessions_needs_no_more_than_that() {
        let mut bounded = run(1e6, 0);
        if let Load::Arriving { count, .. } = &mut bounded.classes[0].load {
            *count = Some(5_000);
        }
        assert_eq!(check(&bounded, MEANS), Ok(None));
    }

    #[test]
    fn a_rush_of_a_log_is_seen_wherever_it_is() {
        let hours = (0..48).map(Duration::from_hours);
        let rush = std::iter::repeat_n(Duration::from_hours(47), 30_000);
        let mut logged = run(1.0, 0);
        (logged.duration, logged.classes[0].load) = (
            None,
            Load::Arriving { schedule: Schedule::logged(hours.chain(rush)), count: Some(30_048), kept: None },
        );
        assert!(matches!(check(&logged, MEANS), Ok(Some(Shortage::Ports { needed: 30_001, .. }))));
        logged.duration = Some(Duration::from_hours(47));
        assert_eq!(check(&logged, MEANS), Ok(None), "it ends before");
    }

    #[test]
    fn a_source_that_is_not_here_is_named() {
        let mut stranger = run(1.0, 1);
        // Set aside for documentation, RFC 5737.
        stranger.classes[0].sources.push([192, 0, 2, 1].into());
        let error = check(&stranger, MEANS).unwrap_err();
        assert_eq!(
            error,
            Shortage::Source { address: [192, 0, 2, 1].into(), reason: io::ErrorKind::AddrNotAvailable }
        );
        assert!(
            error.to_string().starts_with("cannot connect from 192.0.2.1: address not available; --source")
        );
    }

    #[test]
    fn this_machine_has_something() {
        let means = Means::of_this_machine();
        assert!(means.descriptors >= 64 && means.ports > 0);
    }
}
