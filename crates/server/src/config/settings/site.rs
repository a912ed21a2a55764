//! What is served for some hosts: files, what is done with paths, and header fields.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http1::coding::Coding;
use sys::file::Symlinks;

use super::log::AccessLogSettings;
use crate::config::address::ListenAddress;
use crate::config::host::HostPattern;
use crate::config::pattern::{Pattern, Segment};
use crate::config::target::Target;

/// What is served for some hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteSettings {
    /// The hosts; none for the default site.
    pub hosts: Vec<HostPattern>,
    /// Where requests for them are logged; `None`: nowhere.
    pub access_log: Option<AccessLogSettings>,
    /// The files. What is about the table of open files is the same for all sites.
    pub files: FileSettings,
}

/// The files served.
#[expect(clippy::struct_excessive_bools, reason = "independent settings, by name")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSettings {
    /// The directory, absolute; empty where there is none, as no request is for a file
    /// ([`FileSettings::needs_no_root`]).
    pub root: PathBuf,
    /// File names that stand for a directory, tried in this order.
    pub index: Vec<String>,
    /// Directories without such a file are listed.
    pub listing: bool,
    /// Most names in a listing, 1 to 65,536.
    pub listing_names: u32,
    /// Names that begin with a dot are served too.
    pub dotfiles: bool,
    /// Which symbolic links are followed.
    pub symlinks: Symlinks,
    /// Siblings with `.br`, `.zst` and `.gz` stand in for a file where the client accepts their coding.
    pub precompressed: bool,
    /// Up to this size in bytes a body is sent from memory, above it from the file.
    pub small_file: u32,
    /// How long an entry of the open-file table is trusted before the file is looked at again.
    pub validity: Duration,
    /// Most entries in the open-file table; 0: no file is kept open, each request opens its own.
    pub max_open: u32,
    /// The header lines that depend on a file alone are kept with it, and not made for each reply.
    pub header_cache: bool,
    /// Most bytes of small bodies held in memory.
    pub memory: u64,
    /// Media types by the ending of names (lower case, without the dot before it, such as `md` or `wasm.gz`),
    /// before those that everybody knows.
    pub types: Arc<BTreeMap<String, String>>,
    /// The coding in which files are stored, by such an ending; `None`: in none, whatever is usual.
    pub encodings: Arc<BTreeMap<String, Option<Coding>>>,
    /// The `charset` added to `text/*` types that have none.
    pub charset: Option<String>,
    /// How long clients are asked to wait who get 503 (`Retry-After`), in seconds; `None`: they are told
    /// nothing. The same for all sites.
    pub retry_after: Option<Duration>,
    /// The bodies of error replies by status (400 to 599): paths from the root, beginning with `/`.
    pub error_pages: BTreeMap<u16, String>,
    /// The rules of all sites, which go before those of this one.
    pub common_headers: Arc<[HeaderRule]>,
    /// More response header fields. All rules that match apply; for one field name the last of them wins.
    pub headers: Vec<HeaderRule>,
    /// What is done with requests for some paths. The first that matches is taken.
    pub routes: Vec<RouteRule>,
    /// The application that runs the root's PHP scripts: a route before the first that has a fallback, behind
    /// the others.
    pub php: Option<Php>,
    /// Endings of names that no file is sent of: of scripts of all sites, whose roots may be reached from
    /// here. If there are none, those that the routes have.
    pub scripts: Arc<[String]>,
}

/// An application that runs PHP scripts, and the pool that it is in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Php {
    /// The name of the pool.
    pub pool: String,
    /// Where it listens.
    pub server: ListenAddress,
}

/// The ending of scripts' names, where none is set.
const SCRIPT_ENDING: &str = ".php";
/// The index name that comes first where PHP scripts are run.
const PHP_INDEX: &str = "index.php";

impl FileSettings {
    /// The defaults, for the files below `root` (absolute).
    pub fn new(root: PathBuf) -> Self {
        Self {
            root,
            index: vec!["index.html".into()],
            listing: false,
            listing_names: 4096,
            dotfiles: false,
            symlinks: Symlinks::Beneath,
            precompressed: true,
            small_file: 16 << 10,
            validity: Duration::from_secs(1),
            max_open: 4096,
            header_cache: true,
            memory: 64 << 20,
            types: Arc::default(),
            encodings: Arc::default(),
            charset: Some("utf-8".into()),
            retry_after: Some(Duration::from_secs(1)),
            error_pages: BTreeMap::new(),
            common_headers: Arc::default(),
            headers: Vec::new(),
            routes: Vec::new(),
            php: None,
            scripts: Arc::default(),
        }
    }

    /// What each of several tables gets that divide these settings between them.
    #[must_use]
    pub fn share_of_one(&self, tables: usize) -> Self {
        let tables = u32::try_from(tables).unwrap_or(u32::MAX).max(1);
        let max_open = (self.max_open / tables).max(self.max_open.min(1));
        Self { max_open, memory: self.memory / u64::from(tables), ..self.clone() }
    }

    /// The routes, that of PHP scripts included: what is refused or led elsewhere is no script's, but a
    /// script that is there needs no fallback. It takes encoded slashes if the fallback behind it does.
    pub fn all_routes(&self) -> impl Iterator<Item = Cow<'_, RouteRule>> {
        let fallback = self.routes.iter().position(|route| route.fallback.is_some());
        let encoded_slashes = fallback.is_some_and(|fallback| self.routes[fallback].encoded_slashes);
        let route = move |php: &Php| {
            let pool = Some(php.pool.clone());
            RouteRule { encoded_slashes, pool, ..RouteRule::default() }
        };
        let php = self.php.iter().map(route);
        let (before, behind) = self.routes.split_at(fallback.unwrap_or(self.routes.len()));
        let [before, behind] = [before, behind].map(|routes| routes.iter().map(Cow::Borrowed));
        before.chain(php.map(Cow::Owned)).chain(behind)
    }

    /// Whether nothing below the root is ever sent: all requests are redirected or refused, without pages of
    /// their own.
    pub fn needs_no_root(&self) -> bool {
        let leads_away = |route: &RouteRule| route.redirect.is_some() || route.status.is_some();
        let takes_all = |route: &RouteRule| match &route.path {
            None => true,
            Some(path) => path.ways().any(|way| matches!(way, [Segment::Any])),
        };
        let mut before = self.routes.iter().take_while(|route| leads_away(route));
        self.error_pages.is_empty() && before.any(takes_all)
    }

    /// The index names, that of PHP included.
    pub fn index_names(&self) -> Vec<String> {
        let php = self.php.iter().map(|_| PHP_INDEX.to_owned());
        php.filter(|php| !self.index.contains(php)).chain(self.index.iter().cloned()).collect()
    }
}

/// What is done with requests for some paths: a redirect, a status, or the file, or another file if there is
/// none of that name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteRule {
    /// Matches the whole decoded path of the request, as [`HeaderRule::path`] does that of the file; all
    /// paths, if it is not set.
    pub path: Option<Pattern>,
    /// Letters of ASCII in the path match in either case.
    pub ignore_case: bool,
    /// Where they are sent.
    pub redirect: Option<Target>,
    /// With which status, one of a redirect's; without a redirect, 400 to 599, the status that they get.
    pub status: Option<u16>,
    /// With a pool or a fallback: paths in which a slash is encoded are taken, which are names of no file.
    pub encoded_slashes: bool,
    /// The file that is sent where there is none of the name asked for: a path from the root.
    pub fallback: Option<String>,
    /// Which pool answers.
    pub pool: Option<String>,
    /// The ending of the names of scripts that it runs, which are files below the root: only paths that have
    /// one match.
    pub scripts: Option<String>,
    /// The one program that answers all of them, instead of scripts: its file, absolute.
    pub program: Option<PathBuf>,
}

impl RouteRule {
    /// The ending of the scripts' names, if scripts are what it leads to.
    pub fn script_ending(&self) -> Option<&str> {
        let ending = || self.scripts.as_deref().unwrap_or(SCRIPT_ENDING);
        (self.pool.is_some() && self.program.is_none()).then(ending)
    }
}

/// Response header fields for some of the files. A rule with neither pattern applies to all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderRule {
    /// Matches the whole decoded path of the file from the root, such as `/assets/**`; `*` does not match a
    /// `/`.
    pub path: Option<Pattern>,
    /// Letters of ASCII in the path match in either case.
    pub ignore_case: bool,
    /// Matches the media type without parameters, such as `image/*`.
    pub media_type: Option<Pattern>,
    /// Names and values that were checked: no control characters, none of the fields that the server makes
    /// itself. `Retry-After` goes with [statuses](http1::Status) for which it means something.
    pub set: Vec<(String, String)>,
    /// `Cache-Control: max-age`, behind what `set` has of that field, and `Expires`, that long after
    /// the reply.
    pub expires: Option<Duration>,
}
