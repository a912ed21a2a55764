//! lighttpd. Settings are options of its configuration by their full names, such as `server.max-worker`.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Endpoint, Ground, Secured, Settings, Version, peer, write};
use crate::servers::spec::Spec;

/// lighttpd accepts at most 65,535 as the number of requests on a connection. It holds half as many
/// connections as it may have descriptors.
pub(super) fn words(spec: &Spec, ground: &Ground<'_>) -> Result<Vec<String>> {
    let mut settings = Settings::of(spec, line);
    let Ground { root, listen, cpus, capacity, .. } = ground;
    // A single process serves without a watcher process; several have one.
    let workers = if *cpus == 1 { 0 } else { *cpus };
    let mut text = format!(
        "server.document-root = \"{}\"\nserver.bind = \"{}\"\nserver.port = {}\n\
         mimetype.assign = ( \".html\" => \"text/html\" )\n",
        root.display(),
        listen[0].ip(),
        listen[0].port(),
    );
    let mut modules = Vec::new();
    if let Some(secured) = &ground.secured {
        modules.push("\"mod_openssl\"");
        text += &tls(secured);
    }
    let ssl = if ground.secured.is_some() { "ssl.engine = \"enable\"" } else { "" };
    for address in &listen[1..] {
        let _ = writeln!(text, "$SERVER[\"socket\"] == \"{address}\" {{ {ssl} }}");
    }
    let [max_fds, workers, capacity] =
        [2 * capacity + 1_000, workers, *capacity].map(|count| count.to_string());
    let mut usual = vec![
        ("server.modules", "()"),
        ("server.event-handler", "linux-sysepoll"),
        ("server.network-backend", "sendfile"),
        ("server.stat-cache-engine", "simple"),
        ("server.max-worker", &workers),
        ("server.max-fds", &max_fds),
        ("server.listen-backlog", "4096"),
        ("server.max-keep-alive-requests", "65535"),
        ("server.max-keep-alive-idle", "3600"),
        ("server.max-read-idle", "3600"),
        ("server.max-write-idle", "3600"),
        ("server.max-connections", &capacity),
    ];
    if let Some(application) = ground.application {
        let gateway = application.gateway(ground)?;
        let (requests, root) = match gateway.scripts() {
            Some(root) => (".php", format!(", \"docroot\" => \"{root}\"")),
            None => ("/fcgi/", String::new()),
        };
        let server = match gateway.socket {
            Endpoint::Unix(path) => format!("\"socket\" => \"{}\"", path.display()),
            Endpoint::Tcp(address) => {
                format!("\"host\" => \"{}\", \"port\" => {}", address.ip(), address.port())
            }
        };
        let pool = format!("{server}, \"check-local\" => \"disable\"{root}");
        let _ = writeln!(text, "fastcgi.server = ( \"{requests}\" => (({pool})) )");
        modules.push("\"mod_fastcgi\"");
        // Replies go to clients as they come, and are not first collected on the disk.
        usual.push(("server.stream-response-body", "1"));
    }
    let modules = format!("({})", modules.join(", "));
    usual[0].1 = &modules;
    text += &settings.set_all(&usual);
    text += &settings.rest();
    let config = write(ground, "lighttpd.conf", &text)?;
    let program = peer(spec, "lighttpd")?;
    knows_all(&program, &config)?;
    Ok([&program, "-D", "-f", &config].map(str::to_owned).into())
}

/// The lines for TLS.
fn tls(Secured { tls, pem }: &Secured<'_>) -> String {
    let (version, group, cipher) = (tls.version.openssl(), tls.group.openssl(), tls.cipher.openssl());
    let ciphers = match tls.version {
        Version::V12 => "CipherString",
        Version::V13 => "Ciphersuites",
    };
    format!(
        "ssl.engine = \"enable\"\nssl.pemfile = \"{}\"\n\
         ssl.openssl.ssl-conf-cmd = (\"MinProtocol\" => \"{version}\", \"MaxProtocol\" => \"{version}\", \
         \"{ciphers}\" => \"{cipher}\", \"Groups\" => \"{group}\")\n",
        pem.display()
    )
}

/// Numbers and lists stay as they are; all other values get quotes.
pub(super) fn line(name: &str, value: &str) -> String {
    if value.parse::<u64>().is_ok() || value.starts_with('(') {
        return format!("{name} = {value}\n");
    }
    format!("{name} = \"{value}\"\n")
}

/// Fails on unknown options. lighttpd itself would only warn, and run without them.
fn knows_all(program: &str, config: &str) -> Result<()> {
    let output = Command::new(program).args(["-tt", "-f", config]).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let unknown = said.lines().find(|line| line.contains("unknown config-key"));
    ensure!(unknown.is_none(), "lighttpd says: {}", unknown.unwrap_or_default());
    Ok(())
}
