//! The life of a worker process, from the fork to its exit code.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use sys::process;

use super::{RunError, failed};
use crate::access_log::Writer;
use crate::architecture;
use crate::common::Common;
use crate::config::Settings;
use crate::control::Control;
use crate::counters::Counters;
use crate::listeners::Share;
use crate::memory;
use crate::service::Service;

/// How long the access log's last lines may take to be written.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Serves in a process that has just been forked, and gives its exit code.
pub(super) fn work(
    settings: &Settings,
    cpus: Option<&[usize]>,
    listeners: Share,
    counters: &[&'static Counters],
    control: Arc<Control>,
    common: Option<&Common>,
) -> u8 {
    match serve(settings, cpus, listeners, counters, control, common) {
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
    counters: &[&'static Counters],
    control: Arc<Control>,
    common: Option<&Common>,
) -> Result<(), RunError> {
    control.attend().map_err(failed("notice the end of the supervisor"))?;
    // Only the supervisor executes programs, and what it executes in an upgrade may need privileges of its file's.
    process::forgo_new_privileges().map_err(failed("forgo new privileges"))?;
    if let Some(cpus) = cpus {
        process::pin_to_cpus(cpus).map_err(failed(&format!("run on CPUs {cpus:?} alone")))?;
    }
    let log = settings.access_log.as_ref();
    let writer = log.map(|log| Writer::start(&log.target, counters.len())).transpose()?;
    if let (Some(common), Some(writer)) = (common, &writer) {
        // The supervisor closes it at the end of this process, be it killed or not.
        common.own(writer.keep_open());
    }
    let share = share_of_a_thread(settings, counters.len());
    let service = |&counters: &&'static Counters| {
        let log = log.zip(writer.as_ref());
        let log = log.map(|(log, writer)| writer.worker(log.format, log.when_full, counters));
        Service::new(&share, counters, log, common.cloned())
    };
    let services = counters.iter().map(service).collect::<Result<Vec<_>, _>>()?;
    note_start_memory(counters);
    let result = architecture::run(services, listeners, settings, control);
    // The services, whose logs have been flushed into the writer, are gone.
    if let Some(writer) = writer
        && !writer.finish(LAST_LINES)
    {
        tracing::error!("the access log's last lines were not written within {LAST_LINES:?}");
    }
    result.map_err(failed("go on serving"))
}

/// For `sluice memory`: what the process has of its own before it serves, in equal parts for its threads.
fn note_start_memory(counters: &[&'static Counters]) {
    // Where the kernel does not tell, the model has no such figure.
    let bytes = memory::private_bytes().unwrap_or(0);
    for block in counters {
        block.start_memory_bytes.set(bytes / counters.len().max(1) as u64);
    }
}

/// The settings by which one of several threads serves: a part of the files that its process may keep at hand.
fn share_of_a_thread(settings: &Settings, threads: usize) -> Settings {
    let mut share = settings.clone();
    let threads = u32::try_from(threads).unwrap_or(u32::MAX).max(1);
    share.files.max_open = NonZeroU32::new(share.files.max_open.get() / threads).unwrap_or(NonZeroU32::MIN);
    share.files.memory /= u64::from(threads);
    share
}
