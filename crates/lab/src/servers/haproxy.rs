//! `HAProxy` in front of another server, which `behind` names (nginx otherwise), or of the application. Its
//! other settings are words for the line of what is behind it (`server`), and keywords: those of its `global`
//! section that are known here, and of `defaults`.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Error, Result, ensure};

use super::application::socket;
use super::{Endpoint, Ground, Part, Settings, peer, server, write};
use crate::programs::ports::free_port;
use crate::servers::spec::{Kind, Spec};

/// What `behind` is called if it is no server.
const APPLICATION: &str = "application";

pub(super) fn parts(spec: &Spec, ground: &Ground<'_>) -> Result<Vec<Part>> {
    let mut settings = Settings::of(spec, keyword);
    settings.take("behind", &"");
    let (mut parts, application, to) = if let Some(behind) = behind(spec)? {
        let inner = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let directory = ground.directory.join("behind");
        fs::create_dir_all(&directory)?;
        let parts = server(&behind, &Ground { listen: &[inner], directory: &directory, ..*ground })?;
        (parts, String::new(), inner.to_string())
    } else {
        let socket = socket(ground);
        let prefix = if matches!(socket, Endpoint::Unix(_)) { "unix@" } else { "" };
        (Vec::new(), fastcgi(spec, ground)?, format!("{prefix}{socket} proto fcgi"))
    };
    let more = settings.take("server", &"");

    let mut global = settings.set("nbthread", &ground.cpus);
    // It makes room for as many connections as it may have descriptors for, two for each, but not for more.
    global += &settings.set("fd-hard-limit", &(2 * ground.capacity + 1_000));
    global += &settings.those(|name| name.starts_with("tune.") || is_global(name));
    let mut defaults = "mode http\n".to_owned();
    // A setting `timeout` comes after them, and then it is the one that counts.
    for what in ["connect", "client", "server"] {
        defaults += &keyword("timeout", &format!("{what} 3600s"));
    }
    defaults += &settings.set("backlog", &4_096);
    // Requests of all clients go on over connections that are kept to the server.
    defaults += &settings.set("http-reuse", &"always");
    defaults += &settings.rest();
    let mut text = format!("global\n{global}defaults\n{defaults}{application}listen all\n");
    for address in ground.listen {
        let _ = writeln!(text, "bind {address}");
    }
    if !application.is_empty() {
        text += "use-fcgi-app application\n";
    }
    let _ = writeln!(text, "server behind {to} {more}");
    let config = write(ground, "haproxy.cfg", &text)?;
    let words = [&peer(spec, "haproxy")?, "-db", "-f", &config].map(str::to_owned).into();
    parts.push(Part::of(words, ground));
    Ok(parts)
}

/// What it has to know to speak FastCGI. A child of PHP-FPM that keeps its connection serves nobody else.
fn fastcgi(spec: &Spec, ground: &Ground<'_>) -> Result<String> {
    let application =
        ground.application.with_context(|| format!("{}: there is no application", spec.name))?;
    let scripts = application.gateway(ground)?.scripts;
    let scripts = scripts.with_context(|| format!("{}: it needs a php-fpm to stand before", spec.name))?;
    Ok(format!(
        "fcgi-app application\ndocroot {scripts}\npath-info ^(/.+\\.php)(/.*)?$\nno option keep-conn\n"
    ))
}

/// The server that `behind` names; `None`: the application.
pub(super) fn behind(spec: &Spec) -> Result<Option<Spec>> {
    let named = Settings::of(spec, keyword).take("behind", &"nginx");
    if named == APPLICATION {
        return Ok(None);
    }
    let behind: Spec = named.parse().map_err(Error::msg)?;
    ensure!(
        behind.kind != Kind::Haproxy,
        "{}: behind={named}: a server other than haproxy is allowed, or application",
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
