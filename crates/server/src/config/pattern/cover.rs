//! Finds a pattern that matches every path that another pattern matches, as far as their syntax shows.
//!
//! Patterns are stored in a tree of their segments, like the tree that matches paths. The queried pattern
//! walks this tree as a path would. It reaches a node only if every path that it stands for reaches that
//! node. So a pattern that is found matches all those paths. Some are missed: for example, that `[a-z]*`
//! matches all that `a*` does.

use std::collections::{HashMap, HashSet};

use super::{NamePattern, Pattern, Segment};

/// Most steps that one walk takes.
const MOST_STEPS: usize = 4096;

/// Patterns by their numbers. Numbers must be added in ascending order.
#[derive(Debug, Default)]
pub(in crate::config) struct Cover {
    by_case: Tree,
    by_letter: Tree,
}

/// A node: what may follow after the same names. If several patterns end here, the first one counts.
#[derive(Debug, Default)]
struct Node {
    names: HashMap<Box<[u8]>, usize>,
    like: HashMap<NamePattern, usize>,
    /// The node that follows any number of names.
    below: Option<usize>,
    ends: Option<usize>,
    ends_below: Option<usize>,
}

/// A tree of nodes. The first node is the root.
#[derive(Debug)]
struct Tree(Vec<Node>);

impl Default for Tree {
    fn default() -> Self {
        Self(vec![Node::default()])
    }
}

impl Cover {
    /// Adds a pattern. `None` matches everything.
    pub(in crate::config) fn insert(&mut self, number: usize, pattern: Option<&Pattern>, ignores_case: bool) {
        let tree = if ignores_case { &mut self.by_letter } else { &mut self.by_case };
        match pattern {
            None => tree.insert(number, &[Segment::Any], ignores_case),
            Some(pattern) => pattern.ways().for_each(|way| tree.insert(number, way, ignores_case)),
        }
    }

    /// The first pattern that matches everything that this way of matching stands for.
    pub(in crate::config) fn of(&self, way: &[Segment], ignores_case: bool) -> Option<usize> {
        let by_case = self.by_case.find(way, if ignores_case { Case::Open } else { Case::Counts });
        by_case.into_iter().chain(self.by_letter.find(way, Case::Lower)).min()
    }
}

/// How names are compared with those of a tree.
#[derive(Clone, Copy, PartialEq)]
enum Case {
    Counts,
    /// The tree ignores case.
    Lower,
    /// The queried names stand for both cases. The tree knows only one of them.
    Open,
}

impl Tree {
    fn insert(&mut self, number: usize, way: &[Segment], ignores_case: bool) {
        let mut at = 0;
        for (place, segment) in way.iter().enumerate() {
            let new = self.0.len();
            let node = &mut self.0[at];
            at = match segment {
                Segment::Any if place + 1 == way.len() => {
                    node.ends_below.get_or_insert(number);
                    return;
                }
                Segment::Any => *node.below.get_or_insert(new),
                Segment::Name(name) if ignores_case => {
                    *node.names.entry(name.to_ascii_lowercase().into()).or_insert(new)
                }
                Segment::Name(name) => *node.names.entry(name.clone()).or_insert(new),
                Segment::Like(name) if ignores_case => *node.like.entry(name.ignoring_case()).or_insert(new),
                Segment::Like(name) => *node.like.entry(name.clone()).or_insert(new),
            };
            if at == new {
                self.0.push(Node::default());
            }
        }
        self.0[at].ends.get_or_insert(number);
    }

    fn find(&self, way: &[Segment], case: Case) -> Option<usize> {
        let mut walk =
            Walk { tree: self, here: Vec::new(), staying: Vec::new(), known: HashSet::new(), found: None };
        let mut steps = MOST_STEPS;
        walk.enter(0);
        for (place, segment) in way.iter().enumerate() {
            let is_last = place + 1 == way.len();
            let mut places = walk.staying.clone();
            let before = std::mem::take(&mut walk.here);
            // `**` may stand for several names, so only the nodes in `staying` are certain to be reached.
            if *segment != Segment::Any {
                places.extend(before);
            } else if !is_last {
                continue;
            }
            for at in places {
                for next in self.0[at].behind(segment, case, &mut steps) {
                    if is_last {
                        walk.find(self.0[next].ends);
                    } else {
                        walk.enter(next);
                    }
                }
                steps = steps.checked_sub(1)?;
            }
        }
        walk.found
    }
}

/// The state of a walk: the nodes that the queried pattern has reached.
struct Walk<'a> {
    tree: &'a Tree,
    here: Vec<usize>,
    /// Nodes after any number of names. The walk stays in them.
    staying: Vec<usize>,
    known: HashSet<usize>,
    found: Option<usize>,
}

impl Walk<'_> {
    /// Enters a node that another name will follow.
    fn enter(&mut self, at: usize) {
        let node = &self.tree.0[at];
        self.here.push(at);
        self.staying.extend(node.below.filter(|below| self.known.insert(*below)));
        self.find(node.ends_below);
    }

    fn find(&mut self, number: Option<usize>) {
        self.found = self.found.into_iter().chain(number).min();
    }
}

impl Node {
    /// The nodes after one name, for every name that the segment may stand for.
    fn behind(&self, segment: &Segment, case: Case, steps: &mut usize) -> Vec<usize> {
        let every = self.like.get(&NamePattern::every(case == Case::Lower)).copied();
        let more: Vec<_> = match (segment, case) {
            (Segment::Name(name), Case::Open) if name.iter().any(u8::is_ascii_alphabetic) => Vec::new(),
            (Segment::Name(name), _) => {
                let lower = name.to_ascii_lowercase();
                let name = if case == Case::Lower { &lower[..] } else { name };
                let mut places = Vec::from_iter(self.names.get(name).copied());
                for (like, at) in &self.like {
                    // A walk without remaining steps finds nothing, even if this node has a match.
                    if *steps == 0 {
                        break;
                    }
                    if like.matches(name, steps) {
                        places.push(*at);
                    }
                }
                places
            }
            (Segment::Any, _) | (Segment::Like(_), Case::Open) => Vec::new(),
            (Segment::Like(like), Case::Counts) => self.like.get(like).copied().into_iter().collect(),
            (Segment::Like(like), Case::Lower) => {
                self.like.get(&like.ignoring_case()).copied().into_iter().collect()
            }
        };
        every.into_iter().chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether the cover finds that one pattern matches all that another matches. Each may ignore case.
    fn covers(one: &str, ignores: bool, other: &str, other_ignores: bool) -> bool {
        let [one, other] = [one, other].map(|text| Pattern::of_path(text).expect("a pattern"));
        let mut cover = Cover::default();
        cover.insert(7, Some(&one), ignores);
        other.ways().all(|way| cover.of(way, other_ignores) == Some(7))
    }

    #[test]
    fn a_pattern_matches_all_of_another_if_its_form_says_so() {
        for (one, others) in [
            ("/**", &["/**", "**", "/", "/a", "/*", "/a/**/b", "**/*.css", "/{a,b/c}"][..]),
            ("/a/**", &["/a/**", "/a/b", "/a/", "/a/*/x", "/a/**/b", "/a/b/**", "/{a/b,a/c}"]),
            ("**/*.php", &["/a.php", "/a/b.php", "/a/**/*.php", "/*.php"]),
            ("/a/**/*", &["/a/**", "/a/b/c"]),
            ("/*/b", &["/a/b", "/?/b", "/*/b"]),
            ("/a/*", &["/a/", "/a/*", "/a/x?"]),
            ("/{a,b}", &["/a", "/b", "/{b,a}"]),
            ("/x[a-c]", &["/xa", "/x[a-c]"]),
        ] {
            for other in others {
                assert!(covers(one, false, other, false), "{one} {other}");
            }
        }
        for (one, others) in [
            ("/a/**", &["/a", "/**", "/b", "/{a/b,b}", "**/a/**"][..]),
            ("/a", &["/a/", "/a/**", "/A", "/*", "/{a,b}"]),
            ("/*", &["/a/b", "/**"]),
            ("**/*.php", &["/a.php/x", "/**", "/a.ph?"]),
            ("/a/**/b", &["/a/**", "/a/b/c", "/a/**/c"]),
            ("/**/a/b", &["/a/**/b"]),
        ] {
            for other in others {
                assert!(!covers(one, false, other, false), "{one} {other}");
            }
        }
    }

    #[test]
    fn case_is_a_part_of_it() {
        for (one, other) in [("/A/*.Jpg", "/a/x.jpg"), ("/a/**", "/A/b"), ("/a*", "/a*")] {
            assert!(covers(one, true, other, false) && covers(one, true, other, true), "{one} {other}");
            assert!(!covers(one, false, other, true), "{one} {other}");
        }
        assert!(covers("/**", false, "/a", true) && covers("/1/*", false, "/1/*", true));
        assert!(covers("/1", false, "/1", true));
    }

    #[test]
    fn the_first_is_found() {
        let mut cover = Cover::default();
        let patterns = ["/a/b/c", "/a/*/c", "/a/**", "/a/**", "/a/b/**"];
        for (number, text) in patterns.iter().enumerate() {
            cover.insert(number, Some(&Pattern::of_path(text).expect("a pattern")), false);
        }
        let of = |text: &str| {
            let pattern = Pattern::of_path(text).expect("a pattern");
            pattern.ways().map(|way| cover.of(way, false)).next().flatten()
        };
        assert_eq!([of("/a/b/c"), of("/a/x/c"), of("/a/b/d"), of("/b")], [Some(0), Some(1), Some(2), None]);
        cover.insert(5, None, true);
        assert_eq!(cover.of(&[Segment::Any], false), Some(5));
    }

    proptest! {
        #[test]
        fn nothing_is_found_that_misses_a_path(
            one in "/([ab*?]|\\*\\*|\\{a,b\\}|/){0,6}",
            other in "/([ab*?]|\\*\\*|\\{a,b\\}|/){0,6}",
            paths in prop::collection::vec("(/[ab]{0,2}){1,4}", 8),
        ) {
            let matches = |pattern: &str, path: &str| {
                let literal = path.chars().fold(String::new(), |text, char| text + &char.to_string());
                covers(pattern, false, &literal, false)
            };
            let [one, other] = [one, other].map(|text| Pattern::with_single_stars(&text));
            if covers(&one, false, &other, false) {
                for path in &paths {
                    prop_assert!(!matches(&other, path) || matches(&one, path), "{one} {other} {path}");
                }
            }
        }
    }
}
