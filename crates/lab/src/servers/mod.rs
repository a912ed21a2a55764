//! How each server is configured and started: command lines with generated configurations, which are kept in
//! the trial's directory for everybody to see.
//!
//! Each runs in the foreground, with what its documentation and the papers found good for static files: as
//! many workers as it has CPUs, an open-file cache, no access log, and connections that are kept for as long
//! as clients want. A setting `name=value` replaces what is generated.
//!
//! A [`script`] beside each trial's results starts its server again.
//!
//! A server is a program, or several of which clients talk to the last: what stands behind a proxy, and an
//! [`Application`] that the server hands requests to by FastCGI, are [`Part`]s of it. How they are
//! [arranged](arrangement) is the lab's: as replicas, each with an application of its own, or as one.

mod apache;
mod application;
mod arrangement;
mod ceiling;
mod haproxy;
mod lighttpd;
mod nginx;
mod running;
pub(crate) mod script;
mod sluice;
pub mod spec;

pub use application::Application;
pub(crate) use application::WORK;
pub use running::Running;
pub(crate) use sluice::STATUS;

use std::fmt;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use self::arrangement::Arrangement;
use crate::programs::ports::free_port;
use crate::servers::spec::{Kind, Spec};

/// Where and for what a server is started.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// Of the files.
    pub root: &'a Path,
    /// All of them are listened on.
    pub listen: &'a [SocketAddr],
    /// For its configuration, logs and sockets.
    pub directory: &'a Path,
    /// For its sockets, whose paths have to be short: `unix(7)` has 108 bytes for one.
    pub sockets: &'a Path,
    /// How many CPUs it has.
    pub cpus: usize,
    /// How many connections it has to have room for.
    pub capacity: usize,
    /// Our server, where a spec names no other build.
    pub sluice: &'a Path,
    /// What all clients ask for, if it is one file.
    pub constant: Option<Constant<'a>>,
    /// What it hands requests to, and is started before it.
    pub application: Option<&'a Application>,
    /// Where the application listens, if not at a Unix socket.
    pub over_tcp: Option<SocketAddr>,
    /// Where applications are that were compiled.
    pub programs: &'a Path,
    /// Where the back-end simulator listens that an application asks.
    pub besim: Option<SocketAddr>,
}

/// One file that all clients ask for.
#[derive(Clone, Copy, Debug)]
pub struct Constant<'a> {
    /// From the root, with a slash in front.
    pub target: &'a str,
    /// Whether they ask for each reply on a connection of its own.
    pub closes: bool,
}

impl<'a> Ground<'a> {
    /// For a server of one CPU and a thousand connections, without an application, all in one directory.
    pub fn plain(root: &'a Path, listen: &'a [SocketAddr], directory: &'a Path, sluice: &'a Path) -> Self {
        Self {
            root,
            listen,
            directory,
            sockets: directory,
            cpus: 1,
            capacity: 1_000,
            sluice,
            constant: None,
            application: None,
            over_tcp: None,
            programs: directory,
            besim: None,
        }
    }
}

/// A program of a server.
#[derive(Debug)]
pub struct Part {
    /// Its command line.
    pub words: Vec<String>,
    /// Where it listens as soon as it is up.
    pub listens: Vec<Endpoint>,
    /// Which of the server's CPUs it has; `None`: all of them.
    pub cpu: Option<usize>,
}

/// Where something listens.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// On a network.
    Tcp(SocketAddr),
    /// At a path.
    Unix(PathBuf),
}

/// As an application is told it.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// The programs that make up the server, in the order in which they are started: clients talk to the last.
/// Configurations are written to the ground's directory.
///
/// # Errors
/// Where a setting is unknown, a program is not installed, or a file can't be written.
pub fn parts(spec: &Spec, ground: &Ground<'_>) -> Result<Vec<Part>> {
    let (arrangement, spec) = Arrangement::of(spec)?;
    let Some(mapping) = arrangement.replicas else { return one(&spec, &arrangement, ground) };
    let replicas = ground.listen.len();
    ensure!(
        replicas > 1,
        "{}: replicas have an address each, and there is only one; allowed: with both_cpus = true",
        spec.name
    );
    let application = ground.application.map(|application| application.shared_out(replicas));
    let mut parts = Vec::new();
    for (replica, address) in ground.listen.iter().enumerate() {
        let [directory, sockets] =
            [ground.directory, ground.sockets].map(|path| path.join(format!("replica-{replica}")));
        for path in [&directory, &sockets] {
            fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        }
        let own = Ground {
            listen: &[*address],
            directory: &directory,
            sockets: &sockets,
            cpus: 1,
            application: application.as_ref(),
            ..*ground
        };
        let cpu = Some(mapping.cpu(replica, ground.cpus));
        parts.extend(one(&spec, &arrangement, &own)?.into_iter().map(|part| Part { cpu, ..part }));
    }
    Ok(parts)
}

/// Of a server that is no replica, or of one of them.
fn one(spec: &Spec, arrangement: &Arrangement, ground: &Ground<'_>) -> Result<Vec<Part>> {
    let on_loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let over_tcp = arrangement.over_tcp.then(|| free_port().map(on_loopback)).transpose()?;
    let ground = &Ground { over_tcp, ..*ground };
    let mut parts = Vec::new();
    if let Some(application) = ground.application {
        ensure!(can_hand_on(spec), "{}: {CANNOT_HAND_ON}", spec.name);
        parts.push(application.part(ground, &arrangement.variables)?);
    }
    parts.extend(server(spec, ground)?);
    Ok(parts)
}

/// Some of its settings as lines of its own configuration file, to be pasted there. Those that are none of a
/// server that the lab configures stay as they are.
pub fn lines(spec: &Spec, settings: &[String]) -> Vec<String> {
    let line = match spec.kind {
        Kind::Sluice => sluice::line,
        Kind::Nginx => nginx::directive,
        Kind::Lighttpd => lighttpd::line,
        Kind::Apache | Kind::ApacheWorker => apache::directive,
        Kind::Haproxy | Kind::Ceiling | Kind::Command | Kind::Running => return settings.to_vec(),
    };
    let lines = settings.iter().map(|setting| {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        line(name, value.trim_matches('"')).trim_end().to_owned()
    });
    lines.collect()
}

/// Whether the lab's own settings of a server are understood.
pub(crate) fn check(spec: &Spec) -> Result<()> {
    Arrangement::of(spec).map(drop)
}

/// Whether there is a replica of it for each address, so that nobody can tell the status of all.
pub(crate) fn is_replicated(spec: &Spec) -> bool {
    Arrangement::of(spec).is_ok_and(|(arrangement, _)| arrangement.replicas.is_some())
}

/// Without its application.
fn server(spec: &Spec, ground: &Ground<'_>) -> Result<Vec<Part>> {
    let words = match spec.kind {
        Kind::Sluice => sluice::words(spec, ground)?,
        Kind::Nginx => nginx::words(spec, ground)?,
        Kind::Lighttpd => lighttpd::words(spec, ground)?,
        Kind::Apache => apache::words(spec, ground, &apache::EVENT)?,
        Kind::ApacheWorker => apache::words(spec, ground, &apache::WORKER)?,
        Kind::Haproxy => return haproxy::parts(spec, ground),
        Kind::Ceiling => ceiling::words(spec, ground)?,
        Kind::Running => bail!("{} runs already", spec.name),
        Kind::Command => {
            ensure!(ground.listen.len() == 1, "{} can't be told of several addresses", spec.name);
            spec.settings.iter().map(|word| ground.fill(word.trim_matches('"'))).collect()
        }
    };
    Ok(vec![Part::of(words, ground)])
}

/// What a word may name in braces.
pub(crate) const FILLED: [&str; 7] = ["port", "host", "root", "cpus", "directory", "socket", "besim"];

impl Ground<'_> {
    /// A word of anybody's program with all that it names in braces.
    fn fill(&self, word: &str) -> String {
        let address = self.listen[0];
        let besim = self.besim.map(|address| address.to_string()).unwrap_or_default();
        let values = [
            address.port().to_string(),
            address.ip().to_string(),
            self.root.display().to_string(),
            self.cpus.to_string(),
            self.directory.display().to_string(),
            application::socket(self).to_string(),
            besim,
        ];
        let named = FILLED.into_iter().zip(values);
        named.fold(word.to_owned(), |word, (name, value)| word.replace(&format!("{{{name}}}"), &value))
    }
}

impl Part {
    /// Who clients talk to.
    fn of(words: Vec<String>, ground: &Ground<'_>) -> Self {
        Self { words, listens: ground.listen.iter().copied().map(Endpoint::Tcp).collect(), cpu: None }
    }
}

/// Why a server has no application.
pub(crate) const CANNOT_HAND_ON: &str = "it hands no requests to an application; allowed with one: sluice, \
    nginx, lighttpd, apache, apache-worker, haproxy in front of one of these or of the application, and \
    commands that name {socket}";

/// Whether the server hands requests to an application.
pub(crate) fn can_hand_on(spec: &Spec) -> bool {
    match spec.kind {
        Kind::Sluice | Kind::Nginx | Kind::Lighttpd | Kind::Apache | Kind::ApacheWorker => true,
        Kind::Haproxy => behind(spec).is_ok_and(|behind| behind.is_none_or(|behind| can_hand_on(&behind))),
        Kind::Ceiling | Kind::Running => false,
        Kind::Command => spec.settings.iter().any(|word| word.contains("{socket}")),
    }
}

/// Whether the lab asks for its status: of a server of ours, if it is one rather than several replicas.
pub(crate) fn tells_status(spec: &Spec) -> bool {
    let is_one = Arrangement::of(spec).is_ok_and(|(arrangement, _)| arrangement.replicas.is_none());
    spec.kind == Kind::Sluice && is_one
}

/// The server behind a proxy, if there is one.
pub(crate) fn behind(spec: &Spec) -> Result<Option<Spec>> {
    let is_proxy = spec.kind == Kind::Haproxy;
    if is_proxy { haproxy::behind(spec) } else { Ok(None) }
}

/// The executable that makes a spec what it is, for its version and the hash of its bytes; `None` for
/// commands of several words that name none.
pub(crate) fn executable(spec: &Spec, sluice: &Path) -> Option<PathBuf> {
    let usual = match spec.kind {
        Kind::Sluice => return Some(spec.program.clone().unwrap_or_else(|| sluice.to_owned())),
        Kind::Nginx => "nginx",
        Kind::Lighttpd => "lighttpd",
        Kind::Apache | Kind::ApacheWorker => "apache2",
        Kind::Haproxy => "haproxy",
        Kind::Running => return None,
        Kind::Ceiling => return ceiling::program(spec, sluice).canonicalize().ok(),
        Kind::Command => spec.settings.first()?.as_str(),
    };
    found(&spec.program.clone().unwrap_or_else(|| usual.into()))
}

/// What is said where a spec has no executable.
pub(crate) fn not_there(spec: &Spec) -> String {
    let whence = match spec.kind {
        Kind::Ceiling => " (cargo build --release -p bench, or name one: 'ceiling@path/to/ceiling')",
        _ => "",
    };
    format!("{}: there is no program for {spec:#}{whence}", spec.name)
}

/// An executable by its path, or where the shell and Debian's administrators look.
pub(crate) fn found(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.canonicalize().ok();
    }
    directories().into_iter().map(|directory| directory.join(program)).find(|path| path.is_file())
}

fn directories() -> Vec<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').chain(["/usr/sbin", "/sbin", "/usr/local/sbin"]).map(PathBuf::from).collect()
}

/// The executable of a peer, or an error that names the package.
fn peer(spec: &Spec, package: &str) -> Result<String> {
    let path = executable(spec, Path::new(""));
    let path = path.with_context(|| format!("{} is not installed (Debian package {package})", spec.name))?;
    Ok(path.display().to_string())
}

/// Settings `name=value` of a spec, for a configuration: those that it asks for, and what is left.
struct Settings<'a> {
    pairs: Vec<(&'a str, &'a str)>,
    /// How a name and a value are written down.
    line: fn(&str, &str) -> String,
}

impl<'a> Settings<'a> {
    fn of(spec: &'a Spec, line: fn(&str, &str) -> String) -> Self {
        let pairs = spec.settings.iter().filter_map(|word| word.split_once('='));
        // Quotes are there for values with blanks in them.
        Self { pairs: pairs.map(|(name, value)| (name, value.trim_matches('"'))).collect(), line }
    }

    /// What was set under `name`, or `usual`.
    fn take(&mut self, name: &str, usual: &dyn ToString) -> String {
        match self.pairs.iter().position(|(other, _)| *other == name) {
            Some(at) => self.pairs.remove(at).1.to_owned(),
            None => usual.to_string(),
        }
    }

    /// The line of that.
    fn set(&mut self, name: &str, usual: &dyn ToString) -> String {
        (self.line)(name, &self.take(name, usual))
    }

    /// The lines of several.
    fn set_all(&mut self, usual: &[(&str, &str)]) -> String {
        usual.iter().map(|(name, usual)| self.set(name, usual)).collect()
    }

    /// Those of the others that belong somewhere, a line for each.
    fn those(&mut self, belongs: impl Fn(&str) -> bool) -> String {
        let those = self.pairs.extract_if(.., |(name, _)| belongs(name));
        those.map(|(name, value)| (self.line)(name, value)).collect()
    }

    /// All others, a line for each.
    fn rest(mut self) -> String {
        self.those(|_| true)
    }
}

fn write(ground: &Ground<'_>, name: &str, text: &str) -> Result<String> {
    let path = ground.directory.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written for a server that listens at 127.0.0.1:8080, and the command that clients talk to.
    fn configured(text: &str, application: Option<&str>) -> (Vec<String>, String) {
        let scratch = tempfile::tempdir().unwrap();
        let application = application.map(|text| text.parse().unwrap());
        let listen = ["127.0.0.1:8080".parse().unwrap()];
        let plain = Ground::plain(Path::new("/"), &listen, scratch.path(), Path::new("/bin/true"));
        let besim = Some("127.0.0.1:81".parse().unwrap());
        let ground = Ground { cpus: 2, application: application.as_ref(), besim, ..plain };
        let spec: Spec = text.parse().unwrap();
        let words = parts(&spec, &ground).unwrap().pop().unwrap().words;
        let mut files: Vec<PathBuf> =
            fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        (words, files.iter().map(|path| fs::read_to_string(path).unwrap_or_default()).collect())
    }

    /// Whether the configuration of a server has all `lines` where its program is installed.
    fn has(text: &str, application: Option<&str>, lines: &[&str]) {
        if executable(&text.parse().unwrap(), Path::new("")).is_some() {
            let (_, file) = configured(text, application);
            for line in lines {
                assert_eq!(file.lines().filter(|other| other == line).count(), 1, "{line} in {file}");
            }
        }
    }

    #[test]
    fn settings_replace_what_is_generated_and_others_are_added_where_they_belong() {
        has("nginx", None, &["worker_processes 2;", "sendfile on;"]);
        let set = "nginx: worker_processes=5 thread_pool=\"default threads=8\" sendfile=off aio=threads";
        has(set, None, &["worker_processes 5;", "thread_pool default threads=8;", "sendfile off;"]);
        let set = "lighttpd: server.network-backend=writev server.max-worker=3";
        has(set, None, &["server.network-backend = \"writev\"", "server.max-worker = 3"]);
        let set = "apache-worker: ThreadsPerChild=8 ServerLimit=3 EnableMMAP=Off";
        has(set, None, &["ThreadsPerChild 8", "MaxRequestWorkers 24", "ThreadLimit 8", "EnableMMAP Off"]);
        let set = "haproxy: tune.bufsize=32768 http-reuse=safe option=splice-auto";
        has(set, None, &["tune.bufsize 32768", "http-reuse safe", "option splice-auto", "nbthread 2"]);
    }

    #[test]
    fn an_application_gets_what_is_computed() {
        let mine = Some("command: ./app {socket}");
        has("nginx", mine, &["location /fcgi/ {", "fastcgi_max_temp_file_size 0;"]);
        has("sluice: pool.queue=7", mine, &["path = \"/fcgi/**\"", "queue=7", "pool = \"application\""]);
        has("apache", mine, &["<LocationMatch \"^/fcgi/\">"]);
        let besim = Some("php-fpm: env[BESIM]={besim}");
        has("nginx", besim, &["env[BESIM] = 127.0.0.1:81"]);
        has("nginx: fastcgi_buffers=\"8 8k\"", mine, &["fastcgi_buffers 8 8k;"]);
        let php = Some("php-fpm: workers=5 root=/");
        let alone = "haproxy: behind=application server=\"maxconn 5\" timeout=\"queue 1s\"";
        has(alone, php, &["docroot /", "use-fcgi-app application", "timeout queue 1s"]);
        has(alone, php, &["no option keep-conn"]);
    }

    #[test]
    fn ours_takes_options_and_lines_of_its_file() {
        let (words, file) = configured("sluice: --workers=4 placement.mapping=\"direct\"", None);
        assert!(words.contains(&"--workers=4".to_owned()), "{words:?}");
        assert!(file.contains("placement.mapping=\"direct\""), "{file}");
    }

    #[test]
    fn a_command_has_its_places_filled() {
        let text = "mine = ./server -p {port} --cpus {cpus} \"{root} and more\"";
        let (words, _) = configured(text, None);
        assert_eq!(words, ["./server", "-p", "8080", "--cpus", "2", "/ and more"]);
    }
}
