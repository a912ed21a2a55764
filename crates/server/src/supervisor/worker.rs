//! The life of a worker process, from the fork to its exit code.

use std::sync::Arc;
use std::time::Duration;

use sys::process;

use super::{RunError, failed};
use crate::access_log::Writer;
use crate::architecture;
use crate::config::Settings;
use crate::control::Control;
use crate::counters::Counters;
use crate::listeners::Share;
use crate::service::Service;

/// How long the access log's last lines may take to be written.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Serves in a process that has just been forked, and gives its exit code.
pub(super) fn work(
    settings: &Settings,
    cpus: Option<&[usize]>,
    listeners: Share,
    counters: &'static Counters,
    control: Arc<Control>,
) -> u8 {
    match serve(settings, cpus, listeners, counters, control) {
        Ok(()) => 0,
        Err(error) => {
            tracing::error!("a worker ends: {error}");
            1
        }
    }
}

fn serve(
    settings: &Settings,
    cpus: Option<&[usize]>,
    listeners: Share,
    counters: &'static Counters,
    control: Arc<Control>,
) -> Result<(), RunError> {
    control.attend().map_err(failed("notice the end of the supervisor"))?;
    if let Some(cpus) = cpus {
        process::pin_to_cpus(cpus).map_err(failed(&format!("run on CPUs {cpus:?} alone")))?;
    }
    let writer = settings.access_log.as_ref().map(|log| Writer::start(&log.target, 1)).transpose()?;
    let log = settings
        .access_log
        .as_ref()
        .zip(writer.as_ref())
        .map(|(log, writer)| writer.worker(log.format, log.when_full, counters));
    let service = Service::new(settings, counters, log)?;
    let result = architecture::run(service, listeners, settings, control);
    // The service, whose log has been flushed into the writer, is gone.
    if let Some(writer) = writer
        && !writer.finish(LAST_LINES)
    {
        tracing::error!("the access log's last lines were not written within {LAST_LINES:?}");
    }
    result.map_err(failed("go on serving"))
}
