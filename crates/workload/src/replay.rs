//! Sessions from an access log: what clients did, to be done again.
//!
//! Requests belong together that come from one address with one user agent; after a long enough pause they are another
//! session. Logs tell time to the second, so requests that follow one another within a second or two are what a browser asked
//! for on its own account, and become a burst; longer pauses are thinking.
//!
//! Understood are the combined format of Apache, nginx and `sluice`, and the JSON lines of `sluice`. What can't be played
//! again is left out and told: requests with a body (the log does not have it), and what is no request at all.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::strtime;

use crate::session::{Builder, Method, Request, SessionLog};

/// Pauses up to so many seconds are the browser's, not the user's.
const OF_THE_BROWSER_S: i64 = 1;

/// What came of a log.
#[derive(Debug)]
pub struct Replayed {
    /// The sessions, in order of their first requests.
    pub log: SessionLog,
    /// Lines that were left out, counted from 1, and why.
    pub odd: Vec<(usize, &'static str)>,
}

/// Makes sessions of an access log. A pause of more than `gap` ends a session; pauses are played `speed_up` times as fast.
pub fn sessions(text: &[u8], gap: Duration, speed_up: f64) -> Replayed {
    let mut clients: HashMap<(String, String), Client> = HashMap::new();
    let mut sessions: Vec<Visit> = Vec::new();
    let mut odd = Vec::new();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let line = String::from_utf8_lossy(line);
        let entry = if line.starts_with('{') { json(&line) } else { combined(&line) };
        let entry = match entry {
            Ok(entry) => entry,
            Err(reason) => {
                odd.push((number + 1, reason));
                continue;
            }
        };
        let client =
            clients.entry((entry.client, entry.agent)).or_insert(Client { visit: usize::MAX, last_s: 0 });
        let pause_s = entry.time_s - client.last_s;
        // Logs are written when replies end, so that times may go back a little.
        client.last_s = client.last_s.max(entry.time_s);
        if client.visit == usize::MAX || pause_s > gap.as_secs() as i64 {
            client.visit = sessions.len();
            client.last_s = entry.time_s;
            sessions.push(Visit { began_s: entry.time_s, bursts: vec![(0, vec![entry.request])] });
        } else {
            let bursts = &mut sessions[client.visit].bursts;
            match bursts.last_mut() {
                Some((_, requests)) if pause_s <= OF_THE_BROWSER_S => requests.push(entry.request),
                _ => bursts.push((pause_s, vec![entry.request])),
            }
        }
    }
    // Stable, so that those of a second stay in the log's order.
    sessions.sort_by_key(|visit| visit.began_s);
    Replayed { log: build(sessions, speed_up), odd }
}

/// Who is on the site.
struct Client {
    /// The session of the moment.
    visit: usize,
    last_s: i64,
}

struct Visit {
    began_s: i64,
    /// The pause before each burst in seconds, and its requests.
    bursts: Vec<(i64, Vec<Request>)>,
}

fn build(sessions: Vec<Visit>, speed_up: f64) -> SessionLog {
    let mut log = Builder::new();
    for visit in sessions {
        let mut bursts = visit.bursts.into_iter().peekable();
        while let Some((_, requests)) = bursts.next() {
            for request in requests {
                log.call(request);
            }
            let think = bursts.peek().map(|(pause_s, _)| *pause_s as f64 / speed_up);
            log.end_of_burst(think.map(|think| Duration::from_millis((think.min(1e6) * 1e3).round() as u64)));
        }
        log.end_of_session();
    }
    log.finish()
}

/// A line that was understood.
struct Entry {
    client: String,
    agent: String,
    time_s: i64,
    request: Request,
}

/// `address - user [time] "METHOD target VERSION" status bytes "referer" "agent"`
fn combined(line: &str) -> Result<Entry, &'static str> {
    const NO_LINE: &str = "neither the combined format nor JSON";
    let (client, rest) = line.split_once(' ').ok_or(NO_LINE)?;
    let (_, rest) = rest.split_once('[').ok_or(NO_LINE)?;
    let (time, rest) = rest.split_once("] \"").ok_or(NO_LINE)?;
    let time = strtime::parse("%d/%b/%Y:%H:%M:%S %z", time).and_then(|time| time.to_timestamp());
    let (request, rest) = rest.split_once('"').ok_or(NO_LINE)?;
    let mut words = request.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let agent = rest.rsplit('"').nth(1).unwrap_or_default();
    Ok(Entry {
        client: client.to_owned(),
        agent: agent.to_owned(),
        time_s: time.map_err(|_| "the time is not like 20/Nov/2026:10:00:00 +0000")?.as_second(),
        request: entry_request(method, target)?,
    })
}

fn json(line: &str) -> Result<Entry, &'static str> {
    let object: serde_json::Value =
        serde_json::from_str(line).map_err(|_| "no JSON, although it begins like it")?;
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    let time: Timestamp = text("time").parse().map_err(|_| "the time is not like 2026-11-20T10:00:00Z")?;
    Ok(Entry {
        client: text("remote").to_owned(),
        agent: text("user_agent").to_owned(),
        time_s: time.as_second(),
        request: entry_request(text("method"), text("target"))?,
    })
}

fn entry_request(method: &str, target: &str) -> Result<Request, &'static str> {
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "OPTIONS" => Method::Options,
        "TRACE" => Method::Trace,
        "DELETE" => return Err("a DELETE is not for being repeated"),
        "POST" | "PUT" => return Err("the log does not have the request's body"),
        _ => return Err("no request"),
    };
    if !target.starts_with('/') || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the target is no path");
    }
    Ok(Request { method, uri: target.into(), ..Request::default() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(client: &str, time: &str, request: &str, agent: &str) -> String {
        format!("{client} - - [20/Nov/2026:{time} +0000] \"{request}\" 200 5 \"-\" \"{agent}\"\n")
    }

    /// Sessions as text: calls of a burst with blanks, bursts by `|` with their thinking, sessions by lines.
    fn told(text: &str, speed_up: f64) -> String {
        let replayed = sessions(text.as_bytes(), Duration::from_mins(30), speed_up);
        assert_eq!(replayed.odd, [], "{text}");
        let log = replayed.log;
        let session = |number| {
            let bursts = log.session(number).map(|burst| {
                let calls = burst.calls.iter().map(|&call| &*log.requests()[call as usize].uri);
                let think = burst.think.map_or(String::new(), |think| format!(" ~{}", think.as_secs_f64()));
                calls.collect::<Vec<_>>().join(" ") + &think
            });
            bursts.collect::<Vec<_>>().join(" | ")
        };
        (0..log.len()).map(session).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn clients_sessions_and_pages_are_told_apart() {
        let text = [
            line("10.0.0.1", "10:00:00", "GET / HTTP/1.1", "A"),
            line("10.0.0.2", "10:00:00", "GET /other HTTP/1.1", "A"),
            line("10.0.0.1", "10:00:01", "GET /style.css HTTP/1.1", "A"),
            line("10.0.0.1", "10:00:01", "GET /b HTTP/1.1", "B"),
            line("10.0.0.1", "10:00:09", "HEAD /next HTTP/1.1", "A"),
            line("10.0.0.1", "10:45:00", "GET /later HTTP/1.1", "A"),
        ];
        let expected = "/ /style.css ~8 | /next\n/other\n/b\n/later";
        assert_eq!(told(&text.concat(), 1.0), expected);
        assert!(told(&text.concat(), 4.0).starts_with("/ /style.css ~2 | /next\n"));
    }

    #[test]
    fn json_lines_of_ours_are_understood() {
        let text = r#"{"time":"2026-11-20T10:00:00Z","remote":"192.0.2.7","method":"GET","target":"/a","user_agent":"x"}
{"time":"2026-11-20T10:00:05Z","remote":"192.0.2.7","method":"GET","target":"/b","user_agent":"x"}
"#;
        assert_eq!(told(text, 1.0), "/a ~5 | /b");
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
            "\n".to_owned(),
            line("10.0.0.1", "10:00:00", "GET /fine HTTP/1.1", "A"),
        ];
        let replayed = sessions(text.concat().as_bytes(), Duration::from_mins(30), 1.0);
        assert_eq!(replayed.log.len(), 1);
        let lines: Vec<usize> = replayed.odd.iter().map(|odd| odd.0).collect();
        assert_eq!(lines, [1, 2, 3, 4, 5, 6]);
        assert_eq!(replayed.odd[0].1, "the log does not have the request's body");
    }

    proptest! {
        #[test]
        fn nothing_panics_and_what_comes_out_is_a_session_file(
            text in "((10\\.0\\.0\\.[1-3] - - \\[2[0-9]/Nov/2026:1[0-9]:[0-5][0-9]:00 \\+0[0-9]00\\] \"(GET|HEAD|POST|x) /[a-c]? HTTP/1.1\" 200 [0-9]* \"-\" \"[AB]\"|[ -~]{0,20})\n){0,30}",
        ) {
            let replayed = sessions(text.as_bytes(), Duration::from_mins(1), 2.0);
            let mut written = Vec::new();
            crate::wsesslog::write(&mut written, &replayed.log).unwrap();
            let again = crate::wsesslog::parse(&written).unwrap();
            prop_assert_eq!(again.calls(), replayed.log.calls());
        }
    }
}
