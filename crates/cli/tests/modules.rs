//! The order of the modules inside each crate, checked as the order of the crates is in `dependencies.rs`.
//!
//! The parts of one module do not name each other in a circle; the modules of a crate are its parts. A part
//! stands for all that is below it. A module and its own parts may name each other. Who names something that
//! a module has from another (`pub use`) names that one. For `server` the order of its modules is written as
//! well: a module names only those that stand before it in [`ORDER`]. Tests are left out: they may use
//! whatever they test.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use harness::workspace::{self, Package, Target};
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
    "names",
    "registration",
    "secured",
    "slab",
    "timers",
    "accept",
    "allotment",
    "error_log",
    "outbox",
    "placement",
    "proxies",
    "sends",
    "shortfalls",
    "access_log",
    "affinity",
    "content",
    "queues",
    "tls",
    "handshakes",
    "listeners",
    "handed_send",
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
fn modules_name_each_other_in_no_circle() {
    let mut found = Vec::new();
    let mut modules = 0;
    for (root, order) in roots() {
        let sources = sources(&root);
        modules += sources.len();
        let breaches = breaches(&sources, order);
        found.extend(breaches.into_iter().map(|breach| format!("{}: {breach}", root.display())));
    }
    assert!(modules > 300, "only {modules} modules were found");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The root modules of all libraries and programs of the workspace, and the order of their modules if one is
/// written.
fn roots() -> Vec<(PathBuf, Option<&'static [&'static str]>)> {
    let mut roots = Vec::new();
    for Package { name, targets, .. } in workspace::packages() {
        for Target { kind, src_path } in targets {
            if kind.iter().any(|kind| ["lib", "rlib", "bin"].contains(&kind.as_str())) {
                roots.push((src_path, (name == "server").then_some(ORDER)));
            }
        }
    }
    roots
}

/// Where a module stands: `["content", "table"]`. The crate itself stands nowhere.
type Module = Vec<String>;

/// A module, and what it names.
#[derive(Clone)]
struct Source {
    module: Module,
    /// Each from the root of the crate.
    names: Vec<Module>,
    /// What it offers by `pub use`: the name here, and where it is.
    exports: Vec<(Module, Module)>,
}

/// All modules below a root.
fn sources(root: &Path) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut to_read: Vec<(Module, PathBuf)> = vec![(Vec::new(), root.to_owned())];
    while let Some((module, path)) = to_read.pop() {
        let text = fs::read_to_string(&path).expect("a module can be read");
        let (source, parts) = read(&module, &text);
        sources.push(source);
        let beside = path.parent().expect("a module lies in a directory");
        let below = if module.is_empty() || path.ends_with("mod.rs") {
            beside.to_owned()
        } else {
            path.with_extension("")
        };
        for Part { name, path } in parts {
            let path = match path {
                Some(path) => Some(beside.join(path)),
                None => [below.join(format!("{name}.rs")), below.join(&name).join("mod.rs")]
                    .into_iter()
                    .find(|path| path.exists()),
            };
            let module: Module = module.iter().cloned().chain([name]).collect();
            to_read.push((module, path.expect("a module has a file")));
        }
    }
    sources
}

/// A part of a module that has a file of its own.
struct Part {
    name: String,
    /// Where the file is, if `#[path]` says so.
    path: Option<String>,
}

/// What a module names, and its parts.
fn read(module: &Module, text: &str) -> (Source, Vec<Part>) {
    let tokens: Vec<TokenTree> =
        text.parse::<TokenStream>().expect("a source file is Rust").into_iter().collect();
    let mut reader = Reader {
        module: module.clone(),
        inside: 0,
        names: Vec::new(),
        exports: Vec::new(),
        parts: Vec::new(),
    };
    reader.items(&tokens);
    // A path that begins with a name leads to a part, or to another crate.
    let is_within = |path: &[String]| {
        let first = path.first().map_or("", String::as_str);
        ["crate", "self", "super"].contains(&first) || reader.parts.iter().any(|part| part.name == first)
    };
    let exports = reader.exports.iter().filter(|(path, _)| is_within(path)).map(|(path, name)| {
        let offered = module.iter().chain([name]).cloned().collect();
        (offered, reader.place(path))
    });
    let exports = exports.collect();
    (Source { module: module.clone(), names: reader.names, exports }, reader.parts)
}

struct Reader {
    module: Module,
    /// In how many modules of the same file it is.
    inside: usize,
    names: Vec<Module>,
    /// Paths that are public, each with the name that it has here.
    exports: Vec<(Vec<String>, String)>,
    parts: Vec<Part>,
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
                TokenTree::Ident(word) if word == "mod" => match &tokens[at + 1..] {
                    [TokenTree::Ident(name), end, ..] if is_punct(end, ';') => {
                        let path = path_mark(&tokens[..at]);
                        self.parts.push(Part { name: name.to_string(), path });
                    }
                    [TokenTree::Ident(_), TokenTree::Group(group), ..] => {
                        self.inside += 1;
                        self.items(&group.stream().into_iter().collect::<Vec<_>>());
                        self.inside -= 1;
                        at += 2;
                    }
                    _ => {}
                },
                TokenTree::Ident(word) if word == "use" && self.inside == 0 && is_public(&tokens[..at]) => {
                    self.exports.extend(leaves(&[], &tokens[at + 1..]));
                }
                TokenTree::Ident(word) if word == "crate" || word == "super" || word == "self" => {
                    let leaves = leaves(&[], &tokens[at..]);
                    self.names.extend(leaves.iter().map(|(path, _)| self.place(path)).collect::<Vec<_>>());
                }
                TokenTree::Group(group) => self.items(&group.stream().into_iter().collect::<Vec<_>>()),
                _ => {}
            }
            at += 1;
        }
    }

    /// Where a path leads, from the root of the crate.
    fn place(&self, path: &[String]) -> Module {
        let mut place = self.module.clone();
        let mut inside = self.inside;
        for (at, word) in path.iter().enumerate() {
            match word.as_str() {
                "crate" => {
                    place.clear();
                    inside = 0;
                }
                "super" if inside > 0 => inside -= 1,
                "super" => drop(place.pop()),
                "self" => {}
                _ => {
                    place.extend_from_slice(&path[at..]);
                    break;
                }
            }
        }
        place
    }
}

/// A path, or those of a tree in a `use`, behind what stands before its braces; each with the name that it
/// has here.
fn leaves(before: &[String], tokens: &[TokenTree]) -> Vec<(Vec<String>, String)> {
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
                let members = members.split(|token| is_punct(token, ','));
                return members.flat_map(|member| leaves(&path, member)).collect();
            }
            _ => break,
        }
        match rest {
            [one, two, after @ ..] if is_punct(one, ':') && is_punct(two, ':') => rest = after,
            _ => break,
        }
    }
    let name = match rest {
        [TokenTree::Ident(word), TokenTree::Ident(name), ..] if word == "as" => name.to_string(),
        _ => path.last().cloned().unwrap_or_default(),
    };
    vec![(path, name)]
}

/// Whether tokens end with `pub` or `pub(…)`.
fn is_public(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [.., TokenTree::Ident(word)] | [.., TokenTree::Ident(word), TokenTree::Group(_)]
        if word == "pub")
}

/// The file in the `#[path = "…"]` that tokens end with, if they do. `pub` may follow.
fn path_mark(tokens: &[TokenTree]) -> Option<String> {
    let tokens = match tokens {
        [before @ .., TokenTree::Ident(word)] if word == "pub" => before,
        all => all,
    };
    let [.., hash, TokenTree::Group(mark)] = tokens else { return None };
    match &mark.stream().into_iter().collect::<Vec<_>>()[..] {
        [TokenTree::Ident(word), _, TokenTree::Literal(path)] if is_punct(hash, '#') && word == "path" => {
            Some(path.to_string().trim_matches('"').to_owned())
        }
        _ => None,
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

/// Where something is that may be named as what another module offers.
fn resolved(name: &Module, exports: &BTreeMap<&Module, &Module>) -> Module {
    let mut name = name.clone();
    let exported = |name: &Module| {
        (1..=name.len()).find_map(|len| {
            let place = exports.get(&name[..len].to_vec())?;
            Some(place.iter().chain(&name[len..]).cloned().collect::<Module>())
        })
    };
    // A module may offer what another offers; two never offer each other's.
    while let Some(place) = exported(&name) {
        name = place;
    }
    name
}

/// Who names whom among the parts of each module; a part stands for all that is below it.
fn edges(sources: &[Source]) -> BTreeMap<Module, BTreeSet<(String, String)>> {
    let modules: BTreeSet<&Module> = sources.iter().map(|source| &source.module).collect();
    let exports = sources.iter().flat_map(|source| &source.exports);
    let exports: BTreeMap<&Module, &Module> =
        exports.filter(|(name, place)| !place.starts_with(name)).map(|(name, place)| (name, place)).collect();
    let mut edges: BTreeMap<Module, BTreeSet<(String, String)>> = BTreeMap::new();
    for Source { module, names, .. } in sources {
        for name in names {
            let name = &resolved(name, &exports);
            let common = module.iter().zip(name).take_while(|(one, other)| one == other).count();
            let (Some(from), Some(to)) = (module.get(common), name.get(common)) else { continue };
            if modules.contains(&name[..=common].to_vec()) {
                edges.entry(module[..common].to_vec()).or_default().insert((from.clone(), to.clone()));
            }
        }
    }
    edges
}

fn breaches(sources: &[Source], order: Option<&[&str]>) -> Vec<String> {
    let mut breaches = Vec::new();
    let edges = edges(sources);
    if let Some(order) = order {
        let place = |name: &String| order.iter().position(|module| module == name);
        for Source { module, .. } in sources.iter().filter(|source| source.module.len() == 1) {
            if place(&module[0]).is_none() {
                breaches.push(format!("{} is not in ORDER: enter it where it stands", module[0]));
            }
        }
        for (from, to) in edges.get(&Module::new()).into_iter().flatten() {
            if place(from) <= place(to) {
                breaches.push(format!("{from} may not name {to}, which stands after it"));
            }
        }
    }
    for (parent, edges) in edges {
        if let Some(circle) = circle(&edges) {
            let within = if parent.is_empty() { "the crate".to_owned() } else { parent.join("::") };
            breaches.push(format!("in {within}: {}", circle.join(" -> ")));
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
    fn a_circle_through_what_a_module_has_from_its_parts_is_found() {
        let parent = "mod a; mod b; pub(crate) use self::a::{deep::Thing, Other as Renamed}; \
                      pub use b::Y; pub use c::Foreign;";
        for one in ["use super::Y;", "fn f(y: crate::m::Y) {}"] {
            for other in ["use super::Thing;", "use crate::m::{Renamed, Foreign};"] {
                let sources = [source("m", parent), source("m::a", one), source("m::b", other)];
                assert_eq!(parts_of(&sources).expect(other), ["a", "b", "a"]);
            }
        }
        // That is another crate's, although there is a module with its name elsewhere.
        let foreign = [source("m::b", "use super::Foreign;"), source("m::c", "use super::b::X;")];
        assert_eq!(
            parts_of(&[[source("m", parent), source("m::a", "use super::Y;")], foreign].concat()),
            None
        );
    }

    #[test]
    fn a_circle_of_modules_is_found_in_a_crate_without_an_order() {
        let sources = [source("a", "use crate::b::X;"), source("b", "fn f() { crate::a::deep::g() }")];
        assert_eq!(breaches(&sources, None), ["in the crate: a -> b -> a"]);
        assert_eq!(breaches(&sources[..1], None), Vec::<String>::new());
    }

    #[test]
    fn a_module_in_the_same_file_is_that_file() {
        let inner = "mod inner { use super::super::b::X; use super::Own; }";
        let sources = [source("m::a", inner), source("m::b", "use super::a::X;")];
        assert_eq!(parts_of(&sources).expect("a circle"), ["a", "b", "a"]);
        let sources = [source("m::a", "mod inner { use super::b::X; }"), source("m::b", "use super::a::X;")];
        assert_eq!(parts_of(&sources), None);
    }

    #[test]
    fn a_file_elsewhere_is_found() {
        let text = "#[path = \"../other.rs\"]\npub mod part; #[cfg(unix)] mod own; mod plain;";
        let (_, parts) = read(&Vec::new(), text);
        let paths: Vec<Option<&str>> = parts.iter().map(|part| part.path.as_deref()).collect();
        assert_eq!(paths, [Some("../other.rs"), None, None]);
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
        assert_eq!(breaches(&sources, Some(ORDER)), Vec::<String>::new());
        let sources = [source(first, &format!("fn f() {{ crate::{second}::g() }}")), source(second, "")];
        assert_eq!(
            breaches(&sources, Some(ORDER)),
            [format!("{first} may not name {second}, which stands after it")]
        );
        assert_eq!(
            breaches(&[source("stranger", "")], Some(ORDER)),
            ["stranger is not in ORDER: enter it where it stands"]
        );
    }
}
