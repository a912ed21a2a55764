//! Media types of files, and the codings that files are stored in. Both are found by the endings of file
//! names.
//!
//! The operator's types come first, then those of the `mime_guess` library. These are corrected if
//! registrations have changed since the library's last release, or if an extension means something else
//! on the web. Some names without an extension are known to be text. All other files are sent as bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use http1::coding::Coding;

use crate::config::FileSettings;

/// The type of a file about which nothing is known (RFC 2046 section 4.5.1).
const UNKNOWN: &str = "application/octet-stream";

/// Media types and codings by the endings of names.
#[derive(Debug)]
pub(super) struct Types {
    own: Arc<BTreeMap<String, String>>,
    encodings: Arc<BTreeMap<String, Option<Coding>>>,
    charset: Option<String>,
}

impl Types {
    /// The operator's types and codings, and the charset for text that names none.
    pub(super) fn new(settings: &FileSettings) -> Self {
        let FileSettings { types, encodings, charset, .. } = settings;
        Self { own: Arc::clone(types), encodings: Arc::clone(encodings), charset: charset.clone() }
    }

    /// The value of Content-Type for the file at `path`.
    pub(super) fn of(&self, path: &[u8]) -> Cow<'_, str> {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let media_type = self.media_type(name);
        match &self.charset {
            Some(charset) if is_text(media_type) && !has_charset(media_type) => {
                Cow::Owned(format!("{media_type}; charset={charset}"))
            }
            _ => Cow::Borrowed(media_type),
        }
    }

    /// The coding that the file at `path` is stored in, if its name says so. The file's bytes are coded
    /// that way; a client cannot choose another coding.
    pub(super) fn stored_coding(&self, path: &[u8]) -> Option<Coding> {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        // A name that is not text has no ending that could be configured.
        let lower = String::from_utf8_lossy(name).to_ascii_lowercase();
        let own = endings(&lower).find_map(|ending| self.encodings.get(ending)).copied();
        let usual = || endings(&lower).any(|ending| ending == "svgz").then_some(Coding::Gzip);
        own.unwrap_or_else(usual)
    }

    fn media_type(&self, name: &[u8]) -> &str {
        let Some(extension) = extension(name).map(str::to_ascii_lowercase) else { return UNKNOWN };
        // The longest configured ending applies.
        let lower = String::from_utf8_lossy(name).to_ascii_lowercase();
        let mut several = endings(&lower).filter(|ending| ending.len() > extension.len());
        if let Some(own) = several.find_map(|ending| self.own.get(ending)) {
            return own;
        }
        // The type of `x.wasm.gz`, if that is sent as gzip, is that of the ending before.
        if let Some(coding) = self.stored_coding(name)
            && extension == coding.extension()[1..]
        {
            return self.media_type(&name[..name.len() - coding.extension().len()]);
        }
        let own = self.own.get(&extension).map(String::as_str);
        let known = own.or_else(|| match extension.as_str() {
            "" => known_name(name),
            extension => better(extension).or_else(|| mime_guess::from_ext(extension).first_raw()),
        });
        known.unwrap_or(UNKNOWN)
    }
}

/// What follows each dot in a name, except a leading dot. The longest comes first.
fn endings(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('.').filter(|(at, _)| *at > 0).map(|(at, _)| &name[at + 1..])
}

/// Types that were registered after the library's table was made, or are better than the library's. Files
/// that browsers display should not be offered for saving. An extension should not have its rarer
/// meaning.
fn better(extension: &str) -> Option<&'static str> {
    Some(match extension {
        // RFC 9239.
        "mjs" | "cjs" => "text/javascript",
        // RFC 8081.
        "woff" => "font/woff",
        "otf" => "font/otf",
        "sfnt" => "font/sfnt",
        // RFC 7303: like text/xml, but never with a charset that contradicts the file's own declaration.
        "xml" | "xsl" | "xslt" | "xsd" | "wsdl" => "application/xml",
        "dtd" => "application/xml-dtd",
        // RFC 9512.
        "yaml" | "yml" => "application/yaml",
        // ECMA-426; and formats that are JSON, but have no registered type.
        "map" | "topojson" | "har" => "application/json",
        // HTML, section 8.1.5.
        "importmap" => "application/importmap+json",
        "toml" => "application/toml",
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

        // RFC 8216 section 3 and 4: segments of a stream, as on the web, not TypeScript sources.
        "ts" | "mts" | "m2ts" | "m2t" => "video/mp2t",
        "m3u8" => "application/vnd.apple.mpegurl",
        "m3u" => "audio/mpegurl",
        "m4s" => "video/iso.segment",
        // RFC 9559.
        "mkv" => "video/matroska",
        "mka" => "audio/matroska",
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
        // Sources in languages for which browsers display no specific type.
        "adoc" | "diff" | "go" | "java" | "kt" | "patch" | "rb" | "rst" | "swift" | "zig" => "text/plain",
        _ => return None,
    })
}

/// The type of a file without an extension whose name still tells the type, such as `README` and
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
    // Apple's systems look for this file to associate a site with an app, and require JSON.
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

/// What follows the last dot of a name, except a leading dot; empty if there is none. `None`: the
/// extension is not text.
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
        new(own, [], charset)
    }

    fn new<const N: usize, const M: usize>(
        types: [(String, String); N],
        encodings: [(&str, Option<Coding>); M],
        charset: Option<&str>,
    ) -> Types {
        let encodings = encodings.map(|(ending, coding)| (ending.to_owned(), coding));
        Types::new(&FileSettings {
            types: Arc::new(types.into()),
            encodings: Arc::new(encodings.into()),
            charset: charset.map(str::to_owned),
            ..FileSettings::new("/".into())
        })
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
        let types = new([], [], None);
        for (extensions, media_type) in [
            ("ts mts m2ts", "video/mp2t"),
            ("mp4 m4v", "video/mp4"),
            ("webm", "video/webm"),
            ("mkv", "video/matroska"),
            ("mka", "audio/matroska"),
            ("mov", "video/quicktime"),
            ("mp3", "audio/mpeg"),
            ("m4a", "audio/mp4"),
            ("aac", "audio/aac"),
            ("wav", "audio/wav"),
            ("weba", "audio/webm"),
            ("m3u8", "application/vnd.apple.mpegurl"),
            ("mpd", "application/dash+xml"),
            ("js mjs cjs", "text/javascript"),
            ("json map", "application/json"),
            ("jsonld", "application/ld+json"),
            ("geojson", "application/geo+json"),
            ("topojson har", "application/json"),
            ("html htm", "text/html"),
            ("xhtml", "application/xhtml+xml"),
            ("css", "text/css"),
            ("csv", "text/csv"),
            ("txt", "text/plain"),
            ("pdf", "application/pdf"),
            ("rss", "application/rss+xml"),
            ("atom", "application/atom+xml"),
            ("ics", "text/calendar"),
            ("vtt", "text/vtt"),
            ("appcache", "text/cache-manifest"),
            ("importmap", "application/importmap+json"),
            ("toml", "application/toml"),
            ("yaml yml", "application/yaml"),
            ("zip", "application/zip"),
            ("gz tgz", "application/gzip"),
            ("br", UNKNOWN),
            ("zst", "application/zstd"),
            ("tar", "application/x-tar"),
            ("epub", "application/epub+zip"),
            ("webmanifest", "application/manifest+json"),
            ("wasm", "application/wasm"),
            ("woff", "font/woff"),
            ("woff2", "font/woff2"),
            ("otf", "font/otf"),
            ("eot", "application/vnd.ms-fontobject"),
            ("ttf", "font/ttf"),
            ("avif", "image/avif"),
            ("webp", "image/webp"),
            ("png", "image/png"),
            ("apng", "image/apng"),
            ("gif", "image/gif"),
            ("jpg jpeg", "image/jpeg"),
            ("heic", "image/heic"),
            ("glb", "model/gltf-binary"),
            ("gltf", "model/gltf+json"),
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
    fn the_longest_ending_that_is_set_counts() {
        let own = [
            ("gz", "a/gz"),
            ("wasm.gz", "a/wasm"),
            ("b.wasm.gz", "a/b"),
            ("ts", "text/x-ts"),
            ("d.ts", "a/d"),
        ];
        let types = new(own.map(|(ending, media_type)| (ending.to_owned(), media_type.to_owned())), [], None);
        for (name, media_type) in [
            ("x.gz", "a/gz"),
            ("x.wasm.gz", "a/wasm"),
            ("x.WASM.Gz", "a/wasm"),
            ("x.b.wasm.gz", "a/b"),
            ("x.wasm.wasm.gz", "a/wasm"),
            ("x.wasm", "application/wasm"),
            ("wasm.gz", "a/gz"),
            (".wasm.gz", "a/gz"),
            ("x.ts", "text/x-ts"),
            ("x.d.ts", "a/d"),
        ] {
            assert_eq!(types.of(format!("/d.wasm/{name}").as_bytes()), media_type, "{name}");
            assert_eq!(types.stored_coding(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn the_coding_that_a_file_is_stored_in() {
        use Coding::{Brotli, Gzip, Zstd};
        let own = [("data.gz".to_owned(), "x/data".to_owned()), ("tgz".to_owned(), "x/tgz".to_owned())];
        let encodings = [
            ("gz", Some(Gzip)),
            ("tar.gz", None),
            ("wasm.br", Some(Brotli)),
            ("js.zst", Some(Zstd)),
            ("tgz", Some(Gzip)),
        ];
        let types = new(own, encodings, Some("utf-8"));
        for (name, media_type, coding) in [
            ("x.wasm.gz", "application/wasm", Some(Gzip)),
            ("X.WASM.GZ", "application/wasm", Some(Gzip)),
            ("x.framework.js.gz", "text/javascript; charset=utf-8", Some(Gzip)),
            ("x.data.gz", "x/data", Some(Gzip)),
            ("x.unheard-of.gz", UNKNOWN, Some(Gzip)),
            ("x.gz", UNKNOWN, Some(Gzip)),
            ("README.gz", "text/plain; charset=utf-8", Some(Gzip)),
            ("x.tar.gz", "application/gzip", None),
            ("x.wasm.br", "application/wasm", Some(Brotli)),
            ("x.br", UNKNOWN, None),
            ("x.js.zst", "text/javascript; charset=utf-8", Some(Zstd)),
            ("x.tgz", "x/tgz", Some(Gzip)),
            ("i.svgz", "image/svg+xml", Some(Gzip)),
            ("i.SVGZ", "image/svg+xml", Some(Gzip)),
            ("i.svg", "image/svg+xml", None),
            ("i.svg.gz", "image/svg+xml", Some(Gzip)),
            (".gz", UNKNOWN, None),
            ("gz", UNKNOWN, None),
        ] {
            let path = format!("/d.gz/{name}");
            assert_eq!(types.of(path.as_bytes()), media_type, "{name}");
            assert_eq!(types.stored_coding(path.as_bytes()), coding, "{name}");
        }
        let usual = new([], [], None);
        assert_eq!(usual.stored_coding(b"/i.svgz"), Some(Gzip));
        assert_eq!(
            (usual.of(b"/x.wasm.gz"), usual.stored_coding(b"/x.wasm.gz")),
            ("application/gzip".into(), None)
        );
        let off = new([], [("svgz", None)], None);
        assert_eq!((off.of(b"/i.svgz"), off.stored_coding(b"/i.svgz")), ("image/svg+xml".into(), None));
        assert_eq!(usual.stored_coding(b"/a.\xff.svgz"), Some(Gzip));
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
        let own = new([(String::new(), "x/y".to_owned())], [], None);
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
