//! `sluicelab application`: an application that speaks HTTP, with a set time and a set capacity. Servers are
//! compared in front of it, because nothing about it changes from run to run.
//!
//! `/app/N` is answered with N bytes. Each connection has a thread. A request takes `--time`, in which its
//! thread sleeps, and at most `--capacity` requests are worked on at a time. The others wait, first come,
//! first served.

use std::borrow::Cow;
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::{BadInput, answering, tell};

/// The options of the application.
#[derive(Args)]
pub(crate) struct Options {
    /// Where to listen; port 0 picks a free port, which is printed
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:3000")]
    listen: SocketAddr,

    /// How long it works on a request, which costs no CPU time
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = units::parse_time)]
    time: Duration,

    /// Most requests that it works on at a time
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    capacity: u32,
}

/// The longest reply.
const MOST: usize = 16 << 20;

/// Serves for as long as the process lives.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let listener = TcpListener::bind(options.listen)
        .map_err(|error| BadInput(format!("--listen {}: {error}", options.listen)))?;
    tell(&format!("listening on http://{}/ (application)", listener.local_addr()?));
    let work = Work { time: options.time, free: Turnstile::new(options.capacity), bytes: vec![b'x'; MOST] };
    thread::scope(|scope| {
        for client in listener.incoming() {
            let work = &work;
            // A client that disconnects is no error. Without a thread or a descriptor it has to come again.
            let attended = client.and_then(|client| {
                thread::Builder::new().spawn_scoped(scope, move || {
                    drop(answering::serve(client, |target| work.answer(target)));
                })
            });
            if attended.is_err() {
                thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// What it does for a request.
struct Work {
    time: Duration,
    free: Turnstile,
    bytes: Vec<u8>,
}

impl Work {
    fn answer(&self, target: &str) -> (u16, Cow<'_, [u8]>) {
        let path = target.split('?').next().unwrap_or_default();
        let count = path.strip_prefix("/app/").and_then(|count| count.parse().ok());
        let Some(body) = count.and_then(|count: usize| self.bytes.get(..count)) else {
            return (404, b"allowed: /app/N for N bytes, at most 16777216\n"[..].into());
        };
        if !self.time.is_zero() {
            self.free.pass(|| thread::sleep(self.time));
        }
        (200, body.into())
    }
}

/// Lets so many in at a time, in the order in which they come.
struct Turnstile {
    capacity: u64,
    /// How many have come, and how many have gone.
    counts: Mutex<(u64, u64)>,
    goes: Condvar,
}

impl Turnstile {
    fn new(capacity: u32) -> Self {
        Self { capacity: capacity.into(), counts: Mutex::default(), goes: Condvar::new() }
    }

    fn pass(&self, work: impl FnOnce()) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let number = counts.0;
        counts.0 += 1;
        let waits = |counts: &mut (u64, u64)| number >= counts.1 + self.capacity;
        drop(self.goes.wait_while(counts, waits).unwrap_or_else(PoisonError::into_inner));
        work();
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).1 += 1;
        self.goes.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn no_more_than_the_capacity_work_at_a_time() {
        let (turnstile, inside, most) = (Turnstile::new(3), AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    turnstile.pass(|| {
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(2));
                        inside.fetch_sub(1, Ordering::SeqCst);
                    });
                });
            }
        });
        assert_eq!(most.into_inner(), 3);
    }

    #[test]
    fn a_target_says_how_many_bytes() {
        let work = Work { time: Duration::ZERO, free: Turnstile::new(1), bytes: vec![b'x'; 10] };
        for (target, status, length) in [("/app/0", 200, 0), ("/app/10?a=b", 200, 10), ("/app/11", 404, 46)] {
            let (found, body) = work.answer(target);
            assert_eq!((found, body.len()), (status, length), "{target}");
        }
    }
}
