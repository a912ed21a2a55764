//! A disk that waits until it is told to go on: a file system in this process, through FUSE.
//!
//! It holds one directory, in which there is a file under every name that ends with `.bin`, with bytes that
//! its name decides. The kernel may keep nothing of it in memory but the bytes that were read, so every
//! look-up comes here.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, Request,
};

use rustix::mount::UnmountFlags;

use harness::site::pattern;

/// How long each file is: a few windows, of which the last is not full.
pub(crate) const LEN: usize = 600_000;

/// The mounted file system, unmounted when it is dropped.
pub(crate) struct SlowDisk {
    state: Arc<Shared>,
    directory: PathBuf,
    _session: BackgroundSession,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    names: Vec<String>,
    holds_look_ups: bool,
    /// Reads from here on wait.
    holds_reads_from: u64,
    waiting: usize,
    look_ups: usize,
    len: usize,
}

impl Default for State {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            holds_look_ups: false,
            holds_reads_from: u64::MAX,
            waiting: 0,
            look_ups: 0,
            len: LEN,
        }
    }
}

impl SlowDisk {
    /// Mounts it on a directory, which takes root and a kernel with FUSE.
    pub(crate) fn mount(directory: &Path) -> io::Result<Self> {
        let state = Arc::new(Shared::default());
        let session = fuser::spawn_mount(Disk(Arc::clone(&state)), directory, &Config::default())?;
        Ok(Self { state, directory: directory.to_owned(), _session: session })
    }

    /// Look-ups of files wait from now on.
    pub(crate) fn hold_look_ups(&self) {
        self.change(|state| state.holds_look_ups = true);
    }

    /// Reads wait from now on that go beyond `offset`.
    pub(crate) fn hold_reads_from(&self, offset: u64) {
        self.change(|state| state.holds_reads_from = offset);
    }

    /// Look-ups that wait go on, and reads do not.
    pub(crate) fn release_look_ups(&self) {
        self.change(|state| state.holds_look_ups = false);
    }

    /// Whatever waits goes on.
    pub(crate) fn release(&self) {
        self.change(|state| {
            state.holds_look_ups = false;
            state.holds_reads_from = u64::MAX;
        });
    }

    /// All files have become that short.
    pub(crate) fn cut(&self, len: usize) {
        self.change(|state| state.len = len);
    }

    /// How many requests of the kernel wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state.state.lock().expect("nobody panics").waiting
    }

    /// How often files have been looked up so far.
    pub(crate) fn look_ups(&self) -> usize {
        self.state.state.lock().expect("nobody panics").look_ups
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.state.lock().expect("nobody panics"));
        self.state.changed.notify_all();
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        self.release();
        // The server may still have files open. The file system ends when it has not.
        let _ = rustix::mount::unmount(&self.directory, UnmountFlags::DETACH);
    }
}

/// What the file of a name holds.
pub(crate) fn content(name: &str) -> Vec<u8> {
    pattern(name.bytes().fold(7, |seed, byte| seed * 31 + u64::from(byte)), LEN)
}

struct Disk(Arc<Shared>);

impl Disk {
    /// Answers in a thread of its own, once the disk does not hold it any more.
    fn after(
        &self,
        holds: impl Fn(&State) -> bool + Send + 'static,
        answer: impl FnOnce(&mut State) + Send + 'static,
    ) {
        let shared = Arc::clone(&self.0);
        thread::spawn(move || {
            let mut state = shared.state.lock().expect("nobody panics");
            state.waiting += 1;
            let mut state = shared.changed.wait_while(state, |state| holds(state)).expect("nobody panics");
            state.waiting -= 1;
            answer(&mut state);
        });
    }
}

/// The kernel asks again each time, but keeps what an open file is.
const NOT_KEPT: Duration = Duration::ZERO;
const KEPT: Duration = Duration::from_hours(1);

impl Filesystem for Disk {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Otherwise one look-up in a directory waits for the other.
        config
            .add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS)
            .map_err(|_| io::ErrorKind::Unsupported.into())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.to_string_lossy().into_owned();
        self.after(
            |state| state.holds_look_ups,
            move |state| {
                if Path::new(&name).extension() != Some(OsStr::new("bin")) {
                    return reply.error(Errno::ENOENT);
                }
                state.look_ups += 1;
                let at = state.names.iter().position(|known| *known == name).unwrap_or_else(|| {
                    state.names.push(name);
                    state.names.len() - 1
                });
                reply.entry(&NOT_KEPT, &file(at as u64 + 2, state.len), Generation(0));
            },
        );
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let state = self.0.state.lock().expect("nobody panics");
        match u64::from(inode) {
            1 => reply.attr(&KEPT, &FileAttr { kind: FileType::Directory, perm: 0o755, ..file(1, 0) }),
            inode => reply.attr(&KEPT, &file(inode, state.len)),
        }
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.after(
            move |state| offset + u64::from(size) > state.holds_reads_from,
            move |state| {
                let bytes = content(&state.names[u64::from(inode) as usize - 2]);
                let end = state.len.min(offset as usize + size as usize);
                reply.data(bytes.get(offset as usize..end).unwrap_or_default());
            },
        );
    }
}

fn file(inode: u64, len: usize) -> FileAttr {
    let long_ago: SystemTime = UNIX_EPOCH + Duration::new(1_500_000_000, 123_456_789);
    FileAttr {
        ino: INodeNo(inode),
        size: len as u64,
        blocks: len.div_ceil(512) as u64,
        atime: long_ago,
        mtime: long_ago,
        ctime: long_ago,
        crtime: long_ago,
        kind: FileType::RegularFile,
        perm: 0o644,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}
