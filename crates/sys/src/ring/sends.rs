//! What is being sent: the kernel reads the bytes until the operation has completed, and without a copy for
//! longer. So they are moved in here, and come back with the last completion, whatever becomes of the
//! connection meanwhile. Bytes that others read as well are shared, and never change.

use std::mem;
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::Arc;

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::Fd;

use super::How;
#[cfg(feature = "quarantine")]
use super::quarantine::Region;

/// A part of bytes that several own.
pub type Shared = (Arc<[u8]>, Range<usize>);
/// What is sent: bytes, and shared ones behind them.
pub(super) type What = (Vec<u8>, Option<Shared>);

/// Sends in flight, each in a numbered place.
#[derive(Default)]
pub(super) struct Sends {
    places: Vec<Place>,
    free: Vec<u32>,
    /// Messages that no operation uses.
    #[expect(clippy::vec_box, reason = "an operation has the message's address")]
    messages: Vec<Box<Message>>,
}

enum Place {
    Free,
    Taken(Sending),
}

/// What an operation sends. Neither the vector nor the message is touched before the completion, so that
/// they stay where they are.
struct Sending {
    /// The caller's name for it.
    token: u64,
    bytes: Vec<u8>,
    /// Follows the bytes.
    shared: Option<(Shared, Box<Message>)>,
    socket: RawFd,
    how: How,
    stage: Stage,
    #[cfg(feature = "quarantine")]
    _region: Region,
}

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Sending,
    /// All is sent, but the kernel still reads it.
    Sent,
    /// The kernel had no memory to send it without a copy. It will be sent with one.
    Refused,
    /// It is cancelled.
    GivenUp,
}

/// The two runs of an operation that sends both, as the kernel reads them.
struct Message {
    header: libc::msghdr,
    runs: [libc::iovec; 2],
}

impl Sends {
    /// Takes bytes in, and others that follow them. Returns the number of their place, and the operation
    /// that sends them.
    pub(super) fn insert(
        &mut self,
        token: u64,
        (bytes, shared): What,
        (socket, how): (RawFd, How),
    ) -> (u32, Entry) {
        let How { more_follows, zero_copy } = how;
        let more = if more_follows { libc::MSG_MORE } else { 0 };
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL | more;
        #[cfg(not(feature = "quarantine"))]
        let start = bytes.as_ptr();
        #[cfg(feature = "quarantine")]
        let (region, start) = Region::with(&bytes);
        let shared = shared.map(|shared| (shared, self.messages.pop().unwrap_or_default()));
        let mut sending = Sending {
            token,
            bytes,
            shared,
            socket,
            how,
            stage: Stage::Sending,
            #[cfg(feature = "quarantine")]
            _region: region,
        };
        let entry = match &mut sending.shared {
            None => {
                let length = sending.bytes.len() as u32;
                if zero_copy {
                    opcode::SendZc::new(Fd(socket), start, length).flags(flags).build()
                } else {
                    opcode::Send::new(Fd(socket), start, length).flags(flags).build()
                }
            }
            Some(((memory, range), message)) => {
                let behind = &memory[range.clone()];
                message.runs = [(start, sending.bytes.len()), (behind.as_ptr(), behind.len())]
                    .map(|(run, length)| libc::iovec { iov_base: run.cast_mut().cast(), iov_len: length });
                (message.header.msg_iov, message.header.msg_iovlen) = (message.runs.as_mut_ptr(), 2);
                let (header, flags) = (&raw const message.header, flags as u32);
                if zero_copy {
                    opcode::SendMsgZc::new(Fd(socket), header).flags(flags).build()
                } else {
                    opcode::SendMsg::new(Fd(socket), header).flags(flags).build()
                }
            }
        };
        let place = Place::Taken(sending);
        let number = if let Some(number) = self.free.pop() {
            self.places[number as usize] = place;
            number
        } else {
            self.places.push(place);
            self.places.len() as u32 - 1
        };
        (number, entry)
    }

    /// The bytes are sent, as far as they will be. Returns the operation's name, and how many bytes it was to
    /// send. `None`: there was none.
    pub(super) fn are_sent(&mut self, number: u32) -> Option<(u64, usize)> {
        match self.places.get_mut(number as usize)? {
            Place::Free => None,
            Place::Taken(sending) => {
                sending.stage = Stage::Sent;
                let shared = sending.shared.as_ref().map_or(0, |((_, range), _)| range.len());
                Some((sending.token, sending.bytes.len() + shared))
            }
        }
    }

    /// Gives the bytes back, with the operation's name: the kernel reads them no more. `None`: there was no
    /// operation.
    pub(super) fn remove(&mut self, number: u32) -> Option<(u64, Vec<u8>)> {
        match mem::replace(self.places.get_mut(number as usize)?, Place::Free) {
            Place::Free => None,
            Place::Taken(Sending { token, bytes, shared, .. }) => {
                self.free.push(number);
                self.messages.extend(shared.map(|(_, message)| message));
                Some((token, bytes))
            }
        }
    }

    /// The kernel has no memory to send this without a copy. Returns whether it can be sent with one.
    pub(super) fn is_refused(&mut self, number: u32) -> bool {
        match self.places.get_mut(number as usize) {
            Some(Place::Taken(it)) if it.stage == Stage::Sending && it.how.zero_copy => {
                it.stage = Stage::Refused;
                true
            }
            _ => false,
        }
    }

    /// Takes out what is to be sent with a copy: its name, the bytes, and where and how to send them.
    pub(super) fn take_refused(&mut self, number: u32) -> Option<(u64, What, (RawFd, How))> {
        let place = self.places.get_mut(number as usize)?;
        if !matches!(place, Place::Taken(it) if it.stage == Stage::Refused) {
            return None;
        }
        let Place::Taken(it) = mem::replace(place, Place::Free) else { return None };
        self.free.push(number);
        let (shared, message) = it.shared.unzip();
        self.messages.extend(message);
        Some((it.token, (it.bytes, shared), (it.socket, How { zero_copy: false, ..it.how })))
    }

    /// What is sent under this name is not wanted any more. Returns its place.
    pub(super) fn give_up(&mut self, of: u64) -> Option<u32> {
        let is_it = |place: &Place| {
            let waits = |it: &Sending| matches!(it.stage, Stage::Sending | Stage::Refused);
            matches!(place, Place::Taken(it) if it.token == of && waits(it))
        };
        let number = self.places.iter().position(is_it)?;
        if let Place::Taken(it) = &mut self.places[number] {
            it.stage = Stage::GivenUp;
        }
        Some(number as u32)
    }
}

impl Default for Message {
    fn default() -> Self {
        // SAFETY: a header without a name, runs and control data; all of it is numbers and pointers.
        let header = unsafe { mem::zeroed() };
        Self { header, runs: [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; 2] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_once_and_places_are_used_again() {
        let mut sends = Sends::default();
        let insert = |sends: &mut Sends, token, bytes: &[u8], shared| {
            sends.insert(token, (bytes.to_vec(), shared), (0, How::default())).0
        };
        let first = insert(&mut sends, 7, b"one", None);
        let memory: Arc<[u8]> = Arc::from(&b"shared"[..]);
        let second = insert(&mut sends, 8, b"second", Some((Arc::clone(&memory), 2..5)));
        assert_eq!((sends.are_sent(first), sends.are_sent(second)), (Some((7, 3)), Some((8, 9))));
        assert_eq!((sends.give_up(7), sends.give_up(8)), (None, None));
        assert_eq!(sends.remove(first), Some((7, b"one".to_vec())));
        assert!(sends.remove(first).is_none() && sends.remove(99).is_none() && sends.are_sent(99).is_none());
        assert_eq!(insert(&mut sends, 9, b"third", None), first);
        assert_eq!((sends.give_up(7), sends.give_up(9), sends.give_up(9)), (None, Some(first), None));
        assert_eq!((sends.remove(second), sends.messages.len()), (Some((8, b"second".to_vec())), 1));
        assert_eq!(Arc::strong_count(&memory), 1);
    }

    #[test]
    fn what_is_refused_without_a_copy_is_sent_with_one_unless_it_is_given_up() {
        let mut sends = Sends::default();
        let how = How { more_follows: true, zero_copy: true };
        let (first, _) = sends.insert(7, (b"one".to_vec(), None), (3, how));
        let (second, _) = sends.insert(8, (b"two".to_vec(), None), (4, how));
        assert!(sends.is_refused(first) && !sends.is_refused(first) && sends.is_refused(second));
        let copied = How { zero_copy: false, ..how };
        assert_eq!(sends.take_refused(first), Some((7, (b"one".to_vec(), None), (3, copied))));
        assert_eq!((sends.take_refused(first), sends.give_up(8)), (None, Some(second)));
        assert!(sends.take_refused(second).is_none());
        let (again, _) = sends.insert(7, (b"one".to_vec(), None), (3, copied));
        assert!(again == first && !sends.is_refused(again), "it is refused once");
    }
}
