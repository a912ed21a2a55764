//! What `serve` would be refused here, found out without serving: nothing is made, listens, or stays open. As
//! there, the privileges of the start are given up before it is looked at files.
//!
//! The same configuration is checked while a server runs by it, before a reload. So an address that is in use
//! is a fault only where that server's status tells that it is not its own, but others of the settings are.

use std::collections::HashSet;
use std::io;

use crate::access_log::LogFile;
use crate::config::{Configuration, ListenAddress, Settings};
use crate::listeners::ListenError;
use crate::status::client;
use crate::supervisor::{self, RunError, url};
use crate::{error_log, status};

/// What a check has found that is no error, for people.
#[derive(Debug, Default)]
pub struct Findings {
    /// What may keep a server from what the settings ask for, or is hardly meant.
    pub warnings: Vec<String>,
    /// What is as it should be where a server runs by these settings already.
    pub notes: Vec<String>,
}

/// Sees whether a server could have what the settings ask for. This process becomes the settings' `user` for
/// good, as the server does.
///
/// # Errors
///
/// What it could not have.
pub fn check(configuration: &Configuration) -> Result<Findings, RunError> {
    let settings = &configuration.settings;
    let mut findings = Findings::default();
    if settings.user.is_some() && !sys::process::is_root() {
        let told = "it takes root to serve as `user`, and to check whether logs and addresses can be had";
        findings.warnings.push(told.to_owned());
    } else {
        error_log::check(&settings.error_log)?;
        for log in settings.access_logs() {
            LogFile::check(&log.target)?;
        }
        addresses(settings, &mut findings)?;
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
    let is_running_at = |address: &ListenAddress| known.contains(url(address).as_str());
    let plan = settings.addresses_of_copies().map_err(ListenError::Plan)?;
    // Sockets that were handed over are others than those of the settings.
    let is_known = running.is_some() && plan.iter().flatten().any(is_running_at);
    let mut tried = HashSet::new();
    for address in plan.iter().flatten().filter(|address| tried.insert(*address)) {
        let Err(source) = bind(address) else { continue };
        let wrong = ListenError::Listen { address: address.clone(), source };
        match wrong.kind() {
            io::ErrorKind::AddrInUse if is_running_at(address) => {}
            io::ErrorKind::AddrInUse if !is_known => {
                if running.is_some() {
                    let told = "the server at `status` does not say that it listens there";
                    findings.warnings.push(format!("{wrong} ({told})"));
                } else if settings.status.is_some() {
                    let told = "no server answers at `status`";
                    findings.warnings.push(format!("{wrong} ({told})"));
                } else {
                    // As a rule it is the server that runs by these settings.
                    let told = "without `status` the check cannot tell whether by this server";
                    findings.notes.push(format!("{wrong} ({told})"));
                }
            }
            // Whoever serves may be permitted more.
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
