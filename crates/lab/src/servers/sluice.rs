//! sluice. Settings with leading dashes are options. Those with `pool.` are keys of the application's pool,
//! in which names in braces are filled in. All others are lines of its TOML file.

use anyhow::Result;

use super::application::{Gateway, Gets};
use super::{Ground, write};
use crate::servers::spec::Spec;

/// The name of the socket for its status.
pub(crate) const STATUS: &str = "status";

/// The prefix of settings of the application's pool.
const OF_POOL: &str = "pool.";

pub(super) fn words(spec: &Spec, ground: &Ground<'_>) -> Result<Vec<String>> {
    let Ground { root, listen, sockets, capacity, sluice, .. } = ground;
    let (options, others): (Vec<&String>, Vec<&String>) =
        spec.settings.iter().partition(|word| word.starts_with("--"));
    let (of_pool, toml): (Vec<&String>, Vec<&String>) =
        others.into_iter().partition(|word| word.starts_with(OF_POOL));
    let sets = |name: &str| spec.settings.iter().any(|word| word.trim_start_matches('-').starts_with(name));
    let mut lines = vec!["drain_timeout = \"200 ms\"".to_owned()];
    if !sets("max_connections") && !sets("max-connections") {
        lines.push(format!("max_connections = {capacity}"));
    }
    lines.extend(toml.into_iter().cloned());
    if let Some(application) = ground.application {
        lines.push(ground.fill(&pool(&application.gateway(ground)?, &of_pool)));
    }
    let config = write(ground, "sluice.toml", &(lines.join("\n") + "\n"))?;
    let executable = spec.program.as_deref().unwrap_or(sluice);
    let mut words = vec![executable.display().to_string(), "serve".to_owned(), root.display().to_string()];
    words.push(format!("--config={config}"));
    let option = if ground.secured.is_some() { "--listen-tls" } else { "--listen" };
    words.extend(listen.iter().map(|address| format!("{option}={address}")));
    if let Some(secured) = ground.secured {
        let pem = secured.pem.display();
        words.extend([format!("--certificate={pem}"), format!("--key={pem}")]);
    }
    words.push(format!("--status=unix:{}", sockets.join(STATUS).display()));
    words.extend(options.into_iter().cloned());
    Ok(words)
}

/// An option as a line of the file: `--accept-limit` and 10 become `accept_limit = 10`.
pub(super) fn line(name: &str, value: &str) -> String {
    let key = name.trim_start_matches("--").replace('-', "_");
    let is_bare = value.parse::<u64>().is_ok() || matches!(value, "true" | "false");
    if is_bare { format!("{key} = {value}") } else { format!("{key} = \"{value}\"") }
}

/// The application's pool, and the route to it.
fn pool(gateway: &Gateway, settings: &[&String]) -> String {
    let settings = settings.iter().filter_map(|word| word.strip_prefix(OF_POOL));
    let settings: Vec<_> = settings.map(|setting| format!("{setting}\n")).collect();
    let children = match gateway.children {
        Some(children) if !settings.iter().any(|setting| setting.starts_with("children")) => {
            format!("children = {children}\n")
        }
        _ => String::new(),
    };
    let (protocol, route) = match gateway.gets {
        Gets::Scripts(_) => ("", "scripts = \".php\""),
        Gets::FastCgi => ("", "path = \"/fcgi/**\"\nprogram = \"/fcgi\""),
        Gets::Http => ("protocol = \"http\"\n", "path = \"/app/**\""),
    };
    let server = gateway.address();
    format!(
        "[[pools]]\nname = \"application\"\nservers = \"{server}\"\n{protocol}{children}{}\
         [[routes]]\npool = \"application\"\n{route}",
        settings.concat()
    )
}
