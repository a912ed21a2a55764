//! Where requests are logged, and how.

use std::path::PathBuf;

/// How requests are logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLogSettings {
    /// Where the lines go.
    pub target: LogTarget,
    /// What a line looks like.
    pub format: LogFormat,
    /// What to do when the disk does not keep up.
    pub when_full: WhenBehind,
}

impl AccessLogSettings {
    /// The defaults for a log that goes there.
    pub(in crate::config) fn to(target: LogTarget) -> Self {
        let format = if target == LogTarget::Terminal { LogFormat::Short } else { LogFormat::Combined };
        Self { target, format, when_full: WhenBehind::default() }
    }
}

/// Where lines of the access log go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LogTarget {
    /// Appended to this file, which is made if it is missing.
    File(PathBuf),
    /// Standard output.
    Stdout,
    /// The terminal that the server is watched on.
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
    /// One JSON object a line (see docs/manual.md), all of it printable ASCII. Bytes that are not UTF-8
    /// become U+FFFD.
    Json,
    /// `10:00:00Z 200       2326 B     17 ms  127.0.0.1  GET /index.html`, for who watches. Bytes are escaped
    /// as in [`Combined`](Self::Combined), and no more of the target is shown than a line or two have room
    /// for.
    Short,
}

/// What to do with lines when the writer has fallen behind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhenBehind {
    /// Drop new lines and count them: serving goes first.
    #[default]
    Drop,
    /// Wait until the writer has caught up: no line is lost, but a slow disk stops the worker.
    Wait,
}
