//! Request paths: turns the bytes on the request line into the one name that a file has in the open-file
//! table.
//!
//! A name begins with `/` and has no escapes, no empty segments, no dot segments and no NUL. It need not
//! be UTF-8, as file names need not be, either. Nearly every path arrives in this form. So the table is
//! first searched for the path as it was [sent](Path::sent): all names in the table have this form, and
//! no other path finds one. Before any other use, the path is checked ([`Path::is_plain`]). A path that
//! is not a name is decoded into a buffer of the caller ([`Path::decode`]).
//!
//! Escapes are decoded and empty segments removed first. Then dot segments are resolved by the text of
//! the path (RFC 3986 section 5.2.4). All other code sees the result. Only a path that at some point
//! leads above the root is refused. RFC 3986 would stay at the root, but a client that requests such a
//! path is up to no good.
//!
//! Names that begin with a dot are usually not public (`.git`, `.htpasswd`). They are refused unless the
//! operator allows them. The exception is `/.well-known/`, which RFC 8615 defines as public.

use http1::Status;

/// The longest path that the kernel accepts: `PATH_MAX` without its NUL; see `path_resolution(7)`.
const LONGEST: usize = 4095;

/// The directory of RFC 8615, which is served although its name begins with a dot.
const WELL_KNOWN: &[u8] = b".well-known";

/// The name of a file, or a path that may be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path<'a> {
    bytes: &'a [u8],
    is_known: bool,
}

/// Why a path is no name of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It does not begin with `/`.
    NotAbsolute,
    /// A `%` without two hexadecimal digits.
    Escape,
    /// A NUL, which no file name contains.
    Nul,
    /// A `..` segment that leads out of the root, even if later segments lead back in.
    AboveRoot,
    /// A `%2F`: it means a slash within a name (RFC 3986 section 2.2), and no file name contains one.
    EncodedSlash,
    /// A name that begins with a dot, and must not be served.
    Hidden,
    /// Longer than any path can be.
    TooLong,
}

impl Refusal {
    pub(super) const COUNT: usize = Self::TooLong as usize + 1;

    /// The status for the client.
    pub(super) fn status(self) -> Status {
        match self {
            Self::NotAbsolute | Self::Escape | Self::Nul | Self::AboveRoot => Status::BAD_REQUEST,
            // Hidden files look like missing ones.
            Self::EncodedSlash | Self::Hidden => Status::NOT_FOUND,
            Self::TooLong => Status::URI_TOO_LONG,
        }
    }

    /// The reason, for the operator.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::NotAbsolute => "it does not begin with a slash",
            Self::Escape => "a percent sign in it does not begin an escape",
            Self::Nul => "it contains a NUL",
            Self::AboveRoot => "it climbs above the root",
            Self::EncodedSlash => "a %2F in it is not a separator, and no file name contains a slash",
            Self::Hidden => "a name in it begins with a dot",
            Self::TooLong => "it is longer than any path",
        }
    }
}

impl<'a> Path<'a> {
    /// A path as it was sent. It contains no percent sign.
    #[inline]
    pub(super) fn sent(bytes: &'a [u8]) -> Self {
        Self { bytes, is_known: false }
    }

    /// Whether the path is a name: without escapes, empty segments, segments that begin with a dot, or
    /// NUL.
    pub(super) fn is_plain(self) -> bool {
        let is_special = |pair: &[u8]| matches!(pair, b"//" | b"/.");
        self.is_known
            || self.bytes.first() == Some(&b'/')
                && self.bytes.len() <= LONGEST
                && !self.bytes.iter().any(|byte| matches!(byte, b'%' | 0))
                && !self.bytes.windows(2).any(is_special)
    }

    /// The path of `raw` without its escapes and dot segments, written into `buffer`.
    pub(super) fn decode(raw: &[u8], dotfiles: bool, buffer: &'a mut Vec<u8>) -> Result<Self, Refusal> {
        if raw.first() != Some(&b'/') {
            return Err(Refusal::NotAbsolute);
        }
        buffer.clear();
        // The query has been cut off, and an escape is never a separator. So segments can be split before
        // decoding.
        let mut is_directory = true;
        for segment in raw[1..].split(|&byte| byte == b'/') {
            let begin = buffer.len();
            buffer.push(b'/');
            decode_segment(segment, buffer)?;
            is_directory = true;
            match &buffer[begin + 1..] {
                b"" | b"." => buffer.truncate(begin),
                b".." => {
                    buffer.truncate(begin);
                    let parent = buffer.iter().rposition(|&byte| byte == b'/').ok_or(Refusal::AboveRoot)?;
                    buffer.truncate(parent);
                }
                _ => is_directory = false,
            }
        }
        if !dotfiles && is_some_hidden(buffer) {
            return Err(Refusal::Hidden);
        }
        if is_directory {
            buffer.push(b'/');
        }
        if buffer.len() > LONGEST {
            return Err(Refusal::TooLong);
        }
        Ok(Self::known(buffer))
    }

    /// A path that is known to have this form: from the settings, or made from such a path by adding a
    /// name.
    pub(super) fn known(bytes: &'a [u8]) -> Self {
        debug_assert!(bytes.first() == Some(&b'/'));
        Self { bytes, is_known: true }
    }

    /// The whole path, with its leading slash.
    #[inline]
    pub(super) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Whether it names a directory, by ending with a slash.
    pub(super) fn is_directory(self) -> bool {
        self.bytes.ends_with(b"/")
    }

    /// The path for the kernel, relative to the root: without the leading slash, and `.` for the root
    /// itself.
    pub(super) fn relative(self) -> &'a [u8] {
        match &self.bytes[1..] {
            [] => b".",
            path => path,
        }
    }
}

/// Whether any name in a path must not be served.
pub(super) fn is_some_hidden(path: &[u8]) -> bool {
    let mut names = path.split(|&byte| byte == b'/').skip(1).enumerate();
    names.any(|(depth, name)| is_hidden(name, depth == 0))
}

/// Whether a name must not be served. `is_first`: the name is directly below the root.
pub(super) fn is_hidden(name: &[u8], is_first: bool) -> bool {
    name.starts_with(b".") && !(is_first && name == WELL_KNOWN)
}

/// Appends the decoded segment.
fn decode_segment(segment: &[u8], buffer: &mut Vec<u8>) -> Result<(), Refusal> {
    let mut rest = segment;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let byte = match byte {
            b'%' => {
                let Some((&[high, low], after)) = rest.split_first_chunk() else {
                    return Err(Refusal::Escape);
                };
                rest = after;
                let digit = |hex: u8| char::from(hex).to_digit(16).ok_or(Refusal::Escape);
                (digit(high)? << 4 | digit(low)?) as u8
            }
            byte => byte,
        };
        match byte {
            0 => return Err(Refusal::Nul),
            b'/' => return Err(Refusal::EncodedSlash),
            byte => buffer.push(byte),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_encode};
    use proptest::prelude::*;

    use super::*;

    /// The name that the service makes of a raw path.
    fn normalised(raw: &[u8], dotfiles: bool) -> Result<Vec<u8>, Refusal> {
        let mut buffer = Vec::new();
        let decoded = Path::decode(raw, dotfiles, &mut buffer).map(|path| path.bytes().to_vec());
        if Path::sent(raw).is_plain() {
            assert_eq!(decoded.as_deref(), Ok(raw), "both ways agree on {raw:?}");
        }
        decoded
    }

    #[test]
    fn plain_paths_stand_for_themselves() {
        for raw in ["/", "/a", "/a/", "/a/b.html", "/a./b..c", "/\u{e9}", "/a b", "/a+b"] {
            assert!(Path::sent(raw.as_bytes()).is_plain(), "{raw:?}");
            assert_eq!(normalised(raw.as_bytes(), false).as_deref(), Ok(raw.as_bytes()));
        }
        for raw in ["", "*", "a", "//", "/a//", "/.", "/.a", "/a/..", "/a/.b", "/%41", "/a\0b", "/%"] {
            assert!(!Path::sent(raw.as_bytes()).is_plain(), "{raw:?}");
        }
    }

    #[test]
    fn other_paths_are_decoded_or_refused() {
        let ok = |raw: &str| String::from_utf8(normalised(raw.as_bytes(), false).unwrap()).unwrap();
        assert_eq!(ok("//"), "/");
        assert_eq!(ok("///a//b///"), "/a/b/");
        assert_eq!(ok("/%41%62%7e"), "/Ab~");
        assert_eq!(ok("/%2541"), "/%41", "once and not twice");
        assert_eq!(ok("/.well-known/acme-challenge/x"), "/.well-known/acme-challenge/x");
        assert_eq!(ok("//.well-known"), "/.well-known");
        let error = |raw: &str| normalised(raw.as_bytes(), false).unwrap_err();
        for (raw, refusal, status) in [
            ("*", Refusal::NotAbsolute, 400),
            ("/%", Refusal::Escape, 400),
            ("/%4", Refusal::Escape, 400),
            ("/%4/1", Refusal::Escape, 400),
            ("/%zz", Refusal::Escape, 400),
            ("/%+1", Refusal::Escape, 400),
            ("/a%00b", Refusal::Nul, 400),
            ("/a\0b", Refusal::Nul, 400),
            ("/..", Refusal::AboveRoot, 400),
            ("/../a", Refusal::AboveRoot, 400),
            ("/a/../../a", Refusal::AboveRoot, 400),
            ("/a/%2E%2e/.%2e", Refusal::AboveRoot, 400),
            ("/.//..", Refusal::AboveRoot, 400),
            ("/a%2fb", Refusal::EncodedSlash, 404),
            ("/..%2f..%2fetc", Refusal::EncodedSlash, 404),
            ("/.git/config", Refusal::Hidden, 404),
            ("/%2egit", Refusal::Hidden, 404),
            ("/a/.well-known", Refusal::Hidden, 404),
            ("/.well-known/.x", Refusal::Hidden, 404),
            ("/...", Refusal::Hidden, 404),
            ("/a/../.git", Refusal::Hidden, 404),
            ("/.well-known/../.git", Refusal::Hidden, 404),
            ("/a/./.well-known", Refusal::Hidden, 404),
        ] {
            assert_eq!(error(raw), refusal, "{raw}");
            assert_eq!(refusal.status(), Status(status));
        }
        assert_eq!(normalised(b"/.git", true).as_deref(), Ok(&b"/.git"[..]));
        assert_eq!(normalised(b"/..", true), Err(Refusal::AboveRoot));
    }

    #[test]
    fn dot_segments_are_resolved() {
        for (raw, path) in [
            ("/.", "/"),
            ("/./", "/"),
            ("/a/.", "/a/"),
            ("/a/./", "/a/"),
            ("/a/..", "/"),
            ("/a/../", "/"),
            ("/a/b/..", "/a/"),
            ("/./a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/a/b/../../c", "/c"),
            ("/a//../b", "/b"),
            ("/a/%2E%2e/b", "/b"),
            ("/a/.%2e/%2e/b", "/b"),
            ("/a%2e/../b", "/b"),
            ("/a/../.well-known/b", "/.well-known/b"),
            // A segment that `..` removes again was never requested.
            ("/.git/../a", "/a"),
        ] {
            assert_eq!(normalised(raw.as_bytes(), false).as_deref(), Ok(path.as_bytes()), "{raw}");
        }
    }

    #[test]
    fn no_path_is_longer_than_the_kernel_takes() {
        let longest = format!("/{}", "a".repeat(LONGEST - 1));
        assert!(Path::sent(longest.as_bytes()).is_plain());
        assert!(normalised(longest.as_bytes(), false).is_ok());
        let too_long = format!("{longest}/");
        assert!(!Path::sent(too_long.as_bytes()).is_plain());
        assert_eq!(normalised(too_long.as_bytes(), false), Err(Refusal::TooLong));
        // The length counts after decoding.
        assert!(normalised(format!("/{}", "%61".repeat(LONGEST - 1)).as_bytes(), false).is_ok());
        assert!(normalised(format!("/a/..{longest}").as_bytes(), false).is_ok());
    }

    #[test]
    fn relative_to_the_root() {
        assert_eq!(Path::known(b"/").relative(), b".");
        assert_eq!(Path::known(b"/a/").relative(), b"a/");
        assert!(Path::known(b"/a/").is_directory() && !Path::known(b"/a").is_directory());
    }

    /// Every byte except separators.
    const EVERYTHING: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/');

    /// Only the bytes that a client must escape.
    const NEEDFUL: &AsciiSet = &CONTROLS.add(b'%');

    proptest! {
        #[test]
        fn every_place_in_a_path_is_looked_at(
            before in "/?[a-z/.]{0,17}",
            odd in "%|\0|//|/\\.|-|x|\\.",
            after in "[a-z]{0,9}",
        ) {
            let raw = format!("/{before}{odd}{after}");
            let expected = raw.contains(['%', '\0']) || raw.contains("//") || raw.contains("/.");
            prop_assert_eq!(!Path::sent(raw.as_bytes()).is_plain(), expected, "{:?}", raw);
        }

        #[test]
        fn whatever_comes_out_is_safe(raw in "(/|%2e|%2F|\\.|%|%00|[a-z]|\\PC){0,24}", dotfiles: bool) {
            if let Ok(path) = normalised(format!("/{raw}").as_bytes(), dotfiles) {
                prop_assert!(path.starts_with(b"/") && !path.contains(&0));
                let inner = path.strip_suffix(b"/").unwrap_or(&path);
                for name in inner.split(|&b| b == b'/').skip(1) {
                    prop_assert!(!name.is_empty() && name != b"." && name != b"..");
                    prop_assert!(dotfiles || name[0] != b'.' || name == WELL_KNOWN);
                }
            }
        }

        /// The algorithm of RFC 3986 (section 5.2.4), except that empty segments do not count, and
        /// nothing is above the root.
        #[test]
        fn dot_segments_mean_what_they_say(
            segments in prop::collection::vec("|\\.|\\.\\.|%2e|%2E\\.|[a-c]", 0..9),
        ) {
            let mut names: Option<Vec<&str>> = Some(Vec::new());
            for segment in &segments {
                match &segment.replace("%2e", ".").replace("%2E", ".")[..] {
                    "" | "." => {}
                    ".." => names = names.and_then(|mut names| names.pop().map(|_| names)),
                    _ => names.iter_mut().for_each(|names| names.push(segment)),
                }
            }
            let result = normalised(format!("/{}", segments.join("/")).as_bytes(), false);
            match names {
                None => prop_assert_eq!(result, Err(Refusal::AboveRoot)),
                Some(names) => {
                    let is_name = |last: &String| last.starts_with(|first: char| first.is_ascii_alphabetic());
                    let is_directory = !names.is_empty() && !segments.last().is_some_and(is_name);
                    let expected = format!("/{}{}", names.join("/"), if is_directory { "/" } else { "" });
                    prop_assert_eq!(result, Ok(expected.into_bytes()));
                }
            }
        }

        #[test]
        fn any_bytes_give_an_answer(raw: Vec<u8>, dotfiles: bool) {
            let _ = normalised(&raw, dotfiles);
        }

        #[test]
        fn an_encoded_path_means_the_same(names in prop::collection::vec("[^/\0]{1,8}", 1..5), slash: bool) {
            let mut plain = format!("/{}", names.join("/"));
            if slash {
                plain.push('/');
            }
            prop_assume!(names.iter().all(|name| name != "." && name != ".."));
            for set in [EVERYTHING, NEEDFUL] {
                let encoded = percent_encode(plain.as_bytes(), set).to_string();
                prop_assert_eq!(&normalised(encoded.as_bytes(), true).unwrap()[..], plain.as_bytes());
            }
        }
    }
}
