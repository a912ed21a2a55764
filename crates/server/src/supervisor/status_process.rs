//! The process that answers status requests, so that it needs nothing of workers or supervisor but their
//! counters.
//!
//! It is a copy of the supervisor as of the last reload, and does nothing but [`serve`](Endpoint::serve).

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sys::event::{Events, Interest};
use sys::poll::PollSet;
use sys::process;

use super::exit_code;
use super::workers::{Foreign, LONGEST_PAUSE, QUICK};
use crate::control::{Control, Phase};
use crate::error_log;
use crate::status::{Endpoint, Hosts, Sources};

/// A status process that runs.
pub(super) struct StatusProcess {
    pub(super) pid: u32,
    /// By which it lets go of the listeners and says that the server drains, opens the error log anew, and
    /// finishes its answers and ends.
    pub(super) control: Arc<Control>,
    since: Instant,
}

/// How long answers under way may take to be finished.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

impl StatusProcess {
    /// Forks it.
    pub(super) fn start(
        endpoint: &Endpoint,
        sources: Sources,
        hosts: &Hosts,
        foreign: &Foreign,
    ) -> io::Result<Self> {
        let (control, sources) = (Arc::new(Control::new()?), Arc::new(sources));
        let pid = process::fork(|| {
            process::set_name("sluice:status");
            foreign.close(&[]);
            exit_code("the status process", answer(endpoint, &sources, hosts, &control))
        })?;
        Ok(Self { pid, control, since: Instant::now() })
    }

    /// How long to wait before another is started, now that it has ended: one that ended soon will probably
    /// do so again.
    pub(super) fn pause(&self) -> Duration {
        if self.since.elapsed() < QUICK { LONGEST_PAUSE } else { Duration::ZERO }
    }
}

fn answer(
    endpoint: &Endpoint,
    sources: &Arc<Sources>,
    hosts: &Hosts,
    control: &Arc<Control>,
) -> io::Result<()> {
    control.attend()?;
    process::forgo_new_privileges()?;
    let (mut set, mut events) = (PollSet::new(), Events::default());
    set.add(&**control, 0, Interest::READABLE)?;
    let serving = endpoint.serve(Arc::clone(sources), hosts)?;
    let mut reopenings = control.reopenings();
    while control.phase() != Phase::Stop {
        set.wait(&mut events, None)?;
        control.heed();
        if std::mem::replace(&mut reopenings, control.reopenings()) != reopenings
            && let Err(error) = error_log::reopen()
        {
            tracing::error!("cannot reopen the error log: {error}");
        }
        if control.phase() >= Phase::Drain {
            sources.drain();
        }
        if control.is_orphaned() {
            // A successor can have its address, whoever of the workers still has it open.
            endpoint.stop_listening();
            break;
        }
    }
    serving.stop(Instant::now() + LAST_ANSWERS);
    Ok(())
}
