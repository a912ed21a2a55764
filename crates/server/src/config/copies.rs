//! Which addresses each copy of the server listens on.

use std::collections::HashSet;

use super::address::ListenAddress;
use super::settings::{CopiesBy, Settings};

impl Settings {
    /// The addresses of each copy, in the order in which they are listed.
    ///
    /// # Errors
    ///
    /// Why the addresses cannot be assigned, for operators.
    pub fn addresses_of_copies(&self) -> Result<Vec<Vec<ListenAddress>>, String> {
        let (listen, copies) = (&self.listen, self.copies);
        match self.copies_by {
            _ if copies == 1 => Ok(vec![listen.clone()]),
            CopiesBy::Reuseport | CopiesBy::Cpu => Ok(vec![listen.clone(); copies]),
            CopiesBy::Address => dealt(listen, copies).ok_or_else(|| {
                format!("{} addresses can't be divided evenly among {copies} copies", listen.len())
            }),
            CopiesBy::Port => (0..copies)
                .map(|copy| listen.iter().map(|address| next_port(address, copy)).collect())
                .collect(),
        }
    }
}

impl Settings {
    /// The addresses where clients speak TLS, with those of copies.
    pub(crate) fn tls_addresses(&self) -> HashSet<ListenAddress> {
        self.with_copies_of(&self.tls.listen)
    }

    /// These addresses of `listen`, and those that copies have instead of them.
    pub(crate) fn with_copies_of(&self, some: &[ListenAddress]) -> HashSet<ListenAddress> {
        let some: HashSet<_> = some.iter().cloned().collect();
        let mut all = some.clone();
        if self.copies_by == CopiesBy::Port && !all.is_empty() {
            // Each copy's addresses are in the order of the addresses that they were made from.
            let copies = self.addresses_of_copies().unwrap_or_default();
            let made = copies.iter().flat_map(|addresses| self.listen.iter().zip(addresses));
            let made = made.filter(|(first, _)| some.contains(first));
            all.extend(made.map(|(_, address)| address.clone()));
        }
        all
    }
}

/// Divides a list into equal parts, in order, if that is possible.
pub(crate) fn dealt<T: Clone>(all: &[T], parts: usize) -> Option<Vec<Vec<T>>> {
    let even = !all.is_empty() && all.len().is_multiple_of(parts);
    even.then(|| all.chunks(all.len() / parts).map(<[T]>::to_vec).collect())
}

fn next_port(address: &ListenAddress, copy: usize) -> Result<ListenAddress, String> {
    match address {
        ListenAddress::Tcp(first) if first.port() == 0 => Ok(address.clone()),
        ListenAddress::Tcp(first) => {
            let port = u16::try_from(usize::from(first.port()) + copy);
            let port = port.map_err(|_| format!("{first} leaves no {copy} ports above it"))?;
            Ok(ListenAddress::Tcp((first.ip(), port).into()))
        }
        ListenAddress::Unix(path) => Err(format!("unix:{} has no port", path.display())),
    }
}
