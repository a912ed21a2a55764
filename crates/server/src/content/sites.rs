//! Sites: what differs between the hosts that requests are for. Each site has its own root and its own
//! lookups. All sites share the table of open files.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use hashbrown::HashMap;

use super::error_page::ErrorPages;
use super::lookup::{Lookup, LookupResult};
use super::numbers::SiteNumber;
use super::resolver::{ContentError, Resolver};
use super::routes::Routes;
use super::rules::Rules;
use crate::config::SiteSettings;

/// A site, for one worker.
#[derive(Debug)]
pub(super) struct Site {
    /// How often the root had become another directory when the old root's entries were last dropped from
    /// the table.
    pub(super) root_changes: u32,
    pub(super) dotfiles: bool,
    pub(super) listing: bool,
    /// The `Retry-After` line.
    pub(super) retry_after: Option<Box<[u8]>>,
    pub(super) error_pages: ErrorPages,
    pub(super) routes: Arc<Routes>,
}

impl Site {
    pub(super) fn new(number: SiteNumber, settings: &SiteSettings, resolvers: &Resolvers) -> Self {
        let files = &settings.files;
        Self {
            root_changes: resolvers.of(number).loader.root.changes(),
            dotfiles: files.dotfiles,
            listing: files.listing,
            retry_after: files.retry_after.map(|time| {
                let seconds = time.as_millis().div_ceil(1000);
                format!("Retry-After: {seconds}\r\n").into_bytes().into()
            }),
            error_pages: ErrorPages::new(files),
            routes: Arc::clone(&resolvers.of(number).loader.routes),
        }
    }
}

/// Looks names up below the roots of all sites, for all threads of a process.
#[derive(Debug)]
pub struct Resolvers {
    all: Vec<Resolver>,
}

impl Resolvers {
    /// Opens the document roots of all [sites](crate::config::Settings::all_sites).
    ///
    /// # Errors
    ///
    /// One of the directories cannot be opened.
    pub fn new(sites: &[SiteSettings]) -> Result<Self, ContentError> {
        let all = (0..).zip(sites).zip(Rules::of_sites(sites)).map(|((number, site), rules)| {
            let routes = Arc::new(Routes::new(number, &site.files));
            Resolver::new(&site.files, routes, rules)
        });
        Ok(Self { all: all.collect::<Result<_, _>>()? })
    }

    /// Looks something up, for as long as it takes.
    pub fn look_up(&self, lookup: &Lookup<'_>) -> LookupResult {
        self.of(lookup.site).look_up(lookup)
    }

    #[inline]
    pub(super) fn of(&self, site: SiteNumber) -> &Resolver {
        &self.all[usize::from(site)]
    }

    /// The open document roots.
    pub(super) fn roots(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.all.iter().map(|resolver| resolver.loader.root.as_fd())
    }
}

/// Maps hosts to sites.
#[derive(Debug)]
pub struct Hosts {
    exact: HashMap<Box<[u8]>, SiteNumber>,
    /// For all hosts below these domains.
    below: HashMap<Box<[u8]>, SiteNumber>,
}

/// The longest name that a host can have (RFC 1035 section 2.3.4, as text).
const LONGEST: usize = 255;

impl Hosts {
    /// Of all [sites](crate::config::Settings::all_sites).
    pub fn new(sites: &[SiteSettings]) -> Self {
        let (mut exact, mut below) = (HashMap::new(), HashMap::new());
        for (number, site) in (0..).zip(sites) {
            for host in &site.hosts {
                let hosts = if host.below { &mut below } else { &mut exact };
                hosts.insert(host.host.as_bytes().into(), number);
            }
        }
        Self { exact, below }
    }

    /// The site of a host: its own, or that of the nearest domain above it, or else the default site.
    pub fn of(&self, host: &[u8]) -> SiteNumber {
        let host = host.strip_suffix(b".").unwrap_or(host);
        let mut lower = [0; LONGEST];
        let Some(lower) = lower.get_mut(..host.len()) else { return 0 };
        lower.copy_from_slice(host);
        lower.make_ascii_lowercase();
        if let Some(site) = self.exact.get(&*lower) {
            return *site;
        }
        let dots = memchr::memchr_iter(b'.', lower).filter(|_| !self.below.is_empty());
        dots.filter_map(|dot| self.below.get(&lower[dot + 1..])).copied().next().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use http1::{Head, Terms, Version};

    use super::*;
    use crate::config::{FileSettings, HostPattern};

    fn site(hosts: &[&str]) -> SiteSettings {
        let host = |host: &&str| HostPattern {
            host: host.trim_start_matches("*.").to_owned(),
            below: host.starts_with("*."),
        };
        SiteSettings::new(hosts.iter().map(host).collect(), None, FileSettings::new("/".into()))
    }

    #[test]
    fn a_host_has_its_own_site_or_that_of_the_nearest_above_it() {
        let sites = [
            site(&[]),
            site(&["example.org", "[::1]"]),
            site(&["*.example.org"]),
            site(&["*.b.example.org", "a.b.example.org"]),
        ];
        let hosts = Hosts::new(&sites);
        let of = |host: &str| {
            let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let terms = Terms { version: Version::Http11, persistent: true, body: true };
            hosts.of(Head::again(head.as_bytes(), terms).unwrap().host_name().unwrap())
        };
        for (host, expected) in [
            ("example.org", 1),
            ("EXAMPLE.org.", 1),
            ("example.org:8080", 1),
            ("[::1]:80", 1),
            ("a.example.org", 2),
            ("x.y.example.org:1", 2),
            ("b.example.org", 2),
            ("c.b.example.org", 3),
            ("a.b.example.org", 3),
            ("org", 0),
            ("example.com", 0),
            ("xexample.org", 0),
            ("", 0),
            (".example.org", 2),
        ] {
            assert_eq!(of(host), expected, "{host}");
        }
        assert_eq!(of(&format!("{}.example.org", "a.".repeat(200))), 0, "longer than any");
    }

    #[test]
    fn threads_of_a_process_have_their_routes_in_common() {
        let site = site(&[]);
        let resolvers = Resolvers::new(std::slice::from_ref(&site)).unwrap();
        let [one, other] = [0, 0].map(|number| Site::new(number, &site, &resolvers));
        assert!(Arc::ptr_eq(&one.routes, &other.routes));
    }

    #[test]
    fn whoever_names_no_host_gets_the_default_site() {
        let hosts = Hosts::new(&[site(&[]), site(&["a"])]);
        let terms = Terms { version: Version::Http10, persistent: false, body: true };
        let of = |head: &str| {
            hosts.of(Head::again(head.as_bytes(), terms).unwrap().host_name().unwrap_or_default())
        };
        assert_eq!(of("GET / HTTP/1.0\r\n\r\n"), 0);
        assert_eq!(of("GET http://A:1/ HTTP/1.0\r\nHost: b\r\n\r\n"), 1, "the target goes first");
    }
}
