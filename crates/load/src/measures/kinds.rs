//! Calls by kind: the method, and whether the server has a file to send or something to compute.

use std::sync::Arc;

use workload::session::{Method, Request, RequestId, SessionLog};

use super::Times;
use crate::record::{Call, Outcome};

/// What a request asks of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The method.
    pub method: Method,
    /// Whether the reply is computed: the target has a query, or names a program.
    pub dynamic: bool,
}

/// Each request's kind: few kinds, many requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    kinds: Vec<Kind>,
    /// Indices into `kinds`.
    of_request: Vec<u32>,
}

impl Kind {
    /// That of a request.
    pub fn of(request: &Request) -> Self {
        Self { method: request.method.clone(), dynamic: is_dynamic(&request.uri) }
    }
}

impl Kinds {
    /// Those of a log, in order of first use.
    pub fn of(log: &SessionLog) -> Self {
        let mut found = Self::default();
        for kind in log.requests().iter().map(Kind::of) {
            let place = found.kinds.iter().position(|known| *known == kind).unwrap_or_else(|| {
                found.kinds.push(kind);
                found.kinds.len() - 1
            });
            found.of_request.push(place as u32);
        }
        found
    }
}

/// Whether a target asks for something that is computed.
fn is_dynamic(uri: &str) -> bool {
    const PROGRAMS: [&str; 7] = [".php", ".cgi", ".fcgi", ".fcg", ".pl", ".py", ".jsp"];
    const DIRECTORIES: [&str; 4] = ["/cgi-bin/", "/fcgi-bin/", "/fcgi/", "/app/"];
    let (path, query) = uri.split_once('?').map_or((uri, None), |(path, query)| (path, Some(query)));
    query.is_some()
        || PROGRAMS.iter().any(|program| path.ends_with(program))
        || DIRECTORIES.iter().any(|directory| path.starts_with(directory))
}

/// Counts and times by kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ByKind {
    kinds: Arc<Kinds>,
    found: Vec<OfKind>,
}

/// What became of the calls of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfKind {
    /// Calls that ended, one way or the other.
    pub calls: u64,
    /// Calls that the client gave up.
    pub timeouts: u64,
    /// Whole replies by the first digit of their status, from 1xx.
    pub statuses: [u64; 5],
    /// Whole replies, from issue to the last byte.
    pub times: Times,
}

impl ByKind {
    pub(super) fn new(kinds: Arc<Kinds>) -> Self {
        let found = vec![OfKind::default(); kinds.kinds.len()];
        Self { kinds, found }
    }

    /// Each kind, with what became of its calls.
    pub fn each(&self) -> impl Iterator<Item = (&Kind, &OfKind)> {
        self.kinds.kinds.iter().zip(&self.found)
    }

    pub(super) fn take(&mut self, call: &Call) {
        if matches!(call.outcome, Outcome::Unfinished | Outcome::Abandoned) {
            return;
        }
        let Some(of) = self.of(call.request) else { return };
        of.calls += 1;
        match call.outcome {
            Outcome::Reply => {
                of.times.record(call.ended.saturating_sub(call.issued));
                super::count_status(&mut of.statuses, call.status);
            }
            outcome if outcome.is_timeout() => of.timeouts += 1,
            _ => {}
        }
    }

    fn of(&mut self, request: RequestId) -> Option<&mut OfKind> {
        let kind = *self.kinds.of_request.get(request as usize)?;
        self.found.get_mut(kind as usize)
    }

    pub(super) fn take_in(&mut self, other: &Self) {
        for (mine, theirs) in self.found.iter_mut().zip(&other.found) {
            mine.calls += theirs.calls;
            mine.timeouts += theirs.timeouts;
            super::add_all(&mut mine.statuses, &theirs.statuses);
            mine.times.take_in(&theirs.times);
        }
    }
}

#[cfg(test)]
mod tests {
    use workload::session::Builder;

    use super::super::tests::call;
    use super::*;

    #[test]
    fn programs_are_told_from_files() {
        for dynamic in
            ["/?a=b", "/index.php", "/a/b.cgi", "/fcgi/ads", "/app/7", "/x.php?y", "/file_set/dir1/class1_2?"]
        {
            assert!(is_dynamic(dynamic), "{dynamic}");
        }
        for file in ["/", "/dir00001/class1_3", "/a.html", "/php/readme", "/a.pyc", "/cgi-bin"] {
            assert!(!is_dynamic(file), "{file}");
        }
    }

    #[test]
    fn each_kind_is_counted_apart() {
        let mut log = Builder::new();
        for (method, uri) in
            [(Method::GET, "/a"), (Method::GET, "/b.php"), (Method::POST, "/b.php"), (Method::GET, "/c")]
        {
            log.call(Request { method, uri: uri.into(), ..Request::default() });
        }
        let mut kinds = ByKind::new(Arc::new(Kinds::of(&log.finish())));
        for (request, outcome) in [
            (0, Outcome::Reply),
            (3, Outcome::ReplyTimeout),
            (1, Outcome::Reply),
            (2, Outcome::Refused),
            (2, Outcome::Abandoned),
            (9, Outcome::Reply),
        ] {
            kinds.take(&Call { request, ..call(outcome, 0, 1_000_000) });
        }
        let mut all = kinds.clone();
        all.take_in(&kinds);
        for (kinds, factor) in [(kinds, 1), (all, 2)] {
            let found: Vec<_> = kinds
                .each()
                .map(|(kind, of)| {
                    (
                        kind.method.name(),
                        kind.dynamic,
                        of.calls,
                        of.timeouts,
                        of.statuses[1],
                        of.times.count(),
                    )
                })
                .collect();
            let expected =
                [("GET", false, 2, 1, 1, 1), ("GET", true, 1, 0, 1, 1), ("POST", true, 1, 0, 0, 0)].map(
                    |(name, dynamic, calls, late, good, count)| {
                        (name, dynamic, calls * factor, late * factor, good * factor, count * factor)
                    },
                );
            assert_eq!(found, expected);
        }
    }
}
