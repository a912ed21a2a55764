//! Connections that wait for their sockets. A connection with nothing to do belongs to the poll stages
//! until there is an event, or its deadline passes.
//!
//! A socket is registered once, for edges. So an event may arrive while its connection is in another stage.
//! The event is stored here; the connection finds it when it comes to wait, and goes on. So no edge is
//! lost, and no system call is needed to come and go. A connection gets a slot when it first waits. The
//! slot carries a generation, so that an event reaches only the connection that it was meant for.
//!
//! Each lane has the waiting connections of its CPU, under a lock that is held only briefly.

use http1::Tick;

use super::sync::{Mutex, MutexGuard};
use crate::slab::Slab;
use crate::timers::Timers;

/// The waiting connections of one worker.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    all: Mutex<All<T>>,
}

/// The waiting connections of one worker, locked by one thread.
#[derive(Debug)]
pub(super) struct All<T> {
    places: Slab<Place<T>>,
    generation: u16,
    timers: Timers,
    /// When expired deadlines are checked for next, at the latest.
    looks_at: Option<Tick>,
    /// How many times a connection has begun to wait.
    arrivals: u64,
    waiting: u32,
}

/// Where a connection waits, or will wait again.
#[derive(Debug)]
struct Place<T> {
    generation: u16,
    who: Option<T>,
    /// What was reported while the connection was elsewhere.
    told: Told,
}

/// A slot, and the generation of its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    pub(super) index: u32,
    pub(super) generation: u16,
}

/// What events have reported of a socket: input, room, a hang-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Of the client's socket.
    pub(super) client: (bool, bool, bool),
    /// Of the socket to an application's server.
    pub(super) link: (bool, bool, bool),
}

impl Told {
    const NOTHING: Self = Self { client: (false, false, false), link: (false, false, false) };

    fn add(&mut self, other: Self) {
        let or = |a: (bool, bool, bool), b: (bool, bool, bool)| (a.0 || b.0, a.1 || b.1, a.2 || b.2);
        *self = Self { client: or(self.client, other.client), link: or(self.link, other.link) };
    }
}

/// The result of coming to wait.
#[derive(Debug)]
pub(super) enum Arrival<T> {
    /// It waits. If `is_sooner`, its deadline comes before the next check, so Read Poll must be woken.
    Waits { is_sooner: bool },
    /// Something has been reported since it left.
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
    /// The bytes that a connection takes here.
    pub(super) const BYTES_EACH: usize = Slab::<Place<T>>::SLOT_BYTES + Timers::BYTES_EACH;

    /// A slot for a connection that has none yet.
    pub(super) fn enter(&mut self) -> Number {
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let index = self.places.insert(Place { generation, who: None, told: Told::NOTHING });
        Number { index, generation }
    }

    /// Frees a slot.
    pub(super) fn leave(&mut self, number: Number) {
        self.timers.cancel(number.index);
        self.places.remove(number.index);
    }

    /// A connection comes to wait for its socket, until its deadline if it has one.
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

    /// Reports an event for the connection in a slot. If the connection was waiting, it stops waiting and
    /// is returned.
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

    /// Takes a connection from its slot, if it waits there.
    pub(super) fn take(&mut self, number: Number) -> Option<T> {
        self.tell(number, Told::NOTHING)
    }

    /// A connection whose deadline has passed, by the deadline that it has now.
    pub(super) fn expired(&mut self, now: Tick, deadline: impl Fn(&T) -> Option<Tick>) -> Option<T> {
        while let Some(index) = self.timers.expired(now) {
            let Some(place) = self.places.get_mut(index) else { continue };
            match place.who.as_ref().map(&deadline) {
                Some(Some(at)) if at.reached(now) => {
                    self.waiting -= 1;
                    return place.who.take();
                }
                Some(Some(at)) => self.timers.wake_by(index, at),
                // It sets its deadline again when it comes to wait.
                Some(None) | None => {}
            }
        }
        None
    }

    /// Notes that deadlines are next checked when the next one may pass, and returns in how many ticks that
    /// is.
    pub(super) fn ticks_to_look(&mut self, now: Tick) -> Option<u32> {
        let ticks = self.timers.ticks_to_next();
        self.looks_at = ticks.map(|ticks| now.after(ticks));
        ticks
    }

    /// How many connections wait, and how many times one has begun to.
    pub(super) fn counts(&self) -> (u32, u64) {
        (self.waiting, self.arrivals)
    }

    /// The number of slots: every index in use is below this.
    pub(super) fn places(&self) -> u32 {
        self.places.slots()
    }

    /// The waiting connections.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|(_, place)| place.who.as_mut())
    }

    /// The connection in a slot of any generation, if it waits.
    pub(super) fn at(&mut self, index: u32) -> Option<&mut T> {
        self.places.get_mut(index)?.who.as_mut()
    }

    /// Takes that connection from its slot.
    pub(super) fn take_at(&mut self, index: u32) -> Option<T> {
        let who = self.places.get_mut(index)?.who.take();
        self.waiting -= u32::from(who.is_some());
        who
    }
}
