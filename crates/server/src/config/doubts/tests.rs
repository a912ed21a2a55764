//! Tests of the warnings: which there are, at which places, and which there must not be.

use std::fs;
use std::os::unix::net::UnixListener;

use super::super::tests::place;

/// The warnings about a file that sets a root, without the file's name.
fn doubts(toml: &str) -> Vec<String> {
    doubts_of_file(&format!("root = 'www'\n{toml}"))
}

fn doubts_of_file(toml: &str) -> Vec<String> {
    let (dir, source) = place(toml);
    let _socket = UnixListener::bind(dir.path().join("socket")).expect("a socket");
    fs::write(dir.path().join("file"), "").expect("a file");
    let read = source.read().unwrap_or_else(|error| panic!("{toml}: {error}"));
    let doubts = read.doubts().into_iter().map(|doubt| doubt.to_string());
    // The warning about root depends on the user that runs the test.
    let doubts = doubts.filter(|doubt| !doubt.starts_with("user: "));
    let file = format!("{}:", dir.path().join("sluice.toml").display());
    doubts.map(|doubt| doubt.replace(&file, "").replace(&dir.path().display().to_string(), "")).collect()
}

/// The warnings about these routes, which stand on one line each, from the second line on.
fn routes(lines: &[&str]) -> Vec<String> {
    let told = doubts(&format!("routes = [\n{},\n]\n{POOL}", lines.join(",\n")));
    told.into_iter().filter(|told| !told.contains("no route leads to this pool")).collect()
}

const POOL: &str = "[[pools]]\nname = 'p'\nservers = '127.0.0.1:1'\n";

#[test]
fn a_route_that_no_request_comes_to_is_told_with_who_takes_its_paths() {
    for (first, second, expected) in [
        ("path = '/a/**', status = 404", "path = '/a/b', redirect = '/x'", "line 3, /a/**, matches all"),
        ("path = '/a', status = 404", "path = '/a', status = 403", "line 3 has the same path"),
        ("status = 404", "path = '/a'", "line 3, any path, matches all"),
        ("path = '/a/**', fallback = '/404.html'", "path = '/a/x/**', pool = 'p'", "line 3, /a/**,"),
        ("path = '**/*.bak', ignore_case = true, status = 404", "path = '/A.bak'", "line 3, **/*.bak,"),
        ("pool = 'p'", "path = '/uploads/**/*.php', status = 403", "line 3, any path for .php, matches"),
        ("pool = 'p'", "path = '/a/*', pool = 'p'", "line 3, any path for .php, matches"),
        ("path = '/{a,b}', status = 404", "path = '/{b,a}', status = 404", "line 3, /{a,b}, matches"),
    ] {
        let [told] = &routes(&[&format!("{{ {first} }}"), &format!("{{ {second} }}")])[..] else {
            panic!("{second}: {:?}", routes(&[&format!("{{ {first} }}"), &format!("{{ {second} }}")]));
        };
        assert!(told.starts_with("4:") && told.contains("no request reaches this route"), "{told}");
        assert!(told.contains(expected), "{told}");
    }
    for (first, second) in [
        ("path = '/a/b', status = 404", "path = '/a/**', status = 403"),
        ("path = '/a', status = 404", "path = '/A', status = 404"),
        ("path = '/a', status = 404", "path = '/a', ignore_case = true, status = 404"),
        ("path = '/a/**', pool = 'p'", "path = '/a/**', fallback = '/404.html'"),
        ("pool = 'p', scripts = '.php'", "pool = 'p', scripts = '.phtml'"),
        ("pool = 'p'", "path = '/a.html', status = 404"),
        ("path = '/a/**', pool = 'p'", "path = '/a/**', pool = 'p', encoded_slashes = true"),
        ("path = '/a', status = 404", "path = '/{a,b}', status = 404"),
    ] {
        let told = routes(&[&format!("{{ {first} }}"), &format!("{{ {second} }}")]);
        assert!(told.is_empty(), "{second}: {told:?}");
    }
    let of_site =
        "[[sites]]\nhosts = 'a'\nroot = 'www'\nphp = '127.0.0.1:1'\n[[sites.routes]]\nstatus = 404\n";
    let told = doubts(&format!("{of_site}[[sites.routes]]\npath = '/x'\n"));
    assert!(told[0].starts_with("5:7: sites.php = '127.0.0.1:1': no request reaches"), "{told:?}");
    assert!(told[1].starts_with("9:8: sites.routes.path = '/x': no request reaches"), "{told:?}");
    assert!(told[1].contains("at line 6, any path,") && told.len() == 2, "{told:?}");
}

#[test]
fn a_redirect_that_leads_to_itself_is_told() {
    for (lines, expected) in [
        (&["path = '/a', redirect = '/a'"][..], "leads back to its own route: "),
        (&["path = '/a', redirect = '/a?b=c'"], "leads back to its own route: "),
        (&["path = '/A', redirect = '/a', ignore_case = true"], "leads back to its own route: "),
        (&["redirect = '/new{path}'"], "leads back to its own route: "),
        (&["path = '/a/**', redirect = '/a/{rest}'"], "leads back to its own route: "),
        (&["path = '/a/**', redirect = '/a/b/{rest}.html'"], "leads back to its own route: "),
        (
            &["path = '/a', redirect = '/b'", "path = '/b', redirect = '/a'"],
            "route, through the one at line 4: ",
        ),
        (
            &[
                "path = '/a/**', redirect = '/b/{rest}'",
                "path = '/b/**', redirect = '/c{path}'",
                "path = '/c/**', redirect = '/a/{rest}'",
            ],
            "route, through 2 others, from the one at line 4 to the one at line 5: ",
        ),
    ] {
        let lines: Vec<_> = lines.iter().map(|line| format!("{{ {line} }}")).collect();
        let told = routes(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(told.len() == 1 && told[0].starts_with("3:"), "{lines:?}: {told:?}");
        assert!(told[0].contains(expected), "{told:?}");
    }
    for lines in [
        &["path = '/a', redirect = '/b'"][..],
        &["path = '/a/*', redirect = '/a/b/{rest}'"],
        &["path = '/new/**'", "redirect = '/new{path}'"],
        &["redirect = 'https://example.org{path}'"],
        &["path = '/a', redirect = '/b'", "path = '/b', redirect = '/c'"],
        &["pool = 'p'", "path = '/*', redirect = '/a.php'"],
        &["path = '/a%', redirect = '/a%25'"],
    ] {
        let lines: Vec<_> = lines.iter().map(|line| format!("{{ {line} }}")).collect();
        let told = routes(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(told.is_empty(), "{lines:?}: {told:?}");
    }
}

#[test]
fn files_and_sockets_that_are_not_there_are_told() {
    for (toml, expected) in [
        (
            "[[routes]]\nfallback = '/app.html'",
            "3:12: routes.fallback = '/app.html': there is no file /www/app",
        ),
        ("php = 'unix:none'", "2:7: php = 'unix:none': there is no socket /none; until"),
        ("php = 'unix:file'", "2:7: php = 'unix:file': /file is no socket; until"),
        (
            "[[pools]]\nname = 'a'\nservers = ['unix:socket', 'unix:none']\n[[routes]]\npool = 'a'",
            "4:27: pools.servers = 'unix:none': there is no socket /none",
        ),
        (
            "[[sites]]\nhosts = 'a'\nroot = 'www'\nphp = 'unix:none'",
            "5:7: sites.php = 'unix:none': there is no socket",
        ),
    ] {
        let told = doubts(toml);
        assert!(told.len() == 1 && told[0].starts_with(expected), "{toml}: {told:?}");
    }
    for toml in [
        "[[routes]]\nfallback = '/404.html'",
        "php = 'unix:socket'\n[[sites]]\nhosts = 'a'\nroot = 'www'",
        "php = '127.0.0.1:1'",
    ] {
        assert_eq!(doubts(toml), [""; 0], "{toml}");
    }
}

#[test]
fn a_pool_that_no_route_leads_to_is_told() {
    let site = "[[sites]]\nhosts = 'a'\nroot = 'www'\n";
    for (toml, expected) in [
        (POOL.to_owned(), &["3:8: pools.name = 'p': no route leads to this pool"][..]),
        (format!("{POOL}[[routes]]\npool = 'p'"), &[]),
        (format!("{POOL}{site}[[sites.routes]]\npool = 'p'"), &[]),
    ] {
        let told = doubts(&toml);
        assert!(told.len() == expected.len(), "{toml}: {told:?}");
        assert!(told.iter().zip(expected).all(|(told, expected)| told.starts_with(expected)), "{told:?}");
    }
}

#[test]
fn a_coding_that_the_name_contradicts_is_told() {
    let site = "[[sites]]\nhosts = 'a'\nroot = 'www'\n[sites.encodings]\n'x.br' = 'gzip'\n";
    for (toml, expected) in [
        (
            "[encodings]\n'wasm.gz' = 'br'",
            "3:13: encodings.wasm.gz = 'br': gz is the usual extension of gzip",
        ),
        (site, "6:10: sites.encodings.x.br = 'gzip': br is the usual extension of br"),
    ] {
        let told = doubts(toml);
        assert!(told.len() == 1 && told[0].starts_with(expected), "{toml}: {told:?}");
    }
    assert_eq!(doubts("[encodings]\n'wasm.gz' = 'gzip'\ngz = 'off'\nunityweb = 'br'"), [""; 0]);
}

/// A current directory as root is probably a mistake: `sluice.toml` is often there.
#[test]
fn a_file_that_does_not_say_what_is_served_is_told_what_is() {
    let here = std::env::current_dir().expect("a directory");
    let expected =
        format!("root: not set, so that the files of {}, the current directory, are", here.display());
    let to_all = "[[pools]]\nname = 'p'\nservers = '127.0.0.1:1'\n[[routes]]\npool = 'p'\n";
    for toml in ["", "[[routes]]\npath = '/old/**'\nredirect = '/new'", to_all] {
        let told = doubts_of_file(toml);
        assert!(told.len() == 1 && told[0].starts_with(&expected), "{toml}: {told:?}");
    }
    for toml in ["root = 'www'", "[[routes]]\nredirect = 'https://a.org{path}'"] {
        assert_eq!(doubts_of_file(toml), [""; 0], "{toml}");
    }
    let told = super::super::Source::default().read().expect("defaults").doubts();
    assert!(told.iter().all(|doubt| doubt.key != "root"), "without a file it is meant: {told:?}");
}
