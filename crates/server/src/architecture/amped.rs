//! AMPED: asymmetric multi-process, event-driven. SPED, and helpers that wait for the disk in the loop's
//! place.
//!
//! As in Pai et al. 1999 ("Flash"; Pariag et al. 2007, section 3, and Brecht et al. 2004, section 2, tell of
//! it): one process serves all connections and does nothing that may have to wait for a disk, which opening a
//! file and sending it may. It asks the kernel first what is in memory, which nearly everything is: names by
//! `RESOLVE_CACHED` (openat2(2)), bytes by `RWF_NOWAIT` (`preadv2(2)`), window by window as a reply goes on.
//! What is not is left to a helper. Flash had processes for helpers, and mincore(2) for the question; here
//! they are threads, which share the loop's descriptors.
//!
//! With several workers each of them is such a process, with helpers of its own.

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
/// The event mechanism or the helpers can't be set up, or the mechanism stops working.
pub fn run(service: Service, listeners: Share, settings: &Settings, control: Arc<Control>) -> io::Result<()> {
    let helpers = Helpers::start(&settings.amped, service.content.resolvers(), service.counters)?;
    EventLoop::new(service, listeners, settings, control)?.with_helpers(helpers)?.run()
}
