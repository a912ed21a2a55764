//! Routes: what the server does with some paths instead of sending their file.

use super::*;
use crate::config::{CommandLine, Source, Target};

/// A site with a few files and these routes, in the syntax of the configuration file.
fn site(routes: &str) -> Site {
    let site = Site::new();
    for name in ["index.html", "a.txt", "old/a.txt", "app/real.txt", "secret/x.txt", "d/index.html"] {
        site.write(name, name);
    }
    let file = site.keep.path().join("sluice.toml");
    fs::write(&file, format!("root = {:?}\n{routes}", site.settings.root)).unwrap();
    let settings = Source { file: Some(file), command_line: CommandLine::default() }.load().unwrap();
    let mut site = site;
    site.reconfigure(|files| files.routes = settings.files.routes);
    site
}

const REDIRECTS: &str = r#"
    [[routes]]
    path = "/old/**"
    redirect = "/new/{rest}"
    status = 301
    [[routes]]
    path = "/moved"
    redirect = "https://example.org/x?y=z"
    [[routes]]
    path = "/all/**"
    redirect = "https://example.org/{path}"
    status = 308
"#;

#[test]
fn redirects_say_where_and_keep_the_query() {
    let mut site = site(REDIRECTS);
    for (target, status, location) in [
        ("/old/a.txt", 301, "/new/a.txt"),
        ("/old/", 301, "/new/"),
        ("/old/b/c?d=e&f", 301, "/new/b/c?d=e&f"),
        ("/old/a%20b%3f", 301, "/new/a%20b%3F"),
        ("/moved", 302, "https://example.org/x?y=z"),
        ("/moved?q", 302, "https://example.org/x?y=z"),
        ("/all/of?it", 308, "https://example.org/all/of?it"),
    ] {
        let reply = site.get(target);
        assert_eq!((reply.status, reply.field("location")), (status, Some(location)), "{target}");
        assert!(!reply.body.is_empty());
    }
    let reply = site.request("POST", "/old/form", "");
    assert_eq!((reply.status, reply.field("location")), (301, Some("/new/form")));
    assert_eq!(site.request("POST", "/a.txt", "").status, 405);
    assert_eq!((site.status("/old"), site.status("/a.txt")), (301, 200), "a directory's slash, and a file");
}

#[test]
fn nobody_is_sent_to_another_host_by_what_is_asked_for() {
    let mut site =
        site("[[routes]]\npath = '/s/**'\nredirect = '/{path}'\n[[routes]]\nredirect = '/{rest}'\n");
    for (target, location) in [
        ("//evil.example", "/evil.example"),
        ("/%2e/evil.example/", "/evil.example/"),
        ("/s/evil.example", "/s/evil.example"),
        ("/s/../evil.example", "/evil.example"),
    ] {
        assert_eq!(site.get(target).field("location"), Some(location), "{target}");
    }
}

/// A path has the same route, however it is written.
#[test]
fn routes_see_the_path_that_opens_the_file() {
    let mut site = site("[[routes]]\npath = '/secret/**'\nstatus = 403\n");
    for target in [
        "/secret/x.txt",
        "/secret/",
        "//secret/x.txt",
        "/secret//x.txt",
        "/%73ecret/x.txt",
        "/a/../secret/x.txt",
        "/./secret/./x.txt",
        "/secret/x.txt?y",
        "/secret/none",
    ] {
        assert_eq!(site.status(target), 403, "{target}");
        assert_eq!(site.request("HEAD", target, "").status, 403, "{target}");
    }
    assert_eq!(site.status("/a.txt"), 200);
}

/// The owner names error pages and fallbacks. A client that was sent one still cannot request it.
#[test]
fn what_the_owner_names_is_sent_for_that_alone() {
    let mut site = site(
        "[[routes]]\npath = '/secret/**'\nstatus = 410\n\
         [[routes]]\npath = '/app/**'\nfallback = '/secret/x.txt'\n",
    );
    site.reconfigure(|settings| {
        settings.error_pages = [(404, "/secret/x.txt".to_owned())].into();
        settings.listing = true;
    });
    for _ in 0..2 {
        for (target, status) in [("/none", 404), ("/app/none", 200)] {
            let reply = site.get(target);
            assert_eq!((reply.status, reply.text()), (status, "secret/x.txt"), "{target}");
        }
        assert_eq!((site.status("/secret/x.txt"), site.status("/secret/")), (410, 410));
        assert_eq!(site.get_with("/secret/", "Accept: application/json").status, 410);
    }
    // Their own paths may lead elsewhere, too.
    site.reconfigure(|settings| {
        settings.routes[0].status = None;
        settings.routes[0].redirect = Some(Target::read("/").unwrap());
    });
    assert_eq!(
        (site.status("/none"), site.status("/app/none"), site.status("/secret/x.txt")),
        (404, 200, 302)
    );
    assert_eq!(site.get("/none").text(), "secret/x.txt");
}

#[test]
fn a_fallback_is_sent_where_there_is_no_file() {
    let mut site = site("[[routes]]\npath = '/app/**'\nfallback = '/index.html'\n");
    for (target, status, body) in [
        ("/app/real.txt", 200, "app/real.txt"),
        ("/app/some/page", 200, "index.html"),
        ("/app/some/page?x", 200, "index.html"),
        ("/a.txt", 200, "a.txt"),
    ] {
        // The second time, the answer comes from the table.
        for _ in 0..2 {
            let reply = site.get(target);
            assert_eq!((reply.status, reply.text()), (status, body), "{target}");
        }
    }
    for (target, status) in [("/elsewhere", 404), ("/app/.hidden", 404), ("/app/%zz", 400), ("/app/", 403)] {
        assert_eq!(site.status(target), status, "{target}");
    }
    let etag = site.get("/app/page").etag().to_owned();
    assert_eq!(site.get_with("/app/page", &format!("If-None-Match: {etag}")).status, 304);
    assert_eq!(site.get("/app/page").field("content-type"), Some("text/html; charset=utf-8"));
}

#[test]
fn the_first_route_that_matches_is_taken() {
    let mut site = site(
        "[[routes]]\npath = '/app/real.txt'\n[[routes]]\npath = '/app/**'\nstatus = 503\n\
         [[routes]]\nfallback = '/index.html'\n",
    );
    assert_eq!((site.status("/app/real.txt"), site.status("/app/none")), (200, 503));
    assert_eq!(site.get("/app/none").field("retry-after"), Some("1"));
    assert_eq!(site.get("/whatever").text(), "index.html");
}
