//! How servers and clients speak TLS in an experiment: with one version, one key-exchange group and one
//! cipher suite. So the cryptography of all servers is the same work.
//!
//! Names are those of `sluicelab load`. Servers with OpenSSL have other names for the same.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// What all servers and clients of a point speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Tls {
    /// The version.
    pub version: Version,
    /// The key-exchange group.
    pub group: Group,
    /// The cipher suite.
    pub cipher: Cipher,
    /// Whether clients resume sessions of earlier connections.
    pub resumption: bool,
    /// The key of the servers' certificate.
    #[serde(skip_serializing_if = "Key::is_ecdsa")]
    pub key: Key,
}

/// What a server needs to speak TLS.
#[derive(Clone, Copy, Debug)]
pub struct Secured<'a> {
    /// What it speaks.
    pub tls: Tls,
    /// The file with its certificate, followed by its key, in PEM.
    pub pem: &'a Path,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 1.2, RFC 5246.
    V12,
    /// 1.3, RFC 8446.
    V13,
}

/// A key-exchange group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// X25519.
    X25519,
    /// X25519 together with ML-KEM-768.
    X25519MlKem768,
    /// P-256.
    Secp256r1,
    /// P-384.
    Secp384r1,
}

/// The kind of a certificate's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Key {
    /// ECDSA on P-256.
    #[default]
    Ecdsa,
    /// RSA with 2048 bits. A handshake costs the server many times as much.
    Rsa,
}

/// A cipher suite. In TLS 1.2 it is one for a certificate with ECDSA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES-256-GCM in TLS 1.3.
    Aes256,
    /// AES-128-GCM in TLS 1.3.
    Aes128,
    /// ChaCha20-Poly1305 in TLS 1.3.
    ChaCha20,
    /// AES-256-GCM in TLS 1.2.
    OldAes256,
    /// AES-128-GCM in TLS 1.2.
    OldAes128,
    /// ChaCha20-Poly1305 in TLS 1.2.
    OldChaCha20,
}

impl Tls {
    /// What is spoken if these are asked for. Where nothing is, it is TLS 1.3 with X25519 and AES-256-GCM,
    /// and clients resume sessions.
    ///
    /// # Errors
    /// The key of what the version does not have, its value, and what is allowed.
    pub fn of(
        version: Option<Version>,
        group: Option<Group>,
        cipher: Option<Cipher>,
        resumption: Option<bool>,
        key: Option<Key>,
    ) -> Result<Self, String> {
        let version = version.unwrap_or(Version::V13);
        let group = group.unwrap_or(Group::X25519);
        let cipher = cipher.unwrap_or(match version {
            Version::V12 => Cipher::OldAes256,
            Version::V13 => Cipher::Aes256,
        });
        if !group.is_in(version) {
            let allowed = Group::ALL.iter().filter(|group| group.is_in(version));
            return Err(format!(
                "tls_group: {group} is not in TLS {version}; allowed: {}, or tls_version = '1.3'",
                listed(allowed)
            ));
        }
        if cipher.version() != version {
            let allowed = Cipher::ALL.iter().filter(|cipher| cipher.version() == version);
            let other = cipher.version();
            return Err(format!(
                "tls_cipher: {cipher} is not in TLS {version}; allowed: {}, or tls_version = '{other}'",
                listed(allowed)
            ));
        }
        let key = key.unwrap_or_default();
        if key == Key::Rsa && version == Version::V12 {
            return Err(format!(
                "tls_key: rsa is not allowed with TLS {version}, whose cipher suites here are for ECDSA; \
                 allowed: ecdsa, or tls_version = '1.3'"
            ));
        }
        Ok(Self { version, group, cipher, resumption: resumption.unwrap_or(true), key })
    }
}

/// Formats it for a reader.
impl fmt::Display for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, group, cipher, resumption, key } = self;
        let handshakes = if *resumption { "sessions are resumed" } else { "all handshakes are full" };
        let key = if key.is_ecdsa() { "" } else { ", RSA-2048" };
        write!(f, "TLS {version}, {group}, {cipher}, {handshakes}{key}")
    }
}

impl Key {
    /// Whether it is the usual one. Older journals have no other, and leave it out.
    pub fn is_ecdsa(&self) -> bool {
        *self == Self::Ecdsa
    }

    /// Its name in an experiment.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ecdsa => "ecdsa",
            Self::Rsa => "rsa",
        }
    }
}

impl Version {
    const ALL: [Self; 2] = [Self::V12, Self::V13];

    const fn name(self) -> &'static str {
        match self {
            Self::V12 => "1.2",
            Self::V13 => "1.3",
        }
    }

    /// Its name in OpenSSL's settings.
    pub(super) const fn openssl(self) -> &'static str {
        match self {
            Self::V12 => "TLSv1.2",
            Self::V13 => "TLSv1.3",
        }
    }
}

impl Group {
    const ALL: [Self; 4] = [Self::X25519, Self::X25519MlKem768, Self::Secp256r1, Self::Secp384r1];

    const fn name(self) -> &'static str {
        match self {
            Self::X25519 => "x25519",
            Self::X25519MlKem768 => "x25519mlkem768",
            Self::Secp256r1 => "secp256r1",
            Self::Secp384r1 => "secp384r1",
        }
    }

    /// Its name in OpenSSL. OpenSSL has that with ML-KEM from 3.5 on.
    pub(super) const fn openssl(self) -> &'static str {
        match self {
            Self::X25519 => "X25519",
            Self::X25519MlKem768 => "X25519MLKEM768",
            Self::Secp256r1 => "P-256",
            Self::Secp384r1 => "P-384",
        }
    }

    fn is_in(self, version: Version) -> bool {
        version == Version::V13 || self != Self::X25519MlKem768
    }
}

impl Cipher {
    const ALL: [Self; 6] =
        [Self::Aes256, Self::Aes128, Self::ChaCha20, Self::OldAes256, Self::OldAes128, Self::OldChaCha20];

    const fn name(self) -> &'static str {
        match self {
            Self::Aes256 => "TLS_AES_256_GCM_SHA384",
            Self::Aes128 => "TLS_AES_128_GCM_SHA256",
            Self::ChaCha20 => "TLS_CHACHA20_POLY1305_SHA256",
            Self::OldAes256 => "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            Self::OldAes128 => "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            Self::OldChaCha20 => "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        }
    }

    /// Its name in OpenSSL.
    pub(super) const fn openssl(self) -> &'static str {
        match self {
            Self::OldAes256 => "ECDHE-ECDSA-AES256-GCM-SHA384",
            Self::OldAes128 => "ECDHE-ECDSA-AES128-GCM-SHA256",
            Self::OldChaCha20 => "ECDHE-ECDSA-CHACHA20-POLY1305",
            Self::Aes256 | Self::Aes128 | Self::ChaCha20 => self.name(),
        }
    }

    const fn version(self) -> Version {
        match self {
            Self::Aes256 | Self::Aes128 | Self::ChaCha20 => Version::V13,
            Self::OldAes256 | Self::OldAes128 | Self::OldChaCha20 => Version::V12,
        }
    }
}

/// Names, separated by commas.
fn listed<'a, T: fmt::Display + 'a>(all: impl IntoIterator<Item = &'a T>) -> String {
    all.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Has a type read and written by its name, in upper or lower case.
macro_rules! by_name {
    ($type:ty) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let found = Self::ALL.into_iter().find(|one| one.name().eq_ignore_ascii_case(text));
                found.ok_or_else(|| format!("allowed: {}", listed(&Self::ALL)))
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                let named = text.parse();
                named.map_err(|allowed| D::Error::custom(format!("{text:?} is not allowed; {allowed}")))
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    };
}

by_name!(Version);
by_name!(Group);
by_name!(Cipher);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for version in Version::ALL {
            assert_eq!(version.to_string().parse(), Ok(version));
        }
        for group in Group::ALL {
            assert_eq!(group.to_string().to_uppercase().parse(), Ok(group));
        }
        for cipher in Cipher::ALL {
            assert_eq!(cipher.to_string().to_lowercase().parse(), Ok(cipher));
        }
        assert_eq!("1.1".parse::<Version>(), Err("allowed: 1.2, 1.3".to_owned()));
        assert!("x448".parse::<Group>().unwrap_err().starts_with("allowed: x25519, x25519mlkem768, "));
        assert!("AES".parse::<Cipher>().unwrap_err().contains("TLS_AES_256_GCM_SHA384, "));
    }

    #[test]
    fn a_version_has_its_own_suites_and_groups() {
        let told =
            |version, group, cipher| Tls::of(version, group, cipher, None, None).map(|tls| tls.to_string());
        let usual = "TLS 1.3, x25519, TLS_AES_256_GCM_SHA384, sessions are resumed";
        assert_eq!(told(None, None, None).as_deref(), Ok(usual));
        let old = told(Some(Version::V12), Some(Group::Secp256r1), None).unwrap();
        assert!(old.starts_with("TLS 1.2, secp256r1, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"), "{old}");
        assert_eq!(
            told(Some(Version::V12), Some(Group::X25519MlKem768), None).unwrap_err(),
            "tls_group: x25519mlkem768 is not in TLS 1.2; allowed: x25519, secp256r1, secp384r1, or \
             tls_version = '1.3'"
        );
        assert_eq!(
            told(None, None, Some(Cipher::OldAes128)).unwrap_err(),
            "tls_cipher: TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 is not in TLS 1.3; allowed: \
             TLS_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256, TLS_CHACHA20_POLY1305_SHA256, or tls_version = \
             '1.2'"
        );
    }
}
