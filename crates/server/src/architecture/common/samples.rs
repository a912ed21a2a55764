//! What an accept policy is told of the accept queue now and then: how many wait there, and how long one has.

use std::os::fd::AsFd;

use sys::tcp_info::{self, AcceptQueue};

use super::doors::Door;
use crate::accept::{AcceptPolicy, Queue};
use crate::counters::Counters;

/// Sees how many connections wait to be accepted at these doors, if the kernel tells.
pub(in crate::architecture) fn sample_queue<'a>(
    doors: impl Iterator<Item = &'a Door>,
    policy: &mut AcceptPolicy,
    counters: &Counters,
) -> Option<()> {
    let queues = doors.filter_map(|door| tcp_info::accept_queue(&*door.listener).ok());
    let seen = queues.reduce(|sum, queue| AcceptQueue {
        length: sum.length.saturating_add(queue.length),
        limit: sum.limit.saturating_add(queue.limit),
    })?;
    counters.accept_queue_seen(seen.length.into());
    policy.queue_seen(Queue { length: seen.length, limit: seen.limit });
    Some(())
}

/// Sees how long a connection has waited, in milliseconds, which was just accepted, if the kernel tells.
pub(in crate::architecture) fn sample_wait(
    accepted: impl AsFd,
    policy: &mut AcceptPolicy,
    counters: &Counters,
) -> Option<u32> {
    let ms = tcp_info::waited_ms(accepted).ok()?;
    counters.accept_wait_seen(ms.into());
    policy.wait_seen(ms);
    Some(ms)
}
