//! The operator's header fields.

use super::*;

fn site() -> Site {
    let rule = HeaderRule::default();
    let field = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    Site::with(|settings| {
        settings.headers = vec![
            HeaderRule {
                media_type: Some(Pattern::of_media_type("text/html").unwrap()),
                set: field("X-Html", "yes"),
                ..rule.clone()
            },
            HeaderRule {
                path: Some(Pattern::of_path("/d/index.html").unwrap()),
                set: field("X-Index", "yes"),
                ..rule.clone()
            },
            HeaderRule {
                path: Some(Pattern::of_path("/dated/**").unwrap()),
                set: field("X-Dated", "yes"),
                expires: Some(Duration::from_mins(1)),
                ..rule
            },
        ];
    })
}

#[test]
fn they_go_with_200_206_and_304() {
    let mut site = site();
    site.write("a.html", "content");
    site.write("d/index.html", "content");
    Site::settle();
    let etag = site.get("/a.html").etag().to_owned();
    for (fields, status) in [
        (String::new(), 200),
        ("Range: bytes=0-1\r\n".to_owned(), 206),
        ("Range: bytes=0-1,4-4\r\n".to_owned(), 206),
        (format!("If-None-Match: {etag}\r\n"), 304),
    ] {
        let reply = site.request("GET", "/a.html", &fields);
        assert_eq!((reply.status, reply.field("x-html")), (status, Some("yes")));
    }
    assert_eq!(site.get("/d/").field("x-index"), Some("yes"), "rules see the file, not the directory");
}

#[test]
fn they_go_with_what_is_no_file_but_do_not_make_it_cacheable() {
    let mut site = site();
    site.reconfigure(|settings| {
        settings.listing = true;
        settings.error_pages = [(404, "/404.txt".to_owned())].into();
    });
    site.write("dated/d/x", "content");
    site.write("dated/a", "content");
    site.write("404.txt", "nothing here");
    for (method, target, status, html) in [
        ("GET", "/dated/absent", 404, None),
        ("HEAD", "/%64ated/absent", 404, None),
        ("GET", "/dated/%2fx", 404, None),
        ("GET", "/dated/.hidden", 404, None),
        ("GET", "/dated/%zz", 400, Some("yes")),
        ("POST", "/dated/a", 405, Some("yes")),
        ("GET", "/dated/d", 301, Some("yes")),
        ("GET", "/dated/d/", 200, Some("yes")),
        ("OPTIONS", "/dated/a", 204, None),
    ] {
        let reply = site.request(method, target, "");
        assert_eq!((reply.status, reply.field("x-dated")), (status, Some("yes")), "{method} {target}");
        assert_eq!(reply.field("x-html"), html, "{method} {target}");
        for name in ["cache-control", "expires"] {
            assert_eq!(reply.field(name), None, "{method} {target}");
        }
    }
    let reply = site.get_with("/dated/a", "If-Match: \"x\"");
    assert_eq!((reply.status, reply.field("x-dated"), reply.field("expires")), (412, Some("yes"), None));
    let reply = site.get_with("/dated/a", "Range: bytes=100-");
    assert_eq!((reply.status, reply.field("x-dated"), reply.field("expires")), (416, Some("yes"), None));
    assert_eq!(site.get("/dated/a").field("cache-control"), Some("max-age=60"));
    assert_eq!(site.get("/absent").field("x-dated"), None);
    assert_eq!(site.request("OPTIONS", "*", "").field("x-dated"), None);
}

#[test]
fn expires_keeps_its_distance() {
    let mut site = site();
    site.reconfigure(|settings| settings.validity = Duration::from_hours(1));
    site.write("dated/a", "content");
    Site::settle();
    let expires = |site: &mut Site| {
        let reply = site.get("/dated/a");
        assert_eq!(reply.field("cache-control"), Some("max-age=60"));
        http1::date::parse_http_date(reply.field("expires").unwrap().as_bytes()).unwrap()
    };
    let first = expires(&mut site);
    assert!(first.abs_diff(sys::clock::realtime_secs() + 60) <= 1);
    while sys::clock::realtime_secs() + 60 <= first {
        std::thread::sleep(Duration::from_millis(20));
    }
    site.later();
    assert!(expires(&mut site) > first, "although the file is believed for an hour");
}
