//! AMPED: asymmetric multi-process, event-driven. This is SPED with helpers that wait for the disk instead
//! of the loop.
//!
//! The design follows Pai et al. 1999 ("Flash"); Pariag et al. 2007, section 3, and Brecht et al. 2004,
//! section 2, describe it. One process serves all connections and does nothing that may have to wait for a
//! disk. Opening a file and sending it may have to wait. So the process first asks the kernel whether the
//! data is in memory, which it nearly always is. It asks for names with `RESOLVE_CACHED` (openat2(2)), and
//! for bytes with `RWF_NOWAIT` (`preadv2(2)`), window by window as a reply goes on. Anything else it leaves
//! to a helper. Flash had processes as helpers, and asked with mincore(2). Here helpers are threads, which
//! share the loop's descriptors.
//!
//! With several workers, each of them is such a process, with its own helpers.

use std::io;
use std::sync::Arc;

use super::event_loop::EventLoop;
use crate::config::Settings;
use crate::control::Control;
use crate::helpers::Helpers;
use crate::listeners::Share;
use crate::service::Service;

/// Serves as one of the processes, until drained, retired or stopped.
///
/// # Errors
///
/// The event mechanism or the helpers cannot be set up, or the mechanism stops working.
pub fn run(service: Service, listeners: Share, settings: &Settings, control: Arc<Control>) -> io::Result<()> {
    let helpers = Helpers::new(&settings.amped, service.content.resolvers(), service.counters)?;
    EventLoop::new(service, listeners, settings, control)?.with_helpers(helpers)?.run()
}
