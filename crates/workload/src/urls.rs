//! Lists of URLs: a path on each line, and how often it is asked for among the others.
//!
//! ```text
//! # A line that begins with # is a comment, an empty one means nothing.
//! /index.html 5
//! /style.css
//! ```

use crate::session::{Builder, Request, SessionLog};
use crate::target;
use crate::wsesslog::Mistake;

/// The most turns until a list comes round again.
const MOST_TURNS: u64 = 1_000_000;

/// Paths with their weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Urls(Vec<(Box<str>, u32)>);

impl Urls {
    /// Reads a list.
    ///
    /// # Errors
    ///
    /// The first mistake; or there is no URL in it, or more weight than turns are kept of.
    pub fn parse(text: &[u8]) -> Result<Self, Mistake> {
        let mut urls = Vec::new();
        let mut last = 0;
        for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
            let line = line.trim_ascii();
            if !line.is_empty() && !line.starts_with(b"#") {
                urls.push(url(line).map_err(|reason| Mistake { line: number, reason })?);
                last = number;
            }
        }
        let mistake = |reason| Err(Mistake { line: last.max(1), reason });
        if urls.is_empty() {
            return mistake(
                "there is no URL in it; allowed: a path on each line, such as /index.html".into(),
            );
        }
        let common = urls.iter().fold(0, |common, (_, weight)| greatest_common_divisor(common, *weight));
        for (_, weight) in &mut urls {
            *weight /= common;
        }
        let turns: u64 = urls.iter().map(|(_, weight)| u64::from(*weight)).sum();
        if turns > MOST_TURNS {
            return mistake(format!("weights add up to {turns}; allowed: up to {MOST_TURNS}"));
        }
        Ok(Self(urls))
    }

    /// The paths, in order.
    pub fn paths(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|(path, _)| &**path)
    }

    /// Sessions of so many calls each, one after the other: each goes on where the one before it ends.
    pub fn sessions(&self, calls: u32) -> SessionLog {
        let mut log = Builder::new();
        let request = |uri: &str| Request { uri: uri.into(), ..Request::default() };
        let requests: Vec<_> = self.paths().map(|uri| log.request(request(uri))).collect();
        let (turns, calls) = (self.turns(), calls as usize);
        for session in 0..sessions_for(turns.len(), calls) {
            for turn in session * calls..(session + 1) * calls {
                log.call_again(requests[turns[turn % turns.len()]]);
                log.end_of_burst(None);
            }
            log.end_of_session();
        }
        log.finish()
    }

    /// Whose turn it is, by its place in the list, until all comes round again: each as often as its weight
    /// says, and as evenly spread as can be.
    pub fn turns(&self) -> Vec<usize> {
        let of_one = |(place, &(_, weight)): (usize, &(Box<str>, u32))| {
            (0..weight).map(move |turn| ((f64::from(turn) + 0.5) / f64::from(weight), place))
        };
        let mut turns: Vec<(f64, usize)> = self.0.iter().enumerate().flat_map(of_one).collect();
        turns.sort_by(|(a, one), (b, other)| a.total_cmp(b).then(one.cmp(other)));
        turns.into_iter().map(|(_, place)| place).collect()
    }
}

/// How many sessions of so many calls it takes until all turns have come round together with the sessions;
/// where that is too many, enough for the last round, which is not complete, to make little difference.
pub fn sessions_for(turns: usize, calls: usize) -> usize {
    const ENOUGH_CALLS: usize = 1_000_000;
    let complete = (1..=turns).find(|sessions| (sessions * calls).is_multiple_of(turns)).unwrap_or(1);
    complete.min(ENOUGH_CALLS.max(turns).div_ceil(calls))
}

fn url(line: &[u8]) -> Result<(Box<str>, u32), String> {
    let allowed = "allowed: a path and a weight from 1 to 1000000, such as /index.html or /index.html 5";
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let path = words.next().unwrap_or_default();
    target::check(path)?;
    let weight = match words.next() {
        None => 1,
        Some(word) => {
            let weight = word.parse().ok().filter(|weight| (1..=1_000_000).contains(weight));
            weight.ok_or_else(|| format!("{word} is no weight; {allowed}"))?
        }
    };
    match words.next() {
        None => Ok((path.into(), weight)),
        Some(word) => Err(format!("{word} is one word too many; {allowed}")),
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(text: &str) -> String {
        let urls = Urls::parse(text.as_bytes()).unwrap();
        let paths: Vec<_> = urls.paths().collect();
        urls.turns().into_iter().map(|place| paths[place]).collect()
    }

    #[test]
    fn each_has_its_turns_evenly_spread() {
        assert_eq!(turns("/a\n/b\n\n# no URL\n  /c  \r\n"), "/a/b/c");
        assert_eq!(turns("/a 20\n/b 10"), "/a/b/a");
        assert_eq!(turns("/a 4\n/b\n/c 2\n"), "/a/c/a/b/a/c/a");
        assert_eq!(Urls::parse(b"/a 999\n/b 1000").unwrap().turns().len(), 1999);
    }

    #[test]
    fn turns_and_sessions_come_round_together() {
        assert_eq!(sessions_for(7, 1), 7);
        assert_eq!(sessions_for(7, 1000), 7);
        assert_eq!(sessions_for(4, 1000), 1);
        assert_eq!(sessions_for(1_000_000, 1), 1_000_000);
        // They would after 1001 * 1000 calls of each.
        assert_eq!(sessions_for(1001, 1000), 1000);
    }

    #[test]
    fn sessions_ask_for_all_in_turn() {
        let log = Urls::parse(b"/a 2\n/b").unwrap().sessions(2);
        let asked: Vec<Vec<_>> = (0..log.len())
            .map(|at| log.session(at).flat_map(|burst| burst.calls.to_vec()).collect())
            .collect();
        assert_eq!(asked, [[0, 1], [0, 0], [1, 0]], "/a /b /a and again");
        assert_eq!((log.requests().len(), log.session(0).len()), (2, 2), "one after the other");
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, told) in [
            ("\n# nothing\n", "line 1: there is no URL in it; allowed"),
            ("/a\nb\n", "line 2: b is no path"),
            ("http://h/\n", "line 1: http://h/ is no path"),
            ("/a\n\n/b 0\n", "line 3: 0 is no weight; allowed: a path and a weight from 1"),
            ("/a 1.5\n", "line 1: 1.5 is no weight"),
            ("/a 1 2\n", "line 1: 2 is one word too many"),
            ("/\u{e4}\n", "line 1: /\u{e4} has a character beyond ASCII, which must be percent-encoded"),
            ("/a#b 2\n", "line 1: /a#b has a fragment"),
            ("/a 1000000\n/b\n", "line 2: weights add up to 1000001; allowed: up to 1000000"),
        ] {
            let mistake = Urls::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(mistake.starts_with(told), "{text:?}: {mistake}");
        }
    }
}
