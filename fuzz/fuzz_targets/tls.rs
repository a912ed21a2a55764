//! A TLS session of the server: whatever comes, before, in and behind a handshake, it opens no more than
//! came, and says at most an alert.

#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use rustls::client::ClientSide;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, Connection, RootCertStore, SliceInput, Tcp};
use server::config::Settings;
use server::tls::Session;
use server::tls::{TlsTerms, Vault, read_all};

const ROOM: usize = 64 << 10;

fuzz_target!(|input: &[u8]| {
    let Some(([flights, cut], rest)) = input.split_first_chunk() else { return };
    let (terms, client) = both();
    let mut world = World { session: Session::new(terms).expect("a session"), partial: Vec::new() };
    let mut says = Vec::new();
    let client = client.connect("localhost".try_into().expect("a name"));
    let mut client = client.build(&mut says).expect("a client");
    // So many flights of the client are what they should be.
    for _ in 0..flights % 3 {
        let answer = world.bring(&says).expect("a client that keeps the rules");
        says = take(&mut client, answer);
    }
    if world.session.is_established() && flights % 2 == 0 {
        // The bytes come in a record that is whole.
        let mut sealed = Vec::new();
        client.write(rest.into(), &mut sealed).expect("keys");
        world.bring(&sealed).expect("a client that keeps the rules");
    }
    for piece in rest.chunks(usize::from(*cut).max(1)) {
        if world.bring(piece).is_err() {
            return;
        }
    }
    let mut leaving = Vec::new();
    world.session.say_end(&mut leaving);
});

struct World {
    session: Session,
    partial: Vec<u8>,
}

impl World {
    /// Brings bytes to the server, and returns what it answers.
    fn bring(&mut self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        self.partial.extend_from_slice(bytes);
        // A channel receives no more than finds room.
        self.partial.truncate(ROOM);
        let (mut room, mut leaving) = (vec![0; ROOM], Vec::new());
        let opened = self.session.open(&mut self.partial, &mut room, &mut leaving)?;
        assert!(opened.plain <= opened.used && opened.used <= self.partial.len());
        assert!(self.session.is_established() || opened.plain == 0);
        self.partial.drain(..opened.used);
        Ok(leaving)
    }
}

/// What the client answers.
fn take(client: &mut Connection<ClientSide, Tcp>, mut bytes: Vec<u8>) -> Vec<u8> {
    let mut answer = Vec::new();
    let mut input = SliceInput::new(&mut bytes);
    let mut records = client.read_tls(&mut input, &mut answer);
    while let Some(payload) = records.next_payload() {
        payload.expect("a server that keeps the rules");
    }
    drop(records);
    answer
}

fn both() -> &'static (TlsTerms, Arc<ClientConfig>) {
    static BOTH: OnceLock<(TlsTerms, Arc<ClientConfig>)> = OnceLock::new();
    BOTH.get_or_init(|| {
        let mut settings = Settings::new("/".into());
        settings.tls.self_signed = true;
        settings.tls.listen = settings.listen.clone();
        let (vault, texts) = (Vault::new().expect("memory"), read_all(&settings).expect("a certificate"));
        vault.tickets().begin();
        vault.publish(&texts).expect("room");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&texts[0].chain).expect("PEM")).expect("a certificate");
        let config = ClientConfig::builder(Arc::new(rustls_aws_lc_rs::DEFAULT_PROVIDER));
        let config = config.with_root_certificates(roots).with_no_client_auth().expect("a client");
        let terms = TlsTerms::new(&settings, &vault).expect("cryptography").expect("an address");
        (terms, Arc::new(config))
    })
}
