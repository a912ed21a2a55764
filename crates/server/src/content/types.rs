//! Media types of files, by the extension of their names.
//!
//! The operator's own come first, then those of the `mime_guess` library, corrected where registrations have
//! moved on since its last release, or where the web means something else by an extension. Of names without
//! one a few are known to be text. What none knows is offered as bytes.

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
    /// The operator's types by extension (lower case, without the dot; empty for names that have none), and
    /// the charset for text that names none.
    pub(super) fn new(own: BTreeMap<String, String>, charset: Option<String>) -> Self {
        Self { own, charset }
    }

    /// The value of Content-Type for the file at `path`.
    pub(super) fn of(&self, path: &[u8]) -> Cow<'_, str> {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let extension = extension(name).map(str::to_ascii_lowercase);
        let media_type = extension
            .as_deref()
            .and_then(|extension| {
                let own = self.own.get(extension).map(String::as_str);
                own.or_else(|| match extension {
                    "" => known_name(name),
                    _ => better(extension).or_else(|| mime_guess::from_ext(extension).first_raw()),
                })
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

/// Types that were registered after the library's table was made, or are better than what it says: nothing
/// that browsers show is to be offered for saving, and nothing is to be named by an extension's rarer
/// meaning.
fn better(extension: &str) -> Option<&'static str> {
    Some(match extension {
        // RFC 9239.
        "mjs" => "text/javascript",
        // RFC 8081.
        "woff" => "font/woff",
        "otf" => "font/otf",
        "sfnt" => "font/sfnt",
        // RFC 7303: the same as text/xml, but never with a charset that contradicts the file's own
        // declaration.
        "xml" | "xsl" | "xslt" | "xsd" | "wsdl" => "application/xml",
        "dtd" => "application/xml-dtd",
        // RFC 9512.
        "yaml" | "yml" => "application/yaml",
        // ECMA-426.
        "map" => "application/json",
        "ndjson" | "jsonl" => "application/x-ndjson",
        // MathML 3, section B.
        "mml" => "application/mathml+xml",
        // WebGPU Shading Language, section 3.
        "wgsl" => "text/wgsl",

        // RFC 8878, RFC 6713.
        "zst" => "application/zstd",
        "tgz" => "application/gzip",
        "rar" => "application/vnd.rar",
        "deb" | "udeb" | "ddeb" => "application/vnd.debian.binary-package",
        "rpm" => "application/x-rpm",
        "iso" => "application/x-iso9660-image",
        "dmg" => "application/x-apple-diskimage",
        "cbz" => "application/vnd.comicbook+zip",
        "cbr" => "application/vnd.comicbook-rar",
        "sqlite" | "sqlite3" => "application/vnd.sqlite3",
        "cbor" => "application/cbor",
        "mvt" => "application/vnd.mapbox-vector-tile",
        "sql" => "application/sql",

        // RFC 8216 section 3 and 4: segments of a stream, as on the web, and not the sources of a program.
        "ts" | "mts" | "m2ts" | "m2t" => "video/mp2t",
        "m3u8" => "application/vnd.apple.mpegurl",
        "m3u" => "audio/mpegurl",
        "m4s" => "video/iso.segment",
        "m4v" => "video/mp4",
        // RFC 4337.
        "m4a" => "audio/mp4",
        "mid" | "midi" => "audio/midi",
        "ttml" => "application/ttml+xml",

        "avifs" => "image/avif",
        "cur" => "image/x-icon",
        "ktx2" => "image/ktx2",
        "psd" => "image/vnd.adobe.photoshop",
        "xcf" => "image/x-xcf",
        // RFC 7903.
        "emf" => "image/emf",
        "wmf" => "image/wmf",
        "obj" => "model/obj",
        "mtl" => "model/mtl",
        "stl" => "model/stl",
        "3mf" => "model/3mf",
        "step" | "stp" => "model/step",
        "usdz" => "model/vnd.usdz+zip",

        // RFC 6350.
        "vcf" => "text/vcard",
        // What is written in a language that has no type which browsers show.
        "adoc" | "diff" | "go" | "java" | "kt" | "patch" | "rb" | "rst" | "swift" | "zig" => "text/plain",
        _ => return None,
    })
}

/// The type of a file without an extension whose name says what it is all the same, such as `README` and
/// `LICENSE-MIT`.
fn known_name(name: &[u8]) -> Option<&'static str> {
    const TEXTS: [&str; 34] = [
        "authors",
        "b2sums",
        "changelog",
        "changes",
        "cname",
        "codeowners",
        "containerfile",
        "contributing",
        "contributors",
        "copying",
        "copyright",
        "credits",
        "dockerfile",
        "gemfile",
        "inrelease",
        "install",
        "jenkinsfile",
        "licence",
        "license",
        "maintainers",
        "makefile",
        "md5sums",
        "news",
        "notice",
        "procfile",
        "rakefile",
        "readme",
        "release",
        "sha1sums",
        "sha256sums",
        "sha512sums",
        "todo",
        "vagrantfile",
        "version",
    ];
    // What Apple's systems look for to associate a site with an app, and want as JSON.
    if name == b"apple-app-site-association" {
        return Some("application/json");
    }
    let word = name.split(|byte| b"-_".contains(byte)).next().unwrap_or_default();
    TEXTS.iter().any(|text| word.eq_ignore_ascii_case(text.as_bytes())).then_some("text/plain")
}

/// A media type without its parameters, in lower case.
pub(super) fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// What follows the last dot of a name that does not begin with it; empty if there is none. `None`: it is no
/// text.
fn extension(name: &[u8]) -> Option<&str> {
    let dot = name.iter().rposition(|&byte| byte == b'.').filter(|&at| at > 0);
    std::str::from_utf8(dot.map_or(b"", |dot| &name[dot + 1..])).ok()
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
            ("/data", UNKNOWN),
            ("/a.html/data", UNKNOWN),
            ("/.html", UNKNOWN),
            ("/a.", UNKNOWN),
            ("/", UNKNOWN),
        ] {
            assert_eq!(types.of(path.as_bytes()), media_type, "{path}");
        }
        assert_eq!(types.of(b"/a.\xff"), UNKNOWN);
    }

    #[test]
    fn what_the_web_means_by_an_extension() {
        let types = Types::new(BTreeMap::new(), None);
        for (extensions, media_type) in [
            ("ts m2ts", "video/mp2t"),
            ("m3u8", "application/vnd.apple.mpegurl"),
            ("mpd", "application/dash+xml"),
            ("js mjs", "text/javascript"),
            ("json map", "application/json"),
            ("webmanifest", "application/manifest+json"),
            ("wasm", "application/wasm"),
            ("woff2", "font/woff2"),
            ("ttf", "font/ttf"),
            ("avif", "image/avif"),
            ("webp", "image/webp"),
            ("jxl", "image/jxl"),
            ("ico cur", "image/x-icon"),
            ("svg svgz", "image/svg+xml"),
            ("md", "text/markdown"),
            ("xml xsl", "application/xml"),
            ("7z", "application/x-7z-compressed"),
            ("apk", "application/vnd.android.package-archive"),
            ("deb", "application/vnd.debian.binary-package"),
            ("rpm", "application/x-rpm"),
            ("iso", "application/x-iso9660-image"),
            ("flac", "audio/flac"),
            ("opus ogg", "audio/ogg"),
            ("stl", "model/stl"),
            ("obj", "model/obj"),
            ("go patch log conf", "text/plain"),
            ("exe bin", UNKNOWN),
        ] {
            for extension in extensions.split(' ') {
                assert_eq!(types.of(format!("/a.{extension}").as_bytes()), media_type, "{extension}");
            }
        }
    }

    #[test]
    fn names_without_an_extension() {
        let types = types(Some("utf-8"));
        for name in ["README", "LICENSE", "LICENSE-MIT", "Makefile", "CNAME", "copying_3", "SHA256SUMS"] {
            assert_eq!(types.of(format!("/a.b/{name}").as_bytes()), "text/plain; charset=utf-8", "{name}");
        }
        for name in ["sluice", "readme2", "unreadme", ".readme", "\u{fc}"] {
            assert_eq!(types.of(format!("/{name}").as_bytes()), UNKNOWN, "{name}");
        }
        assert_eq!(types.of(b"/.well-known/apple-app-site-association"), "application/json");
        let own = Types::new([(String::new(), "x/y".to_owned())].into(), None);
        for name in ["README", "data", ".profile", "a."] {
            assert_eq!(own.of(format!("/{name}").as_bytes()), "x/y", "{name}");
        }
        assert_eq!(own.of(b"/a.unheard-of"), UNKNOWN);
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
