//! Sites: what is served for hosts that have their own root.
//!
//! A site inherits the settings at the top of the file and overrides them with its own. It does not
//! inherit settings about paths below the root: routes and error pages.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::checks;
use super::error::Problem;
use super::files;
use super::key::{Field, Key, each, is_empty_list, missing, one, optional, rules};
use super::logs;
use super::pools;
use super::settings::{Application, FileSettings, Settings, SiteSettings};
use super::typed::{Item, Table, Value};
use super::values::{host, path, unless_off};

/// The list of sites. It must be read after all other keys, because sites inherit from them.
pub(super) const SITES: Key = Key::of("", "sites", |s: &mut Settings| {
    let files = FileSettings {
        root: PathBuf::new(),
        error_pages: BTreeMap::new(),
        headers: Vec::new(),
        routes: Vec::new(),
        ..s.files.clone()
    };
    let access_log = s.access_log.clone();
    let begin = move || SiteSettings::new(Vec::new(), access_log.clone(), files.clone());
    rules(&mut s.sites, begin, KEYS, contradictions)
});

/// The keys of a site.
pub(super) const KEYS: &[Key<SiteSettings>] = &[
    Key::of("sites", "hosts", |site| each(&mut site.hosts, host())),
    Key::of("sites", "root", |site| files::root(&mut site.files)),
    Key::of("sites", "certificate", |site| optional(&mut site.pair.certificate, path())),
    Key::of("sites", "key", |site| optional(&mut site.pair.key, path())),
    Key::of("sites", "php", |site| application(&mut site.files.php, "php")),
    Key::of("sites", "proxy", |site| application(&mut site.files.proxy, "proxy")),
    Key::of("sites", "access_log", |site| logs::of_site(&mut site.access_log)),
    Key::of("sites", "log_format", |site| logs::format(&mut site.access_log)),
    Key::of("sites", "log_when_full", |site| logs::when_full(&mut site.access_log)),
    Key::of("sites", "index", |site| files::index(&mut site.files)),
    Key::of("sites", "listing", |site| files::listing(&mut site.files)),
    Key::of("sites", "listing_names", |site| files::listing_names(&mut site.files)),
    Key::of("sites", "dotfiles", |site| files::dotfiles(&mut site.files)),
    Key::of("sites", "symlinks", |site| files::symlinks(&mut site.files)),
    Key::of("sites", "precompressed", |site| files::precompressed(&mut site.files)),
    Key::of("sites", "charset", |site| files::charset_of_text(&mut site.files)),
    Key::of("sites", "types", |site| files::types(&mut site.files)),
    Key::of("sites", "encodings", |site| files::encodings(&mut site.files)),
    Key::of("sites", "error_pages", |site| files::error_pages(&mut site.files)),
    Key::of("sites", "headers", |site| files::header_rules(&mut site.files)),
    Key::of("sites", "routes", |site| files::route_rules(&mut site.files)),
];

/// The application of a site, instead of that at the top of the file.
fn application<'a>(own: &'a mut Option<Application>, key: &'static str) -> Field<'a> {
    let of_top = own.as_ref().map(|own| own.server.clone());
    let written = one(own, unless_off(pools::application(key))).written;
    let read = move |item: &Item| {
        one(own, unless_off(pools::application(key))).set(item)?;
        // Each application has one queue, whichever site names it.
        if let Some(own) = own.as_mut().filter(|own| Some(&own.server) != of_top.as_ref()) {
            own.pool = format!("{key} {}", own.server);
        }
        Ok(())
    };
    Field { written, read: Box::new(read) }
}

/// What a site lacks, or cannot have.
fn contradictions(site: &SiteSettings, item: &Item, table: &Table) -> Vec<Problem> {
    let needed = [("hosts", "hosts = \"example.org\""), ("root", "root = \"/srv/example\"")];
    // Error pages that need a root are already reported, and are missing in the settings. So this checks
    // what was typed.
    let pages = table.get("error_pages").map(|entry| &entry.item.value);
    let has_pages = matches!(pages, Some(Value::Table(pages)) if !pages.is_empty());
    let needs_none = site.files.needs_no_root() && !has_pages;
    let needed = if needs_none { &needed[..1] } else { &needed };
    let mut problems: Vec<_> = missing("site", needed, item, table).collect();
    if is_empty_list(table, "hosts") {
        problems.push(item.problem_of("hosts", "a site needs a host, such as \"example.org\""));
    }
    // A value that is not a path is already reported.
    if !site.files.root.as_os_str().is_empty()
        && let Some(what) = checks::wrong_with_root(&site.files.root)
    {
        problems.push(item.problem_of("root", what));
    }
    problems
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::tests::{place, problems};

    const AWAY: &str = "[[sites]]\nhosts = 'a'\n[[sites.routes]]\npath = '/x'\nstatus = 404\n\
        [[sites.routes]]\npath = '/**'\nredirect = 'https://b{path}'\n";

    #[test]
    fn a_site_that_sends_no_file_needs_no_root() {
        for text in [
            format!("root = 'www'\n{AWAY}"),
            AWAY.replace("[[sites]]\nhosts = 'a'\n", "").replace("sites.", ""),
        ] {
            let (_dir, source) = place(&text);
            let settings = source.load().unwrap_or_else(|error| panic!("{text}: {error}"));
            let files = settings.sites.first().map_or(&settings.files, |site| &site.files);
            assert_eq!(files.root, PathBuf::new(), "{text}");
            assert_eq!(source.load_text(&settings.to_toml()).expect("settings"), settings);
        }
        for (instead, of) in [
            ("status = 404", "fallback = '/404.html'"),
            ("'/**'", "'/a/**'"),
            ("redirect = 'https://b{path}'", ""),
            ("[[sites.routes]]\npath = '/**'", "[sites.error_pages]\n404 = '/404.html'\n[[sites.routes]]"),
        ] {
            let text = AWAY.replace(instead, of);
            let told = problems(&format!("root = 'www'\n{text}"));
            assert!(told.contains("a site needs root, such as"), "{text}: {told}");
        }
    }
}
