//! The variants of the server that every test runs for, and the harness that names each such run
//! `variant::topic::test`.
//!
//! A new architecture is one more line in [`VARIANTS`].

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// One way in which the server can work.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// First part of the test's name.
    pub name: &'static str,
    /// What `sluice serve` is given for it.
    pub options: &'static [&'static str],
}

impl Variant {
    /// Copies have limits and listeners of their own, and the kernel chooses among them.
    pub fn has_copies(&self) -> bool {
        self.options.iter().any(|option| option.starts_with("--copies="))
    }

    /// Whether sends wait for the client, so that a quantum does not cut them.
    pub fn blocks(&self) -> bool {
        self.options.contains(&"--send=blocking") || self.serves_one_at_a_time()
    }

    /// How many of `count` clients that each hold a connection for a while it takes to crowd this variant.
    pub fn crowd(&self, count: usize) -> usize {
        if self.serves_one_at_a_time() { count.min(60) } else { count }
    }

    /// Whether a worker has one client at a time, so that there are no more in service than workers.
    pub fn serves_one_at_a_time(&self) -> bool {
        ["--architecture=processes", "--architecture=threads"].contains(&self.options[0])
    }
}

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
    Variant { name: "sped_select", options: &["--architecture=sped", "--events=select"] },
];

impl Variant {
    /// Its options but for the event mechanism.
    pub fn without_mechanism(&self) -> Vec<&'static str> {
        self.options.iter().copied().filter(|option| !option.starts_with("--events=")).collect()
    }

    /// Whether workers and supervisor have one descriptor table.
    pub fn has_common_descriptors(&self) -> bool {
        self.options.contains(&"--architecture=shared-symped")
    }
}

/// A test, to be run for each variant.
#[derive(Clone, Copy)]
pub struct Test {
    pub name: &'static str,
    pub run: fn(&Variant),
}

/// The functions named, as a list of [`Test`]s of the same names. One that is left out is dead code to the
/// compiler.
macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        &[$($crate::support::variant::Test { name: stringify!($name), run: $name }),+]
    };
}
pub(crate) use tests;

/// Tests that belong together, by name.
pub type Topic = (&'static str, &'static [Test]);

/// Runs the tests of each topic for every variant.
pub fn run(topics: &[Topic]) -> ExitCode {
    run_for(&chosen(), topics)
}

/// The variants that tests run for. With `SLUICE_VARIANTS=all` in the environment these are all architectures
/// with all event mechanisms and both ways to send, which takes three times as long.
pub fn chosen() -> Vec<Variant> {
    if all_are_wanted() { all() } else { VARIANTS.to_vec() }
}

/// Those for what no architecture decides: one for each way in which a worker comes by the content, which is
/// to look by itself in a table of its own, to have helpers look, and to share the table.
/// `SLUICE_VARIANTS=all` holds for it, too.
pub fn few() -> Vec<Variant> {
    let names = ["threads", "amped_epoll", "shared_symped_epoll"];
    if all_are_wanted() {
        return all();
    }
    VARIANTS.iter().filter(|variant| names.contains(&variant.name)).copied().collect()
}

fn all_are_wanted() -> bool {
    std::env::var("SLUICE_VARIANTS").is_ok_and(|variants| variants == "all")
}

/// Whatever there is to choose, in all combinations. Names and options stay for the life of the process.
fn all() -> Vec<Variant> {
    const EVENT_DRIVEN: [&[&str]; 5] = [
        &["--architecture=sped"],
        &["--architecture=symped", "--workers=2"],
        &["--architecture=shared-symped", "--workers=2"],
        &["--architecture=n-copy", "--copies=2"],
        &["--architecture=amped", "--workers=2"],
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
    variants.extend(VARIANTS.iter().filter(|variant| variant.serves_one_at_a_time()));
    variants
}

/// Runs the tests of each topic for these variants.
pub fn run_for(variants: &[Variant], topics: &[Topic]) -> ExitCode {
    run_each(&[(variants, topics)])
}

/// Runs some topics for some variants and others for others, as the command line asks.
pub fn run_each(groups: &[(&[Variant], &[Topic])]) -> ExitCode {
    raise_descriptor_limit();
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for (variants, topics) in groups {
        for &variant in *variants {
            for (topic, tests) in *topics {
                trials.extend(tests.iter().map(|&test| {
                    Trial::test(format!("{}::{topic}::{}", variant.name, test.name), move || {
                        (test.run)(&variant);
                        Ok(())
                    })
                }));
            }
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// As far as one may without being root. Servers inherit it.
pub fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("the soft limit may be raised");
    maximum.unwrap_or(u64::MAX)
}
