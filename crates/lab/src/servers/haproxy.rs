//! `HAProxy` in front of another server, which `behind` names (default: nginx), or of the application. Its
//! other settings are words for the `server` line of what is behind it, and keywords. Known keywords of the
//! `global` section go there, all others to `defaults`.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Error, Result, ensure};

use super::application::socket;
use super::{Endpoint, Ground, Part, Settings, peer, server, write};
use crate::programs::ports::free_port;
use crate::servers::spec::{Kind, Spec};

/// The value of `behind` for an application.
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
    // HAProxy makes room for as many connections as its descriptors allow, with two for each, but for no
    // more than this.
    global += &settings.set("fd-hard-limit", &(2 * ground.capacity + 1_000));
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

/// The section for FastCGI. A child of PHP-FPM that keeps its connection cannot serve others.
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
