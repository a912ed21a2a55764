//! The options for targets that speak TLS.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use load::report::AskedOfTls;
use load::tls::{Cipher, Group, Name, Roots, Settings, Version};

use crate::lab::BadInput;
use crate::lab::values::Target;

#[derive(Args)]
#[command(next_help_heading = "TLS, for targets with https://")]
pub(super) struct TlsOptions {
    /// Verify the server's certificate by the certificates in this file, in PEM [default: the root
    /// certificates of this machine]
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    roots: Option<PathBuf>,

    /// Accept every certificate. The server must still have its key
    #[arg(long)]
    insecure: bool,

    /// The name that the server's certificate must have, and that is sent to the server [default: the host
    /// of the target]
    #[arg(long, value_name = "NAME")]
    tls_name: Option<Name>,

    /// Whether connections resume sessions of earlier connections of the same thread; off: all handshakes are
    /// full [default: on]
    #[arg(long, value_enum, value_name = "on|off", hide_possible_values = true)]
    resumption: Option<Resumption>,

    /// Offer only this version: 1.2 or 1.3 [default: both]
    #[arg(long, value_name = "VERSION")]
    tls_version: Option<Version>,

    /// Offer only this key-exchange group, such as x25519, x25519mlkem768 or secp256r1
    /// [default: x25519mlkem768, x25519, secp256r1, secp384r1, in this order]
    #[arg(long, value_name = "NAME")]
    tls_group: Option<Group>,

    /// Offer only this cipher suite, by its name at IANA. A wrong name is answered with a list of all
    /// [default: all suites with AES-GCM or ChaCha20-Poly1305]
    #[arg(long, value_name = "NAME")]
    tls_cipher: Option<Cipher>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Resumption {
    On,
    Off,
}

impl TlsOptions {
    /// What is asked of TLS.
    ///
    /// # Errors
    ///
    /// An option is used, and no target speaks TLS.
    pub(super) fn settings(&self, targets: &[Target]) -> Result<Settings, BadInput> {
        if !speaks_tls(targets)
            && let Some(used) = self.used()
        {
            return Err(BadInput(format!(
                "{used}: no target speaks TLS; leave it out, or name a target such as https://127.0.0.1:8443/"
            )));
        }
        let roots = match &self.roots {
            _ if self.insecure => Roots::None,
            Some(file) => Roots::File(file.clone()),
            None => Roots::System,
        };
        Ok(Settings {
            roots,
            resumption: self.resumption != Some(Resumption::Off),
            version: self.tls_version,
            group: self.tls_group,
            cipher: self.tls_cipher,
        })
    }

    /// The target, with the name that its certificate must have if that is not its host.
    pub(super) fn named(&self, mut target: Target) -> Target {
        if let Some(name) = &self.tls_name {
            target.server = target.server.named(name.clone());
        }
        target
    }

    /// The first of these options that is used, with its value.
    fn used(&self) -> Option<String> {
        let Self { roots, insecure, tls_name, resumption, tls_version, tls_group, tls_cipher } = self;
        let all = [
            roots.as_ref().map(|file| format!("--roots {}", file.display())),
            insecure.then(|| "--insecure".to_owned()),
            tls_name.as_ref().map(|name| format!("--tls-name {name}")),
            resumption
                .map(|which| format!("--resumption {}", if which == Resumption::On { "on" } else { "off" })),
            tls_version.map(|version| format!("--tls-version {version}")),
            tls_group.map(|group| format!("--tls-group {group}")),
            tls_cipher.map(|cipher| format!("--tls-cipher {cipher}")),
        ];
        all.into_iter().flatten().next()
    }
}

fn speaks_tls(targets: &[Target]) -> bool {
    targets.iter().any(|target| target.server.tls_name().is_some())
}

/// What results say of the settings; nothing, if no target speaks TLS.
pub(super) fn asked(settings: &Settings, targets: &[Target]) -> Option<AskedOfTls> {
    let roots = match settings.roots {
        Roots::System => "system",
        Roots::File(_) => "file",
        Roots::None => "none",
    };
    speaks_tls(targets).then(|| AskedOfTls {
        roots: roots.to_owned(),
        resumption: settings.resumption,
        version: settings.version.map(|version| version.to_string()),
        group: settings.group.map(|group| group.to_string()),
        cipher: settings.cipher.map(|cipher| cipher.to_string()),
    })
}
