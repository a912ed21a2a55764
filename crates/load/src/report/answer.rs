//! The answer of a run in words that can be used: how much a server bears, from a closed loop, or how it
//! served what is in a log.

use super::validity::{MAY_WAIT, more_of_a_generator};
use super::{Facts, reasons_against, short_of_cpu, without_success};
use crate::measures::Measures;
use crate::record::Outcome;

/// The answer of a run whose connections ask again at once, or that replays a log; `None` of any other, and
/// of one that is no measurement. If one CPU of the generator was full and nothing else is wrong, it is that
/// the server bears so much at least.
pub(super) fn answer(measures: &Measures, facts: &Facts) -> Option<String> {
    // Sessions of a file may have people think.
    let asks_again = facts.model == "closed" && facts.unit != "sessions" && facts.classes.is_empty();
    let replies = measures.flow.replies();
    let is_replay = facts.arrivals.as_deref() == Some("logged");
    if !(asks_again || is_replay) || replies == 0 || without_success(measures, facts).is_some() {
        return None;
    }
    if is_replay {
        return reasons_against(measures, facts).is_empty().then(|| replayed(measures));
    }
    let per_s = format!("{:.0} replies/s", replies as f64 / facts.measured_s());
    let invalid = reasons_against(measures, facts);
    let waited = measures.pressure.waited_part();
    let was_kept_from_it = waited > MAY_WAIT;
    if invalid.is_empty() && !was_kept_from_it {
        let connections = facts.connections.unwrap_or(0);
        return Some(format!(
            "the server gave {per_s} to {connections} connections, each sending its next request after a \
             reply. If more connections (-c {}) reach no higher rate, this is the server's capacity.",
            u64::from(connections) * 2
        ));
    }
    let short = short_of_cpu(measures, facts);
    if !invalid.iter().all(|reason| short.contains(reason)) {
        return None;
    }
    if was_kept_from_it {
        return Some(format!(
            "the server can give at least {per_s}. The generator could not send more, as other programs had \
             its CPU for {:.0}% of the time. Stop them, and keep the server off that CPU (taskset -c). \
             sluicelab doctor shows whether the machine is quiet.",
            waited * 100.0
        ));
    }
    let more = more_of_a_generator(facts);
    let local = requested(facts).filter(|url| is_here(url));
    let cost = local.map_or_else(String::new, |url| {
        format!(
            " Or calculate how many replies a CPU of the server can give from the CPU time for each: \
             sluicelab compare \
             --quick '{url} pid=N' '{url} pid=N', where N is its process."
        )
    });
    Some(format!(
        "the server can give at least {per_s}. The generator could not send more, as it had no CPU time \
         left. To find out whether the server can give more, {more}.{cost}"
    ))
}

/// How the server served what is in a log.
fn replayed(measures: &Measures) -> String {
    let (issued, answered) = (measures.cohort.issued, measures.cohort.outcomes.of(Outcome::Reply));
    let good = measures.cohort.statuses[1];
    let others =
        if good == answered { String::new() } else { format!(", {good} of them with a status of 2xx") };
    let [half, most] = [50.0, 99.0].map(|percent| measures.cohort.corrected_times.percentile_ms(percent));
    format!(
        "the server answered {answered} of the log's {issued} requests{others}. Half of the replies came \
         within {half:.1} ms of the log's times, 99% within {most:.1} ms."
    )
}

/// The requested URL as it was typed; if none was, the server's with a path to be filled in.
fn requested(facts: &Facts) -> Option<String> {
    let server = facts.targets.first()?;
    let typed = facts.command.iter().find(|word| word.starts_with(&format!("{server}/")));
    Some(typed.cloned().unwrap_or_else(|| format!("{server}/PATH")))
}

/// Whether it is at an address that `sluicelab compare` takes a running server at.
fn is_here(target: &str) -> bool {
    let host = target.strip_prefix("http://").unwrap_or_default();
    host.starts_with("127.") || host.starts_with("[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn a_replay_answers_with_what_came_of_the_log() {
        let (measures, mut facts) = sample();
        facts.arrivals = Some("logged".into());
        let told = answer(&measures, &facts).unwrap();
        let expected =
            "the server answered 90 of the log's 100 requests. Half of the replies came within 2.0 ms";
        assert!(told.starts_with(expected), "{told}");
    }

    #[test]
    fn a_full_generator_answers_with_a_lower_bound() {
        let (mut measures, mut facts) = sample();
        assert_eq!(answer(&measures, &facts), None, "sessions are no closed loop");
        (facts.model, facts.unit) = ("closed".into(), "connections".into());
        (facts.connections, facts.outcome.due_sessions) = (Some(64), None);
        let told = answer(&measures, &facts).unwrap();
        assert!(told.starts_with("the server gave 9 replies/s to 64 connections"), "{told}");
        assert!(told.contains("(-c 128)"), "{told}");
        facts.outcome.cpu_s = vec![(6.0, 3.9)];
        facts.machine.cores = 4;
        facts.command.push("http://127.0.0.1:80/f.bin".into());
        let told = answer(&measures, &facts).unwrap();
        for words in [
            "the server can give at least 9 replies/s. ",
            "more CPUs that the server does not need (--cpus LIST; there are 4).",
            "sluicelab compare --quick 'http://127.0.0.1:80/f.bin pid=N' 'http://127.0.0.1:80/f.bin pid=N'",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
        // Allowed or not, it is a lower bound.
        let quiet = measures.pressure;
        (measures.pressure.time, measures.pressure.waited) = (100, 27);
        for may_wait in [0.05, 1.0] {
            facts.may_wait = may_wait;
            let told = answer(&measures, &facts).unwrap();
            assert!(
                told.contains("at least 9 replies/s. ") && told.contains("for 27% of the time"),
                "{told}"
            );
        }
        (measures.pressure, facts.may_wait) = (quiet, 0.05);
        facts.targets = vec!["http://192.0.2.1:80".into()];
        assert!(!answer(&measures, &facts).unwrap().contains("compare"));
        facts.outcome.stolen_s = 1.0;
        assert_eq!(answer(&measures, &facts), None, "the machine was to blame as well");
    }
}
