//! What is being sent: the kernel reads the bytes until the operation has completed. So they are moved in
//! here, and come back with the completion, whatever becomes of the connection meanwhile. Bytes that
//! others read as well are shared, and never change.

use std::mem;
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::Arc;

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::Fd;

#[cfg(feature = "quarantine")]
use super::quarantine::Region;

/// A part of bytes that several own.
pub type Shared = (Arc<[u8]>, Range<usize>);

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
    #[cfg(feature = "quarantine")]
    _region: Region,
}

/// The two runs of an operation that sends both, as the kernel reads them.
struct Message {
    header: libc::msghdr,
    runs: [libc::iovec; 2],
}

impl Sends {
    /// Takes bytes in, and others that follow them. Returns the number of their place, and the operation
    /// that sends them with these flags of send(2).
    pub(super) fn insert(
        &mut self,
        token: u64,
        (bytes, shared): (Vec<u8>, Option<Shared>),
        (socket, flags): (RawFd, libc::c_int),
    ) -> (u32, Entry) {
        #[cfg(not(feature = "quarantine"))]
        let start = bytes.as_ptr();
        #[cfg(feature = "quarantine")]
        let (region, start) = Region::with(&bytes);
        let shared = shared.map(|shared| (shared, self.messages.pop().unwrap_or_default()));
        let mut sending = Sending {
            token,
            bytes,
            shared,
            #[cfg(feature = "quarantine")]
            _region: region,
        };
        let entry = match &mut sending.shared {
            None => {
                let send = opcode::Send::new(Fd(socket), start, sending.bytes.len() as u32);
                send.flags(flags).build()
            }
            Some(((memory, range), message)) => {
                let behind = &memory[range.clone()];
                message.runs = [(start, sending.bytes.len()), (behind.as_ptr(), behind.len())]
                    .map(|(run, length)| libc::iovec { iov_base: run.cast_mut().cast(), iov_len: length });
                (message.header.msg_iov, message.header.msg_iovlen) = (message.runs.as_mut_ptr(), 2);
                opcode::SendMsg::new(Fd(socket), &raw const message.header).flags(flags as u32).build()
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

    /// Gives the bytes back: the operation has completed. Also returns its name, and how many bytes it was
    /// to send. `None`: there was none.
    pub(super) fn remove(&mut self, number: u32) -> Option<(u64, Vec<u8>, usize)> {
        match mem::replace(self.places.get_mut(number as usize)?, Place::Free) {
            Place::Free => None,
            Place::Taken(Sending { token, bytes, shared, .. }) => {
                self.free.push(number);
                let mut length = bytes.len();
                if let Some(((_, range), message)) = shared {
                    length += range.len();
                    self.messages.push(message);
                }
                Some((token, bytes, length))
            }
        }
    }

    /// The place of what is sent under this name.
    pub(super) fn find(&self, of: u64) -> Option<u32> {
        let is_it = |place: &Place| matches!(place, Place::Taken(sending) if sending.token == of);
        self.places.iter().position(is_it).map(|number| number as u32)
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
            sends.insert(token, (bytes.to_vec(), shared), (0, 0)).0
        };
        let first = insert(&mut sends, 7, b"one", None);
        let memory: Arc<[u8]> = Arc::from(&b"shared"[..]);
        let second = insert(&mut sends, 8, b"second", Some((Arc::clone(&memory), 2..5)));
        assert_eq!((sends.find(7), sends.find(8), sends.find(9)), (Some(first), Some(second), None));
        assert_eq!(sends.remove(first), Some((7, b"one".to_vec(), 3)));
        assert!(sends.remove(first).is_none() && sends.remove(99).is_none());
        assert_eq!(insert(&mut sends, 9, b"third", None), first);
        assert_eq!(sends.find(7), None);
        assert_eq!((sends.remove(second), sends.messages.len()), (Some((8, b"second".to_vec(), 9)), 1));
        assert_eq!(Arc::strong_count(&memory), 1);
    }
}
