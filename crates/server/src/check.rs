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

/// Sees whether a server could have what the settings ask for, and gives what may keep it from that, or is
/// hardly meant, for people. This process becomes the settings' `user` for good, as the server does.
///
/// # Errors
///
/// What it could not have.
pub fn check(configuration: &Configuration) -> Result<Vec<String>, RunError> {
    let settings = &configuration.settings;
    let mut warnings = Vec::new();
    if settings.user.is_some() && !sys::process::is_root() {
        let told = "it takes root to serve as `user`, and to check whether logs and addresses can be had";
        warnings.push(told.to_owned());
    } else {
        error_log::check(&settings.error_log)?;
        for log in settings.access_logs() {
            LogFile::check(&log.target)?;
        }
        warnings.extend(addresses(settings)?);
        supervisor::raise_descriptor_limit()?;
        supervisor::become_user(settings)?;
        supervisor::try_out(settings)?;
    }
    warnings.extend(configuration.doubts().iter().map(ToString::to_string));
    Ok(warnings)
}

fn addresses(settings: &Settings) -> Result<Vec<String>, RunError> {
    let running = settings.status.as_ref().and_then(|status| client::snapshot(status).ok());
    let listeners = running.iter().flat_map(|running| &running.listeners);
    let known: HashSet<&str> = listeners.map(|listener| listener.address.as_str()).collect();
    let is_running_at = |address: &ListenAddress| known.contains(url(address).as_str());
    let plan = settings.addresses_of_copies().map_err(ListenError::Plan)?;
    // Sockets that were handed over are others than those of the settings.
    let is_known = running.is_some() && plan.iter().flatten().any(is_running_at);
    let mut warnings = Vec::new();
    let mut tried = HashSet::new();
    for address in plan.iter().flatten().filter(|address| tried.insert(*address)) {
        let Err(source) = bind(address) else { continue };
        let wrong = ListenError::Listen { address: address.clone(), source };
        match wrong.kind() {
            io::ErrorKind::AddrInUse if is_running_at(address) => {}
            io::ErrorKind::AddrInUse if !is_known => {
                let told = match running {
                    Some(_) => "the server at `status` does not say that it listens there",
                    None => "no status tells whether by a server of this configuration",
                };
                warnings.push(format!("{wrong} ({told})"));
            }
            // Whoever serves may be permitted more.
            io::ErrorKind::PermissionDenied => warnings.push(wrong.to_string()),
            _ => return Err(wrong.into()),
        }
    }
    if let Some(address) = settings.status.as_ref().filter(|_| running.is_none()) {
        match bind(address).map_err(|source| status::BindError::new(address, source)) {
            Err(wrong) if wrong.kind() == io::ErrorKind::PermissionDenied => warnings.push(wrong.to_string()),
            bound => bound?,
        }
    }
    Ok(warnings)
}

fn bind(address: &ListenAddress) -> io::Result<()> {
    match address {
        ListenAddress::Tcp(address) => sys::socket::check_tcp(*address),
        ListenAddress::Unix(path) => sys::socket::check_unix(path),
    }
}
