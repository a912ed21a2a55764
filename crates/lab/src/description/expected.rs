//! Estimates how long an experiment takes, for `run --check`.

use std::time::Duration;

use crate::description::classes;
use crate::description::experiment::{Experiment, PointSpec};
use crate::description::lengths::Lengths;
use crate::description::load::Load;
use crate::description::setting::{Order, Setting};
use crate::unique::unique;

/// The time to start and end a server and its clients.
const AROUND: Duration = Duration::from_millis(600);

/// The time to compare a server's replies with their files.
const VERIFYING: Duration = Duration::from_millis(1_600);

/// The number of rounds that calibrate multiples.
const CALIBRATING_ROUNDS: u32 = 3;

/// The number of rates that a search for the highest one tries.
const PROBES: u32 = 12;

/// The expected time of the whole experiment if no trial is repeated, without making files and sessions.
pub fn expected(experiment: &Experiment) -> Duration {
    let Experiment { points, rounds, control, settling, confirmation, .. } = experiment;
    let mut sum = Duration::ZERO;
    let cases = |point: &PointSpec| point.servers.len() as u32;
    for point in points {
        let servers = cases(point) + u32::from(*control);
        sum += round(point, servers) * *rounds;
        if let Load::Times(_) = point.setting.load {
            sum += (trial(point.setting.lengths, 1) + AROUND) * CALIBRATING_ROUNDS;
        }
        for extra in [experiment.profile, experiment.system_calls].into_iter().flatten() {
            sum += (point.setting.lengths.warm_up + extra + AROUND) * cases(point);
        }
        if let Some(confirmation) = confirmation {
            sum += round(point, 3) * confirmation.rounds;
        }
    }
    let saturated = unique(points.iter().flat_map(|PointSpec { servers, setting, .. }| {
        let multiples = classes::multiples(&setting.clients).unwrap_or_default();
        let clients: Vec<_> = multiples.iter().map(|class| class.saturating(&setting.clients)).collect();
        let of = move |server| clients.clone().into_iter().map(move |one| (server, one, setting.lengths));
        servers.iter().flat_map(of)
    }));
    for (_, _, lengths) in saturated {
        sum += (trial(lengths, 1) + AROUND) * CALIBRATING_ROUNDS;
    }
    let verified = unique(points.iter().flat_map(|point| {
        let Setting { workload, tls, .. } = &point.setting;
        point.servers.iter().map(move |server| (server, workload, tls))
    }));
    sum += (VERIFYING + AROUND) * verified.len() as u32;
    if !settling.is_zero() {
        sum += (*settling + AROUND) * experiment.servers().len() as u32;
    }
    sum
}

/// The time of one round of a point with this many servers.
fn round(point: &PointSpec, servers: u32) -> Duration {
    let lengths = point.setting.lengths;
    let probes = if matches!(point.setting.load, Load::Most(_)) { PROBES } else { 1 };
    match point.setting.order {
        Order::Interleaved => (trial(lengths, lengths.slices) * probes + AROUND) * servers,
        Order::Sequential => (trial(lengths, 1) * probes + AROUND) * servers,
        Order::Concurrent => {
            // Three servers share each block, and the first server is in all of them.
            let blocks = servers.saturating_sub(1).div_ceil(2).max(1);
            (trial(lengths, 1) * probes + AROUND) * blocks
        }
    }
}

/// The time to measure a server once, in this many slices. The whole warm-up precedes the first slice, a
/// part of it the others.
fn trial(lengths: Lengths, slices: u32) -> Duration {
    lengths.measured + lengths.warm_up + lengths.warm_up * (slices - 1) / slices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_sum_of_all_that_is_measured() {
        let text = "title = 't'\nservers = ['nginx', 'sluice']\nrounds = 10\nwarm_up = '1 s'\n\
                    measured = '4 s'\nslices = 4\nsettling = '25 s'\n[[points]]\nworkload = 'single'\n\
                    load = '64 sessions'";
        let of = |text: &str| expected(&Experiment::parse(text).unwrap()).as_millis();
        // Three servers for 5.75 s each; two are verified, and have a long run.
        assert_eq!(of(text), 10 * 3 * 6_350 + 2 * 2_200 + 2 * 25_600);
        let alone = text.replace("settling = '25 s'", "again = false\norder = 'in-turn'");
        assert_eq!(of(&alone), 10 * 2 * 5_600 + 2 * 2_200);
        assert_eq!(of(&alone.replace("64 sessions", "2x")) - of(&alone), 3 * 5_600);
    }
}
