//! Wake-ups of connections: a two-level timing wheel (Varghese and Lauck, 1987).
//!
//! Each connection has at most one wake-up. When it expires, the caller checks the connection's deadline.
//! Deadlines move with every request. A wake-up that comes before the deadline is left as it is; when it
//! expires, the connection gets a new one. So a request only has to find that its wake-up comes early
//! enough. Only the wheel knows whether there is a wake-up, and when, so no other record can be wrong.
//!
//! The near wheel has a slot for each of the next 256 ticks, the far wheel a slot for each of the next 256
//! rounds of the near one. The members of a far slot expire early, when their round begins, and are
//! scheduled again more exactly.

use http1::Tick;

const SLOTS: usize = 256;
const NONE: u32 = u32::MAX;
/// Room is made for this many connections at a time.
const STEP: usize = 2048;

/// The wheel. Connections are named by their slab index.
#[derive(Debug)]
pub struct Timers {
    /// The last tick that has been processed.
    now: Tick,
    /// First member of each slot's list: near slots, then far slots.
    heads: Box<[u32; 2 * SLOTS]>,
    /// Which slots of the near and of the far wheel have members.
    occupied: [[u64; SLOTS / 64]; 2],
    /// No wake-up expires before this; `None` if there is no wake-up.
    soonest: Option<Tick>,
    links: Vec<Link>,
}

/// A connection's position in the list of a slot.
#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    previous: u32,
    slot: u16,
}

const UNLINKED: Link = Link { next: NONE, previous: NONE, slot: u16::MAX };

impl Timers {
    /// The bytes that the wake-up of a connection takes.
    pub const BYTES_EACH: usize = size_of::<Link>();

    /// An empty wheel that starts at `now`.
    pub fn new(now: Tick) -> Self {
        Self {
            now,
            heads: Box::new([NONE; 2 * SLOTS]),
            occupied: [[0; SLOTS / 64]; 2],
            soonest: None,
            links: Vec::new(),
        }
    }

    /// Ensures that `id` expires no later than `at`, or at the next tick if that has passed. An earlier
    /// wake-up is left as it is.
    #[inline]
    pub fn wake_by(&mut self, id: u32, at: Tick) {
        if self.wakes_at(id).is_none_or(|wake_up| !wake_up.reached(at)) {
            self.schedule(id, at);
        }
    }

    fn schedule(&mut self, id: u32, at: Tick) {
        self.cancel(id);
        let ticks = at.remaining(self.now).max(1);
        let slot = if (ticks as usize) < SLOTS {
            self.now.after(ticks).0 as usize % SLOTS
        } else {
            let rounds = (ticks as usize / SLOTS).min(SLOTS - 1);
            SLOTS + (self.now.0 as usize / SLOTS + rounds) % SLOTS
        };
        if id as usize >= self.links.len() {
            // In steps of a few slab chunks. So the list never has twice the needed size, and is not moved
            // for each connection.
            let links = (id as usize + 1).next_multiple_of(STEP);
            self.links.reserve_exact(links - self.links.len());
            self.links.resize(links, UNLINKED);
        }
        let next = self.heads[slot];
        self.links[id as usize] = Link { next, previous: NONE, slot: slot as u16 };
        if let Some(link) = self.links.get_mut(next as usize) {
            link.previous = id;
        }
        self.heads[slot] = id;
        self.occupied[slot / SLOTS][slot % SLOTS / 64] |= 1 << (slot % 64);
        let wakes_at = self.now.after(self.ticks_to(slot as u32));
        self.soonest = Some(self.soonest.map_or(wakes_at, |soonest| soonest.earlier(wakes_at)));
    }

    /// Removes the wake-up of `id`, if it has one.
    pub fn cancel(&mut self, id: u32) {
        let Some(link) = self.links.get_mut(id as usize) else { return };
        let Link { next, previous, slot } = std::mem::replace(link, UNLINKED);
        if slot == UNLINKED.slot {
            return;
        }
        if let Some(link) = self.links.get_mut(next as usize) {
            link.previous = previous;
        }
        match self.links.get_mut(previous as usize) {
            Some(link) => link.next = next,
            None => self.set_head(usize::from(slot), next),
        }
    }

    /// When `id` expires, if it has a wake-up. For a far slot, this is when its round begins.
    #[inline]
    pub fn wakes_at(&self, id: u32) -> Option<Tick> {
        let slot = u32::from(self.links.get(id as usize)?.slot);
        if slot == u32::from(UNLINKED.slot) {
            return None;
        }
        Some(self.now.after(self.ticks_to(slot)))
    }

    /// Ticks until the members of a slot expire.
    #[inline]
    fn ticks_to(&self, slot: u32) -> u32 {
        let (slots, Tick(now)) = (SLOTS as u32, self.now);
        if slot < slots {
            slot.wrapping_sub(now) % slots
        } else {
            let rounds = slot.wrapping_sub(now / slots) % slots;
            (rounds * slots).saturating_sub(now % slots)
        }
    }

    /// Advances towards `now` and takes out one connection whose wake-up has expired, if there is any.
    #[inline]
    pub fn expired(&mut self, now: Tick) -> Option<u32> {
        if self.soonest.is_some_and(|soonest| soonest.reached(now)) {
            return self.take_out(now);
        }
        self.now = now;
        None
    }

    fn take_out(&mut self, now: Tick) -> Option<u32> {
        loop {
            // A near slot is filled less than a turn ahead, and a far one less than a turn of rounds. So
            // the members of the slots of this tick and of its round are due.
            let near = self.now.0 as usize % SLOTS;
            let far = SLOTS + self.now.0 as usize / SLOTS % SLOTS;
            if let Some(id) = [self.heads[near], self.heads[far]].into_iter().find(|&id| id != NONE) {
                self.cancel(id);
                return Some(id);
            }
            let (left, next) = (now.remaining(self.now), self.ticks_to_occupied());
            if left == 0 {
                self.soonest = next.map(|next| now.after(next));
                return None;
            }
            self.now = self.now.after(next.map_or(left, |next| next.min(left)));
        }
    }

    /// Ticks until a wake-up expires at the soonest, if there is one.
    #[inline]
    pub fn ticks_to_next(&self) -> Option<u32> {
        self.soonest.map(|soonest| soonest.remaining(self.now))
    }

    fn ticks_to_occupied(&self) -> Option<u32> {
        let at = self.now.0 as usize;
        let [near, far] = &self.occupied;
        let near = distance(near, at % SLOTS);
        let far = distance(far, at / SLOTS % SLOTS).map(|rounds| rounds * SLOTS - at % SLOTS);
        let ticks = match (near, far) {
            (Some(near), Some(far)) => near.min(far),
            (near, far) => near.or(far)?,
        };
        Some(ticks as u32)
    }

    fn set_head(&mut self, slot: usize, id: u32) {
        self.heads[slot] = id;
        if id == NONE {
            self.occupied[slot / SLOTS][slot % SLOTS / 64] &= !(1 << (slot % 64));
        }
    }
}

/// Slots from `from` to the next occupied one. `from` itself comes last.
fn distance(occupied: &[u64; SLOTS / 64], from: usize) -> Option<usize> {
    let start = (from + 1) % SLOTS;
    let (words, shift) = (occupied.len(), start % 64);
    let mut bits = occupied[start / 64] & (u64::MAX << shift);
    // The first word is read twice: its bits from `start` on first, those below it last.
    for at in 0..=words {
        if bits != 0 {
            let ahead = 64 * at + bits.trailing_zeros() as usize - shift;
            return Some(ahead + 1);
        }
        bits = occupied[(start / 64 + at + 1) % words];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        /// No wake-up expires late, and one that expires early does so within its round.
        #[test]
        fn wakes_what_is_due(
            start in prop_oneof![Just(0_u32), Just(u32::MAX - 300), any::<u32>()],
            steps in prop::collection::vec((0_u32..50, 1_u32..70_000, 1_u32..1000), 1..80),
        ) {
            let mut now = Tick(start);
            let mut timers = Timers::new(now);
            let mut due: HashMap<u32, Tick> = HashMap::new();
            for (id, wait, step) in steps {
                timers.wake_by(id, now.after(wait));
                due.insert(id, now.after(wait));
                let to = now.after(step);
                while let Some(id) = timers.expired(to) {
                    let at = due[&id];
                    if at.reached(to) {
                        due.remove(&id);
                    } else {
                        timers.wake_by(id, at);
                    }
                }
                now = to;
                for (id, at) in &due {
                    prop_assert!(!at.reached(now), "{id} was due at {at:?}, now {now:?}");
                }
                if let Some(first) = due.values().map(|at| at.remaining(now)).min() {
                    prop_assert!(timers.ticks_to_next().unwrap() <= first);
                }
            }
        }
    }

    /// What may happen to a connection, as far as the wheel learns of it.
    #[derive(Clone, Debug)]
    enum Happening {
        /// The connection is opened, or its deadline moves, to this many ticks from now.
        Awaits(u32, u32),
        Ends(u32),
        /// This many ticks pass. Connections that expire and are due get another deadline, if one is given,
        /// or end.
        Pass(u32, Option<u32>),
    }

    fn happening() -> impl Strategy<Value = Happening> {
        let wait = || prop_oneof![0_u32..600, 0_u32..70_000];
        prop_oneof![
            4 => (0_u32..8, wait()).prop_map(|(id, wait)| Happening::Awaits(id, wait)),
            1 => (0_u32..8).prop_map(Happening::Ends),
            3 => (wait(), prop::option::of(wait())).prop_map(|(ticks, next)| Happening::Pass(ticks, next)),
        ]
    }

    proptest! {
        /// Whatever happens in whatever order, a connection with a deadline expires no later than that.
        #[test]
        fn a_deadline_has_a_wake_up(
            start in prop_oneof![Just(u32::MAX - 300), any::<u32>()],
            happenings in prop::collection::vec(happening(), 1..200),
        ) {
            let mut now = Tick(start);
            let mut timers = Timers::new(now);
            let mut deadlines: HashMap<u32, Tick> = HashMap::new();
            for happening in happenings {
                match happening {
                    Happening::Awaits(id, wait) => {
                        deadlines.insert(id, now.after(wait));
                        timers.wake_by(id, now.after(wait));
                    }
                    Happening::Ends(id) => {
                        deadlines.remove(&id);
                        timers.cancel(id);
                    }
                    Happening::Pass(ticks, next) => {
                        now = now.after(ticks);
                        while let Some(id) = timers.expired(now) {
                            prop_assert_eq!(timers.wakes_at(id), None, "it has been spent");
                            let Some(deadline) = deadlines.get_mut(&id) else {
                                return Err(TestCaseError::fail("nobody is there"));
                            };
                            if deadline.reached(now) {
                                let Some(wait) = next else {
                                    deadlines.remove(&id);
                                    continue;
                                };
                                // A time that has passed would expire again and again.
                                *deadline = now.after(wait.max(1));
                            }
                            timers.wake_by(id, deadlines[&id]);
                        }
                        prop_assert!(deadlines.values().all(|deadline| !deadline.reached(now) || ticks == 0));
                    }
                }
                for (&id, &deadline) in &deadlines {
                    let wake_up = timers.wakes_at(id);
                    let latest = if deadline.reached(now) { now.after(1) } else { deadline };
                    let is_in_time = wake_up.is_some_and(|wake_up| wake_up.reached(latest));
                    prop_assert!(is_in_time, "{id} at {wake_up:?}");
                }
                let wake_ups = deadlines.keys().filter_map(|&id| timers.wakes_at(id));
                let first = wake_ups.map(|at| at.remaining(now)).min();
                let next = timers.ticks_to_next();
                prop_assert!(next != Some(0), "nobody waits for a tick that has been looked at");
                let is_in_time = first.is_none_or(|first| next.is_some_and(|next| next <= first.max(1)));
                prop_assert!(is_in_time, "{next:?} for {first:?}");
            }
        }
    }

    #[test]
    fn what_is_cancelled_is_waited_for_once_at_most() {
        let mut timers = Timers::new(Tick(0));
        timers.wake_by(1, Tick(7));
        timers.cancel(1);
        assert_eq!(timers.expired(Tick(7)), None);
        assert_eq!(timers.ticks_to_next(), None);
        timers.wake_by(1, Tick(9));
        timers.wake_by(2, Tick(12));
        timers.cancel(1);
        assert_eq!((timers.expired(Tick(9)), timers.ticks_to_next()), (None, Some(3)));
    }

    #[test]
    fn cancelled_wake_ups_do_not_come() {
        let mut timers = Timers::new(Tick(0));
        for id in 0..4 {
            timers.wake_by(id, Tick(10));
        }
        timers.cancel(1);
        timers.cancel(3);
        timers.cancel(3);
        timers.cancel(77);
        let mut woken = Vec::new();
        while let Some(id) = timers.expired(Tick(10)) {
            woken.push(id);
        }
        woken.sort_unstable();
        assert_eq!(woken, [0, 2]);
        assert_eq!(timers.ticks_to_next(), None);
    }
}
