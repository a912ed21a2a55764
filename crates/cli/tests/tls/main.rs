//! HTTPS: real clients with each version of TLS, certificates by name, what operators set, and what
//! applications are told.
//!
//! The other suites run over TLS as well. They show that bytes, ends and resets pass as they do without
//! (`harness::over_tls`).

mod afterwards;
mod flood;
mod https;
mod programs;
mod video;

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use harness::authority::Authority;
use harness::client::{Client, request};
use harness::fpm::Fpm;
use harness::scripted::{self, Asked, answer, pool};
use harness::server::{Server, Setup};
use harness::site::{HELLO, LARGE, large, pattern};
use harness::tools::{command, output, stdout, succeed};
use harness::variant::{Test, Variant, tests};
use harness::{TIMEOUT, eventually, sleep_ms};
use rustix::process::{Pid, Signal, kill_process};

use https::{Https, OPENSSL_VERSIONS, in_python, issue, none_is_left, setup};

const TESTS: &[Test] = tests![
    Drivers: curl_with_each_version, replies_that_are_cut_off;
    Three:
        curl_in_parallel,
        wget,
        git_clones,
        python,
        node,
        openssl_with_each_version,
        openssl_resumes,
        certificates_by_name,
        hosts_of_other_certificates,
        renewed_certificates,
        reloads_that_fail,
        beside_an_inherited_socket,
        renewed_while_clients_come,
        plain_http_to_a_tls_listener,
        redirects_to_https,
        strict_transport_security,
        what_applications_are_told,
        what_php_is_told,
        handshakes_that_are_cut_off,
        requests_that_are_cut_off;
    One: self_signed, versions_that_are_too_old;
];

fn main() -> ExitCode {
    harness::variant::run(&[
        ("tls", TESTS),
        ("tls_afterwards", afterwards::TESTS),
        ("tls_flood", flood::TESTS),
        ("tls_programs", programs::TESTS),
        ("tls_video", video::TESTS),
    ])
}

/// The options of curl for one version.
const CURL_VERSIONS: [(&[&str], &str); 2] =
    [(&["--tlsv1.2", "--tls-max", "1.2"], "TLSv1.2"), (&["--tlsv1.3"], "TLSv1.3")];

fn curl_with_each_version(variant: &Variant) {
    let https = Https::start(variant, "");
    let content = large();
    for (options, version) in CURL_VERSIONS {
        assert!(https.get(options, "/large.bin") == content, "{version}");
        let part = https.get(&[options, &["--range", "1000-1999"]].concat(), "/large.bin");
        assert!(part == content[1000..2000], "{version}");
        let urls = [https.url("/hello.txt"), https.url("/large.bin"), https.url("/dir/")];
        let no_output = ["-o", "/dev/null", "-o", "/dev/null", "-o", "/dev/null"];
        let counting = [options, &no_output, &["--write-out", "%{num_connects} "]].concat();
        let connects = stdout(&mut https.curl(&counting, &urls.each_ref().map(String::as_str)));
        assert_eq!(String::from_utf8_lossy(&connects), "1 0 0 ", "{version}");
        for expect in ["Expect: 100-continue", "Expect:"] {
            let upload = ["--upload-file", "root/large.bin", "--write-out", "%{http_code}"];
            let options = [options, &upload, &["--header", expect]].concat();
            let refused = output(&mut https.curl(&options, &[&https.url("/new.bin")]));
            assert!(String::from_utf8_lossy(&refused.stdout).ends_with("405"), "{version}: {refused:?}");
        }
    }
}

fn curl_in_parallel(variant: &Variant) {
    let https = Https::start(variant, "");
    let options = ["--parallel", "--output", "got-#1", "--write-out", "%{http_code}\n"];
    let codes = stdout(&mut https.curl(&options, &[&https.url("/large.bin?[1-40]")]));
    assert_eq!(String::from_utf8_lossy(&codes), "200\n".repeat(40));
    let content = large();
    for number in 1..=40 {
        let got = fs::read(https.directory().join(format!("got-{number}"))).expect("a file");
        assert!(got == content, "{number}");
    }
}

fn wget(variant: &Variant) {
    let https = Https::start(variant, "");
    let options = ["--no-config", "--quiet", "--tries=1", "--timeout=20", "--ca-certificate=authority.pem"];
    let mut wget = command(https.directory(), "wget");
    stdout(wget.args(options).arg("--output-document=got").arg(https.url("/large.bin")));
    assert!(fs::read(https.directory().join("got")).expect("a file") == large());
}

/// Dumb HTTP: git fetches the files of a repository as they are.
fn git_clones(variant: &Variant) {
    let setup = setup(variant, &Authority::create(), "");
    let directory = setup.directory().to_owned();
    let source = directory.join("source");
    fs::create_dir(&source).expect("a directory");
    let git = |at: &Path, arguments: &[&str]| {
        let mut git = command(at, "git");
        git.args(["-c", "user.name=test", "-c", "user.email=test@test", "-c", "init.defaultBranch=main"]);
        git.env("GIT_SSL_CAINFO", directory.join("authority.pem"));
        stdout(git.args(arguments))
    };
    git(&source, &["init", "--quiet"]);
    for file in 0..20 {
        fs::write(source.join(format!("{file}.bin")), pattern(file, 3000)).expect("a file");
    }
    git(&source, &["add", "."]);
    git(&source, &["commit", "--quiet", "--message", "all"]);
    git(&directory, &["clone", "--quiet", "--bare", "source", "root/source.git"]);
    git(&directory.join("root/source.git"), &["update-server-info"]);
    let https = Https::of(setup);
    git(&directory, &["clone", "--quiet", &https.url("/source.git"), "clone"]);
    git(&directory.join("clone"), &["fsck", "--strict"]);
    succeed(&directory, "diff", &["-r", "--exclude=.git", "source", "clone"]);
}

/// Each connection ends with `close_notify`.
fn python(variant: &Variant) {
    const SCRIPT: &str = r"
for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
    for path in ('/hello.txt', '/large.bin', '/nothing'):
        with connect(version) as tls:
            tls.sendall(b'GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' % path.encode())
            got = b''
            while piece := tls.recv(10000):
                got += piece
            head, _, body = got.partition(b'\r\n\r\n')
            print(tls.version(), head.split(b' ')[1].decode(), len(body) if path != '/nothing' else '-')
";
    let https = Https::start(variant, "");
    let said = String::from_utf8(stdout(&mut in_python(&https, SCRIPT))).expect("text");
    let of =
        |version: &str| format!("{version} 200 {}\n{version} 200 {LARGE}\n{version} 404 -\n", HELLO.len());
    assert_eq!(said, of("TLSv1.2") + &of("TLSv1.3"));
}

/// It resumes sessions by itself.
fn node(variant: &Variant) {
    const SCRIPT: &str = r#"
        const https = require("https");
        const ca = require("fs").readFileSync("authority.pem");
        const get = (agent, path) => new Promise((resolve, reject) => {
            const { PORT: port } = process.env;
            const options = { host: "127.0.0.2", servername: "localhost", port, path, agent };
            https.get(options, (reply) => {
                const { socket } = reply;
                const told = [socket.getProtocol(), reply.statusCode];
                const isReused = socket.isSessionReused();
                let size = 0;
                reply.on("data", (piece) => { size += piece.length; });
                reply.on("end", () => resolve({ told: [...told, size].join(" "), isReused }));
                reply.on("error", reject);
            }).on("error", reject);
        });
        (async () => {
            for (const version of ["TLSv1.2", "TLSv1.3"]) {
                const agent = new https.Agent({ ca, minVersion: version, maxVersion: version });
                for (const path of ["/hello.txt", "/large.bin"]) {
                    console.log((await get(agent, path)).told);
                }
                let isReused = false;
                for (let count = 0; count < 10 && !isReused; count++) {
                    ({ isReused } = await get(agent, "/hello.txt"));
                }
                console.log(isReused);
            }
        })().catch((error) => { console.error(error); process.exit(1); });
    "#;
    let https = Https::start(variant, "");
    let mut node = command(https.directory(), "node");
    let said = stdout(node.args(["-e", SCRIPT]).env("PORT", https.address.port().to_string()));
    let of = |version: &str| format!("{version} 200 {}\n{version} 200 {LARGE}\ntrue\n", HELLO.len());
    assert_eq!(String::from_utf8_lossy(&said), of("TLSv1.2") + &of("TLSv1.3"));
}

fn openssl_with_each_version(variant: &Variant) {
    let https = Https::start(variant, "");
    for (option, version) in OPENSSL_VERSIONS {
        let said = https.s_client_says(&[
            option,
            "-servername",
            "localhost",
            "-verify_hostname",
            "localhost",
            "-verify_return_error",
            "-alpn",
            "h2,http/1.1",
        ]);
        assert!(said.contains(&format!("New, {version}, Cipher is ")), "{version}: {said}");
        assert!(said.contains("Verify return code: 0 (ok)"), "{version}: {said}");
        assert!(!said.contains("ALPN protocol: h2"), "the server speaks HTTP/1.1 alone: {said}");
    }
}

/// Whichever worker a client comes to.
fn openssl_resumes(variant: &Variant) {
    let https = Https::start(variant, "");
    for (option, version) in OPENSSL_VERSIONS {
        for round in 0..6 {
            let file = format!("session-{version}-{round}");
            let first = https.s_client_says(&[option, "-servername", "localhost", "-sess_out", &file]);
            assert!(first.contains(&format!("New, {version}, ")), "{first}");
            let second = https.s_client_says(&[option, "-servername", "localhost", "-sess_in", &file]);
            assert!(second.contains(&format!("Reused, {version}, ")), "round {round}: {second}");
        }
    }
}

/// `a.example` and all below `b.example` have certificates of their own, `c.example` has not.
fn with_sites(variant: &Variant) -> Https {
    let authority = Authority::create();
    let setup = setup(variant, &authority, "");
    let setup = setup.file("name", "default").file("a/name", "a").file("b/name", "b").file("c/name", "c");
    let site = |(name, hosts): (&str, &str)| {
        let root = setup.root().join(name);
        let keys = match name {
            "c" => String::new(),
            _ => issue(&authority, setup.directory(), name, &[hosts]),
        };
        format!("[[sites]]\nhosts = '{hosts}'\nroot = '{}'\n{keys}", root.display())
    };
    let sites: String = [("a", "a.example"), ("b", "*.b.example"), ("c", "c.example")].map(site).concat();
    Https::of(setup.config(&sites))
}

fn certificates_by_name(variant: &Variant) {
    let https = with_sites(variant);
    for (name, subject) in [
        ("a.example", "a.example"),
        ("A.Example", "a.example"),
        ("x.b.example", "*.b.example"),
        ("b.example", "localhost"),
        ("c.example", "localhost"),
        ("other.example", "localhost"),
        ("localhost", "localhost"),
    ] {
        assert_eq!(https.subject(&["-servername", name]), subject, "{name}");
    }
    assert_eq!(https.subject(&["-noservername"]), "localhost");
    // The clients check the names.
    for (host, body) in [("a.example", "a"), ("x.b.example", "b"), ("localhost", "default")] {
        assert_eq!(https.get_of(host, "/name", &[]), (200, body.to_owned()), "{host}");
    }
    // A site without a certificate is reached with the default one.
    assert_eq!(https.get_of("c.example", "/name", &["--insecure"]), (200, "c".to_owned()));
}

/// A connection is for the site whose name it was opened with (RFC 9110 section 7.4).
fn hosts_of_other_certificates(variant: &Variant) {
    let https = with_sites(variant);
    for (name, host, status) in [
        ("a.example", "a.example", 200),
        ("a.example", "A.EXAMPLE", 200),
        ("a.example", "x.b.example", 421),
        ("a.example", "localhost", 421),
        ("x.b.example", "y.b.example", 200),
        ("x.b.example", "a.example", 421),
        ("localhost", "a.example", 421),
        ("localhost", "localhost", 200),
    ] {
        let asked = https.get_of(name, "/name", &["--header", &format!("Host: {host}")]);
        assert_eq!(asked.0, status, "{host} at {name}: {}", asked.1);
    }
    // Without TLS, no connection is a site's.
    let mut client = https.server.connect();
    for (host, body) in [("a.example", "a"), ("x.b.example", "b")] {
        client.send(format!("GET /name HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(client.reply().text(), body);
    }
}

/// Sets the flag when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Tools replace files in any order, and some write them in place. Clients come meanwhile.
fn renewed_while_clients_come(variant: &Variant) {
    // `RENEWALS=100` is the long way.
    let count = std::env::var("RENEWALS").map_or(4, |count| count.parse().expect("a number"));
    let authority = Authority::create();
    let https = Https::of(setup(variant, &authority, ""));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients = [(); 2].map(|()| {
            scope.spawn(|| {
                let mut handshakes = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let got = https.get(&["--insecure"], "/hello.txt");
                    assert_eq!(got, HELLO.as_bytes(), "after {handshakes} handshakes");
                    handshakes += 1;
                }
                handshakes
            })
        });
        let directory = https.directory();
        // A failure ends the clients, too.
        let _ends = Ends(&is_over);
        for number in 0..count {
            let name = format!("renewed{number}.example");
            let [chain, key] = authority.issue(&[&name, "localhost"]).write(directory, "next");
            let (new, live) = ([chain, key], ["default.pem", "default.key"].map(|name| directory.join(name)));
            for at in if number % 2 == 0 { [0, 1] } else { [1, 0] } {
                if number % 4 < 2 {
                    fs::rename(&new[at], &live[at]).expect("a file");
                } else {
                    let text = fs::read(&new[at]).expect("a file");
                    // In place, and in two pieces.
                    let mut file = fs::File::create(&live[at]).expect("a file");
                    file.write_all(&text[..text.len() / 2]).expect("room");
                    sleep_ms(20);
                    file.write_all(&text[text.len() / 2..]).expect("room");
                }
            }
            eventually("the new certificate is used", || https.subject(&["-noservername"]) == name);
        }
        is_over.store(true, Ordering::Relaxed);
        for client in clients {
            assert!(client.join().expect("no handshake failed") > count);
        }
    });
}

/// A reload reads the files again.
fn renewed_certificates(variant: &Variant) {
    let authority = Authority::create();
    let https = Https::of(setup(variant, &authority, ""));
    let subject = || https.subject(&["-noservername"]);
    assert_eq!(subject(), "localhost");
    issue(&authority, https.directory(), "default", &["renewed.example", "localhost"]);
    https.server.signal(Signal::HUP);
    https.server.wait_for_line(|line| line.contains("settings reloaded"));
    // Workers that retire may still accept.
    eventually("the new certificate is used", || (0..4).all(|_| subject() == "renewed.example"));
    // What can't be read changes nothing.
    fs::write(https.directory().join("default.pem"), "nonsense").expect("a file");
    https.server.signal(Signal::HUP);
    https.server.wait_for_line(|line| line.contains("not reloaded") && line.contains("default.pem"));
    assert_eq!(subject(), "renewed.example");
}

/// What systemd passes is for plain HTTP. The server opens the addresses of `listen_tls` itself, also at a
/// reload.
fn beside_an_inherited_socket(variant: &Variant) {
    let authority = Authority::create();
    let setup = setup(variant, &authority, "");
    let file = setup.directory().join("sluice.toml");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let command = setup.command_with(&listener);
    let server = setup.start_as(command);
    let https = Https { address: server.tls_address(), server };
    assert_eq!(https.server.get("/hello.txt").text(), HELLO);
    assert_eq!(https.get(&[], "/hello.txt"), HELLO.as_bytes());
    // Another address comes with a reload.
    let free = TcpListener::bind("127.0.0.3:0").and_then(|listener| listener.local_addr()).expect("a port");
    let before = fs::read_to_string(&file).expect("settings");
    let after = before.replace("listen_tls = ['127.0.0.2:0']", &format!("listen_tls = ['{free}']"));
    assert_ne!(after, before);
    fs::write(&file, after).expect("settings");
    https.server.signal(Signal::HUP);
    https.server.wait_for_line(|line| line.contains("settings reloaded"));
    assert_eq!(https.server.get("/hello.txt").text(), HELLO);
    let url = format!("https://{free}/hello.txt");
    assert_eq!(stdout(&mut https.curl(&["--fail", "--insecure"], &[&url])), HELLO.as_bytes());
}

/// Settings that do not come into use take no certificate from those that are.
fn reloads_that_fail(variant: &Variant) {
    let authority = Authority::create();
    let https = Https::of(setup(variant, &authority, ""));
    let file = https.server.directory().join("sluice.toml");
    let before = fs::read_to_string(&file).expect("settings");
    let others = issue(&authority, https.directory(), "other", &["other.example"]);
    let is_of_pair = |line: &&str| line.starts_with("certificate = ") || line.starts_with("key = ");
    let kept: Vec<_> = before.lines().filter(|line| !is_of_pair(line)).collect();
    // No machine has this address (RFC 5737).
    let impossible = format!("{others}listen_tls = ['127.0.0.2:0', '192.0.2.1:4433']\n");
    let kept = kept.into_iter().filter(|line| !line.starts_with("listen_tls")).collect::<Vec<_>>().join("\n");
    fs::write(&file, impossible + &kept).expect("settings");
    for _ in 0..3 {
        https.server.signal(Signal::HUP);
        https.server.wait_for_line(|line| line.contains("not reloaded") && line.contains("192.0.2.1"));
    }
    // The files that are in use are still looked at.
    issue(&authority, https.directory(), "default", &["renewed.example", "localhost"]);
    let subject = || https.subject(&["-noservername"]);
    eventually("the new certificate is used", || (0..4).all(|_| subject() == "renewed.example"));
    assert_eq!(https.get(&["--insecure"], "/hello.txt"), HELLO.as_bytes());
}

/// The client is told what is wrong, in a few words.
fn plain_http_to_a_tls_listener(variant: &Variant) {
    let https = Https::start(variant, "");
    let post = request("POST", "/", &[("Content-Length", "3")]) + "abc";
    for text in [request("GET", "/hello.txt", &[]), post] {
        let mut client = Client::connect(https.address);
        client.send(text);
        client.half_close();
        let told = client.read_raw(10_000).expect("a reply and an end");
        let told = String::from_utf8(told).expect("text");
        assert!(told.starts_with("HTTP/1.1 400 ") && told.len() < 1000, "{told}");
        assert!(told.to_lowercase().contains("https"), "it says what to do: {told}");
        assert!(told.to_lowercase().contains("connection: close"), "{told}");
        assert!(!told.contains(HELLO), "{told}");
    }
    assert_eq!(https.get(&[], "/hello.txt"), HELLO.as_bytes());
}

fn redirects_to_https(variant: &Variant) {
    let setup = setup(variant, &Authority::create(), "redirect_to_https = true\n");
    let https = Https::of(setup.file(".well-known/acme-challenge/token", "token"));
    let mut client = https.server.connect();
    for method in ["GET", "HEAD"] {
        for target in ["/hello.txt", "/hello.txt?a=b", "/nothing", "/.well-known/other"] {
            let reply = client.fetch(method, target, &[]);
            assert!([301, 302, 307, 308].contains(&reply.status), "{target}: {reply:?}");
            let location = reply.need("Location");
            let is_right = location.starts_with("https://test") && location.ends_with(target);
            assert!(is_right, "{target}: {location}");
        }
    }
    // How an authority sees who has the name, before there is a certificate (RFC 8555 section 8.3).
    let token = client.get("/.well-known/acme-challenge/token");
    assert_eq!((token.status, &*token.text()), (200, "token"));
    assert_eq!(client.get("/.well-known/acme-challenge/none").status, 404);
    let around = client.get("/.well-known/acme-challenge/../../hello.txt");
    assert_ne!((around.status, &*around.text()), (200, HELLO));
    assert_eq!(https.get(&[], "/hello.txt"), HELLO.as_bytes());
}

/// RFC 6797 section 7.2: never without TLS.
fn strict_transport_security(variant: &Variant) {
    let https = Https::start(variant, "hsts = '365 d'\n");
    for path in ["/hello.txt", "/nothing", "/dir"] {
        let url = https.url(path);
        let head = stdout(&mut https.curl(&["--head"], &[&url]));
        let head = String::from_utf8(head).expect("text").to_lowercase();
        let values = head.lines().filter_map(|line| line.strip_prefix("strict-transport-security: "));
        let values: Vec<_> = values.collect();
        // A year of 365 days, or one of 365.25.
        let is_a_year = values.len() == 1
            && ["max-age=31536000", "max-age=31557600"].iter().any(|age| values[0].starts_with(age));
        assert!(is_a_year, "{path}: {head}");
        // A client that speaks HTTP where it should not changes nothing for the others.
        let mut mistaken = Client::connect(https.address);
        mistaken.ask("GET", path, &[]);
        let reply = mistaken.reply();
        assert_eq!((reply.status, reply.field("Strict-Transport-Security")), (400, None), "{path}");
        assert_eq!(https.server.get(path).field("Strict-Transport-Security"), None, "{path}");
    }
    let without = Https::start(variant, "");
    let head = stdout(&mut without.curl(&["--head"], &[&without.url("/hello.txt")]));
    assert!(!String::from_utf8_lossy(&head).to_lowercase().contains("strict-transport-security"));
}

/// As Apache tells it. A client can't make it up.
fn what_applications_are_told(variant: &Variant) {
    let authority = Authority::create();
    let setup = setup(variant, &authority, "");
    let names = ["HTTPS", "REQUEST_SCHEME", "SERVER_PORT", "SSL_PROTOCOL", "REMOTE_ADDR"];
    let serve = move |mut asked: Asked| {
        let told = names.map(|name| asked.params.get(name).map_or("-", String::as_str)).join(" ");
        asked.say(answer(format!("Content-Type: text/plain\r\n\r\n{told}")));
    };
    let socket = scripted::start(setup.directory(), "app.sock", serve);
    let https = Https::of(setup.config(&pool(&[&socket], "")));
    let port = https.address.port();
    for (options, version) in CURL_VERSIONS {
        let told = String::from_utf8(https.get(options, "/app/x")).expect("text");
        assert_eq!(told, format!("on https {port} {version} 127.0.0.1"));
    }
    let fields = [("HTTPS", "on"), ("SSL-Protocol", "TLSv1.3"), ("Request-Scheme", "https")];
    let told = https.server.fetch("GET", "/app/x", &fields).text();
    assert_eq!(told, format!("- http {} - 127.0.0.1", https.server.address.port()));
}

fn what_php_is_told(variant: &Variant) {
    let setup = setup(variant, &Authority::create(), "");
    let script = "<?php echo $_SERVER['HTTPS'] ?? '-', ' ', $_SERVER['SSL_PROTOCOL'] ?? '-';";
    let setup = setup.file("told.php", script);
    let fpm = Fpm::start(setup.directory(), 2);
    let https = Https::of(setup.argument(fpm.argument()));
    for (options, version) in CURL_VERSIONS {
        let told = String::from_utf8(https.get(options, "/told.php")).expect("text");
        assert_eq!(told, format!("on {version}"));
    }
    assert_eq!(https.server.get("/told.php").text(), "- -");
}

/// A client that can't tell a reply's end by its length still notices that it was cut off.
fn replies_that_are_cut_off(variant: &Variant) {
    const SCRIPT: &str = r"
tls = connect(ssl.TLSVersion.TLSv1_3)
tls.sendall(b'GET /big.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
size = 0
try:
    while piece := tls.recv(10000):
        if size == 0:
            print('begun', flush=True)
            input()
        size += len(piece)
    print('a good end after', size)
except OSError:
    # Those of ssl are OSErrors as well.
    print('cut off')
";
    let setup = setup(variant, &Authority::create(), "[tcp]\nsend_buffer = '64 KiB'\n");
    let https = Https::of(setup.file("big.bin", pattern(1, 16 << 20)));
    let mut python = in_python(&https, SCRIPT);
    let mut python = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 is there");
    let mut said = BufReader::new(python.stdout.take().expect("a pipe")).lines();
    assert_eq!(said.next().expect("a line").expect("text"), "begun");
    for worker in https.server.workers() {
        let pid = Pid::from_raw(worker.cast_signed()).expect("a process");
        kill_process(pid, Signal::KILL).expect("the worker is there");
    }
    python.stdin.take().expect("a pipe").write_all(b"\n").expect("it reads");
    assert_eq!(said.next().expect("a line").expect("text"), "cut off");
    assert!(python.wait().expect("it ends").success());
    eventually("another worker serves", || https.s_client(&[]).status.success());
}

/// Bytes of a handshake, or of something else, and then the end, or nothing more.
fn handshakes_that_are_cut_off(variant: &Variant) {
    let https = Https::start(variant, "[timeouts]\nheader = '200 ms'\nlinger = '200 ms'\n");
    let greeting = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abcdefghijklmnopqrstuvwxyz".as_slice();
    let others: [&[u8]; 3] = [b"", b"\x16\x03\x01\x00\x05hello", b"\x80\x01"];
    for bytes in [&greeting[..1], &greeting[..8], greeting].into_iter().chain(others) {
        for is_ended in [true, false] {
            let mut stream = TcpStream::connect(https.address).expect("it listens");
            stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
            stream.write_all(bytes).expect("it takes bytes");
            if is_ended {
                // The server may have ended the connection by then.
                let _ = stream.shutdown(Shutdown::Write);
            }
            let mut told = Vec::new();
            let end = stream.read_to_end(&mut told);
            let is_end = end.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::ConnectionReset);
            assert!(is_end, "{bytes:?}, ended: {is_ended}: {end:?}");
            assert!(told.len() < 1000, "an alert at most, or that this is no TLS: {told:?}");
        }
    }
    none_is_left(&https);
    // On a busy machine curl may need more than these 200 ms.
    let again = ["--retry", "9", "--retry-all-errors"];
    assert_eq!(https.get(&again, "/hello.txt"), HELLO.as_bytes());
}

/// The clients end the connection without `close_notify`, or reset it. What they have not sent completely
/// is no request.
fn requests_that_are_cut_off(variant: &Variant) {
    const SCRIPT: &str = r"
import struct
requests = [
    b'GET /hello.txt HTTP/1.1\r\nHost: localhost\r\n',
    b'POST /app/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhello',
    b'POST /app/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n',
]
for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
    for request in requests:
        for resets in (False, True):
            tls = connect(version)
            tls.sendall(request)
            if resets:
                tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            # Without unwrap() it sends no close_notify.
            tls.close()
";
    let setup = setup(variant, &Authority::create(), "");
    let socket = scripted::start(setup.directory(), "app.sock", drop);
    let https = Https::of(setup.config(&pool(&[&socket], "")));
    stdout(&mut in_python(&https, SCRIPT));
    none_is_left(&https);
    assert_eq!(https.server.count("replies/2xx"), 0, "nothing of it was a request");
    assert_eq!(https.get(&[], "/hello.txt"), HELLO.as_bytes());
}

fn self_signed(variant: &Variant) {
    let setup = Setup::new(variant).config("listen_tls = ['127.0.0.2:0']\ntls_self_signed = true");
    let https = Https::of(setup);
    Authority::create().write(&https.directory().join("authority.pem"));
    let refused = output(&mut https.curl(&[], &[&https.url("/hello.txt")]));
    // "Peer certificate cannot be authenticated with known CA certificates."
    assert_eq!(refused.status.code(), Some(60), "{refused:?}");
    assert_eq!(https.get(&["--insecure"], "/hello.txt"), HELLO.as_bytes());
    // No plain listener is needed.
    let alone = variant.over_tls(harness::variant::TLS[0]);
    assert_eq!(Server::start(&alone).get("/hello.txt").text(), HELLO);
}

fn versions_that_are_too_old(variant: &Variant) {
    let https = Https::start(variant, "");
    for option in ["-tls1", "-tls1_1"] {
        // With this level, OpenSSL itself would speak them.
        let output = https.s_client(&[option, "-cipher", "DEFAULT@SECLEVEL=0"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!output.status.success() && !said.contains(HELLO), "{option}: {said}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(" alert "), "{output:?}");
    }
    assert_eq!(https.get(&[], "/hello.txt"), HELLO.as_bytes());
}
