//! Which file a path stands for, what is told about it, and that every byte of it arrives.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use harness::client::{Reply, request};
use harness::eventually;
use harness::server::{Server, Setup};
use harness::site::{HELLO, INDEX, SECRET, SMALL, pattern};
use harness::variant::{Test, Variant, tests};

pub(crate) const TESTS: &[Test] = tests![
    Each: every_byte_at_every_size;
    Drivers: sizes_without_memory, listing, more_files_than_the_table_holds;
    Three:
        index_files,
        other_index_files,
        redirect_to_the_slash,
        redirect_keeps_the_query_and_the_encoding,
        no_listing_by_default,
        listings_as_asked_for,
        media_types,
        media_types_by_choice,
        validators,
        links_beneath_the_root,
        links_refused,
        links_anywhere,
        only_regular_files,
        fields_by_path_and_type;
];

fn every_byte_at_every_size(variant: &Variant) {
    sizes(&Server::start(variant));
}

fn sizes_without_memory(variant: &Variant) {
    sizes(&Server::with(variant, "small_file = 0"));
}

fn sizes(server: &Server) {
    let mut client = server.connect();
    for len in
        [0, 1, 2, 1000, SMALL - 1, SMALL, SMALL + 1, 65_535, 65_536, 262_144, 262_145, 1 << 20, 5_000_001]
    {
        let content = pattern(len as u64, len);
        server.write(&format!("{len}.bin"), &content);
        for _ in 0..2 {
            let reply = client.get(&format!("/{len}.bin"));
            assert_eq!((reply.status, reply.body.len()), (200, len));
            assert!(reply.body == content, "wrong bytes of {len}");
        }
    }
}

fn index_files(variant: &Variant) {
    let server = Server::start(variant);
    for (target, body) in [("/", INDEX), ("/?x", INDEX), ("/index.html", INDEX), ("/dir/index.html", "dir")] {
        assert!(server.get(target).text().contains(body), "{target}");
    }
    let reply = server.get("/dir/");
    assert!(
        reply.text().contains("<title>dir</title>") && reply.need("Content-Type").starts_with("text/html")
    );
}

fn other_index_files(variant: &Variant) {
    let setup = Setup::new(variant).config("[files]\nindex = [\"first.txt\", \"index.html\"]");
    let server = setup.file("dir/first.txt", "first").file("odd/first.txt/index.html", "inner").start();
    assert_eq!(server.get("/dir/").text(), "first");
    assert_eq!(server.get("/").text(), INDEX);
    // A directory is no index file.
    assert!(matches!(server.get("/odd/").status, 403 | 404));
    let server = Server::with(variant, "[files]\nindex = []");
    assert!(matches!(server.get("/").status, 403 | 404));
}

#[track_caller]
fn redirected(reply: &Reply, to: &str) {
    assert!(matches!(reply.status, 301 | 308), "{reply:?}");
    let location = reply.need("Location");
    assert_eq!(location.strip_prefix("http://test").unwrap_or(location), to);
}

fn redirect_to_the_slash(variant: &Variant) {
    let server = Server::start(variant);
    redirected(&server.get("/dir"), "/dir/");
    redirected(&server.get("/link-dir"), "/link-dir/");
    redirected(&server.fetch("HEAD", "/dir", &[]), "/dir/");
}

fn redirect_keeps_the_query_and_the_encoding(variant: &Variant) {
    let server = Setup::new(variant)
        .file("a b/index.html", "a b")
        .file("q?/index.html", "q")
        .file("x\r\nInjected: y/index.html", "x")
        .start();
    redirected(&server.get("/dir?a=b&c"), "/dir/?a=b&c");
    redirected(&server.get("/a%20b?x%20y"), "/a%20b/?x%20y");
    assert_eq!(server.get(server.get("/q%3f").need("Location")).text(), "q");
    let reply = server.get("/x%0d%0aInjected:%20y");
    assert_eq!(reply.field("Injected"), None);
}

fn no_listing_by_default(variant: &Variant) {
    let server = Server::start(variant);
    let reply = server.get("/bare/");
    assert!(matches!(reply.status, 403 | 404) && !reply.text().contains("a.txt"), "{reply:?}");
    assert_eq!(server.get("/bare/a.txt").text(), "a\n");
}

fn listing(variant: &Variant) {
    let server = Setup::new(variant).argument("--listing").file("bare/<sub>/x", "x").start();
    let reply = server.get("/bare/");
    let text = reply.text();
    assert!(reply.status == 200 && reply.need("Content-Type").starts_with("text/html"), "{reply:?}");
    assert!(text.contains("\"a.txt\"") || text.contains("\"./a.txt\""), "{text}");
    assert!(!text.contains("<sub>") && !text.contains("<&>"), "names are escaped: {text}");
    assert!(!text.contains(".hidden"), "dotfiles are left out: {text}");
    // Every link leads to what it names.
    let mut found = 0;
    for piece in text.split("href=\"").skip(1) {
        let link = piece
            .split('"')
            .next()
            .unwrap_or_default()
            .replace("&amp;", "&")
            .replace("&#38;", "&")
            .replace("&#39;", "'");
        let path = link.trim_start_matches("./");
        if path.starts_with("..") || path.starts_with('/') || path.starts_with('?') {
            continue;
        }
        assert_eq!(server.get(&format!("/bare/{path}")).status, 200, "{link}");
        found += 1;
    }
    assert_eq!(found, 3, "{text}");
    // An index file goes first, and dotfiles' directories are not listed either.
    assert_eq!(server.get("/").text(), INDEX);
    assert!(matches!(server.get("/.hidden-dir/").status, 403 | 404));
}

/// Each form of a listing is a page of its own, whoever makes it.
fn listings_as_asked_for(variant: &Variant) {
    let setup = Setup::new(variant).argument("--listing").config("[files]\nlisting_names = 3");
    let server = setup.file("d/a", "aaa").file("d/b", "bb").file("d/c", "").start();
    let mut client = server.connect();
    let accept = |value| [("Accept", value)];
    for _ in 0..2 {
        let names = |reply: Reply| -> String {
            assert_eq!((reply.status, reply.list("Vary")), (200, vec!["accept".into()]), "{reply:?}");
            let page = reply.text();
            let links = page.split("<tr><td><a href=\"").skip(1);
            links.map(|link| link.split('"').next().unwrap_or_default()).collect()
        };
        assert_eq!(names(client.get("/d/")), "abc");
        assert_eq!(names(client.get("/d/?sort=size&order=asc")), "cba");
        assert_eq!(names(client.get("/d/?order=desc&sort=colour")), "cba");
        assert_eq!(names(client.get("/d/?sort=size&order=desc")), "abc");
        let reply = client.fetch("GET", "/d/?sort=size", &accept("application/json"));
        assert_eq!(
            (reply.need("Content-Type"), reply.list("Vary")),
            ("application/json", vec!["accept".into()])
        );
        let listing: serde_json::Value = serde_json::from_str(&reply.text()).expect("JSON");
        let sizes: Vec<_> =
            listing["entries"].as_array().expect("entries").iter().map(|e| &e["size"]).collect();
        assert_eq!((sizes, &listing["complete"]), (vec![&0.into(), &2.into(), &3.into()], &true.into()));
    }
    assert_eq!(client.fetch("GET", "/", &accept("application/json")).text(), INDEX);
    fs::write(server.root().join("d/d"), "").expect("a file");
    eventually("it is seen that not all are shown", || {
        let listing = server.fetch("GET", "/d/", &accept("application/json")).text();
        listing.contains("\"complete\":false") && server.get("/d/").text().contains("Only 3 of 4 names")
    });
}

fn media_types(variant: &Variant) {
    let names = [
        ("a.html", "text/html"),
        ("a.HTM", "text/html"),
        ("a.css", "text/css"),
        ("a.js", "text/javascript"),
        ("a.json", "application/json"),
        ("a.svg", "image/svg+xml"),
        ("a.png", "image/png"),
        ("a.jpg", "image/jpeg"),
        ("a.webp", "image/webp"),
        ("a.wasm", "application/wasm"),
        ("a.woff2", "font/woff2"),
        ("a.pdf", "application/pdf"),
        ("a.mp4", "video/mp4"),
        ("a.txt", "text/plain"),
        ("a.tar.gz", "application/gzip"),
        ("a.b.css", "text/css"),
    ];
    let mut setup = Setup::new(variant).file("a.unknown-to-all", "x").file("no-extension", "x");
    for (name, _) in names {
        setup = setup.file(name, "x");
    }
    let server = setup.start();
    for (name, expected) in names {
        let reply = server.get(&format!("/{name}"));
        let media_type = reply.need("Content-Type").to_ascii_lowercase();
        assert_eq!(media_type.split(';').next(), Some(expected), "{name}");
        assert_eq!(
            media_type.ends_with("charset=utf-8"),
            expected.starts_with("text/"),
            "{name}: {media_type}"
        );
    }
    for name in ["a.unknown-to-all", "no-extension"] {
        let reply = server.get(&format!("/{name}"));
        assert!(matches!(reply.field("Content-Type"), None | Some("application/octet-stream")), "{reply:?}");
    }
}

fn media_types_by_choice(variant: &Variant) {
    let setup = Setup::new(variant)
        .config("[files]\ncharset = \"off\"\n[types]\ntxt = \"text/x-own\"\nmine = \"x/y; z=1\"");
    let server = setup.file("a.mine", "x").start();
    assert_eq!(server.get("/hello.txt").need("Content-Type"), "text/x-own");
    assert_eq!(server.get("/a.mine").need("Content-Type"), "x/y; z=1");
    assert_eq!(server.get("/").need("Content-Type"), "text/html");
}

fn validators(variant: &Variant) {
    let server = Server::start(variant);
    let (hello, large) = (server.get("/hello.txt"), server.get("/large.bin"));
    for reply in [&hello, &large] {
        let etag = reply.need("ETag");
        assert!(etag.len() > 2 && etag.starts_with('"') && etag.ends_with('"'), "not strong: {etag}");
        let modified = httpdate::parse_http_date(reply.need("Last-Modified")).expect("a date");
        let date = httpdate::parse_http_date(reply.need("Date")).expect("a date");
        assert!(modified <= date, "no file is from the future (RFC 9110 section 8.8.2.1)");
        assert_eq!(reply.list("Accept-Ranges"), ["bytes"]);
    }
    assert_ne!(hello.need("ETag"), large.need("ETag"));
    assert_eq!(server.get("/hello.txt").need("ETag"), hello.need("ETag"));
    assert_eq!(server.get("/").need("ETag"), server.get("/index.html").need("ETag"));
}

fn links_beneath_the_root(variant: &Variant) {
    let server = Server::start(variant);
    assert_eq!(server.get("/link.txt").text(), HELLO);
    assert_eq!(server.get("/link-dir/file.txt").text(), "a file in dir\n");
    // As `ln -s "$PWD/dir"` makes them.
    let root = server.root();
    symlink(root.join("dir"), root.join("link-absolute-dir")).expect("a link");
    symlink(root.join("link-absolute-dir/file.txt"), root.join("link-twice")).expect("a link");
    symlink(root.join("../outside/secret.txt"), root.join("link-climbing")).expect("a link");
    symlink(root.join(".hidden"), root.join("link-hidden")).expect("a link");
    assert_eq!(server.get("/link-absolute-dir/file.txt").text(), "a file in dir\n");
    assert_eq!(server.get("/link-twice").text(), "a file in dir\n");
    for target in [
        "/link-climbing",
        "/link-hidden",
        "/link-outside.txt",
        "/link-outside-dir/secret.txt",
        "/link-absolute.txt",
        "/link-dangling",
        "/link-loop",
    ] {
        let reply = server.get(target);
        assert!(matches!(reply.status, 403 | 404), "{target} got {reply:?}");
    }
}

fn links_refused(variant: &Variant) {
    let server = Server::with(variant, "[files]\nsymlinks = \"none\"");
    for target in [
        "/link.txt",
        "/link-dir/file.txt",
        "/link-dir/",
        "/link-outside.txt",
        "/link-absolute.txt",
        "/link-loop",
    ] {
        let reply = server.get(target);
        assert!(matches!(reply.status, 403 | 404), "{target} got {reply:?}");
    }
    assert_eq!(server.get("/hello.txt").text(), HELLO);
}

fn links_anywhere(variant: &Variant) {
    let server = Server::with(variant, "[files]\nsymlinks = \"any\"");
    for target in ["/link-outside.txt", "/link-outside-dir/secret.txt", "/link-absolute.txt"] {
        assert_eq!(server.get(target).text(), SECRET, "{target}");
    }
    assert_eq!(server.get("/link.txt").text(), HELLO);
    for target in ["/link-dangling", "/link-loop", "/../outside/secret.txt", "/%2e%2e/outside/secret.txt"] {
        let reply = server.get(target);
        assert!(matches!(reply.status, 400 | 403 | 404), "{target} got {reply:?}");
    }
}

/// Opening a FIFO would wait for its other end, and a device is no content.
fn only_regular_files(variant: &Variant) {
    let server = Setup::new(variant).config("listing = true\n[files]\nsymlinks = \"any\"").start();
    let root = server.root();
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("fifo"), rustix::fs::Mode::RWXU).expect("a FIFO");
    let _socket = UnixListener::bind(root.join("socket")).expect("a socket");
    symlink("/dev/zero", root.join("device")).expect("a link");
    symlink("/proc/self/mem", root.join("memory")).expect("a link");
    for target in ["/fifo", "/socket", "/device"] {
        let reply = server.get(target);
        assert!(matches!(reply.status, 403 | 404), "{target} got {reply:?}");
    }
    // A file of /proc is regular, has a size of 0, and holds more.
    let reply = server.get("/memory");
    assert!(reply.body.is_empty() || reply.status >= 400, "{reply:?}");
    fs::create_dir(root.join("index")).expect("a directory");
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("index/index.html"), rustix::fs::Mode::RWXU)
        .expect("a FIFO");
    assert!(server.get("/index/").status >= 200);
    assert_eq!(server.get("/hello.txt").text(), HELLO);
}

fn fields_by_path_and_type(variant: &Variant) {
    let config = r#"
        [[headers]]
        set = { X-All = "yes", X-Later = "first" }
        [[headers]]
        path = "/assets/**"
        expires = "365 d"
        [[headers]]
        media_type = "text/html"
        set = { Cache-Control = "no-cache", X-Later = "second" }
    "#;
    let server = Setup::new(variant).config(config).file("assets/deep/a.css", "x").start();
    let (page, asset, other) = (server.get("/"), server.get("/assets/deep/a.css"), server.get("/hello.txt"));
    assert_eq!(
        (page.need("Cache-Control"), page.need("X-Later"), page.need("X-All")),
        ("no-cache", "second", "yes")
    );
    assert_eq!((asset.need("Cache-Control"), asset.need("X-Later")), ("max-age=31536000", "first"));
    assert_eq!((other.field("Cache-Control"), other.need("X-Later")), (None, "first"));
    let date = |name| httpdate::parse_http_date(asset.need(name)).expect("a date");
    let fresh = date("Expires").duration_since(date("Date")).expect("later").as_secs();
    assert!(fresh.abs_diff(31_536_000) <= 5, "{fresh}");
    // A 304 renews what the client knows of freshness (RFC 9110 section 15.4.5).
    let reply = server.fetch("GET", "/assets/deep/a.css", &[("If-None-Match", asset.need("ETag"))]);
    assert_eq!((reply.status, reply.need("Cache-Control")), (304, "max-age=31536000"));
    let reply = server.fetch("GET", "/assets/deep/a.css", &[("Range", "bytes=0-0")]);
    assert_eq!((reply.status, reply.need("Cache-Control")), (206, "max-age=31536000"));
}

/// The table of open files forgets what it has no room for, and nobody notices.
fn more_files_than_the_table_holds(variant: &Variant) {
    let mut setup = Setup::new(variant).config("[files]\nmax_open = 8\nmemory = \"64 KiB\"");
    let content = |file: usize| pattern(file as u64, if file.is_multiple_of(2) { 20_000 } else { 10_000 });
    for file in 0..40 {
        setup = setup.file(&format!("many/{file}.bin"), content(file));
    }
    let server = setup.start();
    server.warm_up();
    let (before, status) = (server.descriptors(), server.status());
    let workers = status["workers"].as_array().expect("workers").len();
    let mut client = server.connect();
    for _ in 0..3 {
        let asked: String = (0..40).map(|file| request("GET", &format!("/many/{file}.bin"), &[])).collect();
        client.send(asked);
        for file in 0..40 {
            assert!(client.reply().body == content(file), "{file}");
        }
    }
    assert!(server.descriptors() <= before + 1 + 8, "{} descriptors, {before} before", server.descriptors());
    assert!(server.count("file_table_evictions") > 0);
    assert!(server.count("file_table_entries") as usize <= 8 * workers);
}
