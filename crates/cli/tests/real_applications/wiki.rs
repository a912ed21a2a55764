//! A wiki (`DokuWiki`) in a browser: installed, logged in to, edited, and with a large file in it.

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::browser::Browser;
use harness::fpm::Fpm;
use harness::server::{Server, Setup};
use harness::site::pattern;
use harness::variant::{Test, Variant, tests};

pub(super) const TESTS: &[Test] = tests![One: a_wiki];

/// Bytes of the file that is uploaded.
const LARGE: usize = 20 << 20;

/// As docs/applications.md has it.
const CONFIG: &str = r#"
[limits]
body = "64 MiB"

[[routes]]
path = "/{data,conf,bin,inc,vendor}/**"
status = 404
"#;

/// A copy of Debian's package with all in one directory, as the wiki comes from its makers.
fn copy(root: &Path) {
    let wiki = |path: &str| root.join(path);
    for (from, to) in [("/usr/share/dokuwiki/.", ""), ("/etc/dokuwiki/.", "conf")] {
        let copied = Command::new("cp").args(["--recursive", "--dereference", from]).arg(wiki(to)).status();
        assert!(copied.expect("cp runs").success(), "dokuwiki is missing: scripts/install-test-tools");
    }
    // What Debian has set up, which the installer is to do.
    for of_debian in ["inc/preload.php", "conf/local.php", "conf/acl.auth.php", "conf/users.auth.php"] {
        let _ = fs::remove_file(wiki(of_debian));
    }
    let _ = fs::remove_file(wiki("conf/plugins.local.php"));
    let defaults = fs::read_to_string(wiki("conf/dokuwiki.php")).expect("a file");
    fs::write(wiki("conf/dokuwiki.php"), defaults.replace("/var/lib/dokuwiki/data", "./data"))
        .expect("a file");
    for data in [
        "attic",
        "cache",
        "index",
        "locks",
        "log",
        "media",
        "media_attic",
        "media_meta",
        "meta",
        "pages",
        "tmp",
    ] {
        fs::create_dir_all(wiki("data").join(data)).expect("a directory");
    }
    fs::remove_file(wiki("index.html")).expect("the index of the standard site");
}

fn a_wiki(variant: &Variant) {
    let setup = Setup::new(variant).config(CONFIG);
    copy(&setup.root());
    let fpm = Fpm::start(setup.directory(), 5);
    let server = setup.argument(fpm.argument()).start();
    let url = |path: &str| format!("http://{}{path}", server.address);
    let mut browser = Browser::start(server.directory());

    browser.open(&url("/install.php"));
    browser.evaluate(
        "for (const [name, value] of Object.entries({ title: 'Sluice', superuser: 'admin', fullname: 'A B',
             email: 'a@example.org', password: 'secret', confirm: 'secret' }))
             document.querySelector(`[name='d[${name}]']`).value = value;
         document.querySelector('#policy').value = '1';
         document.querySelector(`[name='d[pop]']`).checked = false;
         document.querySelector('[name=submit]').click()",
    );
    browser.wait_for("document.body.innerText.includes('finished successfully')");
    // As it asks to; and names of pages in the path rather than in the query.
    fs::remove_file(server.root().join("install.php")).expect("a file");
    let local = server.root().join("conf/local.php");
    let written = fs::read_to_string(&local).expect("the installer has written it");
    fs::write(&local, format!("{written}$conf['userewrite'] = 2;\n")).expect("a file");

    browser.open(&url("/doku.php/start?do=login"));
    browser.evaluate(
        "const form = document.querySelector('#dw__login');
         form.u.value = 'admin'; form.p.value = 'secret'; form.querySelector('button[type=submit]').click()",
    );
    browser.wait_for("document.body.innerText.includes('Logged in as: A B')");

    browser.open(&url("/doku.php/some:page?do=edit"));
    browser.evaluate(
        "document.querySelector('#wiki__text').value = '====== Ein \u{dc}bungstext ======\\n\\nand [[start]]';
         document.querySelector('#edbtn__save').click()",
    );
    browser.wait_for("document.querySelector('#dokuwiki__content h1')?.innerText === 'Ein \u{dc}bungstext'");
    assert_eq!(browser.evaluate("location.pathname"), "/doku.php/some:page");
    let page = server.get("/doku.php/some:page");
    assert!(page.status == 200 && page.text().contains("Ein \u{dc}bungstext"), "{page:?}");

    upload(&mut browser, &server);
    refused(&server);
    // (A browser leaves what it has not waited for.)
    assert_eq!(server.pool_count("failures"), 0);
}

/// A file in, and out again: whole, and in parts as browsers and download managers ask for them.
fn upload(browser: &mut Browser, server: &Server) {
    let content = pattern(20, LARGE);
    let file = server.directory().join("large.tgz");
    fs::write(&file, &content).expect("a file");
    browser.open(&format!("http://{}/doku.php/start?do=media&tab_files=upload&ns=", server.address));
    browser.wait_for("!!document.querySelector('.qq-upload-button input[type=file]')");
    browser.choose_file(".qq-upload-button input[type=file]", &file);
    browser.wait_for("!!document.querySelector('.qq-upload-list li')");
    browser.evaluate("document.querySelector('#mediamanager__upload_button').click()");
    browser.wait_for("!!document.querySelector('.qq-upload-success')");
    let kept = fs::read(server.root().join("data/media/large.tgz")).expect("the wiki has it");
    assert!(kept == content);

    let target = "/lib/exe/fetch.php/large.tgz";
    let seen = browser.evaluate(&format!(
        "fetch('{target}', {{ headers: {{ Range: 'bytes=1000000-1999999' }} }}).then(async reply =>
             [reply.status, reply.headers.get('Content-Range'), (await reply.arrayBuffer()).byteLength])"
    ));
    assert_eq!(seen, serde_json::json!([206, format!("bytes 1000000-1999999/{LARGE}"), 1_000_000]));
    let mut client = server.connect();
    let whole = client.get(target);
    assert!(whole.status == 200 && whole.body == content, "{whole:?}");
    for (range, from, to) in
        [("0-1", 0, 2), ("5000000-9999999", 5_000_000, 10_000_000), ("20971000-", 20_971_000, LARGE)]
    {
        let part = client.fetch("GET", target, &[("Range", &format!("bytes={range}"))]);
        assert!(part.status == 206 && part.body == content[from..to], "{range}: {part:?}");
    }
}

/// What the wiki keeps is nobody's, be it a text or a script.
fn refused(server: &Server) {
    for target in [
        "/data/pages/some/page.txt",
        "/data/media/large.tgz",
        "/conf/local.php",
        "/conf/users.auth.php",
        "//conf/%75sers.auth.php",
        "/conf/mime.conf",
        "/inc/init.php",
        "/vendor/autoload.php",
        "/bin/wantedpages.php",
        "/.htaccess",
        "/install.php",
    ] {
        assert_eq!(server.get(target).status, 404, "{target}");
    }
    for target in ["/doku.php", "/lib/exe/css.php", "/lib/images/page.png", "/feed.php"] {
        assert_eq!(server.get(target).status, 200, "{target}");
    }
    assert_eq!(server.get("/").status, 302);
}
