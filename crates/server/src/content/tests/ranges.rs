//! Parts of files.

use super::*;

#[test]
fn one_range_of_memory_and_of_a_file() {
    let mut site = Site::new();
    for (name, len) in [("/small.txt", 1000), ("/large.txt", 100_000)] {
        let body = pattern(len);
        site.write(&name[1..], &body);
        Site::settle();
        for (range, from, to) in [
            ("0-0", 0, 1),
            ("10-19", 10, 20),
            ("990-", 990, len),
            ("-5", len - 5, len),
            ("-1000000", 0, len),
            ("5-99999999999999999999", 5, len),
            ("0-4,5-9", 0, 10),
        ] {
            let reply = site.get_with(name, &format!("Range: bytes={range}"));
            assert_eq!(reply.status, 206);
            assert!(reply.body == body[from..to], "{name} {range}");
            let expected = format!("bytes {from}-{}/{len}", to - 1);
            assert_eq!(reply.field("content-range"), Some(&*expected));
            assert_eq!(reply.field("content-type"), Some("text/plain; charset=utf-8"));
            assert!(reply.field("etag").is_some());
        }
        for range in ["bytes=5-4", "bytes=", "lines=1-2", "bytes=a-b", "bytes=0-1,2-3,x"] {
            let reply = site.get_with(name, &format!("Range: {range}"));
            assert_eq!((reply.status, reply.body.len()), (200, len), "{range}");
        }
        let past = format!("Range: bytes={len}-");
        let reply = site.get_with(name, &past);
        assert_eq!(reply.status, 416);
        assert_eq!(reply.field("content-range"), Some(&*format!("bytes */{len}")));
        // Ranges are defined for GET only.
        let reply = site.request("HEAD", name, "Range: bytes=0-0\r\n");
        assert_eq!((reply.status, reply.field("content-length")), (200, Some(&*len.to_string())));
    }
}

#[test]
fn an_empty_file_has_no_ranges() {
    let mut site = Site::new();
    site.write("empty", "");
    assert_eq!(site.get_with("/empty", "Range: bytes=0-").status, 416);
    assert_eq!(site.get_with("/empty", "Range: bytes=-5").status, 200);
}

#[test]
fn if_range_guards_against_another_state() {
    let mut site = Site::new();
    site.write("a", pattern(1000));
    Site::settle();
    let reply = site.get("/a");
    let (etag, modified) = (reply.etag().to_owned(), reply.field("last-modified").unwrap().to_owned());
    for (if_range, status) in [
        (etag.clone(), 206),
        (modified, 206),
        (format!("W/{etag}"), 200),
        ("\"x\"".to_owned(), 200),
        ("Thu, 13 Jul 2017 02:40:00 GMT".to_owned(), 200),
    ] {
        let fields = format!("Range: bytes=0-9\r\nIf-Range: {if_range}");
        assert_eq!(site.get_with("/a", &fields).status, status, "{if_range}");
    }
}

#[test]
fn a_part_of_a_file_rewritten_in_place_is_not_joined_to_the_old_one() {
    let mut site = Site::new();
    site.write("a", pattern(100_000));
    Site::settle();
    let etag = site.get("/a").etag().to_owned();
    File::options().write(true).open(site.path("a")).unwrap().write_all_at(b"rewritten", 50_000).unwrap();
    let second_half = format!("Range: bytes=50000-\r\nIf-Range: {etag}");
    let reply = site.get_with("/a", &second_half);
    assert_eq!((reply.status, reply.body.len()), (200, 100_000), "although the table may still be believed");
    assert!(reply.body[50_000..].starts_with(b"rewritten"));
}

#[test]
fn several_ranges_are_parts() {
    let mut site = Site::new();
    for (name, len) in [("/small.html", 1000), ("/large.html", 100_000)] {
        let body = pattern(len);
        site.write(&name[1..], &body);
        let reply = site.get_with(name, "Range: bytes=0-9, 500-599 ,-1");
        assert_eq!(reply.status, 206);
        let content_type = reply.field("content-type").unwrap();
        let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let mut expected = Vec::new();
        for (from, to) in [(0, 10), (500, 600), (len - 1, len)] {
            write!(expected, "\r\n--{boundary}\r\nContent-Type: text/html; charset=utf-8\r\n").unwrap();
            write!(expected, "Content-Range: bytes {from}-{}/{len}\r\n\r\n", to - 1).unwrap();
            expected.extend_from_slice(&body[from..to]);
        }
        write!(expected, "\r\n--{boundary}--\r\n").unwrap();
        assert!(reply.body == expected);
        assert_eq!(reply.field("content-range"), None);
    }
    // This site's bound is 8.
    let ranges = |n: usize| (0..n).map(|i| format!("{}-{}", 10 * i, 10 * i)).collect::<Vec<_>>().join(",");
    assert_eq!(site.get_with("/small.html", &format!("Range: bytes={}", ranges(8))).status, 206);
    assert_eq!(site.get_with("/small.html", &format!("Range: bytes={}", ranges(9))).status, 200);
}
