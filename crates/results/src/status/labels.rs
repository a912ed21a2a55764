//! What tells the numbers of one counter apart: phases, states, causes and codes, and their names in every
//! status format.

use crate::Label;

/// The phases of an event loop's turn (Brecht et al. 2004, section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopPhase {
    /// Learning which sockets can go on, and waiting until some can.
    GetEvents,
    /// Taking connections out of the accept queue.
    Accept,
    /// Serving the connections that can go on, and those whose deadline has passed.
    Work,
}

impl Label for LoopPhase {
    const NAMES: &'static [&'static str] = &["get_events", "accept", "work"];

    fn place(self) -> usize {
        self as usize
    }
}

/// The stages of a pipeline (Harji et al. 2012, section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Takes connections out of the accept queues.
    Accept,
    /// Learns which connections have input.
    ReadPoll,
    /// Receives requests and plans replies.
    Read,
    /// Learns which connections have room to write.
    WritePoll,
    /// Sends replies.
    Write,
}

impl Label for Stage {
    const NAMES: &'static [&'static str] = &["accept", "read_poll", "read", "write_poll", "write"];

    fn place(self) -> usize {
        self as usize
    }
}

/// Whether a reply met the target for its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InTime {
    /// It did.
    Timely,
    /// It did not.
    Late,
}

impl Label for InTime {
    const NAMES: &'static [&'static str] = &["timely", "late"];

    fn place(self) -> usize {
        self as usize
    }
}

/// What a connection is doing, for the census.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionState {
    /// Part of a request head has arrived, or none yet on a new connection.
    ReadingHead,
    /// A request body is arriving.
    ReadingBody,
    /// A reply is being sent.
    Writing,
    /// Kept alive between two requests.
    Idle,
    /// Shut down for writing; what the client still sends is read and dropped.
    Lingering,
}

impl Label for ConnectionState {
    const NAMES: &'static [&'static str] = &["reading_head", "reading_body", "writing", "idle", "lingering"];

    fn place(self) -> usize {
        self as usize
    }
}

/// Why a connection ended by a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// The client reset it.
    Peer,
    /// We did: a deadline, a stop, a broken protocol.
    Local,
    /// We did because the file changed while it was sent, and the promised length could not be kept.
    FileChanged,
}

impl Label for Reset {
    const NAMES: &'static [&'static str] = &["peer", "local", "file_changed"];

    fn place(self) -> usize {
        self as usize
    }
}

/// Which system call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// `accept` found no free descriptor in this process (EMFILE) or system (ENFILE), or no memory; accepting
    /// pauses.
    AcceptExhausted,
    /// `accept` failed otherwise, ECONNABORTED included.
    Accept,
    /// Receiving failed with something other than a reset.
    Receive,
    /// Sending failed with something other than a reset.
    Send,
}

impl Label for Failure {
    const NAMES: &'static [&'static str] = &["accept_exhausted", "accept", "receive", "send"];

    fn place(self) -> usize {
        self as usize
    }
}

/// What a helper does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelperJob {
    /// Finding, opening and describing a file, and reading its body if that is small.
    Lookup,
    /// Reading a part of a file that is being sent.
    Fetch,
    /// Sending a part of a file.
    Send,
}

impl Label for HelperJob {
    const NAMES: &'static [&'static str] = &["look", "fetch", "send"];

    fn place(self) -> usize {
        self as usize
    }
}

/// An operation of a ring, `io_uring(7)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingOperation {
    /// Accepting a connection, whether one was there or not.
    Accept,
    /// Receiving from a client or an application.
    Receive,
    /// Sending to one of them.
    Send,
    /// Reading of a file.
    Read,
    /// Closing a connection.
    Close,
    /// Watching a descriptor.
    Poll,
    /// Cancelling one of the others.
    Cancel,
    /// Registering a socket, or the end of that.
    Register,
}

impl Label for RingOperation {
    const NAMES: &'static [&'static str] =
        &["accept", "receive", "send", "read", "close", "poll", "cancel", "register"];

    fn place(self) -> usize {
        self as usize
    }
}

/// Who waited for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskWait {
    /// A request, which is answered without what the disk has.
    Request,
    /// A reply that has been begun, whose connection is reset.
    Reply,
    /// A client that has shut down its side, and may be gone.
    HalfClosed,
}

impl Label for DiskWait {
    const NAMES: &'static [&'static str] = &["request", "reply", "half_closed"];

    fn place(self) -> usize {
        self as usize
    }
}

/// Why an access log line was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineLoss {
    /// The writer fell behind.
    Behind,
    /// Writing failed.
    WriteError,
}

impl Label for LineLoss {
    const NAMES: &'static [&'static str] = &["behind", "write_error"];

    fn place(self) -> usize {
        self as usize
    }
}

/// The deadlines of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    /// For the head of a request.
    Header,
    /// For its body.
    Body,
    /// For the reply.
    Write,
    /// For the next request.
    Idle,
    /// For the client's end of the connection.
    Linger,
}

impl Label for Timeout {
    const NAMES: &'static [&'static str] = &["header", "body", "write", "idle", "linger"];

    fn place(self) -> usize {
        self as usize
    }
}

/// Why a request was refused; by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {}

impl Label for Refusal {
    const NAMES: &'static [&'static str] = &[
        "request_line",
        "request_line_too_long",
        "unknown_method",
        "target",
        "version",
        "field",
        "bare_line_end",
        "too_many_fields",
        "head_too_large",
        "host",
        "content_length",
        "framing",
        "transfer_coding",
        "chunk",
        "body_too_large",
        "expectation",
        "cut_short",
        "header_timeout",
        "body_timeout",
    ];

    fn place(self) -> usize {
        match self {}
    }
}

/// The status codes that are counted singly; by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyCode {}

impl Label for ReplyCode {
    const NAMES: &'static [&'static str] = &[
        "200", "204", "206", "301", "304", "308", "400", "403", "404", "405", "408", "412", "413", "414",
        "416", "417", "421", "431", "500", "501", "502", "503", "504", "505",
    ];

    fn place(self) -> usize {
        match self {}
    }
}

/// The buckets of a histogram, by their upper bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bucket {}

impl Label for Bucket {
    const NAMES: &'static [&'static str] =
        &["0", "1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024", "2048", "inf"];

    fn place(self) -> usize {
        match self {}
    }
}
