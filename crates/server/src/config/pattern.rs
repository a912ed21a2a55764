//! Patterns of paths and media types: parses their text into segments, one for each name in a path.
//!
//! ```text
//! "/img/**/*.{jpg,png}" -- pieces --> tokens, braces
//!                       -- ways   --> /img/**/*.jpg and /img/**/*.png
//!                       -- segment -> img, **, *.jpg and img, **, *.png
//! ```
//!
//! A parsed pattern can always be matched: no later step compiles it or can fail. Its cost is bounded by
//! the size of its ways, written out. `content/patterns.rs` matches many patterns at once.

pub(super) mod cover;
mod name;

use std::iter::Peekable;
use std::str::Chars;

pub use self::name::NamePattern;
use self::name::Token;

/// Most characters in all ways of a pattern together.
const MOST_WRITTEN_OUT: usize = 16 << 10;
/// Most levels of braces within braces.
const DEEPEST: usize = 10;

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: Box<str>,
    ways: Vec<Box<[Segment]>>,
}

/// What one name in a path must be. [`Any`](Self::Any) stands for several names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Exactly this name.
    Name(Box<[u8]>),
    /// A name that matches this pattern.
    Like(NamePattern),
    /// Any number of names, `**`: one or more at the end of a pattern.
    Any,
}

/// A part of a pattern as the operator wrote it.
enum Piece {
    Token(Token),
    Slash,
    Braces(Vec<Vec<Piece>>),
}

/// A part of one way to read a pattern. `None` is a slash.
type Written = Option<Token>;

impl Pattern {
    /// Parses a pattern for a whole path, which begins with a slash.
    ///
    /// # Errors
    ///
    /// The pattern is malformed or too large. The text says what is allowed.
    pub fn of_path(text: &str) -> Result<Self, String> {
        let allowed = "allowed: a pattern for the whole path, such as \"/assets/**\" or \"**/*.css\"";
        let segments = |mut segments: Vec<Segment>| match segments.first() {
            Some(Segment::Name(name)) if name.is_empty() && segments.len() > 1 => {
                segments.remove(0);
                Ok(segments)
            }
            Some(Segment::Any) => Ok(segments),
            _ => Err(allowed.to_owned()),
        };
        Self::read(text, segments)
    }

    /// Parses a pattern for a media type without parameters, in lower case.
    ///
    /// # Errors
    ///
    /// The pattern is malformed or too large. The text says what is allowed.
    pub fn of_media_type(text: &str) -> Result<Self, String> {
        if !text.contains('/') {
            let allowed = "allowed: a pattern for the media type, such as \"image/*\" or \"text/{css,html}\"";
            return Err(allowed.to_owned());
        }
        Self::read(&text.to_ascii_lowercase(), Ok)
    }

    fn read(
        text: &str,
        segments: impl Fn(Vec<Segment>) -> Result<Vec<Segment>, String>,
    ) -> Result<Self, String> {
        let mut chars = text.chars().peekable();
        let pieces = pieces(&mut chars, 0)?;
        if chars.next().is_some() {
            return Err("a } closes nothing; write \\} for the character".to_owned());
        }
        let ways = ways(pieces)?.into_iter().map(|way| {
            let names: Result<_, String> = way.split(Option::is_none).map(segment).collect();
            let mut way = segments(names?)?;
            way.dedup_by(|a, b| (&*a, &*b) == (&Segment::Any, &Segment::Any));
            Ok(way.into())
        });
        Ok(Self { text: text.into(), ways: ways.collect::<Result<_, String>>()? })
    }

    /// Replaces several stars by one wherever `**` would not be a whole name.
    #[cfg(test)]
    pub fn with_single_stars(text: &str) -> String {
        let single = |name: &str| {
            let mut name = name.to_owned();
            while name != "**" && name.contains("**") {
                name = name.replacen("**", "*", 1);
            }
            name
        };
        text.split('/').map(single).collect::<Vec<_>>().join("/")
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The alternatives ("ways") of the pattern. A path matches if it matches one of them.
    pub fn ways(&self) -> impl Iterator<Item = &[Segment]> {
        self.ways.iter().map(|way| &**way)
    }
}

/// Reads up to the end of the text. Within braces, it reads up to the end of the current alternative.
fn pieces(chars: &mut Peekable<Chars<'_>>, depth: usize) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    while let Some(c) = chars.next_if(|c| !(*c == '}' || *c == ',' && depth > 0)) {
        match c {
            '/' => pieces.push(Piece::Slash),
            '*' => pieces.push(Piece::Token(Token::Star)),
            '?' => pieces.push(Piece::Token(Token::AnyChar)),
            '[' => pieces.push(Piece::Token(class(chars)?)),
            '{' => pieces.push(Piece::Braces(braces(chars, depth + 1)?)),
            '\\' => match chars.next() {
                None => return Err("nothing follows the last \\; write \\\\ for the character".to_owned()),
                Some('/') => pieces.push(Piece::Slash),
                Some(c) => pieces.push(Piece::Token(Token::Char(c))),
            },
            c => pieces.push(Piece::Token(Token::Char(c))),
        }
    }
    Ok(pieces)
}

/// Reads the alternatives of braces, after the opening brace.
fn braces(chars: &mut Peekable<Chars<'_>>, depth: usize) -> Result<Vec<Vec<Piece>>, String> {
    if depth > DEEPEST {
        return Err(format!("allowed: braces within braces up to {DEEPEST} deep"));
    }
    let mut parts = Vec::new();
    loop {
        parts.push(pieces(chars, depth)?);
        match chars.next() {
            Some(',') => {}
            Some(_) => return Ok(parts),
            None => return Err("a { is not closed; write \\{ for the character".to_owned()),
        }
    }
}

/// Reads a class of characters, after its opening bracket.
fn class(chars: &mut Peekable<Chars<'_>>) -> Result<Token, String> {
    let unclosed = || "a [ is not closed; write \\[ for the character".to_owned();
    let negated = chars.next_if(|c| matches!(c, '!' | '^')).is_some();
    let mut ranges: Vec<(char, char)> = Vec::new();
    loop {
        match chars.next().ok_or_else(unclosed)? {
            ']' if !ranges.is_empty() => return Ok(Token::Class { negated, ranges: ranges.into() }),
            first => {
                let mut last = first;
                if chars.next_if_eq(&'-').is_some() {
                    match chars.next_if(|c| *c != ']') {
                        Some(c) => last = c,
                        // A hyphen at the end stands for itself.
                        None => ranges.push(('-', '-')),
                    }
                }
                if last < first {
                    return Err(format!("the range {first}-{last} is empty; allowed: {last}-{first}"));
                }
                ranges.push((first, last));
            }
        }
    }
}

/// Expands the braces into all their alternatives.
fn ways(pieces: Vec<Piece>) -> Result<Vec<Vec<Written>>, String> {
    let mut ways: Vec<Vec<Written>> = vec![Vec::new()];
    let mut size = 0;
    let fits = |size: usize| {
        let allowed =
            || format!("too large; allowed: {MOST_WRITTEN_OUT} characters, with braces written out");
        if size <= MOST_WRITTEN_OUT { Ok(()) } else { Err(allowed()) }
    };
    for piece in pieces {
        let written = match piece {
            Piece::Token(token) => Some(token),
            Piece::Slash => None,
            Piece::Braces(parts) => {
                let mut choices = Vec::new();
                for part in parts {
                    choices.extend(self::ways(part)?);
                    fits(choices.iter().map(|choice| choice.len() + 1).sum())?;
                }
                if let [choice] = &choices[..] {
                    size += ways.len() * choice.len();
                    fits(size)?;
                    for way in &mut ways {
                        way.extend_from_slice(choice);
                    }
                    continue;
                }
                let of_choices: usize = choices.iter().map(Vec::len).sum();
                size = size * choices.len() + ways.len() * (of_choices + choices.len());
                fits(size)?;
                let with = |way: &Vec<Written>, choice: &Vec<Written>| [&way[..], choice].concat();
                ways =
                    ways.iter().flat_map(|way| choices.iter().map(move |choice| with(way, choice))).collect();
                continue;
            }
        };
        size += ways.len();
        fits(size)?;
        for way in &mut ways {
            way.push(written.clone());
        }
    }
    Ok(ways)
}

/// Converts the text between two slashes.
fn segment(written: &[Written]) -> Result<Segment, String> {
    let tokens: Vec<_> = written.iter().flatten().cloned().collect();
    if tokens == [Token::Star, Token::Star] {
        return Ok(Segment::Any);
    }
    // An operator who writes this may mean any number of names, but it would match only one.
    if tokens.windows(2).any(|pair| pair == [Token::Star, Token::Star]) {
        let allowed =
            "allowed: \"/uploads/**/*.php\" for all below a directory, \"/uploads/*.php\" for those in it";
        return Err(format!("** is any number of names, and stands alone between slashes; {allowed}"));
    }
    let character = |token: &Token| if let Token::Char(c) = token { Some(*c) } else { None };
    Ok(match tokens.iter().map(character).collect::<Option<String>>() {
        Some(name) => Segment::Name(name.into_bytes().into()),
        None => Segment::Like(NamePattern::new(&tokens)),
    })
}
