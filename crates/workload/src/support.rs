//! The Support workload of `SPECweb2005` and `SPECweb2009`: people look for drivers on a vendor's site, page
//! by page, and some download one.
//!
//! A session walks through pages by the benchmark's transitions, 14.8 of them on average. A page is dynamic,
//! and its images are static: about 5% of all requests are dynamic. A session that finds its file ends with a
//! download. Downloads are in directories of 16 files of six classes, asked for by Zipf's law with exponent
//! 1.2.
//!
//! From the benchmark are the transitions, the sizes of pages, the downloads' classes and the thinking
//! (exponential with a mean of 5 s and a most of 75 s, after 92% of the pages). Of the images it says that
//! there are 31, of 30 to 5,670 bytes; their single sizes are spread evenly on a logarithmic scale here, and
//! each is asked for with a page with the probability that gives 5% of dynamic requests.
//!
//! A page in PHP asks the back end ([`besim`](crate::besim)) for what is in it, of an item that is drawn, and
//! fills up to its size with text. *Modified Support* (Hashemian et al. 2014, section 3.5.3) replaces a part
//! of the dynamic requests by static files of the same size.

use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Exp, Zipf};
use rand_pcg::Pcg64Mcg;

use crate::check::Check;
use crate::file::{FileSpec, Holds};
use crate::session::{Builder, Request, SessionLog};
use crate::specweb99::pick;

/// A kind of page, or the download that ends a session.
const STATES: [&str; 7] = ["home", "search", "catalog", "product", "file-catalog", "file", "download"];
const DOWNLOAD: usize = 6;
const END: usize = 7;

/// Where people go from each page: the next, and its probability.
const TRANSITIONS: [&[(usize, f64)]; 7] = [
    &[(1, 0.25), (2, 0.75)],
    &[(3, 0.5), (1, 0.5)],
    &[(3, 0.75), (1, 0.25)],
    &[(4, 0.8), (2, 0.2)],
    &[(5, 0.6), (3, 0.4)],
    &[(6, 0.5), (4, 0.2), (3, 0.05), (2, 0.05), (1, 0.1), (0, 0.1)],
    &[(END, 1.0)],
];

/// Bytes of the dynamic pages.
const PAGE_BYTES: [u64; 6] = [51_700, 18_000, 27_500, 52_700, 94_500, 113_300];

/// The pages, in the order of their states, and what they have in common.
const SCRIPTS: [(&str, &str); 7] = [
    ("home", include_str!("support/home.php")),
    ("search", include_str!("support/search.php")),
    ("catalog", include_str!("support/catalog.php")),
    ("product", include_str!("support/product.php")),
    ("file-catalog", include_str!("support/file-catalog.php")),
    ("file", include_str!("support/file.php")),
    ("page", include_str!("support/page.php")),
];

/// Categories, products and files are numbered from 0 to below this.
const ITEMS: u32 = 1_000;

const IMAGES: u32 = 31;
const SMALLEST_IMAGE: f64 = 30.0;
const LARGEST_IMAGE: f64 = 5_670.0;
/// The probability that an image is asked for with a page: 18.9 of them make 5% of dynamic requests.
const IMAGE_ASKED: f64 = 0.61;

/// The classes of downloads: probability, bytes of the first file, bytes by which each is larger than the one
/// before, and the probability of each within the class.
const DOWNLOADS: [(f64, u64, u64, &[f64]); 6] = [
    (0.1366, 104_858, 104_858, &[0.273, 0.091, 0.165, 0.186, 0.285]),
    (0.1261, 629_146, 125_829, &[0.579, 0.178, 0.243]),
    (0.2840, 1_048_576, 492_831, &[0.275, 0.170, 0.170, 0.385]),
    (0.2232, 4_194_304, 1_352_663, &[0.667, 0.333]),
    (0.1250, 9_992_929, 0, &[1.0]),
    (0.1051, 37_748_736, 0, &[1.0]),
];

/// Bytes of a directory of downloads.
pub const DIRECTORY_BYTES: u64 = 68_472_021;

const ZIPF: f64 = 1.2;
/// How long people think between pages in the benchmark, on average.
pub const THINK: Duration = Duration::from_secs(5);
/// How many times as long they think at most.
const THINK_MOST: f64 = 15.0;
const THINKS: f64 = 0.9208;

/// What sessions are to be like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sessions {
    /// Directories of downloads.
    pub directories: u32,
    /// How many sessions.
    pub count: u32,
    /// What they are drawn from.
    pub seed: u64,
    /// The part of the dynamic requests that static files replace, 0 to 1.
    pub replaced: f64,
    /// How long people think between pages, on average; [`THINK`] in the benchmark.
    pub think: Duration,
}

/// The files: images, pages for the modified workload, pages in PHP, downloads.
pub(crate) fn files(directories: u32) -> Vec<FileSpec> {
    let mut files = Vec::new();
    for image in 1..=IMAGES {
        files.push(FileSpec::lines(image_path(image), image_bytes(image)));
    }
    for (page, &bytes) in PAGE_BYTES.iter().enumerate() {
        files.push(FileSpec::lines(static_page(page), bytes));
    }
    for (name, text) in SCRIPTS {
        let path = format!("support/{name}.php");
        files.push(FileSpec { path, bytes: text.len() as u64, holds: Holds::Text(text) });
    }
    for directory in 0..directories {
        for (class, &(_, base, increment, within)) in DOWNLOADS.iter().enumerate() {
            for file in 0..within.len() {
                let path = download_path(directory, class, file);
                files.push(FileSpec::lines(path, base + increment * file as u64));
            }
        }
    }
    files
}

fn image_bytes(image: u32) -> u64 {
    let step = f64::from(image - 1) / f64::from(IMAGES - 1);
    (SMALLEST_IMAGE * (LARGEST_IMAGE / SMALLEST_IMAGE).powf(step)).round() as u64
}

fn image_path(image: u32) -> String {
    format!("support/images/image{image:02}.gif")
}

fn static_page(page: usize) -> String {
    format!("support/static/{}.html", STATES[page])
}

fn download_path(directory: u32, class: usize, file: usize) -> String {
    format!("support/downloads/dir{directory:05}/class{class}_{file}")
}

/// Draws sessions, and compares what was drawn with what was asked for.
///
/// # Panics
///
/// Never: a set without directories is taken for one with a single directory.
pub fn sessions(of: Sessions) -> (SessionLog, Vec<Check>) {
    let of = Sessions { directories: of.directories.max(1), ..of };
    let mut random = Pcg64Mcg::seed_from_u64(of.seed);
    let zipf = Zipf::new(f64::from(of.directories), ZIPF).expect("at least one directory");
    let think = Exp::new(1.0).expect("a mean above 0");
    let mut drawn = Drawn::default();
    let mut log = Builder::new();
    let get = |path: String| Request { uri: format!("/{path}").into(), ..Request::default() };
    for _ in 0..of.count {
        let mut state = 0;
        while state != END {
            drawn.visits[state] += 1;
            if state == DOWNLOAD {
                let directory = (zipf.sample(&mut random) as u32).clamp(1, of.directories) - 1;
                let (class, file) = download(random.random(), random.random());
                drawn.static_requests += 1;
                log.call(get(download_path(directory, class, file)));
            } else {
                if random.random::<f64>() < of.replaced {
                    drawn.replaced += 1;
                    log.call(get(static_page(state)));
                } else {
                    drawn.dynamic += 1;
                    let item = random.random_range(0..ITEMS);
                    log.call(get(format!("support/{}.php?item={item}", STATES[state])));
                }
                for image in 1..=IMAGES {
                    if random.random::<f64>() < IMAGE_ASKED {
                        drawn.static_requests += 1;
                        log.call(get(image_path(image)));
                    }
                }
            }
            let thinks = random.random::<f64>() < THINKS;
            let pause: f64 = think.sample(&mut random);
            let pause = if thinks { pause.min(THINK_MOST) * of.think.as_secs_f64() } else { 0.0 };
            log.end_of_burst(Some(Duration::from_millis((pause * 1e3).round() as u64)));
            let ways = TRANSITIONS[state];
            state = ways[pick(ways.iter().map(|way| way.1), random.random())].0;
        }
        log.end_of_session();
    }
    (log.finish(), drawn.checks(of))
}

/// The class and the file of a download.
fn download(of_class: f64, of_file: f64) -> (usize, usize) {
    let all: f64 = DOWNLOADS.iter().map(|class| class.0).sum();
    let class = pick(DOWNLOADS.iter().map(|class| class.0 / all), of_class);
    (class, pick(DOWNLOADS[class].3.iter().copied(), of_file))
}

/// How often each state is visited in a session, on average: the transitions solved.
fn expected_visits() -> [f64; 7] {
    let mut visits = [0.0; 7];
    // Each round follows everybody one step further; few are left after a thousand.
    let mut here = [0.0; 7];
    here[0] = 1.0;
    for _ in 0..1_000 {
        let mut there = [0.0; 7];
        for (state, people) in here.iter().enumerate() {
            visits[state] += people;
            for &(to, probability) in TRANSITIONS[state].iter().filter(|way| way.0 != END) {
                there[to] += people * probability;
            }
        }
        here = there;
    }
    visits
}

#[derive(Default)]
struct Drawn {
    visits: [u64; 7],
    dynamic: u64,
    replaced: u64,
    static_requests: u64,
}

impl Drawn {
    fn checks(&self, of: Sessions) -> Vec<Check> {
        let expected = expected_visits();
        let pages: f64 = expected.iter().sum();
        let all: u64 = self.visits.iter().sum();
        let sessions = u64::from(of.count);
        // Visits within a session depend on one another: chance is that of the sessions, whose lengths
        // deviate by their mean.
        let mut checks = vec![Check::mean(
            "pages per session",
            pages,
            pages,
            all as f64 / sessions.max(1) as f64,
            sessions,
        )];
        for (state, name) in STATES.iter().enumerate() {
            let mut check = Check::frequency(*name, expected[state] / pages, self.visits[state], all);
            check.tolerance = Check::frequency("", expected[state] / pages, 0, sessions).tolerance;
            checks.push(check);
        }
        let dynamic_pages: f64 = expected[..DOWNLOAD].iter().sum();
        let images = dynamic_pages * f64::from(IMAGES) * IMAGE_ASKED;
        let requests = self.dynamic + self.replaced + self.static_requests;
        let share = dynamic_pages * (1.0 - of.replaced) / (dynamic_pages + images + expected[DOWNLOAD]);
        checks.push(Check::frequency("dynamic requests", share, self.dynamic, requests));
        checks
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::fileset::FileSet;

    fn drawn(count: u32, replaced: f64) -> (SessionLog, Vec<Check>) {
        sessions(Sessions { directories: 4, count, seed: 1, replaced, think: THINK })
    }

    /// The mix of the benchmark's documents, in percent.
    #[test]
    fn the_transitions_give_the_published_mix() {
        const PUBLISHED: [f64; 7] = [8.107, 12.613, 11.709, 24.775, 22.524, 13.514, 6.760];
        let visits = expected_visits();
        let all: f64 = visits.iter().sum();
        assert!((all - 14.8).abs() < 0.005, "{all} pages per session");
        for ((name, published), visits) in STATES.iter().zip(PUBLISHED).zip(visits) {
            let found = visits / all * 100.0;
            assert!((found - published).abs() < 0.005, "{name}: {found} and {published}");
        }
        for ways in TRANSITIONS {
            assert!((ways.iter().map(|way| way.1).sum::<f64>() - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn what_is_drawn_is_what_was_asked_for() {
        let (log, checks) = drawn(20_000, 0.0);
        assert_eq!(log.len(), 20_000);
        for check in &checks {
            assert!(check.holds(), "{check:?}");
        }
        let dynamic = checks.last().unwrap();
        assert!((dynamic.asked - 0.05).abs() < 0.001, "about 5% are dynamic: {}", dynamic.asked);
    }

    #[test]
    fn the_modified_workload_replaces_a_part() {
        for replaced in [0.2, 0.4, 0.6] {
            let (log, checks) = drawn(5_000, replaced);
            for check in &checks {
                assert!(check.holds(), "{replaced}: {check:?}");
            }
            let dynamic = checks.last().unwrap();
            assert!((dynamic.asked / 0.05 - (1.0 - replaced)).abs() < 0.02);
            assert!(log.requests().iter().any(|request| request.uri.starts_with("/support/static/")));
        }
    }

    #[test]
    fn people_think_as_long_as_they_are_told() {
        let pauses = |think| {
            let (log, _) = sessions(Sessions { directories: 4, count: 2_000, seed: 1, replaced: 0.0, think });
            let of = |session| log.session(session).filter_map(|burst| burst.think).collect::<Vec<_>>();
            (0..log.len()).flat_map(of).collect::<Vec<Duration>>()
        };
        let usual = pauses(THINK);
        let mean = usual.iter().map(Duration::as_secs_f64).sum::<f64>() / usual.len() as f64;
        assert!((mean - THINKS * 5.0).abs() < 0.15, "{mean} s");
        assert!(usual.iter().max().unwrap() <= &Duration::from_secs(75));
        assert!(pauses(Duration::ZERO).iter().all(Duration::is_zero));
    }

    #[test]
    fn a_directory_of_downloads_has_the_published_size() {
        let files = FileSet::Support { directories: 1 }.files();
        let downloads: Vec<_> = files.iter().filter(|file| file.path.contains("downloads")).collect();
        assert_eq!(downloads.len(), 16);
        assert_eq!(downloads.iter().map(|file| file.bytes).sum::<u64>(), DIRECTORY_BYTES);
        let images: Vec<_> = files.iter().filter(|file| file.path.contains("images")).collect();
        assert_eq!((images.len(), images[0].bytes, images[30].bytes), (31, 30, 5_670));
    }

    #[test]
    fn scripts_are_the_pages_of_their_states() {
        for (state, (name, text)) in SCRIPTS.iter().enumerate().take(DOWNLOAD) {
            assert_eq!(*name, STATES[state]);
            assert!(text.contains(&format!("page('{name}', ")), "{text}");
        }
    }

    /// The mean of a download, from the classes' probabilities: 6.92 MB.
    #[test]
    fn downloads_have_the_published_mean() {
        let mut random = Pcg64Mcg::seed_from_u64(3);
        let bytes = |(class, file): (usize, usize)| DOWNLOADS[class].1 + DOWNLOADS[class].2 * file as u64;
        let draws = 400_000;
        let sum: u64 = (0..draws).map(|_| bytes(download(random.random(), random.random()))).sum();
        let mean = sum as f64 / f64::from(draws) / 1e6;
        assert!((mean - 6.92).abs() < 0.1, "{mean} MB");
        assert_eq!((download(0.0, 0.0), download(0.999_999, 0.5)), ((0, 0), (5, 0)));
    }

    proptest! {
        /// Whatever part is replaced: requests are for files of the set, pages for an item, and a session is
        /// a page with its images for each pause, and at most one download, which ends it.
        #[test]
        fn every_request_is_for_a_file_of_the_set(
            directories in 1_u32..5, count in 1_u32..30, seed: u64, replaced in 0.0..=1.0,
        ) {
            let files: HashSet<_> =
                files(directories).into_iter().map(|file| format!("/{}", file.path)).collect();
            let (log, _) = sessions(Sessions { directories, count, seed, replaced, think: THINK });
            prop_assert_eq!(log.len(), count as usize);
            for request in log.requests() {
                let path = request.uri.split('?').next().expect("a path");
                prop_assert!(files.contains(path), "{}", request.uri);
                prop_assert_eq!(path.contains(".php"), path != &*request.uri);
            }
            let uri = |call: &u32| &*log.requests()[*call as usize].uri;
            for session in 0..log.len() {
                let bursts: Vec<_> = log.session(session).collect();
                let last = bursts.len() - 1;
                for (number, burst) in bursts.iter().enumerate() {
                    let is_download = uri(&burst.calls[0]).contains("/downloads/");
                    prop_assert_eq!(is_download, number == last);
                    prop_assert!(burst.calls[1..].iter().all(|call| uri(call).contains("/images/")));
                }
            }
        }
    }
}
