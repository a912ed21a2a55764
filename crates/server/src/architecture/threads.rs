//! Runs one kernel thread for each connection, from a pool of threads created in advance. This is the
//! multi-threaded architecture (MT) of the papers' background sections, as in Apache's worker module on
//! Pthreads (Pariag et al. 2007, section 2; Harji et al. 2012, sections 2 and 5.2). One process has all
//! threads.
//!
//! Threads share the process's memory and descriptors, but nothing that a request uses. Each has its own
//! counters, buffers and open-file table, so that no thread waits for another's lock. The tables are
//! smaller than a process's table would be: together they hold as many files as one.
//!
//! The process's first thread serves no clients. It receives the supervisor's requests, and wakes the
//! others.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::thread::{self, Builder, ScopedJoinHandle};

use sys::event::Interest;
use sys::poll;
use sys::wake::Wake;

use super::common::STACK;
use super::common::failing::{AbortIfPanicking, fail};
use super::common::listener_handles::ListenerHandle;
use super::one_at_a_time::{Notifier, Worker};
use crate::config::Settings;
use crate::control::{Control, Phase};
use crate::crew::Crew;
use crate::listeners::Share;
use crate::service::Service;

/// How often the first thread checks whether the others have ended, once they are to end.
const ENDING_MS: u32 = 20;

/// Serves with a thread for each of the services until all are drained, retired or stopped.
///
/// # Errors
///
/// The kernel does not provide that many threads.
pub fn run(
    services: Vec<Service>,
    listeners: Share,
    settings: &Settings,
    control: &Arc<Control>,
) -> io::Result<()> {
    let handles = ListenerHandle::all(listeners);
    let crew = Crew::new(services.len())?;
    let wakes = (0..services.len()).map(|_| Wake::new().map(Arc::new)).collect::<io::Result<Vec<_>>>()?;
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(services.len());
        for (number, (service, wake)) in services.into_iter().zip(&wakes).enumerate() {
            let (handles, its_control, place) =
                (handles.clone(), Arc::clone(control), (crew.clone(), number));
            let notifier = Notifier::Thread(Arc::clone(wake));
            let serve = move || {
                let _guard = AbortIfPanicking;
                let worker = Worker::new(service, handles, settings, its_control, notifier, place);
                if let Err(error) = worker.and_then(Worker::run) {
                    fail(&format!("a thread ends: {error}"));
                }
            };
            let thread = Builder::new().name(format!("serve-{number}")).stack_size(STACK);
            control.expect_one_more();
            match thread.spawn_scoped(scope, serve) {
                Ok(thread) => threads.push(thread),
                Err(error) => fail(&format!("cannot start thread {number}: {error}")),
            }
        }
        // The last thread that releases a listener closes it.
        drop(handles);
        control.expect_one_less();
        pass_on(control, &wakes, &mut threads)
    })
}

/// Wakes all threads when the supervisor sends a request, until the last thread has ended.
fn pass_on(
    control: &Control,
    wakes: &[Arc<Wake>],
    threads: &mut Vec<ScopedJoinHandle<'_, ()>>,
) -> io::Result<()> {
    while !threads.is_empty() {
        let wait = if control.phase() == Phase::Run { None } else { Some(ENDING_MS) };
        let [event] = poll::wait_for([(control.as_fd(), Interest::READABLE)], wait)?;
        if event.readable {
            control.heed();
            for wake in wakes {
                wake.wake()?;
            }
        }
        threads.retain(|thread| !thread.is_finished());
    }
    Ok(())
}
