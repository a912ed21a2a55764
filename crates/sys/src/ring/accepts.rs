//! Accepts of one call, and what came of them. The kernel writes the address of each peer to another place.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd as _, OwnedFd};

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::Fd;
use rustix::net::SocketAddrAny;
use rustix::net::addr::SocketAddrStorage;

use crate::socket::PeerAddress;

/// The most connections that one call takes.
const MOST: u32 = 32;

/// The accepts under way, and those that have completed.
pub(super) struct Accepts {
    places: Box<[Place]>,
    under_way: usize,
    results: VecDeque<io::Result<(OwnedFd, PeerAddress)>>,
    /// How many the last call took: about as many may wait again.
    last: u32,
}

/// Where the kernel puts an address and its length.
#[derive(Clone)]
struct Place {
    address: MaybeUninit<SocketAddrStorage>,
    length: u32,
}

/// The bytes of an address that hold its family. A Unix socket without a name has no more.
const FAMILY: u32 = size_of::<libc::sa_family_t>() as u32;

impl Accepts {
    pub(super) fn new() -> Self {
        let place = Place { address: MaybeUninit::zeroed(), length: 0 };
        let places = vec![place; MOST as usize].into_boxed_slice();
        Self { places, under_way: 0, results: VecDeque::new(), last: 0 }
    }

    /// Begins a call, and returns how many accepts it is to make: at most `most`, and one more than the
    /// last took. An accept that takes no connection is not free.
    pub(super) fn begin(&mut self, most: u32) -> usize {
        let count = most.clamp(1, (self.last + 1).min(MOST)) as usize;
        self.under_way = count;
        self.last = 0;
        count
    }

    /// The operation for the place of that number.
    pub(super) fn entry(&mut self, at: usize, listener: i32) -> Entry {
        let place = &mut self.places[at];
        place.length = size_of::<SocketAddrStorage>() as u32;
        let (address, length) = (&raw mut place.address, &raw mut place.length);
        let accept = opcode::Accept::new(Fd(listener), address.cast(), length);
        without_waiting(accept.flags(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK).build())
    }

    /// Whether some are still to complete.
    pub(super) fn are_under_way(&self) -> bool {
        self.under_way > 0
    }

    /// The accept of that place has completed.
    pub(super) fn completed(&mut self, at: usize, result: i32) {
        self.under_way -= 1;
        if result < 0 {
            return self.results.push_back(Err(io::Error::from_raw_os_error(-result)));
        }
        self.last += 1;
        // SAFETY: the kernel has opened the descriptor for this accept, and nobody else knows of it.
        let socket = unsafe { OwnedFd::from_raw_fd(result) };
        self.results.push_back(Ok((socket, self.places[at].peer())));
    }

    /// Whether nothing is left to be taken.
    pub(super) fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// The next result.
    pub(super) fn next(&mut self) -> io::Result<(OwnedFd, PeerAddress)> {
        self.results.pop_front().unwrap_or_else(|| Err(io::ErrorKind::WouldBlock.into()))
    }
}

impl Place {
    /// The address that the kernel has put here.
    fn peer(&self) -> PeerAddress {
        if self.length < FAMILY {
            return PeerAddress::Unix;
        }
        // SAFETY: the kernel has written an address of this length, behind zeros if it is a longer one.
        let address = unsafe { SocketAddrAny::read(self.address.as_ptr(), self.length) };
        PeerAddress::from_any(Some(address))
    }
}

/// The operation, which fails with `EAGAIN` rather than wait. The crate has no setter for this field.
fn without_waiting(mut entry: Entry) -> Entry {
    /// `IORING_ACCEPT_DONTWAIT`, `io_uring_enter(2)`.
    const DONTWAIT: u16 = 2;
    /// Where `struct io_uring_sqe` has `ioprio`, counted in twos: behind the operation's code and its flags,
    /// a byte each.
    const IOPRIO: usize = 1;
    const { assert!(size_of::<Entry>() == 64, "an entry is a `struct io_uring_sqe`") };
    // SAFETY: an `Entry` is a `struct io_uring_sqe`, whose layout is the kernel's, and aligned.
    unsafe { (&raw mut entry).cast::<u16>().add(IOPRIO).write(DONTWAIT) };
    entry
}
