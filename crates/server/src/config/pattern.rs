//! Patterns of paths and media types: from their text to what each name in a path has to be.
//!
//! ```text
//! "/img/**/*.{jpg,png}" -- pieces --> tokens, braces
//!                       -- ways   --> /img/**/*.jpg and /img/**/*.png
//!                       -- segment -> img, **, *.jpg and img, **, *.png
//! ```
//!
//! A pattern that was read can be matched: nothing is compiled later that could fail. What it takes is
//! bounded by the size of its ways, written out. `content/patterns.rs` matches many of them at once.

pub(super) mod cover;
mod name;

use std::iter::Peekable;
use std::str::Chars;

pub use self::name::NamePattern;
use self::name::Token;

/// Most characters of all ways of a pattern together.
const MOST_WRITTEN_OUT: usize = 16 << 10;
/// How deep braces may stand within braces.
const DEEPEST: usize = 10;

/// A pattern that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: Box<str>,
    ways: Vec<Box<[Segment]>>,
}

/// What one name in a path has to be, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// This name.
    Name(Box<[u8]>),
    /// One like this.
    Like(NamePattern),
    /// Any number of names, `**`: one or more at the end of a pattern.
    Any,
}

/// A part of a pattern as it is written.
enum Piece {
    Token(Token),
    Slash,
    Braces(Vec<Vec<Piece>>),
}

/// A part of one way to read a pattern. `None` is a slash.
type Written = Option<Token>;

impl Pattern {
    /// Reads a pattern for a whole path, which begins with a slash.
    ///
    /// # Errors
    ///
    /// It can't be read, or is too large. The text says what is allowed.
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

    /// Reads a pattern for a media type without parameters, in lower case.
    ///
    /// # Errors
    ///
    /// It can't be read, or is too large. The text says what is allowed.
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

    /// A text of any stars, with one in place of several where `**` would not be a whole name.
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

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What a path has to consist of, one way or another.
    pub fn ways(&self) -> impl Iterator<Item = &[Segment]> {
        self.ways.iter().map(|way| &**way)
    }
}

/// Reads until the text ends or, within braces, until what ends one of their parts.
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

/// Reads the parts of braces, behind the opening one.
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

/// Reads a class of characters, behind its opening bracket.
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

/// Writes out what braces stand for.
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

/// What stands between two slashes.
fn segment(written: &[Written]) -> Result<Segment, String> {
    let tokens: Vec<_> = written.iter().flatten().cloned().collect();
    if tokens == [Token::Star, Token::Star] {
        return Ok(Segment::Any);
    }
    // Who writes this may mean any number of names, and would get a single one.
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
