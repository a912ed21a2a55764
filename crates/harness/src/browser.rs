//! A browser without a window, as the distribution has it, told what to do over a pair of pipes: messages of
//! Chromium's protocol for developers' tools, each of which ends with a NUL.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::{eventually, tools};

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    session: String,
    messages: u64,
    /// What the browser has said of replies since [`Browser::note_replies`].
    replies: Vec<Value>,
}

impl Browser {
    /// Starts one whose files are in that directory.
    pub fn start(directory: &Path) -> Self {
        Self::start_with(directory, &mut Command::new("/bin/sh"))
    }

    /// The same, and it trusts the authorities of this PEM file and of the machine.
    pub fn start_trusting(directory: &Path, authority: &Path) -> Self {
        // Where Chromium looks for authorities that its user trusts.
        let database = directory.join(".pki/nssdb");
        fs::create_dir_all(&database).expect("a directory");
        let database = format!("sql:{}", database.display());
        tools::succeed(directory, "certutil", &["-d", &database, "-N", "--empty-password"]);
        let authority = authority.to_str().expect("text");
        let add = ["-d", &database, "-A", "-t", "C,,", "-n", "authority", "-i", authority];
        tools::succeed(directory, "certutil", &add);
        Self::start_with(directory, Command::new("/bin/sh").env("HOME", directory))
    }

    fn start_with(directory: &Path, shell: &mut Command) -> Self {
        let pipes = ["to-browser", "from-browser"].map(|name| directory.join(name));
        for pipe in &pipes {
            mknodat(CWD, pipe, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
        }
        // It wants them as the descriptors 3 and 4.
        let child = shell
            .args(["-c", "to=$1 from=$2; shift 2; exec chromium \"$@\" 3<\"$to\" 4>\"$from\"", "sh"])
            .args(&pipes)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-component-update"])
            .args(["--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe", "about:blank"])
            .arg(format!("--user-data-dir={}", directory.join("profile").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("a shell");
        let [to, from] = &pipes;
        let to = File::options().write(true).open(to).expect("a pipe");
        let from = BufReader::new(File::open(from).expect("a pipe"));
        let mut browser = Self { child, to, from, session: String::new(), messages: 0, replies: Vec::new() };
        let page = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attached = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", &attached);
        attached["sessionId"].as_str().expect("a session").clone_into(&mut browser.session);
        browser
    }

    /// From now on the screen is that wide, and the reader prefers a dark page or a light one. A narrow
    /// screen is a phone's.
    pub fn screen(&mut self, width: u32, is_dark: bool) {
        let is_phone = width < 600;
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": is_phone });
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        let scheme = if is_dark { "dark" } else { "light" };
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", &json!({ "features": [feature] }));
    }

    /// Writes a picture of the page, from top to bottom but at most 20,000 pixels, as PNG.
    pub fn picture(&mut self, path: &Path) {
        let size = self.call("Page.getLayoutMetrics", &json!({}))["cssContentSize"].clone();
        let clip = json!({
            "x": 0, "y": 0, "scale": 1, "width": size["width"],
            "height": size["height"].as_f64().unwrap_or_default().min(20_000.0),
        });
        let asked = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let taken = self.call("Page.captureScreenshot", &asked);
        let encoded = taken["data"].as_str().unwrap_or_else(|| panic!("no picture: {taken}"));
        let picture = BASE64_STANDARD.decode(encoded).expect("base64");
        fs::write(path, picture).expect("a file");
    }

    /// From now on it notes what it knows of each reply.
    pub fn note_replies(&mut self) {
        self.call("Network.enable", &json!({}));
    }

    /// What it knows of the replies that it has noted for this URL, such as `securityState`.
    pub fn replies(&self, url: &str) -> impl Iterator<Item = &Value> {
        self.replies.iter().filter(move |reply| reply["url"] == *url)
    }

    /// What keeps the page from being loaded, such as `net::ERR_CERT_AUTHORITY_INVALID`.
    pub fn fail_to_open(&mut self, url: &str) -> String {
        let gone = self.call("Page.navigate", &json!({ "url": url }));
        gone["errorText"].as_str().unwrap_or_else(|| panic!("{url} is loaded: {gone}")).to_owned()
    }

    /// Has the page go there.
    pub fn open(&mut self, url: &str) {
        let gone = self.call("Page.navigate", &json!({ "url": url }));
        assert_eq!(gone.get("errorText"), None, "{url}: {gone}");
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    /// The value of an expression in the page, which may be a promise; `None` if the page goes meanwhile.
    pub fn try_evaluate(&mut self, expression: &str) -> Option<Value> {
        let asked = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let said = self.call("Runtime.evaluate", &asked);
        said.get("exceptionDetails").is_none().then(|| said["result"]["value"].clone())
    }

    /// The same, of a page that stays.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        self.try_evaluate(expression).unwrap_or_else(|| panic!("an exception in {expression}"))
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn wait_for(&mut self, expression: &str) {
        eventually(expression, || self.try_evaluate(expression) == Some(Value::Bool(true)));
    }

    /// Chooses a file in an input of the page.
    pub fn choose_file(&mut self, selector: &str, file: &Path) {
        let asked = json!({ "expression": format!("document.querySelector('{selector}')") });
        let input = self.call("Runtime.evaluate", &asked)["result"]["objectId"].clone();
        self.call("DOM.setFileInputFiles", &json!({ "files": [file], "objectId": input }));
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.messages += 1;
        let mut message = json!({ "id": self.messages, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).expect("the browser is there");
        loop {
            let mut said = Vec::new();
            self.from.read_until(0, &mut said).expect("the browser is there");
            said.pop().expect("the browser has ended; chromium: scripts/install-test-tools");
            let mut said: Value = serde_json::from_slice(&said).expect("JSON");
            if said["method"] == "Network.responseReceived" {
                self.replies.push(said["params"]["response"].take());
            } else if said["id"] == json!(self.messages) {
                let result = said["result"].take();
                // A page that goes takes what was asked of it along.
                return if result.is_null() { json!({ "exceptionDetails": said["error"] }) } else { result };
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}
