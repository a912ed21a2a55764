//! Which cipher suite a handshake agrees on: the first of ours that the client has, too. A client that likes
//! ChaCha20-Poly1305 best gets it: it probably has no instructions for AES.

use rustls::crypto::CipherSuite;
use rustls::server::{CipherSuiteSelector, PreferServerOrder};
use rustls::{Tls12CipherSuite, Tls13CipherSuite};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct OursUnlessChaCha;

fn is_chacha(suite: CipherSuite) -> bool {
    matches!(
        suite,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
    )
}

impl CipherSuiteSelector for OursUnlessChaCha {
    fn select_tls12_cipher_suite(
        &self,
        client: &mut dyn Iterator<Item = &'static Tls12CipherSuite>,
        server: &[&'static Tls12CipherSuite],
    ) -> Option<&'static Tls12CipherSuite> {
        let first = client.next()?;
        if is_chacha(first.common.suite) {
            return Some(first);
        }
        PreferServerOrder.select_tls12_cipher_suite(&mut std::iter::once(first).chain(client), server)
    }

    fn select_tls13_cipher_suite(
        &self,
        client: &mut dyn Iterator<Item = &'static Tls13CipherSuite>,
        server: &[&'static Tls13CipherSuite],
    ) -> Option<&'static Tls13CipherSuite> {
        let first = client.next()?;
        if is_chacha(first.common.suite) {
            return Some(first);
        }
        PreferServerOrder.select_tls13_cipher_suite(&mut std::iter::once(first).chain(client), server)
    }
}

#[cfg(test)]
mod tests {
    use rustls_aws_lc_rs::{DEFAULT_TLS12_CIPHER_SUITES, DEFAULT_TLS13_CIPHER_SUITES};

    use super::*;

    #[test]
    fn ours_decides_unless_the_client_likes_chacha_best() {
        use CipherSuite as C;
        let of_13 = |client: &[C]| {
            let known =
                |name: &C| DEFAULT_TLS13_CIPHER_SUITES.iter().find(|s| s.common.suite == *name).copied();
            let mut client = client.iter().filter_map(known);
            let chosen = OursUnlessChaCha.select_tls13_cipher_suite(&mut client, DEFAULT_TLS13_CIPHER_SUITES);
            chosen.map(|suite| suite.common.suite)
        };
        let [ours, other] = [C::TLS13_AES_128_GCM_SHA256, C::TLS13_AES_256_GCM_SHA384];
        let chacha = C::TLS13_CHACHA20_POLY1305_SHA256;
        for (client, chosen) in [
            (&[other, ours, chacha][..], Some(ours)),
            (&[other, chacha, ours], Some(ours)),
            (&[chacha, other, ours], Some(chacha)),
            (&[other, chacha], Some(other)),
            (&[], None),
        ] {
            assert_eq!(of_13(client), chosen, "{client:?}");
        }
        let mut backwards = DEFAULT_TLS12_CIPHER_SUITES.iter().rev().copied();
        let last = DEFAULT_TLS12_CIPHER_SUITES.last().map(|suite| suite.common.suite);
        assert!(last.is_some_and(is_chacha), "{last:?}");
        let chosen = OursUnlessChaCha.select_tls12_cipher_suite(&mut backwards, DEFAULT_TLS12_CIPHER_SUITES);
        assert_eq!(chosen.map(|suite| suite.common.suite), last);
        let mut without =
            DEFAULT_TLS12_CIPHER_SUITES.iter().rev().copied().filter(|s| !is_chacha(s.common.suite));
        let chosen = OursUnlessChaCha.select_tls12_cipher_suite(&mut without, DEFAULT_TLS12_CIPHER_SUITES);
        assert_eq!(chosen, DEFAULT_TLS12_CIPHER_SUITES.first().copied());
    }
}
