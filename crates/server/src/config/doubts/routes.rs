//! Finds routes that no request reaches, and redirects that form a loop. The time is proportional to the
//! number of routes.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{Doubts, Site};
use crate::config::error::Place;
use crate::config::pattern::cover::Cover;
use crate::config::pattern::{Pattern, Segment};
use crate::config::settings::RouteRule;
use crate::config::target::{Part, Target};
use crate::config::typed::Item;

/// A pattern that every path matches.
const EVERY: &[Segment] = &[Segment::Any];

/// How many endings of a name are examined.
const MOST_ENDINGS: usize = 8;

/// A route, and where it was typed.
struct Route<'a> {
    rule: Cow<'a, RouteRule>,
    item: Option<&'a Item>,
}

/// Finds the routes that take given paths. Routes are known by their numbers.
#[derive(Default)]
struct Takers {
    /// Routes that take every path that matches.
    all: Cover,
    /// Routes that take only scripts, by the scripts' ending.
    scripts: HashMap<String, Cover>,
}

/// Finds such routes in a site.
pub(super) fn look(site: &Site<'_>, doubts: &mut Doubts) {
    let mut at = 0;
    let routes = site.files.all_routes().map(|rule| {
        // The routes of `php` and `proxy` are the only ones that were not typed as routes.
        let item = if matches!(rule, Cow::Owned(_)) {
            site.item(if rule.is_proxied { "proxy" } else { "php" })
        } else {
            at += 1;
            site.of_route(at - 1, "path")
        };
        Route { rule, item }
    });
    let routes: Vec<_> = routes.collect();
    let mut takers = Takers::default();
    for (number, route) in routes.iter().enumerate() {
        // Only routes that set `encoded_slashes` take paths with encoded slashes.
        let takes_more = |by: &usize| route.rule.encoded_slashes && !routes[*by].rule.encoded_slashes;
        match takers.of_all(&route.rule).filter(|by| !takes_more(by)) {
            Some(by) => doubts.add(route.item, unreachable(route, &routes[by])),
            None => takers.insert(number, &route.rule),
        }
    }
    look_for_circles(&routes, &takers, doubts);
}

fn unreachable(route: &Route<'_>, by: &Route<'_>) -> String {
    let (own, other) = (&route.rule, &by.rule);
    let place = line(by.item);
    if own.path == other.path && own.ignore_case == other.ignore_case {
        return format!("no request reaches this route: the one {place} has the same path, and comes first");
    }
    format!("no request reaches this route: the one {place}, {}, matches all of its paths", shown(other))
}

/// The paths that a route applies to, as text.
fn shown(rule: &RouteRule) -> String {
    let ending = rule.script_ending().map_or(String::new(), |ending| format!(" for {ending}"));
    format!("{}{ending}", rule.path.as_ref().map_or("any path", Pattern::text))
}

/// The place of an item, as text.
fn line(item: Option<&Item>) -> String {
    match item.map(|item| &item.place) {
        Some(Place::File { line, .. }) => format!("at line {line}"),
        Some(Place::Option(option)) => format!("of {option}"),
        Some(Place::Default) | None => "before".to_owned(),
    }
}

impl Takers {
    fn insert(&mut self, number: usize, rule: &RouteRule) {
        let cover = match rule.script_ending() {
            Some(ending) => self.scripts.entry(ending.to_owned()).or_default(),
            None => &mut self.all,
        };
        cover.insert(number, rule.path.as_ref(), rule.ignore_case);
    }

    /// The last of the routes that together take all paths of this route.
    fn of_all(&self, rule: &RouteRule) -> Option<usize> {
        let of = |way| self.of(way, rule.ignore_case, rule.script_ending());
        match &rule.path {
            None => of(EVERY),
            Some(path) => path.ways().map(of).collect::<Option<Vec<_>>>()?.into_iter().max(),
        }
    }

    /// The first route that takes all paths of this way. With an ending, only scripts with that ending
    /// count.
    fn of(&self, way: &[Segment], ignores_case: bool, ending: Option<&str>) -> Option<usize> {
        let own = if ignores_case { String::new() } else { way.last().map(literal_end).unwrap_or_default() };
        // A name that consists only of an ending is not a script.
        let dots = own.rmatch_indices('.').map(|(at, _)| at).take(MOST_ENDINGS);
        let is_whole = |at: usize| at == 0 && matches!(way.last(), Some(Segment::Name(_)));
        let endings = dots.filter(|at| !is_whole(*at)).map(|at| &own[at..]).chain(ending);
        let of_scripts = endings.filter_map(|ending| self.scripts.get(ending)?.of(way, ignores_case));
        of_scripts.chain(self.all.of(way, ignores_case)).min()
    }
}

/// The text that every name matching the segment ends with.
fn literal_end(segment: &Segment) -> String {
    match segment {
        Segment::Any => String::new(),
        Segment::Name(name) => String::from_utf8_lossy(name).into_owned(),
        Segment::Like(name) => name.literal_end(),
    }
}

/// Finds redirects that lead a client back to the same route.
fn look_for_circles(routes: &[Route<'_>], takers: &Takers, doubts: &mut Doubts) {
    let next = |route: &Route<'_>| takers.of(&led_to(route.rule.redirect.as_ref()?)?, false, None);
    let next: Vec<_> = routes.iter().map(next).collect();
    // The walk that passed each route.
    let mut passed = vec![None; routes.len()];
    for start in 0..routes.len() {
        let mut at = start;
        while let (Some(to), None) = (next[at], passed[at]) {
            passed[at] = Some(start);
            at = to;
        }
        if passed[at] != Some(start) {
            continue;
        }
        let circle: Vec<_> = std::iter::successors(next[at], |passed| next[*passed])
            .take_while(|passed| *passed != at)
            .collect();
        let by = match circle[..] {
            [] => String::new(),
            [other] => format!(", through the one {}", line(routes[other].item)),
            [other, .., last] => {
                let (other, last) = (line(routes[other].item), line(routes[last].item));
                format!(", through {} others, from the one {other} to the one {last}", circle.len())
            }
        };
        let what =
            format!("this redirect leads back to its own route{by}: clients go round until they give up");
        doubts.add(routes[at].item, what);
    }
}

/// The paths below this site that a redirect may lead to. `None`: it leads elsewhere, or the target is
/// unknown.
fn led_to(target: &Target) -> Option<Vec<Segment>> {
    let (mut path, mut is_open) = (String::new(), false);
    for part in target.parts() {
        match part {
            Part::Text(text) => match text.split_once('?') {
                Some((before, _)) => {
                    path.push_str(before);
                    break;
                }
                None => path.push_str(text),
            },
            // The request's path begins with a slash. Where two slashes meet, one is enough.
            Part::Path => is_open = true,
            Part::Rest if path.ends_with('/') => is_open = true,
            Part::Rest => return None,
        }
        if is_open {
            break;
        }
    }
    let path = path.strip_prefix('/').or(Some("").filter(|_| is_open && path.is_empty()))?;
    let path = if is_open { path.strip_suffix('/').unwrap_or(path) } else { path };
    let names = path.split('/').filter(|_| !is_open || !path.is_empty());
    let is_plain = |name: &str| !name.contains('%') && !matches!(name, "." | "..");
    if !names.clone().all(is_plain) {
        return None;
    }
    let names = names.map(|name| Segment::Name(name.as_bytes().into()));
    Some(names.chain(is_open.then_some(Segment::Any)).collect())
}
