//! What a site and its machine have: where the files are, what runs its scripts, and which addresses and
//! accounts a server may use.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// Directories that hold what is public, below a project's own.
const PUBLIC: [&str; 9] = ["public", "htdocs", "public_html", "www", "html", "dist", "build", "_site", "out"];

/// Directories of a project that hold what its application has for the public.
const OF_PROJECTS: [&str; 5] = ["public", "static", "htdocs", "public_html", "www"];

/// Files beside a site's scripts that say that one script answers for every path.
const FRONT_CONTROLLERS: [&str; 4] = ["wp-load.php", "artisan", "composer.json", "symfony.lock"];

/// Files of projects whose application usually speaks HTTP: the file, a text that it must have, the language,
/// and the port that is usual there. A `package.json` without a program to start is that of a site's build.
const PROJECTS: [(&str, &str, &str, u16); 6] = [
    ("package.json", "\"start\"", "Node", 3000),
    ("Gemfile", "", "Ruby", 3000),
    ("go.mod", "", "Go", 3000),
    ("manage.py", "", "Python", 8000),
    ("pyproject.toml", "", "Python", 8000),
    ("requirements.txt", "", "Python", 8000),
];

/// Where pools of PHP-FPM are configured: on Debian for each version, elsewhere for all.
const POOLS: [&str; 4] =
    ["etc/php/*/fpm/pool.d", "etc/php-fpm.d", "etc/php/php-fpm.d", "usr/local/etc/php-fpm.d"];

/// Where sockets of PHP-FPM are if no configuration can be read.
const SOCKETS: [&str; 2] = ["run/php", "run/php-fpm"];

/// Accounts that distributions have for web servers.
const ACCOUNTS: [&str; 4] = ["www-data", "http", "nginx", "nobody"];

/// PHP-FPM on this machine.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fpm {
    /// Its address as settings have it: `unix:/run/php/php8.2-fpm.sock`, `127.0.0.1:9000`.
    pub(super) address: String,
    /// `pm.max_children`, and the file that sets it.
    pub(super) children: Option<(u32, PathBuf)>,
}

/// An application of the site's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Application {
    /// Its address as settings have it. Without a socket it is where such applications usually listen.
    pub(super) address: String,
    /// Its language, if it speaks HTTP. `None`: it speaks FastCGI.
    pub(super) language: Option<&'static str>,
    /// The site's files have a directory of their own, so that they may be sent.
    pub(super) has_files: bool,
}

/// What was found. Paths are absolute.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact, independent of the others")]
pub(super) struct Found {
    /// The directory to serve.
    pub(super) root: PathBuf,
    /// Whether the root has an index file.
    pub(super) has_index: bool,
    /// Whether the root has `index.php` or other scripts.
    pub(super) has_scripts: bool,
    /// Whether `index.php` answers for paths that are no file.
    pub(super) has_front_controller: bool,
    pub(super) fpm: Option<Fpm>,
    pub(super) application: Option<Application>,
    /// Whether the server may listen on port 80.
    pub(super) may_use_port_80: bool,
    /// The account to serve as, for a server that root starts.
    pub(super) account: Option<&'static str>,
}

impl Found {
    /// Looks at a directory, and at the machine whose files are below `machine`.
    pub(super) fn of(directory: &Path, machine: &Path) -> Self {
        let application = application(directory);
        let is_http = application.as_ref().is_some_and(|application| application.language.is_some());
        let root = if is_http { root_beside_program(directory) } else { root(directory) };
        let has = |name: &str| root.join(name).is_file();
        let has_scripts = files(&root).iter().any(|path| path.extension().is_some_and(|of| of == "php"));
        let beside = |name: &&str| root.join(name).is_file() || directory.join(name).is_file();
        let is_root = sys::process::is_root();
        let lowest = fs::read_to_string(machine.join("proc/sys/net/ipv4/ip_unprivileged_port_start"));
        let lowest = lowest.ok().and_then(|text| text.trim().parse::<u16>().ok()).unwrap_or(1024);
        let passwd = fs::read_to_string(machine.join("etc/passwd")).unwrap_or_default();
        let is_there = |name: &&str| passwd.lines().any(|line| line.starts_with(&format!("{name}:")));
        Self {
            has_index: has("index.html") || has("index.php"),
            has_scripts,
            has_front_controller: has("index.php") && FRONT_CONTROLLERS.iter().any(beside),
            fpm: fpm(machine),
            application,
            may_use_port_80: is_root || lowest <= 80,
            account: if is_root { ACCOUNTS.into_iter().find(|name| is_there(name)) } else { None },
            root,
        }
    }

    /// Whether a directory without an index file is listed. An application answers there if it can.
    pub(super) fn lists_directories(&self) -> bool {
        let is_http = |application: &Application| application.language.is_some();
        !self.has_index && !self.application.as_ref().is_some_and(is_http)
    }

    /// The address to type into a browser.
    pub(super) fn address(&self) -> &'static str {
        if self.may_use_port_80 { "http://localhost/" } else { "http://127.0.0.1:8080/" }
    }

    /// Everything that the settings rest on, a line each.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut all = vec![format!("the files of {}", self.root.display())];
        if self.lists_directories() {
            all.push("no index.html or index.php there: directories are listed".to_owned());
        }
        match &self.fpm {
            Some(fpm) if self.has_scripts => all.push(format!("PHP scripts, and PHP-FPM at {}", fpm.address)),
            None if self.has_scripts => {
                all.push("PHP scripts, but no PHP-FPM: they are not served until you set `php`".to_owned());
            }
            _ => {}
        }
        match &self.application {
            Some(Application { address, language: Some(language), .. }) => {
                all.push(format!("an application in {language}: asked over HTTP at {address}"));
            }
            Some(Application { address, language: None, .. }) => {
                all.push(format!("an application's socket, {address}"));
            }
            None => {}
        }
        if let Some(account) = self.account {
            all.push(format!("the account {account}, to serve as"));
        }
        all
    }
}

/// The site's directory, or the one below it that is public.
fn root(directory: &Path) -> PathBuf {
    let below = PUBLIC.iter().map(|name| directory.join(name)).find(|path| has_index(path));
    // A project may have an index of its own that is not for the public.
    match below {
        Some(below) if !has_index(directory) || below.join("index.php").is_file() => below,
        _ => directory.to_owned(),
    }
}

fn has_index(path: &Path) -> bool {
    ["index.html", "index.php"].iter().any(|name| path.join(name).is_file())
}

/// The directory of a project that has what is public. The project's own has the program, which is not.
fn root_beside_program(directory: &Path) -> PathBuf {
    let below = OF_PROJECTS.iter().map(|name| directory.join(name)).find(|path| path.is_dir());
    below.unwrap_or_else(|| directory.to_owned())
}

/// The files of a directory, by name.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// The application of a site: one with a socket in the site's directory or in its `run` and `tmp`, or one
/// that the files of its project speak of.
fn application(directory: &Path) -> Option<Application> {
    let has = |(name, text, ..): &&(&str, &str, _, _)| {
        fs::read_to_string(directory.join(name)).is_ok_and(|found| found.contains(text))
    };
    let places = [directory.to_owned(), directory.join("run"), directory.join("tmp")];
    let socket = places.iter().flat_map(|place| files(place)).find(|path| is_socket(path));
    // Generators of static sites have such files as well.
    let is_site = socket.is_none() && has_index(&root(directory));
    let project = PROJECTS.iter().find(has).filter(|_| !is_site);
    let address = match (socket, project) {
        (Some(socket), _) => format!("unix:{}", socket.display()),
        (None, Some((.., port))) => format!("127.0.0.1:{port}"),
        (None, None) => return None,
    };
    let has_files = root_beside_program(directory) != directory;
    Some(Application { address, language: project.map(|&(_, _, language, _)| language), has_files })
}

fn is_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket())
}

/// A pool of PHP-FPM that runs, of the newest version if there are several: one from its configuration,
/// otherwise a socket.
fn fpm(machine: &Path) -> Option<Fpm> {
    let configured = POOLS.iter().flat_map(|pattern| directories(machine, pattern));
    let files_of = |directory: PathBuf| files(&directory).into_iter();
    let pools = configured.flat_map(files_of).filter(|path| path.extension().is_some_and(|of| of == "conf"));
    let mut running: Vec<Fpm> = pools.filter_map(|path| pool(&path, machine)).collect();
    running.pop().or_else(|| {
        let mut all = SOCKETS.iter().flat_map(|place| files(&machine.join(place)));
        let socket = all.rfind(|path| is_socket(path))?;
        let within = socket.strip_prefix(machine).ok()?;
        Some(Fpm { address: format!("unix:/{}", within.display()), children: None })
    })
}

/// The directories that a pattern names, whose `*` stands for one name.
fn directories(machine: &Path, pattern: &str) -> Vec<PathBuf> {
    match pattern.split_once("/*/") {
        None => vec![machine.join(pattern)],
        Some((above, below)) => {
            files(&machine.join(above)).into_iter().map(|version| version.join(below)).collect()
        }
    }
}

/// A configured pool. `None` if it names no address, or a socket that is not there.
fn pool(path: &Path, machine: &Path) -> Option<Fpm> {
    let text = fs::read_to_string(path).ok()?;
    let setting = |key: &str| {
        let of = |line: &str| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == key).then(|| value.trim().trim_matches('"').to_owned())
        };
        text.lines().filter(|line| !line.trim_start().starts_with(';')).filter_map(of).next_back()
    };
    let listen = setting("listen")?;
    let address = match listen.strip_prefix('/') {
        Some(within) if is_socket(&machine.join(within)) => format!("unix:{listen}"),
        Some(_) => return None,
        None if listen.bytes().all(|byte| byte.is_ascii_digit()) => format!("127.0.0.1:{listen}"),
        None => listen,
    };
    let children = setting("pm.max_children").and_then(|value| value.parse().ok());
    Some(Fpm { address, children: children.map(|children| (children, path.to_owned())) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Writes files below a new directory.
    fn site(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        directory
    }

    #[test]
    fn an_application_is_known_by_its_project() {
        let http = |address: &str, language, has_files| {
            Some(Application { address: address.to_owned(), language: Some(language), has_files })
        };
        for (files, expected) in [
            (
                &[("package.json", r#"{"scripts": {"start": "node ."}}"#)][..],
                http("127.0.0.1:3000", "Node", false),
            ),
            (&[("package.json", r#"{"scripts": {"build": "vite"}}"#)], None),
            (&[("manage.py", ""), ("static/a.css", "")], http("127.0.0.1:8000", "Python", true)),
            (&[("requirements.txt", "mkdocs"), ("index.html", "")], None),
            (&[("go.mod", ""), ("out/program", "")], http("127.0.0.1:3000", "Go", false)),
            (&[("readme", "")], None),
        ] {
            let site = site(files);
            let found = Found::of(site.path(), Path::new("/nowhere"));
            assert_eq!(found.application, expected, "{files:?}");
            let is_http = expected.is_some();
            assert_eq!(found.lists_directories(), !is_http && !found.has_index, "{files:?}");
            let has_files = expected.is_some_and(|application| application.has_files);
            assert_eq!(found.root != site.path(), has_files, "clients do not get the program: {files:?}");
        }
        let site = site(&[("Gemfile", ""), ("tmp/x", "")]);
        let socket = site.path().join("tmp/puma.sock");
        let _listener = UnixListener::bind(&socket).expect("a socket");
        let address = format!("unix:{}", socket.display());
        assert_eq!(application(site.path()), http(&address, "Ruby", false));
    }

    #[test]
    fn the_root_is_where_the_index_is() {
        for (files, expected) in [
            (&[][..], ""),
            (&["index.html"], ""),
            (&["public/index.php", "composer.json"], "public"),
            (&["index.html", "dist/index.html"], ""),
            (&["src/x", "dist/index.html"], "dist"),
            (&["public/x"], ""),
        ] {
            let site = site(&files.iter().map(|name| (*name, "")).collect::<Vec<_>>());
            assert_eq!(root(site.path()), site.path().join(expected), "{files:?}");
        }
    }

    #[test]
    fn a_pool_of_php_is_found_by_its_configuration_or_its_socket() {
        let machine = site(&[
            (
                "etc/php/8.2/fpm/pool.d/www.conf",
                "[www]\n;listen = 127.0.0.1:9000\nlisten = /run/php/a.sock\npm.max_children = 7\n",
            ),
            ("etc/php/8.4/fpm/pool.d/www.conf", "[www]\nlisten = /run/php/none.sock\n"),
            ("run/php/x", ""),
        ]);
        assert_eq!(fpm(machine.path()), None);
        let _b = UnixListener::bind(machine.path().join("run/php/b.sock")).expect("a socket");
        let address = |name: &str| format!("unix:/run/php/{name}.sock");
        assert_eq!(fpm(machine.path()), Some(Fpm { address: address("b"), children: None }));
        let _a = UnixListener::bind(machine.path().join("run/php/a.sock")).expect("a socket");
        let found = fpm(machine.path()).expect("a pool");
        assert_eq!(found.address, address("a"));
        assert_eq!(found.children.expect("a number").0, 7);
    }

    #[test]
    fn a_front_controller_is_told_by_its_neighbours() {
        for (files, expected) in [
            (&["index.php"][..], false),
            (&["index.php", "wp-load.php"], true),
            (&["public/index.php", "artisan"], true),
            (&["index.html", "composer.json"], false),
        ] {
            let site = site(&files.iter().map(|name| (*name, "")).collect::<Vec<_>>());
            let found = Found::of(site.path(), site.path());
            assert_eq!(found.has_front_controller, expected, "{files:?}");
        }
    }
}
