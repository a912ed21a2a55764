//! git's own server of repositories, behind fcgiwrap: a clone of what was pushed is what was pushed.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::daemon::Daemon;
use harness::server::{Server, Setup};
use harness::site::pattern;
use harness::variant::{Test, Variant, tests};

pub(super) const TESTS: &[Test] = tests![Three: clone_and_push, bodies_as_git_sends_them];

/// A server of the empty repository `/git/project.git`, which everybody may push to.
fn git_site(variant: &Variant) -> (Server, Daemon) {
    let setup = Setup::new(variant);
    let directory = setup.directory().to_owned();
    let repositories = directory.join("repositories");
    let project = repositories.join("project.git");
    git(&directory, &["init", "--quiet", "--bare", "--initial-branch=main", &text(&project)]);
    git(&project, &["config", "http.receivepack", "true"]);
    let socket = directory.join("fcgiwrap.sock");
    let fcgiwrap = Daemon::fcgiwrap(&socket, 3);
    // As docs/applications.md has it.
    let config = format!(
        "[[pools]]\nname = 'cgi'\nservers = ['unix:{}']\nchildren = 3\n\
         params = {{ GIT_PROJECT_ROOT = '{}', GIT_HTTP_EXPORT_ALL = '1' }}\n\
         [[routes]]\npath = '/git/**'\npool = 'cgi'\nprogram = '{}/git-http-backend'\n",
        socket.display(),
        repositories.display(),
        git(&directory, &["--exec-path"]).trim()
    );
    (setup.config(&config).start(), fcgiwrap)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// What git says, who knows nobody's settings.
#[track_caller]
fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(directory)
        .env("HOME", directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_TRACE_CURL", directory.join("trace"))
        .env("GIT_TRACE_CURL_NO_DATA", "1")
        .env_remove("http_proxy")
        .env("no_proxy", "*")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
        .args(arguments)
        .output()
        .expect("git is installed: scripts/install-test-tools");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

/// The heads of requests and replies of git in a directory.
fn heads(directory: &Path) -> String {
    fs::read_to_string(directory.join("trace")).expect("a trace")
}

fn clone_and_push(variant: &Variant) {
    let (server, _fcgiwrap) = git_site(variant);
    let url = format!("http://{}/git/project.git", server.address);
    let work = |name: &str| server.directory().join(name);
    git(server.directory(), &["clone", "--quiet", &url, "first"]);
    fs::write(work("first/file"), "one\n").expect("a file");
    git(&work("first"), &["add", "."]);
    git(&work("first"), &["commit", "--quiet", "--message=one"]);
    git(&work("first"), &["push", "--quiet", "origin", "HEAD:main"]);
    git(server.directory(), &["clone", "--quiet", &url, "second"]);
    assert_eq!(fs::read_to_string(work("second/file")).expect("a file"), "one\n");
    fs::write(work("second/file"), "two\n").expect("a file");
    git(&work("second"), &["commit", "--quiet", "--all", "--message=two"]);
    git(&work("second"), &["push", "--quiet"]);
    git(&work("first"), &["pull", "--quiet", "origin", "main"]);
    assert_eq!(fs::read_to_string(work("first/file")).expect("a file"), "two\n");
    let missing = server.get("/git/none.git/info/refs?service=git-upload-pack");
    assert_eq!(missing.status, 404, "{missing:?}");
    assert_eq!(server.pool_count("failures"), 0);
}

/// In chunks where they are large, compressed where they are long, and held back until they are asked for.
fn bodies_as_git_sends_them(variant: &Variant) {
    let (server, _fcgiwrap) = git_site(variant);
    let url = format!("http://{}/git/project.git", server.address);
    let work = |name: &str| server.directory().join(name);
    let large = pattern(14, 3_000_000);
    git(server.directory(), &["init", "--quiet", "--initial-branch=main", "first"]);
    fs::write(work("first/large"), &large).expect("a file");
    git(&work("first"), &["add", "."]);
    git(&work("first"), &["commit", "--quiet", "--message=large"]);
    for number in 0..25 {
        git(&work("first"), &["commit", "--quiet", "--allow-empty", "--message", &number.to_string()]);
        git(&work("first"), &["branch", &format!("branch-{number}")]);
    }
    let expect = "http.extraHeader=Expect: 100-continue";
    git(&work("first"), &["-c", "http.postBuffer=65536", "-c", expect, "push", "--quiet", "--all", &url]);
    let heads_of_push = heads(&work("first"));
    for line in [
        "=> Send header: Transfer-Encoding: chunked",
        "=> Send header: Expect: 100-continue",
        "<= Recv header: HTTP/1.1 100 Continue",
    ] {
        assert!(heads_of_push.contains(line), "{heads_of_push}");
    }
    git(server.directory(), &["clone", "--quiet", &url, "second"]);
    let heads_of_clone = heads(server.directory());
    assert!(heads_of_clone.contains("=> Send header: Content-Encoding: gzip"), "{heads_of_clone}");
    assert!(fs::read(work("second/large")).expect("a file") == large);
    let branches = git(&work("second"), &["branch", "--remotes"]);
    assert_eq!(branches.matches("branch-").count(), 25, "{branches}");
    assert_eq!(server.pool_count("failures"), 0);
}
