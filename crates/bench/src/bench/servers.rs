//! The servers that are compared: ours, the ceiling, nginx, lighttpd.
//!
//! Each runs with a generated configuration on a loopback address of its own, so that sockets in `TIME_WAIT`
//! of one don't get into another's way.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context, Result};

use crate::site::Case;
use lab::launcher::{Place, Server, announced};

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

/// A server and the settings that it runs with.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// The server that parses nothing, replying as one case demands.
    Ceiling {
        executable: PathBuf,
        /// As its `--variant` has it.
        variant: &'static str,
        case: Case,
        send_buffer: Option<usize>,
        defer_accept: bool,
    },
    /// Ours.
    Sluice {
        executable: PathBuf,
        /// `None`: with patience and room for the measurement, and all else as it comes but for accepts.
        config: Option<PathBuf>,
        defer_accept: bool,
    },
    /// nginx with one worker, an open-file cache and no access log.
    Nginx(NginxSettings),
    /// lighttpd with one worker and no access log.
    Lighttpd { backend: &'static str, defer_accept: bool },
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
            let mut words = vec![
                executable.display().to_string(),
                format!("--listen={address}"),
                format!("--body={}", case.body_bytes),
                format!("--variant={variant}"),
                format!("--file={}", case.file(site).display()),
            ];
            words.extend(send_buffer.map(|bytes| format!("--send-buffer={bytes}")));
            words.extend(defer_accept.then(|| "--defer-accept".to_owned()));
            words.extend(case.close.then(|| "--close".to_owned()));
            words
        }
        Kind::Sluice { executable, config, defer_accept } => {
            let generate =
                || generated(directory, "sluice.toml", &sluice_config(environment.capacity, *defer_accept));
            let config = config.clone().map_or_else(generate, Ok)?;
            sluice_serves(executable, site, &config, &[address])
        }
        Kind::Nginx(settings) => {
            let text = nginx_config(address, environment, directory, *settings);
            let config = generated(directory, "nginx.conf", &text)?;
            ["nginx", "-c", &config.display().to_string(), "-e", "stderr"].map(str::to_owned).into()
        }
        Kind::Lighttpd { backend, defer_accept } => {
            let text = lighttpd_config(address, environment, backend, *defer_accept);
            let config = generated(directory, "lighttpd.conf", &text)?;
            ["lighttpd", "-D", "-f", &config.display().to_string()].map(str::to_owned).into()
        }
    };
    Ok(words)
}

/// The command line of ours.
pub(crate) fn sluice_serves(
    executable: &Path,
    root: &Path,
    config: &Path,
    listen: &[SocketAddr],
) -> Vec<String> {
    let mut words = vec![executable.display().to_string(), "serve".to_owned(), root.display().to_string()];
    words.push(format!("--config={}", config.display()));
    words.extend(listen.iter().map(|address| format!("--listen={address}")));
    words
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
