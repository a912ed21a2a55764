//! Looking at the file system for what a path names: all of the service that may have to wait for a disk.
//!
//! ```text
//! Look -- Looker::look --> Seen -- Content::admit --> table
//! ```
//!
//! Nothing here touches the table, so that a look can be had in any thread. The event-driven architectures
//! that leave waiting to others look twice where they must: first without [`Patience`], at what the kernel
//! has in memory, which most looks find there; and if that [would block](Stop::WouldBlock), a helper looks
//! for as long as it takes.

use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use http1::Status;
use http1::coding::{Coding, CodingSet};
use sys::file::{FileStat, OpenFailure};

use super::entry::{Entry, Facts};
use super::listing::{self, Form, Listed, Made};
use super::load::{self, Load, Loader, Now, Opened};
use super::path::Path;
use super::refusals::{Reason, Refusals, permit};
use super::rules::Rules;
use super::table::{Pin, Place};
use super::{Content, ContentError, Found};
use crate::config::FileSettings;
use crate::error_log::Limited;

/// How long a look may take, which may have to wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// For as long as it takes.
    Unlimited,
    /// For files. Making the listing of a directory takes so long that it is left to be done apart from all
    /// else.
    Files,
    /// Not at all: only what the kernel has in memory is looked at.
    None,
}

/// What to look for, by the name that it has in the table. A listing's says its form as well.
#[derive(Clone, Debug)]
pub struct Look<'a> {
    pub(super) path: Cow<'a, [u8]>,
    /// Not the file of that path, but a coded form of it.
    pub(super) sibling: Option<Original>,
    /// What the table has under that name, if it stays right for as long as the file stays the same.
    pub(super) known: Option<Known>,
    /// Whether requests that come while it is under way may be answered by it.
    pub(super) sharable: bool,
    /// It failed for want of descriptors, and some have been closed.
    pub(super) again: bool,
}

/// The file that a coded form is looked for of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Original {
    pub(super) coding: Coding,
    pub(super) stat: FileStat,
    pub(super) index: Option<usize>,
}

/// What the table has of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    stat: FileStat,
    index: Option<usize>,
    siblings: CodingSet,
}

/// What a look has found.
#[derive(Debug)]
pub enum Seen {
    /// What is known, to be believed until then, in monotonic milliseconds.
    Same(u64),
    /// A file, or a listing. It is open even if its body is in memory, in case there is no room for that.
    File(Box<Entry>),
    /// A directory that was asked for without its slash.
    NoSlash,
    /// Nothing that may be sent.
    Refused(Status),
    /// There are no descriptors left.
    Exhausted,
}

impl Seen {
    /// The same, but not believed for longer than that.
    fn trusted_until(mut self, most_ms: u64) -> Self {
        match &mut self {
            Self::Same(until_ms) => *until_ms = most_ms.min(*until_ms),
            Self::File(entry) => {
                entry.facts.trusted_until_ms = most_ms.min(entry.facts.trusted_until_ms);
            }
            Self::NoSlash | Self::Refused(_) | Self::Exhausted => {}
        }
        self
    }
}

/// The look would have to wait for a disk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WouldBlock;

/// Why there is no file.
enum Stop {
    Refused(Status),
    Exhausted,
    WouldBlock,
}

/// Looks at files below the document root.
#[derive(Debug)]
pub struct Looker {
    loader: Loader,
    index: Vec<String>,
    listing: bool,
    listed: Listed,
    /// For each deed.
    complaints: [Mutex<Limited>; 3],
    refusals: Refusals,
    made: Made,
    /// As if the kernel had nothing in memory.
    #[cfg(test)]
    pub(super) is_cold: std::sync::atomic::AtomicBool,
}

/// What can go wrong with a file.
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

/// What has been looked at for one request. It believes that, as if it had looked itself.
#[derive(Debug, Default)]
pub struct Looked {
    findings: Vec<Finding>,
    /// Nothing more will be looked at: the disk does not answer.
    is_given_up: bool,
}

#[derive(Debug)]
struct Finding {
    path: Box<[u8]>,
    coding: Option<Coding>,
    kept: Result<Kept, Status>,
}

/// Something found, kept for a request.
#[derive(Debug)]
enum Kept {
    Entry(Pin),
    NoSlash,
}

impl Look<'_> {
    /// The look for a path, or for a coded form of what it names.
    pub(super) fn new(path: &[u8], sibling: Option<Original>) -> Look<'_> {
        Look { path: Cow::Borrowed(path), sibling, known: None, sharable: false, again: false }
    }

    pub(super) fn coding(&self) -> Option<Coding> {
        self.sibling.map(|original| original.coding)
    }

    /// The path that is looked at.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// The look as it can be given to somebody else.
    pub(super) fn into_owned(self) -> Look<'static> {
        Look { path: Cow::Owned(self.path.into_owned()), ..self }
    }

    /// The directory below the root that it goes into, which may be another file system; empty for the root
    /// itself.
    pub fn top_directory(&self) -> &[u8] {
        let path = self.path.strip_prefix(b"/").unwrap_or(&self.path);
        path.iter().position(|&byte| byte == b'/').map_or(&[], |end| &path[..end])
    }

    /// The name that looks for the same thing have in common, if one can stand for all of them.
    pub fn shared_name(&self) -> Option<(Box<[u8]>, Option<Coding>)> {
        self.sharable.then(|| (self.path.as_ref().into(), self.coding()))
    }
}

impl Known {
    /// What an entry says of its file, if it will say so for as long as the file stays the same.
    pub(super) fn of(entry: &Facts) -> Option<Self> {
        let Facts { stat, index, siblings, lasting, .. } = *entry;
        lasting.then_some(Self { stat, index, siblings })
    }
}

impl Looker {
    /// Opens the document root, for all threads of a process.
    ///
    /// # Errors
    ///
    /// The directory can't be opened.
    pub fn new(settings: &FileSettings) -> Result<Self, ContentError> {
        let loader = Loader::new(settings)
            .map_err(|source| ContentError::Root { path: settings.root.clone(), source })?;
        Ok(Self {
            loader,
            index: settings.index.clone(),
            listing: settings.listing,
            listed: Listed { dotfiles: settings.dotfiles, most: settings.listing_names },
            complaints: Default::default(),
            refusals: Refusals::default(),
            made: Made::default(),
            #[cfg(test)]
            is_cold: false.into(),
        })
    }

    /// The name of an index file.
    pub(super) fn index_name(&self, index: Option<usize>) -> &str {
        index.and_then(|index| self.index.get(index)).map_or("", String::as_str)
    }

    /// The document root, as it is kept open.
    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.loader.root().as_fd()
    }

    /// Who tells the operator what is refused.
    pub(super) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// The operator's header fields.
    pub(super) fn rules(&self) -> &Rules {
        self.loader.rules()
    }

    /// How often the document root has become another directory.
    pub(super) fn root_changes(&self) -> u32 {
        self.loader.root().changes()
    }

    /// Whether what is looked at is believed for a while.
    pub(super) fn believes(&self) -> bool {
        self.loader.validity_ms() > 0
    }

    /// Looks, for as long as it takes.
    pub fn look(&self, look: &Look<'_>) -> Seen {
        let (ms, unix_secs) = (sys::clock::monotonic_ms(), sys::clock::realtime_secs());
        self.look_with(look, Patience::Unlimited, Now { ms, unix_secs })
            .unwrap_or(Seen::Refused(Status::SERVICE_UNAVAILABLE))
    }

    /// Looks as the patience allows.
    pub(super) fn look_with(
        &self,
        look: &Look<'_>,
        patience: Patience,
        now: Now,
    ) -> Result<Seen, WouldBlock> {
        #[cfg(test)]
        if patience == Patience::None && self.is_cold.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(WouldBlock);
        }
        let seen = self.follow_root(patience, now).and_then(|until_ms| {
            let seen = match look.sibling {
                None => self.look_for(look, patience, now),
                Some(original) => self.look_for_sibling(look, original, patience, now),
            };
            seen.map(|seen| seen.trusted_until(until_ms))
        });
        match seen {
            Ok(seen) => Ok(seen),
            Err(Stop::Refused(status)) => Ok(Seen::Refused(status)),
            Err(Stop::Exhausted) => Ok(Seen::Exhausted),
            Err(Stop::WouldBlock) => Err(WouldBlock),
        }
    }

    /// Before anything is looked at beneath it: sees to it that the root is what its name says, and says
    /// until when.
    fn follow_root(&self, patience: Patience, now: Now) -> Result<u64, Stop> {
        self.loader
            .root()
            .follow(patience, now.ms)
            .map_err(|error| if would_block(&error, patience) { Stop::WouldBlock } else { Stop::Exhausted })
    }

    fn look_for(&self, look: &Look<'_>, patience: Patience, now: Now) -> Result<Seen, Stop> {
        // Before anything is opened: what comes after may be of another root already.
        let root_changes = self.root_changes();
        let (path, form) = Form::of(&look.path);
        let path = Path::known(path);
        if !path.is_directory() {
            return match self.open(path, patience)? {
                Opened::File(file, stat) => self.see(look, path, None, (file, stat), patience, now),
                Opened::Directory(_) => Ok(Seen::NoSlash),
                Opened::Other => Err(self.refuse(path, Reason::Irregular)),
            };
        }
        for index in 0..self.index.len() {
            let file_path = [path.bytes(), self.index[index].as_bytes()].concat();
            let file_path = Path::known(&file_path);
            match self.open(file_path, patience) {
                Ok(Opened::File(file, stat)) => {
                    return self.see(look, file_path, Some(index), (file, stat), patience, now);
                }
                Ok(_) | Err(Stop::Refused(Status::NOT_FOUND)) => {}
                Err(obstacle) => return Err(obstacle),
            }
        }
        match self.open(path, patience)? {
            Opened::Directory(directory) if self.listing => {
                let validity_ms = self.loader.validity_ms();
                let request = listing::Request { asked_ms: now.ms, validity_ms, root_changes };
                self.list(&look.path, (path, form), &directory, patience, request)
            }
            _ => Err(self.refuse(path, Reason::Unlisted)),
        }
    }

    fn look_for_sibling(
        &self,
        look: &Look<'_>,
        original: Original,
        patience: Patience,
        now: Now,
    ) -> Result<Seen, Stop> {
        let Original { coding, stat: original_stat, index } = original;
        let original_path = [&look.path, self.index_name(index).as_bytes()].concat();
        let file_path = [&original_path, coding.extension().as_bytes()].concat();
        let opened = self.open(Path::known(&file_path), patience)?;
        let Opened::File(file, stat) = opened else { return Err(Stop::Refused(Status::NOT_FOUND)) };
        if !load::is_current(&stat, &original_stat) {
            return Err(Stop::Refused(Status::NOT_FOUND));
        }
        if look.known.is_some_and(|known| known.index == index && load::is_same(&known.stat, &stat)) {
            return Ok(Seen::Same(self.loader.trusted_until_ms(now)));
        }
        let load = Load { path: &original_path, coding: Some(coding), siblings: CodingSet::EMPTY, index };
        self.load(&load, file, stat, patience, now)
    }

    /// Lets what is known stand if it is of this very file, and loads it otherwise.
    fn see(
        &self,
        look: &Look<'_>,
        file_path: Path<'_>,
        index: Option<usize>,
        (file, stat): (OwnedFd, FileStat),
        patience: Patience,
        now: Now,
    ) -> Result<Seen, Stop> {
        let siblings = self
            .loader
            .siblings(file_path.bytes(), &stat, patience)
            .map_err(|WouldBlock| Stop::WouldBlock)?;
        if look.known == Some(Known { stat, index, siblings }) {
            return Ok(Seen::Same(self.loader.trusted_until_ms(now)));
        }
        let load = Load { path: file_path.bytes(), coding: None, siblings, index };
        self.load(&load, file, stat, patience, now)
    }

    /// Makes an entry of an open file.
    fn load(
        &self,
        load: &Load<'_>,
        file: OwnedFd,
        stat: FileStat,
        patience: Patience,
        now: Now,
    ) -> Result<Seen, Stop> {
        match self.loader.load(load, file, stat, patience, now) {
            Ok(entry) => Ok(Seen::File(Box::new(entry))),
            Err(error) if would_block(&error, patience) => Err(Stop::WouldBlock),
            Err(error) => {
                self.complain(Deed::Read, load.path, &error);
                Err(Stop::Refused(Status::INTERNAL_SERVER_ERROR))
            }
        }
    }

    fn open(&self, path: Path<'_>, patience: Patience) -> Result<Opened, Stop> {
        let opened = self.loader.open(path, patience).map_err(|error| match OpenFailure::of(&error) {
            _ if would_block(&error, patience) => Stop::WouldBlock,
            OpenFailure::Missing => Stop::Refused(Status::NOT_FOUND),
            OpenFailure::Outside => self.refuse(path, Reason::Outside),
            OpenFailure::Link => self.refuse(path, Reason::Link),
            OpenFailure::Denied => self.refuse(path, Reason::Denied),
            OpenFailure::Irregular => self.refuse(path, Reason::Irregular),
            OpenFailure::Exhausted => Stop::Exhausted,
            OpenFailure::Failed => {
                self.complain(Deed::Open, path.bytes(), &error);
                Stop::Refused(Status::INTERNAL_SERVER_ERROR)
            }
        })?;
        opened.ok_or_else(|| self.refuse(path, Reason::Hidden))
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
        patience: Patience,
        request: listing::Request,
    ) -> Result<Seen, Stop> {
        if patience != Patience::Unlimited {
            // Whether a directory's names are in memory can't be asked, either.
            return Err(Stop::WouldBlock);
        }
        let make = || listing::page(&self.loader, path, form, directory, self.listed);
        let entry = self.made.page(name, request, make).and_then(|(page, until_ms)| {
            self.loader.load_listing(path.bytes(), form.media_type(), page, until_ms)
        });
        match entry {
            Ok(entry) => Ok(Seen::File(Box::new(entry))),
            Err(error) if OpenFailure::of(&error) == OpenFailure::Exhausted => Err(Stop::Exhausted),
            Err(error) => {
                self.complain(Deed::List, path.bytes(), &error);
                Err(Stop::Refused(Status::INTERNAL_SERVER_ERROR))
            }
        }
    }

    /// Says that the file system failed. A client may ask again and again for what can't be had.
    fn complain(&self, deed: Deed, path: &[u8], error: &io::Error) {
        if let Some(suppressed) = permit(&self.complaints[deed as usize]) {
            let (deed, path) = (deed.name(), String::from_utf8_lossy(path));
            tracing::error!(suppressed, "can't {deed} {path:?}: {error}");
        }
    }
}

/// Whether an error of a look says that it would have to wait.
pub(super) fn would_block(error: &io::Error, patience: Patience) -> bool {
    patience == Patience::None && error.kind() == io::ErrorKind::WouldBlock
}

impl Looked {
    /// Has the request answered with what there is, without another look.
    pub fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// Whether it has to do without another look.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// Whether nothing has been looked at, nor tried to.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.findings.is_empty() && !self.is_given_up
    }

    /// What has been found for that name.
    pub(super) fn find(&self, path: &[u8], coding: Option<Coding>) -> Option<Result<Found, Status>> {
        let finding =
            self.findings.iter().find(|finding| *finding.path == *path && finding.coding == coding)?;
        Some(match &finding.kept {
            Ok(Kept::Entry(pin)) => Ok(Found::Entry(pin.place())),
            Ok(Kept::NoSlash) => Ok(Found::NoSlash),
            Err(status) => Err(*status),
        })
    }
}

impl Content {
    /// Keeps for a request what was found by a look that it asked for, before the table changes again.
    pub fn keep(&mut self, looked: &mut Looked, look: &Look<'_>, found: &Result<Found, Status>) {
        let kept = match found {
            Ok(Found::Entry(place)) => Ok(Kept::Entry(self.table.pin(*place))),
            Ok(Found::NoSlash) => Ok(Kept::NoSlash),
            Err(status) => Err(*status),
        };
        looked.findings.push(Finding { path: look.path.as_ref().into(), coding: look.coding(), kept });
    }

    /// Takes back what was kept for a request; most needed nothing to be kept.
    #[inline]
    pub fn unkeep(&mut self, looked: Looked) {
        if !looked.is_empty() {
            self.unkeep_all(looked);
        }
    }

    #[cold]
    fn unkeep_all(&mut self, looked: Looked) {
        for finding in looked.findings {
            if let Ok(Kept::Entry(pin)) = finding.kept {
                self.table.unpin(pin);
            }
        }
    }

    /// Takes in what a look has seen. `None`: look again, as the look then says.
    pub fn admit(&mut self, look: &mut Look<'_>, seen: Seen) -> Option<Result<Found, Status>> {
        let (path, coding) = (&*look.path, look.coding());
        let found = match seen {
            Seen::Same(until_ms) => match self.table.find(path, coding) {
                Some(place) if Known::of(self.table.entry(place)) == look.known => {
                    self.table.trust(place, until_ms);
                    Ok(Found::Entry(place))
                }
                // It has gone from the table meanwhile.
                _ => {
                    look.known = None;
                    return None;
                }
            },
            Seen::File(entry) => self.enter(path, coding, *entry).map(Found::Entry),
            Seen::NoSlash => Ok(Found::NoSlash),
            Seen::Exhausted if !look.again && self.table.close_half() > 0 => {
                look.again = true;
                return None;
            }
            Seen::Exhausted => Err(Status::SERVICE_UNAVAILABLE),
            Seen::Refused(status) => Err(status),
        };
        if matches!(found, Ok(Found::Entry(_))) {
            return Some(found);
        }
        Some(match (found, self.table.find(path, coding)) {
            (found, None) => found,
            // A sibling that is gone does no harm where it is: nobody will ask for it.
            (found, Some(_)) if coding.is_some() => found,
            // Where there is no room to look, what the table has is as good as it was.
            (Err(Status::SERVICE_UNAVAILABLE), Some(known)) => Ok(Found::Entry(known)),
            (found, Some(gone)) => {
                self.table.forget(gone);
                found
            }
        })
    }

    /// Puts an entry into the table. Where there is no room for its body, that is sent from the file; for a
    /// listing's there must be room, which takes memory even so.
    fn enter(&mut self, path: &[u8], coding: Option<Coding>, mut entry: Entry) -> Result<Place, Status> {
        let body = entry.body_in_memory();
        if entry.is_in_memory() && self.table.make_room(body) {
            entry.file = None;
        } else {
            entry.drop_body();
        }
        self.table.insert(path, coding, entry).map_err(|_| Status::SERVICE_UNAVAILABLE)
    }
}
