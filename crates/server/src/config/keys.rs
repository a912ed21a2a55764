//! The table of keys. Each row says where a key stands, how it is read into the settings and printed from
//! them, and, if it is an option of the command line as well, how people are told about it.
//!
//! A new key is a row here, a field of the settings with its default, and a row in `docs/configuration.md`.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::headers;
use super::key::Key;
use super::names::Named;
use super::settings::{
    AcceptLimit, AccessLogSettings, Architecture, Coalesce, CopiesBy, ErrorLog, Events, FileSettings,
    LogFormat, LogLevel, LogTarget, Sends, Wake, WhenBehind,
};
use super::units;
use super::values::{
    accept_limit, account, address, addresses, charset, count, cpus, error_log, error_page, file_name, flag,
    log_target, mode, one_of, path, set, set_each, set_pairs, set_some, size, time, unless_off, up_to,
};
use super::written;

/// The keys that are options of the command line, in the order in which people should read of them.
pub fn options() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(|key| !key.value.is_empty())
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Bounds of a client's timeouts: from one tick to what ticks can tell apart with ease.
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_hours(24);
/// Bounds of a rate in bytes per second.
const RATE: RangeInclusive<u64> = 0..=GIB;

/// All keys but those of `[[headers]]`, table by table, in the order in which they are read and printed: what
/// a default follows from comes first.
pub(super) const KEYS: &[Key] = &[
    Key {
        name: "root",
        value: "DIR",
        help: "The directory to serve",
        default: "the current one",
        read: |s, item| set(&mut s.files.root, item, path),
        print: |s| Some(written::path(&s.files.root)),
        ..Key::NONE
    },
    Key {
        name: "listen",
        value: "ADDR:PORT|unix:PATH",
        help: "Where clients connect; may be repeated. :PORT is every address of this machine, \
               localhost:PORT both that it has for itself; port 0 picks a free one",
        repeats: true,
        read: |s, item| {
            let mut listen = Vec::new();
            set_each(&mut listen, item, addresses)?;
            s.listen = listen.concat();
            Ok(())
        },
        print: |s| Some(written::list(s.listen.iter().map(ToString::to_string))),
        ..Key::under("Listening")
    },
    Key {
        name: "backlog",
        value: "N",
        help: "How many connections may wait to be accepted, as far as net.core.somaxconn allows",
        read: |s, item| set(&mut s.connections.backlog, item, count(1..=i32::MAX as u64)),
        print: |s| Some(written::plain(s.connections.backlog)),
        ..Key::under("Listening")
    },
    Key {
        name: "max_connections",
        value: "N",
        help: "Most connections at a time; beyond it new ones wait in the backlog",
        unset: "what the descriptor limit leaves room for",
        read: |s, item| {
            let number = |item: &_| up_to(u32::MAX)(item).map(|max| NonZeroUsize::try_from(max).ok());
            set(&mut s.connections.max, item, number)
        },
        print: |s| s.connections.max.map(written::plain),
        ..Key::under("Listening")
    },
    Key {
        name: "architecture",
        value: "NAME",
        help: "How concurrency is organised; `sluice architectures` explains",
        names: Architecture::names,
        read: |s, item| {
            set(&mut s.architecture, item, one_of)?;
            s.send = s.architecture.usual_sends();
            s.event.wake = s.architecture.usual_wake();
            Ok(())
        },
        print: |s| Some(written::text(s.architecture.name())),
        ..Key::under("Concurrency")
    },
    Key {
        name: "workers",
        value: "N",
        help: "What the architecture multiplies; sped and n-copy take 1 only",
        default: "one for each CPU; with processes and threads 64",
        read: |s, item| set(&mut s.workers, item, count(1..=1024)),
        print: |s| Some(written::plain(s.workers)),
        ..Key::under("Concurrency")
    },
    Key {
        name: "copies",
        value: "N",
        help: "Complete copies of the architecture, each with workers and listeners of its own, pinned",
        default: "1; with n-copy one for each CPU",
        read: |s, item| set(&mut s.copies, item, count(1..=1024)),
        print: |s| Some(written::plain(s.copies)),
        ..Key::under("Concurrency")
    },
    Key {
        name: "copies_by",
        value: "HOW",
        help: "How copies come by listeners of their own: address, port, reuseport or cpu",
        names: CopiesBy::names,
        read: |s, item| set(&mut s.copies_by, item, one_of),
        print: |s| Some(written::text(s.copies_by.name())),
        ..Key::under("Concurrency")
    },
    Key {
        name: "cpus",
        value: "LIST",
        help: "Run on these CPUs alone, such as 0-3,8",
        unset: "whatever the kernel chooses",
        read: |s, item| set_some(&mut s.cpus, item, cpus),
        print: |s| Some(written::text(&units::cpus(s.cpus.as_ref()?))),
        ..Key::under("Concurrency")
    },
    Key {
        name: "events",
        value: "MECHANISM",
        help: "How to learn what is ready: epoll (edge-triggered), epoll-level, poll or select",
        names: Events::names,
        unset: "there is no event loop",
        read: |s, item| set(&mut s.event.mechanism, item, one_of),
        print: |s| s.architecture.is_event_driven().then(|| written::text(s.event.mechanism.name())),
        ..Key::under("Concurrency")
    },
    Key {
        name: "wake",
        value: "POLICY",
        help: "Which of several processes at a listener a connection wakes: all, or with epoll exclusive \
               (one) or re-adding (one, by turns)",
        names: Wake::names,
        read: |s, item| set(&mut s.event.wake, item, one_of),
        print: |s| Some(written::text(s.event.wake.name())),
        ..Key::under("Concurrency")
    },
    Key {
        name: "accept_limit",
        value: "N|inf|auto",
        help: "Most connections accepted before the others are served again: a number, inf, or auto (as \
               their delay asks for)",
        read: |s, item| set(&mut s.event.accept_limit, item, accept_limit),
        print: |s| {
            Some(match s.event.accept_limit {
                AcceptLimit::Limit(limit) => written::plain(limit),
                AcceptLimit::Unlimited => written::text("inf"),
                AcceptLimit::Auto => written::text("auto"),
            })
        },
        ..Key::under("Concurrency")
    },
    Key {
        name: "send",
        value: "HOW",
        help: "Whether sends wait for the client: non-blocking, or blocking, when one call sends a whole \
               file",
        default: "non-blocking; with processes and threads blocking",
        names: Sends::names,
        read: |s, item| set(&mut s.send, item, one_of),
        print: |s| Some(written::text(s.send.name())),
        ..Key::under("Concurrency")
    },
    Key {
        name: "listing",
        value: "BOOL",
        help: "List directories that have no index file",
        names: || vec!["true", "false"],
        read: |s, item| set(&mut s.files.listing, item, flag),
        print: |s| Some(written::plain(s.files.listing)),
        ..Key::under("Files")
    },
    Key {
        name: "small_file",
        value: "SIZE",
        help: "Up to this size a file is sent from memory, such as \"16 KiB\"",
        read: |s, item| set(&mut s.files.small_file, item, size(0..=16 * MIB)),
        print: |s| Some(written::size(s.files.small_file)),
        ..Key::under("Files")
    },
    Key {
        name: "coalesce",
        value: "HOW",
        help: "What keeps head and file together in packets: auto, more (a flag of send), cork (a socket \
               option) or none",
        names: Coalesce::names,
        read: |s, item| set(&mut s.event.coalesce, item, one_of),
        print: |s| Some(written::text(s.event.coalesce.name())),
        ..Key::under("Files")
    },
    Key {
        name: "access_log",
        value: "FILE|-|terminal|off",
        help: "Log requests to a file, to standard output (-), to the terminal if it is one (terminal), or \
               not at all (off)",
        read: |s, item| {
            let log = |item: &_| log_target(item).map(AccessLogSettings::to);
            set(&mut s.access_log, item, unless_off(log))
        },
        print: |s| {
            Some(match s.access_log.as_ref().map(|log| &log.target) {
                None => written::text("off"),
                Some(LogTarget::Stdout) => written::text("-"),
                Some(LogTarget::Terminal) => written::text("terminal"),
                Some(LogTarget::File(file)) => written::path(file),
            })
        },
        ..Key::under("Logs and status")
    },
    Key {
        name: "log_format",
        value: "FORMAT",
        help: "The format of the access log: combined, json or short",
        default: "combined; on a terminal short",
        names: LogFormat::names,
        read: |s, item| match &mut s.access_log {
            Some(log) => set(&mut log.format, item, one_of),
            None => set(&mut LogFormat::default(), item, one_of),
        },
        print: |s| Some(written::text(s.access_log.as_ref()?.format.name())),
        ..Key::under("Logs and status")
    },
    Key {
        name: "log_when_full",
        value: "drop|wait",
        help: "When the disk cannot keep up with the access log: drop lines and count them, or wait",
        names: WhenBehind::names,
        read: |s, item| match &mut s.access_log {
            // Who stops a terminal means to read it, and not to stop the server.
            Some(log) if log.target != LogTarget::Terminal => set(&mut log.when_full, item, one_of),
            _ => set(&mut WhenBehind::default(), item, one_of),
        },
        print: |s| Some(written::text(s.access_log.as_ref()?.when_full.name())),
        ..Key::under("Logs and status")
    },
    Key {
        name: "error_log",
        value: "FILE|stderr",
        help: "Report errors to a file or to stderr",
        read: |s, item| set(&mut s.error_log, item, error_log),
        print: |s| {
            Some(match &s.error_log {
                ErrorLog::Stderr => written::text("stderr"),
                ErrorLog::File(file) => written::path(file),
            })
        },
        ..Key::under("Logs and status")
    },
    Key {
        name: "log_level",
        value: "LEVEL",
        help: "The least severe errors reported: error, warn, info, debug or trace",
        names: LogLevel::names,
        read: |s, item| set(&mut s.log_level, item, one_of),
        print: |s| Some(written::text(s.log_level.name())),
        ..Key::under("Logs and status")
    },
    Key {
        name: "status",
        value: "ADDR:PORT|unix:PATH|off",
        help: "Serve counters to `sluice status` and to Prometheus at an address of their own",
        read: |s, item| set(&mut s.status, item, unless_off(address)),
        print: |s| Some(written::text(&s.status.as_ref().map_or("off".to_owned(), ToString::to_string))),
        ..Key::under("Logs and status")
    },
    Key {
        name: "user",
        value: "NAME",
        help: "Become this user when the addresses are bound",
        unset: "whoever starts the server",
        read: |s, item| set_some(&mut s.user, item, account),
        print: |s| Some(written::text(s.user.as_ref()?)),
        ..Key::under("Process")
    },
    Key {
        name: "group",
        value: "NAME",
        help: "Become this group as well",
        unset: "the login group of the user",
        read: |s, item| set_some(&mut s.group, item, account),
        print: |s| Some(written::text(s.group.as_ref()?)),
        ..Key::under("Process")
    },
    Key {
        name: "drain_timeout",
        value: "TIME",
        help: "How long requests in progress may take after TERM, INT or QUIT, such as \"500 ms\" or \
               \"1 min\"",
        read: |s, item| set(&mut s.drain_timeout, item, time(Duration::ZERO..=Duration::from_hours(24))),
        print: |s| Some(written::time(s.drain_timeout)),
        ..Key::under("Process")
    },
    // These are tables, which `print` writes below all others.
    Key {
        name: "types",
        read: |s, item| set_pairs(&mut s.files.types, item, headers::media_type_of_extension),
        ..Key::NONE
    },
    Key {
        name: "error_pages",
        read: |s, item| {
            let FileSettings { root, error_pages, .. } = &mut s.files;
            set_pairs(error_pages, item, |status, item| error_page(root, status, item))
        },
        ..Key::NONE
    },
    Key { name: "headers", read: |s, item| headers::read(&mut s.files.headers, item), ..Key::NONE },
    Key {
        name: "cpus",
        read: |s, item| set_each(&mut s.placement.cpus, item, cpus),
        print: |s| Some(written::list(s.placement.cpus.iter().map(|cpus| units::cpus(cpus)))),
        ..Key::of("placement")
    },
    Key {
        name: "mapping",
        read: |s, item| set(&mut s.placement.mapping, item, one_of),
        print: |s| Some(written::text(s.placement.mapping.name())),
        ..Key::of("placement")
    },
    Key {
        name: "partition",
        read: |s, item| set(&mut s.placement.partition, item, flag),
        print: |s| Some(written::plain(s.placement.partition)),
        ..Key::of("placement")
    },
    Key {
        name: "mode",
        read: |s, item| set(&mut s.unix_sockets.mode, item, mode),
        print: |s| Some(written::mode(s.unix_sockets.mode)),
        ..Key::of("unix_sockets")
    },
    Key {
        name: "owner",
        unset: "whoever starts the server",
        read: |s, item| set_some(&mut s.unix_sockets.owner, item, account),
        print: |s| Some(written::text(s.unix_sockets.owner.as_ref()?)),
        ..Key::of("unix_sockets")
    },
    Key {
        name: "group",
        unset: "that of whoever starts the server",
        read: |s, item| set_some(&mut s.unix_sockets.group, item, account),
        print: |s| Some(written::text(s.unix_sockets.group.as_ref()?)),
        ..Key::of("unix_sockets")
    },
    Key {
        name: "mode",
        read: |s, item| set(&mut s.status_socket.mode, item, mode),
        print: |s| Some(written::mode(s.status_socket.mode)),
        ..Key::of("status_socket")
    },
    Key {
        name: "owner",
        unset: "whoever starts the server",
        read: |s, item| set_some(&mut s.status_socket.owner, item, account),
        print: |s| Some(written::text(s.status_socket.owner.as_ref()?)),
        ..Key::of("status_socket")
    },
    Key {
        name: "group",
        unset: "that of whoever starts the server",
        read: |s, item| set_some(&mut s.status_socket.group, item, account),
        print: |s| Some(written::text(s.status_socket.group.as_ref()?)),
        ..Key::of("status_socket")
    },
    Key {
        name: "work_phase_skips_new",
        read: |s, item| set(&mut s.event.work_phase_skips_new, item, flag),
        print: |s| Some(written::plain(s.event.work_phase_skips_new)),
        ..Key::of("event")
    },
    Key {
        name: "quantum",
        read: |s, item| set(&mut s.event.quantum, item, size(4 * KIB..=GIB)),
        print: |s| Some(written::size(s.event.quantum)),
        ..Key::of("event")
    },
    Key {
        name: "send_hold",
        read: |s, item| {
            set(&mut s.event.send_hold, item, time(Duration::from_millis(10)..=Duration::from_hours(1)))
        },
        print: |s| Some(written::time(s.event.send_hold)),
        ..Key::of("event")
    },
    Key {
        name: "helpers",
        read: |s, item| set(&mut s.amped.helpers, item, up_to(256)),
        print: |s| Some(written::plain(s.amped.helpers)),
        ..Key::of("amped")
    },
    Key {
        name: "disk_timeout",
        read: |s, item| set(&mut s.amped.disk_timeout, item, time(TIMEOUT)),
        print: |s| Some(written::time(s.amped.disk_timeout)),
        ..Key::of("amped")
    },
    Key {
        name: "nodelay",
        read: |s, item| set(&mut s.connections.nodelay, item, flag),
        print: |s| Some(written::plain(s.connections.nodelay)),
        ..Key::of("tcp")
    },
    Key {
        name: "send_buffer",
        unset: "what the kernel adapts it to",
        read: |s, item| set_some(&mut s.connections.send_buffer, item, size(4 * KIB..=GIB)),
        print: |s| Some(written::size(s.connections.send_buffer?)),
        ..Key::of("tcp")
    },
    Key {
        name: "defer_accept",
        unset: "accepted when established",
        read: |s, item| {
            let bounds = Duration::from_secs(1)..=Duration::from_mins(1);
            set_some(&mut s.connections.defer_accept, item, time(bounds))
        },
        print: |s| Some(written::time(s.connections.defer_accept?)),
        ..Key::of("tcp")
    },
    Key {
        name: "requests_per_connection",
        read: |s, item| set(&mut s.connections.requests, item, up_to(u32::MAX)),
        print: |s| Some(written::plain(s.connections.requests)),
        ..Key::of("limits")
    },
    Key {
        name: "request_line",
        read: |s, item| set(&mut s.limits.request_line, item, size(256..=MIB)),
        print: |s| Some(written::size(s.limits.request_line)),
        ..Key::of("limits")
    },
    Key {
        name: "header_size",
        read: |s, item| set(&mut s.limits.header_size, item, size(KIB..=MIB)),
        print: |s| Some(written::size(s.limits.header_size)),
        ..Key::of("limits")
    },
    Key {
        name: "header_count",
        read: |s, item| {
            set(&mut s.limits.header_count, item, count(1..=u64::from(http1::Limits::MAX_FIELDS)))
        },
        print: |s| Some(written::plain(s.limits.header_count)),
        ..Key::of("limits")
    },
    Key {
        name: "body",
        read: |s, item| set(&mut s.limits.body, item, size(0..=1024 * GIB)),
        print: |s| Some(written::size(s.limits.body)),
        ..Key::of("limits")
    },
    Key {
        name: "ranges",
        read: |s, item| set(&mut s.limits.ranges, item, count(1..=http1::range::MAX_RANGES as u64)),
        print: |s| Some(written::plain(s.limits.ranges)),
        ..Key::of("limits")
    },
    Key {
        name: "header",
        read: |s, item| set(&mut s.timeouts.header, item, time(TIMEOUT)),
        print: |s| Some(written::time(s.timeouts.header)),
        ..Key::of("timeouts")
    },
    Key {
        name: "body",
        read: |s, item| set(&mut s.timeouts.body, item, time(TIMEOUT)),
        print: |s| Some(written::time(s.timeouts.body)),
        ..Key::of("timeouts")
    },
    Key {
        name: "body_min_rate",
        read: |s, item| set(&mut s.timeouts.body_min_rate, item, size(RATE)),
        print: |s| Some(written::size(s.timeouts.body_min_rate)),
        ..Key::of("timeouts")
    },
    Key {
        name: "write",
        read: |s, item| set(&mut s.timeouts.write, item, time(TIMEOUT)),
        print: |s| Some(written::time(s.timeouts.write)),
        ..Key::of("timeouts")
    },
    Key {
        name: "write_min_rate",
        read: |s, item| set(&mut s.timeouts.write_min_rate, item, size(RATE)),
        print: |s| Some(written::size(s.timeouts.write_min_rate)),
        ..Key::of("timeouts")
    },
    Key {
        name: "idle",
        read: |s, item| set(&mut s.timeouts.idle, item, time(TIMEOUT)),
        print: |s| Some(written::time(s.timeouts.idle)),
        ..Key::of("timeouts")
    },
    Key {
        name: "linger",
        read: |s, item| set(&mut s.timeouts.linger, item, time(TIMEOUT)),
        print: |s| Some(written::time(s.timeouts.linger)),
        ..Key::of("timeouts")
    },
    Key {
        name: "index",
        read: |s, item| set_each(&mut s.files.index, item, file_name),
        print: |s| Some(written::list(s.files.index.iter().cloned())),
        ..Key::of("files")
    },
    Key {
        name: "listing_names",
        read: |s, item| set(&mut s.files.listing_names, item, count(1..=1 << 16)),
        print: |s| Some(written::plain(s.files.listing_names)),
        ..Key::of("files")
    },
    Key {
        name: "dotfiles",
        read: |s, item| set(&mut s.files.dotfiles, item, flag),
        print: |s| Some(written::plain(s.files.dotfiles)),
        ..Key::of("files")
    },
    Key {
        name: "symlinks",
        read: |s, item| set(&mut s.files.symlinks, item, one_of),
        print: |s| Some(written::text(s.files.symlinks.name())),
        ..Key::of("files")
    },
    Key {
        name: "precompressed",
        read: |s, item| set(&mut s.files.precompressed, item, flag),
        print: |s| Some(written::plain(s.files.precompressed)),
        ..Key::of("files")
    },
    Key {
        name: "validity",
        read: |s, item| set(&mut s.files.validity, item, time(Duration::ZERO..=Duration::from_hours(1))),
        print: |s| Some(written::time(s.files.validity)),
        ..Key::of("files")
    },
    Key {
        name: "max_open",
        read: |s, item| set(&mut s.files.max_open, item, up_to(u32::MAX)),
        print: |s| Some(written::plain(s.files.max_open)),
        ..Key::of("files")
    },
    Key {
        name: "memory",
        read: |s, item| set(&mut s.files.memory, item, size(0..=1024 * GIB)),
        print: |s| Some(written::size(s.files.memory)),
        ..Key::of("files")
    },
    Key {
        name: "charset",
        read: |s, item| set(&mut s.files.charset, item, unless_off(charset)),
        print: |s| Some(written::text(s.files.charset.as_deref().unwrap_or("off"))),
        ..Key::of("files")
    },
];
