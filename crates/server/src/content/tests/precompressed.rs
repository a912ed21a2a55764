//! Siblings in other codings.

use std::sync::Arc;

use super::*;

fn site() -> Site {
    let mut site = Site::new();
    site.write("a.html", "plain");
    site.write("a.html.gz", "gzipped");
    site.write("a.html.br", "brotli");
    site.write("b.css", "alone");
    Site::settle();
    site.later();
    site
}

#[test]
fn the_best_sibling_the_client_accepts() {
    let mut site = site();
    let mut tags = Vec::new();
    for (accept, coding, body) in [
        ("gzip, deflate, br, zstd", Some("br"), "brotli"),
        ("gzip", Some("gzip"), "gzipped"),
        ("br;q=0.5, gzip", Some("gzip"), "gzipped"),
        ("zstd", None, "plain"),
        ("br;q=0", None, "plain"),
        ("identity", None, "plain"),
    ] {
        for _ in 0..2 {
            let reply = site.get_with("/a.html", &format!("Accept-Encoding: {accept}"));
            assert_eq!((reply.status, reply.field("content-encoding"), reply.text()), (200, coding, body));
            assert_eq!(reply.field("content-type"), Some("text/html; charset=utf-8"));
            assert_eq!(reply.field("vary"), Some("Accept-Encoding"));
            tags.push((coding, reply.etag().to_owned()));
        }
    }
    tags.sort();
    tags.dedup();
    let all: HashSet<_> = tags.iter().map(|(_, tag)| tag).collect();
    assert_eq!((tags.len(), all.len()), (3, 3), "a tag for each coding: {tags:?}");
    assert_eq!(site.get("/a.html").field("vary"), Some("Accept-Encoding"));
    assert_eq!(site.get_with("/b.css", "Accept-Encoding: gzip").field("vary"), None);
}

#[test]
fn ranges_and_preconditions_are_of_the_coded_file() {
    let mut site = site();
    let gzip = "Accept-Encoding: gzip";
    let reply = site.get_with("/a.html", &format!("{gzip}\r\nRange: bytes=1-2"));
    assert_eq!((reply.status, reply.text(), reply.field("content-encoding")), (206, "zi", Some("gzip")));
    assert_eq!(reply.field("content-range"), Some("bytes 1-2/7"));
    let reply = site.get_with("/a.html", &format!("{gzip}\r\nRange: bytes=1-2,4-5"));
    assert_eq!((reply.status, reply.text()), (200, "gzipped"));
    let etag = site.get_with("/a.html", gzip).etag().to_owned();
    let same = format!("{gzip}\r\nIf-None-Match: {etag}");
    let reply = site.get_with("/a.html", &same);
    assert_eq!((reply.status, reply.field("vary")), (304, Some("Accept-Encoding")));
    assert_eq!(site.get_with("/a.html", &format!("If-None-Match: {etag}")).status, 200);
}

/// A file that is stored in a coding is sent that way to every client, and is a file like any other.
#[test]
fn files_that_are_stored_in_a_coding() {
    let mut site = Site::with(|settings| {
        settings.encodings = Arc::new([("wasm.gz".to_owned(), Some(Coding::Gzip))].into());
        settings.error_pages = [(404, "/i.svgz".to_owned())].into();
    });
    site.write("i.svgz", "svg gzipped");
    site.write("i.svgz.br", "of no file");
    site.write("x.wasm.gz", "wasm gzipped");
    site.write("x.tar.gz", "tar gzipped");
    Site::settle();
    site.later();
    for accept in ["Accept-Encoding: gzip, br", "Accept-Encoding: identity", "Accept: */*"] {
        for (path, body, media_type, coding) in [
            ("/i.svgz", "svg gzipped", "image/svg+xml", Some("gzip")),
            ("/x.wasm.gz", "wasm gzipped", "application/wasm", Some("gzip")),
            ("/x.tar.gz", "tar gzipped", "application/gzip", None),
        ] {
            let reply = site.get_with(path, accept);
            assert_eq!((reply.status, reply.text()), (200, body), "{path}");
            assert_eq!(reply.field("content-encoding"), coding, "{path}");
            assert_eq!(reply.field("content-type"), Some(media_type), "{path}");
            assert_eq!(reply.field("vary"), None, "nothing is chosen for {path}");
        }
    }
    let etag = site.get("/x.wasm.gz").etag().to_owned();
    let reply = site.get_with("/x.wasm.gz", &format!("Range: bytes=5-8\r\nIf-Range: {etag}"));
    assert_eq!((reply.status, reply.text(), reply.field("content-encoding")), (206, "gzip", Some("gzip")));
    let reply = site.get_with("/x.wasm.gz", "Range: bytes=1-2,4-5");
    assert_eq!((reply.status, reply.text()), (200, "wasm gzipped"));
    assert_eq!(site.get_with("/x.wasm.gz", &format!("If-None-Match: {etag}")).status, 304);
    let page = site.get("/none");
    assert_eq!(
        (page.status, page.text(), page.field("content-encoding")),
        (404, "svg gzipped", Some("gzip"))
    );
}

/// Tools and archives that copy a time keep only as much of it as they can represent.
#[test]
fn times_are_compared_as_exactly_as_both_are_known() {
    let fraction = |nanos| Duration::new(LONG_AGO.as_secs(), nanos);
    for (sibling, is_current) in [
        (fraction(0), true),
        (fraction(123_000_000), true),
        (fraction(123_456_000), true),
        (fraction(123_456_700), true),
        (fraction(123_456_788), false),
        (fraction(123_455_000), false),
        (fraction(122_000_000), false),
        (Duration::new(LONG_AGO.as_secs() - 1, 0), false),
        (Duration::new(LONG_AGO.as_secs() - 1, 999_999_999), false),
    ] {
        let mut site = Site::new();
        site.write("a.html", "plain");
        site.write_dated("a.html.gz", "gzipped", sibling);
        let text = if is_current { "gzipped" } else { "plain" };
        assert_eq!(site.get_with("/a.html", "Accept-Encoding: gzip").text(), text, "{sibling:?}");
        // With the times swapped, the sibling is newer, or as new as can be determined.
        let mut site = Site::new();
        site.write_dated("a.html", "plain", sibling);
        site.write("a.html.gz", "gzipped");
        assert_eq!(site.get_with("/a.html", "Accept-Encoding: gzip").text(), "gzipped", "{sibling:?}");
    }
}

#[test]
fn siblings_that_are_older_or_no_files_or_gone_do_not_count() {
    let mut site = site();
    let any = "Accept-Encoding: br, gzip";
    assert_eq!(site.get_with("/a.html", any).text(), "brotli");
    site.write_dated("a.html", "newer", LONG_AGO + Duration::from_secs(1));
    site.later();
    let reply = site.get_with("/a.html", any);
    assert_eq!((reply.text(), reply.field("vary")), ("newer", None));
    site.write_dated("a.html.gz", "newer gzip", LONG_AGO + Duration::from_secs(2));
    site.later();
    assert_eq!(site.get_with("/a.html", any).text(), "newer gzip");
    // Between two checks the table's entry is trusted, and a file that is not in the table is looked up.
    fs::remove_file(site.path("a.html.gz")).unwrap();
    let sibling = site.content.table.find(b"/a.html", Variant::new(0, Some(Coding::Gzip))).unwrap();
    site.content.table.forget(sibling);
    assert_eq!(site.get_with("/a.html", any).text(), "newer");
    site.later();
    fs::create_dir(site.path("a.html.br.d")).unwrap();
    fs::remove_file(site.path("a.html.br")).unwrap();
    fs::rename(site.path("a.html.br.d"), site.path("a.html.br")).unwrap();
    assert_eq!(site.get_with("/a.html", any).field("vary"), None);
}

#[test]
fn index_files_have_siblings_too() {
    let mut site = Site::new();
    site.write("d/index.html", "plain");
    site.write("d/index.html.zst", "zstd");
    let reply = site.get_with("/d/", "Accept-Encoding: zstd");
    assert_eq!((reply.text(), reply.field("content-encoding")), ("zstd", Some("zstd")));
    assert_eq!(reply.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(site.get_with("/d/index.html.zst", "Accept-Encoding: zstd").field("content-encoding"), None);
    site.reconfigure(|settings| settings.precompressed = false);
    assert_eq!(site.get_with("/d/", "Accept-Encoding: zstd").text(), "plain");
}
