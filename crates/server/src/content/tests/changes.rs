//! Files and settings that change while they are in use.

use super::*;

const GET: &str = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

/// A file that is sent from memory, and one that is not.
const SIZES: [usize; 2] = [1000, 100_000];

#[test]
fn a_file_replaced_by_rename_is_served_old_or_new_and_never_mixed() {
    for len in SIZES {
        let mut site = Site::new();
        let (old, new) = (pattern(len), vec![b'n'; len]);
        site.write("a", &old);
        Site::settle();
        let mut download = site.begin(GET);
        let mut received = download.take(&site.content, len / 2);
        site.write("b", &new);
        fs::rename(site.path("b"), site.path("a")).unwrap();
        assert!(site.get("/a").body == old, "believed for a while");
        site.later();
        assert!(site.get("/a").body == new);
        assert!(site.content.intact(download.pin()), "the old file is still there to be sent");
        received.extend(download.take(&site.content, usize::MAX));
        assert!(Reply::parse(&received).body == old);
        assert_eq!(site.content.table_size().entries, 2);
        download.end(&mut site.content);
        assert_eq!(site.content.table_size().entries, 1);
        assert!(site.get("/a").body == new);
    }
}

#[test]
fn a_file_removed_is_sent_to_its_end_and_then_gone() {
    for len in SIZES {
        let mut site = Site::new();
        site.write("a", pattern(len));
        let mut download = site.begin(GET);
        let mut received = download.take(&site.content, 500);
        fs::remove_file(site.path("a")).unwrap();
        site.later();
        assert_eq!(site.status("/a"), 404);
        assert!(site.content.intact(download.pin()));
        received.extend(download.take(&site.content, usize::MAX));
        assert!(Reply::parse(&received).body == pattern(len));
        download.end(&mut site.content);
        assert_eq!(site.content.table_size(), TableSize::default());
    }
}

#[test]
fn a_large_file_changed_in_place_is_noticed() {
    let changes: [fn(&FsPath); 6] = [
        |path| File::options().write(true).open(path).unwrap().set_len(50_000).unwrap(),
        // Longer than before, but also changed: at the beginning, at the end, everywhere.
        |path| {
            File::options().write(true).open(path).unwrap().write_all_at(b"x", 0).unwrap();
            append(path);
        },
        |path| {
            File::options().write(true).open(path).unwrap().write_all_at(b"more", 99_999).unwrap();
        },
        |path| fs::write(path, pattern(200_001).split_off(1)).unwrap(),
        |path| File::options().write(true).open(path).unwrap().write_all_at(b"x", 99_999).unwrap(),
        // Like a copying tool that restores the time.
        |path| {
            let file = File::options().write(true).open(path).unwrap();
            let modified = file.metadata().unwrap().modified().unwrap();
            file.write_all_at(b"x", 99_999).unwrap();
            file.set_modified(modified).unwrap();
        },
    ];
    for change in changes {
        let mut site = Site::new();
        fs::write(site.path("a"), pattern(100_000)).unwrap();
        Site::settle();
        let mut download = site.begin(GET);
        download.take(&site.content, 50_000);
        assert!(site.content.intact(download.pin()));
        change(&site.path("a"));
        assert!(!site.content.intact(download.pin()));
        download.end(&mut site.content);
    }
}

fn append(path: &FsPath) {
    File::options().append(true).open(path).unwrap().write_all(b"more").unwrap();
}

#[test]
fn a_large_file_that_only_grows_is_sent_as_it_was() {
    let mut site = Site::new();
    let mut content = pattern(100_000);
    fs::write(site.path("a"), &content).unwrap();
    Site::settle();
    for _ in 0..3 {
        let mut download = site.begin(GET);
        let mut received = download.take(&site.content, 50_000);
        append(&site.path("a"));
        assert!(site.content.intact(download.pin()));
        append(&site.path("a"));
        assert!(site.content.intact(download.pin()), "again");
        // A client that requests a part meanwhile gets a part of the table's version.
        let range = format!("Range: bytes={}-", content.len() - 10);
        assert_eq!(site.get_with("/a", &range).body, content[content.len() - 10..]);
        received.extend(download.take(&site.content, usize::MAX));
        assert!(Reply::parse(&received).body == content);
        download.end(&mut site.content);
        content.extend(b"moremore");
        site.later();
        assert!(site.get("/a").body == content);
    }
}

#[test]
fn a_small_file_changed_in_place_is_sent_as_it_was() {
    let mut site = Site::new();
    site.write("a", "before");
    Site::settle();
    let mut download = site.begin(GET);
    let mut received = download.take(&site.content, 10);
    fs::write(site.path("a"), "after it").unwrap();
    assert!(site.content.intact(download.pin()));
    received.extend(download.take(&site.content, usize::MAX));
    assert_eq!(Reply::parse(&received).text(), "before");
    download.end(&mut site.content);
    site.later();
    assert_eq!(site.get("/a").text(), "after it");
}
