//! Lines of access logs: the combined format of Apache, nginx and `sluice`, and the JSON lines of `sluice`.
//!
//! Quoted fields of the combined format hold escapes, or a client could end them. nginx and `sluice` write
//! `\x22` for a quote, and the same for backslashes, control characters and whatever is beyond ASCII. Apache
//! writes `\"`, `\\`, letters as in C (`\n`), and `\x8f` for the others. None of them writes a backslash that
//! begins no escape, so one reader understands them all.
//!
//! The time of a line is when the request was read, as Apache and `sluice` have it, or when its reply had
//! ended: nginx's.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::strtime;

/// A line that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The client's address.
    pub client: Vec<u8>,
    /// What it says it is; empty where the log does not have it.
    pub agent: Vec<u8>,
    /// When it asked, or was answered; `None`: the text is no time.
    pub time: Option<Timestamp>,
    /// From then to the end of the reply, where the log has it.
    pub duration: Duration,
    /// The request's first word; empty or `-` where no request could be read.
    pub method: Vec<u8>,
    /// What was asked for, as it was sent; empty where no request could be read.
    pub target: Vec<u8>,
}

/// Reads a line.
///
/// # Errors
///
/// Why it is none.
pub fn line(text: &[u8]) -> Result<Line, &'static str> {
    if text.starts_with(b"{") {
        json(text)
    } else {
        combined(text).ok_or("neither the combined format nor JSON")
    }
}

/// `address - user [time] "METHOD target VERSION" status bytes "referer" "agent"`, the last two of which may
/// be missing.
fn combined(line: &[u8]) -> Option<Line> {
    let (client, rest) = split_at(line, b" ")?;
    let (user_and_time, rest) = split_at(rest, b"] \"")?;
    let time =
        user_and_time.rsplit(|byte| *byte == b'[').next().filter(|time| time.len() < user_and_time.len())?;
    let time = strtime::parse("%d/%b/%Y:%H:%M:%S %z", time).and_then(|time| time.to_timestamp());
    let (request, rest) = quoted(rest)?;
    let next = |rest| split_at(rest, b"\"").and_then(|(_, rest)| quoted(rest));
    let agent = next(rest).and_then(|(_referer, rest)| next(rest)).map(|(agent, _)| agent);
    let (method, target) = method_and_target(&request);
    Some(Line {
        client: client.to_owned(),
        agent: agent.unwrap_or_default(),
        time: time.ok(),
        duration: Duration::ZERO,
        method: method.to_owned(),
        target: target.to_owned(),
    })
}

fn json(line: &[u8]) -> Result<Line, &'static str> {
    let object: serde_json::Value =
        serde_json::from_slice(line).map_err(|_| "no JSON, although it begins like it")?;
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    // What other servers are told to write as JSON has the request line in one piece, often.
    let (method, target) = match object["request"].as_str() {
        Some(request) if object["target"].is_null() => method_and_target(request.as_bytes()),
        _ => (text("method").as_bytes(), text("target").as_bytes()),
    };
    Ok(Line {
        client: text("remote").into(),
        agent: text("user_agent").into(),
        time: text("time").parse().ok(),
        duration: Duration::from_millis(object["duration_ms"].as_u64().unwrap_or(0)),
        method: method.to_owned(),
        target: target.to_owned(),
    })
}

/// Of a request line, whose last word is the version unless the request was of HTTP/0.9.
fn method_and_target(request: &[u8]) -> (&[u8], &[u8]) {
    let Some((method, rest)) = split_at(request, b" ") else { return (request, b"") };
    let version = rest.rsplit(|byte| *byte == b' ').next().filter(|word| word.starts_with(b"HTTP/"));
    let target = version.map_or(rest, |version| &rest[..(rest.len() - version.len()).saturating_sub(1)]);
    (method, target)
}

/// What a quoted field says, whose quote has been opened, and what follows it.
fn quoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut field = Vec::new();
    let mut rest = text;
    loop {
        let (&byte, after) = rest.split_first()?;
        match byte {
            b'"' => return Some((field, after)),
            b'\\' => {
                let (byte, length) = escaped(after);
                field.push(byte);
                rest = &after[length..];
            }
            _ => {
                field.push(byte);
                rest = after;
            }
        }
    }
}

/// What a backslash before that text stands for, and how much of the text belongs to it: nothing, if it
/// begins no escape.
fn escaped(text: &[u8]) -> (u8, usize) {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    match text {
        [b'x', high, low, ..] if let (Some(high), Some(low)) = (digit(high), digit(low)) => {
            (high << 4 | low, 3)
        }
        [byte @ (b'"' | b'\\'), ..] => (*byte, 1),
        [b'n', ..] => (b'\n', 1),
        [b'r', ..] => (b'\r', 1),
        [b't', ..] => (b'\t', 1),
        [b'b', ..] => (0x08, 1),
        [b'v', ..] => (0x0b, 1),
        _ => (b'\\', 0),
    }
}

/// What is before the first `mark`, and after it.
fn split_at<'a>(text: &'a [u8], mark: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = text.windows(mark.len()).position(|window| window == mark)?;
    Some((&text[..at], &text[at + mark.len()..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As nginx does by default, and `sluice`.
    fn with_digits(text: &[u8]) -> String {
        let escape = |&byte: &u8| match byte {
            b'"' | b'\\' | ..0x20 | 0x7f.. => format!("\\x{byte:02X}"),
            _ => char::from(byte).to_string(),
        };
        text.iter().map(escape).collect()
    }

    /// As Apache does (`ap_escape_logitem`).
    fn with_letters(text: &[u8]) -> String {
        let escape = |&byte: &u8| match byte {
            b'"' | b'\\' => format!("\\{}", char::from(byte)),
            b'\n' => "\\n".to_owned(),
            b'\r' => "\\r".to_owned(),
            b'\t' => "\\t".to_owned(),
            0x08 => "\\b".to_owned(),
            0x0b => "\\v".to_owned(),
            ..0x20 | 0x7f.. => format!("\\x{byte:02x}"),
            _ => char::from(byte).to_string(),
        };
        text.iter().map(escape).collect()
    }

    fn read(text: &str) -> Line {
        line(text.as_bytes()).unwrap_or_else(|reason| panic!("{text}: {reason}"))
    }

    #[test]
    fn a_line_of_each_server_is_understood() {
        let expected = Line {
            client: b"192.0.2.7".to_vec(),
            agent: b"say \"hi\" \\o/".to_vec(),
            time: Some("2026-11-20T10:00:00Z".parse().unwrap()),
            duration: Duration::ZERO,
            method: b"GET".to_vec(),
            target: b"/?q=\"a\"".to_vec(),
        };
        let apache = concat!(
            r#"192.0.2.7 - - [20/Nov/2026:11:00:00 +0100] "GET /?q=\"a\" HTTP/1.1" 200 5 "#,
            r#""http://x/\"" "say \"hi\" \\o/""#
        );
        assert_eq!(read(apache), expected);
        // Users are the client's word, too; and nginx's own example of a log_format goes on behind the agent.
        let nginx = concat!(
            r#"192.0.2.7 - a [b] [20/Nov/2026:10:00:00 +0000] "GET /?q=\x22a\x22 HTTP/2.0" 200 5 "#,
            r#""-" "say \x22hi\x22 \x5Co/" "10.0.0.1""#
        );
        assert_eq!(read(nginx), expected);
        let ours = concat!(
            r#"{"time":"2026-11-20T10:00:00Z","remote":"192.0.2.7","method":"GET","#,
            r#""target":"/?q=\u0022a\u0022","duration_ms":7,"user_agent":"say \u0022hi\u0022 \u005co/"}"#
        );
        assert_eq!(read(ours), Line { duration: Duration::from_millis(7), ..expected });
    }

    #[test]
    fn what_a_line_does_not_have_is_empty() {
        let common = read(r#"10.0.0.1 - - [x] "GET /a" 200 5"#);
        assert_eq!((common.target, common.agent, common.time), (b"/a".to_vec(), Vec::new(), None));
        let unread = read(r#"10.0.0.1 - - [20/Nov/2026:10:00:00 +0000] "-" 400 0 "-" "-""#);
        assert_eq!((unread.method, unread.target), (b"-".to_vec(), Vec::new()));
        let unread = read(r#"{"time":"2026-11-20T10:00:00.25Z","method":null,"target":null}"#);
        assert_eq!((unread.method, unread.target), (Vec::new(), Vec::new()));
        assert_eq!(unread.time, Some("2026-11-20T10:00:00.25Z".parse().unwrap()));
        assert_eq!(read(r#"{"request":"GET /a HTTP/1.1"}"#).target, b"/a");
        for text in ["", "x", "rubbish x", "a - - x] \"GET / HTTP/1.1\"", "a - - [x] \"GET / HTTP/1.1", "{"] {
            assert!(line(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_backslash_that_begins_no_escape_stands_for_itself() {
        assert_eq!(quoted(br"\q\x2\xg0\"), None, "it is not closed");
        assert_eq!(quoted(br#"\q\x2\xg0"x"#), Some((br"\q\x2\xg0".to_vec(), b"x".as_slice())));
    }

    proptest! {
        #[test]
        fn whatever_a_client_says_comes_back(
            target in proptest::collection::vec(any::<u8>(), 0..20),
            referer in proptest::collection::vec(any::<u8>(), 0..20),
            agent in proptest::collection::vec(any::<u8>(), 0..20),
            apache: bool,
        ) {
            let escape = if apache { with_letters } else { with_digits };
            let (shown, referer, user) = (escape(&target), escape(&referer), escape(&agent));
            let text = format!(
                "::1 - {user} [20/Nov/2026:10:00:00 +0000] \"GET {shown} HTTP/1.1\" 200 5 \"{referer}\" \
                 \"{user}\""
            );
            let line = read(&text);
            prop_assert_eq!((line.target, line.agent), (target, agent));
            prop_assert_eq!(line.time, Some("2026-11-20T10:00:00Z".parse().unwrap()));
        }

        #[test]
        fn nothing_panics(
            text in "([\\[\\]\"\\\\x2 {}:,a-]|\\[20/Nov/2026:10:00:00 \\+0000\\]|\"GET /|HTTP/1.1\"){0,40}",
        ) {
            let _ = line(text.as_bytes());
        }
    }
}
