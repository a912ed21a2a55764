//! Decides on which CPUs a worker runs, and which of a copy's listeners it serves.

use crate::config::{Mapping, Settings};

/// One worker among all: its copy, and its number within the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// From 0 to below `settings.copies`.
    pub copy: usize,
    /// From 0 to below the [processes](crate::config::Layout::processes) of a copy.
    pub worker: usize,
}

impl Position {
    /// All workers, copy by copy.
    pub fn all(settings: &Settings) -> impl Iterator<Item = Self> {
        let workers = settings.layout().processes;
        (0..settings.copies).flat_map(move |copy| (0..workers).map(move |worker| Self { copy, worker }))
    }

    /// The CPUs that this worker runs on, of those that the process may use; `None`: on any.
    ///
    /// Configured sets go to copies in turn, or to the workers of a single copy. Without sets, copies
    /// divide the available CPUs as evenly as possible. If there are more copies than CPUs, several run on
    /// one.
    pub fn cpus(self, settings: &Settings, usable: &[usize]) -> Option<Vec<usize>> {
        let sets = &settings.placement.cpus;
        if settings.copies == 1 && settings.layout().shares_connections {
            // Its stages have the CPUs; see `of_stages`.
            return None;
        }
        let unit = if settings.copies > 1 { self.copy } else { self.worker };
        if !sets.is_empty() {
            return Some(sets[turned(unit, sets.len(), settings.placement.mapping)].clone());
        }
        let copies = settings.copies;
        if copies == 1 || usable.is_empty() {
            return None;
        }
        let copy = turned(self.copy, copies, settings.placement.mapping);
        if usable.len() < copies {
            return Some(vec![usable[copy % usable.len()]]);
        }
        Some(usable[copy * usable.len() / copies..(copy + 1) * usable.len() / copies].to_vec())
    }

    /// The listeners that this worker serves, of those of its copy.
    pub fn listeners<T: Clone>(self, settings: &Settings, copy: &[T]) -> Vec<T> {
        if !settings.placement.partition {
            return copy.to_vec();
        }
        let each = copy.len() / settings.layout().processes;
        copy[self.worker * each..(self.worker + 1) * each].to_vec()
    }
}

/// The CPUs of the stages of one pipeline worker. The process may use the `usable` ones, of which there is
/// at least one. Configured sets go to the workers of a single copy in turn. Otherwise each worker has one
/// CPU.
pub fn of_stages(worker: usize, settings: &Settings, usable: &[usize]) -> Vec<usize> {
    let sets = &settings.placement.cpus;
    if settings.copies == 1 && !sets.is_empty() {
        return sets[turned(worker, sets.len(), settings.placement.mapping)].clone();
    }
    vec![usable[worker % usable.len()]]
}

/// For each CPU, the copy that runs there. If several do, the first of them.
pub fn copies_by_cpu(settings: &Settings, usable: &[usize]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for copy in 0..settings.copies {
        let first = Position { copy, worker: 0 };
        for cpu in first.cpus(settings, usable).into_iter().flatten() {
            if !pairs.iter().any(|&(known, _)| known == cpu) {
                pairs.push((cpu, copy));
            }
        }
    }
    pairs
}

fn turned(unit: usize, sets: usize, mapping: Mapping) -> usize {
    match mapping {
        Mapping::Direct => unit % sets,
        Mapping::Indirect => (unit + 1) % sets,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(copies: usize, workers: usize) -> Settings {
        Settings { workers, copies, ..Settings::new("/".into()) }
    }

    fn cpus(settings: &Settings, usable: &[usize]) -> Vec<Vec<usize>> {
        Position::all(settings).map(|place| place.cpus(settings, usable).unwrap_or_default()).collect()
    }

    #[test]
    fn copies_share_out_the_cpus() {
        assert_eq!(cpus(&settings(1, 3), &[0, 1]), [[], [], []] as [[usize; 0]; 3]);
        assert_eq!(cpus(&settings(2, 1), &[4, 5, 6, 7]), [[4, 5], [6, 7]]);
        assert_eq!(cpus(&settings(2, 2), &[0, 1, 2]), [vec![0], vec![0], vec![1, 2], vec![1, 2]]);
        assert_eq!(cpus(&settings(3, 1), &[8, 9]), [[8], [9], [8]]);
        assert_eq!(copies_by_cpu(&settings(3, 1), &[8, 9]), [(8, 0), (9, 1)]);
    }

    #[test]
    fn sets_go_to_copies_or_to_workers_in_turn() {
        let mut two = settings(2, 2);
        two.placement.cpus = vec![vec![0], vec![1]];
        assert_eq!(cpus(&two, &[0, 1]), [[0], [0], [1], [1]]);
        two.placement.mapping = Mapping::Indirect;
        assert_eq!(cpus(&two, &[0, 1]), [[1], [1], [0], [0]]);
        assert_eq!(copies_by_cpu(&two, &[0, 1]), [(1, 0), (0, 1)]);
        let mut one = settings(1, 3);
        one.placement.cpus = vec![vec![0], vec![1, 2]];
        assert_eq!(cpus(&one, &[0, 1, 2]), [vec![0], vec![1, 2], vec![0]]);
    }
}
