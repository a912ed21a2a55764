//! The keys of an experiment's file: which ones each table may have, and on which line each stands.

use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::near::meant;

/// Keys of the file itself.
const FILE: &[&str] = &[
    "title",
    "about",
    "servers",
    "vary",
    "rounds",
    "seed",
    "margin",
    "again",
    "saturating",
    "settling",
    "profile",
    "system_calls",
    "sysctls",
    "points",
    "judge",
    "findings",
];

/// Keys of a table of `points`.
const POINT: &[&str] = &["name", "id", "workload", "load", "servers", "compare"];

/// Keys of a table of `points`, or of the file for all of them.
const SETTING: &[&str] = &[
    "application",
    "generator",
    "clients",
    "tls",
    "tls_version",
    "tls_group",
    "tls_cipher",
    "tls_resumption",
    "tls_key",
    "order",
    "memory",
    "disk",
    "others",
    "cold",
    "share",
    "turn_us",
    "slow_cpu",
    "both_cpus",
    "cpus",
    "receive",
    "rules",
    "may_wait",
    "warm_up",
    "measured",
    "timeout",
    "slices",
];

const CONFIRMATION: &[&str] = &["server", "beside", "rounds"];
const FINDING: &[&str] = &["id", "paper", "says", "expect", "size", "within"];

/// Checks that all keys are known.
///
/// # Errors
/// The first unknown key, with its line and the nearest known key.
pub(super) fn check(text: &str) -> Result<(), String> {
    // If the text is no TOML, the code that reads the values reports that.
    let Ok(file) = DeTable::parse(text) else { return Ok(()) };
    let file = file.get_ref();
    known(text, file, "an experiment", &[FILE, SETTING])?;
    for (_, point) in tables(file, "points") {
        known(text, point, "a point", &[POINT, SETTING])?;
    }
    for (_, confirmation) in tables(file, "judge") {
        known(text, confirmation, "[judge]", &[CONFIRMATION])?;
    }
    for (_, finding) in tables(file, "findings") {
        known(text, finding, "a finding", &[FINDING])?;
    }
    Ok(())
}

/// A table of the file, or another place of an error.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// The error itself names the place.
    Told,
    /// The file itself.
    File,
    /// The table of varied names.
    Vary,
    /// The point with that number.
    Point(usize),
    /// The table of confirmatory rounds.
    Confirmation,
    /// The finding with that number.
    Finding(usize),
}

/// Formats the start of an error about that place.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Told | Self::File => Ok(()),
            Self::Vary => f.write_str("vary."),
            Self::Point(number) => write!(f, "points[{number}]: "),
            Self::Confirmation => f.write_str("judge."),
            Self::Finding(number) => write!(f, "findings[{number}]: "),
        }
    }
}

/// The line of an error's cause. That is the line of the key with which the error begins (after a point's
/// name), or ends as "in `key`". The key is in the error's table or else in the file. Without a key it is
/// the line where the table begins.
pub(super) fn line_of(text: &str, place: Place, error: &str) -> Option<usize> {
    let file = DeTable::parse(text).ok()?;
    let file = file.get_ref();
    let table = match place {
        Place::Told => return None,
        Place::File => None,
        Place::Vary => tables(file, "vary").into_iter().next(),
        Place::Point(number) => tables(file, "points").into_iter().nth(number),
        Place::Confirmation => tables(file, "judge").into_iter().next(),
        Place::Finding(number) => tables(file, "findings").into_iter().nth(number),
    };
    let behind_name = error.strip_prefix('"').and_then(|rest| Some(rest.split_once("\": ")?.1));
    let begins = behind_name.unwrap_or(error);
    let end = begins.find(|letter: char| !(letter.is_alphanumeric() || "_-".contains(letter)));
    let (first, rest) = begins.split_at(end.unwrap_or(begins.len()));
    let named = error.rsplit_once("in `").map(|(_, key)| key.trim_end_matches('`'));
    let number = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')?.0.parse::<usize>().ok());
    let found = table.map(|(_, table)| table).into_iter().chain([file]).find_map(|table| {
        let of = |key: &str| table.iter().find(|(other, _)| other.get_ref() == key);
        let (key, value) = named.and_then(of).or_else(|| of(first))?;
        let element = number.and_then(|number| value.get_ref().as_array()?.get(number));
        Some(element.map_or(key.span().start, |element| element.span().start))
    });
    let at = found.or_else(|| table.map(|(at, _)| at))?;
    Some(line(text, at))
}

/// A table, or all tables of an array, and the position where each begins.
fn tables<'a, 'i>(file: &'a DeTable<'i>, key: &str) -> Vec<(usize, &'a DeTable<'i>)> {
    let table = |value: &'a Spanned<DeValue<'i>>| Some((value.span().start, value.get_ref().as_table()?));
    let Some(value) = file.get(key) else { return Vec::new() };
    match value.get_ref() {
        DeValue::Array(all) => all.iter().filter_map(table).collect(),
        _ => table(value).into_iter().collect(),
    }
}

fn known(text: &str, table: &DeTable<'_>, whose: &str, allowed: &[&[&str]]) -> Result<(), String> {
    let allowed = || allowed.iter().copied().flatten().copied();
    let is_unknown = |key: &&str| !allowed().any(|other| other == *key);
    let unknown = table.keys().map(|key| (key.span().start, key.get_ref().as_ref()));
    let Some((at, key)) = unknown.filter(|(_, key)| is_unknown(key)).min() else { return Ok(()) };
    let line = line(text, at);
    if FILE.contains(&key) {
        return Err(format!(
            "line {line}: {key} is a key of the whole file, and is in {whose}; move it above all tables"
        ));
    }
    let near = meant(key, allowed());
    let names: Vec<&str> = allowed().collect();
    Err(format!("line {line}: {key:?} is no key of {whose}{near}; allowed: {}", names.join(", ")))
}

fn line(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_is_told_with_its_line_and_the_nearest() {
        let file = "title = 't'\nround = 3\n[[points]]\nworkload = 'single'\nload = '2x'\n[judge]\n\
                    server = 'a'";
        let said = |text: &str| check(text).unwrap_err();
        let round = said(file);
        assert!(round.starts_with("line 2: \"round\" is no key of an experiment (is it rounds?)"), "{round}");
        let rounds = file.replace("round =", "rounds =");
        assert_eq!(check(&rounds), Ok(()));
        let point = said(&rounds.replace("\nload = ", "\nloads = "));
        assert!(point.starts_with("line 5: \"loads\" is no key of a point (is it load?)"), "{point}");
        let confirmation = said(&rounds.replace("server =", "serve ="));
        let expected = "line 7: \"serve\" is no key of [judge] (is it server?)";
        assert!(confirmation.starts_with(expected), "{confirmation}");
        let misplaced = said(&rounds.replace("\nload = ", "\nseed = 1\nload = "));
        assert!(misplaced.starts_with("line 5: seed is a key of the whole file, and is in a point"));
        assert_eq!(check("no TOML"), Ok(()));
    }

    #[test]
    fn the_line_of_an_error_is_that_of_its_key() {
        let file = "share = 3\nmemory = '1MB'\n[[points]]\nload = '2x'\n\n[[points]]\nshare = 99\n\
                    servers = [\n  'a',\n  'b',\n]\n[vary]\n\nn = [1]\n[judge]\nserver = 'a'\n";
        let line = |place, error: &str| line_of(file, place, error);
        assert_eq!(line(Place::Point(1), "share: 99 is not allowed"), Some(7));
        assert_eq!(line(Place::Point(0), "share: 3 is not allowed"), Some(1));
        assert_eq!(line(Place::Point(0), "\"one: of, those\": load: wrk asks"), Some(4));
        assert_eq!(line(Place::Point(1), "servers[1]: b is no server"), Some(10));
        assert_eq!(line(Place::File, "\"x\": not a size, in `memory`"), Some(2));
        assert_eq!(line(Place::File, "memory and disk must be set together"), Some(2));
        assert_eq!(line(Place::Vary, "n: no server has {n}"), Some(14));
        assert_eq!(line(Place::Confirmation, "server: no server is called x"), Some(16));
        // An error about none of its keys is about the table.
        assert_eq!(line(Place::Point(1), "there are no servers"), Some(6));
        assert_eq!(line(Place::Confirmation, "it is measured beside"), Some(15));
        assert_eq!(line(Place::File, "something else"), None);
    }
}
