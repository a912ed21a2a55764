//! The requests of the sessions, from a session file or from options.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use workload::fields;
use workload::session::{Builder, Method, Request, SessionLog};
use workload::urls::{Urls, sessions_for};
use workload::wsesslog;

use crate::lab::BadInput;
use crate::lab::values::{self, Target};

#[derive(Args)]
#[command(next_help_heading = "Requests")]
pub(super) struct AskedFor {
    /// Sessions to play, in the syntax of httperf's --wsesslog (`sluicelab sessions --help` shows it); at a
    /// rate or in a closed loop they are repeated
    #[arg(long, value_name = "FILE")]
    pub(super) sessions: Option<PathBuf>,

    /// Request the paths in this file in turn, instead of the targets' paths: a path on each line, with an
    /// optional number after it, how often it is requested among the others
    #[arg(long, value_name = "FILE", conflicts_with = "sessions")]
    pub(super) urls: Option<PathBuf>,

    /// The method without --sessions: any name but CONNECT, such as PATCH or PROPFIND [default: GET; with
    /// --data or --data-file, POST]
    #[arg(long, value_name = "METHOD", conflicts_with = "sessions")]
    method: Option<Method>,

    /// The body of every request without --sessions; @FILE reads it from a file, @- from standard input, byte
    /// for byte. No Content-Type is sent unless you add one with --header
    #[arg(long, value_name = "TEXT", conflicts_with = "sessions")]
    data: Option<String>,

    /// The body of every request without --sessions, from this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sessions", "data"])]
    data_file: Option<PathBuf>,

    /// A header line to add to every request; may be repeated. A header that requests have only once, such as
    /// Host or User-Agent, replaces the usual one
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<String>,

    /// The value of the Host header [default: host and port of the first target; localhost for a
    /// Unix socket]
    #[arg(long, value_name = "HOST", value_parser = values::host)]
    pub(super) host: Option<String>,

    /// Requests on each connection without --sessions [default: 1 at a rate, 1000 in a closed loop]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000),
          conflicts_with = "sessions")]
    pub(super) requests_per_connection: Option<u32>,

    /// Requests sent in a row without --sessions; the first of a connection goes alone
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=32),
          conflicts_with = "sessions")]
    burst: u32,
}

impl AskedFor {
    /// Whether the paths come from a file, and those of the targets are not used.
    pub(super) fn has_own_paths(&self) -> bool {
        self.sessions.is_some() || self.urls.is_some()
    }

    /// The sessions of the file, or sessions that request the paths of a list or of the targets. In a closed
    /// loop they have 1000 requests by default, at a rate one.
    pub(super) fn sessions(&self, targets: &[Target], closed: bool) -> Result<SessionLog> {
        if let Some(path) = &self.sessions {
            let bad = |what: String| BadInput(format!("--sessions {}: {what}", path.display()));
            let log = wsesslog::parse(&read("--sessions", path)?);
            let log = log.map_err(|mistake| bad(mistake.to_string()))?;
            if log.is_empty() {
                bail!(bad("there is no session in it".to_owned()));
            }
            return Ok(log);
        }
        let usual = if closed { 1000 } else { 1 };
        let calls = self.requests_per_connection.unwrap_or(usual) as usize;
        let mut log = Builder::new();
        let contents = match (&self.data, &self.data_file) {
            (Some(text), _) => Some(match text.strip_prefix('@') {
                Some("-") => read("--data", Path::new("/dev/stdin"))?.into(),
                Some(path) => read("--data", Path::new(path))?.into(),
                None => text.as_bytes().into(),
            }),
            (None, Some(path)) => Some(read("--data-file", path)?.into()),
            (None, None) => None,
        };
        let usual = if contents.is_some() { Method::POST } else { Method::GET };
        let method = self.method.clone().unwrap_or(usual);
        if method == Method::TRACE && contents.is_some() {
            bail!(BadInput(format!("--method TRACE: {}", wsesslog::NO_BODY)));
        }
        let request = |uri: &str| {
            let (method, contents) = (method.clone(), contents.clone());
            Request { method, uri: uri.into(), contents, ..Request::default() }
        };
        let Some(path) = &self.urls else {
            for target in targets {
                let request = log.request(request(&target.path));
                self.session(&mut log, (0..calls).map(|_| request));
            }
            return Ok(log.finish());
        };
        let urls = Urls::parse(&read("--urls", path)?);
        let urls = urls.map_err(|mistake| BadInput(format!("--urls {}: {mistake}", path.display())))?;
        let requests: Vec<_> = urls.paths().map(|uri| log.request(request(uri))).collect();
        let turns = urls.turns();
        // Each session continues where the one before it ends.
        for session in 0..sessions_for(turns.len(), calls) {
            let calls = session * calls..(session + 1) * calls;
            self.session(&mut log, calls.map(|turn| requests[turns[turn % turns.len()]]));
        }
        Ok(log.finish())
    }

    /// The header lines for every request, each ended by CRLF.
    pub(super) fn headers(&self) -> Result<String, BadInput> {
        let host = self.host.iter().map(|_| "Host");
        match fields::twice(host.chain(self.header.iter().filter_map(|line| fields::name(line).ok()))) {
            None => Ok(self.header.iter().flat_map(|line| [line, "\r\n"]).collect()),
            Some(name) => {
                let is_host = self.host.is_some() && name.eq_ignore_ascii_case("Host");
                let both = if is_host { ", or --host" } else { "" };
                Err(BadInput(format!("--header '{name}: ...' is given twice; allowed: once{both}")))
            }
        }
    }

    /// A session of these calls.
    fn session(&self, log: &mut Builder, calls: impl Iterator<Item = u32>) {
        // A burst's first call is sent alone, and the others together. To send so many in a row, each burst
        // has one call more.
        let burst = if self.burst == 1 { 1 } else { self.burst + 1 };
        for (call, number) in calls.zip(1..) {
            log.call_again(call);
            if number % burst == 0 {
                log.end_of_burst(Some(Duration::ZERO));
            }
        }
        log.end_of_session();
    }
}

fn read(option: &str, path: &Path) -> Result<Vec<u8>, BadInput> {
    fs::read(path).map_err(|error| BadInput(format!("{option} {}: {error}", path.display())))
}

fn header(text: &str) -> Result<String, String> {
    fields::name(text).map(|_| text.to_owned())
}
