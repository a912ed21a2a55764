//! The clients of a run, and how their sessions arrive. Clients are all alike, or in classes, each with its
//! own rate, timeouts, retries and addresses.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, bail};
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
    /// Requests per second.
    pub(super) rate: Rate,
    timeout: Option<Duration>,
    connect_timeout: Option<Duration>,
    retries: Option<u32>,
    pub(super) sources: Vec<IpAddr>,
}

impl ClassOption {
    /// The clients of this class. `calls_per_session` is an average; `usual` has the values of all clients.
    pub(super) fn class(
        &self,
        arrivals: Arrivals,
        seed: u64,
        calls_per_session: f64,
        usual: &Class,
    ) -> Class {
        let rate = self.rate.times(1.0 / calls_per_session);
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
            load: Load::Arriving { schedule: Schedule::drawn(rate, arrivals, seed), count: None, kept: None },
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
    let class = |load| Class { name: String::new(), load, sources, timeouts };
    if options.class.is_empty() {
        return Ok(vec![class(how_it_comes(options, log)?)]);
    }
    let usual = class(Load::Closed { connections: 0, count: None });
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
        (Some(connections), None) => Ok(Load::Closed { connections, count: session_count }),
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

/// Checks options that do not go with connections that are kept open.
pub(super) fn check_kept(options: &Options, targets: &[Target], threads: usize) -> Result<(), BadInput> {
    let connections = options.connections.unwrap_or(0);
    if (connections as usize) < threads {
        return Err(BadInput(format!(
            "--connections {connections}: each of the {threads} --cpus needs one; allowed: from {threads}"
        )));
    }
    if options.requests.requests_per_connection.is_some() {
        return Err(BadInput(
            "--requests-per-connection: with --rate and --connections, connections are kept; leave one of \
             them out"
                .to_owned(),
        ));
    }
    if !options.requests.has_own_paths() && targets.iter().any(|to| to.path != targets[0].path) {
        return Err(BadInput(format!(
            "--target: with --rate and --connections all targets have the same path, such as {}",
            targets[0].path
        )));
    }
    Ok(())
}

/// A class such as `slow: rate=20 timeout=2s retries=2 source=127.0.0.3`.
pub(super) fn class(text: &str) -> Result<ClassOption, String> {
    let allowed = "allowed: a name and values, such as 'slow: rate=20 timeout=2s retries=2 \
                   source=127.0.0.3'; rate, timeout, connect-timeout, retries, source";
    let (name, values) = text.split_once(':').ok_or(allowed)?;
    let name = name.trim();
    if name.is_empty() || name.contains('=') || name.chars().any(char::is_control) {
        return Err(format!("it has no name; {allowed}"));
    }
    let (mut rate, mut timeout, mut connect_timeout, mut retries) = (None, None, None, None);
    let mut sources = Vec::new();
    for word in values.split_ascii_whitespace() {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("{word:?} is no value; {allowed}"))?;
        let duration = || {
            let time = units::parse_time(value).map_err(|error| format!("{word}: {error}"))?;
            if time.is_zero() { Err(format!("{word}: allowed: from 1ms")) } else { Ok(Some(time)) }
        };
        match key {
            "rate" => rate = Some(values::rate(value).map_err(|allowed| format!("{word}: {allowed}"))?),
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
    let rate = rate.ok_or_else(|| format!("{name} has no rate; {allowed}"))?;
    Ok(ClassOption { name: name.to_owned(), rate, timeout, connect_timeout, retries, sources })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual() -> Class {
        let second = Duration::from_secs(1);
        Class {
            name: String::new(),
            load: Load::Closed { connections: 1, count: None },
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
    fn mistakes_name_their_place() {
        for (text, told) in [
            ("rate=5", "allowed: a name and values"),
            (": rate=5", "it has no name; allowed"),
            ("rate=5:", "it has no name; allowed"),
            ("a: timeout=5s", "a has no rate; allowed"),
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
