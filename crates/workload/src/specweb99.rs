//! `SPECweb99`'s static part, as the papers used it: directories of 36 files, asked for by Zipf's law, in
//! sessions on a connection each.
//!
//! A directory has four classes of nine files: class 0 from 102 to 921 bytes, and the others ten times as
//! large each. A request is for a class (35%, 50%, 14% and 1%), a file within it by a table whose middle is
//! the most popular, and a directory with a probability of one over its rank. A session has a single request
//! in 30% of the cases, and 5 to 15 otherwise. (The generator that came with the µserver has another table
//! of classes, against its own comment; this is the benchmark's.) A part of the requests may be for what an
//! application makes of the file.

use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Zipf};
use rand_pcg::Pcg64Mcg;

use crate::check::Check;
use crate::dynamic;
use crate::file::FileSpec;
use crate::offtimes::OffTimes;
use crate::session::{Builder, Request, SessionLog};

/// Bytes of the files of class 0.
const SMALLEST: [u64; 9] = [102, 204, 307, 409, 512, 614, 716, 819, 921];
/// Percent of the requests, by class.
const CLASSES: [f64; 4] = [35.0, 50.0, 14.0, 1.0];
/// Percent of a class's requests, by file.
const FILES: [f64; 9] = [3.9, 5.9, 8.8, 17.7, 35.3, 11.8, 7.1, 5.0, 4.4];
/// Percent of the sessions that have a single request; the others have 5 to 15.
const SINGLE: f64 = 30.0;

/// Bytes of a directory.
pub const DIRECTORY_BYTES: u64 = 5_119_484;

/// A set of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Directories.
    pub directories: u32,
    /// Where it comes from.
    pub source: &'static str,
}

/// The papers' sets, and small ones of the same shape.
pub const PRESETS: [Preset; 6] = [
    Preset {
        name: "2004",
        directories: 80,
        source: "Brecht et al. 2004: fits in memory (size not told; 0.4 GB here)",
    },
    Preset { name: "2007", directories: 680, source: "Pariag et al. 2007: 24,480 files, 3.2 GB" },
    Preset {
        name: "2012",
        directories: 650,
        source: "Harji et al. 2012: 650 directories, of which logs reference 21,600 files",
    },
    Preset { name: "2004-small", directories: 8, source: "a tenth of 2004" },
    Preset { name: "2007-small", directories: 34, source: "a twentieth of 2007" },
    Preset { name: "2012-small", directories: 32, source: "a twentieth of 2012" },
];

/// What sessions are to be like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sessions {
    /// Directories of the file set.
    pub directories: u32,
    /// How many sessions.
    pub count: u32,
    /// What they are drawn from.
    pub seed: u64,
    /// Pauses within them.
    pub off_times: OffTimes,
    /// The part of the requests that an application computes from the file, 0 to 1: 0.3 in the benchmark
    /// ([`crate::dynamic`]).
    pub dynamic: f64,
}

/// Length of a file: classes from 0 to 3, files from 1 to 9.
pub fn size(class: usize, file: usize) -> u64 {
    match class {
        0 => SMALLEST[file - 1],
        _ => file as u64 * 1024 * 10_u64.pow(class as u32 - 1),
    }
}

/// The files of so many directories.
pub(crate) fn files(directories: u32) -> Vec<FileSpec> {
    let mut files = Vec::with_capacity(directories as usize * 36);
    for directory in 0..directories {
        for class in 0..4 {
            for file in 1..=9 {
                files.push(FileSpec::lines(path(directory, class, file), size(class, file)));
            }
        }
    }
    files
}

/// As the benchmark names them.
fn path(directory: u32, class: usize, file: usize) -> String {
    format!("file_set/dir{directory:05}/class{class}_{file}")
}

/// Draws sessions, and compares what was drawn with what was asked for.
///
/// # Panics
///
/// Never: a set without directories is taken for one with a single directory.
pub fn sessions(of: Sessions) -> (SessionLog, Vec<Check>) {
    let of = Sessions { directories: of.directories.max(1), ..of };
    let mut random = Pcg64Mcg::seed_from_u64(of.seed);
    let mut drawn = Drawn::new(of.directories);
    let zipf = Zipf::new(f64::from(of.directories), 1.0).expect("at least one directory");
    let mut log = Builder::new();
    for _ in 0..of.count {
        let length = if random.random_range(0.0..100.0) < SINGLE { 1 } else { random.random_range(5..=15) };
        drawn.session(length);
        let mut left_of_page = of.off_times.page(&mut random);
        for call in 1..=length {
            let rank: f64 = zipf.sample(&mut random);
            let directory = (rank as u32).clamp(1, of.directories) - 1;
            let class = pick(CLASSES.into_iter(), random.random_range(0.0..100.0));
            let file = pick(FILES.into_iter(), random.random_range(0.0..FILES.iter().sum())) + 1;
            drawn.request(directory, class, file);
            let path = path(directory, class, file);
            // Who wants no part computed gets what was drawn before there was such a thing.
            let is_dynamic = of.dynamic > 0.0 && random.random::<f64>() < of.dynamic;
            log.call(if is_dynamic {
                drawn.dynamic += 1;
                dynamic::request(&path, false, &mut random)
            } else {
                Request { uri: format!("/{path}").into(), ..Request::default() }
            });
            left_of_page -= 1;
            let think = if call == length {
                None
            } else if left_of_page == 0 {
                left_of_page = of.off_times.page(&mut random);
                of.off_times.inactive(&mut random)
            } else {
                of.off_times.active(&mut random)
            };
            log.end_of_burst(think);
        }
        log.end_of_session();
    }
    (log.finish(), drawn.checks(of.dynamic))
}

/// The place of a number among shares that add up to all numbers there may be.
pub(crate) fn pick(shares: impl ExactSizeIterator<Item = f64>, number: f64) -> usize {
    let last = shares.len() - 1;
    let mut sum = 0.0;
    let passed = shares.take_while(|share| {
        sum += share;
        sum <= number
    });
    passed.count().min(last)
}

/// What was drawn.
struct Drawn {
    directories: Vec<u64>,
    classes: [u64; 4],
    files: [u64; 9],
    sessions: u64,
    single: u64,
    requests: u64,
    dynamic: u64,
}

impl Drawn {
    fn new(directories: u32) -> Self {
        let directories = vec![0; directories as usize];
        Self { directories, classes: [0; 4], files: [0; 9], sessions: 0, single: 0, requests: 0, dynamic: 0 }
    }

    fn session(&mut self, length: u32) {
        self.sessions += 1;
        self.single += u64::from(length == 1);
    }

    fn request(&mut self, directory: u32, class: usize, file: usize) {
        self.requests += 1;
        self.directories[directory as usize] += 1;
        self.classes[class] += 1;
        self.files[file - 1] += 1;
    }

    fn checks(&self, dynamic: f64) -> Vec<Check> {
        let all = self.requests;
        let mut checks =
            vec![Check::frequency("sessions of one request", SINGLE / 100.0, self.single, self.sessions)];
        let (mean, deviation) = session_length();
        let got = all as f64 / self.sessions.max(1) as f64;
        checks.push(Check::mean("requests per session", mean, deviation, got, self.sessions));
        for (class, share) in CLASSES.iter().enumerate() {
            checks.push(Check::frequency(format!("class {class}"), share / 100.0, self.classes[class], all));
        }
        let sum: f64 = FILES.iter().sum();
        for (file, share) in FILES.iter().enumerate() {
            checks.push(Check::frequency(format!("file {}", file + 1), share / sum, self.files[file], all));
        }
        // The most popular ones tell whether the law is Zipf's; the sum of the rest follows from them.
        let harmonic: f64 = (1..=self.directories.len()).map(|rank| 1.0 / rank as f64).sum();
        for (directory, count) in self.directories.iter().enumerate().take(10) {
            let share = 1.0 / (directory + 1) as f64 / harmonic;
            checks.push(Check::frequency(format!("directory {directory}"), share, *count, all));
        }
        if dynamic > 0.0 {
            checks.push(Check::frequency("dynamic requests", dynamic, self.dynamic, all));
        }
        checks
    }
}

/// Mean and standard deviation of a session's requests.
fn session_length() -> (f64, f64) {
    let single = SINGLE / 100.0;
    let several = |power: i32| (5..=15).map(|length| f64::from(length).powi(power)).sum::<f64>() / 11.0;
    let mean = single + (1.0 - single) * several(1);
    let of_squares = single + (1.0 - single) * several(2);
    (mean, (of_squares - mean * mean).sqrt())
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[test]
    fn a_directory_has_the_size_of_the_benchmarks() {
        let files = files(2);
        assert_eq!(files.len(), 72);
        assert_eq!(files[..36].iter().map(|file| file.bytes).sum::<u64>(), DIRECTORY_BYTES);
        assert_eq!((files[0].path.as_str(), files[0].bytes), ("file_set/dir00000/class0_1", 102));
        assert_eq!((files[71].path.as_str(), files[71].bytes), ("file_set/dir00001/class3_9", 921_600));
        let distinct: HashSet<u64> = files.iter().map(|file| file.bytes).collect();
        assert_eq!(distinct.len(), 36, "36 different sizes (Pariag et al. 2007, section 3.4)");
        assert!((CLASSES.iter().sum::<f64>() - 100.0).abs() < 1e-9);
    }

    #[test]
    fn presets_are_those_of_the_papers() {
        let of = |name: &str| PRESETS.iter().find(|preset| preset.name == name).unwrap().directories;
        assert_eq!(of("2007") * 36, 24_480);
        let bytes = u64::from(of("2007")) * DIRECTORY_BYTES;
        assert_eq!(bytes / 10_000_000, 348, "3.48 GB, which is 3.24 GiB");
        assert_eq!(of("2012"), 650);
    }

    #[test]
    fn what_is_drawn_is_what_was_asked_for() {
        let of =
            Sessions { directories: 650, count: 50_000, seed: 1, off_times: OffTimes::None, dynamic: 0.0 };
        let (log, checks) = sessions(of);
        assert_eq!(log.len(), 50_000);
        for check in &checks {
            assert!(check.holds(), "{check:?}");
        }
        let find = |what: &str| checks.iter().find(|check| check.what == what).unwrap();
        assert!((find("requests per session").asked - 7.3).abs() < 1e-9);
        assert!((find("class 1").asked - 0.5).abs() < 1e-9);
        assert!((find("file 5").asked - 0.353).abs() < 0.001);
    }

    #[test]
    fn a_part_of_the_requests_is_computed() {
        let of = Sessions { directories: 10, count: 5_000, seed: 1, off_times: OffTimes::None, dynamic: 0.3 };
        let (log, checks) = sessions(of);
        assert!(
            checks.iter().all(Check::holds) && checks.iter().any(|check| check.what == "dynamic requests")
        );
        let files: HashSet<_> = files(10).into_iter().map(|file| file.path).collect();
        for request in log.requests() {
            let of_application = request.uri.strip_prefix("/fcgi/specweb99?file=");
            let path = of_application.map_or(&request.uri[1..], |rest| rest.split('&').next().unwrap());
            assert!(files.contains(path), "{}", request.uri);
        }
    }

    #[test]
    fn a_mistake_in_the_draw_is_found() {
        let mut drawn = Drawn::new(10);
        for _ in 0..10_000 {
            drawn.session(1);
            drawn.request(0, 0, 1);
        }
        assert!(drawn.checks(0.0).iter().filter(|check| !check.holds()).count() > 10);
    }

    #[test]
    fn a_seed_says_everything() {
        let of =
            |seed| Sessions { directories: 30, count: 100, seed, off_times: OffTimes::Surge, dynamic: 0.0 };
        let text = |seed| {
            let mut text = Vec::new();
            crate::wsesslog::write(&mut text, &sessions(of(seed)).0).unwrap();
            text
        };
        assert_eq!(text(5), text(5));
        assert_ne!(text(5), text(6));
        assert!(String::from_utf8(text(5)).unwrap().contains(" think="));
    }

    /// What a log asks for, by size of file: the table of Harji et al. 2012 (table 1).
    #[derive(Clone, Debug, PartialEq)]
    struct Footprint {
        /// Different files that are asked for.
        files: usize,
        /// For each size: it, the part of the requests for files up to it, and the bytes of all files up to
        /// it that are asked for.
        cumulative: Vec<(u64, f64, u64)>,
    }

    impl Footprint {
        /// Memory in bytes that the smallest files take which satisfy so many of the requests (a part of
        /// one), and the size of the largest of them. Within the files of one size, memory grows with the
        /// requests.
        fn memory_for(&self, part: f64) -> (f64, u64) {
            let (mut part_before, mut bytes_before) = (0.0, 0);
            for &(size, part_here, bytes_here) in &self.cumulative {
                if part_here >= part - 1e-9 {
                    let share = (part - part_before) / (part_here - part_before);
                    return (bytes_before as f64 + share.min(1.0) * (bytes_here - bytes_before) as f64, size);
                }
                (part_before, bytes_before) = (part_here, bytes_here);
            }
            (bytes_before as f64, self.cumulative.last().map_or(0, |last| last.0))
        }
    }

    /// Adds up what the first `count` sessions of a log ask for. Requests for files that are not of this set
    /// count for nothing.
    fn footprint(log: &SessionLog, count: usize) -> Footprint {
        let mut counts: HashMap<u64, (u64, u64)> = HashMap::new();
        let sizes: Vec<Option<u64>> = log.requests().iter().map(|request| size_of(&request.uri)).collect();
        let mut asked: HashSet<u32> = HashSet::new();
        let mut requests = 0_u64;
        for session in 0..log.len().min(count) {
            for &call in log.session(session).flat_map(|burst| burst.calls) {
                let Some(size) = sizes[call as usize] else { continue };
                let of = counts.entry(size).or_default();
                of.0 += 1;
                requests += 1;
                if asked.insert(call) {
                    of.1 += size;
                }
            }
        }
        let mut sizes: Vec<_> = counts.into_iter().collect();
        sizes.sort_unstable();
        let (mut of_requests, mut of_bytes) = (0, 0);
        let cumulative = sizes.into_iter().map(|(size, (count, bytes))| {
            of_requests += count;
            of_bytes += bytes;
            (size, of_requests as f64 / requests.max(1) as f64, of_bytes)
        });
        Footprint { cumulative: cumulative.collect(), files: asked.len() }
    }

    fn size_of(uri: &str) -> Option<u64> {
        let (class, file) = uri.rsplit_once("/class")?.1.split_once('_')?;
        let (class, file): (usize, usize) = (class.parse().ok()?, file.parse().ok()?);
        (class < 4 && (1..=9).contains(&file)).then(|| size(class, file))
    }

    /// Harji et al. 2012, table 1: memory in MiB for so many percent of the requests, and the largest file
    /// among them. Their logs ask for 21,600 files of 650 directories: sessions are drawn until as many have
    /// been asked for.
    #[test]
    fn the_footprint_is_that_of_the_2012_paper() {
        const TABLE: [(f64, u64, f64); 8] = [
            (10.0, 409, 0.5),
            (30.0, 716, 1.5),
            (50.0, 4_096, 8.4),
            (70.0, 5_120, 12.2),
            (80.0, 7_168, 20.1),
            (90.0, 40_960, 94.3),
            (95.0, 51_200, 126.5),
            (100.0, 921_600, 2_291.6),
        ];
        let of = Sessions {
            directories: 650,
            count: 600_000,
            seed: 2012,
            off_times: OffTimes::None,
            dynamic: 0.0,
        };
        let (log, _) = sessions(of);
        // Requests are numbered by first use, so the session that brings number 21,599 is the last.
        let is_last = |session: &usize| log.session(*session).any(|burst| burst.calls.contains(&21_599));
        let last = (0..log.len()).find(is_last).expect("that many files are asked for");
        let found = footprint(&log, last + 1);
        assert!((21_600..21_616).contains(&found.files), "{}", found.files);
        for (percent, size, mib) in TABLE {
            let (bytes, largest) = found.memory_for(percent / 100.0);
            assert_eq!(largest, size, "{percent}% of the requests");
            let got = bytes / f64::from(1 << 20);
            // Theirs has one decimal.
            let allowed = (mib * 0.02_f64).max(0.06);
            assert!((got - mib).abs() <= allowed, "{percent}%: {got:.2} MiB, {mib} MiB in the paper");
        }
    }
}
