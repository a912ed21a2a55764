//! A session log in memory: sessions of bursts of requests, as httperf's `wsesslog` files describe them.
//!
//! A *session* is one client's visit. It is a row of *bursts*: the first request of a burst goes alone, and
//! when its reply is whole the rest are sent together; after the burst's last reply the client thinks, then
//! begins the next burst. Where a log keeps the times at which clients were there, each session's first burst
//! has one, others may.
//!
//! Logs hold hundreds of thousands of sessions but few different requests, so each different request is kept
//! once and calls refer to it by number. A generator can prepare every request's bytes before it starts.

use std::{borrow::Cow, collections::HashMap, ops::Range, str::FromStr, time::Duration};

use crate::fields;

/// A request's method: any token but CONNECT (RFC 9110 section 9.1). Names are case-sensitive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Method(Cow<'static, str>);

/// It is no method that a request can have here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "method {name:?} {reason}; allowed: any name of 1 to {} letters, digits and !#$%&'*+-.^_`|~ but CONNECT, \
     such as GET, PATCH or PROPFIND",
    Method::LONGEST
)]
pub struct NoMethod {
    name: String,
    reason: &'static str,
}

impl Method {
    /// Fetch the reply with its body.
    pub const GET: Self = Self(Cow::Borrowed("GET"));
    /// Fetch the reply's head only.
    pub const HEAD: Self = Self(Cow::Borrowed("HEAD"));
    /// Send contents.
    pub const POST: Self = Self(Cow::Borrowed("POST"));
    /// Ask what is allowed.
    pub const OPTIONS: Self = Self(Cow::Borrowed("OPTIONS"));
    /// Have the request sent back.
    pub const TRACE: Self = Self(Cow::Borrowed("TRACE"));

    /// Letters of the longest name; the longest that is registered has 17.
    pub const LONGEST: usize = 64;

    /// As it is sent.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Whether a request without a body says so (RFC 9110 section 8.6): servers expect one.
    pub fn expects_contents(&self) -> bool {
        ["POST", "PUT", "PATCH"].contains(&self.name())
    }
}

impl Default for Method {
    fn default() -> Self {
        Self::GET
    }
}

impl FromStr for Method {
    type Err = NoMethod;

    fn from_str(name: &str) -> Result<Self, NoMethod> {
        let reason = match name {
            _ if !fields::is_token(name.as_bytes()) => "is no token",
            _ if name.len() > Self::LONGEST => "is too long",
            "CONNECT" => "asks for a tunnel",
            _ => return Ok(Self(Cow::Owned(name.to_owned()))),
        };
        Err(NoMethod { name: name.chars().take(Self::LONGEST).collect(), reason })
    }
}

/// One request as a client sends it, whenever and however often it does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The request target, sent as it stands: `/dir00001/class1_3`, with the query if there is one.
    pub uri: Box<str>,
    /// More header lines, each ended by CRLF; empty for none. They stand instead of the run's where only one
    /// may.
    pub headers: Box<str>,
    /// The body; `None` for none, which only methods tell of that [expect one](Method::expects_contents).
    pub contents: Option<Box<[u8]>>,
    /// How long the whole reply may take; `None` leaves it to the run.
    pub timeout: Option<Duration>,
}

/// Which of a log's different requests: an index into [`SessionLog::requests`].
pub type RequestId = u32;

/// Sessions of bursts of requests.
#[derive(Clone, Debug, Default)]
pub struct SessionLog {
    requests: Vec<Request>,
    calls: Vec<RequestId>,
    bursts: Vec<BurstEnd>,
    /// Where each session's bursts end in `bursts`.
    sessions: Vec<u32>,
}

/// Where a burst ends in the calls, and the thinking after it.
#[derive(Clone, Copy, Debug)]
struct BurstEnd {
    calls: u32,
    think: Option<Duration>,
    at: Option<Duration>,
}

/// One burst of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst<'a> {
    /// The requests: the first goes alone, the rest together.
    pub calls: &'a [RequestId],
    /// The pause after the last reply; `None` leaves it to the run. It means nothing after a session's last
    /// burst.
    pub think: Option<Duration>,
    /// When it begins, from the beginning of the log, if not later because a reply is awaited. Times of a
    /// session don't go back, nor do those at which sessions arrive.
    pub at: Option<Duration>,
}

impl SessionLog {
    /// The different requests, in order of first use.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is no session.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// How many calls all sessions make.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Session `index`'s bursts, of which there is at least one.
    ///
    /// # Panics
    /// When there are not so many sessions.
    pub fn session(&self, index: usize) -> impl ExactSizeIterator<Item = Burst<'_>> + Clone {
        self.session_bursts(index).map(|burst| self.burst(burst))
    }

    /// When each session arrives, its first burst's time; `None` if the log does not say so of all.
    pub fn arrivals(&self) -> Option<Vec<Duration>> {
        (0..self.len()).map(|session| self.burst(self.session_bursts(session).start).at).collect()
    }

    /// When the last burst begins that has a time.
    pub fn last_time(&self) -> Option<Duration> {
        self.bursts.iter().filter_map(|burst| burst.at).max()
    }

    /// The numbers of session `index`'s bursts, for [`SessionLog::burst`]: what a player keeps of where it
    /// is.
    ///
    /// # Panics
    /// When there are not so many sessions.
    pub fn session_bursts(&self, index: usize) -> Range<usize> {
        let first = if index == 0 { 0 } else { self.sessions[index - 1] as usize };
        first..self.sessions[index] as usize
    }

    /// The burst of that number, counted over all sessions.
    ///
    /// # Panics
    /// When there are not so many bursts.
    pub fn burst(&self, number: usize) -> Burst<'_> {
        let first = if number == 0 { 0 } else { self.bursts[number - 1].calls as usize };
        let end = self.bursts[number];
        Burst { calls: &self.calls[first..end.calls as usize], think: end.think, at: end.at }
    }
}

/// Builds a [`SessionLog`]: requests, then the end of their burst, then the end of the session.
#[derive(Debug, Default)]
pub struct Builder {
    log: SessionLog,
    known: HashMap<Request, RequestId>,
    /// Of the present burst.
    at: Option<Duration>,
}

impl Builder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The present burst begins at that time of the log.
    pub fn at(&mut self, at: Duration) {
        self.at = Some(at);
    }

    /// One more call in the present burst.
    pub fn call(&mut self, request: Request) {
        let request = self.request(request);
        self.call_again(request);
    }

    /// The number of a request, which need not be called for.
    pub fn request(&mut self, request: Request) -> RequestId {
        let next = self.log.requests.len() as RequestId;
        *self.known.entry(request).or_insert_with_key(|request| {
            self.log.requests.push(request.clone());
            next
        })
    }

    /// One more call in the present burst, of a request by its number.
    pub fn call_again(&mut self, request: RequestId) {
        self.log.calls.push(request);
    }

    /// Ends the present burst, with the thinking after it. A burst without calls is none.
    pub fn end_of_burst(&mut self, think: Option<Duration>) {
        let calls = self.log.calls.len() as u32;
        if calls > self.log.bursts.last().map_or(0, |burst| burst.calls) {
            self.log.bursts.push(BurstEnd { calls, think, at: self.at.take() });
        }
    }

    /// Ends the session, and its last burst when that is still open. A session without calls is none.
    pub fn end_of_session(&mut self) {
        self.end_of_burst(None);
        let bursts = self.log.bursts.len() as u32;
        if bursts > self.log.sessions.last().copied().unwrap_or(0) {
            self.log.sessions.push(bursts);
        }
    }

    /// The log, the open session ended.
    pub fn finish(mut self) -> SessionLog {
        self.end_of_session();
        self.log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(uri: &str) -> Request {
        Request { uri: uri.into(), ..Request::default() }
    }

    #[test]
    fn sessions_come_out_as_they_were_built_and_requests_are_kept_once() {
        let (pause, at) = (Some(Duration::from_secs(3)), Some(Duration::from_secs(1)));
        let mut log = Builder::new();
        log.at(Duration::from_secs(1));
        log.call(get("/a"));
        log.call(get("/b"));
        log.end_of_burst(pause);
        log.call(get("/a"));
        log.end_of_session();
        log.end_of_session();
        log.call(get("/b"));
        let log = log.finish();

        assert_eq!(log.requests(), [get("/a"), get("/b")]);
        assert_eq!((log.len(), log.calls()), (2, 4));
        let first: Vec<_> = log.session(0).collect();
        let untimed = |calls| Burst { calls, think: None, at: None };
        assert_eq!(first, [Burst { calls: &[0, 1], think: pause, at }, untimed(&[0])]);
        assert_eq!(log.session(1).collect::<Vec<_>>(), [untimed(&[1])]);
        assert_eq!((log.arrivals(), log.last_time()), (None, at), "the second has none");
    }
}
