//! The servers that are compared: ours, the ceiling, nginx, lighttpd.
//!
//! Each runs with a generated configuration on a loopback address of its own, so that sockets in `TIME_WAIT`
//! of one don't get into another's way.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context, Result};

use crate::launcher::{Place, Server, announced};
use crate::site::Case;

/// What is needed to start any server.
pub(crate) struct Environment<'a> {
    /// The root of the files.
    pub(crate) site: &'a Path,
    /// Where configuration, logs and results of tools go.
    pub(crate) scratch: &'a Path,
    /// The CPU that servers are pinned to.
    pub(crate) cpu: usize,
    /// How many connections servers are told to have room for.
    pub(crate) capacity: usize,
    /// Words before the server's own command line, such as valgrind's.
    pub(crate) wrapper: Vec<String>,
}

/// How the ceiling server replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CeilingVariant {
    /// Head and body in one writev.
    Memory,
    /// Head with `MSG_MORE`, then sendfile.
    Sendfile,
    /// Head at once, then sendfile.
    Push,
}

impl CeilingVariant {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sendfile => "sendfile",
            Self::Push => "push",
        }
    }
}

/// A server and the settings that it runs with.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// The server that parses nothing, replying as one case demands.
    Ceiling {
        executable: PathBuf,
        variant: CeilingVariant,
        case: Case,
        send_buffer: Option<usize>,
        defer_accept: bool,
    },
    /// Ours.
    Sluice { executable: PathBuf, config: SluiceConfig },
    /// nginx with one worker, an open-file cache and no access log.
    Nginx(NginxSettings),
    /// lighttpd with one worker and no access log.
    Lighttpd { backend: &'static str, defer_accept: bool },
}

/// What ours is configured with.
#[derive(Clone, Debug)]
pub(crate) enum SluiceConfig {
    /// Patience and room for the measurement; all else as it comes, but for accepts.
    Generated {
        defer_accept: bool,
    },
    File(PathBuf),
}

/// Those switches of nginx that might make it faster or slower, as its manual names them.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one independent switch of nginx")]
pub(crate) struct NginxSettings {
    pub(crate) sendfile: bool,
    pub(crate) tcp_nopush: bool,
    pub(crate) multi_accept: bool,
    pub(crate) deferred: bool,
    /// Bytes per second for each reply; 0 for as many as can be.
    pub(crate) limit_rate: u32,
}

/// Starts the server and waits until it accepts connections.
pub(crate) fn start(kind: &Kind, environment: &Environment<'_>) -> Result<Server> {
    let wanted = unused_address(kind)?;
    let directory = environment.scratch.join(format!("server-{}", wanted.ip()));
    fs::create_dir_all(&directory)?;
    let words = command_line(kind, wanted, environment, &directory)?;
    let place =
        Place { cpus: &[environment.cpu], wrapper: &environment.wrapper, log: &directory.join("stderr") };
    Server::start(&words, place, |said| {
        let address = if wanted.port() == 0 { *announced(said).first()? } else { wanted };
        TcpStream::connect(address).ok().map(|_| address)
    })
}

/// A loopback address that no server of this run has had, with a port that is free now; port 0 where the
/// server says which one it got.
fn unused_address(kind: &Kind) -> Result<SocketAddr> {
    static LAST: AtomicU8 = AtomicU8::new(1);
    let address = Ipv4Addr::new(127, 0, 1, LAST.fetch_add(1, Ordering::Relaxed));
    Ok(match kind {
        Kind::Ceiling { .. } | Kind::Sluice { .. } => SocketAddr::from((address, 0)),
        Kind::Nginx { .. } | Kind::Lighttpd { .. } => TcpListener::bind((address, 0))?.local_addr()?,
    })
}

fn command_line(
    kind: &Kind,
    address: SocketAddr,
    environment: &Environment<'_>,
    directory: &Path,
) -> Result<Vec<String>> {
    let site = environment.site;
    let words = match kind {
        Kind::Ceiling { executable, variant, case, send_buffer, defer_accept } => {
            let mut words = vec![executable.display().to_string(), format!("--listen={address}")];
            words.push(format!("--body={}", case.body_bytes));
            words.push(format!("--variant={}", variant.name()));
            words.push(format!("--file={}", site.join(case.target.trim_start_matches('/')).display()));
            words.extend(send_buffer.map(|bytes| format!("--send-buffer={bytes}")));
            words.extend(defer_accept.then(|| "--defer-accept".to_owned()));
            words.extend(case.close.then(|| "--close".to_owned()));
            words
        }
        Kind::Sluice { executable, config } => {
            let config = match config {
                SluiceConfig::File(file) => file.clone(),
                SluiceConfig::Generated { defer_accept } => {
                    let text = sluice_config(environment.capacity, *defer_accept);
                    generated(directory, "sluice.toml", &text)?
                }
            };
            let mut words =
                vec![executable.display().to_string(), "serve".to_owned(), site.display().to_string()];
            words.extend(["--listen".to_owned(), address.to_string()]);
            words.extend(["--config".to_owned(), config.display().to_string()]);
            words
        }
        Kind::Nginx(settings) => {
            let text = nginx_config(address, environment, directory, *settings);
            let config = generated(directory, "nginx.conf", &text)?;
            vec![
                "nginx".to_owned(),
                "-c".to_owned(),
                config.display().to_string(),
                "-e".to_owned(),
                "stderr".to_owned(),
            ]
        }
        Kind::Lighttpd { backend, defer_accept } => {
            let text = lighttpd_config(address, environment, backend, *defer_accept);
            let config = generated(directory, "lighttpd.conf", &text)?;
            vec!["lighttpd".to_owned(), "-D".to_owned(), "-f".to_owned(), config.display().to_string()]
        }
    };
    Ok(words)
}

fn generated(directory: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = directory.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn sluice_config(capacity: usize, defer_accept: bool) -> String {
    let tcp = if defer_accept { "\n[tcp]\ndefer_accept = \"5 s\"\n" } else { "" };
    format!(
        "architecture = \"sped\"\nmax_connections = {capacity}\naccess_log = \"off\"\n\n\
         [timeouts]\nidle = \"1 h\"\nheader = \"1 h\"\nwrite = \"1 h\"\n{tcp}"
    )
}

/// One process: workers of a foreground nginx do the same work, and tools like valgrind follow one process
/// more easily.
fn nginx_config(
    address: SocketAddr,
    environment: &Environment<'_>,
    directory: &Path,
    settings: NginxSettings,
) -> String {
    let switch = |on: bool| if on { "on" } else { "off" };
    format!(
        "\
daemon off;
master_process off;
worker_processes 1;
worker_rlimit_nofile 20000;
pid {directory}/nginx.pid;
error_log stderr error;
events {{
    use epoll;
    worker_connections {capacity};
    multi_accept {multi_accept};
    accept_mutex off;
}}
http {{
    access_log off;
    types {{ text/html html; }}
    sendfile {sendfile};
    tcp_nopush {tcp_nopush};
    tcp_nodelay on;
    keepalive_requests 1000000000;
    keepalive_timeout 3600s;
    client_header_timeout 3600s;
    send_timeout 3600s;
    open_file_cache max=1000 inactive=3600s;
    open_file_cache_valid 60s;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    server {{
        listen {address} backlog=4096{deferred};
        root {site};
        limit_rate {limit_rate};
    }}
}}
",
        directory = directory.display(),
        site = environment.site.display(),
        capacity = environment.capacity,
        sendfile = switch(settings.sendfile),
        tcp_nopush = switch(settings.tcp_nopush),
        multi_accept = switch(settings.multi_accept),
        limit_rate = settings.limit_rate,
        deferred = if settings.deferred { " deferred" } else { "" },
    )
}

/// 65,535 is the most requests for a connection that lighttpd can be told, and it holds half as many
/// connections as it may have descriptors.
fn lighttpd_config(
    address: SocketAddr,
    environment: &Environment<'_>,
    backend: &str,
    defer_accept: bool,
) -> String {
    format!(
        "\
server.document-root = \"{site}\"
server.bind = \"{ip}\"
server.port = {port}
server.event-handler = \"linux-sysepoll\"
server.network-backend = \"{backend}\"
server.max-worker = 0
server.max-fds = 20000
server.max-connections = {capacity}
server.listen-backlog = 4096
server.max-keep-alive-requests = 65535
server.max-keep-alive-idle = 3600
server.max-read-idle = 3600
server.max-write-idle = 3600
server.stat-cache-engine = \"simple\"
server.modules = ()
server.defer-accept = {defer_accept}
mimetype.assign = ( \".html\" => \"text/html\" )
",
        site = environment.site.display(),
        capacity = environment.capacity,
        ip = address.ip(),
        port = address.port(),
        defer_accept = u8::from(defer_accept),
    )
}
