//! Property tests that cannot be written with `proptest!`. A failing test prints its seed.
//! `PROPTEST_RNG_SEED` sets the seed, as for the other tests.

use std::hash::{BuildHasher as _, RandomState};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseResult, TestRunner};

/// Runs a test on this many cases.
#[track_caller]
pub(crate) fn run<S: Strategy>(cases: u32, drawn: &S, test: impl Fn(S::Value) -> TestCaseResult) {
    let mut config = Config { failure_persistence: None, ..Config::with_cases(cases) };
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().hash_one(0),
    };
    config.rng_seed = RngSeed::Fixed(seed);
    if let Err(failure) = TestRunner::new(config).run(drawn, test) {
        panic!("{failure}\nto repeat it: PROPTEST_RNG_SEED={seed}");
    }
}
