//! Paths that name no file, but may be meant for an application. In these paths a name begins with a dot,
//! or a slash is encoded (`%2F`) and a route takes that.
//!
//! The part of a path after a script belongs to the application, and so does all of a path that a program
//! answers. Clients use names there such as `.DS_Store`. Only the names up to the script are looked up,
//! and these may not begin with a dot.
//!
//! An encoded slash is part of a name (RFC 3986 section 2.2), as in npm's `/@scope%2fname`. No file has
//! such a name, so no file is looked up by it, and the script must come before it. An application gets
//! the target as it was sent, and may read the slash either way. So the path is refused if it would be
//! refused with a plain slash there, or with the three characters as text.

use super::numbers::Elsewhere;
use super::path::{self, Path, Refusal};
use super::routes::{Action, Routes};
use super::scripts::script_length;

/// A path that may have encoded slashes, decoded both ways.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Encoded {
    /// With the encoded slashes as plain slashes.
    pub(super) path: Vec<u8>,
    /// With the encoded slashes as text.
    as_text: Vec<u8>,
    /// Length of the decoded path before the first encoded slash, if there is one.
    before: Option<usize>,
}

/// What to do with such a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Takes<'a> {
    Elsewhere(Elsewhere),
    /// Run the script at its beginning.
    Script(&'a [u8]),
    /// Send or run the route's fallback.
    Fallback,
}

impl Encoded {
    /// Decodes a path.
    ///
    /// # Errors
    ///
    /// The path cannot be decoded. Or it has both encoded slashes and dot segments: some applications
    /// decode the slashes first, others resolve the segments first.
    pub(super) fn read(raw: &[u8]) -> Result<Self, Refusal> {
        let plain = replace(raw, b"/");
        let first = encoded_slashes(raw).next();
        let mut name = Vec::new();
        for segment in plain.split(|&byte| byte == b'/').filter(|_| first.is_some()) {
            let decoded = Path::decode(&[b"/", segment].concat(), true, &mut name);
            if !segment.is_empty() && matches!(decoded.map(Path::bytes), Ok(b"/") | Err(Refusal::AboveRoot)) {
                return Err(Refusal::EncodedSlash);
            }
        }
        let decode = |raw: &[u8]| -> Result<_, Refusal> {
            let mut decoded = Vec::new();
            Path::decode(raw, true, &mut decoded)?;
            Ok(decoded)
        };
        let before = first.map(|first| decode(&raw[..first])).transpose()?;
        Ok(Self {
            path: decode(&plain)?,
            as_text: decode(&replace(raw, b"%252F"))?,
            before: before.map(|before| before.len()),
        })
    }

    /// Whether any name begins with a dot, however the slashes are read.
    pub(super) fn is_hidden(&self) -> bool {
        path::is_some_hidden(&self.path) || path::is_some_hidden(&self.as_text)
    }
}

impl Routes {
    /// Whether any route may take paths that are refused as files for this reason.
    pub(super) fn may_take(&self, refusal: Refusal) -> bool {
        match refusal {
            Refusal::EncodedSlash => self.take_encoded_slashes,
            Refusal::Hidden => self.have_applications(),
            _ => false,
        }
    }

    /// What to do with a path that is refused as a file for this reason.
    ///
    /// # Errors
    ///
    /// Why the path is refused.
    pub(super) fn take<'a>(
        &self,
        encoded: &'a Encoded,
        refusal: Refusal,
        dotfiles: bool,
    ) -> Result<Takes<'a>, Refusal> {
        let is_hidden = !dotfiles && encoded.is_hidden();
        self.take_either(encoded, is_hidden).ok_or(if is_hidden { Refusal::Hidden } else { refusal })
    }

    fn take_either<'a>(&self, encoded: &'a Encoded, is_hidden: bool) -> Option<Takes<'a>> {
        let path = &encoded.path;
        let is_refused = |number| self.refuses(Elsewhere(number));
        let number = self.number(path)?;
        if encoded.before.is_some()
            && (!self.all[number].encoded_slashes || self.number(&encoded.as_text).is_some_and(is_refused))
        {
            return None;
        }
        match &self.all[number].action {
            Action::Program { .. } | Action::FilesFirst(_) => {
                return Some(Takes::Elsewhere(Elsewhere(number)));
            }
            Action::Scripts { ending, .. } => {
                let script = &path[..script_length(path, ending)?];
                self.runner(script).ok()?;
                if is_hidden && path::is_some_hidden(script) {
                    return None;
                }
                if encoded.before.is_none_or(|before| script.len() < before) {
                    return Some(Takes::Script(script));
                }
            }
            _ => {}
        }
        self.fallback(path).filter(|_| !is_hidden).map(|_| Takes::Fallback)
    }
}

/// Positions of encoded slashes in a path.
fn encoded_slashes(raw: &[u8]) -> impl Iterator<Item = usize> {
    let is_one = |(_, escape): &(usize, &[u8])| escape.eq_ignore_ascii_case(b"%2F");
    raw.windows(3).enumerate().filter(is_one).map(|(at, _)| at)
}

/// The path with its encoded slashes replaced.
fn replace(raw: &[u8], with: &[u8]) -> Vec<u8> {
    let (mut replaced, mut end) = (Vec::new(), 0);
    for at in encoded_slashes(raw) {
        replaced.extend_from_slice(&raw[end..at]);
        replaced.extend_from_slice(with);
        end = at + 3;
    }
    replaced.extend_from_slice(&raw[end..]);
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(raw: &str) -> Result<(String, String, Option<usize>), Refusal> {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let Encoded { path, as_text, before } = Encoded::read(raw.as_bytes())?;
        Ok((text(path), text(as_text), before))
    }

    #[test]
    fn both_readings_of_a_slash() {
        for (raw, path, as_text, before) in [
            ("/@a%2fb", "/@a/b", "/@a%2Fb", 3),
            ("/%40a%2Fb/c%2F", "/@a/b/c/", "/@a%2Fb/c%2F", 3),
            ("/x/http%3A%2F%2Fh%2Fp", "/x/http:/h/p", "/x/http:%2F%2Fh%2Fp", 8),
            ("/a/%2Fb", "/a/b", "/a/%2Fb", 3),
            ("/a%252F%2Fb", "/a%2F/b", "/a%2F%2Fb", 5),
        ] {
            assert_eq!(read(raw), Ok((path.to_owned(), as_text.to_owned(), Some(before))), "{raw}");
        }
        assert_eq!(read("/a/%2E./b/.c"), Ok(("/b/.c".to_owned(), "/b/.c".to_owned(), None)));
    }

    #[test]
    fn what_could_be_read_in_other_ways_is_refused() {
        for raw in
            ["/a%2F../b", "/a%2F..%2Fb", "/a/../b%2Fc", "/a%2F.", "/%2E%2E%2Fa", "/.%2Fa", "/a%2F%2e/b"]
        {
            assert_eq!(read(raw), Err(Refusal::EncodedSlash), "{raw}");
        }
        for (raw, is_hidden) in [
            ("/a%2F.git", true),
            ("/.git%2Fa", true),
            ("/.well-known%2Fa/.b", true),
            // Read as text, the first name is another one.
            ("/.well-known%2Fa", true),
            ("/.well-known/a%2Fb", false),
            ("/a%2Fb", false),
        ] {
            assert_eq!(Encoded::read(raw.as_bytes()).map(|read| read.is_hidden()), Ok(is_hidden), "{raw}");
        }
        assert_eq!(read("/a%2F%00"), Err(Refusal::Nul));
        assert_eq!(read("/a%2F%zz"), Err(Refusal::Escape));
        assert_eq!(read(&format!("/a%2F{}", "b".repeat(4096))), Err(Refusal::TooLong));
    }
}
