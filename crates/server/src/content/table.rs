//! The open-file table: files that were requested recently, ready to be sent again.
//!
//! A request finds an entry by name (normalised path, and the [`Variant`]: site and content coding). From
//! then on the slot number stands for the entry. A reply that uses an entry pins it. An entry that is
//! replaced or forgotten while it is pinned loses its name and lives on, detached, until the last pin is
//! given back. When a bound is reached, the second-chance algorithm evicts an entry (CLOCK; Corbató, "A
//! Paging Experiment with the Multics System", 1968). It selects an entry that no reply uses, and that was
//! not requested since the algorithm last looked at it.
//!
//! The table belongs to one worker: there are no locks, and pins are plain counts.

use std::hash::{BuildHasher, Hasher};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use http1::coding::Coding;

use super::entry::{Entry, Facts};
use super::fetch::Resident;
use super::listing;
use super::numbers::SiteNumber;
use crate::config::{FileSettings, SiteSettings};

/// The right to use an entry's memory and file. Give it back to the table that it came from.
///
/// It is not `Clone`, so that each pin is given back once. A pin that is dropped instead keeps its entry
/// alive forever.
#[derive(Debug)]
pub struct Pin(pub(super) Place);

/// Which file of a path: its site, its coding, and whether the site's owner or a client names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Variant(u32);

impl Variant {
    /// A file of the default site, in no coding.
    #[cfg(test)]
    pub(super) const PLAIN: Self = Self(0);

    pub(super) fn new(site: SiteNumber, coding: Option<Coding>) -> Self {
        Self(u32::from(site) << 8 | coding.map_or(0, |coding| coding as u32 + 1))
    }

    /// This variant as the site's owner names it, if `as_owner`. Clients are not sent that entry by its
    /// path.
    #[inline]
    pub(super) fn of_owner(self, as_owner: bool) -> Self {
        Self(self.0 | u32::from(as_owner) << 7)
    }

    /// A number that is different for each variant.
    pub(super) fn number(self) -> u32 {
        self.0
    }
}

/// The slot number of an entry that was found or inserted. It is valid until the table next changes.
pub(super) type Place = u32;

/// Counts of what the table did since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounts {
    /// Look-ups answered by the table.
    pub hits: u64,
    /// Look-ups that had to go to the file system.
    pub misses: u64,
    /// Entries removed to make room.
    pub evictions: u64,
}

/// What the table holds now, detached entries included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSize {
    /// Entries.
    pub entries: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Bytes of header lines and small bodies.
    pub memory_bytes: u64,
    /// Bytes of small bodies and of listings, which are bounded.
    pub body_bytes: u64,
}

/// How much the table may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Entries.
    pub(super) entries: u32,
    /// Open files, each with a descriptor.
    pub(super) open_files: u32,
    /// Bytes of small bodies and of listings.
    pub(super) body_bytes: u64,
    /// Whether requests find files that other requests have opened. If not, an entry has no name, and is
    /// removed with the last reply that uses it.
    pub(super) keeps: bool,
}

impl Bounds {
    /// The bounds of a table for all these sites, which keeps at most `open_files` files open.
    pub(super) fn new(sites: &[SiteSettings], open_files: u32) -> Self {
        // If directories are listed, there is room for at least one listing.
        let listed = sites.iter().filter(|site| site.files.listing);
        let least = listed.map(|site| listing::largest(site.files.listing_names) as u64).max();
        let FileSettings { max_open, memory, .. } = sites[0].files;
        let keeps = max_open > 0;
        let entries = if keeps { max_open } else { open_files };
        Self { entries, open_files, body_bytes: memory.max(least.unwrap_or(0)), keeps }
    }
}

/// Replies use every entry, so there is no room for another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// Open files by name.
#[derive(Debug)]
pub(super) struct Table {
    names: HashTable<Place>,
    slots: Vec<Option<Slot>>,
    free: Vec<Place>,
    /// Where second chance looks next.
    hand: usize,
    bounds: Bounds,
    size: TableSize,
    hasher: DefaultHashBuilder,
    /// What the current request has found, if nothing is kept.
    at_hand: Vec<Pin>,
    pub(super) counts: TableCounts,
}

#[derive(Debug)]
struct Slot {
    path: Box<[u8]>,
    variant: Variant,
    hash: u64,
    pins: u32,
    /// Requested since second chance last looked.
    referenced: bool,
    /// Whether it can still be found by its name.
    named: bool,
    /// Which parts of the file were recently in memory.
    resident: Resident,
    entry: Entry,
}

impl Table {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            names: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
            bounds,
            size: TableSize::default(),
            hasher: DefaultHashBuilder::default(),
            at_hand: Vec::new(),
            counts: TableCounts::default(),
        }
    }

    /// The entry of that name.
    #[inline]
    pub(super) fn find(&self, path: &[u8], variant: Variant) -> Option<Place> {
        let hash = self.hash(path, variant);
        let is_it = |&place: &Place| {
            let slot = self.slot(place);
            slot.variant == variant && *slot.path == *path
        };
        self.names.find(hash, is_it).copied()
    }

    /// An entry that was found.
    #[inline]
    pub(super) fn entry(&self, place: Place) -> &Facts {
        &self.slot(place).entry.facts
    }

    /// Memory of an entry that was found.
    #[inline]
    pub(super) fn memory(&self, place: Place) -> &[u8] {
        &self.slot(place).entry.memory
    }

    /// The memory of an entry that was found, for a reader that needs it even if the table drops it
    /// meanwhile.
    pub(super) fn share_memory(&self, place: Place) -> Arc<[u8]> {
        Arc::clone(&self.slot(place).entry.memory)
    }

    /// The file of an entry that was found, if it has one.
    pub(super) fn file(&self, place: Place) -> Option<BorrowedFd<'_>> {
        self.slot(place).entry.file.as_ref().map(AsFd::as_fd)
    }

    /// The file of an entry that was found, for a reader that needs it even if the table closes it
    /// meanwhile.
    pub(super) fn share_file(&self, place: Place) -> Option<Arc<OwnedFd>> {
        self.slot(place).entry.file.clone()
    }

    /// Which parts of its file were recently in memory.
    #[inline]
    pub(super) fn resident(&self, place: Place) -> &Resident {
        &self.slot(place).resident
    }

    /// Lets a found entry be trusted until then.
    pub(super) fn trust(&mut self, place: Place, until_ms: u64) {
        self.slot_mut(place).entry.facts.trusted_until_ms = until_ms;
    }

    /// Inserts an entry under a name, and replaces the one that had the name. That one stays if there is
    /// no room.
    pub(super) fn insert(&mut self, path: &[u8], variant: Variant, entry: Entry) -> Result<Place, Full> {
        if let Some(old) = self.find(path, variant).filter(|&old| self.slot(old).pins == 0) {
            self.forget(old);
        }
        while self.size.entries >= u64::from(self.bounds.entries) {
            self.evict(|_| true)?;
        }
        while entry.file.is_some() && self.size.descriptors >= u64::from(self.bounds.open_files) {
            self.evict(|entry| entry.file.is_some())?;
        }
        if !self.make_room(entry.body_held()) {
            return Err(Full);
        }
        if let Some(pinned) = self.find(path, variant) {
            self.forget(pinned);
        }
        let hash = self.hash(path, variant);
        self.size.entries += 1;
        self.size.descriptors += u64::from(entry.file.is_some());
        self.size.memory_bytes += entry.memory.len() as u64;
        self.size.body_bytes += entry.body_held();
        // The first request does not count: an entry requested once is evicted before one requested
        // again.
        let slot = Slot {
            path: path.into(),
            variant,
            hash,
            pins: 0,
            referenced: false,
            named: self.bounds.keeps,
            resident: Resident::default(),
            entry,
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as Place
        });
        self.slots[place as usize] = Some(slot);
        if !self.bounds.keeps {
            let pin = self.pin(place);
            self.at_hand.push(pin);
            return Ok(place);
        }
        let slots = &self.slots;
        self.names
            .insert_unique(hash, place, |&place| slots[place as usize].as_ref().map_or(0, |slot| slot.hash));
        Ok(place)
    }

    /// Makes room for a small body or a listing. Returns whether there is room.
    pub(super) fn make_room(&mut self, body_bytes: u64) -> bool {
        if body_bytes > self.bounds.body_bytes {
            return false;
        }
        while self.size.body_bytes + body_bytes > self.bounds.body_bytes {
            if self.evict(|entry| entry.body_held() > 0).is_err() {
                return false;
            }
        }
        true
    }

    /// Closes half of the open files, except those that a reply uses. Returns how many were closed.
    pub(super) fn close_half(&mut self) -> u64 {
        let half = self.size.descriptors.div_ceil(2);
        (0..half).take_while(|_| self.evict(|entry| entry.file.is_some()).is_ok()).count() as u64
    }

    /// Removes an entry's name. The entry is removed with its last pin.
    pub(super) fn forget(&mut self, place: Place) {
        let slot = self.slot_mut(place);
        let (hash, pins) = (slot.hash, slot.pins);
        slot.named = false;
        if let Ok(name) = self.names.find_entry(hash, |&other| other == place) {
            name.remove();
        }
        if pins == 0 {
            self.free(place);
        }
    }

    /// Removes the names of all entries that are no longer trusted.
    pub(super) fn forget_outdated(&mut self, now_ms: u64) {
        for place in 0..self.slots.len() {
            let is_outdated = |slot: &Slot| slot.named && slot.entry.facts.trusted_until_ms <= now_ms;
            if self.slots[place].as_ref().is_some_and(is_outdated) {
                self.forget(place as Place);
            }
        }
    }

    /// Pins a found entry, and records that it was requested.
    #[inline]
    pub(super) fn pin(&mut self, place: Place) -> Pin {
        let slot = self.slot_mut(place);
        slot.pins += 1;
        slot.referenced = true;
        Pin(place)
    }

    /// Takes a pin back.
    #[inline]
    pub(super) fn unpin(&mut self, Pin(place): Pin) {
        let slot = self.slot_mut(place);
        slot.pins -= 1;
        if slot.pins == 0 && !slot.named {
            self.free(place);
        }
    }

    /// Call this at the end of a request, if nothing is kept. Releases what the request has found, except
    /// what is pinned.
    pub(super) fn let_go(&mut self) {
        while let Some(pin) = self.at_hand.pop() {
            self.unpin(pin);
        }
    }

    /// What the table holds.
    pub(super) fn size(&self) -> TableSize {
        self.size
    }

    /// The table's memory in addition to what it holds.
    pub(super) fn structure_bytes(&self) -> u64 {
        let slots = self.slots.capacity() * size_of::<Option<Slot>>();
        // One control byte for each place.
        let names =
            self.names.capacity() * (size_of::<Place>() + 1) + self.free.capacity() * size_of::<Place>();
        let paths: usize = self.slots.iter().flatten().map(|slot| slot.path.len()).sum();
        (slots + names + paths) as u64
    }

    /// A number that outsiders cannot predict, different for each `n`.
    pub(super) fn random(&self, n: u64) -> u64 {
        self.hasher.hash_one(n)
    }

    /// Evicts an entry of that kind that no reply uses.
    fn evict(&mut self, is_of_kind: impl Fn(&Entry) -> bool) -> Result<(), Full> {
        // The first round may only take away second chances.
        for _ in 0..2 * self.slots.len() {
            let at = self.hand;
            self.hand = (at + 1) % self.slots.len();
            let Some(slot) = &mut self.slots[at] else { continue };
            if slot.pins > 0 || !is_of_kind(&slot.entry) {
                continue;
            }
            if !std::mem::take(&mut slot.referenced) {
                self.forget(at as Place);
                self.counts.evictions += 1;
                return Ok(());
            }
        }
        Err(Full)
    }

    /// Empties a slot whose entry has neither name nor pins.
    fn free(&mut self, place: Place) {
        if let Some(slot) = self.slots[place as usize].take() {
            self.size.entries -= 1;
            self.size.descriptors -= u64::from(slot.entry.file.is_some());
            self.size.memory_bytes -= slot.entry.memory.len() as u64;
            self.size.body_bytes -= slot.entry.body_held();
            self.free.push(place);
        }
    }

    #[inline]
    fn hash(&self, path: &[u8], variant: Variant) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(path);
        hasher.write_u32(variant.number());
        hasher.finish()
    }

    #[inline]
    fn slot(&self, place: Place) -> &Slot {
        self.slots[place as usize].as_ref().expect(IN_USE)
    }

    #[inline]
    fn slot_mut(&mut self, place: Place) -> &mut Slot {
        self.slots[place as usize].as_mut().expect(IN_USE)
    }
}

/// Places are not used after a change of the table, and a pin keeps its slot.
const IN_USE: &str = "a slot that is named or pinned is in use";

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs::File;
    use std::os::fd::{AsRawFd, OwnedFd, RawFd};

    use http1::coding::CodingSet;
    use proptest::prelude::*;

    use super::super::ends::Ends;
    use super::super::entry::Marks;
    use super::*;

    const PLAIN: Variant = Variant::PLAIN;
    const BOUNDS: Bounds = Bounds { entries: 4, open_files: 2, body_bytes: 100, keeps: true };

    fn entry(body: &[u8], file: Option<OwnedFd>) -> Entry {
        let file = file.map(Into::into);
        let any = File::open("/dev/null").unwrap();
        let facts = Facts {
            stat: sys::file::stat(&any).unwrap(),
            ends: Ends::default(),
            marks: Marks { body: 2, ..Marks::default() },
            memory_len: 2 + body.len() as u32,
            coding: None,
            siblings: CodingSet::EMPTY,
            is_plain: true,
            index: None,
            trusted_until_ms: 0,
            lasting: true,
        };
        Entry { memory: [b"\r\n", body].concat().into(), file, facts }
    }

    fn small(body: &[u8]) -> Entry {
        entry(body, None)
    }

    #[test]
    fn names_are_path_and_variant() {
        let mut table = Table::new(BOUNDS);
        let plain = table.insert(b"/a", PLAIN, small(b"plain")).unwrap();
        let coded = table.insert(b"/a", Variant::new(0, Some(Coding::Gzip)), small(b"coded")).unwrap();
        assert_eq!(table.find(b"/a", PLAIN), Some(plain));
        assert_eq!(table.find(b"/a", Variant::new(0, Some(Coding::Gzip))), Some(coded));
        assert_eq!(table.find(b"/a", Variant::new(0, Some(Coding::Brotli))), None);
        assert_eq!(table.find(b"/b", PLAIN), None);
    }

    #[test]
    fn an_entry_replaced_while_pinned_lives_until_unpinned() {
        let mut table = Table::new(BOUNDS);
        let old = table.insert(b"/a", PLAIN, small(b"old")).unwrap();
        let (first, second) = (table.pin(old), table.pin(old));
        let new = table.insert(b"/a", PLAIN, small(b"new")).unwrap();
        assert_eq!(table.find(b"/a", PLAIN), Some(new));
        table.unpin(first);
        assert_eq!(table.memory(second.0), b"\r\nold");
        assert_eq!(table.size().entries, 2);
        table.unpin(second);
        assert_eq!((table.size().entries, table.size().body_bytes), (1, 3));
    }

    #[test]
    fn second_chance_spares_what_was_asked_for_again() {
        let mut table = Table::new(BOUNDS);
        for path in [b"/1", b"/2", b"/3", b"/4"] {
            table.insert(path, PLAIN, small(b"x")).unwrap();
        }
        let again = table.find(b"/1", PLAIN).unwrap();
        let pin = table.pin(again);
        table.unpin(pin);
        table.insert(b"/5", PLAIN, small(b"x")).unwrap();
        assert!(table.find(b"/1", PLAIN).is_some() && table.find(b"/2", PLAIN).is_none());
        assert_eq!(table.counts.evictions, 1);
    }

    #[test]
    fn a_table_full_of_pins_refuses() {
        let mut table = Table::new(BOUNDS);
        let pins: Vec<Pin> = (0..4_u8)
            .map(|i| {
                let place = table.insert(&[b'/', i], PLAIN, small(b"x")).unwrap();
                table.pin(place)
            })
            .collect();
        assert_eq!(table.insert(b"/more", PLAIN, small(b"x")), Err(Full));
        assert_eq!(table.close_half(), 0);
        assert!(!table.make_room(97) && table.make_room(96) && !table.make_room(101));
        for pin in pins {
            table.unpin(pin);
        }
        assert!(table.make_room(97));
        assert!(table.insert(b"/more", PLAIN, small(b"x")).is_ok());
    }

    fn large() -> Entry {
        entry(b"", Some(File::open("/dev/null").unwrap().into()))
    }

    #[test]
    fn the_descriptors_to_close_are_half_of_those_that_are_open() {
        let mut table = Table::new(Bounds { entries: 9, open_files: 5, body_bytes: 0, keeps: true });
        for (name, file) in
            [(b'1', true), (b'2', false), (b'3', true), (b'4', true), (b'5', true), (b'6', true)]
        {
            table.insert(&[name], PLAIN, if file { large() } else { small(b"") }).unwrap();
        }
        assert_eq!((table.close_half(), table.size().descriptors), (3, 2));
        let left: Vec<_> = (b'1'..=b'6').filter(|&name| table.find(&[name], PLAIN).is_some()).collect();
        assert_eq!(left, b"256", "those that came last, and what is not open");
        assert_eq!((table.close_half(), table.close_half(), table.close_half()), (1, 1, 0));
        assert_eq!(table.size().entries, 1);
    }

    #[test]
    fn an_open_file_takes_the_place_of_another_before_it_takes_anything_elses() {
        let mut table = Table::new(BOUNDS);
        table.insert(b"/small", PLAIN, small(b"x")).unwrap();
        let first = table.insert(b"/1", PLAIN, large()).unwrap();
        let pin = table.pin(first);
        table.insert(b"/2", PLAIN, large()).unwrap();
        let third = table.insert(b"/3", PLAIN, large()).unwrap();
        assert_eq!((table.size().entries, table.size().descriptors), (3, 2));
        assert!(table.find(b"/2", PLAIN).is_none());
        let another = table.pin(third);
        assert_eq!(table.insert(b"/4", PLAIN, large()), Err(Full), "both are in use");
        assert!(table.insert(b"/more", PLAIN, small(b"x")).is_ok());
        table.unpin(pin);
        table.unpin(another);
        assert!(table.insert(b"/4", PLAIN, large()).is_ok());
    }

    #[test]
    fn where_nothing_is_kept_an_entry_goes_with_its_last_reply() {
        let mut table = Table::new(Bounds { keeps: false, ..BOUNDS });
        let first = table.insert(b"/a", PLAIN, large()).unwrap();
        assert_eq!(table.find(b"/a", PLAIN), None);
        let pin = table.pin(first);
        table.let_go();
        assert_eq!((table.size().entries, table.size().descriptors), (1, 1), "it is being sent");
        let second = table.insert(b"/a", PLAIN, large()).unwrap();
        assert_ne!(first, second);
        assert_eq!(table.insert(b"/b", PLAIN, large()), Err(Full), "both are in use");
        table.forget(second);
        assert!(table.file(second).is_some(), "the request has it at hand");
        table.let_go();
        assert!(table.insert(b"/b", PLAIN, large()).is_ok());
        table.let_go();
        table.unpin(pin);
        assert_eq!(table.size(), TableSize::default());
        assert!(table.slots.iter().all(Option::is_none));
    }

    #[derive(Clone, Debug)]
    enum Op {
        Insert { name: u8, body: u8, with_file: bool },
        Pin(u8),
        Unpin(usize),
        Forget(u8),
        ForgetAll,
        MakeRoom(u8),
        CloseHalf,
    }

    fn op() -> impl Strategy<Value = Op> {
        let name = || 0..8_u8;
        prop_oneof![
            6 => (name(), 0..60_u8, any::<bool>())
                .prop_map(|(name, body, with_file)| Op::Insert { name, body, with_file }),
            6 => name().prop_map(Op::Pin),
            5 => any::<usize>().prop_map(Op::Unpin),
            2 => name().prop_map(Op::Forget),
            1 => Just(Op::ForgetAll),
            2 => (0..120_u8).prop_map(Op::MakeRoom),
            1 => Just(Op::CloseHalf),
        ]
    }

    /// The body that the nth insertion inserts, different each time.
    fn body(n: usize, len: u8) -> Vec<u8> {
        (0..usize::from(len)).map(|i| (n * 31 + i) as u8).collect()
    }

    fn raw(table: &Table, pin: &Pin) -> Option<RawFd> {
        table.file(pin.0).map(|file| file.as_raw_fd())
    }

    fn forget_all(table: &mut Table) {
        for place in 0..table.slots.len() as Place {
            if table.slots[place as usize].as_ref().is_some_and(|slot| slot.named) {
                table.forget(place);
            }
        }
    }

    proptest! {
        /// Compared with a map that never evicts: what the table still finds is what was inserted last,
        /// pinned entries stay as they were, and the bounds hold.
        #[test]
        fn agrees_with_a_map(ops in prop::collection::vec(op(), 0..120)) {
            let mut table = Table::new(BOUNDS);
            let mut model: HashMap<u8, Vec<u8>> = HashMap::new();
            let mut pins: Vec<(Pin, Vec<u8>, Option<RawFd>)> = Vec::new();
            for (n, op) in ops.into_iter().enumerate() {
                match op {
                    Op::Insert { name, body: len, with_file } => {
                        let with_file = with_file || !table.make_room(u64::from(len));
                        let content = if with_file { Vec::new() } else { body(n, len) };
                        let file = with_file.then(|| File::open("/dev/null").unwrap().into());
                        if table.insert(&[name], PLAIN, entry(&content, file)).is_ok() {
                            model.insert(name, content);
                        } else {
                            // Only pinned entries can be in the way.
                            let open = pins.iter().filter(|(_, _, fd)| fd.is_some()).count();
                            let is_full = pins.len() >= BOUNDS.entries as usize;
                            prop_assert!(is_full || with_file && open >= BOUNDS.open_files as usize);
                        }
                    }
                    Op::Pin(name) => {
                        if let Some(place) = table.find(&[name], PLAIN) {
                            let pin = table.pin(place);
                            let fd = raw(&table, &pin);
                            pins.push((pin, model[&name].clone(), fd));
                        }
                    }
                    Op::Unpin(which) => {
                        if !pins.is_empty() {
                            let (pin, ..) = pins.swap_remove(which % pins.len());
                            table.unpin(pin);
                        }
                    }
                    Op::Forget(name) => {
                        if let Some(place) = table.find(&[name], PLAIN) {
                            table.forget(place);
                        }
                        model.remove(&name);
                    }
                    Op::ForgetAll => {
                        forget_all(&mut table);
                        model.clear();
                    }
                    Op::MakeRoom(len) => {
                        if table.make_room(u64::from(len)) {
                            prop_assert!(table.size().body_bytes + u64::from(len) <= BOUNDS.body_bytes);
                        }
                    }
                    Op::CloseHalf => { table.close_half(); }
                }
                for name in 0..8 {
                    match table.find(&[name], PLAIN) {
                        Some(place) => {
                            prop_assert_eq!(&table.memory(place)[2..], &model[&name][..]);
                        }
                        // Evicted, or never there.
                        None => { model.remove(&name); }
                    }
                }
                for (pin, content, fd) in &pins {
                    prop_assert_eq!(&table.memory(pin.0)[2..], &content[..]);
                    prop_assert_eq!(raw(&table, pin), *fd);
                }
                let size = table.size();
                prop_assert!(size.entries <= u64::from(BOUNDS.entries));
                prop_assert!(size.body_bytes <= BOUNDS.body_bytes);
                prop_assert!(size.descriptors <= u64::from(BOUNDS.open_files));
                let used = || table.slots.iter().flatten();
                prop_assert_eq!(size.entries, used().count() as u64);
                prop_assert_eq!(size.descriptors, used().filter(|s| s.entry.file.is_some()).count() as u64);
                prop_assert_eq!(size.memory_bytes, used().map(|s| s.entry.memory.len() as u64).sum::<u64>());
                prop_assert_eq!(table.names.len(), used().filter(|s| s.named).count());
            }
            for (pin, ..) in pins {
                table.unpin(pin);
            }
            forget_all(&mut table);
            prop_assert_eq!(table.size(), TableSize::default());
            prop_assert!(table.slots.iter().all(Option::is_none));
        }
    }
}
