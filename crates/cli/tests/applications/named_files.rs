//! Files outside the root that an application names in place of a reply: which are sent, and how.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support;
use crate::support::scripted::{self, answer, pool};
use crate::support::server::Setup;
use crate::support::site::pattern;
use crate::support::variant::{Test, Variant, tests};

pub(super) const TESTS: &[Test] = tests![
    Three: files_that_are_named;
];

/// Files outside the root that an application names in place of a reply.
fn files_that_are_named(variant: &Variant) {
    let setup = Setup::new(variant).file("own.txt", "of the site").file("lost.html", "lost");
    let private = setup.directory().join("private");
    fs::create_dir(&private).expect("a directory");
    for (name, content) in [("a b.txt", "0123456789"), (".hidden", "dot"), ("x.cgi", "source"), ("empty", "")]
    {
        fs::write(private.join(name), content).expect("a file");
    }
    let large = pattern(3, 3_000_000);
    fs::write(private.join("large"), &large).expect("a file");
    symlink("/etc/passwd", private.join("out")).expect("a link");
    support::server::settle();
    let at = private.display().to_string();
    // What is behind /app/ is the head of the reply, in hexadecimal.
    let socket = scripted::start(setup.directory(), "app.sock", move |mut asked| {
        let hexadecimal = asked.params["PATH_INFO"][1..].to_owned();
        let head: Vec<u8> = (0..hexadecimal.len() / 2)
            .map(|at| u8::from_str_radix(&hexadecimal[2 * at..][..2], 16).expect("digits"))
            .collect();
        assert_eq!(asked.params["HTTP_X_SENDFILE_TYPE"], "X-Sendfile");
        asked.say(answer(format!("{}\n\nthe body, which nobody gets", String::from_utf8_lossy(&head))));
    });
    let config = pool(&[&socket], &format!("send_files = {{ '/protected/' = '{at}' }}"))
        + "[[routes]]\npath = '/cgi/**'\npool = 'app'\nscripts = '.cgi'\n[error_pages]\n404 = '/lost.html'\n";
    let server = setup.config(&config).start();
    let mut client = server.connect();
    let target = |head: &str| {
        let digits: Vec<_> = head.bytes().map(|byte| format!("{byte:02x}")).collect();
        format!("/app/{}", digits.concat())
    };
    for _ in 0..2 {
        for (head, status, body) in [
            (format!("X-Sendfile: {at}/a b.txt"), 200, "0123456789"),
            ("X-Accel-Redirect: /protected/a%20b.txt?x".to_owned(), 200, "0123456789"),
            (format!("X-Sendfile: {at}/.hidden"), 200, "dot"),
            (format!("X-Sendfile: {at}/empty"), 200, ""),
            (format!("X-Sendfile: {at}/none"), 404, "lost"),
            (format!("X-Sendfile: {at}/x.cgi"), 404, "lost"),
            (format!("X-Sendfile: {at}/out"), 404, "lost"),
        ] {
            let reply = client.get(&target(&head));
            assert_eq!((reply.status, &*reply.text()), (status, body), "{head}");
        }
        for head in [
            "X-Sendfile: /etc/passwd".to_owned(),
            format!("X-Sendfile: {}/own.txt", server.root().display()),
            format!("X-Sendfile: {at}/../root/own.txt"),
            "X-Accel-Redirect: /own.txt".to_owned(),
            "X-Accel-Redirect: /protected/%2e%2e/own.txt".to_owned(),
        ] {
            assert_eq!(client.get(&target(&head)).status, 502, "{head}");
        }
        let named = format!("Content-Type: a/b\nContent-Disposition: attachment\nX-Sendfile: {at}/large");
        let whole = client.get(&target(&named));
        assert!(whole.body == large);
        assert_eq!([whole.need("Content-Type"), whole.need("Content-Disposition")], ["a/b", "attachment"]);
        let tag = whole.need("ETag").to_owned();
        let range = [("Range", "bytes=1000000-1000009"), ("If-Range", &*tag)];
        let part = client.fetch("GET", &target(&named), &range);
        assert_eq!((part.status, part.need("Content-Range")), (206, "bytes 1000000-1000009/3000000"));
        assert!(part.body == large[1_000_000..1_000_010] && part.need("Content-Type") == "a/b");
        let unchanged = client.fetch("GET", &target(&named), &[("If-None-Match", &tag)]);
        assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
        let posted =
            client.fetch("POST", &target(&named), &[("Range", "bytes=0-9"), ("If-None-Match", &tag)]);
        assert!((posted.status, posted.body) == (200, large.clone()), "conditions are for GET");
        let cookie = format!("Set-Cookie: a=1\n{named}");
        let unchanged = client.fetch("GET", &target(&cookie), &[("If-None-Match", &tag)]);
        assert_eq!((unchanged.status, unchanged.need("Set-Cookie")), (304, "a=1"));
        let denied =
            client.fetch("GET", &target(&format!("Status: 403\n{named}")), &[("Range", "bytes=0-9")]);
        assert_eq!((denied.status, denied.body.len()), (403, 3_000_000));
        let beyond = client.fetch("GET", &target(&named), &[("Range", "bytes=3000000-")]);
        assert_eq!((beyond.status, beyond.need("Content-Range")), (416, "bytes */3000000"));
        let head = client.fetch("HEAD", &target(&named), &[]);
        assert_eq!((head.need("Content-Length"), head.body.len()), ("3000000", 0));
    }
    assert_eq!(client.get("/protected/a%20b.txt").status, 404, "no URL leads there");
    server.wait_for_line(|line| line.contains("/etc/passwd, which is below none of the pool's send_files"));
}
