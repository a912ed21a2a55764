//! What a server's trials came to, round by round, and how it compares with another's: the cells of tables.

use crate::journal::Journal;
use crate::statistics::{Ratio, Spread};
use crate::subject::Variant;
use crate::trial::Outcome;

/// The outcomes of one server in one case, in order of the rounds.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) server: Variant,
    outcomes: Vec<Outcome>,
}

impl Series {
    /// Of each server that has all rounds in the journal, where `key` is.
    pub(crate) fn of_all(
        servers: &[Variant],
        rounds: u32,
        journal: &Journal,
        key: impl Fn(&Variant, u32) -> String,
    ) -> anyhow::Result<Vec<Self>> {
        let mut all = Vec::new();
        for server in servers {
            let outcomes = (0..rounds).map(|round| journal.get(&key(server, round)));
            let outcomes: Option<Vec<Outcome>> = outcomes.collect::<anyhow::Result<_>>()?;
            all.extend(outcomes.map(|outcomes| Self { server: server.clone(), outcomes }));
        }
        Ok(all)
    }

    /// The median over the rounds.
    pub(crate) fn median(&self, value: impl Fn(&Outcome) -> f64, digits: usize) -> String {
        let spread = Spread::of(self.outcomes.iter().map(value));
        spread.map_or_else(String::new, |spread| format!("{:.digits$}", spread.median))
    }

    /// This server's value over that of `other`, in pairs of the same round, with the interval if there is more than one.
    pub(crate) fn ratio(&self, other: &Self, value: impl Fn(&Outcome) -> f64) -> String {
        if std::ptr::eq(self, other) {
            return "1".to_owned();
        }
        let pairs = self.outcomes.iter().zip(&other.outcomes);
        match Ratio::of(pairs.map(|(one, other)| (value(one), value(other)))) {
            Some(ratio) if ratio.pairs > 1 => format!("{ratio:.2}"),
            Some(ratio) => format!("{:.2}", ratio.mean),
            None => "–".to_owned(),
        }
    }

    pub(crate) fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }
}
