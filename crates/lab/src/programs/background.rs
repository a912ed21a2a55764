//! A background thread that runs until it is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};

/// A running thread. Dropping this ends it.
pub struct Background<T> {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Background<T> {
    /// Starts a thread. The thread has to end soon after its flag is set.
    pub fn start(name: &str, work: impl FnOnce(&AtomicBool) -> T + Send + 'static) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || work(&told))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Ends the thread, and returns its result.
    pub fn stop(mut self) -> Result<T> {
        self.end().context("stopped twice")?
    }
}

impl<T> Background<T> {
    fn end(&mut self) -> Option<Result<T>> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take()?;
        let name = thread.thread().name().unwrap_or_default().to_owned();
        Some(thread.join().map_err(|_| anyhow!("the thread {name} panicked")))
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        // A thread that panicked has ended as well.
        let _ = self.end();
    }
}
