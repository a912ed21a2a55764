//! Patterns of one name in a path: characters, `?`, classes, and `*` between them.

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Token {
    Char(char),
    /// Any character.
    AnyChar,
    /// Any number of characters.
    Star,
    Class {
        negated: bool,
        ranges: Box<[(char, char)]>,
    },
}

/// A pattern of a name. Each byte that is not UTF-8 counts as one character. Only `?`, `*` and negated
/// classes match such a byte.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamePattern {
    /// The tokens at the beginning.
    start: Box<[Token]>,
    /// The groups of tokens between two stars, in order.
    middle: Box<[Box<[Token]>]>,
    /// The tokens at the end. `None` means that the pattern has no star, and `start` is the whole
    /// pattern.
    end: Option<Box<[Token]>>,
    /// ASCII letters match in either case.
    ignores_case: bool,
}

impl NamePattern {
    pub(super) fn new(tokens: &[Token]) -> Self {
        let mut parts: Vec<Box<[Token]>> =
            tokens.split(|token| *token == Token::Star).map(Into::into).collect();
        let end = if parts.len() > 1 { parts.pop() } else { None };
        let start = parts.remove(0);
        parts.retain(|part| !part.is_empty());
        Self { start, middle: parts.into(), end, ignores_case: false }
    }

    /// Any name, `*`.
    pub(super) fn every(ignores_case: bool) -> Self {
        Self { ignores_case, ..Self::new(&[Token::Star]) }
    }

    /// The characters that every matching name ends with.
    pub(in crate::config) fn literal_end(&self) -> String {
        let tokens = self.end.as_ref().unwrap_or(&self.start);
        let character = |token: &Token| if let Token::Char(c) = token { Some(*c) } else { None };
        let mut end: Vec<_> = tokens.iter().rev().map_while(character).collect();
        end.reverse();
        end.into_iter().collect()
    }

    /// This pattern, with ASCII letters that match in either case.
    #[must_use]
    pub fn ignoring_case(&self) -> Self {
        Self { ignores_case: true, ..self.clone() }
    }

    /// Whether a name matches. Each compared character uses one of `steps`. If none are left, the answer
    /// is no.
    pub fn matches(&self, name: &[u8], steps: &mut usize) -> bool {
        let Some(mut rest) = self.strip(&self.start, name, first, steps) else { return false };
        let Some(end) = &self.end else { return rest.is_empty() };
        let from_behind = |name, part: &[Token], steps: &mut usize| {
            let mut rest = name;
            for token in part.iter().rev() {
                rest = self.strip(std::slice::from_ref(token), rest, last, steps)?;
            }
            Some(rest)
        };
        match from_behind(rest, end, steps) {
            Some(between) => rest = between,
            None => return false,
        }
        // The first position where a group fits leaves the most characters for the groups after it.
        self.middle.iter().all(|part| {
            loop {
                match self.strip(part, rest, first, steps) {
                    Some(behind) => {
                        rest = behind;
                        return true;
                    }
                    None if rest.is_empty() || *steps == 0 => return false,
                    None => rest = &rest[1..],
                }
            }
        })
    }

    /// Strips the characters that these tokens match and returns the rest of the name. `take` decides
    /// from which end.
    fn strip<'a>(
        &self,
        tokens: &[Token],
        name: &'a [u8],
        take: fn(&'a [u8]) -> Taken<'a>,
        steps: &mut usize,
    ) -> Option<&'a [u8]> {
        let mut rest = name;
        for token in tokens {
            *steps = steps.checked_sub(1)?;
            let (c, behind) = take(rest)?;
            if !self.fits(token, c) {
                return None;
            }
            rest = behind;
        }
        Some(rest)
    }

    /// Whether a token matches a character, or a byte that is not part of one.
    fn fits(&self, token: &Token, c: Option<char>) -> bool {
        let same = |a: char, b: char| a == b || self.ignores_case && a.eq_ignore_ascii_case(&b);
        match (token, c) {
            (Token::Char(wanted), c) => c.is_some_and(|c| same(*wanted, c)),
            (Token::AnyChar | Token::Star, _) => true,
            (Token::Class { negated, ranges }, c) => {
                let has = |c: char| ranges.iter().any(|(first, last)| (*first..=*last).contains(&c));
                let has_it = c.is_some_and(|c| {
                    has(c)
                        || self.ignores_case && (has(c.to_ascii_lowercase()) || has(c.to_ascii_uppercase()))
                });
                has_it != *negated
            }
        }
    }
}

/// A character (or a byte that is not part of one), and the rest of the name. `None`: the name is empty.
type Taken<'a> = Option<(Option<char>, &'a [u8])>;

/// Takes the first character.
fn first(name: &[u8]) -> Taken<'_> {
    let length = match name.first()? {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 1,
    };
    let c = name.get(..length).and_then(character);
    Some((c, &name[if c.is_some() { length } else { 1 }..]))
}

/// Takes the last character.
fn last(name: &[u8]) -> Taken<'_> {
    let (_, before) = name.split_last()?;
    let at = |length: usize| name.len().checked_sub(length);
    let found = (1..=4).filter_map(at).find_map(|at| Some((Some(character(&name[at..])?), &name[..at])));
    Some(found.unwrap_or((None, before)))
}

/// The single character that these bytes encode.
fn character(bytes: &[u8]) -> Option<char> {
    let mut chars = str::from_utf8(bytes).ok()?.chars();
    chars.next().filter(|_| chars.next().is_none())
}
