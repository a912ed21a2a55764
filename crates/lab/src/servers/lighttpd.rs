//! lighttpd. Settings are options of its configuration by their full names, such as `server.max-worker`.

use std::fmt::Write as _;

use anyhow::Result;

use super::{Ground, Settings, peer, words, write};
use crate::spec::Spec;

/// 65,535 is the most requests for a connection that it can be told, and it holds half as many connections as
/// it may have descriptors.
pub(super) fn commands(
    spec: &Spec,
    mut settings: Settings<'_>,
    ground: &Ground<'_>,
) -> Result<Vec<Vec<String>>> {
    let Ground { root, listen, cpus, capacity, .. } = ground;
    // One process serves by itself; more than one have a watcher besides.
    let workers = if *cpus == 1 { 0 } else { *cpus };
    let mut text = format!(
        "server.document-root = \"{}\"\nserver.bind = \"{}\"\nserver.port = {}\nserver.modules = ()\n\
         mimetype.assign = ( \".html\" => \"text/html\" )\n",
        root.display(),
        listen[0].ip(),
        listen[0].port(),
    );
    for address in &listen[1..] {
        let _ = writeln!(text, "$SERVER[\"socket\"] == \"{address}\" {{ }}");
    }
    for (name, usual) in [
        ("server.event-handler", "linux-sysepoll".to_owned()),
        ("server.network-backend", "sendfile".to_owned()),
        ("server.stat-cache-engine", "simple".to_owned()),
        ("server.max-worker", workers.to_string()),
        ("server.max-fds", (2 * capacity + 1_000).to_string()),
        ("server.max-connections", capacity.to_string()),
        ("server.listen-backlog", "4096".to_owned()),
        ("server.max-keep-alive-requests", "65535".to_owned()),
        ("server.max-keep-alive-idle", "3600".to_owned()),
        ("server.max-read-idle", "3600".to_owned()),
        ("server.max-write-idle", "3600".to_owned()),
    ] {
        text += &line(name, &settings.take(name, &usual));
    }
    text += &settings.rest(line);
    let config = write(ground, "lighttpd.conf", &text)?;
    Ok(vec![words([&peer(spec, "lighttpd")?, "-D", "-f", &config])])
}

/// Numbers stand by themselves, all else in quotes.
fn line(name: &str, value: &str) -> String {
    match value.parse::<u64>() {
        Ok(number) => format!("{name} = {number}\n"),
        Err(_) => format!("{name} = \"{}\"\n", value.trim_matches('"')),
    }
}
