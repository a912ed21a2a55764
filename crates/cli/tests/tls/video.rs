//! Chromium plays a video over TLS, and jumps to far places of it: what it has not got yet, it asks for with
//! ranges.
//!
//! Chromium makes the pictures, and the test puts them into a file of `WebM`. A lossy picture of WebP is a
//! frame of VP8 that needs no other frame. So the browser can jump to each.

use std::fs;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use harness::authority::Authority;
use harness::browser::Browser;
use harness::eventually;
use harness::site::HELLO;
use harness::variant::{Test, Variant, tests};
use serde_json::json;

use crate::https::{Https, setup};

pub(crate) const TESTS: &[Test] = tests![
    Three: chromium_seeks_in_a_video;
];

/// How many seconds the video has. There is a frame a second.
const SECONDS: usize = 48;

/// How many bytes that mean nothing follow each frame, so that no browser fetches the video at once: Chromium
/// keeps 20 MB of what comes next.
const VOID: usize = 1 << 20;

/// A function of the page that draws the picture of a second: a grey that tells the second.
const DRAW: &str = r#"
(second) => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [320, 240];
    const context = canvas.getContext("2d", { alpha: false });
    context.fillStyle = `rgb(${Array(3).fill(40 + 4 * second)})`;
    context.fillRect(0, 0, 320, 240);
    const url = canvas.toDataURL("image/webp", 0.95);
    return url.slice(url.indexOf(",") + 1);
}"#;

/// The page tells how it sought and what it saw then: the second whose grey it shows.
const PAGE: &str = r#"<!DOCTYPE html><title>video</title>
<video id=video src=video.webm muted preload=auto></video>
<script>
const video = document.getElementById("video");
const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const happened = (name) => new Promise((resolve, reject) => {
    video.addEventListener(name, resolve, { once: true });
    video.addEventListener("error", () => reject(video.error), { once: true });
});
const seen = () => {
    context.drawImage(video, 0, 0);
    return Math.round((context.getImageData(100, 60, 1, 1).data[0] - 40) / 4);
};
const loaded = video.readyState > 0 ? Promise.resolve() : happened("loadedmetadata");
const seek = async (second) => {
    await loaded;
    const is_there = happened("seeked");
    video.currentTime = second;
    await is_there;
    return [video.currentTime, seen()];
};
const play = async () => {
    const began = video.currentTime;
    await video.play();
    while (video.currentTime < began + 1.5) await happened("timeupdate");
    video.pause();
    return [video.videoWidth, video.duration, seen() > began];
};
const ask = async (times) => {
    let size = 0;
    for (let time = 0; time < times; time++)
        size += (await (await fetch("hello.txt", { cache: "no-store" })).arrayBuffer()).byteLength;
    return size;
};
</script>"#;

/// An element of EBML: its number, its length, and what is in it.
fn element(number: u32, content: &[u8]) -> Vec<u8> {
    let number = number.to_be_bytes();
    let begin = number.iter().position(|&byte| byte != 0).expect("a number");
    // A length of eight bytes: one that says so, and seven.
    let mut length = (content.len() as u64).to_be_bytes();
    length[0] = 1;
    [&number[begin..], &length, content].concat()
}

fn whole(number: u32, value: u64) -> Vec<u8> {
    element(number, &value.to_be_bytes())
}

/// A file of `WebM` with one frame a second, and an index (`Cues`) in front of the frames.
fn webm(frames: &[Vec<u8>]) -> Vec<u8> {
    let header = [
        whole(0x4286, 1),
        whole(0x42f7, 1),
        whole(0x42f2, 4),
        whole(0x42f3, 8),
        element(0x4282, b"webm"),
        whole(0x4287, 2),
        whole(0x4285, 2),
    ];
    // Times are in milliseconds.
    let duration = (frames.len() as f64 * 1000.0).to_be_bytes();
    let programs = [element(0x4d80, b"test"), element(0x5741, b"test")].concat();
    let info = [whole(0x002a_d7b1, 1_000_000), element(0x4489, &duration), programs].concat();
    let size = [whole(0xb0, 320), whole(0xba, 240)].concat();
    let track = [whole(0xd7, 1), whole(0x73c5, 1), whole(0x83, 1), element(0x86, b"V_VP8")].concat();
    let track = element(0xae, &[track, element(0xe0, &size)].concat());
    let clusters: Vec<Vec<u8>> = (0..)
        .zip(frames)
        .map(|(second, frame)| {
            // The first track, at the cluster's own time, a frame that needs no other.
            let block = element(0xa3, &[&[0x81, 0, 0, 0x80], &frame[..]].concat());
            element(0x1f43_b675, &[whole(0xe7, second * 1000), block, element(0xec, &vec![0; VOID])].concat())
        })
        .collect();
    let front = [element(0x1549_a966, &info), element(0x1654_ae6b, &track)].concat();
    // Every number has eight bytes, so the index is as long with right places as with wrong ones.
    let index = |mut place: u64| {
        let points = (0..).zip(&clusters).flat_map(|(second, cluster)| {
            let position = [whole(0xf7, 1), whole(0xf1, place)].concat();
            place += cluster.len() as u64;
            element(0xbb, &[whole(0xb3, second * 1000), element(0xb7, &position)].concat())
        });
        element(0x1c53_bb6b, &points.collect::<Vec<u8>>())
    };
    let first = front.len() + index(0).len();
    let segment = [front, index(first as u64), clusters.concat()].concat();
    [element(0x1a45_dfa3, &header.concat()), element(0x1853_8067, &segment)].concat()
}

/// The frames, which the browser draws.
fn frames(browser: &mut Browser) -> Vec<Vec<u8>> {
    let mut draw = |second| {
        let text = browser.evaluate(&format!("({DRAW})({second})"));
        let webp = BASE64_STANDARD.decode(text.as_str().expect("text")).expect("base64");
        // A file of RIFF: a head of 12 bytes, and parts, each with a name and a length.
        let mut rest = &webp[12..];
        loop {
            let length = u32::from_le_bytes(rest[4..8].try_into().expect("four bytes")) as usize;
            if rest.starts_with(b"VP8 ") {
                return rest[8..8 + length].to_vec();
            }
            rest = &rest[8 + length.next_multiple_of(2)..];
        }
    };
    (0..SECONDS).map(&mut draw).collect()
}

fn chromium_seeks_in_a_video(variant: &Variant) {
    let authority = Authority::create();
    let setup = setup(variant, &authority, "").file("video.html", PAGE);
    let log = setup.directory().join("access.log");
    let https = Https::of(setup.argument(format!("--access-log={}", log.display())));

    let stranger = tempfile::tempdir().expect("a directory");
    let mut browser = Browser::start(stranger.path());
    let page = https.url("/video.html");
    assert_eq!(browser.fail_to_open(&page), "net::ERR_CERT_AUTHORITY_INVALID");
    let frames = frames(&mut browser);
    drop(browser);
    let video = webm(&frames);
    https.server.write("video.webm", &video);

    let mut browser = Browser::start_trusting(https.directory(), &https.directory().join("authority.pem"));
    browser.note_replies();
    browser.open(&page);
    assert_eq!(browser.evaluate("isSecureContext"), json!(true));
    for second in [43.25_f64, 3.25, 25.25, 46.25, 12.25] {
        let told = browser.evaluate(&format!("seek({second})"));
        // The frame of a second is shown until the next one.
        assert_eq!(told, json!([second, second.trunc() as u64]), "seeking to {second}");
    }
    let told = browser.evaluate("play()");
    assert_eq!(told, json!([320, SECONDS, true]));

    let reply = browser.replies(&page).next().expect("a reply");
    assert_eq!((&reply["securityState"], &reply["protocol"]), (&json!("secure"), &json!("http/1.1")));
    let details = &reply["securityDetails"];
    assert_eq!(
        (&details["protocol"], &details["issuer"]),
        (&json!("TLS 1.3"), &json!("authority of a test"))
    );
    let of_video = browser.replies(&https.url("/video.webm")).next().expect("a reply");
    assert_eq!((&of_video["status"], &of_video["securityState"]), (&json!(206), &json!("secure")));

    // A connection is kept.
    let opened = https.server.count("connections_opened");
    assert_eq!(browser.evaluate("ask(30)"), json!(30 * HELLO.len()));
    let more = https.server.count("connections_opened") - opened;
    assert!(more <= 1, "{more} connections for 30 requests");

    // What was asked for begins at the beginning, and at a far place. What the browser has kept is confirmed.
    let total = format!("/{}", video.len());
    let begins: Vec<usize> = browser
        .replies(&https.url("/video.webm"))
        .filter(|reply| reply["status"] != 304)
        .map(|reply| {
            let range =
                reply["headers"]["Content-Range"].as_str().unwrap_or_else(|| panic!("no part: {reply}"));
            let range = range.strip_prefix("bytes ").and_then(|range| range.strip_suffix(&total));
            let begin = range.and_then(|range| range.split('-').next()?.parse().ok());
            begin.unwrap_or_else(|| panic!("another range: {reply}"))
        })
        .collect();
    // Between them it may have gone on reading what it had asked for first.
    let has_jumped = begins.iter().any(|&at| at > video.len() / 2);
    assert!(begins.contains(&0) && has_jumped, "{begins:?} of {}", video.len());

    // The browser breaks off what it has asked for. Such a reply is logged when the server notices.
    drop(browser);
    eventually("the browser's connections are gone", || {
        https.server.count("connections_opened") == https.server.count("connections_closed")
    });
    let log = fs::read_to_string(log).expect("a log");
    let parts = log.lines().filter(|line| line.contains("\"GET /video.webm HTTP/1.1\" 206 ")).count();
    assert!(parts >= 2, "{log}");
}
