//! The concurrency architectures. Each owns its whole control flow: it calls the connections, and decides what happens
//! when one would block.
//!
//! An architecture is what one worker process does: a function `run(Service, Share, &Settings, Arc<Control>)` that returns when
//! the worker has drained, retired or stopped. How many workers there are is the [supervisor](crate::supervisor)'s affair.
//! Architectures never import one another; the event-driven ones share [`event_loop`].

use std::io;
use std::sync::Arc;

use crate::config::{Architecture, Settings};
use crate::control::Control;
use crate::listeners::Share;
use crate::service::Service;

pub mod event_loop;
mod events;
pub mod sped;
pub mod symped;

/// Serves with the architecture that the settings name.
///
/// # Errors
///
/// What the architecture needs of the kernel can't be had, or stops working.
pub fn run(service: Service, listeners: Share, settings: &Settings, control: Arc<Control>) -> io::Result<()> {
    match settings.architecture {
        Architecture::Sped | Architecture::NCopy => sped::run(service, listeners, settings, control),
        Architecture::Symped => symped::run(service, listeners, settings, control),
    }
}
