//! Sessions that the next connections of a thread to a target can resume.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Tickets that a thread keeps for each target. Each serves one connection (RFC 8446 appendix C.4), and so
/// many connections may begin until the first of them has brought new tickets.
const MOST_TICKETS: usize = 1024;

/// The sessions of one thread with one target.
#[derive(Default)]
pub(super) struct Sessions(Mutex<Resumable>);

#[derive(Default)]
struct Resumable {
    /// The group that the server chose last.
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    /// The newest last.
    tls13: VecDeque<Tls13ClientSessionValue>,
}

impl Sessions {
    /// What was kept is of use even if a thread panicked over it.
    fn lock(&self) -> MutexGuard<'_, Resumable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Sessions {
    /// Without the sessions, which are secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Sessions")
    }
}

/// All sessions are of one server, whatever its name.
impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.lock().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.lock().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.lock().tls12 = Some(session);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.lock().tls12.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.lock().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut resumable = self.lock();
        if resumable.tls13.len() == MOST_TICKETS {
            resumable.tls13.pop_front();
        }
        resumable.tls13.push_back(ticket);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.lock().tls13.pop_back()
    }
}
