//! What scripts rely on: exit codes, and what goes to which stream.

use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn sluice(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.current_dir(directory).args(arguments).stdin(Stdio::null()).output().expect("the command runs")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("text")
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).expect("text")
}

/// What is told but that root is root.
fn told(output: &Output) -> String {
    let lines = stderr(output).lines().filter(|line| !line.starts_with(ROOT));
    lines.collect::<Vec<_>>().join("\n")
}

const ROOT: &str = "sluice: warning: user: not set, and root starts the server";

#[test]
fn check_prints_settings_that_mean_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = sluice(dir.path(), &["check", "--listen=127.0.0.1:0", "--small-file=2 KB", "--listing"]);
    assert_eq!((first.status.code(), told(&first)), (Some(0), String::new()));
    assert!(stdout(&first).contains("small_file = 2000\n"));
    fs::write(dir.path().join("sluice.toml"), &first.stdout).expect("a file");
    let second =
        sluice(Path::new("/"), &["check", "--config", &dir.path().join("sluice.toml").to_string_lossy()]);
    assert_eq!((second.status.code(), stdout(&second)), (Some(0), stdout(&first)));
    let quiet = sluice(dir.path(), &["check", "--quiet", "--config", "sluice.toml"]);
    assert_eq!((quiet.status.code(), stdout(&quiet), told(&quiet)), (Some(0), "", String::new()));
}

#[test]
fn short_forms_of_addresses() {
    let dir = tempfile::tempdir().expect("a directory");
    let listens = |argument: &str| {
        let output = sluice(dir.path(), &["check", argument]);
        assert_eq!(output.status.code(), Some(0), "{argument}: {}", stderr(&output));
        stdout(&output).lines().find(|line| line.starts_with("listen = ")).expect("a line").to_owned()
    };
    assert_eq!(listens("--port=8000"), "listen = [\"127.0.0.1:8000\"]");
    assert!(listens("--listen=:8000").starts_with("listen = [\"0.0.0.0:8000\""));
    assert!(listens("--listen=localhost:8000").starts_with("listen = [\"127.0.0.1:8000\""));
    let both = sluice(dir.path(), &["check", "--port=8000", "--listen=:8001"]);
    assert_eq!(both.status.code(), Some(2), "{}", stderr(&both));
}

#[test]
fn check_says_how_descriptors_are_shared_out() {
    let sluice = env!("CARGO_BIN_EXE_sluice");
    let check = |options: &str| {
        let line = format!("ulimit -n 1024; {sluice} check {options}");
        let output = Command::new("/bin/sh").args(["-c", &line]).current_dir("/tmp").output();
        stdout(&output.expect("the command runs")).lines().last().map(str::to_owned)
    };
    let told = [
        ("--architecture=sped", "480 connections of each worker, and for 480 files"),
        ("--architecture=sped --max-connections=100", "100 connections of each worker, and for 860 files"),
        (
            "--architecture=sped --max-connections=500",
            "480 connections of each worker (max_connections asks for more)",
        ),
        ("--architecture=threads --workers=20", "1 connections of each thread, and for 39 files"),
    ];
    for (options, told) in told {
        let line = check(options).expect("a line");
        assert!(
            line.starts_with("# 1024 descriptors for each process: room for ") && line.contains(told),
            "{line}"
        );
    }
}

#[test]
fn a_limit_that_leaves_next_to_nothing_is_told() {
    let line =
        format!("ulimit -n 64; {} check --listen=127.0.0.1:0 --workers=2", env!("CARGO_BIN_EXE_sluice"));
    let output = Command::new("/bin/sh").args(["-c", &line]).current_dir("/tmp").output().expect("it runs");
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).trim_end().ends_with(": 2 connections in all"), "{}", stdout(&output));
    let warning = "sluice: warning: the limit of 64 descriptors leaves room for only 2 ";
    assert!(told(&output).starts_with(warning));
}

/// What can't be served is told by both, with the same exit code where it is the configuration's.
#[test]
fn check_finds_what_serve_would() {
    let dir = tempfile::tempdir().expect("a directory");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = taken.local_addr().expect("an address");
    let listen = format!("--listen={address}");
    for (arguments, told, codes) in [
        (&["--access-log=none/access.log"][..], "none", [2, 2]),
        (&["--error-log=none/error.log"], "none", [2, 2]),
        (&["--access-log=."], "directory", [2, 2]),
        (&["--error-log=."], "directory", [2, 2]),
        (&["--listen=192.0.2.1:8080"], "192.0.2.1:8080", [2, 1]),
        (&["--listen=unix:none/socket"], "none", [2, 2]),
        (&["--status=unix:none/socket"], "none", [2, 2]),
        (&["--status=unix:status", &listen], "in use", [0, 1]),
        (&[&listen], "in use", [0, 1]),
    ] {
        for (command, code) in ["check", "serve"].into_iter().zip(codes) {
            let mut all = vec![command];
            if !arguments[0].starts_with("--listen") && arguments.len() < 2 {
                all.push("--listen=127.0.0.1:0");
            }
            all.extend(arguments);
            let output = sluice(dir.path(), &all);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(code), "{all:?}: {said}");
            assert!(said.contains(told) || stdout(&output).contains(told), "{all:?}: {said}");
        }
    }
    // It may be this configuration's own server that has the address: only a status could tell.
    let note = format!("\n# cannot listen on {address}: ");
    let check = sluice(dir.path(), &["check", &listen, "--access-log=access.log"]);
    assert!(stdout(&check).contains(&note) && told(&check).is_empty(), "{check:?}");
    let quiet = sluice(dir.path(), &["check", "--quiet", &listen, "--access-log=access.log"]);
    assert_eq!((quiet.status.code(), stdout(&quiet), told(&quiet)), (Some(0), "", String::new()));
    let status = "--status=unix:status";
    let quiet = sluice(dir.path(), &["check", "--quiet", status, &listen, "--access-log=access.log"]);
    let warning = format!("sluice: warning: cannot listen on {address}: ");
    assert!(quiet.status.code() == Some(0) && told(&quiet).starts_with(&warning), "{}", stderr(&quiet));
    let left: Vec<_> = fs::read_dir(dir.path()).expect("a directory").collect();
    assert!(left.is_empty(), "nothing is made: {left:?}");
}

#[test]
fn what_is_hardly_meant_is_told_and_no_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = "listen = '127.0.0.1:0'\nphp = 'unix:none'\n[[routes]]\npath = '/a/**'\nredirect = '/a/x'\n\
        [[routes]]\npath = '/a/b'\nfallback = '/none.html'\n";
    fs::write(dir.path().join("sluice.toml"), config).expect("a file");
    for arguments in
        [&["check", "--quiet", "--config", "sluice.toml"][..], &["check", "--config", "sluice.toml"]]
    {
        let output = sluice(dir.path(), arguments);
        let told = told(&output);
        let expected = [
            "sluice.toml:2:7: php = 'unix:none': there is no socket ",
            "sluice.toml:4:8: routes.path = '/a/**': this redirect leads back to its own route: ",
            "sluice.toml:7:8: routes.path = '/a/b': no request reaches this route: the one at line 4, ",
            "sluice.toml:8:12: routes.fallback = '/none.html': there is no file ",
            "root: not set, so that the files of ",
        ];
        assert_eq!((output.status.code(), told.lines().count()), (Some(0), expected.len()), "{told}");
        for (line, expected) in told.lines().zip(expected) {
            assert!(line.starts_with(&format!("sluice: warning: {expected}")), "{line}");
        }
    }
}

/// As whoever the settings say: this takes root.
#[test]
fn what_the_user_may_not_reach_is_told() {
    if !rustix::process::geteuid().is_root() {
        harness::skip("what the configured user may not reach: only root can become another user");
        return;
    }
    let open_to = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
    };
    let dir = tempfile::tempdir().expect("a directory");
    open_to(dir.path(), 0o755);
    fs::create_dir(dir.path().join("root")).expect("a directory");
    let socket = dir.path().join("socket");
    let _application = UnixListener::bind(&socket).expect("a socket");
    open_to(&socket, 0o600);
    let arguments = ["--listen=127.0.0.1:0", "--php=unix:socket", "root"];
    let check = |user| sluice(dir.path(), &[&["check", "--quiet", user], &arguments[..]].concat());
    let output = check("--user=nobody");
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), ""));
    let may_not = format!("nobody may not connect to {} (Permission denied", socket.display());
    assert!(stderr(&output).contains(&may_not), "{}", stderr(&output));
    open_to(&socket, 0o666);
    let output = check("--user=nobody");
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    open_to(&dir.path().join("root"), 0o700);
    for command in ["check", "serve"] {
        let output = sluice(dir.path(), &[&[command, "--user=nobody"], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).starts_with("sluice: can't open the directory "), "{}", stderr(&output));
    }
    let output = check("--log-level=info");
    assert!(output.status.code() == Some(0) && stderr(&output).starts_with(ROOT), "{}", stderr(&output));
}

#[test]
fn no_name_of_a_configuration_misleads_a_terminal() {
    let dir = tempfile::tempdir().expect("a directory");
    let odd = "\u{1b}[2J\u{202e}\nsluice: fine";
    let url = format!("/{odd}");
    for arguments in [&["serve", odd][..], &["check", "--config", odd], &["check", "--url", &url]] {
        let output = sluice(dir.path(), arguments);
        let said = [stdout(&output), &told(&output)].concat();
        assert!(!said.contains(['\u{1b}', '\u{202e}']), "{said:?}");
        assert!(said.contains("\\u{1b}[2J\\u{202e}"), "{said:?}");
        assert!(!said.lines().any(|line| line.starts_with("sluice: fine")), "{said:?}");
    }
}

#[test]
fn the_route_of_a_url_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let routes = "[[routes]]\npath = '/old/**'\nredirect = '/new/{rest}'\nstatus = 301\n\
        [[routes]]\npath = '/gone'\nstatus = 410\n\
        [[routes]]\npath = '/app/**'\nfallback = '/index.html'\n\
        [[routes]]\npath = '**/*.txt'\n[encodings]\n'wasm.gz' = 'gzip'\n";
    fs::write(dir.path().join("sluice.toml"), routes).expect("a file");
    for (url, told) in [
        ("/old/x?y=z", "route 1 (/old/**): 301 to /new/x?y=z"),
        ("http://example.org/a/..//gone", "route 2 (/gone): 410 Gone"),
        (
            "/app/p%61ge.svgz",
            "route 3 (/app/**): the file /app/page.svgz, or if there is none /index.html\n\
             its Content-Type: image/svg+xml, Content-Encoding: gzip",
        ),
        ("/a.txt", "route 4 (**/*.txt): the file /a.txt\nits Content-Type: text/plain; charset=utf-8"),
        (
            "/a.wasm.gz",
            "no route matches: the file /a.wasm.gz\n\
             its Content-Type: application/wasm, Content-Encoding: gzip",
        ),
        ("https://example.org", "no route matches: the file /"),
        ("/.git/config", "404: a name in it begins with a dot"),
    ] {
        let output = sluice(dir.path(), &["check", "--config=sluice.toml", "--url", url]);
        assert_eq!((output.status.code(), stdout(&output).trim_end()), (Some(0), told), "{url}");
    }
}

#[test]
fn a_pattern_that_is_too_large_is_an_error_and_no_panic() {
    let dir = tempfile::tempdir().expect("a directory");
    let alternatives: Vec<_> = (0..20_000).map(|number| format!("dir-{number}")).collect();
    let patterns = [
        format!("/{{{}}}/**", alternatives.join(",")),
        format!("/{}a{}", "{".repeat(126), "}".repeat(126)),
        format!("/{}", "?".repeat(150_000)),
    ];
    for (rule, key) in [("routes", "path"), ("headers", "path"), ("headers", "media_type")] {
        for pattern in &patterns {
            let text = format!("[[{rule}]]\n{key} = \"{pattern}\"\nset = {{ X-A = \"1\" }}\n");
            let text =
                if rule == "routes" { text.replace("set = { X-A = \"1\" }", "status = 404") } else { text };
            fs::write(dir.path().join("sluice.toml"), text).expect("a file");
            for more in [&[][..], &["--url", "/dir-1/"]] {
                let check = ["check", "--config", "sluice.toml", "--port=0"];
                let output = sluice(dir.path(), &[&check[..], more].concat());
                let told = stderr(&output);
                assert_eq!(output.status.code(), Some(2), "{rule}.{key}: {told}");
                assert!(told.contains("sluice.toml:2:") && told.contains("allowed: "), "{told}");
                assert!(told.len() < 400 && told.contains(&format!("{rule}.{key} = \"/")), "{told}");
            }
        }
    }
}

#[test]
fn a_path_that_takes_too_long_to_match_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let route =
        |number| format!("[[routes]]\npath = \"/**/*x*{number}*/**/Q\"\nignore_case = true\nstatus = 410\n");
    let routes: String = (0..1000).map(route).collect();
    fs::write(dir.path().join("sluice.toml"), routes).expect("a file");
    let names = "/x9".repeat(1300);
    let told = |path: &str| {
        let output = sluice(dir.path(), &["check", "--config", "sluice.toml", "--port=0", "--url", path]);
        stdout(&output).to_owned()
    };
    assert!(told(&names).contains("414 URI Too Long"), "{}", told(&names));
    assert!(told("/a/X77/q").contains("route 8 (/**/*x*7*/**/Q): 410 Gone"), "{}", told("/a/X77/q"));
}

#[test]
fn whatever_is_wrong_with_usage_or_configuration_ends_with_2_and_prints_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("sluice.toml"), "worker = 1\n[limits]\nbody = '1 XB'\n").expect("a file");
    let cases: [(&[&str], &str); 7] = [
        (&[], "Usage: sluice <COMMAND>"),
        (&["frobnicate"], "unrecognized subcommand 'frobnicate'"),
        (&["serve", "--frobnicate"], "unexpected argument '--frobnicate'"),
        (
            &["serve", "--architecture", "sped", "--workers", "2"],
            "sluice: --workers '2': contradiction: sped is a single process",
        ),
        (&["serve", "nowhere"], "sluice: DIR 'nowhere': cannot serve "),
        (
            &["check", "--config", "sluice.toml"],
            "sluice: sluice.toml:1:1: worker: unknown key, did you mean workers?",
        ),
        (
            &["check", "--config", "nothing.toml"],
            "sluice: cannot read nothing.toml: No such file or directory",
        ),
    ];
    for (arguments, told) in cases {
        let output = sluice(dir.path(), arguments);
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""), "{arguments:?}");
        assert!(stderr(&output).contains(told), "{arguments:?} told: {}", stderr(&output));
    }
    let all = sluice(dir.path(), &["check", "--config", "sluice.toml"]);
    assert_eq!(stderr(&all).lines().count(), 2, "all problems are told: {}", stderr(&all));
}

#[test]
fn the_directory_of_a_daemon_is_not_served_by_accident() {
    let output = sluice(Path::new("/"), &["check"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("sluice: root: not set, and the current directory is /"));
    assert_eq!(sluice(Path::new("/"), &["check", "/"]).status.code(), Some(0), "but it is on purpose");
}

#[test]
fn status_of_nobody_is_a_failure() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = sluice(dir.path(), &["status", "unix:nobody"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), ""));
    assert!(stderr(&output).starts_with("sluice: no status from unix:"), "{}", stderr(&output));
}

#[test]
fn architectures_names_every_one() {
    let output = sluice(Path::new("/"), &["architectures"]);
    assert_eq!(output.status.code(), Some(0));
    let all = [
        "sped",
        "symped",
        "shared-symped",
        "n-copy",
        "amped",
        "processes",
        "threads",
        "pipeline",
        "user-threads",
        "uring",
    ];
    for name in all {
        assert!(stdout(&output).lines().any(|line| line.split(' ').next() == Some(name)), "{name}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(["architectures"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command runs");
    drop(child.stdout.take());
    let mut told = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut told).expect("text");
    assert_eq!((child.wait().expect("an end").code(), told.as_str()), (Some(0), ""));
}
