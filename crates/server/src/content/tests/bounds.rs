//! A table with little room.

use super::*;

fn tight() -> Site {
    let site = Site::with(|settings| {
        settings.max_open = 3;
        settings.memory = 2500;
    });
    for i in 0..10 {
        site.write(&format!("small{i}"), pattern(1000 + i));
        site.write(&format!("large{i}"), pattern(20_000 + i));
    }
    Site::settle();
    site
}

#[test]
fn many_files_through_a_small_table() {
    let mut site = tight();
    for round in 0..3 {
        for i in 0..10 {
            assert!(site.get(&format!("/small{i}")).body == pattern(1000 + i), "{round}");
            assert!(site.get(&format!("/large{i}")).body == pattern(20_000 + i));
            let held = site.content.table_size();
            assert!(held.entries <= 3 && held.descriptors <= 3 && held.body_bytes <= 2500, "{held:?}");
            assert_eq!(descriptors_into(&site.settings.root), held.descriptors);
        }
    }
    assert!(site.content.table_counts().evictions >= 57);
}

#[test]
fn without_room_for_a_body_it_comes_from_the_file() {
    let mut site = tight();
    let pinned: Vec<Download> =
        (0..2).map(|i| site.begin(&format!("GET /small{i} HTTP/1.1\r\nHost: x\r\n\r\n"))).collect();
    assert_eq!(site.content.table_size().descriptors, 0);
    assert!(site.get("/small2").body == pattern(1002));
    assert_eq!(site.content.table_size().descriptors, 1);
    for download in pinned {
        download.end(&mut site.content);
    }
}

#[test]
fn a_table_full_of_replies_tells_clients_to_retry() {
    let mut site = tight();
    let pinned: Vec<Download> =
        (0..3).map(|i| site.begin(&format!("GET /large{i} HTTP/1.1\r\nHost: x\r\n\r\n"))).collect();
    let reply = site.get("/large3");
    assert_eq!((reply.status, reply.field("retry-after")), (503, Some("1")));
    assert!(site.get("/large2").body == pattern(20_002), "what is in the table is served");
    assert_eq!(descriptors_into(&site.settings.root), 3, "the file that found no room is closed");
    for download in pinned {
        download.end(&mut site.content);
    }
    assert_eq!(site.status("/large3"), 200);
}

#[test]
fn what_is_in_the_table_is_served_on_where_there_is_no_room_to_look_again() {
    let mut site = tight();
    let pinned: Vec<Download> =
        (0..3).map(|i| site.begin(&format!("GET /large{i} HTTP/1.1\r\nHost: x\r\n\r\n"))).collect();
    site.write("new", "new");
    fs::rename(site.path("new"), site.path("large1")).unwrap();
    Site::settle();
    site.later();
    assert!(site.get("/large1").body == pattern(20_001));
    for download in pinned {
        download.end(&mut site.content);
    }
    assert_eq!(site.get("/large1").text(), "new");
}

/// Descriptors run out for the whole process. So this test starts itself again in a separate process.
#[test]
fn out_of_descriptors() {
    const CHILD: &str = "SLUICE_TEST_OUT_OF_DESCRIPTORS";
    if std::env::var_os(CHILD).is_none() {
        let name = "content::tests::bounds::out_of_descriptors";
        let child = std::process::Command::new("sh")
            .args(["-c", "ulimit -n 40 && exec \"$0\" --exact --nocapture --test-threads=1 \"$1\""])
            .arg(std::env::current_exe().unwrap())
            .arg(name)
            .env(CHILD, "1")
            .output()
            .unwrap();
        let (stdout, stderr) =
            (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
        assert!(child.status.success() && stdout.contains("1 passed"), "{stdout}\n{stderr}");
        return;
    }
    let mut site = Site::new();
    for i in 0..30 {
        site.write(&format!("{i}"), pattern(20_000 + i));
    }
    Site::settle();
    assert_eq!(site.status("/0"), 200);
    assert_eq!(site.content.table_size().descriptors, 1);
    // All descriptors that are left.
    let mut others = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        others.push(file);
    }
    // The table closes its own files to open others.
    assert!(site.get("/1").body == pattern(20_001));
    assert!(site.get("/2").body == pattern(20_002));
    assert_eq!(site.content.table_size().descriptors, 1);
    let download = site.begin("GET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
    let reply = site.get("/3");
    assert_eq!((reply.status, reply.field("retry-after")), (503, Some("1")));
    site.later();
    assert!(site.get("/2").body == pattern(20_002), "what is open can be sent");
    download.end(&mut site.content);
    drop(others);
    assert_eq!(site.status("/3"), 200);
}

/// Descriptors of this process that are open on files in a directory.
fn descriptors_into(root: &FsPath) -> u64 {
    let all = fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
    let targets = all.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.filter(|target| target.parent() == Some(root)).count() as u64
}
