//! Those who wait for their sockets: whoever has nothing to do belongs to the poll stages until there is an
//! event, or its deadline comes.
//!
//! A socket is registered once, for edges, and so may be told of while its connection is in another stage.
//! That is noted here, and who comes to wait finds it and goes on: no edge is lost, and no system call is
//! made to come and go. Places are taken by who first waits, and carry a generation, so that an event reaches
//! only who it was told for.
//!
//! Each worker's stages have those of its CPU's, under a lock that is held for a look or two.

use http1::Tick;

use super::sync::{Mutex, MutexGuard};
use crate::slab::Slab;
use crate::timers::Timers;

/// Those of one worker.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    all: Mutex<All<T>>,
}

/// Those of one worker, held by one thread.
#[derive(Debug)]
pub(super) struct All<T> {
    places: Slab<Place<T>>,
    generation: u16,
    timers: Timers,
    /// When those whose deadlines come are looked for next at the latest.
    looks_at: Option<Tick>,
    /// How often somebody has come to wait.
    arrivals: u64,
    waiting: u32,
}

/// Where a connection waits, or will wait again.
#[derive(Debug)]
struct Place<T> {
    generation: u16,
    who: Option<T>,
    /// What was told while nobody was here.
    told: Told,
}

/// A place and who has it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) index: u32,
    pub(super) generation: u16,
}

/// What events have told of a socket: input, room, a hang-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Of the client's.
    pub(super) client: (bool, bool, bool),
    /// Of an application's server's.
    pub(super) link: (bool, bool, bool),
}

impl Told {
    const NOTHING: Self = Self { client: (false, false, false), link: (false, false, false) };

    fn add(&mut self, other: Self) {
        let or = |a: (bool, bool, bool), b: (bool, bool, bool)| (a.0 || b.0, a.1 || b.1, a.2 || b.2);
        *self = Self { client: or(self.client, other.client), link: or(self.link, other.link) };
    }
}

/// What came of coming to wait.
#[derive(Debug)]
pub(super) enum Arrival<T> {
    /// It waits. If so, its deadline comes before anybody looks, who is to be woken.
    Waits { is_sooner: bool },
    /// Something has been told since it left.
    GoesOn(T, Told),
}

impl<T> Waiting<T> {
    pub(super) fn new(now: Tick) -> Self {
        let all = All {
            places: Slab::new(),
            generation: 0,
            timers: Timers::new(now),
            looks_at: None,
            arrivals: 0,
            waiting: 0,
        };
        Self { all: Mutex::new(all) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, All<T>> {
        self.all.lock().expect("nobody panics with the lock")
    }
}

impl<T> All<T> {
    /// What a connection takes here.
    pub(super) const BYTES_EACH: usize = Slab::<Place<T>>::SLOT_BYTES + Timers::BYTES_EACH;

    /// A place for one that has none yet.
    pub(super) fn enter(&mut self) -> Number {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let index = self.places.insert(Place { generation, who: None, told: Told::NOTHING });
        Number { index, generation }
    }

    /// Gives a place up.
    pub(super) fn leave(&mut self, number: Number) {
        self.timers.cancel(number.index);
        self.places.remove(number.index);
    }

    /// One comes to wait for its socket, until its deadline if it has one.
    pub(super) fn wait(&mut self, number: Number, who: T, deadline: Option<Tick>) -> Arrival<T> {
        self.arrivals += 1;
        let place = self.places.get_mut(number.index).expect("who waits has a place");
        if place.told != Told::NOTHING {
            return Arrival::GoesOn(who, std::mem::take(&mut place.told));
        }
        place.who = Some(who);
        self.waiting += 1;
        let Some(deadline) = deadline else { return Arrival::Waits { is_sooner: false } };
        self.timers.wake_by(number.index, deadline);
        let is_sooner = self.looks_at.is_none_or(|at| !at.reached(deadline));
        if is_sooner {
            self.looks_at = Some(deadline);
        }
        Arrival::Waits { is_sooner }
    }

    /// Something is told of the one in a place. If it waits, it does so no more.
    pub(super) fn tell(&mut self, number: Number, told: Told) -> Option<T> {
        let place =
            self.places.get_mut(number.index).filter(|place| place.generation == number.generation)?;
        let Some(who) = place.who.take() else {
            place.told.add(told);
            return None;
        };
        self.waiting -= 1;
        Some(who)
    }

    /// Takes one from its place, if it waits there.
    pub(super) fn take(&mut self, number: Number) -> Option<T> {
        self.tell(number, Told::NOTHING)
    }

    /// One whose deadline has come, by what it says now.
    pub(super) fn expired(&mut self, now: Tick, deadline: impl Fn(&T) -> Option<Tick>) -> Option<T> {
        while let Some(index) = self.timers.expired(now) {
            let Some(place) = self.places.get_mut(index) else { continue };
            match place.who.as_ref().map(&deadline) {
                Some(Some(at)) if at.reached(now) => {
                    self.waiting -= 1;
                    return place.who.take();
                }
                Some(Some(at)) => self.timers.wake_by(index, at),
                // It will say so again when it comes.
                Some(None) | None => {}
            }
        }
        None
    }

    /// Notes that it is looked at deadlines when the next one may come, and says in how many ticks that is.
    pub(super) fn ticks_to_look(&mut self, now: Tick) -> Option<u32> {
        let ticks = self.timers.ticks_to_next();
        self.looks_at = ticks.map(|ticks| now.after(ticks));
        ticks
    }

    /// How many wait, and how often somebody has come to.
    pub(super) fn counts(&self) -> (u32, u64) {
        (self.waiting, self.arrivals)
    }

    /// Places there are: every index in use is below this.
    pub(super) fn places(&self) -> u32 {
        self.places.slots()
    }

    /// Those who wait.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|(_, place)| place.who.as_mut())
    }

    /// The one in a place of whatever generation, if it waits.
    pub(super) fn at(&mut self, index: u32) -> Option<&mut T> {
        self.places.get_mut(index)?.who.as_mut()
    }

    /// Takes it from there.
    pub(super) fn take_at(&mut self, index: u32) -> Option<T> {
        let who = self.places.get_mut(index)?.who.take();
        self.waiting -= u32::from(who.is_some());
        who
    }
}
