//! Caddy, as a server of files, and before an application over HTTP. Settings are directives of its site,
//! such as `encode=gzip`.

use std::fmt::Write as _;
use std::net::SocketAddr;

use anyhow::Result;

use super::{Endpoint, Ground, Secured, Settings, Version, peer, write};
use crate::servers::spec::Spec;
use crate::unique::unique;

/// The name of the part of the configuration that all addresses share.
const SITE: &str = "site";

pub(super) fn words(spec: &Spec, ground: &Ground<'_>) -> Result<Vec<String>> {
    let mut settings = Settings::of(spec, directive);
    let mut site = settings.set("root", &format!("* {}", ground.root.display()));
    site += &settings.set("file_server", &"");
    if let Some(application) = ground.application {
        let address = application.gateway(ground)?.socket;
        let kind = if matches!(address, Endpoint::Unix(_)) { "unix/" } else { "" };
        let _ = writeln!(site, "handle /app/* {{\nreverse_proxy {kind}{address}\n}}");
    }
    site += &ground.secured.as_ref().map_or_else(String::new, tls);
    site += &settings.rest();
    // Automatic HTTPS would ask for certificates, and redirect to addresses with them.
    let mut text = format!(
        "{{\nadmin off\nauto_https off\nservers {{\nprotocols h1\ntimeouts {{\nidle 1h\n}}\n}}\n}}\n\
         ({SITE}) {{\n{site}}}\n"
    );
    let scheme = ground.scheme();
    // Sites are told apart by their ports, because clients may ask for any host.
    for port in unique(ground.listen.iter().map(SocketAddr::port)) {
        let at = ground.listen.iter().filter(|address| address.port() == port);
        let hosts: Vec<String> = at.map(|address| address.ip().to_string()).collect();
        let _ = write!(text, "{scheme}://:{port} {{\nbind {}\nimport {SITE}\n}}\n", hosts.join(" "));
    }
    let config = write(ground, "caddy.conf", &text)?;
    // It keeps the configuration and what it knows of certificates, which would be in the user's home.
    let directory = ground.directory.display();
    let kept = ["XDG_CONFIG_HOME", "XDG_DATA_HOME"].map(|name| format!("{name}={directory}/caddy"));
    let mut words = vec!["env".to_owned()];
    words.extend(kept);
    words.extend(
        [&peer(spec, "caddy")?, "run", "--adapter", "caddyfile", "--config", &config].map(str::to_owned),
    );
    Ok(words)
}

pub(super) fn directive(name: &str, value: &str) -> String {
    format!("{name} {value}").trim_end().to_owned() + "\n"
}

/// The lines for TLS. Suites of TLS 1.3 cannot be chosen; of those that clients offer it takes any.
fn tls(secured: &Secured<'_>) -> String {
    let Secured { tls, pem } = secured;
    let (pem, version) = (pem.display(), tls.version);
    let ciphers = match version {
        Version::V12 => directive("ciphers", &tls.cipher.to_string()),
        Version::V13 => String::new(),
    };
    let group = tls.group;
    format!("tls {pem} {pem} {{\nprotocols tls{version} tls{version}\n{ciphers}curves {group}\n}}\n")
}
