//! Paths through the whole document root, symbolic links and all: nothing outside it is ever sent, nothing
//! hidden unless it is to be, and a path means the same however it is escaped, whatever dot segments it
//! begins with, and whether the table knows it or not.

#![no_main]

use std::cell::RefCell;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use http1::{Connection, Limits, Segment, Sheet, Stamp, Step, Tick};
use libfuzzer_sys::fuzz_target;
use server::config::{FileSettings, SiteSettings};
use server::content::{Content, MayBlock, Pin, Resolvers};

/// What is written into files that must not be sent.
const SECRET: &[u8] = b"secret";
const HIDDEN: &[u8] = b"hidden";

fuzz_target!(|path: &[u8]| {
    thread_local! {
        static CONTENTS: RefCell<[Content; 2]> = RefCell::new(contents());
    }
    CONTENTS.with_borrow_mut(|contents| {
        for (content, dotfiles) in contents.iter_mut().zip([false, true]) {
            let reply = get(content, path);
            reply.check(dotfiles);
            assert_eq!(get(content, path), reply, "asked again");
            assert_eq!(get(content, &escaped(path)), reply, "escaped");
            if path.starts_with(b"/") {
                assert_eq!(get(content, &[b"/.", path].concat()), reply, "behind a dot segment");
                assert_eq!(get(content, &[b"/x/%2e.", path].concat()), reply, "behind a detour");
            }
            if let Some(location) = reply.field("Location: ") {
                assert!(location.starts_with('/') && !location.starts_with("//"), "{location:?}");
                assert!(matches!(get(content, location.as_bytes()).status(), "200" | "403"), "{location:?}");
            }
        }
    });
});

/// A reply as it is sent, as text where it is text.
#[derive(Debug, PartialEq, Eq)]
struct Reply(Vec<u8>);

impl Reply {
    fn check(&self, dotfiles: bool) {
        assert!(matches!(self.status(), "200" | "301" | "400" | "403" | "404" | "414"), "{self:?}");
        let holds = |text: &[u8]| self.0.windows(text.len()).any(|window| window == text);
        assert!(!holds(SECRET), "{self:?}");
        assert!(dotfiles || !holds(HIDDEN), "{self:?}");
    }

    fn status(&self) -> &str {
        std::str::from_utf8(&self.0[9..12]).unwrap()
    }

    fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.split(|&byte| byte == b'\n');
        lines.find_map(|line| std::str::from_utf8(line).ok()?.strip_prefix(name)?.strip_suffix('\r'))
    }
}

/// Asks for a path as if it had come over a connection, without what its parser would refuse.
fn get(content: &mut Content, path: &[u8]) -> Reply {
    let (limits, now) = (Limits::default(), Tick(0));
    let mut connection = Connection::<Pin>::new(now, &limits);
    let (_, step) = connection.receive(&limits, now, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", false).unwrap();
    let Step::Request(mut head) = step else { unreachable!("a whole request") };
    head.path = path;
    // What its parser would refuse is left to the decoder as well.
    head.is_encoded = path.iter().any(|byte| matches!(byte, b'%' | 0));
    let looked = (None, MayBlock::Always);
    let Ok(plan) = content.answer(&head, looked, 0, Sheet::default(), &Stamp::new("", 0)) else {
        unreachable!("a lookup may always block")
    };
    connection.respond(&limits, now, plan);
    let mut bytes = Vec::new();
    for segment in connection.output() {
        match segment {
            Segment::Own(own) => bytes.extend_from_slice(own),
            Segment::Memory(pin, range) => {
                let memory = content.memory(pin, range).expect("what a plan names is there");
                bytes.extend_from_slice(&memory.to_vec());
            }
            Segment::File(..) => unreachable!("all files are small"),
        }
    }
    connection.sent(&limits, now, bytes.len() as u64);
    if let Some(pin) = connection.release().and_then(|ended| ended.pin) {
        content.unpin(pin);
    }
    Reply(bytes)
}

/// The same path with every byte escaped that is neither a slash nor part of an escape.
fn escaped(path: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::new();
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, rest) {
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                escaped.extend([b'%', *high, *low]);
                rest = after;
            }
            (b'/' | b'%', _) => escaped.push(byte),
            _ => escaped.extend(format!("%{byte:02x}").bytes()),
        }
    }
    escaped
}

/// The same tree, dot files left out and served.
fn contents() -> [Content; 2] {
    let root = tree();
    [false, true].map(|dotfiles| {
        let settings = FileSettings { dotfiles, listing: dotfiles, ..FileSettings::new(root.clone()) };
        let sites = [SiteSettings::new(Vec::new(), None, settings)];
        let resolvers = Arc::new(Resolvers::new(&sites).unwrap());
        Content::new(resolvers, &sites, 100, 1)
    })
}

/// Makes a document root, always at the same place and with the same files, and things around it to escape
/// to.
fn tree() -> PathBuf {
    let base = std::env::temp_dir().join("sluice-fuzz-path");
    let root = base.join("root");
    for directory in ["root/sub/deep", "root/.hidden", "root/.well-known", "private"] {
        fs::create_dir_all(base.join(directory)).unwrap();
    }
    for file in ["a", "index.html", "sub/b", "sub/deep/index.html", "%41", ".well-known/c", "a b", "\u{e9}"] {
        fs::write(root.join(file), file).unwrap();
    }
    for file in [".hidden/file", ".file", "sub/.file"] {
        fs::write(root.join(file), HIDDEN).unwrap();
    }
    for file in ["file", "private/file"] {
        fs::write(base.join(file), SECRET).unwrap();
    }
    for (target, link) in [
        ("a", "link"),
        ("../a", "sub/up"),
        ("sub", "directory"),
        ("../file", "escape"),
        ("../../private", "sub/escape"),
        ("/etc", "absolute"),
        ("loop", "loop"),
        ("ROOT/sub", "sub/deep/absolute"),
        ("ROOT", "sub/root"),
        ("ROOT/.hidden", "sub/hidden"),
        ("ROOT/../private", "sub/climbing"),
    ] {
        let target = target.replace("ROOT", root.to_str().expect("a path of text"));
        match symlink(target, root.join(link)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("{link}: {error}"),
            _ => {}
        }
    }
    root
}
