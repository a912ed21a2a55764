//! The keys of access logs: the common one, and those that sites have of their own.

use super::key::{Field, one};
use super::settings::{AccessLogSettings, LogFormat, LogTarget, WhenBehind};
use super::typed::Item;
use super::values::{Kind, one_of, quoted, quoted_path, text, unless_off};

/// Where the common log goes.
pub(super) fn common(log: &mut Option<AccessLogSettings>) -> Field<'_> {
    one(log, unless_off(target()))
}

/// Where a site's goes, which begins as the common one.
pub(super) fn of_site(log: &mut Option<AccessLogSettings>) -> Field<'_> {
    let before = log.clone();
    let written = one(log, unless_off(target())).written;
    let read = move |item: &Item| {
        one(log, unless_off(target())).set(item)?;
        // What is said of lines for a terminal is not meant for others.
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

/// What a line looks like.
pub(super) fn format(log: &mut Option<AccessLogSettings>) -> Field<'_> {
    match log {
        Some(log) => one(&mut log.format, one_of()),
        None => Field::without_use(one_of::<LogFormat>()),
    }
}

/// What is done when the disk does not keep up.
pub(super) fn when_full(log: &mut Option<AccessLogSettings>) -> Field<'_> {
    match log {
        // Who stops a terminal means to read it, and not to stop the server.
        Some(log) if log.target == LogTarget::Terminal => Field {
            written: one(&mut log.when_full, one_of()).written,
            ..Field::without_use(one_of::<WhenBehind>())
        },
        Some(log) => one(&mut log.when_full, one_of()),
        None => Field::without_use(one_of::<WhenBehind>()),
    }
}

/// Where requests are logged; the format follows from it.
fn target() -> Kind<AccessLogSettings> {
    let write = |log: &AccessLogSettings| match &log.target {
        LogTarget::Stdout => quoted("-"),
        LogTarget::Terminal => quoted("terminal"),
        LogTarget::File(file) => quoted_path(file),
    };
    Kind::new(write, |item| {
        let target = match text(item)?.as_str() {
            "-" => LogTarget::Stdout,
            "terminal" => LogTarget::Terminal,
            path => LogTarget::File(item.absolute(path)?),
        };
        Ok(AccessLogSettings::to(target))
    })
}
