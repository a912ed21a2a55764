//! Tickets: sessions that clients keep for the server (RFC 8446 section 4.6.1, RFC 5077), sealed with keys
//! that all workers share. So a client can continue its session with any worker, and after a reload.
//!
//! A ticket is the name of its key, a nonce, and the session sealed with AES-256-GCM. The supervisor changes
//! the key every half day. A ticket of the key before is still opened. Then that key is overwritten, so that
//! keys that are stolen today open no ticket that was made the day before yesterday.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand;

/// How long a key seals tickets. It opens them for as long again.
pub const KEY_LIFETIME: Duration = Duration::from_hours(12);

/// Words of a key's name, and of the key.
const NAME: usize = 2;
const KEY: usize = 4;
/// Room for the key that seals, the one before, and the one that is written.
const KEYS: usize = 3;

sys::shareable! {
    /// The keys, in memory that all processes of the server share. Only the supervisor writes.
    #[derive(Debug)]
    pub struct Keys {
        /// The number of the key that seals, counted from 1.
        current: AtomicU32,
        /// When that key was made, in milliseconds of the monotonic clock.
        made_ms: AtomicU64,
        names: [[AtomicU64; NAME]; KEYS],
        secrets: [[AtomicU64; KEY]; KEYS],
    }
}

impl Keys {
    /// Makes the first key, if there is none. The first random numbers of a process take a tenth of a second,
    /// which a server without TLS need not spend.
    pub fn begin(&self) {
        if self.current.load(Ordering::Relaxed) == 0 {
            self.change();
        }
    }

    /// Makes a new key that seals from now on. Only the supervisor calls this.
    pub fn change(&self) {
        let next = self.current.load(Ordering::Relaxed).wrapping_add(1);
        let at = next as usize % KEYS;
        let mut random = [0; 8 * (NAME + KEY)];
        if rand::fill(&mut random).is_err() {
            return tracing::error!("no random numbers: the key of TLS tickets stays in use");
        }
        let mut words = random.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        let places = self.names[at].iter().chain(&self.secrets[at]);
        for (place, word) in places.zip(&mut words) {
            place.store(word, Ordering::Relaxed);
        }
        self.made_ms.store(sys::clock::monotonic_ms(), Ordering::Relaxed);
        self.current.store(next, Ordering::Release);
        // The key that opens nothing any more.
        let old = (at + 1) % KEYS;
        self.names[old].iter().chain(&self.secrets[old]).for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// How long the key that seals has still to live.
    pub fn left(&self) -> Duration {
        let made_ms = self.made_ms.load(Ordering::Relaxed);
        KEY_LIFETIME.saturating_sub(Duration::from_millis(sys::clock::monotonic_ms().saturating_sub(made_ms)))
    }

    /// The key at a place, and its name.
    fn key(&self, at: usize) -> Option<([u8; 8 * NAME], RandomizedNonceKey)> {
        let (mut name, mut key) = ([0; 8 * NAME], [0; 8 * KEY]);
        let copy = |from: &[AtomicU64], to: &mut [u8]| {
            for (word, bytes) in from.iter().zip(to.chunks_exact_mut(8)) {
                bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
            }
        };
        copy(&self.names[at], &mut name);
        copy(&self.secrets[at], &mut key);
        Some((name, RandomizedNonceKey::new(&AES_256_GCM, &key).ok()?))
    }

    /// The places of the key that seals, and of the one before.
    fn places(&self) -> [usize; 2] {
        let current = self.current.load(Ordering::Acquire) as usize;
        [current % KEYS, (current + KEYS - 1) % KEYS]
    }

    /// Seals a session into a ticket. `None`: the cryptography does not work.
    pub fn seal(&self, session: &[u8]) -> Option<Vec<u8>> {
        let [current, _] = self.places();
        let (name, key) = self.key(current)?;
        let mut sealed = session.to_vec();
        let nonce = key.seal_in_place_append_tag(Aad::from(&name), &mut sealed).ok()?;
        Some([&name, nonce.as_ref().as_slice(), &sealed].concat())
    }

    /// Opens a ticket. `None`: it was not sealed with the key in use, or the one before.
    pub fn open(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<{ 8 * NAME }>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        // A place without a key has no name.
        let known =
            self.places().into_iter().filter_map(|at| self.key(at)).filter(|key| key.0 != [0; 8 * NAME]);
        let (_, key) = known.into_iter().find(|(other, _)| other == name)?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let session = key.open_in_place(nonce, Aad::from(name), &mut sealed).ok()?.len();
        sealed.truncate(session);
        Some(sealed)
    }
}

#[cfg(test)]
mod tests {
    use sys::shared::Shared;

    use super::*;

    fn keys() -> Shared<Keys> {
        let keys = Shared::<Keys>::new().unwrap();
        keys.change();
        keys
    }

    #[test]
    fn a_ticket_is_opened_until_its_key_was_changed_twice() {
        let keys = keys();
        let ticket = keys.seal(b"a session").unwrap();
        assert_ne!(ticket, keys.seal(b"a session").unwrap(), "each has its own nonce");
        for _ in 0..2 {
            assert_eq!(keys.open(&ticket).as_deref(), Some(&b"a session"[..]));
            keys.change();
        }
        assert_eq!(keys.open(&ticket), None);
        let other = keys.seal(b"").unwrap();
        assert_eq!(keys.open(&other).as_deref(), Some(&b""[..]));
    }

    #[test]
    fn no_other_ticket_is_opened() {
        let these = keys();
        let ticket = these.seal(b"a session").unwrap();
        for at in 0..ticket.len() {
            assert_eq!(these.open(&ticket[..at]), None, "cut off at {at}");
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(these.open(&changed), None, "changed at {at}");
        }
        assert_eq!(keys().open(&ticket), None, "another server's");
    }

    /// A place without a key is all zeros. A client could seal a ticket with that.
    #[test]
    fn a_place_without_a_key_opens_nothing() {
        let forged = {
            let (name, key) = ([0; 8 * NAME], RandomizedNonceKey::new(&AES_256_GCM, &[0; 8 * KEY]).unwrap());
            let mut sealed = b"a session".to_vec();
            let nonce = key.seal_in_place_append_tag(Aad::from(&name), &mut sealed).unwrap();
            [&name, nonce.as_ref().as_slice(), &sealed].concat()
        };
        let keys = keys();
        for _ in 0..5 {
            assert_eq!(keys.open(&forged), None);
            let ticket = keys.seal(b"a session").unwrap();
            keys.change();
            assert!(keys.open(&ticket).is_some());
            let words = |at: usize| keys.secrets[at].iter().map(|word| word.load(Ordering::Relaxed));
            let kept = (0..KEYS).filter(|&at| words(at).any(|word| word != 0)).count();
            assert_eq!(kept, 2, "older keys are overwritten");
        }
        assert!(keys.left() <= KEY_LIFETIME && keys.left() > KEY_LIFETIME / 2);
    }
}
