//! The formats of an access log line: the *combined* format of Apache and nginx, one JSON object, or a
//! short form for a terminal.
//!
//! A line that has been begun consists of the text before the outcome, the text after it, and the length
//! of the first part:
//!
//! ```text
//! 127.0.0.1 - - [20/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" | "-" "curl/7.88" | length of the first part
//! ```

use std::io::Write as _;

use http1::{Field, Fields, Head};
use sys::socket::PeerAddress;

use super::trace;
use crate::config::LogFormat;
use crate::dates::rfc3339;
use crate::ip_text::IpText;
use crate::proxies::origin::Origin;
use crate::secured::Facts;

/// Most bytes of a target in a short line.
const SHOWN: usize = 120;

/// An upper bound for the length of the outcome.
pub(super) const OUTCOME_ROOM: usize = 96;

/// The end of a JSON line.
const JSON_END: &[u8] = b"}\n";

/// The offset of the text after the outcome. It is stored in the last bytes of a begun line.
type Split = u32;

/// Writes both texts of a line, and the offset where the first one ends. `head` is `None` if the
/// request's head could not be read.
pub(super) fn begin(
    format: LogFormat,
    line: &mut Vec<u8>,
    peer: &PeerAddress,
    head: Option<&Head<'_>>,
    time: &str,
) {
    line.clear();
    let fields = head.map_or(Fields::default(), |head| head.fields);
    let split = match format {
        LogFormat::Combined => {
            push_peer(line, peer);
            line.extend_from_slice(b" - - [");
            line.extend_from_slice(time.as_bytes());
            line.extend_from_slice(b"] \"");
            match head {
                Some(head) => {
                    line.extend_from_slice(head.method.name().as_bytes());
                    line.push(b' ');
                    push_escaped(line, head.target);
                    line.push(b' ');
                    line.extend_from_slice(head.terms.version.name().as_bytes());
                }
                None => line.push(b'-'),
            }
            line.extend_from_slice(b"\" ");
            let split = line.len();
            line.extend_from_slice(b" \"");
            push_escaped(line, fields.get(Field::Referer).unwrap_or(b"-"));
            line.extend_from_slice(b"\" \"");
            push_escaped(line, fields.get(Field::UserAgent).unwrap_or(b"-"));
            line.extend_from_slice(b"\"\n");
            split
        }
        LogFormat::Json => {
            line.extend_from_slice(b"{\"time\":\"");
            line.extend_from_slice(time.as_bytes());
            line.extend_from_slice(b"\",\"remote\":\"");
            push_peer(line, peer);
            line.push(b'"');
            if let Some(head) = head {
                line.extend_from_slice(b",\"method\":\"");
                line.extend_from_slice(head.method.name().as_bytes());
                line.extend_from_slice(b"\",\"target\":");
                push_json_string(line, head.target);
                line.extend_from_slice(b",\"version\":\"");
                line.extend_from_slice(head.terms.version.name().as_bytes());
                line.push(b'"');
            } else {
                line.extend_from_slice(b",\"method\":null,\"target\":null,\"version\":null");
            }
            let split = line.len();
            for (name, value) in
                [("referer", fields.get(Field::Referer)), ("user_agent", fields.get(Field::UserAgent))]
            {
                line.extend_from_slice(b",\"");
                line.extend_from_slice(name.as_bytes());
                line.extend_from_slice(b"\":");
                match value {
                    Some(value) => push_json_string(line, value),
                    None => line.extend_from_slice(b"null"),
                }
            }
            if let Some(parent) = fields.sole(Field::Traceparent).and_then(trace::well_formed) {
                line.extend_from_slice(b",\"traceparent\":\"");
                line.extend_from_slice(parent);
                line.push(b'"');
            }
            line.extend_from_slice(JSON_END);
            split
        }
        LogFormat::Short => {
            line.extend_from_slice(time.as_bytes());
            line.push(b' ');
            let split = line.len();
            line.extend_from_slice(b"  ");
            push_peer(line, peer);
            line.extend_from_slice(b"  ");
            match head {
                Some(head) => {
                    line.extend_from_slice(head.method.name().as_bytes());
                    line.push(b' ');
                    push_escaped(line, &head.target[..head.target.len().min(SHOWN)]);
                    if head.target.len() > SHOWN {
                        line.extend_from_slice(b"...");
                    }
                }
                None => line.push(b'-'),
            }
            line.push(b'\n');
            split
        }
    };
    line.extend_from_slice(&(split as Split).to_le_bytes());
}

/// Adds the time in the accept queue to a begun line, if the format has this value.
pub(super) fn add_accept(format: LogFormat, line: &mut Vec<u8>, waited_ms: u32) {
    // Writing to a Vec can't fail, here and below.
    add(format, line, |line| drop(write!(line, ",\"accept_ms\":{waited_ms}")));
}

/// Adds the origin that a proxy stated for the request to a begun line, if the format has it.
pub(super) fn add_origin(format: LogFormat, line: &mut Vec<u8>, origin: &Origin) {
    add(format, line, |line| {
        if let Some(scheme) = origin.scheme() {
            drop(write!(line, ",\"scheme\":\"{scheme}\""));
        }
        if let Some(host) = &origin.host {
            line.extend_from_slice(b",\"host\":");
            push_json_string(line, host);
        }
        if let Some(port) = origin.port {
            drop(write!(line, ",\"port\":{port}"));
        }
    });
}

/// Adds what a TLS handshake has established to a begun line, if the format has it.
pub(super) fn add_tls(format: LogFormat, line: &mut Vec<u8>, facts: &Facts) {
    add(format, line, |line| {
        let Facts { version, cipher, server_name, is_resumed } = facts;
        drop(write!(line, ",\"tls\":{{\"version\":\"{version}\",\"cipher\":\"{cipher}\""));
        if let Some(name) = server_name {
            line.extend_from_slice(b",\"server_name\":");
            push_json_string(line, name.as_bytes());
        }
        drop(write!(line, ",\"resumed\":{is_resumed}}}"));
    });
}

/// Adds the values about the application to a begun line, if the format has them.
pub(super) fn add_application(
    format: LogFormat,
    line: &mut Vec<u8>,
    pool: &str,
    queue_ms: u64,
    application_ms: u64,
) {
    add(format, line, |line| {
        line.extend_from_slice(b",\"pool\":");
        push_json_string(line, pool.as_bytes());
        drop(write!(line, ",\"queue_ms\":{queue_ms},\"application_ms\":{application_ms}"));
    });
}

/// Adds members to a begun line of JSON.
fn add(format: LogFormat, line: &mut Vec<u8>, members: impl FnOnce(&mut Vec<u8>)) {
    let Some((text, &split)) = line.split_last_chunk::<{ size_of::<Split>() }>() else { return };
    if let (LogFormat::Json, Some(open)) = (format, text.strip_suffix(JSON_END)) {
        line.truncate(open.len());
        members(line);
        line.extend_from_slice(JSON_END);
        line.extend_from_slice(&split);
    }
}

/// Appends the complete line to `out`.
pub(super) fn end(
    format: LogFormat,
    out: &mut Vec<u8>,
    begun: &[u8],
    status: u16,
    body_bytes: u64,
    duration_ms: u64,
) {
    let Some((text, split)) = begun.split_last_chunk::<{ size_of::<Split>() }>() else { return };
    let (before, after) = text.split_at(Split::from_le_bytes(*split) as usize);
    let mut numbers = itoa::Buffer::new();
    out.extend_from_slice(before);
    match format {
        LogFormat::Combined => {
            out.extend_from_slice(numbers.format(status).as_bytes());
            out.push(b' ');
            out.extend_from_slice(numbers.format(body_bytes).as_bytes());
        }
        LogFormat::Json => {
            out.extend_from_slice(b",\"status\":");
            out.extend_from_slice(numbers.format(status).as_bytes());
            out.extend_from_slice(b",\"bytes\":");
            out.extend_from_slice(numbers.format(body_bytes).as_bytes());
            out.extend_from_slice(b",\"duration_ms\":");
            out.extend_from_slice(numbers.format(duration_ms).as_bytes());
        }
        // Writing to a Vec can't fail.
        LogFormat::Short => drop(write!(out, "{status} {body_bytes:10} B {duration_ms:6} ms")),
    }
    out.extend_from_slice(after);
}

/// The time in a line's format. The text is made once per second.
#[derive(Debug, Default)]
pub(super) struct TimeText {
    second: Option<u64>,
    text: String,
}

impl TimeText {
    /// The text for `unix_secs`.
    pub(super) fn at(&mut self, format: LogFormat, unix_secs: u64) -> &str {
        if self.second != Some(unix_secs) {
            self.second = Some(unix_secs);
            self.text.clear();
            push_time(&mut self.text, format, unix_secs);
        }
        &self.text
    }
}

fn push_time(text: &mut String, format: LogFormat, unix_secs: u64) {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let time = rfc3339(unix_secs);
    let (year, day, clock) = (&time[..4], &time[8..10], &time[11..19]);
    match format {
        LogFormat::Combined => {
            let month = time[5..7].parse().map_or("", |month: usize| MONTHS[month - 1]);
            text.extend([day, "/", month, "/", year, ":", clock, " +0000"]);
        }
        LogFormat::Short => text.extend([clock, "Z"]),
        LogFormat::Json => text.push_str(&time),
    }
}

fn push_peer(line: &mut Vec<u8>, peer: &PeerAddress) {
    let PeerAddress::Inet(address) = peer else { return line.extend_from_slice(b"unix:") };
    line.extend_from_slice(IpText::of(address.ip()).as_bytes());
}

/// Writes `\xHH` for bytes that could end the quoted string, or that could mislead a terminal or a log
/// reader.
fn push_escaped(line: &mut Vec<u8>, text: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    if is_plain(text) {
        return line.extend_from_slice(text);
    }
    for &byte in text {
        if is_plain_byte(byte) {
            line.push(byte);
        } else {
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            line.extend_from_slice(&[b'\\', b'x', high, low]);
        }
    }
}

/// Writes `\uXXXX` (RFC 8259 section 7) for the same bytes. Beyond ASCII this also covers hidden control
/// characters and line ends.
fn push_json_string(line: &mut Vec<u8>, text: &[u8]) {
    line.push(b'"');
    if is_plain(text) {
        line.extend_from_slice(text);
    } else {
        for unit in String::from_utf8_lossy(text).encode_utf16() {
            match u8::try_from(unit) {
                Ok(byte) if is_plain_byte(byte) => line.push(byte),
                // Writing to a Vec can't fail.
                _ => drop(write!(line, "\\u{unit:04x}")),
            }
        }
    }
    line.push(b'"');
}

/// Whether every byte is written unchanged in both formats. The loop has no early exit, so that it
/// compiles to vector instructions.
fn is_plain(text: &[u8]) -> bool {
    text.iter().fold(0, |odd, &byte| odd | u8::from(!is_plain_byte(byte))) == 0
}

/// Printable ASCII except quotes and backslashes.
fn is_plain_byte(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}
