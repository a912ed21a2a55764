//! Whether a run's figures tell of the server, or of the generator: it may have been short of its CPU, of
//! ports or descriptors, or late.
//!
//! A *reason* makes the run invalid. A *remark* says which of the figures are not to be trusted, while the
//! others are.

use super::facts::unit;
use super::{Facts, RunOutcome};
use crate::measures::{Measures, Sessions};
use crate::record::Outcome;

/// Part of its time that a thread may be busy before its core is short.
const BUSY: f64 = 0.97;
/// Part of the seconds in which a thread may want its core all the time, to run or because somebody else
/// does.
const SATURATED: f64 = 0.05;
/// Part of the time for which a generator that has its core for itself may wait for it.
pub const MAY_WAIT: f64 = 0.05;
/// Lateness from which a session counts as late, in milliseconds.
const LATE_MS: f64 = 5.0;
/// Part of the sessions that may be late.
const LATE: f64 = 0.01;
/// Part of the sessions that may be late without a remark on the last of the percentiles.
const LATE_UNREMARKED: f64 = 0.001;
/// Part of the sessions that may be missing.
const MISSING: f64 = 0.01;
/// Part of the sessions that may go on when the measured time is over, without a remark.
const OUTLASTING: f64 = 0.2;
/// Part of the time that may be stolen.
const STOLEN: f64 = 0.05;
/// The unit in which the kernel counts stolen time, in seconds (`proc_stat(5)`). In a short run a single one
/// exceeds what may be stolen, and may be counted for much less.
const TICK: f64 = 0.01;

/// Why the figures tell of the generator rather than of the server; empty if they don't.
pub fn reasons_against(measures: &Measures, facts: &Facts) -> Vec<String> {
    if let Some(reason) = nothing_measured(measures, facts) {
        return vec![reason];
    }
    let mut reasons = short_of_cpu(measures, facts);
    if facts.may_wait < 1.0 {
        reasons.extend(late(measures, facts));
    }
    let RunOutcome { stolen_s, .. } = &facts.outcome;
    let stolen = stolen_s / (facts.measured_s() * facts.cpus.len() as f64);
    if stolen > STOLEN && *stolen_s > TICK * 1.5 {
        let (found, allowed) = beside(stolen, STOLEN);
        reasons.push(format!(
            "the hypervisor took {found}% of the generator's CPU time (at most {allowed}% is allowed)"
        ));
    }
    let ports = ("ports", "name more addresses with --source, such as 127.0.0.2-127.0.0.9");
    let descriptors = ("descriptors", "shorten --timeout, reduce the load, or raise the limit (ulimit -n)");
    for (outcome, (what, hint)) in [(Outcome::NoPort, ports), (Outcome::NoDescriptor, descriptors)] {
        let count = measures.flow.outcomes.of(outcome) + measures.flow.handshakes.of(outcome);
        if count > 0 {
            reasons.push(format!(
                "the generator ran out of {what}: {count} connections did not fit ({}); {hint}",
                outcome.name()
            ));
        }
    }
    reasons
}

/// Why there are no figures at all, if the run was over too early for that.
pub(super) fn nothing_measured(measures: &Measures, facts: &Facts) -> Option<String> {
    let RunOutcome { interrupted, duration_s, .. } = facts.outcome;
    let handshakes = measures.flow.handshakes.all();
    let nothing = measures.cohort.issued == 0 && measures.flow.replies() == 0 && handshakes == 0;
    match (interrupted, duration_s <= facts.warm_up_s) {
        (true, in_warm_up) if nothing => {
            let when = if in_warm_up { "in the warm-up" } else { "at once" };
            Some(format!("interrupted {when}: nothing was measured"))
        }
        (_, true) => Some("the run ended before its warm-up: nothing was measured".to_owned()),
        _ => None,
    }
}

/// Sessions that the generator started late, or not at all.
fn late(measures: &Measures, facts: &Facts) -> Vec<String> {
    let mut reasons = Vec::new();
    let Some(due) = facts.outcome.due_sessions else { return reasons };
    let unit = unit(facts);
    let (late, arrived) = (measures.lateness.count_above_ms(LATE_MS), measures.lateness.count());
    if is_more_than_chance(late, arrived, LATE) {
        let hint = if facts.realtime { "" } else { "; --realtime may help" };
        reasons.push(format!(
            "{late} of {arrived} {unit} arrived more than {LATE_MS} ms late ({:.0}% may be{hint})",
            LATE * 100.0
        ));
    }
    let missing = due.saturating_sub(measures.sessions.arrived);
    if missing as f64 > due as f64 * MISSING {
        reasons.push(format!("{missing} of {due} {unit} that were due did not arrive"));
    }
    reasons
}

/// The reasons that say that the generator was short of its CPU. Late sessions are among them where it may
/// wait for its CPU all the time, as on CPUs that servers use as well.
pub fn short_of_cpu(measures: &Measures, facts: &Facts) -> Vec<String> {
    let mut reasons = Vec::new();
    if nothing_measured(measures, facts).is_some() {
        return reasons;
    }
    for ((user, system), cpu) in facts.outcome.cpu_s.iter().zip(&facts.cpus) {
        let busy = (user + system) / facts.measured_s();
        if busy > BUSY {
            let (found, _) = beside(busy, BUSY);
            reasons.push(format!("the generator's CPU {cpu} was full ({found}% busy)"));
        }
    }
    if let Some(reason) = reasons.last_mut() {
        reason.push_str(&what_saturation_means(facts));
    }
    let pressure = &measures.pressure;
    // Who may wait all the time may want its core all the time, as those do who have a server's: what they
    // can't do more of is running.
    let saturated = if facts.may_wait < 1.0 { pressure.saturated } else { pressure.ran_throughout };
    if reasons.is_empty() && saturated as f64 > pressure.seconds as f64 * SATURATED {
        reasons.push(format!(
            "the generator's CPU was full in {saturated} of {} seconds (it ran for {:.1} s and waited for \
             {:.1} s){}",
            pressure.seconds,
            pressure.ran as f64 / 1e9,
            pressure.waited as f64 / 1e9,
            what_saturation_means(facts)
        ));
    }
    // What a client does is delayed by as much on average; a closed loop has no schedule that would show it.
    if pressure.waited_part() > facts.may_wait {
        let (found, allowed) = beside(pressure.waited_part(), facts.may_wait);
        reasons.push(format!(
            "the generator waited for its CPU behind other programs for {found}% of the time (at most \
             {allowed}% is \
             allowed): times are too long, and rates may be too low; name CPUs that nothing else uses \
             (--cpus)"
        ));
    }
    if facts.may_wait >= 1.0 {
        reasons.extend(late(measures, facts));
    }
    reasons
}

/// A part and the most that is allowed, in percent, with the digits that tell them apart.
fn beside(found: f64, allowed: f64) -> (String, String) {
    let (found, allowed) = (found * 100.0, allowed * 100.0);
    (units::print_beside(found, allowed, 0), format!("{}", (allowed * 1e6).round() / 1e6))
}

/// What figures tell of a server whose generator's CPU is full, and what to do.
fn what_saturation_means(facts: &Facts) -> String {
    let more = more_of_a_generator(facts);
    if facts.model == "closed" {
        ": the server may be faster, so the replies per second are a lower bound, and times are too long"
            .to_owned()
    } else {
        format!(": times are too long; {more}, or ask at a lower rate (--rate)")
    }
}

/// How a generator gets more CPU time.
pub(super) fn more_of_a_generator(facts: &Facts) -> String {
    let (threads, cores) = (facts.cpus.len(), facts.machine.cores);
    if threads < cores {
        format!("give it more CPUs that the server does not need (--cpus LIST; there are {cores})")
    } else {
        "generate load on a machine with more CPUs".to_owned()
    }
}

/// What of the figures is the generator's, where the others stand.
pub fn remarks_on(measures: &Measures, facts: &Facts) -> Vec<String> {
    let lateness = &measures.lateness;
    let late = lateness.count_above_ms(LATE_MS);
    let remarkable = facts.outcome.due_sessions.is_some()
        && late as f64 > lateness.count() as f64 * LATE_UNREMARKED
        && !is_more_than_chance(late, lateness.count(), LATE);
    let late = remarkable.then(|| {
        format!(
            "{late} of {} {} arrived more than {LATE_MS} ms late, by up to {:.1} ms: times from the \
             intended start beyond p99 may be caused by the generator",
            lateness.count(),
            unit(facts),
            lateness.percentile_ms(100.0)
        )
    });
    late.into_iter().chain(outlasting(measures, facts)).collect()
}

/// Sessions that go on when the measured time is over: what they ask for then is no part of the figures.
fn outlasting(measures: &Measures, facts: &Facts) -> Option<String> {
    let Sessions { arrived, unfinished, .. } = measures.sessions;
    let is_long = facts.outcome.due_sessions.is_some() && unfinished as f64 > arrived as f64 * OUTLASTING;
    let seconds = facts.measured_s();
    is_long.then(|| {
        format!(
            "{unfinished} {} were unfinished at the end of the measured time ({arrived} had arrived in it): \
             {seconds:.0} s are too short for them, so more and more of them overlap; measure for longer \
             (--duration), and start measuring when as many end as arrive (--warm-up)",
            unit(facts)
        )
    })
}

/// Whether so many `found` of `all` are more than one in twenty runs would have by chance if `part` of all
/// are on average: the upper tail of Poisson's distribution. A single one of a hundred is not.
fn is_more_than_chance(found: u64, all: u64, part: f64) -> bool {
    /// From this mean on, the normal distribution does as well, and the other's first term does no more.
    const LARGE: f64 = 100.0;
    const CHANCE: f64 = 0.05;
    const STANDARD_NORMAL: f64 = 1.645;
    let mean = all as f64 * part;
    if mean > LARGE {
        return found as f64 > mean + STANDARD_NORMAL * mean.sqrt();
    }
    let terms = (1..=found).scan((-mean).exp(), |term, number| {
        let this = *term;
        *term *= mean / number as f64;
        Some(this)
    });
    1.0 - terms.sum::<f64>() < CHANCE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_generator_that_fell_short_is_to_blame() {
        let (measures, mut facts) = sample();
        let of = |facts: &Facts| reasons_against(&measures, facts).concat();
        assert_eq!(of(&facts), "");
        facts.outcome.cpu_s = vec![(6.0, 3.9)];
        assert!(of(&facts).contains("99% busy): times are too long; "), "{}", of(&facts));
        (facts.model, facts.machine.cores) = ("closed".into(), 4);
        let told = of(&facts);
        let bound = "99% busy): the server may be faster, so the replies per second are a lower bound, and";
        assert!(told.contains(bound), "{told}");
        facts.model = "sessions".into();
        assert!(of(&facts).contains("(--cpus LIST; there are 4), or ask at a lower rate"), "{}", of(&facts));
        facts.machine.cores = 1;
        assert!(of(&facts).contains("a machine with more CPUs, or"));
        facts.outcome.cpu_s = vec![(1.0, 1.0)];
        facts.outcome.due_sessions = Some(200);
        assert!(of(&facts).contains("100 of 200 sessions that were due did not arrive"));
        facts.outcome.due_sessions = None;
        facts.outcome.stolen_s = 1.0;
        assert!(of(&facts).contains("took 10% of the generator's CPU time (at most 5% is allowed)"));
        facts.outcome.stolen_s = 0.503;
        assert!(of(&facts).contains("took 5.03% of"), "{}", of(&facts));
    }

    #[test]
    fn one_tick_is_no_theft_in_a_short_run() {
        let (measures, mut facts) = sample();
        facts.outcome.duration_s = facts.warm_up_s + 0.15;
        for (stolen_s, is_theft) in [(0.01, false), (0.02, true)] {
            facts.outcome.stolen_s = stolen_s;
            let reasons = reasons_against(&measures, &facts).concat();
            assert_eq!(reasons.contains("the hypervisor took"), is_theft, "{reasons}");
        }
    }

    #[test]
    fn late_sessions_lack_cpu_time_where_servers_have_the_cpu_as_well() {
        let (mut measures, mut facts) = sample();
        for _ in 0..5 {
            measures.lateness.record(6 * MS);
        }
        for (may_wait, lacks) in [(MAY_WAIT, false), (1.0, true)] {
            facts.may_wait = may_wait;
            assert_eq!(reasons_against(&measures, &facts).len(), 1);
            assert_eq!(!short_of_cpu(&measures, &facts).is_empty(), lacks);
        }
    }

    #[test]
    fn waiting_for_the_core_tells_in_a_closed_loop_too() {
        let (mut measures, mut facts) = sample();
        facts.outcome.due_sessions = None;
        measures.pressure.time = 10_000 * MS;
        for (waited, starved) in [(400 * MS, false), (600 * MS, true)] {
            measures.pressure.waited = waited;
            assert_eq!(!reasons_against(&measures, &facts).is_empty(), starved);
        }
        facts.may_wait = 0.1;
        assert_eq!(reasons_against(&measures, &facts), [""; 0]);
    }

    #[test]
    fn a_core_that_may_be_waited_for_all_the_time_is_saturated_by_running() {
        let (mut measures, mut facts) = sample();
        let saturated = |measures: &Measures, facts: &Facts| {
            reasons_against(measures, facts).concat().contains("was full in 3 of 10 seconds")
        };
        measures.pressure.seconds = 10;
        measures.pressure.saturated = 3;
        for (may_wait, is_saturated) in [(MAY_WAIT, true), (0.6, true), (1.0, false)] {
            facts.may_wait = may_wait;
            assert_eq!(saturated(&measures, &facts), is_saturated);
        }
        measures.pressure.ran_throughout = 3;
        assert!(saturated(&measures, &facts));
    }

    #[test]
    fn a_late_session_is_an_accident_and_many_are_a_fault() {
        let (mut measures, facts) = sample();
        let mut found = Vec::new();
        for _ in 0..5 {
            // A hundred were there in time.
            measures.lateness.record(6 * MS);
            let of = |sentences: Vec<String>| !sentences.is_empty();
            found.push((of(reasons_against(&measures, &facts)), of(remarks_on(&measures, &facts))));
        }
        assert_eq!(found, [(false, true), (false, true), (false, true), (true, false), (true, false)]);
    }

    #[test]
    fn sessions_that_outlast_the_run_are_remarked_on() {
        let (mut measures, mut facts) = sample();
        let told = |measures: &Measures, facts: &Facts| remarks_on(measures, facts).concat();
        measures.sessions.unfinished = 20;
        assert_eq!(told(&measures, &facts), "");
        measures.sessions.unfinished = 21;
        let said = told(&measures, &facts);
        assert!(said.starts_with("21 sessions were unfinished at the end of the measured time (100"));
        // In a closed loop there is always one under way on each connection.
        facts.outcome.due_sessions = None;
        assert_eq!(told(&measures, &facts), "");
    }

    #[test]
    fn chance_has_poissons_tail() {
        // P(X >= 4) of mean 1 is 0.019, P(X >= 3) is 0.080.
        assert!(is_more_than_chance(4, 100, 0.01) && !is_more_than_chance(3, 100, 0.01));
        // P(X >= 16) of mean 10 is 0.049, P(X >= 15) is 0.083.
        assert!(is_more_than_chance(16, 1000, 0.01) && !is_more_than_chance(15, 1000, 0.01));
        assert!(!is_more_than_chance(0, 0, 0.01) && !is_more_than_chance(1, 50, 0.01));
        assert!(
            is_more_than_chance(20_000, 1_000_000, 0.01) && !is_more_than_chance(10_000, 1_000_000, 0.01)
        );
    }
}
