//! The process that answers status requests. It needs nothing from workers or supervisor except their
//! counters.
//!
//! It is a copy of the supervisor as of the last reload, and only [serves](Endpoint::serve).

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

/// A running status process.
pub(super) struct StatusProcess {
    pub(super) pid: u32,
    /// Through this, the supervisor tells it to let go of the listeners and report that the server
    /// drains, to reopen the error log, and to finish its answers and end.
    pub(super) control: Arc<Control>,
    since: Instant,
}

/// How long answers under way may take.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

impl StatusProcess {
    /// Forks the status process.
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

    /// How long to wait before starting another one after it has ended. A process that ended soon will
    /// probably do so again.
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
            // A successor can then use its address, even if a worker still has it open.
            endpoint.stop_listening();
            break;
        }
    }
    serving.stop(Instant::now() + LAST_ANSWERS);
    Ok(())
}
