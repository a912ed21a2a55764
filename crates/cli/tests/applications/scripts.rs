//! PHP-FPM as the distribution has it behind the server: which paths lead to scripts, and what nobody ever
//! gets to see of them.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::site::{INDEX, php_site};
use harness::eventually;
use harness::scripted::{self, answer};
use harness::server::{Server, Setup};
use harness::site::HELLO;
use harness::variant::{Test, Variant, tests};

pub(super) const TESTS: &[Test] = tests![
    Drivers: php, nothing_walks_around_a_route_that_refuses;
    Three:
        encoded_slashes,
        names_that_applications_see,
        scripts_never_leave,
        scripts_that_are_refused,
        sites_with_scripts;
];

fn php(variant: &Variant) {
    let (setup, _fpm) = php_site(variant);
    let server = setup.start();
    let mut client = server.connect();
    for _ in 0..2 {
        assert_eq!(client.get("/").text(), "index /index.php -");
        assert_eq!(client.get("/hello.txt").text(), HELLO);
        assert_eq!(client.get("/index.php/a/b?c").text(), "index /index.php /a/b");
        assert_eq!(client.get("/blog/").text(), "index /blog/index.php -");
        let slash = client.get("/blog");
        assert_eq!((slash.status, slash.need("Location")), (301, "/blog/"));
        for missing in ["/none.php", "/none.php/a", "/blog/none.php", "/index.PHP", "/none"] {
            assert_eq!(client.get(missing).status, 404, "{missing}");
        }
        let gone = client.get("/gone.php");
        assert_eq!((gone.status, gone.need("Location"), &*gone.text()), (410, "/x", "gone"));
        let large = client.get("/large.php");
        assert_eq!(
            (large.status, large.body.len(), large.body[999_999]),
            (200, 1_000_000, b'A' + (999_u16 % 26) as u8)
        );
        let head = client.fetch("HEAD", "/index.php", &[]);
        assert_eq!((head.status, head.body.len()), (200, 0));
    }
    client.send("GET /index.php HTTP/1.0\r\nHost: x\r\n\r\n");
    let reply = client.reply();
    assert_eq!((reply.closes(), &*reply.text()), (true, "index /index.php -"));
    client.expect_close();
    assert_eq!(server.get("/index.php").text(), "index /index.php -");
    eventually("all are counted", || server.pool_count("requests") >= 12);
    assert_eq!((server.pool_count("failures"), server.pool_count("clients_left")), (0, 0));
}

/// The source of a script is nobody's, whatever is asked for and however the pool is.
fn scripts_never_leave(variant: &Variant) {
    const SECRET: &str = "<?php /* the source */ echo 'run';";
    let setup = Setup::new(variant)
        .file("index.php", SECRET)
        .file("dir/index.php", SECRET)
        .file("dir/a.PHP", SECRET)
        .file("file.php/inside.txt", "inside");
    let root = setup.root();
    symlink("index.php", root.join("alias.txt")).expect("a link");
    symlink("dir", root.join("linked")).expect("a link");
    let dead = setup.directory().join("dead.sock");
    let setup = setup
        .argument(format!("--php=unix:{}", dead.display()))
        .config("[error_pages]\n404 = '/index.php'\n[[routes]]\npath = '/front/**'\nfallback = '/index.php'");
    let server = setup.start();
    for (target, status) in [
        ("/", 502),
        ("/index.php", 502),
        ("/INDEX.php", 404),
        ("/index.PHP", 404),
        ("/inde%78.ph%70", 502),
        ("//index.php", 502),
        ("/dir/../index.php", 502),
        ("/index.php/", 502),
        ("/index.php/a.txt", 502),
        ("/dir/", 502),
        ("/dir/a.PHP", 404),
        ("/dir/a.php", 404),
        ("/alias.txt", 404),
        ("/linked/index.php", 502),
        ("/linked/", 502),
        ("/file.php", 404),
        ("/file.php/inside.txt", 404),
        ("/none.txt", 404),
        ("/front/any", 502),
        ("/index.php%00", 400),
        ("/index.php%0a", 404),
        ("/index.php/%0d%0aX:%20y", 404),
        ("/hello.txt", 200),
    ] {
        for fields in [&[][..], &[("Range", "bytes=0-100")], &[("Accept-Encoding", "gzip")]] {
            let reply = server.fetch("GET", target, fields);
            assert!(reply.status == status || (status, reply.status) == (200, 206), "{target}: {reply:?}");
            assert!(!reply.text().contains("source"), "{target}: {reply:?}");
        }
    }
}

/// What routes refuse or lead elsewhere, PHP does not run.
fn scripts_that_are_refused(variant: &Variant) {
    let (setup, _fpm) = php_site(variant);
    let root = setup.root();
    for (target, link) in [
        ("uploads", "up2"),
        ("uploads/page.php", "link.php"),
        ("uploads/page.txt", "text.php"),
        ("blog", "news"),
        ("blog/index.php", "news.php"),
    ] {
        symlink(target, root.join(link)).expect("a link");
    }
    let config = "[[routes]]\npath = '/conf/**'\nstatus = 403\n\
                  [[routes]]\npath = '/old/**'\nredirect = '/blog/{rest}'\n\
                  [[routes]]\npath = '/uploads/**'\n\
                  [[routes]]\npath = '/owned/**'\nfallback = '/link.php'\n\
                  [[routes]]\npath = '/blog/**'\nfallback = '/blog/index.php'\n";
    let server = ["conf", "old", "uploads", "uploads/index.php"]
        .iter()
        .fold(setup, |setup, directory| setup.file(&format!("{directory}/page.php"), INDEX))
        .file("uploads/page.txt", INDEX)
        .file("uploads/deep/index.php", INDEX)
        .config(config)
        .start();
    for (target, status) in [
        ("/conf/page.php", 403),
        ("/conf/page.php/info", 403),
        ("/conf/none.php", 403),
        ("//conf/%70age.php", 403),
        ("/old/page.php", 302),
        ("/uploads/page.php", 404),
        ("/uploads/index.php/page.php", 404),
        ("/uploads/", 403),
        ("/uploads/deep/", 404),
        // By a link, too, a script runs only where it would by its own path.
        ("/up2/page.php", 404),
        ("/up2/page.php/x", 404),
        ("/up2/deep/", 404),
        ("/link.php", 404),
        ("/link.php/x", 404),
        ("/text.php", 404),
        ("/text.php/x", 404),
        ("/news/", 200),
        ("/news.php/x", 200),
        ("/owned/any", 200),
        ("/blog/index.php", 200),
        ("/blog/none.php", 404),
    ] {
        let reply = server.get(target);
        assert_eq!(reply.status, status, "{target}");
        assert!(status == 200 || !reply.text().contains("index"), "{target}");
    }
    assert_eq!(server.get("/blog/none").text(), "index /blog/index.php -");
}

/// What routes refuse by its own path is refused by whichever path leads to it: behind a script, as the index
/// of a directory, by a link, as a sibling. `sluice check` says the same.
fn nothing_walks_around_a_route_that_refuses(variant: &Variant) {
    const SECRET: &str = "not for clients";
    let setup = ["index.php", "uploads/evil.php", "xmlrpc.php", "adm/index.php", "shop/index.php"]
        .iter()
        .fold(Setup::new(variant), |setup, script| setup.file(script, INDEX))
        .file("priv/index.html", SECRET)
        .file("priv/index.html.gz", SECRET)
        .file("lost.html", "lost");
    let root = setup.root();
    symlink("uploads", root.join("linked")).expect("a link");
    symlink("xmlrpc.php", root.join("alias.php")).expect("a link");
    symlink("priv/index.html", root.join("alias.html")).expect("a link");
    let socket = scripted::start(setup.directory(), "php.sock", |mut asked| {
        let [name, info] =
            ["SCRIPT_NAME", "PATH_INFO"].map(|key| asked.params.get(key).cloned().unwrap_or_default());
        let head = if name == "/send" {
            "X-Accel-Redirect: /sent/root/priv/index.html"
        } else {
            "Content-Type: text/plain"
        };
        asked.say(answer(format!("{head}\n\nran {name} {info}")));
    });
    let refused = ["/uploads/**/*.php", "/xmlrpc.php", "/priv/*.html", "/adm/index.php"];
    let routes = refused.map(|path| format!("[[routes]]\npath = '{path}'\nstatus = 403\n")).concat();
    let server = setup
        .argument(format!("--php=unix:{}", socket.display()))
        .config(&format!(
            "[[pools]]\nname = 'sender'\nservers = 'unix:{}'\nsend_files = {{ '/sent/' = '{}' }}\n\
             [error_pages]\n404 = '/lost.html'\n{routes}\
             [[routes]]\npath = '/send'\npool = 'sender'\nprogram = '/srv/send'\n\
             [[routes]]\npath = '/lost.html'\nstatus = 410\n\
             [[routes]]\npath = '/front/**'\nfallback = '/adm/index.php'\n",
            socket.display(),
            root.parent().expect("the root has one").display()
        ))
        .start();
    for (target, status, body) in [
        ("/uploads/evil.php", 403, ""),
        ("/uploads/evil.php/x", 403, ""),
        ("/uploads/evil.php/", 403, ""),
        ("/uploads/evil.ph%70/x.php/y.html", 403, ""),
        ("/uploads/evil.php%2Fx", 404, "lost"),
        ("/linked/evil.php/x", 403, ""),
        ("/xmlrpc.php/", 403, ""),
        ("/alias.php", 403, ""),
        ("/alias.php/x", 403, ""),
        ("/priv/", 403, ""),
        ("/priv/index.html.gz", 403, ""),
        ("/alias.html", 403, ""),
        ("/adm/", 403, ""),
        ("/adm/index.php/x", 403, ""),
        // What the site's owner names.
        ("/front/any", 200, "ran /adm/index.php "),
        ("/none", 404, "lost"),
        ("/lost.html", 410, ""),
        // What nobody refuses.
        ("/index.php/x", 200, "ran /index.php /x"),
        ("/shop/", 200, "ran /shop/index.php "),
    ] {
        for method in ["GET", "POST"] {
            let reply = server.fetch(method, target, &[]);
            let (text, is_run) = (reply.text(), reply.text().starts_with("ran "));
            assert!(is_run == (status == 200) && !text.contains(SECRET), "{method} {target}: {reply:?}");
            if method == "GET" || is_run || status == 403 && !target.contains("html") {
                assert_eq!(reply.status, status, "{method} {target}");
                assert!(body.is_empty() || text == body, "{method} {target}: {text}");
            }
        }
        let told = explained(&server, target);
        let is_told = |status: &str| told.contains(&format!(": {status}"));
        assert_eq!(is_told("403 Forbidden"), status == 403, "{target}: {told}");
    }
    // What an application names is sent, and no client finds it by its path then.
    for _ in 0..2 {
        assert_eq!(server.get("/send").text(), SECRET);
        assert_eq!((server.get("/priv/index.html").status, server.get("/priv/").status), (403, 403));
    }
}

/// What `sluice check --url` says of a target.
fn explained(server: &Server, target: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.arg("check").arg(server.root()).arg("--url").arg(target).arg("--php=unix:/x");
    command.arg("--config").arg(server.directory().join("sluice.toml"));
    String::from_utf8(command.output().expect("sluice").stdout).expect("text")
}

/// The socket of an application that answers with the values of these parameters.
fn telling(setup: &Setup, keys: &'static [&'static str]) -> String {
    let socket = scripted::start(setup.directory(), "app.sock", |mut asked| {
        let values: Vec<&str> = keys.iter().map(|key| asked.params.get(*key).map_or("", |it| it)).collect();
        let text = format!("Content-Type: text/plain\n\n{}", values.join(" "));
        asked.say(answer(text));
    });
    socket.display().to_string()
}

/// Paths with `%2F` reach the applications whose routes take them, and name no file nor get around a refusal.
fn encoded_slashes(variant: &Variant) {
    let setup = Setup::new(variant).file("index.php", INDEX).file("dir/evil.php", INDEX);
    let socket = telling(&setup, &["SCRIPT_NAME", "PATH_INFO", "REQUEST_URI"]);
    let server = setup
        .argument(format!("--php=unix:{socket}"))
        .config(&format!(
            "[[pools]]\nname = 'app'\nservers = 'unix:{socket}'\n\
             [[routes]]\npath = '/private/**'\nstatus = 403\n\
             [[routes]]\npath = '/dir/*.php'\nstatus = 403\n\
             [[routes]]\npath = '/adm*'\nstatus = 403\n\
             [[routes]]\npath = '/npm/**'\npool = 'app'\nprogram = '/srv/npm'\nencoded_slashes = true\n\
             [[routes]]\npath = '/git/**'\npool = 'app'\nprogram = '/srv/git'\n\
             [[routes]]\npath = '/old/**'\nredirect = '/new/{{rest}}'\n\
             [[routes]]\nfallback = '/index.php'\nencoded_slashes = true\n"
        ))
        .start();
    for (target, status, script) in [
        ("/npm/@scope%2fname?x=%2F", 200, "/npm /@scope/name"),
        ("/npm/http%3A%2F%2Fh/", 200, "/npm /http:/h/"),
        ("/@scope%2Fname", 200, "/index.php "),
        ("/index.php/page/A%2FB", 200, "/index.php /page/A/B"),
        ("/dir%2Ffile.txt", 200, "/index.php "),
        ("/index.php%2Fpage", 404, ""),
        ("/dir%2Fevil.php", 404, ""),
        ("/dir/evil.php%2Fx", 404, ""),
        ("/dir/evil.php/%2Fx", 404, ""),
        ("/private%2Fa", 404, ""),
        ("/priv%61te%2fa", 404, ""),
        ("/adm%2Fx", 404, ""),
        ("/x%2F..%2Fprivate/a", 404, ""),
        ("/npm/..%2Fprivate/a", 404, ""),
        ("/npm/a%2F.git", 200, "/npm /a/.git"),
        ("/index.php/.a%2Fb", 200, "/index.php /.a/b"),
        ("/.a/b%2Fc", 404, ""),
        ("/a%2F.b", 404, ""),
        ("/npm/a%2F%00", 400, ""),
        ("/git/a%2Fb", 404, ""),
        ("/old/a%2Fb", 404, ""),
    ] {
        for method in ["GET", "POST", "PROPFIND"] {
            let reply = server.fetch(method, target, &[]);
            let expected = if status == 200 { format!("{script} {target}") } else { String::new() };
            assert_eq!(reply.status, status, "{method} {target}: {reply:?}");
            assert!(status != 200 || reply.text() == expected, "{method} {target}: {reply:?}");
        }
        let told = explained(&server, target);
        assert_eq!(told.starts_with("404: ") || told.starts_with("400: "), status != 200, "{target}: {told}");
    }
}

/// What stands behind a script or a program's mount is the application's, names with a dot as well. No file
/// or script that lies below such a name is sent or run.
fn names_that_applications_see(variant: &Variant) {
    let setup = [".git/x.php", "a/.b/x.php", "dir.php/.git/config", ".git/config", "conf/x.php", "up/x.php"]
        .iter()
        .fold(Setup::new(variant), |setup, file| setup.file(file, "not for clients"))
        .file("x.php", INDEX);
    let socket = telling(&setup, &["SCRIPT_NAME", "PATH_INFO"]);
    let server = setup
        .argument(format!("--php=unix:{socket}"))
        .config(&format!(
            "[[pools]]\nname = 'app'\nservers = 'unix:{socket}'\n\
             [[routes]]\npath = '/conf/*.php'\nstatus = 403\n\
             [[routes]]\npath = '/up/**'\n\
             [[routes]]\npath = '/dav/no/**/.*{{,/**}}'\nstatus = 404\n\
             [[routes]]\npath = '/dav/**'\npool = 'app'\nprogram = '/srv/dav'\n\
             [[routes]]\nfallback = '/x.php'\n"
        ))
        .start();
    for (target, status, expected) in [
        ("/x.php/.DS_Store", 200, "/x.php /.DS_Store"),
        ("/x.php/a/%2E_b", 200, "/x.php /a/._b"),
        ("/x.php/c/../.git/config", 200, "/x.php /.git/config"),
        ("/dav/.hidden", 200, "/dav /.hidden"),
        ("/dav/.a/b.php", 200, "/dav /.a/b.php"),
        ("/dav/no/x", 200, "/dav /no/x"),
        ("/dav/no/.x", 404, ""),
        ("/dav/no/a/.x/y", 404, ""),
        ("/x.php/../.git/config", 404, ""),
        ("/dir.php/.git/config", 404, ""),
        ("/none.php/.x", 404, ""),
        ("/.git/config", 404, ""),
        ("/.git/x.php", 404, ""),
        ("/.git/x.php/y", 404, ""),
        ("/a/.b/x.php/.c", 404, ""),
        ("/front/.x", 404, ""),
        ("/up/x.php/.x", 404, ""),
        ("/up/.x", 404, ""),
        ("/conf/x.php/.x", 404, ""),
        // What is wrong with a path is told first, whatever the method.
        ("/x.php/a%2Fb", 404, ""),
        ("/dav/a%2F.b", 404, ""),
        ("/dav/.b/%00", 400, ""),
        ("/dav/%zz", 400, ""),
        ("/dav/../../dav/x", 400, ""),
    ] {
        for method in ["GET", "PUT", "PROPFIND"] {
            let reply = server.fetch(method, target, &[]);
            assert_eq!(reply.status, status, "{method} {target}: {reply:?}");
            assert!(status != 200 || reply.text() == expected, "{method} {target}: {reply:?}");
            assert!(!reply.text().contains("not for clients"), "{method} {target}: {reply:?}");
        }
        let told = explained(&server, target);
        assert!(status != 200 || told.contains("PATH_INFO"), "{target}: {told}");
    }
    assert_eq!(server.one("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").status, 204);
}

/// One PHP-FPM for several roots, and a site whose own is down.
fn sites_with_scripts(variant: &Variant) {
    let (setup, _fpm) = php_site(variant);
    let setup = setup
        .file("a/x.php", "<?php echo $_SERVER['DOCUMENT_ROOT'], ' ', $_SERVER['SCRIPT_NAME'];")
        .file("b/x.php", "<?php echo 'source';")
        .file("b/down.html", "down for now")
        .file("c/x.cgi", "source");
    let (root, socket) = (setup.root().display().to_string(), setup.directory().join("none.sock"));
    let server = setup
        .config(&format!(
            "[[sites]]\nhosts = 'a.example'\nroot = '{root}/a'\n\
             [[sites]]\nhosts = 'b.example'\nroot = '{root}/b'\nphp = 'unix:{}'\n\
             [sites.error_pages]\n502 = '/down.html'\n\
             [[sites]]\nhosts = 'c.example'\nroot = '{root}/c'\n[[sites.routes]]\npool = 'cgi'\n\
             scripts = '.cgi'\n[[pools]]\nname = 'cgi'\nservers = '127.0.0.1:1'\n",
            socket.display()
        ))
        .start();
    let mut client = server.connect();
    let mut ask = |host: &str, target: &str| {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let reply = client.reply();
        (reply.status, reply.text())
    };
    assert_eq!(ask("a.example", "/x.php"), (200, format!("{root}/a /x.php")));
    assert_eq!(ask("test", "/a/x.php"), (200, format!("{root} /a/x.php")));
    assert_eq!(ask("a.example", "/blog/index.php").0, 404, "it is in the other root");
    assert_eq!(ask("b.example", "/x.php"), (502, "down for now".to_owned()), "the site's own page");
    assert_eq!(ask("test", "/c/x.cgi").0, 404, "what is a script of one site is a file of none");
    assert_eq!(ask("b.example", "/").0, 403, "without an index, although the top has PHP's");
}
