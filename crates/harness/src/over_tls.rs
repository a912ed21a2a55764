//! Which tests run over TLS, and for which variants.
//!
//! TLS changes how a driver moves a client's bytes, and how a connection ends. It changes neither what the
//! protocol decides nor what the supervisor does. So tests for [`Each`](On::Each) and for
//! [`Drivers`](On::Drivers) run over TLS as well, for a few variants. With `SLUICE_VARIANTS=all` in the
//! environment, tests for [`Three`](On::Three) do too, and all run for every variant that there is.
//!
//! A program of tests lists what it does not run over TLS, and why ([`PlainOnly`]).

use std::process::ExitCode;

use libtest_mimic::Trial;

use crate::variant::{self, On, TLS, Test, Topic, VARIANTS, Variant};

/// One variant for each way to drive a conversation.
pub const DRIVERS: [&str; 8] = [
    "sped_epoll",
    "sped_blocking",
    "shared_symped_epoll",
    "amped_epoll",
    "user_threads",
    "uring",
    "threads",
    "pipeline",
];

/// The drivers that differ most: an event loop, a ring, a worker with one client at a time, and the stages
/// of a pipeline. They are for tests that take long.
pub const FEW: [&str; 4] = ["sped_epoll", "uring", "threads", "pipeline"];

/// What is not run over TLS: `TOPIC` or `TOPIC::TEST`, and the reason.
pub type PlainOnly = (&'static str, &'static str);

/// Runs the tests of each topic as [`variant::run`] does, and over TLS for these variants as well.
pub fn run(topics: &[Topic], variants: &[&str], plain_only: &[PlainOnly]) -> ExitCode {
    let mut all = variant::trials(&variant::wanted(), topics, "stream");
    all.extend(trials(topics, variants, plain_only));
    variant::conclude(all)
}

/// The tests of each topic over TLS, for these variants.
pub fn trials(topics: &[Topic], variants: &[&str], plain_only: &[PlainOnly]) -> Vec<Trial> {
    for (name, why) in plain_only {
        let is_known = topics.iter().any(|(topic, tests)| {
            name == topic || tests.iter().any(|test| *name == format!("{topic}::{}", test.name))
        });
        assert!(is_known, "{name} does not run over TLS ({why}), and is not there at all");
    }
    let is_plain = |name: &str| plain_only.iter().any(|(plain, _)| *plain == name);
    let [latest, older] = TLS;
    let (few, all) = (named(variants, latest), if variant::all_are_wanted() { Some(all()) } else { None });
    let older = named(&DRIVERS, older);
    let mut trials = Vec::new();
    for (topic, tests) in topics.iter().filter(|(topic, _)| !is_plain(topic)) {
        for test in tests.iter().filter(|test| !is_plain(&format!("{topic}::{}", test.name))) {
            let chosen: Vec<Variant> = match (test.on, &all) {
                (On::One, _) | (On::Three, None) => continue,
                (_, Some(all)) => [&all[..], &older].concat(),
                (On::Each | On::Drivers, None) => few.clone(),
            };
            let test: Test = *test;
            trials.extend(chosen.into_iter().map(|variant| variant::trial(variant, topic, test, "stream")));
        }
    }
    trials
}

fn named(names: &[&str], tls: variant::Tls) -> Vec<Variant> {
    variant::named(VARIANTS, names).iter().map(|variant| variant.over_tls(tls)).collect()
}

/// Every variant, with the latest version of TLS.
fn all() -> Vec<Variant> {
    variant::wanted().iter().map(|variant| variant.over_tls(TLS[0])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &Variant) {}

    const fn test(name: &'static str, on: On) -> Test {
        Test { name, run: nothing, on }
    }

    const TOPICS: &[Topic] = &[
        ("one", &[test("each", On::Each), test("drivers", On::Drivers), test("three", On::Three)]),
        ("other", &[test("each", On::Each), test("none", On::One)]),
    ];

    fn names(plain_only: &[PlainOnly]) -> Vec<String> {
        let trials = trials(TOPICS, &["sped_epoll", "uring"], plain_only);
        trials.iter().map(|trial| trial.name().to_owned()).collect()
    }

    #[test]
    fn what_drivers_can_break_runs_over_tls() {
        if variant::all_are_wanted() {
            return;
        }
        let expected = [
            "tls_sped_epoll::one::each",
            "tls_uring::one::each",
            "tls_sped_epoll::one::drivers",
            "tls_uring::one::drivers",
            "tls_sped_epoll::other::each",
            "tls_uring::other::each",
        ];
        assert_eq!(names(&[]), expected);
        assert_eq!(names(&[("other", "why")]), expected[..4]);
        assert_eq!(names(&[("one::each", "why"), ("other", "why")]), expected[2..4]);
    }

    #[test]
    #[should_panic(expected = "gone does not run over TLS")]
    fn what_is_left_out_is_there() {
        names(&[("one::gone", "why")]);
    }

    #[test]
    fn a_variant_over_tls_is_known_by_its_name() {
        let [latest, older] = TLS.map(|tls| VARIANTS[0].over_tls(tls));
        assert!(latest.speaks_tls() && older.speaks_tls() && !VARIANTS[0].speaks_tls());
        assert_eq!([latest.name, older.name], ["tls_sped_epoll", "tls12_sped_epoll"]);
        assert_ne!(latest.tls_versions(), older.tls_versions());
        assert!(latest.options.starts_with(VARIANTS[0].options), "what else there is comes first");
    }
}
