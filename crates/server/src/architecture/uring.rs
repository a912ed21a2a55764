//! The ring: processes that look at what the kernel has completed, and never ask what is ready.
//!
//! TUX, the in-kernel server of Brecht et al. 2004 (sections 4 and 6), had no phase in which it asked for
//! events: it looked into the accept queue and at its own list of pending work. `io_uring(7)` gives that
//! position to a program. The kernel accepts, receives and sends, and the results wait in shared memory.
//!
//! It is the [event loop](super::event_loop) with a ring, so a turn has the same phases:
//!
//! - Get events: hands all operations of the last turn to the kernel, and takes what has completed. That is
//!   one call, or none if something has completed.
//! - Accept: as many accepts as the limit allows, in one call. They don't wait.
//! - Work: connections for which something was received have their turns.
//!
//! Parts of files that are not in memory are loaded by helpers, as in `amped`, or by the ring: what Pariag et
//! al. 2007 (section 8) hoped for from lazy asynchronous I/O. Names are looked up by helpers.

use std::io;
use std::sync::Arc;

use sys::ring::Ring;

use super::event_loop::EventLoop;
use crate::config::{Loads, Settings, no_ring};
use crate::control::Control;
use crate::helpers::{Helpers, MOST_LOADERS};
use crate::listeners::Share;
use crate::memory;
use crate::service::Service;

/// Serves as one of the processes, until drained, retired or stopped.
///
/// # Errors
///
/// There is no ring, or no helpers, or the ring stops working.
pub fn run(service: Service, listeners: Share, settings: &Settings, control: Arc<Control>) -> io::Result<()> {
    let mut ring = Ring::new().map_err(|error| io::Error::new(error.kind(), no_ring(&error)))?;
    if settings.uring.registered_sockets {
        ring.register_descriptors()?;
    }
    // For `sluice memory`: the ring is there before the first client.
    if let Ok(bytes) = memory::own_bytes() {
        service.counters.start_memory_bytes.set(bytes);
    }
    let mut helpers = Helpers::new(&settings.amped, service.content.resolvers(), service.counters)?;
    if settings.uring.loads == Loads::Ring {
        ring.load_by(MOST_LOADERS)?;
        helpers.leave_loads_to_ring();
    }
    EventLoop::on_ring(service, listeners, settings, control, ring)?.with_helpers(helpers)?.run()
}
