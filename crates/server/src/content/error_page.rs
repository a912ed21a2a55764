//! The bodies of error replies: the operator's pages from the document root, for 404 the root's
//! `404.html`, or else a short default page.
//!
//! An operator's page is a file like any other in the open-file table. But it is sent with the error's
//! status, and without anything that would make it a representation of the requested file: validators,
//! ranges, coding. The header fields of the rules that go with it are those for the requested path and
//! the page's type.

use std::collections::BTreeMap;
use std::io::Write as _;

use http1::{Plan, Sheet, Stamp, Status, Terms};

use super::entry::Facts;
use super::find::Obstacle;
use super::load::Now;
use super::lookup::{Lookup, Resolved};
use super::may_block::MayBlock;
use super::numbers::SiteNumber;
use super::path::Path;
use super::prefetch::Prefetched;
use super::request::Asking;
use super::table::{Pin, Place};
use super::{ALLOW_BY_POOLS, Content};
use crate::config::FileSettings;

/// The operator's pages.
#[derive(Debug)]
pub(super) struct ErrorPages {
    /// Paths from the root, by status.
    paths: BTreeMap<u16, Vec<u8>>,
    /// Whether a page that cannot be sent was already logged. Otherwise every error would log it.
    complained: bool,
}

/// The page for 404 if the operator names none and the root has this file. Generators of static sites
/// write it there.
const USUAL_404: &str = "/404.html";

impl ErrorPages {
    pub(super) fn new(settings: &FileSettings) -> Self {
        let pages = settings.error_pages.iter();
        let mut paths: BTreeMap<_, _> =
            pages.map(|(&status, path)| (status, path.clone().into_bytes())).collect();
        // A site that only redirects has no root.
        let has_root = !settings.root.as_os_str().is_empty();
        if has_root && settings.root.join(&USUAL_404[1..]).is_file() {
            paths.entry(Status::NOT_FOUND.0).or_insert_with(|| USUAL_404.into());
        }
        Self { paths, complained: false }
    }
}

impl Content {
    /// The reply for an error of a site. If the error came before there was a request, it is of the
    /// default site, and there is no path.
    ///
    /// # Errors
    ///
    /// As for [`answer`](Self::answer).
    pub fn error(
        &mut self,
        (site, status, raw_path): (SiteNumber, Status, Option<&[u8]>),
        terms: Terms,
        (prefetched, may_block): (Option<&Prefetched>, MayBlock),
        now_ms: u64,
        sheet: Sheet<Pin>,
        stamp: &Stamp,
    ) -> Result<Plan<Pin>, Box<Lookup<'static>>> {
        let now = Now { ms: now_ms, unix_secs: stamp.unix_secs() };
        let page = self.find_error_page(status, Asking::new(site, now, (prefetched, may_block)));
        let plan = page.map(|page| {
            let mut plan = Plan::new(sheet, status, terms, stamp);
            // Here a pool does not take the method.
            if status == Status::METHOD_NOT_ALLOWED {
                plan.field("Allow", ALLOW_BY_POOLS);
            }
            self.error_with(plan, site, page, raw_path)
        });
        self.table.let_go();
        plan
    }

    /// Completes an error reply with this page. `raw_path` is the path of the request, if it has been
    /// read.
    pub(super) fn error_with(
        &mut self,
        mut plan: Plan<Pin>,
        site: SiteNumber,
        page: Option<Place>,
        raw_path: Option<&[u8]>,
    ) -> Plan<Pin> {
        match page {
            Some(place) => self.custom_page(&mut plan, site, place, raw_path),
            None => self.default_page(&mut plan, site, raw_path),
        }
        plan
    }

    /// The operator's page for a status, if there is one.
    pub(super) fn find_error_page(
        &mut self,
        status: Status,
        asking: Asking<'_>,
    ) -> Result<Option<Place>, Box<Lookup<'static>>> {
        let Some(path) = self.site(asking).error_pages.paths.get(&status.0).cloned() else { return Ok(None) };
        match self.find(Path::known(&path), self.as_owner(asking)) {
            Ok(Resolved::Entry(place)) => return Ok(Some(place)),
            Err(Obstacle::Lookup(lookup)) => return Err(lookup),
            Err(Obstacle::Refused(status))
                if !self.site(asking).error_pages.complained
                    && !asking.prefetched.is_some_and(|had| had.is_given_up) =>
            {
                self.sites[usize::from(asking.site)].error_pages.complained = true;
                let path = String::from_utf8_lossy(&path);
                tracing::warn!("the error page {path:?} can't be sent: {} {}", status.0, status.reason());
            }
            _ => {}
        }
        Ok(None)
    }

    /// Completes a reply with a page that shows its status.
    pub(super) fn default_page(&self, plan: &mut Plan<Pin>, site: SiteNumber, raw_path: Option<&[u8]>) {
        const HTML: &str = "text/html; charset=utf-8";
        self.add_fields(plan, site, raw_path, Some(HTML));
        let mut page = [0; LONGEST_PAGE];
        let len = write_page(plan.status(), &mut page);
        plan.text(HTML, &page[..len]);
    }

    /// Sends length, type, coding and body of an entry.
    fn custom_page(&mut self, plan: &mut Plan<Pin>, site: SiteNumber, place: Place, raw_path: Option<&[u8]>) {
        plan.pin(self.table.pin(place));
        // None of the lines sent here contains a time.
        let made = self.lines(place, site, Now { ms: 0, unix_secs: 0 });
        let (entry, head) = self.table.entry_and_head(place);
        let complete = made.as_ref().map(|lines| (lines.complete(entry), &lines.bytes[..]));
        let (entry, head) = complete.as_ref().map_or((entry, head), |(entry, head)| (entry, *head));
        plan.bytes(&head[..entry.marks.coding as usize]);
        plan.bytes(entry.coding_line(head));
        let media_type = media_type(entry, head).to_owned();
        self.add_fields(plan, site, raw_path, Some(&media_type));
        let entry = self.table.entry(place);
        plan.bytes(b"\r\n");
        plan.end_of_head();
        if entry.is_in_memory() {
            plan.memory(entry.marks.body..entry.memory_len);
        } else {
            plan.file(0, entry.size());
        }
    }
}

/// Twice the room for the page of the longest reason phrase.
const LONGEST_PAGE: usize = 768;

fn write_page(status: Status, page: &mut [u8; LONGEST_PAGE]) -> usize {
    let (code, reason) = (status.0, status.reason());
    let mut room = page.as_mut_slice();
    let written = write!(
        room,
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\"><title>{code} {reason}</title>\n\
         <style>body {{ font: 1rem/1.5 system-ui, sans-serif; margin: 20vh 1rem; text-align: center }}\
         </style>\n\
         <h1>{code} {reason}</h1>\n"
    );
    debug_assert!(written.is_ok(), "LONGEST_PAGE is too short");
    LONGEST_PAGE - room.len()
}

/// The value of an entry's Content-Type line.
fn media_type<'a>(entry: &Facts, head: &'a [u8]) -> &'a str {
    let line = &head[entry.marks.media_type as usize..entry.marks.coding as usize];
    let line = std::str::from_utf8(line).unwrap_or_default();
    line.split_once(':').map_or("", |(_, value)| value.trim())
}
