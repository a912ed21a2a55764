//! SPED: single process, event-driven. One worker, one event loop, all connections.
//!
//! As in Brecht et al. 2004 (section 3.1) and Pariag et al. 2007 (section 3), the loop goes through a
//! get-events phase, an accept phase and a work phase. Everything is non-blocking except the disk: a file
//! that is not in the page cache blocks the process, and every connection with it.

use std::io;
use std::sync::Arc;

use super::event_loop::EventLoop;
use crate::config::Settings;
use crate::control::Control;
use crate::listeners::Share;
use crate::service::Service;

/// Serves until drained or stopped.
///
/// # Errors
///
/// The event mechanism cannot be set up, or stops working.
pub fn run(service: Service, listeners: Share, settings: &Settings, control: Arc<Control>) -> io::Result<()> {
    EventLoop::new(service, listeners, settings, control)?.run()
}
