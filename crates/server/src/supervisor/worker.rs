//! A worker process, from its fork to its end.

use std::io;
use std::sync::Arc;

use sys::{allocator, process};

use super::{RunError, failed};
use crate::access_log::{AccessLogs, LogFile, Writer};
use crate::allotment::Allotment;
use crate::architecture;
use crate::common::Common;
use crate::config::Settings;
use crate::content::{Content, Resolvers, SharedFiles};
use crate::control::Control;
use crate::counters::Counters;
use crate::faults;
use crate::listeners::Share;
use crate::memory;
use crate::queues::QueueHandle;
use crate::service::Service;
use crate::tls::{TlsTerms, Vault};

/// The largest buffer whose memory is kept for later buffers when it is freed: a request's body, or the
/// unsent part of a reply, including what it grows beyond that.
const LARGEST_KEPT: usize = 2 << 20;

/// Serves in a process that has just been forked. `threads` has a block of counters and a handle to the
/// queues for each serving thread.
pub(super) fn serve(
    settings: &Settings,
    cpus: Option<&[usize]>,
    listeners: Share,
    threads: &[(&'static Counters, QueueHandle)],
    control: Arc<Control>,
    common: Option<(&Common, &SharedFiles)>,
    (access_logs, vault): (&[Arc<LogFile>], &Arc<Vault>),
) -> Result<(), RunError> {
    faults::at("begin");
    control.attend().map_err(failed("notice the end of the supervisor"))?;
    // Only the supervisor executes programs. The program that it executes in an upgrade may need
    // privileges from its file.
    process::forgo_new_privileges().map_err(failed("forgo new privileges"))?;
    if let Some(cpus) = cpus {
        process::pin_to_cpus(cpus).map_err(failed(&format!("run on CPUs {cpus:?} alone")))?;
    }
    if settings.all_pools().next().is_some() {
        allocator::keep_freed(settings.gateway_memory as usize, LARGEST_KEPT);
    }
    faults::at("logs");
    let own = |opened: &Arc<LogFile>| match common {
        // The supervisor's descriptor is shared with the other workers, and may be reopened to another
        // log.
        Some(_) => opened.try_clone().map(Arc::new),
        None => Ok(Arc::clone(opened)),
    };
    let start = |opened| own(opened).and_then(|own| Writer::start(own, threads.len()));
    let writers = access_logs.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    if let Some((common, _)) = common {
        // The supervisor closes them at the end of this process, even if the process is killed.
        for writer in &writers {
            common.own(writer.keep_open());
        }
    }
    faults::at("content");
    let mut sites = settings.all_sites();
    let layout = settings.layout();
    for site in &mut sites {
        site.files = site.files.share_of_one(layout.owners());
    }
    let resolvers = Arc::new(Resolvers::new(&sites)?);
    let (open_files, ranges) = (Allotment::of(settings).open_files, settings.limits.ranges);
    let of_process = layout.shares_connections.then(|| {
        SharedFiles::of_process(&sites, open_files, threads.len())
            .map_err(failed("have a table of open files"))
    });
    let of_process = of_process.transpose()?;
    let content = |thread| {
        let table = match (common, &of_process) {
            (None, None) => return Content::new(Arc::clone(&resolvers), &sites, open_files, ranges),
            (Some((common, shared)), _) => shared.for_worker(common.place, common.owner),
            (None, Some(files)) => files.for_thread(thread),
        };
        Content::sharing(Arc::clone(&resolvers), table, &sites, ranges)
    };
    faults::at("services");
    let tls_terms = TlsTerms::new(settings, vault)?.map(Arc::new);
    let service = |(thread, (counters, queue_handle)): (usize, &(&'static Counters, QueueHandle))| {
        let logs = AccessLogs::new(settings, &writers, counters);
        let common = common.map(|(common, _)| common.clone());
        let mut service =
            Service::new(content(thread), settings, counters, logs, common, queue_handle.clone())?;
        service.tells_of_table &= of_process.is_none();
        service.tls_terms.clone_from(&tls_terms);
        Ok(service)
    };
    let services = threads.iter().enumerate().map(service).collect::<io::Result<_>>();
    let services = services.map_err(failed("have memory for input"))?;
    note_start_memory(threads);
    faults::at("architecture");
    let result = architecture::run(services, listeners, settings, control);
    // The services are gone, and their logs have been flushed into the writers.
    let endings: Vec<_> = writers.into_iter().map(Writer::end).collect();
    for ending in endings {
        ending.wait();
    }
    result.map_err(failed("go on serving"))
}

/// For `sluice memory`: the memory that this process has before it serves, divided equally among its
/// threads.
fn note_start_memory(threads: &[(&'static Counters, QueueHandle)]) {
    // If the kernel does not report it, the model has no such figure.
    let bytes = memory::own_bytes().unwrap_or(0);
    for (block, _) in threads {
        block.start_memory_bytes.set(bytes / threads.len().max(1) as u64);
    }
}
