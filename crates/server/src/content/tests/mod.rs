//! Tests of the service with real directories and the real connection state machine.

mod bounds;
mod changes;
mod directories;
mod error_pages;
mod files;
mod header_rules;
mod judge;
mod precompressed;
mod preconditions;
mod ranges;
mod root;
mod routes;
mod sites;
mod symbolic_links;

/// The tests that do not check what is kept, with a table that keeps no file open.
#[path = "."]
#[expect(clippy::duplicate_mod, reason = "the same tests, with another setting")]
mod unkept {
    use super::*;

    mod error_pages;
    mod preconditions;
    mod ranges;
    mod routes;

    #[path = "."]
    #[expect(clippy::duplicate_mod, reason = "the same tests, for the other kind of table")]
    mod sharing {
        use super::*;

        mod ranges;
    }
}

/// These tests without kept header lines.
#[path = "."]
#[expect(clippy::duplicate_mod, reason = "the same tests, with another setting")]
mod bare {
    use super::*;

    mod error_pages;
    mod files;
    mod header_rules;
    mod precompressed;
    mod preconditions;
    mod ranges;
    mod routes;

    #[path = "."]
    #[expect(clippy::duplicate_mod, reason = "the same tests, for the other kind of table")]
    mod sharing {
        use super::*;

        mod files;
        mod ranges;
    }
}

/// These tests with the table that workers share. [`Site`] selects it by the name of the test's thread.
#[path = "."]
#[expect(clippy::duplicate_mod, reason = "the same tests, for the other kind of table")]
mod sharing {
    use super::*;

    mod bounds;
    mod changes;
    mod directories;
    mod error_pages;
    mod files;
    mod header_rules;
    mod judge;
    mod precompressed;
    mod preconditions;
    mod ranges;
    mod root;
    mod routes;
    mod sites;
    mod symbolic_links;
}

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path as FsPath, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use http1::coding::Coding;
use http1::{Connection, Ended, Limits, Segment, Sheet, Step, Tick};
use sys::file::Symlinks;
use tempfile::TempDir;

use super::*;
use crate::config::{FileSettings, HeaderRule, Pattern};

/// Long ago, so that files with this date have settled; with a fraction of a second.
const LONG_AGO: Duration = Duration::from_nanos(1_500_000_000_123_456_789);

/// More than any test has.
const OPEN_FILES: u32 = 100;

/// A document root, and the service for it.
struct Site {
    keep: TempDir,
    settings: FileSettings,
    content: Content,
    now_ms: u64,
    /// Whether the next request is answered without waiting for a disk.
    never_blocks: bool,
}

/// A reply as a client sees it.
#[derive(Debug)]
struct Reply {
    status: u16,
    fields: HashMap<String, String>,
    body: Vec<u8>,
}

impl Reply {
    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a blank line");
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap()[9..12].parse().unwrap();
        let mut fields = HashMap::new();
        for line in lines {
            let (name, value) = line.split_once(": ").unwrap();
            let before = fields.insert(name.to_lowercase(), value.to_owned());
            assert_eq!(before, None, "{name} twice");
        }
        Self { status, fields, body: bytes[end + 4..].to_vec() }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    fn etag(&self) -> &str {
        self.field("etag").unwrap()
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// The site for all hosts.
fn default_site(files: &FileSettings) -> SiteSettings {
    SiteSettings::new(Vec::new(), None, files.clone())
}

/// The service with the table that the current test needs.
fn content(sites: &[SiteSettings]) -> Content {
    let thread = std::thread::current();
    let is_of = |group: &str| thread.name().is_some_and(|name| name.contains(group));
    let mut sites = sites.to_vec();
    for site in &mut sites {
        site.files.header_cache &= !is_of("::bare::");
        if is_of("::unkept::") {
            site.files.max_open = 0;
        }
    }
    let sites = &sites[..];
    let resolvers = Arc::new(Resolvers::new(sites).unwrap());
    if !is_of("::sharing::") {
        return Content::new(resolvers, sites, OPEN_FILES, 8);
    }
    let ledger = sys::descriptors::Ledger::new(4_096).unwrap();
    let files = SharedFiles::new(sites, OPEN_FILES, 2, ledger, 1).unwrap();
    Content::sharing(resolvers, files.for_worker(1, 1), sites, 8)
}

/// A reply in progress, which has a file or memory pinned.
struct Download {
    connection: Connection<Pin>,
    limits: Limits,
}

impl Download {
    /// The next bytes to send, read as the driver would read them.
    fn take(&mut self, content: &Content, at_most: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for segment in self.connection.output() {
            match segment {
                Segment::Own(own) => bytes.extend_from_slice(own),
                Segment::Memory(pin, range) => {
                    bytes.extend(content.memory(pin, range).unwrap().to_vec());
                }
                Segment::File(pin, offset, len) => {
                    let mut part = vec![0; len as usize];
                    let n = sys::file::read_at(content.file(pin).unwrap(), &mut part, offset).unwrap();
                    bytes.extend_from_slice(&part[..n]);
                }
            }
        }
        bytes.truncate(at_most);
        self.connection.sent(&self.limits, Tick(0), bytes.len() as u64);
        bytes
    }

    fn pin(&self) -> &Pin {
        let pinned = self.connection.output().find_map(|segment| match segment {
            Segment::Memory(pin, _) | Segment::File(pin, ..) => Some(pin),
            Segment::Own(_) => None,
        });
        pinned.expect("something of the entry is still to be sent")
    }

    fn end(mut self, content: &mut Content) {
        if self.connection.is_replying() {
            self.connection.abort();
        }
        let Ended { pin, .. } = self.connection.release().unwrap();
        if let Some(pin) = pin {
            content.unpin(pin);
        }
    }
}

impl Site {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut FileSettings)) -> Self {
        let keep = tempfile::tempdir().unwrap();
        let root = keep.path().join("root");
        fs::create_dir(&root).unwrap();
        let mut settings = FileSettings::new(root);
        change(&mut settings);
        let content = content(&[default_site(&settings)]);
        Self { keep, settings, content, now_ms: 1_000_000, never_blocks: false }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.settings.root.join(name)
    }

    /// Writes a file with an old modification time that has settled.
    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        self.write_dated(name, content, LONG_AGO);
    }

    fn write_dated(&self, name: &str, content: impl AsRef<[u8]>, modified: Duration) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + modified).unwrap();
    }

    /// Waits until no earlier change could be repeated unnoticed within the file system's clock tick.
    fn settle() {
        std::thread::sleep(Duration::from_millis(50));
    }

    /// Makes the table's entries expire.
    fn later(&mut self) {
        self.now_ms += 1001;
    }

    fn begin(&mut self, request: &str) -> Download {
        let limits = Limits::default();
        let mut connection = Connection::new(Tick(0), &limits);
        let (_, step) = connection.receive(&limits, Tick(0), request.as_bytes(), false).unwrap();
        let Step::Request(head) = step else { panic!("{request:?} is no request") };
        let plan = self.answer(&head);
        connection.respond(&limits, Tick(0), plan);
        Download { connection, limits }
    }

    /// Answers a request. Every other request is answered like by a worker that must not wait and finds
    /// nothing in memory, or like by one that waits only for names.
    fn answer(&mut self, head: &Head<'_>) -> Plan<Pin> {
        self.ask(head).unwrap_or_else(|call| panic!("{call:?}"))
    }

    /// Like [`answer`](Self::answer), but an application may be called.
    fn ask(&mut self, head: &Head<'_>) -> Result<Plan<Pin>, Box<Call>> {
        let stamp = Stamp::new("", sys::clock::realtime_secs());
        self.never_blocks = !self.never_blocks;
        let may_block = match self.content.table {
            _ if !self.never_blocks => MayBlock::Always,
            Tables::Own(_) | Tables::Unkept(_) => MayBlock::Never,
            // A shared table belongs to workers, or readers, that wait for the disk themselves.
            Tables::Shared(_) => MayBlock::ForNames,
        };
        for site in 0..self.content.sites.len() {
            self.content.resolvers.of(site as SiteNumber).is_cold.store(true, Ordering::Relaxed);
        }
        let mut prefetched: Option<Prefetched> = None;
        let mut asked_for = HashSet::new();
        let plan = loop {
            match self.content.answer(
                head,
                (prefetched.as_ref(), may_block),
                self.now_ms,
                Sheet::default(),
                &stamp,
            ) {
                Ok(plan) => break Ok(plan),
                Err(Detour::Call(call, _)) => break Err(call),
                Err(Detour::Lookup(mut lookup)) => {
                    assert!(self.never_blocks);
                    assert!(
                        asked_for.insert((lookup.path.to_vec(), lookup.coding().map(Coding::token))),
                        "{lookup:?} again"
                    );
                    let found = loop {
                        let now = Now { ms: self.now_ms, unix_secs: stamp.unix_secs() };
                        let resolver = self.content.resolvers.of(lookup.site);
                        let result = resolver.look_up_within(&lookup, MayBlock::Always, now).unwrap();
                        if let Some(found) = self.content.admit(&mut lookup, result) {
                            break found;
                        }
                    };
                    self.content.keep(prefetched.get_or_insert_default(), &lookup, &found);
                }
            }
        };
        if let Some(prefetched) = prefetched {
            self.content.unkeep(prefetched);
        }
        plan
    }

    fn request(&mut self, method: &str, target: &str, fields: &str) -> Reply {
        self.request_of("x", method, target, fields)
    }

    fn request_of(&mut self, host: &str, method: &str, target: &str, fields: &str) -> Reply {
        let request = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
        let mut download = self.begin(&request);
        let bytes = download.take(&self.content, usize::MAX);
        download.end(&mut self.content);
        let reply = Reply::parse(&bytes);
        if let Some(length) = reply.field("content-length").filter(|_| method != "HEAD") {
            assert_eq!(length.parse(), Ok(reply.body.len()));
        }
        reply
    }

    fn get(&mut self, target: &str) -> Reply {
        self.request("GET", target, "")
    }

    fn get_with(&mut self, target: &str, fields: &str) -> Reply {
        self.request("GET", target, &format!("{fields}\r\n"))
    }

    fn status(&mut self, target: &str) -> u16 {
        self.get(target).status
    }

    /// Starts again with other settings, as a reload does.
    fn reconfigure(&mut self, change: impl FnOnce(&mut FileSettings)) {
        change(&mut self.settings);
        self.content = content(&[default_site(&self.settings)]);
    }
}

/// Bytes that differ at every place.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 256) as u8).collect()
}
