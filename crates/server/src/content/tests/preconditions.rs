//! Validators, and conditions on them.

use super::*;

#[test]
fn what_the_client_has_is_not_sent_again() {
    let mut site = Site::new();
    site.write("a.html", "content");
    Site::settle();
    let first = site.get("/a.html");
    let etag = first.etag().to_owned();
    let modified = first.field("last-modified").unwrap().to_owned();
    for fields in [
        format!("If-None-Match: {etag}"),
        format!("If-None-Match: \"x\", W/{etag}"),
        "If-None-Match: *".to_owned(),
        format!("If-Modified-Since: {modified}"),
        "If-Modified-Since: Sat, 01 Jan 2022 00:00:00 GMT".to_owned(),
        // The tag takes precedence.
        format!("If-None-Match: {etag}\r\nIf-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT"),
        format!("If-None-Match: {etag}\r\nRange: bytes=0-1"),
    ] {
        let reply = site.get_with("/a.html", &fields);
        assert_eq!((reply.status, reply.body.len()), (304, 0), "{fields}");
        assert_eq!(reply.etag(), etag);
        assert_eq!(reply.field("last-modified"), Some(&*modified));
        for absent in ["content-length", "content-type", "accept-ranges"] {
            assert_eq!(reply.field(absent), None);
        }
    }
    for fields in [
        "If-None-Match: \"x\"".to_owned(),
        format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {modified}"),
        "If-Modified-Since: Thu, 13 Jul 2017 02:40:00 GMT".to_owned(),
        "If-Modified-Since: yesterday".to_owned(),
        format!("If-Match: {etag}"),
        format!("If-Unmodified-Since: {modified}"),
    ] {
        let reply = site.get_with("/a.html", &fields);
        assert_eq!((reply.status, reply.text()), (200, "content"), "{fields}");
    }
    for fields in ["If-Match: \"x\"", "If-Unmodified-Since: Thu, 13 Jul 2017 02:40:00 GMT"] {
        assert_eq!(site.get_with("/a.html", fields).status, 412, "{fields}");
    }
    assert_eq!(site.request("HEAD", "/a.html", &format!("If-None-Match: {etag}\r\n")).status, 304);
}

#[test]
fn tags_tell_contents_apart() {
    let mut site = Site::new();
    let mut tags = Vec::new();
    let whole_second = Duration::from_secs(LONG_AGO.as_secs());
    // Another size, another time, and the whole second that build tools set for any content.
    for (content, modified) in [
        ("one", LONG_AGO),
        ("three", LONG_AGO),
        ("one", LONG_AGO + Duration::from_nanos(1)),
        ("one", whole_second),
        ("two", whole_second),
    ] {
        site.write_dated("a", content, modified);
        Site::settle();
        site.later();
        if modified == whole_second {
            std::thread::sleep(Duration::from_millis(20));
        }
        tags.push(site.get("/a").etag().to_owned());
    }
    for (i, tag) in tags.iter().enumerate() {
        assert!(!tags[..i].contains(tag), "{tags:?}");
    }
}

#[test]
fn replicas_agree_on_tags() {
    let (mut one, mut other) = (Site::new(), Site::new());
    one.write("a", "content");
    other.write("a", "content");
    Site::settle();
    assert_eq!(one.get("/a").etag(), other.get("/a").etag());
}

#[test]
fn a_file_changed_this_moment_has_weak_validators() {
    let mut site = Site::new();
    // Under load this may occasionally take longer than a tick.
    let reply = (0..100).map(|_| {
        site.write("a", "content");
        site.later();
        let reply = site.get("/a");
        let same = format!("If-None-Match: {}", reply.etag());
        (reply, site.get_with("/a", &same).status)
    });
    let is_weak = |(reply, status): &(Reply, u16)| reply.etag().starts_with("W/") && *status == 304;
    let (reply, _) = reply.into_iter().find(is_weak).unwrap();
    assert_eq!(
        (reply.text(), reply.field("last-modified")),
        ("content", Some("Fri, 14 Jul 2017 02:40:00 GMT"))
    );
    let weak = reply.etag().to_owned();
    // The file may change once more without a trace in its times.
    site.write("a", "CONTENT");
    Site::settle();
    site.now_ms += 50;
    for fields in [
        format!("If-None-Match: {weak}"),
        format!("Range: bytes=0-0\r\nIf-Range: {weak}"),
        format!("Range: bytes=0-0\r\nIf-Range: {}", &weak[2..]),
    ] {
        let reply = site.get_with("/a", &fields);
        assert_eq!((reply.status, reply.text()), (200, "CONTENT"), "{fields}");
        assert!(reply.etag().starts_with('"'));
    }
    assert_eq!(site.get_with("/a", &format!("If-Match: {weak}")).status, 412);
}

#[test]
fn a_weak_tag_is_good_for_no_strong_comparison() {
    let mut site = Site::new();
    let answers = (0..100).map(|_| {
        site.write("a", "content");
        site.later();
        let weak = site.get("/a").etag().to_owned();
        let part = site.get_with("/a", &format!("Range: bytes=0-0\r\nIf-Range: {weak}")).status;
        let demand = site.get_with("/a", &format!("If-Match: {weak}")).status;
        (weak.starts_with("W/"), part, demand)
    });
    assert!(answers.into_iter().any(|answer| answer == (true, 200, 412)));
}

#[test]
fn a_date_in_the_future_is_replaced_by_that_of_the_reply() {
    let mut site = Site::with(|settings| settings.validity = Duration::from_hours(1));
    let tomorrow = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    site.write_dated("a", "content", tomorrow + Duration::from_hours(24));
    Site::settle();
    let (reply, date) = (site.get("/a"), |reply: &Reply| {
        httpdate::parse_http_date(reply.field("last-modified").unwrap()).unwrap()
    });
    let age = SystemTime::now().duration_since(date(&reply)).unwrap();
    assert!(age < Duration::from_secs(5) && reply.field("etag").is_some(), "{age:?}");
    std::thread::sleep(Duration::from_millis(1100));
    site.later();
    let again = site.get("/a");
    assert!(date(&again) > date(&reply) && again.etag() == reply.etag());
    assert_eq!(site.get_with("/a", "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT").status, 200);
    assert_eq!(site.get_with("/a", &format!("If-None-Match: {}", reply.etag())).status, 304);
}
