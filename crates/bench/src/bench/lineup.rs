//! Who is compared: the ceilings, in the ways in which a server could reply in the case at hand, and if
//! nobody is named ours and its peers, of each the settings that might be its best there.

use anyhow::Result;

use crate::servers::spec;
use crate::site::Case;
use lab::programs::launcher::program;
use lab::servers::spec::{Kind, Spec};

/// Bodies up to this size are sent from memory by every server that does so at all.
const SMALL_BODY_BYTES: usize = 16 << 10;

/// Where connections are kept.
const KEPT: &[&str] = &[
    "sluice",
    "nginx",
    "nginx: tcp_nopush=on",
    "nginx: sendfile=off",
    "lighttpd",
    "lighttpd: server.network-backend=writev",
];

/// Where each request has a connection of its own.
const SHORT: &[&str] = &[
    "sluice",
    "sluice: tcp.defer_accept=\"5 s\"",
    "nginx",
    "nginx: tcp_nopush=on",
    "nginx: listen=deferred",
    "nginx: listen=deferred tcp_nopush=on",
    "nginx: listen=deferred sendfile=off",
    "nginx: listen=deferred tcp_nopush=on multi_accept=on",
    "lighttpd",
    "lighttpd: server.defer-accept=1",
];

/// Who is compared in a case where nobody is named.
pub(crate) fn usual(case: &Case) -> Result<Vec<Spec>> {
    let texts = if case.close { SHORT } else { KEPT };
    texts.iter().map(|text| spec(text)).collect()
}

/// The ceilings of a case: those that every server is held against, and one for each text of `more` options.
pub(crate) fn ceilings(case: &Case, more: &[String]) -> Result<Vec<Spec>> {
    let usual: &[&str] = match case {
        Case { close: true, .. } => &["--variant=memory", "--variant=memory --defer-accept"],
        Case { body_bytes: ..=SMALL_BODY_BYTES, .. } => &["--variant=memory", "--variant=sendfile"],
        _ => &["--variant=memory", "--variant=sendfile", "--variant=push"],
    };
    let executable = program("ceiling", &std::env::current_exe()?.with_file_name("ceiling"))?;
    let ceiling = |options: &str| {
        let mut settings = vec![
            executable.display().to_string(),
            "--listen={host}:{port}".to_owned(),
            format!("--body={}", case.body_bytes),
            format!("--file={{root}}{}", case.target),
        ];
        settings.extend(case.close.then(|| "--close".to_owned()));
        settings.extend(options.split_whitespace().map(str::to_owned));
        Spec { name: format!("ceiling {options}"), kind: Kind::Command, program: None, settings }
    };
    Ok(usual.iter().copied().chain(more.iter().map(String::as_str)).map(ceiling).collect())
}
