//! Sets of CPUs in the kernel's two notations: lists (`0-3,8`) and masks (`10f`, in groups of 32 bits).

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::AffinityError;

/// CPUs in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSet(Vec<usize>);

impl CpuSet {
    /// A set of CPUs in ascending order.
    pub(super) fn new(cpus: Vec<usize>) -> Self {
        Self(cpus)
    }

    /// The CPUs that are online.
    pub(super) fn online(sys: &Path) -> Result<Self, AffinityError> {
        let path = sys.join("devices/system/cpu/online");
        let wrong = |source| AffinityError::Read { path: path.clone(), source };
        let text = fs::read_to_string(&path).map_err(wrong)?;
        Self::from_list(text.trim()).map_err(|problem| wrong(std::io::Error::other(problem)))
    }

    /// Parses a list.
    pub(super) fn from_list(text: &str) -> Result<Self, String> {
        if text.starts_with("0x")
            || text.bytes().any(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_digit())
        {
            return Err(format!("\"{text}\" looks like a mask; CPUs are listed, such as 0-3,8"));
        }
        units::parse_cpus(text).map(Self)
    }

    /// Parses a mask.
    pub(super) fn from_mask(text: &str) -> Option<Self> {
        let digits: Vec<u32> = text
            .chars()
            .filter(|&digit| digit != ',')
            .map(|digit| digit.to_digit(16))
            .collect::<Option<_>>()?;
        let bits = digits.iter().rev().enumerate();
        let cpus = bits.flat_map(|(place, digit)| {
            (0..4).filter(move |bit| *digit & (1_u32 << bit) != 0).map(move |bit| 4 * place + bit)
        });
        (!digits.is_empty()).then(|| Self(cpus.collect()))
    }

    /// Formats a mask.
    pub(super) fn mask(&self) -> String {
        let groups = self.0.last().map_or(1, |last| last / 32 + 1);
        let mut text = String::new();
        for group in (0..groups).rev() {
            let in_group = self.0.iter().filter(|&&cpu| cpu / 32 == group);
            let bits = in_group.fold(0_u32, |bits, cpu| bits | 1_u32 << (cpu % 32));
            // The kernel expects no leading zeros in the first group, and all zeros in the other groups.
            let _ = if text.is_empty() { write!(text, "{bits:x}") } else { write!(text, ",{bits:08x}") };
        }
        text
    }

    /// All CPUs of the set.
    pub(super) fn list(&self) -> &[usize] {
        &self.0
    }

    /// The CPU for queue number `at`. Queues get the CPUs in turn.
    pub(super) fn nth(&self, at: usize) -> usize {
        self.0.get(at % self.0.len().max(1)).copied().unwrap_or(0)
    }

    /// The CPUs for one of several queues. Each CPU has one queue, and each queue at least one CPU.
    pub(super) fn of_queue(&self, queue: usize, queues: usize) -> Self {
        let of_queue = self.0.iter().enumerate().filter(|(at, _)| at % queues == queue);
        let cpus: Vec<usize> = of_queue.map(|(_, &cpu)| cpu).collect();
        if cpus.is_empty() { Self(vec![self.nth(queue)]) } else { Self(cpus) }
    }

    /// Reports a CPU that is not online.
    pub(super) fn check_online(&self, online: &Self) -> Result<(), String> {
        let Some(cpu) = self.0.iter().find(|cpu| !online.0.contains(cpu)) else { return Ok(()) };
        Err(format!("CPU {cpu} is not online; allowed: {}", units::print_cpus(&online.0)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(cpus: &[usize]) -> CpuSet {
        CpuSet(cpus.to_vec())
    }

    #[test]
    fn masks_are_as_the_kernel_writes_them() {
        for (cpus, mask) in [
            (&[][..], "0"),
            (&[0][..], "1"),
            (&[0, 1, 2, 3, 8][..], "10f"),
            (&[31][..], "80000000"),
            (&[32][..], "1,00000000"),
            (&[0, 64][..], "1,00000000,00000001"),
        ] {
            assert_eq!(set(cpus).mask(), mask);
            assert_eq!(CpuSet::from_mask(mask), Some(set(cpus)));
        }
        assert_eq!(CpuSet::from_mask("00000000,00000003"), Some(set(&[0, 1])));
        for text in ["", ",", "x", "1 2", "0x1"] {
            assert_eq!(CpuSet::from_mask(text), None, "{text}");
        }
    }

    #[test]
    fn lists_that_are_none_are_told() {
        assert_eq!(CpuSet::from_list("0-1,3"), Ok(set(&[0, 1, 3])));
        for (text, words) in [
            ("", "allowed"),
            ("3-1", "3-1"),
            ("0x3", "looks like a mask"),
            ("ff", "looks like a mask"),
            ("1,,2", "allowed"),
            ("-1", "allowed"),
        ] {
            let problem = CpuSet::from_list(text).unwrap_err();
            assert!(problem.contains(words), "{text}: {problem}");
        }
    }

    #[test]
    fn queues_share_cpus_and_cpus_share_queues() {
        let cpus = set(&[4, 5, 6, 7]);
        assert_eq!([0, 1].map(|queue| cpus.of_queue(queue, 2)), [set(&[4, 6]), set(&[5, 7])]);
        assert_eq!((0..6).map(|queue| cpus.of_queue(queue, 6).0[0]).collect::<Vec<_>>(), [4, 5, 6, 7, 4, 5]);
        assert_eq!((0..6).map(|queue| cpus.nth(queue)).collect::<Vec<_>>(), [4, 5, 6, 7, 4, 5]);
    }

    proptest! {
        #[test]
        fn masks_read_as_they_were_written(cpus in prop::collection::btree_set(0_usize..1024, 0..40)) {
            let set = CpuSet(cpus.into_iter().collect());
            prop_assert_eq!(CpuSet::from_mask(&set.mask()), Some(set));
        }

        #[test]
        fn nothing_panics(text: String) {
            let _ = (CpuSet::from_mask(&text), CpuSet::from_list(&text));
        }
    }
}
