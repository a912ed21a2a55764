//! The queue in front of an application pool. It keeps the number of requests in flight at or below the
//! number of children that the application has. All other requests wait here, in one queue for all
//! workers. TLS handshakes have such a queue, too: one that is being computed is a request in flight, and
//! the thread that computes it is the application.
//!
//! The queue lies in memory that the workers share. A request takes a slot when it is due, and holds it
//! until it is answered. When a worker gives back the slot of a request in flight, it picks the waiting
//! request that goes next and wakes that request's worker. If a worker dies, the supervisor gives back
//! its slots ([`Queue::clear`]).
//!
//! A request that is given up while in flight keeps its slot for twice the mean time of a request. If no
//! request has been answered yet, it keeps the slot for as long again as it has already had it. The
//! application may still be working on such a request, and the server cannot ask (PHP-FPM has no way to
//! answer that). Without this rule, clients that disconnect would send the application more requests than
//! it has children for. Its own queue would fill with requests that no client waits for.
//!
//! Which request goes next:
//!
//! - **No request that has waited too long.** It would be answered too late.
//! - **Fairness** between clients, by address prefix. A client is charged with the time that the
//!   application works for it. One that has had more than its share waits for those that have had less.
//!   This is start-time fair queueing (Goyal, Vin, Cheng 1996). A request is charged an estimate when it
//!   begins, and its real time when it ends. A client that was away for long has saved nothing up.
//! - **Who may wait** is decided in the same way. When the queue is full, take the network that would
//!   have had the most if all its waiting requests went. One of its requests is displaced if that is more
//!   than the newcomer's network would have had. Otherwise the client that asks most would take most of
//!   the room. With few slots (one per worker, where a worker serves one client), the other clients would
//!   seldom be in the queue to be chosen.
//! - Among requests with equal shares, the **oldest first**. The **newest first** if the oldest waiting
//!   request was older than a target throughout an interval, which is a standing queue (RFC 8289). A
//!   queue that does not get shorter would have every request answered late. This way, only some are.

use std::io;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use sys::lock::{Held, Mutex};
use sys::shared::Shared;

use crate::account::Account;
use crate::config::{Architecture, PoolRule, Settings};

/// A pool's queue, as one worker or the supervisor uses it.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    shared: &'static SharedQueue,
    rules: Rules,
}

/// The rules of a queue. Times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Most requests in flight.
    pub in_flight: u32,
    /// Most requests that may wait.
    pub waiting: u32,
    /// How long a request may wait.
    pub timeout_us: u64,
    /// The newest request goes first when the standing delay is longer than this. `None`: never.
    pub target_us: Option<u64>,
    /// Whether networks of clients are charged for the application's time.
    pub is_fair: bool,
}

/// A request's slot in a queue.
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket(u32);

/// The outcome for a request that is due.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// The request is in flight.
    Goes(Ticket),
    /// The request waits.
    Waits(Ticket),
    /// The queue has no room for the request.
    Full,
}

/// Slots of a queue: a bound on the requests in flight and waiting together.
const SLOTS: u32 = PoolRule::MOST_AT_ONCE;

sys::shareable! {
    #[derive(Debug)]
    struct SharedQueue {
        lock: Mutex,
        /// No slot before `first_free` is free. No slot from `end` on is taken.
        first_free: AtomicU32,
        end: AtomicU32,
        in_flight: AtomicU32,
        waiting: AtomicU32,
        /// A slot was left without the lock.
        left: AtomicU8,
        /// The virtual time of the fair queue, in microseconds of the application's time.
        share_us: AtomicU64,
        /// Mean time of a request.
        mean_us: AtomicU64,
        /// The least age that the oldest request has had in this interval, and when the interval ends.
        least_age_us: AtomicU64,
        interval_ends_us: AtomicU64,
        newest_first: AtomicU8,
        charged_us: [AtomicU64; Account::ALL],
        /// How many requests of each account wait.
        waiting_of: [AtomicU32; Account::ALL],
        slots: [Slot; SLOTS as usize],
    }
}

sys::shareable! {
    #[derive(Debug)]
    struct Slot {
        state: AtomicU8,
        worker: AtomicU32,
        /// The worker's name for the request, for when it need not wait any more. 0: no name yet, or
        /// already reported.
        name: AtomicU64,
        account: AtomicU32,
        /// When the request began to wait, or to be in flight.
        since_us: AtomicU64,
        /// What the request was charged when it began.
        estimate_us: AtomicU64,
        /// For a request that was given up: when the slot becomes free. 0: as soon as it is left.
        free_at_us: AtomicU64,
    }
}

impl Rules {
    /// A pool's rules. At most `workers` workers may use the pool or wait for it with their clients. The
    /// waiting requests have the slots that are left over.
    pub fn of(pool: &PoolRule, workers: Option<u32>) -> Self {
        let us = |time: Duration| time.as_micros() as u64;
        let slots = workers.unwrap_or(SLOTS).min(SLOTS);
        let in_flight = pool.children.get().min(slots);
        Self {
            in_flight,
            waiting: pool.queue.min(slots - in_flight),
            timeout_us: us(pool.queue_timeout),
            target_us: pool.queue_delay.map(us),
            is_fair: pool.fair,
        }
    }
}

impl Rules {
    /// The rules for TLS handshakes in `workers` workers. In pipelines only the readers count.
    ///
    /// A worker that serves many clients has a thread for handshakes. Two handshakes are there, and the next
    /// is on its way. Workers that serve one client each compute handshakes themselves: as many at a time as
    /// there are CPUs. The others wait for that with their clients.
    pub fn of_handshakes(settings: &Settings, workers: usize) -> Self {
        let workers = match settings.architecture {
            Architecture::Pipeline => settings.stage_threads().read * settings.copies,
            _ => workers,
        } as u32;
        let (in_flight, waiting) = if settings.most_waiting_workers().is_some() {
            (available_cpus().min(workers), settings.handshakes.queue.min(workers))
        } else {
            (workers.saturating_mul(3), settings.handshakes.queue.saturating_mul(workers))
        };
        let in_flight = in_flight.clamp(1, SLOTS);
        Self {
            in_flight,
            waiting: waiting.min(SLOTS - in_flight),
            timeout_us: u64::MAX,
            target_us: Some(HANDSHAKE_TARGET_US),
            is_fair: true,
        }
    }
}

/// If all clients have waited longer than this for their handshakes, it is a flood and not a burst. Then the
/// newest go first: of those that have waited for long, many have given up.
const HANDSHAKE_TARGET_US: u64 = 300_000;

/// How many CPUs the workers have.
fn available_cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// The account of the request that has the slot, or had it last.
fn account_of(slot: &Slot) -> Account {
    Account::from_number(slot.account.load(ORDER))
}

const FREE: u8 = 0;
const WAITS: u8 = 1;
const IN_FLIGHT: u8 = WAITS + 1;
/// The request waited, and was displaced by another one that waits now.
const DISPLACED: u8 = 3;
/// A flag beside one of these: the request has left the slot, and the next holder of the lock frees it.
const LEFT: u8 = 4;

/// The interval over which a standing delay is measured.
const INTERVAL_US: u64 = 500_000;
/// The weight of the last request's time in the mean: 1 / `MEAN_PART`.
const MEAN_PART: u64 = 8;
/// How long to wait for the lock. A holder that keeps it longer has been stopped.
const TIMEOUT: Duration = Duration::from_millis(100);

const ORDER: Ordering = Ordering::Relaxed;

impl Queue {
    /// An empty queue, for this process and those that it forks.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub fn new(rules: Rules) -> io::Result<Self> {
        Ok(Self { shared: Shared::<SharedQueue>::new()?.leak(), rules })
    }

    /// The same queue with other rules.
    pub fn with(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// Enters a worker's request that is due. If another request goes or is displaced now, returns the
    /// number of the worker to wake.
    pub fn enter(&self, worker: u32, account: Account, now_us: u64) -> (Entry, Option<u32>) {
        let Some(_held) = self.lock(now_us) else { return (Entry::Full, None) };
        let shared = self.shared;
        let has_room = shared.in_flight.load(ORDER) < self.rules.in_flight
            || shared.waiting.load(ORDER) < self.rules.waiting;
        let displaced = if has_room { None } else { self.least_entitled(account) };
        if !has_room && displaced.is_none() {
            return (Entry::Full, None);
        }
        let is_free = |&at: &usize| shared.slots[at].state.load(ORDER) == FREE;
        let first_free = shared.first_free.load(ORDER).min(SLOTS) as usize;
        let Some(at) = (first_free..SLOTS as usize).find(is_free) else {
            return (Entry::Full, None);
        };
        if let Some(displaced) = displaced {
            // The worker may leave this slot at this very moment.
            displaced.state.fetch_add(DISPLACED - WAITS, Ordering::Release);
            self.waits_no_more(displaced);
        }
        let slot = &shared.slots[at];
        shared.first_free.store(at as u32 + 1, ORDER);
        shared.end.fetch_max(at as u32 + 1, ORDER);
        slot.worker.store(worker, ORDER);
        slot.name.store(0, ORDER);
        slot.account.store(account.number() as u32, ORDER);
        slot.since_us.store(now_us, ORDER);
        slot.free_at_us.store(0, ORDER);
        slot.state.store(WAITS, ORDER);
        shared.waiting_of[account.number()].fetch_add(1, ORDER);
        if shared.waiting.fetch_add(1, ORDER) == 0 {
            // There was no standing delay.
            self.judge_delay(0, now_us);
        }
        let displaced = displaced.map(|displaced| displaced.worker.load(ORDER));
        let woken = self.launch_all(now_us).or(displaced);
        let ticket = Ticket(at as u32);
        if self.goes(&ticket) { (Entry::Goes(ticket), None) } else { (Entry::Waits(ticket), woken) }
    }

    /// Whether there is a standing delay: the queue does not get shorter.
    pub fn has_standing_delay(&self) -> bool {
        self.shared.newest_first.load(ORDER) != 0
    }

    /// Whether one more request may wait, without displacing another.
    pub fn has_room(&self) -> bool {
        self.shared.waiting.load(ORDER) < self.rules.waiting
    }

    /// Whether the queue is nearly full and has a standing delay, and this account has a good part of it: at
    /// least half as many requests wait as of the others, in the mean. Another request of its would only take
    /// the place of one that has waited. This takes no lock, so another worker may have changed that
    /// meanwhile.
    pub fn is_crowded_by(&self, account: Account) -> bool {
        let waiting = self.shared.waiting.load(ORDER);
        // The rest is for those that were accepted and have not come here yet.
        if !self.has_standing_delay() || waiting < self.rules.waiting / 4 * 3 {
            return false;
        }
        let waiting_of = |of: &AtomicU32| of.load(ORDER);
        let accounts = self.shared.waiting_of.iter().filter(|of| waiting_of(of) > 0).count() as u32;
        let own = waiting_of(&self.shared.waiting_of[account.number()]);
        own > 0 && own.saturating_mul(accounts).saturating_mul(2) >= waiting
    }

    /// Whether a request is in flight now.
    pub fn goes(&self, ticket: &Ticket) -> bool {
        self.shared.slots[ticket.0 as usize].state.load(Ordering::Acquire) == IN_FLIGHT
    }

    /// Whether the request still waits. If it neither waits nor [goes](Self::goes), it has been
    /// displaced.
    pub fn waits(&self, ticket: &Ticket) -> bool {
        self.shared.slots[ticket.0 as usize].state.load(ORDER) == WAITS
    }

    /// Names a request. [`called`](Self::called) returns the name when the request need not wait any
    /// more. The name must not be 0.
    pub fn name(&self, ticket: &Ticket, name: u64) {
        self.shared.slots[ticket.0 as usize].name.store(name, ORDER);
    }

    /// The names of a worker's requests that need not wait any more. Each name is returned once.
    pub fn called(&self, worker: u32) -> impl Iterator<Item = u64> {
        self.taken().filter_map(move |slot| {
            let is_due = matches!(slot.state.load(Ordering::Acquire), IN_FLIGHT | DISPLACED);
            let is_its = is_due && slot.worker.load(ORDER) == worker;
            if is_its { Some(slot.name.swap(0, ORDER)).filter(|name| *name != 0) } else { None }
        })
    }

    /// The waiting request that a newcomer may displace. It is the oldest of the account that will have
    /// had the most when all its requests have gone. `None` if that is no more than the newcomer's
    /// account would have had.
    fn least_entitled(&self, newcomer: Account) -> Option<&'static Slot> {
        if !self.rules.is_fair {
            return None;
        }
        let mean_us = self.shared.mean_us.load(ORDER).max(1);
        let due_us = |account: Account, more: u32| {
            let waiting = self.shared.waiting_of[account.number()].load(ORDER) + more;
            self.share_of(account).saturating_add(u64::from(waiting) * mean_us)
        };
        let due_of = |slot: &Slot| due_us(account_of(slot), 0);
        let waiting = self.taken().filter(|slot| slot.state.load(ORDER) == WAITS);
        let last = waiting.max_by_key(|slot| (due_of(slot), u64::MAX - slot.since_us.load(ORDER)))?;
        (due_of(last) > due_us(newcomer, 1)).then_some(last)
    }

    fn waits_no_more(&self, slot: &Slot) {
        self.shared.waiting.fetch_sub(1, ORDER);
        self.shared.waiting_of[account_of(slot).number()].fetch_sub(1, ORDER);
    }

    /// Leaves the slot of a request that was answered, or given up before it was in flight. If another
    /// request goes now, returns the number of the worker to wake.
    pub fn leave(&self, Ticket(at): Ticket, now_us: u64) -> Option<u32> {
        self.leave_place(at as usize, now_us)
    }

    /// Leaves the slot of a request that is given up, but that the application may still work on.
    pub fn abandon(&self, Ticket(at): Ticket, now_us: u64) -> Option<u32> {
        self.keep_busy(&self.shared.slots[at as usize], now_us);
        self.leave_place(at as usize, now_us)
    }

    /// Starts waiting requests for which a slot became free with time, without a wake-up.
    pub fn look(&self, now_us: u64) -> Option<u32> {
        let _held = self.lock(now_us)?;
        self.launch_all(now_us)
    }

    /// How many requests wait, and how many are in flight. The second number includes requests that were
    /// given up not long ago. This takes no lock, so the numbers are approximate.
    pub fn lengths(&self, now_us: u64) -> (usize, usize) {
        let count = |is: &dyn Fn(&&Slot) -> bool| self.taken().filter(is).count();
        let is_busy = |slot: &&Slot| match slot.state.load(ORDER) {
            IN_FLIGHT => true,
            state => state == IN_FLIGHT | LEFT && slot.free_at_us.load(ORDER) > now_us,
        };
        (count(&|slot| slot.state.load(ORDER) == WAITS), count(&is_busy))
    }

    fn keep_busy(&self, slot: &Slot, now_us: u64) {
        if slot.state.load(ORDER) & !LEFT == IN_FLIGHT {
            // If no request was ever answered, the slot stays busy for as long again as this one has had
            // it.
            let took_us = now_us.saturating_sub(slot.since_us.load(ORDER));
            let busy_us = match self.shared.mean_us.load(ORDER) {
                0 => took_us,
                mean_us => 2 * mean_us,
            };
            slot.free_at_us.store(now_us + busy_us, ORDER);
        }
    }

    /// Gives back the slots of a worker that has died. Returns the numbers of the workers to wake.
    pub fn clear(&self, worker: u32, now_us: u64) -> Vec<u32> {
        let is_its = |slot: &&Slot| {
            // A slot that it has left already may become free, and then belong to another request, at any
            // moment.
            matches!(slot.state.load(ORDER), WAITS | IN_FLIGHT | DISPLACED)
                && slot.worker.load(ORDER) == worker
        };
        for slot in self.shared.slots.iter().filter(is_its) {
            self.keep_busy(slot, now_us);
            slot.state.fetch_or(LEFT, ORDER);
        }
        // The worker may have died between leaving a slot and taking the lock.
        self.shared.left.store(1, Ordering::Release);
        let Some(_held) = self.lock(now_us) else { return Vec::new() };
        std::iter::from_fn(|| self.launch_next(now_us)).collect()
    }

    /// Leaves a slot, even without the lock, because the holder of the lock may have been stopped.
    /// Returns the number of the worker to wake.
    fn leave_place(&self, at: usize, now_us: u64) -> Option<u32> {
        self.shared.slots[at].state.fetch_or(LEFT, ORDER);
        let Some(_held) = self.lock(now_us) else {
            self.shared.left.store(1, Ordering::Release);
            return None;
        };
        self.see_off(at, now_us);
        self.shrink();
        self.launch_all(now_us)
    }

    /// Frees a slot, if it has been left and need not be kept longer.
    fn see_off(&self, at: usize, now_us: u64) {
        let slot = &self.shared.slots[at];
        if slot.state.load(ORDER) & LEFT == 0 {
            return;
        }
        if slot.free_at_us.load(ORDER) <= now_us {
            self.free(slot, now_us);
            self.shared.first_free.fetch_min(at as u32, ORDER);
        } else {
            self.shared.left.store(1, ORDER);
        }
    }

    /// Takes the lock, and frees all slots that have been left.
    fn lock(&self, now_us: u64) -> Option<Held> {
        let held = self.shared.lock.lock(TIMEOUT)?;
        if held.owner_died() {
            self.recount();
        }
        if self.shared.left.swap(0, Ordering::Acquire) != 0 {
            for at in 0..self.taken().len() {
                self.see_off(at, now_us);
            }
            self.shrink();
        }
        Some(held)
    }

    /// The slots that may be taken.
    fn taken(&self) -> std::slice::Iter<'static, Slot> {
        self.shared.slots[..(self.shared.end.load(ORDER).min(SLOTS)) as usize].iter()
    }

    /// Counts again after a process died with the lock held. Each slot is right even then, but the counts
    /// may not be.
    fn recount(&self) {
        let shared = self.shared;
        shared.first_free.store(0, ORDER);
        shared.end.store(SLOTS, ORDER);
        let is = |slot: &Slot, state| slot.state.load(ORDER) & !LEFT == state;
        let count = |state| self.taken().filter(|slot| is(slot, state)).count() as u32;
        shared.in_flight.store(count(IN_FLIGHT), ORDER);
        shared.waiting.store(count(WAITS), ORDER);
        shared.waiting_of.iter().for_each(|waiting| waiting.store(0, ORDER));
        for slot in self.taken().filter(|slot| is(slot, WAITS)) {
            shared.waiting_of[account_of(slot).number()].fetch_add(1, ORDER);
        }
        // The dead process may have been about to free slots.
        shared.left.store(1, ORDER);
        self.shrink();
    }

    fn shrink(&self) {
        let last = self.taken().rposition(|slot| slot.state.load(ORDER) != FREE);
        self.shared.end.store(last.map_or(0, |last| last as u32 + 1), ORDER);
    }

    fn free(&self, slot: &Slot, now_us: u64) {
        match slot.state.swap(FREE, ORDER) & !LEFT {
            IN_FLIGHT => {
                self.shared.in_flight.fetch_sub(1, ORDER);
                let took_us = now_us.saturating_sub(slot.since_us.load(ORDER));
                // The time of a request that was given up is not known.
                if slot.free_at_us.load(ORDER) == 0 {
                    let mean_us = match self.shared.mean_us.load(ORDER) {
                        0 => took_us,
                        mean_us => mean_us - mean_us / MEAN_PART + took_us / MEAN_PART,
                    };
                    self.shared.mean_us.store(mean_us, ORDER);
                }
                let charged = self.account(slot);
                let paid_us = charged.load(ORDER).saturating_add(took_us);
                charged.store(paid_us.saturating_sub(slot.estimate_us.load(ORDER)), ORDER);
            }
            WAITS => self.waits_no_more(slot),
            _ => {}
        }
    }

    fn account(&self, slot: &Slot) -> &'static AtomicU64 {
        &self.shared.charged_us[account_of(slot).number()]
    }

    /// The virtual start time that the request would have, if it were in flight now.
    fn share_us(&self, slot: &Slot) -> u64 {
        self.share_of(account_of(slot))
    }

    fn share_of(&self, account: Account) -> u64 {
        let share_us = self.shared.share_us.load(ORDER);
        let charged = &self.shared.charged_us[account.number()];
        if self.rules.is_fair { charged.load(ORDER).max(share_us) } else { share_us }
    }

    /// Puts a waiting request in flight.
    fn launch(&self, slot: &Slot, now_us: u64) {
        let (share_us, estimate_us) = (self.share_us(slot), self.shared.mean_us.load(ORDER));
        self.shared.share_us.store(share_us, ORDER);
        self.account(slot).store(share_us.saturating_add(estimate_us), ORDER);
        slot.estimate_us.store(estimate_us, ORDER);
        slot.since_us.store(now_us, ORDER);
        self.shared.in_flight.fetch_add(1, ORDER);
        // The worker may leave this slot at this very moment.
        slot.state.fetch_add(IN_FLIGHT - WAITS, Ordering::Release);
    }

    /// Puts as many requests in flight as may be. Returns the number of one worker to wake. If there are
    /// several, the others find out at their next regular check.
    fn launch_all(&self, now_us: u64) -> Option<u32> {
        std::iter::from_fn(|| self.launch_next(now_us)).last()
    }

    /// Puts the next waiting request in flight, if the rules allow one more. Returns the number of the
    /// worker to wake.
    fn launch_next(&self, now_us: u64) -> Option<u32> {
        if self.shared.in_flight.load(ORDER) >= self.rules.in_flight {
            return None;
        }
        let waits = |slot: &&Slot| slot.state.load(ORDER) == WAITS;
        let since_us = |slot: &Slot| slot.since_us.load(ORDER);
        let oldest_us = self.taken().filter(waits).map(since_us).min();
        let newest_first =
            self.judge_delay(oldest_us.map_or(0, |since| now_us.saturating_sub(since)), now_us);
        let is_in_time = |slot: &&Slot| now_us.saturating_sub(since_us(slot)) < self.rules.timeout_us;
        let next = self.taken().filter(waits).filter(is_in_time).min_by_key(|slot| {
            let since_us = since_us(slot);
            (self.share_us(slot), if newest_first { u64::MAX - since_us } else { since_us })
        })?;
        self.waits_no_more(next);
        self.launch(next, now_us);
        Some(next.worker.load(ORDER))
    }

    /// Records the age of the oldest request, and returns whether the newest goes first.
    fn judge_delay(&self, age_us: u64, now_us: u64) -> bool {
        let Some(target_us) = self.rules.target_us else { return false };
        let shared = self.shared;
        let least_us = shared.least_age_us.load(ORDER).min(age_us);
        if now_us >= shared.interval_ends_us.load(ORDER) {
            shared.newest_first.store((least_us > target_us).into(), ORDER);
            shared.least_age_us.store(age_us, ORDER);
            shared.interval_ends_us.store(now_us + INTERVAL_US, ORDER);
        } else {
            shared.least_age_us.store(least_us, ORDER);
        }
        // Newest-first ends as soon as there is no standing delay.
        if age_us <= target_us {
            shared.newest_first.store(0, ORDER);
        }
        shared.newest_first.load(ORDER) != 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const RULES: Rules =
        Rules { in_flight: 2, waiting: 3, timeout_us: 10_000_000, target_us: Some(100_000), is_fair: true };

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
    fn a_standing_delay_is_due_to_who_has_most() {
        let queue = queue(Rules { in_flight: 1, waiting: 4, ..RULES });
        let mut flying = goes(enter(&queue, 0, A, 0));
        let mut waiting: Vec<_> = (0..3).map(|_| waits(enter(&queue, 0, A, 0))).collect();
        for now_us in [400_000, 800_000, 1_400_000] {
            assert!(!queue.is_crowded_by(A), "before {now_us}");
            queue.leave(flying, now_us);
            let next = waiting.iter().position(|ticket| queue.goes(ticket));
            flying = waiting.remove(next.expect("the next goes"));
            waiting.push(waits(enter(&queue, 0, A, now_us)));
        }
        assert!(queue.is_crowded_by(A) && !queue.is_crowded_by(B));
        queue.leave(flying, 1_500_000);
        for ticket in waiting {
            queue.leave(ticket, 1_500_000);
        }
        assert!(!queue.is_crowded_by(A), "nobody waits");
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

    /// When there is no room to wait, the client that has had the most makes some.
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
        assert_eq!(queue.shared.waiting.load(ORDER), 3);
        // The slots of a dead worker are given back, too.
        waits(queue.enter(7, Account::from_number(3), now + 50_000).0);
        queue.clear(2, now + 50_000);
        assert_eq!(queue.taken().filter(|slot| slot.state.load(ORDER) & 3 == DISPLACED).count(), 0);
    }

    /// A client that was away has nothing saved up. It gets its share from now on, not what it did not
    /// take.
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

    /// A request that may go is reported once, by the name that its worker gave it. If another request
    /// has the slot by then, it has no name.
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

    /// While a queue does not get shorter, the newest requests are answered in time. When the queue is
    /// gone, the oldest go first again.
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
        // The application may go on working for as long again as it has: the time of a request is not
        // known yet.
        assert!(queue.clear(7, 1000).is_empty());
        assert_eq!(queue.look(1999), None);
        assert_eq!(queue.look(2000), Some(8));
        assert!(queue.goes(&other));
        goes(enter(&queue, 9, A, 2000));
        waits(enter(&queue, 9, A, 2000));
    }

    /// If the holder of the lock has been stopped, no one waits for it for long. Slots left meanwhile are
    /// not forgotten.
    #[test]
    fn a_place_is_left_even_while_somebody_holds_the_lock() {
        let queue = queue(Rules { in_flight: 1, ..RULES });
        let first = goes(enter(&queue, 0, A, 0));
        let second = waits(enter(&queue, 1, A, 0));
        let (taken, told) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let holder = std::thread::spawn(move || {
            let held = queue.shared.lock.lock(Duration::from_secs(20)).expect("it is free");
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

    /// Clients that disconnect send the application no more requests than it has children for.
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
        /// Leaves the slot of the request with this index among those held.
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
        /// Whatever happens, no more requests are in flight than may be. No request that may go waits
        /// while there is room.
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
                // Requests of dead workers keep their slots for a while.
                let counted = queue.shared.in_flight.load(ORDER);
                prop_assert!(in_flight as u32 <= counted && counted <= 2);
                let waiting = held.iter().filter(|(.., ticket)| queue.waits(ticket));
                prop_assert_eq!(waiting.clone().count() as u32, queue.shared.waiting.load(ORDER));
                // Late requests are removed by their own workers.
                let in_time = waiting.filter(|(_, since, _)| now - since < RULES.timeout_us).count();
                prop_assert!(counted == 2 || in_time == 0, "{in_time} wait, {counted} are in flight");
            }
        }
    }
}
