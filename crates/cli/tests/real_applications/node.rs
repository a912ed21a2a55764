//! An application in Node, which speaks HTTP.

use std::fs;
use std::process::Command;

use harness::client::post;
use harness::server::{Server, Setup};
use harness::site::{HELLO, pattern};
use harness::variant::{Test, Variant, tests};

use crate::daemon::Daemon;

pub(super) const TESTS: &[Test] = tests![
    Three: requests_of_all_kinds, events_come_as_they_are_sent;
];

const SERVER: &str = r#"
const http = require("node:http");
const crypto = require("node:crypto");
let more = null;
http.createServer((request, response) => {
  const path = request.url.split("?")[0];
  if (path === "/hash") {
    const hash = crypto.createHash("md5");
    request.on("data", (bytes) => hash.update(bytes));
    request.on("end", () => response.end(hash.digest("hex")));
  } else if (path === "/large") {
    const chunk = Buffer.alloc(100000, "x");
    let left = 200;
    const go = () => {
      while (left > 0) {
        left -= 1;
        if (!response.write(chunk)) return response.once("drain", go);
      }
      response.end();
    };
    go();
  } else if (path === "/events") {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write("data: first\n\n");
    more = () => response.end("data: last\n\n");
  } else if (path === "/more") {
    more();
    response.end("done");
  } else {
    response.setHeader("Set-Cookie", ["a=1", "b=2"]);
    response.end(JSON.stringify({ method: request.method, url: request.url, headers: request.headers }));
  }
}).listen(process.argv[2]);
"#;

fn site(variant: &Variant) -> (Server, Daemon) {
    let setup = Setup::new(variant);
    let (script, socket) = (setup.directory().join("server.js"), setup.directory().join("node.sock"));
    fs::write(&script, SERVER).expect("a file");
    let node = Daemon::start(Command::new("node").arg(&script).arg(&socket), &socket);
    (setup.argument(format!("--proxy=unix:{}", socket.display())).start(), node)
}

fn requests_of_all_kinds(variant: &Variant) {
    let (server, _node) = site(variant);
    let mut client = server.connect();
    assert_eq!(client.get("/hello.txt").text(), HELLO);
    for method in ["GET", "PUT", "DELETE", "PATCH", "PROPFIND"] {
        let reply = client.fetch(method, "/a%20b?c=d", &[("X-Mine", "e")]);
        let text = reply.text();
        let told = format!(r#"{{"method":"{method}","url":"/a%20b?c=d","#);
        assert!(text.starts_with(&told) && text.contains(r#""x-mine":"e""#), "{text}");
        let cookies = reply.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
        assert_eq!(cookies.count(), 2);
    }
    for size in [0, 1, 100_000, 5_000_000] {
        let body = pattern(size as u64, size);
        client.send(post("/hash", &body));
        assert_eq!(client.reply().text(), md5(&body), "{size} bytes");
    }
    let reply = server.connect_narrow().taking_chunks().get("/large");
    assert!(reply.body.len() == 20_000_000 && reply.body.iter().all(|byte| *byte == b'x'));
    assert_eq!(server.pool_count("failures"), 0);
}

fn md5(bytes: &[u8]) -> String {
    use std::io::Write;
    use std::process::Stdio;
    let mut child =
        Command::new("md5sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("md5sum");
    child.stdin.take().expect("a pipe").write_all(bytes).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8_lossy(&output.stdout[..32]).into_owned()
}

/// The last event is only sent once the client has the first.
fn events_come_as_they_are_sent(variant: &Variant) {
    let (server, _node) = site(variant);
    let mut client = server.connect();
    client.ask("GET", "/events", &[]);
    let mut seen = Vec::new();
    while !seen.windows(5).any(|part| part == b"first") {
        seen.extend(client.read_raw(1).expect("more of the reply"));
    }
    assert_eq!(server.get("/more").text(), "done");
    while !seen.ends_with(b"0\r\n\r\n") {
        seen.extend(client.read_raw(1).expect("more of the reply"));
    }
    assert!(String::from_utf8_lossy(&seen).contains("data: last\n\n"));
}
