//! Index files, redirects and listings.

use std::thread;

use super::entry::Entry;
use super::*;

#[test]
fn an_index_file_stands_for_its_directory() {
    let mut site = Site::with(|settings| settings.index = vec!["index.html".into(), "index.txt".into()]);
    site.write("index.html", "root");
    site.write("sub/index.txt", "sub");
    site.write("both/index.html", "first");
    site.write("both/index.txt", "second");
    fs::create_dir_all(site.path("odd/index.html")).unwrap();
    site.write("odd/index.txt", "odd");
    for _ in 0..2 {
        assert_eq!(site.get("/").text(), "root");
        assert_eq!(site.get("/").field("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(site.get("/sub/").text(), "sub");
        assert_eq!(site.get("/sub/").field("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(site.get("/both/").text(), "first");
        assert_eq!(site.get("/odd/").text(), "odd");
    }
    fs::remove_file(site.path("both/index.html")).unwrap();
    site.later();
    assert_eq!(site.get("/both/").text(), "second");
    fs::remove_file(site.path("both/index.txt")).unwrap();
    site.later();
    assert_eq!(site.status("/both/"), 403);
    site.write("both/index.txt", "third");
    assert_eq!(site.get("/both/").text(), "third", "misses are not remembered");
}

#[test]
fn a_missing_slash_is_added() {
    let mut site = Site::new();
    site.write("sub/index.html", "x");
    fs::create_dir(site.path("o\\d?d d%")).unwrap();
    let location = |site: &mut Site, target: &str| {
        let reply = site.get(target);
        assert_eq!(reply.status, 301);
        reply.field("location").unwrap().to_owned()
    };
    assert_eq!(location(&mut site, "/sub"), "/sub/");
    assert_eq!(location(&mut site, "/sub?a=b&c"), "/sub/?a=b&c");
    assert_eq!(location(&mut site, "/sub?"), "/sub/?");
    assert_eq!(location(&mut site, "//sub"), "/sub/", "not the host sub");
    assert_eq!(location(&mut site, "/o%5Cd%3fd%20d%25"), "/o%5Cd%3Fd%20d%25/");
    let reply = site.request("HEAD", "/sub", "");
    assert_eq!((reply.status, reply.body.len()), (301, 0));
}

#[test]
fn listings_show_what_can_be_had() {
    let mut site = Site::with(|settings| settings.listing = true);
    site.write("d/b.txt", pattern(2048));
    site.write("d/<i>\"&.txt", "x");
    site.write("d/a:b", "x");
    site.write("d/\n\x1b.txt", "x");
    site.write("d/.hidden", "x");
    site.write("d/sub/x", "x");
    site.write("outside", "x");
    symlink("b.txt", site.path("d/link")).unwrap();
    symlink("/etc/passwd", site.path("d/escape")).unwrap();
    std::os::unix::net::UnixListener::bind(site.path("d/socket")).unwrap();
    let reply = site.get("/d/");
    assert_eq!(reply.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(reply.field("vary"), Some("Accept"));
    let text = reply.text();
    let hrefs = hrefs(&reply);
    let hrefs: Vec<&str> = hrefs.iter().map(String::as_str).filter(|href| !href.starts_with('?')).collect();
    assert_eq!(hrefs, ["../", "../", "sub/", "%0A%1B.txt", "%3Ci%3E%22&#38;.txt", "a%3Ab", "b.txt", "link"]);
    assert!(text.contains(">\u{fffd}\u{fffd}.txt</a>"), "{text}");
    assert!(text.contains(">&#60;i&#62;&#34;&#38;.txt</a>") && !text.contains("<i>"), "{text}");
    assert!(text.contains("2.0 KiB") && text.contains("2017-07-14</span> <span>02:40"), "{text}");
    assert!(text.contains("<p>1 directory, 5 files\n"), "{text}");
    assert!(!site.get("/").text().contains("../"));
    assert!(site.request("HEAD", "/d/", "").body.is_empty());
    site.write("d/index.html", "index");
    site.later();
    assert_eq!(site.get("/d/").text(), "index");
}

/// The targets of a page's links.
fn hrefs(reply: &Reply) -> Vec<String> {
    reply.text().split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

#[test]
fn listings_are_sorted_as_asked_for() {
    let mut site = Site::with(|settings| settings.listing = true);
    for (name, size, secs) in [("a", 3, 30), ("b", 1, 20), ("c", 1, 10)] {
        site.write_dated(&format!("d/{name}"), pattern(size), Duration::from_secs(secs));
    }
    for name in ["d/y", "d/z"] {
        fs::create_dir(site.path(name)).unwrap();
        File::open(site.path(name)).unwrap().set_modified(SystemTime::UNIX_EPOCH + LONG_AGO).unwrap();
    }
    for _ in 0..2 {
        for (query, names) in [
            ("", "y/ z/ a b c"),
            ("?", "y/ z/ a b c"),
            ("?order=desc", "z/ y/ c b a"),
            ("?sort=size", "y/ z/ b c a"),
            ("?sort=size&order=desc", "y/ z/ a b c"),
            ("?order=desc&x=y&sort=time&&sort=colour&order=", "y/ z/ a b c"),
            ("?sort=time&amp;order=desc", "y/ z/ c b a"),
            ("?sort=Name", "y/ z/ a b c"),
        ] {
            let reply = site.get(&format!("/d/{query}"));
            let hrefs = hrefs(&reply);
            let hrefs: Vec<&str> =
                hrefs.iter().map(String::as_str).filter(|href| !href.starts_with(['?', '.'])).collect();
            assert_eq!(hrefs.join(" "), names, "{query}");
        }
    }
    let reply = site.get("/d/?sort=size&order=desc");
    assert!(reply.text().contains("aria-sort=\"descending\"><a href=\"?sort=size&#38;order=asc\">Size</a>"));
    assert!(site.content.table_size().entries <= 12, "{:?}", site.content.table_size());
    site.write("d/index.html", "index");
    assert!(site.get("/d/?sort=size").text() != "index");
    site.later();
    let before = site.content.table_size().entries;
    assert_eq!(site.get("/d/").text(), "index");
    for query in ["?sort=size", "?sort=time", "?order=desc"] {
        assert_eq!(site.get_with(&format!("/d/{query}"), "Accept: application/json").text(), "index");
    }
    assert_eq!(site.content.table_size().entries, before, "an index file is there once");
}

#[test]
fn listings_for_programs() {
    let mut site = Site::with(|settings| (settings.listing, settings.listing_names) = (true, 4));
    site.write("d/b \"\n.txt", pattern(2048));
    site.write("d/sub/x", "x");
    File::create(site.path("d").join(OsStr::from_bytes(b"\xff"))).unwrap();
    let json = |site: &mut Site, target: &str| -> serde_json::Value {
        let reply = site.get_with(target, "Accept: application/json, */*");
        assert_eq!(
            (reply.field("content-type"), reply.field("vary")),
            (Some("application/json"), Some("Accept"))
        );
        serde_json::from_str(reply.text()).unwrap()
    };
    let listing = json(&mut site, "/d/?order=asc");
    assert_eq!(
        (&listing["path"], &listing["names"], &listing["complete"]),
        (&"/d/".into(), &3.into(), &true.into())
    );
    let file = serde_json::json!({
        "name": "b \"\n.txt", "href": "b%20%22%0A.txt", "type": "file", "size": 2048,
        "modified": "2017-07-14T02:40:00Z"
    });
    assert_eq!(listing["entries"][1], file);
    let (sub, other) = (&listing["entries"][0], &listing["entries"][2]);
    assert_eq!(
        (&sub["name"], &sub["href"], &sub["type"]),
        (&"sub".into(), &"sub/".into(), &"directory".into())
    );
    assert!(sub.get("size").is_none() && sub["modified"].as_str().unwrap().ends_with('Z'));
    assert_eq!((&other["name"], &other["href"]), (&"\u{fffd}".into(), &"%FF".into()));
    assert_eq!(site.status("/d/%FF"), 200);
    assert_eq!(json(&mut site, "/d/?sort=size&order=desc")["entries"][1]["size"], 2048);
    assert!(site.get_with("/d/", "Accept: text/html, application/json").text().starts_with("<!doctype"));
    for i in 0..3 {
        File::create(site.path(&format!("d/{i}"))).unwrap();
    }
    site.later();
    let listing = json(&mut site, "/d/");
    assert_eq!((&listing["names"], &listing["complete"]), (&6.into(), &false.into()));
    let names: Vec<_> = listing["entries"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, ["sub", "0", "1", "2"]);
    let last = json(&mut site, "/d/?order=desc");
    assert_eq!((&last["entries"][1]["href"], &last["entries"][3]["name"]), (&"%FF".into(), &"2".into()));
}

#[test]
fn listings_are_bounded() {
    let mut site = Site::with(|settings| settings.listing = true);
    for i in (0..4100).rev() {
        File::create(site.path(&format!("{i:04}"))).unwrap();
    }
    fs::create_dir(site.path("z")).unwrap();
    let reply = site.get("/");
    let text = reply.text();
    assert_eq!(text.matches("<tr><td>").count(), 4096);
    assert!(
        text.contains(">z/<") && text.contains(">4094<") && !text.contains(">4095<"),
        "the first in order"
    );
    assert!(text.contains("Only 4096 of 4101 names"));
    for i in 0..900 {
        File::create(site.path(&format!("{}{i:04}", "&".repeat(250)))).unwrap();
    }
    site.later();
    let reply = site.get("/");
    assert!(reply.body.len() <= 1 << 20, "{}", reply.body.len());
    assert!(reply.text().contains(" of 5001 names"));
}

#[test]
fn a_listing_is_made_once_and_shared() {
    let mut site = Site::with(|settings| settings.listing = true);
    for i in 0..1000 {
        File::create(site.path(&format!("{i}-{}", "&".repeat(60)))).unwrap();
    }
    let downloads: Vec<Download> = (0..10).map(|_| site.begin("GET / HTTP/1.1\r\nHost: x\r\n\r\n")).collect();
    let held = site.content.table_size();
    assert_eq!((held.entries, held.descriptors), (1, 1), "as a file that is too large to be in memory");
    assert_eq!(site.content.table_counts().misses, 1);
    let mut pages = Vec::new();
    for mut download in downloads {
        let own = download.connection.output().map(|segment| match segment {
            Segment::Own(own) => own.len() as u64,
            _ => 0,
        });
        assert!(own.sum::<u64>() < 1000, "nobody has a copy of his own");
        pages.push(Reply::parse(&download.take(&site.content, usize::MAX)).body);
        download.end(&mut site.content);
    }
    assert!(pages.iter().all(|page| *page == pages[0] && page.len() as u64 == held.body_bytes));
    File::create(site.path("another")).unwrap();
    assert!(!site.get("/").text().contains("another"), "believed for a while");
    site.later();
    let reply = site.get_with("/", "Range: bytes=0-9\r\nIf-None-Match: *");
    assert_eq!((reply.status, reply.field("etag"), reply.field("accept-ranges")), (200, None, None));
    assert!(reply.text().contains("another"));
    assert_eq!(site.content.table_size().entries, 1);
}

#[test]
fn threads_get_the_same_listing() {
    let site = Site::with(|settings| settings.listing = true);
    for i in 0..500 {
        File::create(site.path(&i.to_string())).unwrap();
    }
    let resolvers = site.content.resolvers();
    let lookup = || match resolvers.look_up(&Lookup::new(0, b"/", None)) {
        LookupResult::File(entry) => entry,
        other => panic!("{other:?}"),
    };
    let entries: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(lookup)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let file = |entry: &Entry| entry.file.as_ref().map(Arc::as_ptr);
    assert!(entries.iter().all(|entry| file(entry).is_some() && file(entry) == file(&entries[0])));
}

#[test]
fn listings_are_within_the_bound_of_bodies() {
    let mut site = Site::with(|settings| {
        settings.listing = true;
        settings.memory = 0;
    });
    for i in 0..2000 {
        File::create(site.path(&format!("{i}-{}", "&".repeat(90)))).unwrap();
    }
    for i in 0..5 {
        symlink(".", site.path(&format!("again{i}"))).unwrap();
    }
    let pinned = site.begin("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let held = site.content.table_size().body_bytes;
    assert!(held > 1 << 19 && held <= 1 << 20, "{held}");
    let reply = site.get("/again0/");
    assert_eq!((reply.status, reply.field("retry-after")), (503, Some("1")));
    assert_eq!(site.status("/"), 200, "what is there is served");
    pinned.end(&mut site.content);
    for i in 0..5 {
        assert_eq!(site.status(&format!("/again{i}/")), 200);
        assert!(site.content.table_size().body_bytes <= 1 << 20);
    }
    assert!(site.content.table_counts().evictions > 0);
}
