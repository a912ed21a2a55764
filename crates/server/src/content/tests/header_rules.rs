//! The operator's header fields.

use super::*;

fn site() -> Site {
    let glob = |pattern: &str| GlobBuilder::new(pattern).literal_separator(true).build().unwrap();
    let rule = HeaderRule { path: None, media_type: None, set: Vec::new(), expires: None };
    let field = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    Site::with(|settings| {
        settings.headers = vec![
            HeaderRule { media_type: Some(glob("text/html")), set: field("X-Html", "yes"), ..rule.clone() },
            HeaderRule { path: Some(glob("/d/index.html")), set: field("X-Index", "yes"), ..rule.clone() },
            HeaderRule { path: Some(glob("/dated/**")), expires: Some(Duration::from_mins(1)), ..rule },
        ];
    })
}

#[test]
fn they_go_with_200_206_and_304_but_not_with_errors() {
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
    assert_eq!(site.get_with("/a.html", "If-Match: \"x\"").field("x-html"), None);
    assert_eq!(site.get("/d/").field("x-index"), Some("yes"), "rules see the file, not the directory");
    assert_eq!(site.get("/absent.html").field("x-html"), None);
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
