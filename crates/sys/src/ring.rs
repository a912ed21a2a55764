//! A ring of operations that the kernel completes by itself: `io_uring(7)`.
//!
//! Operations are written to memory that the kernel reads. [`Ring::wait`] hands all of them over in one
//! call, and takes what has completed since out of memory that the kernel writes. Readiness
//! ([`Ring::add`]) comes as [`Events`], as from the other mechanisms; what was received and sent comes as
//! [`Completion`]s.
//!
//! What the kernel may read or write belongs to the ring until the operation has completed:
//!
//! - Bytes to send are moved in, and come back with the completion ([`Completion::Sent`]).
//! - Bytes received are in buffers of the ring. The kernel chooses one when there is something to receive,
//!   so that a silent socket holds none. [`Ring::next_completion`] lends it, and it is the kernel's again
//!   when the borrow ends:
//!
//!   ```compile_fail,E0499
//!   fn uses_a_buffer_that_the_kernel_owns(ring: &mut sys::ring::Ring) {
//!       let first = ring.next_completion();
//!       let second = ring.next_completion();
//!       drop(first);
//!   }
//!   ```
//! - Peers' addresses are written to memory of the ring, and what is read of files to memory that nothing
//!   reads.
//!
//! With the feature `quarantine`, for tests, released memory is out of use for a while: the kernel would fail
//! where it reads it, and what it writes is noticed.
//!
//! Operations name a descriptor by its number until they are handed over. So [`Ring::close`] is the way to
//! close a descriptor that has operations: it comes behind them. A ring belongs to the thread that made it.

mod accepts;
mod buffers;
mod files;
mod polls;
mod probe;
#[cfg(feature = "quarantine")]
mod quarantine;
mod reads;
mod sends;

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::ops::{Deref, Range};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode};
use rustix::event::epoll::EventFlags;

use self::accepts::Accepts;
use self::buffers::{Buffers, Filled};
use self::files::Files;
pub use self::files::check as check_registration;
use self::polls::Polls;
pub use self::probe::probe;
use self::reads::Reads;
use self::sends::Sends;
pub use self::sends::Shared;
use self::sends::What;
use crate::event::{Events, Interest};
use crate::socket::PeerAddress;

/// A ring, and everything that the kernel uses for its operations.
pub struct Ring {
    queues: IoUring,
    buffers: Buffers,
    sends: Sends,
    reads: Reads,
    files: Files,
    polls: Polls,
    accepts: Accepts,
    /// What has completed, and was not taken yet.
    completed: VecDeque<Completed>,
    /// Readiness that was seen while a call was for something else.
    seen: Vec<(u64, EventFlags)>,
    /// Operations that are still to complete.
    in_flight: usize,
    counts: Counts,
}

/// An operation that has completed.
pub enum Completion<'a> {
    /// A [`Ring::receive`].
    Received {
        /// The caller's name for it.
        token: u64,
        /// The bytes; none at the end of input.
        result: io::Result<Received<'a>>,
    },
    /// A [`Ring::send`].
    Sent {
        /// The caller's name for it.
        token: u64,
        /// How many bytes were sent: all, unless the connection is broken.
        result: io::Result<usize>,
        /// What was to be sent. Empty if the kernel still reads it: [`Completion::Released`] gives it back.
        bytes: Vec<u8>,
    },
    /// What was sent without a copy, and is the caller's again.
    Released {
        /// The caller's name for the send.
        token: u64,
        /// What was sent.
        bytes: Vec<u8>,
    },
    /// A [`Ring::load`].
    Loaded {
        /// The caller's name for it.
        token: u64,
    },
}

/// Bytes in a buffer of the ring.
pub struct Received<'a> {
    bytes: Option<Filled<'a>>,
    has_more: bool,
}

/// How many operations a ring has handed over, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls of `io_uring_enter(2)`.
    pub enters: u64,
    /// Accepts, also those that took no connection.
    pub accepts: u64,
    /// Receives.
    pub receives: u64,
    /// Sends.
    pub sends: u64,
    /// Reads of files.
    pub reads: u64,
    /// Closes.
    pub closes: u64,
    /// Watches of descriptors.
    pub polls: u64,
    /// Cancellations of the others.
    pub cancels: u64,
    /// Changes of which descriptors are registered.
    pub registrations: u64,
}

/// How bytes are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// They need not leave before others, or before the connection's end.
    pub more_follows: bool,
    /// The kernel sends them from where they are. It takes them for as long as the network has them, and
    /// tells twice: when they are sent, and when they are [released](Completion::Released). Only over TCP.
    pub zero_copy: bool,
}

/// As the kernel told it.
enum Completed {
    Received { token: u64, result: i32, flags: u32 },
    Sent { number: u32, result: i32, is_held: bool },
    Released { number: u32 },
    Read { number: u32 },
}

/// What an operation is, in the highest byte of its name in the ring.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Kind {
    Poll = 1,
    Receive = 2,
    Send = 3,
    Accept = 4,
    Read = 5,
    /// Operations whose success is not told.
    Silent = 6,
}

/// Operations that can be written before a call hands them over.
const SUBMISSIONS: u32 = 512;
/// Completions that can wait to be read. If there are more, the kernel keeps them until there is room.
const COMPLETIONS: u32 = 2048;
/// The group of buffers that receives choose from.
const GROUP: u16 = 0;
/// How long [`Drop`] waits for operations that were cancelled.
const PATIENCE: Duration = Duration::from_secs(1);

impl Ring {
    /// The most bytes that one operation loads.
    pub const MOST_LOADED: usize = reads::MOST;
    /// Memory for a watch of each descriptor.
    pub const BYTES_EACH: usize = size_of::<Option<polls::Poll>>();

    /// Makes a ring. `io_uring_setup(2)` with `SINGLE_ISSUER` and `DEFER_TASKRUN` (Linux 6.1).
    ///
    /// # Errors
    ///
    /// `EPERM`: a sandbox or `kernel.io_uring_disabled` forbids it. `ENOSYS`, `EINVAL`: the kernel is too
    /// old. `ENOMEM`: `RLIMIT_MEMLOCK` or memory is used up.
    pub fn new() -> io::Result<Self> {
        Self::with_room(SUBMISSIONS, COMPLETIONS)
    }

    fn with_room(submissions: u32, completions: u32) -> io::Result<Self> {
        let mut setup = IoUring::builder();
        setup.setup_single_issuer().setup_defer_taskrun().setup_submit_all().setup_cqsize(completions);
        let queues = setup.build(submissions)?;
        let buffers = Buffers::new()?;
        let (address, count) = buffers.ring();
        // SAFETY: the memory of `buffers` stays mapped until the ring is closed: `Drop` does it in this
        // order, and leaves the memory mapped if an operation might still write to it.
        unsafe { queues.submitter().register_buf_ring_with_flags(address, count, GROUP, 0)? };
        Ok(Self {
            queues,
            buffers,
            sends: Sends::default(),
            reads: Reads::default(),
            files: Files::default(),
            polls: Polls::default(),
            accepts: Accepts::new(),
            completed: VecDeque::new(),
            seen: Vec::new(),
            in_flight: 0,
            counts: Counts::default(),
        })
    }

    /// Receives from a socket, at most `most` bytes and at most a buffer's 2,048, when something has come.
    /// `is_silent`: nothing is expected yet, so that the kernel doesn't try before it waits. There may be
    /// one receive under each name. `IORING_OP_RECV`, recv(2).
    #[inline]
    pub fn receive(&mut self, socket: BorrowedFd<'_>, token: u64, most: usize, is_silent: bool) {
        /// `IORING_RECVSEND_POLL_FIRST`, `io_uring_enter(2)`.
        const POLL_FIRST: u16 = 1;
        let most = most.min(buffers::SIZE) as u32;
        let receive = opcode::Recv::new(Fd(socket.as_raw_fd()), std::ptr::null_mut(), most);
        let receive = receive.buf_group(GROUP).ioprio(if is_silent { POLL_FIRST } else { 0 });
        let flags = Flags::BUFFER_SELECT | self.files.flags(socket.as_raw_fd());
        let entry = receive.build().flags(flags);
        self.counts.receives += 1;
        // SAFETY: the kernel writes to a buffer of the group, which `buffers` keeps.
        unsafe { self.push(entry, name(Kind::Receive, token)) };
    }

    /// Sends all of these bytes, and the shared ones behind them, when the socket has room.
    /// `IORING_OP_SEND`, `IORING_OP_SENDMSG`, or both with `_ZC`; send(2) with `MSG_NOSIGNAL`, `MSG_WAITALL`
    /// and `MSG_MORE`.
    #[inline]
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        token: u64,
        (bytes, shared): (Vec<u8>, Option<Shared>),
        how: How,
    ) {
        self.push_send(token, (bytes, shared), (socket.as_raw_fd(), how));
    }

    fn push_send(&mut self, token: u64, what: What, (socket, how): (RawFd, How)) {
        let (number, entry) = self.sends.insert(token, what, (socket, how));
        let entry = entry.flags(self.files.flags(socket));
        self.counts.sends += 1;
        // SAFETY: `sends` keeps the bytes where they are until this operation has completed.
        unsafe { self.push(entry, name(Kind::Send, number.into())) };
    }

    /// Brings a range of a file into the page cache, as far as the file has it. At most [`Ring::MOST_LOADED`]
    /// bytes. A thread of the kernel waits for the disk: an attempt without one may wait as well, for room in
    /// the disk's queue or for the file's extents. `IORING_OP_READV` with `IOSQE_ASYNC`.
    pub fn load(&mut self, file: Arc<OwnedFd>, token: u64, range: Range<u64>) {
        let length = range.end.saturating_sub(range.start) as usize;
        let (number, entry) = self.reads.insert(token, file, range.start, length);
        self.counts.reads += 1;
        // SAFETY: `reads` keeps the file and the memory that is written to until this operation has
        // completed, and no reference to that memory exists.
        unsafe { self.push(entry.flags(Flags::ASYNC), name(Kind::Read, number.into())) };
    }

    /// Cancels what is received and sent under a name. What completes before that is still told.
    pub fn cancel(&mut self, token: u64) {
        self.cancel_operation(name(Kind::Receive, token));
        if let Some(number) = self.sends.give_up(token) {
            self.cancel_operation(name(Kind::Send, number.into()));
        }
    }

    /// Closes a descriptor, behind the operations that it has by now. `IORING_OP_CLOSE`, close(2).
    #[inline]
    pub fn close(&mut self, descriptor: OwnedFd) {
        let descriptor = descriptor.into_raw_fd();
        if let Some(entry) = self.files.forget(descriptor) {
            self.push_registration(entry);
        }
        let entry = opcode::Close::new(Fd(descriptor)).build();
        self.counts.closes += 1;
        // SAFETY: the number is this operation's to close, as its owner has given it up.
        unsafe { self.push(entry.flags(Flags::SKIP_SUCCESS), name(Kind::Silent, 0)) };
    }

    /// Makes room for registered descriptors, as many as this process may have. `io_uring_register(2)`,
    /// `IORING_REGISTER_FILES2`.
    ///
    /// # Errors
    ///
    /// The kernel [can't](check_registration) do it well, or has no memory left for the table.
    pub fn register_descriptors(&mut self) -> io::Result<()> {
        files::check()?;
        let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let files = Files::below(most.unwrap_or(u64::MAX));
        self.queues.submitter().register_files_sparse(files.len())?;
        self.files = files;
        Ok(())
    }

    /// Sets how many threads of the kernel may wait for disks at a time. `io_uring_register(2)`,
    /// `IORING_REGISTER_IOWQ_MAX_WORKERS`.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn load_by(&mut self, threads: u32) -> io::Result<()> {
        // 0: the bound on other threads stays as it is.
        self.queues.submitter().register_iowq_max_workers(&mut [threads, 0])
    }

    /// Registers a socket until it is [closed](Self::close), if there is room. `IORING_OP_FILES_UPDATE`.
    #[inline]
    pub fn register(&mut self, socket: BorrowedFd<'_>) {
        if let Some(entry) = self.files.register(socket.as_raw_fd()) {
            self.push_registration(entry);
        }
    }

    /// Watches a descriptor, until it is [removed](Self::remove): reports each change once, with the
    /// token, whatever `interest` says of edges. The end of the peer's sending is reported in any case, but
    /// not with `exclusive`. `IORING_OP_POLL_ADD`, multishot.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`: it is watched.
    pub fn add(&mut self, descriptor: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let mut events = interest.flags().difference(EventFlags::ET);
        if !interest.exclusive {
            events |= EventFlags::RDHUP;
        }
        let events = events.bits();
        let descriptor = descriptor.as_fd().as_raw_fd();
        let operation = self.polls.insert(descriptor, token, events).ok_or(io::ErrorKind::AlreadyExists)?;
        self.push_poll(descriptor, operation, events);
        Ok(())
    }

    /// Ends the watch of a descriptor, which may be closed then.
    ///
    /// # Errors
    ///
    /// `NotFound`: it is not watched.
    pub fn remove(&mut self, descriptor: impl AsFd) -> io::Result<()> {
        let operation = self.polls.remove(descriptor.as_fd().as_raw_fd()).ok_or(io::ErrorKind::NotFound)?;
        self.cancel_operation(name(Kind::Poll, operation));
        Ok(())
    }

    /// Takes a connection out of the accept queue, with its peer's address. At most `most` are taken in
    /// one call, and the others are kept for the next calls of this function. Errors as for
    /// [`accept_from`](crate::socket::accept_from), and those of the ring. `IORING_OP_ACCEPT` with
    /// `IORING_ACCEPT_DONTWAIT` (Linux 6.10).
    pub fn accept(&mut self, listener: BorrowedFd<'_>, most: u32) -> io::Result<(OwnedFd, PeerAddress)> {
        if self.accepts.is_empty() && !self.accepts.are_under_way() {
            let count = self.accepts.begin(most);
            for at in 0..count {
                let entry = self.accepts.entry(at, listener.as_raw_fd());
                self.counts.accepts += 1;
                // SAFETY: `accepts` keeps the places for addresses until `begin` is called again, and that
                // is only after all have completed.
                unsafe { self.push(entry, name(Kind::Accept, at as u64)) };
            }
        }
        while self.accepts.are_under_way() {
            // The next wait tells what is wrong with the ring.
            self.enter(0, None).map_err(|_| io::ErrorKind::WouldBlock)?;
            self.collect();
        }
        self.accepts.next()
    }

    /// Whether an accept has taken connections that are still to be asked for.
    #[inline]
    pub fn has_accepted(&self) -> bool {
        !self.accepts.is_empty()
    }

    /// Hands all operations over, and waits until something has completed, at most `timeout_ms` (none: for
    /// ever). Returns how many [`Events`] there are; for the rest, see
    /// [`next_completion`](Self::next_completion). `io_uring_enter(2)`; a signal ends it.
    pub fn wait(&mut self, events: &mut Events, timeout_ms: Option<u32>) -> io::Result<usize> {
        let is_idle = self.seen.is_empty() && self.completed.is_empty();
        let timeout = timeout_ms.map(|ms| Duration::from_millis(ms.into()));
        let (want, timeout) = if is_idle { (1, timeout) } else { (0, None) };
        self.enter(want, timeout)?;
        self.collect();
        events.prepare(self.seen.len());
        for (token, flags) in self.seen.drain(..) {
            events.push(token, flags);
        }
        Ok(events.len())
    }

    /// How many operations have completed that [`next_completion`](Self::next_completion) has not returned.
    #[inline]
    pub fn completed(&self) -> usize {
        self.completed.len()
    }

    /// The next operation that has completed.
    #[inline]
    pub fn next_completion(&mut self) -> Option<Completion<'_>> {
        loop {
            match self.completed.pop_front()? {
                Completed::Received { token, result, flags } => {
                    let result = outcome(result).map(|length| {
                        let number = cqueue::buffer_select(flags);
                        // SAFETY: the kernel has named the buffer and its length in the completion.
                        let bytes = number.map(|number| unsafe { self.buffers.filled(number, length) });
                        // Some kernels don't say it of Unix sockets.
                        let has_more = length == buffers::SIZE || cqueue::sock_nonempty(flags);
                        Received { bytes, has_more }
                    });
                    return Some(Completion::Received { token, result });
                }
                Completed::Sent { number, result, is_held } => {
                    if matches!(-result, libc::ENOMEM | libc::ENOBUFS) && self.sends.is_refused(number) {
                        // The kernel reads it until it says so, although it has sent nothing.
                        if !is_held {
                            self.send_with_a_copy(number);
                        }
                        continue;
                    }
                    let Some((token, length)) = self.sends.are_sent(number) else { continue };
                    let back = if is_held { None } else { self.sends.remove(number) };
                    let bytes = back.map(|(_, bytes)| bytes).unwrap_or_default();
                    // `MSG_WAITALL`: fewer bytes mean that there was an error, which the next call would
                    // tell.
                    let result = match outcome(result) {
                        Ok(sent) if sent < length => Err(io::ErrorKind::BrokenPipe.into()),
                        other => other,
                    };
                    return Some(Completion::Sent { token, result, bytes });
                }
                Completed::Released { number } => {
                    if self.send_with_a_copy(number) {
                        continue;
                    }
                    let Some((token, bytes)) = self.sends.remove(number) else { continue };
                    return Some(Completion::Released { token, bytes });
                }
                // Who needs the bytes finds out whether they could be read.
                Completed::Read { number } => {
                    let Some(token) = self.reads.remove(number) else { continue };
                    return Some(Completion::Loaded { token });
                }
            }
        }
    }

    /// Sends what the kernel has refused to send without a copy. The socket is still open: who closes it
    /// [cancels](Self::cancel) first.
    #[cold]
    fn send_with_a_copy(&mut self, number: u32) -> bool {
        let Some((token, what, to)) = self.sends.take_refused(number) else { return false };
        self.push_send(token, what, to);
        true
    }

    /// How many operations there were, by kind.
    #[inline]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many operations are still to complete.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn push_poll(&mut self, descriptor: i32, operation: u64, events: u32) {
        let entry = opcode::PollAdd::new(Fd(descriptor), events).multi(true).build();
        self.counts.polls += 1;
        // SAFETY: the operation uses no memory.
        unsafe { self.push(entry, name(Kind::Poll, operation)) };
    }

    fn push_registration(&mut self, entry: Entry) {
        self.counts.registrations += 1;
        // SAFETY: the number that the kernel reads is in `files`, which is not moved, or is static. It is
        // read when the operation is handed over, which is while the ring lives.
        unsafe { self.push(entry.flags(Flags::SKIP_SUCCESS), name(Kind::Silent, 0)) };
    }

    fn cancel_operation(&mut self, of: u64) {
        self.counts.cancels += 1;
        let entry = opcode::AsyncCancel::new(of).build().flags(Flags::SKIP_SUCCESS);
        // SAFETY: the operation uses no memory.
        unsafe { self.push(entry, name(Kind::Silent, 0)) };
    }

    /// Writes an operation, to be handed over by the next call.
    ///
    /// # Safety
    ///
    /// What the operation reads or writes stays there until it has completed.
    #[inline]
    unsafe fn push(&mut self, entry: Entry, name: u64) {
        let entry = entry.user_data(name);
        if name >> 56 != Kind::Silent as u64 {
            self.in_flight += 1;
        }
        // SAFETY: the caller's promise.
        while unsafe { self.queues.submission().push(&entry) }.is_err() {
            // The kernel takes what is there, unless it has no room for what completes. An error here is that
            // of the next wait, too.
            let _ = self.enter(0, None);
            self.collect();
        }
    }

    /// Hands all operations over, and waits for `want` completions.
    fn enter(&mut self, want: u32, timeout: Option<Duration>) -> io::Result<()> {
        let mut args = SubmitArgs::new();
        let timespec;
        if let Some(timeout) = timeout.filter(|_| want > 0) {
            timespec = Timespec::from(timeout);
            args = args.timespec(&timespec);
        }
        self.counts.enters += 1;
        let flags = EnterFlags::EXT_ARG | EnterFlags::GETEVENTS;
        let submissions = self.queues.submission().len() as u32;
        // SAFETY: the arguments are those of `IORING_ENTER_EXT_ARG`, and live until the call returns.
        let entered = unsafe { self.queues.submitter().enter(submissions, want, flags.bits(), Some(&args)) };
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // The time is over, a signal has come, or completions must be read first.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Takes what has completed out of the ring.
    fn collect(&mut self) {
        let mut room = [const { MaybeUninit::uninit() }; 64];
        loop {
            let entries = self.queues.completion().fill(&mut room);
            if entries.is_empty() {
                return;
            }
            for entry in entries.iter() {
                self.sort(entry.user_data(), entry.result(), entry.flags());
            }
        }
    }

    #[inline]
    fn sort(&mut self, name: u64, result: i32, flags: u32) {
        let of = name & ((1 << 56) - 1);
        if !cqueue::more(flags) && name >> 56 != Kind::Silent as u64 {
            self.in_flight -= 1;
        }
        match name >> 56 {
            kind if kind == Kind::Receive as u64 => {
                self.completed.push_back(Completed::Received { token: of, result, flags });
            }
            kind if kind == Kind::Send as u64 => {
                let (number, is_held) = (of as u32, cqueue::more(flags));
                self.completed.push_back(if cqueue::notif(flags) {
                    Completed::Released { number }
                } else {
                    Completed::Sent { number, result, is_held }
                });
            }
            kind if kind == Kind::Read as u64 => {
                self.completed.push_back(Completed::Read { number: of as u32 });
            }
            kind if kind == Kind::Poll as u64 => {
                let Some((descriptor, poll)) = self.polls.get(of) else { return };
                if result >= 0 {
                    self.seen.push((poll.token, EventFlags::from_bits_retain(result as u32)));
                } else {
                    // It can't be watched: the caller learns why when it tries to use the descriptor.
                    self.seen.push((poll.token, EventFlags::ERR));
                }
                if !cqueue::more(flags) && result >= 0 {
                    // The kernel has ended the watch, as it had no room to report.
                    self.push_poll(descriptor, of, poll.events);
                }
            }
            kind if kind == Kind::Accept as u64 => self.accepts.completed(of as usize, result),
            _ => {}
        }
    }
}

impl Drop for Ring {
    /// Cancels everything, and waits until the kernel uses no memory any more. If it doesn't come to that,
    /// the memory is left to the kernel for good.
    fn drop(&mut self) {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::any()).build().flags(Flags::SKIP_SUCCESS);
        // SAFETY: the operation uses no memory.
        unsafe { self.push(entry, name(Kind::Silent, 0)) };
        let began = std::time::Instant::now();
        self.polls = Polls::default();
        while self.in_flight > 0 && began.elapsed() < PATIENCE {
            if self.enter(1, Some(Duration::from_millis(100))).is_err() {
                break;
            }
            self.collect();
        }
        if self.in_flight > 0 {
            std::mem::forget(std::mem::take(&mut self.sends));
            std::mem::forget(std::mem::take(&mut self.reads));
            std::mem::forget(std::mem::replace(&mut self.accepts, Accepts::new()));
            self.buffers.leave();
        }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring's descriptor is open for as long as the ring lives.
        unsafe { BorrowedFd::borrow_raw(self.queues.as_raw_fd()) }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { in_flight, counts, .. } = self;
        formatter.debug_struct("Ring").field("in_flight", in_flight).field("counts", counts).finish()
    }
}

impl Completion<'_> {
    /// The caller's name for the operation.
    #[inline]
    pub fn name(&self) -> u64 {
        match self {
            Self::Received { token, .. }
            | Self::Sent { token, .. }
            | Self::Released { token, .. }
            | Self::Loaded { token } => *token,
        }
    }
}

impl Received<'_> {
    /// Whether more may have come than these bytes.
    pub fn has_more(&self) -> bool {
        self.has_more
    }
}

impl Deref for Received<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }
}

/// An operation's name in the ring. `of` has 56 bits.
const fn name(kind: Kind, of: u64) -> u64 {
    (kind as u64) << 56 | of
}

fn outcome(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

#[cfg(test)]
mod tests;
