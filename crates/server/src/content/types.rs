//! Media types of files, by the extension of their names.
//!
//! The operator's own come first, then those of the `mime_guess` library, corrected where registrations have moved on
//! since its last release. What none knows is offered as bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// What a file is of which nothing is known (RFC 2046 section 4.5.1).
const UNKNOWN: &str = "application/octet-stream";

/// Media types by extension.
#[derive(Debug)]
pub(super) struct Types {
    own: BTreeMap<String, String>,
    charset: Option<String>,
}

impl Types {
    /// The operator's types by extension (lower case, without the dot), and the charset for text that names none.
    pub(super) fn new(own: BTreeMap<String, String>, charset: Option<String>) -> Self {
        Self { own, charset }
    }

    /// The value of Content-Type for the file at `path`.
    pub(super) fn of(&self, path: &[u8]) -> Cow<'_, str> {
        let extension = extension(path).map(str::to_ascii_lowercase);
        let media_type = extension
            .as_deref()
            .and_then(|extension| {
                let own = self.own.get(extension).map(String::as_str);
                own.or_else(|| newer(extension)).or_else(|| mime_guess::from_ext(extension).first_raw())
            })
            .unwrap_or(UNKNOWN);
        match &self.charset {
            Some(charset) if is_text(media_type) && !has_charset(media_type) => {
                Cow::Owned(format!("{media_type}; charset={charset}"))
            }
            _ => Cow::Borrowed(media_type),
        }
    }
}

/// Types that were registered after the library's table was made, or are better than what it says.
fn newer(extension: &str) -> Option<&'static str> {
    Some(match extension {
        // RFC 9239.
        "mjs" => "text/javascript",
        // RFC 8081.
        "woff" => "font/woff",
        "otf" => "font/otf",
        // RFC 7303: the same as text/xml, but never with a charset that contradicts the file's own declaration.
        "xml" => "application/xml",
        // RFC 9512.
        "yaml" | "yml" => "application/yaml",
        // ECMA-426.
        "map" => "application/json",
        // RFC 8878.
        "zst" => "application/zstd",
        // RFC 4337.
        "m4a" => "audio/mp4",
        _ => return None,
    })
}

/// A media type without its parameters, in lower case.
pub(super) fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// What follows the last dot of a name that does not begin with it.
fn extension(path: &[u8]) -> Option<&str> {
    let name = path.rsplit(|&byte| byte == b'/').next()?;
    let dot = name.iter().rposition(|&byte| byte == b'.').filter(|&at| at > 0)?;
    std::str::from_utf8(&name[dot + 1..]).ok()
}

fn is_text(media_type: &str) -> bool {
    media_type.as_bytes().get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"text/"))
}

fn has_charset(media_type: &str) -> bool {
    media_type.split(';').skip(1).any(|parameter| {
        parameter.trim_start().as_bytes().get(..8).is_some_and(|name| name.eq_ignore_ascii_case(b"charset="))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(charset: Option<&str>) -> Types {
        let own =
            [("md", "text/markdown; variant=GFM"), ("ini", "text/plain; Charset=latin1"), ("js", "x/y")];
        let own = own.map(|(extension, media_type)| (extension.to_owned(), media_type.to_owned()));
        Types::new(own.into(), charset.map(str::to_owned))
    }

    #[test]
    fn the_operator_then_the_library_then_bytes() {
        let types = types(None);
        for (path, media_type) in [
            ("/a.html", "text/html"),
            ("/a.HTML", "text/html"),
            ("/a/b.css", "text/css"),
            ("/a.svg", "image/svg+xml"),
            ("/a.wasm", "application/wasm"),
            ("/a.js", "x/y"),
            ("/a.mjs", "text/javascript"),
            ("/a.woff2", "font/woff2"),
            ("/a.xml", "application/xml"),
            ("/a.tar.gz", "application/gzip"),
            ("/a.md", "text/markdown; variant=GFM"),
            ("/a.unheard-of", UNKNOWN),
            ("/README", UNKNOWN),
            ("/a.html/README", UNKNOWN),
            ("/.html", UNKNOWN),
            ("/a.", UNKNOWN),
            ("/", UNKNOWN),
        ] {
            assert_eq!(types.of(path.as_bytes()), media_type, "{path}");
        }
        assert_eq!(types.of(b"/a.\xff"), UNKNOWN);
    }

    #[test]
    fn text_gets_the_charset_that_it_does_not_name() {
        let types = types(Some("utf-8"));
        assert_eq!(types.of(b"/a.html"), "text/html; charset=utf-8");
        assert_eq!(types.of(b"/a.md"), "text/markdown; variant=GFM; charset=utf-8");
        assert_eq!(types.of(b"/a.ini"), "text/plain; Charset=latin1");
        assert_eq!(types.of(b"/a.png"), "image/png");
    }

    #[test]
    fn the_essence_has_no_parameters() {
        assert_eq!(essence("Text/HTML ; charset=utf-8"), "text/html");
    }
}
