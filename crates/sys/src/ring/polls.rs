//! Descriptors that the ring watches, by their numbers. Each watch has a serial number, so that what
//! completes late is not taken for the next watch of the same descriptor.

/// A watch of a descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Poll {
    /// The caller's name for it.
    pub(super) token: u64,
    /// What it waits for, as in `poll(2)`.
    pub(super) events: u32,
    serial: u32,
}

/// All watches.
#[derive(Debug, Default)]
pub(super) struct Polls {
    by_descriptor: Vec<Option<Poll>>,
    next_serial: u32,
}

/// Serial numbers have 24 bits, and descriptors 32: both go into the 56 bits of a name in the ring.
const SERIALS: u32 = 1 << 24;

impl Polls {
    /// Begins to watch a descriptor. Returns the name of the operation. `None`: it is watched already.
    pub(super) fn insert(&mut self, descriptor: i32, token: u64, events: u32) -> Option<u64> {
        let at = usize::try_from(descriptor).ok()?;
        if at >= self.by_descriptor.len() {
            self.by_descriptor.resize(at + 1, None);
        }
        if self.by_descriptor[at].is_some() {
            return None;
        }
        self.next_serial = (self.next_serial + 1) % SERIALS;
        let poll = Poll { token, events, serial: self.next_serial };
        self.by_descriptor[at] = Some(poll);
        Some(name(descriptor, poll.serial))
    }

    /// Ends a watch. Returns the name of its operation. `None`: there was none.
    pub(super) fn remove(&mut self, descriptor: i32) -> Option<u64> {
        let poll = self.by_descriptor.get_mut(usize::try_from(descriptor).ok()?)?.take()?;
        Some(name(descriptor, poll.serial))
    }

    /// The watch that an operation of that name is for, and its descriptor. `None`: it has ended.
    pub(super) fn get(&self, name: u64) -> Option<(i32, Poll)> {
        let (descriptor, serial) = (name as u32 as i32, (name >> 32) as u32 % SERIALS);
        let poll = self.by_descriptor.get(usize::try_from(descriptor).ok()?)?.as_ref()?;
        (poll.serial == serial).then_some((descriptor, *poll))
    }
}

fn name(descriptor: i32, serial: u32) -> u64 {
    u64::from(serial) << 32 | u64::from(descriptor as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_completes_late_is_for_nobody() {
        let mut polls = Polls::default();
        let first = polls.insert(5, 50, 1).unwrap();
        assert!(polls.insert(5, 51, 1).is_none() && polls.insert(-1, 0, 1).is_none());
        assert!(matches!(polls.get(first), Some((5, Poll { token: 50, events: 1, .. }))));
        assert_eq!(polls.remove(5), Some(first));
        assert_eq!((polls.remove(5), polls.remove(4), polls.remove(500)), (None, None, None));
        let second = polls.insert(5, 52, 2).unwrap();
        assert!(polls.get(first).is_none());
        assert!(matches!(polls.get(second), Some((5, Poll { token: 52, .. }))));
        polls.next_serial = SERIALS - 1;
        let third = polls.insert(0, 1, 1).unwrap();
        assert!(third < 1 << 56 && polls.get(third).is_some());
    }
}
