//! `HAProxy` in front of another server, which `behind` names (nginx otherwise). Its other settings are
//! keywords: those of its `global` section that are known here, and of `defaults`.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Error, Result, ensure};

use super::{Ground, Part, Settings, peer, server, write};
use crate::spec::{Kind, Spec};

pub(super) fn parts(spec: &Spec, mut settings: Settings<'_>, ground: &Ground<'_>) -> Result<Vec<Part>> {
    let behind = behind(spec, &mut settings)?;
    // A port that is free here is free in a namespace as well.
    let inner = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let directory = ground.directory.join("behind");
    fs::create_dir_all(&directory)?;
    let mut parts = server(&behind, &Ground { listen: &[inner], directory: &directory, ..*ground })?;

    let mut global = String::new();
    // It makes room for as many connections as it may have descriptors for, two for each, but not for more.
    for (name, usual) in [("nbthread", ground.cpus), ("fd-hard-limit", 2 * ground.capacity + 1_000)] {
        global += &keyword(name, &settings.take(name, &usual));
    }
    global += &settings.those(|name| name.starts_with("tune.") || is_global(name), keyword);
    let mut defaults = "mode http\n".to_owned();
    // A setting `timeout` comes after them, and then it is the one that counts.
    for what in ["connect", "client", "server"] {
        defaults += &keyword("timeout", &format!("{what} 3600s"));
    }
    defaults += &keyword("backlog", &settings.take("backlog", &4_096));
    // Requests of all clients go on over connections that are kept to the server.
    defaults += &keyword("http-reuse", &settings.take("http-reuse", &"always"));
    defaults += &settings.rest(keyword);
    let mut text = format!("global\n{global}defaults\n{defaults}listen all\n");
    for address in ground.listen {
        let _ = writeln!(text, "bind {address}");
    }
    let _ = writeln!(text, "server behind {inner}");
    let config = write(ground, "haproxy.cfg", &text)?;
    let words = [&peer(spec, "haproxy")?, "-db", "-f", &config].map(str::to_owned).into();
    parts.push(Part::of(words, ground));
    Ok(parts)
}

/// The server that `behind` names.
pub(super) fn behind(spec: &Spec, settings: &mut Settings<'_>) -> Result<Spec> {
    let named = settings.take("behind", &"nginx");
    let behind: Spec = named.parse().map_err(Error::msg)?;
    ensure!(
        behind.kind != Kind::Haproxy,
        "{}: behind={named}: a server other than haproxy is allowed",
        spec.name
    );
    Ok(Spec { name: format!("{}, behind {}", behind.name, spec.name), ..behind })
}

fn keyword(name: &str, value: &str) -> String {
    format!("{name} {value}\n")
}

fn is_global(name: &str) -> bool {
    matches!(name, "maxconn" | "maxpipes" | "cpu-map" | "busy-polling" | "noepoll" | "nosplice")
}
