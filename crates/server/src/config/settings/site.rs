//! What is served for some hosts: files, rules for paths, and header fields.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http1::coding::Coding;
use sys::file::Symlinks;

use super::log::AccessLogSettings;
use super::tls::PairFiles;
use crate::config::host::HostPattern;
use crate::config::pattern::{Pattern, Segment};
use crate::config::server_address::ServerAddress;
use crate::config::target::Target;

/// What is served for a set of hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteSettings {
    /// The hosts. Empty for the default site.
    pub hosts: Vec<HostPattern>,
    /// The certificate for these hosts. None is set: the default site's.
    pub pair: PairFiles,
    /// Where requests for these hosts are logged. `None`: nowhere.
    pub access_log: Option<AccessLogSettings>,
    /// The files. The settings of the open-file table are the same for all sites.
    pub files: FileSettings,
}

impl SiteSettings {
    /// A site without a certificate of its own.
    pub fn new(hosts: Vec<HostPattern>, access_log: Option<AccessLogSettings>, files: FileSettings) -> Self {
        Self { hosts, pair: PairFiles::default(), access_log, files }
    }
}

/// The files that a site serves, and its rules for paths.
#[expect(clippy::struct_excessive_bools, reason = "independent settings, by name")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSettings {
    /// The root directory, absolute. Empty if no request is for a file ([`FileSettings::needs_no_root`]).
    pub root: PathBuf,
    /// The index files of a directory, tried in this order.
    pub index: Vec<String>,
    /// Directories without an index file are listed.
    pub listing: bool,
    /// Most names in a listing, 1 to 65,536.
    pub listing_names: u32,
    /// Files and directories whose name begins with a dot are served too.
    pub dotfiles: bool,
    /// Which symbolic links are followed.
    pub symlinks: Symlinks,
    /// A sibling file with an added `.br`, `.zst` or `.gz` is sent instead, if the client accepts its
    /// coding.
    pub precompressed: bool,
    /// A body up to this size in bytes is sent from memory. A larger body is sent from the file.
    pub small_file: u32,
    /// How long an entry of the open-file table is trusted before the file is checked again.
    pub validity: Duration,
    /// Most entries in the open-file table. 0: no file is kept open, and each request opens its file.
    pub max_open: u32,
    /// Header lines that depend only on the file are stored with it, not generated for each reply.
    pub header_cache: bool,
    /// Most bytes of small bodies held in memory.
    pub memory: u64,
    /// Media types by the ending of names. An ending is in lower case, without the dot before it, such as
    /// `md` or `wasm.gz`. These types override the built-in ones.
    pub types: Arc<BTreeMap<String, String>>,
    /// The coding of stored files, by the same kind of ending. `None`: not coded, even if the ending
    /// usually means a coding.
    pub encodings: Arc<BTreeMap<String, Option<Coding>>>,
    /// The `charset` added to `text/*` types that have none.
    pub charset: Option<String>,
    /// How long clients that get 503 are asked to wait (`Retry-After`), in seconds. `None`: the field is
    /// not sent. This is the same for all sites.
    pub retry_after: Option<Duration>,
    /// The bodies of error replies by status (400 to 599): paths from the root, beginning with `/`.
    pub error_pages: BTreeMap<u16, String>,
    /// The rules of all sites. They apply before the rules of this site.
    pub common_headers: Arc<[HeaderRule]>,
    /// Additional response header fields. All matching rules apply. If several set the same field, the
    /// last one wins.
    pub headers: Vec<HeaderRule>,
    /// The routes: rules for requests for some paths. The first match applies.
    pub routes: Vec<RouteRule>,
    /// The application that runs the root's PHP scripts. Its route stands before the first route that has
    /// a fallback, or after all routes if none has one.
    pub php: Option<Application>,
    /// The application that answers for what is no file. Its route stands behind all others.
    pub proxy: Option<Application>,
    /// Endings of script names in all sites. No file with such a name is sent, because another site's
    /// root may be reachable from here. If this is empty, the endings of this site's routes apply.
    pub scripts: Arc<[String]>,
}

/// The application of a site, and its pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Application {
    /// The name of the pool.
    pub pool: String,
    /// Where the application listens.
    pub server: ServerAddress,
}

/// The default ending of script names.
const SCRIPT_ENDING: &str = ".php";
/// The index name that comes first when PHP scripts are run.
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
            proxy: None,
            scripts: Arc::default(),
        }
    }

    /// One table's part of these settings, when `tables` tables divide them.
    #[must_use]
    pub fn share_of_one(&self, tables: usize) -> Self {
        let tables = u32::try_from(tables).unwrap_or(u32::MAX).max(1);
        let max_open = (self.max_open / tables).max(self.max_open.min(1));
        Self { max_open, memory: self.memory / u64::from(tables), ..self.clone() }
    }

    /// The routes, including the PHP route, which stands directly before the first route with a fallback.
    /// So requests that earlier routes refuse or redirect run no script, and an existing script needs no
    /// fallback. The PHP route takes encoded slashes if the route with that fallback does. The last route is
    /// that of `proxy`.
    pub fn all_routes(&self) -> impl Iterator<Item = Cow<'_, RouteRule>> {
        let fallback = self.routes.iter().position(|route| route.fallback.is_some());
        let encoded_slashes = fallback.is_some_and(|fallback| self.routes[fallback].encoded_slashes);
        let route = move |php: &Application| {
            let pool = Some(php.pool.clone());
            RouteRule { encoded_slashes, pool, ..RouteRule::default() }
        };
        let php = self.php.iter().map(route);
        let (before, behind) = self.routes.split_at(fallback.unwrap_or(self.routes.len()));
        let [before, behind] = [before, behind].map(|routes| routes.iter().map(Cow::Borrowed));
        let proxy = self.proxy.iter().map(|proxy| RouteRule {
            pool: Some(proxy.pool.clone()),
            is_proxied: true,
            files_first: true,
            ..RouteRule::default()
        });
        before.chain(php.map(Cow::Owned)).chain(behind).chain(proxy.map(Cow::Owned))
    }

    /// Whether no file below the root is ever sent: all requests are redirected or refused, and there are
    /// no error pages.
    pub fn needs_no_root(&self) -> bool {
        let leads_away = |route: &RouteRule| route.redirect.is_some() || route.status.is_some();
        let takes_all = |route: &RouteRule| match &route.path {
            None => true,
            Some(path) => path.ways().any(|way| matches!(way, [Segment::Any])),
        };
        let mut before = self.routes.iter().take_while(|route| leads_away(route));
        self.error_pages.is_empty() && before.any(takes_all)
    }

    /// The index names, including that of PHP.
    pub fn index_names(&self) -> Vec<String> {
        let php = self.php.iter().map(|_| PHP_INDEX.to_owned());
        php.filter(|php| !self.index.contains(php)).chain(self.index.iter().cloned()).collect()
    }
}

/// A route: what happens to requests for some paths. It redirects them, answers with a status, passes
/// them to an application, or sends another file if the requested file does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent settings, as an operator writes them")]
pub struct RouteRule {
    /// Matches the whole decoded path of the request, as [`HeaderRule::path`] matches that of the file.
    /// If not set, all paths match.
    pub path: Option<Pattern>,
    /// ASCII letters in the path match in either case.
    pub ignore_case: bool,
    /// The target of the redirect.
    pub redirect: Option<Target>,
    /// The status: for a redirect, one of the redirect statuses; otherwise 400 to 599.
    pub status: Option<u16>,
    /// With a pool or a fallback: accepts paths with encoded slashes, which are never names of files.
    pub encoded_slashes: bool,
    /// The file to send if the requested one does not exist: a path from the root.
    pub fallback: Option<String>,
    /// The pool that answers.
    pub pool: Option<String>,
    /// The pool speaks HTTP, and so has no scripts. This is found when all settings are known.
    pub is_proxied: bool,
    /// With a pool that speaks HTTP: a file that exists is sent, and the pool answers for all else.
    pub files_first: bool,
    /// The ending of the names of scripts to run. Scripts are files below the root. Only paths that
    /// contain such a name match.
    pub scripts: Option<String>,
    /// The single program that answers all requests of this route, instead of scripts: its file,
    /// absolute.
    pub program: Option<PathBuf>,
}

impl RouteRule {
    /// The ending of script names, if this route runs scripts.
    pub fn script_ending(&self) -> Option<&str> {
        let ending = || self.scripts.as_deref().unwrap_or(SCRIPT_ENDING);
        (self.pool.is_some() && self.program.is_none() && !self.is_proxied).then(ending)
    }
}

/// Additional response header fields for some files. A rule without any pattern applies to all files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderRule {
    /// Matches the whole decoded path of the file from the root, such as `/assets/**`. `*` does not match
    /// a `/`.
    pub path: Option<Pattern>,
    /// ASCII letters in the path match in either case.
    pub ignore_case: bool,
    /// Matches the media type without its parameters, such as `image/*`.
    pub media_type: Option<Pattern>,
    /// Checked names and values: no control characters, and no field that the server sets itself.
    /// `Retry-After` is sent only with the [statuses](http1::Status) for which it has a meaning.
    pub set: Vec<(String, String)>,
    /// Sends `Cache-Control: max-age`, after the directives that `set` has for that field, and `Expires`,
    /// with a time this long after the reply.
    pub expires: Option<Duration>,
}
