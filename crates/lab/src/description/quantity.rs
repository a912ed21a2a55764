//! The quantities by which servers are compared.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::record::outcome::{Accepting, Handshakes, Outcome, Party, Slice};

/// A figure of a trial, such as replies per second.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// Its name in experiments and reports; the unit is part of the name.
    pub name: &'static str,
    /// Whether more or less is better.
    pub better: Better,
    /// Whether it depends on the clients if these were short of CPU: true for rates and times.
    pub is_of_pace: bool,
    /// How many digits after the point are printed.
    pub digits: usize,
    /// The source of the figure.
    teller: Teller,
    /// Its value in a trial; NaN if the trial has none.
    pub of: fn(&Outcome) -> f64,
}

/// Which values of a quantity are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Large ones.
    More,
    /// Small ones.
    Less,
    /// Neither: the quantity says how a server works, not how well.
    Neither,
}

/// The source of a quantity, since not every trial has all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Teller {
    /// All trials have it.
    All,
    /// Not with wrk. wrk only separates statuses 4xx and 5xx from others, and counts heads and bodies
    /// together.
    Sluicelab,
    /// The server's processes.
    Processes,
    /// The status of sluice.
    Status,
    /// TLS handshakes.
    Handshakes,
    /// The calls of a class of clients, by its number from 1.
    Class(usize),
}

/// CPU time of all the server's processes for each reply.
pub const COST: Quantity = cost("CPU us/reply", 2, |of| of.cpu.server_us_per_reply);
/// Whole replies.
pub const REPLIES: Quantity = rate("replies/s", 0, |of| of.replies_per_s);
/// Whole replies of status 2xx.
pub const GOOD: Quantity =
    Quantity { teller: Teller::Sluicelab, ..rate("2xx/s", 1, |of| of.replies_2xx_per_s.unwrap_or(f64::NAN)) };
/// Bits of bodies.
pub const BITS: Quantity = Quantity {
    teller: Teller::Sluicelab,
    ..rate("Mbit/s", 1, |of| of.replies_body_mbps.unwrap_or(f64::NAN))
};
/// The time that half of the clients wait at most.
pub const MEDIAN: Quantity = time("p50 ms", |of| of.wait_ms.p50);
/// The time that 99 of 100 clients wait at most.
pub const P99: Quantity = time("p99 ms", |of| of.wait_ms.p99);
/// Memory of all the server's processes.
pub const MEMORY: Quantity = cost("memory MB", 1, |of| of.memory_mb);

const ALL: [Quantity; 32] = [
    COST,
    REPLIES,
    GOOD,
    BITS,
    time("mean ms", |of| of.wait_ms.mean),
    MEDIAN,
    time("p90 ms", |of| of.wait_ms.p90),
    P99,
    time("p99.9 ms", |of| of.wait_ms.p999),
    MEMORY,
    Quantity {
        better: Better::Less,
        ..handshakes("handshake p50 ms", 2, |of| handshake(of, |of| of.time_ms.p50))
    },
    Quantity {
        better: Better::Less,
        ..handshakes("handshake p99 ms", 2, |of| handshake(of, |of| of.time_ms.p99))
    },
    Quantity { teller: Teller::Class(1), ..rate("2xx/s of class 1", 1, |of| class(of, 1, good)) },
    Quantity { teller: Teller::Class(1), ..time("p99 ms of class 1", |of| class(of, 1, longest)) },
    Quantity { teller: Teller::Class(2), ..rate("2xx/s of class 2", 1, |of| class(of, 2, good)) },
    Quantity { teller: Teller::Class(2), ..time("p99 ms of class 2", |of| class(of, 2, longest)) },
    Quantity { better: Better::Less, ..work("timeouts %", 2, |of| of.calls_timeouts_part * 100.0) },
    Quantity { better: Better::Less, ..work("errors %", 2, |of| of.calls_errors_part * 100.0) },
    Quantity { better: Better::Less, ..work("drops/s", 1, |of| drops(of, ALL_DROPS)) },
    work("accept queue drops/s", 1, |of| drops(of, ACCEPT_QUEUE_DROPS)),
    work("SYN drops/s", 1, |of| drops(of, ALL_DROPS) - drops(of, ACCEPT_QUEUE_DROPS)),
    handshakes("full handshakes/s", 1, |of| handshake(of, |of| of.full_per_s)),
    handshakes("resumed handshakes/s", 1, |of| handshake(of, |of| of.resumed_per_s)),
    status("accepts/s", 1, |of| accepting(of, |of| of.accepts_per_s)),
    status("accepts/phase", 2, |of| accepting(of, accepts_per_phase)),
    status("phases/s", 1, |of| accepting(of, |of| of.phases_per_s)),
    status("event waits/s", 1, |of| accepting(of, |of| of.event_waits_per_s)),
    processes("server CPU %", |of| of.cpu.server_cpus * 100.0),
    work("softirq %", 1, |of| of.cpu.server_softirq_cpus * 100.0),
    work("disk wait %", 1, |of| of.cpu.server_io_wait_cpus * 100.0),
    processes("read MB/s", |of| seen(of, of.read_mb_per_s)),
    processes("switches/s", |of| seen(of, of.context_switches_per_s)),
];

const ALL_DROPS: &str = "listen_drops";
const ACCEPT_QUEUE_DROPS: &str = "listen_overflows";

/// Drops per second of that cause. NaN if the kernel does not count them.
fn drops(of: &Outcome, cause: &str) -> f64 {
    of.drops_per_s.get(cause).copied().unwrap_or(f64::NAN)
}

/// A figure of accepting. NaN if the server does not report how it accepts.
fn accepting(of: &Outcome, value: fn(&Accepting) -> f64) -> f64 {
    of.accepting.as_ref().map_or(f64::NAN, value)
}

/// A figure of TLS handshakes. NaN without TLS.
fn handshake(of: &Outcome, value: fn(&Handshakes) -> f64) -> f64 {
    of.handshakes.as_ref().map_or(f64::NAN, value)
}

/// A figure of a class of clients, by its number from 1. NaN without that class.
fn class(of: &Outcome, number: usize, value: fn(&Party) -> f64) -> f64 {
    of.parties.get(number - 1).map_or(f64::NAN, value)
}

/// The good replies that clients of a class get.
fn good(of: &Party) -> f64 {
    of.replies_2xx_per_s
}

/// The time that 99 of 100 of them wait at most.
fn longest(of: &Party) -> f64 {
    of.wait_ms_p99
}

/// A figure per accept phase. NaN without accept phases, as with a process for each connection.
fn accepts_per_phase(of: &Accepting) -> f64 {
    if of.accept_phases_per_s > 0.0 { of.accepts_per_phase } else { f64::NAN }
}

/// A figure of the server's processes. NaN if these are unknown, because the sum over no process would be
/// 0.
fn seen(of: &Outcome, value: f64) -> f64 {
    if of.cpu.server_cpus.is_nan() { f64::NAN } else { value }
}

/// A quantity of the server's consumption.
const fn cost(name: &'static str, digits: usize, of: fn(&Outcome) -> f64) -> Quantity {
    Quantity { better: Better::Less, is_of_pace: false, teller: Teller::Processes, ..work(name, digits, of) }
}

/// A quantity of what clients get.
const fn rate(name: &'static str, digits: usize, of: fn(&Outcome) -> f64) -> Quantity {
    Quantity { better: Better::More, ..work(name, digits, of) }
}

/// A quantity of how long clients wait.
const fn time(name: &'static str, of: fn(&Outcome) -> f64) -> Quantity {
    Quantity { better: Better::Less, ..work(name, 2, of) }
}

/// A quantity of how a server works.
const fn work(name: &'static str, digits: usize, of: fn(&Outcome) -> f64) -> Quantity {
    Quantity { name, better: Better::Neither, is_of_pace: true, digits, teller: Teller::All, of }
}

/// A quantity of how a server works, for which its processes must be known.
const fn processes(name: &'static str, of: fn(&Outcome) -> f64) -> Quantity {
    Quantity { teller: Teller::Processes, ..work(name, 1, of) }
}

/// A quantity of how a server works, from the status of sluice.
const fn status(name: &'static str, digits: usize, of: fn(&Outcome) -> f64) -> Quantity {
    Quantity { teller: Teller::Status, ..work(name, digits, of) }
}

/// A quantity of TLS handshakes.
const fn handshakes(name: &'static str, digits: usize, of: fn(&Outcome) -> f64) -> Quantity {
    Quantity { teller: Teller::Handshakes, ..work(name, digits, of) }
}

impl Better {
    /// In words; `None` if neither is better.
    pub(crate) fn told(self) -> Option<&'static str> {
        match self {
            Self::More => Some("more is better"),
            Self::Less => Some("less is better"),
            Self::Neither => None,
        }
    }
}

impl Quantity {
    /// Whether trials with wrk report it.
    pub(crate) fn is_told_by_wrk(&self) -> bool {
        !matches!(self.teller, Teller::Sluicelab | Teller::Handshakes | Teller::Class(_))
    }

    /// Whether the server's processes must be known for it.
    pub fn is_of_processes(&self) -> bool {
        self.teller == Teller::Processes
    }

    /// Whether it needs the status of sluice.
    pub(crate) fn is_of_status(&self) -> bool {
        self.teller == Teller::Status
    }

    /// Whether it is a figure of TLS handshakes.
    pub(crate) fn is_of_handshakes(&self) -> bool {
        self.teller == Teller::Handshakes
    }

    /// The number of the class of clients that it is of, from 1.
    pub(crate) fn class(&self) -> Option<usize> {
        if let Teller::Class(number) = self.teller { Some(number) } else { None }
    }

    /// The quantity with that name.
    ///
    /// # Errors
    /// The known names.
    pub fn named(name: &str) -> Result<Self, String> {
        let names = || ALL.map(|quantity| quantity.name).join(", ");
        let found = ALL.into_iter().find(|quantity| quantity.name == name);
        found.ok_or_else(|| format!("{name:?} is no quantity; allowed: {}", names()))
    }

    /// The quantity with that name, if one value of it is better than another.
    ///
    /// # Errors
    /// The known names.
    pub fn to_be_best(name: &str) -> Result<Self, String> {
        let quantity = Self::named(name)?;
        let ranking = ALL.iter().filter(|quantity| quantity.better != Better::Neither);
        let names = || ranking.map(|quantity| quantity.name).collect::<Vec<_>>().join(", ");
        if quantity.better == Better::Neither {
            return Err(format!("in {name} neither more nor less is better; allowed: {}", names()));
        }
        Ok(quantity)
    }

    /// Its value in a slice of a trial, if slices have it.
    pub(crate) fn of_slice(&self) -> Option<fn(&Slice) -> f64> {
        match *self {
            of if of == COST => Some(|slice| slice.cpu_server_us_per_reply),
            of if of == REPLIES => Some(|slice| slice.replies_per_s),
            _ => None,
        }
    }

    /// A number that is larger for better values, and constant if none is better.
    pub(crate) fn worth(&self, value: f64) -> f64 {
        match self.better {
            Better::More => value,
            Better::Less => -value,
            Better::Neither => 0.0,
        }
    }

    /// A value, formatted with the digits of the quantity.
    pub fn told(&self, value: f64) -> String {
        format!("{value:.*}", self.digits)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::named(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::outcome::Cpu;
    use crate::tests::outcome;

    fn of(name: &str, outcome: &Outcome) -> f64 {
        (Quantity::named(name).unwrap().of)(outcome)
    }

    #[test]
    fn what_nobody_knows_is_not_a_number() {
        let known = outcome(1.0);
        let cpu = Cpu { server_cpus: f64::NAN, ..known.cpu };
        let unknown = Outcome { accepting: None, drops_per_s: BTreeMap::new(), cpu, ..known.clone() };
        let names = [
            "drops/s",
            "accept queue drops/s",
            "SYN drops/s",
            "accepts/s",
            "accepts/phase",
            "phases/s",
            "event waits/s",
            "server CPU %",
            "read MB/s",
            "switches/s",
        ];
        for name in names {
            assert!(of(name, &unknown).is_nan(), "{name}");
        }
        let mut without_phases = known;
        if let Some(accepting) = &mut without_phases.accepting {
            (accepting.accept_phases_per_s, accepting.accepts_per_phase) = (0.0, 0.0);
        }
        assert!(of("accepts/phase", &without_phases).is_nan());
        assert!(of("accepts/s", &without_phases).is_finite());
    }

    #[test]
    fn drops_are_those_of_the_accept_queue_and_those_of_syns() {
        let mut outcome = outcome(1.0);
        outcome.drops_per_s = [("listen_drops", 7.0), ("listen_overflows", 3.0)]
            .map(|(cause, per_s)| (cause.to_owned(), per_s))
            .into();
        let told = ["drops/s", "accept queue drops/s", "SYN drops/s"].map(|name| of(name, &outcome) as u32);
        assert_eq!(told, [7, 3, 4]);
    }

    #[test]
    fn nothing_is_best_where_neither_is_better() {
        assert!(Quantity::to_be_best("errors %").is_ok());
        let said = Quantity::to_be_best("switches/s").unwrap_err();
        assert!(said.starts_with("in switches/s neither more nor less is better; allowed: CPU us/reply"));
        assert!(!said.contains("phases/s"), "{said}");
    }
}
