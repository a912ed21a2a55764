//! More implementations of TLS: apt, which uses `GnuTLS` in Debian 12, and a program in Go, which uses that
//! of Go. apt also sends many requests before it reads a reply.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::authority::Authority;
use harness::site::{HELLO, LARGE, large, pattern};
use harness::tools::{command, output, stdout, succeed};
use harness::variant::{Test, Variant, tests};
use harness::{eventually, skip};

use crate::https::{Https, setup};

pub(crate) const TESTS: &[Test] = tests![
    Three: apt, go;
];

/// How many packages there are.
const PACKAGES: u64 = 12;

/// Makes a repository of packages.
fn repository(directory: &Path) {
    let repository = directory.join("root/debian");
    fs::create_dir_all(&repository).expect("a directory");
    let index: String = (1..=PACKAGES).map(|number| package(directory, number)).collect();
    fs::write(repository.join("Packages"), &index).expect("a file");
    let (sum, size) = (sha256(&repository, "Packages"), index.len());
    let release = format!("Date: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n {sum} {size} Packages\n");
    fs::write(repository.join("Release"), release).expect("a file");
}

/// Makes a package that contains random bytes. Returns what the index says of it.
fn package(directory: &Path, number: u64) -> String {
    let content = directory.join("content");
    fs::create_dir_all(content.join("DEBIAN")).expect("a directory");
    let control = format!(
        "Package: sample{number}\nVersion: 1.{number}\nArchitecture: all\n\
         Maintainer: tests <test@test>\nDescription: bytes\n"
    );
    fs::write(content.join("DEBIAN/control"), &control).expect("a file");
    fs::write(content.join("bytes"), pattern(number, 200_000)).expect("a file");
    let package = format!("root/debian/sample{number}.deb");
    succeed(directory, "dpkg-deb", &["--root-owner-group", "-Znone", "--build", "content", &package]);
    let size = fs::metadata(directory.join(&package)).expect("a package").len();
    let sum = sha256(directory, &package);
    format!("{control}Filename: ./sample{number}.deb\nSize: {size}\nSHA256: {sum}\n\n")
}

fn sha256(directory: &Path, file: &str) -> String {
    let said = String::from_utf8(succeed(directory, "sha256sum", &[file])).expect("text");
    said.split(' ').next().expect("a sum").to_owned()
}

/// `apt-get`, all of whose files are in a directory of this server.
fn apt_get(https: &Https, arguments: &[&str]) -> Command {
    let at = https.directory().join("apt");
    for directory in ["lists/partial", "cache/archives/partial", "etc/trusted.gpg.d"] {
        fs::create_dir_all(at.join(directory)).expect("a directory");
    }
    fs::write(at.join("status"), "").expect("a file");
    let list = format!("deb [trusted=yes] {} ./\n", https.url("/debian"));
    fs::write(at.join("etc/sources.list"), list).expect("a file");
    let mut apt = command(https.directory(), "apt-get");
    // The system's settings are not read, so its proxies and hooks are not either.
    apt.env("APT_CONFIG", at.join("apt.conf")).args(["--quiet=2", "--yes"]);
    let settings = format!(
        "Dir::Etc \"{at}/etc\";\nDir::Etc::Parts \"none\";\nDir::State \"{at}\";\n\
         Dir::State::Lists \"{at}/lists\";\nDir::State::status \"{at}/status\";\nDir::Cache \"{at}/cache\";\n\
         APT::Sandbox::User \"root\";\nAPT::Architecture \"amd64\";\nAPT::Architectures \"amd64\";\n\
         Acquire::Languages \"none\";\nAcquire::Retries \"0\";\nDebug::NoLocking \"true\";\n\
         #clear Acquire::http;\n#clear Acquire::https;\n",
        at = at.display()
    );
    fs::write(at.join("apt.conf"), settings).expect("a file");
    apt.args(arguments);
    apt
}

/// It fetches an index and packages over few connections, and goes on where it was interrupted.
fn apt(variant: &Variant) {
    if !["apt-get", "dpkg-deb"].iter().all(|tool| is_there(tool)) {
        return skip("apt over TLS: apt-get or dpkg-deb is not installed");
    }
    let setup = setup(variant, &Authority::create(), "");
    let log = setup.directory().join("access.log");
    repository(setup.directory());
    let https = Https::of(setup.argument(format!("--access-log={}", log.display())));
    let trust = format!("Acquire::https::CAInfo={}", https.directory().join("authority.pem").display());

    // It checks the certificate.
    let refused = output(&mut apt_get(&https, &["update", "--error-on=any"]));
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && told.contains("ertificate"), "{refused:?}");

    let opened = https.server.count("connections_opened");
    stdout(&mut apt_get(&https, &["-o", &trust, "update", "--error-on=any"]));
    let names: Vec<String> = (1..=PACKAGES).map(|number| format!("sample{number}")).collect();
    let mut install = vec!["-o", &trust, "--download-only", "install"];
    install.extend(names.iter().map(String::as_str));
    // The first part of a package, from an earlier attempt.
    let package = https.directory().join("root/debian/sample7.deb");
    let part = https.directory().join("apt/cache/archives/partial/sample7_1.7_all.deb");
    let mut install = apt_get(&https, &install);
    fs::write(&part, &fs::read(&package).expect("a package")[..50_000]).expect("a file");
    // It names this time in If-Range.
    let modified = fs::metadata(&package).and_then(|of| of.modified()).expect("a time");
    fs::File::options()
        .append(true)
        .open(&part)
        .and_then(|file| file.set_modified(modified))
        .expect("it is set");
    stdout(&mut install);
    let opened = https.server.count("connections_opened") - opened;
    assert!((1..=4).contains(&opened), "{opened} connections for {PACKAGES} packages and an index");
    for number in 1..=PACKAGES {
        let got = https.directory().join(format!("apt/cache/archives/sample{number}_1.{number}_all.deb"));
        let source = https.directory().join(format!("root/debian/sample{number}.deb"));
        assert!(fs::read(got).expect("a package") == fs::read(source).expect("a package"), "{number}");
    }
    let is_logged = |status: &str, of: &str| {
        let asked = format!("\"GET /debian/./{of} HTTP/1.1\" {status} ");
        fs::read_to_string(&log).unwrap_or_default().contains(&asked)
    };
    eventually("the rest of a package is asked for", || is_logged("206", "sample7.deb"));
    eventually("other packages are asked for as a whole", || is_logged("200", "sample8.deb"));
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// The client in Go, compiled. `None`: there is no compiler.
fn compiled(directory: &Path) -> Option<PathBuf> {
    const SOURCE: &str = include_str!("client.go");
    if !is_there("go") {
        skip("a Go program over TLS: go is not installed");
        return None;
    }
    fs::write(directory.join("client.go"), SOURCE).expect("a file");
    let mut go = command(directory, "go");
    go.args(["build", "-o", "client", "client.go"]);
    // The libraries, compiled, stay for the next test.
    go.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache"));
    go.envs([("GO111MODULE", "off"), ("GOTOOLCHAIN", "local"), ("GOPROXY", "off"), ("CGO_ENABLED", "0")]);
    stdout(&mut go);
    Some(directory.join("client"))
}

/// Keeps connections, resumes sessions, asks for ranges, and speaks no HTTP/2 even if it would like to.
fn go(variant: &Variant) {
    let https = Https::start(variant, "");
    let Some(program) = compiled(https.directory()) else { return };
    fs::write(https.directory().join("expected.bin"), large()).expect("a file");
    for version in ["1.2", "1.3"] {
        let mut client = Command::new(&program);
        client.current_dir(https.directory()).env("GODEBUG", "").args([&https.url(""), version]);
        let told = String::from_utf8(stdout(&mut client)).expect("text");
        let expected = [
            "refused without its authority: true".to_owned(),
            format!("first: 200 {} HTTP/1.1 TLS {version} kept false resumed false", HELLO.len()),
            format!("second: 200 {} HTTP/1.1 TLS {version} kept true resumed false", HELLO.len()),
            format!("large: 200 {LARGE} HTTP/1.1 TLS {version} kept true resumed false"),
            format!("range: 206 1000 HTTP/1.1 TLS {version} kept true resumed false"),
            format!("again: 200 {} HTTP/1.1 TLS {version} kept false resumed true", HELLO.len()),
            format!("refused: 405 - HTTP/1.1 TLS {version} kept - resumed -"),
            format!("at once: 20 of 20, {} bytes", 20 * LARGE),
        ];
        assert_eq!(told.lines().collect::<Vec<_>>(), expected, "TLS {version}");
    }
}
