//! Joining the generator's record with the server's own log: a request that the server never read is another
//! matter than one that it was too slow for.
//!
//! For each target, the server's log has a line for each request that it read. What was issued and is not
//! there was never read: it died in a queue, or was not even connected. This needs no clock and no port in
//! common, and works with the log of any server that writes the combined format, or JSON lines with a member
//! `target` or `request`, whatever escapes it uses.
//!
//! A request that was sent more often than it was called for (sent again after its connection had ended, or
//! on behalf of a call that went down with others) may have more lines than one, and then hides one that was
//! never read. Lines don't tell, so two bounds are given.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use results::load::Joined;
use workload::access_log;
use workload::session::SessionLog;

use crate::measures::{AskedFor, Measures};

/// A log that has not grown for so long is complete.
const QUIET: Duration = Duration::from_millis(1500);
/// Somebody else may use the server, too.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A server's log, as of the start of the time that is measured.
#[derive(Debug)]
pub struct ServerLog {
    path: PathBuf,
    from: u64,
}

impl ServerLog {
    /// Notes where the log ends now; what the server writes from here on belongs to the run.
    ///
    /// # Errors
    ///
    /// There is no such file.
    pub fn begin(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), from: std::fs::metadata(path)?.len() })
    }

    /// Notes its end anew: the warm-up is over.
    ///
    /// # Errors
    ///
    /// The file is there no more.
    pub fn skip_to_end(&mut self) -> io::Result<()> {
        self.from = std::fs::metadata(&self.path)?.len();
        Ok(())
    }

    /// Waits until the server has written what it keeps back: servers gather lines for about a second.
    ///
    /// # Errors
    ///
    /// The file is there no more.
    pub fn settle(&self) -> io::Result<()> {
        let began = Instant::now();
        let (mut length, mut changed) = (std::fs::metadata(&self.path)?.len(), began);
        while changed.elapsed() < QUIET && began.elapsed() < LONGEST_WAIT {
            thread::sleep(QUIET / 10);
            let now = std::fs::metadata(&self.path)?.len();
            if now != length {
                (length, changed) = (now, Instant::now());
            }
        }
        Ok(())
    }

    /// Joins what the server has written since.
    ///
    /// # Errors
    ///
    /// The file can't be read.
    pub fn join(&self, log: &SessionLog, measures: &Measures) -> io::Result<Joined> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.from))?;
        let mut joined = Joined::default();
        let mut read: HashMap<String, u64> = HashMap::new();
        for line in BufReader::new(file).split(b'\n') {
            let line = line?;
            match target(&line) {
                Some(target) => *read.entry(target).or_default() += 1,
                None => joined.odd_lines += 1,
            }
        }
        // Different requests may have the same target.
        let mut issued: HashMap<&str, AskedFor> = HashMap::new();
        for (number, request) in log.requests().iter().enumerate() {
            issued.entry(&request.uri).or_default().add(measures.asked.of(number as u32));
        }
        for (target, of) in issued {
            add(&mut joined, of, read.get(target).copied().unwrap_or(0));
        }
        Ok(joined)
    }
}

/// Takes in the calls for a target that has so many lines.
fn add(joined: &mut Joined, of: AskedFor, lines: u64) {
    let read = lines.min(of.calls);
    let never_read = of.calls - read;
    // What was answered was read, whatever lines are whose.
    let unanswered = of.calls - of.replies;
    let at_most = of.calls.saturating_sub(lines.saturating_sub(of.extra)).min(unanswered);
    joined.issued += of.calls;
    joined.read += read;
    joined.never_read += never_read;
    joined.never_read_at_most += at_most.max(never_read);
    joined.too_slow += of.timeouts.saturating_sub(never_read);
}

/// The request target of a line.
fn target(line: &[u8]) -> Option<String> {
    let target = access_log::line(line).ok()?.target;
    (!target.is_empty()).then(|| String::from_utf8_lossy(&target).into_owned())
}

#[cfg(test)]
mod tests {
    use workload::session::{Builder, Request};

    use super::*;
    use crate::measures::{Recorder, Scope};
    use crate::record::{Call, Outcome};
    use crate::report::tests::call;

    #[test]
    fn targets_are_found_in_either_format() {
        let combined = r#"127.0.0.1 - - [20/Nov/2026:10:00:00 +0000] "GET /a?b HTTP/1.1" 200 5 "-" "x""#;
        assert_eq!(target(combined.as_bytes()).as_deref(), Some("/a?b"));
        assert_eq!(target(br#"{"method":"GET","target":"/a"}"#).as_deref(), Some("/a"));
        assert_eq!(target(br#"{"request":"GET /a HTTP/1.1"}"#).as_deref(), Some("/a"));
        for escaped in [r"GET /?\x22a\x5C HTTP/1.1", r#"GET /?\"a\\ HTTP/1.1"#] {
            let line = format!("127.0.0.1 - - [x] \"{escaped}\" 200 5 \"-\" \"x\"");
            assert_eq!(target(line.as_bytes()).as_deref(), Some("/?\"a\\"), "{escaped}");
        }
        for odd in ["", "x", "{", "{}", r#"127.0.0.1 - - [x] "-" 400 0"#] {
            assert_eq!(target(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn calls_that_were_never_read_are_told_from_those_that_took_too_long() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.log");
        let line = |target: &str| format!("127.0.0.1 - - [x] \"GET {target} HTTP/1.1\" 200 5 \"-\" \"x\"\n");
        std::fs::write(&path, line("/a")).unwrap();
        let mut server = ServerLog::begin(&path).unwrap();
        std::fs::write(&path, line("/a") + &line("/a")).unwrap();
        server.skip_to_end().unwrap();
        let text = [line("/a"), line("/a"), line("/b"), line("/other"), "odd\n".to_owned()].concat();
        std::fs::write(&path, line("/a") + &line("/a") + &text).unwrap();

        let mut log = Builder::new();
        for uri in ["/a", "/b"] {
            log.call(Request { uri: uri.into(), ..Request::default() });
        }
        let log = log.finish();
        let mut recorder = Recorder::new(Scope { window: 0..u64::MAX, requests: 2 }, None);
        for (request, outcome) in [
            (0, Outcome::Reply),
            (0, Outcome::ReplyTimeout),
            (0, Outcome::ConnectTimeout),
            (1, Outcome::Reply),
            (1, Outcome::ReplyTimeout),
        ] {
            recorder.call(&Call { request, ..call(outcome, 0, 1_000_000) });
        }
        let joined = server.join(&log, &Measures::merge(vec![recorder])).unwrap();
        let expected =
            Joined { issued: 5, read: 3, never_read: 2, never_read_at_most: 2, too_slow: 1, odd_lines: 1 };
        assert_eq!(joined, expected);
    }

    /// Of ten calls two were never read, and two lines are of requests that were sent once more.
    #[test]
    fn what_was_sent_again_does_not_hide_what_was_never_read() {
        let bounds = |calls, replies, extra, lines| {
            let mut joined = Joined::default();
            add(&mut joined, AskedFor { calls, replies, timeouts: calls - replies, extra }, lines);
            (joined.never_read, joined.never_read_at_most, joined.too_slow)
        };
        assert_eq!(bounds(10, 7, 0, 8), (2, 2, 1));
        assert_eq!(bounds(10, 7, 2, 10), (0, 2, 3));
        assert_eq!(bounds(10, 10, 2, 10), (0, 0, 0), "all were answered, and so read");
        assert_eq!(bounds(10, 7, 2, 12), (0, 0, 3), "each time it was sent has a line");
        assert_eq!(bounds(10, 7, 20, 10), (0, 3, 3), "a server that has answered has read");
        assert_eq!(bounds(10, 10, 0, 8), (2, 2, 0), "a log that lost lines is taken at its word");
    }
}
