//! SPED: single process, event-driven. One process, one event loop, all connections.
//!
//! As in Brecht et al. 2004 (section 3.1) and Pariag et al. 2007 (section 3): the loop goes through a get-events phase,
//! an accept phase and a work phase. Everything is non-blocking but the disk: a file that is not in the page cache
//! blocks the process, and every connection with it.

use std::io;
use std::sync::Arc;

use super::event_loop::EventLoop;
use crate::config::Settings;
use crate::listeners::Listeners;
use crate::service::Service;
use crate::shutdown::Shutdown;

/// Serves until drained or stopped.
///
/// # Errors
///
/// The event mechanism can't be set up, or stops working.
pub fn run(
    service: Service,
    listeners: Listeners,
    settings: &Settings,
    shutdown: Arc<Shutdown>,
) -> io::Result<()> {
    EventLoop::new(service, listeners, settings, shutdown)?.run()
}
