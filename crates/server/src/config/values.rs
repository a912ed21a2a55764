//! Kinds of values: each reads a typed value, says what is allowed if it is wrong, and writes a value as
//! TOML.

use std::fmt::{Display, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::address::ListenAddress;
use super::host::HostPattern;
use super::names::Named;
use super::network::{Network, TrustedProxy};
use super::settings::AcceptLimit;
use super::typed::{Item, Value};
use crate::plain::is_plain;

/// A kind of value.
pub(super) struct Kind<T> {
    /// The value in TOML.
    pub(super) write: Box<dyn Fn(&T) -> String>,
    /// Converts what was typed into a value, or says what is wrong.
    pub(super) read: Box<Read<T>>,
}

type Read<T> = dyn Fn(&Item) -> Result<T, String>;

impl<T> Kind<T> {
    pub(super) fn new(
        write: impl Fn(&T) -> String + 'static,
        read: impl Fn(&Item) -> Result<T, String> + 'static,
    ) -> Self {
        Self { write: Box::new(write), read: Box::new(read) }
    }
}

/// Text as a TOML string, with escapes for characters that could mislead a reader.
pub(super) fn quoted(text: &str) -> String {
    if text.chars().all(is_plain) {
        return toml::Value::String(text.to_owned()).to_string();
    }
    let mut quoted = String::from('"');
    for char in text.chars() {
        // Writing to a string can't fail.
        let _ = match char {
            '"' | '\\' => write!(quoted, "\\{char}"),
            char if is_plain(char) => write!(quoted, "{char}"),
            char => write!(quoted, "\\U{:08X}", u32::from(char)),
        };
    }
    quoted + "\""
}

pub(super) fn quoted_path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

/// A key that the operator chose, quoted if necessary, and its text.
pub(super) fn pair(key: &str, text: &str) -> String {
    let bare = key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let key = if bare && !key.is_empty() { key.to_owned() } else { quoted(key) };
    format!("{key} = {}", quoted(text))
}

/// Any text.
pub(super) fn text(item: &Item) -> Result<String, String> {
    match &item.value {
        Value::Text(text) => Ok(text.clone()),
        _ => Err("must be text in quotes".to_owned()),
    }
}

/// Text that `is_right` accepts.
fn text_if(is_right: impl Fn(&str) -> bool + 'static, allowed: &'static str) -> Kind<String> {
    let read = move |item: &Item| {
        let text = text(item)?;
        if is_right(&text) { Ok(text) } else { Err(format!("allowed: {allowed}")) }
    };
    Kind::new(|text: &String| quoted(text), read)
}

/// `true` or `false`.
pub(super) fn flag() -> Kind<bool> {
    Kind::new(bool::to_string, |item| match &item.value {
        Value::Flag(flag) => Ok(*flag),
        // The command line knows only text.
        Value::Text(text) if text == "true" => Ok(true),
        Value::Text(text) if text == "false" => Ok(false),
        _ => Err("allowed: true, false".to_owned()),
    })
}

/// One of the names of `T`.
pub(super) fn one_of<T: Named>() -> Kind<T> {
    Kind::new(|value: &T| quoted(value.name()), |item| T::parse(&text(item).unwrap_or_default()))
}

/// A whole number within bounds.
pub(super) fn count<T: TryFrom<u64> + Display + 'static>(range: RangeInclusive<u64>) -> Kind<T> {
    Kind::new(T::to_string, move |item| {
        let number = match &item.value {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::Text(text) => units::parse_number(text),
            _ => None,
        };
        let allowed = || format!("allowed: a whole number from {} to {}", range.start(), range.end());
        number
            .filter(|number| range.contains(number))
            .and_then(|number| number.try_into().ok())
            .ok_or_else(allowed)
    })
}

/// A whole number from 1 to `most`.
pub(super) fn up_to<T: TryFrom<NonZeroU32> + Display + 'static>(most: u32) -> Kind<T> {
    let count = count::<u32>(1..=u64::from(most));
    Kind::new(T::to_string, move |item| {
        let number = NonZeroU32::new((count.read)(item)?).and_then(|number| number.try_into().ok());
        number.ok_or_else(|| "must not be 0".to_owned())
    })
}

/// A size in bytes within bounds. Below one kibibyte, it is written as a plain number of bytes.
pub(super) fn size<T: TryFrom<u64> + Into<u64> + Copy>(range: RangeInclusive<u64>) -> Kind<T> {
    let write = |bytes: &T| {
        let size = units::print_size((*bytes).into());
        if size.contains(' ') { quoted(&size) } else { size }
    };
    Kind::new(write, move |item| {
        let allowed = || {
            let (least, most) = (units::print_size(*range.start()), units::print_size(*range.end()));
            format!("allowed: a size from {least} to {most}, such as 4096, \"16 KiB\", \"1 MB\"")
        };
        let bytes = match &item.value {
            Value::Integer(bytes) => u64::try_from(*bytes).map_err(|_| allowed())?,
            Value::Text(text) => units::parse_size(text)?,
            _ => return Err(allowed()),
        };
        Some(bytes).filter(|bytes| range.contains(bytes)).and_then(|n| n.try_into().ok()).ok_or_else(allowed)
    })
}

/// A time within bounds, in whole milliseconds, because timers count milliseconds.
pub(super) fn time(range: RangeInclusive<Duration>) -> Kind<Duration> {
    Kind::new(
        |time| quoted(&units::print_time(*time)),
        move |item| {
            let allowed = || {
                let (least, most) = (units::print_time(*range.start()), units::print_time(*range.end()));
                let examples = [Duration::from_millis(500), Duration::from_secs(20), Duration::from_mins(5)];
                let examples = examples.iter().filter(|time| range.contains(*time));
                let examples: Vec<_> = examples.map(|time| quoted(&units::print_time(*time))).collect();
                format!("allowed: a time from {least} to {most}, such as {}", examples.join(", "))
            };
            let time = match &item.value {
                Value::Integer(0) => Duration::ZERO,
                Value::Text(text) => units::parse_time(text)?,
                _ => return Err(allowed()),
            };
            if !time.subsec_micros().is_multiple_of(1_000) {
                return Err("allowed: whole milliseconds".to_owned());
            }
            Some(time).filter(|time| range.contains(time)).ok_or_else(allowed)
        },
    )
}

/// A list of CPUs.
pub(super) fn cpus() -> Kind<Vec<usize>> {
    Kind::new(
        |cpus: &Vec<usize>| quoted(&units::print_cpus(cpus)),
        |item| match &item.value {
            Value::Integer(cpu) => units::parse_cpus(&cpu.to_string()),
            Value::Text(text) => units::parse_cpus(text),
            _ => Err("allowed: numbers and ranges in quotes, such as \"0-3,8\"".to_owned()),
        },
    )
}

/// A network whose proxies are trusted, or Unix sockets.
pub(super) fn trusted_proxy() -> Kind<TrustedProxy> {
    Kind::new(
        |proxy: &TrustedProxy| quoted(&proxy.to_string()),
        |item| match text(item)?.as_str() {
            "unix" => Ok(TrustedProxy::Unix),
            network => Network::parse(network).map(TrustedProxy::Network).ok_or_else(|| {
                "allowed: addresses, networks such as \"10.0.0.0/8\" with nothing behind the prefix, and \
                 \"unix\""
                    .to_owned()
            }),
        },
    )
}

/// A path, made absolute.
pub(super) fn path() -> Kind<PathBuf> {
    Kind::new(|path: &PathBuf| quoted_path(path), |item| item.absolute(&text(item)?))
}

/// `off`, or a value of the given kind.
pub(super) fn unless_off<T: 'static>(kind: Kind<T>) -> Kind<Option<T>> {
    let Kind { write, read } = kind;
    let write = move |value: &Option<T>| value.as_ref().map_or_else(|| quoted("off"), &write);
    Kind::new(write, move |item| match &item.value {
        Value::Text(text) if text == "off" => Ok(None),
        _ => read(item).map(Some).map_err(|what| format!("{what}; or \"off\"")),
    })
}

/// All addresses that this text stands for.
pub(super) fn addresses(item: &Item) -> Result<Vec<ListenAddress>, String> {
    let typed = match &item.value {
        // Other servers take a port alone. The error says what it could mean.
        Value::Integer(port) => port.to_string(),
        _ => text(item)?,
    };
    ListenAddress::parse_all(&typed, |path| item.absolute(path))
}

/// The first of the [`addresses`] that the text stands for.
pub(super) fn address() -> Kind<ListenAddress> {
    Kind::new(
        |address: &ListenAddress| quoted(&address.to_string()),
        |item| Ok(addresses(item)?.swap_remove(0)),
    )
}

/// A name server: an IP address, with a port if it is not 53.
pub(super) fn name_server() -> Kind<SocketAddr> {
    const PORT: u16 = 53;
    Kind::new(
        |server: &SocketAddr| quoted(&server.to_string()),
        |item| {
            let text = text(item)?;
            let alone = || text.parse().map(|ip: IpAddr| SocketAddr::new(ip, PORT));
            let server = text.parse::<SocketAddr>().or_else(|_| alone()).ok();
            let usable = server.filter(|server| server.port() != 0 && !server.ip().is_unspecified());
            usable.ok_or_else(|| {
                "allowed: an IP address, with a port if it is not 53, such as \"127.0.0.1:8600\"".to_owned()
            })
        },
    )
}

pub(super) fn accept_limit() -> Kind<AcceptLimit> {
    const ALLOWED: &str = "allowed: \"inf\", \"auto\", or a whole number from 1 to 4294967295";
    let write = |limit: &AcceptLimit| match limit {
        AcceptLimit::Limit(limit) => limit.to_string(),
        AcceptLimit::Unlimited => quoted("inf"),
        AcceptLimit::Auto => quoted("auto"),
    };
    Kind::new(write, |item| match &item.value {
        Value::Text(text) if text == "inf" => Ok(AcceptLimit::Unlimited),
        Value::Text(text) if text == "auto" => Ok(AcceptLimit::Auto),
        _ => (up_to(u32::MAX).read)(item).map(AcceptLimit::Limit).map_err(|_| ALLOWED.to_owned()),
    })
}

/// A name in the system's user or group database.
pub(super) fn account() -> Kind<String> {
    let usual = |c: char| c.is_ascii_alphanumeric() || "_-.$".contains(c);
    let is_right = move |name: &str| !name.is_empty() && name.chars().all(usual) && !name.starts_with('-');
    text_if(is_right, "a name of the system's user or group database")
}

pub(super) fn file_name() -> Kind<String> {
    let is_right = |name: &str| !matches!(name, "" | "." | "..") && !name.contains(['/', '\0']);
    text_if(is_right, "file names, without a directory")
}

pub(super) fn charset() -> Kind<String> {
    text_if(is_token, "a name such as \"utf-8\"")
}

/// Permission bits in the notation of chmod(1).
pub(super) fn mode() -> Kind<u32> {
    Kind::new(
        |mode| quoted(&format!("0{mode:03o}")),
        |item| {
            let digits = text(item).unwrap_or_default();
            let is_octal =
                (3..=4).contains(&digits.len()) && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
            let mode = if is_octal { u32::from_str_radix(&digits, 8).ok() } else { None };
            mode.filter(|mode| *mode <= 0o777).ok_or_else(|| {
                "allowed: permission bits in quotes, from \"000\" to \"0777\", such as \"0660\"".to_owned()
            })
        },
    )
}

/// A status, and the file that is its error page.
pub(super) fn error_page(root: &Path, status: &str, item: &Item) -> Result<(u16, String), String> {
    let status = units::parse_number(status).filter(|status| (400..=599).contains(status));
    let status = status.ok_or("the key must be a status; allowed: 400 to 599")?;
    let page = path_from_root(item)?;
    let file = root.join(&page[1..]);
    if !file.is_file() {
        return Err(format!("there is no file {}", file.display()));
    }
    Ok((status as u16, page))
}

/// The path of a file relative to the root. The text must begin with a slash.
pub(super) fn path_from_root(item: &Item) -> Result<String, String> {
    let path = text(item)?;
    let inside = path.strip_prefix('/').ok_or("allowed: a path from the root, beginning with /")?;
    if inside.split('/').any(|part| part.is_empty() || part == "." || part == "..") || path.contains('\0') {
        return Err("allowed: a path from the root without empty parts, \".\" and \"..\"".to_owned());
    }
    Ok(path)
}

/// Whether the text is a token (RFC 9110 section 5.6.2).
pub(super) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// A host, or all hosts below one.
pub(super) fn host() -> Kind<HostPattern> {
    const ALLOWED: &str = "allowed: a host without a port, such as \"example.org\" or \"[::1]\", or all \
                           below one, \"*.example.org\"";
    Kind::new(
        |host: &HostPattern| quoted(&host.to_string()),
        |item| HostPattern::parse(&text(item)?).ok_or_else(|| ALLOWED.to_owned()),
    )
}
