//! Looks names up for as long as the process lives, each again when its time to live is over.
//!
//! Lookups wait for name servers, so several threads make them. Each thread takes the name that is due first.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use super::addresses::Addresses;
use super::lookup::{Found, NotFound, look_up};

/// A name to look up, and where its addresses are written.
#[derive(Debug)]
pub struct Watched {
    /// The name.
    pub host: String,
    /// Its addresses. No other process may write them meanwhile.
    pub addresses: &'static Addresses,
}

/// Names that are looked up.
#[derive(Debug)]
pub struct Watch {
    servers: Vec<SocketAddr>,
    /// Those that no thread looks up at present, by the time when they are due and their number.
    due: Mutex<BTreeMap<(Instant, usize), Name>>,
    /// One of them has come back.
    came_back: Condvar,
}

#[derive(Debug)]
struct Name {
    number: usize,
    watched: Watched,
    known: Vec<IpAddr>,
    /// How long the known addresses are used if a name server says that there are none.
    held_until: Instant,
    /// The last lookup has failed, and that has been logged.
    fails: bool,
}

/// Most lookups at a time.
const THREADS: usize = 8;
/// Bounds of the time until a name is looked up again.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_hours(1);
/// When to look a name up again if that has failed.
const RETRY: Duration = Duration::from_secs(5);
/// How long addresses are used when the name has none any more. Some name servers say so while an
/// application restarts.
const HOLD: Duration = Duration::from_secs(30);

impl Watch {
    /// Looks these names up from now on until the process ends, at these name servers or those of the system.
    ///
    /// # Errors
    ///
    /// A thread cannot be started.
    pub fn begin(names: Vec<Watched>, servers: Vec<SocketAddr>) -> io::Result<()> {
        let (now, threads) = (Instant::now(), names.len().min(THREADS));
        let names = names.into_iter().enumerate();
        let due = names.map(|(number, watched)| ((now, number), Name::new(number, watched, now))).collect();
        let watch = Arc::new(Self { servers, due: Mutex::new(due), came_back: Condvar::new() });
        for _ in 0..threads {
            let watch = Arc::clone(&watch);
            thread::Builder::new().name("names".to_owned()).spawn(move || {
                loop {
                    watch.look_up_next();
                }
            })?;
        }
        Ok(())
    }

    fn look_up_next(&self) {
        let mut name = self.next();
        let found = look_up(&name.watched.host, &self.servers);
        let now = Instant::now();
        let at = now + name.settle(found, now);
        self.due.lock().unwrap_or_else(PoisonError::into_inner).insert((at, name.number), name);
        self.came_back.notify_one();
    }

    /// Waits until a name is due, and takes it.
    fn next(&self) -> Name {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let wait = match due.first_entry() {
                Some(first) => match first.key().0.checked_duration_since(Instant::now()) {
                    None | Some(Duration::ZERO) => return first.remove(),
                    Some(wait) => wait,
                },
                None => LATEST,
            };
            due = self.came_back.wait_timeout(due, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Name {
    /// A name, with the addresses that an earlier process may have found.
    fn new(number: usize, watched: Watched, now: Instant) -> Self {
        let known = watched.addresses.since(0).map_or_else(Vec::new, |(_, known)| known.to_vec());
        Self { number, watched, known, held_until: now + HOLD, fails: false }
    }

    /// Takes what a lookup has found. Returns after what time to look again.
    fn settle(&mut self, found: Result<Found, NotFound>, now: Instant) -> Duration {
        match found {
            Ok(Found { addresses, lifetime }) => {
                let is_news = addresses != self.known || self.fails;
                let lifetime = lifetime.clamp(SOONEST, LATEST);
                (self.fails, self.held_until) = (false, now + lifetime + HOLD);
                self.use_from_now_on(addresses);
                if is_news {
                    let shown: Vec<_> = self.known.iter().map(IpAddr::to_string).collect();
                    tracing::info!("{} has the address {}", self.watched.host, shown.join(", "));
                }
                lifetime
            }
            Err(error) => {
                if !std::mem::replace(&mut self.fails, true) {
                    tracing::warn!("cannot look {} up: {error}", self.watched.host);
                }
                // If no name server answers, the application may still be where it was.
                let is_gone = matches!(error, NotFound::NoSuchName) && self.held_until <= now;
                if is_gone || self.known.is_empty() {
                    self.use_from_now_on(Vec::new());
                }
                RETRY
            }
        }
    }

    fn use_from_now_on(&mut self, addresses: Vec<IpAddr>) {
        if addresses != self.known || self.watched.addresses.since(0).is_none() {
            self.watched.addresses.set(&addresses);
            self.known = addresses;
        }
    }
}

#[cfg(test)]
mod tests {
    use sys::shared::Shared;

    use super::*;

    fn found(texts: &[&str], seconds: u64) -> Found {
        let addresses = texts.iter().map(|text| text.parse().expect("an address")).collect();
        Found { addresses, lifetime: Duration::from_secs(seconds) }
    }

    #[test]
    fn addresses_are_kept_as_long_as_they_may_be_right() {
        let addresses = Shared::<Addresses>::new().expect("memory").leak();
        let now = Instant::now();
        let mut name = Name::new(0, Watched { host: "app".to_owned(), addresses }, now);
        let count = || addresses.since(0).map(|(_, list)| list.len());
        // Nothing is known at first, and then that there is nothing.
        assert_eq!(count(), None);
        assert_eq!(name.settle(Err(NotFound::NoAnswer(String::new())), now), RETRY);
        assert_eq!(count(), Some(0));
        assert_eq!(name.settle(Ok(found(&["192.0.2.1", "192.0.2.2"], 20)), now), Duration::from_secs(20));
        assert_eq!(count(), Some(2));
        // Names are not looked up all the time, and not only once.
        assert_eq!(name.settle(Ok(found(&["192.0.2.1", "192.0.2.2"], 0)), now), SOONEST);
        assert_eq!(name.settle(Ok(found(&["192.0.2.1", "192.0.2.2"], u64::MAX >> 1)), now), LATEST);
        name.settle(Ok(found(&["192.0.2.1"], 20)), now);
        // No answer: however long it takes.
        name.settle(Err(NotFound::NoAnswer(String::new())), now + 10 * HOLD);
        assert_eq!(count(), Some(1));
        // No address: for a while.
        let (before, over) = (now + HOLD, now + Duration::from_secs(20) + HOLD);
        name.settle(Err(NotFound::NoSuchName), before);
        assert_eq!(count(), Some(1));
        name.settle(Err(NotFound::NoSuchName), over);
        assert_eq!(count(), Some(0));
        // Another process goes on with what this one has found.
        name.settle(Ok(found(&["::1"], 20)), over);
        let next = Name::new(0, Watched { host: "app".to_owned(), addresses }, over);
        assert_eq!(next.known.len(), 1);
    }
}
