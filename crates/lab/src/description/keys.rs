//! The keys of an experiment's file: which there are where, and on which line each stands.

use toml::de::{DeTable, DeValue};

use crate::near::meant;

/// Of the file itself.
const FILE: &[&str] = &[
    "title",
    "about",
    "servers",
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

/// Of a table of `points`.
const POINT: &[&str] = &["name", "workload", "load", "servers", "compare"];

/// Of a table of `points`, or of the file for all of them.
const SETTING: &[&str] = &[
    "application",
    "generator",
    "clients",
    "order",
    "memory",
    "disk",
    "others",
    "cold",
    "share",
    "turn_us",
    "both_cpus",
    "may_wait",
    "warm_up",
    "measured",
    "timeout",
    "slices",
];

const JUDGE: &[&str] = &["server", "beside", "rounds"];
const FINDING: &[&str] = &["paper", "says", "expect"];

/// Whether all keys are known.
///
/// # Errors
/// The first that is not, with its line and what may be meant.
pub(super) fn check(text: &str) -> Result<(), String> {
    // What is no TOML is told by who reads the values.
    let Ok(file) = DeTable::parse(text) else { return Ok(()) };
    let file = file.get_ref();
    known(text, file, "an experiment", &[FILE, SETTING])?;
    for point in tables(file, "points") {
        known(text, point, "a point", &[POINT, SETTING])?;
    }
    for judge in tables(file, "judge") {
        known(text, judge, "[judge]", &[JUDGE])?;
    }
    for finding in tables(file, "findings") {
        known(text, finding, "a finding", &[FINDING])?;
    }
    Ok(())
}

/// The line of what an error is about, which begins with its key or ends with "in `key`": in the point of
/// that number, or else in the file.
pub(super) fn line_of(text: &str, point: Option<usize>, error: &str) -> Option<usize> {
    let file = DeTable::parse(text).ok()?;
    let file = file.get_ref();
    let point = point.and_then(|number| tables(file, "points").into_iter().nth(number));
    let named = error.rsplit_once("in `").map(|(_, key)| key.trim_end_matches('`'));
    let key = named.or_else(|| error.split_once(':').map(|(key, _)| key))?;
    [point, Some(file)].into_iter().flatten().find_map(|table| {
        let (found, _) = table.iter().find(|(other, _)| other.get_ref() == key)?;
        Some(line(text, found.span().start))
    })
}

/// A table, or all tables of an array.
fn tables<'a, 'i>(file: &'a DeTable<'i>, key: &str) -> Vec<&'a DeTable<'i>> {
    match file.get(key).map(toml::Spanned::get_ref) {
        Some(DeValue::Table(table)) => vec![table],
        Some(DeValue::Array(all)) => all.iter().filter_map(|one| one.get_ref().as_table()).collect(),
        _ => Vec::new(),
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
            "line {line}: {key} is a key of the whole file, and stands in {whose}; allowed: above all tables"
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
        let judge = said(&rounds.replace("server =", "serve ="));
        assert!(judge.starts_with("line 7: \"serve\" is no key of [judge] (is it server?)"), "{judge}");
        let misplaced = said(&rounds.replace("\nload = ", "\nseed = 1\nload = "));
        assert!(misplaced.starts_with("line 5: seed is a key of the whole file, and stands in a point"));
        assert_eq!(check("no TOML"), Ok(()));
    }

    #[test]
    fn the_line_of_an_error_is_that_of_its_key() {
        let file = "share = 3\nmemory = '1MB'\n[[points]]\nload = '2x'\n\n[[points]]\nshare = 99\n";
        assert_eq!(line_of(file, Some(1), "share: 99 is not allowed"), Some(7));
        assert_eq!(line_of(file, Some(0), "share: 3 is not allowed"), Some(1));
        assert_eq!(line_of(file, None, "\"x\": not a size, in `memory`"), Some(2));
        assert_eq!(line_of(file, None, "something else"), None);
    }
}
