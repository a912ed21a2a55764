//! The bodies of error replies.

use super::*;

fn site() -> Site {
    let site = Site::with(|settings| {
        settings.error_pages =
            [(404, "/errors/404.html".to_owned()), (405, "/errors/large.html".to_owned())].into();
    });
    site.write("errors/404.html", "nothing here");
    site.write("errors/404.html.gz", "gzipped");
    site.write("errors/large.html", pattern(50_000));
    Site::settle();
    site
}

#[test]
fn the_operators_page_with_the_errors_status() {
    let mut site = site();
    for _ in 0..2 {
        let reply = site.get_with("/absent", "Accept-Encoding: gzip\r\nRange: bytes=0-1\r\nIf-None-Match: *");
        assert_eq!((reply.status, reply.text()), (404, "nothing here"));
        assert_eq!(reply.field("content-type"), Some("text/html; charset=utf-8"));
        for absent in ["etag", "last-modified", "accept-ranges", "vary", "content-encoding"] {
            assert_eq!(reply.field(absent), None, "{absent}");
        }
    }
    let reply = site.request("POST", "/absent", "");
    assert_eq!((reply.status, reply.body), (405, pattern(50_000)));
    assert!(reply.fields.contains_key("allow"));
    assert!(site.request("HEAD", "/absent", "").body.is_empty());
    assert_eq!(site.status("/errors/404.html"), 200);
}

#[test]
fn our_own_where_there_is_none() {
    let mut site = site();
    let reply = site.get("/%");
    assert_eq!(reply.field("content-type"), Some("text/html; charset=utf-8"));
    assert!(reply.text().contains("<h1>400 Bad Request</h1>"), "{}", reply.text());
    fs::remove_file(site.path("errors/404.html")).unwrap();
    let reply = site.get("/absent");
    assert!(reply.text().contains("<h1>404 Not Found</h1>"), "{}", reply.text());
}

#[test]
fn the_usual_file_is_the_page_for_404() {
    for (own, expected) in [(None, "usual"), (Some("/own.html"), "own")] {
        let mut site = Site::with(|settings| {
            fs::write(settings.root.join("404.html"), "usual").unwrap();
            fs::write(settings.root.join("own.html"), "own").unwrap();
            settings.error_pages = own.map(|page| (404, page.to_owned())).into_iter().collect();
        });
        Site::settle();
        let reply = site.get("/absent");
        assert_eq!((reply.status, reply.text()), (404, expected));
    }
}

#[test]
fn errors_that_were_no_request() {
    let mut site = site();
    let stamp = Stamp::new("", 0);
    let limits = Limits::default();
    let mut connection = Connection::new(Tick(0), &limits);
    assert!(connection.receive(&limits, Tick(0), b"nonsense\r\n\r\n", false).is_err());
    let (asking, terms) = ((None, MayBlock::Always), connection.error_terms());
    let plan = site.content.error((0, Status::NOT_FOUND, None), terms, asking, 0, Sheet::default(), &stamp);
    connection.respond(&limits, Tick(0), plan.expect("it may wait"));
    let mut download = Download { connection, limits };
    let reply = Reply::parse(&download.take(&site.content, usize::MAX));
    assert_eq!((reply.text(), reply.field("connection")), ("nothing here", Some("close")));
    download.end(&mut site.content);
}
