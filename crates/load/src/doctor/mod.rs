//! What this machine can measure, what it can't, and what to do about it: `sluicelab doctor`.
//!
//! [`examine`] puts each of the [checks] to the machine and gathers their findings, most of them read from
//! the kernel's files, some watched for a second: stolen time, others' work, and how late a spinning loop
//! would be.

mod checks;
mod spin;

use std::fmt::Write as _;
use std::thread;
use std::time::Duration;

use machine::cpu::CpuTicks;
use machine::{Description, Machine};
use serde::Serialize;
pub use spin::Spin;

/// How long others are watched.
const WATCH: Duration = Duration::from_secs(1);
/// How long the doctor itself spins.
const SPIN_NS: u64 = 500_000_000;

/// All that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// Where.
    pub machine: Description,
    /// In the order of the checks.
    pub findings: Vec<Finding>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub name: &'static str,
    /// What it means for measuring.
    pub verdict: Verdict,
    /// What was found, with figures.
    pub found: String,
    /// What to do about it, or what it means for results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// What a finding means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// To be known when results are read.
    Note,
    /// Results will suffer.
    Warning,
    /// Can't be measured here.
    Blind,
}

/// What was watched for a while.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Watched {
    time: CpuTicks,
    spin: Spin,
}

impl Watched {
    /// A part of the time that was watched, in percent.
    fn percent(&self, ticks: u64) -> f64 {
        100.0 * ticks as f64 / self.time.all().max(1) as f64
    }
}

impl Finding {
    fn new(name: &'static str, verdict: Verdict, found: impl Into<String>) -> Self {
        Self { name, verdict, found: found.into(), advice: None }
    }

    fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

/// Looks at everything on this machine. It takes a second and a half, in the last half second of which one
/// core is kept busy.
pub fn examine() -> Diagnosis {
    let machine = Machine::this();
    let before = machine.cpu_ticks();
    thread::sleep(WATCH);
    let time = machine.cpu_ticks().since(before);
    let watched = Watched { time, spin: Spin::for_ns(SPIN_NS) };
    Diagnosis { machine: machine.describe(), findings: checks::all(&machine, &watched) }
}

impl Diagnosis {
    /// For people: each finding with its advice below it, the number of each kind, and the answer.
    pub fn to_text(&self) -> String {
        let Description { host, kernel, processor, cores, .. } = &self.machine;
        let mut text = format!("{host}: Linux {kernel}, {cores} x {processor}\n\n");
        let width = self.findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
        for Finding { name, verdict, found, advice } in &self.findings {
            let mark = verdict.mark();
            // Writing to a string can't fail.
            let _ = writeln!(text, "{mark}  {name:width$}  {found}");
            if let Some(advice) = advice {
                let _ = writeln!(text, "{:indent$}-> {advice}", "", indent = width + mark.len() + 4);
            }
        }
        let count = |verdict| self.findings.iter().filter(|finding| finding.verdict == verdict).count();
        let _ = writeln!(
            text,
            "\n{} good, {} to know, {} that distort results, {} that can't be measured here.",
            count(Verdict::Good),
            count(Verdict::Note),
            count(Verdict::Warning),
            count(Verdict::Blind)
        );
        text + "ANSWER  " + &self.answer() + "\n"
    }

    /// Whether this machine is good enough, in a sentence.
    fn answer(&self) -> String {
        let names = |verdict| {
            let found = self.findings.iter().filter(|finding| finding.verdict == verdict);
            found.map(|finding| finding.name).collect::<Vec<_>>().join(", ")
        };
        let (warned, blind) = (names(Verdict::Warning), names(Verdict::Blind));
        let lacks = if blind.is_empty() { String::new() } else { format!(" It cannot measure: {blind}.") };
        if warned.is_empty() {
            format!("yes, results of this machine can be trusted.{lacks}")
        } else {
            format!("not as it is: results will suffer from {warned}.{lacks} The lines above say what to do.")
        }
    }

    /// For programs: an object with `machine` and `findings`.
    ///
    /// # Panics
    ///
    /// Never: everything in it can be written as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("names and numbers can be written as JSON")
    }
}

impl Verdict {
    fn mark(self) -> &'static str {
        match self {
            Self::Good => "good  ",
            Self::Note => "note  ",
            Self::Warning => "WARN  ",
            Self::Blind => "BLIND ",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_examined() {
        let diagnosis = examine();
        assert!(diagnosis.findings.len() > 12, "{diagnosis:?}");
        for finding in &diagnosis.findings {
            let needs_advice = matches!(finding.verdict, Verdict::Warning | Verdict::Blind);
            assert!(
                !needs_advice || finding.advice.is_some(),
                "{} leaves one alone: {}",
                finding.name,
                finding.found
            );
        }
        let text = diagnosis.to_text();
        assert!(diagnosis.findings.iter().all(|finding| text.contains(&finding.found)), "{text}");
        let json: serde_json::Value = serde_json::from_str(&diagnosis.to_json()).unwrap();
        assert_eq!(json["findings"].as_array().unwrap().len(), diagnosis.findings.len());
        assert!(json["machine"]["kernel"].is_string());
    }
}
