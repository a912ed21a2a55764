//! What came of a trial: figures from the generator's results and from two [`Sight`]s of the server, one at
//! each edge of the measured window.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use machine::cpu::{self, CpuTicks};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::measuring::generator::{Looks, Watched};
use crate::measuring::sight::Sight;
use crate::measuring::turns::Given;
use crate::record::profile::Part;
use crate::statistics::median;
use crate::unique::unique;

/// What came of a trial. Rates are per second of the measured time.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Outcome {
    /// What the clients were to ask for; `None` in a closed loop.
    pub asked_per_s: Option<f64>,
    /// Whole replies.
    pub replies_per_s: f64,
    /// Of these, those of status 2xx: with clients that give up, the goodput.
    #[serde(default)]
    pub good_per_s: f64,
    /// The same of each class of clients, or of files and what is computed, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parties: Vec<Party>,
    /// What the server's application has done, where that is noted.
    #[serde(default)]
    pub work: Option<Work>,
    /// Replies by the server's own count, where it has one: those to clients that have gone are among them.
    pub served_per_s: Option<f64>,
    /// 10^6 bits of bodies.
    pub body_mbps: f64,
    /// Part of the calls that clients gave up.
    pub timeouts: f64,
    /// Part of the calls that failed, timeouts included.
    pub errors: f64,
    /// Part of the calls that were answered with a status 4xx or 5xx. These replies count as such.
    #[serde(default)]
    pub refused: f64,
    /// How long replies took.
    pub times: Times,
    /// By size of the body.
    pub by_size: Vec<OfSize>,
    /// How connections were accepted, where the server tells.
    pub accepting: Option<Accepting>,
    /// Connections that the kernel dropped, by cause (`/proc/net/netstat` of the server's namespace), and
    /// packets dropped before a CPU's backlog (`/proc/net/softnet_stat`, of the whole machine).
    pub drops_per_s: BTreeMap<String, f64>,
    /// Where CPU time went.
    pub cpu: Cpu,
    /// Times per second that the server's threads were taken off a CPU, or left it to wait.
    pub switches_per_s: f64,
    /// Memory of the server's processes at the end, what they share divided among them, in 10^6 bytes.
    pub memory_mb: f64,
    /// Descriptors that they had open then.
    pub descriptors: u64,
    /// The page cache that counts for the server (where it is bounded), in 10^6 bytes; else the machine's.
    pub page_cache_mb: f64,
    /// What its processes had the disk read, in 10^6 bytes per second.
    pub read_mb_per_s: f64,
    /// How it shared a CPU.
    pub turns: Option<Given>,
    /// How well counters were read.
    pub looks: Looks,
    /// Replies in each whole second of the measured time.
    pub seconds: Vec<f64>,
    /// What the slices came to that this is the median of, if there were several.
    pub slices: Vec<Slice>,
    /// The rates that were tried, where the highest was searched for that is served in time. All other
    /// figures are of that one then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Probe>,
    /// Where its CPU time went, if that was sampled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<Part>,
    /// Why the figures don't count: what the generator says against them, and looks that missed the window.
    /// Empty if they do. Such a trial is repeated.
    pub invalid: Vec<String>,
    /// The papers' rules for a result that counts that this one breaks: the server's doing. Such a trial is
    /// shown, and not averaged in.
    pub failed: Vec<String>,
}

/// Milliseconds from when a call should have been issued, connecting included, to the last byte of its reply,
/// or to when its client gave up: these have waited so long at least.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct Times {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
    /// Pairs of a part of one and the time below which that part is.
    #[serde(default)]
    pub percentiles: Vec<(f64, f64)>,
}

/// Calls for bodies of one class of sizes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct OfSize {
    pub size: String,
    pub calls: f64,
    /// Calls that were connected.
    pub reached: f64,
    pub timeouts: f64,
    pub unserved: f64,
    pub mean_ms: f64,
    pub p99_ms: f64,
}

/// Some of the calls: of a class of clients, of files (`files`), or of what is computed (`computed`).
#[derive(Clone, Debug, Deserialize, Serialize)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct Party {
    pub name: String,
    pub calls_per_s: f64,
    /// Whole replies of status 2xx to them.
    pub good_per_s: f64,
    /// Of their whole replies.
    pub p99_ms: f64,
}

/// What an application has done.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Work {
    /// Requests that it has computed.
    pub requests_per_s: f64,
    /// How many of its processes were busy with them.
    pub busy: f64,
    /// How many with requests of clients that got no good reply any more.
    pub in_vain: f64,
}

/// Equation 1 of the 2004 paper: accepts per second are phases per second by accepts per phase.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Accepting {
    /// Accepts per second.
    pub accepts_per_s: f64,
    /// Phases in which something was accepted or tried to be.
    pub accept_phases_per_s: f64,
    /// Accepts in each.
    pub accepts_per_phase: f64,
    /// Turns of the event loop.
    pub phases_per_s: f64,
    /// System calls that asked for events.
    pub event_waits_per_s: f64,
    /// The part of the accepts that each worker made.
    pub shares: Vec<f64>,
}

/// Where CPU time went, in CPUs (1: a whole one).
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Cpu {
    /// The server's processes, with soft interrupts that came while they ran.
    pub server: f64,
    /// The part of that in user mode.
    pub server_user_part: f64,
    /// Microseconds of the server's for each reply.
    pub server_us_per_reply: f64,
    /// Soft interrupts on the server's CPUs, whomever they interrupted (sampled at the timer's ticks).
    pub server_softirq: f64,
    /// Waiting for the disk on the server's CPUs while there was nothing else to do.
    pub server_io_wait: f64,
    /// Idle time of the server's CPUs.
    pub server_idle: f64,
    /// Soft interrupts on the clients' CPUs.
    pub client_softirq: f64,
    /// Idle time of the clients' CPUs.
    pub client_idle: f64,
    /// Microseconds that the generator used for each call.
    pub client_us_per_call: f64,
}

/// One slice of the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[expect(missing_docs, reason = "named for what they are")]
pub struct Slice {
    pub server_us_per_reply: f64,
    pub replies_per_s: f64,
}

/// One rate that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Probe {
    /// Requests per second that were asked for.
    pub rate: f64,
    /// What the threshold is about, in milliseconds.
    pub ms: f64,
    /// Whether it was served in time.
    pub is_served: bool,
}

/// The part of the measured time by which looks at counters may be off.
const OFF: f64 = 0.05;

/// How far the part of the calls for one class of sizes that are not served may lie above that of all, where
/// clients come whatever the server does (Harji et al. 2012, section 4).
const UNFAIRNESS: f64 = 0.05;

/// Standard errors that it has to lie above that besides, for a class of which there are few: one in 200
/// would by chance.
const ERRORS: f64 = 2.6;

/// Rules of `sluicelab load` that say how sure a figure is, rather than whether the server is good.
const NOT_THE_SERVERS: [&str; 1] = ["uncertainty of the mean"];

impl Outcome {
    /// Of a server that was there no more: without any figures.
    pub(crate) fn lost(why: String) -> Self {
        Self { failed: vec![why], ..Self::default() }
    }

    /// Whether its figures count as a measurement.
    pub fn is_valid(&self) -> bool {
        self.invalid.is_empty()
    }

    /// Whether the server did what it is measured for.
    pub fn is_good(&self) -> bool {
        self.failed.is_empty()
    }

    pub(crate) fn of(watched: &Watched<Sight>, turns: Option<Given>) -> Result<Self> {
        let Watched { first: before, second: after, looks, results } = watched;
        let seconds = after.seconds_since(before);
        let issued = number(results, "/calls/issued")?;
        let replies_per_s = number(results, "/replies/per_s")?;
        let asked_per_s = number(results, "/run/asked_requests_per_s").ok();
        let drops_per_s = after.drops.iter().map(|(name, count)| {
            let earlier = before.drops.get(name).copied().unwrap_or(0);
            (name.clone(), count.saturating_sub(earlier) as f64 / seconds)
        });
        let status = |class| number(results, &format!("/replies/statuses/{class}")).unwrap_or(0.0);
        let texts = |path| members(results, path).filter_map(Value::as_str).map(str::to_owned);
        let mut invalid: Vec<String> = texts("/invalid").collect();
        invalid.extend((issued < 1.0).then(|| "no call was issued in the measured time".to_owned()));
        invalid.extend(turns.and_then(|turns| turns.reason_against()));
        invalid.extend((looks.off_ms > OFF * seconds * 1e3).then(|| {
            format!("counters were read up to {:.0} ms from the edges of the measured window", looks.off_ms)
        }));
        let (served_per_s, accepting) = Accepting::between(before, after)?.unzip();
        let held = after.held.as_ref().context("nobody has looked at what the server held")?;
        let good_per_s = over(status("2xx"), number(results, "/replies/count")?) * replies_per_s;
        let parties = Party::all(results);
        let computed = parties.iter().find(|party| party.name == COMPUTED);
        let useful = computed.map_or(good_per_s, |computed| computed.good_per_s);
        let by_size: Vec<OfSize> = members(results, "/by_size").filter_map(OfSize::of).collect();
        let broken: Vec<String> = match asked_per_s {
            Some(_) => unfair(&by_size).into_iter().collect(),
            None => broken(results),
        };
        let client_us_per_call = number(results, "/generator/cpu_us_per_call")?;
        Ok(Self {
            asked_per_s,
            replies_per_s,
            good_per_s,
            work: Work::between(before, after, useful),
            parties,
            served_per_s,
            body_mbps: number(results, "/replies/body_mbps")?,
            timeouts: over(number(results, "/calls/timeouts")?, issued),
            errors: over(number(results, "/calls/errors")?, issued),
            refused: over(status("4xx") + status("5xx"), issued),
            times: Times::deserialize(&results["wait_ms"]).context("no whole wait_ms")?,
            by_size,
            accepting,
            drops_per_s: drops_per_s.collect(),
            cpu: Cpu::between(before, after, replies_per_s, client_us_per_call),
            switches_per_s: after.switches.saturating_sub(before.switches) as f64 / seconds,
            memory_mb: held.memory as f64 / 1e6,
            descriptors: held.descriptors,
            page_cache_mb: held.page_cache as f64 / 1e6,
            read_mb_per_s: after.read.saturating_sub(before.read) as f64 / 1e6 / seconds,
            turns,
            looks: *looks,
            seconds: whole_seconds(results),
            invalid,
            failed: texts("/failed").chain(broken).chain(want_of_memory(after.killed)).collect(),
            ..Self::default()
        })
    }

    /// What several slices come to: the median of each figure, so that what disturbed one of them does not
    /// show. Of the first where there is no median to be taken. It is invalid where the most of them are, and
    /// has failed where any has.
    pub(crate) fn median(mut slices: Vec<Self>) -> Option<Self> {
        if slices.len() < 2 {
            return slices.pop();
        }
        let invalid: Vec<&Self> = slices.iter().filter(|slice| !slice.is_valid()).collect();
        let is_most = invalid.len() * 2 > slices.len();
        let reasons = invalid.iter().filter(|_| is_most).flat_map(|slice| slice.invalid.clone()).collect();
        let failed: Vec<String> = slices.iter().flat_map(|slice| slice.failed.clone()).collect();
        let figures: Vec<Value> =
            slices.iter().filter_map(|slice| serde_json::to_value(slice).ok()).collect();
        let mut median: Self = serde_json::from_value(middle(&figures)).ok()?;
        median.seconds = slices.iter().flat_map(|slice| slice.seconds.clone()).collect();
        median.slices = slices.iter().map(Slice::of).collect();
        median.by_size = OfSize::median(&slices);
        (median.invalid, median.failed) = (reasons, failed);
        for reasons in [&mut median.invalid, &mut median.failed] {
            let mut kinds = BTreeSet::new();
            reasons.retain(|reason| kinds.insert(without_numbers(reason)));
        }
        Some(median)
    }
}

/// Reasons that differ in numbers only are one.
fn without_numbers(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_digit() && *letter != '.').collect()
}

impl Slice {
    fn of(outcome: &Outcome) -> Self {
        let Outcome { cpu, replies_per_s, .. } = outcome;
        Self { server_us_per_reply: cpu.server_us_per_reply, replies_per_s: *replies_per_s }
    }
}

/// The median of each number of JSON values of the same form; where they differ in form, the first's.
fn middle(all: &[Value]) -> Value {
    match &all[0] {
        Value::Number(_) => {
            let median = median(all.iter().filter_map(Value::as_f64));
            // Counts stay counts.
            if all[0].is_u64() {
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

/// What processes that the kernel has ended say against a server.
pub(crate) fn want_of_memory(killed: u64) -> Option<String> {
    (killed > 0).then(|| format!("the kernel ended {killed} of its processes for want of memory"))
}

/// A number of what the generator or a server of ours tells.
fn number(told: &Value, path: &str) -> Result<f64> {
    told.pointer(path).and_then(Value::as_f64).with_context(|| format!("no {path}"))
}

fn members<'a>(results: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    results.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

/// Results have every second since the run began; the first ones are the warm-up's, the last may be cut.
fn whole_seconds(results: &Value) -> Vec<f64> {
    let number = |path| number(results, path).unwrap_or(0.0);
    let (begin, end) = (number("/run/warm_up_s").ceil() as usize, number("/run/outcome/duration_s") as usize);
    let all = members(results, "/seconds").filter_map(|second| second["replies"].as_f64());
    all.take(end).skip(begin).collect()
}

/// Which rules are broken where a server is asked again once it has answered, as `sluicelab load` tells.
fn broken(results: &Value) -> Vec<String> {
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let percent = |check: &Value, key: &str| check[key].as_f64().unwrap_or_default() * 100.0;
    let is_broken = |check: &&Value| {
        check["holds"] == Value::Bool(false)
            && check["rule"].as_str().is_some_and(|rule| !NOT_THE_SERVERS.contains(&rule))
    };
    let told = members(results, "/checks").filter(is_broken).map(|check| {
        format!(
            "{}: {:.2}%, at most {:.2}% is allowed ({})",
            text(check, "rule"),
            percent(check, "found"),
            percent(check, "allowed"),
            text(check, "remark")
        )
    });
    told.collect()
}

/// Whether calls of one size are served less than others, where clients come whatever the server does. Which
/// calls it has read nobody can tell from outside, so that only this is judged: those that it never read are
/// of all sizes alike. So an approximation, for every server: sizes that were never answered are not known.
fn unfair(by_size: &[OfSize]) -> Option<String> {
    let known = || by_size.iter().filter(|class| class.size != UNKNOWN && class.reached > 0.0);
    let sum = |of: fn(&OfSize) -> f64| known().map(of).sum::<f64>();
    let mean = over(sum(|class| class.unserved), sum(|class| class.reached));
    let part = |class: &OfSize| class.unserved / class.reached;
    let is_unfair = |class: &&OfSize| {
        let error = (mean * (1.0 - mean) / class.reached).sqrt();
        part(class) - mean > UNFAIRNESS + ERRORS * error
    };
    known().find(is_unfair).map(|class| {
        format!(
            "unfairness: {:.2}% of the calls for {}, {:.2}% of all, are not served; at most {:.0} points \
             more are allowed",
            part(class) * 100.0,
            class.size,
            mean * 100.0,
            UNFAIRNESS * 100.0
        )
    })
}

/// What `sluicelab load` calls the size of what was never answered.
const UNKNOWN: &str = "unknown";

/// What a party of computed replies is called.
const COMPUTED: &str = "computed";

impl Party {
    fn all(results: &Value) -> Vec<Self> {
        let number = |of: &Value, path| number(of, path).unwrap_or(0.0);
        let seconds = number(results, "/run/outcome/duration_s") - number(results, "/run/warm_up_s");
        let party = |of: &Value| {
            let kind = of["dynamic"].as_bool().map(|computed| if computed { COMPUTED } else { "files" });
            Some(Self {
                name: of["class"].as_str().or(kind)?.to_owned(),
                calls_per_s: over(number(of, "/calls"), seconds),
                good_per_s: over(number(of, "/statuses/2xx"), seconds),
                p99_ms: number(of, "/reply_time_ms/p99"),
            })
        };
        // Where all is computed there is nothing to tell it from.
        let has_files = members(results, "/by_kind").any(|kind| kind["dynamic"] == Value::Bool(false));
        let kinds = members(results, "/by_kind").filter(|_| has_files);
        members(results, "/by_class").chain(kinds).filter_map(party).collect()
    }
}

impl Work {
    fn between(before: &Sight, after: &Sight, useful_per_s: f64) -> Option<Self> {
        let seconds = after.seconds_since(before);
        let ((earlier, busy_earlier), (later, busy_later)) = before.work.zip(after.work)?;
        let (requests_per_s, busy) = ((later - earlier) / seconds, (busy_later - busy_earlier) / seconds);
        let in_vain = busy * (1.0 - over(useful_per_s, requests_per_s)).max(0.0);
        Some(Self { requests_per_s, busy, in_vain })
    }
}

impl OfSize {
    fn of(class: &Value) -> Option<Self> {
        let number = |path| number(class, path).ok();
        let calls = number("/calls").filter(|calls| *calls > 0.0)?;
        Some(Self {
            size: class["size"].as_str()?.to_owned(),
            calls,
            reached: number("/reached")?,
            timeouts: number("/timeouts")?,
            unserved: number("/unserved")?,
            mean_ms: number("/reply_time_ms/mean")?,
            p99_ms: number("/reply_time_ms/p99")?,
        })
    }

    /// The medians of each size, over those slices in which it was asked for.
    fn median(slices: &[Outcome]) -> Vec<Self> {
        let all = || slices.iter().flat_map(|slice| &slice.by_size);
        let of = |size: &str| {
            let same = all().filter(|class| class.size == size);
            let values: Vec<Value> = same.filter_map(|class| serde_json::to_value(class).ok()).collect();
            serde_json::from_value(middle(&values)).ok()
        };
        unique(all().map(|class| class.size.as_str())).into_iter().filter_map(of).collect()
    }
}

impl Cpu {
    fn between(before: &Sight, after: &Sight, replies_per_s: f64, client_us_per_call: f64) -> Self {
        let seconds = after.seconds_since(before);
        let server = after.server_ns.saturating_sub(before.server_ns) as f64 / 1e9 / seconds;
        let user = after.user_ticks.saturating_sub(before.user_ticks);
        let system = after.system_ticks.saturating_sub(before.system_ticks);
        let cpu = |ticks: u64| cpu::seconds(ticks) / seconds;
        let server_cpu = after.server_cpu.since(before.server_cpu);
        let client_cpu = after.client_cpu.since(before.client_cpu);
        // What is nice are fillers of shares.
        let idle = |ticks: CpuTicks| cpu(ticks.idle + ticks.nice);
        Self {
            server,
            server_user_part: over(user as f64, (user + system) as f64),
            // Where nobody is answered all of it was in vain.
            server_us_per_reply: server * 1e6 / replies_per_s.max(1.0),
            server_softirq: cpu(server_cpu.softirq),
            server_io_wait: cpu(server_cpu.io_wait),
            server_idle: idle(server_cpu),
            client_softirq: cpu(client_cpu.softirq),
            client_idle: idle(client_cpu),
            client_us_per_call,
        }
    }
}

impl Accepting {
    /// What a server of ours tells of itself, if it is one: the replies of all classes that it has counted,
    /// per second, and how it accepted.
    fn between(before: &Sight, after: &Sight) -> Result<Option<(f64, Self)>> {
        let (Some(before), Some(after)) = (&before.status, &after.status) else { return Ok(None) };
        let grown = |path: &str| Ok::<_, anyhow::Error>(number(after, path)? - number(before, path)?);
        // The status takes a process to ask for, and says when its values were read.
        let seconds = grown("/time_unix_ms")? / 1e3;
        let per_s = |path: &str| Ok::<_, anyhow::Error>(grown(path)? / seconds);
        let served = |status: &Value| {
            let classes = status.pointer("/total/replies").and_then(Value::as_object)?;
            Some(classes.values().filter_map(Value::as_f64).sum::<f64>())
        };
        let (accepts_per_s, accept_phases_per_s) = (per_s("/total/accepts")?, per_s("/total/accept_phases")?);
        let workers = after["workers"].as_array().context("the status has no workers")?.len();
        let shares = (0..workers).map(|worker| {
            let path = format!("/workers/{worker}/accepts");
            // A worker that was started meanwhile has nothing before.
            let accepts = number(after, &path)? - number(before, &path).unwrap_or(0.0);
            Ok(over(accepts / seconds, accepts_per_s))
        });
        let replies = served(after).zip(served(before)).context("the status has no replies")?;
        let this = Self {
            accepts_per_s,
            accept_phases_per_s,
            accepts_per_phase: over(accepts_per_s, accept_phases_per_s),
            phases_per_s: per_s("/total/phases")?,
            event_waits_per_s: per_s("/total/event_waits")?,
            shares: shares.collect::<Result<_>>()?,
        };
        Ok(Some(((replies.0 - replies.1) / seconds, this)))
    }
}

/// A quotient that is 0 where there is nothing to divide by: JSON has no word for others, and a process for
/// each connection has no accept phases.
fn over(one: f64, other: f64) -> f64 {
    if other > 0.0 { one / other } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::tests::{outcome, outcome_but, outcome_of_looks, results, sight};

    #[test]
    fn looks_that_missed_the_window_are_a_reason() {
        assert!(outcome_of_looks(5.0, &[], 99.0).is_valid());
        let outcome = outcome_of_looks(5.0, &["late"], 101.0);
        assert_eq!(
            outcome.invalid[1],
            "counters were read up to 101 ms from the edges of the measured window"
        );
    }

    #[test]
    fn a_server_that_lost_a_process_for_want_of_memory_has_failed() {
        let begun = Instant::now();
        let results = results(5.0, &[]);
        assert_eq!(broken(&results), ["unfairness: 30.00%, at most 5.00% is allowed (9 bytes)"]);
        let second = Sight { killed: 2, ..sight(begun + Duration::from_secs(2), 300) };
        let looks = Looks { began_after_ms: 1.0, off_ms: 1.0 };
        let outcome =
            Outcome::of(&Watched { first: sight(begun, 100), second, looks, results }, None).unwrap();
        assert!(outcome.is_valid());
        assert_eq!(outcome.failed, ["the kernel ended 2 of its processes for want of memory"]);
    }

    #[test]
    fn rates_are_differences_over_the_measured_time() {
        let outcome = outcome_but(5.0, &["late"]);
        let accepting = outcome.accepting.unwrap();
        assert!((accepting.accepts_per_s - 100.0).abs() < 1e-9);
        assert!((outcome.served_per_s.unwrap() - 200.0).abs() < 1e-9);
        assert!((accepting.accepts_per_phase - 2.0).abs() < 1e-9);
        assert!((outcome.drops_per_s["ListenDrops"] - 300.0).abs() < 1e-9);
        assert!((outcome.timeouts - 0.1).abs() < 1e-9 && (outcome.errors - 0.2).abs() < 1e-9);
        assert_eq!(outcome.seconds, [7.0, 8.0]);
        let [meek] = &outcome.parties[..] else { panic!("{:?}", outcome.parties) };
        let figures = [meek.calls_per_s, meek.good_per_s, meek.p99_ms, outcome.good_per_s];
        let work = outcome.work.unwrap();
        // 75 of 80 replies were good, 5 a second; 100 requests a second were computed in 5 s.
        let all = figures.into_iter().chain([work.requests_per_s, work.busy, work.in_vain]);
        for (found, expected) in all.zip([20.0, 16.0, 7.0, 4.6875, 100.0, 5.0, 4.765_625]) {
            assert!((found - expected).abs() < 1e-3, "{found} is not {expected}");
        }
        assert!((outcome.refused - 0.05).abs() < 1e-9);
        assert!((outcome.cpu.server_user_part - 0.25).abs() < 1e-9);
        assert_eq!(outcome.invalid, ["late"]);
    }

    #[test]
    fn an_overloaded_server_may_serve_few_but_not_only_the_small() {
        let class = |size: &str, reached: f64, unserved: f64| OfSize {
            size: size.to_owned(),
            calls: reached,
            reached,
            timeouts: unserved,
            unserved,
            mean_ms: 1.0,
            p99_ms: 1.0,
        };
        let small = class("< 1 KiB", 5_000.0, 1_500.0);
        assert_eq!(
            unfair(&[small.clone(), class("< 1 MiB", 100.0, 38.0), class("unknown", 50.0, 50.0)]),
            None
        );
        let said = unfair(&[small, class("< 1 MiB", 24.0, 21.0)]).unwrap();
        assert!(said.starts_with("unfairness: 87.50% of the calls for < 1 MiB, 30.27% of all"), "{said}");
        assert_eq!(unfair(&[]), None);
    }

    #[test]
    fn slices_come_to_the_median_of_each_figure() {
        let slices = || [10.0, 500.0, 12.0].map(outcome).into();
        let median = Outcome::median(slices()).unwrap();
        assert!((median.replies_per_s - 12.0).abs() < 1e-9 && median.is_valid());
        assert_eq!((median.slices.len(), median.descriptors), (3, 10));
        let mut doubtful: Vec<Outcome> = slices();
        doubtful[0].invalid.push("late".to_owned());
        assert!(Outcome::median(doubtful.clone()).unwrap().is_valid(), "one of three is not the most");
        doubtful[1].invalid.push("late".to_owned());
        doubtful[2].failed.push("timeouts".to_owned());
        let median = Outcome::median(doubtful).unwrap();
        assert_eq!((median.invalid, median.failed), (vec!["late".to_owned()], vec!["timeouts".to_owned()]));
        assert!(Outcome::median(Vec::new()).is_none());
    }
}
