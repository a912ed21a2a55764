//! The requested assignments: interfaces, each with the CPUs of the copy that serves it.

use std::str::FromStr;

use super::cpus::CpuSet;
use super::{AffinityError, input};
use crate::config::{CopiesBy, ListenAddress, Mapping, Settings};
use crate::placement::Position;

/// An interface and its CPUs, typed as `eth0=0-3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Its name, or one of its addresses.
    pub interface: String,
    /// The CPUs of the copy that serves it.
    pub cpus: CpuSet,
}

impl FromStr for Assignment {
    type Err = AffinityError;

    fn from_str(text: &str) -> Result<Self, AffinityError> {
        let Some((interface, cpus)) = text.split_once('=').filter(|(interface, _)| !interface.is_empty())
        else {
            return Err(input(
                text,
                "allowed: an interface (or one of its addresses) and CPUs, such as eth0=0-3".into(),
            ));
        };
        let cpus = CpuSet::from_list(cpus).map_err(|problem| input(text, problem))?;
        Ok(Self { interface: interface.to_owned(), cpus })
    }
}

/// Each interface with the CPUs that handle its packets.
pub(super) fn mapped(asked: &[Assignment], mapping: Mapping) -> Result<Vec<Assignment>, AffinityError> {
    let shift = match mapping {
        Mapping::Direct => 0,
        Mapping::Indirect if asked.len() < 2 => {
            return Err(input(
                "indirect",
                "needs at least two interfaces: each one's packets go to the next one's CPUs".into(),
            ));
        }
        Mapping::Indirect => 1,
    };
    let from = |at: usize| asked[(at + shift) % asked.len()].cpus.clone();
    let each = asked.iter().enumerate();
    Ok(each.map(|(at, asked)| Assignment { interface: asked.interface.clone(), cpus: from(at) }).collect())
}

/// The assignments that a server's settings ask for. Each copy, or each worker of a partitioned copy, has
/// its own addresses. This returns the interface of each such address with the copy's or worker's CPU
/// set. With `indirect`, the server itself rotates the sets, so packets stay where they are.
///
/// # Errors
///
/// No copy or worker has its own addresses, or one of them does not belong to exactly one interface.
pub fn of_settings(settings: &Settings) -> Result<Vec<Assignment>, AffinityError> {
    let by_address = settings.copies > 1 && settings.copies_by == CopiesBy::Address;
    let units = if by_address { settings.copies } else { settings.workers };
    if !by_address && !settings.placement.partition {
        let problem = "no copy or worker has its own addresses there (copies_by = \"address\", or \
                       [placement] partition): name interfaces, such as eth0=0-3";
        return Err(input("--config", problem.to_owned()));
    }
    let usable = sys::process::allowed_cpus()
        .map_err(|source| AffinityError::Read { path: "the CPUs allowed".into(), source })?;
    let mut direct = settings.clone();
    direct.placement.mapping = Mapping::Direct;
    let each = settings.listen.len() / units;
    let mut assignments = Vec::new();
    for unit in 0..units {
        let position =
            if by_address { Position { copy: unit, worker: 0 } } else { Position { copy: 0, worker: unit } };
        let Some(cpus) = position.cpus(&direct, &usable) else {
            return Err(input("--config", "[placement] cpus does not pin workers to CPUs".to_owned()));
        };
        for address in &settings.listen[unit * each..(unit + 1) * each] {
            let interface = match address {
                ListenAddress::Tcp(tcp) if !tcp.ip().is_unspecified() => tcp.ip().to_string(),
                _ => return Err(input(&address.to_string(), "belongs to no single interface".to_owned())),
            };
            let assignment = Assignment { interface, cpus: CpuSet::new(cpus.clone()) };
            if !assignments.contains(&assignment) {
                assignments.push(assignment);
            }
        }
    }
    Ok(assignments)
}
