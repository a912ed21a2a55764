//! Load that takes a server's CPU away from it, so that the server is what is short.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::Result;

/// Threads that compute nothing, as fast as they can, until they are dropped.
pub(crate) struct Spinners {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Spinners {
    /// `count` threads on one CPU: another program there is left one share of `count + 1`.
    pub(crate) fn start(cpu: usize, count: usize) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut this = Self { stop, threads: Vec::new() };
        for _ in 0..count {
            let stop = Arc::clone(&this.stop);
            this.threads.push(thread::Builder::new().name("spinner".to_owned()).spawn(move || {
                if sys::process::pin_to_cpus(&[cpu]).is_ok() {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                }
            })?);
        }
        Ok(this)
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A spinner that panicked has stopped as well.
            let _ = thread.join();
        }
    }
}
