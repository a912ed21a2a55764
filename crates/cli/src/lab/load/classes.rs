//! The clients of a run, and how their sessions arrive. Clients are all alike, or in classes, each with its
//! own rate, timeouts, retries and addresses.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use load::report::AskedOfClass;
use load::run::{Class, Load, Timeouts};
use load::schedule::{Arrivals, Rate, Schedule};
use workload::session::SessionLog;

use super::{ArrivalsName, OnTimeout, Options};
use crate::lab::BadInput;
use crate::lab::values::{self, Several, Target};

/// A class as typed. Values that it leaves out are those of all clients.
#[derive(Clone, Debug)]
pub(super) struct ClassOption {
    pub(super) name: String,
    come: Come,
    /// Full handshakes are all that it makes.
    pub(super) handshakes_only: bool,
    timeout: Option<Duration>,
    connect_timeout: Option<Duration>,
    retries: Option<u32>,
    pub(super) sources: Vec<IpAddr>,
}

/// How a class's requests or handshakes come.
#[derive(Clone, Debug)]
enum Come {
    /// At a rate per second; over connections that are kept, if it says how many.
    AtRate { rate: Rate, kept: Option<u32> },
    /// In a closed loop of so many connections, or clients that make handshakes.
    Closed(u32),
}

impl ClassOption {
    /// Whether it asks again when it is answered.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.come, Come::Closed(_))
    }

    /// The connections that it keeps.
    pub(super) fn kept_connections(&self) -> Option<u32> {
        match self.come {
            Come::AtRate { kept, .. } => kept,
            Come::Closed(connections) => (!self.handshakes_only).then_some(connections),
        }
    }

    /// The clients of this class. `calls_per_session` is an average; `usual` has the values of all clients.
    pub(super) fn class(
        &self,
        arrivals: Arrivals,
        seed: u64,
        calls_per_session: f64,
        usual: &Class,
    ) -> Class {
        // A handshake is a session.
        let calls_per_session = if self.handshakes_only { 1.0 } else { calls_per_session };
        let load = match &self.come {
            Come::AtRate { rate, kept } => {
                let schedule = Schedule::drawn(rate.times(1.0 / calls_per_session), arrivals, seed);
                Load::Arriving { schedule, count: None, kept: *kept }
            }
            &Come::Closed(connections) => {
                Load::Closed { connections, count: None, kept: !self.handshakes_only }
            }
        };
        let Timeouts { connect, reply, think, retries } = usual.timeouts;
        let timeouts = Timeouts {
            connect: self.connect_timeout.or(self.timeout).unwrap_or(connect),
            reply: self.timeout.unwrap_or(reply),
            think,
            retries: self.retries.unwrap_or(retries),
        };
        let sources = if self.sources.is_empty() { &usual.sources } else { &self.sources };
        Class {
            name: self.name.clone(),
            load,
            handshakes_only: self.handshakes_only,
            sources: sources.clone(),
            timeouts,
        }
    }
}

/// The classes of clients: those of the options, or a single one without a name.
pub(super) fn of(options: &Options, log: &SessionLog) -> Result<Vec<Class>> {
    let timeouts = Timeouts {
        connect: options.connect_timeout.unwrap_or(options.timeout),
        reply: options.timeout,
        think: options.think,
        retries: match options.on_timeout {
            OnTimeout::Fail => 0,
            OnTimeout::Retry => u32::MAX,
        },
    };
    let sources = options.source.iter().flat_map(|several| &several.0).copied().collect();
    let class = |load| Class { name: String::new(), load, handshakes_only: false, sources, timeouts };
    if options.class.is_empty() {
        return Ok(vec![class(how_it_comes(options, log)?)]);
    }
    let usual = class(Load::Closed { connections: 0, count: None, kept: false });
    let calls_per_session = log.calls() as f64 / log.len() as f64;
    let arrivals = match options.arrivals.map(ArrivalsName::drawn) {
        Some(None) => {
            bail!(BadInput("--arrivals logged: does not go with --class; leave out one of them".to_owned()))
        }
        Some(Some(arrivals)) => arrivals,
        None => Arrivals::Exponential,
    };
    let classes = options.class.iter().zip(options.seed..);
    Ok(classes.map(|(class, seed)| class.class(arrivals, seed, calls_per_session, &usual)).collect())
}

/// How sessions arrive: in a closed loop, at a rate, or at the times in the log.
fn how_it_comes(options: &Options, log: &SessionLog) -> Result<Load> {
    let &Options { connections, arrivals, session_count, request_count, .. } = options;
    let sessions_per_call = log.len() as f64 / log.calls() as f64;
    let for_requests = |requests: u64| requests.div_ceil((log.calls() / log.len()) as u64);
    let of_requests = request_count.map(for_requests);
    let rate = options.rate.as_ref().map(|rate| rate.times(sessions_per_call));
    let rate = options.session_rate.clone().or(rate);
    let drawn = match arrivals.map(ArrivalsName::drawn) {
        None => Arrivals::Exponential,
        Some(Some(drawn)) => drawn,
        Some(None) if rate.is_none() && connections.is_none() => return logged(options, log),
        Some(None) => bail!(BadInput(
            "--arrivals logged: the session file says when sessions arrive; leave out --rate, --session-rate \
             and --connections"
                .to_owned()
        )),
    };
    match (connections, rate) {
        // A loop continues until all requests are sent, over as many connections as that takes.
        (Some(connections), None) => Ok(Load::Closed { connections, count: session_count, kept: false }),
        (kept, Some(rate)) => {
            let count = session_count.or(of_requests);
            Ok(Load::Arriving { schedule: Schedule::drawn(rate, drawn, options.seed), count, kept })
        }
        (None, None) if arrivals.is_none() => logged(options, log),
        (None, None) => bail!(BadInput("--arrivals: one of --rate and --session-rate is needed".to_owned())),
    }
}

/// Each session once, at its time in the log.
fn logged(options: &Options, log: &SessionLog) -> Result<Load> {
    let Some(times) = log.arrivals() else {
        bail!(BadInput(
            "how does load come? Say --connections N (-c), each asking again when it is answered, or \
             --rate R (-r), requests per second, or --session-rate, or --class, or --sessions FILE with the \
             times of a log (sluicelab sessions replay)"
                .to_owned()
        ))
    };
    let count = options.session_count.map_or(times.len(), |count| times.len().min(count as usize));
    let schedule = Schedule::logged(times.into_iter().take(count));
    Ok(Load::Arriving { schedule, count: Some(count as u64), kept: None })
}

/// What classes ask for each second, on average.
pub(super) struct Asked {
    /// `None` if a class is a closed loop, or that is not known.
    pub(super) sessions_per_s: Option<f64>,
    /// Requests, without handshakes of classes that only make these.
    pub(super) requests_per_s: Option<f64>,
    /// Each of the classes that have a name.
    pub(super) classes: Vec<AskedOfClass>,
}

/// What classes ask for, where `average` tells how many sessions of a schedule come each second.
pub(super) fn asked(
    classes: &[Class],
    calls_per_session: f64,
    average: impl Fn(&Schedule) -> Option<f64>,
) -> Asked {
    let sessions_of = |class: &Class| match &class.load {
        Load::Arriving { schedule, .. } => average(schedule),
        Load::Closed { .. } => None,
    };
    let calls_of = |class: &Class| if class.handshakes_only { 1.0 } else { calls_per_session };
    let of_class = |class: &Class| AskedOfClass {
        name: class.name.clone(),
        handshakes_only: class.handshakes_only,
        asked_requests_per_s: sessions_of(class).unwrap_or(0.0) * calls_of(class),
        connections: match class.load {
            Load::Closed { connections, .. } => Some(connections),
            Load::Arriving { kept, .. } => kept,
        },
        connect_timeout_s: class.timeouts.connect.as_secs_f64(),
        reply_timeout_s: class.timeouts.reply.as_secs_f64(),
        retries: Some(class.timeouts.retries).filter(|retries| *retries < u32::MAX),
        sources: class.sources.iter().map(IpAddr::to_string).collect(),
    };
    let asking = classes.iter().filter(|class| !class.handshakes_only);
    let sessions: Option<f64> = asking.map(sessions_of).sum();
    Asked {
        sessions_per_s: classes.iter().map(sessions_of).sum(),
        requests_per_s: sessions.map(|per_s| per_s * calls_per_session),
        classes: classes.iter().filter(|class| !class.name.is_empty()).map(of_class).collect(),
    }
}

/// Checks what goes with connections that are kept open, and with handshakes alone.
pub(super) fn check(options: &Options, targets: &[Target], threads: usize) -> Result<(), BadInput> {
    if options.is_paced() {
        let connections = options.connections.unwrap_or(0);
        let place = format!("--connections {connections}");
        check_kept(options, targets, threads, &place, connections, "--rate and --connections")?;
    }
    for class in &options.class {
        if let Some(connections) = class.kept_connections() {
            let place = format!("--class '{}: connections={connections}'", class.name);
            check_kept(options, targets, threads, &place, connections, "connections= in --class")?;
        }
        let is_plain = |to: &&Target| to.server.tls_name().is_none();
        if let Some(target) = targets.iter().find(is_plain).filter(|_| class.handshakes_only) {
            return Err(BadInput(format!(
                "--class '{}: handshakes-only': {} does not speak TLS; allowed: targets such as \
                 https://127.0.0.1:8443/",
                class.name, target.server
            )));
        }
    }
    Ok(())
}

/// Checks options that do not go with connections that are kept open. `place` says how many these are, and
/// `by` which options ask for them.
fn check_kept(
    options: &Options,
    targets: &[Target],
    threads: usize,
    place: &str,
    connections: u32,
    by: &str,
) -> Result<(), BadInput> {
    if (connections as usize) < threads {
        return Err(BadInput(format!(
            "{place}: each of the {threads} --cpus needs one; allowed: from {threads}"
        )));
    }
    if options.requests.requests_per_connection.is_some() {
        return Err(BadInput(format!(
            "--requests-per-connection: with {by}, connections are kept; leave one of them out"
        )));
    }
    if !options.requests.has_own_paths() && targets.iter().any(|to| to.path != targets[0].path) {
        return Err(BadInput(format!(
            "--target: with {by} all targets have the same path, such as {}",
            targets[0].path
        )));
    }
    Ok(())
}

/// The word of a class that only makes handshakes.
const HANDSHAKES_ONLY: &str = "handshakes-only";

/// The most connections of a class.
const MOST_CONNECTIONS: u32 = 1_000_000;

/// A class such as `slow: rate=20 timeout=2s retries=2 source=127.0.0.3`.
pub(super) fn class(text: &str) -> Result<ClassOption, String> {
    let allowed = "allowed: a name and values, such as 'slow: rate=20 timeout=2s retries=2 \
                   source=127.0.0.3'; rate, connections, timeout, connect-timeout, retries, source, \
                   handshakes-only";
    let (name, values) = text.split_once(':').ok_or(allowed)?;
    let name = name.trim();
    if name.is_empty() || name.contains('=') || name.chars().any(char::is_control) {
        return Err(format!("it has no name; {allowed}"));
    }
    let (mut rate, mut timeout, mut connect_timeout, mut retries) = (None, None, None, None);
    let (mut connections, mut handshakes_only) = (None, false);
    let mut sources = Vec::new();
    for word in values.split_ascii_whitespace() {
        if word == HANDSHAKES_ONLY {
            handshakes_only = true;
            continue;
        }
        let (key, value) = word.split_once('=').ok_or_else(|| format!("{word:?} is no value; {allowed}"))?;
        let duration = || {
            let time = units::parse_time(value).map_err(|error| format!("{word}: {error}"))?;
            if time.is_zero() { Err(format!("{word}: allowed: from 1ms")) } else { Ok(Some(time)) }
        };
        match key {
            "rate" => rate = Some(values::rate(value).map_err(|allowed| format!("{word}: {allowed}"))?),
            "connections" => {
                let number = value.parse().ok().filter(|number| (1..=MOST_CONNECTIONS).contains(number));
                let number = number.ok_or_else(|| format!("{word}: allowed: 1 to {MOST_CONNECTIONS}"))?;
                connections = Some(number);
            }
            "timeout" => timeout = duration()?,
            "connect-timeout" => connect_timeout = duration()?,
            "retries" => {
                let number = value.parse().map_err(|_| format!("{word}: allowed: a number from 0"))?;
                retries = Some(number);
            }
            "source" => {
                let Several(more) = values::sources(value).map_err(|allowed| format!("{word}: {allowed}"))?;
                sources.extend(more);
            }
            _ => return Err(format!("{key} is not known; {allowed}")),
        }
    }
    let come = match (rate, connections) {
        (Some(_), Some(connections)) if handshakes_only => {
            return Err(format!(
                "connections={connections}: with {HANDSHAKES_ONLY}, no connection is kept; leave out \
                 connections, or rate for a closed loop"
            ));
        }
        (Some(rate), kept) => Come::AtRate { rate, kept },
        (None, Some(connections)) => Come::Closed(connections),
        (None, None) => return Err(format!("{name} has neither rate nor connections; {allowed}")),
    };
    let name = name.to_owned();
    Ok(ClassOption { name, come, handshakes_only, timeout, connect_timeout, retries, sources })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual() -> Class {
        let second = Duration::from_secs(1);
        Class {
            name: String::new(),
            load: Load::Closed { connections: 1, count: None, kept: false },
            handshakes_only: false,
            sources: vec![[127, 0, 0, 9].into()],
            timeouts: Timeouts { connect: 8 * second, reply: 9 * second, think: second, retries: 1 },
        }
    }

    #[test]
    fn what_is_not_said_is_as_with_all() {
        let of = |text| class(text).unwrap().class(Arrivals::Fixed, 1, 2.0, &usual());
        let all = of("all: rate=5");
        assert_eq!((&*all.name, all.timeouts, all.sources), ("all", usual().timeouts, usual().sources));
        let load = |rate| Load::Arriving {
            schedule: Schedule::drawn(Rate::constant(rate).unwrap(), Arrivals::Fixed, 1),
            count: None,
            kept: None,
        };
        assert_eq!(all.load, load(2.5));
        let own = of("the slow : rate=20  timeout=2s retries=3 source=127.0.0.2-127.0.0.3 source=127.0.0.5");
        let two = Duration::from_secs(2);
        assert_eq!((&*own.name, own.sources.len()), ("the slow", 3));
        assert_eq!(
            own.timeouts,
            Timeouts { connect: two, reply: two, retries: 3, think: Duration::from_secs(1) }
        );
        assert_eq!(of("a: rate=1 timeout=2s connect-timeout=9s").timeouts.connect, Duration::from_secs(9));
        assert!(class("steps: rate=0-500:30s,500:1min,100").is_ok());
    }

    #[test]
    fn a_class_comes_at_a_rate_or_in_a_closed_loop() {
        let of = |text| class(text).unwrap().class(Arrivals::Fixed, 1, 2.0, &usual());
        let arriving = |rate, kept| Load::Arriving {
            schedule: Schedule::drawn(Rate::constant(rate).unwrap(), Arrivals::Fixed, 1),
            count: None,
            kept,
        };
        let closed = |connections, kept| Load::Closed { connections, count: None, kept };
        for (text, load, handshakes_only) in [
            ("a: rate=6", arriving(3.0, None), false),
            ("a: rate=6 connections=4", arriving(3.0, Some(4)), false),
            ("a: connections=4", closed(4, true), false),
            ("a: rate=6 handshakes-only", arriving(6.0, None), true),
            ("a: handshakes-only connections=4", closed(4, false), true),
        ] {
            let class = of(text);
            assert_eq!((class.load, class.handshakes_only), (load, handshakes_only), "{text}");
        }
    }

    #[test]
    fn mistakes_name_their_place() {
        for (text, told) in [
            ("rate=5", "allowed: a name and values"),
            (": rate=5", "it has no name; allowed"),
            ("rate=5:", "it has no name; allowed"),
            ("a: timeout=5s", "a has neither rate nor connections; allowed"),
            ("a: handshakes-only", "a has neither rate nor connections; allowed"),
            ("a: connections=0", "connections=0: allowed: 1 to 1000000"),
            ("a: rate=5 connections=1000001", "connections=1000001: allowed: 1 to 1000000"),
            ("a: rate=5 handshakes-only connections=3", "connections=3: with handshakes-only, no connection"),
            ("a: rate=5 handshakes-only=1", "handshakes-only is not known; allowed"),
            ("a: rate=0", "rate=0: a rate must be a number above 0"),
            ("a: rate=5 timeout=soon", "timeout=soon: not a time; allowed: a number and a unit"),
            ("a: rate=5 timeout=20", "timeout=20: a time needs a unit; allowed: us, ms, s"),
            ("a: rate=5 timeout=0", "timeout=0: allowed: from 1ms"),
            ("a: rate=5 retries=-1", "retries=-1: allowed: a number from 0"),
            ("a: rate=5 source=x", "source=x: allowed: an address"),
            ("a: rate=5 speed=5", "speed is not known; allowed"),
            ("a: rate=5 fast", "\"fast\" is no value; allowed"),
        ] {
            let error = class(text).unwrap_err();
            assert!(error.starts_with(told), "{text}: {error}");
        }
    }
}
