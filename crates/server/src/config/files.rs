//! The keys of file settings: for the default site, and for sites with their own hosts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::headers;
use super::key::{Field, each, one, pairs, rules};
use super::routes;
use super::settings::FileSettings;
use super::typed::Item;
use super::values::{charset, count, error_page, file_name, flag, one_of, path, unless_off};

pub(super) fn root(files: &mut FileSettings) -> Field<'_> {
    let written = Some((path().write)(&files.root)).filter(|_| !files.root.as_os_str().is_empty());
    Field { written, ..one(&mut files.root, path()) }
}

pub(super) fn index(files: &mut FileSettings) -> Field<'_> {
    each(&mut files.index, file_name())
}

pub(super) fn listing(files: &mut FileSettings) -> Field<'_> {
    one(&mut files.listing, flag())
}

pub(super) fn listing_names(files: &mut FileSettings) -> Field<'_> {
    one(&mut files.listing_names, count(1..=1 << 16))
}

pub(super) fn dotfiles(files: &mut FileSettings) -> Field<'_> {
    one(&mut files.dotfiles, flag())
}

pub(super) fn symlinks(files: &mut FileSettings) -> Field<'_> {
    one(&mut files.symlinks, one_of())
}

pub(super) fn precompressed(files: &mut FileSettings) -> Field<'_> {
    one(&mut files.precompressed, flag())
}

pub(super) fn charset_of_text(files: &mut FileSettings) -> Field<'_> {
    one(&mut files.charset, unless_off(charset()))
}

pub(super) fn types(files: &mut FileSettings) -> Field<'_> {
    shared(&mut files.types, headers::media_type_of_ending)
}

pub(super) fn encodings(files: &mut FileSettings) -> Field<'_> {
    shared(&mut files.encodings, headers::coding_of_ending)
}

/// A key that the operator chose, and its value, once read.
type Pair<T> = Result<(String, T), String>;

/// A table that all sites share unless they set it.
fn shared<T>(field: &mut Arc<BTreeMap<String, T>>, read: fn(&str, &Item) -> Pair<T>) -> Field<'_> {
    let read = move |item: &Item| {
        let mut own = BTreeMap::new();
        pairs(&mut own, read).set(item)?;
        *field = own.into();
        Ok(())
    };
    Field { written: None, read: Box::new(read) }
}

pub(super) fn error_pages(files: &mut FileSettings) -> Field<'_> {
    let FileSettings { root, error_pages, .. } = files;
    pairs(error_pages, |status, item| error_page(root, status, item))
}

pub(super) fn header_rules(files: &mut FileSettings) -> Field<'_> {
    rules(&mut files.headers, Default::default, headers::KEYS, headers::contradictions)
}

pub(super) fn route_rules(files: &mut FileSettings) -> Field<'_> {
    rules(&mut files.routes, Default::default, routes::KEYS, routes::contradictions)
}
