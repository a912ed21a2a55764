//! The concurrency architectures. Each one owns its whole control flow: it calls the connections, and
//! decides what happens when a connection would block.
//!
//! An architecture is what one worker process does. It is a function
//! `run(Service, Share, &Settings, Arc<Control>)` that returns when the worker has drained, retired or
//! stopped. The [supervisor](crate::supervisor) decides how many workers there are. Architectures never
//! import one another. The event-driven ones share [`event_loop`]; those with a process or thread for each
//! connection share `one_at_a_time`.

use std::io;
use std::sync::Arc;

use crate::config::{Architecture, Settings};
use crate::control::Control;
use crate::listeners::Share;
use crate::service::Service;

pub mod amped;
mod common;
pub mod event_loop;
mod events;
mod one_at_a_time;
pub mod pipeline;
pub mod processes;
pub mod shared_symped;
pub mod sped;
pub mod symped;
pub mod threads;
pub mod uring;
pub mod user_threads;

/// Serves with the architecture that the settings name. `services` has one service for each serving thread.
/// There is one such thread, except in `threads` and in `pipeline`.
///
/// # Errors
///
/// The kernel does not provide what the architecture needs, or it stops working.
pub fn run(
    mut services: Vec<Service>,
    listeners: Share,
    settings: &Settings,
    control: Arc<Control>,
) -> io::Result<()> {
    let run = match settings.architecture {
        Architecture::Sped | Architecture::NCopy => sped::run,
        Architecture::Symped => symped::run,
        Architecture::SharedSymped => shared_symped::run,
        Architecture::Amped => amped::run,
        Architecture::UserThreads => user_threads::run,
        Architecture::Uring => uring::run,
        Architecture::Processes => processes::run,
        Architecture::Threads => return threads::run(services, listeners, settings, &control),
        Architecture::Pipeline => return pipeline::run(services, listeners, settings, &control),
    };
    run(services.swap_remove(0), listeners, settings, control)
}
