//! What clients got from an application, and how much of its work was wasted. This shows the effect of
//! overload.

use super::group::{Place, Scene};
use super::sample::cell;
use crate::description::quantity::GOOD;
use crate::record::outcome::{Outcome, Party, Work};

/// The headings and values for a server at a point. Empty without an application.
pub(crate) fn figures(scene: &Scene<'_>, place: Place<'_>) -> Vec<(String, String)> {
    if place.found.point.setting.application.is_none() {
        return Vec::new();
    }
    let good = |place: &Place<'_>| place.sample(GOOD.of).median();
    let everywhere = scene.groups();
    let its = everywhere.iter().flat_map(|group| group.places().collect::<Vec<_>>());
    let peak = its.filter(|other| other.name() == place.name()).filter_map(|other| good(&other));
    let peak = peak.fold(f64::MIN_POSITIVE, f64::max);
    let mut all = vec![
        ("2xx/s".to_owned(), place.sample(GOOD.of).told()),
        ("of its peak".to_owned(), cell(good(&place).map(|good| good / peak))),
    ];
    let mut median = |heading: String, value: &dyn Fn(&Outcome) -> f64| {
        all.push((heading, cell(place.sample(value).median())));
    };
    if place.series.outcomes().any(|outcome| outcome.work.is_some()) {
        let work = |of: fn(Work) -> f64| move |outcome: &Outcome| outcome.work.map_or(f64::NAN, of);
        median("computed/s".to_owned(), &work(|work| work.requests_per_s));
        median("wasted seconds/s".to_owned(), &work(|work| work.in_vain_processes));
    }
    for party in place.series.outcomes().next().iter().flat_map(|outcome| &outcome.parties) {
        let of = |value: fn(&Party) -> f64| {
            move |outcome: &Outcome| {
                let same = outcome.parties.iter().find(|other| other.name == party.name);
                same.map_or(f64::NAN, value)
            }
        };
        median(format!("{}: 2xx/s", party.name), &of(|party| party.replies_2xx_per_s));
        median(format!("{}: 2xx/call", party.name), &of(|of| of.replies_2xx_per_s / of.calls_per_s));
        median(format!("{}: p99 ms", party.name), &of(|party| party.reply_time_ms_p99));
    }
    all
}
