//! The variants of the server that tests run for, and the harness that names each run
//! `variant::topic::test`.
//!
//! To add an architecture, add a line to [`VARIANTS`]. Tests that it can break then run for it as well.
//! The other tests run for it only with `SLUICE_VARIANTS=all` ([`On`]).

use std::path::PathBuf;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use rustls::SupportedProtocolVersion;

use crate::{built, conveyed};

/// One configuration in which the server can work.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The first part of the test's name.
    pub name: &'static str,
    /// The options of `sluice serve` for this variant.
    pub options: &'static [&'static str],
}

impl Variant {
    /// The program that serves: `sluice`, or this program with its own channel.
    pub fn program(&self) -> PathBuf {
        if self.options[0].starts_with("--channel=") {
            std::env::current_exe().expect("a path")
        } else {
            built::sluice()
        }
    }

    /// Whether copies have their own limits and listeners, so that the kernel chooses among them.
    pub fn has_copies(&self) -> bool {
        self.options.iter().any(|option| option.starts_with("--copies="))
    }

    /// Whether clients reach it over TLS alone.
    pub fn speaks_tls(&self) -> bool {
        !self.tls_versions().is_empty()
    }

    /// This variant as clients reach it over TLS alone, with one of [`TLS`]. Its name and options live as
    /// long as the process.
    pub fn over_tls(&self, tls: Tls) -> Self {
        let name = format!("{}{}", tls.prefix, self.name);
        Self { name: name.leak(), options: [self.options, &TLS_OPTIONS].concat().leak() }
    }

    /// The versions of TLS that its clients speak. Empty: they speak plain HTTP.
    pub(crate) fn tls_versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        let tls = TLS.into_iter().find(|tls| self.name.starts_with(tls.prefix));
        tls.map_or(&[][..], |tls| tls.versions)
    }

    /// Whether sends block, so that a quantum does not limit them.
    pub fn blocks(&self) -> bool {
        self.options.contains(&"--send=blocking") || self.serves_one_at_a_time()
    }

    /// Whether workers and supervisor share one descriptor table.
    pub(crate) fn has_common_descriptors(&self) -> bool {
        self.options.contains(&"--architecture=shared-symped")
    }

    /// Settings of this variant that are not options, as tables of the TOML file.
    pub fn tables(&self) -> &'static str {
        let tls = TLS.into_iter().find_map(|tls| self.name.strip_prefix(tls.prefix));
        match tls.unwrap_or(self.name) {
            "steered" => {
                "\n[event]\nsend_hold = '1 h'\n[tcp]\nsend_buffer = '32 KiB'\n\
                 [pipeline]\nresponse_target = '10 ms'\n"
            }
            "knot_a" => "\n[user_threads]\nkeep_stack = true\n",
            "knot_c" => "\n[user_threads]\nkeep_stack = true\naccepting = 'threads'\nthreads = 60\n",
            name if name.starts_with("knot_sending") => "\n[user_threads]\nhelpers_send = true\n",
            "uring_loads" => "\n[uring]\nloads = 'ring'\n",
            "uring_options" => "\n[uring]\nloads = 'ring'\nzero_copy = true\nregistered_sockets = true\n",
            name if name.starts_with("narrow") => "\n[pipeline]\nbatch = 1\nqueue = 1\n",
            _ => "",
        }
    }

    /// The variant's options except the event mechanism.
    pub fn without_mechanism(&self) -> Vec<&'static str> {
        self.options.iter().copied().filter(|option| !option.starts_with("--events=")).collect()
    }

    /// How many of `count` clients are needed to crowd this variant, if each holds a connection for a
    /// while.
    pub fn crowd(&self, count: usize) -> usize {
        if self.serves_one_at_a_time() { count.min(60) } else { count }
    }

    /// Whether a worker serves one client at a time, so that at most as many clients as workers are
    /// served.
    pub fn serves_one_at_a_time(&self) -> bool {
        ["--architecture=processes", "--architecture=threads"].contains(&self.options[0])
    }
}

/// How the clients of a variant speak TLS.
#[derive(Clone, Copy, Debug)]
pub struct Tls {
    /// What the variant's name begins with.
    prefix: &'static str,
    versions: &'static [&'static SupportedProtocolVersion],
}

/// The ways to speak TLS: the latest version, and the one before.
pub const TLS: [Tls; 2] = [
    Tls { prefix: "tls_", versions: &[&rustls::version::TLS13] },
    Tls { prefix: "tls12_", versions: &[&rustls::version::TLS12] },
];

/// The options of a server that is reached over TLS.
const TLS_OPTIONS: [&str; 2] = ["--tls-self-signed", "--listen-tls=127.0.0.1:0"];

/// The variants that tests run for, unless they list others.
pub const VARIANTS: &[Variant] = &[
    Variant { name: "sped_epoll", options: &["--architecture=sped", "--events=epoll"] },
    Variant { name: "sped_epoll_level", options: &["--architecture=sped", "--events=epoll-level"] },
    Variant { name: "sped_poll", options: &["--architecture=sped", "--events=poll"] },
    Variant { name: "symped_epoll", options: &["--architecture=symped", "--workers=2", "--events=epoll"] },
    Variant { name: "n_copy_epoll", options: &["--architecture=n-copy", "--copies=2", "--events=epoll"] },
    Variant {
        name: "symped_exclusive",
        options: &["--architecture=symped", "--workers=2", "--events=epoll", "--wake=exclusive"],
    },
    Variant {
        name: "symped_level_re_adding",
        options: &["--architecture=symped", "--workers=2", "--events=epoll-level", "--wake=re-adding"],
    },
    Variant {
        name: "shared_symped_epoll",
        options: &["--architecture=shared-symped", "--workers=2", "--events=epoll"],
    },
    Variant { name: "sped_blocking", options: &["--architecture=sped", "--send=blocking"] },
    Variant {
        name: "symped_blocking",
        options: &["--architecture=symped", "--workers=2", "--send=blocking"],
    },
    Variant { name: "processes", options: &["--architecture=processes", "--workers=20"] },
    Variant { name: "threads", options: &["--architecture=threads", "--workers=20"] },
    Variant { name: "amped_epoll", options: &["--architecture=amped", "--workers=2", "--events=epoll"] },
    Variant { name: "amped_poll", options: &["--architecture=amped", "--workers=1", "--events=poll"] },
    Variant { name: "amped_blocking", options: &["--architecture=amped", "--workers=2", "--send=blocking"] },
    Variant {
        name: "user_threads",
        options: &["--architecture=user-threads", "--workers=2", "--events=epoll"],
    },
    Variant { name: "uring", options: &["--architecture=uring", "--workers=2"] },
    Variant { name: "pipeline", options: &["--architecture=pipeline", "--workers=2"] },
    Variant { name: "pipeline_blocking", options: &["--architecture=pipeline", "--send=blocking"] },
    Variant { name: "pipeline_four", options: &["--architecture=pipeline", "--stages=four", "--writers=2"] },
    Variant { name: "pipeline_copies", options: &["--architecture=pipeline", "--copies=2"] },
    Variant { name: "sped_select", options: &["--architecture=sped", "--events=select"] },
];

/// A test, and which variants it runs for.
#[derive(Clone, Copy)]
pub struct Test {
    /// The last part of the test's name.
    pub name: &'static str,
    /// The test itself, which fails by a panic.
    pub run: fn(&Variant),
    /// The variants that it runs for.
    pub on: On,
}

/// Which variants a test runs for: as many as can make a difference to it. With `SLUICE_VARIANTS=all` in
/// the environment, a test runs for all of them, unless it is for [`One`](On::One).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// All. The event mechanism or the accept strategy can break the test: which events come once and
    /// which repeatedly, which clients are accepted, which worker notices that a client disconnects.
    Each,
    /// [`DRIVERS`]. The way in which a conversation is driven can break the test. Listeners and event
    /// mechanisms cannot.
    Drivers,
    /// [`THREE`]. The protocol, the files or the supervisor decide the result. The way in which a
    /// conversation is driven does not.
    Three,
    /// The first. The result is decided before there are workers, or without them, or the test counts
    /// what a single worker with an event loop does.
    One,
}

/// One variant for each way to drive a conversation, in this order:
///
/// - an event loop whose sends block;
/// - an event loop that shares its table and descriptors with others;
/// - an event loop that leaves the disk to helpers;
/// - user-level threads;
/// - a ring that receives and sends;
/// - a worker with one client at a time;
/// - the stages of a pipeline.
const DRIVERS: [&str; 7] =
    ["sped_blocking", "shared_symped_epoll", "amped_epoll", "user_threads", "uring", "threads", "pipeline"];

/// One variant for each way in which a worker gets the content: it looks in its own table, its helpers
/// look, or it shares a table. They also cover one client at a time, an event loop that sets requests
/// aside, and one that does not. And they cover threads, processes, and processes with one descriptor
/// table.
const THREE: [&str; 3] = ["threads", "amped_epoll", "shared_symped_epoll"];

impl Test {
    /// The variants of a program that this test runs for.
    fn of(&self, variants: &[Variant]) -> Vec<Variant> {
        match self.on {
            On::Drivers | On::Three if all_are_wanted() => variants.to_vec(),
            On::Each => variants.to_vec(),
            On::Drivers => named(variants, &DRIVERS),
            On::Three => named(variants, &THREE),
            On::One => variants[..1].to_vec(),
        }
    }
}

pub(crate) fn named(variants: &[Variant], names: &[&str]) -> Vec<Variant> {
    let found: Vec<_> = variants.iter().filter(|variant| names.contains(&variant.name)).copied().collect();
    assert_eq!(found.len(), names.len(), "a program of variants of its own has not all of {names:?}");
    found
}

/// The named functions, as a list of [`Test`]s with the same names: `tests![Each: a, b; Three: c]`.
/// `tests![a, b]` runs them for each variant of the program. The compiler reports a function that is left
/// out as dead code.
#[macro_export]
macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        $crate::tests![Each: $($name),+]
    };
    ($($on:ident: $($name:ident),+);+ $(;)?) => {
        &[$($($crate::variant::Test {
            name: stringify!($name),
            run: $name,
            on: $crate::variant::On::$on,
        }),+),+]
    };
}
pub use crate::tests;

/// Tests that belong together, by name.
pub type Topic = (&'static str, &'static [Test]);

/// Runs the tests of each topic for the variants that make a difference to them. With
/// `SLUICE_VARIANTS=all` in the environment, these are all architectures with all event mechanisms and
/// both ways to send.
pub fn run(topics: &[Topic]) -> ExitCode {
    run_for(&wanted(), topics)
}

/// The variants of [`run`].
pub(crate) fn wanted() -> Vec<Variant> {
    if all_are_wanted() { all() } else { VARIANTS.to_vec() }
}

/// Whether everything should run for all variants.
pub fn all_are_wanted() -> bool {
    std::env::var("SLUICE_VARIANTS").is_ok_and(|variants| variants == "all")
}

/// All combinations of all choices. Names and options live as long as the process.
fn all() -> Vec<Variant> {
    const EVENT_DRIVEN: [&[&str]; 6] = [
        &["--architecture=sped"],
        &["--architecture=symped", "--workers=2"],
        &["--architecture=shared-symped", "--workers=2"],
        &["--architecture=n-copy", "--copies=2"],
        &["--architecture=amped", "--workers=2"],
        &["--architecture=user-threads", "--workers=2"],
    ];
    const STAGED: [(&str, &[&str]); 3] = [
        ("five", &["--architecture=pipeline", "--workers=2"]),
        ("four", &["--architecture=pipeline", "--stages=four", "--writers=2"]),
        ("copies", &["--architecture=pipeline", "--copies=2"]),
    ];
    let mut variants = Vec::new();
    for architecture in EVENT_DRIVEN {
        for events in ["epoll", "epoll-level", "poll", "select"] {
            for send in ["non-blocking", "blocking"] {
                let (_, name) = architecture[0].split_once('=').expect("a name");
                let name = format!("{name}_{events}_{send}").replace('-', "_");
                let chosen =
                    [format!("--events={events}"), format!("--send={send}")].map(|option| &*option.leak());
                variants
                    .push(Variant { name: name.leak(), options: [architecture, &chosen].concat().leak() });
            }
        }
    }
    // How workers are woken is independent of these combinations.
    let wakes = |variant: &&Variant| variant.options.iter().any(|option| option.starts_with("--wake="));
    variants.extend(VARIANTS.iter().filter(|variant| variant.serves_one_at_a_time() || wakes(variant)));
    variants.push(Variant { name: "uring", options: &["--architecture=uring", "--workers=2"] });
    variants.push(Variant { name: "uring_copies", options: &["--architecture=uring", "--copies=2"] });
    for (stages, options) in STAGED {
        for send in ["non-blocking", "blocking"] {
            let name = format!("pipeline_{stages}_{send}").replace('-', "_");
            let send: &'static str = format!("--send={send}").leak();
            variants.push(Variant { name: name.leak(), options: [options, &[send]].concat().leak() });
        }
    }
    variants
}

/// The tests of each topic as [`run`] runs them, and those of the topics in `of_applications` with each
/// transport as well. The transport makes no difference to how a client's events are received, so
/// [`DRIVERS`] suffice.
pub fn trials_with_transports(topics: &[Topic], of_applications: &[&str]) -> Vec<Trial> {
    let variants = wanted();
    let mut trials = trials(&variants, topics, "stream");
    let topics: Vec<Topic> =
        topics.iter().filter(|(topic, _)| of_applications.contains(topic)).copied().collect();
    let drivers = if all_are_wanted() { variants } else { named(&variants, &DRIVERS) };
    for transport in ["pass-fd", "shared-memory"] {
        trials.extend(self::trials(&drivers, &topics, transport));
    }
    trials
}

/// Runs the tests of each topic for those of these variants that make a difference to them.
pub fn run_for(variants: &[Variant], topics: &[Topic]) -> ExitCode {
    conclude(trials(variants, topics, "stream"))
}

/// Runs the trials that the program's arguments select.
pub fn conclude(trials: Vec<Trial>) -> ExitCode {
    raise_descriptor_limit();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Tests whose applications use this transport.
pub fn trials(variants: &[Variant], topics: &[Topic], transport: &'static str) -> Vec<Trial> {
    let mut trials = Vec::new();
    let suffix =
        if transport == "stream" { String::new() } else { format!("_{}", transport.replace('-', "_")) };
    for (topic, tests) in topics {
        for test in *tests {
            let variants = test.of(variants);
            assert!(!variants.is_empty(), "{topic}::{} runs for none of the variants", test.name);
            let topic = format!("{topic}{suffix}");
            trials.extend(variants.into_iter().map(|variant| trial(variant, &topic, *test, transport)));
        }
    }
    trials
}

/// A test for a variant.
pub(crate) fn trial(variant: Variant, topic: &str, test: Test, transport: &'static str) -> Trial {
    Trial::test(format!("{}::{topic}::{}", variant.name, test.name), move || {
        conveyed::set_transport(transport);
        (test.run)(&variant);
        Ok(())
    })
}

/// Raises the limit as far as possible without root. Servers inherit it.
pub fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("the soft limit may be raised");
    maximum.unwrap_or(u64::MAX)
}
