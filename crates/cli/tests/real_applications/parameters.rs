//! What PHP is told of a request, beside what it is told by nginx of the same request: the same tree, the
//! same PHP-FPM, and Debian's own settings for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use crate::nginx::Nginx;
use harness::client::Client;
use harness::fpm::Fpm;
use harness::server::Setup;
use harness::variant::{Test, Variant, tests};

pub(super) const TESTS: &[Test] = tests![One: beside_nginx];

/// Leaves all that it is told of its request beside the root.
const DUMP: &str = r#"<?php
    $told = ['$_POST' => http_build_query($_POST), '$_GET' => http_build_query($_GET),
        '$_COOKIE' => http_build_query($_COOKIE), 'body' => file_get_contents('php://input')];
    foreach ($_SERVER as $name => $value) if (is_string($value)) $told["$name"] = $value;
    $json = json_encode($told, JSON_INVALID_UTF8_SUBSTITUTE);
    file_put_contents("{$_SERVER['DOCUMENT_ROOT']}/../told", $json);
    echo 'told';"#;

/// Requests: what they are about, their first line, their fields, their body. Most go to a host of HTTP/1.1.
const REQUESTS: &[(&str, &str, &str, &str)] = &[
    ("a script", "GET /dump.php", "", ""),
    ("an index", "GET /", "", ""),
    ("an index with a query", "GET /?a=b", "", ""),
    ("the index of a directory", "GET /sub/", "", ""),
    ("a directory without its slash", "GET /sub?a", "", ""),
    ("an info", "GET /dump.php/a/b", "", ""),
    ("an info that is a slash", "GET /dump.php/", "", ""),
    ("an info with escapes", "GET /dump.php/a%20b/%C3%BC%25", "", ""),
    ("an info with an empty segment", "GET /dump.php/a//b", "", ""),
    ("an info with a script", "GET /dump.php/a.php/b", "", ""),
    ("an info with a URL", "GET /dump.php/http://example.org/", "", ""),
    ("an info with an encoded slash", "GET /dump.php/a%2Fb", "", ""),
    ("an info with a line break", "GET /dump.php/a%0Ab", "", ""),
    ("an info of no UTF-8", "GET /dump.php/%FF", "", ""),
    ("an info of an index", "GET /sub/index.php/x", "", ""),
    ("an empty segment", "GET //sub//dump.php", "", ""),
    ("a letter in an escape", "GET /%64ump%2ephp", "", ""),
    ("dot segments", "GET /sub/.././sub/dump.php", "", ""),
    ("dot segments behind the script", "GET /dump.php/x/../y", "", ""),
    ("encoded dot segments", "GET /dump.php/x/%2e%2e/y", "", ""),
    ("dot segments that leave the script", "GET /none.php/../dump.php", "", ""),
    ("dot segments that leave the root", "GET /../dump.php", "", ""),
    ("a query", "GET /dump.php?a=1&b%20c=%26&d[]=1&d[]=2", "", ""),
    ("an empty query", "GET /dump.php?", "", ""),
    ("a query with a path", "GET /dump.php?/x.php/y?z", "", ""),
    ("an info and a query", "GET /dump.php/x%20y?z=%20", "", ""),
    ("a blank", "GET /with%20space.php", "", ""),
    ("a plus", "GET /a+b.php/c+d?e+f", "", ""),
    ("UTF-8", "GET /%C3%BCber.php/%E2%82%AC", "", ""),
    ("UTF-8 in the open", "GET /\u{fc}ber.php/\u{20ac}?\u{20ac}", "", ""),
    ("a missing script", "GET /none.php", "", ""),
    ("a missing script with an info", "GET /none.php/a", "", ""),
    ("a directory named as a script", "GET /dir.php/dump.php", "", ""),
    ("another case of letters", "GET /dump.PHP", "", ""),
    ("a NUL", "GET /dump.php%00.txt", "", ""),
    ("HEAD", "HEAD /dump.php/a?b", "", ""),
    ("OPTIONS", "OPTIONS /dump.php", "", ""),
    ("DELETE", "DELETE /dump.php/1", "", ""),
    (
        "a form",
        "POST /dump.php",
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 9",
        "a=1&b=%26",
    ),
    (
        "a form in parts",
        "POST /dump.php",
        "Content-Type: multipart/form-data; boundary=X\r\nContent-Length: 61",
        "--X\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb c\r\n--X--\r\n",
    ),
    ("an empty body", "POST /dump.php", "Content-Length: 0", ""),
    ("no body", "POST /dump.php", "", ""),
    ("a body of JSON", "PUT /dump.php/x", "Content-Type: application/json\r\nContent-Length: 7", "{\"a\":1}"),
    (
        "a body in chunks",
        "POST /dump.php",
        "Content-Type: text/plain\r\nTransfer-Encoding: chunked",
        "5\r\nhello\r\n0\r\n\r\n",
    ),
    ("GET with a body", "GET /dump.php", "Content-Length: 5", "hello"),
    ("a type without a body", "GET /dump.php", "Content-Type: text/x", ""),
    ("cookies", "GET /dump.php", "Cookie: a=1; b=%20\r\nCookie: c=3", ""),
    ("fields on several lines", "GET /dump.php", "Accept: text/html\r\nX-A: 1\r\naccept: */*\r\nX-A: 2", ""),
    (
        "fields of a browser",
        "GET /dump.php",
        "User-Agent: Mozilla/5.0 (X11; Linux) \u{fc}\r\nReferer: http://a/?b\r\n\
         Accept-Language: de,en;q=0.5\r\nAccept-Encoding: gzip\r\nUpgrade-Insecure-Requests: 1\r\n\
         If-None-Match: \"x\"\r\nRange: bytes=0-1\r\nCache-Control: max-age=0\r\nDNT: 1\r\nX-Empty:",
        "",
    ),
    (
        "fields about the connection",
        "GET /dump.php",
        "Connection: keep-alive\r\nKeep-Alive: 300\r\nTE: trailers\r\nUpgrade: x",
        "",
    ),
    ("a name and password", "GET /dump.php", "Authorization: Basic YTpi", ""),
    (
        "fields that deceive",
        "GET /dump.php",
        "Proxy: http://evil\r\nX_Y: 1\r\nX.Z: 1\r\nX-Forwarded-For: 192.0.2.1\r\n\
         X-Real-IP: 192.0.2.1\r\nForwarded: for=192.0.2.1\r\nHTTPS: on\r\nContent_Length: 7",
        "",
    ),
    ("HTTP/1.0", "GET /dump.php HTTP/1.0", "Connection: close", ""),
    ("a port", "GET /dump.php", "Host: example.org:8080", ""),
    ("capitals", "GET /dump.php", "Host: Example.ORG", ""),
    ("an IPv6 address", "GET /dump.php", "Host: [::1]:8080", ""),
    ("an empty host", "GET /dump.php", "Host:", ""),
    ("an absolute target", "GET http://example.org:8080/dump.php/a%20b?c", "Host: example.org:8080", ""),
    ("an absolute target with another host", "GET http://example.org/dump.php", "Host: example.net", ""),
];

/// What differs, and why it is right as it is here.
struct Difference {
    /// The request that it is about; all, if none is named.
    about: Option<&'static str>,
    /// The parameter, or the status.
    name: &'static str,
    /// Whether it is this difference: nginx's value, and this server's.
    is_it: fn(&str, &str) -> bool,
    why: &'static str,
}

/// What is not there, as a value.
const NONE: &str = "-";

/// Some of them are gone in later versions of nginx.
const DIFFERENCES: &[Difference] = &[
    Difference {
        about: None,
        name: "SERVER_SOFTWARE",
        is_it: |theirs, ours| theirs.starts_with("nginx/") && ours.starts_with("sluice/"),
        why: "each is itself",
    },
    Difference {
        about: None,
        name: "SERVER_PORT",
        is_it: |_, ours| ours.parse::<u16>().is_ok(),
        why: "each has its own",
    },
    Difference {
        about: None,
        name: "REMOTE_PORT",
        is_it: |_, ours| ours.parse::<u16>().is_ok(),
        why: "each is asked on a connection of its own",
    },
    Difference {
        about: None,
        name: "PATH_INFO",
        is_it: |theirs, ours| theirs.is_empty() && ours == NONE,
        why: "as Apache does it: applications ask whether it is set",
    },
    Difference {
        about: None,
        name: "PATH_TRANSLATED",
        is_it: |theirs, _| theirs == NONE,
        why: "RFC 3875 section 4.1.6 wants it with PATH_INFO",
    },
    Difference {
        about: None,
        name: "DOCUMENT_URI",
        is_it: |theirs, ours| ours.starts_with(&format!("{theirs}/")),
        why: "the path that was asked for: nginx has it until try_files changes it",
    },
    Difference {
        about: None,
        name: "REMOTE_USER",
        is_it: |_, ours| ours == NONE,
        why: "nobody has checked the password, so that this user may be anybody",
    },
    Difference {
        about: None,
        name: "SERVER_NAME",
        is_it: |theirs, _| theirs.is_empty(),
        why: "nginx tells its configuration, where there is none: the host that was asked for says more",
    },
    Difference {
        about: None,
        name: "HTTP_CONTENT_TYPE",
        is_it: |_, ours| ours == NONE,
        why: "it is CONTENT_TYPE (RFC 3875 section 4.1.18)",
    },
    Difference {
        about: None,
        name: "HTTP_CONTENT_LENGTH",
        is_it: |_, ours| ours == NONE,
        why: "it is CONTENT_LENGTH (RFC 3875 section 4.1.18)",
    },
    Difference {
        about: None,
        name: "HTTP_HOST",
        is_it: |theirs, ours| ours.to_lowercase() == format!("{theirs}:8080") || ours == "Example.ORG",
        why: "as it was sent: Debian's settings get absolute targets right by leaving the port out",
    },
    Difference {
        about: Some("an absolute target with another host"),
        name: "HTTP_HOST",
        is_it: |theirs, ours| (theirs, ours) == ("example.net", "example.org"),
        why: "the target is what counts (RFC 9112 section 3.2.2), and routes were chosen by it",
    },
    Difference {
        about: Some("an empty body"),
        name: "CONTENT_LENGTH",
        is_it: |theirs, ours| (theirs, ours) == ("0", ""),
        why: "it is there only if a body is (RFC 3875 section 4.1.2)",
    },
    Difference {
        about: Some("a body in chunks"),
        name: "HTTP_TRANSFER_ENCODING",
        is_it: |_, ours| ours == NONE,
        why: "what the application gets is not in chunks, and has a length",
    },
    Difference {
        about: Some("cookies"),
        name: "HTTP_COOKIE",
        is_it: |theirs, ours| (theirs, ours) == ("c=3", "a=1; b=%20; c=3"),
        why: "all of them",
    },
    Difference {
        about: Some("cookies"),
        name: "$_COOKIE",
        is_it: |theirs, ours| (theirs, ours) == ("c=3", "a=1&b=+&c=3"),
        why: "all of them",
    },
    Difference {
        about: Some("fields on several lines"),
        name: "HTTP_ACCEPT",
        is_it: |theirs, ours| (theirs, ours) == ("*/*", "text/html, */*"),
        why: "they are one list (RFC 9110 section 5.3)",
    },
    Difference {
        about: Some("fields on several lines"),
        name: "HTTP_X_A",
        is_it: |theirs, ours| (theirs, ours) == ("2", "1, 2"),
        why: "they are one list (RFC 9110 section 5.3)",
    },
    Difference {
        about: None,
        name: "HTTP_CONNECTION HTTP_KEEP_ALIVE HTTP_TE HTTP_UPGRADE",
        is_it: |_, ours| ours == NONE,
        why: "they are about the connection with this server (RFC 9110 section 7.6.1)",
    },
    Difference {
        about: Some("fields that deceive"),
        name: "HTTP_X_FORWARDED_FOR HTTP_X_REAL_IP HTTP_FORWARDED",
        is_it: |_, ours| ours == NONE,
        why: "whoever asks is no trusted proxy",
    },
    Difference {
        about: Some("an info with an encoded slash"),
        name: "status",
        is_it: |theirs, ours| (theirs, ours) == ("200", "404"),
        why: "a slash within a name (RFC 3986 section 2.2) could not be told from others in PATH_INFO",
    },
    Difference {
        about: Some("an empty host"),
        name: "status",
        is_it: |theirs, ours| (theirs, ours) == ("400", "200"),
        why: "it says that there is none (RFC 9110 section 7.2)",
    },
];

fn beside_nginx(variant: &Variant) {
    let mut setup = Setup::new(variant);
    for name in ["index.php", "dump.php", "sub/index.php", "sub/dump.php", "with space.php", "a+b.php"] {
        setup = setup.file(name, DUMP);
    }
    let setup = setup.file("\u{fc}ber.php", DUMP).file("dir.php/dump.php", DUMP);
    let fpm = Fpm::start(setup.directory(), 1);
    let nginx = Nginx::start(setup.directory(), &setup.root(), &fpm.socket);
    let listen = format!("--listen={}:0", nginx.address.ip());
    let server = setup.argument(fpm.argument()).argument(listen).start();
    let told = server.directory().join("told");
    let mut unexplained = Vec::new();
    for &(about, line, fields, body) in REQUESTS {
        let version = if line.contains(" HTTP/") { "" } else { " HTTP/1.1" };
        let host = if fields.contains("Host:") { "" } else { "Host: example.org\r\n" };
        let end = if fields.is_empty() { "" } else { "\r\n" };
        let request = format!("{line}{version}\r\n{host}{fields}{end}\r\n{body}");
        let [theirs, ours] = [nginx.address, server.address].map(|address| ask(address, &request, &told));
        for (name, theirs, ours) in differences(&theirs, &ours) {
            let known = DIFFERENCES.iter().find(|known| {
                known.about.is_none_or(|known| known == about)
                    && known.name.split(' ').any(|known| known == name)
                    && (known.is_it)(theirs, ours)
            });
            let difference = format!("{about}: {name}: nginx {theirs:?}, sluice {ours:?}");
            match known {
                Some(known) => println!("{difference}: {}", known.why),
                None => unexplained.push(difference),
            }
        }
    }
    assert!(unexplained.is_empty(), "{unexplained:#?}");
}

/// The status, and what the script was told, if it was run.
type Told = BTreeMap<String, String>;

/// Has a request answered.
fn ask(address: SocketAddr, request: &str, told: &Path) -> Told {
    let _ = fs::remove_file(told);
    let mut client = Client::connect(address).taking_chunks();
    client.send(request);
    let method = request.split(' ').next().expect("a method");
    let status = client.reply_to(method).status;
    let told = fs::read(told).ok().map(|told| serde_json::from_slice(&told).expect("JSON"));
    let mut told: Told = told.unwrap_or_default();
    told.insert("status".to_owned(), status.to_string());
    told
}

/// Names with different values. Where only one has run the script the status says it all.
fn differences<'a>(theirs: &'a Told, ours: &'a Told) -> Vec<(&'a str, &'a str, &'a str)> {
    if theirs["status"] != ours["status"] {
        return vec![("status", &theirs["status"], &ours["status"])];
    }
    let names: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
    let value = |of: &'a Told, name: &str| of.get(name).map_or(NONE, |value| value.as_str());
    let both = names.into_iter().map(|name| (name.as_str(), value(theirs, name), value(ours, name)));
    both.filter(|(_, theirs, ours)| theirs != ours).collect()
}
