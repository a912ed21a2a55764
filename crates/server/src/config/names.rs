//! Settings that accept one of a few names, and the error for any other name.

use super::network::ToldOrigin;
use super::schematics;
use super::settings::{
    Accepting, Architecture, AreaSend, Coalesce, CopiesBy, Events, Loads, LogFormat, LogLevel, Mapping,
    Protocol, Sends, Stages, Symlinks, Transport, Uploads, Wake, WhenBehind,
};

/// A setting that accepts one of a few names.
pub(super) trait Named: Copy + PartialEq + 'static {
    /// The names, in the order in which they are listed.
    const NAMES: &[(&'static str, Self)];

    /// The value with this name. The error says what is allowed.
    fn parse(name: &str) -> Result<Self, String> {
        let value = Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        value.ok_or_else(|| format!("allowed: {}", Self::allowed()))
    }

    /// The names as a list.
    fn allowed() -> String {
        Self::names().join(", ")
    }

    /// The names alone.
    fn names() -> Vec<&'static str> {
        Self::NAMES.iter().map(|(name, _)| *name).collect()
    }

    /// The name of a value.
    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, value)| *value == self).map_or("", |(name, _)| name)
    }
}

impl Named for Events {
    const NAMES: &[(&'static str, Self)] = &[
        ("epoll", Self::Epoll),
        ("epoll-level", Self::EpollLevel),
        ("poll", Self::Poll),
        ("select", Self::Select),
    ];
}

impl Named for CopiesBy {
    const NAMES: &[(&'static str, Self)] = &[
        ("address", Self::Address),
        ("port", Self::Port),
        ("reuseport", Self::Reuseport),
        ("cpu", Self::Cpu),
    ];
}

impl Named for ToldOrigin {
    const NAMES: &[(&'static str, Self)] =
        &[("scheme", Self::Scheme), ("host", Self::Host), ("port", Self::Port)];
}

impl Named for Mapping {
    const NAMES: &[(&'static str, Self)] = &[("direct", Self::Direct), ("indirect", Self::Indirect)];
}

impl Named for Wake {
    const NAMES: &[(&'static str, Self)] =
        &[("all", Self::All), ("exclusive", Self::Exclusive), ("re-adding", Self::ReAdding)];
}

impl Named for Coalesce {
    const NAMES: &[(&'static str, Self)] =
        &[("auto", Self::Auto), ("more", Self::More), ("cork", Self::Cork), ("none", Self::None)];
}

impl Named for Sends {
    const NAMES: &[(&'static str, Self)] =
        &[("non-blocking", Self::NonBlocking), ("blocking", Self::Blocking)];
}

impl Named for Accepting {
    const NAMES: &[(&'static str, Self)] = &[("scheduler", Self::Scheduler), ("threads", Self::Threads)];
}

impl Named for Loads {
    const NAMES: &[(&'static str, Self)] = &[("helpers", Self::Helpers), ("ring", Self::Ring)];
}

impl Named for Stages {
    const NAMES: &[(&'static str, Self)] = &[("four", Self::Four), ("five", Self::Five)];
}

impl Named for LogLevel {
    const NAMES: &[(&'static str, Self)] = &[
        ("error", Self::ERROR),
        ("warn", Self::WARN),
        ("info", Self::INFO),
        ("debug", Self::DEBUG),
        ("trace", Self::TRACE),
    ];
}

impl Named for Symlinks {
    const NAMES: &[(&'static str, Self)] =
        &[("none", Self::None), ("beneath", Self::Beneath), ("any", Self::Any)];
}

impl Named for LogFormat {
    const NAMES: &[(&'static str, Self)] =
        &[("combined", Self::Combined), ("json", Self::Json), ("short", Self::Short)];
}

impl Named for WhenBehind {
    const NAMES: &[(&'static str, Self)] = &[("drop", Self::Drop), ("wait", Self::Wait)];
}

impl Named for Transport {
    const NAMES: &[(&'static str, Self)] =
        &[("stream", Self::Stream), ("pass-fd", Self::PassFd), ("shared-memory", Self::SharedMemory)];
}

impl Named for Protocol {
    const NAMES: &[(&'static str, Self)] = &[("fastcgi", Self::FastCgi), ("http", Self::Http)];
}

impl Named for Uploads {
    const NAMES: &[(&'static str, Self)] = &[("spool", Self::Spool), ("stream", Self::Stream)];
}

impl Named for AreaSend {
    const NAMES: &[(&'static str, Self)] = &[("copy", Self::Copy), ("sendfile", Self::Sendfile)];
}

impl Architecture {
    /// The name, as given to `--architecture`.
    pub fn name(self) -> &'static str {
        Named::name(self)
    }
}

impl Named for Architecture {
    const NAMES: &[(&'static str, Self)] = &[
        ("sped", Self::Sped),
        ("symped", Self::Symped),
        ("shared-symped", Self::SharedSymped),
        ("n-copy", Self::NCopy),
        ("amped", Self::Amped),
        ("processes", Self::Processes),
        ("threads", Self::Threads),
        ("pipeline", Self::Pipeline),
        ("user-threads", Self::UserThreads),
        ("uring", Self::Uring),
    ];

    fn parse(name: &str) -> Result<Self, String> {
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        let architecture = known.map(|(_, architecture)| *architecture);
        architecture.ok_or_else(|| format!("no architecture; allowed: {}", Self::allowed()))
    }
}

/// An architecture, as it is described to operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// Its name, as `architecture` takes it.
    pub name: &'static str,
    /// Its purpose, in one line.
    pub purpose: &'static str,
    /// A plain-text drawing of its processes, threads and queues, and the path of a connection.
    pub schematic: &'static str,
    /// The keys that affect it, beyond those that all architectures share, in groups.
    pub options: &'static [&'static [&'static str]],
    /// The architecture itself.
    pub built: Architecture,
}

impl Design {
    /// Whether this kernel can run it.
    ///
    /// # Errors
    ///
    /// The reason why not, for operators.
    pub fn runs_here(&self) -> Result<(), String> {
        match self.built {
            Architecture::Uring => sys::ring::probe().map_err(|error| no_ring(&error)),
            _ => sys::epoll::Epoll::new()
                .map(drop)
                .map_err(|error| format!("this kernel gives no epoll ({error}); choose other events")),
        }
    }
}

/// Why there is no ring here, and what helps.
pub fn no_ring(error: &std::io::Error) -> String {
    let remedy = match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "a sandbox forbids it (the default seccomp profiles of Docker and containerd do), or sysctl \
             kernel.io_uring_disabled does: allow io_uring_setup, io_uring_enter and io_uring_register, or \
             choose another architecture"
        }
        std::io::ErrorKind::OutOfMemory => {
            "raise RLIMIT_MEMLOCK (ulimit -l, LimitMEMLOCK= of a systemd unit)"
        }
        _ => "it needs Linux 6.10: choose another architecture",
    };
    format!("io_uring is not available here ({error}): {remedy}")
}

/// The keys of an event loop.
const EVENT: &[&str] =
    &["events", "accept_limit", "send", "event.work_phase_skips_new", "event.quantum", "event.send_hold"];
/// The keys of architectures with several workers.
const SEVERAL: &[&str] = &["workers", "wake"];
/// The keys of copies.
const COPIES: &[&str] = &["copies", "copies_by", "placement.cpus", "placement.mapping"];
/// The keys of the disk helpers.
const HELPERS: &[&str] = &["amped.helpers", "amped.disk_timeout", "amped.disk_delay"];
/// The keys of a loop whose events are completions of a ring.
const RING: &[&str] =
    &["accept_limit", "event.quantum", "uring.loads", "uring.zero_copy", "uring.registered_sockets"];
/// The keys of user-level threads.
const USER_THREADS: &[&str] = &[
    "user_threads.threads",
    "user_threads.stack",
    "user_threads.keep_stack",
    "user_threads.accepting",
    "user_threads.helpers_send",
];

/// The keys of the pipeline's stages.
const PIPELINE: &[&str] = &[
    "stages",
    "readers",
    "writers",
    "controllers",
    "pipeline.batch",
    "pipeline.queue",
    "pipeline.response_target",
];

/// Every architecture.
pub const DESIGNED: [Design; 10] = [
    Design {
        name: "sped",
        purpose: "one process, one event loop (single process, event-driven)",
        schematic: schematics::SPED,
        options: &[EVENT],
        built: Architecture::Sped,
    },
    Design {
        name: "symped",
        purpose: "several SPED processes: while one blocks on the disk, another runs",
        schematic: schematics::SYMPED,
        options: &[SEVERAL, EVENT],
        built: Architecture::Symped,
    },
    Design {
        name: "shared-symped",
        purpose: "SYMPED with one descriptor table, and one open-file table in shared memory",
        schematic: schematics::SHARED_SYMPED,
        options: &[SEVERAL, EVENT],
        built: Architecture::SharedSymped,
    },
    Design {
        name: "n-copy",
        purpose: "pinned copies of SPED, each with its own listeners: symped with one worker for each \
                  copy",
        schematic: schematics::N_COPY,
        options: &[COPIES, EVENT],
        built: Architecture::NCopy,
    },
    Design {
        name: "amped",
        purpose: "SPED with helper threads that wait for the disk instead of it",
        schematic: schematics::AMPED,
        options: &[SEVERAL, HELPERS, EVENT],
        built: Architecture::Amped,
    },
    Design {
        name: "processes",
        purpose: "a process for each connection, from a pool",
        schematic: schematics::PROCESSES,
        options: &[SEVERAL],
        built: Architecture::Processes,
    },
    Design {
        name: "threads",
        purpose: "a kernel thread for each connection, from a pool in one process",
        schematic: schematics::THREADS,
        options: &[SEVERAL],
        built: Architecture::Threads,
    },
    Design {
        name: "pipeline",
        purpose: "one process; each stage has its own threads: accept, read poll, read, write poll, write",
        schematic: schematics::PIPELINE,
        options: &[&["workers", "accept_limit", "send", "event.quantum", "event.send_hold"], PIPELINE],
        built: Architecture::Pipeline,
    },
    Design {
        name: "user-threads",
        purpose: "a user-level thread for each request or connection, many over one kernel thread",
        schematic: schematics::USER_THREADS,
        options: &[SEVERAL, USER_THREADS, HELPERS, EVENT],
        built: Architecture::UserThreads,
    },
    Design {
        name: "uring",
        purpose: "processes for which the kernel accepts, receives and sends (io_uring)",
        schematic: schematics::URING,
        options: &[SEVERAL, HELPERS, RING],
        built: Architecture::Uring,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Named + std::fmt::Debug>() {
        for (name, value) in T::NAMES {
            assert_eq!(T::parse(name), Ok(*value));
            assert_eq!(value.name(), *name);
        }
        assert!(T::parse("no such name").unwrap_err().contains(&format!(": {}", T::allowed())));
        assert!(T::parse("").is_err());
    }

    #[test]
    fn names_read_as_they_are_written() {
        check::<Architecture>();
        check::<Events>();
        check::<Coalesce>();
        check::<LogLevel>();
        check::<Sends>();
        check::<Stages>();
        check::<Accepting>();
        check::<Loads>();
        check::<Symlinks>();
        check::<LogFormat>();
        check::<Uploads>();
        check::<WhenBehind>();
    }

    #[test]
    fn the_docs_have_the_drawing_of_each_architecture() {
        let page = include_str!("../../../../docs/schematics.md");
        for design in &DESIGNED {
            let section = format!("\n## {}\n", design.name);
            assert!(page.contains(&section) && page.contains(design.schematic), "{}", design.name);
            let widest = design.schematic.lines().map(|line| line.chars().count()).max();
            assert!(widest.is_some_and(|widest| widest > 0 && widest <= 76), "{}", design.name);
        }
    }

    #[test]
    fn each_architecture_is_described() {
        let described = DESIGNED.map(|design| (design.name, design.built));
        assert_eq!(described, Architecture::NAMES);
    }

    #[test]
    fn a_missing_ring_has_a_cause_and_a_remedy() {
        for (error, remedy) in
            [(1, "seccomp"), (12, "RLIMIT_MEMLOCK"), (38, "Linux 6.10"), (22, "Linux 6.10")]
        {
            let told = no_ring(&std::io::Error::from_raw_os_error(error));
            assert!(told.contains(remedy) && told.contains(&format!("os error {error}")), "{told}");
        }
    }
}
