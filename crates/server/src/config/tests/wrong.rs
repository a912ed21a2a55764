//! Errors in files and command lines: each names the place, and what is allowed there.

use super::*;

#[test]
fn every_problem_with_an_item_of_a_list_points_at_that_item() {
    let sites = "[[sites]]\nhosts = 'a.example'\nroot = 'www'\n[[sites]]\nroot = 'www'\nhosts = ";
    let pool = "[[pools]]\nname = 'p'\nservers = '127.0.0.1:1'\n";
    let refuse = "[[routes]]\nstatus = 404\n";
    for (text, expected) in [
        (
            format!("{sites}['b', 'a.example']"),
            "7:15: sites.hosts = 'a.example': contradiction: a.example is",
        ),
        (format!("{sites}'A.example'"), "7:9: sites.hosts = 'A.example': contradiction: a.example is"),
        (format!("{sites}['b', 'a:1']"), "7:15: sites.hosts = 'a:1': allowed: a host without a port"),
        (format!("{sites}[]"), "7:9: sites.hosts = []: a site needs a host"),
        (
            format!("{sites}'b'\n[[sites.routes]]\nstatus = 404\n[[sites.routes]]\npool = 'x'"),
            "11:8: sites.routes.pool = 'x': there is no pool \"x\" for a route; allowed: there are none",
        ),
        (format!("{refuse}[[routes]]\npool = 'x'"), "5:8: routes.pool = 'x': there is no pool"),
        (format!("{pool}{pool}"), "6:8: pools.name = 'p': two pools have the name \"p\""),
        (
            format!("{pool}send_files = {{ '/x/' = 'www' }}"),
            "5:14: pools.send_files = { '/x/' = 'www' }: contradiction",
        ),
        ("[[pools]]\nname = 'p'\nservers = ['x']".to_owned(), "4:12: pools.servers = 'x': allowed: ADDRESS"),
        (
            format!(
                "php = '127.0.0.1:1'\n[[routes]]\nfallback = '/404.html'\n[[routes]]\npath = '/a'\n{refuse}"
            )
            .replace("'/a'\n[[routes]]", "'/a'"),
            "6:8: routes.path = '/a': contradiction: the route for /a follows one",
        ),
        (
            "listen = [':1', 'unix:a',\n'127.0.0.1:1']".to_owned(),
            "3:1: listen = '127.0.0.1:1': contradiction: 0.0.0.0:1 and 127.0.0.1:1 are the same address",
        ),
        (
            "listen = ['unix:a', 'unix:none/a']".to_owned(),
            "2:21: listen = 'unix:none/a': there is no directory",
        ),
        (
            "listen = ['127.0.0.1:1']\n[proxies]\nprotocol = ['127.0.0.1:1', '127.0.0.1:2']".to_owned(),
            "4:28: proxies.protocol = '127.0.0.1:2': contradiction: 127.0.0.1:2 is no address",
        ),
        (
            format!("{sites}'b'\naccess_log = 'nowhere/log'"),
            "8:14: sites.access_log = 'nowhere/log': there is no directory",
        ),
    ] {
        let told = problems(&format!("root = 'www'\n{text}"));
        assert!(told.lines().count() == 1 && told.contains(expected), "{text} told: {told}");
        assert!(told.starts_with("sluice.toml:"), "{told}");
    }
    let pools: Vec<_> = (0..50).map(|number| pool.replace("'p'", &format!("'p{number}'"))).collect();
    let told = problems(&format!("root = 'www'\n{}[[routes]]\npool = 'x'", pools.concat()));
    assert!(told.contains("p18, p19 and 30 more"), "{told}");
}

#[test]
fn nothing_that_is_told_of_a_configuration_misleads_who_reads_it() {
    let text = "root = \"x\\u001b[2J\\u202e\\ny\"\n[types]\n\"A\\u202e\" = 'a/b \u{202e}'\n";
    let told = problems(text);
    assert_eq!(told.lines().count(), 2, "{told}");
    assert!(told.chars().all(|char| char == '\n' || crate::plain::is_plain(char)), "{told:?}");
    assert!(told.contains("x\\u{1b}[2J\\u{202e}\\ny: No such file"), "{told}");
    let (dir, source) = place("[pools]\n");
    let text = "[[pools]]\nname = 'a'\nservers = '127.0.0.1:1'\nparams = { A = \"\\\"\\\\\u{202e}\\u001b\" }";
    let settings = source.load_text(&format!("root = '{}'\n{text}", dir.path().display())).expect("settings");
    let printed = settings.to_toml();
    assert!(printed.contains(r#"A = "\"\\\U0000202E\U0000001B""#), "{printed}");
    assert_eq!(source.load_text(&printed).expect("settings"), settings);
}

#[test]
fn what_is_wrong_with_a_site_is_told_with_its_place() {
    let site = |keys: &str| format!("root = 'www'\n[[sites]]\n{keys}");
    for (keys, expected) in [
        (
            "root = 'www'",
            "sluice.toml:2:1: sites = [[sites]]: a site needs hosts, such as hosts = \"example.org\"",
        ),
        (
            "hosts = 'a'",
            "sluice.toml:2:1: sites = [[sites]]: a site needs root, such as root = \"/srv/example\"",
        ),
        ("hosts = []\nroot = 'www'", "sluice.toml:3:9: sites.hosts = []: a site needs a host"),
        (
            "hosts = 'a:80'\nroot = 'www'",
            "sluice.toml:3:9: sites.hosts = 'a:80': allowed: a host without a port",
        ),
        (
            "hosts = 'a'\nroot = 'nowhere'",
            "sluice.toml:4:8: sites.root = 'nowhere': cannot serve nowhere: No such",
        ),
        (
            "hosts = 'a'\nroot = 'www'\nlisten = ':1'",
            "sluice.toml:5:1: sites.listen: this key belongs to the top",
        ),
        (
            "hosts = 'a'\nroot = 'www'\n[[sites.routes]]\npool = 'x'",
            "there is no pool \"x\" for a route; allowed: there are none",
        ),
        (
            "hosts = 'a'\nroot = 'www'\n[[sites.routes]]\npol = 'x'",
            "sluice.toml:6:1: sites.routes.pol: unknown key",
        ),
        (
            "hosts = 'a'\nroot = 'www'\naccess_log = 'stderr'",
            "sluice.toml:5:14: sites.access_log = 'stderr': allowed: a file, or \"-\" for standard output",
        ),
        (
            "hosts = 'a'\nroot = 'www'\naccess_log = 'no/log'",
            "sluice.toml:5:14: sites.access_log = 'no/log': there is no directory",
        ),
        (
            "hosts = 'a'\nroot = 'www'\naccess_log = 'log'\nlog_format = 'xml'",
            "sluice.toml:6:14: sites.log_format = 'xml': allowed: combined, json, short",
        ),
        (
            "hosts = 'a'\nroot = 'www'\nlog_format = 'json'\n\
             [[sites]]\nhosts = 'b'\nroot = 'www'\nlog_format = 'combined'",
            "sites.access_log: contradiction: standard output is the log of another site",
        ),
        ("hosts = ['a', 'A.']\nroot = 'www'", "contradiction: a is listed twice in hosts"),
        ("hosts = 'a'\nroot = 'www'\n[sites.error_pages]\n404 = '/no'", "there is no file www/no"),
    ] {
        let told = problems(&site(keys));
        assert!(told.contains(expected), "{keys}: {told}");
    }
}

/// Without this check, a log file called `none` grew to 62 MB in 26 seconds.
#[test]
fn other_servers_words_are_no_files() {
    for (word, target) in
        [("off", None), ("none", None), ("-", Some(LogTarget::Stdout)), ("stdout", Some(LogTarget::Stdout))]
    {
        let typed = with_options("root = 'www'", &[("access_log", &[word])]).expect("settings");
        let site = format!("root = 'www'\n[[sites]]\nhosts = 'a'\nroot = 'www'\naccess_log = '{word}'");
        let written = place(&site).1.load().expect("settings");
        let target_of = |log: &Option<AccessLogSettings>| log.as_ref().map(|log| log.target.clone());
        assert_eq!(target_of(&typed.access_log), target, "{word}");
        assert_eq!(target_of(&written.sites[0].access_log), target, "{word}");
    }
    let here = std::env::current_dir().expect("a directory");
    let typed = with_options("root = 'www'", &[("access_log", &["./none"])]).expect("settings");
    assert_eq!(typed.access_log.map(|log| log.target), Some(LogTarget::File(here.join("./none"))));
}

#[test]
fn options_are_blamed_by_name() {
    let told = |options| with_options("", options).expect_err("a problem");
    assert_eq!(
        told(&[("small_file", &["16 KX"])]),
        "--small-file '16 KX': unknown unit \"KX\" of a size; \
         allowed: KB, MB, GB (powers of 1000), KiB, MiB, GiB (powers of 1024)"
    );
    assert_eq!(
        told(&[("events", &["kqueue"])]),
        "--events 'kqueue': allowed: epoll, epoll-level, poll, select"
    );
    assert_eq!(
        told(&[("architecture", &["sped"]), ("workers", &["4"])]),
        "--workers '4': contradiction: sped is a single process; allowed with it: 1"
    );
    assert_eq!(
        told(&[("root", &["/nowhere/at/all"])]),
        "DIR '/nowhere/at/all': cannot serve /nowhere/at/all: No such file or directory (os error 2)"
    );
    // A list with one wrong word reports that word alone.
    assert!(
        told(&[("listen", &["127.0.0.1:0", "example.org:80"])])
            .starts_with("--listen 'example.org:80': not an IP")
    );
}

#[test]
fn accounts_and_modes_that_cannot_be_are_told() {
    let cases = [
        ("user = 'nobody-at-all'", "there is no user `nobody-at-all`"),
        ("user = 'nobody'\ngroup = 'nobody-at-all'", "there is no group `nobody-at-all`"),
        ("[unix_sockets]\nmode = '0999'", "allowed: permission bits"),
        ("[unix_sockets]\nmode = '4755'", "allowed: permission bits"),
        ("[unix_sockets]\nmode = 438", "allowed: permission bits"),
        ("[status_socket]\nowner = 'nobody-at-all'", "there is no user `nobody-at-all`"),
    ];
    for (text, what) in cases {
        let (_dir, source) = place(text);
        let told = source.load().expect_err(text).to_string();
        assert!(told.contains(what), "{text:?} told: {told}");
    }
}

#[test]
fn a_listing_shows_no_more_names_than_are_read() {
    for number in ["0", "65537", "'all'"] {
        let (_dir, source) = place(&format!("[files]\nlisting_names = {number}"));
        let told = source.load().expect_err(number).to_string();
        assert!(told.contains("2:17: files.listing_names = "), "{told}");
        assert!(told.ends_with("allowed: a whole number from 1 to 65536"), "{told}");
    }
}

/// Files with one error each, and the text that the message must contain, after the place.
const WRONG: &[(&str, &str)] = &[
    ("lisen = '127.0.0.1:80'", "1:1: lisen: unknown key, did you mean listen?"),
    ("[limits]\nbodies = 1", "2:1: limits.bodies: unknown key; allowed: body, header_count, "),
    ("limits.retry_after = '0 s'", "a time from 1 s to 1 d, such as \"20 s\", \"5 min\"; or \"off\""),
    ("[timeots]", "1:2: timeots: unknown key, did you mean timeouts?"),
    ("[files]\nsmall_file = 1", "2:1: files.small_file: this key belongs to the top of the file, before"),
    ("\nvalidity = '1 s'", "2:1: validity: this key belongs to [files]"),
    ("send = 2", "1:8: send = 2: allowed: non-blocking, blocking"),
    ("[fastcgi]\nbind = 2", "1:2: fastcgi: this build does not have it yet"),
    (
        "[user_threads]\naccepting = 'all'",
        "2:13: user_threads.accepting = 'all': allowed: scheduler, threads",
    ),
    ("architecture = 'pipeline'\nevents = 'poll'", "contradiction: the poll stages of pipeline use epoll"),
    ("architecture = 'pipeline'\nstages = 'four'\nworkers = 2", "is for one CPU; allowed with it: 1"),
    ("stages = 5", "1:10: stages = 5: allowed: four, five"),
    ("controllers = 'on'", "1:15: controllers = 'on': "),
    ("[pipeline]\nresponse_target = '0 ms'", "response_target = '0 ms': allowed: a time from 10 ms to"),
    ("listen = 80", "1:10: listen = 80: a port alone"),
    ("listen = []", "1:10: listen = []: there must be an address"),
    ("listen = '127.0.0.1'", "1:10: listen = '127.0.0.1': the port is missing; allowed: ADDRESS:PORT"),
    ("listen = '127.0.0.1:99999'", "the port is not a number up to 65535"),
    ("listen = 'example.org:80'", "not an IP address"),
    ("listen = ['127.0.0.1:0',\n '[::1]']", "2:2: listen = '[::1]': "),
    (
        "listen = ['127.0.0.1:80', '127.0.0.1:80']",
        "contradiction: 127.0.0.1:80 and 127.0.0.1:80 are the same",
    ),
    ("listen = ['0.0.0.0:80', '127.0.0.1:80']", "contradiction: 0.0.0.0:80 and 127.0.0.1:80 are the same"),
    ("listen = 'unix:'", "must be a path"),
    ("listen = 'unix:no/such/dir'", "there is no directory"),
    ("status = '127.0.0.1:8080'", "contradiction: clients connect to 127.0.0.1:8080"),
    ("status = true", "1:10: status = true: must be text in quotes; or \"off\""),
    ("root = ''", "1:8: root = '': must be a path"),
    ("root = 'nowhere'", "1:8: root = 'nowhere': cannot serve"),
    ("root = 'www/404.html'", "is not a directory"),
    ("listen = 8080", "a port alone; allowed: \":8080\" for all addresses"),
    ("listen = '8080'", "a port alone; allowed: \":8080\" for all addresses"),
    ("architecture = 'uring'\nsend = 'blocking'", "allowed with it: non-blocking"),
    ("architecture = 'uring'\nevents = 'poll'", "contradiction: uring is told what has completed"),
    ("architecture = 'spde'", "architecture = 'spde': no architecture; allowed: sped"),
    ("events = 'poll'\nwake = 'exclusive'", "poll wakes all waiting processes; allowed with it: all"),
    (
        "copies = 2\ncopies_by = 'address'",
        "1:10: copies = 2: 1 addresses can't be divided evenly among 2 copies",
    ),
    ("listen = 'unix:x'\ncopies = 2\ncopies_by = 'port'", "has no port"),
    ("listen = '127.0.0.1:65535'\ncopies = 2\ncopies_by = 'port'", "leaves no 1 ports above it"),
    ("copies = 1024\nworkers = 2\narchitecture = 'symped'", "copies = 1024: at most 1024 processes"),
    (
        "access_log = '/a'\nworkers = 600\narchitecture = 'symped'\n\
         [[sites]]\nhosts = 'a.example'\nroot = '/'\naccess_log = '/b'",
        "at most 1024 threads write access logs, one for each log in each process; 2 logs in 600",
    ),
    ("[placement]\ncpus = ['0', '900']", "CPU 900 is not available"),
    (
        "workers = 2\narchitecture = 'symped'\n[placement]\npartition = true",
        "1 addresses can't be divided evenly among 2 workers",
    ),
    ("architecture = 'n-copy'\nworkers = 2", "n-copy is a single process"),
    ("workers = 2\narchitecture = 'sped'", "1:11: workers = 2: contradiction: sped is a single process"),
    ("workers = 0", "allowed: a whole number from 1 to 1024"),
    ("workers = -1", "workers = -1: allowed: a whole number"),
    ("cpus = '0-'", "cpus = '0-': not a list of CPUs"),
    ("cpus = '1023'", "CPU 1023 is not available; allowed here: "),
    ("cpus = [0]", "cpus = [0]: allowed: numbers and ranges in quotes"),
    ("accept_limit = 0", "allowed: \"inf\", \"auto\", or a whole number from 1"),
    ("accept_limit = 'automatic'", "allowed: \"inf\", \"auto\", or a whole number from 1"),
    ("small_file = '16'\nlisting = 'yes'", "2:11: listing = 'yes': allowed: true, false"),
    ("small_file = '17 MiB'", "small_file = '17 MiB': allowed: a size from 0 to 16 MiB"),
    ("small_file = 1.5", "small_file = 1.5: allowed: a size"),
    ("drain_timeout = 20", "drain_timeout = 20: allowed: a time from 0 ms to 1 d"),
    ("drain_timeout = '20'", "a time needs a unit; allowed: us, ms, s, min, h, d"),
    ("drain_timeout = '1.5 ms'", "drain_timeout = '1.5 ms': allowed: whole milliseconds"),
    ("[timeouts]\nidle = 0", "2:8: timeouts.idle = 0: allowed: a time from 10 ms to 1 d"),
    ("[timeouts]\nidle = '0 s'", "2:8: timeouts.idle = '0 s': allowed: a time from 10 ms to 1 d"),
    ("[limits]\nheader_count = 1001", "limits.header_count = 1001: allowed: a whole number from 1 to 1000"),
    (
        "[limits]\nrequest_line = '64 KiB'",
        "limits.request_line = '64 KiB': contradiction: must not be larger",
    ),
    ("limits = 3", "1:10: limits = 3: must be a table, [limits]"),
    (
        "architecture = 'processes'\nevents = 'poll'",
        "2:10: events = 'poll': contradiction: processes has no event loop; leave this out",
    ),
    (
        "architecture = 'processes'\nsend = 'non-blocking'",
        "2:8: send = 'non-blocking': contradiction: processes waits for each client; \
             allowed with it: blocking",
    ),
    ("group = 'nogroup'", "contradiction: a group needs a user"),
    ("user = 'www data'", "allowed: a name of the system's user"),
    (
        "error_log = 'log'\naccess_log = 'log'",
        "2:14: access_log = 'log': contradiction: this is the error_log",
    ),
    ("access_log = 'no/such/log'", "there is no directory"),
    (
        "access_log = 'OFF'",
        "1:14: access_log = 'OFF': to log no requests, say \"off\"; a file of that name is",
    ),
    ("access_log = 'false'", "to log no requests, say \"off\"; a file of that name is \"./false\""),
    ("access_log = ''", "to log no requests, say \"off\""),
    ("access_log = 'on'", "say where to: a file, \"-\" for standard output, or \"terminal\""),
    ("access_log = 'stderr'", "for standard error name the file /dev/stderr"),
    ("access_log = 'syslog:server=unix:/dev/log'", "syslog is not supported; log to standard output"),
    ("error_log = 'off'", "1:13: error_log = 'off': errors are always reported; log_level = \"error\""),
    ("error_log = 'none'", "errors are always reported"),
    ("error_log = '-'", "for standard output name the file /dev/stdout"),
    ("error_log = 'stdout'", "for standard output name the file /dev/stdout"),
    ("error_log = 'syslog'", "syslog is not supported"),
    ("error_log = 'STDERR'", "allowed: \"stderr\", or a file; a file of that name is \"./STDERR\""),
    ("access_log = 'www'", "www is a directory"),
    ("log_level = 'loud'", "log_level = 'loud': allowed: error, warn, info, debug, trace"),
    ("[files]\nindex = ['a/b']", "2:10: files.index = 'a/b': allowed: file names, without a directory"),
    ("[files]\nsymlinks = 'all'", "allowed: none, beneath, any"),
    ("[types]\n'.md' = 'text/plain'", "types..md = 'text/plain': the key must be an ending in lower case"),
    (
        "[types]\n'wasm..gz' = 'text/plain'",
        "types.wasm..gz = 'text/plain': the key must be an ending in lower",
    ),
    ("[encodings]\n'.gz' = 'gzip'", "encodings..gz = 'gzip': the key must be an ending in lower case"),
    ("[encodings]\n'' = 'gzip'", "the key must be an ending in lower case"),
    ("[encodings]\nGZ = 'gzip'", "the key must be an ending in lower case"),
    ("[encodings]\ngz = 'lzma'", "2:6: encodings.gz = 'lzma': allowed: gzip, br, zstd, off"),
    ("[encodings]\ngz = true", "2:6: encodings.gz = true: must be text in quotes"),
    ("[[headers]]\nset = { Content-Encoding = 'gzip' }", "this field is the server's own; see [encodings]"),
    ("[types]\nmd = 'text'", "2:6: types.md = 'text': allowed: a media type"),
    ("root = 'www'\n[error_pages]\n200 = '/404.html'", "3:7: error_pages.200 = '/404.html': the key must be"),
    ("root = 'www'\n[error_pages]\n404 = '404.html'", "allowed: a path from the root, beginning with /"),
    ("root = 'www'\n[error_pages]\n404 = '/../sluice.toml'", "without empty parts, \".\" and \"..\""),
    ("root = 'www'\n[error_pages]\n404 = '/405.html'", "there is no file www/405.html"),
    ("[headers]\npath = '/**'", "headers = [headers]: must be a list of tables, each under [[headers]]"),
    ("[[headers]]\npath = '/**'", "1:1: headers.set: a rule under [[headers]] needs set or expires"),
    (
        "[[headers]]\npath = '*.css'\nexpires = '1 d'",
        "2:8: headers.path = '*.css': allowed: a pattern for the whole",
    ),
    ("[[headers]]\npath = '/[a'\nexpires = '1 d'", "headers.path = '/[a': "),
    (
        "[[headers]]\nset = { A = \"b\\r\\nC: d\" }",
        "headers.set.A = \"b\\r\\nC: d\": allowed: ASCII without control",
    ),
    ("[[headers]]\nset = { 'A:' = 'b' }", "headers.set.A: = 'b': not a field name"),
    ("[[headers]]\nset = { content-length = '5' }", "this field is the server's own"),
    ("[[headers]]\nset = { Content-Type = 'a/b' }", "this field is the server's own; see [types]"),
    ("[[headers]]\nset = { X = 'a', x = 'b' }", "contradiction: x is set twice"),
    ("[[headers]]\nset.Expires = '0'\nexpires = '1 d'", "3:11: headers.expires = '1 d': contradiction"),
    ("[[routes]]\npath = 'a.css'\nstatus = 404", "2:8: routes.path = 'a.css': allowed: a pattern for the"),
    ("[[routes]]\npath = '**.css'\nstatus = 404", "2:8: routes.path = '**.css': ** is any number of names"),
    ("[[routes]]\npath = '/a/**.php'\nstatus = 404", "** is any number of names, and stands alone between"),
    ("[[routes]]\npath = '/a**b/c'\nstatus = 404", "'/a**b/c': ** is any number of names"),
    ("[[routes]]\npath = '/a/***'\nstatus = 404", "'/a/***': ** is any number of names"),
    ("[[routes]]\npath = '/a/{**,x}.php'\nstatus = 404", "'/a/{**,x}.php': ** is any number of names"),
    ("[[headers]]\npath = '/a**'\nset = { X = 'a' }", "headers.path = '/a**': ** is any number of names"),
    ("[[routes]]\npath = '/a{b'\nstatus = 404", "2:8: routes.path = '/a{b': a { is not closed"),
    ("[[routes]]\npath = '/a}b'\nstatus = 404", "2:8: routes.path = '/a}b': a } closes nothing"),
    ("[[routes]]\npath = '/[b-a]'\nstatus = 404", "'/[b-a]': the range b-a is empty; allowed: a-b"),
    ("[[routes]]\npath = '/[b'\nstatus = 404", "a [ is not closed"),
    ("[[routes]]\npath = '/b\\'\nstatus = 404", "nothing follows the last \\"),
    ("[[headers]]\nsets = { }\nexpires = '1 d'", "2:1: headers.sets: unknown key, did you mean set?"),
    ("[proxies]\nprotocol = ['127.0.0.1:9']", "contradiction: 127.0.0.1:9 is no address of listen"),
    ("[proxies]\nbelieve = 'path'", "2:11: proxies.believe = 'path': allowed: scheme, host, port"),
    (
        "[proxies]\ntrusted = ['10.0.0.1/8']",
        "2:12: proxies.trusted = '10.0.0.1/8': allowed: addresses, networks",
    ),
    ("[routes]\npath = '/**'", "routes = [routes]: must be a list of tables, each under [[routes]]"),
    ("[[routes]]\npath = 'x'\nstatus = 404", "2:8: routes.path = 'x': allowed: a pattern for the whole path"),
    ("[[routes]]\nstatus = 200", "2:10: routes.status = 200: allowed: 400 to 599, and with redirect 301"),
    ("[[routes]]\nstatus = 301", "a redirect needs a target: add redirect = \"/where\""),
    (
        "[[routes]]\nredirect = '/x'\nstatus = 404",
        "3:10: routes.status = 404: not the status of a redirect; allowed",
    ),
    ("[[routes]]\nredirect = '//x'", "2:12: routes.redirect = '//x': allowed: a path or an address"),
    ("[[routes]]\nredirect = '/{host}'", "allowed: a path or an address with http:// or https://"),
    ("[[routes]]\nredirect = '/a b'", "without blanks"),
    (
        "[[routes]]\nredirect = 'https://{path}'",
        "2:12: routes.redirect = 'https://{path}': allowed: a path or",
    ),
    ("[[routes]]\nredirect = 'https://example.org{rest}'", "allowed: a path or an address with http:// or"),
    ("[[routes]]\nredirect = 'https:///x'", "allowed: a path or an address with http:// or https://"),
    ("[[routes]]\npath = '/x'\nredirect = '/{rest}'", "{rest} is what wildcards match, and the path"),
    ("[[routes]]\nfallback = '/../x'", "2:12: routes.fallback = '/../x': allowed: a path from the root wi"),
    (
        "[[routes]]\nfallback = '/x'\nstatus = 404",
        "2:12: routes.fallback = '/x': contradiction: a route answers with another file",
    ),
    (
        "[[routes]]\nstatus = 404\nencoded_slashes = true",
        "3:19: routes.encoded_slashes = true: no file has a slash in its name: it works only with pool",
    ),
    (
        "[[routes]]\nto = '/x'",
        "2:1: routes.to: unknown key; allowed: encoded_slashes, fallback, files_first, ignore_case, path",
    ),
    ("listen = ", "1:10: not TOML: "),
    ("workers = 1\nworkers = 1", "2:1: not TOML: duplicate key"),
    ("backlog = 99999999999999999999", "1:11: "),
];

#[test]
fn what_is_wrong_is_told() {
    for (toml, told) in WRONG {
        let all = problems(toml);
        assert!(all.starts_with("sluice.toml:"), "{toml:?} told: {all}");
        assert!(all.contains(told), "{toml:?} told: {all}");
        assert_eq!(all.lines().count(), 1, "{toml:?} told: {all}");
        assert!(!all.contains("did you mean") || all.ends_with('?'), "{toml:?} told: {all}");
    }
}

#[test]
fn all_problems_are_told_at_once_in_order() {
    let all = problems("[limits]\nbody = 'x'\n[files]\nfoo = 1\n[timeouts]\nidle = 5");
    let places: Vec<_> = all.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(places, ["sluice.toml:2:8:", "sluice.toml:4:1:", "sluice.toml:6:8:"]);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let source = Source { file: Some("/nowhere/sluice.toml".into()), command_line: CommandLine::default() };
    let told = source.load().expect_err("no file").to_string();
    assert_eq!(told, "cannot read /nowhere/sluice.toml: No such file or directory (os error 2)");
}

#[test]
fn a_stack_has_room_for_a_handshake() {
    let told =
        problems("listen_tls = '127.0.0.1:1'\ntls_self_signed = true\n[user_threads]\nstack = '60 KiB'\n");
    let expected = "4:9: user_threads.stack = '60 KiB': a TLS handshake takes up to 32 KiB of it; allowed \
                    with listen_tls: at least 64 KiB";
    assert!(told.contains(expected), "{told}");
}
