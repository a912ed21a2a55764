//! The design, checked: which crate may use which, where `unsafe` may stand, and what a crate without IO may
//! not know.
//!
//! Cargo says what the members are and what they depend on; each member's sources are read as tokens, so that
//! comments and strings may say what code may not. A new crate fails here until it is entered in [`CRATES`],
//! which is the point: its place in the order is decided, not found out. Each check is a function from what
//! was read to a list of breaches, and is tried on bad samples below.

use std::{
    fs,
    path::{Path, PathBuf},
};

use harness::workspace::{self, Package, packages};
use proc_macro2::{TokenStream, TokenTree};

/// What a crate without IO may not name.
const SANS_IO: &[&[&str]] = &[
    &["std", "env"],
    &["std", "fs"],
    &["std", "net"],
    &["std", "os"],
    &["std", "process"],
    &["std", "thread"],
    &["Instant", "now"],
    &["SystemTime", "now"],
];

/// Every member with its rules, bottom up: each may use only crates that stand before it.
const CRATES: &[Crate] = &[
    Crate {
        name: "harness",
        ours: &[],
        foreign: Foreign::AllBut(&["anyhow", "libc", "nix"]),
        unsafe_code: false,
        banned: &[],
    },
    Crate {
        name: "http1",
        ours: &[],
        foreign: Foreign::Only(&["httparse", "httpdate", "itoa", "memchr", "smallvec", "thiserror"]),
        unsafe_code: false,
        banned: SANS_IO,
    },
    Crate {
        name: "fastcgi",
        ours: &[],
        foreign: Foreign::Only(&["httparse", "memchr", "thiserror"]),
        unsafe_code: false,
        banned: SANS_IO,
    },
    Crate { name: "units", ours: &[], foreign: Foreign::Only(&[]), unsafe_code: false, banned: SANS_IO },
    Crate {
        name: "sys",
        ours: &["harness"],
        foreign: Foreign::Only(&["corosensei", "io-uring", "libc", "rustix", "seccompiler"]),
        unsafe_code: true,
        banned: &[],
    },
    // Its C interface is unsafe; the rest of it denies that (crates/libfcgi/src/lib.rs).
    Crate {
        name: "libfcgi",
        ours: &["http1", "fastcgi", "sys"],
        foreign: Foreign::Only(&["cc", "libc", "memchr"]),
        unsafe_code: true,
        banned: &[],
    },
    Crate {
        name: "machine",
        ours: &[],
        foreign: Foreign::Only(&["serde"]),
        unsafe_code: false,
        banned: &[&["std", "net"]],
    },
    Crate {
        name: "results",
        ours: &["machine"],
        foreign: Foreign::Only(&["serde"]),
        unsafe_code: false,
        banned: SANS_IO,
    },
    Crate {
        name: "workload",
        ours: &[],
        foreign: Foreign::AllBut(&["anyhow", "libc", "nix", "rustix"]),
        unsafe_code: false,
        banned: &[&["std", "net"]],
    },
    Crate {
        name: "load",
        ours: &["http1", "units", "sys", "machine", "results", "workload"],
        foreign: Foreign::AllBut(&["anyhow", "libc", "nix", "rustix"]),
        unsafe_code: false,
        banned: &[],
    },
    Crate {
        name: "server",
        ours: &["harness", "http1", "fastcgi", "units", "sys", "machine", "results"],
        foreign: Foreign::AllBut(&["anyhow", "libc", "nix", "rustix"]),
        unsafe_code: false,
        banned: &[],
    },
    Crate {
        name: "lab",
        ours: &["harness", "units", "sys", "machine", "results", "workload"],
        foreign: Foreign::AllBut(&["libc", "nix"]),
        unsafe_code: false,
        banned: &[],
    },
    Crate {
        name: "sluicegate",
        // Its tests have programs load libfcgi.
        ours: &[
            "harness", "units", "sys", "libfcgi", "machine", "results", "workload", "load", "server", "lab",
        ],
        foreign: Foreign::Only(&[
            "anyhow",
            "clap",
            "clap_complete",
            "clap_mangen",
            "http",
            "jiff",
            "roff",
            "toml",
        ]),
        unsafe_code: false,
        banned: &[],
    },
    Crate {
        name: "bench",
        ours: &["sys", "machine", "results", "lab"],
        foreign: Foreign::AllBut(&["libc", "nix"]),
        unsafe_code: false,
        banned: &[],
    },
];

#[test]
fn members_use_only_what_stands_below_them() {
    assert_eq!(member_breaches(&packages()), Vec::<String>::new());
}

#[test]
fn sources_keep_to_their_crate() {
    let mut breaches = Vec::new();
    let mut files = 0;
    for package in packages() {
        let rules = rules(&package.name).unwrap_or_else(|| panic!("{} is not in CRATES", package.name));
        for path in rust_files(package.manifest_path.parent().expect("a manifest stands in a directory")) {
            let source = fs::read_to_string(&path).expect("a source file can be read");
            let found = source_breaches(rules, &source);
            breaches.extend(found.into_iter().map(|breach| format!("{}: {breach}", path.display())));
            files += 1;
        }
    }
    assert!(files >= CRATES.len(), "only {files} source files were found");
    assert_eq!(breaches, Vec::<String>::new());
}

/// A conversation is told what came in and says what is to be sent: a channel makes the calls. The addresses
/// and the runs of memory of `sys::socket` are no calls.
#[test]
fn a_conversation_makes_no_call_on_a_socket() {
    let directory = workspace::root().join("crates/server/src/conversation");
    let mut breaches = Vec::new();
    let files = rust_files(&directory);
    assert!(files.len() > 5, "only {} files were found", files.len());
    for path in files {
        let source = fs::read_to_string(&path).expect("a source file can be read");
        breaches
            .extend(calls_on_sockets(&source).into_iter().map(|call| format!("{}: {call}", path.display())));
    }
    assert_eq!(breaches, Vec::<String>::new());
}

/// What a source names of `sys::socket` that may be a call, and what else of the system could be one on a
/// socket.
fn calls_on_sockets(source: &str) -> Vec<String> {
    const NO_CALLS: &[&str] = &["PeerAddress", "Slice"];
    let tokens: TokenStream = source.parse().expect("it can be read as Rust");
    let mut found = members_of(tokens.clone(), &["sys", "socket"]);
    found.retain(|name| !NO_CALLS.contains(&name.as_str()));
    for path in [&["std", "net"][..], &["AsFd"], &["OwnedFd"], &["AsRawFd"], &["as_fd"]] {
        if names_path(tokens.clone(), path) {
            found.push(path.join("::"));
        }
    }
    found
}

/// What is named directly below a path: `c` of `a::b::c`, and `c` and `d` of `a::b::{c, d}`. Where the path
/// is named as a whole, so that anything below it can be named by its end, that end.
fn members_of(tokens: TokenStream, path: &[&str]) -> Vec<String> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(ident) if *ident == path[0] => found.extend(below(&tokens[at..], path)),
            TokenTree::Group(group) => found.extend(members_of(group.stream(), path)),
            _ => {}
        }
    }
    found
}

/// The same of a path that begins here, or does not.
fn below(tokens: &[TokenTree], path: &[&str]) -> Vec<String> {
    let Some(TokenTree::Ident(ident)) = tokens.first() else { return Vec::new() };
    let rest = match path {
        [first, rest @ ..] if ident == first => rest,
        [] => return vec![ident.to_string()],
        _ => return Vec::new(),
    };
    match &tokens[1..] {
        [TokenTree::Punct(one), TokenTree::Punct(two), after @ ..]
            if one.as_char() == ':' && two.as_char() == ':' =>
        {
            let Some(TokenTree::Group(group)) = after.first() else { return below(after, rest) };
            let members: Vec<TokenTree> = group.stream().into_iter().collect();
            members
                .split(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ','))
                .flat_map(|member| below(member, rest))
                .collect()
        }
        _ if rest.is_empty() => vec![ident.to_string()],
        _ => Vec::new(),
    }
}

/// What the design lets one member do.
struct Crate {
    name: &'static str,
    /// Members it may depend on, for whatever purpose; `harness` for its tests only.
    ours: &'static [&'static str],
    /// Crates of others that it may be built from; its tests may use more.
    foreign: Foreign,
    unsafe_code: bool,
    /// Paths that its sources may not name, in tests neither.
    banned: &'static [&'static [&'static str]],
}

enum Foreign {
    Only(&'static [&'static str]),
    AllBut(&'static [&'static str]),
}

impl Foreign {
    fn admits(&self, name: &str) -> bool {
        match self {
            Foreign::Only(names) => names.contains(&name),
            Foreign::AllBut(names) => !names.contains(&name),
        }
    }
}

fn rules(name: &str) -> Option<&'static Crate> {
    CRATES.iter().find(|rules| rules.name == name)
}

fn member_breaches(packages: &[Package]) -> Vec<String> {
    let mut breaches = Vec::new();
    for package in packages {
        let name = &package.name;
        let Some(rules) = rules(name) else {
            breaches.push(format!("{name} is not in CRATES: enter it where it stands in the order"));
            continue;
        };
        for dependency in &package.dependencies {
            let used = dependency.name.as_str();
            let is_for_tests = dependency.kind.as_deref() == Some("dev");
            let allowed = if dependency.path.is_some() {
                rules.ours.contains(&used) && (is_for_tests || used != "harness")
            } else {
                is_for_tests || rules.foreign.admits(used)
            };
            if !allowed {
                breaches.push(format!("{name} may not depend on {used}"));
            }
        }
    }
    for rules in CRATES {
        if !packages.iter().any(|package| package.name == rules.name) {
            breaches.push(format!("{} is in CRATES, but no member", rules.name));
        }
    }
    breaches
}

fn source_breaches(rules: &Crate, source: &str) -> Vec<String> {
    let tokens: TokenStream = match source.parse() {
        Ok(tokens) => tokens,
        Err(error) => return vec![format!("cannot be read as Rust: {error}")],
    };
    let mut breaches = Vec::new();
    if !rules.unsafe_code && mentions_unsafe(tokens.clone()) {
        breaches.push("unsafe belongs into sys".to_owned());
    }
    for path in rules.banned {
        if names_path(tokens.clone(), path) {
            breaches.push(format!("{} may not name {}", rules.name, path.join("::")));
        }
    }
    breaches
}

fn mentions_unsafe(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == "unsafe",
        TokenTree::Group(group) => mentions_unsafe(group.stream()),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// Whether `a::b` is named anywhere: written out, or as a member of `a::{…, b, …}`.
fn names_path(tokens: TokenStream, path: &[&str]) -> bool {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let starts = (0..tokens.len()).any(|at| begins_with(&tokens[at..], path));
    starts
        || tokens.into_iter().any(|token| match token {
            TokenTree::Group(group) => names_path(group.stream(), path),
            _ => false,
        })
}

fn begins_with(tokens: &[TokenTree], path: &[&str]) -> bool {
    let (Some(TokenTree::Ident(ident)), Some((first, rest))) = (tokens.first(), path.split_first()) else {
        return false;
    };
    if ident != first {
        return false;
    }
    if rest.is_empty() {
        return true;
    }
    match &tokens[1..] {
        [TokenTree::Punct(one), TokenTree::Punct(two), after @ ..]
            if one.as_char() == ':' && two.as_char() == ':' =>
        {
            match after.first() {
                Some(TokenTree::Group(group)) => {
                    let members: Vec<TokenTree> = group.stream().into_iter().collect();
                    members
                        .split(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ','))
                        .any(|member| begins_with(member, rest))
                }
                _ => begins_with(after, rest),
            }
        }
        _ => false,
    }
}

/// The `.rs` files below a member's directory; members hold no members and build elsewhere.
fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("a member's directory can be read") {
        let path = entry.expect("a directory entry can be read").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

mod bad_samples {
    use harness::workspace::Dependency;

    use super::*;

    fn breaches_of(name: &str, source: &str) -> Vec<String> {
        source_breaches(rules(name).expect("a member"), source)
    }

    /// The workspace as it should be, with one dependency more.
    fn with_dependency(name: &str, used: &str, kind: Option<&str>, ours: bool) -> Vec<Package> {
        let package = |rules: &Crate| Package {
            name: rules.name.to_owned(),
            manifest_path: PathBuf::new(),
            dependencies: if rules.name == name {
                vec![Dependency {
                    name: used.to_owned(),
                    kind: kind.map(str::to_owned),
                    path: ours.then(|| PathBuf::from("crates").join(used)),
                }]
            } else {
                Vec::new()
            },
            targets: Vec::new(),
        };
        CRATES.iter().map(package).collect()
    }

    #[test]
    fn a_dependency_upwards_or_sideways_is_found() {
        for (name, used) in [("http1", "sys"), ("sys", "http1"), ("bench", "server"), ("sluicegate", "http1")]
        {
            assert_eq!(
                member_breaches(&with_dependency(name, used, None, true)),
                [format!("{name} may not depend on {used}")]
            );
            assert_eq!(member_breaches(&with_dependency(name, used, Some("dev"), true)).len(), 1);
        }
        assert!(member_breaches(&with_dependency("server", "http1", None, true)).is_empty());
        assert_eq!(member_breaches(&with_dependency("sluicegate", "harness", None, true)).len(), 1);
        let for_tests = with_dependency("sluicegate", "harness", Some("dev"), true);
        assert!(member_breaches(&for_tests).is_empty());
    }

    #[test]
    fn a_foreign_crate_out_of_place_is_found() {
        for (name, used) in
            [("http1", "libc"), ("http1", "tokio"), ("server", "rustix"), ("server", "anyhow")]
        {
            assert_eq!(
                member_breaches(&with_dependency(name, used, None, false)),
                [format!("{name} may not depend on {used}")]
            );
        }
        assert!(member_breaches(&with_dependency("http1", "proptest", Some("dev"), false)).is_empty());
        assert_eq!(member_breaches(&with_dependency("http1", "proptest", None, false)).len(), 1);
    }

    #[test]
    fn an_unknown_member_and_a_missing_one_are_found() {
        let mut packages = with_dependency("http1", "memchr", None, false);
        for package in &mut packages {
            if package.name == "bench" {
                package.name = "extras".to_owned();
            }
        }
        assert_eq!(
            member_breaches(&packages),
            [
                "extras is not in CRATES: enter it where it stands in the order".to_owned(),
                "bench is in CRATES, but no member".to_owned()
            ]
        );
    }

    #[test]
    fn a_call_of_a_conversation_is_found_however_it_is_written() {
        for (source, call) in [
            ("fn f() { sys::socket::recv(&s, &mut room); }", "recv"),
            ("use sys::socket::{self, PeerAddress};", "self"),
            ("use sys::socket;", "socket"),
            ("use sys::{clock, socket::{Slice, send_file}};", "send_file"),
            ("mod deep { fn f() { if true { ::sys::socket::shutdown_write(s) } } }", "shutdown_write"),
            ("use std::{fmt, net::TcpStream};", "std::net"),
            ("fn f(s: OwnedFd) {}", "OwnedFd"),
        ] {
            assert_eq!(calls_on_sockets(source), [call], "{source}");
        }
        for source in [
            "use sys::socket::{PeerAddress, Slice};",
            "use sys::socket::Slice;",
            "fn f(peer: sys::socket::PeerAddress) { sys::clock::monotonic_ms(); }",
            "//! sys::socket::recv\nconst A: &str = \"sys::socket::recv\";",
        ] {
            assert!(calls_on_sockets(source).is_empty(), "{source}");
        }
    }

    #[test]
    fn unsafe_is_found_in_code_and_not_in_words() {
        assert_eq!(breaches_of("server", "fn f() { if true { unsafe { g() } } }").len(), 1);
        assert_eq!(breaches_of("server", "#[unsafe(no_mangle)] fn f() {}").len(), 1);
        assert!(breaches_of("server", "//! unsafe\n/* unsafe */ const A: &str = \"unsafe\";").is_empty());
        assert!(breaches_of("server", "#![forbid(unsafe_code)]").is_empty());
        assert!(breaches_of("sys", "fn f() { unsafe { g() } }").is_empty());
    }

    #[test]
    fn what_http1_may_not_know_is_found_however_it_is_written() {
        for source in [
            "use std::net::TcpStream;",
            "use std::{fmt, net};",
            "use std::{fmt, net::{IpAddr, TcpStream}};",
            "use ::std::thread as workers;",
            "fn f() { std::fs::read(\"x\"); }",
            "mod deep { fn f() { if true { let _ = std::process::id(); } } }",
            "fn f() { Instant::now(); }",
            "fn f() { std::time::SystemTime::now(); }",
        ] {
            assert_eq!(breaches_of("http1", source).len(), 1, "{source}");
        }
        for source in [
            "use std::{fmt, ops::Range};",
            "// std::net\nuse std::fmt;",
            "const A: &str = \"std::net\";",
            "fn f(net: u8) { self::net(net); std::mem::take(net); }",
        ] {
            assert!(breaches_of("http1", source).is_empty(), "{source}");
        }
    }

    #[test]
    fn a_file_that_is_not_rust_is_found() {
        assert!(breaches_of("http1", "fn f( {")[0].starts_with("cannot be read as Rust"));
    }
}
