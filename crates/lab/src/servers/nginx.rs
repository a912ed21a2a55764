//! nginx. Settings are directives: they replace generated ones, or are added in the right block.

use std::fmt::Write as _;

use anyhow::Result;

use super::application::{Gateway, Gets};
use super::{Ground, Secured, Settings, Version, peer, write};
use crate::servers::spec::Spec;

pub(super) fn words(spec: &Spec, ground: &Ground<'_>) -> Result<Vec<String>> {
    let mut settings = Settings::of(spec, directive);
    let directory = ground.directory.display();
    let mut text = format!("daemon off;\npid {directory}/nginx.pid;\nerror_log stderr error;\n");
    // The workers read the files with the rights of the lab's user.
    if rustix::process::geteuid().is_root() {
        text += "user root;\n";
    }
    let workers = settings.take("worker_processes", &ground.cpus);
    text += &settings.set("master_process", &"on");
    text += &directive("worker_processes", &workers);
    text += &settings.set("worker_rlimit_nofile", &(ground.capacity * 2 + 1_000));
    // A worker allocates some 440 bytes for each connection that it may have, right at the start. If each
    // of many workers had room for all connections, that would exceed the memory of an experiment with
    // little memory. No worker gets twice its part of the connections, so that is the limit.
    let part = 2 * ground.capacity / workers.parse().unwrap_or(1).max(1);
    let mut events = settings.set("worker_connections", &(part.max(512).min(ground.capacity + 100)));
    events += &settings.set_all(&[("use", "epoll"), ("multi_accept", "off"), ("accept_mutex", "off")]);
    let mut http = "types { text/html html; }\n".to_owned();
    // `tcp_nopush` has its default: with reno it makes no visible difference. With BBR a packet that waits
    // to be full is paced, which here takes 10% more CPU time for 1 KB and 80% more for SPECweb99's files.
    http += &settings.set_all(&[
        ("access_log", "off"),
        ("sendfile", "on"),
        ("tcp_nopush", "off"),
        ("tcp_nodelay", "on"),
        ("keepalive_requests", "1000000000"),
        ("keepalive_timeout", "3600s"),
        ("client_header_timeout", "3600s"),
        ("send_timeout", "3600s"),
        ("reset_timedout_connection", "on"),
        ("open_file_cache", "max=100000 inactive=3600s"),
        ("open_file_cache_valid", "60s"),
    ]);
    for name in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let _ = writeln!(http, "{name}_temp_path {directory}/{name};");
    }
    if let Some(secured) = &ground.secured {
        http += &tls(secured, &mut settings);
    }
    let ssl = if ground.secured.is_some() { " ssl" } else { "" };
    let (more, backlog) = (settings.take("listen", &""), settings.take("backlog", &4_096));
    let mut server = format!("root {};\n", ground.root.display());
    for address in ground.listen {
        let _ = writeln!(server, "listen {address}{ssl} backlog={backlog} {more};");
    }
    if let Some(application) = ground.application {
        // Replies are read as fast as they come, and never written to the disk.
        let kind = if application.speaks_http() { "proxy" } else { "fastcgi" };
        let buffers = [("buffers", "16 64k"), ("buffer_size", "64k"), ("max_temp_file_size", "0")];
        for (name, value) in buffers {
            http += &settings.set(&format!("{kind}_{name}"), &value);
        }
        let gateway = application.gateway(ground)?;
        if application.speaks_http() {
            let kept = settings.take("keepalive", &"64");
            let _ =
                writeln!(http, "upstream application {{\nserver {};\nkeepalive {kept};", gateway.address());
            http += "keepalive_requests 1000000000;\nkeepalive_timeout 3600s;\n}\n";
        }
        server += &location(&gateway);
    }
    text += &settings.those(is_main);
    events += &settings.those(|name| name == "worker_aio_requests");
    http += &settings.rest();
    let _ = write!(text, "events {{\n{events}}}\nhttp {{\n{http}server {{\n{server}}}\n}}\n");
    let config = write(ground, "nginx.conf", &text)?;
    Ok([&peer(spec, "nginx-light")?, "-c", &config, "-e", "stderr"].map(str::to_owned).into())
}

pub(super) fn directive(name: &str, value: &str) -> String {
    format!("{name} {value};\n")
}

/// The lines for TLS. Larger buffers than the default make a file of 100 KB cheaper, because OpenSSL is
/// called less often. Tickets need no cache of sessions.
fn tls(Secured { tls, pem }: &Secured<'_>, settings: &mut Settings<'_>) -> String {
    let (pem, cipher) = (pem.display().to_string(), tls.cipher.openssl());
    let (name, ciphers) = match tls.version {
        Version::V12 => ("ssl_ciphers", cipher.to_owned()),
        Version::V13 => ("ssl_conf_command", format!("Ciphersuites {cipher}")),
    };
    settings.set_all(&[
        ("ssl_certificate", &pem),
        ("ssl_certificate_key", &pem),
        ("ssl_protocols", tls.version.openssl()),
        (name, &ciphers),
        ("ssl_ecdh_curve", tls.group.openssl()),
        ("ssl_session_cache", "off"),
        ("ssl_session_tickets", "on"),
        ("ssl_session_timeout", "1h"),
        ("ssl_buffer_size", "64k"),
        ("output_buffers", "1 128k"),
    ])
}

/// Whether a setting without a generated line belongs outside all blocks.
fn is_main(name: &str) -> bool {
    let of_workers = name.starts_with("worker_") && name != "worker_aio_requests";
    of_workers || matches!(name, "thread_pool" | "timer_resolution" | "pcre_jit" | "load_module")
}

/// Parameters whose names are those of nginx's variables, in capital letters.
const PARAMETERS: &str = "QUERY_STRING REQUEST_METHOD CONTENT_TYPE CONTENT_LENGTH REQUEST_URI DOCUMENT_ROOT \
    SERVER_PROTOCOL REMOTE_ADDR REMOTE_PORT SERVER_ADDR SERVER_PORT SERVER_NAME";

/// The location of an application over HTTP, with kept connections and the fields that most sites set.
const PROXY: &str = "location /app/ {\n\
    proxy_pass http://application;\n\
    proxy_http_version 1.1;\n\
    proxy_set_header Connection \"\";\n\
    proxy_set_header Host $host;\n\
    proxy_set_header X-Forwarded-For $remote_addr;\n\
    proxy_set_header X-Forwarded-Proto $scheme;\n}\n";

/// The location with the parameters of nginx's own packages, and a connection for each request.
fn location(gateway: &Gateway) -> String {
    let (requests, scripts) = match &gateway.gets {
        Gets::Scripts(root) => (r"~ \.php$", root.as_str()),
        Gets::FastCgi => ("/fcgi/", "$document_root"),
        Gets::Http => return PROXY.to_owned(),
    };
    let named = PARAMETERS.split(' ').map(|name| format!("fastcgi_param {name} ${};\n", name.to_lowercase()));
    format!(
        "location {requests} {{\n\
         fastcgi_pass {};\n\
         fastcgi_param SCRIPT_FILENAME {scripts}$fastcgi_script_name;\n\
         fastcgi_param SCRIPT_NAME $fastcgi_script_name;\n\
         fastcgi_param GATEWAY_INTERFACE CGI/1.1;\n\
         fastcgi_param SERVER_SOFTWARE nginx/$nginx_version;\n\
         fastcgi_param REDIRECT_STATUS 200;\n{}}}\n",
        gateway.address(),
        named.collect::<String>()
    )
}
