//! An entry of the open-file table: everything about a file that a reply to a request for it is made of.
//!
//! A directory's listing is an entry like any other. Its file is in memory and holds the page.
//!
//! The header lines that depend on the file alone are written once, into one block of memory. A small
//! body follows them, so that most replies send a single run of the block:
//!
//! ```text
//! Content-Length | Content-Type | Accept-Ranges, Content-Encoding | ETag ... blank line | small body
//! |-- 200                                                                                 -->|
//!                |-- 206, one range           -->|
//!                               |-- 206, several |
//!                                                                 |-- 304             -->|
//! ```
//!
//! Without the header cache (`files.header_cache = false`) an entry is *bare*: instead of the lines it
//! keeps what they are made of, and each reply makes its own lines ([`Lines`]).

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use http1::coding::{Coding, CodingSet};
use http1::conditional::Validators;
use sys::file::{FileKind, FileStat};

use super::ends::Ends;

/// A validator that no request can name, as no header line holds a NUL. It is for files that have no
/// validator at the moment.
const UNKNOWABLE: &[u8] = b"\0";

/// The line about ranges. In the memory of a coded entry, the line of Content-Encoding follows.
pub(super) const ACCEPT_RANGES: &[u8] = b"Accept-Ranges: bytes\r\n";

/// A file that is ready to be sent.
#[derive(Debug)]
pub struct Entry {
    /// Header lines, and the body if it is small. A ring that sends from it keeps it as well.
    pub(super) memory: Arc<[u8]>,
    /// The file, if the body is not in memory. A helper that reads from it keeps it open as well.
    pub(super) file: Option<Arc<OwnedFd>>,
    /// Everything else.
    pub(super) facts: Facts,
}

/// What is known about such a file, in addition to the bytes.
#[derive(Clone, Debug)]
pub struct Facts {
    /// What the file was when it was opened. The size is the body's length. The kind `Directory` means
    /// the listing of a directory.
    pub(super) stat: FileStat,
    /// How the file then began and ended, if the body is not in memory.
    pub(super) ends: Ends,
    /// Where the parts of the memory begin.
    pub(super) marks: Marks,
    /// Bytes of memory.
    pub(super) memory_len: u32,
    /// The coding of the file, if it is a sibling of the requested file.
    pub(super) coding: Option<Coding>,
    /// Codings in which the file has siblings.
    pub(super) siblings: CodingSet,
    /// Whether it has no siblings and is not bare, as is usual.
    pub(super) is_plain: bool,
    /// For the path of a directory: which of the index names the file has.
    pub(super) index: Option<usize>,
    /// Until when the entry is trusted without a check of the file, on the monotonic clock.
    pub(super) trusted_until_ms: u64,
    /// Whether the entry stays right as long as the file stays the same: no header line expires, and the
    /// body is in memory if it should be.
    pub(super) lasting: bool,
}

/// Offsets into the memory of an entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    /// Content-Type; Content-Length is before it.
    pub(super) media_type: u32,
    /// Accept-Ranges and Content-Encoding.
    pub(super) coding: u32,
    /// Validators and everything else that a 304 repeats.
    pub(super) validators: u32,
    /// The body; the blank line is before it.
    pub(super) body: u32,
    /// The value of `ETag`, if there is one, without the prefix of a weak tag.
    pub(super) etag: Option<Range<u32>>,
    /// The value of Last-Modified, if there is one.
    pub(super) last_modified: Option<Range<u32>>,
}

/// Header lines made for one reply, from an entry that keeps none.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) bytes: Vec<u8>,
    /// Where the lines are in these bytes.
    pub(super) marks: Marks,
}

impl Lines {
    /// The facts of a bare entry as if it kept these lines, except where its body is.
    pub(super) fn complete(&self, bare: &Facts) -> Facts {
        Facts { marks: self.marks.clone(), ..bare.clone() }
    }
}

impl Marks {
    /// The marks of a bare entry, with `body` bytes instead of header lines.
    pub(super) fn bare(body: u32) -> Self {
        Self { body, ..Self::default() }
    }

    /// Whether there are no header lines. Content-Length would be the first.
    pub(super) fn is_bare(&self) -> bool {
        self.media_type == 0
    }
}

impl std::ops::Deref for Entry {
    type Target = Facts;

    #[inline]
    fn deref(&self) -> &Facts {
        &self.facts
    }
}

impl Entry {
    /// Drops the body from memory, so that it is sent from the file.
    pub(super) fn drop_body(&mut self) {
        self.memory = Arc::from(&self.memory[..self.marks.body as usize]);
        self.facts.memory_len = self.marks.body;
    }
}

impl Facts {
    /// Length of the body in bytes.
    pub(super) fn size(&self) -> u64 {
        self.stat.size
    }

    /// Bytes of body held in the entry's memory.
    pub(super) fn body_in_memory(&self) -> u64 {
        u64::from(self.memory_len - self.marks.body)
    }

    /// Bytes of body that take memory for as long as the entry lives. The table bounds these: small
    /// bodies, and listings wherever they are.
    pub(super) fn body_held(&self) -> u64 {
        if self.is_listing() { self.size() } else { self.body_in_memory() }
    }

    /// The entry's line of Content-Encoding; empty if there is none. `head` is the memory before the
    /// body.
    pub(super) fn coding_line<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        let lines = &head[self.marks.coding as usize..self.marks.validators as usize];
        lines.strip_prefix(ACCEPT_RANGES).unwrap_or_default()
    }

    /// Whether each reply makes its own header lines.
    pub(super) fn is_bare(&self) -> bool {
        self.marks.is_bare()
    }

    /// Whether it is the listing of a directory.
    pub(super) fn is_listing(&self) -> bool {
        self.stat.kind == FileKind::Directory
    }

    /// Whether the body is in memory, and not to be sent from the file. An entry that is not in the table
    /// yet has the file as well.
    #[inline]
    pub(super) fn is_in_memory(&self) -> bool {
        self.body_in_memory() == self.size()
    }

    /// The validators that preconditions of requests are compared with. `head` is the memory before the
    /// body.
    pub(super) fn validators<'a>(&self, head: &'a [u8]) -> Validators<'a> {
        let text = |range: &Option<Range<u32>>| match range {
            Some(range) => &head[range.start as usize..range.end as usize],
            None => UNKNOWABLE,
        };
        Validators {
            etag: text(&self.marks.etag),
            last_modified: u64::try_from(self.stat.mtime.secs).unwrap_or(0),
            last_modified_text: text(&self.marks.last_modified),
        }
    }
}
