//! The pages that people see, in a real browser: the landing page, a report, a listing, an error page and
//! the status page. On a phone and on a wide screen, light and dark, no page scrolls sideways, no text lies
//! over another or is cut, and every text stands out from its background. The pictures stay in the target
//! directory, below `tmp/screens`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::browser::Browser;
use harness::server::Setup;
use harness::variant::VARIANTS;
use harness::workspace::root;

/// What is wrong with the page as it is laid out, a sentence each.
const FAULTS: &str = r#"
(() => {
  const faults = [], page = document.documentElement;
  if (page.scrollWidth > innerWidth) faults.push(`it scrolls sideways: ${page.scrollWidth} of ${innerWidth}`);
  for (const image of document.images)
    if (!image.complete || !image.naturalWidth) faults.push(`no picture ${image.src}`);
    else if (!image.alt) faults.push(`no text for ${image.src}`);

  // Mixed colours are parts of 1, others of 255.
  const channels = color => {
    const [r, g, b, ...alpha] = color.match(/[\d.]+/g).map(Number);
    return color.startsWith("color(") ? [r * 255, g * 255, b * 255, ...alpha] : [r, g, b, ...alpha];
  };
  const luminance = color => {
    const [r, g, b] = channels(color).map(value => value / 255)
      .map(value => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  // What the browser paints below a page of its scheme.
  const probe = document.createElement("div");
  probe.style.background = "Canvas";
  document.body.append(probe);
  const canvas = getComputedStyle(probe).backgroundColor;
  probe.remove();
  // The colour behind an element; none if that is a picture.
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at), [, , , alpha = 1] = channels(style.backgroundColor);
      if (style.backgroundImage !== "none") return null;
      if (alpha > 0.5) return style.backgroundColor;
    }
    return canvas;
  };

  // Where each text is. What a box cuts off or scrolls is not seen there.
  const texts = [], range = new Range();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, element = text.parentElement;
    if (!text.data.trim() || ["STYLE", "SCRIPT", "title"].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    range.selectNodeContents(text);
    const boxes = [...range.getClientRects()].filter(box => box.width > 2 && box.height > 2);
    const said = text.data.trim().slice(0, 40);
    let clip = null;
    for (let at = element; at && !clip; at = at.parentElement)
      if (getComputedStyle(at).overflowX !== "visible" && at !== page && at !== document.body) clip = at;
    const frame = clip && clip.getBoundingClientRect();
    for (const box of boxes) {
      const left = frame ? Math.max(box.left, frame.left) : box.left;
      const right = frame ? Math.min(box.right, frame.right) : box.right;
      if (right - left < 2) continue;
      const scrolls = clip && ["auto", "scroll"].includes(getComputedStyle(clip).overflowX);
      if (clip && !scrolls && box.right > frame.right + 1) faults.push(`"${said}" is cut`);
      texts.push({ said, text, top: box.top, bottom: box.bottom, left, right });
    }
    const color = element.ownerSVGElement ? style.fill : style.color, below = behind(element);
    if (boxes.length && below && color !== "none") {
      const [light, dim] = [luminance(color), luminance(below)].sort((a, b) => b - a);
      const size = parseFloat(style.fontSize), bold = style.fontWeight >= 600;
      const contrast = (light + 0.05) / (dim + 0.05), least = size >= 24 || bold && size >= 18.6 ? 3 : 4.5;
      if (contrast < least) faults.push(`"${said}" has a contrast of ${contrast.toFixed(2)}`);
    }
  }
  texts.sort((a, b) => a.top - b.top);
  texts.forEach((one, number) => {
    for (let next = number + 1; next < texts.length && texts[next].top < one.bottom; next += 1) {
      const other = texts[next];
      if (other.text === one.text) continue;
      const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const down = Math.min(one.bottom, other.bottom) - other.top;
      // Boxes of lines may touch; letters don't.
      if (across > 2 && down > 0.35 * Math.min(one.bottom - one.top, other.bottom - other.top))
        faults.push(`"${one.said}" lies over "${other.said}"`);
    }
  });
  return [...new Set(faults)];
})()
"#;

/// Looks at pages on all screens, and fails with all that is wrong with any of them.
fn look_at(pages: &[(&str, String)]) {
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("screens");
    fs::create_dir_all(&pictures).expect("a directory");
    let files = tempfile::tempdir().expect("a directory");
    let mut browser = Browser::start(files.path());
    let mut faults = Vec::new();
    for (name, url) in pages {
        for (width, is_dark) in [(360, false), (360, true), (1280, false), (1280, true)] {
            let screen = format!("{name}-{width}-{}", if is_dark { "dark" } else { "light" });
            browser.screen(width, is_dark);
            browser.open(url);
            let found = browser.evaluate(FAULTS);
            let found = found.as_array().expect("a list").iter();
            faults.extend(found.map(|fault| format!("{screen}: {}", fault.as_str().unwrap_or_default())));
            browser.picture(&pictures.join(screen + ".png"));
        }
    }
    assert!(faults.is_empty(), "{}\nsee {}", faults.join("\n"), pictures.display());
}

fn file_url(path: &Path) -> String {
    format!("file://{}", path.canonicalize().expect("a page").display())
}

/// A report of a measurement that is kept.
fn report(name: &str, reports: &Path) -> PathBuf {
    let mut script = Command::new(root().join("scripts/reports"));
    script.arg(name).env("REPORTS", reports).env("SLUICELAB", env!("CARGO_BIN_EXE_sluicelab"));
    let output = script.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    reports.join(name).join("report.html")
}

#[test]
fn pages_of_the_project() {
    let reports = tempfile::tempdir().expect("a directory");
    let landing = file_url(&root().join("docs/index.html"));
    let [cost, fairness] = ["cost", "overload/fairness"].map(|name| file_url(&report(name, reports.path())));
    // In the source tree it would write documents as well.
    let papers = reports.path().join("papers.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicelab"));
    let command = command.args(["papers", "report", "--out"]).arg(&papers).current_dir(&reports);
    assert!(command.status().expect("it runs").success());
    let papers = file_url(&papers);
    look_at(&[("landing", landing), ("report", cost), ("small-report", fairness), ("papers", papers)]);
}

#[test]
fn pages_of_the_server() {
    let setup = Setup::new(&VARIANTS[0]).config("listing = true\n");
    let setup = setup.file("files/a-rather-long-name-of-a-file-that-needs-more-than-a-line.tar.gz", "x");
    let server = setup.file("files/short.txt", "x").file("files/more/x", "x").start();
    assert_eq!(server.get("/no-such-page").status, 404);
    let status = server.directory().join("status.html");
    let mut stream = UnixStream::connect(server.directory().join("status")).expect("the endpoint");
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\nConnection: close\r\n\r\n")
        .expect("it reads");
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("it answers");
    let (head, page) = reply.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains("text/html"), "{head}");
    fs::write(&status, page).expect("a file");
    let url = |path: &str| format!("http://{}{path}", server.address);
    look_at(&[("listing", url("/files/")), ("error", url("/no-such-page")), ("status", file_url(&status))]);
}

#[test]
fn the_sample_site_has_its_own_page_for_404() {
    let mut setup = Setup::new(&VARIANTS[0]);
    for file in ["index.html", "404.html", "assets/style.css", "assets/icon.svg", "assets/gate.svg"] {
        let text = fs::read(root().join("site").join(file)).expect("a file of the site");
        setup = setup.file(file, text);
    }
    let server = setup.start();
    let reply = server.get("/no-such-page");
    assert!(reply.status == 404 && reply.text().contains("Nothing came through."), "{}", reply.text());
    let url = |path: &str| format!("http://{}{path}", server.address);
    look_at(&[("sample", url("/")), ("sample-404", url("/no-such-page"))]);
}
