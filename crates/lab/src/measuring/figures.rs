//! Makes the [`Outcome`] of a trial, from the generator's results and from two [`Sight`]s of the server,
//! one at each edge of the measured window.

use std::collections::BTreeSet;
use std::mem;

use anyhow::{Context, Result};
use machine::cpu::{CpuTicks, seconds as seconds_of};
use results::load::{Checked, Curve, Distribution, Results, Tls};
use results::status::Snapshot;
use results::{By, StatusClass};
use serde_json::Value;

use crate::description::setting::Rules;
use crate::measuring::generator::Watched;
use crate::measuring::sight::Sight;
use crate::measuring::turns;
use crate::measuring::wrk;
use crate::record::outcome::{Accepting, Cpu, Given, Handshakes, OfSize, Outcome, Party, Slice, Times, Work};
use crate::statistics;
use crate::unique::unique;

/// How far from the window's edges counters may be read, as a fraction of the measured time.
const OFF: f64 = 0.05;

/// The largest part of the time for which wrk may use its CPUs, and for which the host may take away ours.
/// `sluicelab load` has the same limits.
const BUSIEST: f64 = 0.97;
const MOST_STOLEN: f64 = 0.05;

/// How many points the unserved calls of one size may lie above the average of all (Harji et al. 2012,
/// section 4; Pariag et al. 2007, section 3.4).
const UNFAIRNESS: (f64, f64) = (0.05, 0.02);

/// How many standard errors they must lie above it besides. A class with few calls would exceed that once
/// in 200 times by chance.
const ERRORS: f64 = 2.6;

/// Rules of `sluicelab load` that concern the certainty of a figure, not the quality of the server.
const NOT_THE_SERVERS: [&str; 1] = ["uncertainty of the mean"];

/// The outcome of a run with sluicelab as generator, with these quanta, by a paper's rules.
pub(crate) fn of(watched: &Watched<Sight>, turns: Option<Given>, rules: Rules) -> Result<Outcome> {
    let Watched { first: before, second: after, sample_times, results } = watched;
    let seconds = after.seconds_since(before);
    let Results { calls, replies, run, .. } = results;
    let issued = calls.issued as f64;
    let status = |class| replies.statuses[class] as f64;
    let is_closed = run.asked_requests_per_s.is_none();
    let is_bound = |reason: &String| is_closed && results.short_of_cpu.contains(reason);
    let (clients_were_short, mut invalid): (Vec<_>, Vec<_>) =
        results.invalid.iter().cloned().partition(is_bound);
    let are_none = calls.issued == 0 && results.by_class.iter().all(|class| class.calls == 0);
    invalid.extend(are_none.then(|| "no call was issued in the measured time".to_owned()));
    invalid.extend((sample_times.off_ms > OFF * seconds * 1e3).then(|| {
        let off_ms = sample_times.off_ms;
        format!("counters were read up to {off_ms:.0} ms from the edges of the measured window")
    }));
    let replies_2xx_per_s = over(status(StatusClass::Successful), replies.count as f64) * replies.per_s;
    let parties = parties(results);
    let computed = parties.iter().find(|party| party.name == COMPUTED);
    let useful = computed.map_or(replies_2xx_per_s, |computed| computed.replies_2xx_per_s);
    let asked_of = results.by_size.iter().filter(|class| class.calls > 0);
    let by_size: Vec<OfSize> = asked_of.map(of_size).collect();
    let broken: Vec<String> = match (run.asked_requests_per_s, rules) {
        (_, Rules::None) => Vec::new(),
        (Some(_), Rules::H12) => unfair(&by_size, UNFAIRNESS.0).into_iter().collect(),
        (Some(_), Rules::P07) => unfair(&by_size, UNFAIRNESS.1).into_iter().collect(),
        (None, _) => broken(results, rules),
    };
    let mut seen = of_sights((before, after), replies.per_s, turns)?;
    invalid.append(&mut seen.invalid);
    let lacked_cpu_only =
        !invalid.is_empty() && invalid.iter().all(|reason| results.short_of_cpu.contains(reason));
    Ok(Outcome {
        lacked_cpu_only,
        asked_requests_per_s: run.asked_requests_per_s,
        replies_per_s: replies.per_s,
        replies_2xx_per_s: Some(replies_2xx_per_s),
        requests_per_connection: (run.log_sessions > 0)
            .then(|| run.log_requests as f64 / run.log_sessions as f64),
        work: work(before, after, useful),
        parties,
        replies_body_mbps: Some(replies.body_mbps),
        calls_timeouts_part: over(calls.timeouts as f64, issued),
        calls_errors_part: over(calls.errors as f64, issued),
        replies_4xx_5xx_part: over(
            status(StatusClass::ClientError) + status(StatusClass::ServerError),
            issued,
        ),
        wait_ms: results.wait_ms.as_ref().map(|waits| times(&waits.times)).unwrap_or_default(),
        handshakes: results.tls.as_ref().map(|tls| handshakes(tls, results)),
        by_size,
        generator_cpu_us_per_call: results.generator.cpu_us_per_call,
        sample_times: Some(*sample_times),
        replies_each_second: whole_seconds(results),
        clients_were_short,
        invalid,
        failed: results.failed.iter().cloned().chain(broken).chain(mem::take(&mut seen.failed)).collect(),
        ..seen
    })
}

/// The outcome of a run with wrk on this many CPUs. Figures that wrk does not report are empty.
pub(crate) fn of_wrk(watched: &wrk::Watched<Sight>, cpus: usize, turns: Option<Given>) -> Result<Outcome> {
    let wrk::Watched { first: before, second: after, elapsed, cpu, told } = watched;
    let wrk::Errors { connect, read, write, timeout, status } = told.errors;
    let (requests, without_reply) = (told.requests as f64, told.errors.without_reply() as f64);
    let issued = requests + without_reply;
    // All replies came between the two readings, even if these are a little farther apart than the run is
    // long.
    let replies_per_s = requests / after.seconds_since(before);
    let seen = of_sights((before, after), replies_per_s, turns)?;
    let (mut invalid, mut failed) = (seen.invalid.clone(), seen.failed.clone());
    let busy = cpu.as_secs_f64() / (elapsed.as_secs_f64() * cpus as f64);
    let is_full = (busy > BUSIEST)
        .then(|| format!("wrk was the bottleneck: it used its CPUs for {:.1}% of the time", busy * 100.0));
    let ticks = [(after.server_cpu, before.server_cpu), (after.client_cpu, before.client_cpu)];
    let ticks = ticks.map(|(later, earlier)| later.since(earlier));
    let sum = |of: fn(CpuTicks) -> u64| ticks.into_iter().map(of).sum::<u64>() as f64;
    let stolen = over(sum(|ticks| ticks.steal), sum(CpuTicks::all));
    invalid.extend((stolen > MOST_STOLEN).then(|| {
        format!("other virtual machines of this host had the CPUs for {:.1}% of the time", stolen * 100.0)
    }));
    invalid.extend((connect > 0).then(|| {
        format!("wrk could not connect {connect} times: local ports or slots in the accept queue ran out")
    }));
    failed.extend((read + write + timeout + status > 0).then(|| {
        format!(
            "wrk counted {read} errors of reading, {write} of writing, {timeout} timeouts and {status} \
             replies of status 4xx or 5xx; none is allowed"
        )
    }));
    Ok(Outcome {
        replies_per_s: requests / told.seconds(),
        calls_timeouts_part: timeout as f64 / issued,
        calls_errors_part: without_reply / issued,
        replies_4xx_5xx_part: status as f64 / issued,
        wait_ms: told.times.clone(),
        generator_cpu_us_per_call: cpu.as_secs_f64() * 1e6 / issued,
        clients_were_short: is_full.into_iter().collect(),
        invalid,
        failed,
        ..seen
    })
}

/// The figures that two readings of counters give, with any generator.
fn of_sights((before, after): (&Sight, &Sight), replies_per_s: f64, turns: Option<Given>) -> Result<Outcome> {
    let seconds = after.seconds_since(before);
    let drops_per_s = after.drops.iter().map(|(name, count)| {
        let earlier = before.drops.get(name).copied().unwrap_or(0);
        (name.clone(), count.saturating_sub(earlier) as f64 / seconds)
    });
    let (served_replies_per_s, accepting) = accepting(before, after).unzip();
    let held = after.held.as_ref().context("the server's resources were not read")?;
    // Unknown figures are NaN, not 0.
    let seen = |value: f64| if after.is_seen { value } else { f64::NAN };
    let calls_per_s = before.calls.zip(after.calls).map(|(before, after)| after.per_s_since(&before));
    let calls_per_s = calls_per_s.transpose()?;
    Ok(Outcome {
        system_calls_per_reply: calls_per_s.map(|per_s| per_s / replies_per_s.max(1.0)),
        served_replies_per_s,
        accepting,
        drops_per_s: drops_per_s.collect(),
        cpu: cpu(before, after, replies_per_s),
        context_switches_per_s: seen(after.switches.saturating_sub(before.switches) as f64 / seconds),
        memory_mb: seen(held.memory as f64 / 1e6),
        descriptors: after.is_seen.then_some(held.descriptors),
        page_cache_mb: held.page_cache as f64 / 1e6,
        read_mb_per_s: seen(after.read.saturating_sub(before.read) as f64 / 1e6 / seconds),
        turns,
        invalid: turns.as_ref().and_then(turns::reason_against).into_iter().collect(),
        failed: want_of_memory(after.killed).into_iter().collect(),
        ..Outcome::default()
    })
}

/// The outcome of several slices: the median of each figure, so that a disturbance of one slice does not
/// show. Figures without a median are those of the first slice. The outcome is invalid, or its clients were
/// short, if most of its slices were. It has failed if any slice has.
pub(crate) fn median(mut slices: Vec<Outcome>) -> Option<Outcome> {
    if slices.len() < 2 {
        return slices.pop();
    }
    let of_most = |of: fn(&Outcome) -> &Vec<String>| {
        let all: Vec<&Vec<String>> = slices.iter().map(of).filter(|reasons| !reasons.is_empty()).collect();
        if all.len() * 2 > slices.len() { all.into_iter().flatten().cloned().collect() } else { Vec::new() }
    };
    let (invalid, short) = (of_most(|slice| &slice.invalid), of_most(|slice| &slice.clients_were_short));
    let failed: Vec<String> = slices.iter().flat_map(|slice| slice.failed.clone()).collect();
    let figures: Vec<Value> = slices.iter().filter_map(|slice| serde_json::to_value(slice).ok()).collect();
    let mut median: Outcome = serde_json::from_value(middle(&figures)).ok()?;
    median.replies_each_second = slices.iter().flat_map(|slice| slice.replies_each_second.clone()).collect();
    median.slices = slices.iter().map(slice).collect();
    median.by_size = medians_by_size(&slices);
    (median.invalid, median.clients_were_short, median.failed) = (invalid, short, failed);
    for reasons in [&mut median.invalid, &mut median.clients_were_short, &mut median.failed] {
        let mut kinds = BTreeSet::new();
        reasons.retain(|reason| kinds.insert(without_numbers(reason)));
    }
    Some(median)
}

/// The text without its numbers: reasons that differ only in numbers count as the same.
fn without_numbers(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_digit() && *letter != '.').collect()
}

fn slice(outcome: &Outcome) -> Slice {
    let Outcome { cpu, replies_per_s, .. } = outcome;
    Slice { cpu_server_us_per_reply: cpu.server_us_per_reply, replies_per_s: *replies_per_s }
}

/// The median of each number in JSON values of the same form. Where the forms differ, the first value's is
/// taken. Unknown numbers do not count.
fn middle(all: &[Value]) -> Value {
    let first = all.iter().find(|value| !value.is_null()).unwrap_or(&all[0]);
    match first {
        Value::Number(_) => {
            let median = statistics::median(all.iter().filter_map(Value::as_f64));
            // Counts stay whole numbers.
            if first.is_u64() {
                median.map_or(Value::Null, |median| (median.round() as u64).into())
            } else {
                median.into()
            }
        }
        Value::Object(first) => {
            let of = |key: &String| {
                let of_all: Vec<Value> = all.iter().map(|one| one[key].clone()).collect();
                (key.clone(), middle(&of_all))
            };
            Value::Object(first.keys().map(of).collect())
        }
        Value::Array(first) if all.iter().all(|one| one.as_array().map(Vec::len) == Some(first.len())) => {
            let of = |at| middle(&all.iter().map(|one| one[at].clone()).collect::<Vec<_>>());
            (0..first.len()).map(of).collect()
        }
        other => other.clone(),
    }
}

/// The failure of a server whose processes the kernel has killed.
pub(crate) fn want_of_memory(killed: u64) -> Option<String> {
    (killed > 0).then(|| format!("the kernel killed {killed} of its processes because memory ran out"))
}

fn times(of: &Curve) -> Times {
    Times { percentiles: of.percentiles.clone(), ..without_curve(&of.times) }
}

fn without_curve(of: &Distribution) -> Times {
    let Distribution { mean, p50, p90, p99, p999, max, .. } = *of;
    Times { mean, p50, p90, p99, p999, max, percentiles: Vec::new() }
}

/// The handshakes of a run, each second of its measured time.
fn handshakes(tls: &Tls, results: &Results) -> Handshakes {
    let per_s = |count: u64| over(count as f64, measured_s(results));
    let of = |times: Option<&Distribution>| times.map(without_curve).unwrap_or_default();
    Handshakes {
        full_per_s: per_s(tls.handshakes.full),
        resumed_per_s: per_s(tls.handshakes.resumed),
        failed_per_s: per_s(tls.handshakes.failed),
        time_ms: tls.handshake_time_ms.as_ref().map(times).unwrap_or_default(),
        full_time_ms: of(tls.full_handshake_time_ms.as_ref()),
        resumed_time_ms: of(tls.resumed_handshake_time_ms.as_ref()),
    }
}

/// The seconds of a run's measured time.
fn measured_s(results: &Results) -> f64 {
    results.run.outcome.duration_s - results.run.warm_up_s
}

/// The results of each whole second. Results begin with the run, so the first seconds are the warm-up, and
/// the last may be incomplete.
fn whole_seconds(results: &Results) -> Vec<f64> {
    let (begin, end) = (results.run.warm_up_s.ceil() as usize, results.run.outcome.duration_s as usize);
    let all = results.seconds.iter().map(|second| second.replies as f64);
    all.take(end).skip(begin).collect()
}

/// The rules that `sluicelab load` reports as broken, in a closed loop.
fn broken(results: &Results, rules: Rules) -> Vec<String> {
    let told = results.checks.iter().filter_map(|check| {
        let Checked { rule, found, allowed, remark, holds } = check;
        let (allowed, holds) = match (rules, rule.as_str()) {
            (_, rule) if NOT_THE_SERVERS.contains(&rule) => return None,
            // Any size may fail, if all do so equally.
            (Rules::P07, "failures of a size") => return None,
            (Rules::P07, "unfairness") => (UNFAIRNESS.1, *found <= UNFAIRNESS.1),
            _ => (*allowed, *holds),
        };
        (!holds).then(|| {
            let (found, allowed) = (found * 100.0, allowed * 100.0);
            let found = units::print_beside(found, allowed, 2);
            format!("{rule}: {found}%, at most {allowed:.2}% is allowed ({remark})")
        })
    });
    told.collect()
}

/// A failure if calls of one size are served less often than others, where clients come whatever the server
/// does. The lab cannot tell from outside which calls the server has read. It judges only fairness, because
/// calls that the server never read have all sizes equally. This is an approximation for every server: the
/// sizes of calls that were never answered are unknown.
fn unfair(by_size: &[OfSize], allowed: f64) -> Option<String> {
    let known = || by_size.iter().filter(|class| class.size != UNKNOWN && class.reached > 0.0);
    let sum = |of: fn(&OfSize) -> f64| known().map(of).sum::<f64>();
    let mean = over(sum(|class| class.unserved), sum(|class| class.reached));
    let part = |class: &OfSize| class.unserved / class.reached;
    let is_unfair = |class: &&OfSize| {
        let error = (mean * (1.0 - mean) / class.reached).sqrt();
        part(class) - mean > allowed + ERRORS * error
    };
    known().find(is_unfair).map(|class| {
        format!(
            "unfairness: {:.2}% of the calls for {} are not served, and {:.2}% of all calls; at most {:.0} \
             points more are allowed",
            part(class) * 100.0,
            class.size,
            mean * 100.0,
            allowed * 100.0
        )
    })
}

/// The name in `sluicelab load` for the size of calls that were never answered.
const UNKNOWN: &str = "unknown";

/// The name of the party of computed replies.
const COMPUTED: &str = "computed";

fn parties(results: &Results) -> Vec<Party> {
    let seconds = measured_s(results);
    let party = |name: &str, calls: u64, statuses: &By<StatusClass>, curve: Option<&Curve>| Party {
        name: name.to_owned(),
        calls_per_s: over(calls as f64, seconds),
        replies_2xx_per_s: over(statuses[StatusClass::Successful] as f64, seconds),
        reply_time_ms_p99: curve.map_or(f64::NAN, |curve| curve.times.p99),
        wait_ms_p99: f64::NAN,
        handshakes_per_s: None,
        percentiles: curve.map_or_else(Vec::new, |curve| curve.percentiles.clone()),
    };
    let classes = results.by_class.iter().map(|of| Party {
        wait_ms_p99: of.wait_ms.as_ref().map_or(f64::NAN, |waits| waits.times.times.p99),
        handshakes_per_s: of.handshakes.map(|count| over(count as f64, seconds)),
        ..party(&of.class, of.calls, &of.statuses, of.reply_time_ms.as_ref())
    });
    // If all replies are computed, there is nothing to separate.
    let has_files = results.by_kind.iter().any(|kind| !kind.dynamic);
    let kinds = results.by_kind.iter().filter(|_| has_files).map(|of| {
        let name = if of.dynamic { COMPUTED } else { "files" };
        party(name, of.calls, &of.statuses, of.reply_time_ms.as_ref())
    });
    classes.chain(kinds).collect()
}

fn work(before: &Sight, after: &Sight, useful_per_s: f64) -> Option<Work> {
    let seconds = after.seconds_since(before);
    let ((earlier, busy_earlier), (later, busy_later)) = before.work.zip(after.work)?;
    let (requests_per_s, busy_processes) =
        ((later - earlier) / seconds, (busy_later - busy_earlier) / seconds);
    let in_vain_processes = busy_processes * (1.0 - over(useful_per_s, requests_per_s)).max(0.0);
    Some(Work { requests_per_s, busy_processes, in_vain_processes })
}

fn of_size(class: &results::load::OfSize) -> OfSize {
    OfSize {
        size: class.size.clone(),
        calls: class.calls as f64,
        reached: class.reached as f64,
        timeouts: class.timeouts as f64,
        unserved: class.unserved as f64,
        reply_time_ms_mean: class.reply_time_ms.as_ref().map_or(f64::NAN, |curve| curve.times.mean),
        reply_time_ms_p99: class.reply_time_ms.as_ref().map_or(f64::NAN, |curve| curve.times.p99),
    }
}

/// The medians for each size, over the slices that requested it.
fn medians_by_size(slices: &[Outcome]) -> Vec<OfSize> {
    let all = || slices.iter().flat_map(|slice| &slice.by_size);
    let of = |size: &str| {
        let same = all().filter(|class| class.size == size);
        let values: Vec<Value> = same.filter_map(|class| serde_json::to_value(class).ok()).collect();
        serde_json::from_value(middle(&values)).ok()
    };
    unique(all().map(|class| class.size.as_str())).into_iter().filter_map(of).collect()
}

fn cpu(before: &Sight, after: &Sight, replies_per_s: f64) -> Cpu {
    let seconds = after.seconds_since(before);
    let seen = |value: f64| if after.is_seen { value } else { f64::NAN };
    let server_cpus = seen(after.server_ns.saturating_sub(before.server_ns) as f64 / 1e9 / seconds);
    let user = after.user_ticks.saturating_sub(before.user_ticks);
    let system = after.system_ticks.saturating_sub(before.system_ticks);
    let cpus = |ticks: u64| seconds_of(ticks) / seconds;
    let server_cpu = after.server_cpu.since(before.server_cpu);
    let client_cpu = after.client_cpu.since(before.client_cpu);
    // The `nice` time is that of the shares' fillers.
    let idle = |ticks: CpuTicks| cpus(ticks.idle + ticks.nice);
    Cpu {
        server_cpus,
        server_user_part: seen(over(user as f64, (user + system) as f64)),
        // Without replies, all CPU time was wasted.
        server_us_per_reply: server_cpus * 1e6 / replies_per_s.max(1.0),
        server_softirq_cpus: cpus(server_cpu.softirq),
        server_io_wait_cpus: cpus(server_cpu.io_wait),
        server_idle_cpus: idle(server_cpu),
        client_softirq_cpus: cpus(client_cpu.softirq),
        client_idle_cpus: idle(client_cpu),
    }
}

/// The status of sluice: replies of all classes per second, and how the server accepted connections. `None`
/// for other servers.
fn accepting(before: &Sight, after: &Sight) -> Option<(f64, Accepting)> {
    let (before, after) = before.status.as_ref().zip(after.status.as_ref())?;
    let grown = |of: fn(&Snapshot) -> u64| of(after) as f64 - of(before) as f64;
    // The supervisor takes time to answer, and says when it read the values.
    let seconds = grown(|status| status.time_unix_ms) / 1e3;
    let per_s = |of: fn(&Snapshot) -> u64| grown(of) / seconds;
    let accepts_per_s = per_s(|status| status.total.accepts);
    let accept_phases_per_s = per_s(|status| status.total.accept_phases);
    let accepts_parts = after.workers.iter().enumerate().map(|(number, worker)| {
        // A worker that started in between has no earlier values.
        let earlier = before.workers.get(number).map_or(0, |worker| worker.counts.accepts);
        over((worker.counts.accepts as f64 - earlier as f64) / seconds, accepts_per_s)
    });
    let this = Accepting {
        accepts_per_s,
        accept_phases_per_s,
        accepts_per_phase: over(accepts_per_s, accept_phases_per_s),
        phases_per_s: per_s(|status| status.total.phases),
        event_waits_per_s: per_s(|status| status.total.event_waits),
        accepts_parts: accepts_parts.collect(),
    };
    Some((per_s(|status| status.total.replies.sum()), this))
}

/// A quotient that is 0 where the divisor is 0, because JSON cannot write infinity or NaN. With a process
/// for each connection there are no accept phases.
fn over(one: f64, other: f64) -> f64 {
    if other > 0.0 { one / other } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use results::load;

    use super::*;
    use crate::description::quantity::Quantity;
    use crate::record::outcome::SampleTimes;
    use crate::tests::{outcome, outcome_but, outcome_sampled_off, results, sight};

    #[test]
    fn samples_that_missed_the_window_are_a_reason() {
        assert!(outcome_sampled_off(5.0, &[], 99.0).is_valid());
        let outcome = outcome_sampled_off(5.0, &["late"], 101.0);
        assert_eq!(
            outcome.invalid[1],
            "counters were read up to 101 ms from the edges of the measured window"
        );
    }

    #[test]
    fn what_nobody_knows_of_a_server_is_not_nothing() {
        let begun = Instant::now();
        let unseen = |at, accepts| Sight { is_seen: false, ..sight(at, accepts) };
        let (first, second) = (unseen(begun, 100), unseen(begun + Duration::from_secs(2), 300));
        let mut results = results(5.0, &[]);
        results.wait_ms = None;
        let sample_times = SampleTimes { began_after_ms: 1.0, off_ms: 1.0 };
        let outcome = of(&Watched { first, second, sample_times, results }, None, Rules::default()).unwrap();
        let told = serde_json::to_value(&outcome).unwrap();
        for path in [
            "/memory_mb",
            "/descriptors",
            "/context_switches_per_s",
            "/read_mb_per_s",
            "/cpu/server_cpus",
            "/cpu/server_us_per_reply",
            "/wait_ms/p50",
            "/wait_ms/max",
        ] {
            assert!(told.pointer(path).is_some_and(Value::is_null), "{path}: {told}");
        }
        let again: Outcome = serde_json::from_value(told).unwrap();
        assert!(again.descriptors.is_none() && again.wait_ms.p99.is_nan() && again.read_mb_per_s.is_nan());
    }

    #[test]
    fn a_server_that_lost_a_process_for_want_of_memory_has_failed() {
        let begun = Instant::now();
        let results = results(5.0, &[]);
        assert_eq!(broken(&results, Rules::H12), ["unfairness: 30.00%, at most 5.00% is allowed (9 bytes)"]);
        let first = sight(begun, 100);
        let second = Sight { killed: 2, ..sight(begun + Duration::from_secs(2), 300) };
        let sample_times = SampleTimes { began_after_ms: 1.0, off_ms: 1.0 };
        let outcome = of(&Watched { first, second, sample_times, results }, None, Rules::H12).unwrap();
        assert!(outcome.is_valid());
        assert_eq!(outcome.failed, ["the kernel killed 2 of its processes because memory ran out"]);
    }

    #[test]
    fn handshakes_are_counted_each_second_and_timed() {
        let begun = Instant::now();
        let mut results = results(5.0, &[]);
        let times = |p50| Distribution { p50, ..Distribution::default() };
        let of_all = Curve { times: times(2.0), percentiles: vec![(0.5, 2.0)] };
        let counts = load::Handshakes { full: 10, resumed: 25, failed: 5, ..load::Handshakes::default() };
        results.tls = Some(Tls {
            handshakes: counts,
            handshake_time_ms: Some(of_all),
            full_handshake_time_ms: Some(times(3.0)),
            ..Tls::default()
        });
        let sample_times = SampleTimes { began_after_ms: 1.0, off_ms: 1.0 };
        let (first, second) = (sight(begun, 100), sight(begun + Duration::from_secs(2), 300));
        let outcome = of(&Watched { first, second, sample_times, results }, None, Rules::H12).unwrap();
        let value = |name: &str| (Quantity::named(name).unwrap().of)(&outcome);
        // The run measured 2.5 s.
        assert!((value("full handshakes/s") - 4.0).abs() < 1e-9);
        assert!((value("resumed handshakes/s") - 10.0).abs() < 1e-9);
        assert!((value("handshake p50 ms") - 2.0).abs() < 1e-9);
        let written = serde_json::to_value(&outcome).unwrap();
        assert_eq!(written["handshakes"]["failed_per_s"], 2.0);
        assert_eq!(written["handshakes"]["full_time_ms"]["p50"], 3.0);
        assert!(written["handshakes"]["resumed_time_ms"]["p50"].is_null(), "no such time is known");
        assert!(serde_json::from_value::<Outcome>(written).unwrap().handshakes.is_some());
        let without = crate::tests::outcome(1.0);
        assert!(serde_json::to_value(&without).unwrap().get("handshakes").is_none());
        assert!((Quantity::named("handshake p99 ms").unwrap().of)(&without).is_nan());
    }

    #[test]
    fn clients_of_a_closed_loop_that_are_short_leave_the_cost_as_it_is() {
        let short = "the generator's CPU 1 was saturated (100% busy)".to_owned();
        let told = |asked_requests_per_s| {
            let begun = Instant::now();
            let mut results = results(5.0, &[&short, "stolen"]);
            results.short_of_cpu = vec![short.clone()];
            results.run.asked_requests_per_s = asked_requests_per_s;
            let sample_times = SampleTimes { began_after_ms: 1.0, off_ms: 1.0 };
            let (first, second) = (sight(begun, 100), sight(begun + Duration::from_secs(2), 300));
            let outcome = of(&Watched { first, second, sample_times, results }, None, Rules::H12).unwrap();
            (outcome.clients_were_short, outcome.invalid)
        };
        assert_eq!(told(None), (vec![short.clone()], vec!["stolen".to_owned()]));
        assert_eq!(told(Some(10.0)), (Vec::new(), vec![short.clone(), "stolen".to_owned()]));
    }

    #[test]
    fn rates_are_differences_over_the_measured_time() {
        let outcome = outcome_but(5.0, &["late"]);
        let accepting = outcome.accepting.unwrap();
        assert!((accepting.accepts_per_s - 100.0).abs() < 1e-9);
        assert!((outcome.served_replies_per_s.unwrap() - 200.0).abs() < 1e-9);
        assert!((accepting.accepts_per_phase - 2.0).abs() < 1e-9);
        assert!((outcome.drops_per_s["listen_drops"] - 300.0).abs() < 1e-9);
        assert!(
            (outcome.calls_timeouts_part - 0.1).abs() < 1e-9
                && (outcome.calls_errors_part - 0.2).abs() < 1e-9
        );
        assert_eq!(outcome.replies_each_second, [7.0, 8.0]);
        let [meek] = &outcome.parties[..] else { panic!("{:?}", outcome.parties) };
        let figures = [
            meek.calls_per_s,
            meek.replies_2xx_per_s,
            meek.reply_time_ms_p99,
            outcome.replies_2xx_per_s.unwrap(),
        ];
        assert_eq!(meek.percentiles, [(0.5, 3.0), (0.99, 7.0)]);
        let work = outcome.work.unwrap();
        // 75 of 80 replies were good, 5 a second; the application computed 100 requests a second, in 5 s.
        let all =
            figures.into_iter().chain([work.requests_per_s, work.busy_processes, work.in_vain_processes]);
        for (found, expected) in all.zip([20.0, 16.0, 7.0, 4.6875, 100.0, 5.0, 4.765_625]) {
            assert!((found - expected).abs() < 1e-3, "{found} is not {expected}");
        }
        assert!((outcome.replies_4xx_5xx_part - 0.05).abs() < 1e-9);
        assert!((outcome.cpu.server_user_part - 0.25).abs() < 1e-9);
        assert_eq!(outcome.invalid, ["late"]);
    }

    #[test]
    fn each_paper_has_rules_of_its_own() {
        let mut results = results(5.0, &[]);
        let check = |rule: &str, found: f64, allowed: f64| Checked {
            rule: rule.to_owned(),
            found,
            allowed,
            holds: found <= allowed,
            remark: "r".to_owned(),
        };
        results.checks = vec![
            check("timeouts", 0.09, 0.10),
            check("failures of a size", 0.11, 0.02),
            check("failures of a size at a client", 0.06, 0.05),
            check("unfairness", 0.03, 0.05),
            check("uncertainty of the mean", 0.5, 0.01),
        ];
        let at_a_client = "failures of a size at a client: 6.00%, at most 5.00% is allowed (r)";
        let h12 = ["failures of a size: 11.00%, at most 2.00% is allowed (r)", at_a_client];
        assert_eq!(broken(&results, Rules::H12), h12);
        let p07 = [at_a_client, "unfairness: 3.00%, at most 2.00% is allowed (r)"];
        assert_eq!(broken(&results, Rules::P07), p07);
        let failed = |rules, short: &[&str]| {
            let begun = Instant::now();
            let sample_times = SampleTimes { began_after_ms: 1.0, off_ms: 1.0 };
            let second = Sight { killed: 1, ..sight(begun + Duration::from_secs(2), 300) };
            let mut results = crate::tests::results(5.0, short);
            results.run.asked_requests_per_s = None;
            let first = sight(begun, 100);
            let outcome = of(&Watched { first, second, sample_times, results }, None, rules).unwrap();
            (outcome.failed.len(), outcome.invalid)
        };
        // Under any rules, a server that was killed has failed, and an invalid measurement does not count.
        assert_eq!(failed(Rules::H12, &["late"]), (2, vec!["late".to_owned()]));
        assert_eq!(failed(Rules::None, &["late"]), (1, vec!["late".to_owned()]));
    }

    #[test]
    fn an_overloaded_server_may_serve_few_but_not_only_the_small() {
        let class = |size: &str, reached: f64, unserved: f64| OfSize {
            size: size.to_owned(),
            calls: reached,
            reached,
            timeouts: unserved,
            unserved,
            reply_time_ms_mean: 1.0,
            reply_time_ms_p99: 1.0,
        };
        let small = class("< 1 KiB", 5_000.0, 1_500.0);
        assert_eq!(
            unfair(&[small.clone(), class("< 1 MiB", 100.0, 38.0), class("unknown", 50.0, 50.0)], 0.05),
            None
        );
        let nearly = [class("< 1 KiB", 50_000.0, 15_000.0), class("< 1 MiB", 50_000.0, 19_000.0)];
        assert_eq!(unfair(&nearly, 0.05), None);
        assert!(unfair(&nearly, 0.02).unwrap().ends_with("at most 2 points more are allowed"));
        let said = unfair(&[small, class("< 1 MiB", 24.0, 21.0)], 0.05).unwrap();
        let expected = "unfairness: 87.50% of the calls for < 1 MiB are not served, and 30.27% of all";
        assert!(said.starts_with(expected), "{said}");
        assert_eq!(unfair(&[], 0.05), None);
    }

    #[test]
    fn slices_come_to_the_median_of_each_figure() {
        let slices = || [10.0, 500.0, 12.0].map(outcome).into();
        let middle = median(slices()).unwrap();
        assert!((middle.replies_per_s - 12.0).abs() < 1e-9 && middle.is_valid());
        assert_eq!((middle.slices.len(), middle.descriptors), (3, Some(10)));
        let mut doubtful: Vec<Outcome> = slices();
        doubtful[0].invalid.push("late".to_owned());
        assert!(median(doubtful.clone()).unwrap().is_valid(), "one of three is not the most");
        doubtful[1].invalid.push("late".to_owned());
        doubtful[2].failed.push("timeouts".to_owned());
        let middle = median(doubtful).unwrap();
        assert_eq!((middle.invalid, middle.failed), (vec!["late".to_owned()], vec!["timeouts".to_owned()]));
        assert!(median(Vec::new()).is_none());
        // The first slice has no value, the others have.
        let mut empty: Vec<Outcome> = slices();
        empty[0].wait_ms = Times::default();
        empty[0].descriptors = None;
        let middle = median(empty).unwrap();
        assert!((middle.wait_ms.p99 - 1.0).abs() < 1e-9 && middle.descriptors == Some(10), "{middle:?}");
    }
}
