//! A server in an experiment, as users type it: `nginx`, `sluice: --architecture=amped`, `four = sluice:
//! --workers=4`, `old = sluice@builds/old/sluice`, `mine = ./server --port {port} {root}`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::near::meant;
use crate::servers::running::{Running, SCHEME};

/// A server with a name and its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spec {
    /// Its name in tables.
    pub name: String,
    /// The kind of server.
    pub kind: Kind,
    /// The executable, if it is not the usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
    /// Words that change what the lab generates for it. For [`Kind::Command`], the words of the command.
    pub settings: Vec<String>,
}

/// The servers that the lab knows how to configure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// sluice.
    Sluice,
    /// nginx.
    Nginx,
    /// lighttpd.
    Lighttpd,
    /// Apache httpd with its event MPM.
    Apache,
    /// Apache httpd with its worker MPM, that of the 2012 paper.
    ApacheWorker,
    /// Caddy.
    Caddy,
    /// `HAProxy` in front of another server.
    Haproxy,
    /// A server that parses nothing and sends one reply. It shows the least that a request costs.
    Ceiling,
    /// Any command.
    Command,
    /// A server that is already running. Its settings are its URL, and possibly the process id.
    Running,
}

/// The names of kinds that need no command.
const KNOWN: [(&str, Kind); 8] = [
    ("sluice", Kind::Sluice),
    ("nginx", Kind::Nginx),
    ("lighttpd", Kind::Lighttpd),
    ("apache", Kind::Apache),
    ("apache-worker", Kind::ApacheWorker),
    ("caddy", Kind::Caddy),
    ("haproxy", Kind::Haproxy),
    ("ceiling", Kind::Ceiling),
];

impl Kind {
    /// The name of its configuration file.
    pub fn configuration(self) -> &'static str {
        match self {
            Self::Sluice => "sluice.toml",
            Self::Nginx => "nginx.conf",
            Self::Lighttpd => "lighttpd.conf",
            Self::Apache | Self::ApacheWorker => "apache2.conf",
            Self::Caddy => "Caddyfile",
            Self::Haproxy => "haproxy.cfg",
            Self::Ceiling | Self::Command | Self::Running => "its command line",
        }
    }

    /// The name that users type; `None` for a command.
    pub fn name(self) -> Option<&'static str> {
        KNOWN.iter().find(|(_, kind)| *kind == self).map(|(name, _)| *name)
    }
}

const ALLOWED: &str = "allowed: a server that the lab knows (sluice, nginx, lighttpd, apache, apache-worker, \
    caddy, haproxy, ceiling), one with settings ('sluice: --architecture=amped'), with a name of its own \
    ('four = sluice: --workers=4'), another build ('old = sluice@path/to/sluice'), any command ('mine = \
    ./server --port {port} {root}'), or one that runs already (http://127.0.0.1:8080/)";

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A name ends at an equals sign before any colon.
        let equals = text.find('=').filter(|equals| text.find(':').is_none_or(|colon| *equals < colon));
        // Without a name, a server that is already running has its address as its name.
        let equals = equals.or_else(|| text.find(" = http://").map(|blank| blank + 1));
        let (name, what) = match equals {
            Some(at) => (Some(text[..at].trim()), text[at + 1..].trim()),
            None => (None, text.trim()),
        };
        if what.starts_with(SCHEME) {
            return Self::running_already(name, what);
        }
        let (head, settings) = what.split_once(':').unwrap_or((what, ""));
        let (word, program) = match head.trim().split_once('@') {
            Some((word, path)) => (word.trim(), Some(PathBuf::from(path.trim()))),
            None => (head.trim(), None),
        };
        let known = KNOWN.iter().find(|(known, _)| *known == word);
        let (kind, program, settings) = match (known, name) {
            (Some((_, kind)), _) => (*kind, program, words(settings)),
            (None, Some(_)) if what.contains("{port}") => (Kind::Command, None, words(what)),
            (None, Some(_)) => {
                return Err(format!(
                    "{what:?} is no server that the lab knows, and as a command it lacks {{port}}; {ALLOWED}"
                ));
            }
            (None, None) => {
                let near = meant(word, KNOWN.map(|(name, _)| name));
                return Err(format!("{word:?} is no server{near}; {ALLOWED}"));
            }
        };
        if let Some(word) = settings.iter().find(|word| kind != Kind::Command && !word.contains('=')) {
            return Err(format!("the setting {word:?} has no equals sign; {ALLOWED}"));
        }
        let name = match name {
            Some("") => return Err(format!("{text:?} has no name before its equals sign; {ALLOWED}")),
            Some(name) => name.to_owned(),
            // The part before an equals sign is a name.
            None => [&[head.trim().to_owned()], &settings[..]].concat().join(" ").replace('=', " "),
        };
        Ok(Self { name, kind, program, settings })
    }
}

impl Spec {
    fn running_already(name: Option<&str>, what: &str) -> Result<Self, String> {
        let settings = words(what);
        let Running { address, .. } = Running::of(&settings)?;
        let name = name.map_or_else(|| address.to_string(), str::to_owned);
        Ok(Self { name, kind: Kind::Running, program: None, settings })
    }

    /// The address and process, if the server is already running.
    pub fn running(&self) -> Option<Running> {
        (self.kind == Kind::Running).then(|| Running::of(&self.settings).ok())?
    }

    /// Whether the processes of the server are known.
    pub fn is_seen(&self) -> bool {
        self.running().is_none_or(|running| running.pid.is_some())
    }
}

/// Words separated by blanks; text in double quotes is one word.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut is_quoted = false;
    let ends = |letter: char| {
        is_quoted ^= letter == '"';
        letter.is_whitespace() && !is_quoted
    };
    text.split(ends).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

impl<'de> Deserialize<'de> for Spec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Formats the server without its name.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.kind.name();
        f.write_str(known.unwrap_or_default())?;
        if let Some(program) = &self.program {
            write!(f, "@{}", program.display())?;
        }
        let colon = if known.is_some() && !self.settings.is_empty() { ": " } else { "" };
        write!(f, "{colon}{}", self.settings.join(" "))
    }
}

impl Spec {
    /// The server as users type it.
    pub fn typed(&self) -> String {
        format!("{} = {self}", self.name)
    }

    /// This server under another name, for the A/A control.
    pub fn control(&self) -> Self {
        Self { name: format!("{} again", self.name), ..self.clone() }
    }

    /// Whether this is the A/A control of the other server.
    pub fn is_control_of(&self, other: &Self) -> bool {
        *self == other.control()
    }

    /// Its name in a form for directories.
    pub(crate) fn plain_name(&self) -> String {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        self.name.chars().map(plain).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> Spec {
        text.parse().unwrap()
    }

    #[test]
    fn a_server_is_a_name_that_is_known_with_settings_or_a_command() {
        let plain = spec("nginx");
        assert_eq!((plain.name.as_str(), plain.kind, plain.settings.len()), ("nginx", Kind::Nginx, 0));
        let ours = spec("sluice: --architecture=symped placement.mapping=\"direct\"");
        assert_eq!(ours.settings, ["--architecture=symped", "placement.mapping=\"direct\""]);
        assert_eq!(ours.name, "sluice --architecture symped placement.mapping \"direct\"");
        let named = spec("two, direct = sluice: --workers=2");
        assert_eq!((named.name.as_str(), named.kind), ("two, direct", Kind::Sluice));
        let old = spec("old = sluice@../old build/sluice: --workers=2");
        assert_eq!(old.program, Some("../old build/sluice".into()));
        let mine = spec("mine=./server --listen 127.0.0.1:{port} {root}");
        assert_eq!((mine.kind, mine.settings.len()), (Kind::Command, 4));
        let quoted = spec("nginx: open_file_cache=\"max=10 inactive=1s\" aio=threads");
        assert_eq!(quoted.settings, ["open_file_cache=\"max=10 inactive=1s\"", "aio=threads"]);
    }

    #[test]
    fn what_is_typed_is_read_again() {
        for text in [
            "nginx",
            "http://127.0.0.1:8080/a pid=3",
            "a = http://[::1]:80/?b=c",
            "sluice: --a=b c=d",
            "old = sluice@/x/y: --a=b",
            "m = ./s -p {port} --x 1:2 {root}",
        ] {
            let once = spec(text);
            assert_eq!(spec(&once.typed()), once);
        }
    }

    #[test]
    fn one_that_is_not_known_is_refused_with_what_may_be_meant() {
        let error = |text: &str| text.parse::<Spec>().unwrap_err();
        assert!(error("ngnix").contains("\"ngnix\" is no server (is it nginx?); allowed: "));
        assert!(error("sluice: --workers 2").contains("\"--workers\" has no equals sign"));
        assert!(error("mine = ./server").contains("lacks {port}"));
        assert!(error(" = nginx").contains("has no name"));
        assert!(error("").contains("is no server"));
    }

    #[test]
    fn a_control_is_distinguished_from_other_servers() {
        let one = spec("nginx");
        assert!(one.control().is_control_of(&one) && !one.is_control_of(&one));
        assert!(!spec("nginx again = lighttpd").is_control_of(&one));
    }
}
