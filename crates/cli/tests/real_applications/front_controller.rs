//! An application with a front controller: one script that answers for all that is no file, with pretty URLs,
//! forms that lead on when they are sent, and sessions.

use std::fs;

use harness::client::{Client, Reply, request};
use harness::fpm::Fpm;
use harness::server::{Server, Setup};
use harness::site::HELLO;
use harness::variant::{Test, Variant, tests};

pub(super) const TESTS: &[Test] = tests![Three: pretty_urls, forms_and_sessions; One: in_a_directory];

/// A router as frameworks have it: the base is where the script is, the path is the rest of what was asked.
const ROUTER: &str = r#"<?php
    $path = rawurldecode(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH));
    $base = $_SERVER['SCRIPT_NAME'];
    if (!str_starts_with($path, $base)) $base = rtrim(dirname($base), '/');
    $path = '/' . ltrim(substr($path, strlen($base)), '/');
    session_save_path('SESSIONS');
    session_start();
    $_SESSION['notes'] ??= [];
    header('Content-Type: text/plain; charset=utf-8');
    $method = $_SERVER['REQUEST_METHOD'];
    $route = ($method === 'HEAD' ? 'GET' : $method) . " $path";
    if ($route === 'POST /notes') {
        $_SESSION['notes'][] = $_POST['text'];
        header("Location: $base/notes/" . count($_SESSION['notes']), true, 303);
    } elseif (preg_match('~^GET /notes/(\d+)$~', $route, $found)) {
        $note = $_SESSION['notes'][$found[1] - 1] ?? null;
        http_response_code($note === null ? 404 : 200);
        echo $note ?? 'no such note';
    } elseif (preg_match('~^DELETE /notes/(\d+)$~', $route, $found)) {
        unset($_SESSION['notes'][$found[1] - 1]);
        http_response_code(204);
    } elseif (preg_match('~^GET /hello/([^/]+)$~u', $route, $found)) {
        echo "hello, {$found[1]}, {$_SERVER['QUERY_STRING']}";
    } elseif ($route === 'GET /') {
        echo 'home';
    } else {
        http_response_code(404);
        echo "no route for $route";
    }"#;

/// The router, with sessions beside the root.
fn router(setup: &Setup) -> String {
    let sessions = setup.directory().join("sessions");
    fs::create_dir(&sessions).expect("a directory");
    ROUTER.replace("SESSIONS", &sessions.display().to_string())
}

/// The application at the top of the site, with files beside it.
fn site(variant: &Variant) -> (Server, Fpm) {
    let setup = Setup::new(variant);
    let router = router(&setup);
    let setup = setup
        .file("index.php", router)
        .file("assets/style.css", "body {}")
        .file("assets/tool.php", "<?php echo 'a script of its own';")
        .config("[[routes]]\nfallback = '/index.php'\n");
    let fpm = Fpm::start(setup.directory(), 3);
    (setup.argument(fpm.argument()).start(), fpm)
}

fn pretty_urls(variant: &Variant) {
    let (server, _fpm) = site(variant);
    let mut client = server.connect();
    for (target, status, text) in [
        ("/", 200, "home"),
        ("/hello/w%C3%B6rld?a=b&c", 200, "hello, w\u{f6}rld, a=b&c"),
        ("/hello/a.b", 200, "hello, a.b, "),
        ("/hello/x.txt?", 200, "hello, x.txt, "),
        ("/index.php/hello/you", 200, "hello, you, "),
        ("/index.php", 200, "home"),
        ("/none/at/all", 404, "no route for GET /none/at/all"),
        ("/assets/none.css", 404, "no route for GET /assets/none.css"),
        // Files are files, and other scripts are themselves.
        ("/hello.txt", 200, HELLO),
        ("/assets/style.css", 200, "body {}"),
        ("/assets/tool.php", 200, "a script of its own"),
    ] {
        let reply = client.get(target);
        assert_eq!((reply.status, &*reply.text()), (status, text), "{target}");
    }
    // Not everything that is missing is the application's.
    for target in ["/none.php", "/assets/none.php/hello/you", "/.hidden", "/hello/%2Fx"] {
        let reply = client.get(target);
        assert!(reply.status == 404 && !reply.text().contains("no route"), "{target}: {reply:?}");
    }
    assert_eq!(client.fetch("HEAD", "/hello/you", &[]).status, 200);
    assert_eq!(client.fetch("PATCH", "/hello/you", &[]).text(), "no route for PATCH /hello/you");
}

fn forms_and_sessions(variant: &Variant) {
    let (server, _fpm) = site(variant);
    let mut client = server.connect();
    let sent = post(&mut client, "/notes", "text=one+%26+only", "");
    assert_eq!((sent.status, sent.need("Location")), (303, "/notes/1"));
    let (session, _) = sent.need("Set-Cookie").split_once(';').expect("attributes");
    let session = session.to_owned();
    let cookie = [("Cookie", &*session)];
    assert_eq!(client.fetch("GET", "/notes/1", &cookie).text(), "one & only");
    assert_eq!(post(&mut client, "/notes", "text=two", &session).need("Location"), "/notes/2");
    // On another connection, of another worker perhaps.
    let mut other = server.connect();
    assert_eq!(other.fetch("GET", "/notes/2", &cookie).text(), "two");
    assert_eq!(other.fetch("DELETE", "/notes/1", &cookie).status, 204);
    assert_eq!(client.fetch("GET", "/notes/1", &cookie).status, 404);
    // Whoever has no cookie has no notes.
    assert_eq!(client.get("/notes/2").status, 404);
    assert_eq!(server.pool_count("failures"), 0);
}

fn post(client: &mut Client, target: &str, form: &str, cookie: &str) -> Reply {
    let length = form.len().to_string();
    let mut fields =
        vec![("Content-Type", "application/x-www-form-urlencoded"), ("Content-Length", &*length)];
    if !cookie.is_empty() {
        fields.push(("Cookie", cookie));
    }
    client.send(request("POST", target, &fields) + form);
    client.reply()
}

/// Beside other things, as its own part of the site.
fn in_a_directory(variant: &Variant) {
    let setup = Setup::new(variant);
    let router = router(&setup);
    let setup = setup
        .file("app/index.php", router)
        .config("[[routes]]\npath = '/app/**'\nfallback = '/app/index.php'\n");
    let fpm = Fpm::start(setup.directory(), 1);
    let server = setup.argument(fpm.argument()).start();
    let mut client = server.connect();
    for (target, status, text) in [
        ("/app/", 200, "home"),
        ("/app/hello/you?x", 200, "hello, you, x"),
        ("/app/index.php/hello/you", 200, "hello, you, "),
        ("/app/none", 404, "no route for GET /none"),
    ] {
        let reply = client.get(target);
        assert_eq!((reply.status, &*reply.text()), (status, text), "{target}");
    }
    assert_eq!(post(&mut client, "/app/notes", "text=x", "").need("Location"), "/app/notes/1");
    let missing = client.get("/none");
    assert!(missing.status == 404 && !missing.text().contains("no route"), "{missing:?}");
}
