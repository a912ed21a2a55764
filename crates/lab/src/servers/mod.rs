//! Configures and starts each kind of server: command lines with generated configurations, which stay in
//! the trial's directory for readers.
//!
//! Each server runs in the foreground, with settings that its documentation and the papers found good for
//! static files: as many workers as CPUs, an open-file cache, no access log. Connections stay open as long
//! as clients want. A setting `name=value` replaces a generated one.
//!
//! A [`script`] beside each trial's results starts its server again.
//!
//! With [`Secured`], all servers speak the same TLS, with one certificate.
//!
//! A server is a program, or several programs of which clients talk to the last. [`Part`]s of it are also a
//! server behind a proxy, and an [`Application`] to which the server passes requests. The lab
//! decides how they are [arranged](arrangement): as replicas, each with its own application, or as one.

mod apache;
mod application;
mod arrangement;
mod caddy;
mod ceiling;
pub(crate) mod certificate;
mod haproxy;
mod lighttpd;
mod nginx;
mod running;
pub(crate) mod script;
mod sluice;
pub mod spec;
pub mod tls;

pub use application::Application;
pub(crate) use application::WORK;
pub use running::Running;
pub(crate) use sluice::STATUS;
pub use tls::{Secured, Tls, Version};

use std::fmt;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use self::arrangement::Arrangement;
use crate::programs::ports::free_port;
use crate::servers::spec::{Kind, Spec};

/// The conditions under which a server is started.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// The root of the files.
    pub root: &'a Path,
    /// The addresses; the server listens on all of them.
    pub listen: &'a [SocketAddr],
    /// The directory for its configuration, logs and sockets.
    pub directory: &'a Path,
    /// The directory for its sockets. Their paths have to be short: `unix(7)` allows 108 bytes.
    pub sockets: &'a Path,
    /// How many CPUs it has.
    pub cpus: usize,
    /// The number of connections for which it makes room.
    pub capacity: usize,
    /// The program of sluice, if a spec names no other build.
    pub sluice: &'a Path,
    /// The file that all clients request, if it is a single one.
    pub constant: Option<Constant<'a>>,
    /// The application to which it passes requests. It starts before the server.
    pub application: Option<&'a Application>,
    /// The address of the application, if it does not use a Unix socket.
    pub over_tcp: Option<SocketAddr>,
    /// The directory of compiled applications.
    pub programs: &'a Path,
    /// The address of the back-end simulator that an application uses.
    pub besim: Option<SocketAddr>,
    /// The address of the lab's own application, if it is that which gets the requests.
    pub standard: Option<SocketAddr>,
    /// What it needs for TLS; `None`: it speaks HTTP without TLS.
    pub secured: Option<Secured<'a>>,
}

/// A single file that all clients request.
#[derive(Clone, Copy, Debug)]
pub struct Constant<'a> {
    /// Its path from the root, with a slash in front.
    pub target: &'a str,
    /// Whether each request has its own connection.
    pub closes: bool,
}

impl<'a> Ground<'a> {
    /// Conditions for a server with one CPU and a thousand connections, without an application and without
    /// TLS, with all files in one directory.
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
            standard: None,
            secured: None,
        }
    }

    /// How its URLs begin.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.secured.is_some() { "https" } else { "http" }
    }
}

/// A program that is part of a server.
#[derive(Debug)]
pub struct Part {
    /// Its command line.
    pub words: Vec<String>,
    /// The addresses on which it listens once it has started.
    pub listens: Vec<Endpoint>,
    /// Its CPU among those of the server; `None`: all of them.
    pub cpu: Option<usize>,
}

/// An address on which something listens.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// An address on a network.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// Formats the address as an application gets it.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// The programs that make up the server, in the order in which they are started. Clients talk to the last
/// one. Writes configurations to the ground's directory.
///
/// # Errors
/// A setting is unknown, a program is not installed, or a file can't be written.
pub fn parts(spec: &Spec, ground: &Ground<'_>) -> Result<Vec<Part>> {
    let (arrangement, spec) = Arrangement::of(spec)?;
    let Some(mapping) = arrangement.replicas else { return one(&spec, &arrangement, ground) };
    let replicas = ground.listen.len();
    ensure!(
        replicas > 1,
        "{}: each replica needs its own address, and there is only one; allowed: with both_cpus = true",
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

/// The programs of one replica, or of a server without replicas.
fn one(spec: &Spec, arrangement: &Arrangement, ground: &Ground<'_>) -> Result<Vec<Part>> {
    let on_loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let over_tcp = arrangement.over_tcp.then(|| free_port().map(on_loopback)).transpose()?;
    let ground = &Ground { over_tcp, ..*ground };
    let mut parts = Vec::new();
    if let Some(application) = ground.application {
        if let Some(why) = cannot_hand_on(spec, application) {
            bail!(why);
        }
        if ground.standard.is_none() {
            parts.push(application.part(ground, &arrangement.variables)?);
        }
    }
    parts.extend(server(spec, ground)?);
    Ok(parts)
}

/// Some settings as lines of the server's own configuration file, ready to paste. For programs that the lab
/// does not configure, settings stay as they are.
pub fn lines(spec: &Spec, settings: &[String]) -> Vec<String> {
    let line = match spec.kind {
        Kind::Sluice => sluice::line,
        Kind::Nginx => nginx::directive,
        Kind::Lighttpd => lighttpd::line,
        Kind::Apache | Kind::ApacheWorker => apache::directive,
        Kind::Caddy => caddy::directive,
        Kind::Haproxy | Kind::Ceiling | Kind::Command | Kind::Running => return settings.to_vec(),
    };
    let lines = settings.iter().map(|setting| {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        line(name, value.trim_matches('"')).trim_end().to_owned()
    });
    lines.collect()
}

/// Checks the lab's own settings of a server.
pub(crate) fn check(spec: &Spec) -> Result<()> {
    Arrangement::of(spec).map(drop)
}

/// Whether it has a replica for each address. Then there is no single status.
pub(crate) fn is_replicated(spec: &Spec) -> bool {
    Arrangement::of(spec).is_ok_and(|(arrangement, _)| arrangement.replicas.is_some())
}

/// The server's programs without its application.
fn server(spec: &Spec, ground: &Ground<'_>) -> Result<Vec<Part>> {
    let words = match spec.kind {
        Kind::Sluice => sluice::words(spec, ground)?,
        Kind::Nginx => nginx::words(spec, ground)?,
        Kind::Lighttpd => lighttpd::words(spec, ground)?,
        Kind::Apache => apache::words(spec, ground, &apache::EVENT)?,
        Kind::ApacheWorker => apache::words(spec, ground, &apache::WORKER)?,
        Kind::Caddy => caddy::words(spec, ground)?,
        Kind::Haproxy => return haproxy::parts(spec, ground),
        Kind::Ceiling => ceiling::words(spec, ground)?,
        Kind::Running => bail!("{} is already running", spec.name),
        Kind::Command => {
            ensure!(ground.listen.len() == 1, "{} can't listen on several addresses", spec.name);
            spec.settings.iter().map(|word| ground.fill(word.trim_matches('"'))).collect()
        }
    };
    Ok(vec![Part::of(words, ground)])
}

/// The names that a word may have in braces.
pub(crate) const FILLED: [&str; 8] =
    ["port", "host", "root", "cpus", "directory", "socket", "besim", CERTIFICATE];

/// The name for the file with certificate and key.
const CERTIFICATE: &str = "certificate";

impl Ground<'_> {
    /// A word of a custom command, with all names in braces filled in.
    fn fill(&self, word: &str) -> String {
        let address = self.listen[0];
        let besim = self.besim.map(|address| address.to_string()).unwrap_or_default();
        let pem = self.secured.map(|secured| secured.pem.display().to_string()).unwrap_or_default();
        let values = [
            address.port().to_string(),
            address.ip().to_string(),
            self.root.display().to_string(),
            self.cpus.to_string(),
            self.directory.display().to_string(),
            application::socket(self).to_string(),
            besim,
            pem,
        ];
        let named = FILLED.into_iter().zip(values);
        named.fold(word.to_owned(), |word, (name, value)| word.replace(&format!("{{{name}}}"), &value))
    }
}

impl Part {
    /// The part to which clients talk.
    fn of(words: Vec<String>, ground: &Ground<'_>) -> Self {
        Self { words, listens: ground.listen.iter().copied().map(Endpoint::Tcp).collect(), cpu: None }
    }
}

/// The reason why a server cannot have this application; `None`: it can.
pub(crate) fn cannot_hand_on(spec: &Spec, application: &Application) -> Option<String> {
    let allowed = if application.speaks_http() {
        "it cannot pass requests to an application over HTTP; allowed: sluice, nginx, caddy, \
         haproxy: behind=application, and commands that name {socket}"
    } else {
        "it cannot pass requests to an application over FastCGI; allowed: sluice, nginx, lighttpd, apache, \
         apache-worker, haproxy in front of one of these or of php-fpm, and commands that name {socket}"
    };
    (!can_hand_on(spec, application.speaks_http())).then(|| format!("{}: {allowed}", spec.name))
}

fn can_hand_on(spec: &Spec, over_http: bool) -> bool {
    match spec.kind {
        Kind::Sluice | Kind::Nginx => true,
        Kind::Lighttpd | Kind::Apache | Kind::ApacheWorker => !over_http,
        Kind::Caddy => over_http,
        Kind::Haproxy if haproxy::stands_alone(spec) => false,
        Kind::Haproxy => behind(spec)
            .is_ok_and(|behind| behind.is_none_or(|behind| !over_http && can_hand_on(&behind, false))),
        Kind::Ceiling | Kind::Running => false,
        Kind::Command => spec.settings.iter().any(|word| word.contains("{socket}")),
    }
}

/// The reason why a server cannot speak TLS.
pub(crate) const CANNOT_SPEAK_TLS: &str = "it cannot speak TLS; allowed with tls: sluice, nginx, lighttpd, \
    apache, apache-worker, caddy, haproxy, and commands that name {certificate}, a file with certificate and \
    key in PEM";

/// Whether the lab can have the server speak TLS.
pub(crate) fn can_speak_tls(spec: &Spec) -> bool {
    match spec.kind {
        Kind::Sluice
        | Kind::Nginx
        | Kind::Lighttpd
        | Kind::Apache
        | Kind::ApacheWorker
        | Kind::Caddy
        | Kind::Haproxy => true,
        Kind::Ceiling | Kind::Running => false,
        Kind::Command => names_certificate(spec),
    }
}

/// Whether it is a command that needs a certificate.
pub(crate) fn names_certificate(spec: &Spec) -> bool {
    spec.kind == Kind::Command
        && spec.settings.iter().any(|word| word.contains(&format!("{{{CERTIFICATE}}}")))
}

/// Whether it answers all requests with one file.
pub(crate) fn has_one_file(spec: &Spec) -> bool {
    spec.kind == Kind::Ceiling || (spec.kind == Kind::Haproxy && haproxy::stands_alone(spec))
}

/// Whether the lab reads its status: only for sluice, and not with several replicas.
pub(crate) fn tells_status(spec: &Spec) -> bool {
    let is_one = Arrangement::of(spec).is_ok_and(|(arrangement, _)| arrangement.replicas.is_none());
    spec.kind == Kind::Sluice && is_one
}

/// The server behind a proxy, if there is one.
pub(crate) fn behind(spec: &Spec) -> Result<Option<Spec>> {
    let is_proxy = spec.kind == Kind::Haproxy;
    if is_proxy { haproxy::behind(spec) } else { Ok(None) }
}

/// The executable that identifies a spec, for its version and the hash of its bytes; `None` for commands of
/// several words that name none.
pub(crate) fn executable(spec: &Spec, sluice: &Path) -> Option<PathBuf> {
    let usual = match spec.kind {
        Kind::Sluice => return Some(spec.program.clone().unwrap_or_else(|| sluice.to_owned())),
        Kind::Nginx => "nginx",
        Kind::Lighttpd => "lighttpd",
        Kind::Apache | Kind::ApacheWorker => "apache2",
        Kind::Caddy => "caddy",
        Kind::Haproxy => "haproxy",
        Kind::Running => return None,
        Kind::Ceiling => return ceiling::program(spec, sluice).canonicalize().ok(),
        Kind::Command => spec.settings.first()?.as_str(),
    };
    found(&spec.program.clone().unwrap_or_else(|| usual.into()))
}

/// The error for a spec without an executable.
pub(crate) fn not_there(spec: &Spec) -> String {
    let whence = match spec.kind {
        Kind::Ceiling => " (cargo build --release -p bench, or name one: 'ceiling@path/to/ceiling')",
        _ => "",
    };
    format!("{}: there is no program for {spec:#}{whence}", spec.name)
}

/// Finds an executable by its path, or in the directories of the shell and of Debian's administrators.
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

/// Settings `name=value` of a spec, for a configuration. Callers take the known ones; the rest remains.
struct Settings<'a> {
    pairs: Vec<(&'a str, &'a str)>,
    /// Formats a name and a value.
    line: fn(&str, &str) -> String,
}

impl<'a> Settings<'a> {
    fn of(spec: &'a Spec, line: fn(&str, &str) -> String) -> Self {
        let pairs = spec.settings.iter().filter_map(|word| word.split_once('='));
        // Quotes are only there for values with blanks.
        Self { pairs: pairs.map(|(name, value)| (name, value.trim_matches('"'))).collect(), line }
    }

    /// The value of `name`, or `usual`.
    fn take(&mut self, name: &str, usual: &dyn ToString) -> String {
        match self.pairs.iter().position(|(other, _)| *other == name) {
            Some(at) => self.pairs.remove(at).1.to_owned(),
            None => usual.to_string(),
        }
    }

    /// The line for `name`, with its value or `usual`.
    fn set(&mut self, name: &str, usual: &dyn ToString) -> String {
        (self.line)(name, &self.take(name, usual))
    }

    /// The lines for several names.
    fn set_all(&mut self, usual: &[(&str, &str)]) -> String {
        usual.iter().map(|(name, usual)| self.set(name, usual)).collect()
    }

    /// The remaining settings that belong somewhere, one line for each.
    fn those(&mut self, belongs: impl Fn(&str) -> bool) -> String {
        let those = self.pairs.extract_if(.., |(name, _)| belongs(name));
        those.map(|(name, value)| (self.line)(name, value)).collect()
    }

    /// All remaining settings, one line for each.
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

    /// The files for a server that listens at 127.0.0.1:8080, and the command of the part to which clients
    /// talk.
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

    /// Checks that a server's configuration has all `lines`, if its program is installed.
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
    fn a_command_gets_the_certificate() {
        let listen = ["127.0.0.1:8443".parse().unwrap()];
        let (directory, pem) = (Path::new("/t"), Path::new("/run/tls.pem"));
        let secured = Some(Secured { tls: Tls::of(None, None, None, None, None).unwrap(), pem });
        let ground =
            Ground { secured, ..Ground::plain(Path::new("/"), &listen, directory, Path::new("/bin/true")) };
        let spec: Spec = "mine = ./server --tls {host}:{port} --pem={certificate}".parse().unwrap();
        assert!(can_speak_tls(&spec) && names_certificate(&spec));
        let words = parts(&spec, &ground).unwrap().pop().unwrap().words;
        assert_eq!(words, ["./server", "--tls", "127.0.0.1:8443", "--pem=/run/tls.pem"]);
        let plain: Spec = "mine = ./server {port}".parse().unwrap();
        assert!(!can_speak_tls(&plain) && !names_certificate(&plain));
    }

    #[test]
    fn a_command_has_its_places_filled() {
        let text = "mine = ./server -p {port} --cpus {cpus} \"{root} and more\"";
        let (words, _) = configured(text, None);
        assert_eq!(words, ["./server", "-p", "8080", "--cpus", "2", "/ and more"]);
    }
}
