//! The queue in front of a pool: no more requests are in flight than the application has children, and the
//! others wait here, those of all workers in one line.
//!
//! It lies in memory that the workers share. Each request has a place there, from when it is due until it is
//! answered; whoever gives a place back that was in flight says which of those who wait goes next, and has
//! its worker woken. What a worker holds that dies is given back by the supervisor ([`Queue::clear`]).
//!
//! A request that is given up while it is in flight keeps its place for twice the time that requests take (or
//! as long again as it has been there, if none has been answered yet):
//! the application may work on, and nobody can ask it (PHP-FPM can't). Otherwise clients who leave would send
//! it more than it has children for, until its own line is full of requests that nobody waits for.
//!
//! Who goes next:
//!
//! - Nobody who has waited for longer than it may: it would be answered too late.
//! - By **fairness** between clients (by address prefix): each is charged with the time that the application
//!   works for it, and one that has had more than its share waits for those who have not. This is start-time
//!   fair queueing (Goyal, Vin, Cheng 1996): a request is charged an estimate when it begins, and what it
//!   took when it ends; a client that was away for long has saved nothing up.
//! - **Who may wait** is decided in the same way: where there is no room, a request of the network that would
//!   have had most if all that wait went is displaced, if that is more than the newcomer's would be.
//!   Otherwise who asks most would have most of the room, and with few places (a worker each, where a worker
//!   has one client) the others would seldom be there to be chosen.
//! - Among those who have had as much as each other, the **oldest first**. But if the oldest has waited for
//!   longer than a target throughout an interval (a standing queue, RFC 8289), the **newest first**:
//!   a line that does not get shorter would have everybody answered late, and so only some.

use std::io;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use sys::lock::{Held, Mutex};
use sys::shared::Shared;

use crate::account::Account;
use crate::config::PoolRule;

/// A pool's queue, as one worker or the supervisor uses it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    line: &'static Line,
    rules: Rules,
}

/// How a queue is kept. Times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Most requests in flight.
    pub(super) in_flight: u32,
    /// Most that wait.
    pub(super) waiting: u32,
    /// How long one may wait.
    pub(super) patience_us: u64,
    /// From which standing delay on the newest goes first; `None`: never.
    pub(super) target_us: Option<u64>,
    /// Whether clients are charged.
    pub(super) is_fair: bool,
}

/// A request's place in a queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ticket(u32);

/// What becomes of a request that is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It is in flight.
    Goes(Ticket),
    /// It waits.
    Waits(Ticket),
    /// There is no room.
    Full,
}

/// Places, which bounds what can be in flight and wait together.
const PLACES: u32 = PoolRule::MOST_AT_ONCE;

sys::shareable! {
    #[derive(Debug)]
    struct Line {
        lock: Mutex,
        /// No place before this one is free, and none from this one on is taken.
        first_free: AtomicU32,
        end: AtomicU32,
        in_flight: AtomicU32,
        waiting: AtomicU32,
        /// Somebody has left a place without the lock.
        left: AtomicU8,
        /// Where the fair share has come to, in microseconds of the application's time.
        share_us: AtomicU64,
        /// What a request takes.
        mean_us: AtomicU64,
        /// The least age of the oldest in the interval, and when that is over.
        least_age_us: AtomicU64,
        interval_ends_us: AtomicU64,
        newest_first: AtomicU8,
        charged_us: [AtomicU64; Account::ALL],
        /// How many of each wait.
        waiting_of: [AtomicU32; Account::ALL],
        places: [Place; PLACES as usize],
    }
}

sys::shareable! {
    #[derive(Debug)]
    struct Place {
        state: AtomicU8,
        worker: AtomicU32,
        /// What the worker calls it by when it need not wait any more. 0: nothing yet, or it has been told.
        name: AtomicU64,
        account: AtomicU32,
        /// When it began to wait, or to be in flight.
        since_us: AtomicU64,
        /// What it was charged beforehand.
        estimate_us: AtomicU64,
        /// Of one that was given up: when it is free. 0: as soon as it is left.
        free_at_us: AtomicU64,
    }
}

impl Rules {
    /// As a pool has them, where no more workers than that may be with it or wait for it with their clients.
    /// Those that wait have what places are left.
    pub(super) fn of(pool: &PoolRule, workers: Option<u32>) -> Self {
        let us = |time: Duration| time.as_micros() as u64;
        let places = workers.unwrap_or(PLACES).min(PLACES);
        let in_flight = pool.children.get().min(places);
        Self {
            in_flight,
            waiting: pool.queue.min(places - in_flight),
            patience_us: us(pool.queue_timeout),
            target_us: pool.queue_delay.map(us),
            is_fair: pool.fair,
        }
    }
}

/// Whose place it is, or was.
fn account_of(place: &Place) -> Account {
    Account::from_number(place.account.load(ORDER))
}

const FREE: u8 = 0;
const WAITS: u8 = 1;
const IN_FLIGHT: u8 = WAITS + 1;
/// It waited, and another does in its place.
const DISPLACED: u8 = 3;
/// Beside one of these: whoever has the place has left it, and the next holder of the lock is to free it.
const LEFT: u8 = 4;

/// The interval in which the standing delay is judged.
const INTERVAL_US: u64 = 500_000;
/// A part of the last request's time in the mean: one in so many.
const MEAN_PART: u64 = 8;
/// Nobody holds the lock for as long as that, unless it has been stopped.
const PATIENCE: Duration = Duration::from_millis(100);

const ORDER: Ordering = Ordering::Relaxed;

impl Queue {
    /// An empty one, for this process and those that it forks.
    ///
    /// # Errors
    ///
    /// There is no memory to be had.
    pub(super) fn new(rules: Rules) -> io::Result<Self> {
        Ok(Self { line: Shared::<Line>::new()?.leak(), rules })
    }

    /// The same line, kept by other rules.
    pub(super) fn with(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// A worker's request is due. Says whose worker is to be woken, if another goes now.
    pub(super) fn enter(&self, worker: u32, account: Account, now_us: u64) -> (Entry, Option<u32>) {
        let Some(_held) = self.lock(now_us) else { return (Entry::Full, None) };
        let line = self.line;
        let has_room = line.in_flight.load(ORDER) < self.rules.in_flight
            || line.waiting.load(ORDER) < self.rules.waiting;
        let displaced = if has_room { None } else { self.least_entitled(account) };
        if !has_room && displaced.is_none() {
            return (Entry::Full, None);
        }
        let is_free = |&at: &usize| line.places[at].state.load(ORDER) == FREE;
        let first_free = line.first_free.load(ORDER).min(PLACES) as usize;
        let Some(at) = (first_free..PLACES as usize).find(is_free) else {
            return (Entry::Full, None);
        };
        if let Some(displaced) = displaced {
            // It may be left at this very moment.
            displaced.state.fetch_add(DISPLACED - WAITS, Ordering::Release);
            self.waits_no_more(displaced);
        }
        let place = &line.places[at];
        line.first_free.store(at as u32 + 1, ORDER);
        line.end.fetch_max(at as u32 + 1, ORDER);
        place.worker.store(worker, ORDER);
        place.name.store(0, ORDER);
        place.account.store(account.number() as u32, ORDER);
        place.since_us.store(now_us, ORDER);
        place.free_at_us.store(0, ORDER);
        place.state.store(WAITS, ORDER);
        line.waiting_of[account.number()].fetch_add(1, ORDER);
        if line.waiting.fetch_add(1, ORDER) == 0 {
            // There was no standing delay.
            self.judge_delay(0, now_us);
        }
        let displaced = displaced.map(|displaced| displaced.worker.load(ORDER));
        let woken = self.launch_all(now_us).or(displaced);
        let ticket = Ticket(at as u32);
        if self.goes(&ticket) { (Entry::Goes(ticket), None) } else { (Entry::Waits(ticket), woken) }
    }

    /// Whether a request has come to be in flight that had to wait.
    pub(super) fn goes(&self, ticket: &Ticket) -> bool {
        self.line.places[ticket.0 as usize].state.load(Ordering::Acquire) == IN_FLIGHT
    }

    /// Whether it waits still. If not, and if it does not [go](Self::goes) either, it has been displaced.
    pub(super) fn waits(&self, ticket: &Ticket) -> bool {
        self.line.places[ticket.0 as usize].state.load(ORDER) == WAITS
    }

    /// Has a place called by a name that is not 0 when it need not wait any more.
    pub(super) fn name(&self, ticket: &Ticket, name: u64) {
        self.line.places[ticket.0 as usize].name.store(name, ORDER);
    }

    /// The names of a worker's places that need not wait any more, each told once.
    pub(super) fn called(&self, worker: u32) -> impl Iterator<Item = u64> {
        self.taken().filter_map(move |place| {
            let is_due = matches!(place.state.load(Ordering::Acquire), IN_FLIGHT | DISPLACED);
            let is_its = is_due && place.worker.load(ORDER) == worker;
            if is_its { Some(place.name.swap(0, ORDER)).filter(|name| *name != 0) } else { None }
        })
    }

    /// Of those who wait: the oldest of the account that will have had most when all of its requests have
    /// gone, if that is more than a newcomer's of this account.
    fn least_entitled(&self, newcomer: Account) -> Option<&'static Place> {
        if !self.rules.is_fair {
            return None;
        }
        let mean_us = self.line.mean_us.load(ORDER).max(1);
        let due_us = |account: Account, more: u32| {
            let waiting = self.line.waiting_of[account.number()].load(ORDER) + more;
            self.share_of(account).saturating_add(u64::from(waiting) * mean_us)
        };
        let due_of = |place: &Place| due_us(account_of(place), 0);
        let waiting = self.taken().filter(|place| place.state.load(ORDER) == WAITS);
        let last = waiting.max_by_key(|place| (due_of(place), u64::MAX - place.since_us.load(ORDER)))?;
        (due_of(last) > due_us(newcomer, 1)).then_some(last)
    }

    fn waits_no_more(&self, place: &Place) {
        self.line.waiting.fetch_sub(1, ORDER);
        self.line.waiting_of[account_of(place).number()].fetch_sub(1, ORDER);
    }

    /// A request is answered, or given up before it was in flight. Says whose worker is to be woken, if
    /// another goes now.
    pub(super) fn leave(&self, Ticket(at): Ticket, now_us: u64) -> Option<u32> {
        self.leave_place(at as usize, now_us)
    }

    /// A request is given up, which the application may still work on.
    pub(super) fn abandon(&self, Ticket(at): Ticket, now_us: u64) -> Option<u32> {
        self.keep_busy(&self.line.places[at as usize], now_us);
        self.leave_place(at as usize, now_us)
    }

    /// Looks whether somebody may go whom nobody has told: a place has become free with time.
    pub(super) fn look(&self, now_us: u64) -> Option<u32> {
        let _held = self.lock(now_us)?;
        self.launch_all(now_us)
    }

    /// How many wait, and how many are in flight, those that were given up not long ago included. Nobody is
    /// waited for: it is about right.
    pub(super) fn lengths(&self, now_us: u64) -> (usize, usize) {
        let count = |is: &dyn Fn(&&Place) -> bool| self.taken().filter(is).count();
        let is_busy = |place: &&Place| match place.state.load(ORDER) {
            IN_FLIGHT => true,
            state => state == IN_FLIGHT | LEFT && place.free_at_us.load(ORDER) > now_us,
        };
        (count(&|place| place.state.load(ORDER) == WAITS), count(&is_busy))
    }

    fn keep_busy(&self, place: &Place, now_us: u64) {
        if place.state.load(ORDER) & !LEFT == IN_FLIGHT {
            // Where nothing was ever answered, as long again as this one has been there.
            let took_us = now_us.saturating_sub(place.since_us.load(ORDER));
            let busy_us = match self.line.mean_us.load(ORDER) {
                0 => took_us,
                mean_us => 2 * mean_us,
            };
            place.free_at_us.store(now_us + busy_us, ORDER);
        }
    }

    /// Gives back what a worker holds that has died, and says whose workers are to be woken.
    pub(super) fn clear(&self, worker: u32, now_us: u64) -> Vec<u32> {
        let is_its = |place: &&Place| {
            // What it has left already may be free, and another's, at any moment.
            matches!(place.state.load(ORDER), WAITS | IN_FLIGHT | DISPLACED)
                && place.worker.load(ORDER) == worker
        };
        for place in self.line.places.iter().filter(is_its) {
            self.keep_busy(place, now_us);
            place.state.fetch_or(LEFT, ORDER);
        }
        // It may have died between leaving a place and having the lock.
        self.line.left.store(1, Ordering::Release);
        let Some(_held) = self.lock(now_us) else { return Vec::new() };
        std::iter::from_fn(|| self.launch_next(now_us)).collect()
    }

    /// Leaves a place, with the lock or without: a holder may have been stopped. Says whose worker is to be
    /// woken.
    fn leave_place(&self, at: usize, now_us: u64) -> Option<u32> {
        self.line.places[at].state.fetch_or(LEFT, ORDER);
        let Some(_held) = self.lock(now_us) else {
            self.line.left.store(1, Ordering::Release);
            return None;
        };
        self.see_off(at, now_us);
        self.shrink();
        self.launch_all(now_us)
    }

    /// Frees a place, if it has been left and is not to be kept for longer.
    fn see_off(&self, at: usize, now_us: u64) {
        let place = &self.line.places[at];
        if place.state.load(ORDER) & LEFT == 0 {
            return;
        }
        if place.free_at_us.load(ORDER) <= now_us {
            self.free(place, now_us);
            self.line.first_free.fetch_min(at as u32, ORDER);
        } else {
            self.line.left.store(1, ORDER);
        }
    }

    /// Holds the lock, with all places freed that have been left.
    fn lock(&self, now_us: u64) -> Option<Held> {
        let held = self.line.lock.lock(PATIENCE)?;
        if held.owner_died() {
            self.recount();
        }
        if self.line.left.swap(0, Ordering::Acquire) != 0 {
            for at in 0..self.taken().len() {
                self.see_off(at, now_us);
            }
            self.shrink();
        }
        Some(held)
    }

    /// Places that may be taken.
    fn taken(&self) -> std::slice::Iter<'static, Place> {
        self.line.places[..(self.line.end.load(ORDER).min(PLACES)) as usize].iter()
    }

    /// The places are right even if somebody died in the midst of changing what is counted of them.
    fn recount(&self) {
        let line = self.line;
        line.first_free.store(0, ORDER);
        line.end.store(PLACES, ORDER);
        let is = |place: &Place, state| place.state.load(ORDER) & !LEFT == state;
        let count = |state| self.taken().filter(|place| is(place, state)).count() as u32;
        line.in_flight.store(count(IN_FLIGHT), ORDER);
        line.waiting.store(count(WAITS), ORDER);
        line.waiting_of.iter().for_each(|waiting| waiting.store(0, ORDER));
        for place in self.taken().filter(|place| is(place, WAITS)) {
            line.waiting_of[account_of(place).number()].fetch_add(1, ORDER);
        }
        // Whoever died may have been about to free some.
        line.left.store(1, ORDER);
        self.shrink();
    }

    fn shrink(&self) {
        let last = self.taken().rposition(|place| place.state.load(ORDER) != FREE);
        self.line.end.store(last.map_or(0, |last| last as u32 + 1), ORDER);
    }

    fn free(&self, place: &Place, now_us: u64) {
        match place.state.swap(FREE, ORDER) & !LEFT {
            IN_FLIGHT => {
                self.line.in_flight.fetch_sub(1, ORDER);
                let took_us = now_us.saturating_sub(place.since_us.load(ORDER));
                // What one takes that was given up is not known.
                if place.free_at_us.load(ORDER) == 0 {
                    let mean_us = match self.line.mean_us.load(ORDER) {
                        0 => took_us,
                        mean_us => mean_us - mean_us / MEAN_PART + took_us / MEAN_PART,
                    };
                    self.line.mean_us.store(mean_us, ORDER);
                }
                let charged = self.account(place);
                let paid_us = charged.load(ORDER).saturating_add(took_us);
                charged.store(paid_us.saturating_sub(place.estimate_us.load(ORDER)), ORDER);
            }
            WAITS => self.waits_no_more(place),
            _ => {}
        }
    }

    fn account(&self, place: &Place) -> &'static AtomicU64 {
        &self.line.charged_us[account_of(place).number()]
    }

    /// Where the share of whoever has the place has come to, were it in flight now.
    fn share_us(&self, place: &Place) -> u64 {
        self.share_of(account_of(place))
    }

    fn share_of(&self, account: Account) -> u64 {
        let share_us = self.line.share_us.load(ORDER);
        let charged = &self.line.charged_us[account.number()];
        if self.rules.is_fair { charged.load(ORDER).max(share_us) } else { share_us }
    }

    /// Puts a request in flight that waits.
    fn launch(&self, place: &Place, now_us: u64) {
        let (share_us, estimate_us) = (self.share_us(place), self.line.mean_us.load(ORDER));
        self.line.share_us.store(share_us, ORDER);
        self.account(place).store(share_us.saturating_add(estimate_us), ORDER);
        place.estimate_us.store(estimate_us, ORDER);
        place.since_us.store(now_us, ORDER);
        self.line.in_flight.fetch_add(1, ORDER);
        // It may be left at this very moment.
        place.state.fetch_add(IN_FLIGHT - WAITS, Ordering::Release);
    }

    /// Puts as many in flight as may be; says whose worker is to be woken. (If there are several, the others
    /// find out when they look.)
    fn launch_all(&self, now_us: u64) -> Option<u32> {
        std::iter::from_fn(|| self.launch_next(now_us)).last()
    }

    /// Puts the next request in flight, if there is one and there may be one more; says whose worker is to be
    /// woken.
    fn launch_next(&self, now_us: u64) -> Option<u32> {
        if self.line.in_flight.load(ORDER) >= self.rules.in_flight {
            return None;
        }
        let waits = |place: &&Place| place.state.load(ORDER) == WAITS;
        let since_us = |place: &Place| place.since_us.load(ORDER);
        let oldest_us = self.taken().filter(waits).map(since_us).min();
        let newest_first =
            self.judge_delay(oldest_us.map_or(0, |since| now_us.saturating_sub(since)), now_us);
        let is_in_time = |place: &&Place| now_us.saturating_sub(since_us(place)) < self.rules.patience_us;
        let next = self.taken().filter(waits).filter(is_in_time).min_by_key(|place| {
            let since_us = since_us(place);
            (self.share_us(place), if newest_first { u64::MAX - since_us } else { since_us })
        })?;
        self.waits_no_more(next);
        self.launch(next, now_us);
        Some(next.worker.load(ORDER))
    }

    /// Takes note of the oldest one's age, and says whether the newest goes first.
    fn judge_delay(&self, age_us: u64, now_us: u64) -> bool {
        let Some(target_us) = self.rules.target_us else { return false };
        let line = self.line;
        let least_us = line.least_age_us.load(ORDER).min(age_us);
        if now_us >= line.interval_ends_us.load(ORDER) {
            line.newest_first.store((least_us > target_us).into(), ORDER);
            line.least_age_us.store(age_us, ORDER);
            line.interval_ends_us.store(now_us + INTERVAL_US, ORDER);
        } else {
            line.least_age_us.store(least_us, ORDER);
        }
        // It ends as soon as there is no standing delay.
        if age_us <= target_us {
            line.newest_first.store(0, ORDER);
        }
        line.newest_first.load(ORDER) != 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const RULES: Rules =
        Rules { in_flight: 2, waiting: 3, patience_us: 10_000_000, target_us: Some(100_000), is_fair: true };

    const A: Account = Account::from_number(1);
    const B: Account = Account::from_number(2);

    fn queue(rules: Rules) -> Queue {
        Queue::new(rules).unwrap()
    }

    fn enter(queue: &Queue, worker: u32, account: Account, now_us: u64) -> Entry {
        queue.enter(worker, account, now_us).0
    }

    fn waits(entry: Entry) -> Ticket {
        match entry {
            Entry::Waits(ticket) => ticket,
            other => panic!("{other:?}"),
        }
    }

    fn goes(entry: Entry) -> Ticket {
        match entry {
            Entry::Goes(ticket) => ticket,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn as_many_are_in_flight_as_may_and_as_many_wait() {
        let queue = queue(RULES);
        let first = goes(enter(&queue, 0, A, 0));
        let second = goes(enter(&queue, 1, A, 0));
        let waiting: Vec<_> = (10..13).map(|worker| waits(enter(&queue, worker, A, 0))).collect();
        assert_eq!(enter(&queue, 20, A, 0), Entry::Full);
        assert!(!queue.goes(&waiting[0]));
        assert_eq!(queue.leave(first, 1000), Some(10));
        assert!(queue.goes(&waiting[0]) && !queue.goes(&waiting[1]));
        let mut waiting = waiting.into_iter();
        assert_eq!(queue.leave(waiting.next().unwrap(), 2000), Some(11));
        assert_eq!(queue.leave(second, 2000), Some(12));
        for ticket in waiting {
            assert_eq!(queue.leave(ticket, 3000), None);
        }
        goes(enter(&queue, 0, A, 4000));
    }

    #[test]
    fn who_has_waited_for_too_long_does_not_go() {
        let queue = queue(Rules { in_flight: 1, ..RULES });
        let first = goes(enter(&queue, 0, A, 0));
        let late = waits(enter(&queue, 1, A, 1000));
        let in_time = waits(enter(&queue, 2, A, 2_000_000));
        assert_eq!(queue.leave(first, 10_500_000), Some(2));
        assert!(!queue.goes(&late) && queue.goes(&in_time));
        assert_eq!(queue.leave(late, 10_500_000), None);
        assert_eq!(queue.leave(in_time, 10_600_000), None);
    }

    /// A hundred requests of one client, and then one of another.
    #[test]
    fn a_client_with_many_requests_leaves_others_their_share() {
        let queue = queue(Rules { in_flight: 1, waiting: 1000, target_us: None, ..RULES });
        let mut now = 0;
        let mut flying = goes(enter(&queue, 0, A, now));
        let mut tickets: BTreeMap<u32, Ticket> =
            (1..100).map(|worker| (worker, waits(enter(&queue, worker, A, now)))).collect();
        let mut order = Vec::new();
        for turn in 0..20 {
            if turn >= 5 {
                let worker = 1000 + turn;
                tickets.insert(worker, waits(enter(&queue, worker, B, now)));
            }
            now += 50_000;
            let next = queue.leave(flying, now).unwrap();
            order.push(next >= 1000);
            flying = tickets.remove(&next).unwrap();
        }
        let of_other = order[5..].iter().filter(|is_other| **is_other).count();
        assert!((7..=9).contains(&of_other), "half of what comes then: {order:?}");
    }

    /// Where there is no room to wait, whoever has had most makes some.
    #[test]
    fn a_client_with_many_requests_leaves_others_room() {
        let queue = queue(Rules { in_flight: 1, waiting: 3, ..RULES });
        let mut now = 0;
        for _ in 0..3 {
            let ticket = goes(enter(&queue, 0, A, now));
            now += 50_000;
            queue.leave(ticket, now);
        }
        let flying = goes(enter(&queue, 0, A, now));
        let of_a: Vec<_> =
            (1..4).map(|worker| waits(enter(&queue, worker, A, now + u64::from(worker)))).collect();
        assert_eq!(enter(&queue, 4, A, now), Entry::Full, "none has had more than it");
        let (entry, woken) = queue.enter(5, B, now);
        assert_eq!(woken, Some(1), "the oldest is told");
        let of_b = waits(entry);
        assert_eq!(of_a.iter().map(|ticket| queue.waits(ticket)).collect::<Vec<_>>(), [false, true, true]);
        assert!(!queue.goes(&of_a[0]));
        assert_eq!(queue.leave(flying, now + 50_000), Some(5), "B has had nothing yet");
        assert!(queue.goes(&of_b));
        let mut of_a = of_a.into_iter();
        assert_eq!(queue.leave(of_a.next().unwrap(), now + 50_000), None);
        waits(enter(&queue, 6, A, now + 50_000));
        assert_eq!(queue.line.waiting.load(ORDER), 3);
        // A dead worker's are given back, too.
        waits(queue.enter(7, Account::from_number(3), now + 50_000).0);
        queue.clear(2, now + 50_000);
        assert_eq!(queue.taken().filter(|place| place.state.load(ORDER) & 3 == DISPLACED).count(), 0);
    }

    /// One that was away has nothing saved up: it gets its share from now on, not what it did not take.
    #[test]
    fn nothing_is_saved_up() {
        let queue = queue(Rules { in_flight: 1, waiting: 1000, target_us: None, ..RULES });
        let mut now = 0;
        for _ in 0..100 {
            let ticket = goes(enter(&queue, 0, A, now));
            now += 50_000;
            assert_eq!(queue.leave(ticket, now), None);
        }
        let mut flying = goes(enter(&queue, 0, A, now));
        let mut tickets = BTreeMap::new();
        for worker in 1..50 {
            tickets.insert(worker, waits(enter(&queue, worker, A, now)));
            tickets.insert(1000 + worker, waits(enter(&queue, 1000 + worker, B, now)));
        }
        let mut of_b = 0;
        for _ in 0..20 {
            now += 50_000;
            let next = queue.leave(flying, now).unwrap();
            of_b += u32::from(next > 1000);
            flying = tickets.remove(&next).unwrap();
        }
        assert!((9..=11).contains(&of_b), "{of_b} of 20");
    }

    /// Who may go is told by the name that its worker gave it, once; a place that another has since has none.
    #[test]
    fn those_who_may_go_are_called_by_their_names() {
        let queue = queue(Rules { in_flight: 1, ..RULES });
        let called = |worker| queue.called(worker).collect::<Vec<_>>();
        let first = goes(enter(&queue, 7, A, 0));
        let [second, third] = [7, 8].map(|worker| waits(enter(&queue, worker, A, 0)));
        queue.name(&second, 77);
        queue.name(&third, 88);
        assert!(called(7).is_empty() && called(8).is_empty());
        assert_eq!(queue.leave(first, 1), Some(7));
        assert_eq!((called(7), called(8)), (vec![77], vec![]));
        assert!(called(7).is_empty());
        assert_eq!(queue.leave(second, 2), Some(8));
        assert_eq!(queue.leave(third, 3), None);
        goes(enter(&queue, 8, A, 4));
        assert!(called(8).is_empty());
    }

    /// A line that does not get shorter: the newest are answered in time; when it is gone, the oldest go
    /// first again.
    #[test]
    fn the_newest_go_first_while_a_delay_stands() {
        let queue = queue(Rules { in_flight: 1, waiting: 1000, is_fair: false, ..RULES });
        let mut now = 0;
        let mut flying = goes(enter(&queue, 0, A, now));
        let mut tickets = BTreeMap::new();
        for worker in 1..=40 {
            tickets.insert(worker, waits(enter(&queue, worker, A, now)));
        }
        let mut order = Vec::new();
        for turn in 0..30 {
            now += 50_000;
            let worker = 100 + turn;
            tickets.insert(worker, waits(enter(&queue, worker, A, now)));
            let next = queue.leave(flying, now).unwrap();
            order.push(next);
            flying = tickets.remove(&next).unwrap();
        }
        assert_eq!(order[..10], (1..11).collect::<Vec<_>>(), "not before the delay has stood for long");
        assert_eq!(order[25..], (125..130).collect::<Vec<_>>());
        while let Some(next) = queue.leave(flying, now) {
            now += 1000;
            flying = tickets.remove(&next).unwrap();
        }
        let ticket = goes(enter(&queue, 0, A, now));
        waits(enter(&queue, 1, A, now));
        waits(enter(&queue, 2, A, now + 1));
        assert_eq!(queue.leave(ticket, now + 2), Some(1));
    }

    #[test]
    fn what_a_dead_worker_held_goes_to_others() {
        let queue = queue(RULES);
        goes(enter(&queue, 7, A, 0));
        goes(enter(&queue, 7, A, 0));
        waits(enter(&queue, 7, A, 0));
        let other = waits(enter(&queue, 8, A, 0));
        // The application may work on, for as long again as it has: nobody knows what a request takes.
        assert!(queue.clear(7, 1000).is_empty());
        assert_eq!(queue.look(1999), None);
        assert_eq!(queue.look(2000), Some(8));
        assert!(queue.goes(&other));
        goes(enter(&queue, 9, A, 2000));
        waits(enter(&queue, 9, A, 2000));
    }

    /// A holder of the lock that has been stopped keeps nobody for long, and what is left meanwhile is not
    /// forgotten.
    #[test]
    fn a_place_is_left_even_while_somebody_holds_the_lock() {
        let queue = queue(Rules { in_flight: 1, ..RULES });
        let first = goes(enter(&queue, 0, A, 0));
        let second = waits(enter(&queue, 1, A, 0));
        let (taken, told) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let holder = std::thread::spawn(move || {
            let held = queue.line.lock.lock(Duration::from_secs(20)).expect("it is free");
            taken.send(()).expect("the test waits");
            let _ = released.recv();
            drop(held);
        });
        told.recv().expect("it is held");
        assert_eq!(queue.leave(first, 1000), None);
        assert_eq!(enter(&queue, 2, A, 1000), Entry::Full);
        drop(release);
        holder.join().expect("it ends");
        let third = waits_or_goes(enter(&queue, 2, A, 2000));
        let in_flight = [&second, &third].into_iter().filter(|ticket| queue.goes(ticket)).count();
        assert_eq!(in_flight, 1);
    }

    fn waits_or_goes(entry: Entry) -> Ticket {
        match entry {
            Entry::Goes(ticket) | Entry::Waits(ticket) => ticket,
            Entry::Full => panic!("there is room"),
        }
    }

    /// Clients who leave send the application no more than it has children for.
    #[test]
    fn a_request_that_is_given_up_keeps_its_place_for_a_while() {
        let queue = queue(Rules { in_flight: 1, ..RULES });
        let mut now = 0;
        for _ in 0..100 {
            let ticket = goes(enter(&queue, 0, A, now));
            now += 50_000;
            assert_eq!(queue.leave(ticket, now), None);
        }
        let left = goes(enter(&queue, 0, A, now));
        let next = waits(enter(&queue, 1, A, now));
        assert_eq!(queue.abandon(left, now + 1000), None);
        assert_eq!(queue.look(now + 90_000), None);
        assert!(!queue.goes(&next));
        assert_eq!(queue.look(now + 110_000), Some(1));
        assert!(queue.goes(&next));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Enter {
            worker: u32,
            account: u32,
        },
        /// The one that has been there for so many others.
        Leave(usize),
        Clear(u32),
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0_u32..4, 0_u32..3).prop_map(|(worker, account)| Step::Enter { worker, account }),
            4 => (0_usize..10).prop_map(Step::Leave),
            1 => (0_u32..4).prop_map(Step::Clear),
            2 => (0_u64..3_000_000).prop_map(Step::Wait),
        ]
    }

    proptest! {
        /// Whatever happens: no more are in flight than may, and nobody who may go waits while there is room.
        #[test]
        fn nobody_is_forgotten(steps in prop::collection::vec(step(), 1..200), fair: bool, delay: bool) {
            let target_us = delay.then_some(100_000);
            let queue = queue(Rules { is_fair: fair, target_us, ..RULES });
            let (mut now, mut held) = (0, Vec::<(u32, u64, Ticket)>::new());
            for step in steps {
                match step {
                    Step::Enter { worker, account } => {
                        match enter(&queue, worker, Account::from_number(account), now) {
                            Entry::Goes(ticket) | Entry::Waits(ticket) => held.push((worker, now, ticket)),
                            Entry::Full => {}
                        }
                    }
                    Step::Leave(at) if at < held.len() => {
                        queue.leave(held.remove(at).2, now);
                    }
                    Step::Leave(_) => {}
                    Step::Clear(worker) => {
                        queue.clear(worker, now);
                        held.retain(|(other, ..)| *other != worker);
                    }
                    Step::Wait(us) => now += us,
                }
                let in_flight = held.iter().filter(|(.., ticket)| queue.goes(ticket)).count();
                // Those of dead workers keep their places for a while.
                let counted = queue.line.in_flight.load(ORDER);
                prop_assert!(in_flight as u32 <= counted && counted <= 2);
                let waiting = held.iter().filter(|(.., ticket)| queue.waits(ticket));
                prop_assert_eq!(waiting.clone().count() as u32, queue.line.waiting.load(ORDER));
                // Late ones are taken away by those whose they are.
                let in_time = waiting.filter(|(_, since, _)| now - since < RULES.patience_us).count();
                prop_assert!(counted == 2 || in_time == 0, "{in_time} wait, {counted} are in flight");
            }
        }
    }
}
