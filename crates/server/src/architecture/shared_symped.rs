//! Shared-SYMPED: SYMPED whose processes share one descriptor table and one table of open files.
//!
//! The design follows Pariag et al. 2007 (section 5.2). Each SPED process is created with `clone`, so that
//! a file is opened once for all of them. The cache of open files and header lines lies in shared memory.
//! The locks are the two tiers of Harji et al. 2012 (section 3); see `content/shared_table.rs`. Everything
//! else a process does for itself, as in SYMPED.
//!
//! Beyond the papers, a process may be killed at any moment. What it owned is on record
//! ([`crate::common`]). The supervisor, which uses the same descriptor table, closes that
//! (`supervisor/common_table.rs`).

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
