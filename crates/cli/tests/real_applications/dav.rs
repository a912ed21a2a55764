//! `WebDAV` and `CalDAV` by sabre/dav, which Nextcloud and ownCloud are built on: what `litmus` asks of any
//! such server, and what calendars ask besides. Most of it has methods that HTTP itself does not define.

use std::fs;
use std::process::Command;

use harness::client::{Client, Reply, request};
use harness::fpm::Fpm;
use harness::server::{Server, Setup};
use harness::variant::{Test, Variant, tests};

pub(super) const TESTS: &[Test] = tests![
    Drivers: litmus_passes, calendars;
];

fn site(variant: &Variant) -> (Server, Fpm) {
    let setup = Setup::new(variant);
    let data = setup.directory().join("data");
    fs::create_dir_all(data.join("files")).expect("a directory");
    let script = include_str!("dav.php").replace("'DATA'", &format!("'{}'", data.display()));
    let setup = setup.file("index.php", script).config("[[routes]]\nfallback = '/index.php'\n");
    let fpm = Fpm::start(setup.directory(), 3);
    (setup.argument(fpm.argument()).start(), fpm)
}

fn litmus_passes(variant: &Variant) {
    let (server, _fpm) = site(variant);
    let output = Command::new("litmus")
        .current_dir(server.directory())
        .arg("-k")
        .arg(format!("http://{}/files/files/", server.addresses()[0]))
        .output()
        .expect("litmus is installed: scripts/install-test-tools");
    let said = String::from_utf8_lossy(&output.stdout);
    let summaries: Vec<_> = said.lines().filter(|line| line.starts_with("<- summary")).collect();
    assert_eq!(summaries.len(), 5, "{said}");
    assert!(summaries.iter().all(|line| line.ends_with(" 0 failed. 100.0%")), "{said}");
    assert!(!said.contains("SKIPPED"), "{said}");
}

fn calendars(variant: &Variant) {
    let (server, _fpm) = site(variant);
    let mut client = server.connect();
    let event = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:1\r\n\
                 DTSTAMP:20260101T000000Z\r\nDTSTART:20260102T000000Z\r\nSUMMARY:Lunch\r\nEND:VEVENT\r\n\
                 END:VCALENDAR\r\n";
    let query = "<c:calendar-query xmlns:d='DAV:' xmlns:c='urn:ietf:params:xml:ns:caldav'><d:prop>\
                 <c:calendar-data/></d:prop><c:filter><c:comp-filter name='VCALENDAR'/></c:filter>\
                 </c:calendar-query>";
    let mut ask = |method: &str, target: &str, body: &str| ask(&mut client, method, target, body);
    assert_eq!(ask("MKCALENDAR", "/calendars/ann/work/", "").status, 201);
    assert_eq!(ask("PUT", "/calendars/ann/work/1.ics", event).status, 201);
    let found = ask("REPORT", "/calendars/ann/work/", query);
    assert_eq!(found.status, 207);
    assert!(found.text().contains("SUMMARY:Lunch"), "{found:?}");
    let listed = ask("PROPFIND", "/calendars/ann/work/", "");
    assert_eq!(listed.status, 207);
    assert!(listed.text().contains("/calendars/ann/work/1.ics"), "{listed:?}");
    assert_eq!(ask("DELETE", "/calendars/ann/work/1.ics", "").status, 204);
    assert_eq!(ask("REPORT", "/calendars/ann/work/", query).text().matches("Lunch").count(), 0);
    assert_eq!(server.pool_count("failures"), 0);
}

fn ask(client: &mut Client, method: &str, target: &str, body: &str) -> Reply {
    let length = body.len().to_string();
    let mut fields = vec![("Depth", "1")];
    if !body.is_empty() {
        fields.extend([("Content-Length", &*length), ("Content-Type", "application/xml")]);
    }
    client.send(request(method, target, &fields) + body);
    client.reply()
}
