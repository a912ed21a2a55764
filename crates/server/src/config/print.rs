//! Settings as a TOML file that yields the same settings.

use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use super::address::ListenAddress;
use super::names::Named;
use super::settings::{
    AcceptLimit, AccessLogSettings, ErrorLog, HeaderRule, LogFormat, LogTarget, PlacementSettings, Settings,
    SocketFileSettings, WhenBehind,
};
use super::units;

/// Writes all settings, with a comment where nothing is set. (A path that is not UTF-8 cannot be said in
/// TOML.)
pub(super) fn print(settings: &Settings) -> String {
    let mut page = Page(String::new());
    top(&mut page, settings);
    placement(&mut page, &settings.placement);
    socket_file(&mut page, "[unix_sockets]", &settings.unix_sockets);
    socket_file(&mut page, "[status_socket]", &settings.status_socket);
    event_and_tcp(&mut page, settings);
    limits_and_timeouts(&mut page, settings);
    files(&mut page, settings);
    page.0
}

fn top(page: &mut Page, settings: &Settings) {
    page.text("root", &path(&settings.files.root));
    page.list("listen", settings.listen.iter().map(address));
    page.text("architecture", settings.architecture.name());
    page.line("workers", settings.workers);
    page.line("copies", settings.copies);
    page.text("copies_by", settings.copies_by.name());
    page.text_or("cpus", settings.cpus.as_deref().map(units::cpus), "whatever the kernel chooses");
    let events = settings.architecture.is_event_driven().then(|| settings.event.mechanism.name().to_owned());
    page.text_or("events", events, "there is no event loop");
    page.text("wake", settings.event.wake.name());
    match settings.event.accept_limit {
        AcceptLimit::Limit(limit) => page.line("accept_limit", limit),
        AcceptLimit::Unlimited => page.text("accept_limit", "inf"),
        AcceptLimit::Auto => page.text("accept_limit", "auto"),
    }
    page.text("send", settings.send.name());
    page.line("backlog", settings.connections.backlog);
    page.line_or("max_connections", settings.connections.max, "what the descriptor limit leaves room for");
    page.size("small_file", u64::from(settings.files.small_file));
    page.text("coalesce", settings.event.coalesce.name());
    page.line("listing", settings.files.listing);
    let (target, format, when_full) = match &settings.access_log {
        None => ("off".to_owned(), LogFormat::default(), WhenBehind::default()),
        Some(AccessLogSettings { target: LogTarget::Stdout, format, when_full }) => {
            ("-".to_owned(), *format, *when_full)
        }
        Some(AccessLogSettings { target: LogTarget::Terminal, format, when_full }) => {
            ("terminal".to_owned(), *format, *when_full)
        }
        Some(AccessLogSettings { target: LogTarget::File(file), format, when_full }) => {
            (path(file), *format, *when_full)
        }
    };
    page.text("access_log", &target);
    page.text("log_format", format.name());
    page.text("log_when_full", when_full.name());
    match &settings.error_log {
        ErrorLog::Stderr => page.text("error_log", "stderr"),
        ErrorLog::File(file) => page.text("error_log", &path(file)),
    }
    page.text("log_level", settings.log_level.name());
    page.text("status", &settings.status.as_ref().map_or("off".to_owned(), address));
    page.text_or("user", settings.user.clone(), "whoever starts the server");
    page.text_or("group", settings.group.clone(), "that of the user");
    page.time("drain_timeout", settings.drain_timeout);
}

fn placement(page: &mut Page, placement: &PlacementSettings) {
    page.table("[placement]");
    page.list("cpus", placement.cpus.iter().map(|cpus| units::cpus(cpus)));
    page.text("mapping", placement.mapping.name());
    page.line("partition", placement.partition);
}

fn socket_file(page: &mut Page, table: &str, file: &SocketFileSettings) {
    page.table(table);
    page.text("mode", &format!("0{:03o}", file.mode));
    page.text_or("owner", file.owner.clone(), "whoever starts the server");
    page.text_or("group", file.group.clone(), "that of whoever starts the server");
}

fn event_and_tcp(page: &mut Page, settings: &Settings) {
    page.table("[event]");
    page.line("work_phase_skips_new", settings.event.work_phase_skips_new);
    page.size("quantum", settings.event.quantum);
    page.time("send_hold", settings.event.send_hold);
    page.table("[amped]");
    page.line("helpers", settings.amped.helpers);
    page.time("disk_timeout", settings.amped.disk_timeout);
    page.table("[tcp]");
    page.line("nodelay", settings.connections.nodelay);
    match settings.connections.send_buffer {
        Some(bytes) => page.size("send_buffer", u64::from(bytes)),
        None => page.line_or("send_buffer", None::<NonZeroU32>, "what the kernel adapts it to"),
    }
    match settings.connections.defer_accept {
        Some(time) => page.time("defer_accept", time),
        None => page.line_or("defer_accept", None::<NonZeroU32>, "accepted when established"),
    }
}

fn limits_and_timeouts(page: &mut Page, settings: &Settings) {
    let limits = &settings.limits;
    page.table("[limits]");
    page.line("requests_per_connection", settings.connections.requests);
    page.size("request_line", u64::from(limits.request_line));
    page.size("header_size", u64::from(limits.header_size));
    page.line("header_count", limits.header_count);
    page.size("body", limits.body);
    page.line("ranges", limits.ranges);

    let timeouts = &settings.timeouts;
    page.table("[timeouts]");
    page.time("header", timeouts.header);
    page.time("body", timeouts.body);
    page.size("body_min_rate", u64::from(timeouts.body_min_rate));
    page.time("write", timeouts.write);
    page.size("write_min_rate", u64::from(timeouts.write_min_rate));
    page.time("idle", timeouts.idle);
    page.time("linger", timeouts.linger);
}

fn files(page: &mut Page, settings: &Settings) {
    let files = &settings.files;
    page.table("[files]");
    page.list("index", files.index.iter().cloned());
    page.line("listing_names", files.listing_names);
    page.line("dotfiles", files.dotfiles);
    page.text("symlinks", files.symlinks.name());
    page.line("precompressed", files.precompressed);
    page.time("validity", files.validity);
    page.line("max_open", files.max_open);
    page.size("memory", files.memory);
    page.text("charset", files.charset.as_deref().unwrap_or("off"));
    if !files.types.is_empty() {
        page.table("[types]");
        for (extension, media_type) in &files.types {
            page.text(&key(extension), media_type);
        }
    }
    if !files.error_pages.is_empty() {
        page.table("[error_pages]");
        for (status, file) in &files.error_pages {
            page.text(&status.to_string(), file);
        }
    }
    for rule in &files.headers {
        header_rule(page, rule);
    }
}

fn header_rule(page: &mut Page, rule: &HeaderRule) {
    page.table("[[headers]]");
    if let Some(pattern) = &rule.path {
        page.text("path", pattern.glob());
    }
    if let Some(pattern) = &rule.media_type {
        page.text("media_type", pattern.glob());
    }
    if let Some(expires) = rule.expires {
        page.time("expires", expires);
    }
    let fields = rule.set.iter().map(|(name, value)| format!("{} = {}", key(name), quoted(value)));
    page.line("set", format!("{{ {} }}", fields.collect::<Vec<_>>().join(", ")));
}

/// TOML in the making.
struct Page(String);

impl Page {
    fn table(&mut self, header: &str) {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(self.0, "\n{header}");
    }

    fn line(&mut self, key: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{key} = {value}");
    }

    fn line_or(&mut self, key: &str, value: Option<impl std::fmt::Display>, otherwise: &str) {
        match value {
            Some(value) => self.line(key, value),
            None => {
                let _ = writeln!(self.0, "# {key} is not set: {otherwise}");
            }
        }
    }

    fn text(&mut self, key: &str, value: &str) {
        self.line(key, quoted(value));
    }

    fn text_or(&mut self, key: &str, value: Option<String>, otherwise: &str) {
        self.line_or(key, value.map(|value| quoted(&value)), otherwise);
    }

    fn list(&mut self, key: &str, values: impl Iterator<Item = String>) {
        let values: Vec<_> = values.map(|value| quoted(&value)).collect();
        self.line(key, format!("[{}]", values.join(", ")));
    }

    /// A size; below a kibibyte a number, which is bytes.
    fn size(&mut self, key: &str, bytes: u64) {
        let size = units::size(bytes);
        if size.contains(' ') { self.text(key, &size) } else { self.line(key, size) }
    }

    fn time(&mut self, key: &str, time: Duration) {
        self.text(key, &units::time(time));
    }
}

fn address(address: &ListenAddress) -> String {
    address.to_string()
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A key, in quotes if it needs them.
fn key(key: &str) -> String {
    let bare = key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare && !key.is_empty() { key.to_owned() } else { quoted(key) }
}
