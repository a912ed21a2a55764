//! Configuration: from what was typed to [`Settings`].

mod settings;

pub use settings::{
    AcceptLimit, AccessLogSettings, Architecture, Coalesce, ConnectionSettings, ErrorLog, EventSettings,
    Events, FileSettings, HeaderRule, Limits, ListenAddress, LogLevel, Settings, StatusAddress, Symlinks,
    Timeouts,
};
