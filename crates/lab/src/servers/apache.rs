//! Apache httpd with one of its two MPMs that have threads. Settings are directives.
//!
//! Unneeded modules are not loaded. All threads exist from the start, because MPMs that start and end
//! processes with the load would be measured doing so.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::application::Gateway;
use super::{Endpoint, Ground, Secured, Settings, Version, peer, write};
use crate::servers::spec::Spec;

/// An MPM, with good defaults for it.
#[derive(Debug)]
pub(super) struct Mpm {
    name: &'static str,
    threads_per_child: usize,
    /// The number of processes.
    servers: fn(&Ground<'_>) -> usize,
    /// Whether a connection that waits for its next request needs no thread.
    is_async: bool,
}

/// A thread for each request in progress. With 16 or 32 threads for a CPU, 64 or 256 clients get replies of
/// `SPECweb99` for 4 to 6% less CPU time than with 64 threads, and with 128 for 4% more.
pub(super) const EVENT: Mpm =
    Mpm { name: "event", threads_per_child: 32, servers: |ground| ground.cpus, is_async: true };

/// A thread for each connection.
pub(super) const WORKER: Mpm =
    Mpm { name: "worker", threads_per_child: 64, servers: |_| 16, is_async: false };

pub(super) fn words(spec: &Spec, ground: &Ground<'_>, mpm: &Mpm) -> Result<Vec<String>> {
    let mut settings = Settings::of(spec, directive);
    let program = peer(spec, "apache2-bin")?;
    let directory = ground.directory.display();
    let mut text = format!(
        "ServerRoot \"{directory}\"\nDefaultRuntimeDir \"{directory}\"\nPidFile httpd.pid\n\
         ErrorLog /dev/stderr\nServerName localhost\nDocumentRoot \"{}\"\n\
         TypesConfig /dev/null\nAddType text/html .html\n\
         <Directory />\nOptions FollowSymLinks\nAllowOverride None\n</Directory>\n",
        ground.root.display()
    );
    let protocol = if ground.secured.is_some() { " https" } else { "" };
    for address in ground.listen {
        let _ = writeln!(text, "Listen {address}{protocol}");
    }
    let mut modules = vec![format!("mpm_{}", mpm.name), "authz_core".into(), "mime".into(), "dir".into()];
    if let Some(secured) = &ground.secured {
        modules.push("ssl".into());
        text += &tls(secured, &mut settings);
    }
    if let Some(application) = ground.application {
        modules.extend(["proxy".into(), "proxy_fcgi".into()]);
        text += &handler(&application.gateway(ground)?);
    }
    let mut set = |name: &str, usual: usize| {
        let value = settings.take(name, &usual);
        text += &directive(name, &value);
        value.parse().unwrap_or(usual)
    };
    // Directives that depend on others come after them, but a limit comes before what it limits.
    let threads = set("ThreadsPerChild", mpm.threads_per_child);
    let servers = set("ServerLimit", (mpm.servers)(ground));
    let all = set("MaxRequestWorkers", threads * servers);
    for (name, usual) in [
        ("ThreadLimit", threads),
        ("StartServers", servers),
        ("MinSpareThreads", all),
        ("MaxSpareThreads", all),
    ] {
        set(name, usual);
    }
    if mpm.is_async {
        set("AsyncRequestWorkerFactor", ground.capacity.div_ceil(all.max(1)));
    }
    text += &settings.set_all(&[
        ("MaxConnectionsPerChild", "0"),
        ("ListenBacklog", "4096"),
        ("Timeout", "3600"),
        ("KeepAlive", "On"),
        ("KeepAliveTimeout", "3600"),
        ("MaxKeepAliveRequests", "0"),
        ("EnableSendfile", "On"),
        ("HostnameLookups", "Off"),
        ("LogLevel", "error"),
    ]);
    text += &settings.rest();
    let from = modules_of(Path::new(&program));
    let load = |name: &String| format!("LoadModule {name}_module \"{}/mod_{name}.so\"\n", from.display());
    let text = modules.iter().map(load).collect::<String>() + &text;
    let config = write(ground, "httpd.conf", &text)?;
    let mut words = Vec::new();
    // Apache refuses to serve as root. As the user `nobody`, with root's right to read, it can read the
    // same files as the other servers.
    if rustix::process::geteuid().is_root() {
        let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=+dac_override \
            --ambient-caps=+dac_override";
        words.extend(nobody.split(' ').map(str::to_owned));
    }
    words.extend([&program, "-D", "FOREGROUND", "-f", &config].map(str::to_owned));
    Ok(words)
}

/// The lines for TLS. Tickets need no cache of sessions.
fn tls(Secured { tls, pem }: &Secured<'_>, settings: &mut Settings<'_>) -> String {
    let (pem, version, cipher) = (pem.display().to_string(), tls.version.openssl(), tls.cipher.openssl());
    let (ciphers, protocol) = (
        match tls.version {
            Version::V12 => cipher.to_owned(),
            Version::V13 => format!("{version} {cipher}"),
        },
        format!("-all +{version}"),
    );
    settings.set_all(&[
        ("SSLEngine", "on"),
        ("SSLCertificateFile", &pem),
        ("SSLCertificateKeyFile", &pem),
        ("SSLProtocol", &protocol),
        ("SSLCipherSuite", &ciphers),
        ("SSLOpenSSLConfCmd", &format!("Groups {}", tls.group.openssl())),
        ("SSLSessionCache", "none"),
        ("SSLSessionTickets", "on"),
        ("SSLSessionCacheTimeout", "3600"),
    ])
}

pub(super) fn directive(name: &str, value: &str) -> String {
    format!("{name} {value}\n")
}

/// The directory of modules, either `modules` beside `bin` as in Apache's own installation, or Debian's.
fn modules_of(program: &Path) -> PathBuf {
    let own = program.ancestors().nth(2).map(|prefix| prefix.join("modules"));
    own.filter(|path| path.is_dir()).unwrap_or_else(|| "/usr/lib/apache2/modules".into())
}

/// The handler, with a connection for each request.
fn handler(gateway: &Gateway) -> String {
    let (requests, name) = match gateway.scripts() {
        Some(root) => {
            let name = format!("ProxyFCGISetEnvIf true SCRIPT_FILENAME \"{root}%{{reqenv:SCRIPT_NAME}}\"\n");
            (r#"LocationMatch "\.php$""#, name)
        }
        None => ("LocationMatch \"^/fcgi/\"", String::new()),
    };
    let server = match &gateway.socket {
        Endpoint::Unix(path) => format!("unix:{}|fcgi://localhost", path.display()),
        Endpoint::Tcp(address) => format!("fcgi://{address}"),
    };
    format!("<{requests}>\nSetHandler \"proxy:{server}\"\n{name}</LocationMatch>\n")
}
