//! What tells the numbers of one counter apart: phases, states, causes and codes, and their names in every
//! status format.

use http1::ErrorKind;

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

impl LoopPhase {
    /// Names in the order of the variants.
    pub const NAMES: [&'static str; 3] = ["get_events", "accept", "work"];
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

impl Stage {
    /// Names in the order of the variants.
    pub const NAMES: [&'static str; 5] = ["accept", "read_poll", "read", "write_poll", "write"];
}

/// Whether a reply met the target for its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InTime {
    /// It did.
    Timely,
    /// It did not.
    Late,
}

impl InTime {
    /// Names in the order of the variants.
    pub const NAMES: [&'static str; 2] = ["timely", "late"];
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

impl ConnectionState {
    /// Names in the order of the variants.
    pub const NAMES: [&'static str; 5] = ["reading_head", "reading_body", "writing", "idle", "lingering"];
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

impl Reset {
    /// Names in the order of the variants.
    pub const NAMES: [&'static str; 3] = ["peer", "local", "file_changed"];
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

impl Failure {
    /// Names in the order of the variants.
    pub const NAMES: [&'static str; 4] = ["accept_exhausted", "accept", "receive", "send"];
}

/// What a helper does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelperJob {
    /// Finding, opening and describing a file, and reading its body if that is small.
    Lookup,
    /// Reading a part of a file that is being sent.
    Fetch,
}

impl HelperJob {
    /// Names in the order of the variants.
    pub const NAMES: [&'static str; 2] = ["look", "fetch"];
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

impl DiskWait {
    /// Names in the order of the variants.
    pub const NAMES: [&'static str; 3] = ["request", "reply", "half_closed"];
}

/// Why an access log line was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineLoss {
    /// The writer fell behind.
    Behind,
    /// Writing failed.
    WriteError,
}

impl LineLoss {
    /// Names in the order of the variants.
    pub const NAMES: [&'static str; 2] = ["behind", "write_error"];
}

/// The timers of [`http1::TimerKind`], in the order of [`super::Counters::timeouts`].
pub const TIMEOUTS: [&str; 5] = ["header", "body", "write", "idle", "linger"];

/// The kinds of [`ErrorKind`], in the order of [`super::Counters::refusals`].
pub const REFUSALS: [&str; ErrorKind::ALL.len()] = [
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

/// The classes of status codes, in the order of [`super::Counters::replies`].
pub const REPLY_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The status codes that are counted singly, in the order of [`super::Counters::replies_by_code`].
pub const REPLY_CODES: [&str; 23] = [
    "200", "204", "206", "301", "304", "400", "403", "404", "405", "408", "412", "413", "414", "416", "417",
    "421", "431", "500", "501", "502", "503", "504", "505",
];
