//! Prints settings as a TOML file that yields the same settings.

use std::fmt::Write as _;

use http1::coding::Coding;

use super::headers;
use super::key::Key;
use super::keys::KEYS;
use super::pools;
use super::routes;
use super::settings::{FileSettings, Settings};
use super::sites;
use super::values::pair;

/// Writes all settings, with a comment for each key that has no value. TOML cannot represent a path that
/// is not UTF-8.
pub(super) fn print(settings: &Settings) -> String {
    let mut page = String::new();
    for keys in KEYS.chunk_by(|a, b| a.table == b.table) {
        if !keys[0].table.is_empty() {
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(page, "\n[{}]", keys[0].table);
        }
        print_keys(&mut page, keys, settings);
    }
    print_tables(&mut page, "", &settings.files);
    for rule in &settings.pools {
        page += "\n[[pools]]\n";
        print_keys(&mut page, pools::KEYS, rule);
    }
    for site in &settings.sites {
        page += "\n[[sites]]\n";
        print_keys(&mut page, sites::KEYS, site);
        print_tables(&mut page, "sites.", &site.files);
    }
    page
}

/// Writes the tables of a site. Their names begin with `site`.
fn print_tables(page: &mut String, site: &str, files: &FileSettings) {
    let types = files.types.iter().map(|(extension, media_type)| pair(extension, media_type));
    print_pairs(page, &format!("{site}types"), types);
    let token = |coding: Option<Coding>| coding.map_or("off", Coding::token);
    let encodings = files.encodings.iter().map(|(ending, coding)| pair(ending, token(*coding)));
    print_pairs(page, &format!("{site}encodings"), encodings);
    let error_pages = files.error_pages.iter().map(|(status, file)| pair(&status.to_string(), file));
    print_pairs(page, &format!("{site}error_pages"), error_pages);
    for rule in &files.headers {
        let _ = writeln!(page, "\n[[{site}headers]]");
        print_keys(page, headers::KEYS, rule);
    }
    for rule in &files.routes {
        let _ = writeln!(page, "\n[[{site}routes]]");
        print_keys(page, routes::KEYS, rule);
    }
}

fn print_keys<T: Clone>(page: &mut String, keys: &[Key<T>], settings: &T) {
    // A key borrows a setting mutably, so this works on a copy.
    let mut settings = settings.clone();
    for key in keys {
        let _ = match (key.setting)(&mut settings).written {
            Some(value) => writeln!(page, "{} = {value}", key.name),
            None if key.unset.is_empty() => Ok(()),
            None => writeln!(page, "# {} is not set: {}", key.name, key.unset),
        };
    }
}

fn print_pairs(page: &mut String, table: &str, pairs: impl ExactSizeIterator<Item = String>) {
    // A site's table may be empty where the table at the top of the file is not.
    if pairs.len() > 0 || table.contains('.') {
        let _ = writeln!(page, "\n[{table}]\n{}", pairs.collect::<Vec<_>>().join("\n"));
    }
}
