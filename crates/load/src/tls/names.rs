//! Names that options and results have: of servers, versions, groups and suites.

use std::fmt;
use std::str::FromStr;

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, ALL_KX_GROUPS};
use rustls::pki_types::ServerName;
use rustls::{CipherSuite, NamedGroup, SupportedCipherSuite, SupportedProtocolVersion, version};

/// The name that a server's certificate must have. It is sent to the server (SNI), unless it is an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(pub(super) ServerName<'static>);

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 1.2, RFC 5246.
    V12,
    /// 1.3, RFC 8446.
    V13,
}

/// A key-exchange group.
#[derive(Clone, Copy, Debug)]
pub struct Group(pub(super) &'static dyn SupportedKxGroup);

/// A cipher suite.
#[derive(Clone, Copy, Debug)]
pub struct Cipher(pub(super) SupportedCipherSuite);

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = ServerName::try_from(text.to_owned());
        name.map(Self).map_err(|_| "a certificate can't have this name".to_owned())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.to_str())
    }
}

impl Version {
    pub(super) const ALL: [Self; 2] = [Self::V12, Self::V13];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::V12 => "1.2",
            Self::V13 => "1.3",
        }
    }

    pub(super) fn supported(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::V12 => &version::TLS12,
            Self::V13 => &version::TLS13,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        named(&Self::ALL, text, Version::name)
    }
}

impl Group {
    fn name(self) -> &'static str {
        group_name(self.0.name())
    }
}

impl fmt::Display for Group {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all: Vec<_> = ALL_KX_GROUPS.iter().copied().map(Self).collect();
        named(&all, text, Group::name)
    }
}

impl Cipher {
    fn name(self) -> &'static str {
        cipher_name(self.0.suite())
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Cipher {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all: Vec<_> = ALL_CIPHER_SUITES.iter().copied().map(Self).collect();
        named(&all, text, Cipher::name)
    }
}

/// The one of a name, in upper or lower case.
fn named<T: Copy>(all: &[T], text: &str, name: impl Fn(T) -> &'static str) -> Result<T, String> {
    let found = all.iter().find(|one| name(**one).eq_ignore_ascii_case(text));
    let allowed = || all.iter().map(|one| name(*one)).collect::<Vec<_>>().join(", ");
    found.copied().ok_or_else(|| format!("allowed: {}", allowed()))
}

/// As IANA has it. rustls has another prefix for the suites of TLS 1.3.
pub(super) fn cipher_name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        other => other.as_str().unwrap_or("unknown"),
    }
}

/// As IANA has it, in lower case.
pub(super) fn group_name(group: NamedGroup) -> &'static str {
    match group {
        NamedGroup::X25519 => "x25519",
        NamedGroup::X25519MLKEM768 => "x25519mlkem768",
        NamedGroup::secp256r1MLKEM768 => "secp256r1mlkem768",
        NamedGroup::MLKEM768 => "mlkem768",
        NamedGroup::MLKEM1024 => "mlkem1024",
        other => other.as_str().unwrap_or("unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_iana_in_any_case() {
        for group in ["x25519", "x25519mlkem768", "secp256r1", "secp384r1", "secp256r1mlkem768", "mlkem768"] {
            for text in [group.to_owned(), group.to_ascii_uppercase()] {
                assert_eq!(text.parse::<Group>().unwrap().to_string(), group);
            }
        }
        for cipher in ["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"] {
            for text in [cipher.to_owned(), cipher.to_ascii_lowercase()] {
                assert_eq!(text.parse::<Cipher>().unwrap().to_string(), cipher);
            }
        }
        assert_eq!("x448".parse::<Group>().unwrap_err().split(',').next(), Some("allowed: x25519mlkem768"));
        assert!("AES".parse::<Cipher>().unwrap_err().contains(", TLS_CHACHA20_POLY1305_SHA256, "));
        assert_eq!("1.1".parse::<Version>().unwrap_err(), "allowed: 1.2, 1.3");
        for name in ["example.org", "localhost", "127.0.0.1", "::1"] {
            assert_eq!(name.parse::<Name>().unwrap().to_string(), name);
        }
        assert!("a b".parse::<Name>().is_err());
    }
}
