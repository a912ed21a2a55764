//! Files that an application names, to be sent instead of its reply's body. `X-Sendfile` names a file,
//! and `X-Accel-Redirect` names a path that stands for one. Only files below the directories that the
//! pool allows are sent.

use std::os::unix::ffi::OsStrExt;

use fastcgi::response;
use http1::Status;

use super::failure::Failure;
use crate::config::PoolRule;
use crate::content::{NamedFile, SiteNumber};

/// The directories from which a pool's applications may name files.
#[derive(Debug)]
pub(super) struct SendFiles(Vec<Directory>);

#[derive(Debug)]
struct Directory {
    /// The prefix of `X-Accel-Redirect` paths, ending in a slash.
    prefix: Box<[u8]>,
    /// The directory, ending in a slash.
    path: Box<[u8]>,
    number: SiteNumber,
}

/// Fields of the reply's head that the server takes from the file itself.
const OF_THE_FILE: [&str; 5] =
    ["Accept-Ranges", "Content-Encoding", "Content-Range", "ETag", "Last-Modified"];

/// Parameters that tell applications that they may name files: for Rack, for applications that know
/// Apache's module, and for names within a body.
pub(super) const PARAMS: [(&str, &str); 3] =
    [("HTTP_X_SENDFILE_TYPE", "X-Sendfile"), ("MOD_X_SENDFILE_ENABLED", "1"), ("X_ZEROCOPY_ENABLED", "1")];

impl SendFiles {
    /// The directories of a pool, numbered from `first` on.
    pub(super) fn new(rule: &PoolRule, first: SiteNumber) -> Self {
        let directory = |(number, (prefix, directory)): (SiteNumber, &(String, std::path::PathBuf))| {
            let mut directory = directory.as_os_str().as_bytes().to_vec();
            if !directory.ends_with(b"/") {
                directory.push(b'/');
            }
            Directory { prefix: prefix.as_bytes().into(), path: directory.into(), number }
        };
        Self((first..).zip(&rule.send_files).map(directory).collect())
    }

    /// The file that a reply's head names, for a client that has asked the site `asked`.
    ///
    /// # Errors
    ///
    /// The file may not be sent.
    pub(super) fn named(
        &self,
        head: &response::Head<'_>,
        asked: SiteNumber,
    ) -> Result<Option<NamedFile>, Failure> {
        let (field, name) = match (head.field("X-Accel-Redirect"), head.field("X-Sendfile")) {
            (Some(name), _) => ("X-Accel-Redirect", name),
            (None, Some(name)) => ("X-Sendfile", name),
            (None, None) => return Ok(None),
        };
        let (directory, path) = match field {
            "X-Sendfile" => self.literal(field, name)?,
            _ => NamedFile::decoded(name)
                .and_then(|path| self.below(&path, |at| &at.prefix))
                .ok_or_else(|| not_to_be_sent(field, name))?,
        };
        let (mut content_lines, mut lines, mut has_type) = (Vec::new(), Vec::new(), false);
        let is_kept = |name: &str| !OF_THE_FILE.iter().any(|other| name.eq_ignore_ascii_case(other));
        for (name, value) in head.for_client().filter(|(name, _)| is_kept(name)) {
            has_type |= name.eq_ignore_ascii_case("Content-Type");
            let is_of_content = name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("Content-"));
            let lines = if is_of_content { &mut content_lines } else { &mut lines };
            for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                lines.extend_from_slice(part);
            }
        }
        let (status, reason) = (Status(head.status), head.reason.map(Into::into));
        Ok(Some(NamedFile { asked, directory, path, status, reason, content_lines, lines, has_type }))
    }

    /// The file that such a field names by its path in the file system: its directory, and the path below
    /// that.
    ///
    /// # Errors
    ///
    /// The file may not be sent.
    pub(super) fn literal(&self, field: &str, name: &[u8]) -> Result<(SiteNumber, Box<[u8]>), Failure> {
        NamedFile::literal(name)
            .and_then(|path| self.below(&path, |at| &at.path))
            .ok_or_else(|| not_to_be_sent(field, name))
    }

    /// The directory that a path is below, and the rest of the path. `begins` gives the beginning of the
    /// names in a directory, and the longest match is chosen.
    fn below(&self, path: &[u8], begins: impl Fn(&Directory) -> &[u8]) -> Option<(SiteNumber, Box<[u8]>)> {
        let matching = self.0.iter().filter(|at| path.starts_with(begins(at)));
        let at = matching.max_by_key(|at| begins(at).len())?;
        // The slash at the end of the beginning is also the slash at the start of the rest.
        let rest = path.get(begins(at).len() - 1..).filter(|rest| rest.len() > 1)?;
        Some((at.number, rest.into()))
    }
}

fn not_to_be_sent(field: &str, name: &[u8]) -> Failure {
    Failure::NotToBeSent(format!("{field}: {}", String::from_utf8_lossy(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(head: &str) -> Result<Option<(SiteNumber, String, String, bool)>, String> {
        let directories = [("/protected/", "/srv/private"), ("/protected/more/", "/srv/more")];
        let send_files = directories.map(|(prefix, path)| (prefix.to_owned(), path.into())).into();
        let files = SendFiles::new(&PoolRule { send_files, ..PoolRule::default() }, 7);
        let head = format!("{head}\r\n\r\n");
        let head = response::parse(head.as_bytes()).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        match files.named(&head, 3) {
            Ok(file) => Ok(file.map(|file| {
                assert_eq!(file.asked, 3);
                let lines = [file.content_lines, file.lines].concat();
                (file.directory, text(&file.path), text(&lines), file.has_type)
            })),
            Err(failure) => Err(failure.to_string()),
        }
    }

    #[test]
    fn files_are_named_below_the_pools_directories() {
        for (head, directory, path) in [
            ("X-Sendfile: /srv/private/a b/%41.txt", 7, "/a b/%41.txt"),
            ("x-sendfile: /srv/more/.x", 8, "/.x"),
            ("X-Accel-Redirect: /protected/a%20b/%2541.txt?x", 7, "/a b/%41.txt"),
            ("X-Accel-Redirect: /protected/./b/../c", 7, "/c"),
            ("X-Accel-Redirect: /protected/more/c", 8, "/c"),
            ("X-Accel-Redirect: /protected/more", 7, "/more"),
            ("X-Sendfile: /none\r\nX-Accel-Redirect: /protected/x", 7, "/x"),
        ] {
            assert_eq!(named(head), Ok(Some((directory, path.to_owned(), String::new(), false))), "{head}");
        }
        assert_eq!(named("Status: 200"), Ok(None));
    }

    #[test]
    fn others_are_not_sent() {
        for head in [
            "X-Sendfile: /etc/passwd",
            "X-Sendfile: /srv/privately/a",
            "X-Sendfile: /srv/private",
            "X-Sendfile: /srv/private/",
            "X-Sendfile: /srv/private/../a",
            "X-Sendfile: /srv/private/./a",
            "X-Sendfile: /srv/private//a",
            "X-Sendfile: srv/private/a",
            "X-Sendfile:",
            "X-Accel-Redirect: /other/a",
            "X-Accel-Redirect: /protected/%2e%2e/a",
            "X-Accel-Redirect: /protected/%00",
            "X-Accel-Redirect: /protected",
            "X-Accel-Redirect: @named",
        ] {
            let told = named(head).unwrap_err();
            assert!(told.contains("send_files"), "{head}: {told}");
        }
    }

    #[test]
    fn what_the_application_says_of_it_goes_with_it() {
        let head = "Status: 200\r\nContent-Type: application/pdf\r\nETag: \"x\"\r\nContent-Length: 3\r\n\
                    Content-Disposition: attachment\r\nX-Sendfile: /srv/private/a\r\nSet-Cookie: a=1";
        let lines = "Content-Type: application/pdf\r\nContent-Disposition: attachment\r\nSet-Cookie: a=1\r\n";
        assert_eq!(named(head), Ok(Some((7, "/a".to_owned(), lines.to_owned(), true))));
    }
}
