//! What routes refuse is refused on every path that leads there, and nothing else is refused.

use proptest::prelude::*;

use super::*;
use crate::config::{RouteRule, Target};

/// What a route of the test does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Refuse,
    Redirect,
    /// Files are sent, and scripts not run.
    Files,
    /// Scripts are run.
    Scripts,
}

const PATTERNS: [&str; 20] = [
    "**",
    "/a/**",
    "/a/*.txt",
    "/a/x.txt",
    "/a/x.txt.gz",
    "/**/*.php",
    "/a/s.php",
    "/a/s.php/**",
    "/b/",
    "/b/index.html",
    "/**/index.*",
    "/c/index.php",
    "/l/**",
    "/x.link",
    "/y.link",
    "/t.php",
    "/z/*",
    "/z/x.txt",
    "/z/**/index.html",
    "/z/link",
];

/// Paths to a file: a request target, and the file's names below the root that matter.
const WAYS: [(&str, &[&str]); 28] = [
    ("/a/x.txt", &[]),
    ("/a/%78.txt", &[]),
    ("//a/./x.txt?y", &[]),
    ("/a/x.txt.gz", &["/a/x.txt"]),
    ("/x.link", &["/a/x.txt"]),
    ("/l/x.txt", &["/a/x.txt"]),
    ("/l/x.txt.gz", &["/a/x.txt.gz", "/l/x.txt", "/a/x.txt"]),
    ("/y.link", &["/a/x.txt.gz", "/a/x.txt"]),
    ("/y.gz", &["/a/x.txt.gz", "/a/x.txt"]),
    // The negotiated sibling is a link, and only it has the file's contents.
    ("/n.html", &["/a/x.txt.gz", "/a/x.txt"]),
    ("/n/", &["/n/index.html", "/a/x.txt.gz", "/a/x.txt"]),
    ("/b/index.html", &[]),
    ("/b/", &["/b/index.html"]),
    ("/b/?sort=size", &["/b/index.html"]),
    ("/b/../b//", &["/b/index.html"]),
    ("/a/s.php", &[]),
    ("/a/s.php/", &["/a/s.php"]),
    ("/a/s.php/x", &["/a/s.php"]),
    ("/a/s.ph%70/x.php/y.html", &["/a/s.php"]),
    ("/t.php", &["/a/s.php"]),
    ("/t.php/x", &["/t.php", "/a/s.php"]),
    ("/l/s.php", &["/a/s.php"]),
    ("/l/s.php/x", &["/l/s.php", "/a/s.php"]),
    ("/c/", &["/c/index.php"]),
    ("/c/index.php/x", &["/c/index.php"]),
    ("/", &["/index.html"]),
    ("/l/", &["/l/index.html", "/a/index.html"]),
    ("/z/sub/", &["/z/sub/index.html"]),
];

/// What a listing of `/z/` may show, and one of `/w/`, which is a link to `/z/`.
const LISTED: [&str; 8] = ["x.txt", "x.txt.gz", "y.gz", "s.php", "sub/", "deep/", "link", "S.PHP"];

fn tree() -> Site {
    let site = Site::with(|files| files.listing = true);
    for name in [
        "index.html",
        "a/index.html",
        "a/x.txt",
        "a/x.txt.gz",
        "a/s.php",
        "b/index.html",
        "c/index.php",
        "z/x.txt",
        "z/x.txt.gz",
        "z/y.gz",
        "z/s.php",
        "z/S.PHP",
        "z/sub/index.html",
        "z/deep/index.php",
    ] {
        site.write(name, "the file");
    }
    for name in ["n.html", "n/index.html"] {
        site.write(name, "another");
    }
    for (to, link) in [
        ("a", "l"),
        ("a/x.txt", "x.link"),
        ("a/x.txt.gz", "y.link"),
        ("a/x.txt.gz", "y.gz"),
        ("a/x.txt.gz", "n.html.gz"),
        ("../a/x.txt.gz", "n/index.html.gz"),
        ("a/s.php", "t.php"),
        ("x.txt", "z/link"),
        ("z", "w"),
    ] {
        symlink(to, site.path(link)).unwrap();
    }
    site
}

fn rule(pattern: &str, deed: Deed) -> RouteRule {
    RouteRule {
        path: Some(Pattern::of_path(pattern).unwrap()),
        status: (deed == Deed::Refuse).then_some(410),
        redirect: (deed == Deed::Redirect).then(|| Target::read("/elsewhere").unwrap()),
        pool: (deed == Deed::Scripts).then(|| "php".to_owned()),
        ..RouteRule::default()
    }
}

/// What a client gets: the status, and whether the body is the file, or what its script prints.
fn outcome(site: &mut Site, target: &str) -> (u16, bool) {
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n");
    let limits = Limits::default();
    let mut connection = Connection::new(Tick(0), &limits);
    let (_, step) = connection.receive(&limits, Tick(0), request.as_bytes(), false).unwrap();
    let Step::Request(head) = step else { panic!("{request:?} is no request") };
    match site.ask(&head) {
        Ok(plan) => {
            connection.respond(&limits, Tick(0), plan);
            let mut download = Download { connection, limits };
            let reply = Reply::parse(&download.take(&site.content, usize::MAX));
            download.end(&mut site.content);
            (reply.status, reply.text() == "the file")
        }
        Err(_call) => (200, true),
    }
}

/// What the routes decide about a path, evaluated one by one: the first match, and the first that is no
/// redirect.
fn said(rules: &[(&str, Deed)], path: &str) -> [Deed; 2] {
    let matches = |pattern: &str| {
        let pattern = Pattern::of_path(pattern).unwrap();
        let all = patterns::Patterns::new([(Some(&pattern), false)].into_iter());
        !all.of_path(path.as_bytes()).numbers.is_empty()
    };
    let takes = |deed: Deed| deed != Deed::Scripts || path.contains(".php");
    let mut deeds =
        rules.iter().filter(|(pattern, deed)| takes(*deed) && matches(pattern)).map(|(_, deed)| *deed);
    let first = deeds.clone().next().unwrap_or(Deed::Files);
    [first, deeds.find(|deed| *deed != Deed::Redirect).unwrap_or(Deed::Files)]
}

/// Whether a client gets the file requested by `asked`, given all names that lead to it.
fn may_have(rules: &[(&str, Deed)], asked: &str, names: &[&str]) -> bool {
    let [first, _] = said(rules, asked);
    let is_script = asked.contains(".php") || names.iter().any(|name| name.contains(".php"));
    let is_refused = |name: &&str| match said(rules, name)[1] {
        Deed::Refuse => true,
        Deed::Files => name.contains(".php"),
        _ => false,
    };
    match first {
        Deed::Refuse | Deed::Redirect => return false,
        Deed::Files if is_script && asked.contains(".php") => return false,
        _ => {}
    }
    !names.iter().any(is_refused)
}

/// A listing checks the index files of the directories that it may show, and no others.
#[test]
fn index_files_are_looked_at_for_names_that_are_taken() {
    let mut site = Site::with(|files| {
        (files.listing, files.listing_names) = (true, 4);
        files.routes = vec![rule("/**/index.html", Deed::Refuse)];
    });
    for directory in 0..10 {
        site.write(&format!("d/{directory}/index.html"), "the file");
    }
    let page = site.get_with("/d/", "Accept: application/json").text().to_owned();
    let listing: serde_json::Value = serde_json::from_str(&page).unwrap();
    assert_eq!((&listing["names"], &listing["entries"]), (&6.into(), &serde_json::json!([])), "{page}");
    assert_eq!(listing["complete"], false);
}

/// Links between files and siblings that form a loop.
#[test]
fn judging_siblings_comes_to_an_end() {
    let mut site = Site::with(|files| files.routes = vec![rule("/{x,y,z}", Deed::Refuse)]);
    site.write("x.gz", "the file");
    for (to, link) in [("x.gz", "x"), ("z.gz", "y"), ("y.gz", "z"), ("x.gz", "y.gz"), ("y.gz", "z.gz")] {
        symlink(to, site.path(link)).unwrap();
    }
    for target in ["/x", "/x.gz", "/y", "/y.gz", "/z", "/z.gz"] {
        assert_eq!(outcome(&mut site, target), (410, false), "{target}");
    }
}

/// A link whose own path is redirected is listed, whatever it links to. The listing shows nothing of the
/// target.
#[test]
fn a_link_that_is_redirected_is_listed_without_the_size_of_what_is_refused() {
    let mut site = tree();
    site.write("z/x.txt", "x".repeat(1000));
    let refused = [("/z/link", Deed::Redirect), ("/z/x.txt", Deed::Refuse)];
    site.reconfigure(|files| files.routes = refused.map(|(path, deed)| rule(path, deed)).to_vec());
    assert_eq!(outcome(&mut site, "/z/link"), (302, false));
    let page = site.get_with("/z/", "Accept: application/json").text().to_owned();
    let listing: serde_json::Value = serde_json::from_str(&page).unwrap();
    let entries = listing["entries"].as_array().unwrap();
    let of = |name: &str| entries.iter().find(|entry| entry["name"] == name);
    assert_eq!(of("x.txt"), None, "{page}");
    let link = of("link").unwrap_or_else(|| panic!("no link: {page}"));
    assert_eq!((&link["type"], &link["size"]), (&"file".into(), &"x.txt".len().into()), "{page}");
}

#[test]
fn what_is_refused_is_refused_by_every_way() {
    let mut site = tree();
    let deed = prop_oneof![
        3 => Just(Deed::Refuse),
        1 => Just(Deed::Redirect),
        1 => Just(Deed::Files),
        1 => Just(Deed::Scripts),
    ];
    let rules = prop::collection::vec((prop::sample::select(&PATTERNS[..]), deed), 0..5);
    let site = std::cell::RefCell::new(&mut site);
    let (mut refused, mut had) = (0, 0);
    let counts = std::cell::RefCell::new((&mut refused, &mut had));
    crate::seeded::run(200, &rules, |mut rules| {
        rules.push(("**", Deed::Scripts));
        let site = &mut **site.borrow_mut();
        let all = rules.iter().map(|(pattern, deed)| rule(pattern, *deed)).collect();
        site.reconfigure(|files| {
            files.routes = all;
            files.index = vec!["index.php".to_owned(), "index.html".to_owned()];
        });
        for (target, names) in WAYS {
            let mut decoded = Vec::new();
            let raw = target.split('?').next().unwrap().as_bytes();
            let asked = Path::decode(raw, false, &mut decoded).unwrap();
            let asked = std::str::from_utf8(asked.bytes()).unwrap();
            let expected = may_have(&rules, asked, names);
            let (status, is_had) = outcome(site, target);
            prop_assert_eq!(is_had, expected, "{} by {:?}: {}", target, rules, status);
            let mut counts = counts.borrow_mut();
            if is_had { *counts.1 += 1 } else { *counts.0 += 1 }
        }
        for directory in ["/z/", "/w/"] {
            if outcome(site, directory).0 != 200 {
                continue;
            }
            let page = site.get(directory).text().to_owned();
            for name in LISTED {
                let (status, _) = outcome(site, &format!("{directory}{name}"));
                let is_shown = page.contains(&format!("\"{name}\""));
                let told = format!("{directory}{name} by {rules:?}: {status}\n{page}");
                prop_assert_eq!(is_shown, status < 400, "{}", told);
            }
        }
        Ok(())
    });
    assert!(refused > 500 && had > 500, "{refused} refused, {had} had");
}
