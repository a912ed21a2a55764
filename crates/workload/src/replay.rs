//! Sessions from an access log: what clients did, and when, to be done again.
//!
//! Requests belong together that come from one address with one user agent; after a long enough pause they
//! are another session. Each request begins again when the log says, from the log's first request on; those
//! of the same moment are what a browser asked for on its own account, and become a burst.
//!
//! Most logs tell time to the second. Sessions that began in one second are then spread evenly over it, in
//! their order, since they would come all at once otherwise; within a session times are kept as they are.
//! What a time is, is up to the server: Apache and `sluice` write when a request was read, nginx when its
//! reply had ended. In a log of nginx's, requests begin later than they did by as long as their replies took,
//! each by its own.
//!
//! For whoever does not know times ([`wsesslog`]) there is thinking between bursts: what is left of the time
//! between them after the replies, whose duration only our JSON has. From other logs it is all of that time,
//! and such a session takes longer than it did by the time of its replies.
//!
//! What can't be played again is left out and told: requests with a body (the log does not have it), and what
//! is no request at all.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::access_log::{self, Line};
use crate::session::{Builder, Method, Request, SessionLog};
use crate::wsesslog;
use crate::{fields, target};

/// What came of a log.
#[derive(Debug)]
pub struct Replayed {
    /// The sessions with their times, in order of their first requests.
    pub log: SessionLog,
    /// Lines that are not empty.
    pub lines: usize,
    /// Lines that were left out, counted from 1, and why.
    pub odd: Vec<(usize, &'static str)>,
}

/// Lines that were left out for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Why.
    pub reason: &'static str,
    /// How many.
    pub lines: usize,
    /// The first of them, counted from 1.
    pub first: usize,
}

impl Replayed {
    /// What was left out, by reason, the most frequent first.
    pub fn left_out(&self) -> Vec<LeftOut> {
        let mut all: Vec<LeftOut> = Vec::new();
        for &(line, reason) in &self.odd {
            match all.iter_mut().find(|of| of.reason == reason) {
                Some(of) => of.lines += 1,
                None => all.push(LeftOut { reason, lines: 1, first: line }),
            }
        }
        all.sort_by_key(|of| std::cmp::Reverse(of.lines));
        all
    }
}

/// Makes sessions of an access log. A pause of more than `gap` ends a session; everything is played
/// `speed_up` times as fast.
pub fn sessions(text: &[u8], gap: Duration, speed_up: f64) -> Replayed {
    let mut entries = Vec::new();
    let mut odd = Vec::new();
    let mut lines = 0;
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        lines += 1;
        match access_log::line(line).and_then(entry) {
            Ok(entry) => entries.push(entry),
            Err(reason) => odd.push((number + 1, reason)),
        }
    }
    // Lines are written when replies end, whatever their times say. Stable, so that those of a moment stay in
    // the log's order.
    entries.sort_by_key(|entry| entry.time);
    let to_the_second = entries.iter().all(|entry| entry.time.subsec_nanosecond() == 0);
    let mut visits = visits(entries, gap);
    if to_the_second {
        spread(&mut visits);
    }
    Replayed { log: build(visits, speed_up), lines, odd }
}

/// A request that can be made again.
struct Entry {
    /// The address and the user agent.
    client: (Vec<u8>, Vec<u8>),
    time: Timestamp,
    duration: Duration,
    request: Request,
}

/// Requests of one client at the same moment.
struct Burst {
    /// From the log's first request.
    at: Duration,
    /// When its last reply had ended, as far as the log tells.
    ended: Duration,
    requests: Vec<Request>,
}

fn entry(line: Line) -> Result<Entry, &'static str> {
    let Line { client, agent, time, duration, method, target } = line;
    let request = Request { method: the_method(&method)?, uri: uri(&target)?, ..Request::default() };
    let time = time.ok_or("the time is not like 20/Nov/2026:10:00:00 +0000, in JSON 2026-11-20T10:00:00Z")?;
    Ok(Entry { client: (client, agent), time, duration, request })
}

fn the_method(word: &[u8]) -> Result<Method, &'static str> {
    Ok(match word {
        b"GET" => Method::GET,
        b"HEAD" => Method::HEAD,
        b"OPTIONS" => Method::OPTIONS,
        b"TRACE" => Method::TRACE,
        b"DELETE" => return Err("a DELETE is not for being repeated"),
        b"POST" | b"PUT" | b"PATCH" => return Err("the log does not have the request's body"),
        _ if word != b"-" && fields::is_token(word) => {
            return Err("the log does not say whether such a request has a body");
        }
        _ => return Err("no request"),
    })
}

/// As session files can say it. What must be percent-encoded is, which names the same to a server.
fn uri(target: &[u8]) -> Result<Box<str>, &'static str> {
    if !target.starts_with(b"/") {
        return Err("the target is no path");
    }
    // What JSON has for bytes that are not UTF-8.
    if target.windows(3).any(|bytes| bytes == "\u{fffd}".as_bytes()) {
        return Err("the log does not have all bytes of the target");
    }
    if target.iter().any(|byte| matches!(byte, 0..=b' ' | 0x7f)) {
        return Err("the target is no path");
    }
    Ok(target::encode(target).into())
}

/// The bursts of each session, in order of their first requests. Entries come in order of time.
fn visits(entries: Vec<Entry>, gap: Duration) -> Vec<Vec<Burst>> {
    let mut visits: Vec<Vec<Burst>> = Vec::new();
    let mut visit_of = HashMap::new();
    let began = entries.first().map_or(Timestamp::UNIX_EPOCH, |first| first.time);
    for Entry { client, time, duration, request } in entries {
        let at = time.duration_since(began).unsigned_abs();
        let ended = at.saturating_add(duration);
        let visit = visit_of.entry(client).or_insert(usize::MAX);
        match visits.get_mut(*visit).and_then(|bursts| bursts.last_mut()) {
            Some(last) if last.at == at => {
                last.requests.push(request);
                last.ended = last.ended.max(ended);
            }
            Some(last) if at <= last.at.saturating_add(gap) => {
                visits[*visit].push(Burst { at, ended, requests: vec![request] });
            }
            _ => {
                *visit = visits.len();
                visits.push(vec![Burst { at, ended, requests: vec![request] }]);
            }
        }
    }
    visits
}

/// Spreads those that began in the same second over it.
fn spread(visits: &mut [Vec<Burst>]) {
    for same in visits.chunk_by_mut(|one, next| one[0].at == next[0].at) {
        let apart = Duration::from_secs(1) / same.len() as u32;
        for (place, bursts) in same.iter_mut().enumerate() {
            for burst in bursts {
                burst.at += apart * place as u32;
                burst.ended += apart * place as u32;
            }
        }
    }
}

fn build(visits: Vec<Vec<Burst>>, speed_up: f64) -> SessionLog {
    // No longer than session files can say.
    let played = |time: Duration, most: f64| {
        Duration::from_micros(((time.as_secs_f64() / speed_up).min(most) * 1e6).round() as u64)
    };
    let mut log = Builder::new();
    for bursts in visits {
        let mut bursts = bursts.into_iter().peekable();
        while let Some(Burst { at, ended, requests }) = bursts.next() {
            log.at(played(at, wsesslog::LATEST));
            for request in requests {
                log.call(request);
            }
            let think = bursts.peek().map(|next| next.at.saturating_sub(ended));
            log.end_of_burst(think.map(|think| played(think, wsesslog::LONGEST)));
        }
        log.end_of_session();
    }
    log.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(client: &str, time: &str, request: &str, agent: &str) -> String {
        format!("{client} - - [20/Nov/2026:{time} +0000] \"{request}\" 200 5 \"-\" \"{agent}\"\n")
    }

    /// Sessions as text: each burst with its time and calls, and the thinking after it; sessions by lines.
    fn told(text: &str, speed_up: f64) -> String {
        let replayed = sessions(text.as_bytes(), Duration::from_mins(30), speed_up);
        assert_eq!(replayed.odd, [], "{text}");
        let log = replayed.log;
        let session = |number| {
            let bursts = log.session(number).map(|burst| {
                let calls = burst.calls.iter().map(|&call| &*log.requests()[call as usize].uri);
                let think = burst.think.map_or(String::new(), |think| format!(" ~{}", think.as_secs_f64()));
                let at = burst.at.expect("a time").as_secs_f64();
                format!("{at}: {}{think}", calls.collect::<Vec<_>>().join(" "))
            });
            bursts.collect::<Vec<_>>().join(" | ")
        };
        (0..log.len()).map(session).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn clients_sessions_and_pages_are_told_apart() {
        let text = [
            line("10.0.0.1", "10:00:00", "GET / HTTP/1.1", "A"),
            line("10.0.0.2", "10:00:03", "GET /other HTTP/1.1", "A"),
            line("10.0.0.1", "10:00:00", "GET /style.css HTTP/1.1", "A"),
            line("10.0.0.1", "10:00:01", "GET /b HTTP/1.1", "B"),
            line("10.0.0.1", "10:00:09", "HEAD /next HTTP/1.1", "A"),
            line("10.0.0.1", "10:45:00", "GET /later HTTP/1.1", "A"),
        ];
        let expected = "0: / /style.css ~9 | 9: /next\n1: /b\n3: /other\n2700: /later";
        assert_eq!(told(&text.concat(), 1.0), expected);
        let quick = "0: / /style.css ~2.25 | 2.25: /next\n0.25: /b\n0.75: /other\n675: /later";
        assert_eq!(told(&text.concat(), 4.0), quick);
    }

    #[test]
    fn a_steady_client_is_no_burst() {
        let text: String = (0..60)
            .map(|second| line("10.0.0.1", &format!("10:00:{second:02}"), "GET / HTTP/1.1", "A"))
            .collect();
        let log = sessions(text.as_bytes(), Duration::from_mins(30), 1.0).log;
        assert_eq!(log.len(), 1);
        let times: Vec<_> =
            log.session(0).map(|burst| (burst.at.map(|at| at.as_secs()), burst.calls.len())).collect();
        assert_eq!(times, (0..60).map(|second| (Some(second), 1)).collect::<Vec<_>>());
    }

    #[test]
    fn sessions_of_a_second_are_spread_over_it_and_stay_as_they_are() {
        let text: String = ["1", "2", "3", "4"]
            .map(|client| {
                line(client, "10:00:01", "GET / HTTP/1.1", "A")
                    + &line(client, "10:00:02", "GET /b HTTP/1.1", "A")
            })
            .concat();
        let all = "0: / ~1 | 1: /b\n0.25: / ~1 | 1.25: /b\n0.5: / ~1 | 1.5: /b\n0.75: / ~1 | 1.75: /b";
        assert_eq!(told(&text, 1.0), all);
    }

    #[test]
    fn what_is_written_late_is_played_in_its_time() {
        let text = [
            line("10.0.0.1", "10:00:05", "GET /quick HTTP/1.1", "A"),
            line("10.0.0.1", "10:00:00", "GET /slow HTTP/1.1", "A"),
        ];
        assert_eq!(told(&text.concat(), 1.0), "0: /slow ~5 | 5: /quick");
    }

    #[test]
    fn json_lines_of_ours_are_understood() {
        let text = [(0, "/a", 1500), (5, "/b", 9000), (6, "/c", 0)].map(|(second, target, duration)| {
            format!(
                "{{\"time\":\"2026-11-20T10:00:0{second}Z\",\"remote\":\"192.0.2.7\",\"method\":\"GET\",\
                 \"target\":\"{target}\",\"duration_ms\":{duration},\"user_agent\":\"x\"}}\n"
            )
        });
        assert_eq!(
            told(&text.concat(), 1.0),
            "0: /a ~3.5 | 5: /b ~0 | 6: /c",
            "thinking is what replies leave of the time"
        );
    }

    #[test]
    fn finer_times_are_kept() {
        let line = |time, client| {
            format!(
                "{{\"time\":\"2026-11-20T10:00:{time}Z\",\"remote\":\"{client}\",\"method\":\"GET\",\
                 \"target\":\"/\"}}\n"
            )
        };
        let text =
            [line("00.5", "a"), line("00.625", "a"), line("00.625", "a"), line("01", "a"), line("01", "b")];
        assert_eq!(told(&text.concat(), 1.0), "0: / ~0.125 | 0.125: / / ~0.375 | 0.5: /\n0.5: /");
    }

    #[test]
    fn escapes_are_no_part_of_what_is_asked_for() {
        let text = [
            line("10.0.0.1", "10:00:00", r"GET /?q=\x22a\x5C\x22 HTTP/1.1", r"A \x22B\x22"),
            line("10.0.0.1", "10:00:01", r#"GET /?q=\"a\\\" HTTP/1.1"#, r#"A \"B\""#),
            line("10.0.0.1", "10:00:02", r"GET /\xC3\xA4 HTTP/1.1", r"A \x22B\x22"),
        ];
        assert_eq!(told(&text.concat(), 1.0), "0: /?q=%22a%5C%22 ~1 | 1: /?q=%22a%5C%22 ~1 | 2: /%C3%A4");
    }

    #[test]
    fn what_cannot_be_played_again_is_told() {
        let text = [
            line("10.0.0.1", "10:00:00", "POST /form HTTP/1.1", "A"),
            line("10.0.0.1", "10:00:00", "-", "A"),
            line("10.0.0.1", "25:00:00", "GET / HTTP/1.1", "A"),
            line("10.0.0.1", "10:00:00", "GET http://x/ HTTP/1.1", "A"),
            "rubbish\n".to_owned(),
            "{\"time\":3}\n".to_owned(),
            line("10.0.0.1", "10:00:00", "GET /a b HTTP/1.1", "A"),
            "{\"time\":\"2026-11-20T10:00:00Z\",\"method\":\"GET\",\"target\":\"/\\ufffd\"}\n".to_owned(),
            "\n".to_owned(),
            line("10.0.0.1", "10:00:00", "GET /fine HTTP/1.1", "A"),
            line("10.0.0.1", "10:00:00", "REPORT /calendar HTTP/1.1", "A"),
        ];
        let replayed = sessions(text.concat().as_bytes(), Duration::from_mins(30), 1.0);
        assert_eq!(replayed.log.len(), 1);
        let lines: Vec<usize> = replayed.odd.iter().map(|odd| odd.0).collect();
        assert_eq!(lines, [1, 2, 3, 4, 5, 6, 7, 8, 11]);
        assert_eq!(replayed.odd[0].1, "the log does not have the request's body");
        assert_eq!(replayed.lines, 10);
        let found: Vec<_> = replayed.left_out().iter().map(|of| (of.lines, of.first)).collect();
        let expected = [(2, 2), (2, 4), (1, 1), (1, 3), (1, 5), (1, 8), (1, 11)];
        assert_eq!(found, expected, "{:?}", replayed.left_out());
    }

    proptest! {
        #[test]
        fn nothing_panics_and_what_comes_out_is_a_session_file(
            text in "((10\\.0\\.0\\.[1-3] - - \\[2[0-9]/Nov/2026:1[0-9]:[0-5][0-9]:00 \\+0[0-9]00\\] \
                     \"(GET|HEAD|POST|x) /[a-c]? HTTP/1.1\" 200 [0-9]* \"-\" \"[AB]\"|[ -~]{0,20})\n){0,30}",
        ) {
            let replayed = sessions(text.as_bytes(), Duration::from_mins(1), 2.0);
            let mut written = Vec::new();
            crate::wsesslog::write(&mut written, &replayed.log).unwrap();
            let again = crate::wsesslog::parse(&written).unwrap();
            prop_assert_eq!(again.calls(), replayed.log.calls());
            prop_assert_eq!(again.len(), replayed.log.len());
            for session in 0..again.len() {
                prop_assert!(again.session(session).eq(replayed.log.session(session)));
            }
        }
    }
}
