//! Where requests are logged, and how.

use std::path::PathBuf;

/// How requests are logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLogSettings {
    /// Where the lines go.
    pub target: LogTarget,
    /// What a line looks like.
    pub format: LogFormat,
    /// What happens when the disk is too slow.
    pub when_full: WhenBehind,
}

impl AccessLogSettings {
    /// The defaults for a log with this target.
    pub(in crate::config) fn to(target: LogTarget) -> Self {
        let format = if target == LogTarget::Terminal { LogFormat::Short } else { LogFormat::Combined };
        Self { target, format, when_full: WhenBehind::default() }
    }
}

/// Where lines of the access log go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LogTarget {
    /// Appended to this file, which is created if it is missing.
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// The terminal that the operator watches the server on.
    Terminal,
}

/// What a line of the access log looks like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `%h - - [%t] "%r" %>s %B "%{Referer}i" "%{User-agent}i"` of Apache's `mod_log_config`, which is
    /// nginx's predefined `combined`. Bytes that could mislead a reader (quotes, backslashes, controls,
    /// anything beyond ASCII) are written `\xHH`, as nginx does.
    #[default]
    Combined,
    /// One JSON object per line (see docs/manual.md), in printable ASCII only. Bytes that are not UTF-8
    /// become U+FFFD.
    Json,
    /// `10:00:00Z 200       2326 B     17 ms  127.0.0.1  GET /index.html`, for watching on a terminal.
    /// Bytes are escaped as in [`Combined`](Self::Combined). The target is shortened to fit on a line or
    /// two.
    Short,
}

/// What happens to new lines when the writer has fallen behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhenBehind {
    /// They are dropped and counted: serving takes priority.
    #[default]
    Drop,
    /// The worker waits until the writer has caught up. No line is lost, but a slow disk stops the
    /// worker.
    Wait,
}
