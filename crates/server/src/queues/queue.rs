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
    /// Whether something goes on with a request in flight that its worker has given up.
    pub goes_on: bool,
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

/// Slots of a queue: a bound on what is in flight and waiting together. Those that were never used take no
/// memory.
const SLOTS: u32 = PoolRule::MOST_UPGRADES;

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
        let slots = workers.unwrap_or(u32::MAX).min(PoolRule::MOST_AT_ONCE);
        let in_flight = pool.children().min(slots);
        Self {
            in_flight,
            waiting: pool.queue.min(slots - in_flight),
            timeout_us: us(pool.queue_timeout),
            target_us: pool.queue_delay.map(us),
            is_fair: pool.fair,
            goes_on: true,
        }
    }

    /// The rules for a pool's upgraded connections. None waits to be upgraded. Each occupies a worker if that
    /// serves one client at a time. Then half of the `workers` that a pool may occupy are left for requests.
    pub fn of_upgrades(pool: &PoolRule, workers: Option<u32>) -> Self {
        let most = workers.map_or(SLOTS, |workers| workers.div_ceil(2));
        Self {
            in_flight: pool.upgrades.min(most),
            waiting: 0,
            timeout_us: u64::MAX,
            target_us: None,
            is_fair: false,
            goes_on: false,
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
        let in_flight = in_flight.clamp(1, PoolRule::MOST_AT_ONCE);
        Self {
            in_flight,
            waiting: waiting.min(PoolRule::MOST_AT_ONCE - in_flight),
            timeout_us: u64::MAX,
            target_us: Some(HANDSHAKE_TARGET_US),
            is_fair: true,
            goes_on: false,
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

    /// Whether the queue has a standing delay, and this account has a good part of it: at least half as many
    /// requests wait as of the others, in the mean. Another request of its would only wait longer than these.
    /// Where few wait, there is room for all. This takes no lock, so another worker may have changed that
    /// meanwhile.
    pub fn is_crowded_by(&self, account: Account) -> bool {
        let waiting = self.shared.waiting.load(ORDER);
        // A flood's clients give up together. What takes their places costs each a receive and a session, so
        // the fewer the better.
        if !self.has_standing_delay() || waiting < self.rules.waiting / 8 {
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

    /// Leaves the slot of a request that took so much of the application's time. It was in flight for longer,
    /// because it had to wait for others there. 0: it was given up before it began.
    pub fn leave_after(&self, Ticket(at): Ticket, took_us: u64, now_us: u64) -> Option<u32> {
        self.shared.slots[at as usize].since_us.store(now_us.saturating_sub(took_us), ORDER);
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
        if self.rules.goes_on && slot.state.load(ORDER) & !LEFT == IN_FLIGHT {
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
        for slot in self.taken().filter(is_its) {
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
                // One that was given up before it began has had a place all the same: it stays charged.
                if took_us == 0 {
                    return;
                }
                // The time of a request that was given up later is not known.
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
        let (share_us, estimate_us) = (self.share_us(slot), self.shared.mean_us.load(ORDER).max(1));
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
mod tests;
