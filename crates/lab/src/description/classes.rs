//! Classes of clients whose rate is a multiple of what each server can do for that class alone:
//! `--class=kept: connections=64 rate=0.6x`, or in steps `rate=0-2x:5s,2x`.
//!
//! What a server can do is measured with the class as a closed loop. Each server has its own.

use std::fmt::Write as _;

/// How options of `sluicelab load` for a class of clients begin.
pub(crate) const CLASS: &str = "--class=";

/// A word of a class that makes handshakes only.
const HANDSHAKES_ONLY: &str = "handshakes-only";

/// A class's closed loop of clients that make handshakes. There are enough of them to keep a worker busy.
const HANDSHAKERS: &str = "connections=64";

/// A class of clients whose rate is a multiple.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Multiple {
    /// Which of the options it is.
    place: usize,
    /// The class's name.
    pub(crate) name: String,
    /// Its rate, in which `x` stands for what the server can do per second.
    rate: String,
    /// The class's words, except for its rate.
    words: Vec<String>,
}

impl Multiple {
    /// The option's class, if its rate is a multiple.
    ///
    /// # Errors
    /// What is wrong with it, and what is allowed.
    fn of(place: usize, option: &str) -> Result<Option<Self>, String> {
        let class = option.strip_prefix(CLASS).and_then(|class| class.split_once(':'));
        let Some((name, words)) = class else { return Ok(None) };
        let (rates, words): (Vec<&str>, Vec<&str>) =
            words.split_ascii_whitespace().partition(|word| word.starts_with("rate="));
        let Some(rate) = rates.last().and_then(|rate| rate.strip_prefix("rate=")) else { return Ok(None) };
        if !rate.contains('x') {
            return Ok(None);
        }
        let name = name.trim();
        if times(rate, 1.0).is_none() {
            return Err(format!(
                "{name}: rate={rate}: allowed: a rate, or multiples above 0, such as rate=0.6x"
            ));
        }
        let is_loop = |word: &&str| word.starts_with("connections=") || *word == HANDSHAKES_ONLY;
        if !words.iter().any(is_loop) {
            return Err(format!(
                "{name}: rate={rate} is a multiple of what a closed loop does, and there is none; allowed: \
                 with connections=N, or with {HANDSHAKES_ONLY}"
            ));
        }
        let words = words.into_iter().map(str::to_owned).collect();
        Ok(Some(Self { place, name: name.to_owned(), rate: rate.to_owned(), words }))
    }

    /// The options with this class alone, as the closed loop that shows what the server can do.
    pub(crate) fn saturating(&self, clients: &[String]) -> Vec<String> {
        let is_loop = self.words.iter().any(|word| word.starts_with("connections="));
        let others = clients.iter().filter(|option| !option.starts_with(CLASS)).cloned();
        others.chain([self.with((!is_loop).then_some(HANDSHAKERS))]).collect()
    }

    /// Puts the class into the options, for a server that can do so much per second.
    pub(crate) fn put(&self, clients: &mut [String], per_s: f64) {
        let rate = times(&self.rate, per_s).expect("a rate that was read before");
        clients[self.place] = self.with(Some(&format!("rate={rate}")));
    }

    fn with(&self, word: Option<&str>) -> String {
        let words: Vec<&str> = self.words.iter().map(String::as_str).chain(word).collect();
        format!("{CLASS}{}: {}", self.name, words.join(" "))
    }
}

/// The rate with so much per second for each `x`. `None` if one of these has no number above 0.
fn times(rate: &str, per_s: f64) -> Option<String> {
    let mut pieces = rate.split('x');
    let last = pieces.next_back()?;
    let mut text = String::new();
    for piece in pieces {
        let begin = piece.rfind(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let (before, number) = piece.split_at(begin.map_or(0, |at| at + 1));
        let number = number.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)?;
        let _ = write!(text, "{before}{:.3}", number * per_s);
    }
    Some(text + last)
}

/// The classes whose rates are multiples.
///
/// # Errors
/// What is wrong with the first that is wrong, and what is allowed.
pub(crate) fn multiples(clients: &[String]) -> Result<Vec<Multiple>, String> {
    let all = clients.iter().enumerate().map(|(place, option)| Multiple::of(place, option).transpose());
    all.flatten().collect()
}

/// The options as `sluicelab load` would take them for a server that can do one request or handshake per
/// second. They serve to check the rest of them.
pub fn as_for_one(clients: &[String]) -> Vec<String> {
    let mut clients = clients.to_vec();
    for multiple in multiples(&clients).unwrap_or_default() {
        multiple.put(&mut clients, 1.0);
    }
    clients
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(all: &[&str]) -> Vec<String> {
        all.iter().map(|option| (*option).to_owned()).collect()
    }

    #[test]
    fn a_multiple_becomes_a_closed_loop_and_a_rate() {
        let mut clients = options(&[
            "--arrivals=fixed",
            "--class=kept: connections=64 rate=0.6x timeout=2s",
            "--class=newcomer: rate=1",
            "--class=flood: handshakes-only rate=0-0.01x:2s,2x source={networks}.2.1",
        ]);
        let found = multiples(&clients).unwrap();
        assert_eq!(found.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["kept", "flood"]);
        assert_eq!(
            found[0].saturating(&clients),
            ["--arrivals=fixed", "--class=kept: connections=64 timeout=2s"]
        );
        let flood = "--class=flood: handshakes-only source={networks}.2.1 connections=64";
        assert_eq!(found[1].saturating(&clients)[1], flood);
        found[0].put(&mut clients, 5_000.0);
        found[1].put(&mut clients, 250.0);
        assert_eq!(clients[1], "--class=kept: connections=64 timeout=2s rate=3000.000");
        assert_eq!(clients[2], "--class=newcomer: rate=1");
        assert_eq!(
            clients[3],
            "--class=flood: handshakes-only source={networks}.2.1 rate=0-2.500:2s,500.000"
        );
        assert_eq!(multiples(&clients), Ok(Vec::new()));
    }

    #[test]
    fn mistakes_name_the_class() {
        for (option, told) in [
            ("--class=a: connections=3 rate=0x", "a: rate=0x: allowed: a rate, or multiples above 0"),
            ("--class=a: connections=3 rate=x", "a: rate=x: allowed"),
            ("--class=a: rate=2x", "a: rate=2x is a multiple of what a closed loop does"),
        ] {
            let error = multiples(&options(&[option])).unwrap_err();
            assert!(error.starts_with(told), "{option}: {error}");
        }
        assert_eq!(multiples(&options(&["--class=a: rate=0-5:3s,5", "--rules"])), Ok(Vec::new()));
    }
}
