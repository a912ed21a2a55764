//! SYMPED: symmetric multiple processes, event-driven. Several SPED processes accept from the same listeners.
//!
//! As in Pariag et al. 2007 (section 5) and Harji et al. 2012 (section 3.2), the listeners are opened
//! before the fork, and nothing else is shared. While one process waits for the disk the others go on. Each
//! CPU can have its own process.
//!
//! A new connection wakes every waiting process. Those that come too late find the accept queue empty.

use std::io;
use std::sync::Arc;

use super::event_loop::EventLoop;
use crate::config::Settings;
use crate::control::Control;
use crate::listeners::Share;
use crate::service::Service;

/// Serves as one of the processes, until drained, retired or stopped.
///
/// # Errors
///
/// The event mechanism cannot be set up, or stops working.
pub fn run(service: Service, listeners: Share, settings: &Settings, control: Arc<Control>) -> io::Result<()> {
    EventLoop::new(service, listeners, settings, control)?.run()
}
