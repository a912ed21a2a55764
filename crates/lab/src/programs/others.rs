//! Detects other load on the machine, which would distort measurements.

use std::thread;
use std::time::Duration;

use machine::Machine;

/// How long the machine is watched.
const WATCHED: Duration = Duration::from_secs(1);
/// From this part of the CPUs' time on, a machine is busy. A kernel and its daemons use less.
const BUSY_PERCENT: u64 = 10;

/// Watches the machine for a second, before anything is started. Returns the part of the CPUs' time that
/// other programs used, in percent, if the machine is busy.
pub(crate) fn watch() -> Option<u64> {
    let before = Machine::this().cpu_ticks();
    thread::sleep(WATCHED);
    let spent = Machine::this().cpu_ticks().since(before);
    busy_percent(spent.busy(), spent.all())
}

fn busy_percent(busy: u64, all: u64) -> Option<u64> {
    let percent = 100 * busy / all.max(1);
    (percent >= BUSY_PERCENT).then_some(percent)
}

/// The warning about a busy machine.
pub(crate) fn told(percent: u64) -> String {
    format!(
        "this machine's CPUs were {percent}% busy in the second before the run: stop other programs, or \
         they distort the results"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_busy_machine_is_told_of() {
        assert_eq!((busy_percent(19, 200), busy_percent(0, 0)), (None, None));
        assert_eq!(busy_percent(20, 200), Some(10));
    }
}
