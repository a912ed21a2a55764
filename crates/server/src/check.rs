//! Checks whether `serve` would fail here, without serving. The check creates nothing, does not listen, and
//! leaves nothing open. As in `serve`, the initial privileges are given up before the sites' files are
//! accessed.
//!
//! The configuration may also be checked while a server runs with it, before a reload. So an address in use
//! is not always an error. It is one only if that server's status shows other addresses of the settings,
//! but not this one.

use std::collections::HashSet;
use std::io;

use crate::access_log::LogFile;
use crate::config::{Configuration, ListenAddress, Settings};
use crate::listeners::ListenError;
use crate::status::client;
use crate::supervisor::{self, RunError, url};
use crate::tls::Pairs;
use crate::{error_log, status};

/// Findings of a check that are not errors, as text for people.
#[derive(Debug, Default)]
pub struct Findings {
    /// Settings that the server may not be able to apply, or that are probably a mistake.
    pub warnings: Vec<String>,
    /// What is normal if a server already runs with these settings.
    pub notes: Vec<String>,
}

/// Checks whether a server could have what the settings request. This process permanently becomes the
/// settings' `user`, as the server does.
///
/// # Errors
///
/// What it could not have.
pub fn check(configuration: &Configuration) -> Result<Findings, RunError> {
    let settings = &configuration.settings;
    let mut findings = Findings::default();
    if settings.user.is_some() && !sys::process::is_root() {
        let told = "only root can serve as `user`, and check whether its logs and addresses are available";
        findings.warnings.push(told.to_owned());
    } else {
        error_log::check(&settings.error_log)?;
        for log in settings.access_logs() {
            LogFile::check(&log.target)?;
        }
        addresses(settings, &mut findings)?;
        // Before the user changes, as in `serve`: the keys may be for the user alone who starts the server.
        let pairs = Pairs::read(settings)?;
        let now = sys::clock::realtime_secs() as i64;
        findings.notes.extend(pairs.described(now));
        findings.warnings.extend(pairs.doubts(settings, now));
        supervisor::raise_descriptor_limit()?;
        supervisor::become_user(settings)?;
        supervisor::try_out(settings)?;
    }
    findings.warnings.extend(configuration.doubts().iter().map(ToString::to_string));
    Ok(findings)
}

fn addresses(settings: &Settings, findings: &mut Findings) -> Result<(), RunError> {
    let running = settings.status.as_ref().and_then(|status| client::snapshot(status).ok());
    let listeners = running.iter().flat_map(|running| &running.listeners);
    let known: HashSet<&str> = listeners.map(|listener| listener.address.as_str()).collect();
    let of_tls = settings.tls_addresses();
    let is_running_at =
        |address: &ListenAddress| known.contains(url(address, of_tls.contains(address)).as_str());
    let plan = settings.addresses_of_copies().map_err(ListenError::Plan)?;
    // Sockets that were passed to the server differ from those of the settings.
    let is_known = running.is_some() && plan.iter().flatten().any(is_running_at);
    let mut tried = HashSet::new();
    for address in plan.iter().flatten().filter(|address| tried.insert(*address)) {
        let Err(source) = bind(address) else { continue };
        let wrong = ListenError::Listen { address: address.clone(), source };
        match wrong.kind() {
            io::ErrorKind::AddrInUse if is_running_at(address) => {}
            io::ErrorKind::AddrInUse if !is_known => {
                if running.is_some() {
                    let told = "the server at `status` does not list this address";
                    findings.warnings.push(format!("{wrong} ({told})"));
                } else if settings.status.is_some() {
                    let told = "no server answers at `status`";
                    findings.warnings.push(format!("{wrong} ({told})"));
                } else {
                    // Usually the server that runs with these settings has the address.
                    let told = "without `status` the check cannot tell whether this server uses it";
                    findings.notes.push(format!("{wrong} ({told})"));
                }
            }
            // The server may have more permissions.
            io::ErrorKind::PermissionDenied => findings.warnings.push(wrong.to_string()),
            _ => return Err(wrong.into()),
        }
    }
    if let Some(address) = settings.status.as_ref().filter(|_| running.is_none()) {
        match bind(address).map_err(|source| status::BindError::new(address, source)) {
            Err(wrong) if wrong.kind() == io::ErrorKind::PermissionDenied => {
                findings.warnings.push(wrong.to_string());
            }
            bound => bound?,
        }
    }
    Ok(())
}

fn bind(address: &ListenAddress) -> io::Result<()> {
    match address {
        ListenAddress::Tcp(address) => sys::socket::check_tcp(*address),
        ListenAddress::Unix(path) => sys::socket::check_unix(path),
    }
}
