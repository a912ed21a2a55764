//! Whole files, names without a file, and methods.

use super::*;

#[test]
fn small_and_large_files_come_whole() {
    let mut site = Site::new();
    for len in [0, 1, 1000, 16 << 10, (16 << 10) + 1, 300_000] {
        let body = pattern(len);
        site.write("file.bin", &body);
        Site::settle();
        site.later();
        for _ in 0..2 {
            let reply = site.get("/file.bin");
            assert_eq!(reply.status, 200);
            assert!(reply.body == body);
            assert_eq!(reply.field("content-type"), Some("application/octet-stream"));
            assert_eq!(reply.field("accept-ranges"), Some("bytes"));
            assert_eq!(reply.field("last-modified"), Some("Fri, 14 Jul 2017 02:40:00 GMT"));
            assert_eq!(reply.field("vary"), None);
        }
        let reply = site.request("HEAD", "/file.bin", "");
        assert_eq!(reply.field("content-length"), Some(&*len.to_string()));
        assert!(reply.body.is_empty());
    }
    assert_eq!(site.content.table_size().descriptors, 1, "large bodies alone keep their file open");
}

#[test]
fn a_second_request_is_a_hit() {
    let mut site = Site::new();
    site.write("a.html", "x");
    Site::settle();
    assert!(site.get("/a.html").body == b"x");
    assert!(site.get("//a.htm%6c").body == b"x");
    let counts = site.content.table_counts();
    assert_eq!((counts.hits, counts.misses), (1, 1));
    site.later();
    site.get("/a.html");
    assert_eq!(site.content.table_counts().misses, 2);
    assert_eq!(site.content.table_size().entries, 1);
}

/// A worker that waits only for names sends a body from the file, until the body is in memory.
#[test]
fn a_small_body_that_is_not_in_memory_is_left_to_the_file() {
    let mut site = Site::new();
    if !matches!(site.content.table, Tables::Shared(_)) {
        return; // a worker with its own table is never asked this way
    }
    site.write("small.html", "small");
    Site::settle();
    if !forget(&site.path("small.html")) {
        harness::skip("a small file that is not in memory: the file system keeps its pages");
        return;
    }
    let descriptors = |site: &Site| site.content.table_size().descriptors;
    for _ in 0..2 {
        assert_eq!(site.get("/small.html").text(), "small");
        assert_eq!(descriptors(&site), 1, "it is sent from the file");
    }
    // At the latest for the second of these requests, the lookup waits only for names.
    site.later();
    for _ in 0..2 {
        assert_eq!(site.get("/small.html").text(), "small");
    }
    assert_eq!(descriptors(&site), 0, "it has been read, without waiting");
    site.later();
    site.get("/small.html");
    let table = site.content.table_counts();
    assert_eq!((site.content.table_size().entries, table.evictions), (1, 0));
}

/// Evicts a file from memory, by dd(1). Returns whether it is evicted.
fn forget(path: &FsPath) -> bool {
    let dd = |option: &str| {
        let file = format!("if={}", path.display());
        let status =
            std::process::Command::new("dd").args([&file, option, "count=0", "status=none"]).status();
        assert!(status.is_ok_and(|status| status.success()));
    };
    let file = File::open(path).unwrap();
    let is_there = || sys::residency::read_at_cached(&file, &mut [0], 0).is_ok();
    file.sync_all().unwrap();
    // Some file systems cannot say what is in memory.
    let was_there = is_there();
    dd("iflag=nocache");
    was_there && !is_there() && {
        // The check itself may have read it into memory.
        dd("iflag=nocache");
        true
    }
}

#[test]
fn names_of_any_bytes() {
    let mut site = Site::new();
    site.write("a b%+.txt", "odd");
    assert_eq!(site.get("/a%20b%25+.txt").text(), "odd");
    let latin = site.settings.root.join(OsStr::from_bytes(b"caf\xe9"));
    fs::write(latin, "latin").unwrap();
    assert_eq!(site.get("/caf%e9").text(), "latin");
}

#[test]
fn what_is_not_there_or_not_a_file() {
    let mut site = Site::new();
    site.write("file", "x");
    site.write(".hidden", "x");
    site.write(".git/config", "x");
    site.write(".well-known/security.txt", "x");
    site.write("no", "x");
    fs::create_dir(site.path("empty")).unwrap();
    std::os::unix::net::UnixListener::bind(site.path("socket")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(site.path("pipe")).status().unwrap();
    assert!(pipe.success());
    for (target, status) in [
        ("/absent", 404),
        ("/absent/", 404),
        ("/file/", 404),
        ("/file/x", 404),
        ("/.hidden", 404),
        ("/.git/config", 404),
        ("/.well-known/security.txt", 200),
        ("/../root/file", 400),
        ("/%2e%2e/root/file", 400),
        ("/a%00", 400),
        ("/a%2fb", 404),
        ("/empty", 301),
        ("/empty/", 403),
        ("/socket", 403),
        ("/pipe", 403),
        ("/", 403),
    ] {
        assert_eq!(site.status(target), status, "{target}");
    }
    assert_eq!(site.status(&format!("/{}", "x".repeat(300))), 404);
    assert_eq!(site.status(&format!("/{}", "x/".repeat(2100))), 414);
    site.reconfigure(|settings| settings.dotfiles = true);
    assert_eq!(site.status("/.hidden"), 200);
    if may_be_denied() {
        fs::set_permissions(site.path("no"), fs::Permissions::from_mode(0o0)).unwrap();
        assert_eq!(site.status("/no"), 403);
    }
}

/// False for root, which may read everything.
fn may_be_denied() -> bool {
    let probe = tempfile::NamedTempFile::new().unwrap();
    fs::set_permissions(probe.path(), fs::Permissions::from_mode(0o0)).unwrap();
    File::open(probe.path()).is_err()
}

#[test]
fn methods() {
    let mut site = Site::new();
    site.write("a", "x");
    for target in ["/a", "*"] {
        let reply = site.request("OPTIONS", target, "");
        assert_eq!((reply.status, reply.field("allow")), (204, Some("GET, HEAD, OPTIONS")));
        assert_eq!(reply.field("content-length"), None);
    }
    for method in ["PUT", "DELETE", "PATCH", "TRACE", "POST"] {
        let reply = site.request(method, "/a", "");
        assert_eq!((reply.status, reply.field("allow")), (405, Some("GET, HEAD, OPTIONS")), "{method}");
    }
}

#[test]
fn a_root_that_is_not_there() {
    let settings = FileSettings::new("/nonexistent/sluice".into());
    let error = Resolvers::new(&[default_site(&settings)]).unwrap_err().to_string();
    assert!(error.starts_with("can't open the directory /nonexistent/sluice: No such file"), "{error}");
}
