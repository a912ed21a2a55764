//! Routes: requests for some paths are redirected, refused, or answered with another file.

use super::error::Problem;
use super::headers::path_pattern;
use super::key::{Key, one, optional};
use super::pools;
use super::settings::RouteRule;
use super::target::{Target, literal_prefix};
use super::typed::{Item, Table, Value};
use super::values::{Kind, flag, path, path_from_root, quoted, text};

/// The keys of a route.
pub(super) const KEYS: &[Key<RouteRule>] = &[
    Key::of("routes", "path", |rule| optional(&mut rule.path, path_pattern())),
    Key::of("routes", "ignore_case", |rule| one(&mut rule.ignore_case, flag())),
    Key::of("routes", "redirect", |rule| optional(&mut rule.redirect, target())),
    Key::of("routes", "status", |rule| optional(&mut rule.status, status())),
    Key::of("routes", "pool", |rule| optional(&mut rule.pool, pools::name())),
    Key::of("routes", "scripts", |rule| optional(&mut rule.scripts, pools::ending())),
    Key::of("routes", "program", |rule| optional(&mut rule.program, path())),
    Key::of("routes", "files_first", |rule| one(&mut rule.files_first, flag())),
    Key::of("routes", "encoded_slashes", |rule| one(&mut rule.encoded_slashes, flag())),
    Key::of("routes", "fallback", |rule| {
        optional(&mut rule.fallback, Kind::new(|path: &String| quoted(path), path_from_root))
    }),
];

/// Statuses of redirects (RFC 9110 section 15.4).
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

/// Settings of a route that contradict each other.
pub(super) fn contradictions(rule: &RouteRule, item: &Item, table: &Table) -> Vec<Problem> {
    // Values that are wrong by themselves are already reported.
    let is_said = |key| table.contains_key(key);
    let problem = match rule {
        _ if is_said("fallback") && (is_said("redirect") || is_said("status")) => {
            let why = "contradiction: a route answers with another file, or with a redirect or a status, \
                not both";
            item.problem_of("fallback", why)
        }
        _ if is_said("pool") && (is_said("redirect") || is_said("status")) => {
            let why = "contradiction: a route answers with an application, or with a redirect or a status, \
                not both";
            item.problem_of("pool", why)
        }
        _ if is_said("program") && (is_said("scripts") || is_said("fallback")) => {
            let why = "contradiction: either one program answers all requests, or scripts that may be \
                missing do";
            item.problem_of("program", why)
        }
        _ if !is_said("pool") && (is_said("scripts") || is_said("program")) => {
            let key = if is_said("scripts") { "scripts" } else { "program" };
            item.problem_of(key, "it needs a pool that runs it: add pool = \"NAME\"")
        }
        _ if rule.files_first && (!is_said("pool") || is_said("scripts") || is_said("program")) => {
            let why = "it needs a pool with protocol = \"http\": add pool = \"NAME\"";
            item.problem_of("files_first", why)
        }
        _ if rule.encoded_slashes && !is_said("pool") && !is_said("fallback") => {
            let why = "no file has a slash in its name: it works only with pool = \"NAME\" or fallback = \
                \"/FILE\"";
            item.problem_of("encoded_slashes", why)
        }
        RouteRule { status: Some(status), .. } if is_said("redirect") && !REDIRECTS.contains(status) => {
            item.problem_of("status", "not the status of a redirect; allowed: 301, 302, 303, 307, 308")
        }
        RouteRule { status: Some(status), .. } if !is_said("redirect") && REDIRECTS.contains(status) => {
            item.problem_of("status", "a redirect needs a target: add redirect = \"/where\"")
        }
        RouteRule { path, redirect: Some(target), .. }
            if target.asks_for_rest()
                && literal_prefix(path.as_ref().map_or("", |path| path.text())).is_none() =>
        {
            let why = "{rest} is what wildcards match, and the path of this route has none";
            item.problem_of("redirect", why)
        }
        _ => return Vec::new(),
    };
    vec![problem]
}

fn target() -> Kind<Target> {
    Kind::new(|target: &Target| quoted(&target.to_string()), |item| Target::read(&text(item)?))
}

fn status() -> Kind<u16> {
    let is_redirect = |status: i64| REDIRECTS.iter().any(|known| i64::from(*known) == status);
    Kind::new(u16::to_string, move |item| match item.value {
        Value::Integer(status) if (400..=599).contains(&status) || is_redirect(status) => Ok(status as u16),
        _ => Err("allowed: 400 to 599, and with redirect 301, 302, 303, 307, 308".to_owned()),
    })
}
