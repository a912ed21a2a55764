//! Finds in the file system what a name stands for. This is the only part of the service that may wait
//! for a disk.
//!
//! ```text
//! Lookup -- Resolver::look_up --> LookupResult -- Content::admit --> table
//! ```
//!
//! Nothing here touches the table, so a lookup can run in any thread. The event-driven architectures that
//! leave waiting to helpers look up twice if they must. The first lookup [never blocks](MayBlock::Never), and
//! uses only what the kernel has in memory; most lookups succeed there. If that lookup [would
//! block](Stop::WouldBlock), a helper looks up for as long as it takes.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use http1::Status;
use http1::coding::CodingSet;
use sys::file::{FileKind, FileStat, OpenFailure};

use super::judged::{Bar, Index};
use super::listing::{self, Form, Listed, Made};
use super::load::{self, Load, Loader, Now, Opened};
use super::lookup::{Cached, Lookup, LookupResult, Original};
use super::may_block::{MayBlock, WouldBlock};
use super::numbers::Elsewhere;
use super::path::Path;
use super::refusals::{Reason, Refusals, permit};
use super::routes::Routes;
use super::rules::Rules;
use super::scripts::Verdict;
use crate::config::FileSettings;
use crate::error_log::Limited;

/// Why files cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The document root cannot be opened.
    #[error("can't open the directory {path}: {source}")]
    Root {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Why there is no file.
enum Stop {
    Refused(Status),
    /// A route refuses the file to clients.
    Barred(Elsewhere),
    Exhausted,
    WouldBlock,
}

/// Looks up names below the document root of a site.
#[derive(Debug)]
pub(super) struct Resolver {
    pub(super) loader: Loader,
    index: Vec<String>,
    listing: bool,
    listed: Listed,
    /// A rate limit for each `Deed`.
    complaints: [Mutex<Limited>; 3],
    /// Tells the operator what is refused.
    pub(super) refusals: Refusals,
    made: Made,
    /// Behaves as if the kernel had nothing in memory.
    #[cfg(test)]
    pub(super) is_cold: std::sync::atomic::AtomicBool,
}

/// An operation on a file that can fail.
#[derive(Clone, Copy)]
enum Deed {
    Open,
    Read,
    List,
}

impl Deed {
    fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::List => "list",
        }
    }
}

impl Resolver {
    /// Opens the document root, for all threads of a process.
    ///
    /// # Errors
    ///
    /// The directory cannot be opened.
    pub(super) fn new(
        settings: &FileSettings,
        routes: Arc<Routes>,
        rules: Rules,
    ) -> Result<Self, ContentError> {
        let loader = Loader::new(settings, routes, rules)
            .map_err(|source| ContentError::Root { path: settings.root.clone(), source })?;
        Ok(Self {
            loader,
            index: settings.index_names(),
            listing: settings.listing,
            listed: Listed { dotfiles: settings.dotfiles, most: settings.listing_names },
            complaints: Default::default(),
            refusals: Refusals::default(),
            made: Made::default(),
            #[cfg(test)]
            is_cold: false.into(),
        })
    }

    /// Looks something up, for as long as it takes.
    pub(super) fn look_up(&self, lookup: &Lookup<'_>) -> LookupResult {
        let (ms, unix_secs) = (sys::clock::monotonic_ms(), sys::clock::realtime_secs());
        self.look_up_within(lookup, MayBlock::Always, Now { ms, unix_secs })
            .unwrap_or(LookupResult::Refused(Status::SERVICE_UNAVAILABLE))
    }

    /// Looks something up, as far as the caller may block for it.
    pub(super) fn look_up_within(
        &self,
        lookup: &Lookup<'_>,
        may_block: MayBlock,
        now: Now,
    ) -> Result<LookupResult, WouldBlock> {
        #[cfg(test)]
        if may_block == MayBlock::Never && self.is_cold.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(WouldBlock);
        }
        let result = self.follow_root(may_block, now).and_then(|until_ms| {
            let result = match lookup.sibling {
                None => self.find(lookup, may_block, now),
                Some(original) => self.find_sibling(lookup, original, may_block, now),
            };
            result.map(|result| result.trusted_until(until_ms))
        });
        match result {
            Ok(result) => Ok(result),
            Err(Stop::Refused(status)) => Ok(LookupResult::Refused(status)),
            Err(Stop::Barred(route)) => Ok(LookupResult::Barred(route)),
            Err(Stop::Exhausted) => Ok(LookupResult::Exhausted),
            Err(Stop::WouldBlock) => Err(WouldBlock),
        }
    }

    /// Makes sure that the root is the directory that its name refers to. Returns until when that is
    /// trusted. Call it before any lookup below the root.
    fn follow_root(&self, may_block: MayBlock, now: Now) -> Result<u64, Stop> {
        self.loader
            .root
            .follow(may_block, now.ms)
            .map_err(|error| if may_block.forbade(&error) { Stop::WouldBlock } else { Stop::Exhausted })
    }

    fn find(&self, lookup: &Lookup<'_>, may_block: MayBlock, now: Now) -> Result<LookupResult, Stop> {
        // Read this before anything is opened: what is opened later may belong to another root already.
        let root_changes = self.loader.root.changes();
        let (path, form) = Form::of(&lookup.path);
        let path = Path::known(path);
        if let Some(verdict) = self.loader.scripts.judge(path.bytes()) {
            return self.find_script(lookup, path, verdict, None, may_block);
        }
        if !path.is_directory() {
            return match self.open(lookup, path, may_block)? {
                Opened::File(file, stat) => {
                    self.bar_sibling(lookup, path, may_block)?;
                    self.load_if_changed(lookup, path, None, (file, stat), may_block, now)
                }
                Opened::Directory(_) => Ok(LookupResult::NoSlash),
                Opened::Other => Err(self.refuse(path, Reason::Irregular)),
            };
        }
        for index in 0..self.index.len() {
            let file_path = [path.bytes(), self.index[index].as_bytes()].concat();
            let file_path = Path::known(&file_path);
            if let Some(verdict) = self.loader.scripts.judge(file_path.bytes()) {
                match self.find_script(lookup, file_path, verdict, Some(index), may_block) {
                    Err(Stop::Refused(Status::NOT_FOUND)) => continue,
                    found => return found,
                }
            }
            match self.open(lookup, file_path, may_block) {
                Ok(Opened::File(file, stat)) => {
                    return match self.judge_index(lookup, file_path, false) {
                        Index::Sent => {
                            let opened = (file, stat);
                            self.load_if_changed(lookup, file_path, Some(index), opened, may_block, now)
                        }
                        Index::Barred(route) => Err(Stop::Barred(route)),
                        Index::Called(_) => Ok(LookupResult::Script(Some(index))),
                    };
                }
                Ok(_) | Err(Stop::Refused(Status::NOT_FOUND)) => {}
                Err(obstacle) => return Err(obstacle),
            }
        }
        match self.open(lookup, path, may_block)? {
            Opened::Directory(directory) if self.listing => {
                let validity_ms = self.loader.validity_ms;
                let request = listing::Request { asked_ms: now.ms, validity_ms, root_changes };
                self.list(&lookup.path, (path, form), &directory, may_block, request)
            }
            _ => Err(self.refuse(path, Reason::Unlisted)),
        }
    }

    /// Checks whether a script exists. No client is sent it, under any name.
    fn find_script(
        &self,
        lookup: &Lookup<'_>,
        path: Path<'_>,
        verdict: Verdict,
        index: Option<usize>,
        may_block: MayBlock,
    ) -> Result<LookupResult, Stop> {
        match verdict {
            Verdict::Lookalike => Err(self.refuse(path, Reason::Script)),
            // Only the application needs permission to read it.
            Verdict::Script => match self.loader.stat(path, lookup.as_owner, may_block) {
                Ok(Ok(stat)) if stat.kind == FileKind::Regular => {
                    let judged = index.map(|_| self.judge_index(lookup, path, true));
                    let Some(Index::Barred(route)) = judged else { return Ok(LookupResult::Script(index)) };
                    Err(Stop::Barred(route))
                }
                Ok(Err(Bar::Barred(route))) => Err(Stop::Barred(route)),
                Ok(_) => Err(Stop::Refused(Status::NOT_FOUND)),
                Err(error) => Err(self.not_opened(path, &error, may_block)),
            },
        }
    }

    fn judge_index(&self, lookup: &Lookup<'_>, path: Path<'_>, is_script: bool) -> Index {
        if lookup.as_owner { Index::Sent } else { self.loader.routes.judge_index(path.bytes(), is_script) }
    }

    /// Stops if a route refuses to clients the file that the path is a precompressed sibling of.
    fn bar_sibling(&self, lookup: &Lookup<'_>, path: Path<'_>, may_block: MayBlock) -> Result<(), Stop> {
        if lookup.as_owner {
            return Ok(());
        }
        let bar = self.loader.bar_of_sibling(path, may_block).map_err(|WouldBlock| Stop::WouldBlock)?;
        bar.map_or(Ok(()), |route| Err(Stop::Barred(route)))
    }

    fn find_sibling(
        &self,
        lookup: &Lookup<'_>,
        original: Original,
        may_block: MayBlock,
        now: Now,
    ) -> Result<LookupResult, Stop> {
        let Original { coding, stat: original_stat, index } = original;
        let index_name = index.and_then(|index| self.index.get(index)).map_or("", String::as_str);
        let original_path = [&lookup.path, index_name.as_bytes()].concat();
        let file_path = [&original_path, coding.extension().as_bytes()].concat();
        let opened = self.open(lookup, Path::known(&file_path), may_block)?;
        let Opened::File(file, stat) = opened else { return Err(Stop::Refused(Status::NOT_FOUND)) };
        if !load::is_current(&stat, &original_stat) {
            return Err(Stop::Refused(Status::NOT_FOUND));
        }
        if lookup.cached.is_some_and(|cached| cached.index == index && load::is_same(&cached.stat, &stat)) {
            return Ok(LookupResult::Unchanged(self.loader.trusted_until_ms(now)));
        }
        let load = Load { path: &original_path, coding: Some(coding), siblings: CodingSet::EMPTY, index };
        self.load(&load, file, stat, may_block, now)
    }

    /// Keeps the table's entry if it was made of this very file, and loads the file otherwise.
    fn load_if_changed(
        &self,
        lookup: &Lookup<'_>,
        file_path: Path<'_>,
        index: Option<usize>,
        (file, stat): (OwnedFd, FileStat),
        may_block: MayBlock,
        now: Now,
    ) -> Result<LookupResult, Stop> {
        let siblings = self
            .loader
            .siblings(file_path.bytes(), &stat, lookup.as_owner, may_block)
            .map_err(|WouldBlock| Stop::WouldBlock)?;
        if lookup.cached == Some(Cached { stat, index, siblings }) {
            return Ok(LookupResult::Unchanged(self.loader.trusted_until_ms(now)));
        }
        let load = Load { path: file_path.bytes(), coding: None, siblings, index };
        self.load(&load, file, stat, may_block, now)
    }

    /// Makes an entry of an open file.
    fn load(
        &self,
        load: &Load<'_>,
        file: OwnedFd,
        stat: FileStat,
        may_block: MayBlock,
        now: Now,
    ) -> Result<LookupResult, Stop> {
        match self.loader.load(load, file, stat, may_block, now) {
            Ok(entry) => Ok(LookupResult::File(Box::new(entry))),
            Err(error) if may_block.forbade(&error) => Err(Stop::WouldBlock),
            Err(error) => {
                self.complain(Deed::Read, load.path, &error);
                Err(Stop::Refused(Status::INTERNAL_SERVER_ERROR))
            }
        }
    }

    fn open(&self, lookup: &Lookup<'_>, path: Path<'_>, may_block: MayBlock) -> Result<Opened, Stop> {
        let opened = self.loader.open(path, lookup.as_owner, may_block);
        let opened = opened.map_err(|error| self.not_opened(path, &error, may_block))?;
        opened.map_err(|bar| match bar {
            Bar::Hidden => self.refuse(path, Reason::Hidden),
            Bar::Barred(route) => Stop::Barred(route),
        })
    }

    /// What to do about a path that could not be opened or found.
    fn not_opened(&self, path: Path<'_>, error: &io::Error, may_block: MayBlock) -> Stop {
        match OpenFailure::of(error) {
            _ if may_block.forbade(error) => Stop::WouldBlock,
            OpenFailure::Missing => Stop::Refused(Status::NOT_FOUND),
            OpenFailure::Outside => self.refuse(path, Reason::Outside),
            OpenFailure::Link => self.refuse(path, Reason::Link),
            OpenFailure::Denied => self.refuse(path, Reason::Denied),
            OpenFailure::Irregular => self.refuse(path, Reason::Irregular),
            OpenFailure::Exhausted => Stop::Exhausted,
            OpenFailure::Failed => {
                self.complain(Deed::Open, path.bytes(), error);
                Stop::Refused(Status::INTERNAL_SERVER_ERROR)
            }
        }
    }

    /// The index name of that number, as found in [`LookupResult::Script`].
    pub(super) fn index_name(&self, number: usize) -> &[u8] {
        self.index.get(number).map_or(&[], |name| name.as_bytes())
    }

    fn refuse(&self, path: Path<'_>, reason: Reason) -> Stop {
        self.refusals.tell_file(path.bytes(), reason);
        Stop::Refused(reason.status())
    }

    fn list(
        &self,
        name: &[u8],
        (path, form): (Path<'_>, Form),
        directory: &OwnedFd,
        may_block: MayBlock,
        request: listing::Request,
    ) -> Result<LookupResult, Stop> {
        if may_block != MayBlock::Always {
            // The kernel cannot say whether a directory's names are in memory, either.
            return Err(Stop::WouldBlock);
        }
        let make = || listing::page(&self.loader, &self.index, path, form, directory, self.listed);
        let entry = self.made.page(name, request, make).and_then(|(page, until_ms)| {
            self.loader.load_listing(path.bytes(), form.media_type(), page, until_ms)
        });
        match entry {
            Ok(entry) => Ok(LookupResult::File(Box::new(entry))),
            Err(error) if OpenFailure::of(&error) == OpenFailure::Exhausted => Err(Stop::Exhausted),
            Err(error) => {
                self.complain(Deed::List, path.bytes(), &error);
                Err(Stop::Refused(Status::INTERNAL_SERVER_ERROR))
            }
        }
    }

    /// Logs that the file system failed, rate-limited: a client may request the same file again and
    /// again.
    fn complain(&self, deed: Deed, path: &[u8], error: &io::Error) {
        if let Some(suppressed) = permit(&self.complaints[deed as usize]) {
            let (deed, path) = (deed.name(), String::from_utf8_lossy(path));
            tracing::error!(suppressed, "can't {deed} {path:?}: {error}");
        }
    }
}
