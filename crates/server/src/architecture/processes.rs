//! Runs one process for each connection, from a pool of processes created in advance. This is the
//! multi-process architecture (MP) of the papers' background sections, as in Apache's prefork module
//! (Pariag et al. 2007, section 2; Harji et al. 2012, section 2).
//!
//! A process does one thing after the other and blocks wherever it must. While one process waits for its
//! client or the disk, others run. Each worker serves one connection; all other clients wait to be
//! accepted.

use std::io;
use std::sync::Arc;

use super::common::listener_handles::ListenerHandle;
use super::one_at_a_time::{Notifier, Worker};
use crate::config::Settings;
use crate::control::Control;
use crate::listeners::Share;
use crate::service::Service;

/// Serves as one of the processes, until drained, retired or stopped.
///
/// # Errors
///
/// The kernel does not provide an epoll instance or a timer.
pub fn run(service: Service, listeners: Share, settings: &Settings, control: Arc<Control>) -> io::Result<()> {
    let (handles, place) = (ListenerHandle::all(listeners), control.place());
    Worker::new(service, handles, settings, control, Notifier::Process, place)?.run()
}
