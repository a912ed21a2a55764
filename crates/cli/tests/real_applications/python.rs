//! An application in Python, which gunicorn runs.

use std::fs;
use std::process::{Command, Stdio};

use harness::client::post;
use harness::server::Setup;
use harness::variant::{Test, Variant, tests};

use crate::daemon::Daemon;

pub(super) const TESTS: &[Test] = tests![
    Three: flask_under_gunicorn;
];

const APP: &str = r#"
import time
from flask import Flask, redirect, request
from werkzeug.middleware.proxy_fix import ProxyFix

app = Flask(__name__)
app.wsgi_app = ProxyFix(app.wsgi_app, x_for=1, x_proto=1, x_host=1)

@app.route("/who")
def who():
    return f"{request.remote_addr} {request.url}"

@app.route("/form", methods=["POST"])
def form():
    return request.form["name"]

@app.route("/moved")
def moved():
    return redirect("/who")

@app.route("/slow")
def slow():
    time.sleep(0.1)
    return "slow"
"#;

/// It has two workers, each with one request at a time, so that more than two never reach it.
fn flask_under_gunicorn(variant: &Variant) {
    let setup = Setup::new(variant);
    let socket = setup.directory().join("gunicorn.sock");
    fs::write(setup.directory().join("app.py"), APP).expect("a file");
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-m", "gunicorn", "--workers=2", "--log-level=error", "--chdir"]).arg(setup.directory());
    command.arg(format!("--bind=unix:{}", socket.display())).arg("app:app");
    // Its workers end a moment after the test.
    command.stderr(Stdio::null());
    let _gunicorn = Daemon::start(&mut command, &socket);
    let config = format!(
        "[[pools]]\nname = 'app'\nprotocol = 'http'\nservers = 'unix:{}'\nchildren = 2\n\
         [[routes]]\npool = 'app'\nfiles_first = true\n",
        socket.display()
    );
    let server = setup.config(&config).start();
    let mut client = server.connect();
    let scheme = if variant.speaks_tls() { "https" } else { "http" };
    assert_eq!(client.get("/who?x").text(), format!("127.0.0.1 {scheme}://test/who?x"));
    let mut request = String::from_utf8(post("/form", b"name=a+b")).expect("text");
    request = request.replacen("\r\n\r\n", "\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\n", 1);
    client.send(request);
    assert_eq!(client.reply().text(), "a b");
    let reply = client.get("/moved");
    assert_eq!((reply.status, reply.need("Location")), (302, "/who"));
    assert_eq!(client.get("/nothing").status, 404);
    // Where a worker serves one client at a time, few of them may wait.
    let count = if variant.serves_one_at_a_time() { 4 } else { 20 };
    let mut clients: Vec<_> = (0..count).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.ask("GET", "/slow", &[]);
    }
    for client in &mut clients {
        assert_eq!(client.reply().text(), "slow");
    }
    assert_eq!(server.pool_count("failures"), 0);
}
