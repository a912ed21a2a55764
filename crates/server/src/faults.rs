//! Faults that a test orders: a worker that fails at a step of its start.
//!
//! `SLUICE_TEST_FAULT` names a file with two words in it, the step and what is to happen there: `abort`,
//! `exit`, `panic` or `hang`. A worker that comes to that step does so. A third word, `once`, lets only the
//! first worker that finds the file fail. One that hangs leaves a file beside it, which ends with its process
//! ID. Without debug assertions, as in every build that serves anybody, there is nothing of this in the
//! program.

/// In a worker: the named step of its start. Fails here if a test has ordered that.
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
        // Several workers may see the file; one of them can take it away.
        if words.next() == Some("once") && fs::remove_file(Path::new(&path)).is_err() {
            return;
        }
        match how {
            Some("abort") => process::abort(),
            Some("exit") => process::exit(1),
            Some("panic") => panic!("a test has ordered a panic"),
            _ => {
                // For a test that has to know.
                let _ = fs::write(Path::new(&path).with_extension(process::id().to_string()), "");
                loop {
                    thread::sleep(Duration::from_hours(1));
                }
            }
        }
    }
}
