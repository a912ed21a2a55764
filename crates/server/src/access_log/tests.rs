use super::*;
use crate::config::LogTarget;
use crate::counters::LineLoss;
use http1::{Fields, Head, Method, Terms, Version};
use std::fs;
use std::time::Duration;

fn head<'a>(target: &'a [u8], fields: Fields<'a>) -> Head<'a> {
    let terms = Terms { version: Version::Http11, persistent: true, body: true };
    Head { method: Method::Get, target, path: target, is_encoded: false, fields, terms }
}

fn peer(address: &str) -> PeerAddress {
    PeerAddress::Inet((address.parse::<std::net::IpAddr>().unwrap(), 40_000).into())
}

fn line(format: LogFormat, peer: &PeerAddress, head: Option<&Head<'_>>) -> String {
    let (mut begun, mut out) = (Vec::new(), Vec::new());
    line::begin(format, &mut begun, peer, head, TimeText::default().at(format, 971_211_336));
    line::end(format, &mut out, &begun, 200, 2326, 17);
    String::from_utf8(out).unwrap()
}

/// Makes the writer write all remaining lines.
fn end(writer: Writer) {
    let mut ending = writer.end();
    ending.timeout = Duration::from_secs(10);
    assert!(ending.wait(), "it writes its last lines");
}

#[test]
fn combined_is_the_published_format() {
    // The example of Apache's documentation (mod_log_config, "Combined Log Format"), in UTC.
    let fields = Fields::new(
        b"Referer: http://www.example.com/start.html\r\nUser-Agent: Mozilla/4.08 [en] (Win98; I ;Nav)\r\n",
    );
    assert_eq!(
        line(LogFormat::Combined, &peer("127.0.0.1"), Some(&head(b"/apache_pb.gif", fields))),
        "127.0.0.1 - - [10/Oct/2000:20:55:36 +0000] \"GET /apache_pb.gif HTTP/1.1\" 200 2326 \
         \"http://www.example.com/start.html\" \"Mozilla/4.08 [en] (Win98; I ;Nav)\"\n"
    );
    assert_eq!(
        line(LogFormat::Combined, &PeerAddress::Unix, None),
        "unix: - - [10/Oct/2000:20:55:36 +0000] \"-\" 200 2326 \"-\" \"-\"\n"
    );
}

#[test]
fn combined_escapes_whatever_could_mislead_a_reader() {
    let fields = Fields::new(b"Referer: a\"b\\c\r\nUser-Agent: \x1b[31m\n\x7f\xc3\xa9\r\n");
    let line = line(LogFormat::Combined, &peer("::1"), Some(&head(b"/\xff", fields)));
    assert!(line.starts_with("::1 - - ["), "{line}");
    let rest = r#""GET /\xFF HTTP/1.1" 200 2326 "a\x22b\x5Cc" "\x1B[31m\x0A\x7F\xC3\xA9""#.to_owned() + "\n";
    assert!(line.ends_with(&rest), "{line}");
}

#[test]
fn short_lines_are_short_and_plain() {
    let plain =
        line(LogFormat::Short, &peer("127.0.0.1"), Some(&head(b"/index.html?a=b", Fields::default())));
    assert_eq!(plain, "20:55:36Z 200       2326 B     17 ms  127.0.0.1  GET /index.html?a=b\n");
    let unreadable = line(LogFormat::Short, &PeerAddress::Unix, None);
    assert_eq!(unreadable, "20:55:36Z 200       2326 B     17 ms  unix:  -\n");
    // The target includes characters that make a terminal write from right to left, or in colour.
    let hostile = ["/\u{202e}\u{9b}".as_bytes(), &(0..=255).collect::<Vec<u8>>(), &[b'x'; 9000]].concat();
    let line = line(LogFormat::Short, &peer("::1"), Some(&head(&hostile, Fields::default())));
    assert!(line.ends_with("...\n") && line.contains(r"GET /\xE2\x80\xAE\xC2\x9B\x00\x01"), "{line}");
    assert!(line.len() < 600 && line.trim_end_matches('\n').bytes().all(|byte| matches!(byte, b' '..=b'~')));
}

#[test]
fn json_lines_parse_whatever_was_sent() {
    let every_byte: Vec<u8> = (0..=255).collect();
    let fields = [b"User-Agent:", &every_byte[..], b"\r\n"].concat();
    // The target includes a control character, a line end, and a letter of two units in UTF-16.
    let target = "/a?b=\"c\"\u{9b}\u{2028}\u{1f980}";
    let head = head(target.as_bytes(), Fields::new(&fields));
    let line = line(LogFormat::Json, &peer("::ffff:10.0.0.1"), Some(&head));
    assert!(line.trim_end_matches('\n').bytes().all(|byte| matches!(byte, b' '..=b'~')), "{line}");
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["time"], "2000-10-10T20:55:36Z");
    assert_eq!(value["remote"], "10.0.0.1");
    assert_eq!(value["method"], "GET");
    assert_eq!(value["target"], target);
    assert_eq!(value["version"], "HTTP/1.1");
    assert_eq!(
        (&value["status"], &value["bytes"], &value["duration_ms"]),
        (&200.into(), &2326.into(), &17.into())
    );
    assert_eq!(value["referer"], serde_json::Value::Null);
    assert_eq!(value["user_agent"], String::from_utf8_lossy(&every_byte).into_owned());
    let unreadable: serde_json::Value =
        serde_json::from_str(&self::line(LogFormat::Json, &peer("127.0.0.1"), None)).unwrap();
    assert_eq!(unreadable["target"], serde_json::Value::Null);
}

#[test]
fn what_an_application_took_is_told_in_json_alone() {
    let fields = b"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";
    for format in [LogFormat::Combined, LogFormat::Json, LogFormat::Short] {
        let (mut begun, mut line, mut without) = (Vec::new(), Vec::new(), Vec::new());
        let head = head(b"/x", Fields::new(fields));
        line::begin(format, &mut begun, &peer("127.0.0.1"), Some(&head), "now");
        line::end(format, &mut without, &begun, 200, 5, 60);
        line::add_application(format, &mut begun, "php unix:/a\"b", 7, 42);
        line::end(format, &mut line, &begun, 200, 5, 60);
        let (line, without) = (String::from_utf8(line).unwrap(), String::from_utf8(without).unwrap());
        if format == LogFormat::Json {
            let with = ",\"pool\":\"php unix:/a\\u0022b\",\"queue_ms\":7,\"application_ms\":42}\n";
            assert_eq!(line.strip_suffix(with), without.strip_suffix("}\n"));
            let value: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!(value["traceparent"], "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        } else {
            assert_eq!(line, without);
        }
    }
    // If no line was begun, nothing is added.
    let mut none = Vec::new();
    line::add_application(LogFormat::Json, &mut none, "php", 7, 42);
    assert!(none.is_empty());
}

#[test]
fn the_time_is_right_in_every_month() {
    const DAYS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut secs = 1_767_225_600; // 2026-01-01
    for (month, days) in (1..).zip(DAYS) {
        let mut time = TimeText::default();
        assert_eq!(time.at(LogFormat::Json, secs), format!("2026-{month:02}-01T00:00:00Z"));
        secs += days * 86_400;
        assert_eq!(time.at(LogFormat::Json, secs - 1), format!("2026-{month:02}-{days}T23:59:59Z"));
    }
    // A time beyond the last date that can be shown, as from a faulty clock.
    assert_eq!(TimeText::default().at(LogFormat::Json, u64::MAX), "9999-12-31T23:59:59Z");
}

struct Setup {
    dir: tempfile::TempDir,
    counters: &'static Counters,
}

impl Setup {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), counters: Box::leak(Box::default()) }
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("access.log")
    }

    fn start(&self, target: &LogTarget, when_behind: WhenBehind) -> (Writer, AccessLog) {
        let writer = Writer::start(LogFile::open(target, None).unwrap().into(), 1).unwrap();
        let log = writer.worker(LogFormat::Combined, when_behind, self.counters);
        (writer, log)
    }

    fn dropped(&self, cause: LineLoss) -> u64 {
        self.counters.access_log_dropped[cause as usize].get()
    }
}

fn log_one(log: &mut AccessLog, target: &str) {
    let mut begun = Vec::new();
    log.begin(&mut begun, &peer("127.0.0.1"), &head(target.as_bytes(), Fields::default()), 1_800_000_000);
    log.end(&begun, 200, 1, 1);
}

#[test]
fn every_line_arrives_in_order() {
    let setup = Setup::new();
    let (writer, mut log) = setup.start(&LogTarget::File(setup.path()), WhenBehind::Wait);
    for i in 0..50_000 {
        log_one(&mut log, &format!("/{i}"));
    }
    drop(log);
    end(writer);
    let written = fs::read_to_string(setup.path()).unwrap();
    assert_eq!(written.lines().count(), 50_000);
    for (i, line) in written.lines().enumerate() {
        assert!(line.contains(&format!("\"GET /{i} HTTP/1.1\" 200 1 ")), "{line}");
    }
}

#[test]
fn lines_appear_after_a_second_and_after_a_rotation_in_the_new_file() {
    let setup = Setup::new();
    let (writer, mut log) = setup.start(&LogTarget::File(setup.path()), WhenBehind::Drop);
    log.tick(10_000);
    assert_eq!(log.wait_at_most_ms(10_000), None);
    log_one(&mut log, "/one");
    assert_eq!(log.wait_at_most_ms(10_400), Some(600));
    log.tick(10_999);
    assert!(!log.buffer.is_empty());
    log.tick(11_000);
    assert!(log.buffer.is_empty());
    wait_for(|| fs::read_to_string(setup.path()).unwrap().contains("/one"));
    let old = setup.dir.path().join("access.log.1");
    fs::rename(setup.path(), &old).unwrap();
    log.reopen();
    wait_for(|| setup.path().exists());
    log_one(&mut log, "/two");
    drop(log);
    end(writer);
    assert!(fs::read_to_string(setup.path()).unwrap().contains("/two"));
    assert_eq!(fs::read_to_string(old).unwrap().lines().count(), 1);
}

/// A FIFO without a reader stands for a disk that hangs.
fn fifo(setup: &Setup) -> fs::File {
    let made = std::process::Command::new("mkfifo").arg(setup.path()).status().unwrap();
    assert!(made.success());
    fs::OpenOptions::new().read(true).write(true).open(setup.path()).unwrap()
}

#[test]
fn a_writer_that_hangs_costs_lines_and_never_time() {
    let setup = Setup::new();
    let mut reader = fifo(&setup);
    let (writer, mut log) = setup.start(&LogTarget::File(setup.path()), WhenBehind::Drop);
    let lines = 4 * (BUFFERS + 1) * BUFFER_SIZE / 64;
    for i in 0..lines {
        log_one(&mut log, &format!("/{i}"));
    }
    let dropped = setup.dropped(LineLoss::Behind);
    assert!(dropped > 0 && dropped < lines as u64, "{dropped} of {lines}");
    assert_eq!(log.buffers_made, BUFFERS);
    // The worker must pause between its attempts.
    log.tick(10_000);
    assert_eq!(log.wait_at_most_ms(10_000), Some(FLUSH_AFTER_MS));
    // The disk works again: all lines that were not dropped are written.
    let reading = std::thread::spawn(move || {
        let mut kept = Vec::new();
        let mut piece = [0; 4096];
        while !kept.ends_with(b"/last HTTP/1.1\" 200 1 \"-\" \"-\"\n") {
            let n = std::io::Read::read(&mut reader, &mut piece).unwrap();
            kept.extend_from_slice(&piece[..n]);
        }
        kept
    });
    wait_for(|| {
        let before = setup.dropped(LineLoss::Behind);
        log_one(&mut log, "/again");
        setup.dropped(LineLoss::Behind) == before
    });
    let dropped = setup.dropped(LineLoss::Behind);
    log_one(&mut log, "/last");
    let again = dropped - setup.dropped(LineLoss::Behind);
    assert_eq!(again, 0);
    drop(log);
    end(writer);
    let kept = String::from_utf8(reading.join().unwrap()).unwrap();
    let (old, new): (Vec<_>, Vec<_>) =
        kept.lines().partition(|l| !l.contains("/again") && !l.contains("/last"));
    assert!(old.len() < lines && new.len() >= 2);
    assert!(kept.lines().all(|line| line.ends_with("\"-\"") && line.starts_with("127.0.0.1")));
}

#[test]
fn an_operator_who_chose_to_wait_loses_nothing() {
    let setup = Setup::new();
    let reader = fifo(&setup);
    let (writer, mut log) = setup.start(&LogTarget::File(setup.path()), WhenBehind::Wait);
    let lines = 2 * BUFFERS * BUFFER_SIZE / 64;
    let logging = std::thread::spawn(move || {
        for i in 0..lines {
            log_one(&mut log, &format!("/{i}"));
        }
        drop(log);
        end(writer);
    });
    let read = std::io::BufRead::lines(std::io::BufReader::new(reader)).take(lines);
    for (i, line) in read.enumerate() {
        assert!(line.unwrap().contains(&format!("\"GET /{i} ")));
    }
    logging.join().unwrap();
    assert_eq!(setup.dropped(LineLoss::Behind), 0);
}

#[test]
fn lines_that_cannot_be_written_are_counted() {
    let setup = Setup::new();
    let (writer, mut log) = setup.start(&LogTarget::File("/dev/full".into()), WhenBehind::Wait);
    // Lines are counted when they are lost, not when the worker hands over the next ones.
    log_one(&mut log, "/");
    log.tick(0);
    log.tick(FLUSH_AFTER_MS);
    wait_for(|| setup.dropped(LineLoss::WriteError) == 1);
    for now in 2..100 {
        log_one(&mut log, "/");
        log_one(&mut log, "/");
        log.tick(now * FLUSH_AFTER_MS);
    }
    log_one(&mut log, "/");
    drop(log);
    end(writer);
    assert_eq!(setup.dropped(LineLoss::WriteError), 1 + 2 * 98 + 1);
}

/// Each line is either in the file or counted as lost. A partly written line counts as lost.
#[test]
fn lines_written_and_lines_lost_are_all_lines() {
    let setup = Setup::new();
    // A FIFO without a reader accepts a part of a buffer and then no more, like a full disk.
    let mut reader = fifo(&setup);
    let (writer, mut log) = setup.start(&LogTarget::File(setup.path()), WhenBehind::Drop);
    sys::socket::set_nonblocking(writer.keep_open(), true).unwrap();
    let lines = 4 * BUFFER_SIZE / 64;
    for i in 0..lines {
        log_one(&mut log, &format!("/{i}"));
    }
    drop(log);
    end(writer);
    let mut kept = vec![0; 1 << 20];
    let n = std::io::Read::read(&mut reader, &mut kept).unwrap();
    let lost = setup.dropped(LineLoss::WriteError);
    assert!(lost > 0);
    assert_eq!(count_lines(&kept[..n]) + lost, lines as u64);
}

#[test]
fn a_log_that_cannot_be_opened_is_named() {
    let error = LogFile::check(&LogTarget::File("/nonexistent/access.log".into())).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/access.log"), "{error}");
}

#[test]
fn a_log_that_can_not_be_opened_anew_stays_in_use() {
    let setup = Setup::new();
    let (directory, moved) = (setup.dir.path().join("logs"), setup.dir.path().join("moved"));
    fs::create_dir(&directory).unwrap();
    let path = directory.join("access.log");
    let (writer, mut log) = setup.start(&LogTarget::File(path.clone()), WhenBehind::Wait);
    let mut now = 0;
    let mut arrive_at = |log: &mut AccessLog, path: &std::path::Path| {
        wait_for(|| {
            now += FLUSH_AFTER_MS;
            log_one(log, "/");
            log.tick(now);
            fs::read_to_string(path).is_ok_and(|text| !text.is_empty())
        });
    };
    fs::rename(&directory, &moved).unwrap();
    log.reopen();
    arrive_at(&mut log, &moved.join("access.log"));
    fs::create_dir(&directory).unwrap();
    log.reopen();
    arrive_at(&mut log, &path);
    drop(log);
    end(writer);
    assert_eq!(setup.dropped(LineLoss::WriteError), 0);
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    for _ in 0..500 {
        if condition() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("waited for 5 s");
}
