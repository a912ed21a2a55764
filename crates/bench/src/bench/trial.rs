//! One measured run of a server under one load, in a network of its own; and what was seen from all sides.
//!
//! [`Site`] is what all trials of an experiment have in common. A trial makes the namespaces, starts the
//! server on its CPUs, then the load; looks at counters when the measured window begins and again when it
//! ends; lets the clients wait for what they have asked for; and takes all of it away. Several servers can be
//! tried at the same time, each under a load of its own: they share a CPU by [`Turns`].

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use machine::cpu::{self, CpuTicks};
use machine::{Machine, network, process};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bounds::{Bounded, Bounds};
use crate::cgroup::Group;
use crate::child::list;
use crate::generator::{Generator, Lengths, Looks, Watched};
use crate::network::{Link, Network};
use crate::share::Share;
use crate::subject::{Launch, Subject, Variant};
use crate::turns::{Conductor, Given, Turns};
use crate::workload::Workload;
use crate::{interrupt, launcher};

/// What all trials of an experiment have in common.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) sluice: PathBuf,
    pub(crate) sluicelab: PathBuf,
    /// Where file sets and sessions are kept.
    pub(crate) data: PathBuf,
    pub(crate) scratch: PathBuf,
    pub(crate) server_cpus: Vec<usize>,
    pub(crate) client_cpus: Vec<usize>,
    /// The server listens on the address of each.
    pub(crate) links: Vec<Link>,
    /// How servers share the first of the CPUs. `None`: one at a time has all of them.
    pub(crate) turns: Option<Turns>,
    /// `None`: the server has the machine's memory and disk.
    pub(crate) bounds: Option<Bounds>,
    /// `name=value`, for the server's namespace.
    pub(crate) sysctls: Vec<String>,
    pub(crate) lengths: Lengths,
    /// For which part of the time, in percent, a generator may wait for its CPU. `None`: as `sluicelab load`
    /// has it.
    pub(crate) may_wait: Option<u32>,
}

/// How much load there is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// So many sessions at a time, each followed by another.
    Closed(u32),
    /// Sessions arrive so that they ask for so many requests per second, whatever the server does.
    Open(f64),
}

/// What came of a trial. Rates are per second of the measured time.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Outcome {
    /// What the clients were to ask for; `None` in a closed loop.
    pub(crate) asked_per_s: Option<f64>,
    pub(crate) replies_per_s: f64,
    /// Replies by the server's own count: those to clients that have gone are among them. What the generator
    /// says is held against it.
    pub(crate) served_per_s: f64,
    /// 10^6 bits of bodies.
    pub(crate) body_mbps: f64,
    /// Part of the calls that clients gave up.
    pub(crate) timeouts: f64,
    /// Part of the calls that failed, timeouts included.
    pub(crate) errors: f64,
    pub(crate) times: Times,
    pub(crate) accepting: Accepting,
    /// The kernel's counters of connections dropped, by name (`/proc/net/netstat` of the server's namespace),
    /// and packets dropped before a CPU's backlog (`/proc/net/softnet_stat`, of the whole machine).
    pub(crate) drops_per_s: BTreeMap<String, f64>,
    pub(crate) cpu: Cpu,
    pub(crate) turns: Option<Given>,
    pub(crate) looks: Looks,
    pub(crate) disk: Option<Disk>,
    /// Why the figures don't count: what the generator says against them, and looks that missed the window.
    /// Empty if they do.
    pub(crate) invalid: Vec<String>,
}

/// Milliseconds from when a call should have been issued, connecting included, to the last byte of its reply,
/// or to when its client gave up: these have waited so long at least.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Times {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// Equation 1 of the 2004 paper: accepts per second are phases per second by accepts per phase.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Accepting {
    pub(crate) accepts_per_s: f64,
    /// Phases in which something was accepted or tried to be.
    pub(crate) accept_phases_per_s: f64,
    pub(crate) accepts_per_phase: f64,
    /// Turns of the event loop.
    pub(crate) phases_per_s: f64,
    /// System calls that asked for events.
    pub(crate) event_waits_per_s: f64,
    /// The part of the accepts that each worker made.
    pub(crate) shares: Vec<f64>,
}

/// Where CPU time went, in CPUs (1: a whole one).
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Cpu {
    /// The server's processes, with soft interrupts that came while they ran.
    pub(crate) server: f64,
    /// Microseconds of that for each reply.
    pub(crate) server_us_per_reply: f64,
    /// Soft interrupts on the server's CPUs, whomever they interrupted (sampled at the timer's ticks).
    pub(crate) server_softirq: f64,
    /// Waiting for the disk on the server's CPUs while there was nothing else to do.
    pub(crate) server_io_wait: f64,
    pub(crate) server_idle: f64,
    pub(crate) client_softirq: f64,
    pub(crate) client_idle: f64,
    /// Microseconds that the generator used for each call.
    pub(crate) client_us_per_call: f64,
}

/// Use of memory and disk by a server that is bounded in both, in 10^6 bytes.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Disk {
    /// At the end.
    pub(crate) page_cache_mb: f64,
    pub(crate) read_mb_per_s: f64,
}

impl Site {
    /// Runs one trial of each of `variants`, all at the same time.
    pub(crate) fn run(
        &self,
        variants: &[&Variant],
        workload: &Workload,
        load: Load,
        seed: u64,
    ) -> Result<Vec<Outcome>> {
        interrupt::check()?;
        ensure!(variants.len() == 1 || self.turns.is_some(), "servers do not share this CPU");
        let sharing = self.client_cpus.iter().filter(|_| self.turns.is_some());
        let _awake: Vec<Share> = sharing.map(|cpu| Share::of(*cpu)).collect::<Result<_>>()?;
        let running = each_in_a_thread(variants.iter().enumerate(), |(number, variant)| {
            Running::start(self, variant, workload, self.scratch.join(number.to_string()))
        })?;
        let conduct = |turns| Conductor::start(self.server_cpus[0], turns, variants.len());
        let conductor = self.turns.map(conduct).transpose()?;
        let options = self.load_options(workload, load, seed);
        let watched = each_in_a_thread(&running, |one| one.watch(self, &options))?;
        let given = conductor.map(Conductor::stop).transpose()?;
        each_in_a_thread(running, |one| {
            drop(one);
            Ok(())
        })?;
        watched.iter().map(|watched| Outcome::of(watched, given)).collect()
    }

    fn load_options(&self, workload: &Workload, load: Load, seed: u64) -> Vec<String> {
        let load = match load {
            Load::Closed(connections) => format!("--connections={connections}"),
            Load::Open(rate) => format!("--rate={rate:.3}"),
        };
        let ms = |time: Duration| format!("{}ms", time.as_millis());
        let Lengths { warm_up, measured, timeout } = self.lengths;
        let mut options = vec![
            format!("--sessions={}", workload.sessions.display()),
            load,
            format!("--seed={seed}"),
            format!("--duration={}", ms(warm_up + measured)),
            format!("--warm-up={}", ms(warm_up)),
            format!("--timeout={}", ms(timeout)),
            format!("--cpus={}", list(&self.client_cpus)),
            "--realtime".to_owned(),
        ];
        options.extend(self.may_wait.map(|percent| format!("--may-wait={percent}")));
        options
    }
}

/// A server that is tried, with all that was set up for it. What is first goes first.
struct Running {
    server: Subject,
    _idle: Vec<TcpStream>,
    _share: Option<Share>,
    bounded: Option<Bounded>,
    network: Network,
    /// For its files and its generator's.
    directory: PathBuf,
}

/// Does the same to each at the same time.
fn each_in_a_thread<T: Send, U: Send>(
    all: impl IntoIterator<Item = T>,
    act: impl Fn(T) -> Result<U> + Sync,
) -> Result<Vec<U>> {
    let act = &act;
    thread::scope(|scope| {
        let threads: Vec<_> = all.into_iter().map(|one| scope.spawn(move || act(one))).collect();
        let done =
            threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?);
        done.collect()
    })
}

impl Running {
    fn start(site: &Site, variant: &Variant, workload: &Workload, directory: PathBuf) -> Result<Self> {
        fs::create_dir_all(&directory)?;
        let network = Network::new(&site.links, &site.sysctls)?;
        let new = |bounds| Bounded::new(bounds, &workload.root, site.client_cpus[0]);
        let bounded = site.bounds.map(new).transpose()?;
        let share = site.turns.map(|_| Share::of(site.server_cpus[0])).transpose()?;
        let groups =
            [bounded.as_ref().map(|bounded| &bounded.group), share.as_ref().map(|share| &share.group)];
        let mut wrapper: Vec<String> = groups.into_iter().flatten().flat_map(Group::entering).collect();
        wrapper.extend(network.in_server());
        let launch = Launch {
            sluice: &site.sluice,
            root: &workload.root,
            listen: network.addresses(),
            cpus: &site.server_cpus,
            wrapper,
            directory: &directory,
        };
        let server = Subject::start(variant, &launch)?;
        if let Some(share) = &share {
            share.excuse(server.status_process()?)?;
        }
        let idle = network.connect(network.addresses()[0], workload.kind.idle_connections())?;
        Ok(Self { server, _idle: idle, _share: share, bounded, network, directory })
    }

    /// Has clients of its own ask it as `options` say, and looks at it meanwhile.
    fn watch(&self, site: &Site, options: &[String]) -> Result<Watched<Sight>> {
        let targets =
            self.network.addresses().into_iter().map(|address| format!("--target=http://{address}"));
        let mut options: Vec<String> = targets.chain(options.iter().cloned()).collect();
        // Those of one link have no way to another.
        options.extend(self.network.only_sources().map(|sources| format!("--source={sources}")));
        let generator =
            Generator::start(&site.sluicelab, &self.network.in_client(), &options, &self.directory)?;
        generator.watch(site.lengths, || Sight::of(&self.server, self.bounded.as_ref(), site))
    }
}

/// The part of the measured time by which looks at counters may be off.
const OFF: f64 = 0.05;

/// Counters at one moment.
struct Sight {
    at: Instant,
    status: Value,
    drops: BTreeMap<String, u64>,
    server_ns: u64,
    server_cpu: CpuTicks,
    client_cpu: CpuTicks,
    page_cache: Option<u64>,
    read: u64,
}

impl Sight {
    fn of(server: &Subject, bounded: Option<&Bounded>, site: &Site) -> Result<Self> {
        let processes = server.running.processes()?;
        let at = Instant::now();
        let server_ns = launcher::sum(&processes, process::cpu_time_ns)?;
        let cpu =
            |cpus: &[usize]| Machine::this().cpu_ticks_of(cpus).with_context(|| format!("no CPUs {cpus:?}"));
        let (server_cpu, client_cpu) = (cpu(&site.server_cpus)?, cpu(&site.client_cpus)?);
        let drops = drops(server.running.id())?;
        let status = server.status()?;
        let read = launcher::sum(&processes, process::bytes_read)?;
        let page_cache = bounded.map(Bounded::page_cache).transpose()?;
        Ok(Self { at, status, drops, server_ns, server_cpu, client_cpu, page_cache, read })
    }
}

impl Outcome {
    /// Whether its figures count.
    pub(crate) fn is_valid(&self) -> bool {
        self.invalid.is_empty()
    }

    fn of(watched: &Watched<Sight>, turns: Option<Given>) -> Result<Self> {
        let Watched { first: before, second: after, looks, results } = watched;
        let seconds = (after.at - before.at).as_secs_f64();
        // The status takes a process to ask for, and says when its values were read.
        let counted_s = (read_at_ms(&after.status)? - read_at_ms(&before.status)?) / 1e3;
        let number =
            |path: &str| results.pointer(path).and_then(Value::as_f64).with_context(|| format!("no {path}"));
        let issued = number("/calls/issued")?;
        ensure!(issued > 0.0, "no call was issued in the measured time");
        let part = |path: &str| Ok::<_, anyhow::Error>(number(path)? / issued);
        let replies_per_s = number("/replies/per_s")?;
        let server = after.server_ns.saturating_sub(before.server_ns) as f64 / 1e9 / seconds;
        let cpu = |ticks: u64| cpu::seconds(ticks) / seconds;
        let server_cpu = after.server_cpu.since(before.server_cpu);
        let client_cpu = after.client_cpu.since(before.client_cpu);
        // What is nice are fillers of shares.
        let idle = |ticks: CpuTicks| cpu(ticks.idle + ticks.nice);
        let drops_per_s = after.drops.iter().map(|(name, count)| {
            let earlier = before.drops.get(name).copied().unwrap_or(0);
            (name.clone(), count.saturating_sub(earlier) as f64 / seconds)
        });
        let reasons = results["invalid"].as_array().into_iter().flatten();
        let mut invalid: Vec<String> = reasons.filter_map(Value::as_str).map(str::to_owned).collect();
        invalid.extend(turns.and_then(|turns| turns.reason_against()));
        invalid.extend((looks.off_ms > OFF * seconds * 1e3).then(|| {
            format!("counters were read up to {:.0} ms from the edges of the measured window", looks.off_ms)
        }));
        Ok(Self {
            asked_per_s: results.pointer("/run/asked_requests_per_s").and_then(Value::as_f64),
            replies_per_s,
            served_per_s: (served(&after.status)? - served(&before.status)?) / counted_s,
            body_mbps: number("/replies/body_mbps")?,
            timeouts: part("/calls/timeouts")?,
            errors: part("/calls/errors")?,
            times: Times {
                mean: number("/wait_ms/mean")?,
                p50: number("/wait_ms/p50")?,
                p99: number("/wait_ms/p99")?,
            },
            accepting: Accepting::between(&before.status, &after.status, counted_s)?,
            drops_per_s: drops_per_s.collect(),
            cpu: Cpu {
                server,
                // Where nobody is answered all of it was in vain.
                server_us_per_reply: server * 1e6 / replies_per_s.max(1.0),
                server_softirq: cpu(server_cpu.softirq),
                server_io_wait: cpu(server_cpu.io_wait),
                server_idle: idle(server_cpu),
                client_softirq: cpu(client_cpu.softirq),
                client_idle: idle(client_cpu),
                client_us_per_call: number("/generator/cpu_us_per_call")?,
            },
            turns,
            looks: *looks,
            disk: after.page_cache.map(|page_cache| Disk {
                page_cache_mb: page_cache as f64 / 1e6,
                read_mb_per_s: after.read.saturating_sub(before.read) as f64 / 1e6 / seconds,
            }),
            invalid,
        })
    }
}

/// When a status was read, in milliseconds.
fn read_at_ms(status: &Value) -> Result<f64> {
    status["time_unix_ms"].as_f64().context("the status has no time_unix_ms")
}

/// Replies of all classes that a server has counted.
fn served(status: &Value) -> Result<f64> {
    let classes = status.pointer("/total/replies").and_then(Value::as_object);
    let classes = classes.context("the status has no replies")?;
    Ok(classes.values().filter_map(Value::as_f64).sum())
}

impl Accepting {
    fn between(before: &Value, after: &Value, seconds: f64) -> Result<Self> {
        let count = |status: &Value, path: &str| {
            status.pointer(path).and_then(Value::as_f64).with_context(|| format!("the status has no {path}"))
        };
        let per_s = |name: &str| {
            let path = format!("/total/{name}");
            Ok::<_, anyhow::Error>((count(after, &path)? - count(before, &path)?) / seconds)
        };
        let (accepts_per_s, accept_phases_per_s) = (per_s("accepts")?, per_s("accept_phases")?);
        let workers = after["workers"].as_array().context("the status has no workers")?.len();
        let shares = (0..workers).map(|worker| {
            let path = format!("/workers/{worker}/accepts");
            // A worker that was started meanwhile has nothing before.
            let accepts = count(after, &path)? - count(before, &path).unwrap_or(0.0);
            Ok(over(accepts / seconds, accepts_per_s))
        });
        Ok(Self {
            accepts_per_s,
            accept_phases_per_s,
            accepts_per_phase: over(accepts_per_s, accept_phases_per_s),
            phases_per_s: per_s("phases")?,
            event_waits_per_s: per_s("event_waits")?,
            shares: shares.collect::<Result<_>>()?,
        })
    }
}

/// A quotient that is 0 where there is nothing to divide by: JSON has no word for others, and a process for
/// each connection has no accept phases.
fn over(one: f64, other: f64) -> f64 {
    if other > 0.0 { one / other } else { 0.0 }
}

/// The kernel's counters of `TcpExt` that tell of connections dropped, in the network namespace of process
/// `pid`.
const DROPS: [&str; 8] = [
    "ListenOverflows",
    "ListenDrops",
    "TCPReqQFullDrop",
    "TCPReqQFullDoCookies",
    "SyncookiesSent",
    "SyncookiesRecv",
    "SyncookiesFailed",
    "TCPAbortOnTimeout",
];

fn drops(pid: u32) -> Result<BTreeMap<String, u64>> {
    let netstat = fs::read_to_string(format!("/proc/{pid}/net/netstat"))?;
    let of = |name: &&str| Some(((*name).to_owned(), network::tcp_extension(&netstat, name)?));
    let mut drops: BTreeMap<_, _> = DROPS.iter().filter_map(of).collect();
    let softnet = fs::read_to_string("/proc/net/softnet_stat")?;
    drops.insert("softnet".to_owned(), network::softnet_drops(&softnet));
    Ok(drops)
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// A valid outcome of which nothing is known but the rate of replies.
    pub(crate) fn outcome(replies_per_s: f64) -> Outcome {
        outcome_but(replies_per_s, &[])
    }

    /// One that the generator may have reasons against.
    pub(crate) fn outcome_but(replies_per_s: f64, reasons: &[&str]) -> Outcome {
        outcome_of_looks(replies_per_s, reasons, 1.0)
    }

    /// One of two seconds, where the looks were off.
    fn outcome_of_looks(replies_per_s: f64, reasons: &[&str], off_ms: f64) -> Outcome {
        let status = json!({
            "total": {
                "accepts": 0, "accept_phases": 0, "phases": 0, "event_waits": 0,
                "replies": { "2xx": 0, "4xx": 7 },
            },
            "workers": []
        });
        let ticks = CpuTicks::default();
        let sight = |at, accepts: u64| {
            let mut status = status.clone();
            status["time_unix_ms"] = json!(accepts * 10);
            status["total"]["accepts"] = json!(accepts);
            status["total"]["accept_phases"] = json!(accepts / 2);
            status["total"]["replies"]["2xx"] = json!(accepts * 2);
            let drops = BTreeMap::from([("ListenDrops".to_owned(), accepts * 3)]);
            Sight {
                at,
                status,
                drops,
                server_ns: accepts,
                server_cpu: ticks,
                client_cpu: ticks,
                page_cache: None,
                read: 0,
            }
        };
        let begun = Instant::now();
        let results = json!({
            "run": { "asked_requests_per_s": 10 },
            "calls": { "issued": 100, "timeouts": 10, "errors": 20 },
            "replies": { "per_s": replies_per_s, "body_mbps": 1 },
            "wait_ms": { "mean": 1, "p50": 1, "p99": 1 },
            "generator": { "cpu_us_per_call": 1 },
            "invalid": reasons,
        });
        let later = begun + Duration::from_secs(2);
        let looks = Looks { began_after_ms: 1.0, off_ms };
        let watched = Watched { first: sight(begun, 100), second: sight(later, 300), looks, results };
        Outcome::of(&watched, None).unwrap()
    }

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
    fn rates_are_differences_over_the_measured_time() {
        let outcome = outcome_but(5.0, &["late"]);
        assert!((outcome.accepting.accepts_per_s - 100.0).abs() < 1e-9);
        assert!((outcome.served_per_s - 200.0).abs() < 1e-9);
        assert!((outcome.accepting.accepts_per_phase - 2.0).abs() < 1e-9);
        assert!((outcome.drops_per_s["ListenDrops"] - 300.0).abs() < 1e-9);
        assert!((outcome.timeouts - 0.1).abs() < 1e-9 && (outcome.errors - 0.2).abs() < 1e-9);
        assert_eq!(outcome.invalid, ["late"]);
    }
}
