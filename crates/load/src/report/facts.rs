//! What the run itself took, computed from its [`Facts`].

use results::load::Facts;

/// What arrives, in the plural. Older results don't say.
pub(super) fn unit(facts: &Facts) -> &str {
    if facts.unit.is_empty() { "sessions" } else { &facts.unit }
}

/// CPU microseconds that the generator used for each of so many.
pub(super) fn cpu_us_per(facts: &Facts, count: u64) -> f64 {
    if count == 0 { 0.0 } else { cpu_s(facts) * 1e6 / count as f64 }
}

/// The part of the measured time for which the generator's CPUs were busy with it, 0 to 1.
pub(super) fn busy(facts: &Facts) -> f64 {
    cpu_s(facts) / facts.measured_s() / facts.cpus.len().max(1) as f64
}

fn cpu_s(facts: &Facts) -> f64 {
    facts.outcome.cpu_s.iter().map(|(user, system)| user + system).sum()
}
