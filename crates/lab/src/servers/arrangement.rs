//! How a server and its application are arranged, for any kind of server. These settings stand among the
//! server's own, but belong to the lab: `replicas=direct`, `application.socket=tcp`,
//! `application.LD_PRELOAD=./libfcgi.so`.

use anyhow::{Result, bail, ensure};

use super::application::is_variable;
use crate::servers::spec::{Kind, Spec};

/// The arrangement in a server's settings.
#[derive(Debug, Default)]
pub(super) struct Arrangement {
    /// The mapping of replicas to CPUs, if there is one replica for each address (Hashemian and others
    /// 2014, section 3.7). `None`: one server has all addresses and all CPUs.
    pub(super) replicas: Option<Mapping>,
    /// Whether the application listens at an address of the loopback interface, not at a Unix socket.
    pub(super) over_tcp: bool,
    /// Variables `NAME=VALUE` for the application's environment.
    pub(super) variables: Vec<String>,
}

/// The CPU for the replica of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mapping {
    /// The CPU on which the packets of its address are received.
    Direct,
    /// The CPU after that one.
    Indirect,
}

/// The prefix of settings about the application.
const OF_APPLICATION: &str = "application.";

impl Arrangement {
    /// Separates these settings from a server's own. All words of a command are its own.
    ///
    /// # Errors
    /// The mistake, and what is allowed.
    pub(super) fn of(spec: &Spec) -> Result<(Self, Spec)> {
        let mut this = Self::default();
        let mut own = spec.clone();
        if spec.kind == Kind::Command {
            return Ok((this, own));
        }
        own.settings.clear();
        for word in &spec.settings {
            if let Some(mapping) = word.strip_prefix("replicas=") {
                this.replicas = Some(match mapping {
                    "direct" => Mapping::Direct,
                    "indirect" => Mapping::Indirect,
                    _ => bail!("{}: {word} is not allowed; allowed: replicas=direct, indirect", spec.name),
                });
            } else if let Some(setting) = word.strip_prefix(OF_APPLICATION) {
                match setting {
                    "socket=tcp" => this.over_tcp = true,
                    "socket=unix" => this.over_tcp = false,
                    _ => {
                        ensure!(
                            is_variable(setting),
                            "{}: {word} is not allowed; allowed: application.socket=unix or tcp, and \
                             variables of its environment such as application.LD_PRELOAD=./libfcgi.so",
                            spec.name
                        );
                        this.variables.push(setting.replace('"', ""));
                    }
                }
            } else {
                own.settings.push(word.clone());
            }
        }
        Ok((this, own))
    }
}

impl Mapping {
    /// The CPU of a replica, out of this many CPUs.
    pub(super) fn cpu(self, replica: usize, cpus: usize) -> usize {
        match self {
            Self::Direct => replica % cpus,
            Self::Indirect => (replica + 1) % cpus,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_lab_are_distinguished_from_the_servers_own() {
        let text = "lighttpd: server.max-worker=3 replicas=indirect application.socket=tcp \
                    application.LD_PRELOAD=./x.so";
        let (arrangement, spec) = Arrangement::of(&text.parse().unwrap()).unwrap();
        assert_eq!(spec.settings, ["server.max-worker=3"]);
        assert_eq!(arrangement.replicas, Some(Mapping::Indirect));
        assert!(arrangement.over_tcp);
        assert_eq!(arrangement.variables, ["LD_PRELOAD=./x.so"]);
        assert_eq!((0..2).map(|replica| Mapping::Indirect.cpu(replica, 2)).collect::<Vec<_>>(), [1, 0]);
        assert_eq!((0..2).map(|replica| Mapping::Direct.cpu(replica, 2)).collect::<Vec<_>>(), [0, 1]);
        let (_, mine) = Arrangement::of(&"mine = ./s {port} replicas=4".parse().unwrap()).unwrap();
        assert_eq!(mine.settings.last().unwrap(), "replicas=4", "a command's words are its own");
    }

    #[test]
    fn what_is_not_allowed_is_told() {
        for (text, allowed) in [
            ("nginx: replicas=2", "allowed: replicas=direct, indirect"),
            ("nginx: application.socket=udp", "allowed: application.socket=unix or tcp"),
            ("nginx: application.nice=1", "allowed: application.socket=unix or tcp"),
        ] {
            let error = Arrangement::of(&text.parse().unwrap()).unwrap_err().to_string();
            assert!(error.contains(allowed), "{text}: {error}");
        }
    }
}
