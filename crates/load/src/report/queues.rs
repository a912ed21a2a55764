//! What the kernel dropped at the server's queues while a run went on, by cause: connection attempts of which
//! the server never heard, and the clients only by waiting.
//!
//! The kernel counts causes for a network namespace. A target at one of this machine's own addresses is in
//! the generator's namespace; where the server is in another of the same machine, one of its processes has to
//! be named.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

use machine::queue_drops::QueueDrops;
use results::load::{AtListener, Dropped};
use sys::sock_diag::{self, ListeningSocket};

/// The counters of a server's namespace when measuring began.
#[derive(Debug)]
pub struct Queues {
    targets: Vec<SocketAddr>,
    server: Option<u32>,
    began: Instant,
    causes: QueueDrops,
    sockets: Vec<ListeningSocket>,
}

impl Queues {
    /// Begins to watch the queues behind `targets`, in the namespace of process `server` if one is named.
    /// `None`: some target is another machine's, or in a namespace that nobody named; or there is none.
    ///
    /// # Errors
    ///
    /// The process can't be read.
    pub fn watch(targets: &[SocketAddr], server: Option<u32>) -> io::Result<Option<Self>> {
        // A datagram socket takes no port that connections could use.
        let is_here = |target: &SocketAddr| UdpSocket::bind(SocketAddr::new(target.ip(), 0)).is_ok();
        if targets.is_empty() || server.is_none() && !targets.iter().all(is_here) {
            return Ok(None);
        }
        let (causes, sockets) = read(server)?;
        Ok(Some(Self { targets: targets.to_vec(), server, began: Instant::now(), causes, sockets }))
    }

    /// Begins anew, when the warm-up is over.
    ///
    /// # Errors
    ///
    /// As [`watch`](Self::watch).
    pub fn skip(&mut self) -> io::Result<()> {
        (self.causes, self.sockets) = read(self.server)?;
        self.began = Instant::now();
        Ok(())
    }

    /// What was dropped since it began.
    ///
    /// # Errors
    ///
    /// As [`watch`](Self::watch): the process may have gone.
    pub fn dropped(&self) -> io::Result<Dropped> {
        let (causes, sockets) = read(self.server)?;
        let seconds = self.began.elapsed().as_secs_f64();
        Ok(self.compare(&causes, &sockets, seconds))
    }

    fn compare(&self, causes: &QueueDrops, sockets: &[ListeningSocket], seconds: f64) -> Dropped {
        let grown = causes.since(&self.causes);
        let per_s = |count: u64| count as f64 / seconds.max(f64::MIN_POSITIVE);
        let counts = results::QueueDrops::from(grown.counts);
        let reached = |address: &SocketAddr| self.targets.iter().any(|target| reaches(target, address));
        let mut addresses: Vec<_> = sockets.iter().map(|socket| socket.address).filter(reached).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let listeners = addresses.into_iter().map(|address| {
            let drops = sum(sockets, address).saturating_sub(sum(&self.sockets, address));
            AtListener { address, drops, per_s: per_s(drops) }
        });
        Dropped {
            server_pid: self.server,
            seconds,
            counts,
            per_s: counts.map(per_s),
            listeners: listeners.collect(),
        }
    }
}

/// Reads the counters now. Sockets are left out where they may not be read: the causes matter more.
fn read(server: Option<u32>) -> io::Result<(QueueDrops, Vec<ListeningSocket>)> {
    Ok(match server {
        None => (QueueDrops::here(), sock_diag::listening().unwrap_or_default()),
        Some(pid) => (QueueDrops::of_process(pid)?, sock_diag::listening_at(pid).unwrap_or_default()),
    })
}

/// Whether a client of `target` comes to a socket at `address`. One of IPv6 may take IPv4 as well.
fn reaches(target: &SocketAddr, address: &SocketAddr) -> bool {
    target.port() == address.port()
        && (target.ip() == address.ip()
            || address.ip().is_unspecified() && (address.is_ipv6() || target.is_ipv4()))
}

fn sum(sockets: &[ListeningSocket], address: SocketAddr) -> u64 {
    let at = sockets.iter().filter(|socket| socket.address == address);
    at.filter_map(|socket| socket.dropped).map(u64::from).sum()
}

#[cfg(test)]
pub(super) mod tests {
    use sys::tcp_info::AcceptQueue;

    use super::*;

    /// Nine connections that an accept queue had no room for, in three seconds.
    pub(in crate::report) fn sample() -> Dropped {
        let target = "127.0.0.1:80".parse().unwrap();
        let causes = |count| QueueDrops {
            counts: [Some(count), Some(0), Some(0), None, Some(0), Some(count), Some(0)],
        };
        let queues = Queues {
            targets: vec![target],
            server: None,
            began: Instant::now(),
            causes: causes(100),
            sockets: vec![socket(target, 40), socket(target, 5)],
        };
        let other = "127.0.0.1:81".parse().unwrap();
        queues.compare(&causes(109), &[socket(target, 44), socket(target, 10), socket(other, 7)], 3.0)
    }

    fn socket(address: SocketAddr, dropped: u32) -> ListeningSocket {
        ListeningSocket { address, queue: AcceptQueue { length: 0, limit: 1 }, dropped: Some(dropped) }
    }

    #[test]
    fn what_was_there_before_is_left_out() {
        let dropped = sample();
        assert_eq!((dropped.counts.listen_overflows, dropped.per_s.listen_overflows), (Some(9), Some(3.0)));
        assert_eq!(dropped.counts.syn_cookies_sent, None);
        let address = "127.0.0.1:80".parse().unwrap();
        assert_eq!(dropped.listeners, [AtListener { address, drops: 9, per_s: 3.0 }]);
    }

    #[test]
    fn a_socket_at_any_address_is_reached_by_its_port() {
        let reaches =
            |target: &str, address: &str| super::reaches(&target.parse().unwrap(), &address.parse().unwrap());
        assert!(reaches("127.0.0.1:80", "0.0.0.0:80") && reaches("127.0.0.1:80", "[::]:80"));
        assert!(reaches("[::1]:80", "[::]:80") && reaches("[::1]:80", "[::1]:80"));
        assert!(!reaches("127.0.0.1:80", "127.0.0.2:80") && !reaches("127.0.0.1:80", "127.0.0.1:81"));
        assert!(!reaches("[::1]:80", "0.0.0.0:80"));
    }

    #[test]
    fn other_machines_are_not_watched_and_processes_that_are_gone_are_an_error() {
        // Set aside for documentation, RFC 5737.
        let stranger = ["192.0.2.1:80".parse().unwrap()];
        assert!(Queues::watch(&stranger, None).unwrap().is_none());
        assert!(Queues::watch(&stranger, Some(u32::MAX)).is_err());
        let own = Queues::watch(&stranger, Some(std::process::id())).unwrap().unwrap();
        assert_eq!(own.dropped().unwrap().server_pid, Some(std::process::id()));
    }

    #[test]
    fn what_a_full_queue_drops_is_seen() {
        let options = sys::socket::ListenOptions { backlog: 1, ..Default::default() };
        let listener = sys::socket::listen_tcp("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let sys::socket::LocalAddress::Inet(target) = sys::socket::local_address(&listener).unwrap() else {
            unreachable!("a TCP socket was asked for")
        };
        let mut queues = Queues::watch(&[target], None).unwrap().unwrap();
        let clients = || (0..4).map(|_| sys::client::connect(None, target).unwrap()).collect::<Vec<_>>();
        let first = clients();
        let dropped = queues.dropped().unwrap();
        // One more than the backlog fits. Other tests use the namespace as well.
        assert!(dropped.counts.listen_overflows.unwrap() >= 2, "{dropped:?}");
        assert_eq!(dropped.listeners.len(), 1);
        let AtListener { address, drops, per_s } = dropped.listeners[0];
        assert!(address == target && drops >= 2 && per_s > 0.0, "{dropped:?}");
        queues.skip().unwrap();
        let second = clients();
        assert!(queues.dropped().unwrap().listeners[0].drops >= 4);
        drop((first, second));
    }
}
