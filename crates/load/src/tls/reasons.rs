//! Why TLS failed, in words.

use std::io;

use rustls::{AlertDescription, CertificateError};

/// Bytes of a reason for an error. A certificate may have long names.
const LONGEST_REASON: usize = 200;

/// TLS has failed. No call on a socket fails with this kind.
pub(super) fn failure(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// What is wrong, in words that are the same for each connection.
pub(super) fn told(error: &rustls::Error) -> String {
    use rustls::Error as E;
    let mut told = match error {
        E::AlertReceived(alert) => format!("the server sent the alert {}", alert_name(*alert)),
        E::InvalidCertificate(error) => certificate_told(error),
        E::InvalidMessage(_) => format!("what came is not TLS, or malformed ({error})"),
        E::PeerIncompatible(reason) => {
            format!("the server does not support what is offered ({reason:?})")
        }
        other => other.to_string(),
    };
    if told.len() > LONGEST_REASON {
        told.truncate(told.floor_char_boundary(LONGEST_REASON));
        told.push_str("...");
    }
    told
}

fn certificate_told(error: &CertificateError) -> String {
    use CertificateError as E;
    let what = match error {
        E::UnknownIssuer => "is not from a known root; name its root with --roots".to_owned(),
        E::BadSignature => "does not fit: its signature, or that of the handshake, is wrong".to_owned(),
        E::Expired | E::ExpiredContext { .. } => "has expired".to_owned(),
        E::NotValidYet | E::NotValidYetContext { .. } => "is not valid yet".to_owned(),
        E::NotValidForNameContext { expected, .. } => format!("is not for {}", expected.to_str()),
        E::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "is a certification authority's, which rustls accepts only with --insecure".to_owned()
        }
        other => format!("is not valid ({other})"),
    };
    format!("the server's certificate {what}")
}

/// As in RFC 8446 section 6: `handshake_failure`, where rustls has `HandshakeFailure`.
fn alert_name(alert: AlertDescription) -> String {
    let Some(name) = alert.as_str() else { return u8::from(alert).to_string() };
    let mut told = String::new();
    let mut after_lower = false;
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && after_lower {
            told.push('_');
        }
        told.push(letter.to_ascii_lowercase());
        after_lower = letter.is_ascii_lowercase();
    }
    told
}

#[cfg(test)]
mod tests {
    use rustls::PeerIncompatible;
    use rustls::pki_types::ServerName;

    use super::*;

    #[test]
    fn errors_are_told_in_words_of_bounded_length() {
        let name = ServerName::try_from("example.org").unwrap();
        let presented = vec!["x".repeat(100); 100];
        for (error, expected) in [
            (
                rustls::Error::AlertReceived(AlertDescription::HandshakeFailure),
                "the server sent the alert handshake_failure",
            ),
            (
                rustls::Error::AlertReceived(AlertDescription::UnknownCA),
                "the server sent the alert unknown_ca",
            ),
            (
                CertificateError::UnknownIssuer.into(),
                "the server's certificate is not from a known root; name its root with --roots",
            ),
            (
                CertificateError::NotValidForNameContext { expected: name, presented }.into(),
                "the server's certificate is not for example.org",
            ),
            (
                CertificateError::BadSignature.into(),
                "the server's certificate does not fit: its signature, or that of the handshake, is wrong",
            ),
            (
                PeerIncompatible::NoCipherSuitesInCommon.into(),
                "the server does not support what is offered (NoCipherSuitesInCommon)",
            ),
        ] {
            assert_eq!(told(&error), expected);
        }
        let long = told(&rustls::Error::General("ä".repeat(1000)));
        assert!(long.len() <= LONGEST_REASON + 3 && long.ends_with("..."), "{long}");
    }
}
