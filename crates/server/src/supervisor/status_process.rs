//! The process that answers status requests. It needs nothing from workers or supervisor except their
//! counters.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::aide;
use crate::control::Control;
use crate::status::{Endpoint, Hosts, Sources};

/// How long answers under way may take.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Answers requests until the server ends, or is about to have another such process.
pub(super) fn answer(
    endpoint: &Endpoint,
    sources: Sources,
    hosts: &Hosts,
    control: &Arc<Control>,
) -> io::Result<()> {
    let sources = Arc::new(sources);
    let begin = || endpoint.serve(Arc::clone(&sources), hosts);
    let serving = aide::work_until_the_end(control, begin, || sources.drain())?;
    if control.is_orphaned() {
        // A successor can then use its address, even if a worker still has it open.
        endpoint.stop_listening();
    }
    serving.stop(Instant::now() + LAST_ANSWERS);
    Ok(())
}
