//! Uses up CPU time on a server's CPU, so that the server is the bottleneck.

use std::sync::atomic::Ordering;

use anyhow::Result;

use crate::programs::background::Background;

/// Starts `count` threads that compute on one CPU until they are dropped. They compute nothing useful.
/// Another program there gets one share of `count + 1`.
pub fn start(cpu: usize, count: usize) -> Result<Vec<Background<()>>> {
    let spinner = |_| {
        Background::start("spinner", move |stop| {
            if sys::process::pin_to_cpus(&[cpu]).is_ok() {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        })
    };
    (0..count).map(spinner).collect()
}
