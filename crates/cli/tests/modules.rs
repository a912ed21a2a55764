//! The order of the modules inside `server`, checked as the order of the crates is in `dependencies.rs`.
//!
//! A module of the crate, with all its parts, names only modules that stand before it in [`ORDER`]. Deeper
//! down no order is written, but there must be one: parts of one module do not name each other in a circle. A
//! module and its own parts may name each other. Tests are left out: they may use whatever they test.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The modules of `server`, bottom up: each may name only those that stand before it.
const ORDER: &[&str] = &[
    "account",
    "buffers",
    "common",
    "plain",
    "config",
    "counters",
    "crew",
    "dates",
    "faults",
    "ip_text",
    "registration",
    "slab",
    "timers",
    "accept",
    "allotment",
    "error_log",
    "placement",
    "proxies",
    "sends",
    "shortfalls",
    "access_log",
    "affinity",
    "content",
    "listeners",
    "helpers",
    "gateway",
    "line",
    "service",
    "status",
    "control",
    "conversation",
    "channel",
    "memory",
    "architecture",
    "supervisor",
    "check",
];

#[test]
fn modules_name_only_those_before_them() {
    let found = breaches(&server());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Where a module stands: `["content", "table"]`. The crate itself stands nowhere.
type Module = Vec<String>;

/// A module, and where it looks up what it names.
struct Source {
    module: Module,
    /// What it names, each from the root of the crate.
    names: Vec<Module>,
}

fn server() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/src");
    let mut sources = Vec::new();
    let mut to_read: Vec<(Module, PathBuf)> = vec![(Vec::new(), root.join("lib.rs"))];
    while let Some((module, path)) = to_read.pop() {
        let text = fs::read_to_string(&path).expect("a module can be read");
        let (source, parts) = read(&module, &text);
        sources.push(source);
        for part in parts {
            let module: Module = module.iter().cloned().chain([part]).collect();
            let place = module.iter().fold(root.clone(), |place, name| place.join(name));
            let path =
                [place.with_extension("rs"), place.join("mod.rs")].into_iter().find(|path| path.exists());
            to_read.push((module, path.expect("a module has a file")));
        }
    }
    sources
}

/// What a module names, and its parts that have files of their own.
fn read(module: &Module, text: &str) -> (Source, Vec<String>) {
    let tokens: Vec<TokenTree> =
        text.parse::<TokenStream>().expect("a source file is Rust").into_iter().collect();
    let mut reader = Reader { module: module.clone(), names: Vec::new(), parts: Vec::new() };
    reader.items(&tokens);
    (Source { module: module.clone(), names: reader.names }, reader.parts)
}

struct Reader {
    module: Module,
    names: Vec<Module>,
    parts: Vec<String>,
}

impl Reader {
    fn items(&mut self, tokens: &[TokenTree]) {
        let mut at = 0;
        while at < tokens.len() {
            if is_test_mark(&tokens[at..]) {
                at += 2;
                // Up to the end of what the mark is on.
                let end = tokens[at..].iter().position(ends_item);
                at += end.map_or(0, |end| end + 1);
                continue;
            }
            match &tokens[at] {
                TokenTree::Ident(word) if word == "mod" => {
                    if let [TokenTree::Ident(name), TokenTree::Punct(end), ..] = &tokens[at + 1..]
                        && end.as_char() == ';'
                    {
                        self.parts.push(name.to_string());
                    }
                }
                TokenTree::Ident(word) if word == "crate" || word == "super" || word == "self" => {
                    self.path(&[], &tokens[at..]);
                }
                TokenTree::Group(group) => self.items(&group.stream().into_iter().collect::<Vec<_>>()),
                _ => {}
            }
            at += 1;
        }
    }

    /// A path, or a tree of them in a `use`, behind what stands before its braces.
    fn path(&mut self, before: &[String], tokens: &[TokenTree]) {
        let mut path = before.to_vec();
        let mut rest = tokens;
        loop {
            match rest {
                [TokenTree::Ident(word), after @ ..] => {
                    path.push(word.to_string());
                    rest = after;
                }
                [TokenTree::Group(group), ..] if group.delimiter() == Delimiter::Brace => {
                    let members: Vec<TokenTree> = group.stream().into_iter().collect();
                    members.split(|token| is_punct(token, ',')).for_each(|member| self.path(&path, member));
                    return;
                }
                _ => break,
            }
            match rest {
                [one, two, after @ ..] if is_punct(one, ':') && is_punct(two, ':') => rest = after,
                _ => break,
            }
        }
        let mut place = self.module.clone();
        for (at, word) in path.iter().enumerate() {
            match word.as_str() {
                "crate" => place.clear(),
                "super" => drop(place.pop()),
                "self" => {}
                _ => {
                    place.extend_from_slice(&path[at..]);
                    break;
                }
            }
        }
        self.names.push(place);
    }
}

/// `#[cfg(test)]`.
fn is_test_mark(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [hash, TokenTree::Group(group), ..]
        if is_punct(hash, '#') && group.stream().to_string().replace(' ', "") == "cfg(test)")
}

fn ends_item(token: &TokenTree) -> bool {
    is_punct(token, ';') || matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

fn is_punct(token: &TokenTree, what: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == what)
}

/// Who names whom among the parts of each module; a part stands for all that is below it.
fn edges(sources: &[Source]) -> BTreeMap<Module, BTreeSet<(String, String)>> {
    let modules: BTreeSet<&Module> = sources.iter().map(|source| &source.module).collect();
    let mut edges: BTreeMap<Module, BTreeSet<(String, String)>> = BTreeMap::new();
    for Source { module, names } in sources {
        for name in names {
            let common = module.iter().zip(name).take_while(|(one, other)| one == other).count();
            let (Some(from), Some(to)) = (module.get(common), name.get(common)) else { continue };
            if modules.contains(&name[..=common].to_vec()) {
                edges.entry(module[..common].to_vec()).or_default().insert((from.clone(), to.clone()));
            }
        }
    }
    edges
}

fn breaches(sources: &[Source]) -> Vec<String> {
    let place = |name: &String| ORDER.iter().position(|module| module == name);
    let mut breaches = Vec::new();
    for Source { module, .. } in sources.iter().filter(|source| source.module.len() == 1) {
        if place(&module[0]).is_none() {
            breaches.push(format!("{} is not in ORDER: enter it where it stands", module[0]));
        }
    }
    for (parent, edges) in edges(sources) {
        if parent.is_empty() {
            for (from, to) in edges.iter().filter(|(from, to)| place(from) <= place(to)) {
                breaches.push(format!("{from} may not name {to}, which stands after it"));
            }
        } else if let Some(circle) = circle(&edges) {
            breaches.push(format!("in {}: {}", parent.join("::"), circle.join(" -> ")));
        }
    }
    breaches
}

/// Some way from a part back to itself.
fn circle(edges: &BTreeSet<(String, String)>) -> Option<Vec<String>> {
    // Whoever names nobody that is left can be in no circle.
    let mut left = edges.clone();
    loop {
        let from: BTreeSet<String> = left.iter().map(|(from, _)| from.clone()).collect();
        let before = left.len();
        left.retain(|(_, to)| from.contains(to));
        if left.len() == before {
            break;
        }
    }
    let mut way = vec![left.first()?.0.clone()];
    loop {
        let last = way.last().expect("it has a beginning");
        let (_, next) = left.iter().find(|(from, _)| from == last).expect("all that is left goes on");
        let seen = way.iter().position(|name| name == next);
        way.push(next.clone());
        if let Some(seen) = seen {
            return Some(way.split_off(seen));
        }
    }
}

mod bad_samples {
    use super::*;

    fn source(module: &str, text: &str) -> Source {
        let module = module.split("::").map(str::to_owned).collect();
        read(&module, text).0
    }

    fn parts_of(sources: &[Source]) -> Option<Vec<String>> {
        edges(sources).iter().find_map(|(_, edges)| circle(edges))
    }

    #[test]
    fn a_circle_of_parts_is_found_however_it_is_written() {
        for [one, other] in [
            ["use super::b::Thing;", "use crate::m::a::Thing;"],
            ["use super::{b, c};", "fn f() { if true { super::a::g() } }"],
            ["use crate::m::{c::X, b::{Y, Z}};", "impl From<super::a::Thing> for u8 {}"],
        ] {
            let sources = [source("m", ""), source("m::a", one), source("m::b", other), source("m::c", "")];
            assert_eq!(parts_of(&sources).expect(one), ["a", "b", "a"]);
        }
        let three = ["use super::b::X;", "use super::c::X;", "use super::a::deep::X;"];
        let [a, b, c] = ["m::a", "m::b", "m::c"];
        let sources = [source(a, three[0]), source(b, three[1]), source(c, three[2])];
        assert_eq!(parts_of(&sources).expect("a circle").len(), 4);
    }

    #[test]
    fn a_module_and_its_parts_are_no_circle_and_tests_are_left_out() {
        let sources = [
            source("m", "use self::a::Thing; mod a;"),
            source(
                "m::a",
                "use super::Other; use crate::m::Third; #[cfg(test)] mod tests { use super::super::b::X; }",
            ),
            source("m::b", "use super::a::Thing; #[cfg(test)] use super::c::X;"),
            source("m::c", "use super::b::X;"),
        ];
        assert_eq!(parts_of(&sources), None);
    }

    #[test]
    fn what_stands_after_a_module_is_found() {
        let [first, second] = [ORDER[0], ORDER[1]];
        let sources = [source(second, &format!("use crate::{first}::X;")), source(first, "")];
        assert_eq!(breaches(&sources), Vec::<String>::new());
        let sources = [source(first, &format!("fn f() {{ crate::{second}::g() }}")), source(second, "")];
        assert_eq!(breaches(&sources), [format!("{first} may not name {second}, which stands after it")]);
        assert_eq!(
            breaches(&[source("stranger", "")]),
            ["stranger is not in ORDER: enter it where it stands"]
        );
    }
}
