//! Load that takes a server's CPU away from it, so that the server is what is short.

use std::sync::atomic::Ordering;

use anyhow::Result;

use crate::programs::background::Background;

/// Starts `count` threads on one CPU that compute nothing, as fast as they can, until they are dropped:
/// another program there is left one share of `count + 1`.
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
