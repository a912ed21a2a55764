//! The table of keys. Each row says where a key stands, and which setting of which kind it reads. If the
//! key is also a command line option, the row has the option's help text.
//!
//! To add a key, add a row here, a field of the settings with its default, and a row in
//! `docs/configuration.md`.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::files;
use super::key::{Field, Key, each, one, optional, read_each, rules};
use super::logs;
use super::names::Named;
use super::pools;
use super::settings::{
    Architecture, Coalesce, CopiesBy, Events, LogFormat, LogLevel, Sends, Stages, Wake, WhenBehind,
};
use super::values::{
    accept_limit, account, address, addresses, count, cpus, flag, host, mode, name_server, one_of, path,
    size, time, trusted_proxy, unless_off, up_to,
};

/// The keys that are command line options, in the order of the help text.
pub fn options() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(|key| !key.value.is_empty())
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Bounds of a client's timeouts: from one tick to a time that ticks can easily represent.
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_hours(24);
/// Bounds of a rate in bytes per second.
const RATE: RangeInclusive<u64> = 0..=GIB;

/// All keys except those of `[[headers]]`, table by table, in the order in which they are read and
/// printed. A key that a default depends on comes first.
pub(super) const KEYS: &[Key] = &[
    Key {
        name: "root",
        value: "DIR",
        help: "The directory to serve",
        default: "the current one",
        unset: "no request is for a file",
        setting: |s| files::root(&mut s.files),
        ..Key::under("")
    },
    Key {
        name: "listen",
        value: "ADDR:PORT|unix:PATH",
        help: "Where clients connect; may be repeated. :PORT is every address of this machine, \
            localhost:PORT both loopback addresses; port 0 picks a free one",
        repeats: true,
        setting: |s| {
            let written = each(&mut s.plain_addresses(), address()).written;
            // One text may stand for several addresses.
            let read = |item: &_| read_each(item, addresses).map(|several| s.listen = several.concat());
            Field { written, read: Box::new(read) }
        },
        ..Key::under("Listening")
    },
    Key {
        name: "listen_tls",
        value: "ADDR:PORT|unix:PATH",
        help: "Where clients connect that speak TLS (https); may be repeated. Without --listen these are the \
            only addresses",
        default: "none; with --tls-self-signed 127.0.0.1:8443",
        repeats: true,
        setting: |s| {
            let is_said = !s.tls.listen.is_empty();
            let written = each(&mut s.tls.listen, address()).written;
            let read = |item: &_| read_each(item, addresses).map(|several| s.tls.listen = several.concat());
            Field { written, read: Box::new(read) }.written_if(is_said)
        },
        ..Key::under("Listening")
    },
    Key {
        name: "backlog",
        value: "N",
        help: "How many connections may wait to be accepted, as far as net.core.somaxconn allows",
        setting: |s| one(&mut s.connections.backlog, count(1..=i32::MAX as u64)),
        ..Key::under("Listening")
    },
    Key {
        name: "max_connections",
        value: "N",
        help: "Most connections at a time; beyond it new ones wait in the backlog",
        unset: "as many as the descriptor limit leaves room for",
        setting: |s| optional(&mut s.connections.max, up_to(u32::MAX)),
        ..Key::under("Listening")
    },
    Key {
        name: "certificate",
        value: "FILE",
        help: "The certificate chain for TLS, in PEM, the server's own first. Sites may have their own",
        unset: "there is none",
        setting: |s| optional(&mut s.tls.pair.certificate, path()),
        ..Key::under("TLS")
    },
    Key {
        name: "key",
        value: "FILE",
        help: "The private key of the certificate, in PEM",
        unset: "there is none",
        setting: |s| optional(&mut s.tls.pair.key, path()),
        ..Key::under("TLS")
    },
    Key {
        name: "tls_self_signed",
        value: "BOOL",
        help: "Make a certificate at each start, for tests on one machine: browsers warn of it",
        names: || vec!["true", "false"],
        setting: |s| one(&mut s.tls.self_signed, flag()),
        ..Key::under("TLS")
    },
    Key {
        name: "redirect_to_https",
        value: "BOOL",
        help: "Redirect requests that come without TLS to https, except those of ACME for a certificate",
        names: || vec!["true", "false"],
        setting: |s| one(&mut s.tls.redirect, flag()),
        ..Key::under("TLS")
    },
    Key {
        name: "hsts",
        value: "TIME|off",
        help: "Over TLS, ask browsers to use only https for this host for so long, such as \"365 d\"",
        setting: |s| {
            let bounds = Duration::ZERO..=Duration::from_hours(24 * 365 * 10);
            one(&mut s.tls.hsts, unless_off(time(bounds)))
        },
        ..Key::under("TLS")
    },
    Key {
        name: "architecture",
        value: "NAME",
        help: "How concurrency is organised; `sluice architectures` explains",
        names: Architecture::names,
        setting: |s| {
            let written = one(&mut s.architecture, one_of()).written;
            let read = |item: &_| {
                one(&mut s.architecture, one_of()).set(item)?;
                s.send = s.architecture.usual_sends();
                s.event.wake = s.architecture.usual_wake();
                Ok(())
            };
            Field { written, read: Box::new(read) }
        },
        ..Key::under("Concurrency")
    },
    Key {
        name: "workers",
        value: "N",
        help: "What the architecture multiplies; sped and n-copy take 1 only",
        default: "one for each CPU; with processes and threads 64",
        setting: |s| one(&mut s.workers, count(1..=1024)),
        ..Key::under("Concurrency")
    },
    Key {
        name: "copies",
        value: "N",
        help: "Complete copies of the architecture, each with workers and listeners of its own, pinned",
        default: "1; with n-copy one for each CPU",
        setting: |s| one(&mut s.copies, count(1..=1024)),
        ..Key::under("Concurrency")
    },
    Key {
        name: "copies_by",
        value: "HOW",
        help: "How copies get their own listeners: address, port, reuseport or cpu",
        names: CopiesBy::names,
        setting: |s| one(&mut s.copies_by, one_of()),
        ..Key::under("Concurrency")
    },
    Key {
        name: "cpus",
        value: "LIST",
        help: "Run on these CPUs alone, such as 0-3,8",
        unset: "whatever the kernel chooses",
        setting: |s| optional(&mut s.cpus, cpus()),
        ..Key::under("Concurrency")
    },
    Key {
        name: "events",
        value: "MECHANISM",
        help: "How to learn what is ready: epoll (edge-triggered), epoll-level, poll or select",
        names: Events::names,
        unset: "there is no event loop",
        setting: |s| one(&mut s.event.mechanism, one_of()).written_if(s.architecture.asks_for_events()),
        ..Key::under("Concurrency")
    },
    Key {
        name: "wake",
        value: "POLICY",
        help: "Which of several processes at a listener a connection wakes: all, or with epoll exclusive \
            (one) or re-adding (one, in turn)",
        names: Wake::names,
        setting: |s| one(&mut s.event.wake, one_of()),
        ..Key::under("Concurrency")
    },
    Key {
        name: "accept_limit",
        value: "N|inf|auto",
        help: "Most connections accepted before the others are served again: a number, inf, or auto \
            (adapted to their delay)",
        setting: |s| one(&mut s.event.accept_limit, accept_limit()),
        ..Key::under("Concurrency")
    },
    Key {
        name: "send",
        value: "HOW",
        help: "Whether sends wait for the client: non-blocking, or blocking, when one call sends a whole \
               file",
        default: "non-blocking; with processes and threads blocking",
        names: Sends::names,
        setting: |s| one(&mut s.send, one_of()),
        ..Key::under("Concurrency")
    },
    Key {
        name: "stages",
        value: "four|five",
        help: "Of pipeline: whether reading is a stage of its own (five), or a part of polling (four)",
        names: Stages::names,
        setting: |s| one(&mut s.pipeline.stages, one_of()),
        ..Key::under("Concurrency")
    },
    Key {
        name: "readers",
        value: "N",
        help: "Of pipeline: threads that receive requests, for each worker",
        setting: |s| one(&mut s.pipeline.readers, up_to(256)),
        ..Key::under("Concurrency")
    },
    Key {
        name: "writers",
        value: "N",
        help: "Of pipeline: threads that send replies, for each worker",
        setting: |s| one(&mut s.pipeline.writers, up_to(1024)),
        ..Key::under("Concurrency")
    },
    Key {
        name: "controllers",
        value: "BOOL",
        help: "Of pipeline: use as many readers and writers, and batches as large, as the load needs",
        setting: |s| one(&mut s.pipeline.controllers, flag()),
        ..Key::under("Concurrency")
    },
    Key {
        name: "listing",
        value: "BOOL",
        help: "List directories that have no index file",
        names: || vec!["true", "false"],
        setting: |s| files::listing(&mut s.files),
        ..Key::under("Files")
    },
    Key {
        name: "php",
        value: "HOST:PORT|unix:PATH",
        help: "Where PHP-FPM listens, to run the directory's index.php and *.php",
        unset: "PHP is not run",
        setting: |s| optional(&mut s.files.php, pools::application("php")),
        ..Key::under("Files")
    },
    Key {
        name: "proxy",
        value: "HOST:PORT|unix:PATH",
        help: "Where an application that speaks HTTP listens, to answer for what is no file",
        unset: "there is none",
        setting: |s| optional(&mut s.files.proxy, pools::application("proxy")),
        ..Key::under("Files")
    },
    Key {
        name: "small_file",
        value: "SIZE",
        help: "Up to this size a file is sent from memory, such as \"16 KiB\"",
        setting: |s| one(&mut s.files.small_file, size(0..=16 * MIB)),
        ..Key::under("Files")
    },
    Key {
        name: "coalesce",
        value: "HOW",
        help: "What keeps head and file together in packets: auto, more (a flag of send), cork (a socket \
               option) or none",
        names: Coalesce::names,
        setting: |s| one(&mut s.event.coalesce, one_of()),
        ..Key::under("Files")
    },
    Key {
        name: "access_log",
        value: "FILE|-|terminal|off",
        help: "Log requests to a file, to standard output (-), to the terminal if it is one (terminal), or \
               not at all (off, none)",
        setting: |s| logs::common(&mut s.access_log),
        ..Key::under("Logs and status")
    },
    Key {
        name: "log_format",
        value: "FORMAT",
        help: "The format of the access log: combined, json or short",
        default: "combined; on a terminal short",
        names: LogFormat::names,
        setting: |s| logs::format(&mut s.access_log),
        ..Key::under("Logs and status")
    },
    Key {
        name: "log_when_full",
        value: "drop|wait",
        help: "When the disk cannot keep up with the access log: drop lines and count them, or wait",
        names: WhenBehind::names,
        setting: |s| logs::when_full(&mut s.access_log),
        ..Key::under("Logs and status")
    },
    Key {
        name: "error_log",
        value: "FILE|stderr",
        help: "Report errors to a file or to stderr",
        setting: |s| one(&mut s.error_log, logs::errors()),
        ..Key::under("Logs and status")
    },
    Key {
        name: "log_level",
        value: "LEVEL",
        help: "The least severe errors reported: error, warn, info, debug or trace",
        names: LogLevel::names,
        setting: |s| one(&mut s.log_level, one_of()),
        ..Key::under("Logs and status")
    },
    Key {
        name: "status",
        value: "ADDR:PORT|unix:PATH|off",
        help: "Serve counters to `sluice status` and to Prometheus at this separate address",
        setting: |s| one(&mut s.status, unless_off(address())),
        ..Key::under("Logs and status")
    },
    Key {
        name: "status_hosts",
        value: "HOST",
        help: "Answer status requests for this host too, in addition to the address itself and localhost; \
                   may be repeated. *.example.org is every host below that one",
        default: "none",
        repeats: true,
        setting: |s| each(&mut s.status_hosts, host()),
        ..Key::under("Logs and status")
    },
    Key {
        name: "user",
        value: "NAME",
        help: "Become this user when the addresses are bound",
        unset: "the user that starts the server",
        setting: |s| optional(&mut s.user, account()),
        ..Key::under("Process")
    },
    Key {
        name: "group",
        value: "NAME",
        help: "Become this group as well",
        unset: "the login group of the user",
        setting: |s| optional(&mut s.group, account()),
        ..Key::under("Process")
    },
    Key {
        name: "drain_timeout",
        value: "TIME",
        help: "How long requests in progress may take after TERM, INT or QUIT, such as \"500 ms\" or \
               \"1 min\"",
        setting: |s| one(&mut s.drain_timeout, time(Duration::ZERO..=Duration::from_hours(24))),
        ..Key::under("Process")
    },
    // These are tables. `print` writes them after all other keys.
    Key::of("", "types", |s| files::types(&mut s.files)),
    Key::of("", "encodings", |s| files::encodings(&mut s.files)),
    Key::of("", "error_pages", |s| files::error_pages(&mut s.files)),
    Key::of("", "headers", |s| files::header_rules(&mut s.files)),
    Key::of("", "routes", |s| files::route_rules(&mut s.files)),
    Key::of("", "pools", |s| rules(&mut s.pools, Default::default, pools::KEYS, pools::contradictions)),
    Key::of("placement", "cpus", |s| each(&mut s.placement.cpus, cpus())),
    Key::of("placement", "mapping", |s| one(&mut s.placement.mapping, one_of())),
    Key::of("placement", "partition", |s| one(&mut s.placement.partition, flag())),
    Key::of("proxies", "trusted", |s| each(&mut s.trusted_proxies, trusted_proxy())),
    Key::of("proxies", "believe", |s| each(&mut s.believed, one_of())),
    Key::of("proxies", "protocol", |s| {
        let written = each(&mut s.proxy_protocol, address()).written;
        let read = |item: &_| read_each(item, addresses).map(|several| s.proxy_protocol = several.concat());
        Field { written, read: Box::new(read) }
    }),
    Key::of("unix_sockets", "mode", |s| one(&mut s.unix_sockets.mode, mode())),
    Key {
        unset: "the user that starts the server",
        ..Key::of("unix_sockets", "owner", |s| optional(&mut s.unix_sockets.owner, account()))
    },
    Key {
        unset: "the group of the user that starts the server",
        ..Key::of("unix_sockets", "group", |s| optional(&mut s.unix_sockets.group, account()))
    },
    Key::of("status_socket", "mode", |s| one(&mut s.status_socket.mode, mode())),
    Key {
        unset: "the user that starts the server",
        ..Key::of("status_socket", "owner", |s| optional(&mut s.status_socket.owner, account()))
    },
    Key {
        unset: "the group of the user that starts the server",
        ..Key::of("status_socket", "group", |s| optional(&mut s.status_socket.group, account()))
    },
    Key::of("event", "work_phase_skips_new", |s| one(&mut s.event.work_phase_skips_new, flag())),
    Key::of("event", "quantum", |s| one(&mut s.event.quantum, size(4 * KIB..=GIB))),
    Key::of("event", "send_hold", |s| {
        one(&mut s.event.send_hold, time(Duration::from_millis(10)..=Duration::from_hours(1)))
    }),
    Key::of("amped", "helpers", |s| one(&mut s.amped.helpers, up_to(256))),
    Key::of("amped", "disk_timeout", |s| one(&mut s.amped.disk_timeout, time(TIMEOUT))),
    Key::of("amped", "disk_delay", |s| one(&mut s.amped.disk_delay, unless_off(time(TIMEOUT)))),
    Key {
        unset: "one for each connection",
        ..Key::of("user_threads", "threads", |s| optional(&mut s.user_threads.threads, up_to(1 << 20)))
    },
    Key::of("user_threads", "stack", |s| one(&mut s.user_threads.stack, size(32 * KIB..=8 * MIB))),
    Key::of("user_threads", "keep_stack", |s| one(&mut s.user_threads.keep_stack, flag())),
    Key::of("user_threads", "accepting", |s| one(&mut s.user_threads.accepting, one_of())),
    Key::of("user_threads", "helpers_send", |s| one(&mut s.user_threads.helpers_send, flag())),
    Key::of("uring", "loads", |s| one(&mut s.uring.loads, one_of())),
    Key::of("uring", "zero_copy", |s| one(&mut s.uring.zero_copy, flag())),
    Key::of("uring", "registered_sockets", |s| one(&mut s.uring.registered_sockets, flag())),
    Key::of("pipeline", "batch", |s| one(&mut s.pipeline.batch, up_to(1024))),
    Key::of("pipeline", "queue", |s| one(&mut s.pipeline.queue, up_to(1 << 20))),
    Key::of("pipeline", "response_target", |s| {
        one(&mut s.pipeline.response_target, unless_off(time(TIMEOUT)))
    }),
    Key::of("handshakes", "queue", |s| one(&mut s.handshakes.queue, count(1..=1024))),
    Key {
        unset: "0.5, or 5 while they get no time besides",
        ..Key::of("handshakes", "share", |s| optional(&mut s.handshakes.share, up_to(100)))
    },
    Key::of("gateway", "name_servers", |s| each(&mut s.name_servers, name_server())),
    Key::of("gateway", "spool", |s| one(&mut s.spool, path())),
    Key::of("gateway", "spill", |s| one(&mut s.spill, size(0..=GIB))),
    Key::of("gateway", "memory", |s| one(&mut s.gateway_memory, size(0..=GIB))),
    Key {
        unset: "half of the workers",
        ..Key::of("gateway", "waiting_workers", |s| optional(&mut s.waiting_workers, up_to(1024 * 1024)))
    },
    Key::of("tcp", "nodelay", |s| one(&mut s.connections.nodelay, flag())),
    Key {
        unset: "what the kernel adapts it to",
        ..Key::of("tcp", "send_buffer", |s| optional(&mut s.connections.send_buffer, size(4 * KIB..=GIB)))
    },
    Key {
        unset: "accepted when established",
        ..Key::of("tcp", "defer_accept", |s| {
            let bounds = Duration::from_secs(1)..=Duration::from_mins(1);
            optional(&mut s.connections.defer_accept, time(bounds))
        })
    },
    Key::of("limits", "requests_per_connection", |s| one(&mut s.connections.requests, up_to(u32::MAX))),
    Key::of("limits", "request_line", |s| one(&mut s.limits.request_line, size(256..=MIB))),
    Key::of("limits", "header_size", |s| one(&mut s.limits.header_size, size(KIB..=MIB))),
    Key::of("limits", "header_count", |s| {
        one(&mut s.limits.header_count, count(1..=u64::from(http1::Limits::MAX_FIELDS)))
    }),
    Key::of("limits", "body", |s| one(&mut s.limits.body, size(0..=1024 * GIB))),
    Key::of("limits", "ranges", |s| one(&mut s.limits.ranges, count(1..=http1::range::MAX_RANGES as u64))),
    Key::of("limits", "retry_after", |s| {
        let bounds = Duration::from_secs(1)..=Duration::from_hours(24);
        one(&mut s.files.retry_after, unless_off(time(bounds)))
    }),
    Key::of("timeouts", "header", |s| one(&mut s.timeouts.header, time(TIMEOUT))),
    Key::of("timeouts", "body", |s| one(&mut s.timeouts.body, time(TIMEOUT))),
    Key::of("timeouts", "body_min_rate", |s| one(&mut s.timeouts.body_min_rate, size(RATE))),
    Key::of("timeouts", "write", |s| one(&mut s.timeouts.write, time(TIMEOUT))),
    Key::of("timeouts", "write_min_rate", |s| one(&mut s.timeouts.write_min_rate, size(RATE))),
    Key::of("timeouts", "idle", |s| one(&mut s.timeouts.idle, time(TIMEOUT))),
    Key::of("timeouts", "linger", |s| one(&mut s.timeouts.linger, time(TIMEOUT))),
    Key::of("files", "index", |s| files::index(&mut s.files)),
    Key::of("files", "listing_names", |s| files::listing_names(&mut s.files)),
    Key::of("files", "dotfiles", |s| files::dotfiles(&mut s.files)),
    Key::of("files", "symlinks", |s| files::symlinks(&mut s.files)),
    Key::of("files", "precompressed", |s| files::precompressed(&mut s.files)),
    Key::of("files", "validity", |s| {
        one(&mut s.files.validity, time(Duration::ZERO..=Duration::from_hours(1)))
    }),
    Key::of("files", "max_open", |s| one(&mut s.files.max_open, count(0..=u64::from(u32::MAX)))),
    Key::of("files", "header_cache", |s| one(&mut s.files.header_cache, flag())),
    Key::of("files", "memory", |s| one(&mut s.files.memory, size(0..=1024 * GIB))),
    Key::of("files", "charset", |s| files::charset_of_text(&mut s.files)),
];
