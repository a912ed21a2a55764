//! Matches a path against all patterns at once.
//!
//! Patterns form a tree by their names: patterns that begin with the same names share these, and one hash
//! look-up finds a name among all that may follow. So the cost depends on the length of the path. It
//! depends on the number of patterns only if many have wildcards in the same place. The cost of one path
//! is bounded.

use hashbrown::{HashMap, HashSet};

use crate::config::{NamePattern, Pattern, Segment};

/// The most steps for one path: a few milliseconds.
const MOST_STEPS: usize = 1 << 20;

/// Patterns, numbered in the order in which they were given.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    /// Patterns that match everything.
    always: Vec<usize>,
    by_case: Option<Tree>,
    /// For paths in lower case.
    by_letter: Option<Tree>,
}

/// The patterns that match a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Matches {
    /// The numbers of patterns, ascending.
    pub(super) numbers: Vec<usize>,
    /// Whether these are all: `false` if the path would have taken too many steps.
    pub(super) is_all: bool,
}

/// What may follow after certain names.
#[derive(Debug, Default)]
struct Node {
    names: HashMap<Box<[u8]>, usize>,
    /// Names with wildcards that other names follow.
    like: Vec<(NamePattern, usize)>,
    /// Names with wildcards at the end of a pattern.
    last_like: Vec<(NamePattern, Vec<usize>)>,
    /// The node after any number of names.
    below: Option<usize>,
    /// Patterns that end here.
    ends: Vec<usize>,
    /// Patterns that match here with any further names.
    ends_below: Vec<usize>,
}

/// Where a node has a name pattern; used while the tree is built.
type Known = HashMap<(usize, NamePattern), usize>;

/// The first node is the root.
#[derive(Debug)]
struct Tree(Vec<Node>);

impl Patterns {
    /// Takes patterns, and whether each ignores case. `None` matches everything.
    pub(super) fn new<'a>(patterns: impl Iterator<Item = (Option<&'a Pattern>, bool)>) -> Self {
        let mut always = Vec::new();
        let mut trees: [Vec<_>; 2] = Default::default();
        for (number, (pattern, ignores_case)) in patterns.enumerate() {
            match pattern {
                None => always.push(number),
                Some(pattern) => trees[usize::from(ignores_case)].push((number, pattern)),
            }
        }
        let [by_case, by_letter] = trees;
        Self { always, by_case: Tree::new(&by_case, false), by_letter: Tree::new(&by_letter, true) }
    }

    /// The patterns that match a path, which begins with a slash.
    pub(super) fn of_path(&self, path: &[u8]) -> Matches {
        self.of(path.strip_prefix(b"/"), &mut { MOST_STEPS })
    }

    /// The patterns that match a media type, or no media type (`None`).
    pub(super) fn of_media_type(&self, media_type: Option<&[u8]>) -> Matches {
        self.of(media_type, &mut { MOST_STEPS })
    }

    fn of(&self, names: Option<&[u8]>, steps: &mut usize) -> Matches {
        let mut numbers = self.always.clone();
        if let Some(names) = names {
            if let Some(tree) = &self.by_case {
                tree.find(names, &mut numbers, steps);
            }
            if let Some(tree) = &self.by_letter {
                tree.find(&names.to_ascii_lowercase(), &mut numbers, steps);
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        Matches { numbers, is_all: *steps > 0 }
    }
}

impl Tree {
    fn new(patterns: &[(usize, &Pattern)], ignores_case: bool) -> Option<Self> {
        if patterns.is_empty() {
            return None;
        }
        let mut tree = Self(vec![Node::default()]);
        let mut known = Default::default();
        for (number, pattern) in patterns {
            for way in pattern.ways() {
                tree.insert(*number, way, ignores_case, &mut known);
            }
        }
        Some(tree)
    }

    /// Adds one way to match a pattern.
    fn insert(
        &mut self,
        number: usize,
        way: &[Segment],
        ignores_case: bool,
        [known, known_last]: &mut [Known; 2],
    ) {
        let mut at = 0;
        for (place, segment) in way.iter().enumerate() {
            let (is_last, new) = (place + 1 == way.len(), self.0.len());
            let node = &mut self.0[at];
            let next = match segment {
                Segment::Any if is_last => {
                    node.ends_below.push(number);
                    return;
                }
                Segment::Any => *node.below.get_or_insert(new),
                Segment::Name(name) => {
                    let name = if ignores_case { name.to_ascii_lowercase().into() } else { name.clone() };
                    *node.names.entry(name).or_insert(new)
                }
                Segment::Like(name) => {
                    let name = if ignores_case { name.ignoring_case() } else { name.clone() };
                    if is_last {
                        let end = *known_last.entry((at, name.clone())).or_insert(node.last_like.len());
                        if end == node.last_like.len() {
                            node.last_like.push((name, Vec::new()));
                        }
                        node.last_like[end].1.push(number);
                        return;
                    }
                    let next = *known.entry((at, name.clone())).or_insert(new);
                    if next == new {
                        node.like.push((name, new));
                    }
                    next
                }
            };
            if next == new {
                self.0.push(Node::default());
            }
            at = next;
        }
        self.0[at].ends.push(number);
    }

    /// Adds the numbers of patterns that match these names, until the steps are used up.
    fn find(&self, names: &[u8], numbers: &mut Vec<usize>, steps: &mut usize) {
        // `here` has the nodes reached by exactly these names. `staying` has nodes after any number of
        // names: they remain.
        let (mut here, mut staying, mut known) = (Vec::new(), Vec::new(), HashSet::new());
        let mut enter =
            |number: usize, here: &mut Vec<usize>, staying: &mut Vec<usize>, found: &mut Vec<usize>| {
                let node = &self.0[number];
                found.extend(&node.ends_below);
                here.push(number);
                staying.extend(node.below.filter(|below| known.insert(*below)));
            };
        enter(0, &mut here, &mut staying, numbers);
        let mut names = names.split(|byte| *byte == b'/').peekable();
        while let Some(name) = names.next() {
            let is_last = names.peek().is_none();
            let mut next = Vec::new();
            for number in [&here[..], &staying.clone()].concat() {
                let (node, found_before) = (&self.0[number], numbers.len());
                if let Some(child) = node.names.get(name) {
                    if is_last {
                        numbers.extend(&self.0[*child].ends);
                    } else {
                        enter(*child, &mut next, &mut staying, numbers);
                    }
                }
                if is_last {
                    let alike = node.last_like.iter().filter(|(like, _)| like.matches(name, steps));
                    alike.for_each(|(_, ends)| numbers.extend(ends));
                } else {
                    let alike = node.like.iter().filter(|(like, _)| like.matches(name, steps));
                    alike.for_each(|(_, child)| enter(*child, &mut next, &mut staying, numbers));
                }
                // Hashing a name takes several steps.
                *steps = steps.saturating_sub(1 + name.len() / 16 + numbers.len() - found_before);
                if *steps == 0 {
                    return;
                }
            }
            here = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use globset::GlobBuilder;
    use proptest::prelude::*;

    use super::*;

    fn patterns(texts: &[impl AsRef<str>], ignores_case: bool) -> Patterns {
        let read = |text: &str| Pattern::of_path(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let all: Vec<_> = texts.iter().map(|text| read(text.as_ref())).collect();
        Patterns::new(all.iter().map(|pattern| (Some(pattern), ignores_case)))
    }

    fn matches(pattern: &str, path: &str) -> bool {
        !patterns(&[pattern], false).of_path(path.as_bytes()).numbers.is_empty()
    }

    /// How many steps a path takes.
    fn steps(patterns: &Patterns, path: &str) -> usize {
        let mut steps = usize::MAX;
        patterns.of(path.strip_prefix('/').map(str::as_bytes), &mut steps);
        usize::MAX - steps
    }

    #[test]
    fn names_and_wildcards_match_what_the_manual_says() {
        for (pattern, matched, others) in [
            ("/a/b", &["/a/b"][..], &["/a", "/a/b/", "/a/b/c", "/A/b", "a/b", ""][..]),
            ("/", &["/"], &["/a", ""]),
            ("/a/*", &["/a/", "/a/b", "/a/.b"], &["/a", "/a/b/c"]),
            ("/a/**", &["/a/", "/a/b", "/a/b/c", "/a/b/"], &["/a", "/ab"]),
            ("**", &["/", "/a", "/a/b/"], &[]),
            ("/**", &["/", "/a", "/a/b/"], &[]),
            ("**/*.css", &["/a.css", "/a/b.css", "/.css"], &["/a.css/b", "/a.csss", "/a.CSS"]),
            ("/a/**/b", &["/a/b", "/a/x/b", "/a/x/y/b", "/a/b/b"], &["/a/bb", "/ab", "/a/b/", "/b"]),
            ("/**/a/**/b", &["/a/b", "/x/a/a/y/b", "/a/x/a/b"], &["/b/a", "/a/xb"]),
            ("/a/**/", &["/a/", "/a/b/"], &["/a", "/a/b"]),
            ("/a*b", &["/ab", "/axb"], &["/a/b"]),
            ("/?", &["/a", "/\u{e9}", "/\u{1f980}"], &["/", "/ab"]),
            ("/*?x", &["/\u{e9}x", "/abx"], &["/x"]),
            ("/a*b*c", &["/abc", "/axbxbc"], &["/acb", "/ab", "/ab/c"]),
            ("/*aab*", &["/aaab", "/xaabx"], &["/aba"]),
            ("/a*a", &["/aa", "/aba"], &["/a"]),
            ("/[a-c]", &["/a", "/c"], &["/d", "/", "/ab"]),
            ("/[!a]", &["/b", "/\u{e9}"], &["/a", "//", "/"]),
            ("/[\u{e8}-\u{ea}]", &["/\u{e9}"], &["/\u{eb}"]),
            ("/[]a-]", &["/]", "/a", "/-"], &["/b"]),
            ("/x[!y]z", &["/xaz"], &["/x/z"]),
            ("/{a,b/c}/d", &["/a/d", "/b/c/d"], &["/b/d"]),
            ("/a{,.html}", &["/a", "/a.html"], &["/ahtml"]),
            ("/{a,{b,c}{d,e}}", &["/a", "/bd", "/ce"], &["/b", "/ad"]),
            ("{/a,**/b}", &["/a", "/b", "/c/b"], &["/c/a"]),
            ("/a/{**,x}/b", &["/a/b", "/a/y/z/b"], &["/a/c"]),
            ("/\\*\\{\\[", &["/*{["], &["/a{["]),
            ("/a,b", &["/a,b"], &["/a"]),
        ] {
            for path in matched {
                assert!(matches(pattern, path), "{pattern} {path}");
            }
            for path in others {
                assert!(!matches(pattern, path), "{pattern} {path}");
            }
        }
        assert_eq!(patterns(&["/?", "/[!a]", "/*"], false).of_path(b"/\xff").numbers, [0, 1, 2]);
    }

    #[test]
    fn case_is_ignored_in_ascii_alone() {
        let of = |path: &str| {
            patterns(&["**/*.jpg", "/A/**", "/[b-c]?", "/\u{e9}"], true).of_path(path.as_bytes()).numbers
        };
        for (path, expected) in [
            ("/x/I.JPG", &[0][..]),
            ("/a/i.JpG", &[0, 1]),
            ("/Bx", &[2]),
            ("/\u{e9}", &[3]),
            ("/\u{c9}", &[]),
            ("/x.\u{fb01}", &[]),
        ] {
            assert_eq!(of(path), expected, "{path}");
        }
    }

    #[test]
    fn all_that_match_are_found_each_once_and_in_order() {
        let read = |text| Pattern::of_path(text).unwrap();
        let [all, deep, name] = [read("/**"), read("{/**/b,/a/*}"), read("/A/b")];
        let patterns = Patterns::new(
            [(Some(&deep), false), (None, false), (Some(&name), true), (Some(&all), false)].into_iter(),
        );
        assert_eq!(patterns.of_path(b"/a/b"), Matches { numbers: vec![0, 1, 2, 3], is_all: true });
        assert_eq!(patterns.of_path(b"/a"), Matches { numbers: vec![1, 3], is_all: true });
        assert_eq!(patterns.of_media_type(None).numbers, [1]);
        assert_eq!(Patterns::default().of_path(b"/a").numbers, [0; 0]);
    }

    /// A path of 1,900 names, as long as a request line may be.
    fn names() -> String {
        (0..1900).fold(String::new(), |path, number| path + &format!("/x{number}"))
    }

    #[test]
    fn a_path_costs_its_length_and_not_the_number_of_patterns() {
        let path = format!("{}/a.q", names());
        for form in ["/**/xN/*.q", "/xN/**", "/x0/**/xN/q", "**/xN", "/xN", "/a/*/xN/*"] {
            let of = |count: usize| {
                let texts: Vec<_> = (0..count).map(|number| form.replace('N', &number.to_string())).collect();
                steps(&patterns(&texts, false), &path)
            };
            let (few, many) = (of(2500), of(5000));
            assert!(many <= few && many < 5 * 1900, "{form}: {few}, {many}");
        }
    }

    #[test]
    fn no_path_costs_more_than_is_allowed() {
        let texts: Vec<_> = (0..500).map(|number| format!("/**/*x*{number}*/**/q")).collect();
        let patterns = patterns(&texts, false);
        assert!(steps(&patterns, &names()) > MOST_STEPS, "a bound is needed");
        let mut steps = MOST_STEPS;
        let names = names();
        assert!(!patterns.of(names.strip_prefix('/').map(str::as_bytes), &mut steps).is_all);
        assert_eq!(steps, 0);
        assert!(patterns.of_path(b"/a/b/c").is_all);
    }

    proptest! {
        #[test]
        fn any_text_is_an_error_or_a_pattern(
            text in "(/|\\*\\*/)?([/*?.,\\[\\]{}!^\\\\a-c-]|\\PC){0,40}",
            path in "/[/a-c.\\PC]{0,20}",
        ) {
            if let Ok(pattern) = Pattern::of_path(&text) {
                prop_assert_eq!(pattern.text(), &text);
                for ignores_case in [false, true] {
                    let patterns = Patterns::new([(Some(&pattern), ignores_case)].into_iter());
                    prop_assert!(patterns.of_path(path.as_bytes()).is_all);
                }
            }
            if let Ok(pattern) = Pattern::of_media_type(&text) {
                Patterns::new([(Some(&pattern), false)].into_iter()).of_media_type(Some(path.as_bytes()));
            }
        }

        /// Uses only patterns that both read the same way: with single slashes, without classes that
        /// could match a slash, and without wildcards that match nothing before the first slash.
        #[test]
        fn patterns_match_as_those_of_globset(
            start in "(/[*]?|/\\*\\*/|\\*\\*/[ab?])([ab?]|\\{a,b\\}|\\{a,b/a\\}|\\[ab])?",
            rest in "(([ab*?]|\\*\\*)?/([ab*?]|\\*\\*|\\{a,b/a\\})?){0,4}",
            path in "(/[ab]{1,2}){0,4}/?",
        ) {
            let text = start + &rest;
            let text = text.split('/').enumerate().filter(|(at, name)| *at == 0 || !name.is_empty());
            let text = text.map(|(_, name)| name).collect::<Vec<_>>().join("/");
            let text = Pattern::with_single_stars(&text);
            // globset reads patterns of slashes and stars alone differently.
            if text.chars().all(|c| "*/".contains(c)) {
                return Ok(());
            }
            let theirs = GlobBuilder::new(&text).literal_separator(true).build().unwrap().compile_matcher();
            prop_assert_eq!(matches(&text, &path), path.starts_with('/') && theirs.is_match(&path));
        }
    }
}
