//! Descriptors that are registered with the ring, so that the kernel need not look them up for each
//! operation. A descriptor's place in the kernel's table is its own number.

use std::io;
use std::os::fd::RawFd;

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};

/// The most descriptors in the table.
const MOST: usize = 1 << 16;

/// Which descriptors are registered. Empty: none can be.
#[derive(Default)]
pub(super) struct Files {
    places: Vec<Place>,
}

/// What the kernel reads when it puts a descriptor into its table, and whether the descriptor is there.
#[derive(Clone, Copy)]
struct Place {
    number: RawFd,
    is_registered: bool,
}

/// What the kernel reads when it empties a place.
static NOTHING: RawFd = -1;

/// Whether registered sockets can be closed at any time. Before Linux 6.13 the kernel keeps each open until
/// all operations on registered sockets have completed that were begun before its end.
///
/// # Errors
///
/// `Unsupported`: they can't.
pub fn check() -> io::Result<()> {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    if version(&release).is_some_and(|version| version < (6, 13)) {
        let message = format!("registered sockets need Linux 6.13, and this is {release}");
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    Ok(())
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

impl Files {
    /// Room for descriptors below this number.
    pub(super) fn below(most: u64) -> Self {
        let most = usize::try_from(most).unwrap_or(MOST).min(MOST);
        Self { places: (0..most as RawFd).map(|number| Place { number, is_registered: false }).collect() }
    }

    pub(super) fn len(&self) -> u32 {
        self.places.len() as u32
    }

    /// The operation that registers a descriptor. `None`: there is no place for it.
    pub(super) fn register(&mut self, descriptor: RawFd) -> Option<Entry> {
        let place = self.places.get_mut(descriptor as usize)?;
        place.is_registered = true;
        Some(opcode::FilesUpdate::new(&raw const place.number, 1).offset(descriptor).build())
    }

    /// The operation that ends that. `None`: the descriptor is not registered.
    pub(super) fn forget(&mut self, descriptor: RawFd) -> Option<Entry> {
        let place = self.places.get_mut(descriptor as usize).filter(|place| place.is_registered)?;
        place.is_registered = false;
        Some(opcode::FilesUpdate::new(&raw const NOTHING, 1).offset(descriptor).build())
    }

    /// How operations name this descriptor.
    #[inline]
    pub(super) fn flags(&self, descriptor: RawFd) -> Flags {
        match self.places.get(descriptor as usize) {
            Some(place) if place.is_registered => Flags::FIXED_FILE,
            _ => Flags::empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_version_has_two_numbers() {
        assert_eq!(version("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(version("7.0-rc1"), Some((7, 0)));
        assert_eq!((version("6"), version("x.y")), (None, None));
        assert!((6, 8) < (6, 13));
    }

    #[test]
    fn only_what_is_registered_is_named_by_its_place() {
        let mut files = Files::below(10);
        assert!(files.register(10).is_none() && files.forget(3).is_none());
        assert!(files.register(3).is_some());
        assert!(files.flags(3).contains(Flags::FIXED_FILE) && files.flags(4).is_empty());
        assert!(files.forget(3).is_some() && files.forget(3).is_none());
        assert!(files.flags(3).is_empty() && files.flags(99).is_empty());
        assert!(Files::default().register(0).is_none());
        assert_eq!(Files::below(u64::MAX).len() as usize, MOST);
    }
}
