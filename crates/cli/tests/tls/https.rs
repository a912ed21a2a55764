//! A server that speaks TLS, with a certificate of a test's authority, and the clients that most tests use.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use harness::authority::Authority;
use harness::client::request;
use harness::eventually;
use harness::server::{Server, Setup};
use harness::site::HELLO;
use harness::tools::{command, stdout};
use harness::variant::Variant;

/// The options of `openssl s_client` for one version.
pub(crate) const OPENSSL_VERSIONS: [(&str, &str); 2] = [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")];

/// A server with a plain listener, and one that speaks TLS.
pub(crate) struct Https {
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
}

/// The standard site with a certificate for `localhost` and `127.0.0.2`, and with these settings. Clients
/// know the authority by `authority.pem`.
pub(crate) fn setup(variant: &Variant, authority: &Authority, more: &str) -> Setup {
    let setup = Setup::new(variant);
    authority.write(&setup.directory().join("authority.pem"));
    let keys = issue(authority, setup.directory(), "default", &["localhost", "127.0.0.2"]);
    setup.config(&format!("listen_tls = ['127.0.0.2:0']\n{keys}{more}"))
}

/// Signs a certificate for these names, and returns the settings of a site that has it.
pub(crate) fn issue(authority: &Authority, directory: &Path, file: &str, names: &[&str]) -> String {
    let [certificate, key] = authority.issue(names).write(directory, file);
    format!("certificate = '{}'\nkey = '{}'\n", certificate.display(), key.display())
}

impl Https {
    pub(crate) fn start(variant: &Variant, more: &str) -> Self {
        Self::of(setup(variant, &Authority::create(), more))
    }

    pub(crate) fn of(setup: Setup) -> Self {
        let server = setup.start();
        let address = server.tls_address();
        Self { server, address }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.server.directory()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    /// curl that asks for these URLs, and trusts the authority.
    pub(crate) fn curl(&self, arguments: &[&str], urls: &[&str]) -> Command {
        let mut curl = command(self.directory(), "curl");
        curl.args(["-q", "--silent", "--show-error", "--max-time", "20", "--cacert", "authority.pem"]);
        curl.args(arguments).args(urls);
        curl
    }

    /// What curl gets, which must succeed.
    #[track_caller]
    pub(crate) fn get(&self, arguments: &[&str], path: &str) -> Vec<u8> {
        stdout(&mut self.curl(&[&["--fail"][..], arguments].concat(), &[&self.url(path)]))
    }

    /// Has curl ask for a path of this host, whose certificate must be right. Returns status and body.
    #[track_caller]
    pub(crate) fn get_of(&self, host: &str, path: &str, arguments: &[&str]) -> (u16, String) {
        let port = self.address.port();
        let resolve = format!("{host}:{port}:{}", self.address.ip());
        let options = ["--resolve", &resolve, "--write-out", "%{http_code}"];
        let url = format!("https://{host}:{port}{path}");
        let text = stdout(&mut self.curl(&[&options[..], arguments].concat(), &[&url]));
        let mut text = String::from_utf8(text).expect("text");
        let status = text.split_off(text.len() - 3);
        (status.parse().expect("a status"), text)
    }

    /// `openssl s_client` that sends a request and waits for the server's end.
    pub(crate) fn s_client(&self, arguments: &[&str]) -> Output {
        let address = self.address.to_string();
        let mut client = command(self.directory(), "openssl");
        client.args(["s_client", "-connect", &address, "-CAfile", "authority.pem", "-ign_eof"]);
        client.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut client = client.spawn().unwrap_or_else(|error| panic!("openssl: {error}"));
        let request = request("GET", "/hello.txt", &[("Connection", "close")]);
        // It may have ended already.
        let _ = client.stdin.take().expect("a pipe").write_all(request.as_bytes());
        client.wait_with_output().expect("it ends")
    }

    /// What `openssl s_client` says of a connection that ends well.
    #[track_caller]
    pub(crate) fn s_client_says(&self, arguments: &[&str]) -> String {
        let output = self.s_client(arguments);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = String::from_utf8_lossy(&output.stderr);
        // Without `close_notify`, it fails.
        assert!(output.status.success(), "{arguments:?}: {}\n{said}\n{told}", output.status);
        assert!(said.contains(HELLO), "{arguments:?}: {said}\n{told}");
        said
    }

    /// The common name of the certificate that a client gets with these options.
    ///
    /// The request may be refused, as its host is another.
    #[track_caller]
    pub(crate) fn subject(&self, arguments: &[&str]) -> String {
        let output = self.s_client(arguments);
        let said = String::from_utf8_lossy(&output.stdout);
        let line = said.lines().find_map(|line| line.strip_prefix("subject="));
        let line = line.unwrap_or_else(|| panic!("no subject in {said}"));
        // The spaces depend on the version.
        let name = line.replace(' ', "");
        name.strip_prefix("CN=").unwrap_or_else(|| panic!("no name in {line}")).to_owned()
    }
}

/// The distribution's Python with a script, the port, and the authority.
pub(crate) fn in_python(https: &Https, script: &str) -> Command {
    const COMMON: &str = "
import socket, ssl, sys
port = int(sys.argv[1])
def connect(version):
    context = ssl.create_default_context(cafile='authority.pem')
    context.minimum_version = context.maximum_version = version
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    plain = socket.create_connection(('127.0.0.2', port), 20)
    # An end without close_notify raises an exception.
    return context.wrap_socket(plain, server_hostname='localhost', suppress_ragged_eofs=False)
";
    let mut python = command(https.directory(), "/usr/bin/python3");
    python.args(["-c", &format!("{COMMON}{script}"), &https.address.port().to_string()]);
    python
}

pub(crate) fn none_is_left(https: &Https) {
    eventually("no connection is left", || {
        https.server.count("connections_opened") == https.server.count("connections_closed")
    });
}
