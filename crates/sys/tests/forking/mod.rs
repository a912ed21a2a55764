//! For tests that fork, which takes a process with a single thread: they run one after another in the main
//! thread.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use sys::process::{self, Ended};

/// Longer than anything in these tests takes.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// The tests, each with its name, as the arguments of the process ask for them.
pub(crate) fn run(tests: impl IntoIterator<Item = (&'static str, fn())>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let trial = |(name, test): (_, fn())| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit_code()
}

/// Waits for the end of a child, and reaps it.
pub(crate) fn await_end(child: u32) -> Ended {
    let began = Instant::now();
    loop {
        if let Some(ended) = process::ended(child).unwrap() {
            assert_eq!(process::ended(child).unwrap(), Some(ended), "it is still there");
            assert!(process::any_ended().unwrap().is_some());
            assert!(process::reap(child).unwrap());
            return ended;
        }
        assert!(began.elapsed() < TIMEOUT, "the child has not ended");
        std::thread::sleep(Duration::from_micros(200));
    }
}
