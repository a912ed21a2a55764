//! WebSocket between programs that share no code with each other: a chat in Node, a client in Python that
//! sends frames of all kinds, an application under uvicorn, and a page in Chromium.

use std::fs;
use std::process::{Command, Stdio};

use harness::browser::Browser;
use harness::server::{Server, Setup};
use harness::variant::{Test, Variant, tests};

use crate::daemon::Daemon;

pub(super) const TESTS: &[Test] = tests![
    Drivers: frames_of_all_kinds;
    Three: a_chat_in_a_browser, fastapi_under_uvicorn;
];

/// What is sent to `/chat` goes to everybody there, and what is sent to anything else goes back. Some words
/// have it do something.
const CHAT: &str = r#"
const http = require("node:http");
const { WebSocketServer } = require("ws");
const server = http.createServer((request, response) => {
  if (request.url === "/app/events") {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    let count = 0;
    const timer = setInterval(() => response.write(`data: ${(count += 1)}\n\n`), 20);
    request.on("close", () => clearInterval(timer));
  } else {
    response.setHeader("Content-Type", "text/html");
    response.end("<!DOCTYPE html><title>chat</title>");
  }
});
const sockets = new WebSocketServer({ server, perMessageDeflate: true });
sockets.on("connection", (socket, request) => {
  socket.on("message", (data, isBinary) => {
    const text = isBinary ? "" : data.toString();
    if (request.url === "/app/chat") {
      for (const other of sockets.clients) other.send(data, { binary: isBinary });
    } else if (text === "ping me") {
      socket.once("pong", (payload) => socket.send(`pong ${payload}`));
      socket.ping("pings");
    } else if (text === "close me") {
      socket.close(4001, "as you say");
    } else if (text === "break me") {
      socket.terminate();
    } else if (text === "headers") {
      socket.send(JSON.stringify(request.headers));
    } else {
      socket.send(data, { binary: isBinary });
    }
  });
});
server.listen(process.argv[2]);
"#;

/// The kinds of frames that the Autobahn suite has: lengths on both sides of each encoding, fragments,
/// control frames between them, text in several bytes, closes from both sides with their codes, compression.
const FRAMES: &str = r#"
import asyncio, json, os, sys, websockets

LENGTHS = [0, 1, 124, 125, 126, 127, 128, 65534, 65535, 65536, 1000000]

async def frames(uri, compression):
    async with websockets.connect(uri, compression=compression, max_size=None) as socket:
        for length in LENGTHS:
            for message in (os.urandom(length), "ä€𝄞a" * (length // 4) + "x" * (length % 4)):
                await socket.send(message)
                assert await socket.recv() == message, length
        for pieces in ([b"a", b"", b"b" * 70000, b"c"], ["ä", "€", "", "𝄞" * 300]):
            await socket.send(iter(pieces))
            assert await socket.recv() == type(pieces[0])().join(pieces)
        for payload in (b"", b"p", b"p" * 125):
            await asyncio.wait_for(await socket.ping(payload), 10)
        await socket.send("ping me")
        assert await socket.recv() == "pong pings"
        many = [os.urandom(n % 300) for n in range(500)]
        for message in many:
            await socket.send(message)
        for message in many:
            assert await socket.recv() == message
        await socket.send("headers")
        headers = json.loads(await socket.recv())
        assert headers["x-forwarded-for"] == "127.0.0.1" and headers["connection"] == "upgrade", headers
        await socket.close(3000, "done")
    assert socket.close_code == 3000, socket.close_code

async def ends(uri):
    for word, code in (("close me", 4001), ("break me", 1006)):
        async with websockets.connect(uri) as socket:
            await socket.send(word)
            try:
                assert False, await socket.recv()
            except websockets.ConnectionClosed:
                assert socket.close_code == code, (word, socket.close_code)

async def main(uri):
    await frames(uri, None)
    await frames(uri, "deflate")
    await ends(uri)
    await asyncio.gather(*(frames(uri, None) for _ in range(3)))

asyncio.run(main(sys.argv[1]))
"#;

const FASTAPI: &str = r#"
from fastapi import FastAPI, Request, WebSocket

app = FastAPI()

@app.get("/app/who")
def who(request: Request):
    return {"client": request.client.host, "url": str(request.url)}

@app.post("/app/sum")
def sum_up(numbers: list[int]):
    return sum(numbers)

@app.websocket("/app/echo")
async def echo(socket: WebSocket):
    await socket.accept(subprotocol="echo")
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            break
        await socket.send_text(message["text"] + f" from {socket.client.host}")
"#;

const ASK: &str = r#"
import asyncio, sys, websockets

async def main(uri):
    async with websockets.connect(uri, subprotocols=["other", "echo"]) as socket:
        assert socket.subprotocol == "echo"
        for n in range(50):
            await socket.send(f"hello {n}")
            assert await socket.recv() == f"hello {n} from 127.0.0.1"

asyncio.run(main(sys.argv[1]))
"#;

fn python(server: &Server, script: &str, path: &str) {
    let uri = format!("ws://{}{path}", server.address);
    let output = Command::new("/usr/bin/python3").args(["-c", script, &uri]).output().expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A server before an application at the socket that `command` is given.
fn before(setup: Setup, command: &mut Command) -> (Server, Daemon) {
    let socket = setup.directory().join("app.sock");
    let daemon = Daemon::start(command.arg(&socket), &socket);
    let pool = format!("name = 'app'\nprotocol = 'http'\nservers = 'unix:{}'\n", socket.display());
    let server =
        setup.config(&format!("[[pools]]\n{pool}[[routes]]\npath = '/app/**'\npool = 'app'\n")).start();
    (server, daemon)
}

fn chat(variant: &Variant) -> (Server, Daemon) {
    let setup = Setup::new(variant);
    let script = setup.directory().join("chat.js");
    fs::write(&script, CHAT).expect("a file");
    // Where Debian has its packages.
    let mut node = Command::new("node");
    node.env("NODE_PATH", "/usr/share/nodejs:/usr/share/javascript").arg(&script);
    before(setup, &mut node)
}

fn frames_of_all_kinds(variant: &Variant) {
    let (server, _node) = chat(variant);
    python(&server, FRAMES, "/app/frames");
    assert_eq!(["upgrades", "failures"].map(|name| server.pool_count(name)), [7, 0]);
}

/// Two sockets of a page talk to each other, and events come meanwhile.
fn a_chat_in_a_browser(variant: &Variant) {
    let (server, _node) = chat(variant);
    let directory = tempfile::tempdir().expect("a directory");
    let mut browser = Browser::start(directory.path());
    browser.open(&format!("http://{}/app/", server.address));
    let seen = browser.evaluate(
        r#"(async () => {
            const next = (from) => new Promise((resolve, reject) => {
                from.addEventListener("message", (event) => resolve(event.data), { once: true });
                from.addEventListener("error", () => reject(new Error("broken")), { once: true });
            });
            const opened = (path) => new Promise((resolve, reject) => {
                const socket = new WebSocket(`ws://${location.host}${path}`);
                socket.addEventListener("open", () => resolve(socket));
                socket.addEventListener("error", () => reject(new Error("not opened")));
            });
            const [anna, ben] = [await opened("/app/chat"), await opened("/app/chat")];
            const events = new EventSource("/app/events");
            const [heard, own, first] = [next(ben), next(anna), next(events)];
            anna.send("good morning");
            const answers = [await heard, await first];
            await own;
            const answered = next(anna);
            ben.send("good evening");
            answers.push(await answered);
            const closed = new Promise((resolve) => anna.addEventListener("close", resolve));
            anna.close(3001);
            answers.push((await closed).code);
            events.close();
            return answers;
        })()"#,
    );
    assert_eq!(seen[0], "good morning");
    assert!(seen[1].as_str().is_some_and(|event| event.parse::<u32>().is_ok()), "{seen}");
    assert_eq!((&seen[2], &seen[3]), (&"good evening".into(), &3001.into()));
    assert_eq!(server.pool_count("upgrades"), 2);
}

fn fastapi_under_uvicorn(variant: &Variant) {
    let setup = Setup::new(variant);
    fs::write(setup.directory().join("application.py"), FASTAPI).expect("a file");
    let mut uvicorn = Command::new("/usr/bin/python3");
    uvicorn.args(["-m", "uvicorn", "--proxy-headers", "--forwarded-allow-ips=*", "--log-level=error"]);
    uvicorn.arg("--app-dir").arg(setup.directory()).args(["application:app", "--uds"]).stderr(Stdio::null());
    let (server, _uvicorn) = before(setup, &mut uvicorn);
    let scheme = if variant.speaks_tls() { "https" } else { "http" };
    let told = server.get("/app/who?a=b").text();
    assert_eq!(told, format!(r#"{{"client":"127.0.0.1","url":"{scheme}://test/app/who?a=b"}}"#));
    let mut client = server.connect();
    client.send(harness::client::post("/app/sum", b"[1, 2, 39]"));
    assert_eq!(client.reply().text(), "42");
    python(&server, ASK, "/app/echo");
    assert_eq!(server.pool_count("failures"), 0);
}
