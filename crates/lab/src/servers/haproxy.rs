//! `HAProxy` in front of another server, which `behind` names (default: nginx), or of the application. With
//! `behind=nothing` it answers all requests itself, with one file that it keeps in memory. Its other
//! settings are words for the `server` line of what is behind it, and keywords. Known keywords of the
//! `global` section go there, all others to `defaults`.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Error, Result, bail, ensure};

use super::application::{Application, Gets, socket};
use super::{Endpoint, Ground, Part, Secured, Settings, Version, peer, server, write};
use crate::programs::ports::free_port;
use crate::servers::spec::{Kind, Spec};

/// The value of `behind` for an application.
const APPLICATION: &str = "application";

/// The value of `behind` if it answers by itself.
const NOTHING: &str = "nothing";

pub(super) fn parts(spec: &Spec, ground: &Ground<'_>) -> Result<Vec<Part>> {
    let mut settings = Settings::of(spec, keyword);
    settings.take("behind", &"");
    let more = settings.take("server", &"");
    let (mut parts, application, answer) = if let Some(behind) = behind(spec)? {
        let inner = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let directory = ground.directory.join("behind");
        fs::create_dir_all(&directory)?;
        let inside = Ground { listen: &[inner], directory: &directory, secured: None, ..*ground };
        let line = format!("server behind {inner} {more}");
        (server(&behind, &inside)?, String::new(), line)
    } else if stands_alone(spec) {
        ensure!(more.is_empty(), "{}: server={more}: nothing is behind it", spec.name);
        (Vec::new(), String::new(), itself(spec, ground)?)
    } else {
        let socket = socket(ground);
        let prefix = if matches!(socket, Endpoint::Unix(_)) { "unix@" } else { "" };
        let application =
            ground.application.with_context(|| format!("{}: there is no application", spec.name))?;
        let server = format!("server behind {prefix}{socket}");
        if application.speaks_http() {
            let told = "option forwardfor\nhttp-request set-header X-Forwarded-Proto http";
            (Vec::new(), String::new(), format!("{told}\n{server} {more}"))
        } else {
            let line = format!("{server} proto fcgi {more}");
            (Vec::new(), fastcgi(spec, application, ground)?, line)
        }
    };

    let mut global = settings.set("nbthread", &ground.cpus);
    // HAProxy makes room for as many connections as its descriptors allow, with two for each, but for no
    // more than this.
    global += &settings.set("fd-hard-limit", &(2 * ground.capacity + 1_000));
    if ground.secured.is_some() {
        // With the default of 16 KiB, a file of 100 KB takes several times as many calls of OpenSSL.
        global += &settings.set("tune.bufsize", &131_072);
    }
    global += &settings.those(|name| name.starts_with("tune.") || is_global(name));
    let mut defaults = "mode http\n".to_owned();
    // A setting `timeout` comes after these lines, and overrides them.
    for what in ["connect", "client", "server"] {
        defaults += &keyword("timeout", &format!("{what} 3600s"));
    }
    defaults += &settings.set("backlog", &4_096);
    // Kept connections to the server carry the requests of all clients.
    defaults += &settings.set("http-reuse", &"always");
    defaults += &settings.rest();
    let mut text = format!("global\n{global}defaults\n{defaults}{application}listen all\n");
    let ssl = ground.secured.as_ref().map_or_else(String::new, tls);
    for address in ground.listen {
        let _ = writeln!(text, "bind {address}{ssl}");
    }
    if !application.is_empty() {
        text += "use-fcgi-app application\n";
    }
    let _ = writeln!(text, "{answer}");
    let config = write(ground, "haproxy.cfg", &text)?;
    let words = [&peer(spec, "haproxy")?, "-db", "-f", &config].map(str::to_owned).into();
    parts.push(Part::of(words, ground));
    Ok(parts)
}

/// The words for TLS on the line of an address.
fn tls(Secured { tls, pem }: &Secured<'_>) -> String {
    let (version, group, cipher) = (tls.version.openssl(), tls.group.openssl(), tls.cipher.openssl());
    let ciphers = match tls.version {
        Version::V12 => "ciphers",
        Version::V13 => "ciphersuites",
    };
    format!(
        " ssl crt {} ssl-min-ver {version} ssl-max-ver {version} curves {group} {ciphers} {cipher}",
        pem.display()
    )
}

/// The line for the one file. `HAProxy` reads it at the start, and it has to fit into a buffer.
fn itself(spec: &Spec, ground: &Ground<'_>) -> Result<String> {
    let constant = ground.constant;
    let constant =
        constant.with_context(|| format!("{}: the requests are not all for one file", spec.name))?;
    let file = ground.root.join(constant.target.trim_start_matches('/'));
    let file = file.display();
    Ok(format!("http-request return status 200 content-type application/octet-stream file {file}"))
}

/// Whether nothing is behind it.
pub(super) fn stands_alone(spec: &Spec) -> bool {
    Settings::of(spec, keyword).take("behind", &"") == NOTHING
}

/// The section for FastCGI. A child of PHP-FPM that keeps its connection cannot serve others.
fn fastcgi(spec: &Spec, application: &Application, ground: &Ground<'_>) -> Result<String> {
    let Gets::Scripts(scripts) = application.gateway(ground)?.gets else {
        bail!("{}: it needs a php-fpm to stand before", spec.name);
    };
    Ok(format!(
        "fcgi-app application\ndocroot {scripts}\npath-info ^(/.+\\.php)(/.*)?$\nno option keep-conn\n"
    ))
}

/// The server that `behind` names; `None`: the application, or nothing.
pub(super) fn behind(spec: &Spec) -> Result<Option<Spec>> {
    let named = Settings::of(spec, keyword).take("behind", &"nginx");
    if named == APPLICATION || named == NOTHING {
        return Ok(None);
    }
    let behind: Spec = named.parse().map_err(Error::msg)?;
    ensure!(
        behind.kind != Kind::Haproxy,
        "{}: behind={named}: a server other than haproxy is allowed, or application, or nothing",
        spec.name
    );
    Ok(Some(Spec { name: format!("{}, behind {}", behind.name, spec.name), ..behind }))
}

fn keyword(name: &str, value: &str) -> String {
    format!("{name} {value}\n")
}

fn is_global(name: &str) -> bool {
    matches!(name, "maxconn" | "maxpipes" | "cpu-map" | "busy-polling" | "noepoll" | "nosplice")
}
