//! Where processors' time went, `/proc/stat`.

/// Ticks of a second in the kernel's files, time(7): 100 on every architecture that Rust is for.
pub const TICKS_PER_S: u64 = 100;

/// What processors have done since the machine started, or between two moments, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// User mode.
    pub user: u64,
    /// User mode of what is nice.
    pub nice: u64,
    /// Kernel mode.
    pub system: u64,
    /// Nothing to do.
    pub idle: u64,
    /// Nothing to do but wait for disks.
    pub io_wait: u64,
    /// Hard interrupts.
    pub irq: u64,
    /// Soft interrupts, most of them packets. Sampled at the timer's ticks.
    pub softirq: u64,
    /// Wanted to work, but the hypervisor let somebody else.
    pub steal: u64,
}

impl CpuTicks {
    /// Of all processors together; `None` if `stat` is no `/proc/stat`.
    pub fn of_all(stat: &str) -> Option<Self> {
        Self::parse(stat, "cpu ")
    }

    /// Of these processors together; `None` if one of them has no row in `stat`.
    pub fn of(stat: &str, cpus: &[usize]) -> Option<Self> {
        cpus.iter().try_fold(Self::default(), |sum, cpu| {
            Some(sum.with(Self::parse(stat, &format!("cpu{cpu} "))?, u64::saturating_add))
        })
    }

    fn parse(stat: &str, name: &str) -> Option<Self> {
        let mut words = crate::text::row(stat, name)?.split_ascii_whitespace();
        let mut next = || words.next()?.parse().ok();
        Some(Self {
            user: next()?,
            nice: next()?,
            system: next()?,
            idle: next()?,
            io_wait: next()?,
            irq: next()?,
            softirq: next()?,
            steal: next()?,
        })
    }

    /// What has been done since an earlier moment.
    pub fn since(self, before: Self) -> Self {
        // Idle and I/O wait may go backwards by a tick, proc(5).
        self.with(before, u64::saturating_sub)
    }

    /// All of the time.
    pub fn all(self) -> u64 {
        [self.idle, self.io_wait, self.steal].into_iter().fold(self.busy(), u64::saturating_add)
    }

    /// The time in which something was done: in user mode, in the kernel, or in interrupts.
    pub fn busy(self) -> u64 {
        let Self { user, nice, system, irq, softirq, .. } = self;
        [user, nice, system, irq, softirq].into_iter().fold(0, u64::saturating_add)
    }

    fn with(self, other: Self, each: fn(u64, u64) -> u64) -> Self {
        Self {
            user: each(self.user, other.user),
            nice: each(self.nice, other.nice),
            system: each(self.system, other.system),
            idle: each(self.idle, other.idle),
            io_wait: each(self.io_wait, other.io_wait),
            irq: each(self.irq, other.irq),
            softirq: each(self.softirq, other.softirq),
            steal: each(self.steal, other.steal),
        }
    }
}

/// So many ticks in seconds.
pub fn seconds(ticks: u64) -> f64 {
    ticks as f64 / TICKS_PER_S as f64
}

/// How many processors have a row: those on line.
pub(crate) fn cores(stat: &str) -> usize {
    stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAT: &str = "cpu  100 10 50 800 20 3 7 10 0 0\ncpu0 60 5 25 400 10 1 4 5 0 0\n\
                        cpu1 40 5 25 400 10 2 3 5 0 0\nintr 1\n";

    #[test]
    fn processors_times_are_read_as_proc_5_has_them() {
        let all = CpuTicks {
            user: 100,
            nice: 10,
            system: 50,
            idle: 800,
            io_wait: 20,
            irq: 3,
            softirq: 7,
            steal: 10,
        };
        assert_eq!(CpuTicks::of_all(STAT), Some(all));
        assert_eq!(CpuTicks::of(STAT, &[0, 1]), Some(all));
        assert_eq!(CpuTicks::of(STAT, &[1]).unwrap().user, 40);
        assert_eq!((CpuTicks::of(STAT, &[0, 2]), CpuTicks::of_all("cpu  1 2 3")), (None, None));
        assert_eq!(cores(STAT), 2);
    }

    #[test]
    fn time_is_divided() {
        let now = CpuTicks::of_all(STAT).unwrap();
        let before = CpuTicks { user: 60, nice: 0, system: 0, idle: 810, irq: 3, softirq: 7, ..now };
        let since = now.since(before);
        assert_eq!((since.user, since.nice, since.system), (40, 10, 50));
        assert_eq!((since.idle, since.steal), (0, 0), "what goes backwards is nothing");
        assert_eq!((since.busy(), since.all(), now.all()), (100, 100, 1000));
        assert!((seconds(250) - 2.5).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn no_row_is_too_long(ticks: [u64; 8], before: [u64; 8]) {
            let of = |ticks: [u64; 8]| {
                let row = ticks.map(|ticks| ticks.to_string()).join(" ");
                let all = CpuTicks::of_all(&format!("cpu  {row} 0 0\n")).unwrap();
                assert_eq!(CpuTicks::of(&format!("cpu7 {row}"), &[7]), Some(all));
                all
            };
            let since = of(ticks).since(of(before));
            prop_assert!(since.busy() <= since.all() && since.all() <= of(ticks).all());
            prop_assert_eq!(since.user, ticks[0].saturating_sub(before[0]));
        }
    }
}
