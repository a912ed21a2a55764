//! Sites with separate roots, selected by the requested host.

use super::*;
use crate::config::{HostPattern, RouteRule};

/// The default site, `a.example`, and everything below `b.example`, in directories of these names.
fn sites(change: impl FnOnce(&mut [SiteSettings; 3])) -> Site {
    let mut site = Site::new();
    let host = |host: &str, below| HostPattern { host: host.into(), below };
    let other = |host: HostPattern| {
        let root = site.keep.path().join(&host.host);
        fs::create_dir(&root).unwrap();
        SiteSettings::new(vec![host], None, FileSettings { root, ..site.settings.clone() })
    };
    let mut sites =
        [default_site(&site.settings), other(host("a.example", false)), other(host("b.example", true))];
    change(&mut sites);
    site.content = content(&sites);
    site
}

fn text(site: &mut Site, host: &str, target: &str) -> (u16, String) {
    let reply = site.request_of(host, "GET", target, "");
    (reply.status, reply.text().to_owned())
}

#[test]
fn each_host_has_files_of_its_own() {
    let mut site = sites(|_| {});
    for (root, content) in [("root", "default"), ("a.example", "of a"), ("b.example", "of b")] {
        site.write(&format!("../{root}/x"), content);
        site.write(&format!("../{root}/only-{root}"), content);
    }
    // The second time from the table, which has one name for each site.
    for _ in 0..2 {
        for (host, expected) in [
            ("other", "default"),
            ("a.example:80", "of a"),
            ("x.B.example", "of b"),
            ("b.example", "default"),
        ] {
            assert_eq!(text(&mut site, host, "/x"), (200, expected.to_owned()), "{host}");
        }
    }
    assert_eq!(site.content.table_size().entries, 3);
    assert_eq!(text(&mut site, "a.example", "/only-b.example").0, 404);
    assert_eq!(text(&mut site, "a.example", "/%6fnly-a.example").0, 200);
    assert_eq!(text(&mut site, "a.example", "/../b.example/x").0, 400, "roots are no way into one another");
}

#[test]
fn what_is_said_of_a_site_is_said_of_no_other() {
    let mut site = sites(|[_, a, b]| {
        a.files.listing = true;
        a.files.error_pages = [(404, "/missing".to_owned())].into();
        b.files.dotfiles = true;
        let gone = RouteRule { status: Some(410), ..RouteRule::default() };
        b.files.routes = vec![RouteRule { path: Some(Pattern::of_path("/gone").unwrap()), ..gone }];
        let set = vec![("X-Of".to_owned(), "b".to_owned())];
        b.files.headers = vec![HeaderRule { set, ..HeaderRule::default() }];
    });
    for root in ["root", "a.example", "b.example"] {
        for name in [".dot", "gone", "missing"] {
            site.write(&format!("../{root}/{name}"), format!("{name} of {root}"));
        }
    }
    let statuses = |site: &mut Site, target: &str| {
        ["other", "a.example", "x.b.example"].map(|host| text(site, host, target).0)
    };
    assert_eq!(statuses(&mut site, "/"), [403, 200, 403]);
    assert_eq!(statuses(&mut site, "/.dot"), [404, 404, 200]);
    assert_eq!(statuses(&mut site, "/%2edot"), [404, 404, 200]);
    assert_eq!(statuses(&mut site, "/gone"), [200, 200, 410]);
    assert_eq!(text(&mut site, "a.example", "/nothing"), (404, "missing of a.example".to_owned()));
    assert!(text(&mut site, "other", "/nothing").1.contains("<h1>404"));
    for (host, expected) in [("other", None), ("a.example", None), ("x.b.example", Some("b"))] {
        for target in ["/missing", "/nothing"] {
            let reply = site.request_of(host, "GET", target, "");
            assert_eq!(reply.field("x-of"), expected, "{host}{target}");
        }
    }
}

#[test]
fn a_site_has_coded_forms_of_its_own() {
    let mut site = sites(|_| {});
    for root in ["a.example", "b.example"] {
        site.write(&format!("../{root}/x.txt"), "plain");
    }
    site.write("../b.example/x.txt.gz", "coded");
    for _ in 0..2 {
        for (host, expected) in [("a.example", "plain"), ("x.b.example", "coded")] {
            let reply = site.request_of(host, "GET", "/x.txt", "Accept-Encoding: gzip\r\n");
            assert_eq!(reply.text(), expected, "{host}");
        }
    }
}

#[test]
fn the_root_of_each_site_is_followed() {
    let mut site = sites(|_| {});
    site.write("../a.example/x", "before");
    site.write("x", "default");
    assert_eq!(text(&mut site, "a.example", "/x").1, "before");
    assert_eq!(text(&mut site, "other", "/x").1, "default");
    let [root, away] = ["../a.example", "../away"].map(|name| site.path(name));
    fs::rename(&root, away).unwrap();
    fs::create_dir(&root).unwrap();
    site.write("../a.example/x", "after");
    site.later();
    assert_eq!(text(&mut site, "a.example", "/x").1, "after");
    assert_eq!(text(&mut site, "other", "/x").1, "default");
}
