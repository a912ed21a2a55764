//! One trial: a measured run of a server under one load, in its own network, with counters from all sides.
//!
//! [`Site`] has what all trials of an experiment share. A trial makes the namespaces, then starts the
//! server on its CPUs, then the load. It reads counters at the start and at the end of the measured window.
//! Then it lets the clients wait for their last replies, and removes everything.
//!
//! The servers of a point can run together. If they are concurrent, each has its own load at the same time,
//! and they share a CPU by [`Turns`]. Interleaved, all servers are started, and the load goes to one after
//! the other, in slices of the measured time. Each slice has a new random order. So what the machine does
//! in one second affects all of them.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use std::{fmt, fs};

use anyhow::{Context, Result, anyhow, bail};
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;
use sys::process;

use crate::description::classes::CLASS;
use crate::description::lengths::Lengths;
use crate::description::load::{Load, Threshold};
use crate::description::setting::{Order, Receive, Setting};
use crate::description::tool::Tool;
use crate::description::workload::Prepared;
use crate::measuring::bounds::{self, Bounded, Bounds};
use crate::measuring::cgroup::Group;
use crate::measuring::counter::Counter;
use crate::measuring::figures;
use crate::measuring::generator::{Edge, Generator, Watched};
use crate::measuring::means::Means;
use crate::measuring::network::{Link, Network};
use crate::measuring::profiler::Profiler;
use crate::measuring::search;
use crate::measuring::share::Share;
use crate::measuring::sight::Sight;
use crate::measuring::subject::Subject;
use crate::measuring::turns::{Conductor, Turns};
use crate::measuring::wrk::{self, Wrk};
use crate::programs::child::list;
use crate::programs::interrupt;
use crate::programs::launcher::{Place, Server, announced};
use crate::progress::Progress;
use crate::record::outcome::Outcome;
use crate::servers::spec::Spec;
use crate::servers::{Application, Constant, Ground, Secured, certificate};

/// What all trials of an experiment share.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) means: Means,
    /// Whether this process may make namespaces and control groups.
    pub(crate) has_namespaces: bool,
    /// `name=value`, for the server's namespace.
    pub(crate) sysctls: Vec<String>,
    /// The directory for sockets, and for compiled applications.
    pub(crate) scratch: PathBuf,
    /// The directory for the certificates of servers that speak TLS.
    pub(crate) certificates: PathBuf,
}

/// The number of connections for which servers make room.
const CAPACITY: usize = 20_000;

/// The servers of one trial, and the directory for their files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    pub(crate) setting: &'a Setting,
    /// The load, with multiples as rates.
    pub(crate) load: Load,
    pub(crate) files: &'a Prepared,
    pub(crate) servers: &'a [&'a Spec],
    /// More options of the generator, for each server.
    pub(crate) clients: &'a [Vec<String>],
    /// The seed of the arrivals.
    pub(crate) seed: u64,
    pub(crate) directory: &'a Path,
    pub(crate) purpose: Purpose,
}

/// The purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Measuring,
    /// Every reply is compared with its file, which costs the generator CPU time.
    Verifying,
    /// The server's CPUs are sampled, which costs CPU time.
    Profiling,
    /// The server's system calls are counted, which makes each of them slower.
    Counting,
}

impl Site {
    /// The place for trials of a setting: the site's CPUs, or those of the setting.
    fn of(&self, setting: &Setting) -> Self {
        Self { means: placed(&self.means, setting), ..self.clone() }
    }

    /// One link for all CPUs of a server, or one for each CPU.
    pub(crate) fn links(&self, setting: &Setting) -> Vec<Link> {
        links(&placed(&self.means, setting), setting)
    }

    /// Runs one trial of each server of a block. A trial that is a search shows which rate it tries.
    pub(crate) fn run(&self, block: Block<'_>, progress: &Progress) -> Result<Vec<Outcome>> {
        interrupt::check()?;
        let this = self.of(block.setting);
        let Setting { share, cold, lengths, order, .. } = block.setting;
        let Prepared { root, asked, .. } = block.files;
        let files = asked.clone().map_or_else(|| bounds::files_below(root), Ok)?;
        if *cold {
            bounds::forget(&files)?;
        } else {
            bounds::read_all(&files)?;
        }
        let Means { server_cpus, client_cpus, .. } = &this.means;
        let sharing = client_cpus.iter().filter(|_| share.is_some());
        let _awake: Vec<Share> = sharing.map(|cpu| Share::of(*cpu)).collect::<Result<_>>()?;
        let servers = block.servers.iter().zip(block.clients).enumerate();
        let running = each_in_a_thread(servers, |(number, (spec, clients))| {
            let clients = clients.clone();
            Running::start(&this, block, spec, clients, block.directory.join(number.to_string()))
        })?;
        let see = || format!("see {}", block.directory.display());
        // Sampling begins with the measured time, or a little before.
        let profile = || Profiler::start(server_cpus, client_cpus, lengths.warm_up, block.directory);
        let profiler = (block.purpose == Purpose::Profiling).then(profile).transpose().with_context(see)?;
        let mut outcomes = match (block.load, order) {
            (Load::Most(threshold), _) => this.searched(block, &running, threshold, progress),
            (_, Order::Concurrent) => this.ask(block, *lengths, &running),
            (_, Order::Sequential) => this.interleaved(block, &running, 1),
            (_, Order::Interleaved) => this.interleaved(block, &running, lengths.slices),
        }
        .with_context(see);
        if let (Some(profiler), Ok(outcomes)) = (profiler, &mut outcomes) {
            outcomes[0].profile = profiler.finish(&running[0].server.threads()?).with_context(see)?;
        }
        each_in_a_thread(running, |one| {
            drop(one);
            Ok(())
        })?;
        outcomes
    }

    /// Runs the servers one after the other, in slices. The first slice of each has the whole warm-up, the
    /// others a part of it: the server is already warm, and only its clients are new.
    fn interleaved(&self, block: Block<'_>, running: &[Running], slices: u32) -> Result<Vec<Outcome>> {
        let whole = block.setting.lengths;
        let mut random = Pcg64Mcg::seed_from_u64(block.seed);
        let mut order: Vec<usize> = (0..running.len()).collect();
        let mut all: Vec<Vec<Outcome>> = running.iter().map(|_| Vec::new()).collect();
        for slice in 0..slices {
            order.shuffle(&mut random);
            let warm_up = if slice == 0 { whole.warm_up } else { whole.warm_up / slices };
            let lengths = Lengths { warm_up, measured: whole.measured / slices, ..whole };
            let block = Block { seed: block.seed + u64::from(slice) * 10_000, ..block };
            for &number in &order {
                all[number].extend(self.ask(block, lengths, &running[number..=number])?);
            }
        }
        all.into_iter().map(|slices| figures::median(slices).context("no slice was measured")).collect()
    }

    /// Runs the servers one after the other, each with its own search for the highest rate.
    fn searched(
        &self,
        block: Block<'_>,
        running: &[Running],
        threshold: Threshold,
        progress: &Progress,
    ) -> Result<Vec<Outcome>> {
        // A client that waits for much longer than the threshold only occupies a connection.
        let timeout = (threshold.time * 20).max(Duration::from_millis(200));
        let lengths = block.setting.lengths;
        let lengths = Lengths { timeout: lengths.timeout.min(timeout), ..lengths };
        let mut order: Vec<usize> = (0..running.len()).collect();
        order.shuffle(&mut Pcg64Mcg::seed_from_u64(block.seed));
        let mut found = Vec::new();
        for number in order {
            let mut seed = block.seed;
            let mut outcome = search::highest(threshold, self.shares_cpus(), |rate| {
                seed += 10_000;
                progress.begin(&format!("{} at {rate:.0} requests/s", block.servers[number].name));
                let block = Block { load: Load::Rate(rate), seed, ..block };
                self.ask(block, lengths, &running[number..=number])?.pop().context("nobody was asked")
            })?;
            // The search takes a lost server for a rate that is too high.
            outcome.failed.extend(running[number].lost()?);
            found.push((number, outcome));
        }
        found.sort_by_key(|(number, _)| *number);
        Ok(found.into_iter().map(|(_, outcome)| outcome).collect())
    }

    /// Loads some of a block's servers at the same time. The others get no load.
    fn ask(&self, block: Block<'_>, lengths: Lengths, asked: &[Running]) -> Result<Vec<Outcome>> {
        let Setting { share, turn_us, slow_cpu, .. } = block.setting;
        // Idle servers also keep their shares, so that the share of each server is the same.
        let shared = |share: f64| Turns::shared(*turn_us, share / 100.0, block.servers.len());
        let turns = share.map(shared).or(slow_cpu.map(Turns::slow));
        let conduct = |turns| Conductor::start(self.means.server_cpus[0], turns);
        let conductor = turns.map(conduct).transpose()?;
        let asking = match (block.setting.generator, block.load) {
            (Tool::Wrk { closes }, Load::Sessions(connections)) => Asking::ByWrk { connections, closes },
            (Tool::Wrk { .. }, load) => bail!("{load}: wrk only takes a number of connections"),
            (Tool::Sluicelab, load) => {
                // Runs before the measurement have a closed loop with identical clients.
                Asking::ByLoad { options: self.load_options(block, lengths)?, is_open: load.is_open() }
            }
        };
        let seen = each_in_a_thread(asked, |one| one.watch(self, &asking, lengths))?;
        let given = conductor.map(Conductor::stop).transpose()?;
        let outcome = |seen: Result<Seen, String>| match seen {
            Ok(Seen::OfLoad(watched)) => figures::of(&watched, given, block.setting.rules),
            Ok(Seen::OfWrk(watched)) => figures::of_wrk(&watched, self.means.client_cpus.len(), given),
            Err(why) => Ok(Outcome::lost(why)),
        };
        seen.into_iter().map(outcome).collect()
    }

    /// Whether clients run with real-time priority. This needs root, and CPUs on which no server runs.
    fn may_run_before_others(&self) -> bool {
        self.has_namespaces && !self.shares_cpus()
    }

    /// Whether servers and clients share a CPU.
    fn shares_cpus(&self) -> bool {
        let Means { server_cpus, client_cpus, .. } = &self.means;
        client_cpus.iter().any(|cpu| server_cpus.contains(cpu))
    }

    fn load_options(&self, block: Block<'_>, lengths: Lengths) -> Result<Vec<String>> {
        let load = match block.load {
            Load::Sessions(count) => format!("--connections={count}"),
            Load::Rate(rate) | Load::Times(rate) => format!("--rate={rate:.3}"),
            // Classes have their own rates.
            Load::Classes => String::new(),
            Load::Most(threshold) => bail!("mat: {threshold} needs a search over rates"),
        };
        let client_cpus = &self.means.client_cpus;
        let ms = |time: Duration| format!("{}ms", time.as_millis());
        let clients = &block.setting.clients;
        let has_classes = block.load.is_open() && clients.iter().any(|option| option.starts_with(CLASS));
        let mut options = vec![
            format!("--sessions={}", block.files.sessions.display()),
            format!("--seed={}", block.seed),
            format!("--duration={}", ms(lengths.warm_up + lengths.measured)),
            format!("--warm-up={}", ms(lengths.warm_up)),
            format!("--timeout={}", ms(lengths.timeout)),
            format!("--cpus={}", list(client_cpus)),
            "--rules".to_owned(),
        ];
        if let Some(tls) = block.setting.tls {
            options.extend([
                format!("--roots={}", certificate::file(&self.certificates, tls.key).display()),
                format!("--tls-name={}", certificate::NAME),
                format!("--resumption={}", if tls.resumption { "on" } else { "off" }),
                format!("--tls-version={}", tls.version),
                format!("--tls-group={}", tls.group),
                format!("--tls-cipher={}", tls.cipher),
            ]);
        }
        // Classes have their own rates.
        options.extend((!has_classes).then_some(load));
        if self.may_run_before_others() {
            options.push("--realtime".to_owned());
        }
        if block.purpose == Purpose::Verifying {
            options.push(format!("--verify={}", block.files.root.display()));
        }
        let usual = if self.shares_cpus() {
            Some(MAY_WAIT_FOR_SERVERS)
        } else {
            (block.setting.order == Order::Concurrent).then_some(MAY_WAIT_FOR_GENERATORS)
        };
        options.extend(block.setting.may_wait.or(usual).map(|percent| format!("--may-wait={percent}")));
        Ok(options)
    }
}

/// The CPUs of servers and clients in a setting: those of the lab, all of them, or a given number.
fn placed(means: &Means, setting: &Setting) -> Means {
    let mut means = means.clone();
    let Means { server_cpus, client_cpus, .. } = &mut means;
    let count = setting.cpus.map_or(usize::MAX, |count| count as usize);
    if setting.both_cpus {
        server_cpus.append(client_cpus);
        server_cpus.sort_unstable();
        server_cpus.dedup();
        server_cpus.truncate(count);
        client_cpus.clone_from(server_cpus);
    } else if setting.cpus.is_some() {
        // The clients' CPUs come last. A server that gets one of them shares it with the clients.
        let others: Vec<usize> =
            client_cpus.iter().filter(|cpu| !server_cpus.contains(cpu)).copied().collect();
        server_cpus.extend(others);
        server_cpus.truncate(count);
    }
    means
}

/// The links for servers with these CPUs.
fn links(Means { server_cpus, client_cpus, .. }: &Means, setting: &Setting) -> Vec<Link> {
    let link = |usual: &[usize]| Link {
        server_cpus: match setting.receive {
            Receive::Sender => Vec::new(),
            Receive::Receiver => usual.to_vec(),
            Receive::One => server_cpus[..1].to_vec(),
            Receive::Spread => server_cpus.clone(),
        },
        client_cpus: if setting.receive == Receive::Sender { Vec::new() } else { client_cpus.clone() },
    };
    if setting.both_cpus {
        return server_cpus.iter().map(|cpu| link(&[*cpu])).collect();
    }
    vec![link(server_cpus)]
}

/// How load is made.
enum Asking {
    /// With these options of `sluicelab load`.
    ByLoad {
        options: Vec<String>,
        /// Whether clients come at a rate, and each server's own options for them are added.
        is_open: bool,
    },
    /// By wrk, with this many connections.
    ByWrk { connections: u32, closes: bool },
}

/// The counters of a run.
enum Seen {
    OfLoad(Box<Watched<Sight>>),
    OfWrk(Box<wrk::Watched<Sight>>),
}

/// The part of the time, in percent, that generators may wait for a CPU that they share with other
/// generators.
const MAY_WAIT_FOR_GENERATORS: u32 = 50;
/// That part for generators that share a CPU with servers. Servers always want the CPU time that clients
/// leave.
const MAY_WAIT_FOR_SERVERS: u32 = 100;

/// Marks an error that kept a server from starting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotStarted;

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it does not start")
    }
}

/// A running server, with everything that was set up for it. Fields are dropped from first to last.
struct Running {
    server: Subject,
    _beside: [Option<Server>; 2],
    _idle: Vec<TcpStream>,
    _share: Option<Share>,
    /// The counter of system calls, if these are counted.
    counter: Option<Counter>,
    bounded: Option<Bounded>,
    network: Network,
    /// More options of the generator.
    clients: Vec<String>,
    /// What wrk requests.
    target: Option<String>,
    /// How the URLs of the server begin.
    scheme: &'static str,
    /// The directory for files of the server and its generator.
    directory: PathBuf,
}

/// Runs a function for each, all at the same time.
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

/// Starts a program beside the clients, on their CPUs: the back-end simulator, or the lab's own application.
/// It is no part of the server.
fn beside(words: &[String], site: &Site, network: &Network, log: &Path) -> Result<Server> {
    let wrapper = network.in_client();
    let place = Place { cpus: &site.means.client_cpus, wrapper: &wrapper, log };
    Server::start(words, place, |said| announced(said).first().copied())
}

impl Running {
    fn start(
        site: &Site,
        block: Block<'_>,
        spec: &Spec,
        clients: Vec<String>,
        directory: PathBuf,
    ) -> Result<Self> {
        fs::create_dir_all(&directory)?;
        let Setting { workload, application, tls, memory, disk, others, share, generator, .. } =
            block.setting;
        let network = if let Some(running) = spec.running() {
            Network::of_running(running.address)
        } else if site.has_namespaces {
            Network::isolated(&site.links(block.setting), &site.sysctls)?
        } else {
            Network::loopback(site.links(block.setting).len())?
        };
        let bounds =
            memory.zip(*disk).map(|(memory, disk)| Bounds { memory, reads_per_s: disk, others: *others });
        let Means { sluice, server_cpus, client_cpus, .. } = &site.means;
        let new = |bounds| Bounded::new(bounds, &block.files.root, client_cpus[0]);
        let bounded = bounds.map(new).transpose()?;
        let share = share.map(|_| Share::of(server_cpus[0])).transpose()?;
        let groups =
            [bounded.as_ref().map(|bounded| &bounded.group), share.as_ref().map(|share| &share.group)];
        let mut wrapper: Vec<String> = groups.into_iter().flatten().flat_map(Group::entering).collect();
        wrapper.extend(network.in_server());
        let sockets = site.scratch.join(directory.file_name().unwrap_or_default());
        // Sockets that an earlier application left would be in the way.
        let _ = fs::remove_dir_all(&sockets);
        fs::create_dir_all(&sockets)?;
        let asks = application.as_ref().is_some_and(Application::asks_besim);
        let listen = SocketAddr::from((network.of_clients, 0));
        let start = |words: Vec<String>, log| beside(&words, site, &network, &directory.join(log));
        let besim = asks.then(|| {
            let program = site.means.sluicelab.display().to_string();
            start(vec![program, "besim".to_owned(), format!("--listen={listen}")], "besim")
        });
        let besim = besim.transpose().context(NotStarted)?;
        let standard = application.as_ref().and_then(|application| application.beside(listen));
        let standard = standard.map(|words| start(words, "application")).transpose().context(NotStarted)?;
        let asks_for_one = workload.asks_for_one_file();
        let target = asks_for_one.then(|| block.files.first_target()).transpose()?;
        let pem = tls.map(|tls| certificate::file(&site.certificates, tls.key));
        let constant = |target| Constant { target, closes: generator.closes() };
        let ground = Ground {
            root: &block.files.root,
            listen: &network.addresses,
            directory: &directory,
            sockets: &sockets,
            cpus: server_cpus.len(),
            capacity: CAPACITY,
            sluice,
            constant: target.as_deref().map(constant),
            application: application.as_ref(),
            over_tcp: None,
            programs: &site.scratch,
            besim: besim.as_ref().map(|besim| besim.address),
            standard: standard.as_ref().map(|standard| standard.address),
            secured: tls.zip(pem.as_deref()).map(|(tls, pem)| Secured { tls, pem }),
        };
        let scheme = ground.scheme();
        let server = Subject::start(spec, &ground, &network, server_cpus, &wrapper);
        let server = server.context(NotStarted)?;
        if let Some(share) = &share
            && let Some(status) = server.status_process()?
        {
            share.excuse(status)?;
        }
        let idle = network.connect(network.addresses[0], workload.idle as usize)?;
        let count = || Counter::start(|| server.processes(), client_cpus, &directory);
        let counter = (block.purpose == Purpose::Counting).then(count).transpose()?;
        Ok(Self {
            server,
            _beside: [besim, standard],
            _idle: idle,
            _share: share,
            counter,
            bounded,
            network,
            clients,
            target,
            scheme,
            directory,
        })
    }

    /// Loads the server with its own clients, and reads counters meanwhile. The inner error says why the
    /// server ended.
    fn watch(&self, site: &Site, asking: &Asking, lengths: Lengths) -> Result<Result<Seen, String>> {
        // The clients run in real time. Without real-time priority, this thread would read the counters
        // late.
        if site.may_run_before_others() {
            process::run_in_real_time().context("cannot run in real time")?;
        }
        let seen = match asking {
            Asking::ByLoad { options, is_open } => {
                let clients = if *is_open { &self.clients[..] } else { &[] };
                self.watch_load(site, options.iter().chain(clients), lengths)
            }
            Asking::ByWrk { connections, closes } => self.watch_wrk(site, *connections, *closes, lengths),
        };
        match seen {
            Ok(watched) => Ok(Ok(watched)),
            Err(error) => match self.lost()? {
                Some(why) => Ok(Err(format!("{why} ({error:#})"))),
                None => Err(error),
            },
        }
    }

    /// The reason why the server, or a part of it, has ended.
    fn lost(&self) -> Result<Option<String>> {
        let killed = self.bounded.as_ref().map_or(Ok(0), Bounded::killed)?;
        let ended = self.server.has_ended()?.then(|| "it ended by itself".to_owned());
        Ok(figures::want_of_memory(killed).or(ended))
    }

    fn watch_load<'a>(
        &self,
        site: &Site,
        options: impl Iterator<Item = &'a String>,
        lengths: Lengths,
    ) -> Result<Seen> {
        let scheme = self.scheme;
        let targets = self.network.addresses.iter().map(|address| format!("--target={scheme}://{address}"));
        let filled = options.map(|option| option.replace("{networks}", self.network.networks));
        let mut options: Vec<String> = targets.chain(filled).collect();
        // Clients of one link cannot reach another link.
        options.extend(self.network.only_sources.iter().map(|sources| format!("--source={sources}")));
        let sluicelab = &site.means.sluicelab;
        let generator = Generator::start(sluicelab, &self.network.in_client(), &options, &self.directory)?;
        Ok(Seen::OfLoad(Box::new(generator.watch(lengths, |edge| self.sight(site, edge))?)))
    }

    fn watch_wrk(&self, site: &Site, connections: u32, closes: bool, lengths: Lengths) -> Result<Seen> {
        let target = self.target.as_deref().context("wrk has nothing to ask for")?;
        let mut wrapper = self.network.in_client();
        if site.may_run_before_others() {
            wrapper.extend(["chrt", "--fifo", "1"].map(str::to_owned));
        }
        let wrk = Wrk {
            cpus: &site.means.client_cpus,
            wrapper: &wrapper,
            url: &format!("http://{}{target}", self.network.addresses[0]),
            connections,
            closes,
            timeout_s: lengths.timeout.as_secs_f64().ceil() as u64,
            directory: &self.directory,
        };
        Ok(Seen::OfWrk(Box::new(wrk.watch(lengths, |edge| self.sight(site, edge))?)))
    }

    fn sight(&self, site: &Site, edge: Edge) -> Result<Sight> {
        let Means { server_cpus, client_cpus, .. } = &site.means;
        let sight = Sight::of(edge, &self.server, self.bounded.as_ref(), server_cpus, client_cpus)?;
        let calls = self.counter.as_ref().map(Counter::sample).transpose()?;
        Ok(Sight { calls, ..sight })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::experiment::Experiment;

    /// The CPUs of the server, those of the clients, and the receiving CPUs of each link.
    fn of(keys: &str) -> (Vec<usize>, Vec<usize>, Vec<Vec<usize>>) {
        let text = format!(
            "title = 't'\nservers = ['sluice']\n[[points]]\nworkload = 'single'\nload = '2x'\n{keys}"
        );
        let setting = Experiment::parse(&text).unwrap().points.remove(0).setting;
        let means = Means {
            sluice: PathBuf::new(),
            sluicelab: PathBuf::new(),
            data: PathBuf::new(),
            server_cpus: vec![0, 1],
            client_cpus: vec![2, 3],
            loopback: false,
            command: String::new(),
        };
        let means = placed(&means, &setting);
        let receiving = links(&means, &setting).into_iter().map(|link| link.server_cpus).collect();
        // Applying it twice changes nothing.
        let Means { server_cpus, client_cpus, .. } = placed(&means, &setting);
        assert_eq!((&server_cpus, &client_cpus), (&means.server_cpus, &means.client_cpus));
        (server_cpus, client_cpus, receiving)
    }

    #[test]
    fn a_point_says_on_how_many_cpus_servers_run_and_who_receives() {
        assert_eq!(of(""), (vec![0, 1], vec![2, 3], vec![vec![0, 1]]));
        assert_eq!(of("receive = 'one'"), (vec![0, 1], vec![2, 3], vec![vec![0]]));
        assert_eq!(of("receive = 'sender'").2, [Vec::<usize>::new()]);
        assert_eq!(of("cpus = 1"), (vec![0], vec![2, 3], vec![vec![0]]));
        assert_eq!(of("cpus = 3").0, [0, 1, 2]);
        let both = |receive: &str| of(&format!("both_cpus = true\n{receive}"));
        assert_eq!(both(""), (vec![0, 1, 2, 3], vec![0, 1, 2, 3], vec![vec![0], vec![1], vec![2], vec![3]]));
        assert_eq!(both("cpus = 2"), (vec![0, 1], vec![0, 1], vec![vec![0], vec![1]]));
        assert_eq!(both("receive = 'one'").2, vec![vec![0]; 4]);
        assert_eq!(both("receive = 'spread'").2, vec![vec![0, 1, 2, 3]; 4]);
    }
}
