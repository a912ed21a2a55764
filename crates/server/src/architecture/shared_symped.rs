//! Shared-SYMPED: SYMPED whose processes have one descriptor table and one table of open files in common.
//!
//! As in Pariag et al. 2007 (section 5.2): each SPED process is made with `clone`, so that a file is opened
//! once for all of them, and the cache of open files and header lines lies in shared memory. The locks are
//! the two tiers of Harji et al. 2012 (section 3); see `content/shared_table.rs`. Everything else a process
//! does as in SYMPED, for itself.
//!
//! Beyond the papers, a process may be killed at any moment: what it owned is on record ([`crate::common`]),
//! and the supervisor, which is in the same descriptor table, closes it (`supervisor/common_table.rs`).

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
/// The event mechanism can't be set up, or stops working.
pub fn run(service: Service, listeners: Share, settings: &Settings, control: Arc<Control>) -> io::Result<()> {
    EventLoop::new(service, listeners, settings, control)?.run()
}
