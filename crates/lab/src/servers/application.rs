//! The application to which a server passes requests: by FastCGI to PHP-FPM, to a program in C that is
//! compiled here, or to any command; by HTTP to any command, or to the lab's own application with a set time.
//!
//! It listens at a Unix socket or, if the server's [arrangement](super::arrangement) sets that, at an address
//! of the loopback interface. It runs where the server does and under the same limits, and its time and
//! memory count as the server's. The lab's own runs beside the clients instead, listens at an address, and
//! does not count.

use std::ffi::OsStr;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{Endpoint, Ground, Part, Settings, directories, found, write};
use crate::programs::child::output;
use crate::servers::spec;

/// An application as users type it: `php-fpm: workers=16 root=DIR`, `c: app.c workers=16`, `command: ./app
/// --socket {socket}`, `http: workers=4 gunicorn --bind unix:{socket} app:app`, `standard: time=50ms
/// workers=4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Application {
    /// PHP-FPM, which gets all requests for `.php`.
    PhpFpm {
        /// The number of requests that are computed at a time.
        workers: u32,
        /// The root of the scripts, if it is not that of the files.
        root: Option<PathBuf>,
        /// Directives of its pool. `{directory}` is that of the trial's files, and `{besim}` the address of
        /// the back-end simulator.
        settings: Vec<(String, String)>,
    },
    /// A program in C on libfcgi that gets all requests below `/fcgi/`. Its arguments are its socket, the
    /// number of processes, and the root of the files.
    C {
        /// The source, which is compiled first.
        source: PathBuf,
        /// The number of requests that are computed at a time.
        workers: u32,
        /// Variables `NAME=VALUE` for its environment.
        variables: Vec<String>,
    },
    /// The words of a command that gets all requests below `/fcgi/`. Leading words of the form `NAME=VALUE`
    /// are for its environment.
    Command(Vec<String>),
    /// The words of a command that speaks HTTP, and gets all requests below `/app/`.
    Http {
        /// The command. Leading words of the form `NAME=VALUE` are for its environment.
        words: Vec<String>,
        /// The number of requests that are computed at a time.
        workers: u32,
    },
    /// The lab's own application, which speaks HTTP, and gets all requests below `/app/`.
    Standard {
        /// How long it works on a request, as users type it.
        time: String,
        /// The number of requests that it works on at a time.
        workers: u32,
    },
}

/// The file, among a trial's files, in which an application logs how long each request took, if it is set
/// to do so.
pub(crate) const WORK: &str = "application.log";

/// What a server needs to know about its application.
#[derive(Debug)]
pub(super) struct Gateway {
    /// Where it listens.
    pub(super) socket: Endpoint,
    /// What it speaks, and which requests it gets.
    pub(super) gets: Gets,
    /// The number of requests that it serves at a time, if that is known.
    pub(super) children: Option<u32>,
}

/// What an application speaks, and which requests it gets.
#[derive(Debug)]
pub(super) enum Gets {
    /// FastCGI, and all requests for `.php`: the root of the scripts.
    Scripts(String),
    /// FastCGI, and all requests below `/fcgi/`.
    FastCgi,
    /// HTTP, and all requests below `/app/`.
    Http,
}

impl Gateway {
    /// The root of the scripts, if it gets all requests for `.php`.
    pub(super) fn scripts(&self) -> Option<&str> {
        if let Gets::Scripts(root) = &self.gets { Some(root) } else { None }
    }

    /// The address in the format of nginx and sluice.
    pub(super) fn address(&self) -> String {
        match &self.socket {
            Endpoint::Unix(path) => format!("unix:{}", path.display()),
            Endpoint::Tcp(address) => address.to_string(),
        }
    }
}

const ALLOWED: &str = "allowed: 'php-fpm', with workers=N (1 to 4096), root=DIR of its scripts and \
    directives of its pool such as pm.max_requests=500; a program in C: 'c: app.c workers=16'; or any \
    program that takes FastCGI: 'command: ./app --socket {socket}'; one that speaks HTTP: 'http: workers=4 \
    gunicorn --bind unix:{socket} app:app'; the last three with variables of their environment \
    (LD_PRELOAD=./libfcgi.so); or the lab's own: 'standard: time=50ms workers=4'";

/// Where to get the compiler and the library for a program in C.
const COMPILER: &str = " (Debian packages gcc and libfcgi-dev)";

/// The default number of requests that are computed at a time.
const WORKERS: u32 = 16;

impl FromStr for Application {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{what:?} in application {text:?}; {ALLOWED}");
        let refused = |what: &str| Err(wrong(what));
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut words = spec::words(rest);
        if kind.trim() == "command" {
            let has_program = words.iter().any(|word| !is_variable(word));
            let is_told = rest.contains("{socket}") && has_program;
            return if is_told { Ok(Self::Command(words)) } else { refused(kind) };
        }
        let mut workers = WORKERS;
        for word in words.extract_if(.., |word| word.starts_with("workers=")) {
            let count = word["workers=".len()..].parse().ok();
            workers = count.filter(|count| (1..=4096).contains(count)).ok_or_else(|| wrong(&word))?;
        }
        match kind.trim() {
            "http" if !words.iter().any(|word| !is_variable(word)) => refused("no program"),
            "http" if !rest.contains("{socket}") => refused("no {socket}"),
            "http" => Ok(Self::Http { words, workers }),
            "standard" => match &words[..] {
                [] => Ok(Self::Standard { time: "0".to_owned(), workers }),
                [word] => match word.strip_prefix("time=") {
                    Some(time) if units::parse_time(time).is_ok() => {
                        Ok(Self::Standard { time: time.to_owned(), workers })
                    }
                    _ => refused(word),
                },
                [_, word, ..] => refused(word),
            },
            "c" => {
                let (variables, others): (Vec<_>, Vec<_>) =
                    words.into_iter().partition(|word| is_variable(word));
                match &others[..] {
                    [source] if !source.contains('=') => {
                        Ok(Self::C { source: source.into(), workers, variables })
                    }
                    [] => refused("no source"),
                    [.., word] => refused(word),
                }
            }
            "php-fpm" => {
                let (mut root, mut settings) = (None, Vec::new());
                for word in &words {
                    match word.split_once('=') {
                        Some(("root", path)) => root = Some(path.into()),
                        Some((name, value)) => settings.push((name.to_owned(), value.to_owned())),
                        None => return refused(word),
                    }
                }
                Ok(Self::PhpFpm { workers, root, settings })
            }
            other => refused(other),
        }
    }
}

impl fmt::Display for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(words) => write!(f, "command: {}", words.join(" ")),
            Self::Http { words, workers } => write!(f, "http: workers={workers} {}", words.join(" ")),
            Self::Standard { time, workers } => write!(f, "standard: time={time} workers={workers}"),
            Self::C { source, workers, variables } => {
                write!(f, "c: {} workers={workers}", source.display())?;
                variables.iter().try_for_each(|variable| write!(f, " {variable}"))
            }
            Self::PhpFpm { workers, root, settings } => {
                write!(f, "php-fpm: workers={workers}")?;
                if let Some(root) = root {
                    write!(f, " root={}", root.display())?;
                }
                settings.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Application {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for Application {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The address on which the application listens.
pub(super) fn socket(ground: &Ground<'_>) -> Endpoint {
    match ground.standard.or(ground.over_tcp) {
        Some(address) => Endpoint::Tcp(address),
        None => Endpoint::Unix(ground.sockets.join("application")),
    }
}

/// Whether a word is a variable of an environment: `NAME=VALUE`, the name in capital letters.
pub(super) fn is_variable(word: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(is_allowed))
}

/// The path of a compiled program in C.
fn compiled(source: &Path, programs: &Path) -> PathBuf {
    programs.join(source.display().to_string().replace('/', "-") + ".program")
}

impl Application {
    /// The file that identifies the application, for the hash of its bytes.
    pub(crate) fn executable(&self) -> Result<PathBuf> {
        match self {
            Self::PhpFpm { .. } => installed().context("php-fpm is not installed (Debian package php-fpm)"),
            Self::C { source, .. } => {
                source.canonicalize().with_context(|| format!("{self}: there is no such file"))
            }
            Self::Standard { .. } => std::env::current_exe().context("no program of the lab"),
            Self::Command(words) | Self::Http { words, .. } => words
                .iter()
                .find(|word| !is_variable(word))
                .and_then(|word| found(word.as_ref()))
                .with_context(|| format!("{self}: there is no such program")),
        }
    }

    /// Compiles the application if necessary, into a directory for the trials.
    pub(crate) fn prepare(&self, programs: &Path) -> Result<()> {
        if let Some(words) = self.compiling(programs) {
            let mut compiler = process::Command::new(&words[0]);
            compiler.args(&words[1..]);
            output(&mut compiler, COMPILER).with_context(|| format!("{self}: it is not compiled"))?;
        }
        Ok(())
    }

    /// The command that compiles it, if necessary.
    pub(super) fn compiling(&self, programs: &Path) -> Option<Vec<String>> {
        let Self::C { source, .. } = self else { return None };
        let [source, program] = [source, &compiled(source, programs)].map(|path| path.display().to_string());
        Some(["cc", "-O2", &source, "-lfcgi", "-o", &program].map(str::to_owned).into())
    }

    /// The words that start it beside the clients, at an address, if it is no part of the server.
    pub(crate) fn beside(&self, listen: SocketAddr) -> Option<Vec<String>> {
        let Self::Standard { time, workers } = self else { return None };
        let program = std::env::current_exe().ok()?.display().to_string();
        let options =
            [format!("--listen={listen}"), format!("--time={time}"), format!("--capacity={workers}")];
        Some([program, "application".to_owned()].into_iter().chain(options).collect())
    }

    /// Whether it speaks HTTP, not FastCGI.
    pub(crate) fn speaks_http(&self) -> bool {
        matches!(self, Self::Http { .. } | Self::Standard { .. })
    }

    /// Whether it needs the address of the back-end simulator.
    pub(crate) fn asks_besim(&self) -> bool {
        self.to_string().contains("{besim}")
    }

    /// The application for one of several replicas of a server, with its part of the workers.
    pub(super) fn shared_out(&self, replicas: usize) -> Self {
        let mut this = self.clone();
        if let Self::PhpFpm { workers, .. } | Self::C { workers, .. } | Self::Http { workers, .. } = &mut this
        {
            *workers = (*workers / replicas as u32).max(1);
        }
        this
    }

    /// The program as it is started, with additional `variables` in its environment.
    pub(super) fn part(&self, ground: &Ground<'_>, variables: &[String]) -> Result<Part> {
        let at = socket(ground);
        let fill = |word: &String| ground.fill(&word.replace('"', ""));
        let (own, program) = match self {
            Self::Standard { .. } => bail!("{self}: it runs beside the clients"),
            Self::Command(typed) | Self::Http { words: typed, .. } => {
                let own = typed.iter().take_while(|word| is_variable(word)).count();
                (typed[..own].iter().map(fill).collect(), typed[own..].iter().map(fill).collect())
            }
            Self::C { source, workers, variables } => {
                let program = compiled(source, ground.programs).display().to_string();
                let told = [at.to_string(), workers.to_string(), ground.root.display().to_string()];
                (variables.iter().map(fill).collect(), [vec![program], told.into()].concat())
            }
            Self::PhpFpm { workers, settings, .. } => {
                (Vec::new(), php_fpm(&self.executable()?, *workers, settings, ground)?)
            }
        };
        // Variables of this server override those for all servers.
        let environment: Vec<String> = own.into_iter().chain(variables.iter().cloned()).collect();
        let env = (!environment.is_empty()).then(|| "env".to_owned());
        let words = env.into_iter().chain(environment).chain(program).collect();
        Ok(Part { words, listens: vec![at], cpu: None })
    }

    /// The information for the server's configuration.
    pub(super) fn gateway(&self, ground: &Ground<'_>) -> Result<Gateway> {
        let (gets, children) = match self {
            Self::Command(_) => (Gets::FastCgi, None),
            Self::C { workers, .. } => (Gets::FastCgi, Some(*workers)),
            Self::Http { workers, .. } | Self::Standard { workers, .. } => (Gets::Http, Some(*workers)),
            Self::PhpFpm { root, workers, .. } => {
                let root = root.as_deref().unwrap_or(ground.root);
                let there = root.canonicalize().with_context(|| format!("no {}", root.display()))?;
                (Gets::Scripts(there.display().to_string()), Some(*workers))
            }
        };
        Ok(Gateway { socket: socket(ground), gets, children })
    }
}

/// PHP-FPM with all workers from the start; php.ini and its extensions are the machine's.
fn php_fpm(
    program: &Path,
    workers: u32,
    settings: &[(String, String)],
    ground: &Ground<'_>,
) -> Result<Vec<String>> {
    let pairs = settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let mut settings = Settings { pairs, line: |name, value| format!("{name} = {value}\n") };
    let mut text = "[global]\nerror_log = /proc/self/fd/2\n[application]\n".to_owned();
    text += &settings.set("listen", &socket(ground));
    text += &settings.set("pm.max_children", &workers);
    text += &settings.set_all(&[("listen.backlog", "4096"), ("pm", "static")]);
    // PHP-FPM reads the scripts with the rights of the lab's user.
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        text += &settings.set_all(&[("user", "root"), ("group", "root")]);
    }
    text += &settings.rest();
    let config = write(ground, "php-fpm.conf", &ground.fill(&text))?;
    let mut words = vec![program.display().to_string(), "--nodaemonize".to_owned()];
    words.extend(is_root.then(|| "--allow-to-run-as-root".to_owned()));
    words.push(format!("--fpm-config={config}"));
    Ok(words)
}

/// PHP-FPM's path. Debian has a version in the name: `php-fpm8.2`.
fn installed() -> Option<PathBuf> {
    let entries = directories().into_iter().filter_map(|path| path.read_dir().ok()).flatten().flatten();
    let is_it = |path: &PathBuf| {
        path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.starts_with("php-fpm"))
    };
    entries.map(|entry| entry.path()).filter(is_it).max_by_key(|path| path.file_name().map(OsStr::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_is_php_or_a_command() {
        let php: Application = "php-fpm: workers=4 root=/srv/app pm.max_requests=9".parse().unwrap();
        let settings = vec![("pm.max_requests".to_owned(), "9".to_owned())];
        assert_eq!(php, Application::PhpFpm { workers: 4, root: Some("/srv/app".into()), settings });
        for text in [
            "php-fpm",
            "php-fpm: workers=2 root=/a b=c",
            "c: app.c workers=3 LD_PRELOAD=./x.so",
            "command: ./app --socket {socket}",
            "command: LD_LIBRARY_PATH=target/release ./app {socket}",
            "http: workers=4 A=b gunicorn --workers 4 --bind unix:{socket} app:app",
            "standard: time=50ms workers=4",
            "standard",
        ] {
            let once: Application = text.parse().unwrap();
            assert_eq!(once.to_string().parse::<Application>().unwrap(), once);
        }
    }

    #[test]
    fn variables_stand_in_front_of_a_program() {
        let application: Application = "command: LD_PRELOAD=./x.so /bin/sh {socket}".parse().unwrap();
        assert_eq!(application.executable().unwrap(), Path::new("/bin/sh").canonicalize().unwrap());
        for (word, is) in [("A=b", true), ("LD_2=", true), ("a=b", false), ("=b", false), ("./A=b", false)] {
            assert_eq!(is_variable(word), is, "{word}");
        }
        let shared = "c: app.c workers=5".parse::<Application>().unwrap().shared_out(2);
        assert_eq!(shared.to_string(), "c: app.c workers=2");
        assert!("php-fpm: env[BESIM]={besim}".parse::<Application>().unwrap().asks_besim());
    }

    #[test]
    fn what_is_no_application_is_refused() {
        for text in [
            "php",
            "php-fpm: workers=0",
            "php-fpm: fast",
            "command: ./app",
            "command: SOCKET={socket}",
            "c: workers=4",
            "c: app.c other.c",
            "c: app.c threads=4",
            "http: ./app",
            "http: A={socket}",
            "standard: time=50",
            "standard: time=50ms fast",
            "",
        ] {
            let error = text.parse::<Application>().unwrap_err();
            assert!(error.contains("allowed: 'php-fpm'"), "{text}: {error}");
        }
    }
}
