//! Real clients: curl, wget, git, and a browser. `tls` has them over TLS.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use harness::server::{Server, Setup};
use harness::site::{LARGE, large, pattern};
use harness::tools::{HOW_TO_GET, command, output, succeed};
use harness::variant::{Test, Variant, tests};
use harness::{Random, eventually};

const TESTS: &[Test] = tests![
    Each: curl_uploads_in_vain, curl_in_parallel;
    Three:
        curl_ranges,
        curl_resumes,
        curl_head,
        curl_compressed,
        curl_keeps_alive,
        wget_mirrors_a_tree,
        git_clones,
        browser_loads_a_page,
        browser_seeks_in_a_sound;
];

fn main() -> ExitCode {
    harness::variant::run(&[("clients", TESTS)])
}

fn url(server: &Server, path: &str) -> String {
    format!("http://{}{path}", server.address)
}

#[track_caller]
fn curl(server: &Server, arguments: &[&str], path: &str) -> Vec<u8> {
    let url = url(server, path);
    let common = ["-q", "--silent", "--show-error", "--fail", "--max-time", "20"];
    succeed(server.directory(), "curl", &[&common, arguments, &[&url]].concat())
}

fn curl_ranges(variant: &Variant) {
    let server = Server::start(variant);
    let content = large();
    assert!(curl(&server, &["--range", "1000-1999"], "/large.bin") == content[1000..2000]);
    assert!(curl(&server, &["--range", "-100"], "/large.bin") == content[LARGE - 100..]);
    let parts = curl(&server, &["--range", "0-9,1000-1009", "--include"], "/large.bin");
    let text = String::from_utf8_lossy(&parts);
    assert!(text.contains("multipart/byteranges") && text.contains("bytes 1000-1009/300000"), "{text}");
}

fn curl_resumes(variant: &Variant) {
    let server = Server::start(variant);
    let part = server.directory().join("part");
    fs::write(&part, &large()[..123_456]).expect("a file");
    curl(&server, &["--continue-at", "-", "--output", "part"], "/large.bin");
    assert!(fs::read(&part).expect("a file") == large());
}

fn curl_head(variant: &Variant) {
    let server = Server::start(variant);
    let text = String::from_utf8(curl(&server, &["--head"], "/large.bin")).expect("text");
    assert!(text.starts_with("HTTP/1.1 200 ") && text.contains("Content-Length: 300000\r\n"), "{text}");
}

/// The sibling is a real file of gzip, and curl reads it.
fn curl_compressed(variant: &Variant) {
    let text = "all work and no play\n".repeat(5000);
    let server = Setup::new(variant).file("a.txt", &text).start();
    succeed(&server.root(), "gzip", &["--keep", "a.txt"]);
    assert!(curl(&server, &["--compressed"], "/a.txt") == text.as_bytes());
    let size = curl(
        &server,
        &["--compressed", "--output", "/dev/null", "--write-out", "%{size_download}"],
        "/a.txt",
    );
    let size: usize = String::from_utf8(size).expect("text").parse().expect("a number");
    assert!(size < text.len() / 10, "{size}");
    assert!(curl(&server, &[], "/a.txt") == text.as_bytes());
}

fn curl_keeps_alive(variant: &Variant) {
    let server = Server::start(variant);
    let (hello, big) = (url(&server, "/hello.txt"), url(&server, "/large.bin"));
    let connects = curl(
        &server,
        &[
            "--write-out",
            "%{num_connects} ",
            "-o",
            "/dev/null",
            "-o",
            "/dev/null",
            "-o",
            "/dev/null",
            &hello,
            &big,
        ],
        "/dir/",
    );
    assert_eq!(String::from_utf8_lossy(&connects), "1 0 0 ");
}

fn curl_uploads_in_vain(variant: &Variant) {
    let server = Server::start(variant);
    let arguments =
        ["--upload-file", "root/large.bin", "--write-out", "%{http_code}", "--max-time", "20", "-q", "-s"];
    for expect in ["Expect: 100-continue", "Expect:"] {
        let url = url(&server, "/new.bin");
        let mut curl = command(server.directory(), "curl");
        let output = output(curl.args(arguments).args(["--header", expect, &url]));
        assert!(String::from_utf8_lossy(&output.stdout).ends_with("405"), "{expect} {output:?}");
    }
    assert!(!server.root().join("new.bin").exists());
}

fn curl_in_parallel(variant: &Variant) {
    let server = Server::start(variant);
    let all = url(&server, "/large.bin?[1-100]");
    let codes = succeed(
        server.directory(),
        "curl",
        &["-q", "-s", "-Z", "--max-time", "30", "-o", "got-#1", "-w", "%{http_code}\n", &all],
    );
    assert_eq!(String::from_utf8_lossy(&codes), "200\n".repeat(100));
    let content = large();
    for number in 1..=100 {
        assert!(
            fs::read(server.directory().join(format!("got-{number}"))).expect("a file") == content,
            "{number}"
        );
    }
}

/// A tree of pages that link to each other and to files of all sizes comes back as it was.
fn wget_mirrors_a_tree(variant: &Variant) {
    let mut setup = Setup::new(variant);
    let mut random = Random(11);
    let mut top = String::from("<!DOCTYPE html><title>top</title>\n");
    for section in 0..10 {
        let mut page = format!("<!DOCTYPE html><title>section {section}</title>\n<a href=\"../\">up</a>\n");
        for number in 0..15 {
            let name = format!("file {number} of {section}.bin");
            let size = [0, 1, 700, 16_384, 16_385, 150_000][random.below(6)];
            setup = setup.file(&format!("tree/s{section}/{name}"), pattern(random.draw(), size));
            page += &link(&name.replace(' ', "%20"), &name);
        }
        setup = setup.file(&format!("tree/s{section}/index.html"), page);
        top += &link(&format!("s{section}/"), "a section");
    }
    let server = setup.file("tree/index.html", top).start();
    let address = url(&server, "/tree/");
    let arguments =
        ["--recursive", "--level=inf", "--no-parent", "--no-host-directories", "--quiet", "--tries=1"];
    let options =
        ["--no-config", "-e", "robots=off", "--timeout=20", "--directory-prefix=mirror", address.as_str()];
    succeed(server.directory(), "wget", &[&arguments[..], &options].concat());
    succeed(server.directory(), "diff", &["-r", "root/tree", "mirror/tree"]);
}

fn link(to: &str, text: &str) -> String {
    format!("<a href=\"{to}\">{text}</a>\n")
}

/// Dumb HTTP: git fetches the files of a repository as they are.
fn git_clones(variant: &Variant) {
    let setup = Setup::new(variant);
    let directory = setup.directory().to_owned();
    let source = directory.join("source");
    fs::create_dir(&source).expect("a directory");
    let git = |at: &Path, arguments: &[&str]| {
        let who = ["-c", "user.name=test", "-c", "user.email=test@test", "-c", "init.defaultBranch=main"];
        succeed(at, "git", &[&who, arguments].concat())
    };
    git(&source, &["init", "--quiet"]);
    for commit in 0..5 {
        for file in 0..20 {
            fs::write(source.join(format!("{file}.bin")), pattern(commit * 100 + file, 3000))
                .expect("a file");
        }
        git(&source, &["add", "."]);
        git(&source, &["commit", "--quiet", "--message", &format!("commit {commit}")]);
    }
    git(&directory, &["clone", "--quiet", "--bare", "source", "root/packed.git"]);
    git(&directory, &["clone", "--quiet", "--bare", "source", "root/loose.git"]);
    let (packed, loose) = (directory.join("root/packed.git"), directory.join("root/loose.git"));
    git(&packed, &["repack", "-a", "-d", "--quiet"]);
    for pack in fs::read_dir(loose.join("objects/pack")).expect("a directory").flatten() {
        // Unpacking what the repository has is done by moving the pack out of it first.
        let moved = directory.join(pack.file_name());
        fs::rename(pack.path(), &moved).expect("a pack");
        if moved.extension().is_some_and(|extension| extension == "pack") {
            succeed(&loose, "sh", &["-c", &format!("git unpack-objects -q < '{}'", moved.display())]);
        }
    }
    git(&packed, &["update-server-info"]);
    git(&loose, &["update-server-info"]);
    let server = setup.start();
    for name in ["packed", "loose"] {
        git(
            &directory,
            &["clone", "--quiet", &url(&server, &format!("/{name}.git")), &format!("clone-{name}")],
        );
        git(&directory.join(format!("clone-{name}")), &["fsck", "--strict"]);
        succeed(&directory, "diff", &["-r", "--exclude=.git", "source", &format!("clone-{name}")]);
    }
}

/// A browser without a window, with a fresh profile, that keeps to itself.
fn browser(server: &Server, path: &str) -> Command {
    let mut command = command(server.directory(), "chromium");
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--no-proxy-server",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]);
    command.arg(format!("--user-data-dir={}", server.directory().join("profile").display()));
    command.arg(url(server, path));
    command
}

/// A page with everything that pages are made of, whose script tells what has arrived.
fn browser_loads_a_page(variant: &Variant) {
    // One transparent pixel.
    let gif =
        b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\0\0\0!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
    let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"7\" height=\"5\">\
        <rect width=\"7\" height=\"5\"/></svg>";
    let script = r#"
        window.addEventListener("load", async () => {
            const told = {};
            told.style = getComputedStyle(document.body).color;
            told.svg = document.getElementById("svg").naturalWidth;
            told.gif = document.getElementById("gif").complete && document.getElementById("gif").naturalWidth;
            const data = await fetch("data.json");
            told.data = data.headers.get("Content-Type") + " " + (await data.json()).answer;
            const large = await (await fetch("large.bin")).arrayBuffer();
            told.large = large.byteLength;
            told.module = (await import("./module.mjs")).name;
            told.missing = (await fetch("missing")).status;
            document.title = JSON.stringify(told);
        });
    "#;
    let page = "<!DOCTYPE html><html><head><title>waiting</title><link rel=stylesheet href=style.css>\
        <script src=script.js></script></head>\
        <body><img id=svg src=a.svg><img id=gif src=a.gif></body></html>";
    let setup = Setup::new(variant)
        .file("app/index.html", page)
        .file("app/style.css", "body { color: rgb(1, 2, 3) }");
    let setup = setup.file("app/script.js", script).file("app/a.svg", svg).file("app/a.gif", gif);
    let setup = setup
        .file("app/data.json", "{\"answer\": 42}")
        .file("app/module.mjs", "export const name = 'module';");
    let server = setup.file("app/large.bin", large()).start();
    // It waits for the network as long as it takes, and no longer for anything else.
    let mut browser = browser(&server, "/app/");
    let output = output(browser.args(["--virtual-time-budget=10000", "--dump-dom"]));
    let text = String::from_utf8(output.stdout).expect("text");
    for told in [
        "\"style\":\"rgb(1, 2, 3)\"",
        "\"svg\":7",
        "\"gif\":1",
        "\"data\":\"application/json 42\"",
        "\"large\":300000",
        "\"module\":\"module\"",
        "\"missing\":404",
    ] {
        assert!(text.contains(told), "{told} is not in {text}");
    }
}

/// A sound of a minute: silence, 16 bits, 44,100 a second.
fn wav() -> Vec<u8> {
    let (rate, seconds) = (44_100_u32, 60);
    let size = rate * seconds * 2;
    let mut bytes = Vec::with_capacity(size as usize + 44);
    bytes.extend_from_slice(b"RIFF");
    bytes.extend_from_slice(&(size + 36).to_le_bytes());
    bytes.extend_from_slice(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    bytes.extend_from_slice(&rate.to_le_bytes());
    bytes.extend_from_slice(&(rate * 2).to_le_bytes());
    bytes.extend_from_slice(b"\x02\0\x10\0data");
    bytes.extend_from_slice(&size.to_le_bytes());
    bytes.resize(size as usize + 44, 0);
    bytes
}

/// Jumping to the end of a sound asks for its end alone. The page has the last word: it asks for what it has
/// to tell, as a browser in a hurry to print the page would not wait for sounds.
fn browser_seeks_in_a_sound(variant: &Variant) {
    let page = r#"<!DOCTYPE html><audio id=sound preload=metadata src=sound.wav></audio><script>
        const sound = document.getElementById("sound");
        const tell = (text) => { fetch("told?" + encodeURIComponent(text)); };
        sound.addEventListener("error", () => tell("error " + sound.error.message));
        sound.addEventListener("loadedmetadata", () => { sound.currentTime = 55; });
        const place = () => sound.currentTime + " of " + sound.duration;
        sound.addEventListener("seeked", () => tell("seeked to " + place()));
        </script>"#;
    let setup = Setup::new(variant).file("sound.html", page).file("sound.wav", wav());
    let log = setup.directory().join("access.log");
    let server = setup.argument(format!("--access-log={}", log.display())).start();
    let mut browser = browser(&server, "/sound.html");
    let browser =
        browser.args(["--remote-debugging-port=0"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let browser = Killed(browser.unwrap_or_else(|error| panic!("chromium: {error}; {HOW_TO_GET}")));
    let read = || fs::read_to_string(&log).unwrap_or_default();
    eventually("the page has told", || read().contains("/told?"));
    drop(browser);
    // A reply that the browser broke off is logged by whoever sends it, and that may be later than the page
    // tells.
    let parts = || read().lines().filter(|line| line.contains("\"GET /sound.wav HTTP/1.1\" 206 ")).count();
    eventually("both parts are logged, the beginning and the end", || parts() >= 2);
    let log = read();
    assert!(log.contains("/told?seeked%20to%2055%20of%2060 "), "{log}");
    eventually("the browser's connections are gone", || server.count("connections/writing") == 0);
}

/// A process that ends with its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
