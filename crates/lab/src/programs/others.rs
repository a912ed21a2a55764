//! What else the machine has to do, which would be measured as well.

use std::thread;
use std::time::Duration;

use machine::Machine;

/// How long the machine is watched.
const WATCHED: Duration = Duration::from_secs(1);
/// From which part of its CPUs' time on others are told of: that is more than a kernel and its daemons take.
const BUSY_PERCENT: u64 = 10;

/// Watches the machine for a second, before anything is started, and says what is to be told if it is busy.
pub fn look() -> Option<String> {
    let before = Machine::this().cpu_ticks();
    thread::sleep(WATCHED);
    let spent = Machine::this().cpu_ticks().since(before);
    told(spent.busy(), spent.all())
}

fn told(busy: u64, all: u64) -> Option<String> {
    let percent = 100 * busy / all.max(1);
    (percent >= BUSY_PERCENT).then(|| {
        format!(
            "this machine's CPUs are busy already ({percent}% of the second before anything was started): \
             stop what else runs, or it will be measured as well"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_busy_machine_is_told_of() {
        assert_eq!((told(19, 200), told(0, 0)), (None, None));
        assert!(told(20, 200).unwrap().contains("(10% of"));
    }
}
