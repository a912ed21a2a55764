//! Paths that name no file, and may be meant for an application even so: those in which a name begins with a
//! dot, and those in which a slash is encoded (`%2F`), for the routes that take them.
//!
//! What stands behind a script is the application's, and so is all of a path that a program answers: clients
//! have names there such as `.DS_Store`. Only the names up to the script are looked up, and may not begin
//! with a dot.
//!
//! An encoded slash stands for itself within a name (RFC 3986 section 2.2), as in npm's `/@scope%2fname`. No
//! file has such a name, so none is looked up by it: not the script either, which has to stand in front. An
//! application is told the target as it was sent, and makes of the slash what it likes. So the path is
//! refused whenever it would be with a plain slash there, or with the three characters as they stand.

use super::numbers::Elsewhere;
use super::path::{self, Path, Refusal};
use super::routes::{Action, Routes};
use super::scripts::script_length;

/// A path that may have encoded slashes, decoded in both ways.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Encoded {
    /// As if they were plain.
    pub(super) path: Vec<u8>,
    /// As the text that they are.
    as_text: Vec<u8>,
    /// How much of the path is in front of the first, if there is one.
    before: Option<usize>,
}

/// What is done with such a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Takes<'a> {
    Elsewhere(Elsewhere),
    /// The script at its beginning is run.
    Script(&'a [u8]),
    /// The route's fallback is sent or run.
    Fallback,
}

impl Encoded {
    /// Decodes a path.
    ///
    /// # Errors
    ///
    /// It can't be, or has encoded slashes and dot segments: applications differ in what they do first, to
    /// decode the slashes or to resolve these.
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

    /// Whether one of the names begins with a dot, however its slashes are read.
    pub(super) fn is_hidden(&self) -> bool {
        path::is_some_hidden(&self.path) || path::is_some_hidden(&self.as_text)
    }
}

impl Routes {
    /// Whether one may take paths that are not served for this reason.
    pub(super) fn may_take(&self, refusal: Refusal) -> bool {
        match refusal {
            Refusal::EncodedSlash => self.take_encoded_slashes,
            Refusal::Hidden => self.have_applications(),
            _ => false,
        }
    }

    /// What is done with a path that is not served for this reason.
    ///
    /// # Errors
    ///
    /// Why it is the name of nothing.
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
            Action::Program { .. } => return Some(Takes::Elsewhere(Elsewhere(number))),
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

/// Where in a path slashes are encoded.
fn encoded_slashes(raw: &[u8]) -> impl Iterator<Item = usize> {
    let is_one = |(_, escape): &(usize, &[u8])| escape.eq_ignore_ascii_case(b"%2F");
    raw.windows(3).enumerate().filter(is_one).map(|(at, _)| at)
}

/// The path with something else in their place.
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
            // As text it is another name.
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
