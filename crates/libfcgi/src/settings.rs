//! Settings from the environment: the operator sets them, and the application does not know of them.

use std::ffi::OsString;
use std::io;
use std::sync::OnceLock;

use fastcgi::Transports;

/// The transports that the library offers to a web server that asks.
pub(crate) const TRANSPORTS: &str = "SLUICE_FCGI_TRANSPORTS";

/// How replies are sent on passed descriptors.
pub(crate) const SEND: &str = "SLUICE_FCGI_SEND";

/// How large pieces of a reply are sent on a passed descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Send {
    /// The kernel copies them.
    Copy,
    /// The kernel takes them from where they are, and reports when it no longer needs them.
    ZeroCopy,
}

/// Settings of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) transports: Transports,
    pub(crate) send: Send,
}

/// All transports that the library supports.
const ALL: Transports = Transports { pass_fd: true, shared_memory: true, waits: true };

impl Settings {
    /// Returns the settings of this process. They are read from the environment only the first time, because
    /// a program may change it later, as `FCGI_Accept` does.
    ///
    /// # Errors
    ///
    /// A setting has an invalid value.
    pub(crate) fn of_process() -> io::Result<Self> {
        static SETTINGS: OnceLock<Result<Settings, String>> = OnceLock::new();
        let read = || Settings::read(|name| std::env::var_os(name));
        SETTINGS
            .get_or_init(read)
            .clone()
            .map_err(|message| io::Error::new(io::ErrorKind::InvalidInput, message))
    }

    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, String> {
        let transports = match variable(TRANSPORTS) {
            None => ALL,
            Some(value) => transports(&value.to_string_lossy())?,
        };
        let send = match variable(SEND) {
            None => Send::Copy,
            Some(value) => match &*value.to_string_lossy() {
                "copy" => Send::Copy,
                "zerocopy" => Send::ZeroCopy,
                other => {
                    return Err(format!("{SEND} is {other:?}; allowed: \"copy\" and \"zerocopy\""));
                }
            },
        };
        Ok(Self { transports, send })
    }
}

/// Parses names of transports, separated by spaces or commas.
fn transports(value: &str) -> Result<Transports, String> {
    let mut transports = Transports::default();
    for name in value.split([' ', ',']).filter(|name| !name.is_empty()) {
        match name {
            "pass-fd" => transports = Transports { pass_fd: true, waits: true, ..transports },
            "shared-memory" => transports = Transports { shared_memory: true, waits: true, ..transports },
            "none" => {}
            other => {
                return Err(format!(
                    "{TRANSPORTS} names {other:?}; allowed: pass-fd, shared-memory and none"
                ));
            }
        }
    }
    Ok(transports)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: Option<&str>) -> Result<String, String> {
        Settings::read(|name| value.filter(|_| name == TRANSPORTS).map(OsString::from))
            .map(|settings| settings.transports.names())
    }

    #[test]
    fn transports_are_all_or_those_that_are_named() {
        assert_eq!(read(None).unwrap(), "pass-fd shared-memory waits");
        assert_eq!(read(Some("shared-memory,pass-fd")).unwrap(), "pass-fd shared-memory waits");
        assert_eq!(read(Some(" pass-fd ")).unwrap(), "pass-fd waits");
        assert_eq!(read(Some("none")).unwrap(), "");
        assert_eq!(read(Some("")).unwrap(), "");
        assert!(read(Some("pigeon")).unwrap_err().contains("\"pigeon\""));
    }

    #[test]
    fn sends_copy_or_do_not() {
        let read = |value: Option<&str>| {
            Settings::read(|name| value.filter(|_| name == SEND).map(OsString::from))
                .map(|settings| settings.send)
        };
        assert_eq!(read(None), Ok(Send::Copy));
        assert_eq!(read(Some("copy")), Ok(Send::Copy));
        assert_eq!(read(Some("zerocopy")), Ok(Send::ZeroCopy));
        assert!(read(Some("pigeon")).is_err());
    }
}
