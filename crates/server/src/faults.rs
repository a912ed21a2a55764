//! Faults for tests: a worker fails at a step of its start, or of its work.
//!
//! `SLUICE_TEST_FAULT` names a file with two words: the step and the fault. The fault is `abort`, `exit`,
//! `panic`, `hang` or `overrun` (of the stack). A worker that reaches that step fails in that way. With a
//! third word, `once`, only the first worker that finds the file fails. A worker that hangs creates a file
//! next to it, whose name ends with the worker's process ID. Without debug assertions, as in every
//! production build, the program contains none of this.

/// In a worker: marks the named step. Fails here if a test has requested that.
pub(crate) fn at(step: &str) {
    #[cfg(debug_assertions)]
    ordered::strike(step);
    #[cfg(not(debug_assertions))]
    let _ = step;
}

#[cfg(debug_assertions)]
mod ordered {
    use std::path::Path;
    use std::time::Duration;
    use std::{fs, process, thread};

    pub(super) fn strike(step: &str) {
        let Some(path) = std::env::var_os("SLUICE_TEST_FAULT") else { return };
        let Ok(order) = fs::read_to_string(&path) else { return };
        let mut words = order.split_whitespace();
        if words.next() != Some(step) {
            return;
        }
        let how = words.next();
        // Several workers may see the file, but only one of them can remove it.
        if words.next() == Some("once") && fs::remove_file(Path::new(&path)).is_err() {
            return;
        }
        match how {
            Some("abort") => process::abort(),
            Some("exit") => process::exit(1),
            Some("panic") => panic!("a test has ordered a panic"),
            Some("overrun") => {
                std::hint::black_box(deeper(u64::MAX));
            }
            _ => {
                // Tells the test which process hangs.
                let _ = fs::write(Path::new(&path).with_extension(process::id().to_string()), "");
                loop {
                    thread::sleep(Duration::from_hours(1));
                }
            }
        }
    }

    /// Each call takes a kilobyte of stack.
    #[inline(never)]
    fn deeper(depth: u64) -> u64 {
        let used = std::hint::black_box([depth as u8; 1024]);
        if depth == 0 { 0 } else { deeper(depth - 1) + u64::from(used[(depth % 1024) as usize]) }
    }
}
