//! The keys of logs: the common access log, the sites' own access logs, and the error log.

use super::key::{Field, one};
use super::settings::{AccessLogSettings, ErrorLog, LogFormat, LogTarget, WhenBehind};
use super::typed::{Item, Value};
use super::values::{Kind, one_of, quoted, quoted_path, text};

/// The target of the common log.
pub(super) fn common(log: &mut Option<AccessLogSettings>) -> Field<'_> {
    one(log, unless_off(target()))
}

/// The target of a site's log. The log inherits the common log's settings.
pub(super) fn of_site(log: &mut Option<AccessLogSettings>) -> Field<'_> {
    let before = log.clone();
    let written = one(log, unless_off(target())).written;
    let read = move |item: &Item| {
        one(log, unless_off(target())).set(item)?;
        // The settings of a log on a terminal do not suit other targets.
        let is_like = |before: &&AccessLogSettings| before.target != LogTarget::Terminal;
        if let (Some(own), Some(before)) = (log.as_mut(), before.as_ref().filter(is_like))
            && own.target != LogTarget::Terminal
        {
            (own.format, own.when_full) = (before.format, before.when_full);
        }
        Ok(())
    };
    Field { written, read: Box::new(read) }
}

/// The format of a line.
pub(super) fn format(log: &mut Option<AccessLogSettings>) -> Field<'_> {
    match log {
        Some(log) => one(&mut log.format, one_of()),
        None => Field::without_use(one_of::<LogFormat>()),
    }
}

/// What happens when the disk is too slow.
pub(super) fn when_full(log: &mut Option<AccessLogSettings>) -> Field<'_> {
    match log {
        // An operator who pauses a terminal wants to read it, not to stop the server.
        Some(log) if log.target == LogTarget::Terminal => Field {
            written: one(&mut log.when_full, one_of()).written,
            ..Field::without_use(one_of::<WhenBehind>())
        },
        Some(log) => one(&mut log.when_full, one_of()),
        None => Field::without_use(one_of::<WhenBehind>()),
    }
}

/// No log, or this target. `none` is what other servers call `off`.
fn unless_off(target: Kind<AccessLogSettings>) -> Kind<Option<AccessLogSettings>> {
    let Kind { write, read } = target;
    let write = move |log: &Option<AccessLogSettings>| log.as_ref().map_or_else(|| quoted("off"), &write);
    Kind::new(write, move |item| match &item.value {
        Value::Text(text) if text == "off" || text == "none" => Ok(None),
        // For text, `read` itself already reports what is allowed.
        Value::Text(_) => read(item).map(Some),
        _ => read(item).map(Some).map_err(|what| format!("{what}; or \"off\"")),
    })
}

/// Where errors are reported.
pub(super) fn errors() -> Kind<ErrorLog> {
    let write = |log: &ErrorLog| match log {
        ErrorLog::Stderr => quoted("stderr"),
        ErrorLog::File(file) => quoted_path(file),
    };
    Kind::new(write, |item| match text(item)?.as_str() {
        "stderr" => Ok(ErrorLog::Stderr),
        word => {
            let hint = match Foreign::of(word) {
                None => return item.absolute(word).map(ErrorLog::File),
                Some(Foreign::Off) => {
                    "errors are always reported; log_level = \"error\" reports the fewest, and the file \
                     /dev/null none"
                }
                Some(Foreign::On | Foreign::Stderr) => "allowed: \"stderr\", or a file",
                Some(Foreign::Stdout) => {
                    "allowed: \"stderr\", or a file; for standard output name the file /dev/stdout"
                }
                Some(Foreign::Syslog) => NO_SYSLOG,
            };
            Err(hint_at(hint, word))
        }
    })
}

const NO_SYSLOG: &str = "syslog is not supported; log to standard output or standard error, and let systemd \
    or logger(1) pass it on";

fn hint_at(hint: &str, word: &str) -> String {
    format!("{hint}; a file of that name is \"./{word}\"")
}

/// Words that other servers accept instead of a file. An operator who writes one does not mean a file of
/// that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Foreign {
    Off,
    On,
    Stdout,
    Stderr,
    Syslog,
}

impl Foreign {
    fn of(word: &str) -> Option<Self> {
        let word = word.to_ascii_lowercase();
        Some(match word.as_str() {
            "" | "off" | "none" | "no" | "false" | "null" | "disabled" | "discard" => Self::Off,
            "on" | "yes" | "true" | "default" | "enabled" => Self::On,
            "-" | "stdout" => Self::Stdout,
            "stderr" => Self::Stderr,
            "syslog" | "journal" | "journald" => Self::Syslog,
            _ if word.starts_with("syslog:") => Self::Syslog,
            _ => return None,
        })
    }
}

/// Where requests are logged. The default format depends on this.
fn target() -> Kind<AccessLogSettings> {
    let write = |log: &AccessLogSettings| match &log.target {
        LogTarget::Stdout => quoted("-"),
        LogTarget::Terminal => quoted("terminal"),
        LogTarget::File(file) => quoted_path(file),
    };
    Kind::new(write, |item| {
        let target = match text(item)?.as_str() {
            "-" | "stdout" => LogTarget::Stdout,
            "terminal" => LogTarget::Terminal,
            word => {
                let hint = match Foreign::of(word) {
                    None => return item.absolute(word).map(LogTarget::File).map(AccessLogSettings::to),
                    Some(Foreign::Off) => "to log no requests, say \"off\"",
                    Some(Foreign::On | Foreign::Stdout) => {
                        "say where to: a file, \"-\" for standard output, or \"terminal\""
                    }
                    Some(Foreign::Stderr) => {
                        "allowed: a file, or \"-\" for standard output; for standard error name the file \
                         /dev/stderr"
                    }
                    Some(Foreign::Syslog) => NO_SYSLOG,
                };
                return Err(hint_at(hint, word));
            }
        };
        Ok(AccessLogSettings::to(target))
    })
}
