//! Samples of the accept queue for an accept policy: how many clients wait, and how long one has waited.

use std::os::fd::AsFd;

use sys::tcp_info::{self, AcceptQueue};

use super::listener_handles::ListenerHandle;
use crate::accept::{AcceptPolicy, Queue};
use crate::counters::Counters;

/// Samples how many connections wait to be accepted at these listeners, if the kernel reports it.
pub(in crate::architecture) fn sample_queue<'a>(
    handles: impl Iterator<Item = &'a ListenerHandle>,
    policy: &mut AcceptPolicy,
    counters: &Counters,
) -> Option<()> {
    let queues = handles.filter_map(|handle| tcp_info::accept_queue(&*handle.listener).ok());
    let seen = queues.reduce(|sum, queue| AcceptQueue {
        length: sum.length.saturating_add(queue.length),
        limit: sum.limit.saturating_add(queue.limit),
    })?;
    counters.accept_queue_seen(seen.length.into());
    policy.queue_seen(Queue { length: seen.length, limit: seen.limit });
    Some(())
}

/// Samples how long the connection that was just accepted has waited, in milliseconds, if the kernel
/// reports it.
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
