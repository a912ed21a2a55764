//! The root's name, which later leads to another directory.

use super::*;

/// Puts another directory with these files under the root's name. The old one remains elsewhere.
fn switch(site: &Site, files: &[(&str, &str)]) -> PathBuf {
    let before = site.keep.path().join(format!("before-{}", site.now_ms));
    fs::rename(&site.settings.root, &before).unwrap();
    fs::create_dir(&site.settings.root).unwrap();
    for (name, content) in files {
        site.write(name, content);
    }
    Site::settle();
    before
}

fn site() -> Site {
    let site = Site::with(|settings| settings.index = vec!["index".to_owned()]);
    for (name, content) in [("a", "old"), ("index", "old index"), ("gone", "old")] {
        site.write(name, content);
    }
    site.write("a.gz", "old, coded");
    site.write("large", pattern(20_000));
    Site::settle();
    site
}

#[test]
fn whatever_was_known_below_the_old_root_is_out_of_date_below_the_new_one() {
    let mut site = site();
    for name in ["/a", "/", "/gone", "/large"] {
        assert_eq!(site.status(name), 200);
    }
    assert_eq!(site.get_with("/a", "Accept-Encoding: gzip").text(), "old, coded");
    let before = switch(&site, &[("a", "new"), ("index", "new index"), ("a.gz", "new, coded")]);
    assert_eq!(site.get("/a").text(), "old", "it is believed for a while");
    site.later();
    assert_eq!(site.get_with("/a", "Accept-Encoding: gzip").text(), "new, coded");
    assert_eq!((site.get("/a").text(), site.get("/").text()), ("new", "new index"));
    assert_eq!((site.status("/gone"), site.status("/large")), (404, 404));
    assert_eq!(site.content.table_size().descriptors, 0, "nothing of the old one is kept open");
    fs::remove_dir_all(before).unwrap();
    site.later();
    assert_eq!(site.get("/a").text(), "new");
}

/// A lookup may come late within the validity of the root. Its result is still trusted no longer than the
/// root.
#[test]
fn no_entry_outlives_the_validity_of_the_root() {
    let mut site = site();
    assert_eq!(site.status("/a"), 200);
    switch(&site, &[("a", "new"), ("gone", "new")]);
    site.now_ms += 999;
    assert_eq!(site.get("/gone").text(), "old");
    site.now_ms += 1;
    assert_eq!((site.get("/gone").text(), site.get("/a").text()), ("new", "new"));
}

#[test]
fn the_old_root_is_kept_while_there_is_no_new_one() {
    let mut site = site();
    assert_eq!(site.status("/a"), 200);
    let root = site.settings.root.clone();
    let elsewhere = site.keep.path().join("elsewhere");
    fs::rename(&root, &elsewhere).unwrap();
    for obstacle in [None, Some("a file")] {
        if let Some(content) = obstacle {
            fs::write(&root, content).unwrap();
        }
        site.later();
        assert_eq!((site.get("/a").text(), site.get("/gone").text()), ("old", "old"));
    }
    fs::remove_file(&root).unwrap();
    fs::rename(&elsewhere, &root).unwrap();
    site.later();
    assert_eq!(site.get("/a").text(), "old");
    switch(&site, &[("a", "new")]);
    site.later();
    assert_eq!(site.get("/a").text(), "new");
}

/// A new directory often gets the inode number of a removed one, but not while the removed one is open.
#[test]
fn a_root_made_anew_is_another() {
    let mut site = site();
    for round in 0..5 {
        fs::remove_dir_all(&site.settings.root).unwrap();
        fs::create_dir(&site.settings.root).unwrap();
        site.write("a", format!("round {round}"));
        Site::settle();
        site.later();
        assert_eq!(site.get("/a").text(), format!("round {round}"));
    }
}

#[test]
fn a_link_is_followed_with_every_request_where_nothing_is_believed() {
    let mut site = site();
    let link = site.keep.path().join("link");
    let releases = ["first", "second"].map(|name| site.keep.path().join(name));
    for release in &releases {
        fs::create_dir(release).unwrap();
        fs::write(release.join("a"), release.file_name().unwrap().as_encoded_bytes()).unwrap();
    }
    symlink(&releases[0], &link).unwrap();
    let linked = link.clone();
    site.reconfigure(|settings| (settings.root, settings.validity) = (linked, Duration::ZERO));
    for round in 0..6 {
        let release = &releases[round % 2];
        let new = site.keep.path().join("new");
        symlink(release, &new).unwrap();
        fs::rename(new, &link).unwrap();
        assert_eq!(site.get("/a").text(), release.file_name().unwrap().to_str().unwrap());
    }
}

/// A reply in progress continues with the file that it began with.
#[test]
fn a_download_outlives_the_root() {
    let mut site = site();
    let mut download = site.begin("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
    let first = download.take(&site.content, 5_000);
    let before = switch(&site, &[("a", "new")]);
    fs::remove_dir_all(before).unwrap();
    site.later();
    assert_eq!((site.get("/a").text(), site.status("/large")), ("new", 404));
    assert_eq!(site.get("/a").text(), "new", "and has all else dropped");
    let rest = download.take(&site.content, usize::MAX);
    assert!([first, rest].concat().ends_with(&pattern(20_000)));
    download.end(&mut site.content);
    assert_eq!(site.content.table_size().descriptors, 0);
}
