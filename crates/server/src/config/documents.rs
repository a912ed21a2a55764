//! Checks that docs/configuration.md and the example file match the code.

use super::tests::{keys, place};
use super::*;

const PAGE: &str = include_str!("../../../../docs/configuration.md");
const EXAMPLE: &str = include_str!("../../../../docs/sluice.example.toml");

/// The keys that every pool requires.
const POOL: &str = "[[pools]]\nname = 'a'\nservers = '127.0.0.1:1'\n";

/// The rows of the page's tables: each key with its table, and the text in the column of defaults.
fn page_rows() -> Vec<(String, &'static str)> {
    let mut table = "";
    let mut rows = Vec::new();
    for line in PAGE.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            table = title.strip_prefix('[').map_or("", |title| title.trim_matches(['[', ']']));
        } else if let Some(row) = line.strip_prefix("| `") {
            let (key, rest) = row.split_once('`').expect("a key in backquotes");
            let default = rest.split('|').nth(2).expect("a column of defaults").trim();
            let full = if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
            rows.push((full, default));
        }
    }
    rows
}

#[test]
fn the_page_has_a_row_for_every_key_and_for_no_other() {
    let mut rows: Vec<_> = page_rows().into_iter().map(|(key, _)| key).collect();
    let mut keys: Vec<_> = keys().collect();
    // Keys that are tables have a heading instead of a row.
    keys.retain(|key| !PAGE.contains(&format!("## [{key}]\n")) && !PAGE.contains(&format!("## [[{key}]]\n")));
    rows.sort_unstable();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(rows, keys);
}

#[test]
fn the_page_tells_the_defaults() {
    let (dir, mut source) = place("");
    source.command_line.set("root", vec![dir.path().display().to_string()]);
    let default = source.load().expect("settings");
    for (key, shown) in page_rows() {
        let Some(shown) = shown.strip_prefix('`').and_then(|shown| shown.strip_suffix('`')) else {
            assert_eq!(shown, "–", "{key}");
            continue;
        };
        let load = |text: &str| source.load_text(text).unwrap_or_else(|error| panic!("{error}"));
        let (settings, default) = match key.strip_prefix("pools.") {
            None => (load(&format!("{key} = {shown}")), default.clone()),
            Some(key) => (load(&format!("{POOL}{key} = {shown}")), load(POOL)),
        };
        assert_eq!(settings, default, "{key} is not {shown} by default");
    }
}

/// The settings of the example file. `uncomment` takes lines out of their comments. The root and the CPU
/// are replaced by ones that exist.
fn example(uncomment: impl Fn(&'static str) -> Option<&'static str>) -> Settings {
    let (dir, source) = place("");
    let root = dir.path().join("www").display().to_string();
    let cpu = sys::process::allowed_cpus().expect("CPUs")[0].to_string();
    let lines: Vec<_> = EXAMPLE.lines().map(|line| uncomment(line).unwrap_or(line)).collect();
    let text =
        lines.join("\n").replace("/srv/www", &root).replace("cpus = \"0\"", &format!("cpus = \"{cpu}\""));
    let mut settings = source.load_text(&text).unwrap_or_else(|error| panic!("{error}"));
    settings.files.root = "/srv/www".into();
    settings
}

#[test]
fn the_example_shows_the_defaults() {
    let default = Settings::new("/srv/www".into());
    assert_eq!(example(|_| None), default);
    let shown = |line: &'static str| line.strip_prefix('#').filter(|rest| !rest.starts_with(' '));
    assert_eq!(example(shown), default);
    // The lines above change nothing. This checks that they are read at all, with a wrong value.
    let wrong = |line| shown(line).map(|line| if line.starts_with("backlog") { "backlog = 1" } else { line });
    assert_ne!(example(wrong), default);
}

#[test]
fn the_examples_in_the_example_can_be_used() {
    let settings = example(|line| line.strip_prefix("#     "));
    assert_eq!(settings.files.headers.len(), 1);
    assert_eq!(settings.files.error_pages.len(), 1);
}

#[test]
fn the_example_has_every_key() {
    for (_, key) in resolve::all_keys() {
        let shown = EXAMPLE.lines().map(|line| line.trim_start_matches(['#', ' ']));
        let mut lines = shown
            .filter(|line| line.starts_with(&format!("{key} =")) || line.trim_matches(['[', ']']) == key);
        assert!(lines.next().is_some(), "{key}");
    }
}
