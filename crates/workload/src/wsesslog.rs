//! Session files in the syntax of httperf's `--wsesslog` (httperf(1)): read, and written.
//!
//! ```text
//! # A line that begins with # is a comment, an empty one ends a session.
//! /index.html think=2.0
//!     /style.css
//!     /logo.png
//! /form method=POST contents="name=value"
//!
//! /another/session timeout=5
//! ```
//!
//! A line that begins at the margin begins a burst; those that are indented belong to it. `think=` is in
//! seconds, belongs to the burst whichever of its lines says it, and is the pause after the burst's last
//! reply. `contents=` is a word, or text in single or double quotes in which `\n`, `\r`, `\t`, `\\`, `\"` and
//! `\'` stand for what they do in C, and a backslash at the end of a line goes on with the next. From the
//! fork of the University of Waterloo come `timeout=` (seconds for the whole reply), `headers=` (more header
//! lines, quoted like contents) and `size=` (of the reply; read and not used). Ours is `upload=`, a body of
//! so many bytes, in place of `contents=`. There is no limit on sessions, where httperf's is 1,000.
//!
//! A comment `#@ 12.345` is one for httperf only. It stands in front of a burst, and says that the burst
//! begins 12.345 s after the file's sessions do: at a session's first burst it is when the session arrives;
//! at others it holds instead of thinking, if the replies before it have come by then. Times don't go back,
//! and either each session says when it arrives, or none does.

use std::io::{self, Write};
use std::time::Duration;

use crate::session::{Builder, Method, NoMethod, Request, SessionLog};
use crate::{fields, target};

/// A session file has a mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct Mistake {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong with it, and what is allowed.
    pub reason: String,
}

/// Seconds of the longest pause or timeout; up to here a number of seconds is exact to the nanosecond.
pub(crate) const LONGEST: f64 = 1e6;

/// What a comment begins with that is a time.
const TIME: &[u8] = b"#@";

/// The latest time in seconds; up to here it is exact to the microsecond, which is what is kept.
pub(crate) const LATEST: f64 = 1e9;

/// Reads a session file.
///
/// # Errors
///
/// The first mistake.
pub fn parse(text: &[u8]) -> Result<SessionLog, Mistake> {
    let mut lines = Lines { rest: text, number: 0 };
    let mut log = Builder::new();
    let mut burst = Burst::default();
    let mut times = Times::default();
    while let Some(line) = lines.next_line() {
        let number = lines.number;
        let mistake = |reason| Mistake { line: number, reason };
        if let Some(time) = line.strip_prefix(TIME) {
            times.say(time.trim_ascii()).map_err(mistake)?;
            continue;
        }
        if line.starts_with(b"#") {
            continue;
        }
        if line.trim_ascii().is_empty() {
            burst.end(&mut log);
            log.end_of_session();
            times.end_session().map_err(mistake)?;
            continue;
        }
        if !line[0].is_ascii_whitespace() {
            burst.end(&mut log);
            burst.at = times.begin_burst().map_err(mistake)?;
        } else if burst.calls.is_empty() {
            let reason = "an indented line belongs to a burst, and none has begun; begin it at the margin";
            return Err(mistake(reason.to_owned()));
        } else if times.said.is_some() {
            return Err(mistake(NO_BURST.to_owned()));
        }
        let (request, think) = call(line, &mut lines).map_err(mistake)?;
        burst.calls.push(request);
        burst.think = think.or(burst.think);
    }
    burst.end(&mut log);
    times.end_session().map_err(|reason| Mistake { line: lines.number, reason })?;
    Ok(log.finish())
}

/// Writes a session file. What is read from it again is the same log.
///
/// # Errors
///
/// Writing failed.
pub fn write(to: &mut impl Write, log: &SessionLog) -> io::Result<()> {
    for session in 0..log.len() {
        if session > 0 {
            writeln!(to)?;
        }
        for burst in log.session(session) {
            if let Some(at) = burst.at {
                writeln!(to, "#@ {}", at.as_secs_f64())?;
            }
            for (place, &call) in burst.calls.iter().enumerate() {
                let indent = if place == 0 { "" } else { "    " };
                write_call(to, indent, &log.requests()[call as usize])?;
                if place == 0
                    && let Some(think) = burst.think
                {
                    write!(to, " think={}", think.as_secs_f64())?;
                }
                writeln!(to)?;
            }
        }
    }
    Ok(())
}

/// The lines that are left.
struct Lines<'a> {
    rest: &'a [u8],
    /// Of the line last taken, from 1.
    number: usize,
}

impl<'a> Lines<'a> {
    fn next_line(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        self.number += 1;
        let end = self.rest.iter().position(|byte| *byte == b'\n').unwrap_or(self.rest.len());
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

#[derive(Default)]
struct Burst {
    calls: Vec<Request>,
    think: Option<Duration>,
    at: Option<Duration>,
}

impl Burst {
    fn end(&mut self, log: &mut Builder) {
        let Self { calls, think, at } = std::mem::take(self);
        if !calls.is_empty() {
            if let Some(at) = at {
                log.at(at);
            }
            for request in calls {
                log.call(request);
            }
            log.end_of_burst(think);
        }
    }
}

/// RFC 9110 section 9.3.8.
pub const NO_BODY: &str = "a TRACE has no body; allowed: TRACE alone, or another method";

/// The most that `upload=` may say, in bytes.
const LONGEST_UPLOAD: usize = 100_000_000;

const NO_BURST: &str = "the #@ before it is not in front of a burst, which begins with a line at the margin";

/// The times that a file says, which don't go back.
#[derive(Default)]
struct Times {
    /// In front of the burst to come.
    said: Option<Duration>,
    /// Of the session's last burst that has one; `None` before a session's first burst.
    session: Option<Duration>,
    /// When the last session arrived.
    arrived: Duration,
    /// Whether sessions say when they arrive, which the first one decides.
    of_all: Option<bool>,
}

impl Times {
    fn say(&mut self, text: &[u8]) -> Result<(), String> {
        if self.said.is_some() {
            return Err(NO_BURST.to_owned());
        }
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
        let number = number.filter(|number| (0.0..=LATEST).contains(number)).ok_or_else(|| {
            let text = String::from_utf8_lossy(text);
            format!("#@ {text} is no time; allowed: seconds from 0 to {LATEST}")
        })?;
        self.said = Some(Duration::from_micros((number * 1e6).round() as u64));
        Ok(())
    }

    /// The time of the burst that begins.
    fn begin_burst(&mut self) -> Result<Option<Duration>, String> {
        let said = self.said.take();
        let of_all = *self.of_all.get_or_insert(said.is_some());
        let before = match self.session {
            None if said.is_some() != of_all => {
                return Err("some sessions have a time (#@) in front of them, and some have none".to_owned());
            }
            Some(_) if said.is_some() && !of_all => {
                return Err("a burst has a time (#@), and its session has none".to_owned());
            }
            None => self.arrived,
            Some(before) => before,
        };
        let at = said.unwrap_or(before);
        if at < before {
            let (at, before) = (at.as_secs_f64(), before.as_secs_f64());
            return Err(format!("times go back: #@ {at} after #@ {before}"));
        }
        if self.session.is_none() {
            self.arrived = at;
        }
        self.session = Some(at);
        Ok(said)
    }

    fn end_session(&mut self) -> Result<(), String> {
        self.session = None;
        self.said.map_or(Ok(()), |_| Err(NO_BURST.to_owned()))
    }
}

/// A request with the thinking that its line asks for.
fn call<'a>(line: &'a [u8], lines: &mut Lines<'a>) -> Result<(Request, Option<Duration>), String> {
    let mut words = Words { line, at: 0 };
    let uri = String::from_utf8_lossy(words.plain_word());
    let mut request = Request { uri: Box::from(&*uri), ..Request::default() };
    let mut think = None;
    while let Some(name) = words.name()? {
        match name {
            "method" => request.method = method(words.plain_word())?,
            "think" => think = Some(seconds("think", words.plain_word(), 0.0)?),
            "timeout" => request.timeout = Some(seconds("timeout", words.plain_word(), 0.001)?),
            "contents" => {
                let contents = words.quoted_word(lines)?;
                if contents.is_empty() {
                    return Err("contents= is empty; leave it out for a request without a body".to_owned());
                }
                request.contents = Some(contents.into());
            }
            "upload" => request.contents = Some(upload(words.plain_word())?),
            "headers" => {
                let headers = words.quoted_word(lines)?;
                request.headers = header_lines(&headers)?.into();
            }
            "size" => drop(words.plain_word()),
            _ => {
                return Err(format!(
                    "unknown {name}=; allowed: method, think, contents, upload, timeout, headers, size"
                ));
            }
        }
    }
    // A server as a whole is asked for its options (RFC 9112 section 3.2.4).
    if request.method != Method::OPTIONS || &*request.uri != "*" {
        target::check(&request.uri)?;
    }
    if request.method == Method::TRACE && request.contents.is_some() {
        return Err(NO_BODY.to_owned());
    }
    Ok((request, think))
}

/// A body of a length, all of one letter.
fn upload(word: &[u8]) -> Result<Box<[u8]>, String> {
    let length = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
    let length = length.filter(|length| (1..=LONGEST_UPLOAD).contains(length)).ok_or_else(|| {
        let word = String::from_utf8_lossy(word);
        format!("upload={word} is no length of a body; allowed: 1 to {LONGEST_UPLOAD} bytes")
    })?;
    Ok(vec![b'x'; length].into())
}

/// The words of a line.
struct Words<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Words<'a> {
    fn skip_space(&mut self) {
        self.at += self.line[self.at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }

    /// What goes to the next blank.
    fn plain_word(&mut self) -> &'a [u8] {
        if self.at == 0 {
            self.skip_space();
        }
        let rest = &self.line[self.at..];
        let length = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// The name before the next `=`; none at the end of the line.
    fn name(&mut self) -> Result<Option<&'a str>, String> {
        self.skip_space();
        let rest = &self.line[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        let length =
            rest.iter().position(|byte| *byte == b'=' || byte.is_ascii_whitespace()).unwrap_or(rest.len());
        let name = String::from_utf8_lossy(&rest[..length]);
        if rest.get(length) != Some(&b'=') {
            return Err(format!("{name} is no argument; allowed: name=value"));
        }
        self.at += length + 1;
        std::str::from_utf8(&rest[..length]).map(Some).map_err(|_| format!("unknown {name}="))
    }

    /// A word, or text in quotes, which may go on in the lines that follow.
    fn quoted_word(&mut self, lines: &mut Lines<'a>) -> Result<Vec<u8>, String> {
        let Some(&quote @ (b'"' | b'\'')) = self.line.get(self.at) else {
            return Ok(self.plain_word().to_vec());
        };
        self.at += 1;
        let mut text = Vec::new();
        loop {
            let Some(&byte) = self.line.get(self.at) else {
                return Err(format!("the quote {} is not closed on this line", char::from(quote)));
            };
            self.at += 1;
            if byte == quote {
                break;
            }
            if byte != b'\\' {
                text.push(byte);
                continue;
            }
            let Some(&escaped) = self.line.get(self.at) else {
                self.line = lines.next_line().ok_or("the file ends in quotes")?;
                self.at = 0;
                continue;
            };
            self.at += 1;
            match escaped {
                b'n' => text.push(b'\n'),
                b'r' => text.push(b'\r'),
                b't' => text.push(b'\t'),
                other => text.push(other),
            }
        }
        match self.line.get(self.at) {
            None => Ok(text),
            Some(byte) if byte.is_ascii_whitespace() => Ok(text),
            Some(_) => Err("text follows closing quotes without a blank".to_owned()),
        }
    }
}

fn method(word: &[u8]) -> Result<Method, String> {
    String::from_utf8_lossy(word).parse().map_err(|error: NoMethod| error.to_string())
}

fn seconds(name: &str, word: &[u8], least: f64) -> Result<Duration, String> {
    let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<f64>().ok());
    let number = number.filter(|number| (least..=LONGEST).contains(number)).ok_or_else(|| {
        format!(
            "{name}={} is no time; allowed: seconds from {least} to {LONGEST}",
            String::from_utf8_lossy(word)
        )
    })?;
    Ok(Duration::from_secs_f64(number))
}

/// Header lines, the last of which need not be ended.
fn header_lines(text: &[u8]) -> Result<String, String> {
    let text = String::from_utf8(text.to_vec()).map_err(|_| "headers= is not UTF-8".to_owned())?;
    let lines = || text.lines().filter(|line| !line.is_empty());
    let names = lines().map(fields::name).collect::<Result<Vec<_>, _>>();
    let names = names.map_err(|error| format!("headers= has {error}"))?;
    if let Some(name) = fields::twice(names) {
        return Err(format!("headers= has {name} twice; allowed: once"));
    }
    Ok(lines().flat_map(|line| [line, "\r\n"]).collect())
}

fn write_call(to: &mut impl Write, indent: &str, request: &Request) -> io::Result<()> {
    write!(to, "{indent}{}", request.uri)?;
    if request.method != Method::GET {
        write!(to, " method={}", request.method.name())?;
    }
    if let Some(timeout) = request.timeout {
        write!(to, " timeout={}", timeout.as_secs_f64())?;
    }
    if !request.headers.is_empty() {
        write_quoted(to, "headers", request.headers.as_bytes())?;
    }
    if let Some(contents) = &request.contents {
        write_quoted(to, "contents", contents)?;
    }
    Ok(())
}

fn write_quoted(to: &mut impl Write, name: &str, text: &[u8]) -> io::Result<()> {
    write!(to, " {name}=\"")?;
    for &byte in text {
        match byte {
            b'\n' => to.write_all(b"\\n")?,
            b'\r' => to.write_all(b"\\r")?,
            b'\t' => to.write_all(b"\\t")?,
            b'\\' => to.write_all(b"\\\\")?,
            b'"' => to.write_all(b"\\\"")?,
            _ => to.write_all(&[byte])?,
        }
    }
    to.write_all(b"\"")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sessions as text: calls of a burst with blanks between, bursts by `|` with their thinking, sessions by
    /// lines.
    fn told(text: &str) -> Result<String, String> {
        let log = parse(text.as_bytes()).map_err(|mistake| mistake.to_string())?;
        let sessions = (0..log.len()).map(|session| {
            let bursts = log.session(session).map(|burst| {
                let calls = burst.calls.iter().map(|&call| log.requests()[call as usize].uri.to_string());
                let think = burst.think.map_or(String::new(), |think| format!(" ~{}", think.as_secs_f64()));
                calls.collect::<Vec<_>>().join(" ") + &think
            });
            bursts.collect::<Vec<_>>().join(" | ")
        });
        Ok(sessions.collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn httperfs_own_example() {
        let text = "# Comment lines start with a # in column 0\n# session definition\n/foo.html think=2.0\n\
                    \t/pict1.gif\n\t/pict2.gif\n/foo2.html method=POST contents='Post data'\n\
                    \t/pict3.gif\n\t/pict4.gif\n\n# another\n\
                    /foo3.html method=POST contents=\"Multiline\\\ndata\"\n/foo4.html method=HEAD\n";
        let expected =
            "/foo.html /pict1.gif /pict2.gif ~2 | /foo2.html /pict3.gif /pict4.gif\n/foo3.html | /foo4.html";
        assert_eq!(told(text).unwrap(), expected);
        let log = parse(text.as_bytes()).unwrap();
        let find = |uri: &str| log.requests().iter().find(|request| &*request.uri == uri).unwrap().clone();
        assert_eq!(find("/foo2.html").contents.as_deref(), Some(b"Post data".as_slice()));
        assert_eq!(find("/foo3.html").contents.as_deref(), Some(b"Multilinedata".as_slice()));
        assert_eq!(find("/foo4.html").method, Method::HEAD);
    }

    #[test]
    fn the_last_think_of_a_burst_holds_wherever_it_stands() {
        assert_eq!(told("/a think=1\n /b think=2\n /c\n/d").unwrap(), "/a /b /c ~2 | /d");
        assert_eq!(
            told("/a\n \n/b\n\n\n\n#x\n/c\r\n").unwrap(),
            "/a\n/b\n/c",
            "blanks end a session, however many"
        );
    }

    #[test]
    fn an_indented_hash_is_no_comment() {
        assert!(told("/a\n #x\n").unwrap_err().starts_with("line 2: #x is no path"));
    }

    #[test]
    fn escapes_headers_and_timeouts() {
        let text =
            "/a contents='it\\'s \\\\ \\\"x\\\"\\t\\r\\n' headers=\"X-A: 1\\r\\nX-B: 2\" timeout=2.5 size=17";
        let log = parse(text.as_bytes()).unwrap();
        let request = &log.requests()[0];
        assert_eq!(request.contents.as_deref(), Some(b"it's \\ \"x\"\t\r\n".as_slice()));
        assert_eq!(&*request.headers, "X-A: 1\r\nX-B: 2\r\n");
        assert_eq!(request.timeout, Some(Duration::from_millis(2500)));
    }

    #[test]
    fn a_body_of_a_length() {
        let log = parse(b"/a method=POST upload=3 think=1").unwrap();
        assert_eq!(log.requests()[0].contents.as_deref(), Some(b"xxx".as_slice()));
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, mistake) in [
            ("\n  /a", "line 2: an indented line belongs to a burst"),
            ("/a\n/b method=B/W", "line 2: method \"B/W\" is no token; allowed: any name of 1 to 64 letters"),
            ("/a method=", "line 1: method \"\" is no token"),
            ("/a method=CONNECT", "line 1: method \"CONNECT\" asks for a tunnel"),
            ("/a think=soon", "line 1: think=soon is no time; allowed: seconds from 0"),
            ("/a think=-1", "line 1: think=-1 is no time"),
            ("/a timeout=0", "line 1: timeout=0 is no time"),
            ("/a think=inf", "line 1: think=inf is no time"),
            ("/a contents=", "line 1: contents= is empty"),
            ("/a contents='x", "line 1: the quote ' is not closed"),
            ("/a contents='x\\", "line 1: the file ends in quotes"),
            ("/a contents='x'y", "line 1: text follows closing quotes"),
            ("/a upload=0", "line 1: upload=0 is no length of a body; allowed: 1 to 100000000 bytes"),
            ("/a upload=1MB", "line 1: upload=1MB is no length"),
            ("/a pace_time=3", "line 1: unknown pace_time=; allowed: method, think"),
            ("/a b", "line 1: b is no argument"),
            ("#@ soon\n/a", "line 1: #@ soon is no time; allowed: seconds from 0 to 1000000000"),
            ("#@ -1\n/a", "line 1: #@ -1 is no time"),
            ("#@ NaN\n/a", "line 1: #@ NaN is no time"),
            ("#@\n/a", "line 1: #@  is no time"),
            ("#@ 5\n/a\n\n#@ 4\n/b", "line 5: times go back: #@ 4 after #@ 5"),
            ("#@ 5\n/a\n#@ 4.5\n/b", "line 4: times go back: #@ 4.5 after #@ 5"),
            ("#@ 5\n/a\n\n/b", "line 4: some sessions have a time"),
            ("/a\n\n#@ 5\n/b", "line 4: some sessions have a time"),
            ("/a\n#@ 5\n/b", "line 3: a burst has a time (#@), and its session has none"),
            ("#@ 5\n/a\n#@ 6\n /b", "line 4: the #@ before it is not in front of a burst"),
            ("#@ 5\n#@ 6\n/a", "line 2: the #@ before it is not in front of a burst"),
            ("#@ 5\n\n/a", "line 2: the #@ before it is not in front of a burst"),
            ("/a\n#@ 5\n", "line 2: the #@ before it is not in front of a burst"),
            ("/\u{e9}", "line 1: /\u{e9} has a character beyond ASCII, which must be percent-encoded"),
            ("/a#b", "line 1: /a#b has a fragment"),
            ("/a method=TRACE upload=1", "line 1: a TRACE has no body"),
            ("a", "line 1: a is no path"),
            ("* method=GET", "line 1: * is no path"),
            ("/a headers='no colon'", "line 1: headers= has \"no colon\""),
            ("/a headers='Content-Length: 1'", "line 1: headers= has \"Content-Length: 1\": the body says"),
            ("/a headers='Host: a\\nhost: b'", "line 1: headers= has host twice; allowed: once"),
            ("/a headers='A: b\\0c' contents='x\\", "line 1: the file ends in quotes"),
        ] {
            let told = told(text).unwrap_err();
            assert!(told.starts_with(mistake), "{text:?}: {told}");
        }
    }

    #[test]
    fn times_are_comments_in_front_of_bursts() {
        let log = parse(b"#@ 0.5\n/a think=2\n\t/b\n# x\n#@3\n/c\n/d\n\n#@ 2\n/a\n").unwrap();
        let times = |session| log.session(session).map(|burst| burst.at.map(|at| at.as_secs_f64()));
        assert_eq!(times(0).collect::<Vec<_>>(), [Some(0.5), Some(3.0), None]);
        assert_eq!(log.arrivals(), Some(vec![Duration::from_millis(500), Duration::from_secs(2)]));
        assert_eq!(log.last_time(), Some(Duration::from_secs(3)));
        assert_eq!(parse(b"/a\n\n/b").unwrap().arrivals(), None);
    }

    fn request() -> impl Strategy<Value = Request> {
        let headers = proptest::option::of("[A-Za-z-]{1,9}: [ -~]{0,20}");
        let contents = proptest::option::of(proptest::collection::vec(any::<u8>(), 1..40));
        let timeout = proptest::option::of(1_u32..10_000_000);
        let uri = "/[a-zA-Z0-9._~!$&'()*+,;=:@/?-]{0,20}";
        (uri, "[A-Z!#$%&'*+.^_`|~-]{1,20}", headers, contents, timeout).prop_map(
            |(uri, method, headers, contents, timeout)| Request {
                method: method.parse().unwrap_or_default(),
                uri: uri.into(),
                headers: headers.map_or(String::new(), |line| line.trim_end().to_owned() + "\r\n").into(),
                contents: contents.map(Into::into),
                timeout: timeout.map(|ms| Duration::from_millis(ms.into())),
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            sessions in proptest::collection::vec(
                proptest::collection::vec(
                    (proptest::collection::vec(request(), 1..4), proptest::option::of(0_u32..100_000_000)),
                    1..4,
                ),
                0..6,
            ),
            timed: bool,
            gaps in proptest::collection::vec(0_u64..1 << 47, 6),
        ) {
            let mut log = Builder::new();
            let mut arrives = Duration::ZERO;
            for (bursts, gap) in sessions.iter().zip(gaps) {
                arrives += Duration::from_micros(gap);
                let mut at = arrives;
                for (calls, think) in bursts {
                    if timed {
                        log.at(at);
                    }
                    at += Duration::from_micros(u64::from(think.unwrap_or(0)));
                    for request in calls {
                        log.call(request.clone());
                    }
                    log.end_of_burst(think.map(|us| Duration::from_micros(us.into())));
                }
                log.end_of_session();
            }
            let log = log.finish();
            let mut text = Vec::new();
            write(&mut text, &log).unwrap();
            let again = parse(&text).unwrap();
            prop_assert_eq!(again.requests(), log.requests());
            prop_assert_eq!(again.len(), log.len());
            for session in 0..log.len() {
                prop_assert!(again.session(session).eq(log.session(session)));
            }
        }

        #[test]
        fn nothing_panics(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&text);
        }

        #[test]
        fn nothing_alike_panics(text in "([/ab#\\\\'\"=\n\r\t ]|#@ 1\n|think=|contents=|method=|1){0,40}") {
            let _ = parse(text.as_bytes());
        }
    }
}
