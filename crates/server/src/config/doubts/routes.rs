//! Routes that no request comes to, and redirects that go round in a circle. It takes time in proportion to
//! their number.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{Doubts, Site};
use crate::config::error::Place;
use crate::config::pattern::cover::Cover;
use crate::config::pattern::{Pattern, Segment};
use crate::config::settings::RouteRule;
use crate::config::target::{Part, Target};
use crate::config::typed::Item;

/// What every path is.
const EVERY: &[Segment] = &[Segment::Any];

/// How many endings of a name are looked at.
const MOST_ENDINGS: usize = 8;

/// A route, and where it was typed.
struct Route<'a> {
    rule: Cow<'a, RouteRule>,
    item: Option<&'a Item>,
}

/// Which routes take which paths, by their numbers.
#[derive(Default)]
struct Takers {
    /// Of all paths that match.
    all: Cover,
    /// Of scripts alone, by their ending.
    scripts: HashMap<String, Cover>,
}

/// Looks for them among the routes of a site.
pub(super) fn look(site: &Site<'_>, doubts: &mut Doubts) {
    let mut at = 0;
    let routes = site.files.all_routes().map(|rule| {
        // That of `php` is the one that was not typed as a route.
        let item = if matches!(rule, Cow::Owned(_)) {
            site.item("php")
        } else {
            at += 1;
            site.of_route(at - 1, "path")
        };
        Route { rule, item }
    });
    let routes: Vec<_> = routes.collect();
    let mut takers = Takers::default();
    for (number, route) in routes.iter().enumerate() {
        // Paths with encoded slashes are taken by those alone that say so.
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
        return format!("no request comes to this route: the one {place} has the same path, and comes first");
    }
    format!("no request comes to this route: the one {place}, {}, takes all of its paths", shown(other))
}

/// Which paths a route is about, for people.
fn shown(rule: &RouteRule) -> String {
    let ending = rule.script_ending().map_or(String::new(), |ending| format!(" for {ending}"));
    format!("{}{ending}", rule.path.as_ref().map_or("any path", Pattern::text))
}

/// Where something stands, for people.
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

    /// The last of those that take all paths of a route between them.
    fn of_all(&self, rule: &RouteRule) -> Option<usize> {
        let of = |way| self.of(way, rule.ignore_case, rule.script_ending());
        match &rule.path {
            None => of(EVERY),
            Some(path) => path.ways().map(of).collect::<Option<Vec<_>>>()?.into_iter().max(),
        }
    }

    /// The first that takes whatever matches in one way, or those that are scripts with an ending.
    fn of(&self, way: &[Segment], ignores_case: bool, ending: Option<&str>) -> Option<usize> {
        let own = if ignores_case { String::new() } else { way.last().map(literal_end).unwrap_or_default() };
        // A name that is nothing but an ending is no script's.
        let dots = own.rmatch_indices('.').map(|(at, _)| at).take(MOST_ENDINGS);
        let is_whole = |at: usize| at == 0 && matches!(way.last(), Some(Segment::Name(_)));
        let endings = dots.filter(|at| !is_whole(*at)).map(|at| &own[at..]).chain(ending);
        let of_scripts = endings.filter_map(|ending| self.scripts.get(ending)?.of(way, ignores_case));
        of_scripts.chain(self.all.of(way, ignores_case)).min()
    }
}

/// What each name ends with that a segment stands for.
fn literal_end(segment: &Segment) -> String {
    match segment {
        Segment::Any => String::new(),
        Segment::Name(name) => String::from_utf8_lossy(name).into_owned(),
        Segment::Like(name) => name.literal_end(),
    }
}

/// Looks for redirects whose clients come back to them.
fn look_for_circles(routes: &[Route<'_>], takers: &Takers, doubts: &mut Doubts) {
    let next = |route: &Route<'_>| takers.of(&led_to(route.rule.redirect.as_ref()?)?, false, None);
    let next: Vec<_> = routes.iter().map(next).collect();
    // By which walk each was passed.
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
            [other] => format!(", by way of the one {}", line(routes[other].item)),
            [other, .., last] => {
                let (other, last) = (line(routes[other].item), line(routes[last].item));
                format!(", by way of {} others, from the one {other} to the one {last}", circle.len())
            }
        };
        let what =
            format!("this redirect leads back to its own route{by}: clients go round until they give up");
        doubts.add(routes[at].item, what);
    }
}

/// What a redirect leads to below this site, or more. `None`: somewhere else, or it can't be told.
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
            // It begins with a slash, and one is enough where two meet.
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
