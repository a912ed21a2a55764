//! What else the machine has to do, which would be measured as well.

use std::thread;
use std::time::Duration;

use machine::Machine;

/// How long the machine is watched.
const WATCHED: Duration = Duration::from_secs(1);
/// A machine is busy from this part of its CPUs' time on: that is more than a kernel and its daemons take.
const BUSY_PERCENT: u64 = 10;

/// Watches the machine for a second, before anything is started. Gives the part of the CPUs' time that others
/// had, in percent, if it is busy.
pub(crate) fn look() -> Option<u64> {
    let before = Machine::this().cpu_ticks();
    thread::sleep(WATCHED);
    let spent = Machine::this().cpu_ticks().since(before);
    busy_percent(spent.busy(), spent.all())
}

fn busy_percent(busy: u64, all: u64) -> Option<u64> {
    let percent = 100 * busy / all.max(1);
    (percent >= BUSY_PERCENT).then_some(percent)
}

/// What the user is told of a busy machine.
pub(crate) fn told(percent: u64) -> String {
    format!(
        "this machine's CPUs are busy already ({percent}% of the second before anything was started): stop \
         what else runs, or it will be measured as well"
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
