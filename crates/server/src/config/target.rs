//! Where a redirect leads.

use std::fmt;

/// The text before the first wildcard of a pattern. `None`: the pattern has no wildcard.
pub fn literal_prefix(pattern: &str) -> Option<&str> {
    pattern.find(['*', '?', '[', '{', '\\']).map(|at| &pattern[..at]).or(pattern.is_empty().then_some(""))
}

/// Where a redirect leads: a path, or a reference with a scheme. Parts of the request's path may be
/// inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    text: String,
    parts: Vec<Part>,
}

/// A part of a [`Target`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Literal text.
    Text(String),
    /// The whole path of the request.
    Path,
    /// The path of the request from the position of the pattern's first wildcard.
    Rest,
}

impl Target {
    /// Parses a target.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let allowed = "allowed: a path or an address with http:// or https://, without blanks, in which \
                       {path} and {rest} stand for the requested path and for what wildcards match";
        let begins = match text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) {
            Some(behind) => names_its_host(behind),
            None => text.starts_with('/') && !text.starts_with("//"),
        };
        if !begins || text.bytes().any(|byte| !byte.is_ascii_graphic() || b"\"<>\\^`|#".contains(&byte)) {
            return Err(allowed.to_owned());
        }
        let (mut parts, mut left) = (Vec::new(), text);
        while let Some((before, behind)) = left.split_once('{') {
            let (name, behind) = behind.split_once('}').ok_or(allowed)?;
            parts.push(Part::Text(before.to_owned()));
            parts.push(match name {
                "path" => Part::Path,
                "rest" => Part::Rest,
                _ => return Err(allowed.to_owned()),
            });
            left = behind;
        }
        parts.push(Part::Text(left.to_owned()));
        parts.retain(|part| *part != Part::Text(String::new()));
        if left.contains('}') { Err(allowed.to_owned()) } else { Ok(Self { text: text.to_owned(), parts }) }
    }

    /// The parts of the target, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Whether the target sets the query itself.
    pub fn has_query(&self) -> bool {
        self.text.contains('?')
    }

    /// Whether the target contains what the wildcards match.
    pub(super) fn asks_for_rest(&self) -> bool {
        self.parts.contains(&Part::Rest)
    }
}

/// Whether the text after a scheme has a fixed host, which does not depend on the request. A path begins
/// with a slash, so `{path}` ends the host.
fn names_its_host(behind: &str) -> bool {
    let end = behind.find(['/', '?', '{']).unwrap_or(behind.len());
    end > 0 && (!behind[end..].starts_with('{') || behind[end..].starts_with("{path}"))
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
